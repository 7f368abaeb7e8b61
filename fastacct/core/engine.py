"""Between arrays and the compiled kernels: threads, cancelling, and how a kernel runs over all cells."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol

import numpy as np

from fastacct.core.inputs import Cells, Codes, check_memory
from fastacct_ext import _kernels

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
            _in_threads(threads, edges, work, watcher)
            return
        done = 0
        while done < total:
            start, done = done, work(done, total)
            if watcher:
                watcher.advance(done - start)
    finally:
        WATCHED.reset(before)
        _kernels.end()


class _Pieces:
    """Of one call: what is to do, which threads do it, and what has ended.

    It has threads of its own, and no future: Ctrl-C while one is waited for leaves it locked, or its pool, for ever.
    """

    def __init__(self, edges: list[int], work: Work) -> None:
        from queue import SimpleQueue

        self.left = iter(list(itertools.pairwise(edges)))
        self.work = work
        self.is_given_up = False
        self.active = set[int]()
        self.ended = SimpleQueue[int | BaseException]()

    def run(self, number: int) -> None:
        """What a thread does."""
        _HERE.is_given_up = lambda: self.is_given_up
        self.active.add(number)
        try:
            for start, stop in self.left:
                at = start
                while at < stop and not self.is_given_up:
                    at = self.work(at, stop)
                if self.is_given_up:
                    break
                self.ended.put(stop - start)
        except BaseException as error:  # raised where the call was made
            self.ended.put(error)
        finally:
            self.active.discard(number)

    def next(self) -> int:
        """The size of what ends next: a wait without an end does not hear Ctrl-C everywhere."""
        from queue import Empty

        while True:
            with contextlib.suppress(Empty):
                done = self.ended.get(timeout=_LISTEN)
                if isinstance(done, BaseException):
                    raise done
                return done

    def end(self) -> None:
        """What begins after this does nothing, and what runs is waited for."""
        self.is_given_up = True
        while self.active:
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(1e-3)


def _in_threads(threads: int, edges: list[int], work: Work, watcher: Watcher | None) -> None:
    pieces = _Pieces(edges, work)
    try:
        for number in range(threads):
            threading.Thread(target=pieces.run, args=(number,), name=f"fastacct_{number}").start()
        for _ in itertools.pairwise(edges):
            done = pieces.next()
            if watcher:
                watcher.advance(done)
    finally:
        pieces.end()


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
