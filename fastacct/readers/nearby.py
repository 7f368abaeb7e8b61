"""Bounds of a curve from those of one next to it, which the kernels read.

What they read is not quite the pair asked for: weights are rounded, components far out are left out, what only one
distribution has is counted apart.  Each of these says, for numbers of its own from above and from below,

    delta(eps) = gained + kept delta'(eps - moved),        delta'(-t) <= t + delta'(0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import TIGHT_WIDTH, Found, Status, meet, status_of
from fastacct.core.inputs import PAD, ROUNDING, Cells, Codes
from fastacct_ext._kernels import Quantity

EPSILON, DELTA, LOG_DELTA, THRESHOLD = Quantity.EPSILON, Quantity.DELTA, Quantity.LOG_DELTA, Quantity.THRESHOLD
TOP: Final = {EPSILON: np.inf, DELTA: 1.0, LOG_DELTA: 0.0, THRESHOLD: 0.0}
"""What says nothing from above."""
BOTTOM: Final = {EPSILON: 0.0, DELTA: 0.0, LOG_DELTA: -np.inf, THRESHOLD: 0.0}
"""What says nothing from below."""


class Reading(NamedTuple):
    """Flat arrays: certified bounds, and status codes; thresholds, and how fast the log of the rate falls there."""

    lower: Cells
    upper: Cells
    status: Codes

    def put(self, at: NDArray[np.intp] | NDArray[np.bool_] | slice | int, values: Reading | Found) -> None:
        """Store values at some places."""
        self.lower[at], self.upper[at], self.status[at] = values

    def take(self, at: NDArray[np.intp] | NDArray[np.bool_]) -> Reading:
        """Those at some places."""
        return Reading(self.lower[at], self.upper[at], self.status[at])

    def at(self, place: int) -> Found:
        """One of them."""
        return Found(float(self.lower[place]), float(self.upper[place]), Status(int(self.status[place])))

    def copy(self) -> Reading:
        """Arrays of its own."""
        return Reading(self.lower.copy(), self.upper.copy(), self.status.copy())

    @classmethod
    def empty(cls, size: int) -> Reading:
        """To be filled."""
        return cls(np.empty(size), np.empty(size), np.zeros(size, dtype=np.uint8))

    @classmethod
    def larger(cls, *readings: Reading) -> Reading:
        """Of several numbers the largest."""
        return cls(*map(np.maximum.reduce, zip(*readings, strict=True)))

    @classmethod
    def nothing(cls, target: Cells, what: Quantity) -> Reading:
        """The safe side, as the vectorised kernel gives it."""
        trivial = target >= 1.0 if what == EPSILON else target == np.inf
        lower, upper = np.full(target.shape, BOTTOM[what]), np.where(trivial, BOTTOM[what], TOP[what])
        return cls(lower, upper, np.where(trivial, np.uint8(Status.TIGHT), np.uint8(Status.NOT_MET)))


def both(target: Cells) -> Cells:
    """Targets of bounds from above, and of bounds from below."""
    return np.stack([target, target])


def status_within(lower: Cells, upper: Cells, what: Quantity) -> Codes:
    """Codes of intervals, of logarithms by their width itself."""
    if what != LOG_DELTA:
        return status_of(lower, upper)
    with np.errstate(invalid="ignore"):
        tight = (upper == -np.inf) | (upper - lower <= TIGHT_WIDTH)
    return np.where(tight, Status.TIGHT, Status.LOOSE).astype(np.uint8)


def delta_from(low: Cells | float, high: Cells | float) -> tuple[Cells, Cells]:
    """Bounds of delta, from those of its logarithm."""
    low = np.maximum(np.exp(low) * (1.0 - PAD) - math.ulp(0.0), 0.0)  # an ulp of numbers that have lost digits
    return low, np.minimum(np.exp(high) * (1.0 + PAD) + np.where(high > -np.inf, math.ulp(0.0), 0.0), 1.0)


class Change(NamedTuple):
    """From a curve that the kernels know to the one that is asked for, on one side.  Of `gained` above a half the rest
    of 1 is kept, or all of it."""

    gained: float = 0.0
    log_kept: float = 0.0
    moved: float = 0.0

    def asked(self, target: Cells, what: Quantity, side: float) -> Cells:
        """What is asked of the other curve for a bound from above (side 1), or from below (-1); below 0: of none."""
        if what != EPSILON:
            pad = 8.0 * ROUNDING * (self.moved != 0.0)
            return target - self.moved - side * pad * np.where(target < np.inf, target, 0.0)
        if self == SAME:
            return target
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            if self.gained < 0.5 or self.log_kept == 0.0:
                return np.asarray((target - self.gained) / np.exp(self.log_kept) * (1.0 - side * PAD))
            # the digits are in what is left of 1
            rest = (1.0 - target) / np.exp(self.log_kept) * (1.0 + side * PAD)
            return np.asarray(1.0 - rest - side * 2.0 * ROUNDING)

    def log_delta(self, found: Cells, beyond: Cells, side: float) -> Cells:
        """Log of delta, from that of the other curve, `beyond` left of 0."""
        if self == SAME:
            return found
        with np.errstate(divide="ignore"):
            value = np.logaddexp(np.logaddexp(found, np.log(beyond)) + self.log_kept, np.log(self.gained))
        return value + side * PAD * np.where(value > -np.inf, 1.0 - value, 0.0)


SAME: Final = Change()


def through(
    read: Callable[[Cells, Quantity], Reading], target: Cells, what: Quantity, above: Change, below: Change = SAME
) -> Reading:
    """Bounds of a curve, from those of another one, of which `read` is asked no delta but its logarithm.

    Targets are rows of two, for the bounds from above and from below.  What meets a target is asked where the other
    curve is at most (target - gained) / kept; nothing does where it is gained.
    """
    asked = np.stack([above.asked(target[0], what, 1.0), below.asked(target[1], what, -1.0)])
    low, high, _ = (
        read(np.clip(asked, 0.0, 1.0), EPSILON) if what == EPSILON else read(np.maximum(asked, 0.0), LOG_DELTA)
    )
    if what == EPSILON:
        never, surely_never = (asked[0] <= 0.0) & (above.gained > 0.0), asked[1] < 0.0
        high = np.where(never, np.inf, np.maximum((high + above.moved) * (1.0 + 2.0 * ROUNDING), 0.0))
        moved = np.maximum((low + below.moved) * (1.0 - 2.0 * ROUNDING), 0.0)
        low = np.where(surely_never, np.inf, np.where(low > 0.0, moved, 0.0))  # 0 says nothing of epsilons below 0
        low, high = np.where(target[::-1] < 1.0, (low, high), 0.0)
    else:
        low, high = np.where(target[::-1] < np.inf, (low, high), -np.inf)
        high = np.minimum(above.log_delta(high, np.maximum(-asked[0], 0.0), 1.0), 0.0)
        low = below.log_delta(low, np.zeros(low.size), -1.0)
    if what == DELTA:
        low, high = delta_from(low, high)
    low, high = meet(low, high)
    return Reading(low, high, status_within(low, high, what))
