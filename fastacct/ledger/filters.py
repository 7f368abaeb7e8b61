"""Filters: what adds up when steps are chosen adaptively, how much of it a budget allows, and what a sum proves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from fastacct.calibrate import calibrate
from fastacct.core.inputs import CONVERTED, TINY, Cells, as_number
from fastacct.core.relations import Relation
from fastacct.core.search import least
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.gaussian import GDP, Gaussian
from fastacct.readers.job import delta_of

UNIT: Final = 2**1074
"""Sums are whole numbers of 2**-1074, of which every float is a multiple: adding them is exact in any order."""
ENDLESS: Final = 2**5000
"""Units of a cost that no budget allows: larger than any sum of floats."""
_ORDERS: Final = 1.0 + np.geomspace(1e-7, 1e300, 1200)


class Filter:
    """One of the filters "gdp", "zcdp" and "rdp", with the budget that it guards, if any."""

    def __init__(
        self, kind: str, epsilon: float | None, delta: float | None, order: float | None, neighbors: Relation
    ) -> None:
        self.kind: Final = kind
        self.neighbors: Final = neighbors
        self.order = math.nan if order is None else as_number("order", order, CONVERTED)
        self._limit = ENDLESS - 1
        if epsilon is not None and delta is not None:
            self._limit = _exact(self._largest(epsilon, delta))
        elif kind == "rdp" and order is None:
            raise TypeError("filter = 'rdp' without a budget needs an order")

    def cost(self, mechanism: Mechanism) -> int:
        """What one release adds to the sum, in units."""
        job, total = mechanism * 1, 0.0
        if self.kind == "rdp":
            total = float(job.divergence(np.array([self.order]), self.neighbors, delta_of)[0])
        else:
            parts = next(job.decompose(self.neighbors).cells())
            for part, count in parts:
                total += count * self._read(part) * (1.0 + 4e-16)
            total *= 1.0 + 4e-16 * len(parts)
        return _exact(total) if total < math.inf else ENDLESS

    def _read(self, mechanism: Mechanism) -> float:
        """mu^2 or rho of one release."""
        rho = mechanism.concentration(self.neighbors)
        if self.kind == "zcdp":
            if rho == math.inf and mechanism.divergence(np.array([2.0]), self.neighbors)[0] < math.inf:
                raise ValueError(f"filter 'zcdp' does not know {mechanism!r} as zero-concentrated; use filter 'rdp'")
            return rho
        one = mechanism.sampled_gaussian(self.neighbors)
        if one is None or one.rate != 1.0:
            raise ValueError(f"filter 'gdp' adds Gaussian mechanisms only, not {mechanism!r}; use filter 'rdp'")
        return 2.0 * rho

    def room(self, units: int) -> int:
        """By how much a sum may still grow, in units; below 0 where the budget does not allow it."""
        return self._limit - units

    def epsilon(self, units: int, delta: float) -> float:
        """What a sum proves at delta, if one stops for reasons that do not depend on the outputs."""
        total = _up(units)
        if total in (0.0, math.inf):
            return total
        if self.kind == "gdp":  # one curve in both directions
            noise = math.nextafter(1.0 / (math.sqrt(total) * (1.0 + 4e-16)), 0.0)
            return float(smallest_epsilon(Gaussian(noise), delta=delta, neighbors="remove"))
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
            self.order = min(1.0 + math.sqrt(math.log(1.0 / delta) / max(rho, TINY)), CONVERTED.high)
        limit = epsilon - float(_conversion(np.asarray(self.order), delta))
        if not limit > 0.0:
            raise ValueError(
                f"order = {self.order!r} leaves nothing of epsilon = {epsilon!r} at delta = {delta!r}; "
                "take a larger order, at most 1e11, or another filter"
            )
        return limit * (1.0 - 1e-14)


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
    return least(at, _ORDERS, 1.0, math.inf)[0]
