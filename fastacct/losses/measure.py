"""Privacy losses rounded to a grid, with a certified direction (proof: docs/algorithms/grid.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.record import Record
from fastacct.losses.loss import Loss, OutOfReachError, log_moment

_MOST_POINTS: Final = 1 << 23
_LIGHT: Final = 1e-285
"""Products of smaller masses with small numbers have no relative accuracy."""
_NEAR: Final = 10.0
"""Spacings from an end of a cell that are near to it, as a part of the cell."""


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


def upper_measure(source: Loss, spacing: float, tail: float, floor: float = -math.inf) -> GridMeasure:
    """Connect-the-dots discretisation: an upper bound.  Losses below `floor` are moved up to it."""
    low, high = source.extent(tail)
    low, high = max(low, floor), max(high, floor)
    missing, where = source.outside(tail)
    if where - low <= spacing * 2.0**18:
        high = max(high, where)  # the mass without a node is not infinite
    cells = _cells(source, spacing, tail, (low, high), 1.0)
    mass, share = cells.mass, cells.part
    light = (mass > 0.0) & (mass < _LIGHT)
    share, mass = np.where(light, 1.0, share), np.where(light, mass + 1e-318, mass)
    points = np.append(mass * (1.0 - share), 0.0) + np.append(0.0, mass * share)
    infinite = source.infinite
    if missing > 0.0:
        if where <= high:
            points[-1] += missing
        else:
            infinite = (infinite + missing) * (1.0 + 2.0 * ROUNDING)
    return GridMeasure(cells.origin, spacing, points * (1.0 + 4.0 * ROUNDING), infinite, cells.slack).trimmed()


class Lowered(Record):
    """A lower bound of the losses of one release: delta of `dots` is at most `rest` above the truth in each cell, by
    its lower end; `below` is made of them by moving masses together, which brings it down to the truth in most."""

    below: GridMeasure
    dots: GridMeasure
    rest: Cells
    """What is left above the truth after that."""
    reach: int
    """By how many points masses of `below`, or the true ones, are from those of `dots`, at most."""

    def share_of_rest(self, tilt: float) -> float:
        """What is left anywhere is at most this, times exp(-tilt loss), of E exp(tilt loss) of the dots."""
        used, nonempty = self.dots.mass > 0.0, self.rest > 0.0
        if not nonempty.any():
            return 0.0
        loss = self.dots.losses()
        log_sum = log_moment([(1, loss[used], np.log(self.dots.mass[used]))], tilt).value
        most = float(np.max(np.log(self.rest[nonempty]) + tilt * (loss[nonempty] + self.dots.spacing)))
        return max(math.exp(min(most - log_sum, 700.0)) * (1.0 + 1e-9), 1e-300)

    def raised(self, cells: int) -> GridMeasure:
        """Masses of the dots, and what is left in any cell so near."""
        from scipy.ndimage import maximum_filter1d  # heavy to import

        near = maximum_filter1d(np.pad(self.rest, cells), 2 * cells + 1, mode="constant")
        origin = self.dots.origin - cells * self.dots.spacing
        return replace(self.dots, origin=origin, mass=np.pad(self.dots.mass, cells) + near)


def lower_measure(
    source: Loss, spacing: float, tail: float, floor: float = -math.inf, *, without_rest: bool = False
) -> Lowered:
    """Connect-the-dots discretisation of losses that are a little smaller, and a lower bound made of it.

    Losses below `floor` are moved to minus infinity.  `without_rest`: cells in which the dots' curve stays above the
    true one have Q's mass at their lower end and as much of P's as belongs to it, so that `below` is a bound by itself.
    """
    least, largest = source.extent(tail)
    is_cut = least < floor
    ends = max(least, floor), max(largest, floor) + spacing  # what is at the last point has a cell of its own
    cells = _cells(source, spacing, tail, ends, -1.0, is_cut)
    # so little is not worth its bound
    mass, share = np.where(cells.mass < _LIGHT, 0.0, cells.mass), np.where(cells.part < 1e-12, 0.0, cells.part)
    points, dots, rest, reach = _lowered(mass, share, spacing)
    while without_rest and rest.any():
        kept = (1.0 + share * math.expm1(-spacing)) * (1.0 - 4.0 * ROUNDING)  # of P, so that Q's mass stays
        mass, share = np.where(rest > 0.0, mass * kept, mass), np.where(rest > 0.0, 0.0, share)
        points, dots, rest, reach = _lowered(mass, share, spacing)
    bottom = cells.cut * (1.0 - 2.0 * ROUNDING)
    measures = [
        GridMeasure(cells.origin, spacing, masses * (1.0 - 4.0 * ROUNDING), source.infinite, cells.slack, bottom)
        for masses in (points, dots)
    ]
    return Lowered(measures[0].trimmed(), measures[1], np.append(rest, 0.0), reach)


def _lowered(mass: Cells, part: Cells, spacing: float) -> tuple[Cells, Cells, Cells, int]:
    """Masses of the points that are lowered from the dots, the dots, by how much their curve may still be above the
    true one within each cell, and by how many points masses moved."""
    dots = np.append(mass * (1.0 - part), 0.0) + np.append(0.0, mass * part)
    whole, often = -math.expm1(-spacing), math.exp(-spacing) / -math.expm1(-spacing)
    # by how much the dots' curve is above the true one within a cell, at most, at `place` from its lower end
    remaining = np.maximum(1.0 - part * whole, _LIGHT)
    gap = mass * whole * part * (1.0 if spacing > 1.0 else (1.0 - part) / remaining) * (1.0 + 32.0 * ROUNDING)
    place = part * (1.0 - whole) / remaining
    # a dot is lowered by mass from both of its neighbours: at the end of a cell beyond which there is some
    taken = gap * often + _LIGHT
    low = np.minimum(np.append(0.0, dots[:-2]) / taken, 1.0) * (1.0 - place) * (1.0 - place > _NEAR * spacing)
    high = np.minimum(np.append(dots[2:], 0.0) / taken, 1.0) * place * (place > _NEAR * spacing)
    share = gap / np.maximum(low * (1.0 - place) + high * place, _LIGHT) * (1.0 + 4e-12)  # more than `allowed` takes
    down = np.maximum(np.append(share * low, 0.0), np.append(0.0, share * high))
    less = np.append(down[1:], 0.0) * often + np.append(0.0, down[:-1]) * (often + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        allowed = np.where(less > dots, dots / less, 1.0) * (1.0 - 1e-12)  # no more than there is
    down *= np.minimum(np.append(0.0, allowed[:-1]), np.append(allowed[1:], 0.0))
    gained = down * (2.0 * often + 1.0)
    less = np.append(down[1:], 0.0) * often + np.append(0.0, down[:-1]) * (often + 1.0)
    points = np.maximum(dots + gained - less - 16.0 * ROUNDING * (dots + gained + less), 0.0)
    rest = np.maximum(gap - ((1.0 - place) * down[:-1] + place * down[1:]) * (1.0 - 64.0 * ROUNDING), 0.0)
    return points, dots, rest, 2 if down.any() else 1


def decayed(values: Cells, rate: float) -> Cells:
    """The sums over j >= k of values[j] exp(-rate (j - k)), by doubling."""
    sums, step = values.copy(), 1
    while step < sums.size and step * rate < 745.0:
        sums[:-step] += sums[step:] * math.exp(-rate * step)
        step *= 2
    return sums


class _Cells(NamedTuple):
    """Masses of the cells of a grid, and the part of each that belongs at its upper end so that its mean of exp(-loss)
    stays: all from above, or all from below.  `cut`: mass below the grid."""

    origin: float
    mass: Cells
    part: Cells
    slack: float
    cut: float


def _cells(
    source: Loss, spacing: float, tail: float, ends: tuple[float, float], side: float, is_cut: bool = False
) -> _Cells:
    """Of the losses between two ends; what is below is in the first cell, or cut."""
    anchor = source.anchor
    for attempt in range(4):
        origin, n = _grid(*ends, 0.0 if anchor is None else anchor, spacing)
        error = 2.0 * ROUNDING * (abs(origin) + (n + 1) * spacing)
        # from below, what rounding puts a little before a point is at it
        points = _points(origin, spacing, n + 1) - (8.0 * error if side < 0.0 else 0.0)
        edges = np.append(-1e300, points) if is_cut else points
        mass, excess, slip = source.masses(edges, tail, side)
        heavy = int(np.argmax(mass[is_cut:]))
        # a cell with so much of all mass decides where the grid lies
        if source.anchor is not None or attempt == 3 or not mass[heavy + is_cut] > 0.3 * mass.sum():
            break
        anchor = _mean_near(points, spacing, mass[is_cut:], excess[is_cut:], heavy, is_first=attempt == 0)
    cut, mass, excess = float(mass[0]) * is_cut, mass[is_cut:], excess[is_cut:]
    # a loss is that much from where its cell of the grid lies, and its excess is that of a loss so much larger
    away = error + slip if side > 0.0 else 9.0 * error + 2.0 * slip
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(mass > 0.0, excess / mass, 0.0) + side * (1.5 + 0.5 * side) * away
    part = np.clip(part / -math.expm1(-spacing) * (1.0 + side * 16.0 * ROUNDING), 0.0, 1.0)
    return _Cells(origin, mass, part, away, cut)


def _mean_near(points: Cells, spacing: float, mass: Cells, excess: Cells, heavy: int, *, is_first: bool) -> float:
    """Where a bulk narrower than a cell keeps together: the mean of what is in the heavy cell, or around its end."""
    at = heavy + (not is_first and 2.0 * excess[heavy] > mass[heavy] * -math.expm1(-spacing))
    held, moved = 0.0, 0.0
    for cell in (at,) if is_first else (at - 1, at):
        if 0 <= cell < mass.size and mass[cell] > 0.0:
            held += mass[cell]
            moved += mass[cell] - (mass[cell] - excess[cell]) * math.exp(min((at - cell) * spacing, 700.0))
    return float(points[at]) - math.log1p(-max(min(moved / held, 0.5), -0.5))


def _grid(low: float, high: float, anchor: float, spacing: float) -> tuple[float, int]:
    """Origin at or below `low`, with `anchor` on the grid, and the number of cells up to `high`."""
    origin = anchor + math.floor((low - anchor) / spacing) * spacing
    if origin > low:
        origin -= spacing
    n = max(1, math.ceil((high - origin) / spacing))
    if origin + n * spacing < high:
        n += 1
    if n > _MOST_POINTS:
        raise OutOfReachError(
            f"spacing = {spacing!r} needs {n} points for losses up to {high:g}; at most {_MOST_POINTS}"
        )
    return origin, n


def _points(origin: float, spacing: float, n: int) -> Cells:
    return np.asarray(origin + spacing * np.arange(n, dtype=np.float64), dtype=np.float64)
