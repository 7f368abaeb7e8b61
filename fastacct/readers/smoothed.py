"""Sums of atoms beside a Gaussian so small that it hardly matters: by a finite Fourier sum, without a grid of losses.

Who also sees a release of N(s, 1) against N(0, 1) sees no less, so its delta D is an upper bound; a lower one is

    D(eps) - K (p D(eps - h) + (1 - p) D(eps + h) - D(eps)),    p = 1/(1 + exp(-h)),  h = 3 s/2.

All three are integrals of exp(-s^2 t^2/2) times what is bounded (proof and ledger: docs/algorithms/smoothed.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fastacct.core.bounds import Found, Status, judged, narrowed
from fastacct.core.kept import kept_by_argument
from fastacct.core.search import boundary, excess
from fastacct.core.work import note
from fastacct.losses.atoms import are_many
from fastacct.losses.loss import Atoms, OutOfReachError, Part, refuse_where
from fastacct.readers.far_losses import apart, hardly, known_atoms
from fastacct.readers.finite_sum import OUT, FiniteSum, lost
from fastacct.readers.tilt import Choice, Tilts, in_groups

if TYPE_CHECKING:
    from fastacct.readers.grid.reader import Grid


class _Lower(NamedTuple):
    """A lower bound of delta: that of a sum `moved` further up, times a factor, and the mass of an infinite loss."""

    sum: FiniteSum
    lost: float
    moved: float = 0.0
    factor: float = 1.0

    def below(self, epsilon: float) -> float:
        """At most delta."""
        return self.factor * self.sum.below(epsilon + self.moved) + self.lost * (1.0 - 1e-14)


_Attempt = tuple[Sequence[Callable[[], float]], float, Callable[[], tuple[float, float, float]]]
"""Bounds by sums, from below (of two distributions also by the atoms from above) and from above; what says those of
delta beside the Gaussian, and how wide they may be, relative to it."""


class _Losses:
    """Atoms of both sides, and what is kept of them; without those of which all together have the mass `rare`."""

    def __init__(self, parts: Sequence[Part], rare: float, like: _Losses | None = None) -> None:
        self.sides = [[(known_atoms(part, is_upper, rare), part.count) for part in parts] for is_upper in (False, True)]
        self.tilts: list[Tilts] = (
            like.tilts if like else [Tilts([in_groups(one, n) for one, n in side], OUT) for side in self.sides]
        )
        self.lost = [lost(side) for side in self.sides]
        self.kept: dict[tuple[int, Choice, int], FiniteSum] = {}
        self.apart = apart(self.sides)


class Smoothed:
    """Delta and epsilon of one direction of a job of atoms; where this takes more work than a grid, by that grid."""

    def __init__(
        self,
        parts: Sequence[Part],
        grid: Grid,
        tolerance: float,
        near: Callable[[float, float, float], list[Part]] | None = None,
    ) -> None:
        self._grid, self._tolerance, self._near = grid, tolerance, near
        self._is_apart = any(part.is_apart for part in parts)
        self._parts, self._n_releases = parts, sum(part.count for part in parts)

    @kept_by_argument
    def _losses(self, rare: float) -> _Losses:
        """Atoms without rare ones."""
        return _Losses(self._parts, rare)

    @staticmethod
    def is_possible(parts: Sequence[Part], grid: Grid) -> bool:
        """Whether all losses are atoms that a grid would round, or thousands."""
        atoms = [one.as_atoms() for part in parts for one in (part.upper, part.lower)]
        sizes = [int((one.mass > 0.0).sum()) if one else 0 for one in atoms]
        return min(sizes) > 0 and (grid.shared[1] > 0 or are_many(max(sizes)))

    def _better(self, losses: _Losses, place: float, steep: float = 1.0) -> _Losses:
        """The same as well known as needed about a place, for a number of which log delta is so many times as wide."""
        if self._near is None:
            return losses
        return _Losses(self._near(*losses.tilts[1].saddle(place), 0.2 * self._tolerance * steep), 0.0, losses)

    def _by_grid(self, quantity: Literal["epsilon", "delta"], target: float) -> Found:
        """What a grid says; of losses by few points nothing that others would not say better."""
        refuse_where(self._near is not None, "few points of a curve say little")
        return self._grid.epsilon(target) if quantity == "epsilon" else self._grid.delta(target)

    def roughly(self, delta: float) -> float:
        """An upper bound of epsilon beside a larger Gaussian; inf where there is none."""
        try:
            losses = self._rarely(delta)
            place = self._first(losses, delta)[1]
            upper = self._sum(losses, 1, losses.tilts[1].chosen(place, delta), 3e3)
            return _falls_to(upper.above, delta, place, upper.steepness(place, delta) * place)
        except OutOfReachError:
            return math.inf

    def _rarely(self, delta: float) -> _Losses:
        """Losses without those that are hardly ever drawn, where these are next to nothing of delta."""
        return self._losses(hardly(delta, self._n_releases))

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta at `epsilon`."""
        losses = self._better(self._losses(0.0), epsilon)

        def attempt(ease: float, near: float) -> _Attempt:
            lowers, upper = self._sums(losses, epsilon, max(near, 1e-300), ease)
            lows = [partial(lower.below, epsilon) for lower in lowers]
            return lows, upper.above(epsilon), lambda: (*upper.both(epsilon), self._tolerance)

        # two distributions are apart anyway
        return self._narrowed(attempt, 1.0 + self._is_apart, 1.0, 1.0, lambda: self._by_grid("delta", epsilon))

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta."""
        try:
            losses = self._rarely(delta)
            if at_once := self._at_once(losses, delta):
                return at_once
            tilt, place = self._first(losses, delta)
            ease = 1.3 * tilt * place
            if self._near is not None:
                steep = losses.tilts[1].saddle(place)[0] * place
                losses, ease = self._better(losses, place, steep), 0.55 * steep
        except OutOfReachError:
            return self._by_grid("epsilon", delta)

        def attempt(ease: float, near: float) -> _Attempt:
            lowers, upper = self._sums(losses, near, delta, ease)
            steep = upper.steepness(near, delta)
            high = _falls_to(upper.above, delta, near, steep * near)
            lows = [partial(_falls_to, lower.below, delta, high, steep * near, -1.0) for lower in lowers]
            return lows, high, lambda: (*upper.both(high), self._tolerance * upper.steepness(high, delta) * high)

        return self._narrowed(attempt, max(ease, 1e-3), place, math.inf, lambda: self._by_grid("epsilon", delta))

    def _narrowed(
        self,
        attempt: Callable[[float, float], _Attempt],
        ease: float,
        near: float,
        worst: float,
        by_grid: Callable[[], Found],
    ) -> Found:
        """What attempts say together, each with a smaller Gaussian and next to where the last one came; where they say
        little a grid, too."""
        best, so_far = None, Found(0.0, worst, Status.LOOSE)
        try:
            for _ in range(3):
                lows, near, beside = attempt(ease, near)
                found = judged(lows[0](), near, worst)
                so_far = _both(so_far, found, worst)
                if found.status == Status.TIGHT:
                    return so_far
                own = judged(lows[-1](), near, worst) if lows[1:] else found
                if self._is_enough(own, found):
                    return so_far
                best = self._of_two(own, so_far)
                ease *= self._less(own, found, *beside())
        except OutOfReachError:  # this needs too many points, or there is no such loss
            pass
        return best or _both(so_far, by_grid(), worst)

    def _at_once(self, losses: _Losses, delta: float) -> Found | None:
        """Epsilon where infinite losses have more mass, or delta at 0 is that small: of two distributions, where few of
        the atoms say so, too."""
        if losses.lost[0] * (1.0 - 1e-12) > delta:
            return judged(math.inf, math.inf, math.inf)
        self._of_finite(losses, delta)
        is_near = self._is_apart and self._rough(losses, 0.0, delta).above(0.0) < delta
        is_zero = is_near and self._sums(losses, 0.0, delta, 1.0)[1].above(0.0) <= delta
        return Found(0.0, 0.0, Status.TIGHT) if is_zero else None

    @staticmethod
    def _of_finite(losses: _Losses, delta: float) -> float:
        """What finite losses may add up to, where delta is met."""
        less = delta - losses.lost[1]
        refuse_where(not less > 1e-300, "no finite loss decides")
        return less

    @staticmethod
    def _rough(losses: _Losses, place: float, delta: float) -> FiniteSum:
        few, choice = losses.tilts[1].parts, losses.tilts[1].chosen(place, delta)
        steep = max(choice.saddle, choice.tilt, 0.3)
        some = [(Atoms(loss, 0.0 * loss, np.exp(log_mass)), n) for n, loss, log_mass in few]
        return FiniteSum(some, choice.tilt, 1e-3 / steep**2, choice.period, choice.cap)

    def _first(self, losses: _Losses, delta: float) -> tuple[float, float]:
        """A tilt and a place near epsilon; of two distributions to about a hundredth, by few of the atoms."""
        tilt, place = losses.tilts[1].first(self._of_finite(losses, delta))
        for _ in range(3 * self._is_apart):
            rough, last = self._rough(losses, place, delta), place
            place = _falls_to(rough.above, delta, place, place)
            tilt = 0.25 * losses.tilts[1].chosen(place, delta).saddle
            if abs(place - last) <= 0.1 * last:
                break
        return tilt, place

    @staticmethod
    def _is_enough(own: Found, found: Found) -> bool:
        """Whether the Gaussian's part is little of what two distributions are apart."""
        return own.upper - own.lower < 0.25 * (found.upper - found.lower)

    def _of_two(self, own: Found, found: Found) -> Found | None:
        """An answer of two distributions that a finer grid hardly narrows."""
        return found if self._is_apart and own.upper - own.lower < 0.9 * (found.upper - found.lower) else None

    def _less(self, own: Found, found: Found, low: float, high: float, most: float) -> float:
        """How much smaller the Gaussian's variance has to be: an interval has its width, if it is not that of rounding,
        delta being from `low` to `high` beside the Gaussian, which may be `most` of itself.  What is known about a
        place leaves it room; otherwise two distributions are apart anyway."""
        width = own.upper - own.lower
        room = self._tolerance * own.upper - (found.upper - found.lower - width) * (self._near is not None)
        ratio = room / width
        refuse_where(not ratio > 1e-4 or high - low > 0.5 * most * high, "the finite sum says little")
        return 0.5 * ratio

    def _sums(self, losses: _Losses, place: float, delta: float, ease: float) -> tuple[list[_Lower], FiniteSum]:
        """From below and from above, with so small a Gaussian that log delta is `ease` times the tolerance wide; of two
        distributions also from below by the atoms from above.  One sum does where both sides hardly differ; of two
        distributions, which may have tails of their own, each has its own tilt."""
        choice, (less, moved) = losses.tilts[1].chosen(place, delta), losses.apart
        upper = self._sum(losses, 1, choice, ease)
        alone = [_Lower(upper, losses.lost[1])] * self._is_apart
        if less + max(choice.saddle, choice.tilt) * moved < (0.1 if self._is_apart else 0.5) * self._tolerance * ease:
            return [_Lower(upper, losses.lost[0], moved, math.exp(-less) * (1.0 - 1e-15)), *alone], upper
        lower = self._sum(losses, 0, losses.tilts[0].chosen(place, delta), ease)
        return [_Lower(lower, losses.lost[0]), *alone], upper

    def _sum(self, losses: _Losses, number: int, choice: Choice, ease: float) -> FiniteSum:
        steep = max(choice.saddle, choice.tilt)
        curved = steep * (1.0 + steep)
        level = min(math.floor(2.0 * math.log2(min(self._tolerance * ease / 2.5, 1.0) / curved)), -8)
        key, kept, side = (number, choice, level), losses.kept, losses.sides[number]
        if key not in kept:
            made = FiniteSum(side, choice.tilt, 2.0 ** (0.5 * level), choice.period, choice.cap)
            if sum(one.points for one in kept.values()) > 1 << 22:  # of 16 bytes each
                kept.clear()
            kept[key] = made
        note({(losses, *key): 50.0 * (4.0 + len(side)) * kept[key].points})
        return kept[key]


def _falls_to(bound: Callable[[float], float], delta: float, start: float, slope: float, side: float = 1.0) -> float:
    """Where a bound of delta falls to a delta: the first epsilon at which one from above (side 1) is at most that, the
    last one at which one from below (-1) is at least that."""
    search = partial(boundary, start=start, slope=-side * slope, nowhere=math.nan)
    place = search(lambda epsilon: side * excess(bound(epsilon), delta), None, "epsilon")
    refuse_where(math.isnan(place), "no epsilon has that delta")
    return place


def _both(one: Found, other: Found, top: float) -> Found:
    """What two answers say together."""
    return judged(*narrowed(max(one.lower, other.lower), one.upper, other.upper), top)
