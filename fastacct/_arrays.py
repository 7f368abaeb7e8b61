"""Between users' objects and the kernels: validation, broadcasting, threads.

Every message names the argument, the offending value, its index in an array and the allowed range.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.bounds import Status
from fastacct_ext import _kernels

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Cells = NDArray[np.float64]
Codes = NDArray[np.uint8]

MAX_STEPS: Final = 2.0**53
MAX_ORDER: Final = 1e11
TIGHT_WIDTH: Final = 1e-6
"""Width of an interval over its upper end up to which its status is TIGHT; as in exact_readout.h."""
TINY: Final = 1e-300
"""Smaller Rényi divergences of what releases something are given as this: no square underflows to nothing."""
_CELLS_PER_TASK: Final = 256
_TASKS_PER_THREAD: Final = 16
_LISTEN: Final = 0.1
"""Seconds between two looks at whether Ctrl-C was pressed, or the call given up."""


@dataclass(frozen=True)
class Domain:
    """Allowed range of an argument."""

    low: float
    high: float
    open_low: bool = False
    integer: bool = False

    def __str__(self) -> str:
        kind = "whole numbers in " if self.integer else ""
        high = "2**53" if self.high == MAX_STEPS else f"{self.high:g}"
        closing = "]" if self.high != np.inf or not self.integer else ")"
        return f"{kind}{'(' if self.open_low else '['}{self.low:g}, {high}{closing}"


DOMAINS: Final = {
    "noise_multiplier": Domain(0.0, np.inf),
    "sample_rate": Domain(0.0, 1.0),
    "steps": Domain(0.0, MAX_STEPS, integer=True),
    "delta": Domain(0.0, 1.0),
    "epsilon": Domain(0.0, np.inf),
    "orders": Domain(1.0, MAX_ORDER, open_low=True),
    "mu": Domain(0.0, np.inf),
}


def as_cells(name: str, value: Any, domain: Domain | None = None) -> Cells:
    """`value` as a float64 array of any shape, every entry checked against the domain of `name`.

    Empty arrays are cells too, but for arguments with a `domain` of their own: a list without entries has no meaning.
    """
    may_be_empty = domain is None
    domain = DOMAINS[name] if domain is None else domain
    if isinstance(value, float | int) and not isinstance(value, bool):
        array = _from_number(name, value, domain)
    elif isinstance(value, Fraction):
        array = _from_number(name, float(value), domain)
    elif value is None or isinstance(value, bool | str | bytes | set | frozenset | dict):
        raise TypeError(f"{name} must be a number or an array of numbers in {domain}, not {_show(value)}")
    else:
        array = _from_array(name, value, domain, may_be_empty)
    low_ok = array > domain.low if domain.open_low else array >= domain.low
    good = low_ok & (array <= domain.high)  # NaN fails both
    if domain.integer:
        good &= array == np.floor(array)
    if not good.all():
        raise ValueError(_message(name, array, int(np.argmin(good)), domain))
    return array


def _from_number(name: str, value: float | int, domain: Domain) -> Cells:
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float; allowed: {domain}") from None
    if domain.integer and value > domain.high:  # float() may have rounded it down into the range
        raise ValueError(f"{name} = {value!r} is out of range; allowed: {domain}")
    return np.asarray(number, dtype=np.float64)


def _from_array(name: str, value: Any, domain: Domain, may_be_empty: bool) -> Cells:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(f"{name} is a masked array with masked entries; fill or drop them first")
    try:
        raw = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name} cannot be read as an array of numbers in {domain}: {error}") from None
    if raw.dtype == object and raw.size and all(isinstance(x, int | float | Fraction) for x in raw.flat):
        if any(isinstance(x, bool) for x in raw.flat):
            raise TypeError(f"{name} must be numbers in {domain}, not booleans")
        _refuse_rounded(name, raw, domain)
        try:
            raw = raw.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{name} has an entry too large for a float; allowed: {domain}") from None
    if raw.dtype.kind not in "fiu":
        raise TypeError(
            f"{name} must be a number or an array of numbers in {domain}, not {_show(value)} (dtype {raw.dtype})"
        )
    if raw.size == 0 and not may_be_empty:
        raise ValueError(f"{name} is an empty array of shape {raw.shape}; give at least one value in {domain}")
    if raw.dtype.kind in "iu":
        _refuse_rounded(name, raw, domain)
    with np.errstate(over="ignore"):
        cells = raw.astype(np.float64, copy=False)
    return cells if cells.flags.aligned else cells.copy()


def _refuse_rounded(name: str, raw: NDArray[Any], domain: Domain) -> None:
    """Integers beyond 2**53 would be rounded to a float, perhaps down into the range."""
    if domain.integer and bool((raw > int(domain.high)).any()):
        index = np.unravel_index(int(np.argmax(raw > int(domain.high))), raw.shape)
        raise ValueError(f"{name}{_where(index)} = {raw[index]!s} is out of range; allowed: {domain}")


def _where(index: tuple[Any, ...]) -> str:
    return f"[{', '.join(str(int(i)) for i in index)}]" if index else ""


def _show(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def _message(name: str, array: Cells, flat: int, domain: Domain) -> str:
    index = np.unravel_index(flat, array.shape)
    return f"{name}{_where(index)} = {float(array[index])!r} is out of range; allowed: {domain}"


def check_memory(shape: tuple[int, ...], arrays: int = 1) -> None:
    """Refuse results that are larger than the memory of this machine, before anything is allocated."""
    size = 8 * arrays * math.prod(shape)
    if size > _memory():
        raise MemoryError(f"a result of shape {shape} takes {size / 2**30:.3g} GiB, more than this machine's memory")


@lru_cache(maxsize=1)
def _memory() -> float:
    """Bytes of memory of this machine; where the system does not say, what an array can have at most."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return 2.0**62
    return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))


def common_shape(named: dict[str, Cells]) -> tuple[int, ...]:
    """The broadcast shape of all arrays, or a message with every name and shape."""
    try:
        shape = np.broadcast_shapes(*(array.shape for array in named.values()))
    except ValueError:
        sides = itertools.zip_longest(*(reversed(array.shape) for array in named.values()), fillvalue=1)
        longest = [(set(side) - {1} or {1}) for side in sides]
        if all(len(lengths) == 1 for lengths in longest):  # they do: the product is beyond what NumPy counts
            check_memory(tuple(lengths.pop() for lengths in reversed(longest)))
        shapes = ", ".join(f"{name} {array.shape}" for name, array in named.items())
        raise ValueError(f"shapes do not broadcast: {shapes}") from None
    check_memory(shape)
    return shape


def as_common(**given: tuple[Any, Domain]) -> list[Cells]:
    """Several checked arguments, broadcast to one shape, in order."""
    read = {name: as_cells(name, value, domain) for name, (value, domain) in given.items()}
    shape = common_shape(read)
    return [np.broadcast_to(cells, shape) for cells in read.values()]


def as_threads(threads: Any) -> int:
    """Number of threads; None means all cores this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer):
        raise TypeError(f"threads must be a positive integer or None, not {_show(threads)}")
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads = {int(threads)} is out of range; allowed: whole numbers in [1, 1024]")
    return int(threads)


def as_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """A word out of `allowed`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {_show(value)}")
    if value not in allowed:
        raise ValueError(f"{name} = {value!r} is not one of {', '.join(map(repr, allowed))}")
    return value


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


def unwrap(array: Cells) -> float | Cells:
    """A Python float for a single cell without dimensions, else the array."""
    return float(array[()]) if array.ndim == 0 else array


def unwrap_codes(status: Codes) -> Any:
    """A Python int for a single cell without dimensions, else the array."""
    return int(status[()]) if status.ndim == 0 else status
