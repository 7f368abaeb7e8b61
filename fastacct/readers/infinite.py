"""Losses that only one distribution of a pair has, beside those that the kernels read."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct.core.bounds import status_of
from fastacct.core.inputs import Cells
from fastacct.readers.cell_job import (
    ADD,
    BOTH,
    EPSILON,
    LOG_DELTA,
    REMOVE,
    THRESHOLD,
    CellJob,
    Reading,
    read_job,
    status_within,
)
from fastacct_ext._kernels import Directions, Quantity

_ULP: Final = 2.0**-52
_LEAST: Final = 5e-324
_NORMAL: Final = 1e-290
"""What is left of 1 above which its bounds have all digits; no target is so near to 1."""
_PAD: Final = 8.0 * _ULP
_NOTHING: Final = 1e-250
"""Less than this is lost in all ..."""
_SEEN: Final = 1e-200
"""... and not seen by deltas above this."""


# What only P has, D of it in the end, and only Q: with P' and Q' the rest, each over its mass, delta(eps) = D + (1 - D)
# delta'(eps + s), s = log of the mass of Q' over that of P'.


def read_whole(
    job: CellJob, target: Cells, what: Quantity, directions: Directions, only_upper: bool = False
) -> Reading:
    """Bounds of a job, infinite losses included."""
    if not job.lost:
        return read_job(job, target, what, directions, only_upper)
    if what == THRESHOLD:
        return _threshold(job, target, directions)
    most = math.fsum(n * max(one.p[1], one.q[1]) for one, n in job.lost)
    unseen = np.asarray((most < _NOTHING) & ((target > _SEEN) | (what != EPSILON)))
    if unseen.all():
        return _with_a_little(read_job(job, target, what, directions, only_upper), most, what)
    if unseen.any():
        reading = Reading.empty(target.size)
        for mask in (unseen, ~unseen):
            reading.put(mask, read_whole(job, target[mask], what, directions, only_upper))
        return reading
    ways = [way for way in (REMOVE, ADD) if directions in (way, BOTH)]
    found = [_one_way(job, target, what, way) for way in (ways[:1] if job.is_mirrored and job.is_plain else ways)]
    return Reading(*map(np.maximum.reduce, zip(*found, strict=True)))


def _threshold(job: CellJob, target: Cells, directions: Directions) -> Reading:
    """The rate is one of Q: over the mass of Q' it is the same test's of (P', Q')."""
    way = ADD if directions == ADD else REMOVE
    log_p, log_q = (math.fsum(n * math.log1p(-0.5 * sum(getattr(one, name))) for one, n in job.lost) for name in "pq")
    if way == ADD:
        log_p, log_q = log_q, log_p
    rate = target * math.exp(min(-log_q, 700.0))
    found = read_job(job, np.minimum(rate, 0.5 * (1.0 + target)), THRESHOLD, way)
    return found._replace(lower=found.lower - (log_q - log_p))


def _with_a_little(reading: Reading, most: float, what: Quantity) -> Reading:
    """So little is lost that it is seen only where delta is nothing else."""
    if what == EPSILON:
        upper = reading.upper * (1.0 + _ULP)
    elif what == LOG_DELTA:
        upper = np.minimum(np.logaddexp(reading.upper, math.log(most)) * (1.0 - _ULP) + _ULP, 0.0)
    else:
        upper = np.minimum((reading.upper + most) * (1.0 + _ULP), 1.0)
    lower = np.minimum(reading.lower, upper)
    wide = status_within(lower, upper, what == LOG_DELTA)
    return reading._replace(upper=upper, lower=lower, status=np.maximum(reading.status, wide))


def _one_way(job: CellJob, target: Cells, what: Quantity, way: Directions) -> Reading:
    lost = [(one if way == REMOVE else one.flipped(), n) for one, n in job.lost]
    sums = [math.fsum(n * math.log1p(-one.p[i]) for one, n in lost) for i in (0, 1)]
    gone = sums[0] * (1.0 - _PAD), sums[1] * (1.0 + _PAD)  # log(1 - D), its bounds
    moved = [math.fsum(n * (math.log1p(-one.q[1 - i]) - math.log1p(-one.p[i])) for one, n in lost) for i in (0, 1)]
    d = max(0.0, -math.expm1(gone[0]) * (1.0 - _PAD)), -math.expm1(gone[1]) * (1.0 + _PAD) + _LEAST * (gone[1] < 0.0)
    s = min(moved) - _PAD * abs(min(moved)), max(moved) + _PAD * abs(max(moved))
    read = _epsilon if what == EPSILON else _delta
    reading = read(job, target, way, d, s, gone)
    if what != LOG_DELTA:
        return reading
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.log(reading.lower), np.log(reading.upper)
        low, high = low - _PAD * (1.0 + np.abs(low)), np.minimum(high + _PAD * (1.0 + np.abs(high)), 0.0)
        low, high = np.where(reading.lower > 0.0, low, -np.inf), np.where(reading.upper > 0.0, high, -np.inf)
    return Reading(low, high, status_within(low, high, True))


Ends = tuple[float, float]


def _epsilon(job: CellJob, target: Cells, way: Directions, d: Ends, s: Ends, gone: Ends) -> Reading:
    """The target is met where delta' is (target - D)/(1 - D) or less; never, where D is more."""
    sides, nothing = [], []
    for i in (1, 0):
        side, rest = 1.0 if i else -1.0, math.exp(gone[i]) * (1.0 - (1.0 if i else -1.0) * _PAD)
        if d[i] < 0.5:
            asked, none = (target - d[i]) / (1.0 - d[i]) * (1.0 - side * _PAD), target <= d[i] if i else target < d[i]
        else:  # the digits are in what is left of 1
            share = (1.0 - target) / rest if rest > _NORMAL else np.full(target.shape, np.inf)
            asked, none = 1.0 - share * (1.0 + side * _PAD) - side * _ULP, share >= 1.0 - side * _PAD
        sides.append(read_job(job, np.clip(asked, 0.0, 1.0), EPSILON, way))
        nothing.append(none)
    some = target < 1.0
    high = np.maximum((sides[0].upper - s[0]) * (1.0 + _ULP), 0.0)
    least = sides[1].lower  # 0 says nothing of epsilons below 0
    low = np.where(least > 0.0, np.maximum((least - s[1]) * (1.0 - _ULP), 0.0), 0.0)
    high = np.where(some, np.where(nothing[0], np.inf, high), 0.0)
    low = np.minimum(np.where(some, np.where(nothing[1], np.inf, low), 0.0), high)
    return Reading(low, high, status_of(low, high))


def _delta(job: CellJob, target: Cells, way: Directions, d: Ends, s: Ends, _: Ends) -> Reading:
    """delta'(-t) <= t + delta'(0), and delta'(inf) = 0."""
    moved = [np.maximum(target + one, 0.0) for one in s]
    above = below = read_job(job, moved[0], LOG_DELTA, way)
    if (moved[0] != moved[1]).any():  # most often both are one number
        below = read_job(job, moved[1], LOG_DELTA, way)
    high, low = np.exp(np.minimum(above.upper, 0.0)) * (1.0 + _PAD), np.exp(below.lower) * (1.0 - _PAD)
    high = np.minimum(high + np.maximum(-(target + s[0]), 0.0) * (1.0 + _PAD), 1.0)
    high, low = (np.where(target == np.inf, 0.0, one) for one in (high, low))
    high = np.minimum((d[1] + (1.0 - d[1]) * high) * (1.0 + _PAD) + _LEAST * (d[1] > 0.0), 1.0)
    low = np.minimum(np.maximum((d[0] + (1.0 - d[0]) * low) * (1.0 - _PAD), 0.0), high)
    return Reading(low, high, status_of(low, high))
