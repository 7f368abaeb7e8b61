"""Tables of scores, which audits read."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Floats

_FLAGS: Final = {"1": True, "0": False, "true": True, "false": False}


def scores_in(path: Path) -> tuple[Floats, NDArray[np.bool_]]:
    """The columns `score` and `member` (1 or 0, true or false) of a CSV file."""
    with path.open(newline="", encoding="utf-8-sig") as lines:
        table = csv.DictReader(lines)
        if missing := {"score", "member"} - set(table.fieldnames or ()):
            raise ValueError(f"{path}: has no column {min(missing)!r}; its first line must name score and member")
        scores, inside = [], []
        for row in table:
            where, flag = f"{path}, line {table.line_num}", _FLAGS.get((row["member"] or "").strip().lower())
            try:
                scores.append(float(row["score"] or ""))
            except ValueError:
                raise ValueError(f"{where}: score {row['score']!r} is not a number") from None
            if flag is None:
                raise ValueError(f"{where}: member {row['member']!r} is none of 1, 0, true, false")
            inside.append(flag)
    return np.array(scores), np.array(inside, dtype=np.bool_)
