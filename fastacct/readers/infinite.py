"""Losses that only one distribution of a pair has, beside those that the kernels read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import status_of
from fastacct.core.inputs import PAD, ROUNDING, Cells
from fastacct.losses.pieces import Lost
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
    most = math.fsum(n * max(own.p[1], own.q[1]) for own, n in job.lost)
    # deltas above this do not see that less than that is lost in all
    unseen = np.asarray((most < 1e-250) & ((target > 1e-200) | (what != EPSILON)))
    reading = Reading.empty(target.size)
    if unseen.any():
        near = read_job(job, target[unseen], what, directions, only_upper)
        reading.put(unseen, _with_a_little(near, most, what))
    if not unseen.all():
        reading.put(~unseen, _by_directions(job, target[~unseen], what, directions))
    return reading


def _by_directions(job: CellJob, target: Cells, what: Quantity, directions: Directions) -> Reading:
    """Each by itself: the larger one."""
    ways = [way for way in (REMOVE, ADD) if directions in (way, BOTH)]
    readings = [_one_way(job, target, what, way) for way in (ways[:1] if job.is_mirrored and job.is_plain else ways)]
    return Reading(*map(np.maximum.reduce, zip(*readings, strict=True)))


def _threshold(job: CellJob, target: Cells, directions: Directions) -> Reading:
    """The rate is one of Q: over the mass of Q' it is the same test's of (P', Q')."""
    way = ADD if directions == ADD else REMOVE
    lost = _lost(job, way)
    log_p, log_q = (math.fsum(n * math.log1p(-0.5 * sum(getattr(own, name))) for own, n in lost) for name in "pq")
    rate = target * math.exp(min(-log_q, 700.0))
    reading = read_job(job, np.minimum(rate, 0.5 * (1.0 + target)), THRESHOLD, way)
    return reading._replace(lower=reading.lower - (log_q - log_p))


def _lost(job: CellJob, way: Directions) -> list[tuple[Lost, float]]:
    """What the first distribution of a direction has alone, and the second."""
    return [(own if way == REMOVE else own.flipped(), n) for own, n in job.lost]


def _with_a_little(reading: Reading, most: float, what: Quantity) -> Reading:
    """So little is lost that it is seen only where delta is nothing else."""
    if what == EPSILON:
        upper = reading.upper * (1.0 + 2.0 * ROUNDING)
    elif what == LOG_DELTA:
        upper = np.minimum(np.logaddexp(reading.upper, math.log(most)) * (1.0 - 2.0 * ROUNDING) + 2.0 * ROUNDING, 0.0)
    else:
        upper = np.minimum((reading.upper + most) * (1.0 + 2.0 * ROUNDING), 1.0)
    lower = np.minimum(reading.lower, upper)
    wide = status_within(lower, upper, what == LOG_DELTA)
    return reading._replace(upper=upper, lower=lower, status=np.maximum(reading.status, wide))


class Interval(NamedTuple):
    """Bounds of a number."""

    down: float
    up: float


def _one_way(job: CellJob, target: Cells, what: Quantity, way: Directions) -> Reading:
    lost = _lost(job, way)

    def log_kept(end: Callable[[Lost], float]) -> float:
        return math.fsum(n * math.log1p(-end(own)) for own, n in lost)

    # the least of D leaves the most of the rest
    most, least = log_kept(lambda one: one.p[0]) * (1.0 - PAD), log_kept(lambda one: one.p[1]) * (1.0 + PAD)
    d = Interval(
        max(0.0, -math.expm1(most) * (1.0 - PAD)),
        -math.expm1(least) * (1.0 + PAD) + math.ulp(0.0) * (least < 0.0),
    )
    moved = [math.fsum(n * (math.log1p(-own.q[1 - i]) - math.log1p(-own.p[i])) for own, n in lost) for i in (0, 1)]
    s = Interval(min(moved) - PAD * abs(min(moved)), max(moved) + PAD * abs(max(moved)))
    if what == EPSILON:
        return _epsilon(job, target, way, d, s, Interval(least, most))
    reading = _delta(job, target, way, d, s)
    if what != LOG_DELTA:
        return reading
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.log(reading.lower), np.log(reading.upper)
        low, high = low - PAD * (1.0 + np.abs(low)), np.minimum(high + PAD * (1.0 + np.abs(high)), 0.0)
        low, high = np.where(reading.lower > 0.0, low, -np.inf), np.where(reading.upper > 0.0, high, -np.inf)
    return Reading(low, high, status_within(low, high, True))


def _epsilon(job: CellJob, target: Cells, way: Directions, d: Interval, s: Interval, log_kept: Interval) -> Reading:
    """The target is met where delta' is (target - D)/(1 - D) or less; never, where D is more."""
    asked, never = _of_the_rest(target, d.up, log_kept.down, 1.0)
    high = np.maximum((read_job(job, asked, EPSILON, way).upper - s.down) * (1.0 + 2.0 * ROUNDING), 0.0)
    asked, surely_never = _of_the_rest(target, d.down, log_kept.up, -1.0)
    least = read_job(job, asked, EPSILON, way).lower  # 0 says nothing of epsilons below 0
    low = np.where(least > 0.0, np.maximum((least - s.up) * (1.0 - 2.0 * ROUNDING), 0.0), 0.0)
    some = target < 1.0
    high = np.where(some, np.where(never, np.inf, high), 0.0)
    low = np.minimum(np.where(some, np.where(surely_never, np.inf, low), 0.0), high)
    return Reading(low, high, status_of(low, high))


def _of_the_rest(target: Cells, d: float, log_kept: float, side: float) -> tuple[Cells, NDArray[np.bool_]]:
    """Which delta' meets a target, rounded down on side 1 and up on side -1, and where none does."""
    if d < 0.5:
        return _unit((target - d) / (1.0 - d) * (1.0 - side * PAD)), target <= d if side > 0.0 else target < d
    kept = math.exp(log_kept) * (1.0 - side * PAD)  # the digits are in what is left of 1
    # no target is so near to 1 that what is left of it has no digits
    share = (1.0 - target) / kept if kept > 1e-290 else np.full(target.shape, np.inf)
    return _unit(1.0 - share * (1.0 + side * PAD) - side * 2.0 * ROUNDING), share >= 1.0 - side * PAD


def _unit(x: Cells) -> Cells:
    return np.clip(x, 0.0, 1.0)


def _delta(job: CellJob, target: Cells, way: Directions, d: Interval, s: Interval) -> Reading:
    """delta'(-t) <= t + delta'(0), and delta'(inf) = 0."""
    near, far = (np.maximum(target + moved, 0.0) for moved in s)
    above = below = read_job(job, near, LOG_DELTA, way)
    if (near != far).any():  # most often both are one number
        below = read_job(job, far, LOG_DELTA, way)
    high, low = np.exp(np.minimum(above.upper, 0.0)) * (1.0 + PAD), np.exp(below.lower) * (1.0 - PAD)
    high = np.minimum(high + np.maximum(-(target + s.down), 0.0) * (1.0 + PAD), 1.0)
    high, low = (np.where(target == np.inf, 0.0, bound) for bound in (high, low))
    high = np.minimum((d.up + (1.0 - d.up) * high) * (1.0 + PAD) + math.ulp(0.0) * (d.up > 0.0), 1.0)
    low = np.minimum(np.maximum((d.down + (1.0 - d.down) * low) * (1.0 - PAD), 0.0), high)
    return Reading(low, high, status_of(low, high))
