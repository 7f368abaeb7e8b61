"""Composed masses on a grid, tilted, read at any epsilon or delta with every error on one side.

With masses p_j exp(log_scale - tilt l_j) at l_j = first + j spacing, two sums from the right tell delta everywhere:

    all_above[k] = sum over j >= k of p_j exp(-tilt (l_j - l_k)),
    gain_above[k] = sum over j >= k of p_j exp(-tilt (l_j - l_k)) (1 - exp(l_k - l_j)),
    delta(l_k - d) = exp(log_scale - tilt l_k) (exp(-d) gain_above[k] + (1 - exp(-d)) all_above[k]), 0 <= d <= spacing.

All terms are positive, so that sums are accurate to 4 log2 n roundings; they are made once, for all targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.record import Record
from fastacct.losses.loss import ROUNDING
from fastacct.losses.measure import GridMeasure

__all__ = ["Window", "crossing", "peak", "sum_of"]

_NORMAL: Final = 2.0**-1022
"""What underflows is rounded up to this."""
_TOGETHER: Final = 1e-14
"""Relative error of the few geometric sums of which a sum of weights is made."""


class Window(Record):
    """Composed tilted masses at `first` + i `spacing`; `offset` of the first on the composed grid.

    A mass is off by at most `each_error`, all together by `norm_error` in the 2-norm; the tilted masses left out are at
    most `below` and `above`.  `top` bounds all finite losses, which may be off by `slack`; `log_moment` bounds the
    log-moment at the tilt.  An upper bound, or a lower one.
    """

    is_upper: bool
    first: float
    spacing: float
    mass: Cells
    infinite: float
    slack: float
    top: float
    offset: int = 0
    tilt: float = 0.0
    log_scale: float = 0.0
    each_error: float = 0.0
    norm_error: float = 0.0
    below: float = 0.0
    above: float = 0.0
    log_moment: float = math.inf

    @classmethod
    def of(cls, measure: GridMeasure, is_upper: bool) -> Window:
        """A measure that is not tilted."""
        size = measure.spacing * (measure.mass.size - 1)
        slack, top = measure.slack + 4.0 * ROUNDING * (abs(measure.origin) + size), measure.origin + size
        return cls(is_upper, measure.origin, measure.spacing, measure.mass, measure.infinite, slack, top)

    @cached_property
    def _above(self) -> tuple[Cells, Cells]:
        """`all_above` and `gain_above`, with 0 after the last point.

        A true mass is not negative: without what rounding has made negative errors are smaller.
        """
        rate = self.tilt * self.spacing
        every = _decayed(np.append(np.maximum(self.mass, 0.0), 0.0), rate)
        rise = np.append(every[1:], 0.0) * (-math.expm1(-self.spacing) * math.exp(-rate))
        return every, _decayed(rise, rate + self.spacing)

    @cached_property
    def _log_gain(self) -> Cells:
        """Minus log delta at the points of the grid, roughly."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.tilt * self.spacing * np.arange(self.mass.size + 1) - np.log(self._above[1]))

    @cached_property
    def _rounding(self) -> tuple[float, float]:
        """Of places, and relative of sums."""
        size = self.spacing * self.mass.size
        place = 8.0 * ROUNDING * (abs(self.first) + size)
        sums = 8.0 * math.log2(self.mass.size + 2.0) + 32.0 + 4.0 * min(750.0, self.tilt * size)
        return place, ROUNDING * sums + self.tilt * place

    def delta(self, epsilon: float) -> float:
        """Bound of delta."""
        return min(1.0, sum_of(self.finite(epsilon), self.infinite, self.is_upper))

    def finite(self, epsilon: float) -> float:
        """Bound of what finite losses add to delta."""
        if epsilon >= self.top + self.slack + 4.0 * ROUNDING * abs(self.top):
            return 0.0
        sign = 1.0 if self.is_upper else -1.0
        place, relative = self._rounding
        place += 8.0 * ROUNDING * abs(epsilon)
        epsilon -= sign * (self.slack + place)
        k = min(max(math.ceil((epsilon - self.first) / self.spacing), 0), self.mass.size)
        at = self.first + self.spacing * k
        near, rest = math.exp(-max(at - epsilon, 0.0)), -math.expm1(-max(at - epsilon, 0.0))
        total = near * float(self._above[1][k]) + rest * float(self._above[0][k])
        total += 1e-300 if self.is_upper and k < self.mass.size else 0.0  # what is too far to be seen from here
        total += sign * (
            self._error(self.mass.size - k, near) + total * (relative + 8.0 * ROUNDING * self.tilt * abs(epsilon))
        )
        left_out = self.above + (self.below if not self.is_upper or epsilon < self.first else 0.0)
        value = 0.0
        for part, x in ((total, at), (sign * left_out * peak(self.tilt), epsilon)):
            if part == 0.0:
                continue
            exponent = self.log_scale - self.tilt * x + math.log(abs(part))
            slack = 4.0 * ROUNDING * (abs(self.log_scale) + abs(self.tilt * x) + abs(exponent) + 8.0)
            # a part that counts against a lower bound is rounded up, too
            exponent += slack if self.is_upper or part < 0.0 else -slack
            value += math.copysign(math.exp(min(exponent, 700.0)), part)
        if not self.is_upper:
            return max(value * (1.0 - 4.0 * ROUNDING), 0.0)
        return min(max(value * (1.0 + 4.0 * ROUNDING), _NORMAL), self._chernoff(epsilon))

    def _error(self, n: int, near: float) -> float:
        """Bound of what the errors of the last n masses add, with weights exp(-tilt y) (1 - near exp(-y))."""
        if self.each_error == 0.0:
            return 0.0

        def total(rate: float) -> float:
            step = rate * self.spacing
            return n if step * n < 1e-300 else math.expm1(-step * n) / math.expm1(-step)

        once, twice = total(self.tilt), total(2.0 * self.tilt)
        weights = once - near * total(self.tilt + 1.0) + _TOGETHER * once
        squares = twice - near * (2.0 * total(2.0 * self.tilt + 1.0) - near * total(2.0 * self.tilt + 2.0))
        norm = math.sqrt(max(squares, 0.0) + 4.0 * _TOGETHER * twice)
        return min(weights * self.each_error, norm * self.norm_error) * (1.0 + 1e-9)

    def _chernoff(self, epsilon: float) -> float:
        """Upper bound from the log-moment alone, like Rényi DP's."""
        exponent = self.log_moment - self.tilt * epsilon
        exponent += 8.0 * ROUNDING * (abs(exponent) + abs(self.tilt * epsilon)) if exponent < 700.0 else 0.0
        return max(math.exp(min(exponent, 700.0)) * peak(self.tilt) * (1.0 + 1e-12), _NORMAL)

    def left_out(self, epsilon: float) -> float:
        """What the mass outside the window may contribute to delta, roughly."""
        exponent = self.log_scale - self.tilt * epsilon
        return (self.above + self.below) * peak(self.tilt) * math.exp(max(min(exponent, 700.0), -700.0))

    def epsilon(self, delta: float) -> float:
        """Bound of the smallest epsilon >= 0 with this delta."""
        if delta >= 1.0:
            return 0.0
        if self.infinite > delta:
            return math.inf
        sign = 1.0 if self.is_upper else -1.0
        top = max(self.top + sign * (self.slack + 4.0 * ROUNDING * abs(self.top)), 0.0)
        if self.infinite == delta:
            return top
        if self.is_upper and self.delta(0.0) <= delta:
            return 0.0

        def delta_at(epsilon: float) -> float:
            return self.infinite if epsilon >= top else self.delta(epsilon)

        low, high = crossing(delta_at, delta, *self._guess(delta - self.infinite), top)
        return high if self.is_upper else low

    def _guess(self, finite: float) -> tuple[float, float]:
        """Where this is what finite losses add to delta, but for errors, and how fast its logarithm falls there."""
        every, gain = self._above
        log_wanted = math.log(finite) - self.log_scale + self.tilt * self.first
        k = min(int(np.searchsorted(self._log_gain, -log_wanted)), self.mass.size)
        wanted = math.exp(min(max(log_wanted + self.tilt * self.spacing * k, -745.0), 700.0))
        # delta = all_above - exp(-d) (all_above - gain_above)
        some, rest = float(every[k]), float(every[k] - gain[k])
        d = -math.log((some - wanted) / rest) if some > wanted and rest > 0.0 else 0.0
        place = self.first + self.spacing * k - min(max(d, 0.0), self.spacing if k else math.inf)
        place += (self.slack + self._rounding[0]) * (1.0 if self.is_upper else -1.0)
        return place, max((some - wanted) / wanted, 1e-3) if wanted > 0.0 else 1.0


def _decayed(values: Cells, rate: float) -> Cells:
    """The sums over j >= k of values[j] exp(-rate (j - k)), by doubling."""
    sums, step = values.copy(), 1
    while step < sums.size and step * rate < 745.0:
        sums[:-step] += sums[step:] * math.exp(-rate * step)
        step *= 2
    return sums


def peak(tilt: float) -> float:
    """Largest weight exp(-tilt x)(1 - exp(-x)), rounded up: tilt^tilt / (1 + tilt)^(1 + tilt)."""
    if tilt == 0.0:
        return 1.0
    return math.exp(-tilt * math.log1p(1.0 / tilt) - math.log1p(tilt)) * (1.0 + 1e-12)


def sum_of(value: float, other: float, upwards: bool) -> float:
    """A sum, rounded to one side."""
    total = value + other
    if other == 0.0 or value == 0.0:
        return total
    return total * (1.0 + 2.0 * ROUNDING) if upwards else total * (1.0 - 2.0 * ROUNDING)


def crossing(
    delta_at: Callable[[float], float], delta: float, guess: float, slope: float, top: float
) -> tuple[float, float]:
    """Epsilons close together with delta_at(low) > delta >= delta_at(high), or low = 0, or high = `top`."""
    low, high = 0.0, top
    point = guess if low < guess < high else 0.5 * (low + high)
    log_delta, last = math.log(delta), (0.0, 0.0)
    for attempt in range(100):
        value = delta_at(point)
        if value > delta:
            low = point
        else:
            high = point
        if high - low <= 1e-13 * high:
            break
        error = (math.log(value) if value > 0.0 else -750.0) - log_delta
        if attempt and last[0] != point and (error - last[1]) * (point - last[0]) < 0.0:
            slope = (last[1] - error) / (point - last[0])
        last = (point, error)
        step = error / slope
        # past the root by a little: the other end of the bracket comes close, too
        step += math.copysign(max(1e-3 * abs(step), 3e-14 * point), step)
        point += step
        if not low < point < high or attempt % 8 == 7:
            point = 0.5 * (low + high)
    return low, high
