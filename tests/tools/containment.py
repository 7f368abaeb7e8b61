"""What tests of several files say of bounds: the truth is inside, and the ends are close."""

from __future__ import annotations

from typing import Any

from mpmath import mpf

from fastacct import reference
from fastacct.core.bounds import Bounds


def holds(bounds: Bounds, truth: Any, width: float, error: float = 0.0) -> bool:
    """The truth is inside, and the ends are no further apart than `width`, relative to the upper one.

    `error` is how far the truth itself is known, relative to it: of a sum in doubles, or of printed digits.
    """
    lower, upper, _ = bounds
    off = (float(lower / truth - 1) if truth else lower, float(upper / truth - 1) if truth else upper)
    assert lower <= truth * (1 + error), off
    assert truth * (1 - error) <= upper, off
    assert upper - lower <= width * upper
    return True


def is_above(upper: Any, truth: Any, width: float, error: float = 0.0) -> bool:
    """An upper bound is not below the truth, and no more than `width` above it. `error` is as in `holds`."""
    assert truth * (1 - error) <= upper <= truth * (1 + width), float(upper / truth - 1)
    return True


def encloses_gaussian(bounds: Bounds, mu: Any, delta: float, width: float) -> bool:
    """As `holds`, for the epsilon of N(mu, 1) at delta: its deltas at both ends say it, so that no root is searched."""
    lower, upper, _ = bounds
    at_lower, at_upper = (reference.gaussian_delta(mu, epsilon, digits=20) for epsilon in (lower, upper))
    assert at_upper <= mpf(delta)
    assert lower == 0.0 or mpf(delta) <= at_lower
    assert upper - lower <= width * upper
    return True


def relative_error(value: Any, truth: Any) -> float:
    """How far a value is from the truth, relative to it, in the working precision of mpmath."""
    return float(abs(mpf(value) / mpf(truth) - 1))
