"""Published DP-SGD privacy figures, recomputed: the way the source did, at every real order, and exactly."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from fastacct.answers import Answer, common_digits, fixed_up, render
from fastacct.parsing import CONVERSIONS, parse_orders, rate_of_batch
from fastacct.toml_table import TomlTable, read_toml

__all__ = ["Comparison", "PublishedConfiguration", "compare", "default_file", "load", "run_published"]

# A continuous search may stop this far (relative) above the best listed order and still count as "no worse".
SEARCH_TOLERANCE = 1e-9
# Known digits are met by a certified interval around them that is no wider than this (relative).
EXACT_WIDTH = 1e-9
METHODS = (*CONVERSIONS, "exact", "clt")
APPROXIMATIONS = ("clt",)
ROUNDINGS = ("nearest", "up", "down")


@dataclass(frozen=True)
class PublishedConfiguration:
    """One published figure: what was trained, what was claimed, and how the claim was computed."""

    name: str
    source: str
    noise_multiplier: float
    sample_rate: float
    steps: int
    delta: float
    published: Decimal
    decimals: int
    rounding: str
    method: str
    orders: tuple[float, ...] | None
    """None: the method has no orders."""
    exact: Decimal | None
    """The exact epsilon, rounded to nearest in every digit."""
    note: str = ""

    def agrees(self, epsilon: float) -> bool:
        """Whether `epsilon`, rounded the way the source rounded, is the published figure to `decimals` decimals."""
        if not Decimal(epsilon).is_finite():
            return False
        unit = Decimal(1).scaleb(-self.decimals)
        # Decimal(epsilon) is exact, and so is the difference up to the 28 digits of the default context.
        excess = Decimal(epsilon) - self.published
        if self.rounding == "nearest":
            return abs(excess) <= unit / 2
        if self.rounding == "up":
            return -unit < excess <= 0
        return 0 <= excess < unit

    def agrees_exactly(self, lower: float, upper: float) -> bool:
        """Whether a narrow interval covers a number that has the digits of `exact` (always, if there are none)."""
        if self.exact is None:
            return True
        half = Decimal(5).scaleb(int(self.exact.as_tuple().exponent) - 1)
        narrow = math.isfinite(upper) and upper - lower <= EXACT_WIDTH * upper
        return narrow and Decimal(lower) <= self.exact + half and self.exact - half <= Decimal(upper)


@dataclass(frozen=True)
class Comparison:
    """A published figure and its recomputations, for add/remove neighbours.

    `same` uses the source's method and orders, `continuous` the same method at all real orders (equal to `same` for a
    method without orders); both are certified upper bounds unless the method is an approximation. The exact epsilon is
    between `lower` and `upper`.
    """

    configuration: PublishedConfiguration
    same: float
    continuous: float
    lower: float
    upper: float

    @property
    def matches(self) -> bool:
        """The published and the exact figure are reproduced, and better methods give no more."""
        shown = self.configuration
        no_worse = self.continuous <= self.same * (1 + SEARCH_TOLERANCE)
        certified = shown.method not in APPROXIMATIONS
        in_order = self.lower <= self.upper and (
            self.lower <= self.continuous * (1 + SEARCH_TOLERANCE) or not certified
        )
        return shown.agrees(self.same) and no_worse and in_order and shown.agrees_exactly(self.lower, self.upper)

    @property
    def below_truth(self) -> bool:
        """The published figure is smaller than the exact epsilon by more than its rounding."""
        unit = Decimal(1).scaleb(-self.configuration.decimals)
        return Decimal(self.lower) > self.configuration.published + unit


def default_file() -> Path:
    """Return examples/published_dp_sgd.toml below the current folder, else the one beside the source tree.

    Raises
    ------
    FileNotFoundError
        If neither exists.
    """
    name = Path("examples") / "published_dp_sgd.toml"
    beside = Path(__file__).resolve().parent.parent / name
    for candidate in (name, beside):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"{name} is neither below the current folder nor at {beside}: give a file")


def load(path: str | os.PathLike[str]) -> list[PublishedConfiguration]:
    """Read a file of published configurations.

    Guarantee
    ---------
    Nothing is guessed: unknown keys, wrong types and missing values are errors.

    Parameters
    ----------
    path : path
        A TOML file as described at the head of `examples/published_dp_sgd.toml`.

    Returns
    -------
    list of PublishedConfiguration

    Raises
    ------
    ValueError, OSError
        The message names the key and the file.

    Examples
    --------
    >>> load("examples/published_dp_sgd.toml")[0].published  # doctest: +SKIP
    Decimal('1.26')
    """
    document = read_toml(path)
    lists = document.table("orders")
    orders = {key: _orders(lists, key) for key in lists.values}
    configurations = [_configuration(table, orders) for table in document.tables("configuration")]
    document.done()
    return configurations


def compare(configurations: Sequence[PublishedConfiguration], threads: int | None = None) -> list[Comparison]:
    """Recompute published figures.

    Guarantee
    ---------
    Every figure but those of an approximation is a certified bound on epsilon at the configuration's delta, for Poisson
    sampling and add/remove neighbours. Whether a source really sampled that way is not examined here.

    Parameters
    ----------
    configurations : sequence of PublishedConfiguration
    threads : int, optional
        Threads inside the accountant.

    Returns
    -------
    list of Comparison
        In the same order.

    Raises
    ------
    ValueError
        If a configuration is outside the accountant's domain.

    Examples
    --------
    >>> all(row.matches for row in compare(load("examples/published_dp_sgd.toml")))  # doctest: +SKIP
    True
    """
    import fastacct

    rows = []
    for configuration in configurations:
        run: dict[str, Any] = {
            "noise_multiplier": configuration.noise_multiplier,
            "sample_rate": configuration.sample_rate,
            "steps": configuration.steps,
            "delta": configuration.delta,
            "threads": threads,
        }
        lower, upper, _ = fastacct.dpsgd.epsilon_bounds(**run)
        if configuration.method == "exact":
            same = continuous = float(upper)
        elif configuration.method == "clt":
            same = continuous = float(fastacct.dpsgd.epsilon_approx(**run, accountant=fastacct.CLT()))
        else:
            accountants = [fastacct.RDP(orders, configuration.method) for orders in (configuration.orders, None)]
            same, continuous = (float(fastacct.dpsgd.epsilon(**run, accountant=chosen)) for chosen in accountants)
        rows.append(Comparison(configuration, same, continuous, float(lower), float(upper)))
    return rows


def run_published(file: Path | None, as_json: bool) -> tuple[str, bool]:
    """Recompute a file of published figures; the text to print, and whether every row matches.

    Guarantee
    ---------
    As for `fastacct.published.compare`.

    Parameters
    ----------
    file : path, optional
        Default: `examples/published_dp_sgd.toml`.
    as_json : bool
        Return a JSON document instead of a table.

    Returns
    -------
    text : str
    all_match : bool

    Raises
    ------
    ValueError, OSError

    Examples
    --------
    >>> text, all_match = run_published(None, as_json=False)  # doctest: +SKIP
    """
    source = default_file() if file is None else file
    rows = compare(load(source))
    n_matching = sum(row.matches for row in rows)
    summary = f"{n_matching} of {len(rows)} published figures reproduced ({source})"
    lines = [] if as_json else [_published_table(rows), summary, *_mismatches(rows)]
    result = {"matching": n_matching, "rows": [_published_row(row) for row in rows]}
    answer = Answer("published", result, {"file": str(source)}, lines, {"guarantee": "certified upper bound"})
    return answer.text(as_json), n_matching == len(rows)


def _orders(lists: TomlTable, key: str) -> tuple[float, ...]:
    try:
        text: str = lists.get(key, "string")
        return parse_orders(text)
    except ValueError as error:
        raise lists.error(key, str(error)) from error


def _configuration(table: TomlTable, orders: dict[str, tuple[float, ...]]) -> PublishedConfiguration:
    published, digits = _decimal(table, "epsilon", table.get("epsilon", "string"))
    decimals = table.get("decimals", "integer", digits)
    if not 0 <= decimals <= digits:
        raise table.error("decimals", f"must be between 0 and the {digits} decimals of epsilon; got {decimals}")
    method = table.choice("method", METHODS)
    used = table.get("orders", "string") if method in CONVERSIONS else None
    if used is not None and used not in orders:
        raise table.error("orders", f"must be a name in [orders] ({', '.join(orders)}); got {used!r}")
    exact = table.get("exact", "string", "")
    configuration = PublishedConfiguration(
        name=table.get("name", "string"),
        source=table.get("source", "string"),
        noise_multiplier=float(table.get("noise_multiplier", "number")),
        sample_rate=_sample_rate(table),
        steps=table.get("steps", "integer"),
        delta=float(table.get("delta", "number")),
        published=published,
        decimals=decimals,
        rounding=table.choice("rounding", ROUNDINGS, "nearest"),
        method=method,
        orders=None if used is None else orders[used],
        exact=_decimal(table, "exact", exact)[0] if exact else None,
        note=table.get("note", "string", ""),
    )
    table.done()
    return configuration


def _decimal(table: TomlTable, key: str, text: str) -> tuple[Decimal, int]:
    """A figure with the digits of its source, and how many of them are behind the point."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise table.error(key, f"must be a decimal number in quotes, with the digits of the source; got {text!r}")
    return number, max(0, -exponent)


def _sample_rate(table: TomlTable) -> float:
    batch: Any = table.get("batch_size", "integer", None)
    size: Any = table.get("dataset_size", "integer", None)
    rate: Any = table.get("sample_rate", "number", None)
    if rate is not None and batch is None and size is None:
        return float(rate)
    if rate is not None or batch is None or size is None:
        raise table.error("sample_rate", "give either sample_rate, or both batch_size and dataset_size")
    try:
        return rate_of_batch(batch, size)
    except ValueError as error:
        raise table.error("batch_size", str(error)) from error


def _published_table(rows: Sequence[Comparison]) -> str:
    columns = ["source", "sigma", "q", "T", "delta", "published", "same method", "any order", "exact", ""]
    body = []
    for row in rows:
        shown = row.configuration
        values = [f"{shown.noise_multiplier:g}", f"{shown.sample_rate:.4g}", f"{shown.steps}", f"{shown.delta:g}"]
        same = fixed_up(row.same, max(4, min(shown.decimals, 10) + 2))
        exact = common_digits(row.lower, row.upper)
        published = f"{shown.published:.{shown.decimals}f}"
        verdict = "NO" if not row.matches else "ok, but below exact" if row.below_truth else "ok"
        body.append([shown.name, *values, published, same, fixed_up(row.continuous, 4), exact, verdict])
    legend = (
        "published: to the digits compared. same method: the source's method and orders. any order: the same method,\n"
        "best real order. exact: the smallest epsilon there is, in the digits that are certain. All others are upper\n"
        "bounds, for Poisson sampling and data sets that differ by adding or removing one record; the central\n"
        "limit theorem (Bu et al.) is an approximation and falls below the exact epsilon."
    )
    return render(columns, body, numeric=columns[1:9]) + "\n" + legend


def _published_row(row: Comparison) -> dict[str, Any]:
    shown = row.configuration
    return {
        "name": shown.name,
        "source": shown.source,
        "noise_multiplier": shown.noise_multiplier,
        "sample_rate": shown.sample_rate,
        "steps": shown.steps,
        "delta": shown.delta,
        "method": shown.method,
        "published": str(shown.published),
        "decimals": shown.decimals,
        "rounding": shown.rounding,
        "same_orders": row.same,
        "any_order": row.continuous,
        "exact_lower": row.lower,
        "exact_upper": row.upper,
        "below_exact": row.below_truth,
        "matches": row.matches,
    }


def _mismatches(rows: Sequence[Comparison]) -> list[str]:
    return [
        f"MISMATCH {row.configuration.name}: published {row.configuration.published} "
        f"(rounding {row.configuration.rounding}, {row.configuration.decimals} decimals), "
        f"recomputed {row.same!r}, any order {row.continuous!r}, exact {row.lower!r} to {row.upper!r} "
        f"(known: {row.configuration.exact})"
        for row in rows
        if not row.matches
    ]
