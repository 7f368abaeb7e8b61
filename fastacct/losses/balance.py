"""Where groups of losses end next to the mode of a distribution, so that the mean of each is at its point."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Final, Protocol

import numpy as np

from fastacct.core.inputs import Cells

__all__ = ["CLOSE", "PARTS", "Density", "balanced"]

PARTS: Final = 16
"""Of a cell."""
CLOSE: Final = 8
"""Cells next to the mode."""
_FINE: Final = 8
_FLAT: Final = 1.05
_LEEWAY: Final = 0.02


class Splits(Protocol):
    """Sums over the nodes of each cell."""

    spacing: float
    mass: Cells
    right: Cells

    def split(self, edges: Cells, error: float) -> None:
        """Sum between these edges."""


class Density:
    """Sums of a distribution up to any loss next to its mode, drawn through sums over parts of cells.

    Parts are `_FINE` times as many next to the mode.  It only says where groups should end: no bound hangs on it.
    """

    def __init__(self, cells: Splits, origin: float, n: int, around: tuple[int, int, int]) -> None:
        first, last, self._mode = around[0], around[1], origin + around[2] * cells.spacing
        where = np.arange((first - 1) * PARTS, (last + 1) * PARTS + 1) / PARTS
        close = np.arange(-CLOSE * PARTS * _FINE, CLOSE * PARTS * _FINE + 1) / (PARTS * _FINE) + around[2]
        where = np.union1d(where, close[(close > where[0]) & (close < where[-1])])
        self._edges = origin + cells.spacing * where
        ends = (min(self._edges[0], origin) - cells.spacing, max(self._edges[-1], origin + n * cells.spacing))
        cells.split(np.concatenate([ends[:1], self._edges, [ends[1] + cells.spacing]]), 0.0)
        mass, right = cells.mass[1:-1], cells.right[1:-1]
        of_q = (mass - right) * np.exp(np.clip(self._mode - self._edges[:-1], -600.0, 600.0))
        self._mass, self._of_q = (np.append(0.0, np.cumsum(one)) for one in (mass, of_q))

    def sums(self, points: Cells) -> tuple[Cells, Cells]:
        """Mass of each part between points, and its sum of mass (1 - exp(lower point - loss))."""
        mass = np.diff(np.interp(points, self._edges, self._mass))
        of_q = np.diff(np.interp(points, self._edges, self._of_q))
        return mass, np.clip(mass - of_q * np.exp(np.clip(points[:-1] - self._mode, -600.0, 600.0)), 0.0, mass)


def balanced(mass: Cells, right: Cells, spacing: float, from_the_end: bool) -> tuple[float, list[float]]:
    """What is left over in the heaviest group; distances (in spacings) of points to the lower edges of their groups.

    From sums over `PARTS` parts of each cell.
    """
    mass, right = mass.reshape(-1, PARTS), right.reshape(-1, PARTS)
    n = mass.shape[0]
    away = np.arange(PARTS) * (spacing / PARTS)
    zero = np.zeros((n, 1))
    # sums of mass (1 - exp(point - loss)) over the parts right of a point, and of minus that left of it, outwards
    up = np.cumsum(np.maximum(mass - np.exp(-away) * (mass - right), 0.0), axis=1)
    down = np.cumsum(
        np.maximum(np.exp(np.minimum(spacing, 600.0) - away) * (mass - right) - mass, 0.0)[:, ::-1], axis=1
    )
    gains = [*np.concatenate([zero, up], axis=1).tolist(), [0.0] * (PARTS + 1)]
    losses = [[0.0] * (PARTS + 1), *np.concatenate([zero, down], axis=1).tolist()]
    mode = int(np.argmax(mass.sum(axis=1)))
    # group i: losses of cell i - 1 down to below[i], gains of cell i up to 1 - below[i + 1]; where the density grows
    # slowly, a group gives a little away rather than pass on an edge far from the middle
    size = [*mass.sum(axis=1).tolist(), 0.0]
    below = [0.5] * (n + 1)
    for i in range(n - 1, mode, -1):
        below[i] = _find_parts(losses[i], _read_parts(gains[i], 1.0 - below[i + 1]))
        if i > mode + CLOSE and size[i - 2] < _FLAT * size[i - 1]:
            below[i] = min(below[i], 0.5 + _LEEWAY)
    below[0] = 0.0 if from_the_end else 0.5
    for i in range(0 if from_the_end else 1, mode):
        reach = _find_parts(gains[i], _read_parts(losses[i], below[i]))
        if i < mode - CLOSE and size[i + 1] < _FLAT * size[i]:
            reach = max(reach, 0.5 - _LEEWAY)
        below[i + 1] = min(1.0 - reach, _find_parts(losses[i + 1], gains[i + 1][-1]))
    return _read_parts(gains[mode], 1.0 - below[mode + 1]) - _read_parts(losses[mode], below[mode]), below


def _read_parts(sums: list[float], position: float) -> float:
    """Sum up to `position` in [0, 1], by a constant density within a part."""
    part = min(int(position * PARTS), PARTS - 1)
    rest = position * PARTS - part
    return sums[part] + (sums[part + 1] - sums[part]) * rest * (2 * part + rest) / (2 * part + 1)


def _find_parts(sums: list[float], wanted: float) -> float:
    """Inverse of `_read_parts`; 1 if the whole sum is less."""
    if wanted >= sums[-1]:
        return 1.0 if wanted > 0.0 else 0.0
    part = bisect_right(sums, wanted) - 1
    share = (wanted - sums[part]) / (sums[part + 1] - sums[part])
    return (math.sqrt(part * part + share * (2 * part + 1))) / PARTS
