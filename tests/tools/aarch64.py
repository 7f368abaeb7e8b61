"""The kernels on 64-bit Arm: compiled by Zig's C compiler, run under emulation, compared with those of this processor.

    python -m tests.aarch64            all of it: `make aarch64` installs what it needs
    python -m tests.aarch64 --count    instructions of the same cells, with NEON and without

Four things are asked: whether the compiler made NEON code; the largest errors of the C library in functions whose
errors the kernels assume (docs/guarantees.md); whether random cells and jobs have intervals that meet, equal statuses
and the same ends; and whether bounds of the ledgers hold against sums in 113 bits.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from tests.random_jobs import random_job

import fastacct as fa
from fastacct.losses import pieces
from fastacct_ext import _kernels

ROOT = Path(__file__).resolve().parents[2]
ARM, EXTENSION = ROOT / "tests" / "tools" / "arm", ROOT / "fastacct_ext"
LIBRARIES = {"glibc": "aarch64-linux-gnu.2.28", "musl": "aarch64-linux-musl"}
EMULATOR = "qemu-aarch64"
ARM_ROOT = "/usr/aarch64-linux-gnu"
FLAGS = ["-std=gnu11", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-g0", "-w"]
VECTORS = ["-fopenmp-simd", "-DFA_OPENMP_SIMD=1"]
NO_VECTORS = ["-fno-vectorize", "-fno-slp-vectorize"]
TRUSTED = {"exp": 2.0, "expm1": 2.0, "log": 2.0, "log1p": 2.0, "erfc": 10.0}
"""Errors in units of 2^-53, relative: those of docs/guarantees.md."""
LEAST_NEON = 1000
"""Fused multiply-adds of two doubles at once in the code of the kernels; there are about 4,000."""
SAME, SAME_PART = 1e-12, 1e-5
"""How far apart the ends of tight intervals may be, relatively, and as a part of the width of an interval ..."""
SAME_NOISE = 1e-9
"""... and what calibration finds (docs/algorithms/calibration.md)."""
RELATIONS = ("add_remove", "add", "remove")
SUMS = {"line 0": (4, 2), "line 2": (4, 3), "moments": (1, 30)}
"""Programs of tests/kernels/sums and kinds of lines: seed, and how many.  In 113 bits, by software, under emulation."""


class Answer(NamedTuple):
    """A line for tests/tools/arm/cells.c, and what this processor says: the quantity, bounds, and status."""

    line: str
    quantity: str
    lower: list[float]
    upper: list[float]
    status: list[int]


def cc(sources: list[Path], output: Path, *flags: str | Path, library: str = "glibc") -> Path:
    """Compile for Arm."""
    static = ["-static"] if library == "musl" else []
    command = [sys.executable, "-m", "ziglang", "cc", "-target", LIBRARIES[library], *static, *FLAGS, *flags]
    subprocess.run([*command, "-I", EXTENSION / "include", *sources, "-lm", "-o", output], check=True)
    return output


def emulate(program: Path, *arguments: object, given: bytes = b"", plugin: Path | None = None) -> tuple[str, str]:
    """What an Arm program prints, and what it says of errors."""
    command = [EMULATOR, *(["-plugin", plugin] if plugin else []), "-L", ARM_ROOT, program, *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, check=True)
    return done.stdout.decode(), done.stderr.decode()


def random_cells(n: int, rng: np.random.Generator) -> list[Answer]:
    """Cells of the functions of fastacct.h, a fourth of them with an edge."""
    found = []
    for i in range(n):
        noise, rate = 10.0 ** rng.uniform(-0.5, 1.5), 10.0 ** rng.uniform(-4.0, 0.0)
        steps, delta = math.floor(10.0 ** rng.uniform(0.0, 5.0)), 10.0 ** rng.uniform(-14.0, -1.0)
        epsilon, order = 10.0 ** rng.uniform(-2.0, 1.5), 1.0 + 10.0 ** rng.uniform(-2.0, 3.0)
        if i % 5 == 0:  # beside the function, which goes by i % 4
            noise = float(rng.choice([0.0, math.inf, 1e-3, 1e3, noise]))
            rate, delta = float(rng.choice([0.0, 1.0, 1e-300, rate])), float(rng.choice([0.0, 1.0, 1e-300, delta]))
        run = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps}
        relation = str(rng.choice(RELATIONS))
        if (function := "edrn"[i % 4 if i % 8 else 3]) == "n":
            goal = {"epsilon": max(epsilon, 0.05), "delta": max(delta, 1e-14), "sample_rate": min(rate, 0.3)}
            value = float(fa.dpsgd.noise_multiplier(**goal, steps=steps, neighbors=relation))
            bounds, row = (value, value, 2 * (value == math.inf)), (*goal.values(), steps)
        elif function == "r":
            bounds, row = fa.dpsgd.rdp_bounds(**run, orders=order), (*run.values(), order)
        elif function == "e":
            bounds, row = fa.dpsgd.epsilon_bounds(**run, delta=delta, neighbors=relation), (*run.values(), delta)
        else:
            bounds, row = fa.dpsgd.delta_bounds(**run, epsilon=epsilon, neighbors=relation), (*run.values(), epsilon)
        if relation != "add" or int(bounds[2]) != fa.Status.LOOSE:  # where Python asks other readers as well
            asked = " ".join(float(x).hex() for x in row)
            line = f"cell {function} {RELATIONS.index(relation)} {asked}\n"
            found.append(Answer(line, function, [float(bounds[0])], [float(bounds[1])], [int(bounds[2])]))
    return found


class _Data(_kernels.Data):
    """Losses that are data, which keep what they were made of."""

    def __init__(self, *arrays: np.ndarray) -> None:
        super().__init__(*arrays)
        self.arrays = arrays


_SECONDS = 0.02
"""What takes longer here takes half a minute under emulation, and is left out."""


def random_jobs(n: int, rng: np.random.Generator) -> list[Answer]:
    """What the kernels are asked of whole jobs, as Python asks it: of every mechanism, of replaced records, of groups,
    and of trade-off curves."""
    found: list[Answer] = []
    plain = _kernels.exact_job

    def recording(*given, quantity, directions, mirrored=False, spacing=0.0, off=None):
        begun = time.process_time()
        plain(*given, quantity=quantity, directions=directions, mirrored=mirrored, spacing=spacing, off=off)
        if time.process_time() - begun > _SECONDS:
            return
        *blocks, data, target, lower, upper, _, status = given
        arrays = [*blocks, *getattr(data, "arrays", [np.zeros(0)] * 11), target, [] if off is None else off]
        rows = (f"{np.size(one)} {' '.join(x.hex() for x in np.ravel(one).astype(float).tolist())}" for one in arrays)
        line = f"job {int(quantity)} {int(directions)} {int(mirrored)} {float(spacing).hex()}\n" + "\n".join(rows)
        found.append(Answer(line + "\n", quantity.name, lower.tolist(), upper.tolist(), status.tolist()))

    with mock.patch.object(pieces, "Data", _Data), mock.patch.object(_kernels, "exact_job", recording):
        for i in range(n):
            parts, relation = random_job(rng)
            fa.epsilon_bounds(fa.Process(parts), delta=10.0 ** rng.uniform(-12.0, -1.0), neighbors=relation)
            step = fa.Gaussian(10.0 ** rng.uniform(-0.2, 1.0)).poisson(10.0 ** rng.uniform(-3.0, -0.3))
            run = step * math.floor(10.0 ** rng.uniform(0.0, 4.0))
            fa.delta_bounds(run, epsilon=10.0 ** rng.uniform(-1.0, 1.0), neighbors="replace_one")
            if i % 8 == 0:
                fa.tradeoff(run, 10.0 ** rng.uniform(-3.0, -0.1), neighbors="replace_one")
    return found


def compare(asked: list[Answer], told: str) -> tuple[list[str], float, int]:
    """What is wrong with the answers of the other processor, how far apart ends are, and how many were compared."""
    wrong, most, lines, count = [], 0.0, iter(told.splitlines()), 0
    for one in asked:
        for lower, upper, status in zip(one.lower, one.upper, one.status, strict=True):
            words = next(lines).split()
            low, high, code = float.fromhex(words[0]), float.fromhex(words[1]), int(words[2])
            count += 1
            here, there = f"[{lower!r}, {upper!r}] {status}", f"[{low!r}, {high!r}] {code}"
            found = f"{one.quantity} {here}, there {there}: {one.line[:120]}"
            if one.quantity == "THRESHOLD":  # a point where bounds are asked for next, not one itself
                if not math.isclose(low, lower, rel_tol=1e-6, abs_tol=1e-9):
                    wrong.append(f"another threshold: {found}")
                continue
            if one.quantity != "n" and not max(lower, low) <= min(upper, high):
                wrong.append(f"apart: {found}")
            if code != status:
                wrong.append(f"another status: {found}")
            elif status == fa.Status.TIGHT and high != upper:
                away = abs(high - upper) / max(abs(upper), 5e-324)
                most = max(most, away)
                width = (upper - lower) / max(abs(upper), 5e-324)
                if not away <= (SAME_NOISE if one.quantity == "n" else SAME + SAME_PART * width):
                    wrong.append(f"{away:.1g} away: {found}")
    if next(lines, None) is not None:
        wrong.append("more answers than questions")
    return wrong, most, count


def check_library(folder: Path, points: int = 100_000) -> list[str]:
    """Errors of the C libraries, there and here, against the long doubles of this processor."""
    wrong, native, given = [], folder / "libm", [str(points), "1"]
    subprocess.run(["cc", *FLAGS[:-2], ARM / "libm.c", "-lm", "-o", native], check=True)
    truth = subprocess.run([native, "reference", *given], capture_output=True, check=True).stdout
    here = subprocess.run([native, "compare", *given], input=truth, capture_output=True, check=True).stdout
    told = {"glibc, here": here.decode()}
    for library in LIBRARIES:
        program = cc([ARM / "libm.c"], folder / f"libm_{library}", library=library)
        told[f"{library}, Arm"] = emulate(program, "compare", *given, given=truth)[0]
    for name, text in told.items():
        rows = [line.split("|") for line in text.splitlines()]
        print(f"{name:12}", ", ".join(f"{function} {error}" for function, error, _ in rows), "u", flush=True)
        wrong += [f"{name}: {row}" for row in rows if not float(row[1]) <= TRUSTED[row[0].split()[0]]]
        if len(rows) < 2 * len(TRUSTED):
            wrong.append(f"{name}: only {len(rows)} rows")
    return wrong


def check_sums(folder: Path) -> list[str]:
    """Bounds that sums in 113 bits break."""
    wrong, built = [], {}
    for name, (seed, n) in SUMS.items():
        program, *kind = name.split()
        if program not in built:
            built[program] = cc([ROOT / "tests" / "kernels" / "sums" / f"{program}.c"], folder / program, *VECTORS)
        rows = [line.split("|") for line in emulate(built[program], *kind, seed, n)[0].splitlines() if line[0] != "#"]
        count = sum(int(row[1]) for row in rows)
        print(f"{name}: {count} bounds of {len(rows)} kinds against sums in 113 bits", flush=True)
        wrong += [f"{name}: {row}" for row in rows if int(row[2])]
        if count == 0:
            wrong.append(f"{name}: nothing compared")
    return wrong


def check_answers(folder: Path, kernels: Path, n: int, seed: int) -> list[str]:
    """Cells and jobs there and here."""
    rng, wrong = np.random.default_rng(seed), []
    program = cc([ARM / "cells.c", kernels], folder / "cells")
    for name, asked in (("cells", random_cells(n, rng)), ("jobs", random_jobs(n // 8, rng))):
        begun = time.monotonic()
        told, _ = emulate(program, given="".join(one.line for one in asked).encode())
        found, most, count = compare(asked, told)
        tight = sum(code == fa.Status.TIGHT for one in asked for code in one.status)
        seconds = time.monotonic() - begun
        print(f"{name}: {count} answers, {tight} tight, ends at most {most:.1g} apart, {seconds:.0f} s", flush=True)
        wrong += found
    return wrong


def count_instructions(folder: Path, n: int, seed: int) -> None:
    """Print how many instructions the same cells take with NEON code and without."""
    plugin = folder / "count.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", ARM / "count.c", "-o", plugin], check=True)
    asked = random_cells(n, np.random.default_rng(seed))
    for name, flags in (("with NEON", VECTORS), ("without", NO_VECTORS)):
        program = cc([ARM / "cells.c", EXTENSION / "fastacct.c"], folder / "counted", *flags)
        idle = int(emulate(program, plugin=plugin)[1])
        for kind in "edrn":
            of_kind = [one for one in asked if one.quantity == kind]
            _, told = emulate(program, given="".join(one.line for one in of_kind).encode(), plugin=plugin)
            each = (int(told) - idle) / len(of_kind) / 1e3
            print(f"{name}: {kind} {each:.0f} thousand instructions a cell", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Whether nothing is wrong."""
    parser = argparse.ArgumentParser(description="The kernels on 64-bit Arm, under emulation.")
    parser.add_argument("--count", action="store_true", help="count instructions instead")
    parser.add_argument("--cells", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.count:
            count_instructions(folder, options.cells, options.seed)
            return 0
        kernels = cc([EXTENSION / "fastacct.c"], folder / "fastacct.s", *VECTORS, "-S")
        neon = len(re.findall(r"\bfml[as]\s+v\d+\.2d", kernels.read_text()))
        print(f"{neon} fused multiply-adds of two doubles in the code of the kernels", flush=True)
        wrong = ["no NEON code"] if neon < LEAST_NEON else []
        wrong += check_library(folder)
        wrong += check_answers(folder, kernels, options.cells, options.seed)
        wrong += check_sums(folder)
    print("\n".join(wrong))
    print(f"{len(wrong)} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
