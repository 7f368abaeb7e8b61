"""The table of limits in docs/guarantees.md: how long random questions take, and how many answers are certified.

python -m bench.limits          # writes it; 3 minutes of processor time
python -m bench.limits --share 0.1 --print
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import fastacct as fa
from bench.stamp import measured_with

PAGE: Final = Path(__file__).parent.parent / "docs" / "guarantees.md"
MARK: Final = "<!-- made by python -m bench.limits -->"
Draw = Callable[[float, float], float]
Question = Callable[[Draw], Callable[[], fa.Bounds]]


def run_of(noise: tuple[float, float], delta: float = 1e-18, rare: bool = False) -> Question:
    """Epsilon of a run of DP-SGD; `rare`: a record takes part less than once."""

    def made(draw: Draw) -> Callable[[], fa.Bounds]:
        rate = draw(1e-7, 1.0)
        steps = np.ceil(draw(1e-3, 1.0) / rate) if rare else np.ceil(draw(1.0, 1e7))
        run = {"noise_multiplier": draw(*noise), "sample_rate": rate, "steps": steps, "delta": draw(delta, 0.5)}
        if rare and delta < 1e-18:
            run["delta"] = draw(delta, 1e-18)
        return lambda: fa.dpsgd.epsilon_bounds(**run)

    return made


def sample_of(job: Callable[[Draw, Any], Any], neighbors: Any = "add_remove") -> Question:
    """Epsilon of steps on a Poisson sample, of which the job is made."""

    def made(draw: Draw) -> Callable[[], fa.Bounds]:
        rate, steps = draw(1e-4, 0.1), int(draw(1.0, 1e5))
        given = job(draw, fa.Gaussian(draw(0.5, 20.0)).poisson(rate)) * steps
        delta = draw(1e-10, 1e-2)
        return lambda: fa.epsilon_bounds(given, delta=delta, neighbors=neighbors)

    return made


def batch_of(sampling: Any, steps: tuple[float, float], neighbors: Any = "add_remove") -> Question:
    """Epsilon of batches that are no Poisson samples."""

    def made(draw: Draw) -> Callable[[], fa.Bounds]:
        records = int(draw(1e3, 1e6))
        size = max(1, int(records * draw(1e-3, 0.3)))
        run: dict[str, Any] = {"noise_multiplier": draw(0.5, 10.0), "records": records, "batch_size": size}
        number = int(draw(*steps))
        if sampling == "allocation":
            run |= {"records": number, "batch_size": 1, "epochs": int(draw(1.0, 30.0))}
        else:
            run["steps"] = number
        delta = draw(1e-8, 1e-3)
        return lambda: fa.dpsgd.epsilon_bounds(**run, sampling=sampling, neighbors=neighbors, delta=delta)

    return made


def mixed(draw: Draw) -> Callable[[], fa.Bounds]:
    """Epsilon of two to four kinds of mechanisms in one job."""
    kinds: list[Callable[[], Any]] = [
        lambda: fa.Laplace(draw(1.0, 50.0)),
        lambda: fa.Laplace(draw(1.0, 10.0)).poisson(draw(1e-3, 0.3)),
        lambda: fa.DiscreteGaussian(draw(2.0, 30.0)),
        lambda: fa.DiscreteLaplace(draw(2.0, 30.0)),
        lambda: fa.PureDP(draw(0.01, 0.5)),
        lambda: fa.Gaussian(draw(1.0, 30.0)),
    ]
    order = sorted(range(len(kinds)), key=lambda _: draw(1.0, 2.0))[: 2 + int(draw(1.0, 4.0) - 1e-9) % 3]
    job = sum((kinds[i]() * int(draw(1.0, 50.0)) for i in order), fa.Process())
    delta = draw(1e-10, 1e-3)
    return lambda: fa.epsilon_bounds(job, delta=delta)


def mixture(draw: Draw, step: Any) -> Any:
    """A user's own Gaussian mixture in the place of a step."""
    weight = draw(0.01, 0.9)
    return fa.GaussianMixture(draw(0.5, 20.0), [(1.0 - weight, 0.0), (weight / 2, 0.5), (weight / 2, 1.0)])


ROWS: Final[list[tuple[str, int, Question]]] = [
    ("runs: rates 1e-7 to 1, noise 0.3 to 50, up to 1e7 steps, deltas 1e-18 to 0.5", 4000, run_of((0.3, 50.0))),
    ("the same, noise 0.05 to 0.1", 300, run_of((0.05, 0.1))),
    ("the same, noise 0.03 to 0.05", 100, run_of((0.03, 0.05))),
    ("runs in which a record takes part less than once", 2000, run_of((0.3, 50.0), rare=True)),
    ("the same, deltas 1e-60 to 1e-18", 500, run_of((0.3, 50.0), 1e-60, True)),
    ("groups of 2 to 100 records of a run", 300, sample_of(lambda draw, step: step.group(int(draw(2.0, 100.0))))),
    ("a record of a run is replaced", 300, sample_of(lambda draw, step: step, "replace_one")),
    ("Gaussian mixtures of your own", 300, sample_of(mixture)),
    ("two to four of: Laplace, discrete noise, samples, responses, Gaussian noise", 150, mixed),
    ("random allocation, 2 to 20,000 steps an epoch", 60, batch_of("allocation", (2.0, 2e4))),
    (
        "batches of fixed size, a record is replaced: an interval",
        60,
        batch_of("fixed_size", (10.0, 1e4), "replace_one"),
    ),
    ("draws with replacement", 30, batch_of("with_replacement", (10.0, 1e4))),
]


def duration(seconds: float) -> str:
    """A time in two digits."""
    unit, size = next((one for one in (("us", 1e-6), ("ms", 1e-3)) if seconds < 1e3 * one[1]), ("s", 1.0))
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"


def row(name: str, count: int, question: Question, seed: int) -> str:
    rng = np.random.default_rng(seed)

    def draw(low: float, high: float) -> float:
        return float(low * (high / low) ** rng.random())

    seconds, widths = [], []
    for _ in range(count):
        ask = question(draw)
        start = time.process_time()
        lower, upper, _ = ask()
        seconds.append(time.process_time() - start)
        widths.append((upper - lower) / upper if 0.0 < upper < np.inf else float(upper > 0.0))
    parts = [float(np.mean(np.array(widths) <= limit)) for limit in (1e-9, 1e-6)]
    shares = [f"{math.floor(1e3 * part + 1e-9) / 10:g} %" for part in parts]
    times = [duration(float(found)) for found in (np.mean(seconds), np.quantile(seconds, 0.99), np.max(seconds))]
    return f"| {name} | {count:,} | {' | '.join(times)} | {' | '.join(shares)} |"


def table(share: float = 1.0) -> str:
    fa.epsilon_bounds(fa.Gaussian(1.0) + fa.Laplace(2.0), delta=1e-6)  # imports, and constants that are kept
    rows = [row(name, max(2, int(share * count)), ask, 1 + i) for i, (name, count, ask) in enumerate(ROWS)]
    head = "| random questions | asked | mean time | 99 % within | slowest | within 1e-9 | within 1e-6 |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows, "", f"Measured with {measured_with()}."])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--print", action="store_true")
    given = parser.parse_args()
    made = table(given.share)
    if given.print:
        print(made)
        return 0
    before, _, after = PAGE.read_text().split(MARK)
    PAGE.write_text(f"{before}{MARK}\n{made}\n{MARK}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
