"""Trade-off curves of jobs of which delta is known point by point: the lines that each (epsilon, delta) proves."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.losses.loss import Atoms
from fastacct.mechanisms.process import Process
from fastacct.readers.job import Ask, exact, owners

__all__ = ["supporting_lines"]

_FIRST: Final = 48
_NEXT: Final = 7
_ROUNDS: Final = 6
_FAR: Final = 700.0
_MOST_CORNERS: Final = 64
_MOST_SUMS: Final = 128
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
    """Smallest upper bounds of the true-positive rate over epsilon >= 0, all rates at once.

    Each of the two lines of an epsilon has its own best one; a corner of the curve lies at a value of the loss.
    """
    best, x = np.ones(fpr.size), fpr[:, None]
    start = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, _FAR, _FIRST), _corners(job, relation)]))

    def deltas(grid: Cells) -> Cells:
        ask = Ask("delta", grid.ravel(), (grid.size,), relation, threads, only_upper=True)
        return np.asarray(exact(job, ask).upper).reshape(grid.shape)

    first = deltas(start)[None, :]
    for line in (_steep, _flat):
        grid, d = np.broadcast_to(start, (fpr.size, start.size)), first
        for i in range(_ROUNDS):
            lines = line(grid, d, x)
            best = np.minimum(best, lines.min(axis=1) * _UP + 1e-300)
            if i < _ROUNDS - 1 and fpr.size:
                place, rows = lines.argmin(axis=1), np.arange(fpr.size)
                low, high = grid[rows, np.maximum(place - 1, 0)], grid[rows, np.minimum(place + 1, grid.shape[1] - 1)]
                grid = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _NEXT)
                d = deltas(grid)
    return np.where(fpr >= 1.0, 1.0, np.minimum(1.0, np.maximum(best, fpr)))


def _steep(epsilon: Cells, delta: Cells, fpr: Cells) -> Cells:
    return np.asarray(delta + np.exp(epsilon) * fpr)


def _flat(epsilon: Cells, delta: Cells, fpr: Cells) -> Cells:
    return np.asarray(1.0 - np.exp(-epsilon) * np.maximum(1.0 - delta - fpr, 0.0) * (2.0 - _UP))


def _corners(job: Process, relation: Relation) -> Cells:
    """Losses where delta may have corners: the largest one, and those of few atoms."""
    pure = job.pure_epsilon(relation)
    found = [np.array([pure])]
    parts = list(job.decompose(relation))
    if len(parts) == 1:
        mechanism, count = parts[0][0], int(parts[0][1])
        try:
            pair = mechanism.losses(relation)
            sources = [] if pair is None or pair.is_nothing else [pair.remove.upper, pair.add.upper]
        except ValueError:  # the losses are too extreme to be listed
            sources = []
        for source in sources:
            if isinstance(source, Atoms) and source.loss.size <= _MOST_CORNERS:
                values = np.unique(np.abs(source.loss))
                if values.size == 1 and count <= _MOST_SUMS:  # the sums of v and -v are count v, (count - 2) v, ...
                    found.append(values * np.arange(count, 0, -2))
                elif count == 1:
                    found.append(values)
    every = np.unique(np.concatenate(found))
    return every[(every > 0.0) & (every <= _FAR)]
