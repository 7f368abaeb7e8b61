"""Trade-off curves of jobs of which delta is known point by point: the lines that each (epsilon, delta) proves."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.losses.loss import Atoms
from fastacct.mechanisms.process import Process
from fastacct.readers.job import delta_reader, owners

__all__ = ["supporting_lines"]

_STRIDE: Final = 4
_SHARED: Final = np.interp(
    np.arange(25 * _STRIDE + 1) / _STRIDE, np.arange(26), np.append(0.0, np.geomspace(1e-3, 700.0, 25))
).tolist()
"""Epsilons that all rates look at: first at every fourth, then at those between two of them."""
_OWN: Final = 24
"""Deltas that one rate asks for itself, at most."""
_IDLE: Final = 4
"""Deltas in a row that brought nothing."""
_GUESSES: Final = np.linspace(0.0, 1.0, 257)
_SQUARES: Final = _GUESSES * _GUESSES
_GOOD: Final = 1e-7
"""Relative gain that is not worth another delta."""
_EVEN: Final = 1e-12
"""Relative change that rounding may have made."""
_MOST_CORNERS: Final = 1 << 14
_UP: Final = 1.0 + 1e-14
Line = Callable[[Any, Any, Any, float], Any]
"""With the functions of `math` for numbers, of `numpy` for arrays."""


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
    for cell in np.unique(owner if where is True else owner[where]):
        mine = np.flatnonzero((owner == cell) & where)
        job = process.cell(int(cell)) if process.shape else process
        tpr[mine] = _largest(job, rates[mine], relation, threads)
    tpr = tpr.reshape(fpr.shape)
    status = np.where(tpr >= 1.0, Status.NOT_MET, Status.LOOSE).astype(np.uint8)
    status = np.where(fpr == 1.0, Status.TIGHT, status).astype(np.uint8)
    if positives:
        return Bounds(np.minimum(fpr, tpr), tpr, status)
    lower = np.maximum((1.0 - tpr) * (1.0 - 4e-16) - 1e-16, 0.0)
    guessing = np.where(fpr > 0.0, np.minimum(np.nextafter(1.0 - fpr, 2.0), 1.0), 1.0)
    return Bounds(lower, np.where(fpr < 1.0, np.maximum(guessing, lower), 0.0), status)


def _largest(job: Process, fpr: Cells, relation: Relation, threads: int) -> Cells:
    """Smallest upper bounds of the true-positive rate over epsilon >= 0.

    Each rate is searched by itself, so that its bits do not depend on the others; what they share are the deltas of the
    first points.  Each of the two lines of an epsilon has its own best one; a corner lies at a value of the loss.
    """
    corners = _corners(job, relation)

    delta_at = cache(delta_reader(job, relation))

    def best(x: float) -> float:
        # both lines together are convex: where one falls from epsilon 0, the other one rises
        rise = _steep(math, _SHARED[1], delta_at(_SHARED[1]), x) / (delta_at(0.0) + x) - 1.0
        asked = ((_steep, rise < _EVEN), (_flat, rise > -_EVEN))
        return min(_lowest(line, delta_at, corners, x) for line, is_asked in asked if is_asked)

    found = [best(x) if x < 1.0 else 1.0 for x in fpr.tolist()]
    return np.minimum(1.0, np.maximum(np.array(found) * _UP + 1e-300, fpr))


def _lowest(line: Line, delta_at: Callable[[float], float], corners: Cells, fpr: float) -> float:
    """The least value of a line over epsilon: it falls up to one place and rises from there."""

    def value(epsilon: float) -> float:
        return float(line(math, epsilon, delta_at(epsilon), fpr))

    end, before, after = _STRIDE, value(_SHARED[0]), value(_SHARED[_STRIDE])
    while end < len(_SHARED) - 1 and after <= before:
        end += _STRIDE
        before, after = after, value(_SHARED[end])
    points = _SHARED[max(end - 2 * _STRIDE, 0) : end + 1]
    inner = corners[corners.searchsorted(points[0], "right") : corners.searchsorted(points[-1])]
    points = sorted({*points, *inner.tolist()}) if inner.size else points
    first, last = 0, len(points) - 1
    while first < last:
        middle = (first + last) // 2
        if value(points[middle]) < value(points[middle + 1]):
            last = middle
        else:
            first = middle + 1
    e = points[max(first - 1, 0) : first + 2]
    own = [value(x) for x in e]
    idle = 0
    for _ in range(_OWN):  # the parabola's minimum where that has helped, else the middle of the longer side
        best = min(own)
        place = own.index(best)
        near = e[max(place - 1, 0) : place + 2]
        delta = [delta_at(x) for x in near]
        known = len(delta) - delta.count(0.0)
        if not known or near[-1] - near[0] <= 1e-4 * near[-1]:
            break
        at, told = e[place], math.nan
        if known < len(near):  # a logarithm of nothing has no parabola
            at = 0.5 * (near[known - 1] + near[known])
        elif not idle:
            guesses = near[0] + (near[-1] - near[0]) * _GUESSES
            model = line(np, guesses, np.exp(np.minimum(_through(near, [math.log(x) for x in delta]), 0.0)), fpr)
            least = int(model.argmin())
            at, told = float(guesses[least]), float(model[least])
            if at in near and len(near) == 2:
                break
        if at in near:
            at = max((0.5 * (a + b) for a, b in pairwise(near)), key=lambda x: abs(x - e[place]))
        found = value(at)
        enough = _GOOD * min(best, 1.0 - best)
        idle = 0 if found < best - enough or min(place, 1) < known < len(near) else idle + 1
        where = bisect(e, at)
        e.insert(where, at)
        own.insert(where, found)
        if idle > _IDLE or abs(found - told) <= 10.0 * enough:  # a model that is right has found the least
            break
    return min(own)


def _through(x: list[float], y: list[float]) -> Cells:
    """The polynomial through two or three points, at the guesses between the outer ones."""
    t = (x[1] - x[0]) / (x[-1] - x[0])
    slope = (y[1] - y[0]) / t
    bend = (y[2] - y[1]) / (1.0 - t) - slope if len(x) == 3 else 0.0
    return np.asarray(y[0] + (slope - bend * t) * _GUESSES + bend * _SQUARES)


def _steep(of: Any, epsilon: Any, delta: Any, fpr: float) -> Any:
    return delta + of.exp(epsilon) * fpr


def _flat(of: Any, epsilon: Any, delta: Any, fpr: float) -> Any:
    # 1 - exp(-epsilon) (1 - delta - fpr), as a sum of what is not negative: small rates keep their accuracy
    return of.exp(-epsilon) * (delta + fpr) - of.expm1(-epsilon)


def _corners(job: Process, relation: Relation) -> Cells:
    """Losses where delta may have corners: the largest one, and the sums of atoms where they are few."""
    found = [np.array([job.pure_epsilon(relation)])]
    try:
        pairs = [(mechanism.losses(relation), int(count)) for mechanism, count in job.decompose(relation)]
    except ValueError:  # the losses are too extreme to be listed
        pairs = []
    for direction in ("remove", "add"):
        sums = np.zeros(1)
        for pair, count in pairs:
            atoms = None if pair is None else pair.side(direction).upper.as_atoms()
            sums = sums[:0] if atoms is None else _distinct(np.add.outer(sums, _sums(atoms, count)).ravel())
            sums = sums if sums.size <= _MOST_CORNERS else sums[:0]
        found.append(np.abs(sums))
    every = np.concatenate(found)
    return _distinct(every[(every > 0.0) & (every <= _SHARED[-1])])


def _sums(atoms: Atoms, count: int) -> Cells:
    """Sums of `count` losses, where they are few and easily told."""
    lowest, highest = float(atoms.loss.min(initial=0.0)), float(atoms.loss.max(initial=0.0))
    lattice = highest - lowest if atoms.loss.size == 2 else atoms.lattice
    if lattice and count > 1:
        size = count * (highest - lowest) / lattice
        return np.asarray(count * lowest + lattice * np.arange(round(size) + 1 if size <= _MOST_CORNERS else 0))
    sums = np.zeros(1)
    for _ in range(count):
        if sums.size * atoms.loss.size > _MOST_CORNERS:
            return np.zeros(0)
        sums = _distinct(np.add.outer(sums, atoms.loss).ravel())
    return sums


def _distinct(values: Cells) -> Cells:
    """In increasing order, one of those that differ by rounding."""
    values = np.unique(values)
    return values[np.diff(values, prepend=-np.inf) > 1e-12 * np.abs(values)]
