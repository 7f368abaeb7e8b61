"""The one table of options, and what people write in them: numbers, runs, orders, accountants."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

import fastacct.accountants as accountants
from fastacct.accountants import RDP, Method
from fastacct.accountants.rdp import CONVERSIONS
from fastacct.batching import COMPANIONS, SAMPLINGS, batches_of
from fastacct.cli.answers import FORMATS
from fastacct.core.inputs import as_choice, common_shape
from fastacct.core.relations import RELATIONS
from fastacct.run import Run, as_delta, parameters

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


def _option(help: str, read: Callable[[str], object] = str, metavar: str | None = "X", **more: Any) -> Keywords:
    return {"help": help, "type": read, "metavar": metavar, **more}


_CONST: Final[Keywords] = {"action": "store_const", "dest": "format", "default": argparse.SUPPRESS}
_KINDS: Final[Keywords] = {"default": "privacy", "choices": ("privacy", "tradeoff")}
OPTIONS: Final[dict[str, Keywords]] = {
    "noise_multiplier": _option("standard deviation of the noise / clipping norm", numbers),
    "sample_rate": _option("Poisson sampling probability of a record in a step", numbers),
    "batch_size": _option("expected batch size, with --records", wholes, "N"),
    "records": _option("records in the data set, for --batch-size and --delta 1/n", wholes, "N"),
    "steps": _option("number of steps", wholes, "N"),
    "epochs": _option("passes over the data, in place of --steps", numbers),
    "sampling": _option(f"how batches are drawn: {', '.join(SAMPLINGS)}", metavar="NAME", default="poisson"),
    "at_most": _option("largest batch of --sampling truncated", wholes, "N"),
    "bands": _option("groups of records of --sampling cyclic", wholes, "N"),
    "bins": _option("fresh or persistent: whether every epoch draws anew", metavar="NAME"),
    "selected": _option("steps of an epoch that use a record; 1", wholes, "N"),
    "epsilon": _option("epsilon of the guarantee", number),
    "delta": _option("delta of the guarantee; 1/n and 1/n^1.1 where there is --records", delta_of_records),
    "accountant": _option(
        f"{', '.join(ACCOUNTANTS)}; default: exact, or rdp with --orders or --conversion", metavar="NAME"
    ),
    "orders": _option("Renyi orders, e.g. 1.5,2-64,1.1-10.9/0.1; default: the best", metavar="LIST"),
    "conversion": _option(f"of Renyi DP to (epsilon, delta): {', '.join(CONVERSIONS)}", metavar="NAME"),
    "neighbors": _option(f"{', '.join(RELATIONS)}; default: add_remove", metavar="RELATION", default="add_remove"),
    "kind": _option("delta over epsilon (default), or errors of attacks", metavar=None, **_KINDS),
    "smallest_delta": _option("where a privacy curve ends; 1e-12, as small as 1e-300", number, default=1e-12),
    "points": _option("points of a privacy curve; 201", whole, "N", default=201),
    "config": _option("TOML file: axes, accountant, output, picture", Path, "FILE"),
    "output": _option("write the grid to this .zarr, .nc or .parquet file, instead of [output] file", Path, "FILE"),
    "scheduler": _option(
        "compute on the workers of this dask scheduler, such as tcp://10.0.0.1:8786", metavar="ADDRESS"
    ),
    "dry_run": {"help": "say what would be done, and stop", "action": "store_true"},
    "result": _option("file that a sweep wrote", Path, "FILE"),
    "loader": _option("the loader's name; without one, the names that are known", metavar="LOADER", nargs="?"),
    "setting": _option("how it is set, such as shuffle=True; again: several", metavar="NAME=VALUE", action="append"),
    "where": _option('condition on axes and results, such as "epsilon <= 3 and steps > 100"', metavar="CONDITION"),
    "sort": _option(
        "sort by this column; --sort=-COLUMN: from the largest; given again: by several",
        metavar="COLUMN",
        action="append",
    ),
    "head": _option("rows to show; 20", whole, "N", default=20),
    "csv": _option("write every value to this .csv file", Path, "FILE"),
    "picture": _option("draw in this .png, .pdf or .svg file", Path, "FILE"),
    "overwrite": {"help": "replace existing files", "action": "store_true"},
    "quiet": {"help": "no progress bar, no table", "action": "store_true"},
    "print_path": {"help": "print where the page is, and open no browser", "action": "store_true"},
    "job": _option("TOML or JSON file of [[release]] tables, in place of a run", Path, "FILE"),
    "after": _option("TOML or JSON file of what has been released already", Path, "FILE"),
    "fpr": _option("false-positive rates; 0.001,0.01", numbers, default=[0.001, 0.01]),
    "prior": _option("shares of members among the suspects; 0.5", numbers, default=[0.5]),
    "title": _option("title of the report", metavar="TEXT", default="Privacy report"),
    "write": _option("write it to this .html, .md, .tex, .txt or .json file", Path, "FILE"),
    "ledger": _option("the file of the budget", Path, "FILE"),
    "count": _option("how often the job runs; 1", whole, "N", default=1),
    "shell": {"help": "bash, zsh or tcsh", "choices": ("bash", "zsh", "tcsh")},
    "format": {"help": "text (default), markdown, latex or json", "choices": FORMATS, "default": "text"},
    "json": {"help": "--format json", **_CONST, "const": "json"},
    "plain": {"help": "print the number alone, with all its digits", **_CONST, "const": "plain"},
}
COMMON: Final = ("format", "json", "plain")
GROUPS: Final = {
    "the run": ("noise_multiplier", "sample_rate", "batch_size", "records", "steps", "epochs", "job", "count", "after"),
    "how batches are drawn": ("sampling", "at_most", "bands", "bins", "selected"),
    "the target": ("epsilon", "delta", "fpr", "prior"),
    "the method": ("accountant", "orders", "conversion", "neighbors"),
    "the output": ("csv", "picture", "write", "output", "overwrite", "title", "head", "quiet", *COMMON),
}
"""Options as `--help` lists them."""


def flags(option: str) -> tuple[str, ...]:
    """How an option is written."""
    if option in ("config", "result", "loader", "ledger", "shell"):
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
    names = ("noise_multiplier", "sample_rate", "steps", "records", "batch_size", "epochs")
    lists = {name: values for name in names if name != wanted and (values := getattr(given, name, None)) is not None}
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
    found, batches = runs(given, wanted), batching(given)
    deltas = as_delta(given.delta, {"records": given.records}).ravel().tolist() if "delta" in given else [0.0]
    if len(found) != 1 or len(deltas) != 1:
        raise ValueError("give one number per option; several runs side by side are for the command curve")
    run = found[0]
    if batches["sampling"] != "poisson":
        names = ("noise_multiplier", "sample_rate", "batch_size", "records", "steps", "epochs")
        run = {name: one[0] for name in names if name != wanted and (one := getattr(given, name, None)) is not None}
        run |= batches
    return run | ({"delta": deltas[0]} if "delta" in given else {})


def _sampling(given: argparse.Namespace) -> str:
    return as_choice("--sampling", getattr(given, "sampling", "poisson"), SAMPLINGS)


def batching(given: argparse.Namespace) -> Keywords:
    """How batches are drawn, as keywords of `fastacct.dpsgd`."""
    found: Keywords = {"sampling": _sampling(given)}
    for name in COMPANIONS:
        if (value := getattr(given, name, None)) is not None:
            if isinstance(value, list) and len(value) > 1:
                raise ValueError(f"--{name.replace('_', '-')}: give one number")
            found[name] = value[0] if isinstance(value, list) else value
    batches_of(found | {name: 1 for name in ("batch_size", "records", "epochs") if getattr(given, name, None)})
    return found


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
