"""One release whose loss has a density: delta as the excess of P's mass above epsilon."""

from __future__ import annotations

import math

import numpy as np

from fastacct.core.bounds import Found, judged
from fastacct.core.inputs import ROUNDING
from fastacct.core.rounding import sum_of
from fastacct.core.search import crossing
from fastacct.losses.loss import LEAST_TAIL, Bracket, Loss


class Single:
    """Delta and epsilon of one direction."""

    def __init__(self, bracket: Bracket) -> None:
        self._bracket = bracket

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta."""
        lower, upper = _delta(self._bracket.lower, epsilon, False), _delta(self._bracket.upper, epsilon, True)
        return judged(lower, upper, 1.0)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta."""
        lower, upper = _epsilon(self._bracket.lower, delta, False), _epsilon(self._bracket.upper, delta, True)
        return judged(lower, upper, math.inf)


def _delta(loss: Loss, epsilon: float, is_upper: bool) -> float:
    """The expectation of (1 - exp(epsilon - loss))_+ under P, each error on the side asked for."""
    side = 1.0 if is_upper else -1.0
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
        total = max(total, 2.0**-1022 * (is_upper and mass[2] > 0.0))
    if is_upper and where > epsilon - beside:
        total += missing
    if not is_upper and total < 1e-290:  # products of smaller masses have no relative accuracy
        total = 0.0
    return min(1.0, sum_of(total, loss.infinite, is_upper))


def _epsilon(loss: Loss, delta: float, is_upper: bool) -> float:
    if _delta(loss, 0.0, is_upper) <= delta:
        return 0.0
    if loss.infinite > delta:
        return math.inf
    last = max(0.0, loss.extent(LEAST_TAIL)[1])
    if loss.infinite == delta and not is_upper:
        return max(0.0, loss.reached() * (1.0 - 4.0 * ROUNDING))
    if loss.infinite == delta or _delta(loss, last, is_upper) > delta:
        return _beyond(loss, delta, last) if is_upper else last
    return crossing(lambda epsilon: (_delta(loss, epsilon, is_upper),) * 2, delta, last)[is_upper]


def _beyond(loss: Loss, delta: float, last: float) -> float:
    """An epsilon that surely has this delta: ends of losses may be off."""
    for power in range(-52, 40):
        if _delta(loss, last, True) <= delta:
            return last
        last += max(last, 2.0**-1022) * 2.0**power
    return math.inf
