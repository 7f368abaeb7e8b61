"""Reads the stored values of the oracle, and compares bounds with them exactly (floats are taken as the binary numbers
they are)."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

DATA = Path(__file__).parents[1] / "data" / "rdp_oracle.csv.gz"
TRUTHS = Path(__file__).parents[1] / "data" / "truths.csv"


class Points(NamedTuple):
    kind: list[str]
    sample_rate: NDArray[np.float64]
    noise_multiplier: NDArray[np.float64]
    order: NDArray[np.float64]
    rdp: list[Any]


def load(path: Path = DATA) -> Points:
    with gzip.open(path, "rt") as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))[1:]
    with mp.workprec(120):
        truth = [mpf(row[4]) for row in rows]
    columns = [np.array([float(row[i]) for row in rows]) for i in (1, 2, 3)]
    return Points([row[0] for row in rows], *columns, truth)


class Question(NamedTuple):
    """What `data/make_truths.py` asked: target is an epsilon or a delta, word a direction or a conversion."""

    quantity: str
    sigma: float
    sample_rate: float
    steps: int
    target: float
    word: str


def truths(path: Path = TRUTHS) -> dict[Question, Any]:
    """The values by question, to 20 digits."""
    with path.open() as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))[1:]
    with mp.workprec(120):
        return {
            Question(row[0], *map(float, row[1:3]), int(row[3]), float(row[4]), row[5]): mpf(row[6]) for row in rows
        }


def relative_excess(bound: Any, truth: list[Any]) -> NDArray[np.float64]:
    """(bound - truth) / truth, exactly rounded: its sign is the sign of the difference."""
    with mp.workprec(160):
        return np.array([float((mpf(float(b)) - t) / t) for b, t in zip(np.ravel(bound), truth, strict=True)])
