"""Write random oracle points of the exact privacy profile as a gzipped CSV file.

    python tests/data/make_exact_oracle.py --set random --points 350 --seed 1 --out tests/data/exact_oracle.csv.gz

Every value is computed by `exact_oracle.c` (compiled on the spot) along two different contours with different steps, in
80-bit arithmetic; where the two disagree or the error estimate is too large, both are computed again in 128-bit
arithmetic, and a point that still disagrees is dropped and counted. Columns: kind, sample_rate, noise_multiplier, steps,
group (size of the group, 1 elsewhere), epsilon (floats: the shortest decimal that reads back to the same double),
delta_remove and delta_add (20 written digits, good to `--tolerance`; 0 where it is exactly 0), slope_remove and
slope_add (d log(delta) / d epsilon, for orientation).
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
from mpmath import mp, mpf

SOURCE = Path(__file__).with_name("exact_oracle.c")

CONTOURS = ("75 2 0 1 0 0", "69 1.5 0.2 0.73 0.1 0.03", "72 1 -0.1 0.85 -0.1 0.02", "78 2.5 0.1 0.6 0.05 -0.02")
"""Angle in degrees, size and offset in widths of the saddle, factor of the z step, changes of Y0 and m."""

ESTIMATE = 4e-15
"""Largest error estimate of a value that is accepted from 80-bit arithmetic."""


class Point(NamedTuple):
    kind: str
    q: float
    sigma: float
    steps: int
    group: int
    delta: float
    """What is aimed at; if negative, its negation is epsilon itself."""


class Value(NamedTuple):
    delta: Any
    slope: float
    estimate: float
    ok: bool


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high)


def random_points(rng: random.Random) -> Iterator[Point]:
    """Yield points of the whole domain; every fiftieth is not sampled at all."""
    for i in itertools.count():
        q = 1.0 if i % 50 == 49 else log_uniform(rng, 1e-7, 1.0)
        sigma = log_uniform(rng, 0.3, 50.0)
        steps = round(log_uniform(rng, 1, 1e7))
        yield Point("sgm", q, sigma, steps, 1, log_uniform(rng, 1e-18, 0.5))


def everyday_points(rng: random.Random) -> Iterator[Point]:
    """Yield ordinary training runs."""
    while True:
        q = log_uniform(rng, 1e-4, 0.1)
        steps = round(log_uniform(rng, 1.0, 300.0) / q)
        yield Point("sgm", q, log_uniform(rng, 0.5, 8.0), steps, 1, log_uniform(rng, 1e-9, 1e-4))


def broad_points(rng: random.Random) -> Iterator[Point]:
    """Yield runs whose steps do not depend on the rate."""
    while True:
        steps = round(log_uniform(rng, 1e2, 1e5))
        yield Point(
            "sgm", log_uniform(rng, 1e-4, 0.1), log_uniform(rng, 0.4, 8.0), steps, 1, log_uniform(rng, 1e-9, 1e-4)
        )


def tiny_points(rng: random.Random) -> Iterator[Point]:
    """Yield tiny deltas."""
    for i in itertools.count():
        delta = (1e-15, 1e-30, 1e-100, 1e-300)[i % 4]
        steps = round(log_uniform(rng, 1, 1e6))
        yield Point("sgm", log_uniform(rng, 1e-6, 1.0), log_uniform(rng, 0.3, 30.0), steps, 1, delta)


def low_noise_points(rng: random.Random) -> Iterator[Point]:
    """Yield little noise and large epsilons."""
    while True:
        steps = round(log_uniform(rng, 1, 1e4))
        yield Point(
            "sgm", log_uniform(rng, 1e-4, 1.0), log_uniform(rng, 0.05, 0.3), steps, 1, log_uniform(rng, 1e-12, 1e-2)
        )


def mixture_points(rng: random.Random) -> Iterator[Point]:
    """Yield replace-one pairs and groups of 2 to 8."""
    for i in itertools.count():
        q, sigma = log_uniform(rng, 1e-5, 0.5), log_uniform(rng, 0.5, 10.0)
        steps, delta = round(log_uniform(rng, 1, 1e5)), log_uniform(rng, 1e-15, 0.1)
        if i % 3 == 0:
            yield Point("replace", q, sigma, steps, 1, delta)
        else:
            yield Point("group", q, sigma, steps, rng.randint(2, 8), delta)


def few_points(rng: random.Random) -> Iterator[Point]:
    """Yield one to three steps; half of them near the maximal loss of the add direction."""
    for i in itertools.count():
        steps, q = 1 + i % 3, log_uniform(rng, 1e-7, 0.999)
        sigma = log_uniform(rng, 0.3, 20.0)
        if i % 2:
            yield Point("sgm", q, sigma, steps, 1, log_uniform(rng, 1e-15, 0.3))
        else:
            largest = -steps * math.log1p(-q)
            short = log_uniform(rng, 1e-6, 1.0) if i % 4 else -log_uniform(rng, 1e-6, 1.0)
            yield Point("sgm", q, sigma, steps, 1, -(largest * (1 - short)))


SETS = {
    "random": random_points,
    "everyday": everyday_points,
    "broad": broad_points,
    "tiny": tiny_points,
    "low_noise": low_noise_points,
    "mixture": mixture_points,
    "few": few_points,
}


class Program:
    """The compiled program; one job a line."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "exact_oracle"
        command = ["gcc", "-O2", "-fcx-limited-range", "-o", str(self.path), str(SOURCE), "-lquadmath", "-lm"]
        subprocess.run(command, check=True)

    def run(self, jobs: Iterable[str]) -> Iterator[list[str]]:
        """Yield the words of every answer, in the order of the jobs."""
        with tempfile.TemporaryFile("w+") as source:
            source.writelines(job + "\n" for job in jobs)
            source.flush()
            source.seek(0)
            with subprocess.Popen([str(self.path)], stdin=source, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    yield line.split()


def arguments(point: Point) -> str:
    return f"{point.sigma!r} {point.q!r}" + (f" {point.group}" if point.kind == "group" else "")


def choose_epsilons(program: Program, points: list[Point]) -> list[tuple[Point, float]]:
    """Return the points that have an epsilon >= 0 at about their delta."""
    ready = [(p, -p.delta) for p in points if p.delta < 0]
    wanted = [p for p in points if p.delta > 0 and p.q < 1]
    jobs = [f"{i} 64 1 {p.kind} {p.steps} delta={p.delta!r} 0 0 0 0 0 0 {arguments(p)}" for i, p in enumerate(wanted)]
    for point, words in zip(wanted, program.run(jobs), strict=True):
        ready.append((point, float(words[1])))
    for point in points:
        if point.delta > 0 and point.q == 1:
            ready.append((point, float(gaussian_epsilon(point))))
    order = {id(p): i for i, p in enumerate(points)}
    ready.sort(key=lambda pair: order[id(pair[0])])
    return [(p, eps) for p, eps in ready if eps >= 0 and math.isfinite(eps)]


def gaussian_log_delta(mu: Any, eps: Any) -> Any:
    with mp.workdps(60 + int(mp.log10(1 + eps * eps / (mu * mu)))):
        x = (mu / 2 - eps / mu) / mp.sqrt(2)
        y = (mu / 2 + eps / mu) / mp.sqrt(2)
        return mp.log((mp.erfc(-x) - mp.exp(eps) * mp.erfc(y)) / 2)


def gaussian_epsilon(point: Point) -> Any:
    mu = mp.sqrt(point.steps) / mpf(point.sigma)
    low, high = mpf(0), mu * mu + mu * 10 + mu * mp.sqrt(-2 * mp.log(mpf(point.delta)))
    if gaussian_log_delta(mu, low) < mp.log(mpf(point.delta)):
        return mpf(-1)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_log_delta(mu, middle) > mp.log(mpf(point.delta)) else (low, middle)
    return low


def gaussian_value(point: Point, eps: float) -> Value:
    """Return the closed form of a run that is not sampled."""
    with mp.workdps(60):
        mu = mp.sqrt(point.steps) / mpf(point.sigma)
        log_delta = gaussian_log_delta(mu, mpf(eps))
        h = mpf(10) ** -20
        slope = (gaussian_log_delta(mu, mpf(eps) + h) - log_delta) / h
        return Value(mp.exp(log_delta), float(slope), 0.0, True)


def read_value(words: list[str]) -> Value:
    with mp.workdps(40):
        delta = mpf(words[2]) * mp.exp(mpf(words[3]))
    return Value(delta, float(words[4]), float(words[5]), words[-1] == "1" and delta > 0)


def add_is_zero(point: Point, eps: float) -> bool:
    """Return whether eps is beyond the largest loss of the add direction."""
    with mp.workdps(60):
        return bool(mpf(eps) >= -point.steps * point.group * mp.log1p(-mpf(point.q)))


def agree(a: Value, b: Value, tolerance: float) -> bool:
    return a.ok and b.ok and bool(abs(a.delta / b.delta - 1) <= tolerance)


class Maker:
    """Evaluates points and keeps count of what happened to them."""

    def __init__(self, program: Program, tolerance: float) -> None:
        self.program, self.tolerance = program, tolerance
        self.n_long = self.n_quad = self.n_dropped = 0
        self.worst = 0.0
        self.dropped: list[str] = []

    def values(self, items: list[tuple[Point, float, int]]) -> list[Value | None]:
        """Return the certified values of (point, eps, direction)."""
        found: list[Value | None] = [None] * len(items)
        todo = list(range(len(items)))
        for bits, contours in (("64", CONTOURS[:2]), ("113", CONTOURS[:2]), ("113", CONTOURS[2:])):
            jobs = []
            for i in todo:
                p, eps, direction = items[i]
                jobs += [
                    f"{i} {bits} {direction} {p.kind} {p.steps} eps={eps!r} {contour} {arguments(p)}"
                    for contour in contours
                ]
            answers = self.program.run(jobs)
            again = []
            for i in todo:
                a, b = read_value(next(answers)), read_value(next(answers))
                limit = self.tolerance / 4 if bits == "64" else self.tolerance / 100
                if agree(a, b, limit) and (bits != "64" or max(a.estimate, b.estimate) < ESTIMATE):
                    found[i] = b
                    self.worst = max(self.worst, float(abs(a.delta / b.delta - 1)))
                    if bits == "64":
                        self.n_long += 1
                    else:
                        self.n_quad += 1
                else:
                    again.append(i)
            todo = again
            if not todo:
                break
        self.n_dropped += len(todo)
        self.dropped += [str(items[i]) for i in todo]
        return found

    def rows(self, points: list[Point]) -> Iterator[list[str]]:
        """Yield the finished rows of a batch of points."""
        chosen = choose_epsilons(self.program, points)
        items: list[tuple[Point, float, int]] = []
        for p, eps in chosen:
            if p.q < 1:
                items.append((p, eps, 1))
                if p.kind != "replace" and not add_is_zero(p, eps):
                    items.append((p, eps, -1))
        found = dict(zip(items, self.values(items), strict=True))
        for p, eps in chosen:
            if p.q == 1:
                remove = add = gaussian_value(p, eps)
            else:
                remove = found[p, eps, 1]
                if p.kind == "replace":
                    add = remove
                elif add_is_zero(p, eps):
                    add = Value(mpf(0), -math.inf, 0.0, True)
                else:
                    add = found[p, eps, -1]
            if remove is None or add is None:
                continue
            yield [
                p.kind, repr(p.q), repr(p.sigma), str(p.steps), str(p.group), repr(eps),
                text(remove.delta), text(add.delta), f"{remove.slope:.12g}", f"{add.slope:.12g}",
            ]  # fmt: skip


def text(value: Any) -> str:
    return "0" if value == 0 else str(mpmath.nstr(value, 20, strip_zeros=False))


HEADER = "kind,sample_rate,noise_multiplier,steps,group,epsilon,delta_remove,delta_add,slope_remove,slope_add"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--set", choices=sorted(SETS), default="random")
    parser.add_argument("--points", type=int, default=350)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-14, help="largest relative disagreement of two contours")
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--out", required=True, help="file to write, .csv.gz")
    args = parser.parse_args()
    program = Program()
    maker = Maker(program, args.tolerance)
    source = SETS[args.set](random.Random(args.seed))
    command = f"make_exact_oracle.py --set {args.set} --points {args.points} --seed {args.seed}"
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    start, done = time.time(), 0
    # mtime and name are fixed so that the same command writes the same bytes
    with open(args.out, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
        out.write(
            f"# command: {command}\n# {compiler}, python {platform.python_version()}, mpmath {mpmath.__version__}\n"
            f"# two contours agree to {args.tolerance:g} (80-bit: to a quarter of it, else 128-bit: to a hundredth);"
            f" written digits: 20\n{HEADER}\n".encode()
        )
        while done < args.points:
            for row in maker.rows(list(itertools.islice(source, args.batch))):
                if done < args.points:
                    out.write((",".join(row) + "\n").encode())
                    done += 1
            out.flush()
            raw.flush()
            os.fsync(raw.fileno())
            print(
                f"{done} points, {time.time() - start:.0f} s; values in 80 bits {maker.n_long}, in 128 bits"
                f" {maker.n_quad}, dropped {maker.n_dropped}; worst disagreement {maker.worst:.1e}",
                file=sys.stderr,
                flush=True,
            )
    for item in maker.dropped:
        print("dropped:", item, file=sys.stderr)


if __name__ == "__main__":
    main()
