"""Between arrays and the compiled kernels: threads, cancelling, and how a kernel runs over all cells."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from fastacct.core.inputs import Cells, Codes, check_memory
from fastacct_ext import _kernels

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_LISTEN: Final = 0.1
"""Seconds between two looks at whether Ctrl-C was pressed, or the call given up."""
AT_ONCE: Final = 64
"""Cells of a call that takes long for each: Ctrl-C is heard after so many."""


class Watcher(Protocol):
    """Who is told how far a call is."""

    def advance(self, cost: float) -> None:
        """Count work that is done."""


WATCHED: Final[ContextVar[Callable[[int], Watcher] | None]] = ContextVar("calls are watched", default=None)
"""Who watches calls of this thread, from their number of cells; not the calls inside of these."""


_HERE: Final = threading.local()
"""Of a worker: whether its call is given up, which kernels ask that take long."""
_kernels.listen(lambda: getattr(_HERE, "is_given_up", bool)())


@lru_cache(maxsize=1)
def _executor(threads: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads, thread_name_prefix="fastacct")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executor.cache_clear)  # a forked child must not use its parent's threads

Work = Callable[[int, int], int]
"""Does range(start, stop), or its beginning where that takes long, and returns the first place not done."""


def in_pieces(total: int, threads: int, work: Work, cells_per_task: int = 1) -> None:
    """Call `work(start, stop)` until all of range(total) is done, on several threads when that is worth it.

    An error or Ctrl-C gives up what has not begun and waits for what has: nothing is written after the call.
    """
    most = 16 * max(1, 64 // cells_per_task) * threads  # few cells a task: their costs differ widely
    tasks = min(total // cells_per_task, most) if threads > 1 else 1
    watch = WATCHED.get()
    watcher, before = watch(total) if watch else None, WATCHED.set(None)
    _kernels.begin()
    try:
        if tasks > 1:
            # ever smaller pieces, or one each: the threads finish together
            edges = sorted({total - total * (tasks - i) ** 2 // tasks**2 for i in range(tasks + 1)})
            edges = list(range(total + 1)) if tasks == total else edges
            _in_threads(_executor(threads), edges, work, watcher)
            return
        done = 0
        while done < total:
            start, done = done, work(done, total)
            if watcher:
                watcher.advance(done - start)
    finally:
        WATCHED.reset(before)
        _kernels.end()


def _in_threads(pool: ThreadPoolExecutor, edges: list[int], work: Work, watcher: Watcher | None) -> None:
    from concurrent.futures import FIRST_EXCEPTION, wait

    given_up = False

    def task(start: int, stop: int) -> None:
        _HERE.is_given_up = lambda: given_up
        while start < stop and not given_up:
            start = work(start, stop)

    futures: dict[Future[None], int] = {}
    try:
        futures.update((pool.submit(task, start, stop), stop - start) for start, stop in itertools.pairwise(edges))
        running = set(futures)
        while running:  # a wait without an end does not hear Ctrl-C everywhere
            done, running = wait(running, _LISTEN, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if watcher:
                watcher.advance(sum(map(futures.__getitem__, done)))
    finally:
        given_up = True
        _end(futures)


def _end(futures: Iterable[Future[None]]) -> None:
    """Cancel what has not begun, and wait for the rest."""
    from concurrent.futures import wait

    running = {future for future in futures if not future.cancel()}
    while running:
        with contextlib.suppress(KeyboardInterrupt):
            running = wait(running, _LISTEN).not_done


def run_kernel(
    kernel: Callable[..., Work],
    shape: tuple[int, ...],
    n_values: int,
    threads: int,
    cells_per_task: int = 256,
) -> tuple[list[Cells], Codes]:
    """Run a kernel over all cells of `shape`, on several threads for many cells: arrays of its values, and the codes.

    `kernel` is a function of `_kernels` with its inputs, to which the arrays for the values and the codes are added.
    Cells are independent, so that neither `threads` nor the cutting changes a bit of the result.
    """
    check_memory(shape, n_values)
    values = [np.empty(shape) for _ in range(n_values)]
    status = np.empty(shape, dtype=np.uint8)
    in_pieces(status.size, threads, kernel(*values, status), cells_per_task)
    return values, status
