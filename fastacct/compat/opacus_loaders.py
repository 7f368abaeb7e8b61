"""What the data loader of a training run with Opacus draws, and what steps on it release."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from fastacct.compat.opacus_draws import Counted, Used, not_drawn

__all__ = ["NOT_POISSON", "Passes", "Step", "drawn_rate", "passes_in", "plain", "plans_passes"]
__all__ += ["poisson_rate", "refuse_untold", "take_back"]

NOT_POISSON: Final = (
    "poisson_sampling=False: your data loader draws the batches, and they are no Poisson samples. The epsilon of "
    "Poisson samples does not hold for them. get_epsilon gives what is proved for every order of the records: each "
    "pass over the loader counts as one release of all of them, and a record is zeroed out. Where every pass has every "
    "record (drop_last=False), the truth is at least the lower end of "
    'fa.dpsgd.epsilon_bounds(..., sampling="shuffled", neighbors="zero_out")'
)

_PASSES: Final = ("SequentialSampler", "RandomSampler", "DistributedSampler")
"""PyTorch's samplers of one pass over the data, where nothing repeats."""
_CALL: Final = (
    'fa.loader_guide("torch.utils.data.DataLoader", ...) names the call for other loaders, '
    "which is fa.dpsgd.epsilon(..., sampling=...) where one is proved"
)


class Step(NamedTuple):
    """What one step adds: so many releases of all records, after so many with this noise are taken back."""

    releases: int
    taken: int = 0
    noise: float = math.inf


def poisson_rate(loader: Any) -> float | None:
    """The probability with which a loader of Opacus draws each record; None for other loaders."""
    sampler: Any = getattr(loader, "batch_sampler", None)
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(sampler).__mro__}
    own = "opacus.utils.uniform_sampler."
    if kinds & {own + "UniformWithReplacementSampler", own + "DistributedUniformWithReplacementSampler"}:
        return float(sampler.sample_rate)
    return None


@lru_cache(maxsize=256)
def drawn_rate(rate: float) -> float:
    """How often a uniform number of Opacus' loader is below a rate: a float32 with 24 bits.

    >>> drawn_rate(0.25), drawn_rate(0.1)
    (0.25, 0.10000002384185791)
    """
    return min(max(math.ceil(near * 2.0**24) for near in (rate, float(np.float32(rate)))) / 2.0**24, 1.0)


def passes_in(batches: int, rate: float) -> int:
    """Passes in so many batches of a loader with 1/rate of them, all but the last one complete.

    >>> passes_in(60, 1 / 20), passes_in(61, 1 / 20), passes_in(12, 0.3)
    (3, 4, 4)
    """
    length = round(min(1.0 / rate, 2.0**53)) if rate > 0.0 else 2**53
    length -= length > 1 and 1.0 / length < rate  # the largest with this rate: a smaller one has more passes
    return -(-batches // length)


def plans_passes() -> bool:
    """Whether `make_private_with_epsilon` asks for noise, for a loader that is not Poisson."""
    frame = inspect.currentframe()
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code.co_name == "make_private_with_epsilon" and "poisson_sampling" in frame.f_locals:
            loader: Any = frame.f_locals.get("data_loader")
            is_poisson = bool(frame.f_locals["poisson_sampling"])
            rate = None if is_poisson else poisson_rate(loader)
            if rate is not None and rate > 1.0 / len(loader):
                raise ValueError(f"the loader draws records at the rate {rate!r}, for which Opacus finds no noise")
            return not is_poisson and rate is None
        frame = frame.f_back
    return False


def refuse_untold(history: Iterable[tuple[Any, ...]]) -> None:
    """ValueError for rows that hold for Poisson samples alone, where nobody said that they were."""
    if any(rate < 1.0 for _, rate, *_ in history):
        raise ValueError(
            "the checkpoint does not say how its batches were drawn, and this loader is not Poisson. If they were "
            'Poisson samples, load the state with "sampling": "poisson"; if not, with a history of '
            "(noise_multiplier, 1.0, passes). fa.dpsgd.epsilon(..., sampling=...) has the number of each"
        )


def plain(history: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Of tuples or lists, as JSON has them, checked."""
    found: list[tuple[Any, ...]] = []
    for i, row in enumerate(history if isinstance(history, Iterable) else [history]):
        try:
            noise, rate, steps, *many = row
            block = float(noise), float(rate), int(steps), *(int(one) for one in many)
        except (TypeError, ValueError):
            raise ValueError(f"history[{i}] must be (noise_multiplier, sample_rate, steps), not {row!r}") from None
        is_whole = len(many) < 2 and block[2:] == (steps, *many) and min(block[2:]) >= 0 and 0 not in block[3:]
        if not (block[0] >= 0.0 and 0.0 <= block[1] <= 1.0 and is_whole):
            raise ValueError(f"history[{i}] = {row!r}: a number is out of range, or steps is not a whole number")
        found.append(block)
    return found


def take_back(history: list[tuple[Any, ...]], noise: float, passes: int) -> None:
    """Take passes out of a history that were counted with more noise than they have now."""
    for i in reversed(range(len(history))):
        if history[i][:2] == (noise, 1.0) and len(history[i]) == 3 and history[i][2] >= passes:
            left = history[i][2] - passes
            history[i : i + 1] = [(noise, 1.0, left)] if left else []
            return


class Passes:
    """Steps on a loader that takes each record once a pass, in whatever order.

    A record is in at most one batch of a pass, so that a pass releases all records once, with the least noise of its
    steps.  Passes are counted where the loader begins them: one that is left early counts as whole.  A step for which
    the loader has drawn no batch takes one again, and counts as a pass of its own.

    Raises
    ------
    ValueError
        For loaders of which that is not known, such as those that draw with replacement; for steps before the loader
        was begun.
    """

    def __init__(self, caller: Mapping[str, Any]) -> None:
        loader: Any = caller.get("data_loader")
        batches: Any = getattr(loader, "batch_sampler", None)
        sampler = getattr(batches, "sampler", None)
        plain = sampler.sampler if isinstance(sampler, Counted) else sampler
        if why := _refused(loader, batches, plain, bool(caller.get("distributed"))):
            raise ValueError(f"poisson_sampling=False: no epsilon is known for {why}. {_CALL}")
        if not isinstance(sampler, Counted):
            size, drops = getattr(batches, "batch_size", 1), getattr(batches, "drop_last", False)
            batches.sampler = sampler = Counted(sampler, size, drops)
        self._draws, self._seen, self._length = sampler.draws, sampler.draws.begun, len(batches)
        self._passes, self._batches = 0, 0
        self._first, self._used = self._seen, Used(lambda: [self._draws], loader)
        self._open = Step(0)
        self._waiting, self._beside = 0, 0
        """Passes that have begun and have no step yet, and how many were ever open beside another one."""

    def begin_again(self) -> None:
        """Count what is left of the pass as a pass of its own."""
        self._seen -= 1

    def step(self, noise: float, optimizer: Any) -> Step:
        """What a step of an optimizer adds.

        Where batches of several passes come together in one step, a record may be in it several times.
        """
        if self._draws.begun == self._first:
            raise not_drawn(is_poisson=False)
        batches, again = self._used.take(optimizer)
        unused = self._passes * self._length - self._batches
        self._batches += batches
        self._waiting += self._draws.begun - self._seen
        self._seen = self._draws.begun
        own = min(batches, max(self._waiting, -(-self._batches // self._length) - self._passes, again))
        self._waiting = max(self._waiting - own, 0)
        self._beside += self._waiting
        goes_on = own == 0 or (batches > 1 and self._passes > 0 and unused > 0)
        self._passes += own
        times = min(batches, own + 1) if goes_on else own
        releases = max(own * own, times * times - 1) if goes_on else own * own
        is_less = (goes_on or self._beside > 0) and noise < self._open.noise
        taken = self._open.releases if is_less else 0
        more = taken + self._beside if is_less else 0  # of several open passes, any may be meant: nothing is taken back
        found = Step(releases + more, 0 if self._beside else taken, self._open.noise)
        if own or is_less:
            self._open = Step(releases + more, 0, noise)
        return found


def _refused(loader: Any, batches: Any, sampler: Any, is_distributed: bool) -> str:
    """What keeps a loader from taking each record once a pass; nothing where it does."""
    name, kind = f"the loader {loader!r}", type(sampler).__name__
    if type(batches).__name__ != "BatchSampler" or not type(batches).__module__.startswith("torch.utils.data."):
        return name if batches is None else f"{name} with the batch sampler {batches!r}"
    if kind not in _PASSES or not type(sampler).__module__.startswith("torch.utils.data."):
        return f"{name} with the sampler {sampler!r}"
    if is_distributed and kind != "DistributedSampler":
        return f"workers with the sampler {kind}: each of them may draw the same record"
    if kind == "RandomSampler" and (sampler.replacement or sampler.num_samples > len(sampler.data_source)):
        return "RandomSampler with replacement, or with more samples than records: records repeat"
    if kind == "DistributedSampler" and not (sampler.drop_last or len(sampler.dataset) % sampler.num_replicas == 0):
        return f"DistributedSampler that repeats records: {sampler.num_replicas} workers do not divide the records"
    return ""
