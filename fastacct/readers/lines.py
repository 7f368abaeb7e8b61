"""Trade-off curves of jobs of which delta is known point by point: the lines that each (epsilon, delta) proves."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.mechanisms.process import Process
from fastacct.readers.job import delta_of, owners

_SHARED: Final = [0.0, *np.geomspace(1e-3, 700.0, 25).tolist()]
"""Epsilons between which all rates look for their own."""
_GOLDEN: Final = 0.5 * (math.sqrt(5.0) - 1.0)
_GOOD: Final = 1e-7
"""Relative gain that is not worth another delta."""
_MOST: Final = 60
_UP: Final = 1.0 + 1e-14


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

        @cache
        def delta_at(epsilon: float, job: Process = job) -> float:
            return float(delta_of(job, np.array(epsilon), relation))

        tpr[mine] = [_largest(delta_at, x) if x < 1.0 else 1.0 for x in rates[mine].tolist()]
    tpr = np.minimum(1.0, np.maximum(tpr * _UP + 1e-300, rates)).reshape(fpr.shape)
    status = np.where(tpr >= 1.0, Status.NOT_MET, Status.LOOSE).astype(np.uint8)
    status = np.where(fpr == 1.0, Status.TIGHT, status).astype(np.uint8)
    if positives:
        return Bounds(np.minimum(fpr, tpr), tpr, status)
    lower = np.maximum((1.0 - tpr) * (1.0 - 4e-16) - 1e-16, 0.0)
    guessing = np.where(fpr > 0.0, np.minimum(np.nextafter(1.0 - fpr, 2.0), 1.0), 1.0)
    return Bounds(lower, np.where(fpr < 1.0, np.maximum(guessing, lower), 0.0), status)


def _largest(delta_at: Callable[[float], float], fpr: float) -> float:
    """The smallest upper bound of the true-positive rate over epsilon >= 0.

    Each rate is searched by itself, so that its bits do not depend on the others.  Each of the two lines of an epsilon
    has its own best one.
    """

    def steep(epsilon: float) -> float:
        return delta_at(epsilon) + math.exp(epsilon) * fpr

    def flat(epsilon: float) -> float:
        # 1 - exp(-epsilon) (1 - delta - fpr), as a sum of what is not negative: small rates keep their accuracy
        return math.exp(-epsilon) * (delta_at(epsilon) + fpr) - math.expm1(-epsilon)

    # both are convex: where one falls from epsilon 0, the other one rises
    lines = {steep: 1.0, flat: -1.0}
    falling = {line: sign for line, sign in lines.items() if line(_SHARED[1]) < line(0.0)}
    return min(_lowest(line, sign) for line, sign in (falling or lines).items())


def _lowest(value: Callable[[float], float], sign: float) -> float:
    """The least value of a line over epsilon: it falls up to one place and rises from there.

    It is convex in exp(sign epsilon), and where losses are atoms piecewise linear: two lines meet in its least value.
    """
    at = 1
    while at < len(_SHARED) - 1 and value(_SHARED[at]) <= value(_SHARED[at - 1]):
        at += 1
    low, high, best = _SHARED[max(at - 2, 0)], _SHARED[at], value(0.0)
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    for _ in range(_MOST):
        ends = value(low), value(a), value(b), value(high)
        best = min(best, *ends)
        if max(ends) - min(ends) <= _GOOD * min(best, 1.0 - best):
            break
        if ends[1] <= ends[2]:
            high, b = b, a
            a = high - _GOLDEN * (high - low)
        else:
            low, a = a, b
            b = low + _GOLDEN * (high - low)
    e = 2.0 * low - high, low, high, 2.0 * high - low
    if not 0.0 <= e[0] < low:
        return best
    x, y = [math.exp(sign * one) for one in e], [value(one) for one in e]
    fall, rise = (y[1] - y[0]) / (x[1] - x[0]), (y[3] - y[2]) / (x[3] - x[2])
    meet = (y[2] - y[1] + fall * x[1] - rise * x[2]) / (fall - rise) if fall != rise else x[1]
    return min(best, value(sign * math.log(min(max(meet, min(x)), max(x)))))
