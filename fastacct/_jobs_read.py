"""A job by the best certified means there are: the exact kernels where all mechanisms are Gaussian, else losses on a
grid, else divergences.
"""

from __future__ import annotations

import math

import numpy as np

from fastacct._arrays import Cells
from fastacct._jobs_any import read_any
from fastacct._jobs_exact import DELTA, EPSILON, LOG_DELTA, Job
from fastacct._jobs_renyi import ORDERS, RenyiJob
from fastacct._jobs_table import check_relation, expanded, is_gaussian, tables
from fastacct._renyi_forms import divergence
from fastacct.bounds import Bounds
from fastacct.parallel import Parallel
from fastacct.process import Process
from fastacct.selection import RepeatedSelection

__all__ = ["cells_of", "gaussian_job", "is_exact_curve", "read_exact"]

_WHAT = {"epsilon": EPSILON, "delta": DELTA, "log_delta": LOG_DELTA}


def cells_of(job: Job, shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Which cell of the job each cell of the answer asks, flat."""
    if not job.shape:
        return np.zeros(int(np.prod(shape)), dtype=np.intp)
    size = int(np.prod(job.shape))
    return np.ascontiguousarray(np.broadcast_to(np.arange(size).reshape(job.shape), shape)).ravel()


def is_exact_curve(process: Process, neighbors: str) -> bool:
    """Whether the kernels of Gaussian mixtures read all of it, and exactly."""
    return all(mechanism.exact for mechanism, _ in process) and is_gaussian(expanded(process, neighbors))


def gaussian_job(process: Process, neighbors: str, what: str) -> Job:
    """The job that the exact kernels read, for readouts that need all of its curve."""
    whole = expanded(process, neighbors)
    for mechanism, _ in process:
        if not mechanism.exact or not is_gaussian(expanded(Process({mechanism: 1}), neighbors)):
            raise ValueError(
                f"{what} covers Gaussians, their Poisson samples and mixtures, and what is made of them exactly, "
                f"not {mechanism!r}"
            )
    return Job(whole, neighbors)


def read_exact(
    process: Process,
    quantity: str,
    target: Cells,
    shape: tuple[int, ...],
    neighbors: str,
    threads: int,
    *,
    only_upper: bool,
) -> Bounds:
    """Certified bounds of epsilon, delta or log delta."""
    alone = _alone(process, neighbors)
    if alone is not None:
        each = [
            read_exact(job, quantity, target, shape, neighbors, threads, only_upper=only_upper) for job in alone.jobs
        ]
        return Bounds(*(np.maximum.reduce([bounds[i] for bounds in each]) for i in range(3)))
    if not all(mechanism.exact for mechanism, _ in process):
        # of a bound nothing is known from below
        upper, status = _read(expanded(process, neighbors), quantity, target, shape, neighbors, threads, True)[1:]
        nothing = np.full(shape, -np.inf if quantity == "log_delta" else 0.0)
        return Bounds(nothing, upper, status)
    return _read(expanded(process, neighbors), quantity, target, shape, neighbors, threads, only_upper)


def _alone(process: Process, neighbors: str) -> Parallel | None:
    """Parallel jobs that are composed with nothing: their curves are compared."""
    entries = list(process)
    if len(entries) == 1 and isinstance(entries[0][0], Parallel) and np.ndim(entries[0][1]) == 0 and entries[0][1] == 1:
        check_relation(entries[0][0], neighbors)
        return entries[0][0] if entries[0][0].parts(neighbors) is None else None
    return None


def _read(
    process: Process,
    quantity: str,
    target: Cells,
    shape: tuple[int, ...],
    neighbors: str,
    threads: int,
    only_upper: bool,
) -> Bounds:
    if not is_gaussian(process):
        return read_any(process, quantity, target, shape, neighbors, threads, only_upper=only_upper)
    job = Job(process, neighbors)
    flat = np.ascontiguousarray(np.broadcast_to(target, shape)).ravel()
    lower, upper, _, status = job.read(
        cells_of(job, shape), flat, _WHAT[quantity], job.directions, threads, only_upper=only_upper
    )
    return Bounds(lower.reshape(shape), upper.reshape(shape), status.reshape(shape))


@divergence.register(Parallel)
def _parallel(mechanism: Parallel, cell: dict[str, float], neighbors: str, orders: Cells) -> Cells:
    each = [next(tables(expanded(job, neighbors), neighbors)) for job in mechanism.jobs]
    return np.asarray(np.maximum.reduce([RenyiJob(table, neighbors).divergence(orders) for table in each]))


@divergence.register(RepeatedSelection)
def _repeated(mechanism: RepeatedSelection, cell: dict[str, float], neighbors: str, orders: Cells) -> Cells:
    """Papernot and Steinke 2022, theorems 2 and 6; a divergence is also bounded by one of larger order.

    Both theorems rest on both directions of the base, whichever one is asked for.
    """
    neighbors = "add_remove" if neighbors in ("add", "remove") else neighbors
    base = RenyiJob(next(tables(expanded(mechanism.base, neighbors), neighbors)), neighbors)
    grid = np.unique(np.concatenate([orders.ravel(), ORDERS[ORDERS < 1e5]]))
    value, a, mean = base.divergence(grid), grid - 1.0, mechanism.mean
    if mechanism.eta is None:
        target = np.log1p(1.0 / a)
        delta = read_exact(mechanism.base, "delta", target, target.shape, neighbors, 1, only_upper=True).upper
        found = value + mean * delta + math.log(mean) / a
    else:
        eta = mechanism.eta
        gamma = _share(eta, mean)
        more = float(np.min((1.0 - 1.0 / grid) * value - math.log(gamma) / grid))
        found = value + (1.0 + eta) * more + math.log(mean) / a
    found = np.minimum.accumulate((found * (1.0 + 1e-12) + 1e-15)[::-1])[::-1]
    return np.asarray(found[np.searchsorted(grid, orders)])


def _share(eta: float, mean: float) -> float:
    """Parameter gamma of the truncated negative binomial law with this mean, rounded down (towards more runs)."""

    def runs(gamma: float) -> float:
        if eta == 0.0:
            return (1.0 / gamma - 1.0) / -math.log(gamma)
        return eta * (1.0 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))

    low, high = -700.0, -1e-12  # log gamma
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if runs(math.exp(middle)) >= mean else (low, middle)
    return math.exp(low)
