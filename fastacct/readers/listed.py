"""Compositions whose possible losses are few: all of their sums, with their masses, and no grid.

n releases with k different losses have C(n + k - 1, k - 1) sums.  Where these are many the releases are cut in two: of
one half delta is known at each of its losses, and is asked at epsilon less each sum of the other half
(docs/algorithms/smoothed.md).  Masses are products of powers and binomial coefficients, taken in logarithms, and their
errors are added.  Beside other releases of which delta is known, delta is the sum of masses times theirs.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.bounds import Answers, Found, Status, judged
from fastacct.core.inputs import TINY, Cells
from fastacct.core.kept import kept_by_argument
from fastacct.core.search import crossing
from fastacct.losses.loss import ROUNDING, Atoms, Part, lost_in_all
from fastacct.readers.far_losses import RARE, apart, hardly, known_atoms
from fastacct.readers.sides import OneSided, TwoSided

Beside = Callable[[Cells, float], tuple[Cells, Cells]]
"""Bounds of the deltas of other releases, in one direction at epsilons of either sign; below a number all are one."""
Sides = Sequence[tuple[Atoms, int]]
"""Losses and masses of one side, and how often."""
_MOST_SUMS: Final = 1 << 14
"""Of one half of all releases: a finite sum takes less time for more of them."""


class Listed:
    """Delta and epsilon of one direction; without losses that are hardly ever drawn, where these do not matter."""

    def __init__(self, parts: Sequence[Part], levels: Sequence[float], instead: Callable[[], Answers] | None) -> None:
        self._parts, self._levels, self._instead = [part for part in parts if part.count], levels, instead

    @classmethod
    def of(cls, parts: Sequence[Part], instead: Callable[[], Answers] | None = None) -> Listed | None:
        """The reader of a sum of losses; None where they are no atoms, or their sums too many.

        `instead` is asked where all sums are too many, and losses that are hardly ever drawn may matter.
        """
        if not (is_whole := _are_few(parts, 0.0)) and not (instead and _are_few(parts, RARE)):
            return None
        return cls(parts, [RARE] * bool(instead) + [0.0] * is_whole, instead)

    @property
    def is_whole(self) -> bool:
        """Whether it lists all sums."""
        return 0.0 in self._levels

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta."""
        for rare in self._levels:
            found = judged(*self._sums(rare).deltas(epsilon), 1.0)
            if found.status == Status.TIGHT or rare == 0.0:
                return found
        return self._otherwise().delta(epsilon)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta."""
        rare = hardly(delta, sum(part.count for part in self._parts))
        for level in self._levels:
            if level <= rare:
                return judged(*self._sums(level).epsilons(delta), math.inf)
        return self._otherwise().epsilon(delta)

    def roughly(self, delta: float) -> float:
        """An upper bound of epsilon, which takes little time where other answers do."""
        return self.epsilon(delta).upper

    def _otherwise(self) -> Answers:
        assert self._instead is not None
        return self._instead()

    @kept_by_argument
    def _sums(self, rare: float) -> _Both:
        return _Both(*([(known_atoms(one, up, rare), one.count) for one in self._parts] for up in (False, True)))


def _kinds(parts: Sequence[Part], rare: float) -> list[tuple[int, int]] | None:
    """Numbers of losses with more than that mass, and counts; None where losses are no atoms."""
    used = list[tuple[int, int]]()
    for part in parts:
        sides = part.upper.as_atoms(), part.lower.as_atoms()
        if sides[0] is None or sides[1] is None:
            return None
        sizes = [int(np.count_nonzero(one.mass > rare / max(one.mass.size, 1))) for one in sides if one]
        used.append((max(*sizes, 2), part.count))  # of one loss factorials are listed
    return used


def _are_few(parts: Sequence[Part], rare: float) -> bool:
    """Whether sums of losses with more than that mass are few in both halves, or there is one release."""
    if (used := _kinds(parts, rare)) is None:
        return False
    counts = [count for _, count in used]
    halves = [
        math.prod(_number(k, n) for (k, _), n in zip(used, half, strict=True))
        for half in zip(*_cut(counts), strict=True)
    ]
    return sum(counts) <= 1 or max(halves) <= _MOST_SUMS


def _cut(counts: Sequence[int]) -> list[tuple[int, int]]:
    """How many releases of each kind are in either half."""
    return [(n - n // 2, n // 2) if i % 2 else (n // 2, n - n // 2) for i, n in enumerate(counts)]


def _number(losses: int, count: int) -> int:
    """Of sums; beyond 20 it is too many, and takes long to know."""
    return math.comb(count + losses - 1, min(count, losses - 1, 20))


class _Both:
    """What is known of delta by losses from below and from above: of both by those from above, where they hardly
    differ."""

    def __init__(self, lower: Sides, upper: Sides) -> None:
        self._upper, (less, moved) = _Sums(upper), apart((lower, upper))
        is_one = less + moved < 1e-9
        self._lower, self._less, self._moved = (self._upper, less, moved) if is_one else (_Sums(lower), 0.0, 0.0)
        self._lost = _lost(lower, -1.0), _lost(upper, 1.0)

    def deltas(self, epsilon: float) -> tuple[float, float]:
        """Bounds of delta."""
        low, high, steep = self._upper.bounds(epsilon)
        if self._lower is not self._upper:
            low = self._lower.bounds(epsilon)[0]
        low = (low - 1.001 * self._moved * steep) * math.exp(-self._less) * (1.0 - 4.0 * ROUNDING)
        ends = max(low, 0.0) + self._lost[0], high + self._lost[1]
        return min(ends[0] * (1.0 - 2.0 * ROUNDING), 1.0), min(ends[1] * (1.0 + 2.0 * ROUNDING), 1.0)

    def epsilons(self, delta: float) -> tuple[float, float]:
        """Bounds of the smallest epsilon >= 0 with this delta."""
        if (at_zero := self.deltas(0.0))[1] <= delta:
            return 0.0, 0.0
        first = 0.0 if at_zero[0] <= delta else self._end(0, delta, 0.0)
        return first, self._end(1, delta, first)

    def _end(self, side: int, delta: float, start: float) -> float:
        """The same on one side: where the sums say that delta is that small, and some roundings away from it."""
        one, sign, top = (self._lower, self._upper)[side], 2.0 * side - 1.0, self._tops[side]
        if not (rest := delta - self._lost[side]) > 0.0:
            return math.inf if rest < 0.0 else top
        near = one.about(math.exp((1.0 - side) * self._less) * rest, sign, start) - (1.0 - side) * self._moved
        return crossing(lambda at: self.deltas(at)[side], delta, top, is_upper=side == 1, near=near)

    @property
    def _tops(self) -> tuple[float, float]:
        """Bounds of the largest loss of all, from below and from above."""
        return max(self._lower.top - self._lower.slip - self._moved, 0.0), max(self._upper.top + self._upper.slip, 0.0)


def _lost(side: Sides, sign: float) -> float:
    """The mass of an infinite loss, on a side."""
    if [count for _, count in side] == [1] or not any(one.infinite for one, _ in side):
        return side[0][0].infinite if side else 0.0
    lost = lost_in_all((n, math.fsum(one.mass), one.infinite) for one, n in side)
    off = ROUNDING * (64.0 + 8.0 * sum(n for _, n in side))
    return min(1.0, max(0.0, lost * (1.0 + sign * off) - (2e-323 if sign < 0.0 else 0.0)))


class _Sums:
    """All sums of one measure: those of one half, and delta of the other half at each of its losses."""

    def __init__(self, side: Sides) -> None:
        cut = _cut([count for _, count in side])
        halves = [
            _summed([(one, n[half]) for (one, _), n in zip(side, cut, strict=True) if n[half]]) for half in (0, 1)
        ]
        first, second = sorted(halves, key=lambda half: half.loss.size)
        order = np.argsort(-first.loss)
        self._first, self._mass = first.loss[order], first.mass[order]
        order = np.argsort(-second.loss)
        loss, mass = second.loss[order], second.mass[order]
        self._place = -loss
        # delta at a loss exceeds that at the one before by the masses of all above it, times how much nearer they are
        weight = _weights(loss, mass)
        steps = np.diff(loss)
        gain = np.cumsum(-np.expm1(steps) * weight[:-1])
        self._from = np.concatenate([[math.inf], loss])
        self._weight, self._gain = np.concatenate([[0.0], weight]), np.concatenate([[0.0, 0.0], gain])[: loss.size + 1]
        self.top = first.top + second.top
        size = first.size + second.size
        self.slip = ROUNDING * ((8.0 + 2.0 * (first.terms + second.terms)) * size)
        n_sums, spread = self._first.size + 2.0 * loss.size, -float(np.maximum(steps, -800.0).sum())
        self._off = ROUNDING * (128.0 + 8.0 * (first.depth + second.depth) + n_sums + 3.0 * spread)
        self._dropped = 2.0 * TINY * (first.dropped + second.dropped) + 5e-324 * (8.0 + 2.0 * n_sums)

    def bounds(self, epsilon: float) -> tuple[float, float, float]:
        """Of delta of finite losses; and how fast it falls with epsilon, nearly."""
        if epsilon >= self.top + self.slip:
            return 0.0, 0.0, 0.0
        value, steep = self._read(epsilon - self.slip)
        # it falls by at most exp(distance) times so much
        least = value - 2.001 * self.slip * steep if self.slip < 1e-4 else self._read(epsilon + self.slip)[0]
        return least * (1.0 - self._off) - self._dropped, value * (1.0 + self._off) + self._dropped, steep

    def _read(self, epsilon: float) -> tuple[float, float]:
        """Delta, and how fast it falls."""
        away = epsilon - self._first
        above = self._place.searchsorted(-away)
        back, weight = away - self._from[above], self._weight[above]
        value = self._gain[above] - np.expm1(back) * weight
        return float(self._mass @ value), float(self._mass @ (np.exp(back) * weight))

    def about(self, delta: float, sign: float, start: float) -> float:
        """Where the bound of delta from above (1) or below (-1) is that small, nearly; nan: not known."""
        delta = (delta - sign * self._dropped) * (1.0 - sign * self._off)
        if not delta > 0.0:
            return math.nan
        return (self._between(delta) if self._first.size == 1 else self._searched(delta, start)) + sign * self.slip

    def _between(self, delta: float) -> float:
        """Where delta is that small: it is linear in exp(epsilon) between two losses."""
        last = max(int(self._gain[1:].searchsorted(delta)), 1)
        share = (delta - float(self._gain[last])) / float(self._weight[last])
        return float(self._from[last]) + math.log1p(-share) if share < 1.0 else math.nan

    def _searched(self, delta: float, start: float) -> float:
        """The same of both halves, by Newton's steps in the logarithm of delta."""
        at, low, high = min(start, max(self.top, 0.0)), 0.0, max(self.top, 0.0)
        for _ in range(60):
            value, steep = self._read(at)
            off = math.log(value) - math.log(delta) if value > 0.0 else -math.inf
            low, high = (at, high) if off > 0.0 else (low, at)
            step = off * value / steep if steep > 0.0 else -math.inf
            if abs(off) < 3e-7:
                return at + step
            at = at + step if low < at + step < high else 0.5 * (low + high)
        return math.nan


def _weights(loss: Cells, mass: Cells) -> Cells:
    """Of decreasing losses: the sum of mass times exp(-distance) of all up to each one; exponentials within 600 are
    normal numbers."""
    out, start, before = np.empty(loss.size), 0, 0.0
    while start < loss.size:
        stop = max(int(np.searchsorted(-loss, 600.0 - loss[start])), start + 1)
        here = loss[start:stop] - loss[start]
        before *= math.exp(float(loss[start] - loss[start - 1])) if start else 0.0
        out[start:stop] = np.exp(here) * (before + np.cumsum(mass[start:stop] * np.exp(-here)))
        start, before = stop, float(out[stop - 1])
    return out


class _All(NamedTuple):
    """Sums of finite losses and their masses; the largest; the largest sizes together, how much rounding is in
    logarithms of masses, how many terms a sum has, and how many were dropped, as their mass is below `TINY`."""

    loss: Cells
    mass: Cells
    top: float
    size: float
    depth: float
    terms: float
    dropped: int


def _summed(parts: Sides) -> _All:
    """All sums of some releases."""
    loss, log_mass, size, depth, terms = np.zeros(1), np.zeros(1), 0.0, 1.0, 0.0
    for one, count in parts:
        terms = max(terms + 1.0, float(min(one.mass.size, count)))  # what occurs no times is added without rounding
        if not one.mass.size:
            loss = log_mass = np.zeros(0)
        else:
            log_each = np.log(one.mass)
            sums, logs = _multiples(one.loss, log_each, count)
            loss, log_mass = np.add.outer(loss, sums).ravel(), np.add.outer(log_mass, logs).ravel()
            size += count * float(np.abs(one.loss).max())
            depth += (_log_factorials(count)[-1] * 4.0 if count > 1 else 0.0) + count * float(np.abs(log_each).max())
    keep = log_mass > math.log(TINY)
    top = float(loss.max(initial=-math.inf))
    if not keep.all():
        loss, log_mass = loss[keep], log_mass[keep]
    return _All(loss, np.exp(log_mass), top, size, depth, terms, keep.size - loss.size)


def _multiples(loss: Cells, log_mass: Cells, count: int) -> tuple[Cells, Cells]:
    """Sums of `count` of the losses, and the logarithms of their masses."""
    if count == 1:
        return loss, log_mass
    log_factorial, whole = _log_factorials(count), list[tuple[Cells, Cells]]()
    rest, total, weight = np.array([count]), np.zeros(1), np.zeros(1)
    for one, log_one in zip(loss[:-1].tolist(), log_mass[:-1].tolist(), strict=True):
        sizes = rest + 1
        times = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        left = np.repeat(rest, sizes)
        coefficient = log_factorial[left] - log_factorial[times] - log_factorial[left - times]
        total, weight = np.repeat(total, sizes) + times * one, np.repeat(weight, sizes) + times * log_one + coefficient
        is_whole, rest = left == times, left - times
        whole.append((total[is_whole], weight[is_whole]))
        rest, total, weight = (column[~is_whole] for column in (rest, total, weight))
    whole.append((total + rest * float(loss[-1]), weight + rest * float(log_mass[-1])))
    sums, logs = zip(*whole, strict=True)
    return np.concatenate(sums), np.concatenate(logs)


@lru_cache(maxsize=8)
def _log_factorials(count: int) -> Cells:
    exact = itertools.accumulate(range(1, min(count, 2000) + 1), operator.mul, initial=1)
    return np.array([*map(math.log, exact), *(math.lgamma(i + 1.0) for i in range(2001, count + 1))])


class ListedBeside(TwoSided):
    """Delta and epsilon of one direction, of few sums beside other releases."""

    @classmethod
    def of(cls, parts: Sequence[Part], beside: Beside) -> ListedBeside | None:
        """The reader of a sum of losses; None where they are no atoms, or their sums more than a few."""
        used = _kinds(parts, 0.0)
        if used is None or math.prod(itertools.starmap(_number, used)) > 32:
            return None
        return cls(_SumsBeside(parts, beside, is_upper=False), _SumsBeside(parts, beside, is_upper=True))


class _SumsBeside(OneSided):
    """The sums of one measure, beside other releases."""

    def __init__(self, parts: Sequence[Part], beside: Beside, *, is_upper: bool) -> None:
        self.is_upper, self._beside, self._sign = is_upper, beside, 1.0 if is_upper else -1.0
        side = [(known_atoms(part, is_upper, 0.0), part.count) for part in parts]
        self._sums, self.infinite = _summed(side), _lost(side, self._sign)

    def delta(self, epsilon: float, least: float = 0.0) -> float:
        """Bound of delta; where it is `least` at most the digits of less do not matter."""
        sums = self._sums
        slip = ROUNDING * (8.0 + 2.0 * sums.terms) * sums.size + 2.0 * ROUNDING * abs(epsilon)
        away = epsilon - sums.loss - self._sign * slip
        known = float(sums.mass[away < 0.0] @ -np.expm1(away[away < 0.0])) + self.infinite
        total = float(sums.mass @ self._beside(away, 1e-14 * max(known, least))[self.is_upper]) + self.infinite
        off = self._sign * ROUNDING * (128.0 + 8.0 * sums.depth)
        dropped = 2.0 * TINY * sums.dropped + 5e-324 * (4.0 + sums.loss.size)
        return min(max(total * (1.0 + off) + self._sign * dropped, 0.0), 1.0)

    def end(self, delta: float) -> float:
        """Where delta is at most that."""
        top = max(self._sums.top, 0.0)
        if delta <= self.infinite:
            return math.inf if self.is_upper else top
        while self.delta(top, delta) > delta:
            top = 2.0 * top + 1.0
        return top
