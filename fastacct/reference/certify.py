"""Certification of reference values: no digit is returned that was computed only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

GUARD_DIGITS = 3
"""Decimal digits beyond the requested ones that every single evaluation aims for."""

MAX_LEVELS = 5
"""How many evaluations, each finer than the one before, are tried before giving up."""

_EXACT_BITS = 4096


class NotConverged(ArithmeticError):  # noqa: N818 - says what happened; there is nothing else to go wrong
    """Two successive evaluations never agreed to the digits requested."""


def exact(value: Any) -> mpf:
    """Return a float, int, string or mpf as an mpf without rounding it (strings: to 4096 bits)."""
    if isinstance(value, mpf):
        return value
    with mp.workprec(_EXACT_BITS):
        return mpf(value)


def probability(name: str, value: Any) -> mpf:
    """Return a number in [0, 1] without rounding it."""
    exactly = exact(value)
    if not 0 <= exactly <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value}")
    return exactly


def noise_and_rate(noise_multiplier: Any, sample_rate: Any) -> tuple[mpf, mpf]:
    """Return s and q without rounding them."""
    s = exact(noise_multiplier)
    if not s >= 0:
        raise ValueError(f"noise_multiplier must be in [0, inf], got {noise_multiplier}")
    return s, probability("sample_rate", sample_rate)


def bits(digits: float) -> int:
    """Return the binary precision that holds `digits` decimal digits."""
    return int(digits * 3.3219280948873626) + 8


def certify(evaluate: Callable[[int, int], Any], digits: int, what: str) -> Any:
    """Evaluate again and again, finer each time, until two successive results agree to `digits` digits.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(goal_digits, level)`` returns an mpf or a tuple of them. Each level must differ from the one before
        in working precision and in discretisation (panels, terms, direction of summation), not only in name.
    digits : int
        Relative agreement asked for.
    what : str
        Named in the error.

    Raises
    ------
    NotConverged
        If no two successive results agree.
    """
    if digits < 1:
        raise ValueError(f"digits must be at least 1, got {digits}")
    previous: tuple[mpf, ...] | None = None
    for level in range(MAX_LEVELS):
        result = evaluate(digits + GUARD_DIGITS + level * (4 + digits // 8), level)
        values = result if isinstance(result, tuple) else (result,)
        if previous is not None and all(map(lambda a, b: agree(a, b, digits), values, previous)):
            return result
        previous = values
    raise NotConverged(f"{what}: no two of {MAX_LEVELS} evaluations agree to {digits} digits")


def agree(a: mpf, b: mpf, digits: float) -> bool:
    """Return whether `a` and `b` agree to `digits` significant digits (equal infinities agree, NaN never does)."""
    if a == b:
        return True
    if not (mp.isfinite(a) and mp.isfinite(b)):
        return False
    with mp.workprec(bits(2 * digits + 20)):
        return bool(abs(a - b) <= max(abs(a), abs(b)) * mpf(10) ** (-digits))


def rounded(value: Any, digits: int) -> Any:
    """Return the value (or tuple of values) rounded to a few more digits than were certified."""
    with mp.workprec(bits(digits + 2)):
        return tuple(+v for v in value) if isinstance(value, tuple) else +value
