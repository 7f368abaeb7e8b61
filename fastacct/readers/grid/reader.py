"""The grid reader: a composition of losses on a grid, for any number of targets.

Which exponential tilts and grids are used is a function of the job alone, on a fixed lattice: tilts five standard
deviations of the tilted loss apart, spacings by powers of the square root of two.  A target picks its place on the
lattice by itself, so that it has the same bits alone and among others, and targets near each other share compositions.
Guesses choose where the certified sums of `readers.grid.composition` are taken, and when to stop refining.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Literal

from fastacct.core.bounds import Found, Status, judged
from fastacct.core.kept import cached
from fastacct.losses.loss import Moment, OutOfReachError, Part, Saddle, log_moment, saddle_at, saddle_of_delta, weighted
from fastacct.losses.measure import lower_measure, upper_measure
from fastacct.readers.grid.composition import Composition
from fastacct.readers.grid.place import CARE, SMALLEST_TAIL, Place, Work, floor_of, hits_atoms, shared_spacing
from fastacct.readers.grid.window import Window

__all__ = ["Grid"]

_SMALLEST_DELTA: Final = 1e-290
_LOG_NOTHING: Final = -666.0
_MAX_ROUNDS: Final = 7
_MAX_POINTS: Final = 1 << 22
_MOST_TILT: Final = 60.0
_MOST_TILTS: Final = 200
_APART: Final = 5.0
"""Standard deviations of the tilted loss between two tilts of the lattice."""
_MAX_LOSSES: Final = 1 << 18
_KEPT: Final = 32
_MOST_CARE: Final = 26
_TRIES: Final = 64
_ATOM: Final = 0.02
_STEP: Final = 1e-3
"""Of the lattices of targets, in log delta, in log epsilon."""
_LARGEST_STEP: Final = 0.1
_LITTLE: Final = 1e-6
_SAFELY: Final = 0.5
"""Part of what is allowed that a target may use if those nearby shall not be asked."""
_Used = dict[tuple[int, int, int, bool], Window]


class Grid:
    """Bounds of delta and epsilon of one direction of a composition.

    `spacing`: one grid for all targets, instead of grids that are refined until the width is within the tolerance.
    """

    def __init__(self, parts: Sequence[Part], tolerance: float, spacing: float | None = None) -> None:
        self._parts = [part for part in parts if part.count]
        self._tolerance, self._spacing = tolerance, spacing
        self._n_factors = sum(part.count for part in self._parts)
        self._sketches = [weighted(part.upper, 1) for part in self._parts]
        sketched = zip(self._parts, self._sketches, strict=True)
        self._whole = [(part.count, *one[1:]) for part, one in sketched if one[1].size]
        self._tilts: list[tuple[float, Moment]] = []
        self._borders: list[Saddle | None] = []
        self._places: dict[int, Place] = {}
        self._floors: dict[tuple[int, int], tuple[float, ...]] = {}
        self._kept: OrderedDict[tuple[int, int, int, bool], Window] = OrderedDict()
        self._work = Work()
        self._share = 0.0
        self._divisor = shared_spacing(self._parts)

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta at `epsilon`."""
        self._work = Work()
        if not self._parts:
            return Found(0.0, 0.0, Status.TIGHT)
        if self._far < epsilon < self._top and (least := self.delta(self._far).upper) < _SMALLEST_DELTA:
            return Found(0.0, least, Status.LOOSE)
        epsilon = min(epsilon, 1e300)
        if self._is_beyond(epsilon):  # what is infinite, which any grid tells
            upper = self._composed(0, 0, 0, True).delta(epsilon)
            lower = self._composed(0, 0, 0, False).delta(epsilon) if upper > 0.0 else 0.0
            return judged(lower, upper, math.inf)
        index, near, step = self._before(epsilon)
        with suppress(OutOfReachError):
            if self._before(near - _LITTLE * step)[0] == index and (found := self._settled(index, epsilon)):
                return found

        def grids(target: float) -> tuple[_Used, float]:
            index, near, step = self._before(target)
            near = min(near, target)

            def read(window: Window) -> float:
                found = window.delta(near)
                self._share = window.left_out(near) / max(found, SMALLEST_TAIL)
                return found

            def tails(tail: float, found: float) -> float:
                return self._n_factors * tail / max(found, 1e-305)

            used = self._refine(lambda _: index, read, 1.0, _SMALLEST_DELTA, (0.0, 1.0), tails)
            return used, near - _LITTLE * step

        return self._read(grids, epsilon, lambda window: window.delta(epsilon), (0.0, 1.0))

    def _settled(self, index: int, epsilon: float) -> Found | None:
        """Bounds by the first grids of a place, where these are so good that epsilons nearby ask for no others."""
        window = self._composed(index, 0, 0, True)
        upper = window.delta(epsilon)
        left_out = max(window.left_out(epsilon), self._n_factors * self._place(index).tail_at(0))
        if upper < _SMALLEST_DELTA or left_out > _SAFELY * 0.25 * self._tolerance * upper:
            return None
        lower = self._composed(index, 0, 0, False).delta(epsilon)
        return judged(lower, upper, math.inf) if upper - lower <= _SAFELY * self._tolerance * upper else None

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 at which delta is at most `delta`."""
        if not self._parts or delta >= 1.0:
            return Found(0.0, 0.0, Status.TIGHT)
        self._work = Work()
        if self._is_out_of_reach(delta) and self._composed(0, 0, 0, False).infinite > delta:
            return Found(math.inf, math.inf, Status.NOT_MET)

        def grids(target: float) -> tuple[_Used, float]:
            log_near, step, first, guess, slope = self._guess(target)
            near = min(self._infinite + math.exp(log_near), delta) if delta > self._infinite else delta

            def index(found: float | None) -> int:
                return first if found is None or not math.isfinite(found) else self._index_at(found)

            def read(window: Window) -> float:
                found = window.epsilon(near)
                if 0.0 < found < math.inf:
                    self._share = window.left_out(found) / max(near, SMALLEST_TAIL)
                return found

            used = self._refine(index, read, max(slope * guess, 1e-3), 1e-6, (0.0, math.inf), lambda tail, _: 0.0)
            return used, log_near - _LITTLE * step

        wanted = _log(delta - self._infinite)
        return self._read(grids, wanted, lambda window: window.epsilon(delta), (0.0, math.inf))

    def at_most(self, quantity: Literal["epsilon", "delta"], target: float) -> float:
        """An upper bound of the answer by the first grid alone; inf where a target begins with none."""
        is_delta = quantity == "delta"
        self._work = Work()
        if not self._whole or (target > self._far if is_delta else self._is_out_of_reach(target)):
            return math.inf
        if is_delta:
            index = 0 if self._is_beyond(target) else self._index_at(target)
            return self._composed(index, 0, 0, True).delta(target)
        _, _, index, guess, slope = self._guess(_log(target - self._infinite))
        return self._composed(index, _first_level(max(slope * guess, 1e-3)), 0, True).epsilon(target)

    def _read(
        self,
        grids: Callable[[float], tuple[_Used, float]],
        target: float,
        ask: Callable[[Window], float],
        worst: tuple[float, float],
    ) -> Found:
        """Bounds by the grids of the target, and by those of a target that is a little harder."""
        used, harder = grids(target)
        self._work = Work()  # what the harder one uses does not depend on the target
        with suppress(OutOfReachError):
            used = grids(harder)[0] | used
        upper = min((ask(window) for window in used.values() if window.is_upper), default=worst[1])
        lower = max((ask(window) for window in used.values() if not window.is_upper), default=worst[0])
        return judged(lower, upper, math.inf)

    @cached
    def _infinite(self) -> float:
        """Mass of an infinite loss, roughly."""
        return -math.expm1(math.fsum(p.count * math.log1p(-min(p.upper.infinite, 1.0 - 1e-16)) for p in self._parts))

    @cached
    def _top(self) -> float:
        """The largest loss, roughly; inf where losses are not bounded."""
        ends = ((p.count, p.upper.extent(SMALLEST_TAIL)[1], p.upper.outside(SMALLEST_TAIL)) for p in self._parts)
        return sum(count * max(high, where if missing > 0.0 else high) for count, high, (missing, where) in ends)

    @cached
    def _left_out(self) -> float:
        """Mass that is left out beyond the largest loss, where as little as possible is."""
        return max((part.upper.outside(SMALLEST_TAIL)[0] for part in self._parts), default=0.0)

    @cached
    def _is_whole(self) -> bool:
        """Whether no mass is left out of densities, however much may be."""
        return self._left_out == 0.0 and any(part.upper.quadrature > 0.0 for part in self._parts)

    def _is_beyond(self, epsilon: float) -> bool:
        """Whether an epsilon is seen to be beyond all finite losses."""
        return epsilon > self._top and self._left_out == 0.0 and self._composed(0, 0, 0, True).finite(epsilon) == 0.0

    def _is_out_of_reach(self, delta: float) -> bool:
        """Whether the mass of an infinite loss is more, roughly."""
        return delta < self._infinite * (1.0 - 1e-9)

    @cached
    def _far(self) -> float:
        """An epsilon from which delta is smaller than what can be told from nothing."""
        if not self._whole or self._infinite > 0.0:
            return math.inf
        return max(saddle_of_delta(self._whole, _LOG_NOTHING).epsilon, 0.0)

    # -- the lattice --------------------------------------------------------------------------------------------------

    def _tilt(self, index: int) -> tuple[float, Moment]:
        """A tilt of the lattice and the log-moment there; the last one where the loss has no width left."""
        while len(self._tilts) <= index and len(self._tilts) < _MOST_TILTS:
            if not self._tilts:
                self._tilts.append((0.0, log_moment(self._whole, 0.0)))
                continue
            tilt, moment = self._tilts[-1]
            width, rest = math.sqrt(moment.variance), 0.0
            if any(part.upper.quadrature > 0.0 for part in self._parts):
                rest = math.fsum(n * float(loss.max()) for n, loss, _ in self._whole) - moment.mean
            if not width > 1e-12 * (1.0 + abs(moment.mean)) or 0.0 < tilt * max(width, rest) < _ATOM:
                break  # all at the largest loss: more tilt changes nothing
            step = _APART / width if tilt == 0.0 else min(_APART / width, 2.0 * tilt)
            for _ in range(60):  # not beyond where another part of the losses takes over
                after = log_moment(self._whole, tilt + step)
                if after.mean - moment.mean <= 1.5 * _APART * math.sqrt(width * math.sqrt(after.variance)):
                    break
                step *= 0.5
            self._tilts.append((tilt + step, after))
        return self._tilts[min(index, len(self._tilts) - 1)]

    def _border(self, index: int) -> Saddle | None:
        """The saddle point between a place and the next one; None after the last."""
        if index >= len(self._borders):
            here, after = self._tilt(index)[0], self._tilt(index + 1)[0]
            self._borders.append(None if after == here else saddle_at(self._whole, 0.5 * (here + after)))
        return self._borders[index]

    def _index_at(self, epsilon: float) -> int:
        """The place next to the saddle point of an epsilon."""
        index = 0
        while self._whole and (border := self._border(index)) is not None and epsilon > border.epsilon:
            index += 1
        return index

    def _before(self, epsilon: float) -> tuple[int, float, float]:
        """The place next to the saddle point of an epsilon, the last step of its lattice up to there, and the step."""
        index = self._index_at(epsilon)
        border = self._border(index - 1) if index else None
        start, step = max(border.epsilon, 0.0) if border else 0.0, _STEP / self._place(index).rate
        return index, start + math.floor(min((epsilon - start) / step, 1e300)) * step, step

    def _guess(self, log_delta: float) -> tuple[float, float, int, float, float]:
        """A delta, rounded down in steps, and the step: logarithms; the place next to its saddle point, about its
        epsilon, and how fast log delta falls there."""
        index, near = 0, None
        while self._whole and (border := self._border(index)) is not None:
            near = border
            if log_delta >= border.log_delta:
                break
            index += 1
        if near is None:
            return log_delta, 0.0, 0, 0.0, 1.0
        step = min(_STEP * max(near.tilt * near.epsilon, 1.0), _LARGEST_STEP)
        log_delta = near.log_delta + math.floor((log_delta - near.log_delta) / step) * step
        guess = near.epsilon + (near.log_delta - log_delta) / near.tilt
        index, guess = (index, guess) if guess > 0.0 else (self._index_at(0.0), 0.0)
        return log_delta, step, index, guess, near.tilt

    def _place(self, index: int) -> Place:
        if index not in self._places:
            self._places[index] = self._make_place(index)
        return self._places[index]

    def _make_place(self, index: int) -> Place:
        """Upper and lower grids differ by about n tilt (1 + tilt) spacing^2 / 8 in log delta."""
        tolerance = min(self._tolerance, 0.3)
        tilt, moment = self._tilt(index)
        if not self._whole:
            return Place(tilt, moment, SMALLEST_TAIL, -40.0, 1.0, 1.0, 0.0, (-math.inf,) * len(self._parts), 0.0)
        width = math.sqrt(moment.variance)
        ends = [self._tilt(max(index - 1, 0)), self._tilt(index + 1)]
        # the smallest part of the tilted mass that decides a target between the neighbours, and the smallest delta
        log_signal = min(end.value - moment.value + (tilt - t) * end.mean for t, end in ends) - 4.0
        log_delta = min(min(end.value - t * end.mean for t, end in ends) - 4.0 - math.log1p(ends[1][0] * width), 0.0)
        log_budget = max(min(log_signal, 0.0) + math.log(tolerance) - 5.0, -690.0)
        tail = math.exp(max(log_delta, -690.0)) * tolerance * 1e-3 / self._n_factors
        effective = max(0.5 * (tilt + ends[1][0]), 1.0 / width if width > 0.0 else 0.0, 1e-3)
        spacing = math.sqrt(10.0 * tolerance / (self._n_factors * effective * (1.0 + effective)))
        log_floor = log_budget - math.log(self._n_factors)
        floors = tuple(floor_of(sketch, tilt, log_floor) for sketch in self._sketches)
        spans = [part.upper.extent(tail) for part in self._parts]
        spans = [(max(low, floor), max(high, floor)) for (low, high), floor in zip(spans, floors, strict=True)]
        longest = max(high - low for low, high in spans)
        whole = math.fsum(part.count * (b - a) for part, (a, b) in zip(self._parts, spans, strict=True))
        window = min(2.2 * math.sqrt(-2.0 * log_budget) * width, whole)
        largest = max(max(abs(low), abs(high)) for low, high in spans)
        most = _MAX_LOSSES << all(part.upper.quadrature == 0.0 for part in self._parts)  # cells of atoms cost less
        least = max(window / _MAX_POINTS, longest / most, 1e-12 * largest)
        return Place(tilt, moment, max(tail, SMALLEST_TAIL), log_budget, effective, spacing, least, floors, window)

    def _composed(self, index: int, level: int, care: int, is_upper: bool) -> Window:
        """The composition at a place, from the parts on a grid of one level; less is left out with more care."""
        key = (index, level, care, is_upper)
        place = self._place(index)
        spacing = self._spacing_at(place, level)[0]
        sources = [part.upper if is_upper else part.lower for part in self._parts]
        tail, budget = place.tail_at(care), place.budget_at(care)
        if (floors := place.floors if not care else self._floors.get((index, care))) is None:
            log_floor = budget - math.log(self._n_factors)
            floors = self._floors[index, care] = tuple(floor_of(s, place.tilt, log_floor) for s in self._sketches)
        self._work.spend(key, place.cost(sources, floors, spacing, care, is_upper, _MAX_POINTS))
        if key not in self._kept:
            measure = upper_measure if is_upper else lower_measure
            measures = [measure(source, spacing, tail, floor) for source, floor in zip(sources, floors, strict=True)]
            parts = list(zip(measures, (part.count for part in self._parts), strict=True))
            # beyond the largest tilt all the tilted mass is at the largest loss
            tilt = min(place.tilt, _MOST_TILT / spacing)
            self._kept[key] = Composition(parts, is_upper).window(tilt, budget, _MAX_POINTS)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]

    def _refine(
        self,
        index_of: Callable[[float | None], int],
        read: Callable[[Window], float],
        ease: float,
        floor: float,
        worst: tuple[float, float],
        tails: Callable[[float, float], float],
    ) -> _Used:
        """Ever finer grids, until the bounds are within the tolerance, relative to the upper one or `floor`.

        The first grid is coarser by the square root of `ease`.
        """
        used: _Used = {}
        (lower, upper), level = worst, _first_level(ease)
        index, care, gap, moved = index_of(None), 0, math.inf, 0
        for _ in range(_MAX_ROUNDS):
            known, last = (lower, upper), math.inf
            try:
                while True:
                    self._share = 0.0
                    used[index, level, care, True] = window = self._composed(index, level, care, True)
                    above = read(window)
                    upper = min(upper, above)
                    if upper == 0.0:  # nothing is below it
                        return used
                    better = index_of(above)
                    if better != index and moved < 2:
                        index, moved, last = better, moved + 1, math.inf
                        continue
                    tail = 0.0 if self._is_whole else tails(self._place(index).tail_at(care), above)
                    share = max(self._share, tail) / (0.25 * self._tolerance)
                    is_full = (window.is_cut or window.mass.size >= _MAX_POINTS) and self._share >= tail
                    if share <= 1.0 or care >= _MOST_CARE or is_full or share > 0.5 * last:
                        break  # a window of all points holds no more with care, nor any where the last changed nothing
                    last = share
                    care = min(care + math.ceil(math.log(min(share, 1e290)) / CARE), _MOST_CARE)
                used[index, level, care, False] = window = self._composed(index, level, care, False)
                lower = max(lower, read(window))
                gap = upper - lower if math.isfinite(lower) else 0.0
            except OutOfReachError:  # too fine: what coarser grids have shown holds, or those of smaller tilts
                if upper < worst[1]:
                    break
                if not index:
                    raise
                index //= 2
                continue
            wanted = self._tolerance * max(upper, floor)
            if gap <= wanted or worst != (lower, upper) == known or self._spacing_at(self._place(index), level)[1]:
                break
            before, place, ratio = level, self._place(index), wanted / gap if math.isfinite(gap) else 0.25
            level += math.ceil(-2.0 * math.log2(min(0.5, max(0.125, 0.8 * math.sqrt(ratio)))))
            finer = self._spacing_at(place, before)[0] / self._spacing_at(place, level)[0]
            if care and window.mass.size * finer > _MAX_POINTS:
                break  # no window of all points holds what care asks for
        return used

    def _spacing_at(self, place: Place, level: int) -> tuple[float, bool]:
        """The spacing of a level, one that atoms share if there is one; and whether a finer one would not help."""
        if self._spacing is not None:
            return self._spacing, True
        wanted = place.spacing * 2.0 ** (-0.5 * level)
        spacing, is_final = max(wanted, place.least_spacing), wanted <= place.least_spacing
        if (divisor := self._divisor) is None:
            return spacing, is_final
        if all(part.upper.quadrature == 0.0 and part.upper.lattice is not None for part in self._parts):
            return divisor * max(1, math.ceil(place.least_spacing / divisor)), True
        if spacing >= divisor:
            return spacing, is_final
        cells = math.ceil(divisor / spacing)
        found = (divisor / n for n in range(cells, cells + _TRIES) if hits_atoms(self._parts, divisor / n))
        return next(found, divisor / cells), is_final


def _first_level(ease: float) -> int:
    return -math.floor(math.log2(min(max(ease, 1e-3), 1e9)))


def _log(value: float) -> float:
    return math.log(value) if value > SMALLEST_TAIL else -690.0
