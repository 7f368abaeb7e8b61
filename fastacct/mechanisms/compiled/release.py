"""One release of a compiled mechanism, from its panels, those around epsilon refined by compiled code.

docs/algorithms/compiled.md says what is assumed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.bounds import Found, Status, judged
from fastacct.core.inputs import ROUNDING
from fastacct.core.search import crossing
from fastacct.losses.loss import Index
from fastacct.mechanisms.compiled.table import Table, locked

if TYPE_CHECKING:
    from fastacct.mechanisms.compiled.mechanism import Compiled

_MOST_PANELS: Final = 256
"""More panels around epsilon are not refined."""
_GOOD: Final = 1e-11


class _Sums:
    """Masses of the panels whose losses are all above a threshold, in extended precision."""

    def __init__(self, table: Table) -> None:
        self.missing = table.missing
        order = np.argsort(-np.nan_to_num(table.low, nan=-np.inf), kind="stable")
        order = order[np.isfinite(table.low[order]) | (table.low[order] > 0.0)]
        self.low = locked(-table.low[order])
        columns = (table.p, table.q, table.p_error, table.q_error)
        self.masses = [locked(np.append(0.0, np.cumsum(column[order].astype(np.longdouble)))) for column in columns]
        # a not-a-number rises nowhere
        self.way = next(
            (way for way in (1, -1) if all((v[::way][1:] >= v[::way][:-1]).all() for v in (table.low, table.high))), 0
        )

    def above(self, epsilon: float) -> list[float]:
        """Masses of P and Q above epsilon, and bounds of their errors."""
        place = int(np.searchsorted(self.low, -epsilon, side="left"))
        return [float(sums[place]) for sums in self.masses]


class OneRelease:
    """Delta and epsilon of one direction."""

    def __init__(self, made: Compiled, way: int) -> None:
        self._made, self._way = made, way
        self._table = table = made.table.turned() if way else made.table
        self._sums: _Sums = made.kept.get(("sums", 1.0, way)) or made.kept.setdefault(("sums", 1.0, way), _Sums(table))

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta: panels above epsilon count whole, those around it are halved until they do not matter."""
        if epsilon >= self._made.largest_loss[self._way][1]:
            return Found(0.0, 0.0, Status.TIGHT)
        table, ends = self._table, self._around(epsilon)
        low, high = self._whole(epsilon)
        high += self._sums.missing
        if ends.size > _MOST_PANELS:
            p, p_error, q, q_error = table.p[ends], table.p_error[ends], table.q[ends], table.q_error[ends]
            with np.errstate(over="ignore"):  # at most all of P at the largest loss, at least the positive parts
                most = p + p_error, -np.expm1(np.minimum(epsilon - table.high[ends], 0.0))
            times = math.exp(epsilon) if epsilon < 709.0 else math.inf
            high += float(np.sum(most[0] * most[1])) * (1.0 + 1e-14)
            low += float(np.sum(np.maximum(p - p_error - times * (q + q_error), 0.0))) * (1.0 - 1e-14)
        else:
            good = 0.1 * _GOOD * low
            for i in ends.tolist():
                parts = self._made.refined(float(table.edges[i]), float(table.edges[i + 1]), epsilon, self._way, good)
                low, high = low + parts[0], high + parts[1]
        high = min(1.0, high * (1.0 + 8.0 * ROUNDING) + 1e-290)
        return judged(max(0.0, min(low * (1.0 - 8.0 * ROUNDING), high)), high, math.inf)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta."""
        if self.delta(0.0).upper <= delta:
            return Found(0.0, 0.0, Status.TIGHT)
        least, most = self._made.largest_loss[self._way]
        if delta == 0.0:
            return judged(least, most, math.inf)
        table = self._table
        finite = np.isfinite(table.high) & (table.p > 1e-300) & (table.q > 1e-300)
        high = float(np.max(table.high[finite], initial=0.0))
        if ((table.high == np.inf) & (table.p > 0.0)).any():
            high = 700.0
        if not self.delta(high).upper <= delta:
            if most == math.inf:
                return Found(0.0, math.inf, Status.NOT_MET)
            high = most
        at_most = crossing(lambda epsilon: self.delta(epsilon).upper, delta, high, is_upper=True)
        at_least = crossing(lambda epsilon: self.delta(epsilon).lower, delta, high, is_upper=False, near=at_most)
        return judged(at_least, at_most, math.inf)

    def _around(self, epsilon: float) -> Index:
        """The panels in which the loss may pass epsilon."""
        table, way = self._table, self._sums.way
        if not way:
            return np.flatnonzero((table.low <= epsilon) & (table.high > epsilon))
        first = int(np.searchsorted(table.high[::way], epsilon, side="right"))
        last = int(np.searchsorted(table.low[::way], epsilon, side="right"))
        found = np.arange(first, max(first, last))
        return found if way == 1 else table.low.size - 1 - found

    def _whole(self, epsilon: float) -> tuple[float, float]:
        """Bounds of the sum of P - exp(epsilon) Q over the panels above epsilon, from zero."""
        p, q, p_off, q_off = self._sums.above(epsilon)
        times = math.exp(epsilon) if epsilon < 709.0 else math.inf
        p_off, q_off = p_off + 16.0 * ROUNDING * p, q_off + 16.0 * ROUNDING * q
        most, least = q + q_off, max(q - q_off, 0.0)
        low = p - p_off - (times * most if most > 0.0 else 0.0)
        high = p + p_off - (times * least if least > 0.0 and times < math.inf else 0.0)
        return max(0.0, low), max(0.0, high)
