"""Compositions whose possible losses are few: all of them, with their masses, and no grid.

n releases with k different losses have C(n + k - 1, k - 1) sums.  Up to `MOST_SUMS` of them are listed; masses are
products of powers and binomial coefficients, taken in logarithms, and their errors are added.  Beside other releases of
which delta is known, delta is the sum of masses times theirs at epsilon less each sum.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from fastacct.core.inputs import TINY, Cells
from fastacct.core.kept import cached
from fastacct.losses.loss import ROUNDING, Atoms, Part, lost_in_all
from fastacct.readers.sides import OneSided, TwoSided

Beside = Callable[[Cells, float], tuple[Cells, Cells]]
"""Bounds of the deltas of other releases, in one direction at epsilons of either sign; below a number all are one."""
MOST_SUMS: Final = 1 << 20
_SMALLEST: Final = math.log(TINY)
"""Log of a mass that is too small to matter, yet a normal number."""


class Listed(TwoSided):
    """Delta and epsilon of one direction."""

    @classmethod
    def of(cls, parts: Iterable[Part], beside: Beside | None = None) -> Listed | None:
        """The reader of a sum of losses; None where they are no atoms, or their sums too many."""
        sums, used = 1, list[tuple[tuple[Atoms, int], tuple[Atoms, int]]]()
        for upper, lower, count in ((part.upper.as_atoms(), part.lower.as_atoms(), part.count) for part in parts):
            if upper is None or lower is None:
                return None
            k = max(upper.loss.size, lower.loss.size, 2)  # of one loss factorials are listed
            sums *= math.comb(count + k - 1, min(count, k - 1, 20))  # beyond 20 it is too many, and takes long to know
            if sums > (32 if beside else MOST_SUMS):
                return None
            used.append(((lower, count), (upper, count)))
        below, above = zip(*used, strict=True) if used else ([], [])
        return cls(_Sums(below, False, beside), _Sums(above, True, beside))


class _Sums(OneSided):
    """All sums of one measure, in decreasing order."""

    def __init__(self, parts: Sequence[tuple[Atoms, int]], is_upper: bool, beside: Beside | None) -> None:
        self.is_upper, self._beside = is_upper, beside
        side, used = 1.0 if is_upper else -1.0, [(atoms, count) for atoms, count in parts if count]
        loss, log_mass, size, depth, terms = _summed(used, side)
        # rounding: of the sums of losses, of the logarithms of masses, of infinite losses
        relative = ROUNDING * (16.0 + 8.0 * depth)
        if [count for _, count in used] == [1]:
            self.infinite = used[0][0].infinite
        else:
            lost = lost_in_all((n, math.fsum(atoms.mass[atoms.mass > 0.0]), atoms.infinite) for atoms, n in used)
            quantum = 0.0 if is_upper else 2e-323
            self.infinite = min(1.0, max(0.0, lost * (1.0 + side * relative) - quantum))
        if is_upper:
            log_mass = np.maximum(log_mass, _SMALLEST)
        else:
            loss, log_mass = loss[log_mass > _SMALLEST], log_mass[log_mass > _SMALLEST]
        loss = loss + side * (8.0 + 2.0 * terms) * ROUNDING * size
        order = np.argsort(-loss, kind="stable")
        self._loss = loss[order]
        self._mass = np.exp(log_mass[order]) * (1.0 + side * relative)
        self._pad = 1.0 + side * ROUNDING * (32.0 + math.log2(self._loss.size + 2.0))

    def delta(self, epsilon: float, least: float = 0.0) -> float:
        """Bound of delta on the side of the measure; beside others, where it is `least` at most the digits of less do
        not matter."""
        above = int(np.searchsorted(-self._loss, -epsilon, side="left"))
        gain = -np.expm1(np.minimum(epsilon - self._loss[:above], 0.0))
        total = float((self._mass[:above] * gain).sum()) + self.infinite
        if self._beside:
            away, above = epsilon - self._loss, self._loss.size
            away += (-ROUNDING if self.is_upper else ROUNDING) * (abs(epsilon) + np.abs(self._loss))
            gain = self._beside(away, 1e-14 * max(total, least))[self.is_upper]
            total = float((self._mass * gain).sum()) + self.infinite
        quantum = 5e-324 * (4.0 + above) * (above > 0)  # below 1e-307 products have no relative accuracy
        value = total * (self._pad if above else 1.0) + (quantum if self.is_upper else -quantum)
        return min(max(value, 0.0), 1.0)

    @cached
    def _of_both(self) -> tuple[Cells, Cells]:
        """Sums of the masses of P and of Q down to each positive loss."""
        last = int(np.searchsorted(-self._loss, 0.0))
        mass, loss = self._mass[:last], self._loss[:last]
        return np.cumsum(mass), np.cumsum(mass * np.exp(-loss))

    def near(self, delta: float) -> float:
        """About where delta is that small, if that is seen at once: between two losses it is linear in exp(epsilon)."""
        if self._beside:
            return math.nan
        p, q = self._of_both
        with np.errstate(all="ignore"):
            below = p - np.exp(self._loss[: p.size]) * q + self.infinite >= delta
            at = int(np.argmax(np.append(below, True))) - 1
            place = float(np.log((p[at] + self.infinite - delta) / q[at])) if at >= 0 else math.nan
            for _ in range(2):
                if not 0.0 < place < 700.0:
                    return math.nan
                place += float((self.delta(place) - delta) / (math.exp(place) * q[at]))
        return place

    def end(self, delta: float) -> float:
        """The largest loss, or beside others, where delta is at most that."""
        top = float(self._loss.max(initial=0.0))
        if self._beside and delta <= self.infinite:
            return math.inf if self.is_upper else top
        while self._beside and self.delta(top, delta) > delta:
            top = 2.0 * top + 1.0
        return top


def _summed(parts: Sequence[tuple[Atoms, int]], side: float) -> tuple[Cells, Cells, float, float, float]:
    """Sums of finite losses, logarithms of their masses; the largest sum, and how much rounding is in both."""
    loss, log_mass, size, depth, terms = np.zeros(1), np.zeros(1), 0.0, 1.0, 0.0
    for atoms, count in parts:
        keep = atoms.mass > 0.0
        each, mass = atoms.loss[keep] + side * atoms.loss_error[keep], atoms.mass[keep]
        terms = max(terms + 1.0, float(min(mass.size, count)))  # what occurs no times is added without rounding
        if not mass.size:
            loss = log_mass = np.zeros(0)
            continue
        sums, logs = _multiples(each, np.log(mass), count)
        loss, log_mass = np.add.outer(loss, sums).ravel(), np.add.outer(log_mass, logs).ravel()
        size += count * float(np.abs(each).max())
        depth += _log_factorials(count)[-1] * 4.0 + count * float(np.abs(np.log(mass)).max())
    return loss, log_mass, size, depth, terms


def _multiples(loss: Cells, log_mass: Cells, count: int) -> tuple[Cells, Cells]:
    """Sums of `count` of the losses, and the logarithms of their masses."""
    if count == 1:
        return loss, log_mass
    log_factorial, finished = _log_factorials(count), list[tuple[Cells, Cells]]()
    undealt, total, weight = np.array([count]), np.zeros(1), np.zeros(1)
    for one, log_one in zip(loss[:-1].tolist(), log_mass[:-1].tolist(), strict=True):
        sizes = undealt + 1
        times = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        left = np.repeat(undealt, sizes)
        coefficient = log_factorial[left] - log_factorial[times] - log_factorial[left - times]
        total, weight = np.repeat(total, sizes) + times * one, np.repeat(weight, sizes) + times * log_one + coefficient
        is_whole, undealt = left == times, left - times
        finished.append((total[is_whole], weight[is_whole]))
        undealt, total, weight = (column[~is_whole] for column in (undealt, total, weight))
    finished.append((total + undealt * float(loss[-1]), weight + undealt * float(log_mass[-1])))
    sums, logs = zip(*finished, strict=True)
    return np.concatenate(sums), np.concatenate(logs)


@lru_cache(maxsize=8)
def _log_factorials(count: int) -> Cells:
    exact = itertools.accumulate(range(1, min(count, 2000) + 1), operator.mul, initial=1)
    return np.array([*map(math.log, exact), *(math.lgamma(i + 1.0) for i in range(2001, count + 1))])
