"""Write a large sample of exact deltas from `exact_oracle.c` for containment tests.

    python tests/data/sample_exact_oracle_large.py --seed 2 --seconds 430 --retry 60 --out run2.csv.gz
    python tests/data/sample_exact_oracle_large.py --seed 1 --known partial.csv --work 4e6 --retry 0 \\
        --others run2.csv.gz --out tests/data/exact_sample_large.csv.gz

Nothing here asks fastacct anything. A draw is a kind, sigma, q, steps, direction and wanted delta; the epsilon is where
the saddle of the oracle's own integrand has about that delta (where few take part: where that many single steps have).
Up to eight other epsilons, at deltas within a factor e^6, share the draw's path: M(u) is computed once for all of them.
Each delta is computed in 80-bit arithmetic along two paths that share no node: angles, sizes and vertices of the
contours, steps and slopes of the inner paths and places of the splits differ. A row is kept when two of up to three
paths agree to `AGREE`. Draws that do not (or take more than `--work` nodes a path) are asked again at the end with more
work and, if the paths disagree, in 128-bit arithmetic, while `--retry` seconds last; what is left is dropped, and counted
by kind and by regime in the header. One step, and no sampling (q = 1), are closed forms in 90 digits.

One process of the C program answers all jobs, each under a limit on its nodes. Partial results are written as they come;
a run that was stopped can be taken up again from them (`--known`, same seed), perhaps with more work.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import math
import platform
import random
import select
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import make_exact_oracle as oracle
from make_exact_oracle import log_uniform
from mpmath import mp, mpf

PATHS = ("75 2 0.02 1 0 0 0", "69 1.5 0.3 0.73 0.1 0.03 0.3", "72 1 0.1 0.85 -0.1 0.02 -0.2")
"""Of the contour: angle, size, rise of the vertex; of the inner path: factor of the step, changes of Y0 and m; change
of the split."""

AGREE = 1e-12
"""Largest relative difference of two paths."""
LOOSE = 1e-17
"""What the C program aims at for each node."""
WORK = 2.2e6
WORK_RETRY = 8e6
WORK_QUAD = 4e5
"""Largest numbers of nodes of a path: at first, when asked again, and in 128 bits."""
FAR = math.log(1e-18) - 15
"""Below this log of delta nothing is computed."""
RATIO = 3e3
"""Largest sum of absolute values over value of an epsilon that shares the path of another."""
SHARED = 8
"""Epsilons that share the path of the first; their deltas are within a factor e^6 of its."""
LOW, HIGH = 1e-18, 0.5
COLUMNS = ("kind", "sigma", "q", "steps", "eps", "dir", "delta", "gap", "method")


class Draw(NamedTuple):
    kind: str
    sigma: float
    q: float
    steps: int
    direction: int
    delta: float
    """What is aimed at; 0 for epsilon = 0."""
    low: float
    high: float


def random_run(rng: random.Random) -> tuple[float, float, int, float, float]:
    q = 1.0 if rng.random() < 0.04 else log_uniform(rng, 1e-7, 1.0)
    return log_uniform(rng, 0.3, 50.0), q, round(log_uniform(rng, 1, 1e7)), LOW, HIGH


def everyday_run(rng: random.Random) -> tuple[float, float, int, float, float]:
    q = log_uniform(rng, 1e-4, 0.1)
    return log_uniform(rng, 0.5, 8.0), q, round(log_uniform(rng, 1, 300) / q), 1e-9, 1e-4


def broad_run(rng: random.Random) -> tuple[float, float, int, float, float]:
    q = log_uniform(rng, 1e-4, 0.1)
    return log_uniform(rng, 0.5, 8.0), q, round(log_uniform(rng, 1e2, 1e5)), 1e-9, 1e-4


def few_participations_run(rng: random.Random) -> tuple[float, float, int, float, float]:
    while True:
        steps = round(log_uniform(rng, 2, 1e7))
        q = log_uniform(rng, 1e-5, 1.0) / steps
        if q >= 1e-7:
            return log_uniform(rng, 0.3, 4.0), q, steps, LOW, HIGH


def few_steps_run(rng: random.Random) -> tuple[float, float, int, float, float]:
    return log_uniform(rng, 0.3, 50.0), log_uniform(rng, 1e-7, 1.0), rng.randint(2, 20), LOW, HIGH


def tiny_delta_run(rng: random.Random) -> tuple[float, float, int, float, float]:
    q = log_uniform(rng, 1e-7, 1.0)
    return log_uniform(rng, 0.3, 50.0), q, round(log_uniform(rng, 1, 1e7)), LOW, 1e-12


KINDS: dict[str, tuple[Callable[[random.Random], tuple[float, float, int, float, float]], int]] = {
    "random": (random_run, 62),
    "everyday": (everyday_run, 8),
    "broad": (broad_run, 8),
    "few_participations": (few_participations_run, 8),
    "few_steps": (few_steps_run, 7),
    "tiny_delta": (tiny_delta_run, 7),
}


def draws(rng: random.Random) -> Iterator[Draw]:
    """Yield runs with a wanted delta; one in seventy asks for epsilon = 0."""
    names = list(KINDS)
    weights = [KINDS[name][1] for name in names]
    while True:
        kind = rng.choices(names, weights)[0]
        sigma, q, steps, low, high = KINDS[kind][0](rng)
        delta = 0.0 if rng.random() < 1 / 70 else log_uniform(rng, low, high)
        yield Draw(kind, sigma, q, steps, rng.choice((1, -1)), delta, low, high)


class Program:
    """The compiled program, kept running; an answer that does not come in time starts it anew."""

    def __init__(self, folder: str) -> None:
        self.path = str(Path(folder) / "exact_oracle")
        command = ["gcc", "-O2", "-fcx-limited-range", "-o", self.path, str(oracle.SOURCE), "-lquadmath", "-lm"]
        subprocess.run(command, check=True)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def ask(self, job: str, work: float = WORK) -> list[str]:
        """Return the words of the answer, [] if there is none."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"set {LOOSE!r} {work!r} {FAR!r}\n{job}\n".encode())
        text, patience = b"", time.time() + 60 + work / 1e5
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, patience - time.time()))
            part = self.process.stdout.read(4096) if ready else b""
            if not part:
                self.process.kill()
                self.process.wait()
                self.start()
                return []
            text += part
        return text.decode().split()

    def values(self, draw: Draw, epsilons: list[float], path: str, bits: int, work: float) -> list[Any] | None:
        """Return the delta of every epsilon along one path (NaN where the path is too far for it), None without success.

        All are 0 where the delta of the first is far below the smallest of interest.
        """
        texts = ",".join(map(repr, epsilons))
        job = f"0 {bits} {draw.direction} sgm {draw.steps} eps={texts} {path} {draw.sigma!r} {draw.q!r}"
        words = self.ask(job, work)
        if len(words) < 16 or words[15] == "0":
            return None
        if words[15] == "2":
            return [mpf(0)] * len(epsilons)
        with mp.workdps(40):
            scale = mp.exp(mpf(words[3]))
            found = [mpf(words[2]) * scale]
            for value, ratio in zip(words[16::2], words[17::2], strict=True):
                found.append(mpf(value) * scale if float(ratio) < RATIO and mpf(value) > 0 else mp.nan)
        return found

    def epsilon(self, draw: Draw, delta: float) -> tuple[float, float]:
        """Return the epsilon (-1 if there is none), and the log of the delta of epsilon = 0 if there is none."""
        words = self.ask(
            f"0 64 {draw.direction} sgm {draw.steps} saddle={delta!r} 0 0 0 0 0 0 0 {draw.sigma!r} {draw.q!r}"
        )
        return (float(words[1]), float(words[2])) if len(words) == 3 else (math.nan, math.nan)


def one_step_delta(draw: Draw, eps: Any) -> Any:
    """The closed form of one step (0 beyond the largest loss)."""
    sigma, q = mpf(draw.sigma), mpf(draw.q)

    def upper(x: Any) -> Any:
        return mp.erfc(x / sigma / mp.sqrt(2)) / 2

    if draw.direction > 0:
        z = sigma**2 * mp.log((mp.expm1(eps) + q) / q) + mpf(1) / 2
        return q * upper(z - 1) - (mp.expm1(eps) + q) * upper(z)
    w = mp.expm1(-eps) + q
    if w <= 0:
        return mpf(0)
    z = sigma**2 * mp.log(w / q) + mpf(1) / 2
    return upper(-z) - mp.exp(eps) * ((1 - q) * upper(-z) + q * upper(1 - z))


def closed_delta(draw: Draw, eps: float) -> Any:
    """The closed form of one step, or of steps that are not sampled."""
    with mp.workdps(90):
        if draw.q == 1:
            return mp.exp(oracle.gaussian_log_delta(mp.sqrt(draw.steps) / mpf(draw.sigma), mpf(eps)))
        return one_step_delta(draw, mpf(eps))


def closed_row(draw: Draw, rng: random.Random) -> tuple[float, Any] | None:
    """Return epsilon and delta of a closed form, None if no delta is in range."""
    most = closed_delta(draw, 0.0)
    if not most > draw.low:
        return None
    if draw.delta == 0:
        return (0.0, most) if most < draw.high else None
    delta = draw.delta if draw.delta < most else log_uniform(rng, draw.low, float(most))
    high = 1e-9
    while closed_delta(draw, high) > delta:
        high *= 4
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if closed_delta(draw, middle) > delta else (low, middle)
    return high, closed_delta(draw, high)


class Maker:
    """Rows as they come, and counts of what happened."""

    def __init__(self, program: Program, rng: random.Random, partial: str, known: str | None) -> None:
        self.program, self.rng = program, rng
        self.work = WORK
        self.pending: dict[Draw, list[list[float]]] = {}  # what an earlier run did not have
        self.rows: list[tuple[Any, ...]] = []
        self.later: list[tuple[Draw, list[float], str]] = []
        self.outside: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.methods: Counter[str] = Counter()
        self.worst = 0.0
        self.known: dict[tuple[str, ...], tuple[str, ...]] = {}
        if known:
            with open(known) as file:
                for line in file.readlines()[1:]:
                    row = tuple(line.rstrip("\n").split(","))
                    self.known[row[:6]] = row[6:]
        self.partial = open(partial, "w", buffering=1)  # noqa: SIM115
        self.partial.write(",".join(COLUMNS) + "\n")

    def keep(self, draw: Draw, eps: float, delta: Any, gap: float, method: str) -> None:
        text = oracle.text(delta)
        row = (
            draw.kind,
            repr(draw.sigma),
            repr(draw.q),
            draw.steps,
            repr(eps),
            draw.direction,
            text,
            f"{gap:.1e}",
            method,
        )
        self.rows.append(row)
        self.methods[method] += 1
        self.worst = max(self.worst, gap)
        self.partial.write(",".join(map(str, row)) + "\n")

    def point(self, draw: Draw) -> None:
        """Try one draw."""
        if draw.q == 1 or draw.steps == 1:
            for _ in range(3):
                found = closed_row(draw, self.rng)
                if found is None:
                    self.outside[draw.kind] += 1
                else:
                    self.keep(draw, *found, 0.0, "closed")
                if draw.delta == 0:
                    break
                draw = draw._replace(delta=log_uniform(self.rng, draw.low, draw.high))
            return
        if draw.delta == 0:
            self.attempt(draw, [0.0])
            return
        _, most = self.program.epsilon(draw, 1.0)
        if most <= math.log(draw.low):
            self.outside[draw.kind] += 1
            return
        top = min(draw.high, math.exp(min(most, 0.0)))
        aim = draw.delta if draw.delta < top else log_uniform(self.rng, draw.low, top)
        aims = [aim] + [aim * math.exp(self.rng.uniform(-6, 6)) for _ in range(SHARED)]
        aims = [aim] + [x for x in aims[1:] if draw.low < x < top]
        # one participation that makes the loss, or the saddle: where few take part the truth may be near either
        if draw.direction > 0 and draw.steps * draw.q < 3:
            jumps = [one_jump(draw, x) for x in aims]
            bulk = math.sqrt(draw.steps) * draw.q * min(1.3, 1 / draw.sigma)
            if (
                draw.sigma < 4
                and jumps[0] > 2 * bulk
                and self.attempt(draw, [jumps[0]] + [x for x in jumps[1:] if x > 0], last=False)
            ):
                return
        saddles = [self.program.epsilon(draw, x)[0] for x in aims]
        if not saddles[0] > 0:
            self.outside[draw.kind] += 1
            return
        self.attempt(draw, [saddles[0]] + [x for x in saddles[1:] if x > 0])

    def attempt(self, draw: Draw, epsilons: list[float], last: bool = True) -> bool:
        """Whether the first delta is in the wanted range, and then keep what agrees."""
        epsilons = list(dict.fromkeys(epsilons))  # two aims may end at the same saddle
        if self.known:
            if self.take_known(draw, epsilons):
                self.pending.pop(draw, None)
                return True
            self.pending.setdefault(draw, []).append(epsilons)
            return False
        first = self.program.values(draw, epsilons, PATHS[0], 64, self.work)
        if first is None:
            self.later.append((draw, epsilons, "no value"))
            return True
        if not draw.low <= first[0] <= draw.high:
            if last:
                self.outside[draw.kind] += 1
            return False
        left = self.agree(draw, epsilons, [first], 64, PATHS[1:], self.work, "80-bit")
        if left:
            self.later.append((draw, left, "disagree"))
        return True

    def take_known(self, draw: Draw, epsilons: list[float]) -> bool:
        """Keep the rows of an earlier run; whether it had the first epsilon."""
        run = (draw.kind, repr(draw.sigma), repr(draw.q), str(draw.steps))
        rows = [(eps, self.known.get((*run, repr(eps), str(draw.direction)))) for eps in epsilons]
        if rows[0][1] is None:
            return False
        for eps, row in rows:
            if row is None:
                self.unread[draw.kind] += 1
            else:
                with mp.workdps(40):
                    self.keep(draw, eps, mpf(row[0]), float(row[1]), row[2])
        return True

    def agree(
        self, draw: Draw, epsilons: list[float], found: list[Any], bits: int, paths: Any, work: float, method: str
    ) -> list[float]:
        """Keep the rows of the epsilons at which two paths agree; return the others."""
        open_ = list(range(len(epsilons)))
        for path in paths:
            values = self.program.values(draw, epsilons, path, bits, work)
            if values is None:
                continue
            for i in list(open_):
                for before in found:
                    with mp.workdps(40):
                        a, b = before[i], values[i]
                        gap = float(abs(a / b - 1)) if b > 0 and a > 0 else math.nan
                    if gap <= AGREE:
                        open_.remove(i)
                        if draw.low <= b <= draw.high:
                            self.keep(draw, epsilons[i], b, gap, method)
                        else:
                            self.outside[draw.kind] += 1
                        break
            found.append(values)
            if len(found) > 1 and 0 not in open_:  # the path was laid for the first; it may be too far for others
                for i in list(open_):
                    if sum(1 for v in found if mp.isnan(v[i])) > len(found) - 2:
                        self.unread[draw.kind] += 1
                        open_.remove(i)
            if not open_:
                break
        return [epsilons[i] for i in open_]

    def resume(self, stop: float) -> None:
        """Compute what the earlier run did not have, in random order."""
        self.known = {}
        todo = list(self.pending.items())
        self.rng.shuffle(todo)
        for count, (draw, attempts) in enumerate(todo):
            if time.time() > stop:
                self.later.append((draw, attempts[-1], "not asked again"))
                continue
            for i, epsilons in enumerate(attempts):
                if self.attempt(draw, epsilons, last=i == len(attempts) - 1):
                    break
            if count % 10 == 9:
                print(f"{count + 1} of {len(todo)}, {len(self.rows)} rows, {len(self.later)} left", flush=True)

    def retry(self, stop: float) -> None:
        """What did not agree, with more work and then in 128 bits; what is left after `stop` stays in `later`."""
        todo, self.later = self.later, []
        for draw, epsilons, reason in todo:
            if time.time() > stop:
                self.later.append((draw, epsilons, reason + ", not retried"))
                continue
            left = self.agree(draw, epsilons, [], 64, PATHS, WORK_RETRY, "80-bit retried")
            if left and reason == "disagree":
                left = self.agree(draw, left, [], 113, PATHS[:2], WORK_QUAD, "128-bit")
            if left:
                self.later.append((draw, left, reason + ", retried"))


def one_jump(draw: Draw, delta: float) -> float:
    """The epsilon at which `steps` times the delta of one step is about delta; -1 if there is none."""
    if draw.steps * one_step_delta(draw, mpf(0)) <= delta:
        return -1.0
    low, high = 0.0, 1e-9
    while draw.steps * one_step_delta(draw, mpf(high)) > delta:
        high *= 4
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if draw.steps * one_step_delta(draw, mpf(middle)) > delta else (low, middle)
    return high


def regime(draw: Draw) -> str:
    """Where a dropped point lies: what makes the oracle slow is few participations and little noise."""
    part = draw.steps * draw.q
    amount = "Tq<0.01" if part < 0.01 else "Tq<1" if part < 1 else "Tq<100" if part < 100 else "Tq>=100"
    noise = "sigma<1" if draw.sigma < 1 else "sigma<4" if draw.sigma < 4 else "sigma>=4"
    return f"{amount} {noise} {'remove' if draw.direction > 0 else 'add'}"


def show(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def write(path: str, maker: Maker, command: str, others: list[str]) -> None:
    """Write the sample with what is to be known about it, after the rows and comments of other runs."""
    gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    kinds = Counter(row[0] for row in maker.rows)
    dropped = Counter(draw.kind for draw, epsilons, _ in maker.later for _ in epsilons)
    lines = [
        f"{command}; {gcc}, python {platform.python_version()}",
        f"two paths agree to {AGREE:g} relative (column gap: the disagreement; worst {maker.worst:.1e}); closed: 90 digits",
        f"{len(maker.rows)} rows: {show(kinds)}",
        f"methods: {show(maker.methods)}",
        f"dropped {dropped.total()} (paths disagree, or too long): {show(dropped)}",
        f"dropped by regime: {show(Counter(regime(draw) for draw, epsilons, _ in maker.later for _ in epsilons))}",
        f"rows by regime: {show(Counter(regime(Draw(r[0], float(r[1]), float(r[2]), r[3], r[5], 0, 0, 0)) for r in maker.rows))}",
        f"draws with no delta of the wanted range at the epsilon aimed at (not dropped): {show(maker.outside)}",
        f"neighbours on a path that was too far for them, or out of range (not dropped): {show(maker.unread)}",
    ]
    for d, epsilons, why in maker.later:
        lines.append(
            f"dropped: {d.kind} {d.sigma!r} {d.q!r} {d.steps} {d.direction} {' '.join(map(repr, epsilons))} ({why})"
        )
    rows, before = [",".join(map(str, row)) for row in maker.rows], []
    for other in others:
        with gzip.open(other, "rt") as file:
            content = file.read().splitlines()
        before += [line[2:] for line in content if line.startswith("#")]
        rows = [line for line in content if not line.startswith("#")][1:] + rows
    if others:
        total = show(Counter(row.split(",")[0] for row in rows))
        gap = max(float(row.split(",")[7]) for row in rows)
        whole = f"{len(rows)} rows of {len(others) + 1} runs: {total}; paths agree to {AGREE:g}, worst {gap:.1e}"
        lines = [whole, "", *before, "", *lines]
    # mtime and name are fixed so that the same rows make the same bytes
    with open(path, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
        out.write("".join(f"# {line}".rstrip() + "\n" for line in lines).encode())
        out.write((",".join(COLUMNS) + "\n").encode())
        out.write("".join(row + "\n" for row in rows).encode())


def main() -> None:
    """Write the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=10**9, help="stop at this many")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--retry", type=float, default=200.0, help="seconds for what is asked again")
    parser.add_argument("--partial", default="/tmp/oracle_large_partial.csv")
    parser.add_argument(
        "--known", help="partial results of a stopped run with this seed: only what they lack is computed"
    )
    parser.add_argument("--draws", type=int, default=10**9, help="stop after this many")
    parser.add_argument("--work", type=float, default=WORK, help="nodes a job may take")
    parser.add_argument("--others", nargs="*", default=[], help="outputs of other runs to put before this one's rows")
    parser.add_argument("--out", default="exact_sample_large.csv.gz")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(Program(folder), rng, options.partial, options.known)
        maker.work = options.work
        for i, draw in enumerate(draws(rng)):
            if time.time() > start + options.seconds or len(maker.rows) >= options.points or i >= options.draws:
                break
            if maker.known and len(maker.rows) >= len(maker.known):  # all of them are taken
                break
            maker.point(draw)
            if i % 50 == 49:
                counts = (
                    f"{len(maker.rows)} rows, {len(maker.later)} draws for later, {sum(maker.outside.values())} outside"
                )
                print(f"{time.time() - start:.0f} s, {counts}, worst {maker.worst:.1e}", flush=True)
        command = f"{parser.prog} --seed {options.seed} (stopped by the clock after {i} draws)"
        write(options.out, maker, command, options.others)
        if options.known:
            maker.resume(start + options.seconds)
            write(options.out, maker, command, options.others)
        print(f"asking {len(maker.later)} again", flush=True)
        maker.retry(time.time() + options.retry)
        maker.program.process.kill()
    write(options.out, maker, command, options.others)
    with gzip.open(options.out, "rt") as file:
        print("".join(itertools.takewhile(lambda line: line.startswith("#"), file)))


if __name__ == "__main__":
    main()
