"""Trade-off curves of jobs of which delta is known point by point: the lines that each (epsilon, delta) proves."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.core.work import Done, counted, kept
from fastacct.losses.loss import OutOfReachError
from fastacct.mechanisms.process import Process
from fastacct.readers.asked import EXACTLY, QUICKLY, Ask, Settings
from fastacct.readers.contour import Contour
from fastacct.readers.job import delta_of, exact, owners, roughly
from fastacct.readers.nearby import DELTA

_TRIED: Final = np.geomspace(1e-5, 700.0, 16).tolist()
_PLACES: Final = [-710.0, *(-place for place in _TRIED[::-1]), 0.0, *_TRIED, 710.0]
"""Epsilons, of flat lines negative, between which each rate looks for its own: a Fibonacci number of steps, of which
the ends are not asked."""
_GOOD: Final = 1e-7
"""Relative gain that is not worth another delta."""
_BEYOND: Final = 1e290

_DeltasAt = Callable[[tuple[float, ...]], list[float]]
_Found = TypeVar("_Found")


def supporting_lines(
    process: Process,
    fpr: Cells,
    relation: Relation,
    threads: int,
    *,
    positives: bool,
    where: NDArray[np.bool_] | Literal[True] = True,
) -> Bounds:
    """Bounds of the false-negative rate, or of the true-positive rate; elsewhere ones that say nothing.

    (epsilon, delta) proves fnr >= 1 - delta - exp(epsilon) fpr and fnr >= exp(-epsilon) (1 - delta - fpr)
    (Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015), each for both orders of the two data sets.
    """
    tpr: Cells = np.ones(fpr.size)
    owner, rates = owners(process.shape, fpr.shape), fpr.ravel()
    for cell in np.unique(owner[np.broadcast_to(where, owner.shape)]):
        mine = np.flatnonzero((owner == cell) & where & (rates < 1.0))
        deltas = _Deltas(process.cell(int(cell)), relation)
        tpr[mine] = [_largest(deltas, x) for x in rates[mine].tolist()]
    tpr = np.minimum(1.0, np.maximum(tpr * (1.0 + 1e-14) + 1e-300, rates)).reshape(fpr.shape)
    codes = [Status.TIGHT, Status.NOT_MET]
    status = np.select([fpr == 1.0, tpr >= 1.0], codes, Status.LOOSE).astype(np.uint8)
    if positives:
        return Bounds(np.minimum(fpr, tpr), tpr, status)
    lower = np.maximum((1.0 - tpr) * (1.0 - 4e-16) - 1e-16, 0.0)
    guessing = np.where(fpr > 0.0, np.minimum(np.nextafter(1.0 - fpr, 2.0), 1.0), 1.0)
    return Bounds(lower, np.where(fpr < 1.0, np.maximum(guessing, lower), 0.0), status)


class _Deltas:
    """Deltas of a job of plain numbers, some at a time: certified upper bounds."""

    def __init__(self, job: Process, relation: Relation) -> None:
        self._job, self._relation, self._whole = job, relation, job.decompose(relation)
        self.is_tight = job.tight
        """Whether its losses are all that is known of it."""
        self.by_line: Callable[[tuple[float, ...]], tuple[list[float], bool]] = kept(None)(self._by_line)
        """By the line alone, and whether it knows all of the losses."""
        self.roughly: _DeltasAt = kept(None)(self._roughly)
        """By grids that take little time."""
        self.at: _DeltasAt = kept(None)(partial(self._at, EXACTLY))
        """By all readers."""
        others = tuple(rung for rung in EXACTLY.rungs if rung != "line")
        self.off_line: _DeltasAt = kept(None)(partial(self._at, EXACTLY._replace(rungs=others)))
        """By all but the line, which takes long where it knows nothing."""

    def _at(self, settings: Settings, epsilons: tuple[float, ...]) -> list[float]:
        return [*map(float, delta_of(self._job, np.array(epsilons), self._relation, settings))]

    def _roughly(self, epsilons: tuple[float, ...]) -> list[float]:
        return [roughly("delta", self._job, epsilon, self._relation) for epsilon in epsilons]

    def _by_line(self, epsilons: tuple[float, ...]) -> tuple[list[float], bool]:
        asked = np.array(epsilons)
        if self._whole.has_alternatives:
            found = exact(self._job, Ask("delta", asked, asked.shape, self._relation, only_upper=True), QUICKLY)
            return found.upper.tolist(), bool((found.status == Status.TIGHT).all())
        with suppress(OutOfReachError):
            reading, is_all = Contour.of(self._whole, self._relation).read_cell(0, asked, DELTA, only_upper=True)
            return reading.upper.tolist(), bool(is_all.all())
        return [math.inf] * len(epsilons), False


def _largest(deltas: _Deltas, fpr: float) -> float:
    """The smallest upper bound of the true-positive rate over epsilon: of steep lines, and of flat ones left of 0.

    Each rate is searched by itself, so that its bits do not depend on the others.  Whatever is tried is a bound: what
    says where to try next need not be proved.  First by what costs least.
    """
    has_line = deltas.by_line((_TRIED[3],))[1]
    first = _Search((lambda epsilons: deltas.by_line(epsilons)[0]) if has_line else deltas.roughly, fpr)
    near = first.refined() if first.found() else []
    search = _Search(deltas.at, fpr, first.done, has_one_minimum=deltas.is_tight)
    is_known = bool(near) and has_line and deltas.by_line(tuple(sorted(set(map(abs, near)))))[1]
    if near and _is_all(deltas, first, search, is_known=is_known):
        return min(first.best, search.best)
    if search.says_something or search.found():
        search.refined()
    return min(first.best, search.best)


def _is_all(deltas: _Deltas, first: _Search, search: _Search, *, is_known: bool) -> bool:
    """Whether there is nothing below what a first search has found, or no time for it; else all readers are asked next
    to that."""
    if is_known and deltas.is_tight:
        return True
    if not deltas.by_line((abs(first.lowest),))[1]:
        search.deltas_at = deltas.off_line
    if search.left > 0.5:
        search.ask([first.lowest])
    if search.left <= 0.5:
        return True  # there is no time for more
    if is_known and search.odds(first.lowest) >= (1.0 - _GOOD) * first.odds(first.lowest):
        return True  # divergences of its mechanisms say no more than their losses
    search.ask([0.98 * first.lowest, 1.02 * first.lowest])
    return False


class _Search:
    """For the epsilon that is best at a false-positive rate; several are tried at once: they share a line or a grid."""

    def __init__(
        self, deltas_at: _DeltasAt, fpr: float, before: Done | None = None, *, has_one_minimum: bool = True
    ) -> None:
        self.deltas_at, self.fpr, self.has_one_minimum = deltas_at, fpr, has_one_minimum
        self.done: Done = dict(before or {})
        """What was asked, and the work of it, also before this search."""
        self.last = min(_TRIED[-1], -math.log(max(fpr, 1e-320)))
        """Beyond, everything is hit."""
        self.is_steep = True
        self.known: dict[float, tuple[float, float, float]] = {}
        """Of what was tried: both rates, and delta."""

    @property
    def lowest(self) -> float:
        """The best epsilon that was tried."""
        return min(self.known, key=self.odds)

    @property
    def best(self) -> float:
        """The smallest bound of the true-positive rate."""
        return min(1.0, *(tpr for tpr, _, _ in self.known.values()), 1.0)

    @property
    def left(self) -> float:
        """For how many more epsilons there is time, of some seconds on an everyday machine in all."""
        spent = sum(self.done.values())
        return (6e9 - spent) * max(len(self.known), 1) / spent if spent > 0.0 else math.inf

    @property
    def says_something(self) -> bool:
        """Whether some epsilon that was tried proves anything."""
        return any(fnr > 0.0 for _, fnr, _ in self.known.values())

    def ask(self, epsilons: Iterable[float]) -> None:
        """Try those that may say something, and are not known; of several minima on both sides of 0."""
        if not self.has_one_minimum:
            epsilons = [side for epsilon in epsilons for side in (epsilon, -epsilon)]
        new = sorted({epsilon for epsilon in epsilons if -_TRIED[-1] <= epsilon <= self.last} - self.known.keys())
        at = tuple(sorted(set(map(abs, new))))
        with counted() as done:
            deltas = dict(zip(at, self.deltas_at(at) if at else [], strict=True))
        self.done.update(done)
        for epsilon in new:
            delta = min(deltas[abs(epsilon)], 1.0)
            both = _rates(np.array(delta), np.array(epsilon), self.fpr)
            self.known[epsilon] = float(both[0]), float(both[1]), delta

    def odds(self, epsilon: float) -> float:
        """What rises with the true-positive rate, and keeps the digits of the smaller rate."""
        self.ask([epsilon])
        if epsilon not in self.known:
            return _BEYOND * (2000.0 + epsilon)
        tpr, fnr, delta = self.known[epsilon]
        if delta >= 1.0:  # further out, on the side that is looked at
            return _BEYOND * (2000.0 - epsilon if self.is_steep else 2000.0 + epsilon)
        if fnr <= 0.0:
            return _BEYOND * (1.0 - fnr)
        return tpr if tpr < 0.5 else 0.25 / fnr

    def found(self) -> bool:
        """Whether some epsilon says something, after a Fibonacci search: on the side of the rate, or on the other."""
        for is_steep in (self.fpr < 0.5, self.fpr >= 0.5):
            self.is_steep, first = is_steep, 0
            for step, other in itertools.pairwise((21, 13, 8, 5, 3, 2, 1)):
                if self.left <= 0.0:
                    break
                if self.odds(_PLACES[first + other]) >= self.odds(_PLACES[first + step]):
                    first += other
            if self.says_something:
                return True
        return False

    def refined(self) -> list[float]:
        """Try what is better; the epsilons at last that show that nothing is."""
        is_sure = False
        for _ in range(30):
            best, kind, e, rate = self._so_far()
            at = e.index(best)
            low, high = self._between(e, at)
            enough = rate[at] - _GOOD * abs(rate[at])
            corner, least = _corner(np.array(e), rate, at, self.fpr, 1.0 - kind)
            foretold = _log_delta([(abs(one), self.known[one][2]) for one in e], at)
            following, guess = _lowest(foretold, low, high, self.fpr, kind)
            is_corner = least >= enough
            is_done = is_corner or (self.known[best][2] > 0.0 and guess >= enough)
            if (is_sure and is_done) or high - low <= _GOOD:
                break
            beyond = corner + math.copysign(1e-14 * (1.0 + abs(corner)), corner)  # delta has its corner, too
            sides = np.append(np.linspace(low, best, 4), np.linspace(best, high, 4)).tolist() * (self.left > 12.0)
            self.ask(one for one in [beyond, *[following, *sides] * (not is_corner)] if low < one < high)
            *_, delta = self.known.get(following, (0.0, 0.0))
            is_right = delta > 0.0 and bool(abs(math.log(delta) - foretold(np.array(abs(following)))) <= 3e-6)
            is_sure = is_corner or is_right  # as foretold: it is believed, then
        return [epsilon for epsilon in self.known if e[max(at - 2, 0)] <= epsilon <= e[min(at + 2, len(e) - 1)]]

    def _so_far(self) -> tuple[float, int, list[float], Cells]:
        """The best epsilon, which rate is small there, all epsilons that are told apart from it, and their rates."""
        best = self.lowest
        kind = 0 if self.known[best][0] < 0.5 else 1
        e = sorted(epsilon for epsilon in self.known if epsilon == best or abs(epsilon - best) > 1e-9)
        return best, kind, e, np.array([self.known[epsilon][kind] for epsilon in e]) * (1 - 2 * kind)

    def _between(self, e: list[float], at: int) -> tuple[float, float]:
        """The neighbours of the best epsilon; where there is none, the next place, or the last one of any use.  Nothing
        lies between where nothing is left."""
        if self.left <= 0.0:
            return e[at], e[at]
        near = 0.01 * abs(e[at])  # a search that has come to a place goes on to the next one
        low = e[at - 1] if at else _PLACES[bisect_left(_PLACES, e[at] - near) - 1]
        high = (e[at + 1 :] or [*_PLACES, math.inf][bisect_right(_PLACES, e[at] + near) :])[0]
        return max(low, -_TRIED[-1]), min(high, self.last)


def _rates(delta: Cells, epsilon: Cells, fpr: float) -> tuple[Cells, Cells]:
    """delta + exp(epsilon) fpr, left of 0 1 - exp(epsilon) (1 - delta - fpr), and 1 minus that; small rates keep their
    digits."""
    flat = np.minimum(epsilon, 0.0)
    lift = np.exp(np.maximum(epsilon, 0.0)) * fpr
    return np.exp(flat) * (delta + lift) - np.expm1(flat), np.exp(flat) * (1.0 - lift - delta)


def _corner(epsilon: Cells, value: Cells, at: int, fpr: float, start: float) -> tuple[float, float]:
    """Where two lines in exp(epsilon) meet next to the best one, and what is below a convex function there.

    Where losses are atoms, the value is piecewise linear: two lines meet in the least one.  At exp(epsilon) = 0 it is
    `start`, and nowhere its slope is more than fpr.
    """
    best, near = epsilon[at], np.exp(np.clip(epsilon - epsilon[at], -700.0, 700.0)).tolist()
    x, y, at = [0.0, *near, 2.0 * near[-1]], [start, *value.tolist()], at + 1
    y, meetings = [*y, y[-1] + fpr * math.exp(best) * x[-2]], []
    for i in (at - 1, at):
        if not 1 <= i < len(x) - 2:
            return math.nan, -math.inf
        fall, rise = ((y[k + 1] - y[k]) / max(x[k + 1] - x[k], 1e-320) for k in (i - 1, i + 1))
        if fall < rise:
            where = (y[i + 1] - y[i] + fall * x[i] - rise * x[i + 1]) / (fall - rise)
            where = min(max(x[i], where), x[i + 1])  # no number: x[i]
            k, slope = (i, fall) if -fall < rise else (i + 1, rise)
            error = 1e-14 * (abs(y[k]) + abs(slope) * x[i + 1])
            meetings.append((y[k] + slope * (where - x[k]) - error, best + math.log(where)))
    least, where = min(meetings, default=(-math.inf, math.nan))
    return where, least


def _log_delta(known: list[tuple[float, float]], at: int) -> Callable[[Cells], Cells]:
    """A polynomial for log delta, through what is known next to the best epsilon."""
    nearest = sorted(range(max(at - 2, 0), min(at + 3, len(known))), key=lambda i: (abs(i - at) > 1, abs(i - at)))
    chosen = {epsilon: delta for epsilon, delta in (known[i] for i in nearest) if delta > 0.0}
    near = list(chosen)[:4]
    factor = [math.log(chosen[epsilon]) for epsilon in near]
    for k in range(1, len(near)):  # Newton's divided differences
        for i in range(len(near) - 1, k - 1, -1):
            factor[i] = (factor[i] - factor[i - 1]) / (near[i] - near[i - k])

    def value(e: Cells) -> Cells:
        total: Cells = np.zeros(e.shape)
        for t, slope in zip(reversed(near), reversed(factor), strict=True):
            total = total * (e - t) + slope
        return np.clip(total, -740.0, 0.0)

    return value


def _lowest(log_delta: Callable[[Cells], Cells], low: float, high: float, fpr: float, kind: int) -> tuple[float, float]:
    """Where the rate is best if delta is as foretold, and the true-positive rate there or minus the other one."""
    between = np.linspace(0.0, 1.0, 66)
    for _ in range(4):
        e = low + (high - low) * between
        tpr, fnr = _rates(np.exp(log_delta(np.abs(e))), e, fpr)
        value = (tpr, -fnr)[kind]
        lowest = 1 + int(value[1:-1].argmin())
        low, high = e[lowest - 1], e[lowest + 1]
    return float(e[lowest]), float(value[lowest])
