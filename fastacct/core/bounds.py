"""Certified intervals and what they mean."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

__all__ = ["TIGHT_WIDTH", "Bounds", "Found", "Status", "judged"]

TIGHT_WIDTH = 1e-6
"""Width of an interval over its upper end up to which its status is TIGHT."""


class Status(IntEnum):
    """How a bound was obtained.  Whatever the status, an upper bound is an upper bound."""

    TIGHT = 0
    """The interval is at most 1e-6 wide, relative to its upper end (mostly 1e-10)."""
    LOOSE = 1
    """Certified, but wider.  The lower bound may be 0."""
    NOT_MET = 2
    """No finite answer satisfies the request; the value is the safe side."""


class Bounds(NamedTuple):
    """Lower and upper bounds (floats or float64 arrays) and the `Status` (or array of codes) of each."""

    lower: Any
    upper: Any
    status: Any


class Found(NamedTuple):
    """Certified bounds of one answer, and how they were obtained."""

    lower: float
    upper: float
    status: Status


def judged(lower: float, upper: float, worst: float) -> Found:
    """An interval with its status: the width decides, relative to the upper end."""
    if upper >= worst and not upper - lower <= TIGHT_WIDTH:
        return Found(lower, upper, Status.NOT_MET)
    return Found(lower, upper, Status.TIGHT if upper - lower <= TIGHT_WIDTH * upper else Status.LOOSE)
