"""The contour reader: jobs of Gaussian mixtures and of losses that are data, by the compiled contour integrals.

One sampled Gaussian is a cell of the vectorised kernel; every other cell is one call of that for heterogeneous jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Status, meet
from fastacct.core.engine import in_pieces
from fastacct.core.inputs import PAD, Cells
from fastacct.core.kept import cached, kept_by_argument
from fastacct.core.relations import Direction, Relation
from fastacct.core.work import kept, note
from fastacct.losses.atoms import pieces_of
from fastacct.losses.loss import Apart, OutOfReachError, Pair, refuse_where
from fastacct.losses.mixture import Mixture, mixture_of
from fastacct.losses.pieces import Pieces
from fastacct.mechanisms.base import Run
from fastacct.mechanisms.process import Cell, Process
from fastacct.readers.cell_job import (
    ADD,
    BOTH,
    CELLS_PER_TASK,
    REMOVE,
    CellJob,
    Losses,
    is_one,
    job_of,
    read_about,
    read_run,
)
from fastacct.readers.infinite import read_whole
from fastacct.readers.nearby import BOTTOM, EPSILON, LOG_DELTA, Reading, delta_from, status_within
from fastacct.readers.reach import within_reach
from fastacct_ext import _kernels
from fastacct_ext._kernels import Directions, Quantity

if TYPE_CHECKING:
    from fastacct.mechanisms.algebra import Mechanism

Index = NDArray[np.intp]
REVERSE: Final = {ADD: REMOVE, REMOVE: ADD, BOTH: BOTH}


def kernel_directions(relation: Relation) -> Directions:
    """Directions as the kernels name them."""
    return {"add": ADD, "remove": REMOVE}.get(relation, BOTH)


class Contour:
    """A job under a relation, cell by cell."""

    def __init__(self, process: Process, relation: Relation) -> None:
        self.shape = process.shape
        self.directions = kernel_directions(relation)
        self.is_mirrored = relation == "replace_one"  # both directions are one
        self.relation = relation
        self.process = process
        self._made: dict[tuple[int, bool], CellJob] = {}
        self._last: tuple[object, Reading, NDArray[np.bool_], float] = None, Reading.empty(0), np.ones(0, np.bool_), 0.0

    @property
    def is_gaussian(self) -> bool:
        """Whether all losses are Gaussian mixtures; asked late, since a run's mechanisms are built for it."""
        return self.process.is_gaussian

    @cached
    def is_symmetric(self) -> bool:
        """Whether both directions are one because each loss is its own mirror image."""
        jobs = map(self._job, range(math.prod(self.shape)))
        return self._columns is None and all(job.is_mirrored and job.is_plain for job in jobs)

    @classmethod
    def of(cls, process: Process, relation: Relation) -> Contour:
        """That of a job whatever its losses are; kept with the job."""
        kept: dict[Relation, Contour] = process.__dict__.setdefault("kept_lines", {})
        return kept.get(relation) or kept.setdefault(relation, cls(process, relation))

    def lattice(self, cell: int, way: Directions) -> tuple[float, float, float]:
        """The least sum of losses, by how much it may be off, and what divides all others from it; 0 if not known."""
        if self.is_gaussian or (way == BOTH and not self._job(cell).is_mirrored):
            return 0.0, 0.0, 0.0
        least, off = self._job(cell).least
        return -least if way == ADD else least, off, self._job(cell).spacing

    @cached
    @within_reach(False)
    def is_certain(self) -> bool:
        """Whether all losses are mixtures or data, and the kernels certify an everyday epsilon of each cell well."""
        # a delta: where no line certifies its epsilon well, none is worth its time on other points
        cells, everyday = range(math.prod(self.shape)), np.array([1e-3])
        return not self.is_apart and all(_is_narrow(self.read_cell(cell, everyday, EPSILON)[0]) for cell in cells)

    @cached
    @within_reach(False)
    def is_apart(self) -> bool:
        """Whether some losses are known by two pairs, one from above and one from below, with other than rare parts."""
        return self._columns is None and any(not is_one(self.pair(m)) for cell in self._cells for m, _ in cell)

    @kept_by_argument
    def pair(self, mechanism: Mechanism) -> Pair:
        """The losses of a mechanism, made once."""
        if (pair := losses_of(mechanism, self.relation)) is None:
            raise OutOfReachError(f"no dominating pair is known for {mechanism!r}")
        return pair

    def read_cell(
        self, cell: int, target: Cells, what: Quantity, *, only_upper: bool = False, way: Directions | None = None
    ) -> tuple[Reading, NDArray[np.bool_]]:
        """Bounds of a cell, and where they are all that is known of its losses.  only_upper: of two pairs one."""
        ways, asked = self.directions if way is None else way, (cell, target.tobytes(), what, only_upper, way)
        if (found := self._last)[0] != asked:  # other rungs ask the same again; another thread may put its own there
            _, before = self._job(cell), _kernels.counted()  # making a job may read lines of others
            _kernels.begin()
            try:
                answer = self._read(cell, target, what, ways, only_upper and self.is_apart)
                self._last = found = asked, *answer, _kernels.counted() - before
            finally:
                _kernels.end()
        note({(self, asked): found[3]})
        return found[1].copy(), found[2].copy()

    def _read(
        self, cell: int, target: Cells, what: Quantity, directions: Directions, only_upper: bool = False
    ) -> tuple[Reading, NDArray[np.bool_]]:
        """The same, or an error; of two pairs each is tight or not."""
        above = read_whole(self._job(cell), target, what, directions, only_upper)
        if not self.is_apart:
            return above, above.status == Status.TIGHT
        if only_upper:
            nothing = np.full(above.lower.shape, BOTTOM[what])
            return above._replace(lower=nothing), above.status == Status.TIGHT
        below = read_whole(self._job(cell, below=True), target, what, directions)
        done = (above.status == Status.TIGHT) & (below.status == Status.TIGHT)
        lower, upper = meet(below.lower, above.upper)
        status = np.maximum(above.status, status_within(lower, upper, what))
        return Reading(lower, upper, status), done

    def beside(self, direction: Direction) -> Callable[[Cells, float], tuple[Cells, Cells]]:
        """Bounds of delta of a job of one cell at epsilons of either sign, left of 0 with P and Q exchanged; below a
        number they are not told apart, as lines take long far out."""
        mine = kernel_directions(direction)
        far = kept(8)(lambda delta, way: float(self.read_cell(0, np.array([delta]), EPSILON, way=way)[0].upper[0]))

        def deltas(epsilon: Cells, least: float) -> tuple[Cells, Cells]:
            low, high, flat = np.zeros(epsilon.size), np.full(epsilon.size, least), np.minimum(epsilon, 0.0)
            for way, away in ((mine, epsilon), (REVERSE[mine], -epsilon)):
                if (near := (away >= 0.0) & (away < far(least, way))).any():
                    reading = self.read_cell(0, away[near], LOG_DELTA, way=way)[0]
                    low[near], high[near] = delta_from(reading.lower, reading.upper)
            lower, upper = (np.exp(flat) * end - np.expm1(flat) for end in (low, high))
            return lower * (1.0 - PAD), upper * (1.0 + PAD)

        return deltas

    def about(self, delta: float, near: float) -> float:
        """Epsilon of a job of plain numbers by lines of which nothing is certified, about `near`; inf: not known."""
        return read_about(self._job(0), delta, self.directions, near)

    def components(self, cell: int) -> int:
        """Of all mixtures of a cell together."""
        return sum(int(n.sum()) for n in self._job(cell).columns[2:4])

    @cached
    def _columns(self) -> list[Run] | None:
        """Noise, rate and count (flat arrays) of mechanisms that are all sampled Gaussians, unrounded, else None."""
        sampled = self.process.sampled(self.relation, exactly=True)
        return sampled.runs if sampled else None

    @cached
    def _cells(self) -> list[Cell]:
        return list(self.process.cells())

    def _job(self, cell: int, *, below: bool = False) -> CellJob:
        """One cell as the kernels read it; below: with pairs from below, where there are two."""
        if (cell, below) not in self._made:
            less = partial(self._losses, cell, below or not self.is_apart)
            self._made[cell, below] = self._steps() or job_of(*self._losses(cell, below), less)
        return self._made[cell, below]

    def _steps(self) -> CellJob | None:
        """A cell of at least two sampled Gaussians that release something, as the arrays they are, else None."""
        sampled = None if self.is_mirrored else self.process.sampled(self.relation, exactly=True)
        if not sampled or (columns := sampled.columns) is None:
            return None
        noise, rate, count = columns
        single, none = np.ones(noise.size, dtype=np.int32), np.zeros(noise.size, dtype=np.int32)
        return CellJob((count, noise, single, none, rate, np.ones(noise.size)))

    def _losses(self, cell: int, below: bool) -> Losses:
        """Mixtures and losses that are data of one cell."""
        if self._columns is not None:
            runs = [[float(column[cell]) for column in run] for run in self._columns]
            used = [run for run in runs if run[0] < np.inf and min(run[1:]) > 0.0]
            return [(Mixture(noise, ((rate, 1.0),)), n) for noise, rate, n in used], []
        mixtures, data = [], []
        for mechanism, n in self._cells[cell]:
            loss = self._loss(mechanism, below)
            if isinstance(loss, Mixture):
                mixtures.append((loss, float(n)))
            elif loss is not None:
                data.append((loss, float(n)))
        return mixtures, data

    def _loss(self, mechanism: Mechanism, below: bool) -> Mixture | Pieces | None:
        """What the kernels read of a mechanism; None where nothing is released."""
        pair = self.pair(mechanism)
        refuse_where(pair.soon is not pair, f"the losses of {mechanism!r} are no data")
        if isinstance(pair, Apart):
            pair = pair.below if below else pair.above
        if (mixture := mixture_of(pair)) is not None or pair.is_nothing:
            return mixture
        if (pieces := pieces_of(pair)) is None:
            raise OutOfReachError(f"the losses of {mechanism!r} are no data")
        return pieces

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
        order = np.argsort(cells, kind="stable")
        starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        if self._columns is not None and len(self._columns) == 1 and starts.size * CELLS_PER_TASK > cells.size:
            noise, rate, count = (x[cells] for x in self._columns[0])  # each cell is one sampled Gaussian
            return read_run((noise, rate, count), target, target.shape, what, directions, threads, only_upper)
        out = Reading.empty(cells.size)
        groups = np.split(order, starts[1:])
        pieces = [piece for group in groups for piece in _pieces(group, target, threads)]

        def work(start: int, _: int) -> int:
            mine = pieces[start]
            out.put(mine, self._read(int(cells[mine[0]]), target[mine], what, directions, only_upper)[0])
            return start + 1

        in_pieces(len(pieces), threads, work)
        return out


def losses_of(mechanism: Mechanism, relation: Relation) -> Pair | None:
    """The losses of a mechanism; where they need deltas of another job, with those of its line."""
    pair = mechanism.losses(relation)
    return pair if pair is None else pair.given(_deltas)


def _deltas(job: Process, relation: Relation, direction: Direction, epsilon: Cells) -> tuple[Cells, Cells]:
    """Bounds of the deltas of a job in one direction, where a line knows thousands soon: of noise and few atoms."""
    line = Contour.of(job.decompose(relation), relation)
    mixtures, data = ([], []) if line.is_apart else line._losses(0, below=False)
    is_long = not mixtures or any(len(one.atoms) > 8 for one, _ in data)
    refuse_where(is_long, "a line takes long for a curve, or does not know it better than the losses")
    found = line.read_cell(0, epsilon, LOG_DELTA, way=kernel_directions(direction))[0]
    return delta_from(found.lower, found.upper)


def _is_narrow(reading: Reading) -> bool:
    is_near = reading.status[0] == Status.TIGHT and reading.upper[0] * (1.0 - 1e-8) <= reading.lower[0]
    return bool(is_near or reading.lower[0] == np.inf)  # that it is infinite is all there is to know


def _pieces(group: Index, target: Cells, threads: int) -> list[Index]:
    """The targets of one job in a few pieces: neighbouring ones share a line, where one piece has them all."""
    count = min(-(-group.size // CELLS_PER_TASK), threads)
    return np.array_split(group[np.argsort(target[group], kind="stable")], count)
