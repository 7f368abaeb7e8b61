"""The error rates of the best attack, one direction at a time: certified bounds at the threshold that the kernels find.

With (P, Q) the dominating pair of a direction and every real e,

    tpr(fpr) = min over e of  V(e),     V(e) = delta(e) + e^e fpr,     fnr = 1 - tpr,
    delta(-t) = 1 - e^-t + e^-t delta_other(t),     t > 0, with the other direction,

so every e at which delta is bounded from above bounds tpr from above: the search for the best e needs no proof.  It is
the threshold of the likelihood-ratio test with that fpr.

Bounds on the other side rest on convexity of V in e^e: three points that enclose the minimum bound it from below.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Status, meet, status_of
from fastacct.core.inputs import PAD, Cells
from fastacct.readers.cell_job import ADD, BOTH, REMOVE
from fastacct.readers.contour import REVERSE, Contour, Index
from fastacct.readers.nearby import EPSILON, LOG_DELTA, THRESHOLD, Reading
from fastacct_ext._kernels import Directions

_WORSE: Final = 1.0 - 1e-9
"""Of a rate, where a point that was visited on the way is better than the search's last one."""


class Rates(NamedTuple):
    """Certified bounds of the true-positive and false-negative rates, flat arrays."""

    tpr_lower: Cells
    tpr_upper: Cells
    fnr_lower: Cells
    fnr_upper: Cells

    def take(self, at: Index | slice) -> Rates:
        """Some of the cells."""
        return Rates(*(column[at] for column in self))


def error_rates(
    job: Contour, cells: Index, fpr: Cells, way: Directions, threads: int, *, both: bool
) -> tuple[Rates, NDArray[np.bool_]]:
    """Bounds at the job's `cells` and `fpr`, one by one, and whether delta is well known where they are taken.

    At fpr 0 those of Gaussians, whose losses are finite.  Without `both` only tpr_upper and fnr_lower are sharp.
    """
    is_sharp = np.ones(fpr.size, dtype=np.bool_)
    inner = (fpr > 0.0) & (fpr < 1.0)
    rates = Rates(fpr.copy(), np.where(fpr > 0.0, 1.0, 0.0), np.where(fpr > 0.0, 0.0, 1.0), _complement(fpr))
    none = np.flatnonzero(fpr == 0.0)
    if none.size:  # no noise: an output can prove its hypothesis
        bare = none[job.read(cells[none], np.zeros(none.size), LOG_DELTA, way, threads).status == Status.NOT_MET]
        rates.tpr_upper[bare], rates.fnr_lower[bare] = 1.0, 0.0
    if inner.any():
        inner_rates, is_sharp[inner] = _Direction(job, cells[inner], fpr[inner], way, threads).rates(both)
        for column, values in zip(rates, inner_rates, strict=True):
            column[inner] = values
    return rates, is_sharp


class _Direction:
    """One direction at every real epsilon, at cells with 0 < fpr < 1."""

    def __init__(self, job: Contour, cells: Index, fpr: Cells, way: Directions, threads: int) -> None:
        self.job, self.cells, self.fpr, self.way, self.threads = job, cells, fpr, way, threads
        self.other = way if job.is_mirrored else REVERSE[way]
        self.everywhere = np.arange(fpr.size)
        lattices = {cell: job.lattice(cell, way) for cell in np.unique(cells).tolist()}
        self.least, self.slip, self.spacing = np.array([lattices[cell] for cell in cells.tolist()]).reshape(-1, 3).T
        self.tpr_upper, self.fnr_lower = np.ones(fpr.size), np.zeros(fpr.size)

    def rates(self, both: bool) -> tuple[Rates, NDArray[np.bool_]]:
        """Search, then bounds at the best epsilon found."""
        threshold = self.job.read(self.cells, self.fpr, THRESHOLD, self.way, self.threads)
        tried = np.stack([threshold.lower, *self.kinks()])
        e, best = self.better(self.everywhere, tried)
        steep = np.where(e == threshold.lower, threshold.upper, 0.0)
        curvature = steep * np.exp(np.minimum(e, 700.0)) * np.where(e >= 0.0, self.fpr, 1.0 - self.fpr)
        if (on_lattice := np.flatnonzero(self.spacing > 0.0)).size:
            e[on_lattice], corner = self.better(on_lattice, self.corners(on_lattice, e[on_lattice]))
            for column, values in zip(best, corner, strict=True):
                column[on_lattice] = values
        tpr_lower, fnr_upper = self.fpr.copy(), _complement(self.fpr)
        if both:
            tpr, fnr = self.enclose(e, curvature, best)
            tpr_lower = np.maximum(np.maximum(tpr, 1.0 - fnr - PAD), tpr_lower)
            fnr_upper = np.minimum(np.minimum(fnr, 1.0 - tpr + PAD), fnr_upper)
            tpr_lower, self.tpr_upper = meet(tpr_lower, self.tpr_upper)
            self.fnr_lower, fnr_upper = meet(self.fnr_lower, fnr_upper)
            tpr_lower, self.fnr_lower = np.maximum(tpr_lower, self.fpr), np.maximum(self.fnr_lower, 0.0)
        is_sharp = status_of(best.tpr_lower, best.tpr_upper) == Status.TIGHT
        return Rates(tpr_lower, self.tpr_upper, self.fnr_lower, fnr_upper), is_sharp

    def kinks(self) -> list[Cells]:
        """Epsilons where V may have a corner that no search hits: 0, and where a direction's loss ends."""
        zero = np.zeros(self.fpr.size)
        ends = [zero]
        for way, sign in ((self.way, 1.0), (self.other, -1.0)):
            if way == ADD or not self.job.is_gaussian:
                end = self.job.read(self.cells, zero, EPSILON, way, self.threads, only_upper=True).upper
                ends.append(np.where(end < np.inf, sign * end * (1.0 + PAD), 0.0))
        return ends

    def better(self, at: Index, tried: Cells) -> tuple[Cells, Rates]:
        """For each cell the best of some epsilons, the first one where no other is clearly better, and V there."""
        rates = self.value(np.tile(at, len(tried)), tried.ravel())
        each = Rates(*(column.reshape(tried.shape) for column in rates))
        low, high = each.tpr_upper.argmin(axis=0), each.fnr_lower.argmax(axis=0)
        here = np.arange(at.size)
        best = np.where(each.fnr_lower[0] < each.fnr_lower[high, here] * _WORSE, high, 0)
        best = np.where(each.tpr_upper[0] * _WORSE > each.tpr_upper[low, here], low, best)
        return tried[best, here], Rates(*(column[best, here] for column in each))

    def read(self, at: Index, e: Cells) -> Reading:
        """Bounds of log delta(e), or left of 0 of the other direction's log delta(-e)."""
        out = Reading.empty(at.size)
        for mine, way in ((e >= 0.0, self.way), (e < 0.0, self.other)):
            if mine.any():
                out.put(mine, self._one_way(self.cells[at[mine]], np.abs(e[mine]), way))
        return out

    def _one_way(self, cells: Index, t: Cells, way: Directions) -> Reading:
        if way != BOTH or self.job.is_mirrored:
            return self.job.read(cells, t, LOG_DELTA, way, self.threads)
        return Reading.larger(*(self.job.read(cells, t, LOG_DELTA, d, self.threads) for d in (REMOVE, ADD)))

    def value(self, at: Index, e: Cells) -> Rates:
        """Bounds of V(e) and 1 - V(e); of all upper ones, that are bounds of the minimum, the best is kept."""
        read = self.read(at, e)
        value = _value(self.fpr[at], e, read.lower, read.upper)
        np.minimum.at(self.tpr_upper, at, value.tpr_upper)
        np.maximum.at(self.fnr_lower, at, value.fnr_lower)
        return value

    def corners(self, at: Index, e: Cells) -> Cells:
        """The corners of V next to epsilons where all losses are on a lattice: V is a line in exp(epsilon) between two
        of them."""
        first = np.floor((e - self.least[at]) / self.spacing[at])
        # beyond a corner: at the largest loss itself little is known of delta, beyond it that it is 0
        places = self.least[at] + np.add.outer([0.0, -1.0, 1.0, 2.0], first) * self.spacing[at]
        return np.asarray(places * (1.0 + 4.0 * PAD))

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

    def enclose(self, e: Cells, curvature: Cells, best: Rates) -> tuple[Cells, Cells]:
        """Lower bound of the minimum of V and upper bound of the maximum of 1 - V; -inf, inf where none was found."""
        tpr, fnr = np.full(e.size, -np.inf), np.full(e.size, np.inf)
        width = np.where(e >= 0.0, best.tpr_upper - best.tpr_lower, best.fnr_upper - best.fnr_lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.sqrt(8.0 * width / curvature)
        least = 1e-9 * (1.0 + np.abs(e))
        step = np.where(curvature > 0.0, np.clip(np.where(np.isfinite(step), step, 1e-3), least, 1.0), 4.0 * least)
        step = np.where(self.spacing > 0.0, 0.5 * self.spacing, step)
        wide = np.flatnonzero(best.tpr_upper > best.tpr_lower)
        for _ in range(14):
            if not wide.size:
                break
            c, a, b = e[wide], e[wide] - step[wide], e[wide] + step[wide]
            outer, inner = np.expm1(b - c), -np.expm1(a - c)
            sides = self.value(np.append(wide, wide), np.append(a, b))
            at_a, at_c, at_b = sides.take(slice(wide.size)), best.take(wide), sides.take(slice(wide.size, None))
            low = _convex(at_a[:2], at_c[:2], at_b[:2], inner, outer)
            high = -_convex(_mirrored(at_a), _mirrored(at_c), _mirrored(at_b), inner, outer)
            is_corner = step[wide] == 0.5 * self.spacing[wide]
            at_least, at_most = self._at_corner(wide, c, at_a, at_c, at_b)
            low = np.where(is_corner, np.maximum(low, at_least), low)
            high = np.where(is_corner, np.minimum(high, at_most), high)
            tpr[wide], fnr[wide] = np.maximum(tpr[wide], low), np.minimum(fnr[wide], high)
            wide = wide[np.where(c >= 0.0, low == -np.inf, high == np.inf)]
            step[wide] = np.minimum(4.0 * step[wide], 50.0)
        return tpr, fnr


def _complement(x: Cells) -> Cells:
    """1 - x, rounded up."""
    y = 1.0 - x
    return np.where(1.0 - y > x, np.nextafter(y, 1.0), y)


def _value(x: Cells, e: Cells, log_lower: Cells, log_upper: Cells) -> Rates:
    """Bounds of V(e) and 1 - V(e), each with relative accuracy on the side of 0 where it can be small."""
    low, high = np.exp(log_lower) * (1.0 - PAD), np.exp(log_upper) * (1.0 + PAD)
    with np.errstate(divide="ignore"):
        below_zero, log_x = np.minimum(e, 0.0), np.log(x)
    lift = np.exp(np.minimum(e + log_x, 700.0))  # e^e fpr without overflow; 700 is far from any minimum
    lift_pad = np.where(x > 0.0, PAD * (1.0 + np.abs(e) + np.abs(log_x)), 0.0)
    shrink, gain = np.exp(below_zero), -np.expm1(below_zero)
    right = e >= 0.0
    tpr_lower = np.where(right, low + lift * (1.0 - lift_pad), gain + shrink * (low + x)) * (1.0 - PAD)
    tpr_upper = np.where(right, high + lift * (1.0 + lift_pad), gain + shrink * (high + x)) * (1.0 + PAD)
    y, y_pad = 1.0 - x, PAD * shrink
    fnr_lower = np.where(right, 1.0 - tpr_upper - PAD, shrink * (y - high) - y_pad * (y + high))
    fnr_upper = np.where(right, 1.0 - tpr_lower + PAD, shrink * (y - low) + y_pad * (y + low))
    # left of that exp(e) has no digits: it is less than 1e-290, and more than nothing
    return Rates(tpr_lower, tpr_upper, fnr_lower, fnr_upper + np.where(e < -690.0, 1e-290, 0.0))


def _mirrored(value: Rates) -> tuple[Cells, Cells]:
    return -value.fnr_upper, -value.fnr_lower


def _convex(a: tuple[Cells, ...], c: tuple[Cells, ...], b: tuple[Cells, ...], inner: Cells, outer: Cells) -> Cells:
    """Lower bound of the minimum of a convex function from (lower, upper) at three points, `inner` and `outer` apart.

    Right of c it lies above the line through a and c, left of c above the line through b and c; -inf where the
    points do not enclose the minimum.
    """
    fall = np.maximum((a[1] - c[0]) * (outer / inner), (b[1] - c[0]) * (inner / outer))
    return np.where((a[0] >= c[1]) & (b[0] >= c[1]), c[0] - fall * (1.0 + PAD) - PAD * np.abs(c[0]), -np.inf)
