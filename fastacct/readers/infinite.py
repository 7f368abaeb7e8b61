"""Losses that only one distribution of a pair has, beside those that the kernels read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from fastacct.core.inputs import PAD, Cells
from fastacct.losses.pieces import Lost
from fastacct.readers.cell_job import ADD, BOTH, REMOVE, CellJob, read_job
from fastacct.readers.nearby import EPSILON, THRESHOLD, Change, Reading, both, status_within, through
from fastacct_ext._kernels import Directions, Quantity

# What only P has, D of it in the end, and only Q: with P' and Q' the rest, each over its mass, delta(eps) = D + (1 - D)
# delta'(eps + s), s = log of the mass of Q' over that of P'.


def read_whole(
    job: CellJob, target: Cells, what: Quantity, directions: Directions, only_upper: bool = False
) -> Reading:
    """Bounds of a job, infinite losses included."""
    if not job.lost:
        return read_job(job, both(target), what, directions, only_upper)
    if what == THRESHOLD:
        return _threshold(job, target, directions)
    most = math.fsum(n * max(own.p[1], own.q[1]) for own, n in job.lost)
    # deltas above this do not see that less than that is lost in all, and both directions are read at once
    unseen = np.asarray((most < 1e-250) & ((target > 1e-200) | (what != EPSILON)))
    all_ways, above = partial(read_job, job, directions=directions, only_upper=only_upper), Change(gained=most)
    if unseen.all():
        return through(all_ways, both(target), what, above)
    reading = Reading.empty(target.size)
    if unseen.any():
        reading.put(unseen, through(all_ways, both(target[unseen]), what, above))
    reading.put(~unseen, _by_directions(job, target[~unseen], what, directions))
    return reading


def _by_directions(job: CellJob, target: Cells, what: Quantity, directions: Directions) -> Reading:
    """Each by itself: the larger one, which may be known well where the other is not."""
    ways = (REMOVE, ADD)[: 1 if job.is_mirrored and job.is_plain else 2] if directions == BOTH else (directions,)
    low, high, _ = Reading.larger(*(_one_way(job, target, what, way) for way in ways))
    return Reading(low, high, status_within(low, high, what))


def _threshold(job: CellJob, target: Cells, directions: Directions) -> Reading:
    """The rate is one of Q: over the mass of Q' it is the same test's of (P', Q')."""
    way = ADD if directions == ADD else REMOVE
    lost = _lost(job, way)
    log_p, log_q = (math.fsum(n * math.log1p(-0.5 * sum(getattr(own, name))) for own, n in lost) for name in "pq")
    rate = target * math.exp(min(-log_q, 700.0))
    reading = read_job(job, both(np.minimum(rate, 0.5 * (1.0 + target))), THRESHOLD, way)
    return reading._replace(lower=reading.lower - (log_q - log_p))


def _lost(job: CellJob, way: Directions) -> list[tuple[Lost, float]]:
    """What the first distribution of a direction has alone, and the second."""
    return [(own if way == REMOVE else own.flipped(), n) for own, n in job.lost]


def _one_way(job: CellJob, target: Cells, what: Quantity, way: Directions) -> Reading:
    """delta(eps) = D + (1 - D) delta'(eps + s), which increases with D."""
    lost = _lost(job, way)

    def ends(of: Callable[[Lost, int], float]) -> Iterator[float]:
        return (math.fsum(n * of(own, i) for own, n in lost) for i in (0, 1))

    # the least of D leaves the most of the rest
    most, least = ends(lambda own, i: math.log1p(-own.p[i]))
    most, least = most * (1.0 - PAD), least * (1.0 + PAD)
    gained = -math.expm1(least) * (1.0 + PAD) + math.ulp(0.0) * (least < 0.0)
    far, near = sorted(ends(lambda own, i: math.log1p(-own.p[i]) - math.log1p(-own.q[1 - i])))
    above = Change(gained, least, near + PAD * abs(near))
    below = Change(max(0.0, -math.expm1(most) * (1.0 - PAD)), most, far - PAD * abs(far))
    if below.log_kept < -40.0:  # what is left of 1 is less than a rounding of it
        return through(lambda asked, kind: Reading.nothing(asked[0], kind), both(target), what, above, below)
    return through(partial(read_job, job, directions=way), both(target), what, above, below)
