"""Write a sample of exact deltas from `exact_oracle.c` for the containment test.

    python tests/data/sample_exact_oracle.py --seed 1 --seconds 2400 --out tests/data/exact_sample.csv.gz

Points are drawn by `make_exact_oracle.py` (four of six over the whole domain, one everyday, one broad). Epsilon is where
fastacct puts the wanted delta: that decides only where the question is asked. Each delta is computed in 80-bit arithmetic
along two paths with different angles, sizes, offsets and steps; it is kept when both agree to 1e-13, and dropped (and
counted) when they do not or when one takes more than six seconds.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import random
import subprocess
import tempfile
import time
from pathlib import Path

import make_exact_oracle as oracle

import fastacct as fa

PATHS = ("75 2 0.02 1 0 0 0", "69 1.5 0.3 0.73 0.1 0.03 0.3")
SETS = ("random", "random", "random", "random", "everyday", "broad")


def answer(program: str, job: str) -> oracle.Value | None:
    """Return the oracle's value, None when it takes too long or doubts itself."""
    try:
        done = subprocess.run([program], input=job + "\n", capture_output=True, text=True, timeout=6, check=False)
    except subprocess.TimeoutExpired:
        return None
    value = oracle.read_value(done.stdout.split())
    return value if value.ok else None


def main() -> None:
    """Write the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--out", default="exact_sample.csv.gz")
    options = parser.parse_args()
    sources = {
        name: oracle.SETS[name](random.Random(options.seed * 7 + i))
        for i, name in enumerate(("random", "everyday", "broad"))
    }
    rows, dropped, stop = [], 0, time.time() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "exact_oracle")
        subprocess.run(
            ["gcc", "-O2", "-fcx-limited-range", "-o", program, str(oracle.SOURCE), "-lquadmath", "-lm"], check=True
        )
        for i in itertools.count():
            if time.time() > stop:
                break
            name = SETS[i % len(SETS)]
            point = next(sources[name])
            if point.q == 1 or point.steps == 1:
                continue
            epsilon = fa.dpsgd.epsilon(
                noise_multiplier=point.sigma, sample_rate=point.q, steps=point.steps, delta=point.delta
            )
            if not 0 < epsilon < 1e300:
                continue
            for direction in (1, -1):
                if direction < 0 and oracle.add_is_zero(point, epsilon):
                    continue
                where = f"{point.kind} {point.steps} eps={epsilon!r}"
                values = [answer(program, f"0 64 {direction} {where} {p} {oracle.arguments(point)}") for p in PATHS]
                if None in values or not oracle.agree(values[0], values[1], 1e-13):
                    dropped += 1
                    continue
                text = oracle.text(values[1].delta)
                rows.append(f"{name},{point.sigma!r},{point.q!r},{point.steps},{epsilon!r},{direction},{text}")
    with gzip.open(options.out, "wt") as file:
        file.write(f"# {parser.prog} --seed {options.seed}; 80-bit, two paths agree to 1e-13; dropped {dropped}\n")
        file.write("set,sigma,q,steps,eps,dir,delta\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
