"""One release of a user's mechanism: delta as an integral over the outputs, refined where the loss passes epsilon."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct._arrays import Cells
from fastacct._pld_compose import Found
from fastacct._pld_sources import ROUNDING, Index
from fastacct.bounds import Status
from fastacct.jit import Compiled, Table, panels_of

__all__ = ["OneRelease"]

_ROUNDS: Final = 3
_PARTS: Final = 64
_GOOD: Final = 1e-11


class OneRelease:
    """Delta and epsilon of one direction."""

    def __init__(self, made: Compiled, way: int) -> None:
        self._made, self._way = made, way
        self._sums = made.sums[way]
        self._whole = self._sums.table

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta: panels above epsilon count whole, those around it are cut again."""
        table = self._whole
        low, high = self._sums.excess(epsilon)
        high += self._sums.missing
        ends = np.flatnonzero((table.low <= epsilon) & (table.high > epsilon))
        for last in [False] * _ROUNDS + [True]:
            worst = _chords(table, ends, epsilon)
            if last or worst <= _GOOD * (high + worst) or ends.size > 4 * _PARTS:
                high += worst
                low += _positive(table, ends, epsilon)
                break
            pieces = [np.linspace(table.edges[i], table.edges[i + 1], _PARTS + 1) for i in ends.tolist()]
            table = _joined([self._cut(edges) for edges in pieces])
            above = np.flatnonzero(table.low > epsilon)
            high += _excess(table, above, epsilon, 1.0)
            low += _excess(table, above, epsilon, -1.0)
            ends = np.flatnonzero((table.low <= epsilon) & (table.high > epsilon))
        high = min(1.0, high * (1.0 + 8.0 * ROUNDING) + 1e-290)
        low = max(0.0, min(low * (1.0 - 8.0 * ROUNDING), high))
        return Found(low, high, Status.TIGHT if high - low <= 1e-6 * high else Status.LOOSE)

    def _cut(self, edges: Cells) -> Table:
        table = panels_of(self._made, edges)
        return table.turned() if self._way else table

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta: Newton's method, then both sides are checked."""
        if self.delta(0.0).upper <= delta:
            return Found(0.0, 0.0, Status.TIGHT)
        table = self._whole
        finite = np.isfinite(table.high) & (table.p > 1e-300) & (table.q > 1e-300)
        low, high = 0.0, float(np.max(table.high[finite], initial=0.0))
        if not self.delta(high).upper <= delta:
            return Found(0.0, math.inf, Status.NOT_MET)
        at, found = 0.5 * (low + high), None
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
        low, high = ends
        return Found(low, high, Status.TIGHT if high - low <= 1e-6 * high else Status.LOOSE)


def _excess(table: Table, at: Index, epsilon: float, side: float) -> float:
    """Sum of P - exp(epsilon) Q."""
    if not at.size:
        return 0.0
    p, q = table.p[at] + side * table.p_error[at], table.q[at] - side * table.q_error[at]
    with np.errstate(over="ignore", invalid="ignore"):
        value = p - math.exp(min(epsilon, 709.0)) * np.maximum(q, 0.0)
    pad = ROUNDING * (16.0 + math.log2(at.size + 1.0)) * float(np.sum(p))
    return max(0.0, float(np.sum(value)) + side * 2.0 * pad)


def _chords(table: Table, at: Index, epsilon: float) -> float:
    """Largest that the panels around epsilon can add: all of P at their largest loss."""
    if not at.size:
        return 0.0
    p, high = table.p[at] + table.p_error[at], table.high[at]
    with np.errstate(over="ignore"):
        return float(np.sum(p * -np.expm1(np.minimum(epsilon - high, 0.0)))) * (1.0 + 1e-14)


def _positive(table: Table, at: Index, epsilon: float) -> float:
    if not at.size:
        return 0.0
    value = table.p[at] - table.p_error[at] - math.exp(min(epsilon, 709.0)) * (table.q[at] + table.q_error[at])
    return float(np.sum(np.maximum(value, 0.0))) * (1.0 - 1e-14)


def _joined(tables: list[Table]) -> Table:
    """Panels of several pieces; between two pieces lies a panel with no mass."""
    if len(tables) == 1:
        return tables[0]
    edges = np.concatenate([table.edges for table in tables])
    columns = []
    for name in ("p", "q", "p_error", "q_error", "low", "high"):
        empty = -np.inf if name in ("low", "high") else 0.0
        parts = [np.append(getattr(table, name), empty) for table in tables]
        columns.append(np.concatenate(parts)[:-1])
    return Table(edges, *columns)
