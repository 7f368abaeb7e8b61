"""Searches: the least value over a refined grid, and the root of a monotone function in a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells

WIDTH: Final = 1e-9
"""Relative distance of the number returned from one that does not meet the target."""
_WIDEST: Final = (1e-6, 1e12)
_FACTOR: Final = 4.0
_MOST_TRIES: Final = 400


def least(
    at: Callable[[Cells], Cells],
    grid: Cells,
    origin: float,
    worst: float,
    rounds: int = 4,
    is_hopeless: Callable[[float], bool] = lambda value: False,
) -> tuple[float, float]:
    """The least value found on a grid and on refinements of it around the least, and its place.

    Points are spaced evenly in log(x - origin).  NaN counts as `worst`.  Nothing is refined where that is hopeless.
    """
    best, best_place = np.inf, float(grid[0])
    for done in range(rounds + 1):
        if done and is_hopeless(best):
            break
        values = at(grid)
        values = np.where(np.isnan(values), worst, values)
        place = int(np.argmin(values))
        if float(values[place]) < best or best == np.inf:
            best, best_place = float(values[place]), float(grid[place])
        low, high = max(place - 1, 0), min(place + 1, grid.size - 1)
        grid = origin + np.geomspace(grid[low] - origin, grid[high] - origin, 25)
    return best, best_place


def excess(value: float, target: float) -> float:
    """A level for `boundary`, log(value / target): finite, and above 0 exactly where the value is above the target."""
    ratio = value / target if 0.0 < target < math.inf else math.nan
    if not 0.0 < ratio < math.inf:
        return -50.0 if value <= target else 50.0
    return math.log(ratio) or math.copysign(1e-17, value - target) * (value != target)


def boundary(
    level: Callable[[float], float],
    bracket: tuple[float, float] | None,
    wanted: str,
    hint: Callable[[], str] = lambda: "try another bracket",
) -> float:
    """The number at which a monotone level passes 0, on the side where it is at most 0.

    Without a bracket the search goes outwards from 1; a bracket of ints means whole numbers.
    """
    level = cache(level)
    low, high = outwards(level) if bracket is None else bracket
    if max(level(low), level(high)) <= 0.0:
        return high if level(high) >= level(low) else low  # the end that spends more
    if min(level(low), level(high)) > 0.0:
        raise ValueError(f"{wanted} is met neither at {low!r} nor at {high!r}; {hint()}")
    if low == 0.0 and isinstance(low, float):
        low, high = _away_from_zero(level, high)
    return _search(level, low, high)


def crossing(bounds: Callable[[float], tuple[float, float]], target: float, top: float) -> tuple[float, float]:
    """Where a function in [0, top] falls to a target > 0: ends seen to be on their sides, the last one perhaps `top`.

    The lower bound is at least the target at the first end (or this is 0), the upper one at most that at the last.
    """
    from scipy.optimize import brentq  # heavy to import

    def level(at: float) -> float:
        middle = 0.5 * sum(bounds(at))
        return (math.log(middle) if middle > 0.0 else -750.0) - math.log(target)

    at = 0.0 if level(0.0) <= 0.0 else top
    if at and level(top) < 0.0:
        at = float(
            brentq(level, 0.0, top, xtol=1e-300, rtol=1e-14, maxiter=_MOST_TRIES, disp=False)
        )  # what follows checks
    ends = [0.0, top]
    for side in (0, 1):
        pad = 1e-13 * at or 1e-40 * top
        while 0.0 < (x := at + pad if side else at - pad) < top:
            if bounds(x)[1] <= target if side else bounds(x)[0] >= target:
                ends[side] = x
                break
            pad *= 4.0
    return ends[0], ends[1]


def outwards(level: Callable[[float], float]) -> tuple[float, float]:
    """A bracket around 1, or the last one tried: the extremes are slow to evaluate, and seldom needed."""
    low, high = 1.0, _FACTOR
    falls = level(low) >= level(high)
    while (level(low) > 0.0) == (level(high) > 0.0) and _WIDEST[0] < low and high < _WIDEST[1]:
        too_much = level(low) > 0.0  # everywhere: on to where it falls
        low, high = (high, high * _FACTOR) if too_much == falls else (low / _FACTOR, low)
    return low, high


def _away_from_zero(level: Callable[[float], float], high: float) -> tuple[float, float]:
    """Orders of magnitude down, to a positive bracket."""
    while high > 1e-300:
        low = high * 1e-3
        if (level(low) > 0.0) != (level(high) > 0.0):
            return low, high
        high = low
    return 0.0, high


def _search(level: Callable[[float], float], x: float, y: float) -> float:
    """Chandrupatla's method on the logarithm; the end of the last bracket that meets the target."""
    is_whole, log = isinstance(x, int), x > 0.0

    def place(value: float) -> float:
        return math.log(value) if log else float(value)

    def number(u: float) -> float:
        value = math.exp(u) if log else u
        return int(min(max(round(value), min(x, y) + 1), max(x, y) - 1)) if is_whole else value

    a, b, fa, fb = place(x), place(y), level(x), level(y)
    c, fc, share = a, fa, 0.5
    for _ in range(_MOST_TRIES):
        largest = max(abs(x), abs(y))
        tolerance = 0.4 if is_whole else 0.25 * WIDTH * largest
        tolerance /= largest if log else 1.0
        if abs(x - y) <= (1 if is_whole else 0.5 * WIDTH * largest):
            break
        least = min(tolerance / abs(b - a), 0.5)
        z = number(a + min(max(share, least), 1.0 - least) * (b - a))
        if z in (x, y):
            break
        if (level(z) > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb, y = b, fb, a, fa, x
        a, fa, x = place(z), level(z), z
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        share = 0.5
        if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return x if level(x) <= 0.0 else y
