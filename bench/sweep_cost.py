"""Fit the cost model of sweeps: seconds of a cell by noise multiplier, sample rate and steps, for each question.

python -m bench.sweep_cost [--write]     # a few minutes on a quiet machine; writes the table in fastacct/sweep/cost.py
python -m bench.sweep_cost --check       # predicted and measured times of ten random sweeps, calibrated in the same run
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

import fastacct as fa
from fastacct.sweep.cost import cell_features

COST: Final = Path(__file__).parents[1] / "fastacct" / "sweep" / "cost.py"
DELTAS: Final = np.geomspace(1e-9, 1e-4, 6)
QUESTIONS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "epsilon Exact": ("epsilon", {"delta": DELTAS}),
    "delta Exact": ("delta", {"epsilon": np.geomspace(0.1, 8.0, 6)}),
    "epsilon RDP": ("epsilon", {"delta": DELTAS, "accountant": fa.RDP()}),
    "rdp RDP": ("rdp", {"orders": np.geomspace(1.5, 64.0, 6)}),
    "noise_multiplier Exact": ("noise_multiplier", {"delta": 1e-5, "epsilon": np.geomspace(0.3, 6.0, 6)}),
    "sample_rate Exact": ("sample_rate", {"delta": 1e-5, "epsilon": np.geomspace(0.3, 6.0, 6)}),
    "steps Exact": ("steps", {"delta": 1e-5, "epsilon": np.geomspace(0.3, 6.0, 6)}),
}


def seconds_of_a_cell(quantity: str, run: dict[str, float], asked: dict[str, Any]) -> float:
    """The least of three calls over the targets, on one thread."""
    verb, known = getattr(fa.dpsgd, quantity), {name: value for name, value in run.items() if name != quantity}
    times = []
    for _ in range(3):
        start = time.perf_counter()
        verb(**known, **asked, threads=1)
        times.append(time.perf_counter() - start)
    return min(times) / 6.0


def fitted(count: int, seed: int) -> dict[str, list[float]]:
    """Least squares in logarithms over random runs; the worst tenth of the errors counts less."""
    rng, found = np.random.default_rng(seed), {}
    for key, (quantity, asked) in QUESTIONS.items():
        runs = np.exp(rng.uniform(*np.log([(0.4, 1e-5, 10.0), (16.0, 0.5, 1e5)]), (count, 3)))
        rows, logs = [], []
        for noise, rate, steps in runs:
            run = {"noise_multiplier": float(noise), "sample_rate": float(rate), "steps": int(steps)}
            logs.append(np.log(seconds_of_a_cell(quantity, run, asked)))
            typical = {name: value for name, value in run.items() if name != quantity}
            rows.append(cell_features(typical))
        x, y = np.array(rows, dtype=float), np.array(logs)
        weights = np.ones(count)
        for _ in range(5):
            scaled = np.sqrt(weights)[:, None]
            ridge = np.vstack([x * scaled, 1e-3 * np.eye(x.shape[1])])
            best = np.linalg.lstsq(ridge, np.append(y * scaled[:, 0], np.zeros(x.shape[1])), rcond=None)[0]
            error = np.abs(y - x @ best)
            weights = 1.0 / np.maximum(error / np.quantile(error, 0.9), 1.0)
        print(f"{key:24} mean {1e6 * np.exp(y).mean():8.2f} us, error of the logarithm: "
              f"median {np.median(error):.2f}, 90 % {np.quantile(error, 0.9):.2f}")  # fmt: skip
        found[key] = [float(f"{one:.4g}") if abs(one) > 1e-6 else 0.0 for one in best]
    return found


def checked(count: int, seed: int) -> None:
    """Predicted over measured time of random sweeps."""
    rng, ratios = np.random.default_rng(seed), []
    for _ in range(count):
        key = list(QUESTIONS)[rng.integers(len(QUESTIONS))]
        quantity, asked = QUESTIONS[key]
        lengths = rng.integers(2, 40, 3)
        low = np.exp(rng.uniform(np.log([0.5, 1e-4, 50.0]), np.log([2.0, 1e-2, 2000.0])))
        high = low * np.exp(rng.uniform(0.2, 2.5, 3))
        axes = {
            "noise_multiplier": np.geomspace(low[0], high[0], lengths[0]),
            "sample_rate": np.geomspace(low[1], min(high[1], 0.9), lengths[1]),
            "steps": np.unique(np.geomspace(low[2], high[2], lengths[2]).astype(int)),
        }
        axes = {name: axis for name, axis in axes.items() if name != quantity}
        sweep = fa.sweep(**axes, **asked)
        predicted = sweep.estimate()
        start = time.perf_counter()
        sweep.compute()
        spent = time.perf_counter() - start
        ratios.append(predicted.seconds / spent)
        print(f"{key:24} {predicted.cells:9,} cells: predicted {predicted.seconds:8.3f} s, measured {spent:8.3f} s, "
              f"ratio {ratios[-1]:.2f}")  # fmt: skip
    off = np.exp(np.abs(np.log(ratios))) - 1.0
    print(f"off by {100 * np.median(off):.0f} % in the median, {100 * np.max(off):.0f} % at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        checked(10, given.seed)
        return
    found = fitted(given.count, given.seed)
    text = "MODEL: Final[dict[str, tuple[float, ...]]] = {\n"
    text += "".join(f'    "{key}": {tuple(values)},\n' for key, values in found.items()) + "}\n"
    print(text)
    if given.write:
        COST.write_text(re.sub(r"MODEL: Final.*?\}\n", text, COST.read_text(), count=1, flags=re.S))


if __name__ == "__main__":
    main()
