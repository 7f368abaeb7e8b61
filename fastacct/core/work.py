"""Work that is counted: a search which has done so much ends, at the same place on every machine.

A unit is about a nanosecond of one core.  What is kept from before counts as if it were done anew, once in a search, so
that an answer does not depend on what was asked before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Final, ParamSpec, TypeVar

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")
_MOST: Final = 7e9
"""Of the steps of one question: some seconds."""

Done = dict[Hashable, float]
"""What was done, by what it is, and how much work each of it is."""


class _Here(threading.local):
    done: Done | None = None
    question: Done | None = None


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


@contextmanager
def one_question(begun: Done | None) -> Iterator[None]:
    """What is begun from here on is part of one question, or of none whose work has an end."""
    before, _HERE.question = _HERE.question, begun
    try:
        yield
    finally:
        _HERE.question = before


def begin(key: Hashable, units: float) -> None:
    """Let a step count, and for the question of which it is part, whether its outcome is kept or not."""
    note({key: units})
    if _HERE.question is not None:
        _HERE.question[key] = units


def is_left(units: float) -> bool:
    """Whether the question has so much work left: who has some answer begins nothing that costs more."""
    question = _HERE.question
    if question is None or sum(question.values()) + units <= _MOST:
        return True
    question[is_over] = 0.0
    return False


def is_over() -> bool:
    """Whether the question had no work left for a step."""
    return is_over in (_HERE.question or ())


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
            with counted() as done, one_question(None):  # whatever the question that it is part of
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
