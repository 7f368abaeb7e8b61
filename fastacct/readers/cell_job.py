"""One cell of a job as the kernels read it: its mixtures and its losses that are data, in an order of their own.

Mixtures are merged and sorted per cell, so that a cell of an array job, the same job in plain numbers and any other
spelling of it give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import TIGHT_WIDTH, Status, status_of
from fastacct.core.engine import aside, run_kernel
from fastacct.core.inputs import Cells, Codes
from fastacct.losses.mixture import Mixture
from fastacct.losses.pieces import Lost, Pieces, columns, spacing_of
from fastacct.mechanisms.base import Run
from fastacct.mechanisms.process import merge
from fastacct_ext import _kernels
from fastacct_ext._kernels import Data, Directions, Quantity

__all__ = ["ADD", "BOTH", "CELLS_PER_TASK", "DELTA", "EPSILON", "LOG_DELTA", "REMOVE", "THRESHOLD", "TOP", "CellJob"]
__all__ += ["Reading", "job_of", "read_job", "read_run", "read_sampled"]

EPSILON, DELTA, LOG_DELTA, THRESHOLD = Quantity.EPSILON, Quantity.DELTA, Quantity.LOG_DELTA, Quantity.THRESHOLD
ADD, REMOVE, BOTH = Directions.ADD, Directions.REMOVE, Directions.BOTH
TOP: Final = {EPSILON: np.inf, DELTA: 1.0, LOG_DELTA: 0.0, THRESHOLD: 0.0}
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
_NO_DATA: Final = columns(())


class Reading(NamedTuple):
    """Flat arrays: certified bounds, and status codes; thresholds, and how fast the log of the rate falls there."""

    lower: Cells
    upper: Cells
    status: Codes

    def take(self, at: NDArray[np.intp] | NDArray[np.bool_]) -> Reading:
        """The values at some places."""
        return Reading(self.lower[at], self.upper[at], self.status[at])

    def put(self, at: NDArray[np.intp] | NDArray[np.bool_] | slice, values: Reading) -> None:
        """Store values at some places."""
        self.lower[at], self.upper[at], self.status[at] = values

    @classmethod
    def empty(cls, size: int) -> Reading:
        """To be filled."""
        return cls(np.empty(size), np.empty(size), np.zeros(size, dtype=np.uint8))


class CellJob(NamedTuple):
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
    near: tuple[CellJob, float] | None = None
    """The job without components far out, and the chance that a step draws one of them."""
    data: Data = _NO_DATA
    """Losses that are data, as the kernels take them."""
    is_mirrored: bool = True
    """Whether each of these is its own mirror image."""
    spacing: float = 0.0
    """Of a lattice that their losses are on; 0: none is known."""
    least: tuple[float, float] = 0.0, 0.0
    """The least sum of these losses, direction remove, and by how much it and others on the lattice may be off."""
    lost: Sequence[tuple[Lost, float]] = ()
    """What only one distribution of a pair has, and how often."""


def _near(pair: Mixture) -> tuple[Mixture, float]:
    """A pair without the components of P that are far out and hardly ever drawn, and their weight."""
    far = [weight for weight, mean in pair.p if mean > _FAR * pair.noise]
    lost = math.fsum(far) * (1.0 + _ULP)
    if not far or len(far) == len(pair.p) or not lost <= _HARDLY:
        return pair, 0.0
    return pair._replace(p=tuple(part for part in pair.p if part[1] <= _FAR * pair.noise)), lost


def job_of(mixtures: Iterable[tuple[Mixture, float]], data: Sequence[tuple[Pieces, float]] = ()) -> CellJob:
    """The job of these mixtures and losses, how often each."""
    table = sorted(merge(mixtures).items()) or [(Mixture(1.0, ((0.0, 1.0),)), 0.0)][: not data]
    plain = [(pair, count) for pair, count in table if pair.is_plain]
    if len(plain) > 1 and all(pair.noise > 0.0 for pair, _ in plain):
        # several plain Gaussians are one: their mu^2 add up, here without the rounding of a long sum
        mu = math.sqrt(math.fsum(count * (pair.p[0][1] / pair.noise) ** 2 for pair, count in plain))
        if 1e-150 < mu < 1e150:
            table = [(pair, count) for pair, count in table if not pair.is_plain]
            table.append((Mixture(1.0, ((1.0, mu),)), 1.0))
    pairs, count = [pair for pair, _ in table], np.array([count for _, count in table])
    noise, parts = np.array([pair.noise for pair in pairs]), [(*pair.p, *pair.q) for pair in pairs]
    n_p, n_q = np.array([(len(pair.p), len(pair.q)) for pair in pairs], dtype=np.int32).reshape(-1, 2).T.copy()
    weight, mean = np.concatenate([np.zeros((0, 2)), *parts]).T.copy()
    runs, is_one = None, len(pairs) == 1 and pairs[0].is_sampled and not data
    if not n_q.any() and not data:
        runs = (noise / mean if is_one else np.nextafter(noise / mean, 0.0), weight, count)
    shift, is_plain = sum(4.0 * count * pair.rounding for pair, count in table), all(pair.is_plain for pair in pairs)
    near, trimmed = None, [_near(pair) for pair in pairs]
    lost = math.fsum(float(n) * left for n, (_, left) in zip(count, trimmed, strict=True)) * (1.0 + 4.0 * _ULP)
    if lost > 0.0:
        near = job_of(((pair, float(n)) for n, (pair, _) in zip(count, trimmed, strict=True)), data), lost
        near = near[0]._replace(shift=near[0].shift + 2.0 * lost), lost
    gone = [(pieces.lost, n) for pieces, n in data if pieces.lost.q[1] > 0.0 or pieces.lost.p[1] > 0.0]
    rows = columns([(pieces.proper(), n) for pieces, n in data]) if data else _NO_DATA
    is_mirrored = all(pieces.is_mirrored for pieces, _ in data)
    given = (count, noise, n_p, n_q, weight, mean)
    spacing = spacing_of(data) if not pairs else 0.0
    least = 0.0, 0.0
    if spacing > 0.0:
        off = sum(n * (pieces.atoms[:, 2] + 4.0 * np.abs(pieces.atoms[:, 0])).max() for pieces, n in data)
        least = math.fsum(n * pieces.atoms[0, 0] for pieces, n in data), float(off) * _ULP
    return CellJob(given, runs, shift, is_one, is_plain, near, rows, is_mirrored, spacing, least, gone)


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
    """Lower and upper bounds, or upper bounds alone, of a run that broadcasts with the target."""
    kernel = _kernels.exact_upper if only_upper else _kernels.exact_bounds
    read = partial(kernel, *run, target, quantity=what, directions=directions)
    values, status = run_kernel(read, shape, 1 if only_upper else 3, threads, CELLS_PER_TASK)
    return values[:2], status


def read_sampled(
    run: Run, target: Cells, what: Quantity, directions: Directions, threads: int, only_upper: bool
) -> Reading:
    """Bounds of runs of one sampled Gaussian each."""
    columns, status = read_run(run, target, target.shape, what, directions, threads, only_upper=only_upper)
    return Reading(columns[0], columns[-1], status)


def read_job(job: CellJob, target: Cells, what: Quantity, directions: Directions, only_upper: bool = False) -> Reading:
    """Bounds of the losses that both distributions of each pair have; `lost` is left out."""
    if job.is_one and job.runs:
        return read_sampled(job.runs, target, what, directions, 1, only_upper)
    if not job.columns[1].min(initial=1.0) > 0.0:
        return _nothing(target, what)
    if what == THRESHOLD:
        return _call(job, target, what, directions)
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
    return Reading(lower, np.where(trivial, lower, TOP[what]), status)


def _call(job: CellJob, target: Cells, what: Quantity, directions: Directions) -> Reading:
    parts = job.columns[2] + job.columns[3]
    if float(parts @ parts.astype(float)) > _MOST_WORK:
        return _nothing(target, what)
    out = Reading.empty(target.size)
    given = (*job.columns, job.data, np.ascontiguousarray(target))
    into = (out.lower, out.upper, np.empty(target.size), out.status)
    kernel = partial(_kernels.exact_job, mirrored=job.is_mirrored, spacing=job.spacing)
    aside(partial(kernel, *given, *into, quantity=what, directions=directions))
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
            return Reading(np.minimum(low, high), high, wide.astype(np.uint8))
        low, high = (
            np.maximum(np.exp(low) * (1.0 - 8.0 * _ULP) - np.where(low < _SUBNORMAL, _LEAST, 0.0), 0.0),
            np.minimum(np.exp(high) * (1.0 + 8.0 * _ULP) + np.where(high > -np.inf, _LEAST, 0.0), 1.0),
        )
    low = np.minimum(low, high)
    return Reading(low, high, status_of(low, high))


# P = (1 - r) P' + r P'' with P'' far out: n steps of P are at most those of P' and 1 - (1 - r)^n <= n r besides, so
# that delta <= delta' + n r; in direction add P >= (1 - r) P', which is paid as if it were rounding of weights.


def _without_far(
    reading: Reading, near: CellJob, lost: float, target: Cells, what: Quantity, directions: Directions
) -> Reading:
    """Upper bounds where a job whose components reach far out could not be certified."""
    at = np.flatnonzero((reading.upper >= TOP[what]) & ((target > 2.0 * lost) | (what != EPSILON)))
    if not at.size:
        return reading
    easier = (target[at] - lost) * (1.0 - 2.0 * _ULP) if what == EPSILON else target[at]
    found = read_job(near, easier, what, directions, False).upper
    if what == DELTA:
        found = (found + lost) * (1.0 + 2.0 * _ULP)
    elif what == LOG_DELTA:
        found = np.logaddexp(found, math.log(lost))
        found += 8.0 * _ULP * (1.0 + np.abs(found))
    upper, status = reading.upper.copy(), reading.status.copy()
    upper[at] = np.minimum(found, TOP[what])
    status[at] = np.where(upper[at] < TOP[what], Status.LOOSE, status[at])
    return reading._replace(upper=upper, status=status)


def _with_fallback(reading: Reading, runs: Run, target: Cells, what: Quantity) -> Reading:
    """Where several sampled Gaussians could not be certified: the bound of Rényi DP, as for a single one."""
    if reading.upper.max(initial=-np.inf) < TOP[what]:
        return reading
    lost = (reading.upper >= TOP[what]) & ((target > 0.0) | (what != EPSILON))
    if not lost.any():
        return reading
    at = np.ascontiguousarray(target[lost])
    value, order, status = np.empty(at.size), np.empty(at.size), np.empty(at.size, dtype=np.uint8)
    quantity = EPSILON if what == EPSILON else DELTA
    _kernels.renyi_of_history(*runs, at, value, order, status, quantity=quantity, conversion=_CKS)
    if what == LOG_DELTA:
        value = np.log(value) + 4.0 * _ULP * (1.0 - np.log(value))
    upper = reading.upper.copy()
    upper[lost] = np.minimum(value, TOP[what])
    codes = np.where(lost & (upper < TOP[what]), Status.LOOSE, reading.status).astype(np.uint8)
    return reading._replace(upper=upper, status=codes)
