"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import numpy as np

_NAMES: Final = ("TIGHT", "LOOSE", "NOT_MET")


def table(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """A table with a title; a few rows of a long one, and that there are more."""
    from html import escape

    remaining = iter(rows)
    shown = [*islice(remaining, 12)]
    note = f"<p>and {n_hidden} more</p>" if (n_hidden := sum(1 for _ in remaining)) else ""
    lines = [f"<tr>{''.join(f'<th>{escape(title)}</th>' for title in head)}</tr>"] if head else []
    lines += [f"<tr>{''.join(f'<td>{escape(_text(entry))}</td>' for entry in row)}</tr>" for row in shown]
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>{note}"


def _text(value: object) -> str:
    if isinstance(value, float | np.floating):
        return f"{float(value):.10g}"
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.size} values, {value.min():.6g} to {value.max():.6g}" if value.size else "no values"
    return str(value)


def names(status: object) -> str:
    """A status by name; of many, how many have each."""
    codes = np.asarray(status)
    if codes.ndim == 0:
        return _NAMES[int(codes)]
    counted = ((name, int((codes == code).sum())) for code, name in enumerate(_NAMES))
    return ", ".join(f"{n} of {codes.size} {name}" for name, n in counted if n) or "none"


def bounds_table(lower: object, upper: object, status: object) -> str:
    """Lower and upper bounds, cell by cell, and how many are TIGHT."""
    low, high, codes = np.broadcast_arrays(*map(np.asarray, (lower, upper, status)))
    rows = ((f"{index or ''}", low[index], high[index], names(codes[index])) for index in np.ndindex(codes.shape))
    return table(f"certified bounds: {names(codes)}", rows, ("cell", "lower", "upper", "status"))
