"""Between arrays and the compiled kernels: threads, cancelling, and how a kernel runs over all cells."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.bounds import TIGHT_WIDTH, Status
from fastacct.core.inputs import Cells, Codes, check_memory
from fastacct_ext import _kernels

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["in_pieces", "run_kernel", "status_of"]

_CELLS_PER_TASK: Final = 256
_TASKS_PER_THREAD: Final = 16
_LISTEN: Final = 0.1
"""Seconds between two looks at whether Ctrl-C was pressed, or the call given up."""
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_pool_lock = threading.Lock()


def _forget_pool() -> None:
    """A forked child must not use its parent's threads."""
    global _pool, _pool_size, _pool_lock
    _pool, _pool_size, _pool_lock = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def _executor(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _pool_lock:
        if _pool is None or _pool_size < size:
            from concurrent.futures import ThreadPoolExecutor

            _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="fastacct"), size
        return _pool


Work = Callable[[int, int], int]
"""Does range(start, stop), or its beginning where that takes long, and returns the first place not done."""


def in_pieces(total: int, threads: int, work: Work, cells_per_task: int = 1) -> None:
    """Call `work(start, stop)` until all of range(total) is done, on several threads when that is worth it.

    An error or Ctrl-C gives up what has not begun and waits for what has: nothing is written after the call.
    """
    tasks = min(total // cells_per_task, _most_tasks(threads, cells_per_task)) if threads > 1 else 1
    _kernels.begin()
    try:
        if tasks > 1:
            # ever smaller pieces: the threads finish together
            edges = sorted({total - total * (tasks - i) ** 2 // tasks**2 for i in range(tasks + 1)})
            _in_threads(_executor(threads), edges, work)
            return
        done = 0
        while done < total:
            done = work(done, total)
    finally:
        _kernels.end()


def _most_tasks(threads: int, cells_per_task: int) -> int:
    """Few cells a task: their costs differ widely."""
    return _TASKS_PER_THREAD * max(1, 64 // cells_per_task) * threads


def _in_threads(pool: ThreadPoolExecutor, edges: list[int], work: Work) -> None:
    given_up = False

    def task(start: int, stop: int) -> None:
        while start < stop and not given_up:
            start = work(start, stop)

    futures: list[Future[None]] = []
    try:
        futures += [pool.submit(task, start, stop) for start, stop in itertools.pairwise(edges)]
        _wait(futures, TimeoutError)
        for future in futures:
            if future.done():
                future.result()
    finally:
        given_up = True
        running = [future for future in futures if not future.cancel()]
        _wait(running, TimeoutError, KeyboardInterrupt)


def _wait(futures: list[Future[None]], *ignored: type[BaseException]) -> None:
    """Until all are done, or one has failed; where even Ctrl-C is ignored, until all are done."""
    for future in futures:
        while not future.done():
            with contextlib.suppress(*ignored):  # a wait without an end does not hear Ctrl-C everywhere
                future.exception(timeout=_LISTEN)
        if KeyboardInterrupt not in ignored and future.exception():
            return


def run_kernel(
    op: int,
    inputs: tuple[Cells, ...],
    shape: tuple[int, ...],
    n_outputs: int,
    threads: int,
    *,
    option: int = 0,
    conversion: int = 0,
    orders: Cells | None = None,
    cells_per_task: int = _CELLS_PER_TASK,
) -> tuple[list[Cells], Codes]:
    """Run one kernel over all cells of `shape`, on several threads for many cells; outputs have that shape.

    Cells are independent, so that neither `threads` nor the cutting changes a bit of the result.
    """
    total = math.prod(shape)
    check_memory(shape, n_outputs)
    flat = [np.empty(total) for _ in range(n_outputs)]
    status = np.zeros(total, dtype=np.uint8)
    out0, out1, out2 = ([*flat, None, None])[:3]

    def work(start: int, stop: int) -> int:
        return _kernels.apply(
            op, inputs, shape, start, stop, out0, out1, out2, status, option, conversion, orders, _LISTEN
        )

    in_pieces(total, threads, work, cells_per_task)
    return [out.reshape(shape) for out in flat], status.reshape(shape)


def status_of(lower: Cells, upper: Cells) -> Codes:
    """Codes of intervals of epsilon or delta: the width decides, relative to the upper bound, and nothing else."""
    with np.errstate(invalid="ignore"):
        tight = upper - lower <= TIGHT_WIDTH * upper
    return np.where(upper == np.inf, Status.NOT_MET, np.where(tight, Status.TIGHT, Status.LOOSE)).astype(np.uint8)
