"""Opacus: an accountant for `PrivacyEngine`.

from fastacct.compat import opacus as fast
fast.register()
engine = PrivacyEngine(accountant="fastacct")
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Final

import fastacct as fa
from fastacct.compat import opacus_draws
from fastacct.compat import opacus_loaders as loaders
from fastacct.core.extras import import_extra

accountants: Any = import_extra("opacus.accountants", "opacus")

__all__ = ["NAME", "FastAccountant", "NotPoissonWarning", "register"]

NAME: Final = "fastacct"
Row = tuple[Any, ...]
_ROW: Final = ("noise_multiplier", "sample_rate", "steps")
_THEIRS: Final = ("rdp", "prv", "gdp")
"""Accountants of Opacus whose checkpoints have the same history."""


class NotPoissonWarning(UserWarning):
    """The data loader does not draw Poisson samples: epsilon is that of a release of all records in each pass."""


class FastAccountant(accountants.IAccountant):  # type: ignore[misc]
    """The accountant of a training run: certified epsilons of its steps with Gaussian noise.

    **Guarantee.** `get_epsilon` is never below the truth, rounding included.  `sampling` says for which batches:

    ===========  ==================================================================================================
    sampling     what the steps in `history` are
    ===========  ==================================================================================================
    "poisson"    Poisson samples as Opacus' loader draws them, where a record is added, removed or zeroed out.  So are
                 all steps that are recorded by hand: `step` cannot see a loader
    "passes"     at least some are passes of `make_private(poisson_sampling=False)`, rows of rate 1: in whatever order
                 the loader takes the records, one release of all of them a pass, where a record is zeroed out.  No
                 amplification by shuffling is proved.  Where one is replaced, halve the noise
    None         a checkpoint that does not say it; answered as "poisson", and refused for other loaders
    ===========  ==================================================================================================

    For Poisson samples that the exact accountant certifies, epsilon is at most 1e-6 above the truth, relatively.
    Opacus' loader compares uniform numbers of 24 bits with the rate, which is rounded up to a multiple of 2**-24 here.

    `history` is a list of (noise_multiplier, sample_rate, steps), of plain floats and ints, and for steps that
    accumulate the gradients of several Poisson batches also how many.  Each of these is a sample of its own, so that a
    record may be in several.  (Opacus' own accountants take them for one sample at the sum of the rates, which is
    less.)  Checkpoints of Opacus' own accountants can be loaded.
    """

    _name: ClassVar[str] = NAME

    def __init__(self) -> None:
        self.history: list[Row] = []
        self.sampling: str | None = "poisson"
        self.seeds: set[str] = set()  # marks of what a Guard has seen batches drawn from
        self._has_warned, self._is_beside, self._plans_passes = False, False, loaders.plans_passes()

    def step(self, *, noise_multiplier: float, sample_rate: float, draws: int = 1) -> None:
        """Record one step, on so many Poisson batches of this rate; a pass over all records is a step of rate 1."""
        noise, rate = float(noise_multiplier), float(sample_rate)
        if not noise >= 0.0:
            raise ValueError(f"noise_multiplier = {noise_multiplier!r} is out of range; allowed: [0, inf]")
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"sample_rate = {sample_rate!r} is out of range; allowed: [0, 1]")
        self._add(noise, rate, 1, int(draws))

    def _add(self, noise: float, rate: float, steps: int, draws: int = 1) -> None:
        many: tuple[int, ...] = (draws,) if draws != 1 else ()
        if self.history and (*self.history[-1][:2], *self.history[-1][3:]) == (noise, rate, *many):
            self.history[-1] = (noise, rate, self.history[-1][2] + steps, *many)
        else:
            self.history.append((noise, rate, steps, *many))

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
        """Certified upper bound of epsilon, for the batches that `sampling` says.

        Settings of Opacus' accountants (alphas, eps_error ...) are not needed.
        """
        return float(self.bounds(delta).upper)

    def bounds(self, delta: float) -> fa.Bounds:
        """Certified bounds of epsilon, and their status.

        The lower one is 0 but for Poisson samples: a loader that goes through the data may leave records out.  After a
        step on another loader was refused, ValueError: steps before it may be of that, too.
        """
        if self._is_beside:
            raise opacus_draws.not_drawn(is_poisson=True)
        history = self._rows()
        if not history:
            return fa.Bounds(0.0, 0.0, fa.Status.TIGHT)
        if any(len(row) > 3 for row in history):
            found = fa.epsilon_bounds(_job(history), delta=delta)
        else:
            run: Any = dict(zip(_ROW, history[0], strict=True)) if len(history) == 1 else {"history": history}
            found = fa.dpsgd.epsilon_bounds(**run, delta=delta)
        return (
            found
            if self.sampling == "poisson" and not self._plans_passes
            else fa.Bounds(0.0, found.upper, fa.Status.LOOSE)
        )

    def get_privacy_spent(self, *, delta: float, alphas: Iterable[float] | None = None) -> tuple[float, float]:
        """Epsilon, and the order at which Rényi DP would find its bound; NaN where batches were accumulated."""
        if not self.history:
            return 0.0, 0.0
        is_added = any(len(row) > 3 for row in self.history)
        order = math.nan if is_added else float(fa.dpsgd.best_order(history=loaders.plain(self._rows()), delta=delta))
        return self.get_epsilon(delta), order

    def _rows(self) -> list[Row]:
        """The history with the rates that are drawn; what a search for noise plans of other loaders, in passes."""
        if not self._plans_passes:
            return [(noise, loaders.drawn_rate(rate), *rest) for noise, rate, *rest in self.history]
        return [(noise, 1.0, loaders.passes_in(steps, rate)) for noise, rate, steps, *_ in self.history]

    def __repr__(self) -> str:
        neighbors = "zero_out" if self.sampling == "passes" else "add_remove"
        return f"FastAccountant({self.history!r}, sampling={self.sampling!r}, neighbors={neighbors!r})"

    def __len__(self) -> int:
        return len(self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name that it is registered under."""
        return cls._name

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """A function that records each step of an optimizer.

        Opacus tells an accountant the rate but not the loader: that is a local variable of `make_private`.

        Raises
        ------
        ValueError
            With poisson_sampling=False for a loader that does not take each record once a pass, and for a history of
            which it is not known how its batches were drawn.  The function raises it for a step on a batch that the
            loader did not draw, before the step is taken.
        """
        frame = inspect.currentframe()
        caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
        rate, drawn = sample_rate, loaders.poisson_rate(caller.get("data_loader"))
        if not caller.get("poisson_sampling", True):
            if drawn is None:
                return self._record_passes(loaders.Passes(caller))
            rate = max(rate, drawn)
        used = None if drawn is None else opacus_draws.of_poisson(caller["data_loader"])
        if used is not None:
            opacus_draws.warn_of_seed(caller["data_loader"].batch_sampler)

        def record(optimizer: Any) -> None:
            batches, missing = (opacus_draws.batches_of(optimizer), 0) if used is None else used.take(optimizer)
            if missing:
                self._is_beside = bool(self.history)
                raise opacus_draws.not_drawn(is_poisson=True)
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=rate, draws=batches)

        return record

    def _record_passes(self, passes: loaders.Passes) -> Any:
        """The function for a loader that goes through the data in passes."""
        if self.sampling is None:
            loaders.refuse_untold(self.history)
        self.sampling = "passes"
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(loaders.NOT_POISSON, NotPoissonWarning, stacklevel=4)
        mine = self.history

        def record(optimizer: Any) -> None:
            nonlocal mine
            if self.history is not mine:  # another one was loaded, which does not hold the pass that goes on
                passes.begin_again()
                mine = self.history
            noise = float(optimizer.noise_multiplier)
            if not noise >= 0.0:
                raise ValueError(f"noise_multiplier = {noise!r} is out of range; allowed: [0, inf]")
            step = passes.step(noise, optimizer)
            if step.taken:
                loaders.take_back(self.history, step.noise, step.taken)
            if step.releases:
                self._add(noise, 1.0, step.releases)

        return record

    def state_dict(self, destination: Any = None) -> Any:
        """The history, the name, the sampling and marks of seeds; plain numbers and words."""
        own = {"sampling": self.sampling, "seeds": sorted(self.seeds) or None}
        found = super().state_dict(destination)
        found.update((name, value) for name, value in own.items() if value is not None)
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the history of a checkpoint, of this accountant or of one of Opacus' own.

        One that does not say how its batches were drawn is refused where the loader is not Poisson.
        """
        given = dict(state_dict or {})
        sampling, seeds = given.pop("sampling", None), {*map(str, given.pop("seeds", ()))}
        if sampling not in (None, "poisson", "passes"):
            raise ValueError(f"sampling = {sampling!r} is not one of 'poisson', 'passes'")
        if given.get("mechanism") in (*_THEIRS, NAME):
            given["mechanism"] = self.mechanism()
        if "history" in given:
            given["history"] = loaders.plain(given["history"])  # refused before anything is taken over
            if sampling is None and self.sampling == "passes":
                loaders.refuse_untold(given["history"])
        super().load_state_dict(given)
        self._is_beside, self.seeds = False, self.seeds | seeds
        self.sampling = self.sampling if self.sampling == "passes" else sampling


def _job(history: Iterable[Row]) -> fa.Process:
    rows = ((noise, rate, steps, many[0] if many else 1) for noise, rate, steps, *many in history)
    return fa.Process((fa.Gaussian(noise).poisson(rate, draws=many), steps) for noise, rate, steps, many in rows)


@cache
def _named(name: str) -> type[FastAccountant]:
    return FastAccountant if name == NAME else type("FastAccountant", (FastAccountant,), {"_name": name})


def register(replace: Iterable[str] = ()) -> None:
    """Make `PrivacyEngine(accountant="fastacct")` known; may be called again.

    Parameters
    ----------
    replace : iterable of {"prv", "rdp", "gdp"}
        Names that stand for this accountant from now on, for trainers that write one of them down.
    """
    names = [replace] if isinstance(replace, str) else list(replace)
    if unknown := [name for name in names if name not in _THEIRS]:
        raise ValueError(f"replace = {unknown[0]!r} is not one of {', '.join(map(repr, _THEIRS))}")
    opacus_draws.count_poisson()
    for name in (NAME, *names):
        accountants.register_accountant(name, _named(name), force=True)
