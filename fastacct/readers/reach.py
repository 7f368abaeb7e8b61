"""Questions that have an answer of their own where losses are out of reach."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from fastacct.losses.loss import OutOfReachError

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


def within_reach(otherwise: _Value) -> Callable[[Callable[_Given, _Value]], Callable[_Given, _Value]]:
    """What a question has for an answer where losses are out of reach."""

    def decorated(ask: Callable[_Given, _Value]) -> Callable[_Given, _Value]:
        @wraps(ask)
        def asked(*given: _Given.args, **named: _Given.kwargs) -> _Value:
            try:
                return ask(*given, **named)
            except OutOfReachError:
                return otherwise

        return asked

    return decorated
