"""What the exact accountant cannot do cell by cell in one kernel call: histories of several blocks, and replace-one.

Both are jobs: a list of blocks (steps, noise, components of P, components of Q) at some targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct._arrays import MAX_STEPS, Cells, in_pieces
from fastacct.accountants import RDP, Question
from fastacct.bounds import Bounds, Status
from fastacct_ext import _kernels

WHAT: Final = {"epsilon": 0, "delta": 1}
DIRECTIONS: Final = {"add": 1, "remove": 2, "add_remove": 3, "zero_out": 3, "replace_one": 3}
ROUNDING: Final = 1e-15
Read = Callable[[Question], Cells]
"""Upper bounds of a question."""


class Block(NamedTuple):
    """`steps` times one mechanism: components are (weight, mean); no components of Q: the sampled Gaussian."""

    steps: float
    noise: float
    p: tuple[tuple[float, float], ...]
    q: tuple[tuple[float, float], ...] = ()


def sampled(steps: float, noise: float, rate: float, neighbors: str) -> Block:
    """Poisson-sampled Gaussian steps with a contribution of norm at most 1 per record."""
    if neighbors != "replace_one":
        return Block(steps, noise, ((rate, 1.0),))
    if rate == 1.0:
        return Block(steps, noise, ((1.0, 1.0),), ((1.0, -1.0),))
    rest = (1.0 - rate, 0.0)  # its rounding is the same in P and Q: relative 2**-53 of the log-moment, in the ledger
    return Block(steps, noise, (rest, (rate, 1.0)), (rest, (rate, -1.0)))


def job_bounds(blocks: Sequence[Block], target: Cells, what: int, directions: int, threads: int = 1) -> Bounds:
    """Certified bounds of one job at flat targets; no block may be without noise."""
    steps = np.array([block.steps for block in blocks])
    noise = np.array([block.noise for block in blocks])
    n_p = np.array([len(block.p) for block in blocks], dtype=np.int32)
    n_q = np.array([len(block.q) for block in blocks], dtype=np.int32)
    parts = np.array([part for block in blocks for part in block.p + block.q])
    weight, mean = np.ascontiguousarray(parts[:, 0]), np.ascontiguousarray(parts[:, 1])
    lower, upper, slope = (np.empty(target.size) for _ in range(3))
    status = np.zeros(target.size, dtype=np.uint8)

    def work(start: int, stop: int) -> None:
        at, low, high, steep = (x[start:stop] for x in (target, lower, upper, slope))
        codes = status[start:stop]
        _kernels.exact_job(steps, noise, n_p, n_q, weight, mean, at, what, directions, low, high, steep, codes)

    in_pieces(target.size, threads, work)
    return Bounds(lower, upper, status)


def merged(question: Question) -> Question:
    """The same history with equal blocks joined and idle ones dropped; no history any more if one block is left.

    Blocks are put in a fixed order: the answer does not depend on the order of the history, bit for bit.
    """
    sigma, q, steps, target = question.cells
    counts: dict[tuple[float, float], list[float]] = {}
    for noise, rate, count in sorted(zip(sigma.tolist(), q.tolist(), steps.tolist(), strict=True)):
        if rate > 0.0 and count > 0.0 and noise < math.inf:
            sums = counts.setdefault((noise, rate), [0.0])
            if sums[-1] + count > MAX_STEPS:  # the sum would be rounded
                sums.append(0.0)
            sums[-1] += count
    rows = [(noise, rate, count) for (noise, rate), sums in counts.items() for count in sums]
    rows = [row for row in rows if row[0] == 0.0][:1] or rows or [(1.0, 0.0, 0.0)]  # one block without noise decides
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    if len(rows) == 1:
        columns = [column.reshape(()) for column in columns]
    cells = (columns[0], columns[1], columns[2], target)
    return replace(question, cells=cells, shape=target.shape, history=len(rows) > 1)


def history_bounds(question: Question) -> Bounds:
    """Bounds of several blocks that all have noise, at flat targets."""
    sigma, q, steps, target = question.cells
    blocks = [
        sampled(count, noise, rate, question.neighbors)
        for noise, rate, count in zip(sigma.tolist(), q.tolist(), steps.tolist(), strict=True)
    ]
    bounds = job_bounds(blocks, target, WHAT[question.wanted], DIRECTIONS[question.neighbors], question.threads)
    loose = bounds.status != Status.TIGHT
    if loose.any() and question.neighbors != "replace_one":
        _improve(bounds, loose, RDP().read(replace(question, cells=(sigma, q, steps, target[loose]))).values)
    return bounds


def replace_one_bounds(question: Question) -> Bounds:
    """Bounds of flat cells, each as a job of its own, on several threads."""
    sigma, q, steps, target = question.cells
    what, end = WHAT[question.wanted], (1.0, math.inf)[WHAT[question.wanted]]
    lower, upper, status = np.zeros(target.size), np.zeros(target.size), np.zeros(target.size, dtype=np.uint8)
    active = (q > 0.0) & (steps > 0.0) & (sigma < math.inf) & (target < end)
    no_noise = active & (sigma == 0.0)
    upper[no_noise], status[no_noise] = (math.inf, 1.0)[what], Status.NOT_MET
    rest = np.flatnonzero(active & ~no_noise)

    def work(start: int, stop: int) -> None:
        for i in rest[start:stop].tolist():
            block = sampled(float(steps[i]), float(sigma[i]), float(q[i]), "replace_one")
            found = job_bounds([block], target[i : i + 1], what, DIRECTIONS["replace_one"])
            lower[i], upper[i], status[i] = found.lower[0], found.upper[0], found.status[0]

    in_pieces(rest.size, question.threads, work)
    return Bounds(lower, upper, status)


def improve_by_two(question: Question, bounds: Bounds, read: Read) -> None:
    """Where replace-one at flat targets is not tight: to remove a record and add another one is a group of two.

    delta(2 e) <= (1 + exp(e)) delta'(e), with delta' that of "add_remove".
    """
    target = question.cells[3]
    loose = (bounds.status != Status.TIGHT) & (target > (0.0 if question.wanted == "epsilon" else -1.0))
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
            value = ask(half) * (1.0 + np.exp(half)) * (1.0 + 4.0 * ROUNDING)
            _improve(bounds, loose, np.where(value <= 1.0, value, 1.0))
            return
        half, found = ask(0.5 * wanted), np.full(wanted.shape, math.inf)
        for _ in range(12):  # up to e with epsilon'(delta / (1 + exp(e))) <= e
            needed = ask(wanted / (1.0 + np.exp(half)) * (1.0 - 4.0 * ROUNDING))
            found = np.where((needed <= half) & (found == math.inf), 2.0 * half, found)
            half = np.where(needed <= half, half, 1.01 * needed)
        _improve(bounds, loose, found)


def _improve(bounds: Bounds, where: NDArray[np.bool_], instead: Cells) -> None:
    """Take other upper bounds in some cells, if they are smaller."""
    lower, upper, status = bounds
    status[where] = np.where(instead < upper[where], Status.LOOSE, status[where])
    upper[where] = np.minimum(upper[where], instead)
    met = (upper[where] <= lower[where]) & (upper[where] < math.inf)
    status[where] = np.where(met, Status.TIGHT, status[where])


def flat(question: Question) -> Question:
    """The same question with one-dimensional cells (of one length, but for the blocks of a history)."""
    *run, target = question.cells
    size = math.prod(question.shape)
    if not question.history:
        run = [np.broadcast_to(cell, question.shape).ravel() for cell in run]
    cells = (run[0], run[1], run[2], np.ascontiguousarray(np.broadcast_to(target, question.shape)).ravel())
    return replace(question, cells=cells, shape=(size,))


def shaped(bounds: Bounds, shape: tuple[int, ...]) -> Bounds:
    """Flat bounds in the shape of the question."""
    return Bounds(*(x.reshape(shape) for x in bounds))
