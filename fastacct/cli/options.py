"""The one table of options, and what people write in them: numbers, runs, orders, accountants."""

from __future__ import annotations

import argparse
import math
import re
import tomllib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

import fastacct.accountants as accountants
from fastacct.accountants import RDP, Method
from fastacct.accountants.batching import BINS, COMPANIONS, SAMPLINGS, batches_of
from fastacct.accountants.rdp import CONVERSIONS
from fastacct.accountants.run import Run, as_delta, parameters
from fastacct.core.inputs import as_choice, common_shape
from fastacct.core.relations import RELATIONS
from fastacct.loaders import loaders

Keywords = dict[str, Any]
ACCOUNTANTS: Final[dict[str, type[Method]]] = {
    "exact": accountants.Exact,
    "rdp": accountants.RDP,
    "basic": accountants.BasicComposition,
    "advanced": accountants.AdvancedComposition,
    "zcdp": accountants.ZCDPComposition,
    "analytic-gaussian": accountants.AnalyticGaussian,
    "clt": accountants.CLT,
}
RUN: Final = ("noise_multiplier", "sample_rate", "batch_size", "records", "steps", "epochs")
MAX_ORDERS: Final = 100_000
_QUOTED: Final = re.compile(
    r"(?<![\w/.'\"(\\-])([a-z]+(?:_[a-z]+)+|[a-z]+(?= ?=| \()|(?<=needs )[a-z]+|(?<=missing )[a-z]+)\b"
    r"( ?= ?(?=[\w'\"+-]))?=?"
)
MISSING: Final = " (give --sample-rate, or --batch-size and --records; --steps or --epochs)"
_DECIMAL: Final = r"\s*(\d+(?:\.\d*)?(?:e\d\d?)?)\s*"
_RANGE: Final = re.compile(f"{_DECIMAL}(?:-{_DECIMAL}(?:/{_DECIMAL})?)?")


# -- numbers ---------------------------------------------------------------------------------------------------------


def number(text: str) -> float:
    """A number, also written 1e4 or 10_000; inf only if it says so."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value) or (math.isinf(value) and "inf" not in text.lower()):
        raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a number")
    return value


def whole(text: str) -> int:
    """An integer, also written 1e4 or 10_000."""
    try:
        return int(text)
    except ValueError:
        value = number(text)
    if not value.is_integer():
        raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a whole number")
    return int(value)


def numbers(text: str) -> list[float]:
    """One number, or several separated by commas."""
    return [number(part) for part in text.split(",")]


def wholes(text: str) -> list[int]:
    """One whole number, or several separated by commas."""
    return [whole(part) for part in text.split(",")]


def delta_of_records(text: str) -> float | str:
    """A delta: a number, or 1/n and 1/n^1.1, which `--records` makes one."""
    return text if text.replace(" ", "").startswith("1/") else number(text)


def parse_orders(text: str) -> tuple[float, ...]:
    """Read Renyi orders such as "1.5, 2-64, 128" or "1.1-10.9/0.1" (from-to/step, both ends included).

    Decimal steps are exact: "1.1-1.3/0.1" is (1.1, 1.2, 1.3), with no rounding carried from one order to the next. A
    part that is not a number or a range, or an empty range, is a ValueError.

    Examples
    --------
    >>> parse_orders("1.5,2-4,8-9/0.5")
    (1.5, 2.0, 3.0, 4.0, 8.0, 8.5, 9.0)
    """
    orders: list[float] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError(f"orders: {part.strip()!r} is not a number or a range; write 1.5,2-64,1.1-10.9/0.1")
        start, stop, step = Decimal(found[1]), Decimal(found[2] or found[1]), Decimal(found[3] or 1)
        if step <= 0 or stop < start:
            raise ValueError(f"orders: the range {part.strip()!r} is empty; write from-to/step with a positive step")
        count = int((stop - start) / step) + 1
        if len(orders) + count > MAX_ORDERS:
            raise ValueError(f"orders: more than {MAX_ORDERS:,} orders")
        orders.extend(float(start + index * step) for index in range(count))
    return tuple(orders)


# -- the table -------------------------------------------------------------------------------------------------------


TABLE: Final[dict[str, Keywords]] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
"""Commands, their options as argparse takes them, and the groups of options as `--help` lists them."""
_READ: Final = (number, whole, numbers, wholes, delta_of_records, Path)
_LISTS: Final = {"accountants": ACCOUNTANTS, "conversions": CONVERSIONS, "relations": RELATIONS, "samplings": SAMPLINGS}


def _option(row: Keywords) -> Keywords:
    """An option of the table, with what is known here alone."""
    words = {name: ", ".join(known) for name, known in _LISTS.items()}
    made: Keywords = {"help": row["help"].format(**words)}
    if "type" in row:
        made["type"] = next(read for read in _READ if read.__name__ == row["type"])
    if row.get("action") == "store_const":
        made["default"] = argparse.SUPPRESS  # the option that it is short for has one
    return row | made


OPTIONS: Final = {name: _option(row) for name, row in TABLE["options"].items()}
COMMON: Final = ("format", "json", "plain")


def values() -> dict[str, Sequence[str]]:
    """The words that options take, for a shell that completes them."""
    found = {"sampling": SAMPLINGS, "neighbors": RELATIONS, "accountant": ACCOUNTANTS, "conversion": CONVERSIONS}
    return {option: [*known] for option, known in {**found, "bins": BINS, "loader": loaders()["loaders"]}.items()}


def flags(option: str) -> tuple[str, ...]:
    """How an option is written."""
    if option in ("config", "result", "loader", "ledger", "scores", "scripts", "shell", "certificate"):
        return (option,)
    return (f"--{option.replace('_', '-')}", *(("--dataset-size",) if option == "records" else ()))


def in_options(message: str, options: Sequence[str]) -> str:
    """A message of the package in the words of the command line: --batch-size for batch_size=."""

    def written(found: re.Match[str]) -> str:
        name, sign = found.groups()
        return f"{flags(name)[0]}{' ' if sign else ''}" if name in options else found[0]

    return _QUOTED.sub(written, message.replace("overwrite=True (command line: --overwrite)", "--overwrite"))


# -- what they mean --------------------------------------------------------------------------------------------------


def runs(given: argparse.Namespace, wanted: str = "") -> list[Keywords]:
    """The training runs, as keywords of `fastacct.dpsgd` without the one that is wanted.

    Lists are taken side by side; one number holds for every run.
    """
    lists = {name: values for name in RUN if name != wanted and (values := getattr(given, name, None)) is not None}
    known = cast(Run, {name: values[0] if len(values) == 1 else values for name, values in lists.items()})
    is_used = "batch_size" in known or isinstance(getattr(given, "delta", None), str) or _sampling(given) != "poisson"
    if "records" in known and not is_used:
        raise ValueError("--records is for --batch-size and --delta 1/n")
    found = parameters(known, wanted, MISSING)
    shape = common_shape(found)
    columns = {name: np.broadcast_to(cells, shape).ravel().tolist() for name, cells in found.items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row | {"steps": int(row["steps"])} if "steps" in row else row for row in rows]


def one_run(given: argparse.Namespace, wanted: str = "") -> Keywords:
    """The only run, and its delta as a number where it has one: 1/n is made of the number of records."""
    found, one = runs(given, wanted), as_given(given, wanted)
    deltas = as_delta(given.delta, {"records": given.records}).ravel().tolist() if "delta" in given else [0.0]
    if len(found) != 1 or len(deltas) != 1:
        raise ValueError("give one number per option; several runs side by side are for the command curve")
    return (one if "sampling" in one else found[0]) | ({"delta": deltas[0]} if "delta" in given else {})


def first_of(given: argparse.Namespace, *names: str) -> Keywords:
    """The first values of those options that are given."""
    return {name: value[0] for name in names if (value := getattr(given, name, None)) is not None}


def _sampling(given: argparse.Namespace) -> str:
    return as_choice("--sampling", getattr(given, "sampling", "poisson"), SAMPLINGS)


def as_given(given: argparse.Namespace, wanted: str = "") -> Keywords:
    """A run as keywords of `fastacct.dpsgd`, as it was given; how batches are drawn, but for Poisson samples."""
    found: Keywords = {"sampling": _sampling(given)}
    for name in COMPANIONS:
        if (value := getattr(given, name, None)) is not None:
            if isinstance(value, list) and len(value) > 1:
                raise ValueError(f"--{name.replace('_', '-')}: give one number")
            found[name] = value[0] if isinstance(value, list) else value
    batches_of(found | {name: 1 for name in ("batch_size", "records", "epochs") if getattr(given, name, None)}, wanted)
    run = first_of(given, *(name for name in RUN if name != wanted))
    return run if found["sampling"] == "poisson" else run | found


def accountant_by_name(name: str | None, orders: str | None = None, conversion: str | None = None) -> Method:
    """The accountant that a command line or a file names; without a name "exact", or "rdp" if it has settings.

    Settings that it does not have are refused, never ignored: `orders` and `conversion` are settings of "rdp".
    """
    settings = [word for word, value in (("orders", orders), ("conversion", conversion)) if value is not None]
    default = "rdp" if settings else "exact"
    name = as_choice("accountant", default if name is None else name, tuple(ACCOUNTANTS))
    if not settings:
        return ACCOUNTANTS[name]()
    if name != "rdp":
        raise ValueError(f"{' and '.join(settings)}: only the accountant rdp has this setting, not {name}")
    listed = None if orders is None else parse_orders(orders)
    return RDP(listed, RDP.conversion if conversion is None else as_choice("conversion", conversion, CONVERSIONS))
