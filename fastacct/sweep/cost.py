"""What a sweep takes, by a cost model of cells scaled by some that are timed, and its evaluation, here or on a cluster.

Chunks are taken in a scattered order, so that the first tenth of them is a fair sample of the work, and several cheap
ones make one task.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.extras import Foreign
from fastacct.core.inputs import Cells, one_thread
from fastacct.core.progress import Bar
from fastacct.core.record import Record
from fastacct.sweep.grid import TARGETS, Grid, Values, chunk_at, chunk_count, chunk_shape

Consume = Callable[[int, Any], None]
"""Takes the values of a chunk, or what a worker has made of them."""
Remote = Callable[[int, Values], object]
TASK_SECONDS: Final = 0.5
"""What a task takes at least, by the cost model, if there are enough cells."""
CHUNK_SECONDS: Final = 2.0
SHORTEST: Final = 0.1
"""Seconds of a chunk, on one thread: of a long sweep, and of one that is cut finer so that its bar moves."""
FEWEST_CHUNKS: Final = 64
FEWEST_CELLS: Final = 1 << 8
MOST_CELLS: Final = 1 << 22
MOST_CHUNKS: Final = 1 << 20
"""Of a grid that nobody can compute, whose estimate says so."""
LONG, LARGE = 3600.0, 2.0**30
SAMPLES: Final = 16
SAMPLE_SECONDS: Final = 0.03
LONGEST: Final = 3.0
"""Seconds after which no further chunk is sampled."""
MODEL: Final[dict[str, tuple[float, ...]]] = {
    "epsilon Exact": (-9.281, -1.274, -0.1717, -0.2356, 0.308, 0.03313, 0.06568, -0.0008505, 0.00139, 0.005284),
    "delta Exact": (-9.445, 0.7704, -0.7521, -0.3728, -0.3786, -0.1817, -0.03515, -0.03919, -0.01664, 0.01047),
    "epsilon RDP": (-12.28, -0.03226, 0.03407, -0.001438, 0.02513, -0.01034, -0.006595, 0.003317, 0.001125, 0.0004884),
    "rdp RDP": (-12.14, -0.06058, 0.01628, -0.004334, 0.007026, -0.0003742, 0.0009552, 0.001721, 0.000615, 0.0004773),
    "noise_multiplier Exact": (-9.098, 0.0, -0.2922, -0.221, 0.0, 0.0, 0.0, 0.0005388, 0.0002907, 0.003324),
    "sample_rate Exact": (-0.01641, -0.05097, 0.0755, -0.01593, 0.4647, 0.2345, -0.02711, -0.3473, 0.07328, 0.02081),
    "steps Exact": (-0.003652, -0.02537, 0.00396, -0.02523, 0.2687, -0.04911, -0.1752, 0.01605, 0.02735, -0.1743),
}
"""Coefficients of log(seconds of a cell) by `bench/sweep_cost.py`, one row per quantity and accountant: of 1, then of
log noise multiplier, log(-log(1 - sample rate)) and log steps, their squares and products, on one thread."""
_OTHER: Final = (math.log(2e-5),) + (0.0,) * 9
_TYPICAL: Final = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000.0}


class Estimate(Record):
    """What a sweep is predicted to take: cells, bytes of the result, seconds, bytes of memory while it runs, chunks."""

    cells: int
    bytes: int
    seconds: float
    memory: int
    chunks: int

    @property
    def warning(self) -> str | None:
        """What to think about before it is started: more than an hour, or more than a gigabyte."""
        long = f"{self.seconds / 3600.0:,.1f} hours" if self.seconds > LONG else ""
        large = f"{self.bytes / 2**30:,.1f} GiB" if self.bytes > LARGE else ""
        return f"this takes {' and '.join(filter(None, (long, large)))}" if long or large else None

    def __str__(self) -> str:
        seconds = f"{self.seconds:,.2g} s" if self.seconds < 10.0 else f"{self.seconds:,.0f} s"
        seconds = seconds if self.seconds < 600.0 else f"{self.seconds / 3600.0:,.1f} h"
        sizes = f"{self.bytes / 1e6:,.1f} MB, {self.memory / 1e6:,.0f} MB of memory"
        return f"{self.cells:,} cells, about {seconds}, {sizes}, {self.chunks:,} chunks"


def _key(plan: Grid) -> str:
    return f"{plan.quantity} {type(plan.accountant).__name__}"


def cell_features(run: Mapping[str, Cells]) -> list[float | Cells]:
    """What the logarithm of a cell's cost is linear in; what is sought has a typical value."""
    noise, rate, steps = (run.get(name, typical) for name, typical in _TYPICAL.items())
    log_rest = np.log1p(-np.clip(rate, 1e-5, 0.5))
    axes = np.log(np.clip(noise, 0.4, 16.0)), np.log(-log_rest), np.log(np.clip(steps, 10.0, 1e5))
    return [1.0, *axes, *(a * b for i, a in enumerate(axes) for b in axes[i:])]


def cell_costs(key: str, run: Mapping[str, Cells]) -> NDArray[np.float64]:
    """Seconds of a cell by the model, on one thread of the machine where it was fitted."""
    logs = sum(c * x for c, x in zip(MODEL.get(key, _OTHER), cell_features(run), strict=True))
    return np.asarray(np.exp(np.clip(logs, -20.0, 5.0)))


def _costs_at(plan: Grid, axes: dict[str, NDArray[np.generic]]) -> NDArray[np.float64]:
    """Seconds of the cells on the outer grid of some values of each axis."""
    run: Any = {n: a for n, a in zip(axes, np.ix_(*axes.values()), strict=True) if n not in TARGETS}
    known = {name: value for name, value in run.items() if name in _TYPICAL}
    if "batch_size" in run:
        known["sample_rate"] = run["batch_size"] / run["records"]
    if "epochs" in run:
        known["steps"] = run["epochs"] / np.maximum(known.get("sample_rate", _TYPICAL["sample_rate"]), 1e-12)
    costs = cell_costs(_key(plan), known)
    return np.broadcast_to(costs, tuple(map(len, axes.values())))


def chunks_of(plan: Grid) -> tuple[int, ...]:
    """The shape of the chunks: of a mean cost by the model that is worth writing, and not too few."""
    places = {name: np.unique(np.linspace(0, len(axis) - 1, 6).round().astype(int)) for name, axis in plan.axes.items()}
    mean = float(_costs_at(plan, {name: plan.axes[name][few] for name, few in places.items()}).mean())
    cells = min(max(CHUNK_SECONDS / mean, FEWEST_CELLS), MOST_CELLS)
    if plan.size < FEWEST_CHUNKS * cells:
        cells = min(max(plan.size / FEWEST_CHUNKS, SHORTEST / mean, FEWEST_CELLS), MOST_CELLS)
    return chunk_shape(plan.shape, int(max(cells, plan.size / MOST_CHUNKS)))


def chunk_costs(plan: Grid, chunks: Sequence[int]) -> NDArray[np.float64]:
    """Seconds of each chunk by the model, in C order: its cells times the cost at its middle."""
    middles, lengths = {}, []
    for (name, axis), part in zip(plan.axes.items(), chunks, strict=True):
        starts = np.arange(0, len(axis), part)
        stops = np.minimum(starts + part, len(axis))
        middles[name] = axis[(starts + stops - 1) // 2]
        lengths.append((stops - starts).astype(np.float64))
    return np.ravel(_costs_at(plan, middles) * math.prod(np.ix_(*lengths)))


def estimate(plan: Grid) -> Estimate:
    """See `Sweep.estimate`."""
    chunks = chunks_of(plan)
    costs = chunk_costs(plan, chunks)
    rng, began = np.random.default_rng(1), time.perf_counter()
    predicted = spent = 0.0
    picked = np.unique(
        np.searchsorted(np.cumsum(costs), (np.arange(SAMPLES) + rng.random(SAMPLES)) / SAMPLES * costs.sum())
    )
    for index in rng.permutation(np.minimum(picked, costs.size - 1)).tolist():
        chunk = chunk_at(plan.shape, chunks, index)
        took, part, whole = 0.0, 0, math.prod(s.stop - s.start for s in chunk)
        cells = 1  # some accountants take a second a cell
        while took < SAMPLE_SECONDS and part < whole:
            inner = _part(chunk, cells)
            part = math.prod(s.stop - s.start for s in inner)
            start = time.perf_counter()
            plan.evaluate(inner)
            took = time.perf_counter() - start
            cells = min(whole, max(2 * cells, int(part * min(1.5 * SAMPLE_SECONDS / max(took, 1e-6), 64.0))))
        spent += took * whole / part
        predicted += costs[index]
        if time.perf_counter() - began > LONGEST:
            break
    seconds = float(costs.sum()) * spent / predicted
    n_bytes = plan.size * sum(1 if name == "status" else 8 for name in plan.variables)
    memory = 100 * math.prod(chunks) + (1 << 27)
    return Estimate(plan.size, n_bytes, seconds, memory, costs.size)


def _part(chunk: tuple[slice, ...], cells: int) -> tuple[slice, ...]:
    """A box of at most so many cells in the middle of a chunk, whole along the last axes."""
    lengths = chunk_shape([one.stop - one.start for one in chunk], cells)
    starts = [(one.start + one.stop - length) // 2 for one, length in zip(chunk, lengths, strict=True)]
    return tuple(slice(start, start + length) for start, length in zip(starts, lengths, strict=True))


# -- the evaluation ----------------------------------------------------------------------------------------------------


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
    plan: Grid,
    chunks: Sequence[int],
    todo: Sequence[int],
    consume: Consume,
    progress: bool,
    remote: Remote | None = None,
) -> None:
    """Evaluate chunks and hand each to `consume`; with a client, what `remote` makes of it on a worker, if anything."""
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

    completed: Foreign = as_completed
    alone = dataclasses.replace(plan, client=None)
    futures = {
        plan.client.submit(_on_worker, alone, tuple(chunks), group, remote, pure=False): group
        for group in tasks(costs, todo)
    }
    try:
        for future in completed(futures):
            for index, values in zip(futures[future], future.result(), strict=True):
                consume(index, values)
                bar.advance(float(costs[index]))
            future.release()
    except KilledWorker as error:
        raise ConnectionError(f"workers of the cluster died again and again: {error}") from error
    finally:
        plan.client.cancel([*futures])


def _on_worker(plan: Grid, chunks: Sequence[int], group: Sequence[int], remote: Remote | None) -> list[object]:
    """A task: values to send back, or what the worker itself made of them."""
    found: list[object] = []
    with one_thread():
        for index in group:
            values = plan.evaluate(chunk_at(plan.shape, chunks, index), plan.threads or 1)
            made = None if remote is None else remote(index, values)
            found.append(values if made is None else made)
    return found


def in_memory(plan: Grid, progress: bool) -> dict[str, NDArray[np.generic]]:
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
