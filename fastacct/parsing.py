"""Accounting parameters the way people write them: orders as ranges, batches, epochs, accountants by name."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

__all__ = [
    "ACCOUNTANTS",
    "CONVERSIONS",
    "accountant_by_name",
    "default_accountant",
    "describe_accountant",
    "parse_numbers",
    "parse_orders",
    "rate_of_batch",
    "steps_of_epochs",
]

CONVERSIONS = ("mironov", "canonne_kamath_steinke", "optimal")
# name on a command line or in a file -> class in fastacct
ACCOUNTANTS = {
    "exact": "Exact",
    "rdp": "RDP",
    "basic": "BasicComposition",
    "advanced": "AdvancedComposition",
    "zcdp": "ZCDPComposition",
    "analytic-gaussian": "AnalyticGaussian",
    "clt": "CLT",
}
DESCRIPTIONS = {
    "Exact": "exact privacy curve",
    "RDP": "Renyi DP",
    "BasicComposition": "basic composition",
    "AdvancedComposition": "advanced composition",
    "ZCDPComposition": "zero-concentrated DP",
    "AnalyticGaussian": "analytic Gaussian mechanism",
    "CLT": "central limit theorem",
}
CONVERSION_NAMES = {
    "mironov": "Mironov's conversion",
    "canonne_kamath_steinke": "the conversion of Canonne, Kamath and Steinke",
    "optimal": "the optimal conversion",
}
MAX_ORDERS = 100_000
MAX_EXPONENT = 400


def parse_orders(text: str) -> tuple[float, ...]:
    """Read Renyi orders such as "1.5, 2-64, 128" or "1.1-10.9/0.1" (from-to/step, both ends included).

    Guarantee
    ---------
    Decimal steps are exact: "1.1-1.3/0.1" is (1.1, 1.2, 1.3), with no rounding carried from one order to the next.

    Parameters
    ----------
    text : str
        Numbers and ranges separated by commas; the step of a range is 1 unless given.

    Returns
    -------
    tuple of float

    Raises
    ------
    ValueError
        If a part is not a number or a range, or a range is empty.

    Examples
    --------
    >>> parse_orders("1.5,2-4,8-9/0.5")
    (1.5, 2.0, 3.0, 4.0, 8.0, 8.5, 9.0)
    """
    orders: list[float] = []
    for part in text.split(","):
        try:
            bounds, slash, step_text = part.partition("/")
            start_text, dash, stop_text = bounds.partition("-")
            start = Decimal(start_text.strip())
            stop = Decimal(stop_text.strip()) if dash else start
            step = Decimal(step_text.strip()) if slash else Decimal(1)
            understood = all(number.is_finite() for number in (start, stop, step)) and (bool(dash) or not slash)
        except InvalidOperation:
            understood = False
        if not understood:
            raise ValueError(
                f"orders: {part.strip()!r} is not a number or a range; write for example 1.5,2-64,1.1-10.9/0.1"
            )
        if step <= 0 or stop < start:
            raise ValueError(
                f"orders: the range {part.strip()!r} is empty; write it as from-to/step with a positive step"
            )
        count = int((stop - start) / step) + 1
        if len(orders) + count > MAX_ORDERS:
            raise ValueError(f"orders: more than {MAX_ORDERS:,} orders")
        orders.extend(float(start + index * step) for index in range(count))
    return tuple(orders)


def rate_of_batch(batch_size: int, dataset_size: int) -> float:
    """Return batch_size / dataset_size as a sampling rate, rounded up.

    Guarantee
    ---------
    The result is never below the exact quotient, so that a bound computed with it covers the exact rate.

    Parameters
    ----------
    batch_size, dataset_size : int
        Expected number of records in a step, and number of records.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        If not 0 <= batch_size <= dataset_size, or the data set is empty.

    Examples
    --------
    >>> rate_of_batch(600, 60000)
    0.01
    """
    if dataset_size < 1:
        raise ValueError(f"dataset_size = {dataset_size}: must be at least 1")
    if not 0 <= batch_size <= dataset_size:
        raise ValueError(f"batch_size = {batch_size}: must be between 0 and dataset_size = {dataset_size}")
    exact = Fraction(batch_size, dataset_size)
    rate = batch_size / dataset_size
    return math.nextafter(rate, 1.0) if Fraction(rate) < exact else rate


def steps_of_epochs(epochs: float, batches_per_epoch: Fraction) -> int:
    """Return the number of steps in so many epochs, rounded up to a whole step.

    Guarantee
    ---------
    Computed exactly from the decimal digits of `epochs`; never below epochs * batches_per_epoch.

    Parameters
    ----------
    epochs : float
        Passes over the data, possibly fractional.
    batches_per_epoch : Fraction
        dataset_size / batch_size, or 1 / sample_rate.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If `epochs` is negative or not finite.

    Examples
    --------
    >>> steps_of_epochs(60, Fraction(60000, 256))
    14063
    """
    if not (math.isfinite(epochs) and epochs >= 0):
        raise ValueError(f"epochs = {epochs}: must be a finite number, at least 0")
    return math.ceil(Fraction(repr(float(epochs))) * batches_per_epoch)


def accountant_by_name(name: str, orders: str | None = None, conversion: str | None = None) -> Any:
    """Build the accountant that a command line or a file names.

    Guarantee
    ---------
    Settings that the named accountant does not have are refused, never ignored.

    Parameters
    ----------
    name : str
        One of `ACCOUNTANTS`.
    orders, conversion : str, optional
        Settings of "rdp": orders as for `parse_orders` (default: continuous search), and the conversion.

    Returns
    -------
    accountant

    Raises
    ------
    ValueError
        Unknown name or conversion, or a setting that the accountant does not have.

    Examples
    --------
    >>> accountant_by_name("rdp", orders="2-64", conversion="mironov")  # doctest: +SKIP
    RDP(orders=(2.0, ...), conversion='mironov')
    """
    import fastacct

    if name not in ACCOUNTANTS:
        raise ValueError(f"accountant = {name!r}: must be one of {', '.join(ACCOUNTANTS)}")
    if conversion is not None and conversion not in CONVERSIONS:
        raise ValueError(f"conversion = {conversion!r}: must be one of {', '.join(CONVERSIONS)}")
    settings: dict[str, Any] = {}
    if orders is not None:
        settings["orders"] = parse_orders(orders)
    if conversion is not None:
        settings["conversion"] = conversion
    if settings and name != "rdp":
        raise ValueError(f"{' and '.join(settings)}: only the accountant rdp has this setting, not {name}")
    return getattr(fastacct, ACCOUNTANTS[name])(**settings)


def default_accountant(orders: str | None = None, conversion: str | None = None) -> str:
    """Return the name of the accountant where none is named: "exact", or "rdp" if it is given settings of "rdp".

    Parameters
    ----------
    orders, conversion : str, optional

    Returns
    -------
    str

    Examples
    --------
    >>> default_accountant(), default_accountant(conversion="mironov")
    ('exact', 'rdp')
    """
    return "exact" if orders is None and conversion is None else "rdp"


def parse_numbers(name: str, text: str) -> list[Fraction]:
    """Read numbers separated by commas, such as "0.01, 1e-3", exactly.

    Parameters
    ----------
    name : str
        For messages.
    text : str

    Returns
    -------
    list of Fraction

    Raises
    ------
    ValueError
        If a part is not a finite number.

    Examples
    --------
    >>> [float(number) for number in parse_numbers("sigma", "0.5, 1_000, 1e-3")]
    [0.5, 1000.0, 0.001]
    """
    numbers = []
    for part in text.split(","):
        try:
            number = Decimal(part.strip())
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or abs(number.adjusted()) > MAX_EXPONENT:
            raise ValueError(f"{name}: {part.strip()!r} is not a number; write one, or several with commas")
        numbers.append(Fraction(number))
    return numbers


def describe_accountant(accountant: Any) -> str:
    """Say in words what an accountant does; `repr` for one that is not built in.

    Parameters
    ----------
    accountant : accountant

    Returns
    -------
    str

    Examples
    --------
    >>> describe_accountant(fastacct.RDP())  # doctest: +SKIP
    'Renyi DP, best real order, the conversion of Canonne, Kamath and Steinke'
    """
    kind = type(accountant).__name__
    if kind not in DESCRIPTIONS:
        return repr(accountant)
    if kind != "RDP":
        return DESCRIPTIONS[kind]
    orders = accountant.orders
    if orders is None:
        searched = "best real order"
    elif len(orders) == 1:
        searched = f"order {orders[0]:g}"
    else:
        searched = f"best of {len(orders)} orders between {min(orders):g} and {max(orders):g}"
    conversion = CONVERSION_NAMES.get(accountant.conversion, accountant.conversion)
    return f"{DESCRIPTIONS[kind]}, {searched}, {conversion}"
