"""Filters: what adds up when steps are chosen adaptively, how much of it a budget allows, and what a sum proves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from fastacct import api
from fastacct._arrays import TINY, Cells, Domain, as_cells
from fastacct._jobs_renyi import RenyiJob
from fastacct._jobs_table import expanded, tables
from fastacct._renyi_forms import pure_epsilon, square
from fastacct.additive import DiscreteGaussian
from fastacct.calibrate import calibrate
from fastacct.mechanisms import Gaussian, Grouped, Mechanism, moved
from fastacct.notions import GDP, ZCDP
from fastacct.process import Process
from fastacct.selection import Exponential

__all__ = ["UNIT", "Filter", "as_number"]

UNIT: Final = 2**1074
"""Sums are whole numbers of 2**-1074, of which every float is a multiple: adding them is exact in any order."""
_ORDER: Final = Domain(1.0, 1e11, open_low=True)
_ORDERS: Final = 1.0 + np.geomspace(1e-7, 1e300, 1200)
_ROUNDS: Final = 6


class Filter:
    """One of the filters "gdp", "zcdp" and "rdp", with the budget that it guards, if any."""

    def __init__(
        self, kind: str, epsilon: float | None, delta: float | None, order: float | None, neighbors: str
    ) -> None:
        self.kind: Final = kind
        self.neighbors: Final = neighbors
        self.order = math.nan if order is None else as_number("order", order, _ORDER)
        self.limit: int | None = None
        """What the sum may reach, in units; None: anything."""
        if epsilon is not None and delta is not None:
            self.limit = _exact(self._largest(epsilon, delta))
        elif kind == "rdp" and order is None:
            raise TypeError("filter = 'rdp' without a budget needs an order")

    def cost(self, mechanism: Mechanism) -> int | None:
        """What one release adds to the sum, in units; None: infinitely much."""
        table = next(tables(expanded(Process({mechanism: 1}), self.neighbors), self.neighbors))
        total = 0.0
        if self.kind == "rdp":
            total = float(RenyiJob(table, self.neighbors).divergence(np.array([self.order]))[0])
        else:
            read = _mu_squared if self.kind == "gdp" else _rho
            for part, cell, count in table:
                total += count * read(part, cell, self.neighbors) * (1.0 + 4e-16)
            total *= 1.0 + 4e-16 * len(table)
        return _exact(total) if total < math.inf else None

    def allows(self, units: int) -> bool:
        """Whether the budget allows a sum."""
        return self.limit is None or units <= self.limit

    def epsilon(self, units: int, delta: float) -> float:
        """What a sum proves at delta, if one stops for reasons that do not depend on the outputs."""
        total = _up(units)
        if total in (0.0, math.inf):
            return total
        if self.kind == "gdp":  # one curve in both directions
            noise = math.nextafter(1.0 / (math.sqrt(total) * (1.0 + 4e-16)), 0.0)
            return float(api.epsilon(Gaussian(noise), delta=delta, neighbors="remove"))
        if self.kind == "zcdp":
            found = _least(lambda orders: total * orders * (1.0 + 1e-15) + _conversion(orders, delta))
        else:
            found = total + float(_conversion(np.asarray(self.order), delta))
        return max(0.0, found * (1.0 + 1e-15) + total * 1e-15)

    def odometer(self, units: int, delta: float) -> float:
        """What a sum proves at all times at once: Ville's inequality, for zCDP at 32 orders that share delta."""
        total = _up(units)
        if self.kind == "rdp":
            return (total + math.log(1.0 / delta) / (self.order - 1.0)) * (1.0 + 1e-15)
        rho = 0.5 * total if self.kind == "gdp" else total
        steps = 2.0 ** np.arange(-8.0, 24.0)  # order - 1
        return float(np.min(rho * (1.0 + steps) + math.log(steps.size / delta) / steps)) * (1.0 + 1e-15)

    def _largest(self, epsilon: float, delta: float) -> float:
        """The largest sum that a budget allows; chooses the order where none was given."""
        if self.kind == "gdp":
            mu = calibrate(GDP, epsilon=epsilon, delta=delta, bracket=(min(1e-12, 1e-3 * epsilon), 1e7))
            return float(mu * mu * (1.0 - 4e-16))
        rho = -_least(lambda orders: (_conversion(orders, delta) - epsilon) / orders) * (1.0 - 1e-15)
        if self.kind == "zcdp":
            return max(rho, 0.0)
        if math.isnan(self.order):
            self.order = min(1.0 + math.sqrt(math.log(1.0 / delta) / max(rho, TINY)), _ORDER.high)
        limit = epsilon - float(_conversion(np.asarray(self.order), delta))
        if not limit > 0.0:
            raise ValueError(
                f"order = {self.order!r} leaves nothing of epsilon = {epsilon!r} at delta = {delta!r}; "
                "take a larger order, at most 1e11, or another filter"
            )
        return limit * (1.0 - 1e-14)


def as_number(name: str, value: object, domain: Domain) -> float:
    """One number in its domain."""
    cell = as_cells(name, value, domain)
    if cell.ndim:
        raise TypeError(f"{name} must be one number, not an array of shape {cell.shape}")
    return float(cell)


def _exact(value: float) -> int:
    """A float in units."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (UNIT // denominator)


def _up(units: int) -> float:
    try:
        found = units / UNIT
    except OverflowError:
        return math.inf
    return found if _exact(found) >= units else math.nextafter(found, math.inf)


def _conversion(order: Cells, delta: float) -> Cells:
    """Epsilon less the divergence, Canonne, Kamath, Steinke 2020, proposition 12, rounded up."""
    a, size = order - 1.0, np.log(order) - math.log(delta)
    return np.asarray(np.log1p(-1.0 / order) - (math.log(delta) + np.log(order)) / a + 1e-14 * (1.0 + size) / a)


@np.errstate(over="ignore")
def _least(at: Callable[[Cells], Cells]) -> float:
    """Smallest value found over orders; each order gives a bound, so the search needs no proof."""
    grid, values = _ORDERS, at(_ORDERS)
    for _ in range(_ROUNDS):
        place = int(np.argmin(values))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, grid.size - 1)]
        grid = 1.0 + np.geomspace(low - 1.0, high - 1.0, 25)
        values = at(grid)
    return float(np.min(values))


def _mu_squared(mechanism: Mechanism, cell: Mapping[str, float], neighbors: str) -> float:
    inner = mechanism.mechanism if isinstance(mechanism, Grouped) else mechanism
    if not isinstance(inner, Gaussian):
        raise ValueError(f"filter 'gdp' adds Gaussian mechanisms only, not {mechanism!r}; use filter 'rdp'")
    size = mechanism.size if isinstance(mechanism, Grouped) else 1
    noise = cell["noise_multiplier"]
    mu = size * moved(neighbors) / noise if noise > 0.0 else math.inf
    return square(mu)


def _rho(mechanism: Mechanism, cell: Mapping[str, float], neighbors: str) -> float:
    if isinstance(mechanism, Gaussian | Grouped):
        return 0.5 * _mu_squared(mechanism, cell, neighbors)
    if isinstance(mechanism, DiscreteGaussian):
        return 0.5 * square(mechanism.sensitivity * moved(neighbors) / cell["scale"]) * (1.0 + 1e-15)
    if isinstance(mechanism, ZCDP) and cell["xi"] == 0.0:
        return cell["rho"]
    if isinstance(mechanism, Exponential):
        return square(cell["epsilon"]) / 8.0 * (1.0 + 1e-15)

    # the theorem needs the loss of both directions to be bounded
    both = "add_remove" if neighbors in ("add", "remove") else neighbors
    epsilon = pure_epsilon(mechanism, dict(cell), both)
    if epsilon < math.inf or cell.get("epsilon") == math.inf:  # tight for the class
        return max(epsilon * math.tanh(0.5 * epsilon) * (1.0 + 4e-15), TINY if epsilon > 0.0 else 0.0)
    raise ValueError(f"filter 'zcdp' does not know {mechanism!r} as zero-concentrated; use filter 'rdp'")
