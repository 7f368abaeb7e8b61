"""Published DP-SGD privacy figures, recomputed: the way the source did, at every real order, and exactly.

python examples/published.py [FILE.toml] [--json]

Without a file: the one beside this script, whose head explains the rows. Exit code 0 if every figure is reproduced, 1
if one is not, 2 if the file has a mistake. The recomputed figures but those of an approximation are certified bounds
for Poisson sampling and add/remove neighbours; whether a source really sampled that way is not examined.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from pathlib import Path

import fastacct as fa
from fastacct.accountants.rdp import CONVERSIONS
from fastacct.cli.answers import render
from fastacct.cli.options import parse_orders
from fastacct.core.inputs import as_choice
from fastacct.core.rounding import digits_down, digits_up, rate_of_batch

FIGURES = Path(__file__).resolve().parent / "published_dp_sgd.toml"
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


def load(path: str | os.PathLike[str]) -> list[PublishedConfiguration]:
    """Read a file of published configurations; a mistake is a ValueError that names the file and the place."""
    document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    orders = {name: parse_orders(text) for name, text in document["orders"].items()}
    found = []
    for index, row in enumerate(document["configuration"]):
        try:
            found.append(_configuration(orders, **row))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: configuration[{index}]: {error}") from error
    return found


def compare(configurations: Sequence[PublishedConfiguration]) -> list[Comparison]:
    """Recompute published figures, in the same order."""
    rows = []
    for one in configurations:
        run = {"noise_multiplier": one.noise_multiplier, "sample_rate": one.sample_rate, "steps": one.steps}
        run["delta"] = one.delta
        lower, upper, _ = fa.dpsgd.epsilon_bounds(**run)
        if one.method == "exact":
            same = continuous = upper
        elif one.method == "clt":
            same = continuous = fa.dpsgd.epsilon_approx(**run, accountant=fa.CLT())
        else:
            same = fa.dpsgd.epsilon(**run, accountant=fa.RDP(one.orders, one.method))
            continuous = fa.dpsgd.epsilon(**run, accountant=fa.RDP(None, one.method))
        rows.append(Comparison(one, same, continuous, lower, upper))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code says whether every row matches."""
    parser = argparse.ArgumentParser(description="Published DP-SGD figures, recomputed.")
    parser.add_argument("file", type=Path, nargs="?", default=FIGURES)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    try:
        rows = compare(load(given.file))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    n_matching = sum(row.matches for row in rows)
    if given.json:
        print(json.dumps({"matching": n_matching, "rows": [_published_row(row) for row in rows]}))
    else:
        shown = os.path.relpath(given.file)
        print(_published_table(rows))
        print(f"{n_matching} of {len(rows)} published figures reproduced ({shown})")
        print(*_mismatches(rows), sep="\n", end="\n" if n_matching < len(rows) else "")
    return 0 if n_matching == len(rows) else 1


def fixed_up(value: float, decimals: int) -> str:
    """`value` with so many decimals, never shown smaller than it is."""
    unit = Decimal(1).scaleb(-decimals)
    return f"{Decimal(repr(float(value))).quantize(unit, ROUND_CEILING, Context(prec=400)):f}"


def common_digits(lower: float, upper: float, most: int = 10) -> str:
    """The number between two bounds, rounded to nearest, in the digits (at most so many) that both bounds give."""
    for digits in range(most, 1, -1):
        low, high = (
            Context(prec=digits, rounding=ROUND_HALF_EVEN).plus(Decimal(repr(float(x)))) for x in (lower, upper)
        )
        if low == high:
            return f"{low:f}"
    return f"{digits_down(lower)} to {digits_up(upper)}"


def _configuration(
    known_orders: dict[str, tuple[float, ...]],
    *,
    name: str,
    source: str,
    noise_multiplier: float,
    steps: int,
    delta: float,
    epsilon: str,
    method: str,
    orders: str | None = None,
    sample_rate: float | None = None,
    batch_size: int | None = None,
    dataset_size: int | None = None,
    rounding: str = "nearest",
    decimals: int | None = None,
    exact: str | None = None,
    note: str = "",
) -> PublishedConfiguration:
    published, digits = _decimal("epsilon", epsilon)
    if decimals is not None and not 0 <= decimals <= digits:
        raise ValueError(f"decimals must be between 0 and the {digits} decimals of epsilon; got {decimals}")
    if as_choice("method", method, METHODS) in CONVERSIONS:
        as_choice("orders", orders, tuple(known_orders))
    if (sample_rate is None) == (batch_size is None) or (batch_size is None) != (dataset_size is None):
        raise ValueError("give either sample_rate, or both batch_size and dataset_size")
    if sample_rate is None:
        sample_rate = rate_of_batch(batch_size, dataset_size)
    return PublishedConfiguration(
        name=name,
        source=source,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,
        delta=delta,
        published=published,
        decimals=digits if decimals is None else decimals,
        rounding=as_choice("rounding", rounding, ROUNDINGS),
        method=method,
        orders=known_orders[orders] if method in CONVERSIONS else None,
        exact=None if exact is None else _decimal("exact", exact)[0],
        note=note,
    )


def _decimal(name: str, text: object) -> tuple[Decimal, int]:
    """A figure with the digits of its source, and how many of them are behind the point."""
    try:
        exponent = Decimal(text).as_tuple().exponent if isinstance(text, str) else "n"
    except InvalidOperation:
        exponent = "n"
    if not isinstance(exponent, int):
        raise ValueError(f"{name} must be a decimal number in quotes, with the digits of the source; got {text!r}")
    return Decimal(text), max(0, -exponent)


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
    return render([dict(zip(columns, line, strict=True)) for line in body]) + "\n" + legend


def _published_row(row: Comparison) -> dict[str, object]:
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


if __name__ == "__main__":
    sys.exit(main())
