"""Rényi divergences of a whole job: by the compiled kernel where it is of sampled Gaussians, else by cells.

Order inf is the largest loss.  Order 1 is the Kullback-Leibler divergence, K'(0) of log-moments; divergences increase
with the order, so that one slightly above 1 bounds it from above where that is not known.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from fastacct.core.bounds import Bounds, Status, meet, status_of
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.mechanisms.process import Cell, Process, cell_divergence, cell_pure_epsilon
from fastacct.readers.asked import Ask
from fastacct.readers.job import delta_of, exact, owners, per_cell
from fastacct.readers.moments import divergence_bounds
from fastacct.readers.renyi import merged_runs
from fastacct_ext import _kernels

_ABOVE_ONE: Final = 2.0 ** -np.array([52.0, 40.0, 30.0, 23.0, 17.0, 12.0, 9.0])
"""By how much orders exceed 1 that stand for it: the least value counts, which rounding decides."""


def divergences(
    job: Process, orders: Cells, shape: tuple[int, ...], relation: Relation, threads: int, *, only_upper: bool
) -> Bounds:
    """Bounds at the orders; the lower ones are 0 where only upper ones are asked for."""
    owner, ends = owners(job.shape, shape).reshape(shape), (orders == 1.0) | (orders == np.inf)
    read = job if job.sampled(relation) else job.decompose(relation)  # runs as the numbers they are
    bounds = _between(read, np.where(ends, 2.0, orders), shape, relation, threads, only_upper)
    largest = partial(_largest, only_upper=only_upper)
    if ends.any():
        columns = tuple(np.array(column) for column in bounds)  # the kernel's may not be written
        for order, of_cells in ((1.0, _at_one), (np.inf, largest)):
            if (mine := np.broadcast_to(orders == order, shape)).any():
                for column, values in zip(columns, of_cells(job.decompose(relation), relation, threads), strict=True):
                    column[mine] = np.ravel(values)[owner[mine]]
        # divergences increase with the order
        bounds = Bounds(np.maximum(columns[0], np.where(orders == np.inf, bounds.lower, 0.0)), *columns[1:])
    if relation == "add" and (direct := job.decompose(relation)).is_gaussian:  # no divergence is above the largest loss
        upper = np.minimum(bounds.upper, np.ravel(largest(direct, relation, threads).upper)[owner])
        lower = np.minimum(bounds.lower, upper)
        bounds = Bounds(lower, upper, np.where(upper < bounds.upper, status_of(lower, upper), bounds.status))
    if only_upper:
        return bounds._replace(lower=np.zeros(shape))
    if not job.sampled(relation) and not job.tight:
        status = np.maximum(bounds.status, np.where(np.asarray(bounds.upper) > 0.0, Status.LOOSE, Status.TIGHT))
        return Bounds(np.zeros(shape), bounds.upper, status.astype(np.uint8))
    return bounds


def _largest(whole: Process, relation: Relation, threads: int, *, only_upper: bool) -> Bounds:
    """The largest loss of each cell: epsilon at delta 0."""
    return exact(whole, Ask("epsilon", np.zeros(whole.shape), whole.shape, relation, threads, only_upper))


def _at_one(whole: Process, relation: Relation, threads: int) -> Bounds:
    """Kullback-Leibler divergences of all cells (flat arrays)."""
    orders = (1.0 + _ABOVE_ONE).reshape(-1, *(1,) * len(whole.shape))
    above = _between(whole, orders, (_ABOVE_ONE.size, *whole.shape), relation, threads, True)
    ends_of = [divergence_bounds(cell, np.ones(1), relation) for cell in whole.cells()]
    ends = [(0.0, np.inf) if pair is None else (pair[0].item(), pair[1].item()) for pair in ends_of]
    lower, upper = meet(*np.array(ends).reshape(-1, 2).T, np.asarray(above.upper).min(axis=0).ravel())
    lower = np.maximum(lower, 0.0)
    status = np.asarray(above.status).min(axis=0).ravel()
    return Bounds(lower, upper, np.where(upper < np.inf, status_of(lower, upper), status).astype(np.uint8))


def _between(
    job: Process, orders: Cells, shape: tuple[int, ...], relation: Relation, threads: int, only_upper: bool
) -> Bounds:
    """At orders above 1 that are finite.

    The kernel's are of direction remove, the larger one: of a sample's direction add they are bounds from above alone.
    """
    if (sampled := job.sampled(relation)) is None:
        cells = [*job.cells()]
        return per_cell(job.shape, orders, shape, lambda i, own: _of_losses(cells[i], own, relation, only_upper))
    runs = sampled.runs
    if run := sampled.run:
        bounds = _of_run(*run, orders, shape, threads, only_upper)
    else:
        bounds = per_cell(
            job.shape, orders, shape, lambda i, own: _of_runs(merged_runs(runs, i), own, threads, only_upper)
        )
    if only_upper or relation != "add":
        return bounds
    is_drawn = np.zeros(job.shape, dtype=np.bool_)
    for _, rate, count in runs:
        is_drawn |= ((rate > 0.0) & (rate < 1.0) & (count > 0.0)).reshape(job.shape)
    lower = np.where(is_drawn, 0.0, bounds.lower)
    status = np.where(is_drawn & (bounds.upper < np.inf), status_of(lower, bounds.upper), bounds.status)
    return Bounds(lower, bounds.upper, status.astype(np.uint8))


def _of_losses(cell: Cell, orders: Cells, relation: Relation, only_upper: bool) -> Bounds:
    """Divergences of all mechanisms of a cell."""
    upper = np.minimum(cell_divergence(cell, orders, relation, delta_of), cell_pure_epsilon(cell, relation))
    if only_upper:
        return Bounds(np.zeros(upper.shape), upper, np.where(upper < np.inf, Status.LOOSE, Status.NOT_MET))
    both_bounds = divergence_bounds(cell, orders, relation)
    if both_bounds is None:
        raise ValueError(f"rdp_bounds covers jobs whose losses are all known, which {Process(cell)!r} is not; use rdp")
    lower, upper = meet(both_bounds[0], upper)
    lower = np.maximum(lower, 0.0)
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
