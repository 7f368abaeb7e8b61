"""A job as runs of DP-SGD, for the accountants that know nothing else: rows of (noise, sample rate, steps)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fastacct._arrays import Cells, Codes, run_kernel
from fastacct.accountants import Method, Question
from fastacct.bounds import Bounds, Status
from fastacct.mechanisms import Gaussian, Grouped, Mechanism, PoissonSampled
from fastacct.process import Process, merge
from fastacct_ext import _kernels

__all__ = ["accountant_bounds", "renyi_bounds"]

Row = tuple[float, float, float]
"""Noise multiplier, sample rate, steps."""
_NOTHING: tuple[Row, ...] = ((1.0, 0.0, 0.0),)


def _columns(process: Process, doubled: bool, reader: str) -> list[tuple[Cells, Cells, Cells]]:
    return [(*_row(mechanism, doubled, reader), np.asarray(count, dtype=np.float64)) for mechanism, count in process]


def _row(mechanism: Mechanism, doubled: bool, reader: str) -> tuple[Cells, Cells]:
    """Noise and rate; `doubled`: the sum moves twice as far, for a reader that does not know replace-one."""
    size = mechanism.size if isinstance(mechanism, Grouped) else 1
    inner = mechanism.mechanism if isinstance(mechanism, Grouped) else mechanism
    if isinstance(inner, PoissonSampled) and size == 1:
        if doubled:
            raise ValueError(
                f"{reader} does not cover {mechanism!r} under neighbors = 'replace_one': its dominating pair is "
                "another one; use fastacct.Exact()"
            )
        return np.asarray(inner.mechanism.noise_multiplier), np.asarray(inner.sample_rate)
    if not isinstance(inner, Gaussian):
        raise ValueError(
            f"{reader} covers Gaussians and their Poisson samples, not {mechanism!r}; use fastacct.Exact()"
        )
    sensitivity = size * (2.0 if doubled else 1.0)
    noise = np.asarray(inner.noise_multiplier) / sensitivity
    # rounded towards less noise, unless the division was exact
    return noise if sensitivity in (1.0, 2.0) else np.asarray(np.nextafter(noise, 0.0)), np.asarray(1.0)


def _cells(process: Process, columns: list[tuple[Cells, Cells, Cells]]) -> Iterator[tuple[Row, ...]]:
    """The rows of each cell of the job, equal ones merged, in an order of their own."""
    shape = process.shape
    flat = [tuple(np.broadcast_to(x, shape).ravel() for x in column) for column in columns]
    for cell in range(int(np.prod(shape))):
        rows = merge(((float(s[cell]), float(q[cell])), float(n[cell])) for s, q, n in flat if n[cell] > 0.0)
        yield tuple((*key, count) for key, count in sorted(rows.items())) or _NOTHING


def _by_cell(
    process: Process,
    columns: list[tuple[Cells, Cells, Cells]],
    target: Cells,
    shape: tuple[int, ...],
    read: Callable[[tuple[Row, ...], Cells], Bounds],
) -> tuple[Cells, Cells, Codes]:
    """Call `read` with the rows and the flat targets of every cell of the job."""
    lower, upper, status = np.empty(shape), np.empty(shape), np.empty(shape, dtype=np.uint8)
    owner = np.broadcast_to(np.arange(int(np.prod(process.shape))).reshape(process.shape), shape)
    targets = np.broadcast_to(target, shape)
    for cell, rows in enumerate(_cells(process, columns)):
        mine = owner == cell
        lower[mine], upper[mine], status[mine] = read(rows, np.ascontiguousarray(targets[mine]))
    return lower, upper, status


def accountant_bounds(
    accountant: Method,
    process: Process,
    wanted: str,
    target: Cells,
    shape: tuple[int, ...],
    neighbors: str,
    threads: int,
    *,
    only_upper: bool,
) -> Bounds:
    """Epsilon or delta by an accountant of DP-SGD; the lower bound is 0 when only the upper one is asked for."""
    reader = f"accountant {type(accountant).__name__}"
    doubled = neighbors == "replace_one" and neighbors not in accountant.relations
    columns = _columns(process, doubled, reader)
    relation = "add_remove" if doubled else neighbors  # plain Gaussians only, and both directions are one
    if relation not in accountant.relations:
        raise ValueError(f"{reader} does not cover neighbors = {neighbors!r}; use fastacct.Exact()")

    def ask(cells: tuple[Cells, Cells, Cells, Cells], asked: tuple[int, ...], history: bool) -> Bounds:
        question = Question(wanted, cells, asked, relation, threads, history)
        if not only_upper:
            return accountant.bounds(question)
        answer = accountant.read(question)
        return Bounds(np.zeros(asked), answer.values, answer.status)

    def read(rows: tuple[Row, ...], targets: Cells) -> Bounds:
        sigma, q, steps = (np.array(column) for column in zip(*rows, strict=True))
        return ask((sigma, q, steps, targets), targets.shape, len(rows) > 1)

    if len(columns) == 1:
        return ask((*columns[0], target), shape, False)
    return Bounds(*_by_cell(process, columns, target, shape, read))


def renyi_bounds(
    process: Process, orders: Cells, shape: tuple[int, ...], neighbors: str, threads: int, *, only_upper: bool
) -> Bounds:
    """Rényi divergence, the larger of both directions; the lower bound is 0 when only the upper one is asked for."""
    columns = _columns(process, neighbors == "replace_one", "rdp")

    def one(sigma: Cells, q: Cells, steps: Cells, at: Cells, asked: tuple[int, ...]) -> Bounds:
        inputs = (sigma, q, at, steps)
        if only_upper:
            (upper,), status = run_kernel(_kernels.Op.RDP_UPPER, inputs, asked, 1, threads)
            return Bounds(np.zeros(asked), upper, status)
        (lower, upper), status = run_kernel(_kernels.Op.RDP, inputs, asked, 2, threads)
        return Bounds(lower, upper, status)

    def read(rows: tuple[Row, ...], at: Cells) -> Bounds:
        if len(rows) == 1:
            sigma, q, steps = (np.array(x) for x in rows[0])
            return one(sigma, q, steps, at, at.shape)
        sigma, q, steps = (np.array(column)[:, np.newaxis] for column in zip(*rows, strict=True))
        lower, upper, status = one(sigma, q, steps, at, (len(rows), at.size))
        padding = (len(rows) + 1) * 2.0**-53
        return Bounds(lower.sum(axis=0) * (1.0 - padding), upper.sum(axis=0) * (1.0 + padding), status.max(axis=0))

    if len(columns) == 1:
        return one(*columns[0], orders, shape)
    lower, upper, status = _by_cell(process, columns, orders, shape, read)
    return Bounds(lower, upper, np.where(upper < np.inf, status, Status.NOT_MET).astype(np.uint8))
