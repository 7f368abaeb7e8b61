"""A job by its Rényi divergences: sums of closed forms and of the sampled Gaussians' kernel, converted at the best
order.  For mechanisms that are known by a divergence alone, and for `RDP()` as the accountant of any job.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from fastacct import _renyi_sampled  # noqa: F401 registers divergences
from fastacct._arrays import Cells
from fastacct._jobs_dpsgd import renyi_bounds
from fastacct._jobs_table import Table
from fastacct._renyi_forms import divergence, pure_epsilon
from fastacct.mechanisms import Gaussian, GaussianMixture, Grouped, Mechanism, PoissonSampled
from fastacct.process import Process

__all__ = ["ORDERS", "RenyiJob", "is_sampled_gaussian"]

ORDERS: Final = np.concatenate([1.0 + np.geomspace(1e-7, 0.5, 60), np.geomspace(1.52, 1e7, 140)])
_ROUNDS: Final = 4
_NEARBY: Final = 25


def is_sampled_gaussian(mechanism: Mechanism) -> bool:
    """Whether the kernel of sampled Gaussians has its divergences."""
    inner = mechanism.mechanism if isinstance(mechanism, Grouped) else mechanism
    return isinstance(inner, Gaussian) or (isinstance(inner, PoissonSampled) and inner is mechanism)


class RenyiJob:
    """One cell of a job: divergences add up."""

    def __init__(self, table: Table, neighbors: str, orders: Cells | None = None, *, strict: bool = False) -> None:
        self.table = table
        self.neighbors = neighbors
        self.orders = orders
        self._strict = strict
        """Whether a mechanism without divergences is refused, or has infinite ones."""

    def divergence(self, orders: Cells) -> Cells:
        """Upper bound at the orders."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = self._sum(orders)
        return np.where(np.isnan(total), np.inf, total)  # what overflowed is not known

    def _sum(self, orders: Cells) -> Cells:
        total = np.zeros(orders.shape)
        for mechanism, cell, count in self.table:
            if is_sampled_gaussian(mechanism):
                one = Process({_at(mechanism, cell): int(count)})
                total = total + renyi_bounds(one, orders, orders.shape, self.neighbors, 1, only_upper=True).upper
            else:
                total = total + count * self._one(mechanism, cell, orders) * (1.0 + 4e-16)
        return total * (1.0 + 1e-15 * len(self.table))

    def _one(self, mechanism: Mechanism, cell: dict[str, float], orders: Cells) -> Cells:
        try:
            return divergence(mechanism, cell, self.neighbors, orders)
        except TypeError:  # a mixture of Gaussians
            if self._strict or not isinstance(mechanism, GaussianMixture | Grouped):
                raise
            return np.full(orders.shape, np.inf)

    def pure_epsilon(self) -> float:
        """Sum of pure guarantees, inf where one is missing."""
        total = math.fsum(
            count * pure_epsilon(mechanism, cell, self.neighbors) for mechanism, cell, count in self.table
        )
        return total * (1.0 + 4e-16)

    def epsilon(self, delta: float) -> float:
        """Smallest over orders (Canonne, Kamath, Steinke 2020, proposition 12), and the sum of pure guarantees."""
        if not self.table or delta >= 1.0:
            return 0.0
        if not delta > 0.0:
            return self.pure_epsilon()

        def at(orders: Cells) -> Cells:
            value = self.divergence(orders)
            a = orders - 1.0
            with np.errstate(over="ignore", invalid="ignore"):
                return self._epsilon_at(value, a, orders, delta)

        return min(self._smallest(at, math.inf), self.pure_epsilon())

    @staticmethod
    def _epsilon_at(value: Cells, a: Cells, orders: Cells, delta: float) -> Cells:
        best = value + np.log1p(-1.0 / orders) - (math.log(delta) + np.log(orders)) / a
        padding = 1e-14 * (np.abs(value) + (1.0 - math.log(delta) + np.log(orders)) * (1.0 + 1.0 / a))
        # delta(0) <= sqrt(1 - exp(-D)), Bretagnolle and Huber
        zero = -np.expm1(-value) * (1.0 + 1e-14) <= delta * delta
        return np.where(zero, 0.0, np.maximum(best + padding, 0.0))

    def log_delta(self, epsilon: float) -> float:
        """Smallest over orders of the bound of log delta."""
        if not self.table or epsilon == math.inf or epsilon >= self.pure_epsilon():
            return -math.inf

        def at(orders: Cells) -> Cells:
            value, a = self.divergence(orders), orders - 1.0
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return self._log_delta_at(value, a, orders, epsilon)

        return self._smallest(at, 0.0)

    @staticmethod
    def _log_delta_at(value: Cells, a: Cells, orders: Cells, epsilon: float) -> Cells:
        best = a * (value - epsilon + np.log1p(-1.0 / orders)) - np.log(orders)
        padding = 1e-14 * (a * (np.abs(value) + epsilon) + 1.0 + np.log(orders))
        zero = 0.5 * np.log(-np.expm1(-value)) + 1e-14
        return np.minimum(np.minimum(best + padding, zero), 0.0)

    def _smallest(self, at: Callable[[Cells], Cells], worst: float) -> float:
        """The least value found: every order gives a bound, so the search needs no proof."""
        if self.orders is not None:
            return float(np.min(_known(at(self.orders), worst)))
        grid = ORDERS
        values = _known(at(grid), worst)
        best = float(np.min(values))
        for _ in range(_ROUNDS):
            place = int(np.argmin(values))
            low, high = max(place - 1, 0), min(place + 1, grid.size - 1)
            grid = 1.0 + np.geomspace(grid[low] - 1.0, grid[high] - 1.0, _NEARBY)
            values = _known(at(grid), worst)
            best = min(best, float(np.min(values)))
        return best


def _known(values: Cells, worst: float) -> Cells:
    """Without what is not a number."""
    return np.where(np.isnan(values), worst, values)


def _at(mechanism: Mechanism, cell: dict[str, float]) -> Mechanism:
    """A Gaussian, sampled or grouped, with the parameters of one cell."""
    inner = mechanism.mechanism if isinstance(mechanism, Grouped) else mechanism
    made: Mechanism = Gaussian(cell["noise_multiplier"])
    if isinstance(inner, PoissonSampled):
        made = PoissonSampled(Gaussian(cell["noise_multiplier"]), cell["sample_rate"])
    return Grouped(made, mechanism.size) if isinstance(mechanism, Grouped) else made  # type: ignore[arg-type]
