"""Rényi divergences of a whole job: by the compiled kernel where it is of sampled Gaussians, else by cells."""

from __future__ import annotations

import numpy as np

from fastacct.core.bounds import Bounds, Status
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.mechanisms.process import Process, cell_divergence, merge
from fastacct.readers.job import delta_of, owners
from fastacct_ext import _kernels

__all__ = ["divergences"]


def divergences(
    job: Process, orders: Cells, shape: tuple[int, ...], relation: Relation, threads: int, *, only_upper: bool
) -> Bounds:
    """Bounds at the orders; the lower ones are 0 where only upper ones are asked for."""
    whole = job.decompose(relation)
    runs = [(mechanism.sampled_gaussian(relation), count) for mechanism, count in whole]
    if len(runs) == 1 and runs[0][0] is not None:
        one = runs[0][0]
        return _of_run(one.noise, one.rate, np.asarray(runs[0][1], np.float64), orders, shape, threads, only_upper)
    lower, upper, status = np.zeros(shape), np.empty(shape), np.empty(shape, dtype=np.uint8)
    owner, at = owners(whole.shape, shape).reshape(shape), np.broadcast_to(orders, shape)
    columns = None if any(one is None for one, _ in runs) else whole.runs(relation)
    if columns is None and not only_upper:
        raise ValueError(f"rdp_bounds covers Gaussians and their Poisson samples, not {whole!r}; use rdp")
    for index, cell in enumerate(whole.cells()):
        mine = owner == index
        asked = np.ascontiguousarray(at[mine])
        if columns is None:
            upper[mine] = cell_divergence(cell, asked, relation, delta_of)
            status[mine] = np.where(upper[mine] < np.inf, Status.LOOSE, Status.NOT_MET)
        else:
            rows = merge(((float(s[index]), float(q[index])), float(n[index])) for s, q, n in columns if n[index] > 0.0)
            lower[mine], upper[mine], status[mine] = _of_blocks(rows, asked, threads, only_upper)
    return Bounds(lower, upper, status)


def _of_run(
    sigma: Cells, q: Cells, steps: Cells, orders: Cells, shape: tuple[int, ...], threads: int, only_upper: bool
) -> Bounds:
    inputs = (sigma, q, orders, steps)
    if only_upper:
        (upper,), status = run_kernel(_kernels.Op.RDP_UPPER, inputs, shape, 1, threads)
        return Bounds(np.zeros(shape), upper, status)
    (lower, upper), status = run_kernel(_kernels.Op.RDP, inputs, shape, 2, threads)
    return Bounds(lower, upper, status)


def _of_blocks(rows: dict[tuple[float, float], float], orders: Cells, threads: int, only_upper: bool) -> Bounds:
    """Divergences of different sampled Gaussians add up."""
    blocks = [(*key, count) for key, count in sorted(rows.items())] or [(1.0, 0.0, 0.0)]
    sigma, q, steps = (np.array(column)[:, np.newaxis] for column in zip(*blocks, strict=True))
    shape = (len(blocks), orders.size)
    lower, upper, status = _of_run(sigma, q, steps, orders, shape, threads, only_upper)
    padding = (len(blocks) + 1) * 2.0**-53
    if len(blocks) > 1:
        lower, upper = lower.sum(axis=0) * (1.0 - padding), upper.sum(axis=0) * (1.0 + padding)
        status = np.where(upper < np.inf, status.max(axis=0), Status.NOT_MET).astype(np.uint8)
    return Bounds(lower.reshape(-1), upper.reshape(-1), status.reshape(-1))
