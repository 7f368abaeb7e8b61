"""Searches: the least value over a refined grid, and the root of a monotone function in a bracket."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import TINY, Cells, Domain, as_number
from fastacct.core.work import Done, counted

WIDTH: Final = 1e-9
"""Relative distance of the number returned from one that does not meet the target."""
WIDEST: Final = (1e-6, 1e12)
_MOST_TRIES: Final = 400
Search = tuple[tuple[float, float] | None, float, float]
"""Ends, a start and the slope there."""
ORDERS: Final = np.concatenate([1.0 + np.geomspace(1e-7, 0.5, 60), np.geomspace(1.52, 1e7, 140)])
"""Where a search over orders of divergences begins."""


def least(
    at: Callable[[Cells], Cells],
    grid: Cells,
    origin: float,
    worst: float,
    rounds: int = 14,
    is_hopeless: Callable[[float], bool] = lambda value: False,
    enough: float = 0.0,
) -> tuple[float, float]:
    """The least value found on a grid and next to where parabolas through the least three values put it; its place.

    Points are spaced evenly in log(x - origin).  NaN counts as `worst`.  The search ends where it is hopeless, or where
    the values beside the least are above it by less than `enough` of it: about a quarter of that is left to gain.
    """
    place, value = np.log(grid - origin), np.empty(0)
    new, before, is_even = place, math.inf, False
    for done in range(rounds + 1):
        found = at(grid if done == 0 else origin + np.exp(new))
        value = np.append(value, np.where(np.isnan(found), worst, found))
        if done:
            place = np.append(place, new)
            order = np.argsort(place, kind="stable")
            place, value = place[order], value[order]
        i = int(np.argmin(value))
        best, near = float(value[i]), slice(max(i - 1, 0), i + 2)
        is_wide = 0.5 * value[near].max() - 0.5 * max(min(best, 1e300), -1e300) > 0.5 * enough * min(abs(best), 1.0)
        if is_hopeless(best) or best >= worst or not is_wide:
            break
        width = float(np.ptp(place[near]))
        is_even, before = is_even or width > 0.3 * before, width
        above = 0.5 * np.minimum(value[near], 1e300) - 0.5 * min(best, 1e300)
        above /= max(float(above.max()), 1e-300)  # only their ratios matter, and sums of two may overflow
        new = np.setdiff1d(_beside(place[near], above, is_even=is_even), place)
        if not new.size:
            break
    return best, float(origin + np.exp(place[i]))


def _beside(place: Cells, above: Cells, *, is_even: bool) -> Cells:
    """Where to look between two or three places, of which the values are so much above the least of them: on a lattice,
    so that searches for other targets ask the same."""
    low, high = float(place[0]), float(place[-1])
    step = 2.0 ** math.floor(math.log2(0.1 * (high - low)))
    if place.size == 3 and not is_even and above[0] + above[2] > 0.0:
        left, right = place[1] - low, high - place[1]
        bend = (above[0] / left + above[2] / right) / (left + right)
        vertex = place[1] - 0.5 * (above[2] / right - bend * right) / bend
        near = (np.rint(vertex / step) + np.array([-1.0, 0.0, 1.0])) * step
        return np.asarray(near[(near > low) & (near < high)])
    # of each interval by itself: of both together a point may be the known one, but for rounding
    return np.concatenate([np.linspace(*ends, 18 - 4 * place.size)[1:-1] for ends in itertools.pairwise(place)])


def excess(value: float, target: float) -> float:
    """A level for `boundary`, log(value / target): finite, and above 0 exactly where the value is above the target."""
    ratio = value / target if 0.0 < target < math.inf else math.nan
    if not 0.0 < ratio < math.inf:
        return -50.0 if value <= target else 50.0
    return math.log(ratio) or math.copysign(1e-17, value - target) * (value != target)


def straightened(
    model: Callable[[Cells], Cells], target: float, slope: float
) -> tuple[Callable[[float], float], float]:
    """From a level of `excess` to the logarithm of what a model needs for the target, over what it needs for the value.

    That is nearly straight in the logarithm of the number where the function is much like the model, and its slope is
    -1.  Near 0, where the model has few digits, it is on a parabola.  A model that says 0 does not know: levels stay
    as they are.  Also the slope.
    """
    near = 0.05
    most, middle, least = known = model(target * np.exp([-near, 0.0, near])).tolist()
    if not min(known) > 0.0:
        return float, slope
    fewer, more = math.log(most / middle), math.log(middle / least)
    steep, bend = 0.5 * (fewer + more) / near, 0.5 * (more - fewer) / near**2
    if not steep > 2.0 * abs(bend) * near:
        return float, slope

    def straight(value: float) -> float:
        if abs(value) <= near:
            return value * (steep + bend * value)
        there = float(model(np.array(target * math.exp(max(-20.0, min(value, 20.0))))))
        return math.copysign(math.log(middle / there), value) if 0.0 < there != middle else value

    return straight, -1.0


def sketched(
    level: Callable[[float], float], bracket: tuple[float, float] | None, start: float, slope: float
) -> tuple[float, float] | None:
    """About where a smooth level that proves nothing passes 0, and its slope there, by inverse interpolation.

    Levels of 20 and more are none.  None where it is not found soon, or not between the ends; these are at least 0.
    """
    low, high = bracket or WIDEST
    scale, most = _Scale(low, high, isinstance(low, int), WIDTH), math.log(4.0)
    points, x = dict[float, float](), scale.number(scale.place(start))
    for done in range(14):
        place, value = scale.place(x), level(x)
        if place in points or not abs(value) < 20.0:
            break
        points[place] = value
        root, error, slope = _next(points, slope, most * min(1 << done, 4))
        x = scale.number(root)
        if error < 3e-10 or (scale.is_whole and scale.place(x) in points):
            return x, slope
    return None


def _next(points: dict[float, float], slope: float, most: float) -> tuple[float, float, float]:
    """Where levels pass 0, at most so far from the nearest one, how far off that may be, and the slope."""
    near, *others = sorted(points, key=lambda place: abs(points[place]))
    if others and abs(others[0] - near) > 1e-7:
        slope = (points[others[0]] - points[near]) / (others[0] - near) or slope
    root, error = near - points[near] / slope, math.inf
    better, doubt = _root(list(points.items()), near - most, near + most)
    if doubt > 0.0:  # three and more of them agree
        root, error = better, doubt
    return min(max(root, near - most), near + most), min(error, 3.0 * abs(points[near])), slope


def confirmed(level: Callable[[float], float], x: float, slope: float) -> float | None:
    """A number about x at which a level is at most 0 and not below -6e-9; None where it is far from what was sketched,
    and for whole numbers.  Certified levels are up to some 1e-9 above sketches."""
    value = 0.0
    for _ in range(0 if isinstance(x, int) else 4):
        x *= math.exp(-(value + 2.5e-9) / slope)
        value = level(x)
        if -6e-9 < value <= 0.0:
            return x
        if not abs(value) < 1e-4:
            break
    return None


def boundary(
    level: Callable[[float], float],
    bracket: tuple[float, float] | None,
    wanted: str,
    hint: Callable[[], str] = lambda: "try another bracket",
    start: float | None = None,
    slope: float = -1.0,
    nowhere: float | None = None,
    width: float = WIDTH,
) -> float:
    """The number at which a monotone level passes 0, on the side where it is at most 0.

    A bracket of ints means whole numbers.  The search goes outwards from the start, by default from the least whole
    number, or without a bracket from 1; the ends are asked only where it comes there.  Where no number is on the other
    side, the last one that is met, or `nowhere`, or a ValueError.  `slope` is roughly that of the level over the
    logarithm of the number.
    """
    level, (low, high) = cache(level), bracket or WIDEST
    scale = _Scale(low, high, isinstance(low, int), width)
    with counted() as done:
        a, b = _ends(level, scale, bracket, start, slope)
        if (level(a) > 0.0) != (level(b) > 0.0):
            return _inwards(level, scale, a, b, done)
    if not level(a) > 0.0:
        a, b = sorted((a, b)) if slope > 0.0 else (a, b)  # of two that spend as much the larger, if more spends more
        return b if level(b) >= level(a) else a  # the end that spends more
    if nowhere is None:
        raise ValueError(f"{wanted} cannot be met: {hint()} (it is met neither at {min(a, b)!r} nor at {max(a, b)!r})")
    return nowhere


def _ends(
    level: Callable[[float], float],
    scale: _Scale,
    bracket: tuple[float, float] | None,
    start: float | None,
    slope: float,
) -> tuple[float, float]:
    """Two numbers about the boundary: those of a bracket, or where a search outwards comes to."""
    if start is None and bracket is not None and not scale.is_whole and scale.low != 0.0:
        return bracket
    begin = start or (1.0 if bracket is None else scale.low if scale.is_whole else scale.high)
    return _outwards(level, scale, scale.number(scale.place(begin)), slope, 4.0 if start is None else 2.0)


def as_bracket(bracket: object) -> tuple[float, float]:
    """Ends of a search, of whole numbers where both are."""
    if isinstance(bracket, str | bytes) or not isinstance(bracket, Collection) or len(bracket) != 2:
        raise TypeError(f"bracket must be (low, high), not {bracket!r}")
    low, high = (as_number("bracket", end, Domain(-math.inf, math.inf)) for end in bracket)
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"bracket = {bracket!r} must be finite and increasing")
    return (int(low), int(high)) if all(isinstance(end, int | np.integer) for end in bracket) else (low, high)


def settled(level: Callable[[float], float], near: tuple[float, float] | None, search: Search, nowhere: float) -> float:
    """Where a level passes 0: where it was sketched, if that is confirmed."""
    ends, start, slope = search
    if near and (found := confirmed(level, *near)) is not None:
        return found
    start, slope = near or (start, slope)
    return boundary(level, ends, "the target", start=start, slope=slope, nowhere=nowhere)


def crossing(
    bound: Callable[[float], float], target: float, top: float, *, is_upper: bool, near: float = math.nan
) -> float:
    """Where a bound in [0, top] falls to a target > 0: a number at which it was seen to be at most that, or at least
    that, where it is a lower one; perhaps an end.  `near`: where it does, nearly, if that is known.
    """
    seen, sign = cache(bound), 1.0 if is_upper else -1.0

    def level(at: float) -> float:
        value = seen(at)
        return (math.log(value) if value > 0.0 else -750.0) - math.log(target)

    at, pad = near, sign * 1e-13 * near
    if not (0.0 < at + pad < top and abs(seen(at + pad) - target) < 1e-8 * target):
        at = _crossed(level, top)
        pad = sign * (1e-13 * at or 1e-40 * top)
    while 0.0 < (x := at + pad) < top:
        if sign * seen(x) <= sign * target:
            return x
        pad *= 4.0
    return top if is_upper else 0.0


def _crossed(level: Callable[[float], float], top: float) -> float:
    """Where a falling level is 0, nearly, or the end that is nearer to that."""
    from scipy.optimize import brentq  # heavy to import

    if level(0.0) <= 0.0:
        return 0.0
    if level(top) >= 0.0:
        return top
    return float(brentq(level, 0.0, top, xtol=1e-300, rtol=1e-14, maxiter=_MOST_TRIES, disp=False))


class _Scale(NamedTuple):
    """Numbers from low to high as places on a line: their logarithms, if none is negative."""

    low: float
    high: float
    is_whole: bool
    width: float

    def place(self, x: float) -> float:
        if self.low < 0.0:
            return x
        return math.log(max(x, 0.5 if self.is_whole else TINY))

    def number(self, place: float) -> float:
        """The number at a place; an end for a place that is further out."""
        if place >= self.place(self.high):
            return self.high
        x = place if self.low < 0.0 else math.exp(place)
        x = 0.0 if self.low == 0.0 and x <= TINY else x
        return min(max(round(x) if self.is_whole else x, self.low), self.high)

    def beyond(self, x: float, step: float, up: bool) -> float:
        """The number that is a step away, or the next whole one; an end where that is further out."""
        y = self.number(self.place(x) + (step if up else -step))
        return min(max(x + (1 if up else -1), self.low), self.high) if y == x else y

    def between(self, x: float, a: float, b: float) -> float:
        """A number between two others, of whole ones another one."""
        return min(max(x, min(a, b) + 1), max(a, b) - 1) if self.is_whole else x

    def is_enough(self, a: float, b: float, width: float) -> bool:
        """Whether a bracket whose places are so far apart is as narrow as it must be."""
        return width <= 0.5 * self.tolerance(max(abs(a), abs(b))) or (self.is_whole and abs(a - b) <= 1)

    def tolerance(self, x: float) -> float:
        """How near two places around the boundary must be."""
        most = max(self.width * abs(x), 1.0 if self.is_whole else 0.0)
        return most / (1.0 if self.low < 0.0 else max(abs(x), TINY))


def _outwards(
    level: Callable[[float], float], scale: _Scale, x: float, slope: float, reach: float
) -> tuple[float, float]:
    """Numbers about the boundary, by the slope of the last two levels; the first and an end, if there are none.

    The first step is by a factor of `reach` at most, the next ones may be twice as long each.
    """
    first, most = x, math.log(reach) if scale.low >= 0.0 else 0.25 * (scale.high - scale.low)
    up = (level(x) > 0.0) == (slope < 0.0) if scale.low < x < scale.high else x == scale.low
    step = min(1.02 * abs(level(x) / slope), most)  # a little beyond, so that both are near
    for done in range(_MOST_TRIES):
        step = max(step, 0.4 * scale.tolerance(x))
        y = scale.beyond(x, step, up)
        if (level(y) > 0.0) != (level(x) > 0.0):
            return x, y
        if y in (scale.low, scale.high):
            return first, y
        change, most = level(y) - level(x), 2.0 * most
        slope = change / (scale.place(y) - scale.place(x))
        if abs(change) > 1e-5:  # less may be the widths of their intervals
            up = (level(y) > 0.0) == (slope < 0.0)
        least = 2.0 * step if done > 1 else 0.0  # by the slope it only comes nearer
        x, step = y, max(min(1.02 * abs(level(y) / slope), most) if slope else most, least)
    return first, x


def _inwards(level: Callable[[float], float], scale: _Scale, a: float, b: float, before: Done) -> float:
    """The end that meets the target of a bracket as narrow as it must be.

    Where the last levels put the boundary, and a little further, so that both ends come near; the middle where
    neither the bracket nor the nearer level becomes smaller.
    """
    points = [(scale.place(x), level(x)) for x in (a, b)]
    begun = sum(before.values())
    sizes: list[float] = []
    with counted() as done:

        def is_time(_: int) -> bool:
            """Whether there is time for one more: some seconds for all."""
            spent = sum(done.values())
            return begun + spent + spent / max(len(points) - 2, 1) < 7e9

        for _ in itertools.takewhile(is_time, range(_MOST_TRIES)):
            a, b = sorted((a, b), key=lambda x: abs(level(x)))  # the nearer one first
            low, high = sorted((scale.place(a), scale.place(b)))
            width, tolerance = high - low, scale.tolerance(max(abs(a), abs(b)))
            if scale.is_enough(a, b, width):
                break
            sizes.append(width * abs(level(a)))
            place = 0.5 * (low + high)
            if len(sizes) <= 3 or sizes[-1] < 0.2 * sizes[-4]:
                place, error = _root(points, low, high)
                room = scale.place(b) - place
                place += math.copysign(min(_beyond(error, tolerance), 0.5 * abs(room)), room)
            x = scale.between(scale.number(place), a, b)
            if x in (a, b):
                break
            points.append((scale.place(x), level(x)))
            a, b = (x, b) if (level(x) > 0.0) == (level(a) > 0.0) else (a, x)
    return min(a, b, key=level)


def _beyond(error: float, tolerance: float) -> float:
    """How far beyond a root to look that is off by so much: most are off by less where that is little."""
    return max(error if error > 10.0 * tolerance else 0.0, 0.2 * tolerance)


def _root(points: list[tuple[float, float]], low: float, high: float) -> tuple[float, float]:
    """Where levels pass 0 between two places, by inverse interpolation of those nearest to 0, and how far off it is."""
    told = (point for point in points if abs(point[1]) < 50.0)  # others say no more than their sign
    near = sorted(told, key=lambda point: abs(point[1]))[:4]
    found, error, last, column = 0.5 * (low + high), 0.0, math.inf, list[float]()
    for k, (place, value) in enumerate(near):
        row = _neville(place, value, near[:k], column)
        step = abs(row[-1] - column[-1]) if column else 0.0
        if column and not (low <= row[-1] <= high and step < last):
            break
        if column:
            found, error, last = row[-1], step * min(1.0, step / last), step
        column = row
    return found, error


def _neville(place: float, value: float, near: list[tuple[float, float]], column: list[float]) -> list[float]:
    """The next row of inverse interpolation, from the points before and the row that they gave."""
    row = [place]
    for (_, other), before in zip(reversed(near), column, strict=True):
        row.append(row[-1] + (row[-1] - before) * value / (other - value) if other != value else math.nan)
    return row
