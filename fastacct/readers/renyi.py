"""The Rényi reader: divergences of a job add up, and convert to epsilon and delta at the best order.

For mechanisms that are known by a divergence alone, and for `RDP()` as the accountant of any job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, Literal

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.core.search import ORDERS, least
from fastacct.core.work import kept
from fastacct.mechanisms.base import merge
from fastacct.mechanisms.process import Cell, DeltaOf, cell_divergence, cell_pure_epsilon

Conversion = Literal["mironov", "canonne_kamath_steinke", "optimal"]
CONVERSIONS: Final[tuple[Conversion, ...]] = ("mironov", "canonne_kamath_steinke", "optimal")
"""As the kernels number them; "optimal" is known to them alone."""


def merged_runs(columns: Iterable[tuple[Cells, Cells, Cells]], cell: int) -> tuple[Cells, Cells, Cells]:
    """Noise, rate and count of one cell's sampled Gaussians, equal ones merged, in an order of values."""
    steps = merge(((float(s[cell]), float(q[cell])), float(n[cell])) for s, q, n in columns if n[cell] > 0.0)
    rows = np.array([(*key, count) for key, count in sorted(steps.items())] or [(1.0, 0.0, 0.0)])
    sigma, rate, count = np.ascontiguousarray(rows.T)
    return sigma, rate, count


def _epsilon_at(value: Cells, orders: Cells, delta: float, conversion: str) -> Cells:
    """Epsilon at delta, from the divergence at each order: Canonne, Kamath, Steinke 2020, proposition 12 (Mironov
    2017, proposition 3)."""
    a = orders - 1.0
    best = value - math.log(delta) / a
    if conversion != "mironov":
        best = value + np.log1p(-1.0 / orders) - (math.log(delta) + np.log(orders)) / a
    padding = 1e-14 * (np.abs(value) + (1.0 - math.log(delta) + np.log(orders)) * (1.0 + 1.0 / a))
    # delta(0) <= sqrt(1 - exp(-D)), Bretagnolle and Huber
    zero = -np.expm1(-value) * (1.0 + 1e-14) <= delta * delta
    return np.where(zero, 0.0, np.maximum(best + padding, 0.0))


def _log_delta_at(value: Cells, orders: Cells, epsilon: float, conversion: str) -> Cells:
    """Log of delta at epsilon, from the divergence at each order: the same conversions."""
    a = orders - 1.0
    best = a * (value - epsilon)
    if conversion != "mironov":
        best = a * (value - epsilon + np.log1p(-1.0 / orders)) - np.log(orders)
    padding = 1e-14 * (a * (np.abs(value) + epsilon) + 1.0 + np.log(orders))
    zero = 0.5 * np.log(-np.expm1(-value)) + 1e-14
    return np.minimum(np.minimum(best + padding, zero), 0.0)


class Renyi:
    """One cell of a job, by the sum of its divergences: upper bounds only."""

    def __init__(
        self, cell: Cell, relation: Relation, delta_of: DeltaOf | None, orders: Cells | None, conversion: str
    ) -> None:
        self._cell, self._orders, self._conversion = cell, orders, conversion
        self._divergence = kept(1024)(lambda orders: cell_divergence(cell, np.frombuffer(orders), relation, delta_of))
        self.pure_epsilon = cell_pure_epsilon(cell, relation)
        """Sum of pure guarantees, inf where one is missing."""
        self.best_order = math.nan
        """Where the last answer was found."""

    def epsilon(self, delta: float, below: float = math.inf) -> float:
        """Upper bound of the smallest epsilon with this delta; not the best one where it is not below another."""
        if not self._cell or delta >= 1.0:
            return 0.0
        if delta == 0.0:
            return self.pure_epsilon
        least = self._least(lambda a, d: _epsilon_at(d, a, delta, self._conversion), math.inf, below)
        return min(self.pure_epsilon, least)

    def log_delta(self, epsilon: float, below: float = 0.0) -> float:
        """Upper bound of the logarithm of delta; not the best one where it is not below another."""
        if not self._cell or epsilon >= self.pure_epsilon or epsilon == math.inf:
            return -math.inf
        return self._least(lambda a, d: _log_delta_at(d, a, epsilon, self._conversion), 0.0, below)

    def _least(self, bound: Callable[[Cells, Cells], Cells], worst: float, below: float) -> float:
        """The least value found: every order gives a bound, so the search needs no proof.

        A finer grid of orders gains a hundredth at most: none is tried where that does not reach `below`.
        """

        def is_hopeless(value: float) -> bool:
            return value > below + 0.05 * (abs(value) + 1.0)

        def at(orders: Cells) -> Cells:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return bound(orders, self._divergence(orders.tobytes()))

        if self._orders is not None:
            values = np.nan_to_num(at(self._orders), nan=worst, posinf=np.inf, neginf=-np.inf)
            self.best_order = float(self._orders[int(np.argmin(values))])
            return float(np.min(values))
        best, self.best_order = least(at, ORDERS, 1.0, worst, is_hopeless=is_hopeless, enough=1e-9)
        return best
