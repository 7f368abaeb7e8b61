"""Answers of the command line: one JSON document, or sentences that say what is guaranteed."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import numpy as np

from fastacct._extras import import_extra

__all__ = ["RELATIONS", "Answer", "common_digits", "duration", "fixed_up", "render", "rounded_down", "rounded_up"]

DIGITS = 6
WIDEST_TABLE = 200
RELATIONS = {
    "add_remove": "data sets that differ by adding or removing one record",
    "add": "data sets where one record is added",
    "remove": "data sets where one record is removed",
    "replace_one": "data sets that differ in the value of one record",
    "zero_out": "data sets that differ by zeroing out one record",
}


@dataclass
class Answer:
    """What one command found out."""

    command: str
    result: dict[str, Any]
    inputs: dict[str, Any]
    sentences: Sequence[str]
    context: dict[str, Any] = field(default_factory=dict)

    def text(self, as_json: bool) -> str:
        """The whole answer, ready to print."""
        if not as_json:
            return "\n".join(self.sentences)
        document = {"command": self.command, **self.result, "inputs": self.inputs, **self.context}
        return json.dumps(_plain(document), allow_nan=False)


def rounded_up(value: float) -> str:
    """`value` in at most 6 digits, never shown smaller than it is."""
    return _rounded(value, ROUND_CEILING)


def rounded_down(value: float) -> str:
    """`value` in at most 6 digits, never shown larger than it is."""
    return _rounded(value, ROUND_FLOOR)


def fixed_up(value: float, decimals: int) -> str:
    """`value` with so many decimals, never shown smaller than it is."""
    if not math.isfinite(value):
        return str(value)
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
    return f"{rounded_down(lower)} to {rounded_up(upper)}"


def duration(seconds: float) -> str:
    """Seconds in three digits with a fitting unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _rounded(value: float, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    # The shortest decimal that reads back as this double is what a person calls its value.
    return f"{float(Context(prec=DIGITS, rounding=direction).plus(Decimal(repr(float(value))))):.{DIGITS}g}"


def _plain(value: Any) -> Any:
    """JSON has no infinity: it becomes the string "inf". Floats keep every digit."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def render(columns: Sequence[str], body: Sequence[Sequence[str]], numeric: Sequence[str]) -> str:
    """A table as text."""
    box = import_extra("rich.box", "cli")
    console_class = import_extra("rich.console", "cli").Console
    table = import_extra("rich.table", "cli").Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name in numeric else "left", no_wrap=True)
    for row in body:
        table.add_row(*row)
    out = io.StringIO()
    console_class(file=out, width=WIDEST_TABLE, no_color=True).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")
