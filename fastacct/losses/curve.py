"""A privacy loss of which deltas are known, as atoms: a pair above it and one below (proof: docs/algorithms/nested.md).

H(x) = sup over events of P - x Q is convex.  Deltas of "remove" are H right of 1, those of "add" left of it, where
x H(1/x) is the curve of the pair (Q, P).  Chords between points of H lie above it; where the chords of the neighbours
of an interval meet, prolonged, they lie below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.relations import DIRECTIONS, Direction
from fastacct.core.work import counted, kept
from fastacct.losses.loss import Apart, Atoms, Bracket, Pair, refuse_where
from fastacct.losses.pieces import log_sample

Deltas = Callable[[Direction, Cells], tuple[Cells, Cells]]
"""Bounds of the deltas of one direction."""
_Bounds = dict[Direction, tuple[Cells, Cells, Cells]]
"""Of each direction epsilons, and bounds of the deltas there."""


class _Half(NamedTuple):
    """A curve on one side of 1: its corners, as losses from 0 on, its heights there, and how often each loss occurs
    under the distribution that has it less often."""

    loss: Cells
    height: Cells
    mass: Cells

    def at(self, loss: Cells) -> Cells:
        """The height at losses."""
        k = np.clip(np.searchsorted(self.loss, loss, side="right") - 1, 0, self.loss.size - 2)
        share = np.expm1(loss - self.loss[k]) / np.expm1(self.loss[k + 1] - self.loss[k])
        return np.asarray(self.height[k] + (self.height[k + 1] - self.height[k]) * np.minimum(share, 1.0))


class _Wanted(NamedTuple):
    """What a question needs to know of a release: of one direction its log-moment at a tilt, of losses up to a cap, to
    about 1 / `share`."""

    direction: Direction
    tilt: float
    cap: float
    share: float


class Curve(Apart):
    """A pair by few points of its curve, `soon`, which show where a question needs others, and by many, where anything
    else is asked of it."""

    soon = property(lambda self: self._soon)
    above = property(lambda self: self._made().above)
    below = property(lambda self: self._made().below)

    def __init__(self, soon: Apart, made: Callable[[], Apart]) -> None:
        self._soon, self._made, self.is_ordered = soon, made, False

    def each(self, make: Callable[[Pair, float], Pair], rate: float) -> Apart:
        """Another pair of both."""
        return Curve(self._soon.each(make, rate), kept(1)(lambda: self._made().each(make, rate)))


class _Few(Apart):
    """A pair by few points, or the sample of one at a rate; `near` makes one by the points that a question needs."""

    def __init__(self, known: Apart, made: Callable[[_Wanted, float], Apart], rate: float) -> None:
        super().__init__(known.above, known.below)
        self._made, self._rate = made, rate

    def each(self, make: Callable[[Pair, float], Pair], rate: float) -> Apart:
        """Another pair of it."""
        return _Few(super().each(make, rate), lambda *asked: self._made(*asked).each(make, rate), self._rate * rate)

    def near(self, direction: Direction, tilt: float, cap: float, share: float) -> Pair:
        """By the points that a question needs."""
        return self._made(_Wanted(direction, tilt, cap, share), self._rate)


def curve_of(deltas: Deltas) -> Curve:
    """The pair with these deltas, by few points first."""
    rough = _rough(deltas)
    few = _of_bounds(rough.bounds)

    @kept(2)
    def near(wanted: _Wanted, rate: float) -> Apart:
        return _finer(deltas, rough, _near(rough, few, wanted, rate))

    return Curve(_Few(few, near, 1.0), kept(1)(lambda: _finer(deltas, rough, _everywhere(rough, 36864))))


def of_deltas(deltas: Deltas, points: int = 36864) -> Apart:
    """The pair with these deltas, from above and from below, by so many points of both sides together."""
    rough = _rough(deltas)
    return _finer(deltas, rough, _everywhere(rough, points))


class _Rough(NamedTuple):
    """Few bounds of deltas, how wide they are, and the work of one."""

    bounds: _Bounds
    wide: float
    work: float


def _rough(deltas: Deltas, least: float = 1e-26) -> _Rough:
    """Until they are below the least one; few in the last third, where lines take long and delta is next to nothing."""
    bounds, wide, work = {}, 0.0, 0.0
    for direction in DIRECTIONS["add_remove"]:
        end = _first_below(deltas, direction, least)
        epsilon = end * np.union1d(np.geomspace(5e-3, 1.0, 64), np.linspace(0.0, 0.7, 64))
        with counted() as done:
            low, high = _falling(*deltas(direction, epsilon))
        bounds[direction] = epsilon, low, high
        work += sum(done.values()) / epsilon.size
        wide = max(wide, float(np.median(high - low) / max(np.median(high), 1e-300)))
    return _Rough(bounds, wide, work)


def _everywhere(rough: _Rough, points: float, least: float = 1e-26) -> dict[Direction, Cells]:
    """How many points are to be left of each rough one: as dense as a power of delta, for samples that are composed
    often, and a third as many in even steps of its logarithm, for few of them at any delta.  Fewer where deltas are not
    known well: there it costs much to know them little better; and where they would take more than seconds."""
    fewer = max(1.0 + 0.8 * (rough.wide > 1e-9) + 3.0 * (rough.wide > 1e-8), 0.5 * rough.work * points / 1e10)
    counts = {}
    for direction, (epsilon, low, high) in rough.bounds.items():
        log_delta = np.log(np.maximum(high, least))
        dense = np.exp(0.16 * log_delta - 3.0 * (high - low > 1e-7 * high))
        near = np.append(0.0, np.cumsum((dense[1:] + dense[:-1]) * np.diff(epsilon)))
        counts[direction] = np.stack([near, log_delta[0] - log_delta])
    share = np.array([points, points / 3]) / sum(count[:, -1] for count in counts.values()) / fewer
    return {direction: share @ count for direction, count in counts.items()}


def _near(rough: _Rough, few: Apart, wanted: _Wanted, rate: float) -> dict[Direction, Cells]:
    """The same where points change a moment of the sample least."""
    sign = 1.0 if wanted.direction == "remove" else -1.0
    tilt = 0.5 + sign * (0.5 + wanted.tilt)
    loss, mass = few.above.remove.upper.points()
    order = np.argsort(loss, kind="stable")
    loss, mass = loss[order], mass[order]
    log_mass, drawn = np.log(np.maximum(mass, 1e-300)), sign * np.minimum(sign * log_sample(rate, loss), wanted.cap)
    value = log_mass - loss + tilt * drawn
    whole = value.max() + math.log(np.exp(value - value.max()).sum())
    # the moment changes by the distance of points squared, the mass there, and this
    each = np.exp(log_mass + loss + (tilt - 2.0) * drawn - whole) * (abs(tilt * (tilt - 1.0)) * rate * rate)
    count = np.cumsum(np.cbrt(each * np.gradient(loss) ** 2))
    points = math.sqrt(0.3 * wanted.share * count[-1] ** 3)
    refuse_where(not points < 49_000.0, "as many points are needed as are known")
    count *= min(points, 1e10 / max(rough.work, 1.0)) / count[-1]
    sides = {"remove": 1.0, "add": -1.0}
    return {way: sides[way] * np.interp(sides[way] * one[0], loss, count) for way, one in rough.bounds.items()}


def _finer(deltas: Deltas, rough: _Rough, left: dict[Direction, Cells]) -> Apart:
    """The pair by more points in even steps between the rough ones, of which so many are to be left of each."""
    bounds: _Bounds = {}
    for direction, (epsilon, *known) in rough.bounds.items():
        more = np.diff(left[direction]).astype(int)
        number = np.arange(more.sum()) - np.repeat(np.cumsum(more) - more, more) + 1.0
        between = np.repeat(epsilon[:-1], more) + np.repeat(np.diff(epsilon) / (more + 1.0), more) * number
        order = np.argsort(np.append(epsilon, between), kind="stable")
        found = deltas(direction, between) if between.size else (between, between)
        low, high = (np.append(*both)[order] for both in zip(known, found, strict=True))
        bounds[direction] = np.append(epsilon, between)[order], *_falling(low, high)
    return _of_bounds(bounds)


def _of_bounds(deltas_of: _Bounds) -> Apart:
    """The same, by bounds of deltas; beyond them a loss is infinite from above, and nothing from below."""
    start = max(high[0] for _, _, high in deltas_of.values())
    above = [(epsilon, np.append(start, high[1:])) for epsilon, _, high in deltas_of.values()]
    below = [_below(*one) for one in deltas_of.values()]
    start = min(height[0] for _, height in below)
    return Apart(
        _pair(above, deltas_of, is_upper=True),
        _pair([(loss, np.append(start, height[1:])) for loss, height in below], deltas_of, is_upper=False),
    )


def _first_below(deltas: Deltas, direction: Direction, level: float) -> float:
    """An epsilon at which delta is below a level, the first of some."""
    tried, end = np.geomspace(1e-9, 300.0, 96), 0
    first = tried.size
    while first - end > 1:
        middle = (end + first) // 2
        is_below = deltas(direction, tried[middle : middle + 1])[1][0] < level
        end, first = (end, middle) if is_below else (middle, first)
    refuse_where(first == tried.size, "losses are too large for their curve")
    return float(tried[first])


def _falling(low: Cells, high: Cells) -> tuple[Cells, Cells]:
    """Bounds at rising epsilons, of which each holds for those on its side; refused where most are wide."""
    low, high = np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)
    # a few may be further apart
    refuse_where(not np.median(high - low) <= 1e-7 * np.median(high), "deltas are not known well enough")
    return low, high


def _below(epsilon: Cells, low: Cells, high: Cells) -> tuple[Cells, Cells]:
    """Points whose chords are below the curve: where the chords of the neighbours of an interval meet, prolonged."""
    apart = np.diff(epsilon)
    width = np.expm1(apart)  # over exp(epsilon) at the lower end
    before, left, right, after = high[:-3], low[1:-2], low[2:-1], high[3:]
    # of chords, by how far they are prolonged over exp(epsilon) at the lower end of the interval
    fall, flat = np.exp(apart[:-2]) / width[:-2], np.exp(-apart[1:-1]) / width[2:]
    down, up, width = (before - left) * fall, (right - after) * flat, width[1:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.clip(np.nan_to_num((left - right - up * width) / (down - up), nan=0.5), 0.0, width)
    loss = epsilon[1:-2] + np.log1p(place)
    x = np.clip(np.expm1(loss - epsilon[1:-2]), 0.0, width)
    rounded = 32.0 * ROUNDING * (before * (1.0 + x * fall) + right * (1.0 + (width - x) * flat))
    height = np.minimum(left - down * x, right + up * (width - x)) - rounded  # the same, but for rounding
    more = (low[1] - high[2]) / width[0] * -math.expm1(-epsilon[1])
    first = low[1] * (1.0 - 8.0 * ROUNDING) + max(0.0, more) * (1.0 - 1e-9)
    end = int(np.argmax(np.append(height <= 0.0, True)))
    refuse_where(not (first > 0.0 and end > 1), "nothing is known of the curve from below")
    loss, height = loss[:end], np.append(height[: end - 1], 0.0)
    loss, at = np.unique(np.append(0.0, loss), return_index=True)  # next to a point both of its intervals may meet
    return loss, np.minimum.reduceat(np.append(first, height), at)


def _half(loss: Cells, height: Cells) -> _Half:
    """The lower convex hull of points: the largest convex curve below them."""
    while True:
        slope = np.diff(height) / np.expm1(np.diff(loss))  # over exp(loss) at the lower end
        is_corner = np.append(True, np.append(slope[1:] * np.exp(-np.diff(loss)[:-1]) > slope[:-1], True))
        if is_corner.all():
            break
        loss, height = loss[is_corner], height[is_corner]
    slope = np.append(slope * np.exp(-loss[:-1]), 0.0)
    return _Half(loss, height, np.append(0.0, np.diff(slope)))


def _pair(points: list[tuple[Cells, Cells]], known: _Bounds, *, is_upper: bool) -> Pair:
    """The pair whose curve has these corners, scaled by what rounding may have taken off or added."""
    halves, factor, pad = [], 1.0, 2.3e-11  # for the rounding of sums of so many masses
    for (loss, height), (epsilon, low, _) in zip(points, known.values(), strict=True):
        half = _half(loss, height)
        more = np.cumsum(half.mass[:0:-1])[::-1] * np.exp(half.loss[:-1]) * np.expm1(np.diff(half.loss))
        # the heights that the masses have: sums of positive terms
        summed = half._replace(height=np.append(np.cumsum(more[::-1])[::-1], 0.0) + half.height[-1])
        if is_upper:
            factor = max(factor, float(np.max(half.height[:-1] / np.maximum(summed.height[:-1], 1e-300))))
        else:
            for at, most in ((epsilon, low), (loss, height)):
                inside = at < half.loss[-1]
                factor = min(factor, float(np.min(most[inside] / np.maximum(summed.at(at[inside]), 1e-300))))
        halves.append(summed)
    factor *= 1.0 + (pad if is_upper else -pad)
    right, left = halves
    rare, back = factor * right.mass[1:], factor * left.mass[:0:-1]
    often, other = rare * np.exp(right.loss[1:]), back * np.exp(left.loss[:0:-1])
    infinite, never = factor * float(right.height[-1]), factor * float(left.height[-1])
    mass_at_zero = 1.0 - math.fsum([infinite, *often, *back])
    refuse_where(
        not mass_at_zero > 1e-8, "too little of a loss is next to 0"
    )  # it has to be so much more than rounding
    loss = np.concatenate([-left.loss[:0:-1], [0.0], right.loss[1:]])
    p, q = np.concatenate([back, [mass_at_zero], often]), np.concatenate([other, [mass_at_zero], rare])
    # masses are good to some units, but what is left for the loss 0: its masses under both are equal but for this
    error, off = np.zeros(loss.size), 8.0 * ROUNDING * (2.0 + np.abs(loss))
    apart = abs(float(right.height[0]) - float(left.height[0])) + pad
    error[left.loss.size - 1], off[left.loss.size - 1] = 2.0 * apart / mass_at_zero, 2.0 * apart / mass_at_zero
    sides = []
    for losses, mass, gone in ((loss, p, infinite), (-loss, q, never)):
        one, other_side = (Atoms(losses, error, mass * (1.0 + side * off), infinite=gone) for side in (1.0, -1.0))
        sides.append(Bracket(one, other_side))
    return Pair(*sides)
