"""Composed masses on a grid, tilted, read at any epsilon or delta with every error on one side.

With masses p_j exp(log_scale - tilt l_j) at l_j = first + j spacing, two sums from the right tell delta everywhere:

    all_above[k] = sum over j >= k of p_j exp(-tilt (l_j - l_k)),
    gain_above[k] = sum over j >= k of p_j exp(-tilt (l_j - l_k)) (1 - exp(l_k - l_j)),
    delta(l_k - d) = exp(log_scale - tilt l_k) (exp(-d) gain_above[k] + (1 - exp(-d)) all_above[k]), 0 <= d <= spacing.

All terms are positive, so that sums are accurate to 4 log2 n roundings; they are made once, for all targets.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.kept import cached
from fastacct.core.record import Record, fields_of
from fastacct.losses.loss import ROUNDING
from fastacct.losses.measure import decayed
from fastacct_ext import _densities

_OFTEN: Final = 1.12
"""Nine times of ten a sum of dots is as near to that of the losses as `more` takes it to be."""


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

    def _above(self) -> tuple[Cells, Cells]:
        """`all_above` and `gain_above`, with 0 after the last point.

        A true mass is not negative: without what rounding has made negative errors are smaller.
        """
        rate = self.tilt * self.spacing
        every = decayed(np.append(np.maximum(self.mass, 0.0), 0.0), rate)
        rise = np.append(every[1:], 0.0) * (-math.expm1(-self.spacing) * math.exp(-rate))
        return every, decayed(rise, rate + self.spacing)

    @cached
    def _read(self) -> _densities.TiltedMasses:
        """The sums as the compiled kernel reads them, with bounds of the rounding of places and, relative, of sums."""
        size = self.spacing * self.mass.size
        place = 8.0 * ROUNDING * (abs(self.first) + size)
        sums = 8.0 * math.log2(self.mass.size + 2.0) + 32.0 + 4.0 * min(750.0, self.tilt * size)
        names = (one.name for one in fields_of(Window) if one.name not in ("mass", "offset"))
        given = {name: getattr(self, name) for name in names}
        rounding = ROUNDING * sums + self.tilt * place
        return _densities.TiltedMasses(*self._above(), **given, place_error=place, sum_error=rounding, peak=self._peak)

    @cached
    def _peak(self) -> float:
        """Largest weight exp(-tilt x)(1 - exp(-x)), rounded up: tilt^tilt / (1 + tilt)^(1 + tilt)."""
        if self.tilt == 0.0:
            return 1.0
        return math.exp(-self.tilt * math.log1p(1.0 / self.tilt) - math.log1p(self.tilt)) * (1.0 + 1e-12)

    def finite(self, epsilon: float) -> float:
        """Bound of what finite losses add to delta."""
        return self._read.finite(epsilon)

    def around(self, index: int, loss: float, side: float) -> float:
        """Bound of the mass at a point, from above or from below."""
        tilted = max(float(self.mass[index]), 0.0) if 0 <= index < self.mass.size else 0.0
        tilted += side * (self.each_error + self.below + self.above)
        return tilted * math.exp(min(self.log_scale - self.tilt * loss, 700.0))  # errors alone are above 1 there

    def delta(self, epsilon: float) -> float:
        """Bound of delta."""
        return self._read.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Bound of the smallest epsilon >= 0 with this delta."""
        return self._read.epsilon(delta)


class Lower(NamedTuple):
    """A composition from below: `below`, of which delta is at most `rest` above the truth.

    The rest is that of one release at a time, where the sum of the others puts it: at most the difference of `more` and
    `dots` in a cell; or, without these, `extra` of the tilted mass.  `other`: one that may say more.
    """

    below: Window
    extra: float
    log_moment: float
    dots: Window | None = None
    more: Window | None = None
    other: Lower | None = None

    @property
    def infinite(self) -> float:
        """Mass of an infinite loss."""
        return self.below.infinite

    def rest(self, epsilon: float) -> float:
        """By how much delta of `below` may be above the truth."""
        if self.dots is None or self.more is None:
            return self.extra * math.exp(min(self.log_moment - self.below.tilt * epsilon, 700.0))
        first, spacing, tilt = self.dots.first, self.dots.spacing, self.dots.tilt
        index = math.floor(max(min((epsilon - first) / spacing, 1e15), -1e15))
        loss = first + index * spacing
        off = 1e-10 + 1e-15 * (abs(tilt * loss) + abs(self.more.log_scale) + abs(self.dots.log_scale))
        most = self.more.around(round((loss - self.more.first) / spacing), loss, 1.0)
        return _OFTEN * max(0.0, most * (1.0 + off) - max(0.0, self.dots.around(index, loss, -1.0)))

    def finite(self, epsilon: float) -> float:
        """Lower bound of what finite losses add to delta; it may be negative."""
        return self.below.finite(epsilon) - self.rest(epsilon)

    def delta(self, epsilon: float) -> float:
        """Lower bound of delta."""
        return max(
            0.0, self.below.delta(epsilon) - self.rest(epsilon), self.other.delta(epsilon) if self.other else 0.0
        )

    def epsilon(self, delta: float) -> float:
        """Lower bound of the smallest epsilon >= 0 with this delta: one at which more has been seen."""
        return max(self._seen(delta), self.other.epsilon(delta) if self.other else 0.0)

    def _seen(self, delta: float) -> float:
        found, step, wanted = self.below.epsilon(delta), self.below.spacing, max(0.0, delta - self.infinite)
        if not self.extra:
            return found
        for attempt in range(40):
            if not 0.0 < found < math.inf:
                return found
            if (seen := self.finite(found)) > 0.0 and seen >= wanted * (1.0 + 4.0 * ROUNDING):
                return found
            lower = self.below.epsilon(min(delta + 1.2 ** (attempt + 1) * self.rest(found), 1.0))
            if not lower < found:  # what is left is nothing beside the target
                lower, step = found - step, 2.0 * step
            found = max(lower, 0.0)
        return 0.0
