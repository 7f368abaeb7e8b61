"""What objects keep of their answers, such that threads may share them and a forked child does not hang.

A child has the memory of its parent, locks included, but only the thread that forked: a lock that another thread held
is never released there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import wraps
from threading import RLock
from typing import Final, Generic, TypeVar
from weakref import WeakSet

_T = TypeVar("_T")
_Made = TypeVar("_Made")
_Asked = TypeVar("_Asked", bound=Hashable)


class cached(Generic[_T]):  # noqa: N801
    """A property that is computed once and kept in the object.

    That of `functools` has one lock for all objects of a class before Python 3.12.  This one has none: threads may
    compute it together, and the first value stays.
    """

    def __init__(self, compute: Callable[..., _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, made: object, owner: type) -> _T:
        if made is None:
            return self  # type: ignore[return-value]
        value: _T = vars(made).setdefault(self._name, self._compute(made))
        return value


def kept_by_argument(compute: Callable[[_Made, _Asked], _T]) -> Callable[[_Made, _Asked], _T]:
    """A method of one argument whose answers stay with the object, and are left out where it is copied or pickled."""

    name = f"_kept_{compute.__name__}"

    @wraps(compute)
    def ask(made: _Made, argument: _Asked) -> _T:
        kept: dict[object, _T] = vars(made).setdefault(name, {})
        try:
            answer = kept[argument]
        except KeyError:
            answer = kept[argument] = compute(made, argument)
        return answer

    return ask


_EVERY: Final[WeakSet[Guarded]] = WeakSet()


class Guarded:
    """An object that threads share, one at a time, under its `_lock`; a forked child has one that nobody holds."""

    def _guard(self) -> None:
        """Give it a lock of its own."""
        self._lock = RLock()
        _EVERY.add(self)

    def _forget(self) -> None:
        """In a forked child, where another thread was inside: drop what that thread may have left half done."""


def _after_fork() -> None:
    for kept in list(_EVERY):
        if kept._lock.acquire(blocking=False):
            kept._lock.release()
        else:
            kept._lock = RLock()
            kept._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
