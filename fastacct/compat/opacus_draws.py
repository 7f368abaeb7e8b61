"""The batches that samplers of a training run with Opacus give out, and steps that use them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fastacct.core.extras import import_extra

__all__ = ["Counted", "Draws", "Used", "count_poisson", "not_drawn", "of_poisson", "warn_of_seed"]


class Draws:
    """How often samplers were begun, the batches that they gave out, and those given out when a pass began or ended."""

    def __init__(self) -> None:
        self.begun, self.drawn, self.closed = 0, 0, 0
        self.is_open = False

    def through(self, given: Iterable[Any], size: int = 1, last: int = 0) -> Iterator[Any]:
        """What a sampler gives, of which `size` make a batch; it is drawn with number `last` of them."""
        self.begun, self.closed, self.is_open = self.begun + 1, self.drawn, True
        return self._through(given, size, last)

    def _through(self, given: Iterable[Any], size: int, last: int) -> Iterator[Any]:
        for i, one in enumerate(given):
            self.drawn += i % size == last
            yield one
        self.closed, self.is_open = self.drawn, False


class Used:
    """Steps of an optimizer, each on batches that samplers gave out before.

    A batch that was left out when its pass ended is not used later: but for those that wait, with workers or in the
    gradients that are added up.  As many as workers prepare are not used yet, until all of a pass have been drawn.
    """

    def __init__(self, draws: Callable[[], list[Draws]], loader: Any, used: list[int] | None = None) -> None:
        self.sampler = getattr(loader, "batch_sampler", None)
        workers, each = (getattr(loader, name, 0) or 0 for name in ("num_workers", "prefetch_factor"))
        self._draws, self._waiting = draws, int(workers) * int(each)
        self._ahead = self._waiting + 2
        drawn = sum(one.drawn for one in draws())
        self._used = [[drawn], [drawn] if used is None else used]  # by this optimizer, and by all of its kind

    def take(self, optimizer: Any) -> tuple[int, int]:
        """How many batches a step of an optimizer uses, and how many of them no sampler gave out."""
        batches, draws = batches_of(optimizer), self._draws()
        if getattr(optimizer, "_step_skip_queue", None) or getattr(optimizer, "_is_last_step_skipped", False):
            self._waiting = 0  # workers prepare parts of a batch
        lost = sum(one.closed for one in draws) - max(batches, self._ahead)
        there = sum(one.drawn for one in draws) - (self._waiting if any(one.is_open for one in draws) else 0)
        for one in self._used:
            one[0] = max(one[0], lost)
        missing = min(max(*(one[0] for one in self._used)) + batches - there, batches)
        for one in self._used:
            one[0] += batches - max(missing, 0)
        return batches, max(missing, 0)


class Counted:
    """A sampler that counts what it gives out; else the same in everything."""

    def __init__(self, sampler: Any, size: int, drops: bool) -> None:
        self.__dict__.update(sampler=sampler, draws=Draws(), last=size - 1 if drops else 0, size=size)

    def __iter__(self) -> Iterator[Any]:
        draws: Draws = self.draws
        return draws.through(self.sampler, self.size, self.last)

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        if "sampler" not in self.__dict__:  # while it is copied
            raise AttributeError(name)
        return getattr(self.sampler, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.sampler, name, value)


_UNSEEDED: Final = 67280421310721
"""The seed of a torch.Generator that nobody seeded."""
_PARTS: Final = "opacus.utils.batch_memory_manager"
_DRAWN: Final[dict[tuple[int, float], Draws]] = {}
"""What Opacus' samplers have given out, by their records and their rate."""
_USED: Final[dict[tuple[int, float], list[int]]] = {}
"""How many of these steps have used."""


def _of(sampler: Any) -> tuple[int, float]:
    return int(getattr(sampler, "total_size", sampler.num_samples)), float(sampler.sample_rate)


def count_poisson() -> None:
    """Let Opacus' samplers of Poisson batches count what they give out, and those of an engine mark their passes."""
    samplers: Any = import_extra("opacus.utils.uniform_sampler", "opacus")
    for kind in (samplers.UniformWithReplacementSampler, samplers.DistributedUniformWithReplacementSampler):
        if not hasattr(kind.__iter__, "counts"):
            kind.__iter__ = _counting(kind.__iter__)
    kind = import_extra("opacus.optimizers", "opacus").DPOptimizer
    if not hasattr(kind.signal_skip_step, "tells"):
        kind.signal_skip_step = _telling(kind.signal_skip_step)
    kind = import_extra("opacus.grad_sample", "opacus").GradSampleModuleFastGradientClipping
    if not hasattr(kind.get_clipping_coef, "tells"):
        kind.get_clipping_coef = _clipping(kind.get_clipping_coef)


def batches_of(optimizer: Any) -> int:
    """How many batches are in a step of an optimizer; ValueError where nothing is proved of it."""
    if hasattr(optimizer, "unclipped_num_std"):
        raise ValueError(
            'clipping="adaptive" releases the count of the gradients that are not clipped, too, and moves the clipping '
            'norm by it: nothing is proved of it. Take a fixed norm, clipping="flat"'
        )
    if getattr(optimizer, "adds_by_hand", False):
        raise ValueError(
            "signal_skip_step adds batches up, and their number is not known: call backward() for each of them, and "
            "zero_grad() and step() after the last"
        )
    if "FastGradientClipping" in type(optimizer).__name__:
        is_clipped = all(getattr(one, "is_clipped", False) for one in optimizer.params)
        for one in optimizer.params:
            one.is_clipped = False
        if not is_clipped:
            raise ValueError(
                "ghost clipping: this loss was not made by the criterion that make_private returned, so that nothing "
                "was clipped: call that one"
            )
    return int(optimizer.accumulated_iterations)


def _clipping(coefficients: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Ghost clipping, which its optimizer hears of."""

    def clipping(self: Any) -> Any:
        for one in self.parameters():
            one.is_clipped = True
        return coefficients(self)

    clipping.tells = True  # type: ignore[attr-defined]
    return clipping


def _telling(signal: Callable[[Any, bool], None]) -> Callable[[Any, bool], None]:
    """Steps that are skipped by others than BatchMemoryManager, which takes parts of one batch."""

    def telling(self: Any, do_skip: bool = True) -> None:
        by = sys._getframe(1).f_globals.get("__name__")
        self.adds_by_hand = getattr(self, "adds_by_hand", False) or (do_skip and by != _PARTS)
        signal(self, do_skip)

    telling.tells = True  # type: ignore[attr-defined]
    return telling


def _counting(passes: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    def counting(self: Any) -> Iterator[Any]:
        torch: Any = import_extra("torch", "opacus")
        if torch.finfo(torch.get_default_dtype()).eps > 2.0**-23:
            raise ValueError(
                f"Opacus draws batches by uniform numbers of the default type, {torch.get_default_dtype()}, which has "
                "fewer than 24 bits: the rate is larger than 1 / len(loader). torch.set_default_dtype(torch.float32)"
            )
        if (marks := getattr(self, "marks", None)) is not None:
            marks.extend(_begin(self))
        return _DRAWN.setdefault(_of(self), Draws()).through(passes(self))

    counting.counts = True  # type: ignore[attr-defined]
    return counting


def _begin(sampler: Any) -> Iterator[tuple[Any, ...]]:
    """The generator that a sampler draws its next batches from, its state and its seed; secure_mode has none."""
    generator = getattr(sampler, "generator", None)
    drawn: Any = import_extra("torch", "opacus").default_generator if generator is None else generator
    try:
        yield drawn, drawn.get_state(), drawn.initial_seed()
    except RuntimeError:
        return


def of_poisson(loader: Any) -> Used:
    """Steps on Poisson batches like those of a loader: of as many records, and drawn at no larger rate.

    Any of Opacus' samplers may have drawn them, since trainers make loaders anew.
    """
    count_poisson()
    records, rate = _of(loader.batch_sampler)
    loader.batch_sampler.marks = []  # of its passes

    def draws() -> list[Draws]:
        return [one for (many, at), one in _DRAWN.items() if many == records and at <= rate]

    return Used(draws, loader, _USED.setdefault((records, rate), [sum(one.drawn for one in draws())]))


def warn_of_seed(batches: Any) -> None:
    """Warn where make_private's Poisson samples are drawn from a seed that somebody may know."""
    torch: Any = import_extra("torch", "opacus")
    generator = getattr(batches, "generator", None)
    try:
        seed = int((torch if generator is None else generator).initial_seed())
    except RuntimeError:  # of secure_mode
        return
    if seed < 2**32 or seed == _UNSEEDED:
        warnings.warn(
            f"the batches are drawn from the seed {seed}: who knows it knows who is in a batch, and no amplification "
            "holds for them. Give the loader a generator of its own before make_private, secret = torch.Generator(); "
            "secret.seed(): DataLoader(..., generator=secret). The noise needs one, too: make_private(..., "
            "noise_generator=)",
            stacklevel=4,
        )


def not_drawn(is_poisson: bool) -> ValueError:
    """The error for a step on a batch that the loader of an engine did not draw."""
    what = "Poisson batches" if is_poisson else "passes over the loader"
    return ValueError(
        f"optimizer.step: the loader that make_private returned drew no batch for this step, and the epsilon of {what} "
        "does not hold for others. Go through that loader, and take each batch once. If your loop or a Trainer has a "
        "loader of its own, fa.dpsgd.epsilon(loader=..., noise_multiplier=...) or its sampling= has the number, and "
        "fa.training.Meter(loader, ...) counts it"
    )
