"""The contour reader: jobs of Gaussian mixtures, by the compiled contour integrals.

A cell with one sampled Gaussian is a cell of the vectorised kernel; every other cell is one call of the kernel for
heterogeneous jobs.  Mixtures are merged and sorted per cell, so that a cell of an array job, the same job in plain
numbers and any other spelling of it give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import TIGHT_WIDTH, Status, status_of
from fastacct.core.engine import aside, in_pieces, run_kernel
from fastacct.core.inputs import Cells, Codes
from fastacct.core.kept import cached
from fastacct.core.relations import Relation
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.mechanisms.base import Run
from fastacct.mechanisms.process import Cell, Process, merge
from fastacct_ext import _kernels
from fastacct_ext._kernels import Directions, Quantity

__all__ = ["ADD", "BOTH", "DELTA", "EPSILON", "LOG_DELTA", "REMOVE", "Contour", "Reading", "kernel_directions"]
__all__ += ["read_run"]

EPSILON, DELTA, LOG_DELTA = Quantity.EPSILON, Quantity.DELTA, Quantity.LOG_DELTA
ADD, REMOVE, BOTH = Directions.ADD, Directions.REMOVE, Directions.BOTH
_TOP: Final = {EPSILON: np.inf, DELTA: 1.0, LOG_DELTA: 0.0}
"""What says nothing from above."""
CELLS_PER_TASK: Final = 8
"""A cell takes microseconds to milliseconds."""
_CKS: Final = _kernels.Conversion.CANONNE_KAMATH_STEINKE
_ULP: Final = 2.0**-52
_LEAST: Final = 5e-324
_FAR: Final = 30.0
"""Beyond so many standard deviations a component that is hardly ever drawn may be left out ..."""
_HARDLY: Final = 1e-30
"""... where all of them together have at most that weight."""
_MOST_WORK: Final = 2.5e5
"""Sum of the squares of the numbers of components of different steps: a target takes about 0.03 ms for each."""
_SUBNORMAL: Final = -707.0
"""Logarithms below it are those of numbers that have lost digits."""

Index = NDArray[np.intp]


def kernel_directions(relation: Relation) -> Directions:
    """Directions as the kernels name them."""
    return {"add": ADD, "remove": REMOVE}.get(relation, BOTH)


class Reading(NamedTuple):
    """Flat arrays: certified bounds, d log delta / d epsilon (NaN where not known), status codes."""

    lower: Cells
    upper: Cells
    slope: Cells
    status: Codes

    def take(self, at: NDArray[np.intp] | NDArray[np.bool_]) -> Reading:
        """The values at some places."""
        return Reading(self.lower[at], self.upper[at], self.slope[at], self.status[at])

    def put(self, at: NDArray[np.intp] | NDArray[np.bool_] | slice, values: Reading) -> None:
        """Store values at some places."""
        self.lower[at], self.upper[at], self.slope[at], self.status[at] = values

    @classmethod
    def empty(cls, size: int) -> Reading:
        """To be filled."""
        a, b, c = (np.empty(size) for _ in range(3))
        return cls(a, b, c, np.zeros(size, dtype=np.uint8))


class Contour:
    """A job of Gaussian mixtures under a relation, cell by cell."""

    def __init__(self, process: Process, relation: Relation) -> None:
        self.shape = process.shape
        self.directions = kernel_directions(relation)
        self.is_mirrored = relation == "replace_one"
        """Both directions are one."""
        self._relation = relation
        self._process = process
        self._made: dict[int, _Job] = {}

    @staticmethod
    def reads(process: Process) -> bool:
        """Whether all losses are Gaussian mixtures that increase in the output."""
        return process.is_gaussian

    @cached
    def _columns(self) -> list[Run] | None:
        """Noise, rate and count (flat arrays) of mechanisms that are all sampled Gaussians, unrounded, else None."""
        sampled = self._process.sampled(self._relation, exactly=True)
        return sampled.runs if sampled else None

    @cached
    def _cells(self) -> list[Cell]:
        return list(self._process.cells())

    def _job(self, cell: int) -> _Job:
        """One cell as the kernels read it."""
        if cell not in self._made:
            self._made[cell] = self._steps() or _job_of(self._mixtures(cell))
        return self._made[cell]

    def _steps(self) -> _Job | None:
        """A cell of at least two sampled Gaussians that release something, as the arrays they are, else None."""
        sampled = None if self.is_mirrored else self._process.sampled(self._relation, exactly=True)
        if not sampled or (columns := sampled.columns) is None:
            return None
        noise, rate, count = columns
        one, none = np.ones(noise.size, dtype=np.int32), np.zeros(noise.size, dtype=np.int32)
        return _Job((count, noise, one, none, rate, np.ones(noise.size)), columns)

    def _mixtures(self, cell: int) -> Iterator[tuple[Mixture, float]]:
        """The mixtures of one cell that release something."""
        if self._columns is None:
            for mechanism, n in self._cells[cell]:
                pair = mechanism.losses(self._relation)
                if isinstance(pair, MixturePair):
                    yield pair.mixture, float(n)
        else:
            for noise, rate, count in self._columns:
                if rate[cell] > 0.0 and noise[cell] < np.inf and count[cell] > 0.0:
                    yield Mixture(float(noise[cell]), ((float(rate[cell]), 1.0),)), float(count[cell])

    def one(self, target: Cells, what: Quantity, directions: Directions, *, only_upper: bool = False) -> Reading:
        """Bounds of a job of plain numbers at one target."""
        _kernels.begin()
        try:
            return _read_job(self._job(0), target.reshape(1), what, directions, only_upper)
        finally:
            _kernels.end()

    def read(
        self,
        cells: Index,
        target: Cells,
        what: Quantity,
        directions: Directions,
        threads: int,
        *,
        only_upper: bool = False,
    ) -> Reading:
        """Bounds of epsilon, delta or log delta of the job's `cells` at `target`, one by one (flat arrays)."""
        if not cells.size:
            return Reading.empty(0)
        if self._columns is not None and len(self._columns) == 1:  # each cell is one sampled Gaussian
            noise, rate, count = (x[cells] for x in self._columns[0])
            return _read_sampled((noise, rate, count), target, what, directions, threads, only_upper)
        out = Reading.empty(cells.size)
        order = np.argsort(cells, kind="stable")
        starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        pieces = [part for group in np.split(order, starts[1:]) for part in _pieces(group, target, what, threads)]

        def work(start: int, _: int) -> int:
            part = pieces[start]
            out.put(part, _read_job(self._job(int(cells[part[0]])), target[part], what, directions, only_upper))
            return start + 1

        in_pieces(len(pieces), threads, work)
        return out


def _pieces(group: Index, target: Cells, what: Quantity, threads: int) -> list[Index]:
    """The targets of one job in a few pieces: neighbouring deltas share a line, where one piece has them all."""
    count = -(-group.size // CELLS_PER_TASK)
    if what == EPSILON:
        group, count = group[np.argsort(target[group], kind="stable")], min(count, threads)
    return np.array_split(group, count)


class _Job(NamedTuple):
    """One cell as the kernels read it: different mixtures, in an order of their own."""

    columns: tuple[Cells, Cells, NDArray[np.int32], NDArray[np.int32], Cells, Cells]
    """Counts, noises, numbers of components of P and of Q; weights and means of all components."""
    runs: Run | None
    """Noise, rate and count, where all are sampled Gaussians."""
    shift: float = 0.0
    """By how much the rounding of weights may move epsilon."""
    is_one: bool = False
    """Whether it is one sampled Gaussian that a cell of the vectorised kernel can hold."""
    is_plain: bool = False
    near: tuple[_Job, float] | None = None
    """The job without components far out, and the chance that a step draws one of them."""


def _near(pair: Mixture) -> tuple[Mixture, float]:
    """A pair without the components of P that are far out and hardly ever drawn, and their weight."""
    far = [weight for weight, mean in pair.p if mean > _FAR * pair.noise]
    lost = math.fsum(far) * (1.0 + _ULP)
    if not far or len(far) == len(pair.p) or not lost <= _HARDLY:
        return pair, 0.0
    return pair._replace(p=tuple(part for part in pair.p if part[1] <= _FAR * pair.noise)), lost


def _job_of(mixtures: Iterable[tuple[Mixture, float]]) -> _Job:
    table = sorted(merge(mixtures).items()) or [(Mixture(1.0, ((0.0, 1.0),)), 0.0)]
    plain = [(pair, count) for pair, count in table if pair.is_plain]
    if len(plain) > 1 and all(pair.noise > 0.0 for pair, _ in plain):
        # several plain Gaussians are one: their mu^2 add up, here without the rounding of a long sum
        mu = math.sqrt(math.fsum(count * (pair.p[0][1] / pair.noise) ** 2 for pair, count in plain))
        if 1e-150 < mu < 1e150:
            table = [(pair, count) for pair, count in table if not pair.is_plain]
            table.append((Mixture(1.0, ((1.0, mu),)), 1.0))
    pairs, count = [pair for pair, _ in table], np.array([count for _, count in table])
    noise, parts = np.array([pair.noise for pair in pairs]), [(*pair.p, *pair.q) for pair in pairs]
    n_p, n_q = np.array([(len(pair.p), len(pair.q)) for pair in pairs], dtype=np.int32).T.copy()
    weight, mean = np.concatenate(parts).T.copy()
    runs, is_one = None, len(pairs) == 1 and pairs[0].is_sampled
    if not n_q.any():
        runs = (noise / mean if is_one else np.nextafter(noise / mean, 0.0), weight, count)
    shift, is_plain = sum(4.0 * count * pair.rounding for pair, count in table), all(pair.is_plain for pair in pairs)
    near, trimmed = None, [_near(pair) for pair in pairs]
    lost = math.fsum(float(n) * left for n, (_, left) in zip(count, trimmed, strict=True)) * (1.0 + 4.0 * _ULP)
    if lost > 0.0:
        near = _job_of((pair, float(n)) for n, (pair, _) in zip(count, trimmed, strict=True)), lost
        near = near[0]._replace(shift=near[0].shift + 2.0 * lost), lost
    return _Job((count, noise, n_p, n_q, weight, mean), runs, shift, is_one, is_plain, near)


def read_run(
    run: Run,
    target: Cells,
    shape: tuple[int, ...],
    what: Quantity,
    directions: Directions,
    threads: int,
    *,
    only_upper: bool,
) -> tuple[list[Cells], Codes]:
    """Lower and upper bounds and slopes, or upper bounds alone, of a run that broadcasts with the target."""
    kernel = _kernels.exact_upper if only_upper else _kernels.exact_bounds
    read = partial(kernel, *run, target, quantity=what, directions=directions)
    return run_kernel(read, shape, 1 if only_upper else 3, threads, CELLS_PER_TASK)


def _read_sampled(
    run: Run, target: Cells, what: Quantity, directions: Directions, threads: int, only_upper: bool
) -> Reading:
    shape = target.shape
    columns, status = read_run(run, target, shape, what, directions, threads, only_upper=only_upper)
    if only_upper:
        return Reading(columns[0], columns[0], np.full(shape, np.nan), status)
    lower, upper, slope = columns
    # of plain Gaussians the kernel gives the slope far out in the tail only
    return Reading(lower, upper, np.where(run[1] == 1.0, np.nan, slope), status)


def _read_job(job: _Job, target: Cells, what: Quantity, directions: Directions, only_upper: bool) -> Reading:
    if job.is_one and job.runs:
        return _read_sampled(job.runs, target, what, directions, 1, only_upper)
    if not job.columns[1].min() > 0.0:
        return _nothing(target, what)
    if job.shift == 0.0:
        reading = _call(job, target, what, directions)
    else:
        read = LOG_DELTA if what == DELTA else what
        above, below = (_call(job, _moved(target, what, s), read, directions) for s in (job.shift, -job.shift))
        reading = _widened(above, below, target, what, job.shift)
    if job.near:
        reading = _without_far(reading, *job.near, target, what, directions)
    return _with_fallback(reading, job.runs, target, what) if job.runs else reading


def _nothing(target: Cells, what: Quantity) -> Reading:
    """The safe side, as the vectorised kernel gives it."""
    trivial = target >= 1.0 if what == EPSILON else target == np.inf
    lower = np.full(target.shape, -np.inf if what == LOG_DELTA else 0.0)
    status = np.where(trivial, Status.TIGHT, Status.NOT_MET).astype(np.uint8)
    return Reading(lower, np.where(trivial, lower, _TOP[what]), np.full(target.shape, np.nan), status)


def _call(job: _Job, target: Cells, what: Quantity, directions: Directions) -> Reading:
    parts = job.columns[2] + job.columns[3]
    if float(parts @ parts.astype(float)) > _MOST_WORK:
        return _nothing(target, what)
    out = Reading.empty(target.size)
    columns = (*job.columns, np.ascontiguousarray(target))
    aside(partial(_kernels.exact_job, *columns, *out, quantity=what, directions=directions))
    if job.is_plain:
        out.slope[:] = np.nan  # as in `_read_sampled`
    return out


# Weights that are rounded: P <= e^r P' and Q >= e^-r Q' for the pair (P', Q') that is computed, and so
# delta(eps) <= e^s delta'(eps - s), s = 2 r times the number of steps; and the same the other way round.


def _moved(target: Cells, what: Quantity, shift: float) -> Cells:
    if what == EPSILON:
        return np.minimum(target * math.exp(-shift) * (1.0 - math.copysign(4.0 * _ULP, shift)), 1.0)
    return np.maximum(target - shift - math.copysign(4.0 * _ULP, shift) * np.where(target < np.inf, target, 0.0), 0.0)


def _widened(above: Reading, below: Reading, target: Cells, what: Quantity, shift: float) -> Reading:
    if what == EPSILON:
        low, high = np.maximum((below.lower - shift) * (1.0 - 4.0 * _ULP), 0.0), (above.upper + shift) * (1.0 + _ULP)
        low, high = np.where(target >= 1.0, 0.0, low), np.where(target >= 1.0, 0.0, high)
    else:
        low, high = below.lower - shift, above.upper + shift  # of log delta
        # delta'(-t) <= t + delta'(0)
        high = np.where(target < shift, np.logaddexp(high, math.log(shift) + shift), high)
        high = np.where(target == np.inf, -np.inf, np.minimum(high, 0.0))
        if what == LOG_DELTA:
            wide = np.subtract(high, low, where=high > low, out=np.zeros_like(high)) > TIGHT_WIDTH
            return Reading(np.minimum(low, high), high, above.slope, wide.astype(np.uint8))
        low, high = (
            np.maximum(np.exp(low) * (1.0 - 8.0 * _ULP) - np.where(low < _SUBNORMAL, _LEAST, 0.0), 0.0),
            np.minimum(np.exp(high) * (1.0 + 8.0 * _ULP) + np.where(high > -np.inf, _LEAST, 0.0), 1.0),
        )
    low = np.minimum(low, high)
    return Reading(low, high, above.slope, status_of(low, high))


# P = (1 - r) P' + r P'' with P'' far out: n steps of P are at most those of P' and 1 - (1 - r)^n <= n r besides, so
# that delta <= delta' + n r; in direction add P >= (1 - r) P', which is paid as if it were rounding of weights.


def _without_far(
    reading: Reading, near: _Job, lost: float, target: Cells, what: Quantity, directions: Directions
) -> Reading:
    """Upper bounds where a job whose components reach far out could not be certified."""
    at = np.flatnonzero((reading.upper >= _TOP[what]) & ((target > 2.0 * lost) | (what != EPSILON)))
    if not at.size:
        return reading
    easier = (target[at] - lost) * (1.0 - 2.0 * _ULP) if what == EPSILON else target[at]
    found = _read_job(near, easier, what, directions, False).upper
    if what == DELTA:
        found = (found + lost) * (1.0 + 2.0 * _ULP)
    elif what == LOG_DELTA:
        found = np.logaddexp(found, math.log(lost))
        found += 8.0 * _ULP * (1.0 + np.abs(found))
    upper, status = reading.upper.copy(), reading.status.copy()
    upper[at] = np.minimum(found, _TOP[what])
    status[at] = np.where(upper[at] < _TOP[what], Status.LOOSE, status[at])
    return reading._replace(upper=upper, status=status)


def _with_fallback(reading: Reading, runs: Run, target: Cells, what: Quantity) -> Reading:
    """Where several sampled Gaussians could not be certified: the bound of Rényi DP, as for a single one."""
    if reading.upper.max(initial=-np.inf) < _TOP[what]:
        return reading
    lost = (reading.upper >= _TOP[what]) & ((target > 0.0) | (what != EPSILON))
    if not lost.any():
        return reading
    at = np.ascontiguousarray(target[lost])
    value, order, status = np.empty(at.size), np.empty(at.size), np.empty(at.size, dtype=np.uint8)
    quantity = EPSILON if what == EPSILON else DELTA
    _kernels.renyi_of_history(*runs, at, value, order, status, quantity=quantity, conversion=_CKS)
    if what == LOG_DELTA:
        value = np.log(value) + 4.0 * _ULP * (1.0 - np.log(value))
    upper = reading.upper.copy()
    upper[lost] = np.minimum(value, _TOP[what])
    codes = np.where(lost & (upper < _TOP[what]), Status.LOOSE, reading.status).astype(np.uint8)
    return reading._replace(upper=upper, status=codes)
