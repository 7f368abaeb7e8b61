"""Bounds in the ledgers of the kernels' lines against direct sums in 80 bits: C programs of tests/kernels/sums.

    python -m tests.kernels.test_direct_sums --lines 3000 --seed 1    as many lines, of all kinds alike
    python -m tests.kernels.test_direct_sums --store                  what the tests ask is run and stored

What was printed is stored with a digest of the sources, headers of the kernels among them: where one of these has
changed, or a rule is taken out, the programs are compiled and run.  A campaign runs them in any case.

Lines are drawn with budgets that starve one part, so that its bound is put to the test.  A bound must hold, and its
closest comparison must be no further from it than is said here: one that is infinite proves nothing.
"""

import argparse
import json
import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from tests.compiled import compiled, digest, printed

if shutil.which("cc") is None:
    pytest.skip("no C compiler named cc", allow_module_level=True)
if np.finfo(np.longdouble).nmant < 63:
    pytest.skip("no sums in 80 bits on this machine", allow_module_level=True)

FOLDER = Path(__file__).parent / "sums"
STORED = Path(__file__).parents[1] / "data" / "direct_sums.json"
FLAGS = ["-std=gnu11", "-O1", "-fopenmp-simd", "-DFA_OPENMP_SIMD=1", "-fno-math-errno", "-ffp-contract=off"]
KINDS = {  # and how many lines
    "sampled": 26,
    "few participations": 14,
    "added": 60,
    "few added steps": 16,
    "a group": 16,
    "a replaced record": 16,
    "an added group": 60,
    "rates next to 1": 30,
    "exponents that outweigh a window": 2,
}
SEED = 1
SEEDS = {"few added steps": 10, "a replaced record": 5}  # whose few lines see every rule
MOMENTS = [("moments", seed, 1000) for seed in (1, 2, 16)]
LINES = {kind: ("line", i, SEEDS.get(kind, SEED), count) for i, (kind, count) in enumerate(KINDS.items())}
LINES |= {"a group cut off on the left": ("line", 4, 5, 16), "replaced, nodes up to the cap": ("line", 5, 2, 16)}
ASKED = [*LINES.values(), *MOMENTS, PIECES := ("pieces", SEED, 100), EDGES := ("edges", SEED, 30)]
"""Programs and their arguments."""


def build(name):
    """A program of tests/kernels/sums."""
    flags = [*FLAGS, "-Wall", "-Wno-unused", "-Wno-misleading-indentation", "-Werror", "-I", fa.get_include()]
    return compiled(FOLDER / f"{name}.c", flags, "", ["-lm"])


@cache
def now(name):
    """The digest of a program as its sources are."""
    return digest(FOLDER / f"{name}.c", Path(fa.get_include()))


@cache
def stored():
    """From programs with their arguments to the digest of what they were and the lines that they printed."""
    return json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}


def read(lines):
    """{comparison: (how often, how often the bound was broken, the largest share of a bound that was needed)}."""
    found = {}
    for line in lines:
        if line.startswith("#"):
            print(line, file=sys.stderr)
        else:
            name, count, broken, most = line.split("|")
            found[name] = int(count), int(broken), float(most)
    return found


def run(name, *arguments):
    """The lines that a program prints."""
    return printed(build(name), *arguments).splitlines()


def measure(*asked):
    """What a program found, run or stored."""
    kept = stored().get(" ".join(map(str, asked)), {})
    return read(kept["printed"] if kept.get("sources") == now(asked[0]) else run(*asked))


@pytest.fixture(scope="module")
def lines():
    """From a kind to what was measured of a few of its lines."""
    return cache(lambda kind: measure(*LINES[kind]))


@pytest.mark.parametrize("kind", LINES)
def test_bounds_of_a_line_hold(lines, kind):
    assert {name: found for name, found in lines(kind).items() if found[1]} == {}
    assert lines(kind)["no line"][0] < 0.3 * LINES[kind][-1]


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
        ("left of the nodes on the tail's curve", 0.1),
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


@pytest.mark.parametrize("asked", MOMENTS, ids=[str(seed) for _, seed, _ in MOMENTS])
def test_bounds_of_the_moments_of_mixtures_hold(asked):
    found = measure(*asked)
    assert {name: one for name, one in found.items() if one[1]} == {}
    for name, least in (("loss", 0.05), ("log of P", 0.05), ("K", 0.02), ("K'", 0.01), ("K''", 0.01)):
        assert found[name][2] > least
    for name, least in (("step", 1e-3), ("tails", 0.01), ("passed over", 0.01)):  # with budgets that starve each
        assert found[name][0] > 2000
        assert found[name][2] > least


def test_bounds_of_losses_that_are_data_hold():
    """Laplace's losses, whole or sampled, either direction, with and without atoms, on meshes that are too coarse."""
    found = measure(*PIECES)
    assert {name: one for name, one in found.items() if one[1]} == {}
    for name, least in (
        ("rule", 1e-3),
        ("rule of second order", 1e-5),
        ("share", 0.5),
        ("windows", 0.5),
        ("ends", 0.1),
        ("one end", 0.8),
        ("moments", 1e-3),
        ("a moment far along a line", 1e-3),
        ("a line's first moment", 1e-4),
        ("its share", 0.5),
        ("beyond a long line", 1e-3),
    ):
        assert found[name][0] >= 100
        assert found[name][2] > least


def test_bounds_of_windows_on_losses_that_are_data_hold():
    """Of Gaussian losses above 0, samples with a replaced record, and samples: with a cap, a floor and a dip."""
    found = measure(*EDGES)
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


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: " ".join(map(str, asked)))
def test_what_is_stored_is_printed_again(asked):
    kept = stored()[" ".join(map(str, asked))]
    assert kept["sources"] == now(asked[0]), "python -m tests.kernels.test_direct_sums --store"
    before, after = read(kept["printed"]), read(run(*asked))
    assert before.keys() == after.keys()
    for name, (_, broken, most) in after.items():
        assert broken == 0
        assert most == pytest.approx(before[name][2], rel=0.05)  # libraries differ in last digits


def store():
    """Write what the tests ask."""
    made = {" ".join(map(str, one)): {"sources": now(one[0]), "printed": run(*one)} for one in ASKED}
    STORED.write_text(json.dumps(made, indent=0) + "\n", encoding="utf-8")
    return 0


def main(arguments=None):
    """Whether no bound was broken on so many random lines."""
    parser = argparse.ArgumentParser(description="Bounds of random lines against sums in 80 bits.")
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", action="store_true", help="write what the tests ask to tests/data")
    options = parser.parse_args(arguments)
    if options.store:
        return store()
    kinds = list(KINDS)[:-1]  # the last one is a single line
    broken = 0
    jobs = [(kind, "line", i, options.seed) for i, kind in enumerate(kinds)]
    others = [(name, name, options.seed) for name in ("moments", "pieces", "edges")]
    for kind, *asked in [*jobs, *others]:
        for name, (count, wrong, most) in read(run(*asked, options.lines // len(kinds))).items():
            print(f"{kind:20} {name:48} {count:7} compared {wrong:4} broken, closest {most:.2g}", flush=True)
            broken += wrong
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
