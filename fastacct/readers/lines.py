"""Trade-off curves of jobs of which delta is known point by point: the lines that each (epsilon, delta) proves."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.mechanisms.process import Process
from fastacct.readers.job import Ask, exact, owners

__all__ = ["supporting_lines"]

_FIRST: Final = 16
_NEXT: Final = 7
_UP: Final = 1.0 + 1e-14


def supporting_lines(process: Process, fpr: Cells, relation: Relation, threads: int, *, positives: bool) -> Bounds:
    """Bounds of the false-negative rate, or of the true-positive rate.

    (epsilon, delta) proves fnr >= 1 - delta - exp(epsilon) fpr and fnr >= exp(-epsilon) (1 - delta - fpr)
    (Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015), each for both orders of the two data sets.
    """
    tpr: Cells = np.empty(fpr.size)
    owner, rates = owners(process.shape, fpr.shape), fpr.ravel()
    for cell in np.unique(owner):
        mine = np.flatnonzero(owner == cell)
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
    """Smallest upper bounds of the true-positive rate over epsilon >= 0, all rates at once."""
    with np.errstate(divide="ignore"):
        top = np.where(fpr > 0.0, np.minimum(1.0 - np.log(fpr), 700.0), 700.0)
    share = np.linspace(0.0, 1.0, _FIRST)
    low, high, best = np.zeros(fpr.size), top, np.ones(fpr.size)
    x = fpr[:, None]
    for i in range(6):
        grid = low[:, None] + (high - low)[:, None] * (share if i == 0 else np.linspace(0.0, 1.0, _NEXT))
        ask = Ask("delta", grid.ravel(), (grid.size,), relation, threads, only_upper=True)
        d = np.asarray(exact(job, ask).upper).reshape(grid.shape)
        lines = np.minimum(d + np.exp(grid) * x, 1.0 - np.exp(-grid) * np.maximum(1.0 - d - x, 0.0) * (2.0 - _UP))
        best = np.minimum(best, lines.min(axis=1) * _UP + 1e-300)
        place = lines.argmin(axis=1)
        rows = np.arange(fpr.size)
        low, high = grid[rows, np.maximum(place - 1, 0)], grid[rows, np.minimum(place + 1, grid.shape[1] - 1)]
    return np.where(fpr >= 1.0, 1.0, np.minimum(1.0, np.maximum(best, fpr)))
