"""Bounds in the ledgers of the kernels' lines against direct sums in 80 bits: C programs of tests/kernels/sums.

    python -m tests.kernels.test_direct_sums --lines 3000 --seed 1    as many lines, of all kinds alike

Lines are drawn with budgets that starve one part, so that its bound is put to the test.  A bound must hold, and its
closest comparison must be no further from it than is said here: one that is infinite proves nothing.
"""

import argparse
import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from tests.compiled import compiled, printed

if shutil.which("cc") is None:
    pytest.skip("no C compiler named cc", allow_module_level=True)
if np.finfo(np.longdouble).nmant < 63:
    pytest.skip("no sums in 80 bits on this machine", allow_module_level=True)

FOLDER = Path(__file__).parent / "sums"
FLAGS = ["-std=gnu11", "-O1", "-fopenmp-simd", "-DFA_OPENMP_SIMD=1", "-fno-math-errno", "-ffp-contract=off"]
KINDS = {  # and how many lines
    "sampled": 26,
    "few participations": 14,
    "added": 60,
    "few added steps": 16,
    "a group": 16,
    "a replaced record": 16,
    "an added group": 60,
    "exponents that outweigh a window": 1,
}
SEED = 1
SEEDS = {"few added steps": 10, "a replaced record": 5}  # whose few lines see every rule


def build(name):
    """A program of tests/kernels/sums."""
    flags = [*FLAGS, "-Wall", "-Wno-unused", "-Wno-misleading-indentation", "-Werror", "-I", fa.get_include()]
    return compiled(FOLDER / f"{name}.c", flags, "", ["-lm"])


def measure(program, *arguments):
    """{comparison: (how often, how often the bound was broken, the largest share of a bound that was needed)}."""
    found = {}
    for line in printed(program, *arguments).splitlines():
        if line.startswith("#"):
            print(line, file=sys.stderr)
        else:
            name, count, broken, most = line.split("|")
            found[name] = int(count), int(broken), float(most)
    return found


@pytest.fixture(scope="module")
def lines():
    """From a kind to what was measured of a few of its lines."""
    program = build("line")
    return cache(lambda kind: measure(program, list(KINDS).index(kind), SEEDS.get(kind, SEED), KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_a_line_hold(lines, kind):
    assert {name: found for name, found in lines(kind).items() if found[1]} == {}
    assert lines(kind)["no line"][0] < 0.3 * KINDS[kind]


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("quadrature and ends of B0", 0.05),
        ("rounding of B0", 0.005),
        ("B0", 0.05),
        ("quadrature and ends of the mean", 0.05),
        ("mean", 0.03),
        ("quadrature of D", 1e-4),
        ("D", 1e-3),
        ("K on the right", 0.01),
        ("K on the left", 0.01),
        ("K of small losses", 1e-3),
        ("sum on the right", 0.01),
        ("sum on the left", 0.001),
        ("sum of small losses", 0.001),
        ("J(a)", 0.9),
        ("M(a)", 0.9),
        ("closed part", 0.01),
        ("what is closed below the floor and not there", 1e-5),
        ("what the caps take", 1e-11),
        ("tail", 0.1),
        ("sum of moduli", 1e-8),
        ("slope of the rise", 0.5),
        ("curvature of the rise", 0.5),
        ("third derivative of the rise", 0.2),
        ("losses beyond the nodes", 0.1),
        ("moduli right, line", 0.9),
        ("moduli right, K", 0.9),
        ("moduli right, mean", 0.9),
        ("moduli left, line", 0.9),
        ("moduli left, K", 0.9),
        ("moduli left, mean", 0.9),
    ],
)
def test_bounds_of_lines_are_near(lines, name, least):
    """What is bounded was seen, and the closest of its bounds is no more than so far away."""
    assert max(lines(kind).get(name, (0, 0, 0.0))[2] for kind in KINDS) > least


@pytest.mark.parametrize("seed", [1, 2, 16])
def test_bounds_of_the_moments_of_mixtures_hold(seed):
    found = measure(build("moments"), seed, 1000)
    assert {name: one for name, one in found.items() if one[1]} == {}
    for name, least in (("loss", 0.05), ("log of P", 0.05), ("K", 0.02), ("K'", 0.01), ("K''", 0.01)):
        assert found[name][2] > least
    for name, least in (("step", 1e-3), ("tails", 0.01), ("passed over", 0.01)):  # with budgets that starve each
        assert found[name][0] > 2000
        assert found[name][2] > least


def test_bounds_of_losses_that_are_data_hold():
    """Laplace's losses, whole or sampled, either direction, with and without atoms, on meshes that are too coarse."""
    found = measure(build("pieces"), SEED, 100)
    assert {name: one for name, one in found.items() if one[1]} == {}
    for name, least in (
        ("rule", 1e-3),
        ("rule of second order", 1e-5),
        ("share", 0.5),
        ("windows", 0.5),
        ("ends", 0.1),
        ("one end", 0.8),
        ("moments", 1e-3),
    ):
        assert found[name][0] >= 100
        assert found[name][2] > least


def test_bounds_of_windows_on_losses_that_are_data_hold():
    """Of Gaussian losses above 0, samples with a replaced record, and samples: with a cap, a floor and a dip."""
    found = measure(build("edges"), SEED, 30)
    assert {name: one for name, one in found.items() if one[1]} == {}
    for name, least in (
        ("rule", 1e-5),
        ("Q beyond the cap", 1e-3),
        ("P beyond the cap, less that", 1e-3),
        ("J(a)", 0.9),
        ("tail", 0.9),
        ("large losses", 0.01),
        ("above the dip", 0.9),
        ("below the dip", 0.9),
        ("a window off the line", 0.9),
    ):
        assert found[name][0] >= 15
        assert found[name][2] > least


def main(arguments=None):
    """Whether no bound was broken on so many random lines."""
    parser = argparse.ArgumentParser(description="Bounds of random lines against sums in 80 bits.")
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    kinds = list(KINDS)[:-1]  # the last one is a single line
    broken = 0
    jobs = [(kind, build("line"), i, options.seed) for i, kind in enumerate(kinds)]
    others = [(name, build(name), options.seed) for name in ("moments", "pieces", "edges")]
    for kind, *command in [*jobs, *others]:
        for name, (count, wrong, most) in measure(*command, options.lines // len(kinds)).items():
            print(f"{kind:20} {name:48} {count:7} compared {wrong:4} broken, closest {most:.2g}", flush=True)
            broken += wrong
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
