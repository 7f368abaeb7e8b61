"""A pytest plugin for kernel_mutants.py: `_kernels.capped_line` by kernels that are compiled from the headers as they
are, at one level and without the package's build; all other answers stay those of the installed kernels.

    python -m pytest -p tests.kernel_hook tests/kernels/line/test_capped_line.py
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from fastacct_ext import _kernels

EXTENSION = Path(__file__).resolve().parents[2] / "fastacct_ext"
FLAGS = ["-std=gnu11", "-O1", "-fopenmp-simd", "-DFA_OPENMP_SIMD=1", "-ffp-contract=off", "-fno-math-errno"]
SOURCE = r"""
#include "src/dispatch.c"
#include "src/isa_baseline.c"
const fa_kernels *fa_kernels_v3(void) { return 0; }
const fa_kernels *fa_kernels_v4(void) { return 0; }
int hook(int n, const double *sigma, const double *q, const double *steps, double mu2, double eps, const double *budget,
         double *out)
{
    return fa_kernels_baseline()->capped_line(n, sigma, q, steps, mu2, eps, budget, out);
}
"""


@cache
def hook() -> ctypes._CFuncPtr:
    """The function compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "hook.c", Path(folder) / "hook.so"
        source.write_text(SOURCE)
        subprocess.run(
            ["cc", *FLAGS, "-w", "-fPIC", "-shared", "-I", EXTENSION, source, "-lm", "-o", library], check=True
        )
        found = ctypes.CDLL(str(library)).hook
    doubles = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    found.argtypes = [ctypes.c_int, doubles, doubles, doubles, ctypes.c_double, ctypes.c_double, doubles, doubles]
    return found


def capped_line(
    noise: np.ndarray, rate: np.ndarray, steps: np.ndarray, mu2: float, epsilon: float, budget: np.ndarray,
    out: np.ndarray,
) -> bool:  # fmt: skip
    """As `_kernels.capped_line`."""
    return bool(hook()(noise.size, noise, rate, steps, mu2, epsilon, budget, out))


_kernels.capped_line = capped_line
