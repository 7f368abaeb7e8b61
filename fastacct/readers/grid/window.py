"""Composed masses on a grid, tilted, read at any epsilon or delta with every error on one side.

With masses p_j exp(log_scale - tilt l_j) at l_j = first + j spacing, two sums from the right tell delta everywhere:

    all_above[k] = sum over j >= k of p_j exp(-tilt (l_j - l_k)),
    gain_above[k] = sum over j >= k of p_j exp(-tilt (l_j - l_k)) (1 - exp(l_k - l_j)),
    delta(l_k - d) = exp(log_scale - tilt l_k) (exp(-d) gain_above[k] + (1 - exp(-d)) all_above[k]), 0 <= d <= spacing.

All terms are positive, so that sums are accurate to 4 log2 n roundings; they are made once, for all targets.
"""

from __future__ import annotations

import math

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.kept import cached
from fastacct.core.record import Record
from fastacct.losses.loss import ROUNDING
from fastacct_ext import _densities

__all__ = ["Window"]


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
    is_cut: bool = False
    """Whether more points were wanted."""

    def _above(self) -> tuple[Cells, Cells]:
        """`all_above` and `gain_above`, with 0 after the last point.

        A true mass is not negative: without what rounding has made negative errors are smaller.
        """
        rate = self.tilt * self.spacing
        every = _decayed(np.append(np.maximum(self.mass, 0.0), 0.0), rate)
        rise = np.append(every[1:], 0.0) * (-math.expm1(-self.spacing) * math.exp(-rate))
        return every, _decayed(rise, rate + self.spacing)

    @cached
    def _read(self) -> _densities.TiltedMasses:
        """The sums as the compiled kernel reads them, with bounds of the rounding of places and, relative, of sums."""
        size = self.spacing * self.mass.size
        place = 8.0 * ROUNDING * (abs(self.first) + size)
        sums = 8.0 * math.log2(self.mass.size + 2.0) + 32.0 + 4.0 * min(750.0, self.tilt * size)
        return _densities.TiltedMasses(
            *self._above(),
            is_upper=self.is_upper,
            first=self.first,
            spacing=self.spacing,
            infinite=self.infinite,
            slack=self.slack,
            top=self.top,
            tilt=self.tilt,
            log_scale=self.log_scale,
            each_error=self.each_error,
            norm_error=self.norm_error,
            below=self.below,
            above=self.above,
            log_moment=self.log_moment,
            place_error=place,
            sum_error=ROUNDING * sums + self.tilt * place,
            peak=self._peak,
        )

    @cached
    def _peak(self) -> float:
        """Largest weight exp(-tilt x)(1 - exp(-x)), rounded up: tilt^tilt / (1 + tilt)^(1 + tilt)."""
        if self.tilt == 0.0:
            return 1.0
        return math.exp(-self.tilt * math.log1p(1.0 / self.tilt) - math.log1p(self.tilt)) * (1.0 + 1e-12)

    def finite(self, epsilon: float) -> float:
        """Bound of what finite losses add to delta."""
        return self._read.finite(epsilon)

    def delta(self, epsilon: float) -> float:
        """Bound of delta."""
        return self._read.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Bound of the smallest epsilon >= 0 with this delta."""
        return self._read.epsilon(delta)

    def left_out(self, epsilon: float) -> float:
        """What the mass outside the window may contribute to delta, roughly."""
        exponent = self.log_scale - self.tilt * epsilon
        return (self.above + self.below) * self._peak * math.exp(max(min(exponent, 700.0), -700.0))


def _decayed(values: Cells, rate: float) -> Cells:
    """The sums over j >= k of values[j] exp(-rate (j - k)), by doubling."""
    sums, step = values.copy(), 1
    while step < sums.size and step * rate < 745.0:
        sums[:-step] += sums[step:] * math.exp(-rate * step)
        step *= 2
    return sums
