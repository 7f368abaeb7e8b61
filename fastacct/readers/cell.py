"""One cell of a job: the readers of its losses and divergences, made once and asked at all targets.

Each direction is evaluated by the first reader that takes its losses; the answer of a relation is the larger direction.
What divergences and pure guarantees say is an upper bound, too, and the smaller one counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Literal, NamedTuple

import numpy as np

from fastacct.core.bounds import TIGHT_WIDTH, Bounds, Found, Status, judged, narrowed, status_of
from fastacct.core.inputs import Cells
from fastacct.core.kept import Guarded, cached
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.losses.loss import Answers, OutOfReachError, Pair, Part
from fastacct.mechanisms.process import Cell, DeltaOf
from fastacct.readers.grid.reader import Grid
from fastacct.readers.listed import Listed
from fastacct.readers.renyi import Renyi
from fastacct.readers.single import Single

Quantity = Literal["epsilon", "delta", "log_delta"]
TOLERANCE: Final = 1e-6
"""Relative width at which the composition of losses on a grid stops refining."""
_COARSE: Final = 1e-3
"""The same of a grid that only tells which of two answers is larger; it takes some hundredths of the time."""
_END: Final = 1e-6
"""Relative distance from that sum within which grids say less than they do before it."""
_NEAR: Final = 1e-12
"""Relative distance from the sum of pure guarantees within which no grid is asked: that sum alone bounds delta."""
_WIDE: Final = 1e-3
"""Relative width above which divergences may say more than losses on a grid."""
_EXACT: Final = ("listed", "release", "single", "two distributions")
"""Readers that sum losses one by one, and the one whose interval is wide for another reason."""
_NEAR_END: Final = 1e-8
"""Relative distance from the end of a loss within which there is a loss that the job surely has, where it has one."""
_SMALL: Final = 1e-6
"""Epsilon below which no divergence is asked."""


class Settings(NamedTuple):
    """What an accountant asks its readers to do."""

    by_losses: bool = True
    by_divergences: bool = True
    tolerance: float | None = None
    """Of the grid alone; None: every reader of losses, the grid with its own tolerance."""
    spacing: float | None = None
    orders: Cells | None = None
    conversion: str = "canonne_kamath_steinke"


class _Side:
    """One direction of a cell, and the reader of its losses, which is made on demand."""

    def __init__(self, used: list[tuple[Pair, int]], direction: Direction, settings: Settings) -> None:
        self._used = used
        self._direction: Direction = direction
        self._settings = settings

    @cached
    def name(self) -> str:
        """Of the most accurate reader that takes these losses."""
        if self._released:
            return "release"
        if self._settings.spacing is None and Listed.is_possible(self._parts):
            return "listed"
        if self._settings.tolerance is None and Single.is_possible(self._parts):
            return "single"
        return "two distributions" if any(part.is_apart for part in self._parts) else "grid"

    @cached
    def _released(self) -> Answers | None:
        """Of a job that is one release which its pair itself reads."""
        return self._used[0][0].one_release(self._direction) if [count for _, count in self._used] == [1] else None

    @cached
    def _parts(self) -> list[Part]:
        used = ((pair.side(self._direction), count) for pair, count in self._used)
        return [Part(one.upper, one.lower, count, is_apart=one.is_apart) for one, count in used]

    @cached
    def _grid(self) -> Grid:
        return Grid(self._parts, self._settings.tolerance or TOLERANCE, self._settings.spacing)

    @cached
    def coarse(self) -> Grid | None:
        """A grid that takes little time, where losses are composed on one of its own tolerance."""
        asked = self._settings
        is_finer = asked.spacing is None and (asked.tolerance or TOLERANCE) <= 0.01 * _COARSE
        return Grid(self._parts, _COARSE) if self.is_on_grid and is_finer else None

    @cached
    def reader(self) -> Answers:
        """The reader itself."""
        if self._released:
            return self._released
        if self.name == "listed":
            return Listed(self._parts)
        if self.name == "single":
            return Single(self._parts[0])
        return self._grid

    @property
    def is_on_grid(self) -> bool:
        """Whether losses are rounded to a grid."""
        return self.name in ("grid", "two distributions")

    def listed(self) -> Listed | None:
        """The reader that lists all losses, where it takes them."""
        return self.reader if self.name == "listed" and isinstance(self.reader, Listed) else None

    def reached(self) -> float:
        """A loss that the job surely has, with however small a probability: the sum of the largest of its parts."""
        total = 0.0
        for pair, count in self._used:
            if pair.one_release(self._direction) is not None:
                return -math.inf
            lower = pair.side(self._direction).lower
            low, high = lower.extent(1e-300)
            edges = np.array([low - 1.0, high - _NEAR_END * abs(high), high + 1.0])  # nodes close to the end, too
            seen = ((n.loss - n.loss_error)[n.mass > n.mass_error] for n in lower.nodes(edges, 1e-300))
            total += count * (max((float(one.max()) for one in seen if one.size), default=-math.inf) - lower.slack)
        return total - 4e-16 * (len(self._used) + 2.0) * abs(total)

    def at_most(self, quantity: Literal["epsilon", "delta"], target: float) -> float:
        """An upper bound of the answer by the first grid; inf where none is asked."""
        return self._grid.at_most(quantity, target) if self.is_on_grid else math.inf

    def roughly(self, quantity: Literal["epsilon", "delta"], target: float) -> float:
        """The same by a coarse grid."""
        return self.coarse.at_most(quantity, target) if self.coarse else math.inf

    def ask(self, quantity: Literal["epsilon", "delta"], target: float) -> Found:
        """The answer."""
        return self.reader.epsilon(target) if quantity == "epsilon" else self.reader.delta(target)


class CellReader(Guarded):
    """One cell of a job under a relation; threads that share the job ask it one question at a time."""

    def __init__(self, cell: Cell, relation: Relation, settings: Settings, delta_of: DeltaOf) -> None:
        self._cell = cell
        self._relation = relation
        self._settings = settings
        self._renyi = Renyi(cell, relation, delta_of, settings.orders, settings.conversion)
        self._at_end: dict[tuple[float, Quantity], float] = {}
        self._is_bound = not all(mechanism.tight for mechanism, _ in cell)  # its divergences may say more
        self._guard()

    def _forget(self) -> None:
        vars(self).pop("_sides", None)

    @cached
    def _pairs(self) -> list[tuple[Pair, int]] | str:
        """The losses of everything that releases something, or why there are none."""
        if not self._settings.by_losses:
            return "the accountant goes by divergences alone"
        used = []
        for mechanism, count in self._cell:
            try:
                pair = mechanism.losses(self._relation)
                if pair is None:
                    return f"no dominating pair is known for {mechanism!r}"
                _ = pair.remove, pair.add  # of what is data for a line alone there are no losses one by one
            except OutOfReachError as error:
                return str(error)
            if not pair.is_nothing:
                used.append((pair, count))
        return used

    @cached
    def _sides(self) -> list[_Side]:
        """Readers of the directions of the relation; one where both are the same."""
        used = self._pairs
        assert not isinstance(used, str)
        directions = DIRECTIONS[self._relation]
        if all(pair.is_mirrored for pair, _ in used):
            directions = directions[:1]
        return [_Side(used, direction, self._settings) for direction in directions]

    def answer(self, quantity: Quantity, target: float, enough: float = -math.inf) -> Found:
        """Bounds at one target; wider ones where an upper bound that takes less time is at most `enough`."""
        with self._lock:
            nothing = -math.inf if quantity == "log_delta" else 0.0
            for quick in self._uppers(quantity, target) if enough > nothing else ():
                if quick <= enough:
                    return Found(nothing, quick, Status.LOOSE)
            if quantity == "epsilon":
                return self._epsilon(target)
            found = self._delta(target, quantity == "log_delta")
            largest = self._renyi.pure_epsilon
            if largest * (1.0 - _END) < target < largest < math.inf:
                ends = [end for end in (_END, _NEAR) if largest * (1.0 - end) < target]
                lower, upper = self._narrowed(*found[:2], min(self._before(end, quantity) for end in ends))
                return found if upper == found.upper else Found(lower, upper, Status.LOOSE)
            return found

    def deltas(self, epsilon: Cells) -> Bounds | None:
        """Bounds of delta at many epsilons at once, of losses that are listed: the bits of `answer`; else None."""
        with self._lock:
            if self._is_bound or not self._cell or isinstance(self._pairs, str):
                return None
            sides, largest = [side.listed() for side in self._sides], self._renyi.pure_epsilon
            if None in sides or not epsilon.max() < largest * (1.0 - _END):
                return None
            found = [side.deltas(epsilon) for side in sides if side is not None]
        lower, upper = (np.maximum.reduce([one[i] for one in found]) for i in (0, 1))
        if any((low > high).any() for low, high in found):
            return None
        if largest < math.inf:
            upper = np.maximum(upper, 5e-324)
        status = np.where(upper >= 1.0, np.uint8(Status.NOT_MET), status_of(lower, upper))
        return Bounds(lower, upper, status)

    def _before(self, end: float, quantity: Quantity) -> float:
        """Upper bound of delta a little before the largest loss, and of all beyond: delta falls."""
        if (end, quantity) not in self._at_end:
            before = self._renyi.pure_epsilon * (1.0 - end)
            self._at_end[end, quantity] = self._delta(before, quantity == "log_delta").upper
        return self._at_end[end, quantity]

    def every(self, quantity: Quantity, target: float) -> Iterator[tuple[str, Found | str]]:
        """What each reader says by itself: bounds, or why it does not answer."""
        is_epsilon = quantity == "epsilon"
        if isinstance(self._pairs, str):
            yield "losses", self._pairs
        else:
            for side, direction in zip(self._sides, DIRECTIONS[self._relation], strict=False):
                try:
                    found = side.ask("epsilon" if is_epsilon else "delta", target)
                    yield f"{side.name}, {direction}", found
                except OutOfReachError as error:
                    yield f"losses, {direction}", str(error)
        if self._settings.by_divergences:
            found = self._renyi.epsilon(target) if is_epsilon else self._renyi.delta(target)
            order = "" if math.isnan(self._renyi.best_order) else f" of order {self._renyi.best_order:.6g}"
            yield f"Rényi divergence{order}", found if found.status != Status.NOT_MET else "no divergence is known"
        pure = self._renyi.pure_epsilon
        yield "pure guarantee", f"epsilon {pure!r} at delta 0" if pure < math.inf else "none is known"

    def _uppers(self, quantity: Quantity, target: float) -> Iterator[float]:
        """Upper bounds by divergences, by a coarse grid and by a first one."""
        if self._settings.by_divergences:
            yield getattr(self._renyi, quantity)(target).upper
        if quantity != "log_delta" and not isinstance(self._pairs, str):
            with suppress(OutOfReachError):
                yield max(side.roughly(quantity, target) for side in self._sides)
                yield max(side.at_most(quantity, target) for side in self._sides)

    def _epsilon(self, delta: float) -> Found:
        if not self._cell or delta >= 1.0:
            return Found(0.0, 0.0, Status.TIGHT)
        pure, found = self._renyi.pure_epsilon, None
        if not isinstance(self._pairs, str):
            if delta == 0.0 < pure < math.inf:
                least = -math.inf
                with suppress(OutOfReachError):
                    least = max(side.reached() for side in self._sides)
                # the largest loss is known on both sides, or the sum of pure guarantees, which no grid comes near
                if pure - least <= TIGHT_WIDTH * pure or all(side.is_on_grid for side in self._sides):
                    return judged(max(min(least, pure), 0.0), pure, math.inf)
            found, is_exact = self._largest("epsilon", delta)
        if found is None:
            return self._renyi.epsilon(delta) if self._settings.by_divergences else Found(0.0, math.inf, Status.NOT_MET)
        # not above basic composition of pure guarantees, whose sum no grid hits
        least = 5e-324 if 0.0 < pure < math.inf and delta == 0.0 else 0.0
        lower, upper = self._narrowed(found.lower, found.upper, pure)
        upper = max(upper, least)
        if self._is_wide(lower, upper, _SMALL, is_exact):
            lower, upper = self._narrowed(lower, upper, self._renyi.epsilon(delta, upper).upper)
        return judged(lower, upper, math.inf)

    def _delta(self, epsilon: float, is_log: bool) -> Found:
        nothing = -math.inf if is_log else 0.0
        if not self._cell or epsilon == math.inf or epsilon >= self._renyi.pure_epsilon:
            return Found(nothing, nothing, Status.TIGHT)
        near = epsilon > self._renyi.pure_epsilon * (1.0 - _NEAR)  # no grid resolves what is left
        found = None
        if not isinstance(self._pairs, str) and not (near and any(side.is_on_grid for side in self._sides)):
            found, is_exact = self._largest("delta", epsilon)
        if found is None:
            upper = self._renyi.log_delta(epsilon).upper if self._settings.by_divergences and not near else 0.0
            upper = min(upper, log_below(self._renyi.pure_epsilon, epsilon))
            if not is_log:
                upper = min(1.0, math.exp(upper) * (1.0 + 1e-15) + 5e-324 * (upper > -math.inf))
            return Found(nothing, upper, Status.NOT_MET if upper >= (0.0 if is_log else 1.0) else Status.LOOSE)
        lower, upper = found.lower, found.upper
        if near or self._is_wide(lower, upper, 0.0, is_exact):
            known = log_below(self._renyi.pure_epsilon, epsilon)
            known = known if near else min(self._renyi.log_delta(epsilon, math.log(max(upper, 5e-324))).upper, known)
            lower, upper = self._narrowed(lower, upper, math.exp(known) * (1.0 + 1e-15) + 5e-324)
        if self._renyi.pure_epsilon < math.inf:  # losses reach further than epsilon: what underflowed is not nothing
            upper = max(upper, 5e-324)
        found = judged(lower, upper, 1.0)
        if not is_log:
            return found
        lower = math.log(lower) * (1.0 + 4e-16) - 4e-16 if lower > 0.0 else -math.inf
        upper = math.log(upper) * (1.0 - 4e-16) + 4e-16 if upper > 0.0 else -math.inf
        return Found(lower, min(upper, 0.0), found.status)

    def _largest(self, quantity: Literal["epsilon", "delta"], target: float) -> tuple[Found | None, bool]:
        """The larger direction by losses, None where they are too extreme; whether divergences say no more."""
        found, is_exact, least = [], True, -math.inf
        try:
            for side in self._sides:
                is_exact = is_exact and side.name in _EXACT
                bounds = (read(quantity, target) for read in (side.roughly, side.at_most))
                if least > -math.inf and any(upper <= least for upper in bounds):  # it is not the larger one
                    continue
                found.append(side.ask(quantity, target))
                least = max(least, found[-1].lower)
        except OutOfReachError:
            return None, False
        return Found(least, max(one.upper for one in found), max(one.status for one in found)), is_exact

    def _narrowed(self, lower: float, upper: float, known: float) -> tuple[float, float]:
        """An interval with one more upper bound; where losses stand for a class, none of them is a lower bound."""
        if self._is_bound:
            return min(lower, upper, known), min(upper, known)
        return narrowed(lower, upper, known)

    def _is_wide(self, lower: float, upper: float, least: float, is_exact: bool) -> bool:
        """Whether divergences may say more: not where losses are summed one by one and every rounding is small."""
        is_wide = not is_exact and upper > least and upper - lower > _WIDE * upper
        return self._settings.by_divergences and (self._is_bound or upper == math.inf or is_wide)


def log_below(largest: float, epsilon: float) -> float:
    """Upper bound of log delta at an epsilon below the largest loss: delta is at most 1 - exp(epsilon - largest)."""
    if not epsilon < largest < math.inf:
        return 0.0
    value = math.log(-math.expm1(epsilon - largest))
    return min(value + 1e-14 + 4e-16 * abs(value), 0.0)
