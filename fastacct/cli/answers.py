"""Answers of the command line: one JSON document, or sentences that say what is guaranteed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["RELATIONS", "Answer", "render", "rounded_down", "rounded_up", "shown"]

DIGITS = 6
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
    result: Mapping[str, object]
    inputs: Mapping[str, object]
    sentences: Sequence[str]
    context: Mapping[str, object] = field(default_factory=dict)
    exit_code: int = 0

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


def shown(name: str, value: object) -> str:
    """A value of the column `name`; a bound is never shown on its wrong side."""
    if not isinstance(value, float):
        return str(value)
    if name.endswith("_lower"):
        return rounded_down(value)
    return rounded_up(value) if name.endswith("_upper") else f"{value:g}"


def render(columns: Sequence[str], body: Sequence[Sequence[str]], numeric: Sequence[str]) -> str:
    """A table as text; the columns named in `numeric` are set to the right."""
    rows = [list(columns), *(list(row) for row in body)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    lines = []
    for row in rows:
        cells = zip(columns, row, widths, strict=True)
        padded = [text.rjust(width) if name in numeric else text.ljust(width) for name, text, width in cells]
        lines.append("  ".join(padded).rstrip())
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def _rounded(value: float, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    # The shortest decimal that reads back as this double is what a person calls its value.
    return f"{float(Context(prec=DIGITS, rounding=direction).plus(Decimal(repr(float(value))))):.{DIGITS}g}"


def _plain(value: object) -> object:
    """JSON has no infinity: it becomes the string "inf". Floats keep every digit."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
