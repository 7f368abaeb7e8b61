"""Privacy losses rounded to a grid, with a certified direction (proof: docs/algorithms/grid.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells
from fastacct.core.record import Record
from fastacct.losses.balance import CLOSE, PARTS, Density, balanced
from fastacct.losses.loss import ROUNDING, Index, Loss, OutOfReachError, log_moment, weighted

__all__ = ["GridMeasure", "default_spacing", "lower_measure", "upper_measure"]

_MAX_CELLS: Final = 1 << 23
_NEAR: Final = 300
_FEW_CELLS: Final = 1 << 18
_SMOOTH: Final = 0.9
"""Least ratio of the masses of cells around the mode where no density is steep."""
_HEAVY: Final = 0.3
"""A cell with this part of all mass decides where the grid lies."""
_LIGHT: Final = 1e-285
"""Products of smaller masses with small numbers have no relative accuracy."""
_FEW: Final = 4
"""Groups are summed up alone where they are this part of all, or less."""


class GridMeasure(Record):
    """Masses of the losses `origin` + i `spacing` (exactly), and of the loss infinity.

    It bounds the true distribution of losses after a shift by `slack`: to the right if it is an upper bound, to the
    left if it is a lower one.  A lower bound may have mass at the `bottom`, minus infinity: it counts where another
    release has an infinite loss.
    """

    origin: float
    spacing: float
    mass: Cells
    infinite: float = 0.0
    slack: float = 0.0
    bottom: float = 0.0

    def losses(self) -> Cells:
        """The grid, rounded."""
        return _points(self.origin, self.spacing, self.mass.size)

    def trimmed(self) -> GridMeasure:
        """Without empty points at the ends."""
        used = np.flatnonzero(self.mass > 0.0)
        if not used.size:
            return replace(self, mass=np.zeros(1))
        first, last = int(used[0]), int(used[-1]) + 1
        origin = self.origin + first * self.spacing
        rounding = 2.0 * ROUNDING * (abs(self.origin) + abs(first * self.spacing)) if first else 0.0
        return replace(self, origin=origin, mass=self.mass[first:last].copy(), slack=self.slack + rounding)


def default_spacing(source: Loss) -> float:
    """A fiftieth of the standard deviation, or what atoms share; at most 2^18 points."""
    if source.lattice is not None and source.quadrature == 0.0:
        return source.lattice
    sketch = weighted(source, 1)
    if not sketch[1].size:
        return 1.0
    low, high = source.extent(0.0)
    spacing = max(math.sqrt(log_moment([sketch], 0.0).variance) / 50.0, (high - low) / 2.0**18)
    if source.lattice is not None and spacing > 0.0:
        return source.lattice / math.ceil(source.lattice / spacing)
    return spacing or 1.0


def upper_measure(source: Loss, spacing: float, tail: float, floor: float = -math.inf) -> GridMeasure:
    """Connect-the-dots discretisation: an upper bound.  Losses below `floor` are moved up to it."""
    low, high = source.extent(tail)
    low, high = max(low, floor), max(high, floor)
    missing, where = source.outside(tail)
    if where - low <= spacing * _FEW_CELLS:
        high = max(high, where)  # the mass without a node is not infinite
    anchor = source.anchor
    cells = CellSums(source, spacing, tail)
    for attempt in range(2):
        origin, n = _grid(low, high, 0.0 if anchor is None else anchor, spacing)
        cells.split(_points(origin, spacing, n + 1), _grid_error(origin, n, spacing))
        heavy = int(np.argmax(cells.mass))
        if attempt or anchor is not None or not cells.mass[heavy] > _HEAVY * cells.mass.sum():
            break
        # a bulk narrower than a cell: a point of the grid at its mean keeps it together
        anchor = origin + heavy * spacing - math.log1p(-min(cells.right[heavy] / cells.mass[heavy], 0.5))
    whole = -math.expm1(-spacing)
    per_sum = ROUNDING * (8.0 + cells.longest)
    mass = cells.mass * (1.0 + source.quadrature + per_sum)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(cells.mass > 0.0, cells.right / cells.mass, 0.0) / whole
    part = np.minimum(part * (1.0 + 4.0 * per_sum) + 4.0 * source.quadrature_near(2.0 * spacing) / whole, 1.0)
    light = (cells.mass > 0.0) & (cells.mass < _LIGHT)
    part, mass = np.where(light, 1.0, part), np.where(light, mass + 1e-318, mass)
    points = np.append(mass * (1.0 - part), 0.0) + np.append(0.0, mass * part)
    infinite = source.infinite
    if missing > 0.0:
        if where <= high:
            points[n] += missing
        else:
            infinite = (infinite + missing) * (1.0 + 2.0 * ROUNDING)
    slack = source.slack + max(0.0, cells.beyond)
    return GridMeasure(origin, spacing, points * (1.0 + 4.0 * ROUNDING), infinite, slack).trimmed()


def lower_measure(source: Loss, spacing: float, tail: float, floor: float = -math.inf) -> GridMeasure:
    """Groups of losses, each at a point that is not right of its mean: a lower bound.

    Losses below `floor` are moved to minus infinity.
    """
    low, high = source.extent(tail)
    floor -= 2.0 * spacing  # the first group, which is given up, ends below the floor
    bottom = 0.0
    is_cut = low < floor
    low, high = max(low, floor), max(high, floor + 2.0 * spacing)
    cells = CellSums(source, spacing, tail)
    origin, n = _grid(low, high, 0.0 if source.anchor is None else source.anchor, spacing)
    tolerance = spacing * (1e-7 + 0.005 * min(spacing, 1.0))
    origin, n, edges, fixed = _near_the_mode(cells, origin, n, source.anchor is None, is_cut)
    points = _points(origin, spacing, n + 2)
    for stage in ("centre", "centre", "mend", "mend", "mend", "cut", "cut", "cut", "done"):
        edges[0], edges[-1] = min(edges[0], low - spacing), max(edges[-1], high + spacing)
        cells.group(edges, points[:-1], _grid_error(origin, n, spacing))
        if is_cut:
            bottom = float(cells.mass[0])
            cells.mass[0] = cells.right[0] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(cells.mass > 0.0, cells.right / cells.mass, np.inf)
        bad = excess < -tolerance
        if stage == "done" or (stage != "centre" and not bad.any()):
            break
        heavy = int(np.argmax(cells.mass))
        off = float(excess[heavy])
        is_bulk = source.anchor is None and cells.mass[heavy] > _HEAVY * cells.mass.sum() and abs(off) < 0.5
        lacking = np.where(bad, -cells.right, 0.0)
        if is_bulk and (off < -tolerance or stage == "centre"):
            # a bulk narrower than a cell decides: its point moves to its mean
            origin -= math.log1p(-off)
            edges, points = edges - math.log1p(-off), _points(origin, spacing, n + 2)
            lacking[heavy] = 0.0
        if stage == "centre":
            # an edge moved by s, with the density f beside it, adds f s spacing/2 to `right` on both its sides
            wanted = np.where(np.isfinite(excess), tolerance * cells.mass - cells.right, 0.0)
            edges = edges + np.where(fixed, 0.0, _moves(cells.mass, wanted, spacing))
        elif stage == "mend":
            edges = edges + 2.2 * _moves(cells.mass, lacking, spacing)
        else:
            edges = np.where(np.append(lacking > 0.0, False), points, edges)
        edges = np.clip(edges, points - 0.95 * spacing, points)
    gain = np.where(np.isfinite(excess), excess, 0.0)
    slack = float(max(0.0, -gain[~bad].min(initial=0.0)))
    # what is left unmended goes to the point before: its losses are right of that
    out = np.append(0.0, np.where(bad, 0.0, cells.mass)) + np.append(np.where(bad, cells.mass, 0.0), 0.0)
    slack = slack * (1.0 + 1e-9) + source.slack + 2.0 * ROUNDING * (abs(origin) + spacing)
    slack += 1e-9 * spacing if bad.any() else 0.0
    bottom = (bottom + source.bottom) * (1.0 - 2.0 * ROUNDING)
    out *= 1.0 - 4.0 * ROUNDING
    return GridMeasure(origin - spacing, spacing, out, source.infinite, slack, bottom).trimmed()


def _moves(mass: Cells, wanted: Cells, spacing: float) -> Cells:
    """Moves of all edges that add about `wanted` to the sums of their groups."""
    total = np.append(wanted, 0.0) + np.append(0.0, wanted)
    weight = np.append(mass, 0.0) + np.append(0.0, mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        move = np.where(weight > 0.0, total / weight, 0.0)
    return np.clip(move, -0.5 * spacing, 0.5 * spacing)


def _near_the_mode(
    cells: CellSums, origin: float, n: int, is_free: bool, is_cut: bool
) -> tuple[float, int, Cells, NDArray[np.bool_]]:
    """Origin, cells, edges of the groups, and which edges are balanced already: those next to the mode.

    There the density may be steep, even singular.  From both sides edges follow one from the other such that every mean
    is at its point; what is left over where they meet depends on where the grid lies, and is made zero if it `is_free`.
    """
    spacing = cells.spacing
    cells.split(_points(origin, spacing, n + 1), 0.0)
    if is_cut:
        cells.mass[0] = 0.0
    mode = int(np.argmax(cells.mass))
    around = cells.mass[max(0, mode - CLOSE) : mode + CLOSE + 1]
    first, last = max(0, mode - _NEAR), min(n, mode + _NEAR)
    flat = around.size == 2 * CLOSE + 1 and around.min() > _SMOOTH * around.max()
    if flat or cells.hits_points():  # nothing is steep, or every atom stays amid its group whatever its last digit
        return origin, n, _points(origin, spacing, n + 2) - 0.5 * spacing, np.zeros(n + 2, dtype=np.bool_)

    density = Density(cells, origin, n, (first, last, mode))

    @cache
    def left_over(phase: float) -> tuple[float, list[float]]:
        parts = _points(origin + (first - phase) * spacing, spacing / PARTS, (last - first + 1) * PARTS + 1)
        return balanced(*density.sums(parts), spacing, first == 0 and not is_cut)

    def cost(phase: float) -> float:
        rest = left_over(phase)[0]
        return rest if rest >= 0.0 else -3.0 * rest

    best = 0.0
    if is_free and around.min() < 0.5 * around.max():
        best = min((i / 8.0 for i in range(8)), key=cost)
        for level in range(4, 12):
            step = 0.5**level
            best = min((best, (best - step) % 1.0, (best + step) % 1.0), key=cost)
    below = np.array(left_over(best)[1])
    if best:
        origin, n = origin - best * spacing, n + 1
    edges = _points(origin, spacing, n + 2) - 0.5 * spacing
    fixed = np.zeros(n + 2, dtype=np.bool_)
    size = min(below.size, n + 2 - first)
    edges[first : first + size] += (0.5 - below[:size]) * spacing
    fixed[first + 1 : first + size - 1] = True
    return origin, n, edges, fixed


def _grid(low: float, high: float, anchor: float, spacing: float) -> tuple[float, int]:
    """Origin at or below `low`, with `anchor` on the grid, and the number of cells up to `high`."""
    origin = anchor + math.floor((low - anchor) / spacing) * spacing
    if origin > low:
        origin -= spacing
    n = max(1, math.ceil((high - origin) / spacing))
    if origin + n * spacing < high:
        n += 1
    if n > _MAX_CELLS:
        raise OutOfReachError(f"spacing = {spacing!r} needs {n} points for losses up to {high:g}; at most {_MAX_CELLS}")
    return origin, n


def _points(origin: float, spacing: float, n: int) -> Cells:
    return np.asarray(origin + spacing * np.arange(n, dtype=np.float64), dtype=np.float64)


def _grid_error(origin: float, n: int, spacing: float) -> float:
    return 2.0 * ROUNDING * (abs(origin) + (n + 1) * spacing)


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
        light = self.mass < _LIGHT
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
