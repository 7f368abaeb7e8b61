"""The one table of options, and what people write in them: numbers, runs, orders, accountants."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np

import fastacct.accountants as accountants
from fastacct.accountants import RDP, Method
from fastacct.accountants.rdp import CONVERSIONS
from fastacct.core.inputs import as_choice, common_shape
from fastacct.run import Run, as_delta, parameters

T = TypeVar("T")

ACCOUNTANTS: Final[dict[str, Callable[[], Method]]] = {
    "exact": accountants.Exact,
    "rdp": accountants.RDP,
    "basic": accountants.BasicComposition,
    "advanced": accountants.AdvancedComposition,
    "zcdp": accountants.ZCDPComposition,
    "analytic-gaussian": accountants.AnalyticGaussian,
    "clt": accountants.CLT,
}
MAX_ORDERS: Final = 100_000
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


def _several(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    return lambda text: [read(part) for part in text.split(",")]


numbers, wholes = _several(number), _several(whole)
"""One number, or several separated by commas."""


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


def _option(help: str, read: Callable[[str], object] = str, metavar: str | None = "X", **more: Any) -> dict[str, Any]:
    return {"help": help, "type": read, "metavar": metavar, **more}


def _switch(help: str) -> dict[str, Any]:
    return {"help": help, "action": "store_true"}


OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "noise_multiplier": _option("standard deviation of the noise / clipping norm", numbers),
    "sample_rate": _option("Poisson sampling probability of a record in a step", numbers),
    "batch_size": _option("expected batch size, with --records", wholes, "N"),
    "records": _option("records in the data set, for --batch-size and --delta 1/n", wholes, "N"),
    "steps": _option("number of steps", wholes, "N"),
    "epochs": _option("passes over the data, in place of --steps", numbers),
    "epsilon": _option("epsilon of the guarantee", number),
    "delta": _option("delta of the guarantee; with --records also 1/n or 1/n^1.1", delta_of_records),
    "accountant": _option(
        f"{', '.join(ACCOUNTANTS)}; default: exact, or rdp with --orders or --conversion", metavar="NAME"
    ),
    "orders": _option("Renyi orders, e.g. 1.5,2-64,1.1-10.9/0.1; default: the best", metavar="LIST"),
    "conversion": _option(f"of Renyi DP to (epsilon, delta): {', '.join(CONVERSIONS)}", metavar="NAME"),
    "neighbors": _option(
        "add_remove (default), add, remove, zero_out or replace_one", metavar="RELATION", default="add_remove"
    ),
    "kind": _option(
        "delta over epsilon (default), or errors of attacks",
        metavar=None,
        default="privacy",
        choices=("privacy", "tradeoff"),
    ),
    "smallest_delta": _option("where a privacy curve ends; 1e-12, as small as 1e-300", number, default=1e-12),
    "points": _option("points of a privacy curve; 201", whole, "N", default=201),
    "count": _option("random runs of each regime; 1000", whole, "N", default=1000),
    "regime": _option("everyday, broad or small-delta", metavar="NAME", action="append"),
    "seed": _option("of the random runs", whole, "N"),
    "config": _option("TOML file: axes, accountant, output, picture", Path, "FILE"),
    "csv": _option("write every value to this .csv file", Path, "FILE"),
    "picture": _option("draw in this .png, .pdf or .svg file", Path, "FILE"),
    "overwrite": _switch("replace existing files"),
    "quiet": _switch("no progress bar"),
    "json": _switch("print one JSON document"),
}
FLAGS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (f"--{name.replace('_', '-')}",) for name in OPTIONS},
    "records": ("--records", "--dataset-size"),
    "config": ("config",),
}


# -- what they mean --------------------------------------------------------------------------------------------------


def runs(given: argparse.Namespace, wanted: str | None = None) -> list[dict[str, Any]]:
    """The training runs, as keywords of `fastacct.dpsgd` without the one that is wanted.

    Lists are read side by side; one number holds for every run.
    """
    names = ("noise_multiplier", "sample_rate", "steps", "records", "batch_size", "epochs")
    lists = {name: values for name in names if name != wanted and (values := getattr(given, name, None)) is not None}
    known = cast(Run, {name: values[0] if len(values) == 1 else values for name, values in lists.items()})
    if "records" in known and "batch_size" not in known and not isinstance(getattr(given, "delta", None), str):
        raise ValueError("--records is for --batch-size and --delta 1/n")
    if not {"sample_rate", "batch_size"} & known.keys() and wanted != "sample_rate":
        raise ValueError("give either --sample-rate, or both --batch-size and --records")
    if not {"steps", "epochs"} & known.keys() and wanted != "steps":
        raise ValueError("give either --steps or --epochs")
    found = parameters(known, wanted or "")
    shape = common_shape(found)
    columns = {name: np.broadcast_to(cells, shape).ravel().tolist() for name, cells in found.items()}
    if "steps" in columns:
        columns["steps"] = [int(count) for count in columns["steps"]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def one_delta(given: argparse.Namespace) -> float:
    """The delta of the guarantee as a number; 1/n is made of the only number of records."""
    found: list[float] = as_delta(given.delta, {"records": given.records}).ravel().tolist()
    return only(found)


def only(values: Sequence[T]) -> T:
    """The one value of an option that may have several."""
    if len(values) != 1:
        raise ValueError("give one number per option; several runs side by side are for the command curve")
    return values[0]


def accountant_by_name(name: str | None, orders: str | None = None, conversion: str | None = None) -> Method:
    """The accountant that a command line or a file names; without a name "exact", or "rdp" if it has settings.

    Settings that it does not have are refused, never ignored: `orders` and `conversion` are settings of "rdp".
    """
    settings = [word for word, value in (("orders", orders), ("conversion", conversion)) if value is not None]
    if name is None:
        name = "rdp" if settings else "exact"
    chosen = ACCOUNTANTS[as_choice("accountant", name, tuple(ACCOUNTANTS))]
    if not settings:
        return chosen()
    if name != "rdp":
        raise ValueError(f"{' and '.join(settings)}: only the accountant rdp has this setting, not {name}")
    listed = None if orders is None else parse_orders(orders)
    return RDP(listed, RDP.conversion if conversion is None else as_choice("conversion", conversion, CONVERSIONS))
