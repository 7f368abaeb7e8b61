"""The contract of every mechanism, and canaries that it must catch."""

import dataclasses
import math
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.bounds import Bounds
from fastacct.losses.loss import Bracket, Pair
from fastacct.mechanism_kit import Domain, parameter, table
from fastacct.readers import cell
from fastacct.testing import ContractError, check_mechanism, examples

EXAMPLES = list(examples())
TABLES = fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4])
WAYS = ("remove", "add")


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_contract(mechanism, monkeypatch):
    if isinstance(mechanism, fa.FixedSizeBatch | fa.TruncatedPoisson | fa.WithReplacement):  # laws that are apart
        monkeypatch.setattr(cell, "TOLERANCE", 5e-4)
    assert check_mechanism(mechanism) == ()


def scaled(job, **target):
    """0.1 % too small."""
    lower, upper, status = fa.delta_bounds(job, **target)
    return Bounds(lower * 0.999, upper * 0.999, status)


def uncounted(job, **target):
    process = job if isinstance(job, fa.Process) else fa.Process({job: 1})
    once = fa.Process((mechanism, np.minimum(count, 1)) for mechanism, count in process)
    return fa.delta_bounds(once, **target)


def turned(job, **target):
    """Loss with the wrong sign: delta(-epsilon) of the other direction, less what is certain."""
    lower, upper, status = fa.delta_bounds(job, **target)
    return Bounds(
        lower * np.exp(-np.asarray(target["epsilon"])), upper * np.exp(-np.asarray(target["epsilon"])), status
    )


def without_infinite_losses(job, **target):
    process = job if isinstance(job, fa.Process) else fa.Process({job: 1})
    kept = fa.Process((fa.ApproxDP(m.epsilon, 0.0) if isinstance(m, fa.ApproxDP) else m, n) for m, n in process)
    return fa.delta_bounds(kept, **target)


@pytest.mark.parametrize("canary", [scaled, uncounted, turned])
@pytest.mark.parametrize(
    "mechanism",
    [
        fa.RandomizedResponse(1.0),
        fa.DiscreteLaplace(2.0, 3),
        fa.DiscreteGaussian(1.0),
        fa.Skellam(10.0),
        fa.PureDP(0.3),
        fa.ApproxDP(0.3, 1e-6),
    ],
    ids=repr,
)
def test_the_contract_catches_a_canary(mechanism, canary):
    with pytest.raises(ContractError, match=r"delta_bounds: "):
        check_mechanism(mechanism, neighbors=mechanism.relations[0], seconds=None, delta_bounds=canary)


def test_the_contract_catches_an_infinite_loss_dropped():
    with pytest.raises(ContractError, match=r"ApproxDP.*delta_bounds: .* is below the sum over losses"):
        check_mechanism(
            fa.ApproxDP(0.3, 0.01), neighbors="add_remove", seconds=None, delta_bounds=without_infinite_losses
        )


def late(job, **target):
    """A reader that sees the last count for all."""
    process = job if isinstance(job, fa.Process) else fa.Process({job: 1})
    counts = [count for _, count in process]
    return fa.delta_bounds(fa.Process((one, counts[-1]) for one, _ in process), **target)


@pytest.mark.parametrize("mechanism", [fa.Laplace(1.0), fa.Gaussian(1.0), fa.PureDP(0.3), TABLES], ids=repr)
def test_the_contract_catches_a_count_that_is_read_late(mechanism):
    with pytest.raises(ContractError, match=r"delta_bounds: falls where"):
        check_mechanism(mechanism, neighbors="add_remove", delta_bounds=late)


@dataclass(frozen=True)
class Said(fa.Mechanism):
    """Losses, divergence and pure guarantee of three mechanisms."""

    losses_of: fa.Mechanism
    divergence_of: fa.Mechanism
    pure_of: fa.Mechanism
    change: str = ""

    @property
    def tight(self):
        return self.divergence_of.tight

    def losses(self, relation):
        pair = self.losses_of.losses(relation)
        if self.change == "swapped":
            return Pair(pair.add, pair.remove)
        if self.change == "one way":
            return Pair(pair.remove, pair.remove)
        if self.change == "dropped":
            return Pair(*[Bracket(finite(pair.side(way).upper), finite(pair.side(way).lower)) for way in WAYS])
        return pair

    def divergence(self, orders, relation):
        return self.divergence_of.divergence(orders, relation)

    def pure_epsilon(self, relation):
        return self.pure_of.pure_epsilon(relation)


def finite(law):
    return dataclasses.replace(law, infinite=0.0)


def tables(noise):
    """Geometric noise on two sides, cut off, as two tables."""
    k = np.arange(-40, 42)
    p, q = np.exp(-np.abs(k - 1) / noise), np.exp(-np.abs(k) / noise)
    return fa.from_pmf(p / math.fsum(p), q / math.fsum(q))


def compiled(noise):
    """Laplace noise from its densities."""

    def log_density(x):
        return -abs(x) / noise - math.log(2.0 * noise)

    def with_record(x):
        return -abs(x - 1.0) / noise - math.log(2.0 * noise)

    return fa.jit.mechanism(
        log_density_p=with_record,
        log_density_q=log_density,
        breakpoints=(0.0, 1.0),
        domain=(-40.0 * noise, 1.0 + 40.0 * noise),
        panels=4096,
    )


KINDS = {
    "laplace": fa.Laplace,
    "sampled laplace": lambda noise: fa.Laplace(noise).poisson(0.1),
    "exponential": lambda noise: fa.Exponential(1.0 / noise),
    "gaussian": fa.Gaussian,
    "sampled gaussian": lambda noise: fa.Gaussian(noise).poisson(0.1),
    "compiled": compiled,
    "tables": tables,
    "response": lambda noise: fa.PureDP(1.0 / noise),
}


BOUNDED = [kind for kind in KINDS if "gaussian" not in kind and kind != "tables"]
"""Those that state a pure guarantee."""


@pytest.mark.parametrize("factor", [2.0, 1.01, 1.001])
@pytest.mark.parametrize(
    ("kind", "what"),
    [(kind, what) for kind in KINDS for what in ("losses_of", "divergence_of")]
    + [(kind, "pure_of") for kind in BOUNDED],
)
def test_the_contract_catches_a_statement_of_less_noise_than_there_is(kind, what, factor):
    right, wrong = KINDS[kind](1.5), KINDS[kind](1.5 * factor)
    said = {"losses_of": right, "divergence_of": right, "pure_of": right} | {what: wrong}
    with pytest.raises(ContractError, match=r"pure_epsilon: |divergence: |losses: "):
        check_mechanism(Said(**said), neighbors="remove")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "compiled"])  # test_jit.py has one
def test_what_is_put_together_rightly_keeps_the_contract(kind):
    check_mechanism(Said(*[KINDS[kind](1.5)] * 3), neighbors="remove")


@pytest.mark.parametrize("kind", KINDS)
def test_the_contract_catches_deltas_that_are_too_small_by_a_thousandth(kind):
    with pytest.raises(ContractError, match=r"delta_bounds: upper bound .* is below the .*sum"):
        check_mechanism(KINDS[kind](1.5), neighbors="remove", delta_bounds=scaled)


@dataclass(frozen=True)
class Between(fa.Mechanism, relations=("add_remove", "add", "remove")):
    """Laplace noise that says a smaller divergence between two orders."""

    low: float
    high: float

    def losses(self, relation):
        return fa.Laplace(1.0).losses(relation)

    def pure_epsilon(self, relation):
        return 1.0

    def divergence(self, orders, relation):
        value = fa.Laplace(1.0).divergence(orders, relation)
        return np.where((orders > self.low) & (orders < self.high), 0.95 * value, value)


@pytest.mark.parametrize(("low", "high"), [(32.0, 1e12), (1.0, 1.4), (50.0, 500.0), (9.0, 31.0), (5e5, 5e6)])
def test_the_contract_catches_a_divergence_that_is_too_small_at_some_orders(low, high):
    with pytest.raises(ContractError, match=r"divergence: .* is less than what follows from"):
        check_mechanism(Between(low, high), neighbors="add_remove")


@pytest.mark.parametrize("change", ["swapped", "one way"])
@pytest.mark.parametrize("kind", ["sampled laplace", "sampled gaussian", "lopsided tables"])
def test_the_contract_catches_directions_that_are_exchanged(kind, change):
    right = TABLES if kind == "lopsided tables" else KINDS[kind](1.5)
    with pytest.raises(ContractError, match=r"pure_epsilon: |divergence: |losses: "):
        check_mechanism(Said(right, right, right, change), neighbors="remove")


@pytest.mark.parametrize(
    "mechanism",
    [
        fa.TruncatedLaplace(2.0, 20.0),
        fa.TruncatedLaplace(2.0, 20.0).poisson(0.1),
        fa.ApproxDP(0.3, 1e-6),
        fa.from_pmf([0.5, 0.4, 0.1, 0], [0.45, 0.45, 0, 0.1]),
    ],
    ids=repr,
)
def test_the_contract_catches_mass_at_infinity_that_is_dropped(mechanism):
    with pytest.raises(ContractError, match=r"losses: masses of .* add up to"):
        check_mechanism(Said(mechanism, mechanism, mechanism, "dropped"), neighbors="remove")


@pytest.mark.parametrize(
    "mechanism", [fa.TruncatedLaplace(1.0, 0.4), fa.ApproxDP(0.3, 1.0), fa.from_pmf([1, 0], [0, 1])], ids=repr
)
def test_what_releases_everything_keeps_the_contract(mechanism):
    for relation in mechanism.relations:
        assert "epsilon and delta" in check_mechanism(mechanism, neighbors=relation).passed[-1]


def test_the_contract_catches_a_mechanism_that_refuses():
    def refuses(job, **target):
        raise ValueError("not today")

    with pytest.raises(ContractError, match=r"Laplace.*delta_bounds: refused: not today|does not name the relation"):
        check_mechanism(fa.Laplace(1.0), delta_bounds=refuses)


def test_the_contract_bites_where_assertions_are_switched_off():
    code = (
        "import fastacct as fa\n"
        "from fastacct.core.bounds import Bounds\n"
        "from fastacct.testing import check_mechanism\n"
        "low = lambda job, **target: Bounds(*(0.5 * x for x in fa.delta_bounds(job, **target)[:2]), 0)\n"
        "check_mechanism(fa.RandomizedResponse(1.0), neighbors='replace_one', seconds=None, delta_bounds=low)\n"
    )
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "ContractError" in run.stderr


def test_the_contract_keeps_to_its_time_and_says_what_it_left_out():
    asked, shown = [], []

    def slow(job, **target):
        asked.append(1)
        time.sleep(0.05)
        return fa.delta_bounds(job, **target)

    skipped = check_mechanism(fa.PureDP(0.3), seconds=0.01, progress=shown.append, delta_bounds=slow)
    assert len(asked) <= 1
    assert shown[0] == "equality and refusals"
    assert "counts, add_remove" in skipped
    assert check_mechanism(fa.PureDP(0.3), neighbors="remove", seconds=None, progress=shown.append) == ()
    assert shown[-1] == "epsilon and delta, remove"
    with pytest.raises(ValueError, match=r"seconds = 0\.0"):
        check_mechanism(fa.PureDP(0.3), seconds=0.0)


class TwoWays(fa.Mechanism):
    """A coin whose losses are half as large where one direction alone is asked for."""

    size: float = parameter(Domain(0.1, 2.0))

    def losses(self, relation):
        half = 0.5 if relation == "add" else 1.0
        one = 1.0 / (1.0 + math.exp(-half * self.size))
        found = table([one, 1.0 - one], [1.0 - one, one])
        return Pair(found, found)


def test_losses_of_one_direction_are_the_same_alone():
    with pytest.raises(ContractError, match="losses: of direction 'add' have another delta under"):
        check_mechanism(TwoWays(1.0))


def test_a_report_names_the_relations_that_it_compared():
    """Samples under replace_one are refused: they are not among what was compared."""
    rows = dict(row.strip().split(": ", 1) for row in str(check_mechanism(fa.PureDP(0.3))).splitlines()[1:-1])
    assert rows["samples (replace_one)"] == "nothing to compare"
    assert any(row.startswith("samples (add_remove") and "replace_one" not in row for row in rows)


def test_a_report_prints_what_was_checked():
    report = check_mechanism(fa.PureDP(0.3), neighbors="remove")
    assert not report
    assert report == ()
    assert len(report.passed) == len(set(report.passed)) >= 17
    assert str(report).startswith(f"PureDP(epsilon=0.3) passed {len(report.passed)} checks: remove\n")
    assert all(name.partition(", ")[0] in repr(report) for name in report.passed)
    rows = dict(row.strip().split(": ", 1) for row in str(report).splitlines()[1:-1])
    of_sums = report.compared["sums over losses, remove"]
    assert rows["sums over losses (remove)"] == (
        f"{of_sums} comparisons of delta of one and two releases with sums over the losses"
    )
    assert of_sums > 3
    assert rows["alternatives (remove)"] == "nothing to compare"
    assert str(report).endswith("one release is described by losses, pure_epsilon")
    late = check_mechanism(fa.PureDP(0.3), neighbors="remove", seconds=1e-9)
    assert late
    assert not late.passed
    assert f"not finished in time: {late[0]}, " in str(late)
    with pytest.raises(TypeError, match="mechanism must be a mechanism"):
        check_mechanism(fa.PureDP)


def test_a_report_says_that_losses_are_stated_once():
    class Once(fa.Mechanism):
        def losses(self, relation):
            return fa.Laplace(2.0).losses(relation)

    told = str(check_mechanism(Once(), neighbors="add")).splitlines()[-1]
    assert told.strip().startswith(
        "one release is described by losses alone: what follows from it was compared, and no"
    )
