"""Answers of the command line: one JSON document, or sentences that say what is guaranteed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final, NamedTuple

__all__ = ["Answer", "render", "rounded_down", "rounded_up"]

DIGITS: Final = 6
UPPER: Final = ("epsilon", "delta", "rdp")


class Answer(NamedTuple):
    """What one command found out, as JSON and in words."""

    document: Mapping[str, object]
    sentences: Sequence[str]
    exit_code: int = 0

    def text(self, as_json: bool) -> str:
        """The whole answer, ready to print."""
        return json.dumps(_plain(self.document), allow_nan=False) if as_json else "\n".join(self.sentences)


def rounded_up(value: float) -> str:
    """`value` in at most 6 digits, never shown smaller than it is."""
    return _rounded(value, ROUND_CEILING)


def rounded_down(value: float) -> str:
    """`value` in at most 6 digits, never shown larger than it is."""
    return _rounded(value, ROUND_FLOOR)


def render(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows with the same names as a table; bounds keep their side, and columns of numbers are set to the right."""
    lines = [list(rows[0]), *([_shown(name, value) for name, value in row.items()] for row in rows)]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    sides = [">" if any(text[:1].isdigit() for text in column[1:]) else "<" for column in columns]
    shapes = list(zip(sides, widths, strict=True))
    padded = ["  ".join(f"{text:{a}{n}}" for text, (a, n) in zip(line, shapes, strict=True)).rstrip() for line in lines]
    return "\n".join([padded[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *padded[1:]])


def _shown(name: str, value: object) -> str:
    """A value of the column `name`; a bound is never shown on its wrong side."""
    if not isinstance(value, float):
        return str(value)
    if name.endswith("_lower"):
        return rounded_down(value)
    return rounded_up(value) if name in UPPER or name.endswith("_upper") else f"{value:g}"


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
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
