"""Work that is counted: a search which has done so much ends, at the same place on every machine.

A unit is about a nanosecond of one core.  What is kept from before counts as if it were done anew, once in a search, so
that an answer does not depend on what was asked before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")

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


def spend(units: float) -> None:
    """Let it count, each time that it is done."""
    note({object(): units})


def kept(most: int | None) -> Callable[[Callable[_Asked, _Answer]], Callable[_Asked, _Answer]]:
    """Keep the last answers of a function, and the work of each: it counts whenever it is asked for."""

    def keeper(ask: Callable[_Asked, _Answer]) -> Callable[_Asked, _Answer]:
        @lru_cache(maxsize=most)
        def known(*given: _Asked.args, **named: _Asked.kwargs) -> tuple[_Answer, Done]:
            with counted() as done:
                answer = ask(*given, **named)
                # under the name of the question, which is the same when it is forgotten and asked again
                own = [key for key in done if type(key) is object]
                done[ask, given, *named.items()] = sum(done.pop(key) for key in own)
            return answer, done

        @wraps(ask)
        def found(*given: _Asked.args, **named: _Asked.kwargs) -> _Answer:
            answer, done = known(*given, **named)  # type: ignore[arg-type]  # all are hashable
            note(done)
            return answer

        return found

    return keeper
