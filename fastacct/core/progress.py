"""How far a long computation is: one line on stderr, on request."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Final

from fastacct.core.engine import WATCHED

_EVERY: Final = 0.1
_SHORT: Final = 1.0
"""Seconds that a call inside `progress` takes before its bar appears."""


class Bar:
    """Share of the work done and the time left, on stderr."""

    def __init__(self, total: float, done: float = 0.0, what: str = "", shown: bool = True, after: float = 0.0) -> None:
        self.total, self.before, self.done, self.what, self.shown = total, done, done, what, shown
        self.start = time.monotonic()
        self.next, self.is_shown_at_end = self.start + max(after, _EVERY), after == 0.0

    @property
    def left(self) -> float:
        """Seconds left, by the speed so far."""
        spent = time.monotonic() - self.start
        return spent * (self.total - self.done) / max(self.done - self.before, 1e-300)

    def advance(self, cost: float) -> None:
        """Count work that is done."""
        self.done += cost
        is_end = self.done >= self.total * (1.0 - 1e-12)
        clock = time.monotonic()
        if self.shown and sys.stderr is not None and (clock >= self.next or (is_end and self.is_shown_at_end)):
            self.next, self.is_shown_at_end = clock + _EVERY, True
            share, left = (100.0, 0.0) if is_end else (min(100.0 * self.done / self.total, 99.9), self.left)
            line = f"{share:5.1f} %{self.what}, {left:,.0f} s left"
            try:
                print(f"\r{line:60}", end="\n" if is_end else "", file=sys.stderr, flush=True)
            except (OSError, ValueError):  # nobody looks: the work goes on
                self.shown = False


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """Show how far array calls are that take more than a second: the share done and the time left, on stderr.

    Of calls in this thread, with NumPy, xarray and pandas; lazy arrays have `dask.diagnostics.ProgressBar`.

    >>> import fastacct as fa
    >>> with fa.progress():
    ...     found = fa.dpsgd.epsilon(noise_multiplier=[0.8, 1.0], sample_rate=0.01, steps=1000, delta=1e-5)
    """
    before = WATCHED.set(lambda total: Bar(total, after=_SHORT))
    try:
        yield
    finally:
        WATCHED.reset(before)
