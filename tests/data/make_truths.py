"""Write values of the oracle that the tests compare with: they never change, and take a minute.

    python -m tests.data.make_truths tests/data/truths.csv

Columns: quantity, sigma, sample_rate, steps, target (floats, shortest decimals that read back to the same double), word
(direction of the exact quantities, conversion of the others) and value (20 significant digits, certified to `DIGITS`).
`tests/reference/test_truths.py` computes some of them again.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from fastacct import reference

DIGITS = {"exact_delta": 16, "exact_epsilon": 16, "rdp_epsilon": 18, "rdp_delta": 18, "kullback_leibler": 18}
CONVERSIONS = ("mironov", "canonne_kamath_steinke")
RUNS = [
    # sigma, q, steps, epsilon
    (1.0, 0.01, 1000, 0.0),
    (1.0, 0.01, 1000, 1.5),
    (0.8, 0.3, 2, 0.2),
    (1.5, 0.05, 2, 1.0),
    (10.0, 0.5, 100_000, 20.0),
    (1.0, 0.001, 100_000, 0.5),
    (5.0, 0.2, 1000, 2.0),
    (2.0, 0.3, 20, 3.0),
]
TAILS = [
    # sigma, q, steps, delta, direction; the delta of the double next to each epsilon is written, too
    (1.5, 0.02, 1000, 1e-15, "remove"),
    (2.0, 0.3, 50, 1e-30, "remove"),
    (2.0, 0.3, 50, 1e-30, "add"),
    (5.0, 0.05, 10_000, 1e-15, "add"),
    *((1.0, 0.01, 1000, delta, "remove") for delta in (1e-5, 1e-11, 1e-12, 1e-13, 1e-14, 1e-30)),
]

Row = tuple[str, float, float, int, float, str]


def value(row: Row) -> Any:
    """One value of the oracle."""
    quantity, sigma, q, steps, target, word = row
    digits = DIGITS[quantity]
    ways: dict[str, Callable[[], Any]] = {
        "exact_delta": lambda: reference.exact_delta(sigma, q, steps, target, direction=word, digits=digits),
        "exact_epsilon": lambda: reference.exact_epsilon(sigma, q, steps, target, direction=word, digits=digits),
        "rdp_epsilon": lambda: reference.rdp_epsilon(sigma, q, steps, target, word, digits=digits)[0],
        "rdp_delta": lambda: reference.rdp_delta(sigma, q, steps, target, word, digits=digits)[0],
        "kullback_leibler": lambda: steps * reference.rdp(sigma, q, 1, digits=digits),
    }
    with mpmath.mp.workdps(30):
        return +ways[quantity]()


def random_runs(n: int, seed: int) -> Iterator[tuple[float, float, int, float]]:
    """Noise multiplier, sample rate, steps and delta, log-uniform in a domain far wider than that of runs."""
    rng = np.random.default_rng(seed)
    sigma, q = 10 ** rng.uniform(-1.2, 3, n), 10 ** rng.uniform(-9, 0, n)
    steps, delta = np.floor(10 ** rng.uniform(0, 8, n)), 10 ** rng.uniform(-60, -1, n)
    for row in zip(sigma.tolist(), q.tolist(), steps.tolist(), delta.tolist(), strict=True):
        yield row[0], row[1], int(row[2]), row[3]


def rows() -> Iterator[tuple[Row, Any]]:
    """All rows with their values."""

    def asked(*row: Any) -> tuple[Row, Any]:
        return row, value(row)

    for run in RUNS:
        for direction in ("remove", "add"):
            yield asked("exact_delta", *run, direction)
    for tail in TAILS:
        found = asked("exact_epsilon", *tail)
        yield found
        yield asked("exact_delta", *tail[:3], float(found[1]), tail[4])
    for run in random_runs(8, 7):
        for conversion in CONVERSIONS:
            yield asked("rdp_epsilon", *run, conversion)
        yield asked("kullback_leibler", *run[:3], 0.0, "")
    rng = np.random.default_rng(8)
    for sigma, q, steps, _ in random_runs(6, 9):
        yield asked("rdp_delta", sigma, q, steps, float(10 ** rng.uniform(-2, 2)), CONVERSIONS[1])
        yield asked("kullback_leibler", sigma, q, steps, 0.0, "")


def main(out: Path) -> None:
    """Write the file."""
    with out.open("w") as file:
        print("# python -m tests.data.make_truths tests/data/truths.csv", file=file)
        print(f"# Python {platform.python_version()}, mpmath {mpmath.__version__}, digits {DIGITS}", file=file)
        print("quantity,sigma,sample_rate,steps,target,word,value", file=file)
        for row, found in rows():
            print(*map(str, row), mpmath.nstr(found, 20), sep=",", file=file, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
