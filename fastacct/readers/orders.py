"""Rényi divergences of a whole job: by the compiled kernel where it is of sampled Gaussians, else by cells.

Order inf is the largest loss.  Order 1 is the Kullback-Leibler divergence, K'(0) of log-moments; divergences increase
with the order, so that one slightly above 1 bounds it from above where that is not known.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import numpy as np

from fastacct.core.bounds import Bounds, Status, meet, status_of
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.mechanisms.base import Run
from fastacct.mechanisms.process import Cell, Process, cell_divergence, cell_pure_epsilon
from fastacct.readers.job import Ask, delta_of, exact, owners
from fastacct.readers.moments import divergence_bounds
from fastacct.readers.renyi import merged_runs
from fastacct_ext import _kernels

_ABOVE_ONE: Final = 2.0 ** -np.array([52.0, 40.0, 30.0, 23.0, 17.0, 12.0, 9.0])
"""By how much orders exceed 1 that stand for it: the least value counts, which rounding decides."""


def divergences(
    job: Process, orders: Cells, shape: tuple[int, ...], relation: Relation, threads: int, *, only_upper: bool
) -> Bounds:
    """Bounds at the orders; the lower ones are 0 where only upper ones are asked for.

    The kernel's are of direction remove, the larger one: of a sample's direction add they are bounds from above alone.
    """
    bounds = _of_larger(job, orders, shape, relation, threads, only_upper)
    if not job.sampled(relation) and not job.tight:
        status = np.maximum(bounds.status, np.where(np.asarray(bounds.upper) > 0.0, Status.LOOSE, Status.TIGHT))
        bounds = Bounds(np.zeros(shape), bounds.upper, status.astype(np.uint8))
    if not (orders == np.inf).any() and relation != "add":
        return bounds
    direct = job.decompose(relation)
    if (orders == np.inf).any() or direct.is_gaussian:
        largest = _largest(direct, relation, threads).ravel()[owners(job.shape, shape)].reshape(shape)
        upper = np.where((orders == np.inf) | direct.is_gaussian, np.minimum(bounds.upper, largest), bounds.upper)
        lower = np.minimum(bounds.lower, upper)
        bounds = Bounds(lower, upper, np.where(upper < bounds.upper, status_of(lower, upper), bounds.status))
    if only_upper or relation != "add":
        return bounds
    sampled = np.zeros(job.shape, dtype=np.bool_)
    for _, rate, count in _runs(direct, relation):
        sampled |= ((rate > 0.0) & (rate < 1.0) & (count > 0.0)).reshape(job.shape)
    sure = ~sampled.ravel()[owners(job.shape, shape)].reshape(shape)
    upper, status = np.asarray(bounds.upper), np.asarray(bounds.status)
    lower = np.where(sure, bounds.lower, 0.0)
    return Bounds(lower, upper, np.where(sure | (upper == np.inf), status, status_of(lower, upper)).astype(np.uint8))


def _largest(whole: Process, relation: Relation, threads: int) -> Cells:
    """The largest loss of each cell, epsilon at delta 0: no divergence is above it."""
    if not whole.sampled(relation):
        ask = Ask("epsilon", np.zeros(whole.shape), whole.shape, relation, threads, only_upper=True)
        return np.asarray(exact(whole, ask).upper)
    total = np.zeros(math.prod(whole.shape))
    with np.errstate(divide="ignore"):
        for sigma, rate, count in _runs(whole, relation):
            bound = -np.log1p(-rate) * (1.0 + 4e-15) if relation == "add" else np.inf
            is_used = (sigma < np.inf) & (rate > 0.0) & (count > 0.0)
            total = total + np.where(is_used, np.maximum(count, 1.0) * bound, 0.0)
    return np.asarray(total) * (1.0 + 4e-15)


def _runs(whole: Process, relation: Relation) -> list[Run]:
    return sampled.runs if (sampled := whole.sampled(relation)) else []


def _of_larger(
    job: Process, orders: Cells, shape: tuple[int, ...], relation: Relation, threads: int, only_upper: bool
) -> Bounds:
    special = (orders == 1.0) | (orders == np.inf)
    if not special.any():
        return _between(job, orders, shape, relation, threads, only_upper)
    direct = job.decompose(relation)
    finite = _between(direct, np.where(special, 2.0, orders), shape, relation, threads, only_upper)
    out = [np.array(column) for column in finite]  # the kernel's may not be written
    order_of, owner = np.broadcast_to(orders, shape), owners(job.shape, shape).reshape(shape)
    for order in (1.0, np.inf):
        mine = order_of == order
        if mine.any():
            flat = _at_one(direct, relation, threads) if order == 1.0 else _at_infinity(direct, relation)
            for column, values in zip(out, flat, strict=True):
                column[mine] = values[owner[mine]]
    if only_upper:
        out[0][...] = 0.0
    return Bounds(*out)


def _at_one(whole: Process, relation: Relation, threads: int) -> Bounds:
    """Kullback-Leibler divergences of all cells (flat arrays)."""
    orders = (1.0 + _ABOVE_ONE).reshape(-1, *(1,) * len(whole.shape))
    above = _between(whole, orders, (_ABOVE_ONE.size, *whole.shape), relation, threads, True)
    ends_of = [divergence_bounds(cell, np.ones(1), relation) for cell in whole.cells()]
    ends = [(0.0, np.inf) if pair is None else (pair[0].item(), pair[1].item()) for pair in ends_of]
    lower, upper = meet(*np.array(ends).reshape(-1, 2).T, np.asarray(above.upper).min(axis=0).ravel())
    status = np.asarray(above.status).min(axis=0).ravel()
    return Bounds(lower, upper, np.where(upper < np.inf, status_of(lower, upper), status).astype(np.uint8))


def _at_infinity(whole: Process, relation: Relation) -> Bounds:
    """Largest losses of all cells (flat arrays)."""
    upper = np.array([cell_pure_epsilon(cell, relation) for cell in whole.cells()])
    released = np.zeros(upper.size, dtype=np.bool_)  # by Gaussian noise: its loss is unbounded, but of "add"
    if relation != "add":
        for sigma, rate, count in _runs(whole, relation):
            released |= (sigma < np.inf) & (rate > 0.0) & (count > 0.0)
    lower = np.where(released & (upper == np.inf), np.inf, 0.0)
    status = np.where(upper == np.inf, Status.NOT_MET, np.where(upper > 0.0, Status.LOOSE, Status.TIGHT))
    return Bounds(lower, upper, status.astype(np.uint8))


def _between(
    job: Process, orders: Cells, shape: tuple[int, ...], relation: Relation, threads: int, only_upper: bool
) -> Bounds:
    """At orders above 1 that are finite."""
    sampled = job.sampled(relation)
    if sampled and (run := sampled.run):
        return _of_run(*run, orders, shape, threads, only_upper)
    lower, upper, status = np.zeros(shape), np.empty(shape), np.empty(shape, dtype=np.uint8)
    owner, order_of = owners(job.shape, shape).reshape(shape), np.broadcast_to(orders, shape)
    cells = iter(()) if sampled else job.decompose(relation).cells()
    for index in range(math.prod(job.shape)):
        mine = owner == index
        asked = np.ascontiguousarray(order_of[mine])
        if sampled:
            bounds = _of_runs(merged_runs(sampled.runs, index), asked, threads, only_upper)
        else:
            bounds = _of_losses(next(cells), asked, relation, only_upper)
        lower[mine], upper[mine], status[mine] = bounds
    return Bounds(lower, upper, status)


def _of_losses(cell: Cell, orders: Cells, relation: Relation, only_upper: bool) -> Bounds:
    """Divergences of all mechanisms of a cell."""
    upper = np.minimum(cell_divergence(cell, orders, relation, delta_of), cell_pure_epsilon(cell, relation))
    if only_upper:
        return Bounds(np.zeros(upper.shape), upper, np.where(upper < np.inf, Status.LOOSE, Status.NOT_MET))
    known = divergence_bounds(cell, orders, relation)
    if known is None:
        raise ValueError(f"rdp_bounds covers jobs whose losses are all known, which {Process(cell)!r} is not; use rdp")
    lower, upper = meet(known[0], upper)
    return Bounds(lower, upper, np.where(upper < np.inf, status_of(lower, upper), Status.NOT_MET))


def _of_run(
    sigma: Cells, q: Cells, steps: Cells, orders: Cells, shape: tuple[int, ...], threads: int, only_upper: bool
) -> Bounds:
    kernel = _kernels.rdp_upper if only_upper else _kernels.rdp_bounds
    values, status = run_kernel(partial(kernel, sigma, q, steps, orders), shape, 1 if only_upper else 2, threads)
    return Bounds(np.zeros(shape) if only_upper else values[0], values[-1], status)


def _of_runs(runs: tuple[Cells, ...], orders: Cells, threads: int, only_upper: bool) -> Bounds:
    """Divergences of different sampled Gaussians add up."""
    sigma, q, steps = (column[:, np.newaxis] for column in runs)
    lower, upper, status = _of_run(sigma, q, steps, orders, (sigma.size, orders.size), threads, only_upper)
    if sigma.size == 1:
        return Bounds(lower[0], upper[0], status[0])
    padding = (sigma.size + 1) * 2.0**-53
    lower, upper = lower.sum(axis=0) * (1.0 - padding), upper.sum(axis=0) * (1.0 + padding)
    return Bounds(lower, upper, np.where(upper < np.inf, status.max(axis=0), Status.NOT_MET).astype(np.uint8))
