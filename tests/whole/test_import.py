"""What importing costs, and what the layers may know of each other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastacct as fa
from fastacct_ext import _kernels

ROOT = Path(__file__).parents[2]
HEAVY = (
    "numba",
    "mpmath",
    "scipy",
    "xarray",
    "matplotlib",
    "pandas",
    "pyarrow",
    "typer",
    "rich",
    "dask",
    "torch",
    "dp_accounting",
)


def python(code, **environment):
    import os

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        cwd=ROOT,
    )
    return done.returncode, done.stdout.strip(), done.stderr


def test_import_loads_none_of_the_heavy_libraries():
    code = f"import sys, fastacct; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code)[:2] == (0, "[]")


def test_import_loads_nothing_but_names():
    code = "import numpy, __future__, sys; old = {*sys.modules}; import fastacct; print(sorted({*sys.modules} - old))"
    assert python(code)[:2] == (0, "['fastacct', 'fastacct.core', 'fastacct.core.words']")


@pytest.mark.parametrize("job", ["fa.Gaussian(1.0).poisson(0.01) * 1000", "fa.Gaussian(5.0) * 9 + fa.Laplace(9.0) * 3"])
def test_a_first_answer_loads_nothing_that_it_does_not_need(job):
    unused = ("concurrent.futures", "fastacct.gdp", "fastacct.sweep", "json", "logging", "numpy.ma", "tomllib")
    code = (
        f"import sys, fastacct as fa; fa.epsilon({job}, delta=1e-5); print([m for m in {unused!r} if m in sys.modules])"
    )
    assert python(code)[:2] == (0, "[]")


def test_kernels_do_not_import_the_thin_layer():
    code = "import sys, fastacct_ext._kernels; print([m for m in ('fastacct', 'numpy') if m in sys.modules])"
    assert python(code)[:2] == (0, "[]")


def test_reference_imports_no_kernel():
    text = "".join(path.read_text() for path in (ROOT / "fastacct" / "reference").glob("*.py"))
    assert "fastacct_ext" not in text
    assert "_arrays" not in text


def test_the_product_does_not_import_its_oracle():
    for path in (ROOT / "fastacct").rglob("*.py"):
        if path.parent.name != "reference":
            assert not re.search(r"^\s*(from|import) .*\breference\b", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize("level", ["baseline", "x86-64-v3", "x86-64-v4"])
def test_instruction_set_levels_agree_far_within_the_error_bound(level):
    run = {"noise_multiplier": [0.6, 1.0, 4.0], "sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
    renyi = {**run, "accountant": fa.RDP()}
    best, best_renyi = fa.dpsgd.epsilon(**run), fa.dpsgd.epsilon(**renyi)
    try:
        _kernels.select(level)
    except ValueError:
        pytest.skip(f"this processor cannot run {level}")
    try:
        assert _kernels.level() == level
        assert abs(fa.dpsgd.epsilon(**run) / best - 1).max() < 1e-10
        assert abs(fa.dpsgd.epsilon(**renyi) / best_renyi - 1).max() < 1e-12
    finally:
        _kernels.select()


def test_the_level_can_be_chosen_by_an_environment_variable():
    code = "from fastacct_ext import _kernels; print(_kernels.level())"
    assert python(code, FASTACCT_ISA="baseline")[:2] == (0, "baseline")
    status, _, error = python(code, FASTACCT_ISA="mmx")
    assert status != 0
    assert "instruction-set level 'mmx'" in error


def test_a_forked_child_computes():
    code = """
import os, warnings, numpy as np, fastacct as fa
warnings.simplefilter("ignore", DeprecationWarning)
run = dict(noise_multiplier=np.linspace(1, 2, 500), sample_rate=0.01, steps=1000, delta=1e-5, threads=2)
before = fa.dpsgd.epsilon(**run)
pid = os.fork()
if pid == 0:
    os._exit(0 if (fa.dpsgd.epsilon(**run) == before).all() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    if sys.platform == "win32":
        pytest.skip("no fork on Windows")
    assert python(code)[:2] == (0, "0")


def test_kernels_refuse_buffers_that_do_not_fit():
    import numpy as np

    one, two, codes = np.ones(1), np.ones(2), np.zeros(2, np.uint8)
    assert _kernels.rdp_upper(one, one, one, 2.0 * two, two, codes)(0, 2) == 2
    with pytest.raises(ValueError, match="broadcast"):
        _kernels.rdp_upper(one, two, np.ones(3), one, two, codes)
    with pytest.raises(ValueError, match="broadcast"):
        _kernels.rdp_upper(one, two, one, one, one, codes)
    with pytest.raises(ValueError, match="broadcast"):
        _kernels.rdp_upper(np.ones((2, 2)), two, one, one, two, codes)
    with pytest.raises(ValueError, match="range"):
        _kernels.rdp_upper(one, two, one, one, two, codes)(0, 3)
    with pytest.raises(TypeError, match="bytes-like"):
        _kernels.rdp_upper(one, two, one, one, None, codes)
    with pytest.raises(ValueError, match="float64"):
        _kernels.rdp_upper(one, two, one, np.ones(2, np.int64), two, codes)
    with pytest.raises(ValueError, match="float64"):
        _kernels.rdp_upper(one, two, one, one, np.ones(2, np.float32), codes)
    with pytest.raises(ValueError, match="read-only"):
        _kernels.rdp_upper(one, two, one, one, np.broadcast_to(one, 2), codes)
