"""A bracketing root finder in arbitrary precision."""

from __future__ import annotations

from collections.abc import Callable

from mpmath import mp, mpf

from .certify import NotConverged


def root(f: Callable[[mpf], mpf], low: mpf, high: mpf, digits: float) -> mpf:
    """Return the root of a rising function between `low` and `high` (Ridders), to `digits` significant digits.

    Raises
    ------
    NotConverged
        If the function does not rise from <= 0 to >= 0 over the bracket, or the iteration stalls.
    """
    f_low, f_high = f(low), f(high)
    if f_low > 0 or f_high < 0:
        raise NotConverged(f"no rising root in [{mp.nstr(low, 8)}, {mp.nstr(high, 8)}]")
    if f_low == 0:
        return low
    if f_high == 0:
        return high
    tolerance = mpf(10) ** (-digits)
    last: mpf | None = None
    for _ in range(200):
        middle = (low + high) / 2
        f_middle = f(middle)
        if f_middle == 0:
            return middle
        spread = mp.sqrt(f_middle * f_middle - f_low * f_high)
        x = middle - (middle - low) * f_middle / spread
        margin = tolerance * max(abs(x), tolerance)
        # two close iterates prove nothing (they creep where the function is flat): the sign must change around x
        if (
            last is not None
            and abs(x - last) <= margin
            and (x - margin <= low or f(x - margin) <= 0)
            and (x + margin >= high or f(x + margin) >= 0)
        ):
            return x
        last = x
        if high - low <= tolerance * max(abs(low), abs(high)):
            return x
        f_x = f(x)
        if f_x == 0:
            return x
        inner = sorted(((middle, f_middle), (x, f_x)), key=lambda pair: pair[0])
        for point, value in inner:
            if value < 0 and point > low:
                low, f_low = point, value
        for point, value in reversed(inner):
            if value > 0 and point < high:
                high, f_high = point, value
    raise NotConverged(f"root near {mp.nstr(low, 10)}")
