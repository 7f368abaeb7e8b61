"""Numbers of a report as a person writes them, rounded up."""

from __future__ import annotations

import math
from typing import Final

from fastacct.core.rounding import digits_down, digits_up

DIGITS: Final = 3
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def three_up(value: float) -> str:
    """A number in three digits, rounded up; all three are shown of what is rounded."""
    return _padded(digits_up(value, DIGITS), value)


def three_down(value: float) -> str:
    """The same, rounded down."""
    return _padded(digits_down(value, DIGITS), value)


def _padded(shown: str, value: float) -> str:
    """2.50 for 2.4973, and 2.5 for what is that."""
    short = DIGITS - len(shown.replace(".", "").lstrip("0"))
    if "e" in shown or short <= 0 or not math.isfinite(value) or float(shown) == float(f"{value:.14g}"):
        return shown
    return f"{shown}{'' if '.' in shown else '.'}{'0' * short}"


def percent(share: float) -> str:
    """A share, rounded up."""
    return f"{three_up(100.0 * share)} %"


def power(number: float) -> str:
    """A number as a person writes it, rounded up: 0.01, and 10⁻⁵ below a thousandth."""
    rounded = digits_up(number, DIGITS)
    rounded = rounded if number >= 1e-3 or number == 0.0 else f"{float(rounded):.{DIGITS - 1}e}"
    digits, _, exponent = rounded.partition("e")
    digits = digits.rstrip("0").rstrip(".") if exponent else digits
    raised = f"10{str(int(exponent)).translate(_RAISED)}" if exponent else ""
    return digits if not exponent else raised if digits == "1" else f"{digits} × {raised}"


def at_most(epsilon: float) -> str:
    """An epsilon, rounded up; a large one in whole numbers."""
    if 1000.0 <= epsilon < 1e6:
        return f"{math.ceil(epsilon):,}"
    return three_up(epsilon) if epsilon < math.inf else "none is proved"


def of_100(share: float) -> str:
    """A share in words, rounded up."""
    return f"{three_up(100.0 * share)} of 100"
