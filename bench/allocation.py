"""Random allocation on random runs: how many epsilons are certified, how narrowly, and how long they take.

python -m bench.allocation [seconds] [seed]
"""

import sys
import time
from itertools import pairwise

import numpy as np

import fastacct as fa

BOUNDS = (2, 100, 1000, 5000, 20_000)


def measured(seconds: float, seed: int) -> np.ndarray:
    """Rows of steps, status, relative width and milliseconds, each of a run not seen before."""
    rng, rows, start = np.random.default_rng(seed), [], time.perf_counter()
    while time.perf_counter() - start < seconds:
        noise, delta = (float(np.exp(rng.uniform(*np.log(one)))) for one in ((0.4, 8.0), (1e-10, 1e-3)))
        steps, epochs = (int(np.exp(rng.uniform(*np.log(one)))) for one in ((2, 20_000), (1, 300)))
        begin = time.perf_counter()
        found = fa.epsilon_bounds(fa.Gaussian(noise).allocation(steps) * epochs, delta=delta)
        rows.append((steps, found.status, 1.0 - found.lower / found.upper, 1e3 * (time.perf_counter() - begin)))
    return np.array(rows, dtype=np.float64)


def main() -> None:
    seconds, seed = (float(sys.argv[1]) if len(sys.argv) > 1 else 60.0), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rows = measured(seconds, seed)
    print("| steps of an epoch | runs | TIGHT | to 1e-9 | ms, median | ms, mean |")
    print("|---|---|---|---|---|---|")
    for low, high in [*pairwise(BOUNDS), (BOUNDS[0], BOUNDS[-1])]:
        mine = rows[(rows[:, 0] >= low) & (rows[:, 0] < high)]
        tight, narrow = np.mean(mine[:, 1] == 0), np.mean(mine[:, 2] <= 1e-9)
        times = f"{np.median(mine[:, 3]):.0f} | {mine[:, 3].mean():.0f}"
        print(f"| {low} to {high} | {len(mine)} | {tight:.1%} | {narrow:.1%} | {times} |")


if __name__ == "__main__":
    main()
