"""Published DP-SGD privacy figures, recomputed: same conversion and orders as the source, then better ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from fastacct.parsing import CONVERSIONS, parse_orders, rate_of_batch
from fastacct.toml_table import TomlTable, read_toml

__all__ = ["Comparison", "PublishedConfiguration", "compare", "default_file", "load"]

# A continuous search may stop this far (relative) above the best listed order and still count as "no worse".
SEARCH_TOLERANCE = 1e-9
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
    conversion: str
    orders: tuple[float, ...]
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


@dataclass(frozen=True)
class Comparison:
    """A published figure and its recomputations, all certified upper bounds on epsilon for add/remove neighbours.

    `same` uses the source's conversion and orders, `continuous` the source's conversion and all real orders, `default`
    the accountant that fastacct uses unless told otherwise.
    """

    configuration: PublishedConfiguration
    same: float
    continuous: float
    default: float

    @property
    def matches(self) -> bool:
        """The published figure is reproduced, and searching all orders is no worse."""
        no_worse = self.continuous <= self.same * (1 + SEARCH_TOLERANCE)
        return self.configuration.agrees(self.same) and no_worse


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
    Every figure is a certified upper bound on epsilon at the configuration's delta, for Poisson sampling and add/remove
    neighbours. Whether a source really sampled that way is not examined here.

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
        conversion = configuration.conversion
        accountants = (
            fastacct.RDP(orders=configuration.orders, conversion=conversion),
            fastacct.RDP(conversion=conversion),
            fastacct.RDP(),
        )
        values = [
            float(
                fastacct.dpsgd.epsilon(
                    noise_multiplier=configuration.noise_multiplier,
                    sample_rate=configuration.sample_rate,
                    steps=configuration.steps,
                    delta=configuration.delta,
                    accountant=accountant,
                    threads=threads,
                )
            )
            for accountant in accountants
        ]
        rows.append(Comparison(configuration, *values))
    return rows


def _orders(lists: TomlTable, key: str) -> tuple[float, ...]:
    try:
        text: str = lists.get(key, "string")
        return parse_orders(text)
    except ValueError as error:
        raise lists.error(key, str(error)) from error


def _configuration(table: TomlTable, orders: dict[str, tuple[float, ...]]) -> PublishedConfiguration:
    text = table.get("epsilon", "string")
    try:
        published = Decimal(text)
    except InvalidOperation:
        published = Decimal("NaN")
    exponent = published.as_tuple().exponent
    if not isinstance(exponent, int):
        raise table.error("epsilon", f"must be a decimal number in quotes, with the digits of the source; got {text!r}")
    digits = max(0, -exponent)
    decimals = table.get("decimals", "integer", digits)
    if not 0 <= decimals <= digits:
        raise table.error("decimals", f"must be between 0 and the {digits} decimals of epsilon; got {decimals}")
    used = table.get("orders", "string")
    if used not in orders:
        raise table.error("orders", f"must be a name in [orders] ({', '.join(orders)}); got {used!r}")
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
        conversion=table.choice("conversion", CONVERSIONS),
        orders=orders[used],
        note=table.get("note", "string", ""),
    )
    table.done()
    return configuration


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
