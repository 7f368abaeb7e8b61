"""What a user sees of the package: its names, its lazy modules, and its words for a missing optional library."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fastacct as fa


def python(code):
    """Output of `code` in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()


FACES = [
    *(
        "accountants",
        "audit",
        "classical",
        "composition",
        "convert",
        "curve",
        "dpsgd",
        "generalization",
        "jit",
        "mechanism_kit",
    ),
    *("mechanisms", "plot", "results", "sensitivity", "textbook", "training"),
]
"""The public modules that are reached from the package."""


@pytest.mark.parametrize("name", FACES)
def test_dir_of_a_module_is_the_list_of_its_public_names(name):
    module = getattr(fa, name)
    assert set(dir(module)) == set(module.__all__)
    assert all(hasattr(module, one) for one in module.__all__)
    with pytest.raises(AttributeError, match=f"has no attribute '{module.__all__[0]}z' .did you mean '"):
        getattr(module, f"{module.__all__[0]}z")


def test_these_are_all_public_modules():
    import types

    assert sorted(FACES) == sorted(one for one in fa.__all__ if isinstance(getattr(fa, one), types.ModuleType))


@pytest.mark.parametrize("name", ["gradient", "testing", "conformance", "textbook.convert"])
def test_a_module_that_is_imported_by_its_own_name_shows_the_same(name):
    code = f"import fastacct.{name} as module; print(set(dir(module)) == set(module.__all__))"
    assert python(code) == "True"


BESIDE = {
    "get_include": "for those who compile against the C interface",
    "network_gain": "a verb of mechanisms of networks alone",
    "progress": "a setting of sweeps",
    "training": "what a training loop imports",
}
"""Public names that are shown nowhere but in the documentation."""


def test_the_top_is_small_and_everything_else_stands_in_a_module_of_its_own():
    shown = dir(fa)
    assert len(shown) <= 49, "one of 50 is kept free"
    assert all(hasattr(fa, name) for name in shown)
    assert set(shown) <= {*fa.__all__, "__version__"}
    homes = [name for module in FACES for name in dir(getattr(fa, module))]
    for name in {*fa.__all__} - {*shown, *BESIDE}:
        verb = name.removesuffix("_bounds").removesuffix("_lower")
        is_side = verb != name and verb in shown
        assert name in homes or is_side or name in ("log_delta", "log_delta_bounds", "divergence"), name


def test_type_checkers_see_the_same_names():
    """The lists that only they read, and the imports that only they follow."""
    tree = ast.parse(Path(fa.__file__).read_text())
    ifs = [one for one in tree.body if isinstance(one, ast.If) and isinstance(one.test, ast.Name)]
    seen = [line for one in ifs for line in one.body]
    names = {"accountants": fa.accountants, "mechanisms": fa.mechanisms}
    lists = [one for one in seen if isinstance(one, ast.Assign | ast.AugAssign)]
    exec(compile(ast.Module(lists, []), "lists", "exec"), names)
    assert sorted(names["__all__"]) == sorted(fa.__all__)
    for line in [one for one in seen if isinstance(one, ast.ImportFrom)]:
        for name in line.names if line.names[0].name != "*" else ():
            module = importlib.import_module(line.module)
            assert getattr(fa, name.name) is getattr(module, name.name)


@pytest.mark.parametrize("name", ["calibrate", "epsilon", "gdp", "privacy_loss", "tradeoff"])
def test_a_verb_is_the_function_though_its_module_has_its_name(name):
    code = f"import fastacct as fa, fastacct.{name}; print(callable(fa.{name}), fa.{name} is fastacct.{name})"
    assert python(code) == "True True"


def test_hidden_names_are_the_same_objects():
    for module in ("accountants", "mechanisms", "results", "textbook"):
        for name in dir(getattr(fa, module)):
            assert getattr(fa, name) is getattr(getattr(fa, module), name)


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
