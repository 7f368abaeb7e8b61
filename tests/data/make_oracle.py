"""Write random oracle points of the sampled Gaussian's Renyi divergence as a gzipped CSV file.

    python tests/data/make_oracle.py --points 400 --seed 1 --out tests/data/rdp_oracle.csv.gz

Columns: kind, sample_rate, noise_multiplier, order (floats, shortest decimal that reads back to the same double) and
rdp (20 significant digits, certified to `--digits`). Comment lines at the top record the command, the versions and the
precision. The corners of the domain come first, then the random points. Every hundred lines are flushed to the disk,
so a run that was stopped early is readable up to there. A point that could not be certified is written with an empty rdp.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import math
import multiprocessing
import os
import platform
import random
import sys
import time
from collections.abc import Iterator

import mpmath

from fastacct import reference

Point = tuple[str, float, float, float]

SAMPLE_RATES = (1e-12, 1e-6, 0.5, 1.0 - 2.0**-53, 1.0)
NOISE_MULTIPLIERS = (0.03, 1.0, 1e4)
ORDERS = (1.0 + 2.0**-52, 1.0 + 1e-7, 2.0, 1e5 - 0.5, 1e5)
FLUSH_EVERY = 100


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high)


def random_points(rng: random.Random) -> Iterator[Point]:
    """Yield points of the hostile domain: integer orders, real orders, and the zone where M - 1 passes through 1."""
    for i in itertools.count():
        q = log_uniform(rng, 1e-12, 1.0) if rng.random() < 0.85 else 1.0 - log_uniform(rng, 1e-15, 1.0)
        q = min(max(q, 1e-12), 1.0)
        sigma = log_uniform(rng, 0.03, 1e4)
        if i % 3 == 0:
            yield "integer", q, sigma, float(round(log_uniform(rng, 2.0, 1e5)))
        elif i % 3 == 1:
            yield "real", q, sigma, 1.0 + log_uniform(rng, 1e-7, 1e5)
        else:
            # M - 1 passes through 1 where order / (2 sigma^2) is about log(1/q): sigma is chosen for an order in range
            order = 1.0 + log_uniform(rng, 1e-3, 1e5)
            size = max(-math.log(q), 1e-3) * log_uniform(rng, 0.5, 2.0)
            sigma = min(max(math.sqrt(order / (2.0 * size)), 0.03), 1e4)
            yield "transition", q, sigma, order


def points(number: int, seed: int) -> Iterator[Point]:
    """Yield the corners, then random points, `number` in all."""
    corners = (("corner", q, s, a) for q, s, a in itertools.product(SAMPLE_RATES, NOISE_MULTIPLIERS, ORDERS))
    return itertools.islice(itertools.chain(corners, random_points(random.Random(seed))), number)


def evaluate(job: tuple[Point, int]) -> str:
    """Return one line of the file."""
    (kind, q, sigma, order), digits = job
    try:
        value = mpmath.nstr(reference.rdp(sigma, q, order, digits=digits), 20, strip_zeros=False)
    except reference.NotConverged as error:
        print(f"not certified: {error}", file=sys.stderr, flush=True)
        value = ""
    return f"{kind},{q!r},{sigma!r},{order!r},{value}\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--points", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--digits", type=int, default=20, help="certified digits of each value")
    parser.add_argument("--out", required=True, help="file to write, .csv.gz")
    args = parser.parse_args()
    jobs = ((point, args.digits) for point in points(args.points, args.seed))
    command = f"make_oracle.py --points {args.points} --seed {args.seed} --digits {args.digits}"
    start = time.time()
    # mtime and name are fixed so that the same command writes the same bytes
    with (
        open(args.out, "wb") as raw,
        multiprocessing.Pool(args.processes) as pool,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out,
    ):
        out.write(
            f"# command: {command}\n# python {platform.python_version()}, mpmath {mpmath.__version__}"
            f" ({mpmath.libmp.BACKEND})\n# certified digits: {args.digits}; written digits: 20\n"
            "kind,sample_rate,noise_multiplier,order,rdp\n".encode()
        )
        for done, line in enumerate(pool.imap(evaluate, jobs, chunksize=4), 1):
            out.write(line.encode())
            if done % FLUSH_EVERY == 0:
                out.flush()
                raw.flush()
                os.fsync(raw.fileno())
                print(f"{done} points, {time.time() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
