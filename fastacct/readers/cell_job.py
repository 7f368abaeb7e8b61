"""One cell of a job as the kernels read it: its mixtures and its losses that are data, in an order of their own.

Mixtures are merged and sorted per cell, so that a cell of an array job, the same job in plain numbers and any other
spelling of it give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Status, meet
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.kept import cached, kept_by_argument
from fastacct.losses.drawn import without
from fastacct.losses.loss import Apart, Pair
from fastacct.losses.mixture import LEAST_NOISE, Mixture, mixture_of
from fastacct.losses.pieces import Lost, Pieces, columns, spacing_of
from fastacct.mechanisms.base import Run, merge
from fastacct.readers.nearby import EPSILON, THRESHOLD, Change, Reading, status_within, through
from fastacct_ext import _kernels
from fastacct_ext._kernels import Data, Directions, Quantity

ADD, REMOVE, BOTH = Directions.ADD, Directions.REMOVE, Directions.BOTH
CELLS_PER_TASK: Final = 8
"""A cell takes microseconds to milliseconds."""
_HARDLY: Final = 30
"""Components far out are left out that have at most 10^-this weight, whatever is asked."""
_NO_DATA: Final = cache(partial(columns, ()))


_Columns = tuple[Cells, Cells, NDArray[np.int32], NDArray[np.int32], Cells, Cells]
_Times = tuple[Mixture, float]
"""A mixture, and how often."""
Losses = tuple[list[_Times], list[tuple[Pieces, float]]]
"""Mixtures and losses that are data, how often each."""


class CellJob(NamedTuple):
    """One cell as the kernels read it: different mixtures, in an order of their own."""

    columns: _Columns
    """Counts, noises, numbers of components of P and of Q; weights and means of all components."""
    shift: float = 0.0
    """By how much the rounding of weights may move epsilon."""
    alone: Run | None = None
    """Noise, rate and count of one sampled Gaussian that a cell of the vectorised kernel can hold."""
    is_plain: bool = False
    near: _Near | None = None
    """The job without rare components of at most 10^-this weight, and the chance that a step draws one of them."""
    below: _Near | None = None
    """Where some components are only known to be rare: the job that has none of these."""
    data: Callable[[], Data] = _NO_DATA
    """Losses that are data, as the kernels take them."""
    is_mirrored: bool = True
    """Whether each of these is its own mirror image."""
    steps: float = 0.0
    spacing: float = 0.0
    """Of a lattice that their losses are on; 0: none is known."""
    least: tuple[float, float] = 0.0, 0.0
    """The least sum of these losses, direction remove, and by how much it and others on the lattice may be off."""
    lost: Sequence[tuple[Lost, float]] = ()
    """What only one distribution of a pair has, and how often."""


class _Near:
    """A job without rare components, and the job itself; made on demand."""

    def __init__(self, table: Sequence[_Times], data: Sequence[tuple[Pieces, float]]) -> None:
        self._table, self._data = table, data

    @kept_by_argument
    def pairs(self, hardly: int) -> list[tuple[Mixture, float]]:
        """Mixtures without rare components, and the weight of these."""
        return [_near(pair, hardly) for pair, _ in self._table]

    @kept_by_argument
    def __call__(self, hardly: int) -> tuple[CellJob, float]:
        """The job without what has at most 10^-this weight, and the chance that a step draws of it."""
        trimmed = [(*part, float(n)) for part, (_, n) in zip(self.pairs(hardly), self._table, strict=True)]
        fewer = [(*without(pieces, 10.0**-hardly), n) for pieces, n in self._data]
        lost = math.fsum(n * gone for _, gone, n in (*trimmed, *fewer)) * (1.0 + 8.0 * ROUNDING)
        mixed = [(pair, n) for pair, _, n in trimmed if _is_release(pair)]
        job = job_of(mixed, [(pieces, n) for pieces, _, n in fewer])
        return job._replace(shift=job.shift + 2.0 * lost, near=None), lost

    def is_like(self, other: _Near, hardly: int) -> bool:
        """Whether the same is left of both."""
        return [pair for pair, _ in self.pairs(hardly)] == [pair for pair, _ in other.pairs(hardly)]

    @cached
    def whole(self) -> CellJob:
        """With all components."""
        return job_of(self._table, self._data)


def _is_release(pair: Mixture) -> bool:
    """Whether something is left of a pair: not one Gaussian against itself."""
    return not pair.q or len({mean for _, mean in (*pair.p, *pair.q)}) > 1


def _near(pair: Mixture, hardly: int) -> tuple[Mixture, float]:
    """A pair without outer components that are hardly ever drawn, and their weight, on the heavier side: of P on the
    right, of Q on the left, where the other side has none, so that the loss still increases."""
    sides, lost, most = [], 0.0, 10.0**-hardly
    # whatever is asked, none is left out that is near
    far = 30.0 * pair.noise if hardly == _HARDLY else 0.0
    for side, other, out in ((pair.p, pair.q, 1.0), (pair.q, pair.p, -1.0)):
        gone, shared, kept = 0.0, {mean for _, mean in other}, list(side)
        kept.sort(key=itemgetter(1), reverse=out < 0.0)  # by mean
        while len(kept) > 1 and out * kept[-1][1] > far and kept[-1][1] not in shared and gone + kept[-1][0] <= most:
            gone += kept.pop()[0]
        sides.append(tuple(part for part in side if out * part[1] <= out * kept[-1][1]) if gone else side)
        lost = max(lost, gone * (1.0 + len(side) * 2.0 * ROUNDING))
    return pair._replace(p=sides[0], q=sides[1]), lost


def job_of(
    mixtures: Iterable[_Times], data: Sequence[tuple[Pieces, float]] = (), below: Callable[[], Losses] | None = None
) -> CellJob:
    """The job of these mixtures and losses, how often each; `below`: those without what is only known to be rare of
    them."""
    table = _merged(mixtures, data)
    job = _laid_out(table, data)
    if any(_has_rare(pair) for pair, _ in table) or any(pieces.parts for pieces, _ in data):
        job = job._replace(near=_Near(table, data))
    if job.near and below is not None and (less := _merged(below()[0], data)) != table:
        job = job._replace(below=_Near(less, data))
    return job


def _laid_out(table: list[_Times], data: Sequence[tuple[Pieces, float]]) -> CellJob:
    """The job of all components; its losses that are data are on a lattice, or on none."""
    count, noise, *_, weight, mean = merged = _columns(tuple(table))
    spacing = 0.0 if table else spacing_of(data)
    is_alone = not data and len(table) == 1 and table[0][0].is_sampled
    return CellJob(
        merged,
        shift=sum(4.0 * count * pair.rounding for pair, count in table),
        alone=(noise / mean, weight, count) if is_alone else None,
        is_plain=all(pair.is_plain for pair, _ in table),
        data=cache(lambda: columns([(pieces.proper(), n) for pieces, n in data])) if data else _NO_DATA,
        is_mirrored=all(pieces.is_mirrored for pieces, _ in data),
        steps=float(count.sum()) + sum(n for _, n in data),
        spacing=spacing,
        least=_least_sum(data) if spacing > 0.0 else (0.0, 0.0),
        lost=[(pieces.lost, n) for pieces, n in data if max(pieces.lost.q[1], pieces.lost.p[1]) > 0.0],
    )


def _has_rare(pair: Mixture) -> bool:
    """Whether components may be left out."""
    return any(len(side) > 1 and min(side)[0] <= 1e-12 for side in (pair.p, pair.q))


def is_one(pair: Pair) -> bool:
    """Whether losses are known by one pair, or by two of one mixture, of which some components are known to be rare."""
    pair = pair.soon
    if not isinstance(pair, Apart):
        return True
    above = mixture_of(pair.above)
    if above is None or max(len(above.p), len(above.q)) == 1:
        return False  # nothing is rare of it
    below = mixture_of(pair.below)
    if below is None or above.noise != below.noise:
        return False
    sides = zip(above[1:], below[1:], strict=True)
    return all(own[: len(less)] == less and all(w <= 1e-12 for w, _ in own[len(less) :]) for own, less in sides)


def _merged(mixtures: Iterable[_Times], data: Sequence[tuple[Pieces, float]]) -> list[_Times]:
    """Different mixtures in an order of their own; one of nothing where there is nothing at all."""
    table = sorted(merge(mixtures).items())
    return table if table or data else [(Mixture(1.0, ((0.0, 1.0),)), 0.0)]


@lru_cache(maxsize=64)  # most jobs that are data have no mixtures
def _columns(table: tuple[_Times, ...]) -> _Columns:
    """Counts, noises, numbers of components of P and of Q; weights and means of all components."""
    rows = [(n, mixture.noise, len(mixture.p), len(mixture.q)) for mixture, n in table]
    count, noise, n_p, n_q = np.array(rows, dtype=np.float64).reshape(-1, 4).T.copy()
    weight, mean = np.concatenate([np.zeros((0, 2)), *((*mixture.p, *mixture.q) for mixture, _ in table)]).T.copy()
    return count, noise, n_p.astype(np.int32), n_q.astype(np.int32), weight, mean


def _least_sum(data: Sequence[tuple[Pieces, float]]) -> tuple[float, float]:
    """The least sum of losses on a lattice, direction remove, and by how much it and others may be off."""
    off = sum(n * (pieces.atoms[:, 2] + 4.0 * np.abs(pieces.atoms[:, 0])).max() for pieces, n in data)
    return math.fsum(n * pieces.atoms[0, 0] for pieces, n in data), float(off) * 2.0 * ROUNDING


def read_run(
    run: Run,
    target: Cells,
    shape: tuple[int, ...],
    what: Quantity,
    directions: Directions,
    threads: int,
    only_upper: bool,
) -> Reading:
    """Lower and upper bounds, or upper bounds twice, of a run that broadcasts with the target."""
    kernel = _kernels.exact_upper if only_upper else _kernels.exact_bounds
    read = partial(kernel, *run, target, quantity=what, directions=directions)
    values, status = run_kernel(read, shape, 1 if only_upper else 3, threads, CELLS_PER_TASK)
    return Reading(values[0], values[0 if only_upper else 1], status)


def read_job(job: CellJob, target: Cells, what: Quantity, directions: Directions, only_upper: bool = False) -> Reading:
    """Bounds of the losses that both distributions of each pair have, at rows of targets as of `both`; `lost` is left
    out."""
    if job.alone:
        return read_run(job.alone, target[0], target[0].shape, what, directions, 1, only_upper)
    if not job.columns[1].min(initial=1.0) > LEAST_NOISE:
        return Reading.nothing(target[0], what)
    if what == THRESHOLD:
        return _call(job, target, what, directions)
    if job.near:
        return _without_far(job, job.near, target, what, directions)
    return _read(job, target, what, directions)


def _read(job: CellJob, target: Cells, what: Quantity, directions: Directions) -> Reading:
    """All of a job with noise.

    Weights that are rounded: P <= e^r P' and Q >= e^-r Q' for the pair (P', Q') that is computed, and so delta(eps) <=
    e^s delta'(eps - s), s = 2 r times the number of steps; and the same the other way round.
    """
    if job.shift == 0.0:
        return _call(job, target, what, directions)
    sides = (Change(0.0, shift, shift) for shift in (job.shift, -job.shift))
    return through(lambda near, kind: _call(job, near, kind, directions), target, what, *sides)


def _call(job: CellJob, target: Cells, what: Quantity, directions: Directions) -> Reading:
    """The kernel, asked each number once, in an order in which neighbours share a line."""
    if _is_large(job):
        return Reading.nothing(target[0], what)
    points, places, off = _points(job, target, what)
    (up, down), out = places.reshape(target.shape), Reading.empty(points.size)
    given, into = (*job.columns, job.data(), points), (out.lower, out.upper, np.empty(points.size), out.status)
    _kernels.exact_job(
        *given, *into, quantity=what, directions=directions, mirrored=job.is_mirrored, spacing=job.spacing, off=off
    )
    return Reading(out.lower[down], out.upper[up], out.status[up])


def _is_large(job: CellJob) -> bool:
    """Whether mixtures have too many components: a target takes time for each."""
    parts = job.columns[2] + job.columns[3]
    return float(parts @ parts.astype(float)) > 2.5e5


def read_about(job: CellJob, delta: float, directions: Directions, near: float) -> float:
    """Epsilon, which may be `near`, by lines of which nothing is certified: no bound; inf: none says it."""
    few, _ = job.near(_digits(delta, job.steps)) if job.near else (job, 0.0)
    out, start = Reading.empty(1), np.array([near])
    out.upper[0] = math.inf
    if few.columns[1].min(initial=1.0) > LEAST_NOISE and not _is_large(few):
        given, into = (*few.columns, few.data(), np.array([delta])), (out.lower, out.upper, np.empty(1), out.status)
        ask, mirrored = Quantity.ABOUT, few.is_mirrored
        _kernels.exact_job(
            *given, *into, quantity=ask, directions=directions, mirrored=mirrored, spacing=few.spacing, near=start
        )
    return float(out.upper[0])


def _points(job: CellJob, target: Cells, what: Quantity) -> tuple[Cells, NDArray[np.intp], Cells | None]:
    """Targets in increasing order, and which is whose.  Deltas of both bounds of an epsilon that hardly differ are one
    target, their middle: then also how far both are from it, in logarithms."""
    if what != EPSILON or job.data is not _NO_DATA:
        return (points := np.array(sorted({*target.ravel().tolist()}))), np.searchsorted(points, target), None
    middle = np.sqrt(target[0]) * np.sqrt(target[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.abs(np.log(target / middle)).max(axis=0) + 4.0 * ROUNDING
    # each target by itself, so that its bits do not depend on the others
    is_one = (middle > 1e-290) & (middle < 0.5) & (target[0] != target[1]) & (off < 1e-8)
    asked = np.where(is_one, middle, target) + 1j * np.where(is_one, off, 0.0)
    pairs, places = np.unique(asked.ravel(), return_inverse=True)
    return pairs.real.copy(), places, pairs.imag.copy()


# P = (1 - r) P' + r P'' with P'' far out, and Q >= (1 - r) Q': n steps of P are at most those of P' and n r besides, so
# that delta <= delta' + n r; what is left of the masses counts as rounding of weights.  P' is stochastically smaller
# than P, Q' larger than Q, and the loss of the pair (P', Q') increases in each output: what its best test tells, it
# tells of (P, Q), too, and a lower bound of delta' is one of delta.


def _without_far(job: CellJob, near: _Near, target: Cells, what: Quantity, directions: Directions) -> Reading:
    """Bounds by the components that are not rare; by all of them, where these are not tight."""
    # each target by itself, so that its bits do not depend on the others
    digits = [_digits(one, job.steps) if what == EPSILON else _HARDLY for one in target[0].tolist()]
    out, is_all = Reading.nothing(target[0], what), np.zeros(len(digits), dtype=np.bool_)
    for hardly in sorted(set(digits)):
        at = np.flatnonzero(np.array(digits) == hardly)
        few, lost = near(hardly)
        if job.below is None or near.is_like(job.below, hardly):
            is_all[at] = lost == 0.0
            out.put(at, _by_near(few, lost, target[:, at], what, directions))
    left = np.flatnonzero((out.status != Status.TIGHT) & ~is_all)
    if left.size:
        found, before = _read(job, target[:, left], what, directions), out.take(left)
        if job.below is not None:
            found = found._replace(lower=_read(job.below.whole, target[:, left], what, directions).lower)
        lower, upper = meet(np.maximum(found.lower, before.lower), found.upper, before.upper)
        near_by, codes = status_within(lower, upper, what), found.status
        out.put(left, Reading(lower, upper, near_by if job.below is not None else np.minimum(codes, near_by)))
    return out


def _digits(delta: float, steps: float) -> int:
    """Of the weight of components that are a small part of delta in all steps."""
    return math.ceil(-math.log10(max(delta * 1e-10 / steps, 10.0**-_HARDLY)))


def _by_near(near: CellJob, lost: float, target: Cells, what: Quantity, directions: Directions) -> Reading:
    """Bounds by the components that are left; the weight of the others is `lost` at most in all steps."""
    if lost == 0.0:
        return _read(near, target, what, directions)
    return through(lambda easier, kind: _read(near, easier, kind, directions), target, what, Change(gained=lost))
