"""What a user sees of the package: its names, its lazy modules, and its words for a missing optional library."""

import subprocess
import sys

import pytest

import fastacct as fa


def python(code):
    """Output of `code` in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()


@pytest.mark.parametrize("module", [fa, fa.dpsgd], ids=["fastacct", "fastacct.dpsgd"])
def test_dir_shows_public_names_only(module):
    public = {name for name in dir(module) if not name.startswith("__")}
    assert public == set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_dir_shows_the_version():
    assert "__version__" in dir(fa)


@pytest.mark.parametrize("name", ["curve", "jit", "plot"])
def test_a_lazy_module_is_reachable_and_loaded_at_first_use(name):
    code = f"""
import sys, fastacct as fa
before = [m for m in ("fastacct.{name}", "matplotlib") if m in sys.modules]
print(before, fa.{name}.__name__, "matplotlib" in sys.modules)
"""
    assert python(code) == f"[] fastacct.{name} False"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("Accountant", "ledger.accountant"),
        ("BudgetExceededError", "ledger.accountant"),
        ("classical", "textbook.classical"),
        ("composition", "textbook.composition"),
        ("convert", "textbook.convert"),
    ],
)
def test_a_lazy_name_is_what_its_module_has(name, module):
    code = f"""
import sys, fastacct as fa
before = "fastacct.{module}" in sys.modules
from fastacct import {name}
import fastacct.{module} as module
print(before, {name} in (module, getattr(module, {name!r}, None)), fa.{name} is {name})
"""
    assert python(code) == "False True True"


@pytest.mark.parametrize("first", ["fastacct.sweep.store", "fastacct.sweep", "fastacct.cli.sweeps"])
def test_sweep_is_the_function_whatever_is_imported_of_its_package(first):
    code = f"""
import sys, fastacct as fa
before = [one for one in sys.modules if one.startswith("fastacct.sweep")]
import {first}
from fastacct.sweep import sweep
import fastacct.sweep.cost
print(before, fa.sweep is sweep is fastacct.sweep, callable(sweep))
"""
    assert python(code) == "[] True True"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fastacct' has no attribute 'epsilonn'"):
        _ = fa.epsilonn


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("scipy.special", "pld", "fa.epsilon(fa.Skellam(4.0), delta=1e-5)"),
        ("scipy.special", "pld", "fa.rdp(fa.RDPCurve([2.0, 8.0], [0.1, 0.5]).poisson(0.01), 4.0)"),
        ("mpmath", "reference", "import fastacct.reference"),
        ("gmpy2", "reference", "import fastacct.reference"),
        ("numba", "jit", "fa.jit.mechanism(log_density_p=lambda x: x, log_density_q=lambda x: x)"),
        ("matplotlib.figure", "plot", "fa.plot.save(None, 'grid.png')"),
        ("xarray", "sweep", "fa.sweep(noise_multiplier=1.0, sample_rate=0.1, steps=1, delta=1e-5)"),
    ],
)
def test_a_missing_library_names_the_extra(library, extra, use):
    code = f"""
import sys, fastacct as fa
sys.modules[{library!r}] = None
try:
    {use}
except ModuleNotFoundError as error:
    print(error)
"""
    top = library.partition(".")[0]
    assert python(code) == f'this needs {top}, which is not installed: pip install ".[{extra}]" in a clone of fastacct'
