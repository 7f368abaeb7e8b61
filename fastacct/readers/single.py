"""One release whose loss has a density: delta as the excess of P's mass above epsilon."""

from __future__ import annotations

import math

import numpy as np

from fastacct.core.inputs import ROUNDING
from fastacct.core.rounding import sum_of
from fastacct.losses.loss import LEAST_TAIL, Bracket, Loss
from fastacct.readers.sides import OneSided, TwoSided


class Single(TwoSided):
    """Delta and epsilon of one direction."""

    def __init__(self, bracket: Bracket) -> None:
        super().__init__(_Excess(bracket.lower, is_upper=False), _Excess(bracket.upper, is_upper=True))


class _Excess(OneSided):
    """The expectation of (1 - exp(epsilon - loss))_+ under P, each error on the side asked for."""

    def __init__(self, loss: Loss, *, is_upper: bool) -> None:
        self._loss, self.is_upper, self.infinite = loss, is_upper, loss.infinite

    def delta(self, epsilon: float, least: float = 0.0) -> float:
        """Bound of delta."""
        loss, side = self._loss, 1.0 if self.is_upper else -1.0
        low, high = loss.extent(LEAST_TAIL)
        missing, where = loss.outside(LEAST_TAIL)
        beside, total = 1e-9 * (1.0 + abs(epsilon)), 0.0  # further than rounding
        if epsilon <= high + beside:
            edges = np.array([min(low, epsilon - beside) - 1.0, epsilon - beside, epsilon, max(high, epsilon) + 1.0])
            mass, excess, slip = loss.masses(edges, LEAST_TAIL, side)
            # delta falls by at most the mass above it, times the distance
            away = slip + 4.0 * ROUNDING * abs(epsilon)
            total = float(excess[2] + side * 1.01 * away * (mass[2] + (mass[1] if away + slip < beside else 1.0)))
            total *= 1.0 + side * ROUNDING * 64.0
            total = max(total, 2.0**-1022 * (self.is_upper and mass[2] > 0.0))
        if self.is_upper:
            total += missing * (where > epsilon - beside)
        elif total < 1e-290:  # products of smaller masses have no relative accuracy
            total = 0.0
        return min(1.0, sum_of(total, loss.infinite, self.is_upper))

    def end(self, delta: float) -> float:
        """The largest loss; from above an epsilon that surely has this delta: ends of losses may be off."""
        last = max(0.0, self._loss.extent(LEAST_TAIL)[1])
        if not self.is_upper:
            return max(0.0, self._loss.reached() * (1.0 - 4.0 * ROUNDING)) if delta == self.infinite else last
        for power in range(-52, 40):
            if self.delta(last) <= delta:
                return last
            last += max(last, 2.0**-1022) * 2.0**power
        return math.inf
