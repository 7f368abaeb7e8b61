"""The contour reader: jobs of Gaussian mixtures, by the compiled contour integrals.

A cell with one sampled Gaussian is a cell of the vectorised kernel; every other cell is one call of the kernel for
heterogeneous jobs.  Mixtures are merged and sorted per cell, so that a cell of an array job, the same job in plain
numbers and any other spelling of it give the same bits.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import TIGHT_WIDTH, Status
from fastacct.core.engine import in_pieces, run_kernel, status_of
from fastacct.core.inputs import Cells, Codes
from fastacct.core.relations import Relation
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.mechanisms.process import Cell, Process, merge
from fastacct_ext import _kernels

__all__ = ["ADD", "BOTH", "DELTA", "EPSILON", "LOG_DELTA", "REMOVE", "Contour", "Reading", "kernel_directions"]

EPSILON, DELTA, LOG_DELTA = 0, 1, 2
ADD, REMOVE, BOTH = 1, 2, 3
_DIRECTIONS: Final[dict[Relation, int]] = {"add": ADD, "remove": REMOVE}
CELLS_PER_TASK: Final = 8
"""A cell takes microseconds to milliseconds."""
_CKS: Final = 1
_ULP: Final = 2.0**-52
_LEAST: Final = 5e-324
_SUBNORMAL: Final = -707.0
"""Logarithms below it are those of numbers that have lost digits."""

Index = NDArray[np.intp]
Table = tuple[tuple[Mixture, float], ...]
"""The mixtures of one cell that release something, merged, in an order of their own."""


def kernel_directions(relation: Relation) -> int:
    """Directions as the kernels number them."""
    return _DIRECTIONS.get(relation, BOTH)


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


class Steps(NamedTuple):
    """Different Poisson-sampled Gaussians of one cell, in an order of their own (flat arrays)."""

    noise: Cells
    rate: Cells
    steps: Cells


def _one_gaussian(table: Table) -> Table:
    """Several plain Gaussians as one: their mu^2 add up, here without the rounding of a long sum."""
    plain = [(pair, count) for pair, count in table if pair.is_plain]
    if len(plain) < 2 or any(pair.noise == 0.0 for pair, _ in plain):
        return table
    mu = math.sqrt(math.fsum(count * (pair.p[0][1] / pair.noise) ** 2 for pair, count in plain))
    if not 1e-150 < mu < 1e150:
        return table
    return (*((pair, count) for pair, count in table if not pair.is_plain), (Mixture(1.0, ((1.0, mu),)), 1.0))


class Contour:
    """A job of Gaussian mixtures under a relation, cell by cell."""

    def __init__(self, process: Process, relation: Relation) -> None:
        self.shape = process.shape
        self.directions = kernel_directions(relation)
        self.is_mirrored = relation == "replace_one"
        """Both directions are one."""
        self._relation = relation
        self._process = process
        self._tables: dict[int, Table] = {}

    @staticmethod
    def reads(process: Process) -> bool:
        """Whether all losses are Gaussian mixtures that increase in the output."""
        return process.is_gaussian

    @cached_property
    def _columns(self) -> list[tuple[Cells, Cells, Cells]] | None:
        """Noise, rate and count (flat arrays) of mechanisms that are all sampled Gaussians, unrounded, else None."""
        ones = (mechanism.sampled_gaussian(self._relation) for mechanism, _ in self._process)
        if not all(one is not None and one.is_exact for one in ones):
            return None
        return self._process.runs(self._relation)

    @cached_property
    def _cells(self) -> list[Cell]:
        return list(self._process.cells())

    def table(self, cell: int) -> Table:
        """The mixtures of one cell."""
        if cell not in self._tables:
            found: list[tuple[Mixture, float]] = []
            if self._columns is not None:
                for noise, rate, count in self._columns:
                    if rate[cell] > 0.0 and noise[cell] < np.inf and count[cell] > 0.0:
                        found.append((Mixture(float(noise[cell]), ((float(rate[cell]), 1.0),)), float(count[cell])))
            else:
                for mechanism, n in self._cells[cell]:
                    pair = mechanism.losses(self._relation)
                    if isinstance(pair, MixturePair):
                        found.append((pair.mixture, float(n)))
            self._tables[cell] = _one_gaussian(tuple(sorted(merge(found).items())))
        return self._tables[cell]

    def steps(self) -> Steps | None:
        """The job as arrays when it is one cell of at least two sampled Gaussians that release something, else None."""
        if self.shape or len(self._process) < 2 or self.is_mirrored or self._columns is None:
            return None
        noise, rate, steps = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        if not (noise.min() > 0.0 and noise.max() < np.inf and rate.min() > 0.0 and rate.max() < 1.0):
            return None
        order = np.lexsort((rate, noise))
        return Steps(noise[order], rate[order], steps[order])

    def vectorised(self) -> tuple[Cells, Cells, Cells] | None:
        """Noise, rate and steps of all cells when each is one sampled Gaussian, else None."""
        return self._columns[0] if self._columns is not None and len(self._process) == 1 else None

    def read(
        self, cells: Index, target: Cells, what: int, directions: int, threads: int, *, only_upper: bool = False
    ) -> Reading:
        """Bounds of epsilon, delta or log delta of the job's `cells` at `target`, one by one (flat arrays)."""
        if not cells.size:
            return Reading.empty(0)
        whole = self.vectorised()
        if whole is not None:
            noise, rate, steps = (x[cells] for x in whole)
            return _read_sampled(noise, rate, steps, target, what, directions, threads, only_upper)
        different = self.steps()
        if different is not None:
            return _read_steps(different, target, what, directions, threads)
        out = Reading.empty(cells.size)
        order = np.argsort(cells, kind="stable")
        starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        pieces = [
            part
            for group in np.split(order, starts[1:])
            for part in np.array_split(group, -(-group.size // CELLS_PER_TASK))
        ]

        def work(start: int, _: int) -> int:
            part = pieces[start]
            out.put(part, _read_table(self.table(int(cells[part[0]])), target[part], what, directions, only_upper))
            return start + 1

        in_pieces(len(pieces), threads, work)
        return out


def _read_sampled(
    noise: Cells, rate: Cells, steps: Cells, target: Cells, what: int, directions: int, threads: int, only_upper: bool
) -> Reading:
    shape, inputs = target.shape, (noise, rate, steps, np.ascontiguousarray(target))
    op, n_outputs = (_kernels.Op.EXACT_UPPER, 1) if only_upper else (_kernels.Op.EXACT, 3)
    columns, status = run_kernel(
        op, inputs, shape, n_outputs, threads, option=what, conversion=directions, cells_per_task=CELLS_PER_TASK
    )
    if only_upper:
        return Reading(columns[0], columns[0], np.full(shape, np.nan), status)
    # of plain Gaussians the kernel gives the slope far out in the tail only
    return Reading(columns[0], columns[1], np.where(rate == 1.0, np.nan, columns[2]), status)


def _read_table(table: Table, target: Cells, what: int, directions: int, only_upper: bool) -> Reading:
    if not table or (len(table) == 1 and table[0][0].is_sampled):
        pair, count = table[0] if table else (Mixture(1.0, ((0.0, 1.0),)), 0.0)
        rate, sensitivity = pair.p[0]
        noise, rates, steps = (np.full(target.shape, x) for x in (pair.noise / sensitivity, rate, count))
        return _read_sampled(noise, rates, steps, target, what, directions, 1, only_upper)
    if any(pair.noise == 0.0 for pair, _ in table):
        return _no_noise(target, what)
    shift = sum(4.0 * count * pair.rounding for pair, count in table)
    if shift == 0.0:
        reading = _call(table, target, what, directions)
    else:
        read = LOG_DELTA if what == DELTA else what
        above, below = (_call(table, _moved(target, what, s), read, directions) for s in (shift, -shift))
        reading = _widened(above, below, target, what, shift)
    if any(pair.q for pair, _ in table):
        return reading
    each = Steps(
        np.nextafter(np.array([pair.noise / pair.p[0][1] for pair, _ in table]), 0.0),
        np.array([pair.p[0][0] for pair, _ in table]),
        np.array([count for _, count in table]),
    )
    return _with_fallback(reading, each, target, what)


def _read_steps(steps: Steps, target: Cells, what: int, directions: int, threads: int) -> Reading:
    out = Reading.empty(target.size)

    def work(start: int, stop: int) -> int:
        part = slice(start * CELLS_PER_TASK, stop * CELLS_PER_TASK)
        reading = _with_fallback(_call_steps(steps, target[part], what, directions), steps, target[part], what)
        out.put(part, reading)
        return stop

    in_pieces(-(-target.size // CELLS_PER_TASK), threads, work)
    return out


def _no_noise(target: Cells, what: int) -> Reading:
    """The safe side, as the vectorised kernel gives it."""
    trivial = target >= 1.0 if what == EPSILON else target == np.inf
    zero, top = (-np.inf, 0.0) if what == LOG_DELTA else (0.0, 1.0 if what == DELTA else np.inf)
    lower = np.full(target.shape, zero)
    status = np.where(trivial, Status.TIGHT, Status.NOT_MET).astype(np.uint8)
    return Reading(lower, np.where(trivial, lower, top), np.full(target.shape, np.nan), status)


def _call(table: Table, target: Cells, what: int, directions: int) -> Reading:
    pairs = [pair for pair, _ in table]
    parts = np.array([part for pair in pairs for part in (*pair.p, *pair.q)])
    out = _exact_job(
        np.array([count for _, count in table]),
        np.array([pair.noise for pair in pairs]),
        np.array([len(pair.p) for pair in pairs], dtype=np.int32),
        np.array([len(pair.q) for pair in pairs], dtype=np.int32),
        parts[:, 0],
        parts[:, 1],
        target,
        what,
        directions,
    )
    if all(pair.is_plain for pair in pairs):
        out.slope[:] = np.nan  # as in `_read_sampled`
    return out


def _call_steps(steps: Steps, target: Cells, what: int, directions: int) -> Reading:
    size = steps.noise.size
    one, none = np.ones(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    return _exact_job(steps.steps, steps.noise, one, none, steps.rate, np.ones(size), target, what, directions)


def _exact_job(
    count: Cells,
    noise: Cells,
    n_p: NDArray[np.int32],
    n_q: NDArray[np.int32],
    weight: Cells,
    mean: Cells,
    target: Cells,
    what: int,
    directions: int,
) -> Reading:
    out = Reading.empty(target.size)
    weight, mean, target = (np.ascontiguousarray(x) for x in (weight, mean, target))
    _kernels.exact_job(count, noise, n_p, n_q, weight, mean, target, what, directions, *out)
    return out


# Weights that are rounded: P <= e^r P' and Q >= e^-r Q' for the pair (P', Q') that is computed, and so
# delta(eps) <= e^s delta'(eps - s), s = 2 r times the number of steps; and the same the other way round.


def _moved(target: Cells, what: int, shift: float) -> Cells:
    if what == EPSILON:
        return np.minimum(target * math.exp(-shift) * (1.0 - math.copysign(4.0 * _ULP, shift)), 1.0)
    return np.maximum(target - shift - math.copysign(4.0 * _ULP, shift) * np.where(target < np.inf, target, 0.0), 0.0)


def _widened(above: Reading, below: Reading, target: Cells, what: int, shift: float) -> Reading:
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


def _with_fallback(reading: Reading, steps: Steps, target: Cells, what: int) -> Reading:
    """Where several sampled Gaussians could not be certified: the bound of Rényi DP, as for a single one."""
    top = {EPSILON: np.inf, DELTA: 1.0, LOG_DELTA: 0.0}[what]
    lost = (reading.upper >= top) & ((target > 0.0) | (what != EPSILON))
    if not lost.any():
        return reading
    at = np.ascontiguousarray(target[lost])
    value, order, status = np.empty(at.size), np.empty(at.size), np.empty(at.size, dtype=np.uint8)
    _kernels.history(*steps, at, what != EPSILON, _CKS, None, value, order, status)
    if what == LOG_DELTA:
        value = np.log(value) + 4.0 * _ULP * (1.0 - np.log(value))
    upper = reading.upper.copy()
    upper[lost] = np.minimum(value, top)
    codes = np.where(lost & (upper < top), Status.LOOSE, reading.status).astype(np.uint8)
    return reading._replace(upper=upper, status=codes)
