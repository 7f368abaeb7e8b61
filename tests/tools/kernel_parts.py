"""Functions of the kernels' headers for tests, with budgets that starve one error after another: the C sources in
tests/kernels/parts, compiled from the headers as they are, without the package's build.
"""

from __future__ import annotations

import ctypes
import shutil
from functools import cache
from pathlib import Path

import pytest
from tests.compiled import compiled

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ("answers", "bound")
"""What is large, and compiled without optimisation: 2 s instead of 4 s and more."""
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
    flags = ["-O0" if name in PLAIN else "-O1", *FLAGS, "-shared"]
    return ctypes.CDLL(str(compiled(source, flags, ".so", ["-lm"])))


def call(name: str, function: str, *numbers: float, lists: tuple[list[float], ...] = (), answers: int) -> list[float]:
    """What `void function(double, ..., const double *list, ..., double *out)` of tests/kernels/parts/NAME.c writes."""
    found = getattr(library(name), function)
    found.restype = None
    out = (ctypes.c_double * answers)()
    found(*map(ctypes.c_double, numbers), *[(ctypes.c_double * len(one))(*one) for one in lists], out)
    return list(out)
