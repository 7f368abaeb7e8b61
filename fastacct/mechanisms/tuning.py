"""Tuning: the best of a random number of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import Cells, Domain, as_number
from fastacct.core.relations import ALL, Relation, both_ways
from fastacct.losses.divergence import ORDERS, unknown
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.base import DeltaOf
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.parallel import as_plain_job
from fastacct.mechanisms.process import Process

__all__ = ["RepeatedSelection"]

_MEAN: Final = Domain(1.0, 1e9, open_low=True)
_ETA: Final = Domain(-0.9, 1e6)


@dataclass(frozen=True, eq=False)
class RepeatedSelection(Mechanism):
    """The best of a random number of runs, as in tuning of hyper-parameters (Papernot, Steinke 2022).

    **Guarantee.** A bound, by Rényi divergences: those of `base`, plus what choosing costs.  The number of runs must be
    drawn from the law named, before and independently of the data; for a fixed number of runs nothing better than their
    composition is known.

    Parameters
    ----------
    base : Mechanism or Process
        One run; plain numbers, no arrays.
    mean : float in (1, 1e9]
        Expected number of runs of the Poisson law; or, with `eta`, of the truncated negative binomial one.
    eta : float >= -0.9, optional
        1: geometric, 0: logarithmic.  Default: the Poisson law.

    Examples
    --------
    >>> import fastacct as fa
    >>> tuned = fa.RepeatedSelection(fa.Gaussian(4.0), mean=10.0)
    >>> round(fa.rdp(tuned, 6.0), 6)
    1.018605
    """

    base: Mechanism | Process
    mean: float
    eta: float | None = None
    relations: ClassVar[tuple[Relation, ...]] = ALL
    tight: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", as_plain_job("base", self.base))
        object.__setattr__(self, "mean", as_number("mean", self.mean, _MEAN))
        if self.eta is not None:
            eta = as_number("eta", self.eta, _ETA)
            if 0.0 < abs(eta) < 1e-12:
                raise ValueError(f"eta = {self.eta!r} is out of range; allowed: 0 or at least 1e-12 away from it")
            object.__setattr__(self, "eta", eta)

    @property
    def job(self) -> Process:
        """One run."""
        return self.base if isinstance(self.base, Process) else self.base * 1

    @property
    def is_local(self) -> bool:  # type: ignore[override]
        """Whether the runs that are selected from hold local answers."""
        return any(mechanism.is_local for mechanism, _ in self.job)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Without the delta of the base: known for the negative binomial laws only."""
        return self.divergence_given(orders, relation, None)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        """Papernot and Steinke 2022, theorems 2 and 6; a divergence is also bounded by one of larger order.

        Both theorems rest on both directions of the base, whichever one is asked for.
        """
        relation = both_ways(relation)
        grid = np.unique(np.concatenate([orders.ravel(), ORDERS[ORDERS < 1e5]]))
        value, a, mean = self.job.divergence(grid, relation, delta_of), grid - 1.0, self.mean
        if self.eta is None:
            if delta_of is None:
                return unknown(orders)
            delta = delta_of(self.job, np.log1p(1.0 / a), relation)
            found = value + mean * delta + math.log(mean) / a
        else:
            eta = self.eta
            gamma = _share(eta, mean)
            more = float(np.min((1.0 - 1.0 / grid) * value - math.log(gamma) / grid))
            found = value + (1.0 + eta) * more + math.log(mean) / a
        found = np.minimum.accumulate((found * (1.0 + 1e-12) + 1e-15)[::-1])[::-1]
        return np.asarray(found[np.searchsorted(grid, orders)])

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests."""
        yield from (RepeatedSelection(Gaussian(4.0), 10.0), RepeatedSelection(Gaussian(4.0), 5.0, eta=1.0))


def _share(eta: float, mean: float) -> float:
    """Parameter gamma of the truncated negative binomial law with this mean, rounded down (towards more runs)."""

    def runs(gamma: float) -> float:
        if eta == 0.0:
            return (1.0 / gamma - 1.0) / -math.log(gamma)
        return eta * (1.0 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))

    low, high = -700.0, -1e-12  # log gamma
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if runs(math.exp(middle)) >= mean else (low, middle)
    return math.exp(low)
