"""Certified intervals and what they mean."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

__all__ = ["Bounds", "Status"]


class Status(IntEnum):
    """How a bound was obtained.  Whatever the status, an upper bound is an upper bound."""

    TIGHT = 0
    """Within the accuracy stated in the docs (relative 1e-12 for Rényi divergences, 1e-6 and mostly 1e-10 for exact
    epsilons and deltas)."""
    LOOSE = 1
    """Certified, but looser: outside the domain of the tight method.  The lower bound may be 0."""
    NOT_MET = 2
    """No finite answer satisfies the request; the value is the safe side."""


class Bounds(NamedTuple):
    """Lower and upper bounds (floats or float64 arrays) and the `Status` code(s) of each."""

    lower: Any
    upper: Any
    status: Any
