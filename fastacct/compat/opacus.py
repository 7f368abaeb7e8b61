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
from fastacct.core.extras import import_extra

accountants: Any = import_extra("opacus.accountants", "opacus")

__all__ = ["NAME", "FastAccountant", "NotPoissonWarning", "register"]

NAME: Final = "fastacct"
Row = tuple[Any, ...]
_THEIRS: Final = ("rdp", "prv", "gdp")
"""Accountants of Opacus whose checkpoints have the same history."""


class NotPoissonWarning(UserWarning):
    """The data loader does not draw Poisson samples, for which alone the epsilon holds."""


class FastAccountant(accountants.IAccountant):  # type: ignore[misc]
    """The accountant of a training run: certified epsilons of its Poisson-sampled Gaussian steps.

    **Guarantee.** `get_epsilon` is never below the truth for adding or removing one record and Poisson sampling,
    rounding included.  For runs that the exact accountant certifies it is at most 1e-6 above it, relatively.

    `history` is all the state there is: a list of (noise_multiplier, sample_rate, steps), of plain floats and ints, and
    for steps that accumulate the gradients of several batches also how many.  Each of these batches is a Poisson sample
    of its own, so that a record may be in several.  (Opacus' own accountants take them for one sample at the sum of the
    rates, which is less.)  Checkpoints of Opacus' own accountants can be loaded.
    """

    _name: ClassVar[str] = NAME
    _has_warned: ClassVar[bool] = False

    def __init__(self) -> None:
        self.history: list[Row] = []

    def step(self, *, noise_multiplier: float, sample_rate: float, draws: int = 1) -> None:
        """Record one step, on so many batches of this rate."""
        noise, rate = float(noise_multiplier), float(sample_rate)
        if not noise >= 0.0:
            raise ValueError(f"noise_multiplier = {noise_multiplier!r} is out of range; allowed: [0, inf]")
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"sample_rate = {sample_rate!r} is out of range; allowed: [0, 1]")
        many: tuple[int, ...] = (int(draws),) if draws != 1 else ()
        if self.history and (*self.history[-1][:2], *self.history[-1][3:]) == (noise, rate, *many):
            self.history[-1] = (noise, rate, self.history[-1][2] + 1, *many)
        else:
            self.history.append((noise, rate, 1, *many))

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
        """Certified upper bound of epsilon; settings of Opacus' accountants (alphas, eps_error ...) are not needed."""
        history = self.history
        if not history:
            return 0.0
        if any(len(row) > 3 for row in history):
            return float(fa.epsilon(_job(history), delta=delta))
        if len(history) == 1:
            noise, rate, steps = history[0]
            return float(fa.dpsgd.epsilon(noise_multiplier=noise, sample_rate=rate, steps=steps, delta=delta))
        return float(fa.dpsgd.epsilon(history=history, delta=delta))

    def get_privacy_spent(self, *, delta: float, alphas: Iterable[float] | None = None) -> tuple[float, float]:
        """Epsilon, and the order at which Rényi DP would find its bound; NaN where batches were accumulated."""
        if not self.history:
            return 0.0, 0.0
        if any(len(row) > 3 for row in self.history):
            return self.get_epsilon(delta), math.nan
        order = fa.dpsgd.best_order(history=_plain(self.history), delta=delta)
        return self.get_epsilon(delta), float(order)

    def __len__(self) -> int:
        return len(self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name that it is registered under."""
        return cls._name

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """A function that records each step of an optimizer; warns once if the loader is not Poisson.

        Opacus tells an accountant the rate but not the sampling: it is a local variable of `make_private`.
        """
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        if caller is not None and caller.f_locals.get("poisson_sampling", True) is False:
            if not FastAccountant._has_warned:
                warnings.warn(
                    "the data loader does not draw Poisson samples (poisson_sampling=False): epsilon is that of "
                    "Poisson samples at this rate, and that of shuffled batches may be larger",
                    NotPoissonWarning,
                    stacklevel=3,
                )
            FastAccountant._has_warned = True

        def record(optimizer: Any) -> None:
            batches = optimizer.accumulated_iterations
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate, draws=batches)

        return record

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the history of a checkpoint, of this accountant or of one of Opacus' own."""
        given = dict(state_dict or {})
        if given.get("mechanism") in (*_THEIRS, NAME):
            given["mechanism"] = self.mechanism()
        if "history" in given:
            given["history"] = _plain(given["history"])  # refused before anything is taken over
        super().load_state_dict(given)


def _job(history: Iterable[Row]) -> fa.Process:
    rows = ((noise, rate, steps, many[0] if many else 1) for noise, rate, steps, *many in history)
    return fa.Process((fa.Gaussian(noise).poisson(rate, draws=many), steps) for noise, rate, steps, many in rows)


def _plain(history: Iterable[Iterable[Any]]) -> list[Row]:
    """Of tuples or lists, as JSON has them, checked."""
    found: list[Row] = []
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
    for name in (NAME, *names):
        accountants.register_accountant(name, _named(name), force=True)
