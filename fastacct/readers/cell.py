"""One cell of a job: what the rungs of the ladder share of it, made once and asked at all targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import TIGHT_WIDTH, Answers, Found
from fastacct.core.inputs import Cells
from fastacct.core.kept import Guarded, cached
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.losses.atoms import are_scattered
from fastacct.losses.loss import OutOfReachError, Pair, Part
from fastacct.mechanisms.process import Cell, DeltaOf, Process
from fastacct.readers.asked import Quantity, Settings
from fastacct.readers.grid.reader import Grid
from fastacct.readers.listed import Listed, ListedBeside
from fastacct.readers.nearby import EPSILON, Reading
from fastacct.readers.reach import within_reach
from fastacct.readers.renyi import Renyi
from fastacct.readers.single import Single
from fastacct.readers.smoothed import Smoothed

if TYPE_CHECKING:
    from fastacct.readers.contour import Contour
    from fastacct_ext._kernels import Quantity as What

TOLERANCE: Final = TIGHT_WIDTH
"""Relative width at which the composition of losses on a grid stops refining."""
_SUMS_FIRST: Final = ("losses", "pure", "twice", "divergences", "unsampled", "coarse", "line")
_Noise = tuple[Pair, "Contour"]
"""The losses of one sampled Gaussian, and its line."""
_COARSE: Final = 1e-3
"""The same of a grid that only tells which of two answers is larger; it takes some hundredths of the time."""


def _release(pair: Pair, direction: Direction) -> Answers | None:
    """What answers of one release, where the pair itself does."""
    read: Callable[[Direction], Answers | None] | None = getattr(pair, "one_release", None)
    return None if read is None else read(direction)


def _near(pair: Pair) -> Callable[..., Pair] | None:
    """What makes a pair as well known as a question needs it, where it is known by few points."""
    near: Callable[..., Pair] | None = getattr(pair, "near", None)
    return near


class Side:
    """One direction of a cell, and the reader of its losses, which is made on demand."""

    def __init__(
        self, used: list[tuple[Pair, int]], way: Direction, settings: Settings, noise: _Noise | None = None
    ) -> None:
        self._used, self._direction, self._settings, self._noise = used, way, settings, noise

    @property
    def name(self) -> str:
        """What reads it, with the direction."""
        kinds = {Grid: "grid", Smoothed: "finite sum", Listed: "listed", ListedBeside: "listed", Single: "single"}
        return f"{'two distributions' if self.is_apart else kinds.get(type(self.reader), 'release')}, {self._direction}"

    @property
    def is_apart(self) -> bool:
        """Whether they are known from two sides alone."""
        return self.is_on_grid and any(part.is_apart for part in self._parts)

    @cached
    def _parts(self) -> list[Part]:
        return self._parts_of(self._used)

    def _parts_of(self, used: Iterable[tuple[Pair, int]]) -> list[Part]:
        sides = ((pair.side(self._direction), count) for pair, count in used)
        return [Part(one.upper, one.lower, count, is_apart=one.is_apart) for one, count in sides]

    def _near(self, tilt: float, cap: float, width: float) -> list[Part]:
        """Losses as well known as a question needs them, so that the logarithm of delta is about `width` wide."""
        asked = self._direction, tilt, cap
        few = [(near(*asked, n / width) if (near := _near(pair)) else pair, n) for pair, n in self._used]
        return self._parts_of(few)

    @cached
    def _grid(self) -> Grid | Smoothed:
        asked = self._settings
        grid = Grid(self._parts, asked.tolerance or TOLERANCE, asked.spacing, only_lower=asked.only_lower)
        if asked.tolerance is None and Smoothed.is_possible(self._parts, grid):
            is_few = any(_near(pair) for pair, _ in self._used)
            return Smoothed(self._parts, grid, TOLERANCE, self._near if is_few else None)
        return grid

    @cached
    def _coarse(self) -> Grid:
        """A grid that takes little time."""
        return Grid(self._parts, _COARSE)

    @cached
    def _at_once(self) -> Answers | None:
        """The reader that needs no grid, if one takes these losses."""
        is_one = [count for _, count in self._used] == [1]
        if is_one and (release := _release(self._used[0][0], self._direction)):
            return release
        if self._settings.spacing is None and (listed := self._listed()):
            return listed
        if is_one and self._settings.tolerance is None:
            return Single(self._parts[0])
        return None

    def _listed(self) -> Listed | ListedBeside | None:
        """All sums of few losses, if need be beside noise; of many those that matter, and a finite sum or a grid."""
        if not self._noise:
            return Listed.of(self._parts, None if self._settings.tolerance else lambda: self._grid)
        few = [part for part, (pair, _) in zip(self._parts, self._used, strict=True) if pair is not self._noise[0]]
        return ListedBeside.of(few, self._noise[1].beside(self._direction))

    @property
    def reader(self) -> Answers:
        """The most accurate reader that takes these losses."""
        return self._at_once or self._grid

    @property
    def is_on_grid(self) -> bool:
        """Whether losses are rounded to a grid."""
        return self._at_once is None or (isinstance(self._at_once, Listed) and not self._at_once.is_whole)

    def reached(self) -> float:
        """A loss that the job surely has, with however small a probability: the sum of the largest of its parts."""
        way, none = self._direction, -math.inf
        ends = [none if _release(pair, way) else n * pair.side(way).lower.reached() for pair, n in self._used]
        return (total := sum(ends)) - 4e-16 * (len(ends) + 2.0) * abs(total)

    def roughly(self, quantity: Literal["epsilon", "delta"], target: float) -> float:
        """An upper bound that takes little time, where losses are composed on a grid."""
        if quantity == "epsilon" and isinstance(self.reader, Smoothed | Listed):
            return self.reader.roughly(target)
        return self._coarse.at_most(quantity, target) if self.is_on_grid else math.inf

    def ask(self, quantity: Literal["epsilon", "delta"], target: float, *, only_upper: bool = False) -> Found:
        """The answer; of sides that are apart the upper one alone takes about half of the time."""
        ask: Callable[..., Found] = getattr(self.reader, quantity)
        return ask(target, only_upper=True) if only_upper and isinstance(self.reader, Grid) else ask(target)


class CellReader(Guarded):
    """One cell of a job under a relation; threads that share the job ask it one question at a time."""

    def __init__(self, line: Contour, index: int, settings: Settings, delta_of: DeltaOf) -> None:
        self._line, self._index, self.settings, self._delta_of = line, index, settings, delta_of
        self._job, self.relation = line.process, line.relation
        self._guard()

    def _forget(self) -> None:
        for name in ("_sides", "_finer"):
            vars(self).pop(name, None)

    @property
    def lock(self) -> RLock:
        """Held by who asks anything below."""
        return self._lock

    def read_line(self, target: Cells, what: What, *, only_upper: bool) -> tuple[Reading, NDArray[np.bool_]]:
        """Bounds by the contour integrals, and where they are all that is known of the losses.

        Epsilon at delta 0 is the sum of pure guarantees, where there is one.
        """
        found, is_final = self._line.read_cell(self._index, target, what, only_upper=only_upper)
        if what == EPSILON and (at_zero := target == 0.0).any() and self.largest < math.inf:
            found.put(at_zero, Reading.nothing(np.zeros(1), EPSILON))
            is_final = is_final & ~at_zero
        return found, is_final

    def by_line(self, job: Process, relation: Relation, what: What, target: float) -> float:
        """An upper bound of another job by its line."""
        line = self._line.of(job.decompose(relation), relation)
        return float(line.read_cell(0, np.array([target]), what, only_upper=True)[0].upper[0])

    @cached
    def process(self) -> Process:
        """The cell as a job of plain numbers."""
        return self._job.cell(self._index)

    @cached
    def table(self) -> Cell:
        """Mechanisms with their counts."""
        return next(self.process.cells())

    @cached
    def renyi(self) -> Renyi:
        """Divergences."""
        settings = self.settings
        return Renyi(self.table, self.relation, self._delta_of, settings.orders, settings.conversion)

    @cached
    def largest(self) -> float:
        """The sum of pure guarantees; inf where one is missing."""
        return self.renyi.pure_epsilon

    @cached
    def is_bound(self) -> bool:
        """Whether losses stand for a class of mechanisms: none is a lower bound, and divergences may say more."""
        return not all(mechanism.tight for mechanism, _ in self.table)

    @cached
    @within_reach(False)
    def is_dear(self) -> bool:
        """Whether losses have so many components that they are composed only where nothing else is known."""
        # a grid takes a tenth of a second for each, and divergences as much a kind
        if "line" not in self.settings.rungs or self._is_scattered:
            return False
        return self._line.components(self._index) > 40

    @property
    def is_gaussian(self) -> bool:
        """Whether all losses are Gaussian mixtures, which the line has been asked for."""
        return self._job.is_gaussian and "line" in self.settings.rungs

    @cached
    def has_sums(self) -> bool:
        """Whether they are sums of Gaussian mixtures: a grid takes seconds, and says more of rare steps alone."""
        return self.is_gaussian and [count for _, count in self.table] != [1]

    def rungs(self, quantity: Quantity) -> tuple[str, ...]:
        """Which rungs are asked, in this order: for an epsilon of atoms alone their sums first."""
        rungs = self.settings.rungs
        if quantity == "epsilon" and "losses" in rungs and self._is_scattered:
            return tuple(sorted(rungs, key=_SUMS_FIRST.index))
        return rungs

    @cached
    @within_reach(False)
    def _is_scattered(self) -> bool:
        """Whether lists and finite sums say more of all losses than a line."""
        return are_scattered([(self._line.pair(mechanism), count) for mechanism, count in self.table])

    @cached
    def _sides(self) -> list[Side]:
        """Readers of the directions of the relation; one where both are the same.  Of losses that are made soon."""
        return self._sides_of(lambda pair: pair.soon)

    @cached
    def _finer(self) -> list[Side]:
        """The same of losses that are known better."""
        return self._sides_of(lambda pair: pair)

    def _sides_of(self, known: Callable[[Pair], Pair]) -> list[Side]:
        used = []
        for mechanism, count in self.table:
            pair = known(self._line.pair(mechanism))
            _ = pair.remove, pair.add  # of what is data for a line alone there are no losses one by one
            if not pair.is_nothing:
                used.append((pair, count))
        directions = DIRECTIONS[self.relation]
        if all(pair.is_mirrored for pair, _ in used):
            directions = directions[:1]
        return [Side(used, direction, self.settings, self._noise) for direction in directions]

    @property
    def _noise(self) -> _Noise | None:
        """The only sampled Gaussian beside others, if its line knows it well."""
        noise = [(m, n) for m, n in self.table if m.sampled_gaussian(self.relation)]
        if not len(noise) == 1 < len(self.table) or self.settings.tolerance:
            return None
        if not (line := self._line.of(Process(noise), self.relation)).is_certain:
            return None
        return self._line.pair(noise[0][0]), line

    @property
    def is_on_grid(self) -> bool:
        """Whether losses are rounded to a grid in some direction."""
        return any(side.is_on_grid for side in self._sides)

    @within_reach(-math.inf)
    def reached(self) -> float:
        """A loss that the job surely has, in some direction; -inf: none is known."""
        return max(side.reached() for side in self._sides)

    def roughly(self, quantity: Literal["epsilon", "delta"], target: float) -> float:
        """An upper bound by grids that take little time."""
        return max(side.roughly(quantity, target) for side in self._sides)

    def larger(
        self, quantity: Literal["epsilon", "delta"], target: float, *, only_upper: bool = False
    ) -> tuple[float, float, str]:
        """Bounds of the larger direction by losses, and what reads it: of those that are made soon, where they say
        enough of epsilon; of delta they hardly ever do."""
        if all(pair.soon is pair for pair in map(self._line.pair, dict(self.table))):
            return _largest(self._sides, quantity, target, only_upper)
        with suppress(OutOfReachError):
            found = _largest(self._sides, quantity, target, only_upper)
            if found[1] - found[0] <= TIGHT_WIDTH * found[0]:
                return found
        return _largest(self._finer, quantity, target, only_upper)


def _largest(
    sides: list[Side], quantity: Literal["epsilon", "delta"], target: float, only_upper: bool
) -> tuple[float, float, str]:
    least, upper, name = -math.inf, -math.inf, ""
    for side in sides:
        if least > -math.inf and not isinstance(side.reader, Listed) and side.roughly(quantity, target) <= least:
            continue  # it is not the larger one
        found = side.ask(quantity, target, only_upper=only_upper)
        if found.upper > upper:
            upper, name = found.upper, side.name
        least = max(least, found.lower)
    return least, upper, name
