"""Certified intervals and what they mean."""

from __future__ import annotations

import math
import warnings
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from fastacct.core.html import bounds_table, names
from fastacct.core.inputs import Cells, Codes, unwrap

Shaped: TypeAlias = Any
"""A number, or an array of the shape of the cells: of NumPy's, or labelled as what was given."""
TIGHT_WIDTH = 1e-6
"""Width of an interval over its upper end up to which its status is TIGHT."""


class Status(IntEnum):
    """How a bound was obtained.  Whatever the status, an upper bound is an upper bound.

    Examples
    --------
    >>> import fastacct as fa
    >>> [status.name for status in fa.Status]
    ['TIGHT', 'LOOSE', 'NOT_MET']
    """

    TIGHT = 0
    """The interval is at most 1e-6 wide, relative to its upper end (mostly 1e-10)."""
    LOOSE = 1
    """Certified, but wider.  The lower bound may be 0."""
    NOT_MET = 2
    """No finite answer satisfies the request; the value is the safe side."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, how: str) -> str:
        return format(int(self), how) if how else self.name


class Bounds(NamedTuple):
    """Lower and upper bounds (floats or float64 arrays) and the `Status` (or array of codes) of each.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, status = fa.epsilon_bounds(fa.Gaussian(1.0), delta=1e-6)
    >>> upper - lower < 1e-9, fa.Status(status).name
    (True, 'TIGHT')
    """

    lower: Shaped
    upper: Shaped
    status: Shaped

    def __str__(self) -> str:
        """As `repr`; of arrays also how many are TIGHT."""
        return f"{self!r}\n{names(self.status)}" if np.ndim(self.status) else repr(self)

    def _repr_html_(self) -> str:
        return bounds_table(*self)


class Found(NamedTuple):
    """Certified bounds of one answer, and how they were obtained."""

    lower: float
    upper: float
    status: Status


class Answers(Protocol):
    """What is known of one direction of a job."""

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta."""

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta."""


class DisjointBoundsWarning(RuntimeWarning):
    """Two certified bounds exclude each other, so that one of them is wrong; the larger one was returned."""


def judged(lower: float, upper: float, worst: float) -> Found:
    """An interval with its status: the width decides, relative to the upper end.

    A lower bound above the upper one is an error in one of them: the larger one bounds from above then.
    """
    lower, upper = narrowed(lower, upper)
    if upper >= worst:
        return Found(lower, upper, Status.NOT_MET)
    return Found(lower, upper, Status.TIGHT if upper - lower <= TIGHT_WIDTH * upper else Status.LOOSE)


def narrowed(lower: float, *uppers: float) -> tuple[float, float]:
    """The interval of a lower bound and the smallest of some upper ones.

    Where they exclude each other one of them is wrong, and nobody knows which: the largest of all bounds from above,
    and nothing from below.
    """
    upper = min(uppers)
    if lower <= upper:
        return lower, upper
    if math.isnan(lower) or math.isnan(upper):  # which bounds nothing
        numbers = [one for one in uppers if not math.isnan(one)]
        return narrowed(-math.inf if math.isnan(lower) else lower, *numbers or (math.inf,))
    if lower <= upper + 1e-12 * abs(upper) + 1e-320:  # bounds that come from different sums still meet: their rounding
        return upper, upper
    text = f"certified bounds do not meet: at least {lower!r}, at most {upper!r}; please report this as an error"
    warnings.warn(text, DisjointBoundsWarning, stacklevel=3)
    return -math.inf, max(lower, *uppers)


def meet(lower: Cells, *uppers: Cells) -> tuple[Cells, Cells]:
    """Intervals as `narrowed` makes them of one-dimensional arrays of bounds."""
    low, high = np.array(lower), np.minimum.reduce(uppers)
    for i in np.flatnonzero(~(low <= high)).tolist():
        low[i], high[i] = narrowed(float(lower[i]), *(float(column[i]) for column in uppers))
    return low, high


def status_of(lower: Cells | float, upper: Cells | float) -> Codes:
    """Codes of intervals, as `judged` with nothing worse than infinity."""
    with np.errstate(invalid="ignore"):
        is_loose = ~(np.subtract(upper, lower) <= TIGHT_WIDTH * np.asarray(upper))
    return np.where(np.equal(upper, np.inf), np.uint8(Status.NOT_MET), is_loose)


def status_at(lower: float, upper: float, worst: float, *, is_log: bool) -> Status:
    """That of one interval, of logarithms by its width itself."""
    if upper - lower <= TIGHT_WIDTH * (1.0 if is_log else upper) < math.inf or upper == -math.inf:
        return Status.TIGHT
    return Status.NOT_MET if upper >= worst else Status.LOOSE


def unwrapped(bounds: Bounds) -> Bounds:
    """Plain numbers and a `Status` for a single cell without dimensions."""
    lower, upper, status = map(np.asarray, bounds)
    return Bounds(unwrap(lower), unwrap(upper), status if status.ndim else Status(int(status)))
