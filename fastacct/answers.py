"""Answers of the command line: one JSON document, or sentences that say what is guaranteed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

__all__ = ["RELATIONS", "Answer", "fixed_up", "rounded_down", "rounded_up"]

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
