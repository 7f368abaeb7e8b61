"""What the exact accountant cannot do in one kernel call over all cells: histories of several blocks, and replace-one.

Both are jobs of the process algebra, so that a run of DP-SGD and the same job in mechanisms give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastacct._arrays import Cells, status_of
from fastacct._jobs_exact import DELTA, DIRECTIONS, EPSILON, Job
from fastacct.accountants import Question
from fastacct.bounds import Bounds, Status
from fastacct.mechanisms import Gaussian
from fastacct.process import Process

WHAT: Final = {"epsilon": EPSILON, "delta": DELTA}
_ROUNDING: Final = 1e-15
Read = Callable[[Question], Cells]
"""Upper bounds of a question."""


def flat(question: Question) -> Question:
    """The same question with one-dimensional cells (of one length, but for the blocks of a history)."""
    *run, target = question.cells
    if not question.history:
        run = [np.broadcast_to(cell, question.shape).ravel() for cell in run]
    target = np.broadcast_to(target, question.shape).ravel()
    return replace(question, cells=(run[0], run[1], run[2], target), shape=target.shape)


def job_bounds(question: Question) -> Bounds:
    """Bounds of a flat question."""
    sigma, q, steps, target = question.cells
    if not target.size:
        return Bounds(target, target, np.zeros(0, dtype=np.uint8))
    if question.history:
        blocks = zip(sigma.tolist(), q.tolist(), steps.tolist(), strict=True)
        try:
            process = Process([(Gaussian(noise).poisson(rate), int(count)) for noise, rate, count in blocks])
        except ValueError as error:  # the sum of equal blocks is beyond 2**53
            raise ValueError(f"history: equal blocks are joined, and their {error}") from None
        cells = np.zeros(target.size, dtype=np.intp)
    else:
        process = Process([(Gaussian(sigma).poisson(q), steps)])
        cells = np.arange(target.size)
    job = Job(process, question.neighbors)
    found = job.read(cells, target, WHAT[question.wanted], DIRECTIONS[question.neighbors], question.threads)
    return Bounds(found.lower, found.upper, found.status)


def improve_by_two(question: Question, bounds: Bounds, read: Read) -> None:
    """Where replace-one of a flat question is not tight: to remove a record and add another is a group of two.

    delta(2 e) <= (1 + exp(e)) delta'(e), with delta' that of "add_remove".
    """
    target = question.cells[3]
    loose = (bounds.status != Status.TIGHT) & ((target > 0.0) | (question.wanted == "delta"))
    if not loose.any():
        return
    run = question.cells[:3] if question.history else tuple(cell[loose] for cell in question.cells[:3])
    wanted = target[loose]

    def ask(at: Cells) -> Cells:
        cells = (run[0], run[1], run[2], at)
        return read(replace(question, cells=cells, shape=at.shape, neighbors="add_remove"))

    with np.errstate(over="ignore", invalid="ignore"):
        if question.wanted == "delta":
            half = 0.5 * wanted
            value = ask(half) * (1.0 + np.exp(half)) * (1.0 + 4.0 * _ROUNDING)
            _improve(bounds, loose, np.where(value <= 1.0, value, 1.0))
            return
        half, found = ask(0.5 * wanted), np.full(wanted.shape, math.inf)
        for _ in range(12):  # up to e with epsilon'(delta / (1 + exp(e))) <= e
            needed = ask(wanted / (1.0 + np.exp(half)) * (1.0 - 4.0 * _ROUNDING))
            found = np.where((needed <= half) & (found == math.inf), 2.0 * half, found)
            half = np.where(needed <= half, half, 1.01 * needed)
        _improve(bounds, loose, found)


def _improve(bounds: Bounds, where: NDArray[np.bool_], instead: Cells) -> None:
    """Take other upper bounds in some cells, if they are smaller."""
    lower, upper, status = bounds
    better = instead < upper[where]
    upper[where] = np.minimum(upper[where], instead)
    status[where] = np.where(better, status_of(lower[where], upper[where]), status[where])


def shaped(bounds: Bounds, shape: tuple[int, ...]) -> Bounds:
    """Flat bounds in the shape of the question."""
    return Bounds(*(x.reshape(shape) for x in bounds))
