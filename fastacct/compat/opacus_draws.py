"""The batches that samplers of a training run with Opacus give out, and steps that use them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fastacct.core.extras import import_extra

__all__ = ["Counted", "Draws", "Used", "count_poisson", "not_drawn", "of_poisson", "warn_of_seed"]


class Draws:
    """How often samplers were begun, the batches that they gave out, and those given out when a pass began or ended."""

    def __init__(self) -> None:
        self.begun, self.drawn, self.closed = 0, 0, 0

    def through(self, given: Iterable[Any], size: int = 1, last: int = 0) -> Iterator[Any]:
        """What a sampler gives, of which `size` make a batch; it is drawn with number `last` of them."""
        self.begun, self.closed = self.begun + 1, self.drawn
        return self._through(given, size, last)

    def _through(self, given: Iterable[Any], size: int, last: int) -> Iterator[Any]:
        for i, one in enumerate(given):
            self.drawn += i % size == last
            yield one
        self.closed = self.drawn


class Used:
    """Steps of an optimizer, each on batches that samplers gave out before.

    A batch that was left out when its pass ended is not used later: but for those that wait, with workers or in the
    gradients that are added up.
    """

    def __init__(self, draws: Callable[[], list[Draws]], loader: Any) -> None:
        self.sampler = getattr(loader, "batch_sampler", None)
        workers, each = (getattr(loader, name, 0) or 0 for name in ("num_workers", "prefetch_factor"))
        self._draws, self._ahead = draws, int(workers) * int(each) + 2
        self._used = sum(one.drawn for one in draws())

    def take(self, batches: int) -> int:
        """Use so many batches for a step; how many of them no sampler gave out."""
        draws = self._draws()
        self._used = max(self._used, sum(one.closed for one in draws) - max(batches, self._ahead))
        missing = max(self._used + batches - sum(one.drawn for one in draws), 0)
        self._used += batches - missing
        return missing


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
_DRAWN: Final[dict[tuple[int, float], Draws]] = {}
"""What Opacus' samplers have given out, by their records and their rate."""


def _of(sampler: Any) -> tuple[int, float]:
    return int(getattr(sampler, "total_size", sampler.num_samples)), float(sampler.sample_rate)


def count_poisson() -> None:
    """Let Opacus' samplers of Poisson batches count what they give out, and those of an engine mark their passes."""
    samplers: Any = import_extra("opacus.utils.uniform_sampler", "opacus")
    for kind in (samplers.UniformWithReplacementSampler, samplers.DistributedUniformWithReplacementSampler):
        if not hasattr(kind.__iter__, "counts"):
            kind.__iter__ = _counting(kind.__iter__)


def _counting(passes: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    def counting(self: Any) -> Iterator[Any]:
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
    return Used(lambda: [one for (many, at), one in _DRAWN.items() if many == records and at <= rate], loader)


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
