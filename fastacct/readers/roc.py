"""The error rates of the best attack, one direction at a time: search for the threshold, then certified bounds there.

With (P, Q) the dominating pair of a direction and every real e,

    tpr(fpr) = min over e of  V(e),     V(e) = delta(e) + e^e fpr,     fnr = 1 - tpr,
    delta(-t) = 1 - e^-t + e^-t delta_other(t),     t > 0, with the other direction,

so every e at which delta is bounded from above bounds tpr from above: the search for the best e needs no proof.  It is
the threshold of the likelihood-ratio test with that fpr,

    Q(loss > e) = -e^-e delta'(e) = fpr,     left of 0 better as     Q(loss <= -t) = delta_other(t) - delta_other'(t).

Bounds on the other side rest on convexity of V in e^e: three points that enclose the minimum bound it from below.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Status, narrowed
from fastacct.core.inputs import Cells
from fastacct.readers.cell_job import ADD, BOTH, EPSILON, LOG_DELTA, REMOVE, Reading
from fastacct.readers.contour import Contour, Index
from fastacct_ext._kernels import Directions

__all__ = ["PAD", "Rates", "error_rates", "meet"]

PAD: Final = 2.0**-49
"""Covers the rounding of the few operations of each formula here, with 4 ulp for exp, expm1 and log."""
_STEPS: Final = 60
_CLOSE: Final = 1e-6
"""Of log fpr: V is flat at its minimum, so that this loses 1e-12 of it."""
_DIFFERENCE: Final = 1e-4
_BEYOND: Final = 1e300
"""Above the largest sum of finite losses."""
_WIDENINGS: Final = 14
_LEAST_STEP: Final = 1e-9
_OUT: Final = 1.0 + 4.0 * PAD
"""Beyond a corner: at the largest loss itself little is known of delta, beyond it that it is 0."""
_WORSE: Final = 1.0 - 1e-9
"""Of a rate, where a point that was visited on the way is better than the search's last one."""

Mask = NDArray[np.bool_]


class Rates(NamedTuple):
    """Certified bounds of the true-positive and false-negative rates, flat arrays."""

    tpr_lower: Cells
    tpr_upper: Cells
    fnr_lower: Cells
    fnr_upper: Cells

    def take(self, at: Index) -> Rates:
        """Some of the cells."""
        return Rates(*(column[at] for column in self))


def error_rates(job: Contour, cells: Index, fpr: Cells, way: Directions, threads: int, *, both: bool) -> Rates:
    """Bounds at the job's `cells` and `fpr`, one by one; without `both` only tpr_upper and fnr_lower are sharp."""
    inner = (fpr > 0.0) & (fpr < 1.0)
    rates = Rates(fpr.copy(), np.where(fpr > 0.0, 1.0, 0.0), np.where(fpr > 0.0, 0.0, 1.0), _complement(fpr))
    none = np.flatnonzero(fpr == 0.0)
    if none.size:  # no noise: an output can prove its hypothesis
        bare = none[job.read(cells[none], np.zeros(none.size), LOG_DELTA, way, threads).status == Status.NOT_MET]
        rates.tpr_upper[bare], rates.fnr_lower[bare] = 1.0, 0.0
    if none.size and not job.is_gaussian:  # what only one distribution has: delta beyond all finite losses
        read = job.read(cells[none], np.full(none.size, _BEYOND), LOG_DELTA, way, threads)
        found = _value(np.zeros(none.size), np.zeros(none.size), read.lower, read.upper)
        for column, values in zip(rates, found, strict=True):
            column[none] = np.clip(values, 0.0, 1.0)
    if inner.any():
        found = _Direction(job, cells[inner], fpr[inner], way, threads).rates(both)
        for column, values in zip(rates, found, strict=True):
            column[inner] = values
    return rates


class _Direction:
    """One direction at every real epsilon, at cells with 0 < fpr < 1."""

    def __init__(self, job: Contour, cells: Index, fpr: Cells, way: Directions, threads: int) -> None:
        self.job, self.cells, self.fpr, self.way, self.threads = job, cells, fpr, way, threads
        self.other = way if way == BOTH or job.is_mirrored else REMOVE if way == ADD else ADD
        self.everywhere = np.arange(fpr.size)
        self.zero: dict[int, tuple[Mask, Reading]] = {}
        known = {cell: job.lattice(cell, way) for cell in np.unique(cells).tolist()}
        self.least, self.slip, self.spacing = np.array([known[cell] for cell in cells.tolist()]).reshape(-1, 3).T
        self.tpr_upper, self.fnr_lower, self.best = np.ones(fpr.size), np.zeros(fpr.size), np.zeros(fpr.size)

    def rates(self, both: bool) -> Rates:
        """Search, then bounds at the best epsilon found."""
        self.bounded_loss()
        e, curvature = self.threshold()
        best = self.value(self.everywhere, e)
        kink = np.flatnonzero((best.tpr_upper * _WORSE > self.tpr_upper) | (best.fnr_lower < self.fnr_lower * _WORSE))
        if kink.size:  # at the end of a loss, say, which no search hits
            e[kink], curvature[kink] = self.best[kink], 0.0
            for column, values in zip(best, self.value(kink, e[kink]), strict=True):
                column[kink] = values
        if (at := np.flatnonzero(self.spacing > 0.0)).size:
            self.corners(at, e)
            for column, values in zip(best, self.value(at, e[at]), strict=True):
                column[at] = values
        tpr_lower, fnr_upper = self.fpr.copy(), _complement(self.fpr)
        if both:
            tpr, fnr = self.enclose(e, curvature, best)
            tpr_lower = np.maximum(np.maximum(tpr, 1.0 - fnr - PAD), tpr_lower)
            fnr_upper = np.minimum(np.minimum(fnr, 1.0 - tpr + PAD), fnr_upper)
            meet(tpr_lower, self.tpr_upper)
            meet(self.fnr_lower, fnr_upper)
        return Rates(tpr_lower, self.tpr_upper, self.fnr_lower, fnr_upper)

    def bounded_loss(self) -> None:
        """Candidates at 0, and where a direction's loss ends: delta is 0 from there."""
        zero = np.zeros(self.fpr.size)
        self.value(self.everywhere, zero)
        for way, sign in ((self.way, 1.0), (self.other, -1.0)):
            if way == ADD or not self.job.is_gaussian:
                end = self.job.read(self.cells, zero, EPSILON, way, self.threads, only_upper=True).upper
                at = np.flatnonzero(end < np.inf)
                self.value(at, sign * end[at] * (1.0 + PAD))

    def read(self, at: Index, t: Cells, forward: Mask) -> Reading:
        """Bounds of log delta(t), t >= 0, and its slope; in this direction where `forward`, else in the other."""
        out = Reading.empty(at.size)
        for mine, way in ((forward, self.way), (~forward, self.other)):
            if mine.any():
                out.put(
                    mine, self._at_zero(at[mine], way) if not t[mine].any() else self._one_way(at[mine], t[mine], way)
                )
        return out

    def _at_zero(self, at: Index, way: Directions) -> Reading:
        """The reading at 0, which is asked for several times, is made once."""
        known, reading = self.zero.setdefault(way, (np.zeros(self.fpr.size, np.bool_), Reading.empty(self.fpr.size)))
        new = at[~known[at]]
        if new.size:
            reading.put(new, self._one_way(new, np.zeros(new.size), way))
            known[new] = True
        return reading.take(at)

    def _one_way(self, at: Index, t: Cells, way: Directions) -> Reading:
        cells = self.cells[at]
        if way != BOTH or self.job.is_mirrored:
            return self.job.read(cells, t, LOG_DELTA, way, self.threads)
        a, b = (self.job.read(cells, t, LOG_DELTA, d, self.threads) for d in (REMOVE, ADD))
        slope = np.where(a.upper >= b.upper, a.slope, b.slope)
        return Reading(
            np.maximum(a.lower, b.lower), np.maximum(a.upper, b.upper), slope, np.maximum(a.status, b.status)
        )

    def value(self, at: Index, e: Cells) -> Rates:
        """Bounds of V(e) and 1 - V(e)."""
        read = self.read(at, np.abs(e), e >= 0.0)
        self.record(at, e, read.upper)
        return _value(self.fpr[at], e, read.lower, read.upper)

    def record(self, at: Index, e: Cells, log_delta_upper: Cells) -> None:
        """Every point visited is a bound: keep the best."""
        found = _value(self.fpr[at], e, log_delta_upper, log_delta_upper)
        better = (found.tpr_upper < self.tpr_upper[at]) | (found.fnr_lower > self.fnr_lower[at])
        self.best[at[better]] = e[better]
        self.tpr_upper[at] = np.minimum(self.tpr_upper[at], found.tpr_upper)
        self.fnr_lower[at] = np.maximum(self.fnr_lower[at], found.fnr_lower)

    def steer(self, at: Index, t: Cells, forward: Mask, scale: Cells) -> tuple[Cells, Cells]:
        """Log delta and its slope for the search: the kernel's slope where it has one, else a difference."""
        read = self.read(at, t, forward)
        self.record(at, np.where(forward, t, -t), read.upper)
        slope = read.slope.copy()
        lost = np.flatnonzero(~np.isfinite(slope) & (read.upper > -np.inf))
        if lost.size:
            step = _DIFFERENCE * (t[lost] + scale[lost])
            a, b = np.maximum(t[lost] - step, 0.0), t[lost] + step
            rise = self.read(at[lost], b, forward[lost]).upper - self.read(at[lost], a, forward[lost]).upper
            slope[lost] = np.where(rise > -np.inf, rise / (b - a), -1.0 / step)
        return read.upper, np.minimum(np.where(np.isnan(slope), -1.0, slope), -1e-300)

    def gap(self, at: Index, t: Cells, forward: Mask, scale: Cells) -> tuple[Cells, Cells]:
        """How far the logarithm of the test's rate is above its target at t, and about how fast it falls."""
        log_delta, slope = self.steer(at, t, forward, scale)
        x = self.fpr[at]
        gap = log_delta + np.where(forward, np.log(-slope) - t - np.log(x), np.log1p(-slope) - np.log1p(-x))
        gap = np.where(log_delta > -np.inf, gap, -np.inf)
        return np.where(log_delta < 0.0, gap, np.inf), np.where(forward, 1.0 - slope, -slope)  # 0: nothing known, go on

    def guess(self, at: Index, goal: Cells, way: Directions) -> Cells:
        """Where delta falls to `goal` (or to a quarter of its largest value): the scale of the search; inf: unknown."""
        largest = np.exp(self.read(at, np.zeros(at.size), np.ones(at.size, dtype=np.bool_)).upper)
        goal = np.minimum(goal, 0.25 * largest)
        one = REMOVE if way == BOTH else way
        return self.job.read(self.cells[at], goal, EPSILON, one, self.threads, only_upper=True).upper

    def threshold(self) -> tuple[Cells, Cells]:
        """The best epsilon and the second derivative of V there, both guesses."""
        x, everywhere = self.fpr, self.everywhere
        t, zero, forward = np.zeros(x.size), np.zeros(x.size), np.ones(x.size, dtype=np.bool_)
        steepness = np.ones(x.size)
        scale = self.guess(everywhere, x, self.way)
        ahead = np.flatnonzero((scale > 0.0) & (scale < np.inf))
        ahead = ahead[self.gap(ahead, zero[ahead], forward[ahead], scale[ahead])[0] > 0.0]
        turned = np.setdiff1d(everywhere, ahead)
        forward[turned] = False
        scale[turned] = self.guess(turned, 1.0 - x[turned], self.other)
        turned = turned[(scale[turned] > 0.0) & (scale[turned] < np.inf)]
        turned = turned[self.gap(turned, zero[turned], forward[turned], scale[turned])[0] > 0.0]
        self._solve(np.union1d(ahead, turned), t, forward, scale, steepness)  # the others: the kink at 0
        e = np.where(forward, t, -t)
        return e, steepness * np.where(forward, np.exp(np.minimum(e, 700.0)) * x, np.exp(-t) * (1.0 - x))

    def corners(self, at: Index, e: Cells) -> None:
        """Moves epsilons to the best of the corners of V next to them, where all losses are on a lattice: V is a line
        in exp(epsilon) between two of them."""
        first, least = np.floor((e[at] - self.least[at]) / self.spacing[at]), np.full(at.size, np.inf)
        right = e[at] >= 0.0  # 1 - V has more digits on the other side
        for k in (-1.0, 0.0, 1.0, 2.0):
            here = (self.least[at] + (first + k) * self.spacing[at]) * _OUT
            value = self.value(at, here)
            rate = np.where(right, value.tpr_upper, -value.fnr_lower)
            better = rate < least
            e[at[better]], least[better] = here[better], rate[better]

    def _at_corner(self, at: Index, c: Cells, before: Rates, here: Rates, after: Rates) -> tuple[Cells, Cells]:
        """Lower bound of V and upper bound of 1 - V at a corner that is below V half a place before and after: V is a
        line in exp(epsilon) up to the next corners, so that it is the least one; -inf, inf elsewhere.

        The corner may be off by `slip`, and V lower there by that times the slope of the line before it, or after it.
        """
        apart, base = np.where(self.spacing[at] > 0.0, self.spacing[at], 1.0), self.least[at]
        away = np.abs(c - base - np.round((c - base) / apart) * apart)
        near = 8.0 * PAD * (np.abs(c) + np.abs(base) + apart)
        off = (self.slip[at] + near) * (1.0 - 1.0 / np.expm1(-0.5 * apart))
        is_there = (self.spacing[at] > 0.0) & (away <= near)
        least = is_there & (np.minimum(before.tpr_lower, after.tpr_lower) >= here.tpr_upper)
        most = is_there & (np.maximum(before.fnr_upper, after.fnr_upper) <= here.fnr_lower)
        low = np.where(least, here.tpr_lower - off * before.tpr_upper, -np.inf)
        return low, np.where(most, here.fnr_upper + off * np.exp(np.minimum(c + apart, 0.0)), np.inf)

    def _solve(self, active: Index, t: Cells, forward: Mask, scale: Cells, steepness: Cells) -> None:
        """Safeguarded secant method for gap(t) = 0, in place."""
        # beyond these V is above 1, or 1 - V below the smallest float
        low, high = np.zeros(t.size), np.where(forward, -np.log(self.fpr), 745.0)
        t[active] = np.minimum(scale, high)[active]
        last_t, last_gap = np.zeros(t.size), np.full(t.size, np.nan)
        for i in range(_STEPS):
            if not active.size:
                return
            here = t[active]
            gap, plain = self.gap(active, here, forward[active], scale[active])
            low[active] = np.where(gap > 0.0, here, low[active])
            high[active] = np.where(gap > 0.0, high[active], here)
            with np.errstate(divide="ignore", invalid="ignore"):
                secant = (last_gap[active] - gap) / (here - last_t[active])
                steep = np.where(np.isfinite(secant) & (secant > 0.1 * plain), secant, plain)
                step = here + gap / steep
            steepness[active], last_t[active], last_gap[active] = steep, here, gap
            a, b = low[active], high[active]
            done = (np.abs(gap) < _CLOSE) | (b <= a * (1.0 + 1e-9)) | (b - a <= self.spacing[active])
            steepness[active[a >= b]] = 0.0  # nothing to be found
            middle = 0.5 * (a + np.minimum(b, 4.0 * a + scale[active]))
            halve = i % 4 == 3 and i > 8  # where the slope jumps, steps come from one side alone
            t[active] = np.where(done, here, np.where((step > a) & (step < b) & (not halve), step, middle))
            active = active[~done]

    def enclose(self, e: Cells, curvature: Cells, best: Rates) -> tuple[Cells, Cells]:
        """Lower bound of the minimum of V and upper bound of the maximum of 1 - V; -inf, inf where none was found."""
        tpr, fnr = np.full(e.size, -np.inf), np.full(e.size, np.inf)
        width = np.where(e >= 0.0, best.tpr_upper - best.tpr_lower, best.fnr_upper - best.fnr_lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.sqrt(8.0 * width / curvature)
        least = _LEAST_STEP * (1.0 + np.abs(e))
        step = np.where(curvature > 0.0, np.clip(np.where(np.isfinite(step), step, 1e-3), least, 1.0), 4.0 * least)
        step = np.where(self.spacing > 0.0, 0.5 * self.spacing, step)
        left = np.flatnonzero(best.tpr_upper > best.tpr_lower)
        for _ in range(_WIDENINGS):
            if not left.size:
                break
            c, a, b = e[left], e[left] - step[left], e[left] + step[left]
            outer, inner = np.expm1(b - c), -np.expm1(a - c)
            at_a, at_c, at_b = self.value(left, a), best.take(left), self.value(left, b)
            low = _convex(at_a[:2], at_c[:2], at_b[:2], inner, outer)
            high = -_convex(_mirrored(at_a), _mirrored(at_c), _mirrored(at_b), inner, outer)
            is_corner = step[left] == 0.5 * self.spacing[left]
            at_least, at_most = self._at_corner(left, c, at_a, at_c, at_b)
            low = np.where(is_corner, np.maximum(low, at_least), low)
            high = np.where(is_corner, np.minimum(high, at_most), high)
            tpr[left], fnr[left] = np.maximum(tpr[left], low), np.minimum(fnr[left], high)
            left = left[np.where(c >= 0.0, low == -np.inf, high == np.inf)]
            step[left] = np.minimum(4.0 * step[left], 50.0)
        return tpr, fnr


def meet(lower: Cells, upper: Cells) -> None:
    """Intervals of one number each, in place; both ends of what excludes each other."""
    for i in np.flatnonzero(lower > upper).tolist():
        lower[i], upper[i] = narrowed(float(lower[i]), float(upper[i]))


def _complement(x: Cells) -> Cells:
    """1 - x, rounded up."""
    y = 1.0 - x
    return np.where(1.0 - y > x, np.nextafter(y, 1.0), y)


def _value(x: Cells, e: Cells, log_lower: Cells, log_upper: Cells) -> Rates:
    """Bounds of V(e) and 1 - V(e), each with relative accuracy on the side of 0 where it can be small."""
    low, high = np.exp(log_lower) * (1.0 - PAD), np.exp(log_upper) * (1.0 + PAD)
    with np.errstate(divide="ignore"):
        left, log_x = np.minimum(e, 0.0), np.log(x)
    lift = np.exp(np.minimum(e + log_x, 700.0))  # e^e fpr without overflow; 700 is far from any minimum
    lift_pad = np.where(x > 0.0, PAD * (1.0 + np.abs(e) + np.abs(log_x)), 0.0)
    shrink, gain = np.exp(left), -np.expm1(left)
    right = e >= 0.0
    tpr_lower = np.where(right, low + lift * (1.0 - lift_pad), gain + shrink * (low + x)) * (1.0 - PAD)
    tpr_upper = np.where(right, high + lift * (1.0 + lift_pad), gain + shrink * (high + x)) * (1.0 + PAD)
    y, y_pad = 1.0 - x, PAD * shrink
    fnr_lower = np.where(right, 1.0 - tpr_upper - PAD, shrink * (y - high) - y_pad * (y + high))
    fnr_upper = np.where(right, 1.0 - tpr_lower + PAD, shrink * (y - low) + y_pad * (y + low))
    return Rates(tpr_lower, tpr_upper, fnr_lower, fnr_upper)


def _mirrored(value: Rates) -> tuple[Cells, Cells]:
    return -value.fnr_upper, -value.fnr_lower


def _convex(a: tuple[Cells, ...], c: tuple[Cells, ...], b: tuple[Cells, ...], inner: Cells, outer: Cells) -> Cells:
    """Lower bound of the minimum of a convex function from (lower, upper) at three points, `inner` and `outer` apart.

    Right of c it lies above the line through a and c, left of c above the line through b and c; -inf where the
    points do not enclose the minimum.
    """
    fall = np.maximum((a[1] - c[0]) * (outer / inner), (b[1] - c[0]) * (inner / outer))
    return np.where((a[0] >= c[1]) & (b[0] >= c[1]), c[0] - fall * (1.0 + PAD) - PAD * np.abs(c[0]), -np.inf)
