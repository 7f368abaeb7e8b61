"""Functions of the kernels' headers for tests, with budgets that starve one error after another: the C sources in
tests/kernels/parts, compiled from the headers as they are, without the package's build.

What is compiled is kept beside pytest's cache, under a hash of all that the compiler reads.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".pytest_cache" / "kernel_parts"
PLAIN = ("answers",)
"""What is large, and compiled without optimisation: 2 s instead of 5 s."""
FLAGS = [
    "-std=gnu11", "-fopenmp-simd", "-DFA_OPENMP_SIMD=1", "-ffp-contract=off", "-fno-math-errno", "-w", "-fPIC",
    "-I", str(ROOT / "fastacct_ext" / "include"), "-I", str(ROOT / "fastacct_ext"),
]  # fmt: skip


@cache
def library(name: str) -> ctypes.CDLL:
    """The functions of tests/kernels/parts/NAME.c; skips a test where there is no C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler named cc")
    source = Path(__file__).parents[1] / "kernels" / "parts" / f"{name}.c"
    compiler = ["cc", "-O0" if name in PLAIN else "-O1", *FLAGS]
    read = subprocess.run([*compiler, "-E", "-P", source], capture_output=True, check=True).stdout
    made = KEPT / f"{name}-{hashlib.sha256(read).hexdigest()[:24]}.so"
    if not made.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            new = Path(folder) / made.name
            subprocess.run([*compiler, "-shared", source, "-lm", "-o", new], check=True)
            os.replace(new, made)  # another process may have made it meanwhile
    return ctypes.CDLL(str(made))


def call(name: str, function: str, *numbers: float, lists: tuple[list[float], ...] = (), answers: int) -> list[float]:
    """What `void function(double, ..., const double *list, ..., double *out)` of tests/kernels/parts/NAME.c writes."""
    found = getattr(library(name), function)
    found.restype = None
    out = (ctypes.c_double * answers)()
    found(*map(ctypes.c_double, numbers), *[(ctypes.c_double * len(one))(*one) for one in lists], out)
    return list(out)
