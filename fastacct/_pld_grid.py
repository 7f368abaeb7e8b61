"""Privacy losses rounded to a grid, with a certified direction.

A measure nu of losses bounds mu from above when int (1 - exp(x - l))_+ nu(dl) is at least the same of mu, for every
real x and at x = -infinity (total mass).  The order is kept by sums and by convolution (each factor enters linearly,
with nonnegative weights), hence by composition; it needs no normalisation, so that every error can be paid by a little
mass.  With t = exp(-l) the integrand is convex and decreasing in t, and therefore:

* upper: mass is added, moved to the right, or split between the two ends of its cell such that its mean of t (its
  Q-mass) stays (connect the dots: delta is then matched at every point of the grid);
* lower: mass is dropped, moved to the left, or a group of losses is collected in one point at or left of the point that
  has the mean of t of the group.  The edges of the groups are chosen such that this point is the middle of the group.

Both cost O(spacing^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from fastacct._arrays import Cells
from fastacct._pld_sources import ROUNDING, Atoms, Index, Source

__all__ = ["MAX_CELLS", "GridMeasure", "as_source", "lower_measure", "upper_measure"]

MAX_CELLS: Final = 1 << 23
_HEAVY: Final = 0.3
"""A cell with this part of all mass decides where the grid lies."""


@dataclass(frozen=True, eq=False)
class GridMeasure:
    """Masses of the losses `origin` + i `spacing` (exactly), and of the loss infinity.

    It bounds the true distribution of losses after a shift by `slack`: to the right if it is an upper bound, to the
    left if it is a lower one.
    """

    origin: float
    spacing: float
    mass: Cells
    infinite: float = 0.0
    slack: float = 0.0

    def losses(self) -> Cells:
        """The grid, rounded."""
        return _points(self.origin, self.spacing, self.mass.size)

    def trimmed(self) -> GridMeasure:
        """Without empty points at the ends."""
        used = np.flatnonzero(self.mass > 0.0)
        if not used.size:
            return GridMeasure(self.origin, self.spacing, np.zeros(1), self.infinite, self.slack)
        first, last = int(used[0]), int(used[-1]) + 1
        origin = self.origin + first * self.spacing
        rounding = 2.0 * ROUNDING * (abs(self.origin) + abs(first * self.spacing)) if first else 0.0
        return GridMeasure(origin, self.spacing, self.mass[first:last].copy(), self.infinite, self.slack + rounding)


def as_source(measure: GridMeasure) -> Atoms:
    """The points of a grid as atoms."""
    keep = measure.mass > 0.0
    loss = measure.losses()[keep]
    error = np.full(loss.size, 2.0 * ROUNDING * (abs(measure.origin) + measure.spacing * measure.mass.size))
    return Atoms(loss, error, measure.mass[keep], measure.infinite, measure.slack, measure.spacing)


def upper_measure(source: Source, spacing: float, tail: float) -> GridMeasure:
    """Connect-the-dots discretisation: an upper bound."""
    low, high = source.extent(tail)
    anchor = source.anchor
    cells = _Cells(source, spacing, tail)
    for attempt in range(2):
        origin, n = _grid(low, high, 0.0 if anchor is None else anchor, spacing)
        cells.split(_points(origin, spacing, n + 1), _grid_error(origin, n, spacing))
        heavy = int(np.argmax(cells.mass))
        if attempt or anchor is not None or cells.mass[heavy] < _HEAVY * cells.mass.sum():
            break
        # a bulk narrower than a cell: a point of the grid at its mean keeps it together
        anchor = origin + heavy * spacing - math.log1p(-min(cells.right[heavy] / cells.mass[heavy], 0.5))
    whole = -math.expm1(-spacing)
    per_sum = ROUNDING * (8.0 + cells.longest)
    mass = cells.mass * (1.0 + source.quadrature + per_sum)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(cells.mass > 0.0, cells.right / cells.mass, 0.0) / whole
    part = np.minimum(part * (1.0 + 4.0 * per_sum) + 4.0 * source.quadrature / whole, 1.0)
    points = np.zeros(n + 1)
    points[:-1] = mass * (1.0 - part)
    points[1:] += mass * part
    infinite = source.infinite
    missing, where = source.outside(tail)
    if missing > 0.0:
        if where < origin + (n - 1) * spacing:
            points[n] += missing
        else:
            infinite = (infinite + missing) * (1.0 + 2.0 * ROUNDING)
    slack = source.slack + max(0.0, cells.beyond)
    return GridMeasure(origin, spacing, points * (1.0 + 4.0 * ROUNDING), infinite, slack).trimmed()


def lower_measure(source: Source, spacing: float, tail: float) -> GridMeasure:
    """Groups of losses, each at a point that is not right of its mean: a lower bound."""
    waste, settled, measure = _lower(source, spacing, tail, "cut")
    if not settled:
        other_waste, _, other = _lower(source, spacing, tail, "move")
        measure = other if other_waste < waste else measure
    return measure


def _lower(source: Source, spacing: float, tail: float, remedy: str) -> tuple[float, bool, GridMeasure]:
    """What the lower measure gives away (sum of mass * (mean - point)), whether no remedy was needed, the measure.

    A group with a mean left of its point is mended by moving its edges to the right, then by the `remedy`: to "cut" it
    at the point, or to "move" the whole grid to the left.
    """
    low, high = source.extent(tail)
    cells = _Cells(source, spacing, tail)
    origin, n = _grid(low, high, 0.0 if source.anchor is None else source.anchor, spacing)
    shift, cut = np.zeros(n + 2), np.zeros(n + 2, dtype=np.bool_)
    tolerance = 1e-7 * spacing
    excess, bad = np.zeros(0), np.zeros(0, dtype=np.bool_)
    changed, settled = True, True
    stages = ["align"] * 2 + ["centre"] * 2 + ["mend"] * 2 + [remedy] + ["align", remedy] * 2
    for stage in [*stages, remedy, "done"]:
        if changed:
            points = _points(origin, spacing, n + 2)
            edges = np.where(cut, points, points - 0.5 * spacing + shift)
            edges[0], edges[-1] = min(edges[0], low - spacing), max(edges[-1], high + spacing)
            cells.group(edges, points[:-1], _grid_error(origin, n, spacing))
            with np.errstate(divide="ignore", invalid="ignore"):
                excess = np.where(cells.mass > 0.0, cells.right / cells.mass, np.inf)
            heavy = cells.mass > _HEAVY * cells.mass.sum()
            worst = float(excess[heavy].min(initial=np.inf))
            bad = excess < -tolerance
        changed = False
        if stage == "align" and tolerance < abs(worst) < 0.5 * min(1.0, spacing) and source.anchor is None:
            # a bulk narrower than a cell: a point of the grid at its mean
            origin -= math.log1p(-worst)
            changed = True
        elif stage == "centre" or (bad.any() and stage == "mend"):
            shift += _edge_moves(cells.mass, cells.right, tolerance, stage == "centre")
            changed = True
        elif bad.any() and stage == "move" and worst < -tolerance:
            origin += 1.25 * worst
            changed, settled = True, False
        elif bad.any() and stage in ("cut", "move"):
            cut[:-1] |= bad
            changed, settled = True, settled and stage == "move"
        shift = np.clip(shift, -0.45 * spacing, 0.499 * spacing)
    gain = np.where(np.isfinite(excess), excess, 0.0)
    slack = float(max(0.0, -gain[~bad].min(initial=0.0)))
    # what is left unmended goes to the point before: its losses are right of that
    out = np.zeros(n + 2)
    out[1:] = np.where(bad, 0.0, cells.mass)
    out[:-1] += np.where(bad, cells.mass, 0.0)
    waste = float(np.sum(np.where(bad, spacing, gain) * cells.mass)) + slack
    slack = slack * (1.0 + 1e-9) + source.slack + 2.0 * ROUNDING * (abs(origin) + spacing)
    measure = GridMeasure(origin - spacing, spacing, out * (1.0 - 4.0 * ROUNDING), source.infinite, slack)
    return waste, settled, measure.trimmed()


def _edge_moves(mass: Cells, right: Cells, tolerance: float, both_ways: bool) -> Cells:
    """Moves of the edges that bring every mean to the right of its point: a little, or (`both_ways`) just so.

    An edge moved by s with the density f beside it adds f s spacing/2 to `right` on both its sides.  The system
    y_i + y_(i+1) = -2 right_i / spacing in y = f s is solved by averaging, which leaves alternating errors alone.
    """
    wanted = np.maximum(tolerance * mass, 0.02 * np.abs(right)) - right
    if not both_ways:
        wanted = np.where(right < 0.0, 1.1 * wanted, 0.0)
    weight = np.append(mass, 0.0) + np.append(0.0, mass)
    moved, rest = np.zeros(weight.size), wanted
    for _ in range(2 if both_ways else 1):
        moved += np.append(rest, 0.0) + np.append(0.0, rest)
        rest = wanted - 0.25 * (moved[1:] + moved[:-1])
    if not both_ways:
        moved *= 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0.0, moved / weight, 0.0)


def _grid(low: float, high: float, anchor: float, spacing: float) -> tuple[float, int]:
    """Origin at or below `low`, with `anchor` on the grid, and the number of cells up to `high`."""
    origin = anchor + math.floor((low - anchor) / spacing) * spacing
    if origin > low:
        origin -= spacing
    n = max(1, math.ceil((high - origin) / spacing))
    if origin + n * spacing < high:
        n += 1
    if n > MAX_CELLS:
        raise ValueError(f"spacing = {spacing!r} needs {n} points for losses up to {high:g}; at most {MAX_CELLS}")
    return origin, n


def _points(origin: float, spacing: float, n: int) -> Cells:
    return np.asarray(origin + spacing * np.arange(n, dtype=np.float64), dtype=np.float64)


def _grid_error(origin: float, n: int, spacing: float) -> float:
    return 2.0 * ROUNDING * (abs(origin) + (n + 1) * spacing)


class _Cells:
    """Sums over the nodes of each cell: `mass`, and `right` = sum of mass (1 - exp(point - loss))."""

    def __init__(self, source: Source, spacing: float, tail: float) -> None:
        self.source, self.spacing, self.tail = source, spacing, tail
        self.mass = self.right = np.zeros(0)
        self.beyond = 0.0
        self.longest = 0

    def split(self, edges: Cells, error: float) -> None:
        """Upper sums; losses are at most `beyond` beyond their cell."""
        n = edges.size - 1
        self.mass, self.right, self.beyond, self.longest = np.zeros(n), np.zeros(n), 0.0, 0
        for nodes in self.source.nodes(edges, self.tail):
            above = nodes.loss - edges[nodes.cell] + (nodes.loss_error + error)
            self.beyond = max(self.beyond, float((above - self.spacing).max(initial=0.0)))
            mass = nodes.mass + nodes.mass_error
            self._add(nodes.cell, mass, mass * -np.expm1(-np.clip(above, 0.0, self.spacing)))

    def group(self, edges: Cells, points: Cells, error: float) -> None:
        """Lower sums, errors subtracted."""
        n = points.size
        self.mass, self.right, self.longest = np.zeros(n), np.zeros(n), 0
        size = np.zeros(n)
        for nodes in self.source.nodes(edges, self.tail):
            above = nodes.loss - points[nodes.cell] - (nodes.loss_error + error)
            mass = np.maximum(nodes.mass - nodes.mass_error, 0.0)
            gain = -np.expm1(-above)
            gain *= np.where(gain > 0.0, mass, nodes.mass + nodes.mass_error)
            self._add(nodes.cell, mass, gain)
            size += np.bincount(nodes.cell, np.abs(gain), minlength=n)
        per_sum = ROUNDING * (8.0 + self.longest)
        self.right -= 2.0 * self.source.quadrature * self.mass + per_sum * size
        self.mass *= 1.0 - self.source.quadrature - per_sum

    def _add(self, cell: Index, mass: Cells, right: Cells) -> None:
        n = self.mass.size
        self.mass += np.bincount(cell, mass, minlength=n)
        self.right += np.bincount(cell, right, minlength=n)
        self.longest += int(np.bincount(cell, minlength=n).max(initial=0))
