"""The grid reader: a composition of losses on a grid, refined until the bounds of a target are within a tolerance.

Which exponential tilts and grids are used is a function of the job alone: tilts five standard deviations of the tilted
loss apart, spacings by powers of the square root of two.  A target picks the tilt next to its saddle point, so that it
has the same bits alone and among others, and targets near each other share compositions.  Guesses choose where the
certified sums of `readers.grid.composition` are taken, and when to stop refining.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal

from fastacct.core.bounds import Found, Status, judged
from fastacct.core.kept import cached, kept_by_argument
from fastacct.core.work import begin, is_left, note, spend
from fastacct.losses.loss import (
    LEAST_TAIL,
    ROUNDING,
    Loss,
    Moment,
    OutOfReachError,
    Part,
    log_moment,
    refuse_where,
    weighted,
)
from fastacct.losses.measure import Lowered, lower_measure, upper_measure
from fastacct.readers.grid.composition import Composition, moved_back
from fastacct.readers.grid.place import (
    Asked,
    Place,
    Saddle,
    densities,
    floor_of,
    left_apart,
    more_levels,
    moved_up,
    next_tilt,
    saddle_after,
    shared_spacing,
)
from fastacct.readers.grid.window import Lower, Window

_SMALLEST_DELTA: Final = 1e-290
_MAX_ROUNDS: Final = 6
_MAX_POINTS: Final = 1 << 22
_MAX_CELLS: Final = 1 << 21
_MOST_WORK: Final = 5e5
"""Of a composition on a grid, in about microseconds: of a cell of a density, of atoms, and of a point of a window."""
_COSTS: Final = (0.8, 0.1, 0.12)
_MOST_LEVELS: Final = 60
_KEPT: Final = 16
_ONCE: Final = 1.5
"""log(2/0.1)/2: Hoeffding's bound of how far sums of moves of a point each are apart, nine times of ten."""
_LITTLE: Final = 25.0
"""How much smaller what is left out is than what is decided, in logarithms."""


class Grid:
    """Bounds of delta and epsilon of one direction of a composition.

    `spacing`: one grid for all targets, instead of grids that are refined until the width is within the tolerance.
    `has_ends`: losses that hardly ever occur have their places, too, which may make the grid coarse.
    `only_lower`: where sides are apart, the upper one says nothing.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        tolerance: float,
        spacing: float | None = None,
        *,
        has_ends: bool = False,
        only_lower: bool = False,
    ) -> None:
        self._parts = [part for part in parts if part.count]
        self._cut = 0.0 if has_ends else 1.0
        self._tolerance, self._spacing, self._rounds = tolerance, spacing, (_MAX_ROUNDS, _MAX_ROUNDS * (not only_lower))
        self._n_factors = sum(part.count for part in self._parts)
        self._is_apart = any(part.is_apart for part in self._parts)
        self._sketches = [weighted(part.upper, 1) for part in self._parts]
        self._whole = [(p.count, *one[1:]) for p, one in zip(self._parts, self._sketches, strict=True) if one[1].size]
        self._tilts: list[tuple[float, Moment]] = []
        self._kept: OrderedDict[tuple[int, int, bool], Window | Lower] = OrderedDict()

    def delta(self, epsilon: float, *, only_upper: bool = False) -> Found:
        """Bounds of delta at `epsilon`."""
        if not self._parts:
            return Found(0.0, 0.0, Status.TIGHT)
        if self._far < epsilon < self._top and (least := self._far_out(epsilon)) < _SMALLEST_DELTA:
            return Found(0.0, least, Status.LOOSE)
        epsilon = min(epsilon, 1e300)
        asked = Asked(self._at(epsilon), lambda window: window.delta(epsilon), 1.0, _SMALLEST_DELTA, (0.0, 1.0))
        found = self._refined(asked, only_upper)
        if self._shows_ends(asked.place, found.upper):
            return min(found, self._with_ends.delta(epsilon, only_upper=only_upper), key=lambda one: one.upper)
        return found

    def epsilon(self, delta: float, *, only_upper: bool = False) -> Found:
        """Bounds of the smallest epsilon >= 0 at which delta is at most `delta`."""
        if not self._parts or delta >= 1.0:
            return Found(0.0, 0.0, Status.TIGHT)
        if delta < self._infinite * (1.0 - 1e-9) and self._surely_infinite > delta:
            return Found(math.inf, math.inf, Status.NOT_MET)
        index, ease = self._first(delta)
        asked = Asked(index, lambda window: window.epsilon(delta), ease, 1e-6, (0.0, math.inf))
        if self._shows_ends(index, delta):
            return self._with_ends.epsilon(delta, only_upper=only_upper)
        return self._refined(asked, only_upper)

    def tilt_at(self, epsilon: float) -> float:
        """The tilt at the saddle point of an epsilon."""
        refuse_where(not self._whole or epsilon >= self._top, "no finite loss is so large")
        return self._sought(lambda saddle: saddle.epsilon < epsilon).tilt

    def _saddle(self, delta: float) -> Saddle:
        rest = delta - self._infinite
        log_delta = math.log(rest) if rest > LEAST_TAIL else -690.0
        return self._sought(lambda saddle: saddle.log_delta > log_delta)

    def _sought(self, is_before: Callable[[Saddle], bool]) -> Saddle:
        points = math.fsum(1.0 + loss.size for _, loss, _ in self._whole)
        note({(self, "points"): 5e2 * points})
        spend(100.0 * points)
        return saddle_after(self._whole, is_before)

    @cached
    def _with_ends(self) -> Grid:
        """The same with losses that hardly ever occur."""
        return Grid(self._parts, self._tolerance, self._spacing, has_ends=True, only_lower=not self._rounds[1])

    def _shows_ends(self, index: int, delta: float) -> bool:
        """Whether a delta is so small that losses count that are left out at a place."""
        tail = self._place(index).tail
        return self._n_factors * tail > self._tolerance * delta and any(
            part.upper.without_rare(self._cut * tail, is_upper=True) is not part.upper for part in self._parts
        )

    def at_most(self, quantity: Literal["epsilon", "delta"], target: float) -> float:
        """An upper bound of the answer by the first grid alone; inf where there is none."""
        try:
            if quantity == "delta":
                index = self._at(target)
                return self._composed(index, self._level(1.0), True).delta(target) if target < self._far else math.inf
            index, ease = self._first(target)
            return self._composed(index, self._level(ease), True).epsilon(target)
        except OutOfReachError:
            return math.inf

    def _first(self, delta: float) -> tuple[int, float]:
        """The place next to the saddle point of a delta, and how many times as wide an epsilon may be in log delta."""
        saddle = self._saddle(delta) if self._whole else None
        return (self._index(saddle.tilt), max(saddle.tilt * saddle.epsilon, 1e-3)) if saddle else (0, 1.0)

    def _at(self, epsilon: float) -> int:
        """The place next to the saddle point of an epsilon; the first one beyond all finite losses."""
        return self._index(self.tilt_at(epsilon)) if self._whole and epsilon < self._top else 0

    def _refined(self, asked: Asked, only_upper: bool) -> Found:
        """Ever finer grids, until the bounds are within the tolerance, relative to the upper one or the floor.

        Where the finest grid would not bring them there the lower one is of a coarser grid: it takes most of the time.
        """
        if self._is_apart:
            lower = asked.worst[0] if only_upper else self._settled(asked, 0)
            return judged(lower, self._settled(asked, 1), math.inf)
        index, read, ease, floor, worst = asked
        (lower, upper), level = worst, self._level(ease)
        falls, before, finer = 0.5, math.inf, 1
        if is_last := (left := left_apart(self._parts, self._tilt(index)[0]) / ease) > self._tolerance:
            level += max(0, math.ceil(math.log2(8.0 * self._tolerance / left)))  # a grid adds an eighth of that
        is_last |= level > self._finest(index) + 4
        for _ in range(_MAX_ROUNDS):
            try:
                upper = min(upper, read(self._composed(index, level, True)))
                if upper == 0.0:
                    break
                below = min(level, self._finest(index) - 2) if is_last else level
                lower = max(lower, read(self._composed(index, below, False)))
            except OutOfReachError:  # too fine: coarser grids hold, or those of smaller tilts
                if upper < worst[1]:
                    break
                if not index:
                    raise
                index //= 2
                continue
            gap, wanted = upper - lower if math.isfinite(lower) else 0.0, self._tolerance * max(upper, floor)
            falls = max(falls, (gap / before) ** (1.0 / finer)) if before < math.inf else falls
            left = self._finest(index) - level
            near = 1 + (left <= 2) * (self._tolerance > 1e-5)  # the finest grids take most of the time: rough is rough
            if not gap > near * wanted or is_last or left <= 0:  # also where nothing is met
                break
            is_last = gap * falls**left > 2.0 * wanted
            finer = left if is_last else more_levels(wanted, gap)
            level, before = level + finer, gap
        return judged(lower, upper, math.inf)

    def _settled(self, asked: Asked, side: Literal[0, 1]) -> float:
        """A bound by ever finer grids, until it does not move: where sides are apart no grid brings them together."""
        index, read, ease, floor, worst = asked
        best, before, level = worst[side], math.inf, self._level(ease)
        for done in range(self._rounds[side]):
            try:
                found = read(self._composed(index, level, side == 1))
            except OutOfReachError:
                if before < math.inf or (side == 0 and not index):
                    break
                if not index:
                    raise
                index //= 2
                continue
            # bounds of grids that are so much finer move 3.5 times further than they are from where others bring them
            moved, before, best = abs(found - before) / 3.5 ** (done > 1), found, (max, min)[side](best, found)
            is_last = not moved > self._tolerance * max(best, floor) or level >= self._finest(index)
            if is_last or not is_left(self._cost(index, level := level + 3)):
                break
        return best

    def _cost(self, index: int, level: int) -> float:
        """The work of one composition."""
        return 1e3 * (place := self._place(index)).work / self._spacing_at(place, level)[0]

    def _finest(self, index: int) -> int:
        """The level of the finest grid at a place."""
        place = self._place(index)
        if self._spacing_at(place, -_MOST_LEVELS)[1]:
            return -_MOST_LEVELS
        return min(math.ceil(2.0 * math.log2(place.spacing / (place.least_spacing + 1e-300))), _MOST_LEVELS)

    def _level(self, ease: float) -> int:
        """Of the first grid; where sides are apart the next one is compared with it."""
        return -1 * self._is_apart - math.floor(math.log2(min(max(ease, 1e-3), 1e9)))

    @cached
    def _has_densities(self) -> bool:
        return not all(part.upper.as_atoms() for part in self._parts)

    @cached
    def _infinite(self) -> float:
        """Mass of an infinite loss, roughly."""
        return -math.expm1(math.fsum(p.count * math.log1p(-min(p.upper.infinite, 1.0 - 1e-16)) for p in self._parts))

    @cached
    def _top(self) -> float:
        """The largest loss, roughly; inf where losses are not bounded."""
        ends = ((p.count, p.upper.extent(LEAST_TAIL)[1], p.upper.outside(LEAST_TAIL)) for p in self._parts)
        return sum(count * max(high, where if missing > 0.0 else high) for count, high, (missing, where) in ends)

    @cached
    def _far(self) -> float:
        """An epsilon from which delta is below e^-666, which no grid tells from nothing."""
        if not self._whole or self._infinite > 10.0 * LEAST_TAIL * self._n_factors:
            return math.inf
        return max(saddle_after(self._whole, lambda saddle: saddle.log_delta > -666.0).epsilon, 0.0)

    def _far_out(self, epsilon: float) -> float:
        """A bound of delta there, by one coarse grid: nobody asks how much less than nothing it is."""
        with suppress(OutOfReachError):
            return self._composed(self._at(self._far), self._level(1.0) - 10, True).delta(epsilon)
        return 1.0

    @cached
    def _surely_infinite(self) -> float:
        """A lower bound of the mass of an infinite loss."""
        place = self._place(0)
        measures = [(one.below, n) for one, n in self._lowered(place, self._spacing_at(place, -12)[0])]
        return Composition(measures, False).infinite()

    def _tilt(self, index: int) -> tuple[float, Moment]:
        """A tilt and the log-moment there; the last one where the loss has no width left."""
        while len(self._tilts) <= index and len(self._tilts) < 200:
            if not self._tilts:
                self._tilts.append((0.0, log_moment(self._whole, 0.0)))
                continue
            after = next_tilt(self._whole, *self._tilts[-1], has_densities=self._has_densities)
            if after is None:
                break
            self._tilts.append(after)
        return self._tilts[min(index, len(self._tilts) - 1)]

    def _index(self, tilt: float) -> int:
        """The place next to a tilt."""
        index = 0
        while self._tilt(index)[0] < self._tilt(index + 1)[0] < 2.0 * tilt - self._tilt(index)[0]:
            index += 1
        return index

    @kept_by_argument
    def _place(self, index: int) -> Place:
        """Upper and lower grids differ by about n tilt (1 + tilt) spacing^2 / 4 in log delta."""
        tolerance = min(self._tolerance, 0.3)
        tilt, moment = self._tilt(index)
        if not self._whole:
            return Place(tilt, LEAST_TAIL, -40.0, 1.0, 1.0, (-math.inf,) * len(self._parts), 0.0)
        width = math.sqrt(moment.variance)
        if width == 0.0 and self._has_densities:  # only rounding hides that there is some
            width = ROUNDING * abs(moment.mean)
        ends = [self._tilt(max(index - 1, 0)), self._tilt(index + 1)]
        # the smallest part of the tilted mass that decides a target between the neighbours, and the smallest delta
        log_signal = min(end.value - moment.value + (tilt - t) * end.mean for t, end in ends)
        log_delta = min(min(end.value - t * end.mean for t, end in ends) - math.log1p(ends[1][0] * width), 0.0)
        log_budget = max(min(log_signal, 0.0) + math.log(tolerance) - _LITTLE, -690.0)
        tail = math.exp(max(log_delta - _LITTLE, -690.0)) * tolerance / self._n_factors
        effective = max(0.5 * (tilt + ends[1][0]), 1.0 / width if width > 0.0 else 0.0, 1e-3)
        shared, n_rounded = self.shared
        spacing = math.sqrt(3.0 * tolerance / (max(n_rounded, 1) * effective * (1.0 + effective)))
        if spacing > shared:  # all are rounded there
            spacing = max(shared, spacing * math.sqrt(max(n_rounded, 1) / self._n_factors))
        floors = tuple(floor_of(one, tilt, log_budget - math.log(self._n_factors)) for one in self._sketches)
        spans = [part.upper.without_rare(self._cut * tail, is_upper=True).extent(tail) for part in self._parts]
        lengths = [max(high - max(low, floor), 0.0) for (low, high), floor in zip(spans, floors, strict=True)]
        whole = math.fsum(part.count * length for part, length in zip(self._parts, lengths, strict=True))
        window = min(2.2 * math.sqrt(-2.0 * log_budget) * width, whole)
        largest = max(max(abs(max(low, floor)), abs(high)) for (low, high), floor in zip(spans, floors, strict=True))
        costs = [_COSTS[part.upper.as_atoms() is not None] for part in self._parts]
        sums = _COSTS[2] * window * len(self._parts)
        work = math.fsum(map(math.prod, zip(costs, lengths, strict=True))) + sums
        taken = math.fsum(map(math.prod, zip(costs, lengths, densities(self._parts), strict=True))) + sums
        least = max(window / _MAX_POINTS, max(lengths) / _MAX_CELLS, work / _MOST_WORK, 1e-12 * largest)
        return Place(tilt, max(tail, LEAST_TAIL), log_budget, spacing, least, floors, taken)

    def _composed(self, index: int, level: int, is_upper: bool) -> Window | Lower:
        """The composition at a place, from the parts on a grid of one level."""
        key, place = (index, level, is_upper), self._place(index)
        spacing = self._spacing_at(place, level)[0]
        begin((self, *key), self._cost(index, level))
        if key not in self._kept:
            # beyond the largest tilt all the tilted mass is at the largest loss
            tilt = min(place.tilt, 60.0 / spacing)
            self._kept[key] = self._upper(place, spacing, tilt) if is_upper else self._lower(place, spacing, tilt)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]

    def _used(self, place: Place, *, is_upper: bool) -> Iterator[tuple[Loss, int, float]]:
        """Losses as a place needs them, how often they occur, and what they are moved up to."""
        for part, floor in zip(self._parts, place.floors, strict=True):
            source = part.upper if is_upper else part.lower
            yield source.without_rare(self._cut * place.tail, is_upper=is_upper), part.count, floor

    def _upper(self, place: Place, spacing: float, tilt: float) -> Window:
        used = self._used(place, is_upper=True)
        measures = [(upper_measure(source, spacing, place.tail, floor), count) for source, count, floor in used]
        return Composition(measures, True).window(tilt, place.log_budget, _MAX_POINTS)

    def _lowered(self, place: Place, spacing: float) -> list[tuple[Lowered, int]]:
        """The parts from below, and how often they occur."""
        used = self._used(place, is_upper=False)
        return [(lower_measure(source, spacing, place.tail, floor), count) for source, count, floor in used]

    def _lower(self, place: Place, spacing: float, tilt: float) -> Lower:
        found = self._lowered(place, spacing)
        dots = Composition([(one.dots, n) for one, n in found], False)
        is_moved = any(one.reach > 1 for one, _ in found)
        made = Composition([(one.below, n) for one, n in found], False) if is_moved else dots
        below = made.window(tilt, place.log_budget, _MAX_POINTS)
        if dots.has_no_finite_loss or not any(one.rest.any() for one, _ in found):
            return Lower(below, 0.0, 0.0)
        extra = math.fsum(n * one.share_of_rest(tilt) for one, n in found) * math.exp(min(tilt * dots.slack, 700.0))
        whole = Lower(below, extra, dots.moment(tilt).value + dots.moment_error(tilt))
        if extra < 1e-5 * self._tolerance:  # nobody sees so little of the tilted mass
            return whole
        there = dots.window(tilt, place.log_budget, _MAX_POINTS) if is_moved else below
        return self._without_rest(found, place, whole._replace(dots=there), dots.slack)

    def _without_rest(self, found: Sequence[tuple[Lowered, int]], place: Place, whole: Lower, slack: float) -> Lower:
        """With what is left in the cells where it may be, or with dots that are moved back, where that is hopeless."""
        spacing, tilt = whole.below.spacing, whole.below.tilt
        moved = math.fsum(n * one.reach**2 for one, n in found)
        cells = math.ceil(math.sqrt(_ONCE * moved) + 0.5 * moved * spacing) + 2 + math.floor(slack / spacing)
        grows = 2.0 * whole.extra * cells if cells <= 1 << 16 else 700.0
        left = math.expm1(min(grows, 700.0)) * (1.0 + tilt) * spacing
        away = moved_up(sum(n for one, n in found if one.rest.any()), spacing, tilt, place.log_budget)
        back = moved_back(found, tilt, place.log_budget, away, _MAX_POINTS) if left > away else None
        if back and left > 1e6 * away:
            return back
        raised = Composition([(one.raised(cells), n) for one, n in found], True)
        return whole._replace(more=raised.window(tilt, place.log_budget, _MAX_POINTS), other=back)

    def _spacing_at(self, place: Place, level: int) -> tuple[float, bool]:
        """The spacing of a level, one that atoms share if there is one; and whether a finer one would not help."""
        if self._spacing is not None:
            return self._spacing, True
        wanted = place.spacing * 2.0 ** (-0.5 * level)
        spacing, is_final = max(wanted, place.least_spacing), wanted <= place.least_spacing
        shared, n_rounded = self.shared
        if not n_rounded:
            return shared * max(1, math.ceil(place.least_spacing / shared)), True
        return spacing if shared == math.inf or spacing >= shared else shared / math.ceil(shared / spacing), is_final

    @cached
    def shared(self) -> tuple[float, int]:
        """A spacing for all lattices, and how many releases it rounds."""
        return shared_spacing(self._parts)
