"""Trade-off curves of jobs of which delta is known point by point: the lines that each (epsilon, delta) proves."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct._arrays import Cells, unwrap, unwrap_codes
from fastacct.api import delta
from fastacct.bounds import Bounds, Status
from fastacct.process import Process

__all__ = ["supporting_lines"]

_FIRST: Final = 16
_NEXT: Final = 7
_UP: Final = 1.0 + 1e-14


def supporting_lines(process: Process, fpr: Cells, neighbors: str, threads: int, *, positives: bool) -> Bounds:
    """Bounds of the false-negative rate, or of the true-positive rate.

    (epsilon, delta) proves fnr >= 1 - delta - exp(epsilon) fpr and fnr >= exp(-epsilon) (1 - delta - fpr)
    (Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015), each for both orders of the two data sets.
    """
    tpr = np.empty(fpr.shape)
    cells = np.broadcast_to(np.arange(math.prod(process.shape)).reshape(process.shape), fpr.shape)
    for i in np.ndindex(fpr.shape):
        job = process if not process.shape else _cell(process, int(cells[i]))
        tpr[i] = _largest(job, float(fpr[i]), neighbors, threads)
    status = np.where(tpr >= 1.0, Status.NOT_MET, Status.LOOSE).astype(np.uint8)
    status = np.where(fpr == 1.0, Status.TIGHT, status).astype(np.uint8)
    if positives:
        return Bounds(unwrap(np.minimum(fpr, tpr)), unwrap(tpr), unwrap_codes(status))
    lower = np.maximum((1.0 - tpr) * (1.0 - 4e-16) - 1e-16, 0.0)
    guessing = np.where(fpr > 0.0, np.minimum(np.nextafter(1.0 - fpr, 2.0), 1.0), 1.0)
    return Bounds(unwrap(lower), unwrap(np.where(fpr < 1.0, np.maximum(guessing, lower), 0.0)), unwrap_codes(status))


def _cell(process: Process, cell: int) -> Process:
    from fastacct._jobs_table import at_cell

    return at_cell(process, cell)


def _largest(job: Process, fpr: float, neighbors: str, threads: int) -> float:
    """Smallest upper bound of the true-positive rate over epsilon >= 0."""
    if fpr >= 1.0:
        return 1.0
    top = min(-math.log(fpr) + 1.0 if fpr > 0.0 else 700.0, 700.0)
    grid, best = np.linspace(0.0, top, _FIRST), 1.0
    for _ in range(6):
        d = np.asarray(delta(job, epsilon=grid, neighbors=neighbors, threads=threads))
        lines = np.minimum(d + np.exp(grid) * fpr, 1.0 - np.exp(-grid) * np.maximum(1.0 - d - fpr, 0.0) * (2.0 - _UP))
        best = min(best, float(np.min(lines)) * _UP + 1e-300)
        place = int(np.argmin(lines))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, grid.size - 1)]
        grid = np.linspace(low, high, _NEXT)
    return min(1.0, max(best, fpr))
