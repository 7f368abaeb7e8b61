"""One release of a compiled mechanism, from its panels, those around epsilon refined by compiled code."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct.core.bounds import Found, Status
from fastacct.losses.loss import ROUNDING, Index
from fastacct.mechanisms.compiled.mechanism import Compiled
from fastacct.mechanisms.compiled.table import Table

__all__ = ["OneRelease"]

_MOST_PANELS: Final = 256
_GOOD: Final = 1e-11


class OneRelease:
    """Delta and epsilon of one direction."""

    def __init__(self, made: Compiled, way: int) -> None:
        self._made, self._way = made, way
        self._sums = made.sums[way]
        self._whole = self._sums.table

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta: panels above epsilon count whole, those around it are halved until they do not matter."""
        if epsilon >= self._made.largest_loss[self._way][1]:
            return Found(0.0, 0.0, Status.TIGHT)
        table = self._whole
        low, high = self._sums.excess(epsilon)
        high += self._sums.missing
        ends = self._sums.around(epsilon)
        if ends.size > _MOST_PANELS:
            high += _chords(table, ends, epsilon)
            low += _positive(table, ends, epsilon)
        else:
            good = 0.1 * _GOOD * low
            for i in ends.tolist():
                parts = self._made.refined(float(table.edges[i]), float(table.edges[i + 1]), epsilon, self._way, good)
                low, high = low + parts[0], high + parts[1]
        high = min(1.0, high * (1.0 + 8.0 * ROUNDING) + 1e-290)
        low = max(0.0, min(low * (1.0 - 8.0 * ROUNDING), high))
        return Found(low, high, Status.TIGHT if high - low <= 1e-6 * high else Status.LOOSE)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta: Newton's method, then both sides are checked."""
        if self.delta(0.0).upper <= delta:
            return Found(0.0, 0.0, Status.TIGHT)
        least, most = self._made.largest_loss[self._way]
        if delta == 0.0:
            tight = Status.TIGHT if most - least <= 1e-6 * most else Status.LOOSE
            return Found(least, most, tight if most < math.inf else Status.NOT_MET)
        table = self._whole
        finite = np.isfinite(table.high) & (table.p > 1e-300) & (table.q > 1e-300)
        low, high = 0.0, float(np.max(table.high[finite], initial=0.0))
        if ((table.high == np.inf) & (table.p > 0.0)).any():
            high = 700.0
        if not self.delta(high).upper <= delta:
            if most == math.inf:
                return Found(0.0, math.inf, Status.NOT_MET)
            high = most
        at, found = self._sums.loss_above(4.0 * delta), None  # delta is a part of that probability
        at = at if low < at < high else 0.5 * (low + high)
        for _ in range(100):
            found = self.delta(at)
            middle = 0.5 * (found.lower + found.upper)
            low, high = (at, high) if middle > delta else (low, at)
            slope = math.exp(min(at, 700.0)) * self._sums.of_q(at)
            step = (math.log(max(middle, 1e-300)) - math.log(delta)) * middle / slope if slope > 0.0 else math.inf
            if abs(step) <= 1e-12 * (1.0 + at) and abs(middle - delta) <= 1e-6 * delta:
                break
            at = at + step if low < at + step < high else 0.5 * (low + high)
            if high - low <= 1e-14 * high:
                break
        return self._checked(delta, at)

    def _checked(self, delta: float, at: float) -> Found:
        """Ends around a guess at which delta has been seen to be on the right side."""
        ends = [0.0, math.inf]
        for side in (0, 1):
            pad = 1e-12 * (1.0 + at)
            for _ in range(60):
                x = max(0.0, at + (pad if side else -pad))
                found = self.delta(x)
                if (found.upper <= delta) if side else (found.lower >= delta or x == 0.0):
                    ends[side] = x
                    break
                pad *= 4.0
        low, high = ends[0], min(ends[1], self._made.largest_loss[self._way][1])
        return Found(low, high, Status.TIGHT if high - low <= 1e-6 * high else Status.LOOSE)


def _chords(table: Table, at: Index, epsilon: float) -> float:
    """Largest that the panels around epsilon can add: all of P at their largest loss."""
    if not at.size:
        return 0.0
    p, high = table.p[at] + table.p_error[at], table.high[at]
    with np.errstate(over="ignore"):
        return float(np.sum(p * -np.expm1(np.minimum(epsilon - high, 0.0)))) * (1.0 + 1e-14)


def _positive(table: Table, at: Index, epsilon: float) -> float:
    """Least that the panels around epsilon add: their positive parts."""
    if not at.size:
        return 0.0
    times = math.exp(epsilon) if epsilon < 709.0 else math.inf
    value = table.p[at] - table.p_error[at] - times * (table.q[at] + table.q_error[at])
    return float(np.sum(np.maximum(value, 0.0))) * (1.0 - 1e-14)
