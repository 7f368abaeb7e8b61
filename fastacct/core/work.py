"""Work that is counted: a search which has done so much ends, at the same place on every machine.

A unit is about a nanosecond of one core.  What is kept from before counts as if it were done anew, once in a search, so
that an answer does not depend on what was asked before it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

Done = dict[Hashable, float]
"""What was done, by what it is, and how much work each of it is."""


class _Here(threading.local):
    done: Done | None = None


_HERE = _Here()


@contextmanager
def counted() -> Iterator[Done]:
    """What this thread does from here on, until the end; it counts for who counts around it, too."""
    before, done = _HERE.done, Done()
    _HERE.done = done
    try:
        yield done
    finally:
        _HERE.done = before
        note(done)


def note(done: Done) -> None:
    """Let it count for who counts in this thread; the keys hold what they name, so that no other gets its identity."""
    if _HERE.done is not None:
        _HERE.done.update(done)
