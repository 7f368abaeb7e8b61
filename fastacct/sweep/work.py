"""Evaluate the chunks of a sweep, here or on a cluster, and say how far it is.

Chunks are taken in a scattered order, so that the first tenth of them is a fair sample of the work, and several cheap
ones make one task.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import one_thread
from fastacct.sweep.cost import chunk_costs, chunks_of
from fastacct.sweep.grid import Grid, Values, chunk_at, chunk_count

__all__ = ["Bar", "evaluate_chunks", "in_memory"]

Consume = Callable[[int, Values], None]
TASK_SECONDS: Final = 0.5
"""What a task takes at least, by the cost model, if there are enough cells."""
_SHOWN: Final = 0.1


class Bar:
    """Share of the work done and the time left, on stderr."""

    def __init__(self, total: float, done: float, cells: int, shown: bool) -> None:
        self.total, self.before, self.done, self.cells, self.shown = total, done, done, cells, shown
        self.start = self.last = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds left, by the speed so far."""
        spent = time.monotonic() - self.start
        return spent * (self.total - self.done) / max(self.done - self.before, 1e-300)

    def advance(self, cost: float) -> None:
        """Count a chunk."""
        self.done += cost
        now, is_end = time.monotonic(), self.done >= self.total * (1.0 - 1e-12)
        if self.shown and (is_end or now - self.last > _SHOWN):
            self.last = now
            share = 100.0 if is_end else min(100.0 * self.done / self.total, 99.9)
            line = f"{share:5.1f} % of {self.cells:,} cells, {0.0 if is_end else self.left:,.0f} s left"
            print(f"\r{line:60}", end="\n" if is_end else "", file=sys.stderr, flush=True)


def tasks(costs: NDArray[np.float64], todo: Sequence[int]) -> Iterator[list[int]]:
    """Chunks in a scattered order, cheap ones together."""
    order = np.random.default_rng(0).permutation(np.asarray(todo, dtype=np.int64))
    group: list[int] = []
    spent = 0.0
    for index in order.tolist():
        group.append(index)
        spent += float(costs[index])
        if spent >= TASK_SECONDS:
            yield group
            group, spent = [], 0.0
    if group:
        yield group


def evaluate_chunks(
    plan: Grid, chunks: Sequence[int], todo: Sequence[int], consume: Consume, progress: bool, remote: Any = None
) -> None:
    """Evaluate chunks and hand each to `consume`; with a client, its workers consume those that `remote` takes."""
    costs = chunk_costs(plan, chunks)
    bar = Bar(float(costs.sum()), float(costs.sum() - costs[list(todo)].sum()), plan.size, progress)
    if plan.client is None:
        for group in tasks(costs, todo):
            for index in group:
                consume(index, plan.evaluate(chunk_at(plan.shape, chunks, index)))
                bar.advance(float(costs[index]))
        return
    from distributed import KilledWorker, as_completed

    completed: Any = as_completed
    alone = dataclasses.replace(plan, client=None)
    groups = [*tasks(costs, todo)]
    futures = {
        plan.client.submit(_on_worker, alone, tuple(chunks), group, remote, pure=False): group for group in groups
    }
    try:
        for future in completed(futures):
            for index, values in zip(futures[future], future.result(), strict=True):
                if values is not None:
                    consume(index, values)
                bar.advance(float(costs[index]))
            future.release()
    except KilledWorker as error:
        raise ConnectionError(f"workers of the cluster died again and again: {error}") from error
    finally:
        plan.client.cancel([*futures])


def _on_worker(plan: Grid, chunks: Sequence[int], group: Sequence[int], remote: Any) -> list[Values | None]:
    """A task: values to send back, or nothing where the worker writes them itself."""
    found: list[Values | None] = []
    with one_thread():
        for index in group:
            values = plan.evaluate(chunk_at(plan.shape, chunks, index), plan.threads or 1)
            found.append(None if remote is not None and remote(index, values) else values)
    return found


def in_memory(plan: Grid, progress: bool) -> dict[str, NDArray[Any]]:
    """All variables as arrays."""
    types = {name: np.uint8 if name == "status" else np.float64 for name in plan.variables}
    arrays = {name: np.empty(plan.shape, dtype=kind) for name, kind in types.items()}
    chunks = chunks_of(plan)

    def consume(index: int, values: Values) -> None:
        where = chunk_at(plan.shape, chunks, index)
        for whole, part in zip(arrays.values(), values, strict=True):
            whole[where] = part

    evaluate_chunks(plan, chunks, range(chunk_count(plan.shape, chunks)), consume, progress)
    return arrays
