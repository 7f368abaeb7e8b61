"""Sums of a loss over the cells of a grid, upper ones, and over groups of losses, lower ones."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.loss import ROUNDING, Index, Loss

__all__ = ["LIGHT", "CellSums"]

LIGHT: Final = 1e-285
"""Products of smaller masses with small numbers have no relative accuracy."""
_FEW: Final = 4
"""Groups are summed up alone where they are this part of all, or less."""


class _Groups(NamedTuple):
    """Groups that have been summed up: their edges, points, sums without errors, and the most nodes of one."""

    edges: Cells
    points: Cells
    sums: Cells
    longest: int


class CellSums:
    """Sums over the nodes of each cell: `mass`, and `right` = sum of mass (1 - exp(point - loss))."""

    def __init__(self, source: Loss, spacing: float, tail: float) -> None:
        self.source, self.spacing, self.tail = source, spacing, tail
        self.mass = self.right = np.zeros(0)
        self.beyond = 0.0
        self.longest = 0
        self._groups: _Groups | None = None

    def hits_points(self) -> bool:
        """Whether all losses are atoms on points of the grid, up to rounding."""
        lattice = self.source.lattice
        if lattice is None or self.source.anchor is None or self.source.quadrature > 0.0:
            return False
        return abs(lattice / self.spacing - round(lattice / self.spacing)) < 1e-9

    def split(self, edges: Cells, error: float) -> None:
        """Upper sums; losses are at most `beyond` beyond their cell."""
        self.beyond, self.longest = 0.0, 0
        sums: Cells = np.zeros((2, edges.size - 1))
        for nodes in self.source.nodes(edges, self.tail):
            above = nodes.loss - edges[nodes.cell] + (nodes.loss_error + error)
            self.beyond = max(self.beyond, float((above - self.spacing).max(initial=0.0)))
            mass = nodes.mass + nodes.mass_error
            gain = mass * -np.expm1(-np.clip(above, 0.0, self.spacing))
            self.longest += _add(sums, nodes.cell, mass, gain)
        self.mass, self.right = sums

    def group(self, edges: Cells, points: Cells, error: float) -> None:
        """Lower sums, errors subtracted.  Groups whose points and edges have not moved since the last time are kept."""
        moved = np.ones(points.size, dtype=np.bool_)
        if self._groups is not None and np.array_equal(self._groups.points, points):
            other = self._groups.edges != edges
            moved = other[1:] | other[:-1]
        if self._groups is None or np.count_nonzero(moved) * _FEW > points.size:
            sums, longest = self._grouped(edges, np.arange(points.size), points, error)
        else:
            sums, longest = self._groups.sums, self._groups.longest
            at = np.flatnonzero(moved)
            ends = np.unique(np.concatenate([edges[[0, -1]], edges[at], edges[at + 1]]))
            owner = np.full(ends.size - 1, points.size)
            owner[np.searchsorted(ends, edges[at])] = at
            more, others = self._grouped(ends, owner, points, error)
            sums, longest = np.where(moved, more, sums), max(longest, others)
        self._groups = _Groups(edges, points, sums, longest)
        mass, right, size = sums
        per_sum = ROUNDING * (8.0 + longest)
        self.right = right - (2.0 * self.source.quadrature_near(2.0 * self.spacing) * mass + per_sum * size)
        self.mass = mass * (1.0 - self.source.quadrature - per_sum)
        light = self.mass < LIGHT
        self.mass[light] = self.right[light] = 0.0

    def _grouped(self, edges: Cells, owner: Index, points: Cells, error: float) -> tuple[Cells, int]:
        """Masses, what they gain and its size, of the groups that own a cell between `edges`; the most nodes of one."""
        sums: Cells = np.zeros((3, points.size))
        longest, is_whole = 0, owner.size == points.size
        for nodes in self.source.nodes(edges, self.tail):
            cell = owner[nodes.cell]
            if not is_whole:
                own = cell < points.size
                cell, nodes = cell[own], nodes.of(own)
            above = nodes.loss - points[cell] - (nodes.loss_error + error)
            mass = np.maximum(nodes.mass - nodes.mass_error, 0.0)
            with np.errstate(over="ignore", invalid="ignore"):
                gain = -np.expm1(-above)
                gain *= np.where(gain > 0.0, mass, nodes.mass + nodes.mass_error)
            gain = np.where(nodes.mass + nodes.mass_error > 0.0, gain, 0.0)
            longest += _add(sums, cell, mass, gain, np.abs(gain))
        return sums, longest


def _add(sums: Cells, cell: Index, *columns: Cells) -> int:
    """Add up columns of some nodes, which are in few cells next to each other; how many are in one at most."""
    if not cell.size:
        return 0
    first, last = int(cell.min()), int(cell.max()) + 1
    near, n = cell - first, last - first
    for row, column in zip(sums, columns, strict=True):
        row[first:last] += np.bincount(near, column, n)
    return int(np.bincount(near, minlength=n).max())
