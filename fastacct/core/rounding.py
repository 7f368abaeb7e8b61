"""Outward rounding: quotients, products and sums on the safe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells, Reals, unwrap

_Exact = TypeVar("_Exact", Fraction, Decimal)
PADDING: Final = 1e-11
"""Relative error of closed forms, by far: checked against 50 digits."""


def multiplied_up(value: Reals, factor: float) -> float | Cells:
    """A product, rounded up."""
    with np.errstate(over="ignore"):
        moved = np.asarray(np.asarray(value) * factor)
    return unwrap(np.where(moved > 0.0, np.nextafter(moved, np.inf), moved))


def divided_down(value: Reals, divisor: float) -> float | Cells:
    """A quotient, rounded down."""
    moved = np.asarray(np.asarray(value) / divisor)
    return unwrap(np.where(np.isfinite(moved) & (moved > 0.0), np.nextafter(moved, 0.0), moved))


def quotient_up(value: Reals, divisor: Reals) -> float | Cells:
    """A quotient of numbers good to an ulp, rounded up; inf where it overflows or the divisor is 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        moved = np.asarray(np.asarray(value) / np.asarray(divisor)) * (1.0 + 4e-16)
    return unwrap(np.where(moved > 0.0, np.nextafter(moved, np.inf), moved))


def float_above(value: _Exact) -> float:
    """The smallest float that is not below a number."""
    near = float(value)
    return near if type(value)(near) >= value else math.nextafter(near, math.inf)


def float_below(value: _Exact) -> float:
    """The largest float that is not above a number."""
    return -float_above(-value)


def raised(value: Cells, positive: NDArray[np.bool_]) -> Cells:
    """Closed forms good to some ulps, rounded up; 0 only where nothing is released."""
    return np.where(positive, np.nextafter(value * (1.0 + 4e-15), np.inf), 0.0)


def as_written(x: float) -> Fraction:
    """The number that the shortest decimal digits of a float say."""
    return Fraction(repr(float(x)))


def rate_of_batch(batch_size: float, records: float) -> float:
    """batch_size / records as a sample rate, never below the exact quotient: a bound computed with it covers that."""
    rate = float(batch_size) / float(records)
    return math.nextafter(rate, 1.0) if Fraction(rate) * Fraction(records) < Fraction(batch_size) else rate


def rate_of_float32(rate: float) -> float:
    """How often a uniform number of 24 bits, as PyTorch's float32 has, is below a rate in [0, 1]."""
    return min(max(math.ceil(near * 2.0**24) for near in (rate, float(np.float32(rate)))) / 2.0**24, 1.0)


def at_least(value: float, released: float) -> float:
    """Products that underflow are not nothing; subnormal numbers are not good to a part of themselves."""
    return value + 1e-323 if released > 0.0 and value < 1e-290 else value


def sum_of(value: float, other: float, upwards: bool) -> float:
    """A sum, rounded to one side."""
    total = value + other
    if other == 0.0 or value == 0.0:
        return total
    return total * (1.0 + 2.0**-52) if upwards else total * (1.0 - 2.0**-52)


def digits_up(value: float, digits: int = 6) -> str:
    """`value` in at most so many digits, never shown smaller than it is."""
    return _shown(value, ROUND_CEILING, digits)


def digits_down(value: float, digits: int = 6) -> str:
    """`value` in at most so many digits, never shown larger than it is."""
    return _shown(value, ROUND_FLOOR, digits)


def _shown(value: float, direction: str, digits: int) -> str:
    if not math.isfinite(value):
        return str(value)
    # The shortest decimal that reads back as this double is what a person calls its value.
    return f"{float(Context(prec=digits, rounding=direction).plus(Decimal(repr(float(value))))):.{digits}g}"


def fft_size(n_points: int) -> int:
    """2^k or 3 2^k, at least `n_points`."""
    power = 1 << max(1, math.ceil(math.log2(n_points)))
    return 3 * power // 4 if power >= 8 and 3 * power // 4 >= n_points else power
