"""Evaluate the chunks of a sweep, here or on a cluster, and say how far it is.

Chunks are taken in a scattered order, so that the first tenth of them is a fair sample of the work, and several cheap
ones make one task.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import one_thread
from fastacct.core.progress import Bar
from fastacct.sweep.cost import chunk_costs, chunks_of
from fastacct.sweep.grid import Grid, Values, chunk_at, chunk_count

__all__ = ["evaluate_chunks", "in_memory"]

Consume = Callable[[int, Values], None]
TASK_SECONDS: Final = 0.5
"""What a task takes at least, by the cost model, if there are enough cells."""


def tasks(costs: NDArray[np.float64], todo: Sequence[int]) -> list[list[int]]:
    """Chunks in a scattered order, cheap ones together; the last ones by falling cost: workers finish together."""
    order = np.random.default_rng(0).permutation(np.asarray(todo, dtype=np.int64))
    groups: list[list[int]] = []
    spent = math.inf
    for index in order.tolist():
        if spent >= TASK_SECONDS:
            groups.append([])
            spent = 0.0
        groups[-1].append(index)
        spent += float(costs[index])
    last = len(groups) * 3 // 4
    return groups[:last] + sorted(groups[last:], key=lambda group: -float(costs[group].sum()))


def evaluate_chunks(
    plan: Grid, chunks: Sequence[int], todo: Sequence[int], consume: Consume, progress: bool, remote: Any = None
) -> None:
    """Evaluate chunks and hand each to `consume`; with a client, its workers consume those that `remote` takes."""
    costs = chunk_costs(plan, chunks)
    done = float(costs.sum() - costs[list(todo)].sum())
    bar = Bar(float(costs.sum()), done, f" of {plan.size:,} cells", progress)
    if plan.client is None:
        for group in tasks(costs, todo):
            for index in group:
                consume(index, plan.evaluate(chunk_at(plan.shape, chunks, index)))
                bar.advance(float(costs[index]))
        return
    from distributed import KilledWorker, as_completed

    completed: Any = as_completed
    alone = dataclasses.replace(plan, client=None)
    futures = {
        plan.client.submit(_on_worker, alone, tuple(chunks), group, remote, pure=False): group
        for group in tasks(costs, todo)
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
