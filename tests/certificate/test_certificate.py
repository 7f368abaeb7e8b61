"""Certificates: proved numbers beside the engine's interval, and what must not be proved."""

import ast
import json
import math
import re
import subprocess
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np
import pytest

import fastacct as fa
from fastacct.certificate import checker
from fastacct.certificate.describe import releases, text_of
from fastacct.certificate.search import Curve, Direction
from fastacct.mechanisms.algebra import Grouped, PoissonSampled
from fastacct.mechanisms.batches import OfGaussian
from fastacct.testing import examples

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"
CHECKER = Path(checker.__file__)
BATCHES, LINE = CHECKER.with_name("batches.py"), CHECKER.with_name("line.py")
RUN = fa.Gaussian(1.0408).poisson(0.01024) * 2930
JOBS = {
    "laplace": (fa.Laplace(5.0) * 100, "add_remove"),
    "sampled laplace": (fa.Laplace(2.0).poisson(0.1) * 1000, "add_remove"),
    "gaussian, once": (fa.Gaussian(1.0) * 1, "add_remove"),
    "replaced": (fa.Gaussian(1.0).poisson(0.01) * 200, "replace_one"),
    "replaced, all": (fa.Gaussian(3.0) * 5 + fa.Laplace(9.0), "replace_one"),
    "two kinds": (fa.Laplace(20.0) * 3 + fa.Gaussian(1.0).poisson(0.01) * 300, "zero_out"),
    "discrete gaussian": (fa.DiscreteGaussian(5.0, 2) * 10, "add_remove"),
    "sampled discrete gaussian": (fa.DiscreteGaussian(2.0).poisson(0.1) * 50, "add_remove"),
    "discrete laplace": (fa.DiscreteLaplace(5.0, 3) * 10, "add_remove"),
    "skellam": (fa.Skellam(25.0) * 10, "replace_one"),
    "response": (fa.RandomizedResponse(0.3, 4) * 30, "replace_one"),
    "response, zeroed": (fa.RandomizedResponse(0.3, 4) * 30 + fa.Gaussian(5.0), "zero_out"),
    "pure": (fa.PureDP(0.1) * 50, "add_remove"),
    "guarantee": (fa.ApproxDP(0.1, 1e-8) * 30, "add_remove"),
    "sampled guarantee": (fa.ApproxDP(0.5, 1e-8).poisson(0.1) * 30, "add_remove"),
    "many kinds": (fa.DiscreteGaussian(3.37, 2) + fa.DiscreteLaplace(8.03, 2) * 41 + fa.PureDP(0.1) * 3, "add_remove"),
    "shuffled": (fa.Gaussian(3.0).shuffled(20) * 4, "zero_out"),
    "group": (fa.Gaussian(1.5).poisson(0.05).group(3) * 40, "add_remove"),
    "group, replaced": (fa.Gaussian(3.0).poisson(0.05).group(2) * 40, "replace_one"),
    "group of all": (fa.Gaussian(9.0).group(3) * 4 + fa.Laplace(20.0).group(3), "add_remove"),
    "sampled as a group": (fa.Gaussian(3.0).group(2).poisson(0.1) * 20, "add_remove"),
    "group of guarantees": (fa.PureDP(0.1).group(2) * 9, "replace_one"),
    "fixed size": (fa.Gaussian(2.0).fixed_size(10, 1000) * 100, "add_remove"),
    "fixed size, replaced": (fa.Gaussian(2.0).fixed_size(10, 1000) * 100, "replace_one"),
    "fixed size, zeroed": (fa.Gaussian(2.0).fixed_size(10, 1000) * 100, "zero_out"),
    "group of a fixed size": (fa.Gaussian(4.0).fixed_size(10, 100).group(2) * 20, "replace_one"),
    "all records": (fa.Gaussian(4.0).fixed_size(100, 100) * 2, "add_remove"),
    "with replacement": (fa.Gaussian(2.0).with_replacement(10, 1000) * 100, "add_remove"),
    "with replacement, replaced": (fa.Gaussian(4.0).with_replacement(10, 1000) * 50, "replace_one"),
    "at most": (fa.Gaussian(1.0).poisson(0.01, at_most=16, records=1000) * 100, "add_remove"),
    "at most, zeroed": (fa.Gaussian(2.0).poisson(0.01, at_most=16, records=1000) * 100, "zero_out"),
    "mixture": (fa.GaussianMixture(4.0, [(0.9, 0.0), (0.1, 2.0)], [(0.7, 0.0), (0.3, -1.0)]) * 20, "add_remove"),
    "one step of an epoch": (fa.Gaussian(4.0).allocation(1) * 3, "add_remove"),
    "a step that is kept": (fa.Gaussian(4.0).allocation(6, selected=6) * 1, "zero_out"),
    "tree": (fa.TreeAggregation(8.0, 100) * 1, "replace_one"),
    "table": (fa.from_pmf([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]) * 20, "add_remove"),
    "lopsided table": (fa.from_pmf([0.5, 0.5, 0.0], [0.25, 0.625, 0.125]).poisson(0.2) * 20, "remove"),
    "lopsided sample, where a record shows nothing": (
        fa.from_pmf([0.5, 0.5, 0.0], [0.25, 0.625, 0.125]).poisson(0.2) * 20,
        "add",
    ),
    "lopsided table, added": (fa.from_pmf([0.5, 0.5, 0.0], [0.25, 0.625, 0.125]) * 2, "add"),
}


@pytest.mark.parametrize("name", JOBS)
def test_what_is_proved_is_just_above_the_engine(name: str) -> None:
    job, relation = JOBS[name]
    delta = 0.4 if name.endswith("added") else 1e-6
    found = fa.certify(job, delta=delta, neighbors=relation, digits=3)
    bounds = fa.epsilon_bounds(job, delta=delta, neighbors=relation)
    assert bounds.lower <= float(found.epsilon) <= bounds.upper * (1.0 + 3e-3) + 1e-6


SUMS = {
    "rare large losses": (fa.DiscreteGaussian(7.46).poisson(0.003) * 3 + fa.Gaussian(0.731).poisson(0.021) * 72, 1e-11),
    "a mixture": (fa.Gaussian(1.5).poisson(0.00134).group(2) * 1 + fa.Gaussian(0.9).poisson(0.1) * 2, 1e-3),
    "an atom at infinity": (fa.ApproxDP(0.06, 1e-9).poisson(0.03) * 540 + fa.Laplace(40.0) * 50, 1e-6),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_in_floats_is_what_the_checker_proves(name: str) -> None:
    """It decides what is claimed, and with how many places."""
    job, delta = SUMS[name]
    document = {"releases": releases(job, "add_remove"), "relation": "add_remove"}
    for way in ("remove", "add"):
        direction = Direction(checker, document, way, delta)
        direction.measure(2048, "epsilon", delta)
        epsilon, plan = direction.tried[0].number, direction.plan(2048, 0.0)
        for shift, is_proved in ((1e-6, True), (-1e-6, False)):
            claim = document | {"epsilon": text_of(epsilon * (1.0 + shift))}
            assert (checker.largest_delta(claim, way, plan, checker) <= checker.ball(text_of(delta))) is is_proved


def test_numbers_of_few_places_do_not_mislead() -> None:
    """Where rare losses lie between the points of a coarse lattice, its numbers fall at first in another way."""
    job = fa.Gaussian(9.0).poisson(0.015) * 200 + fa.DiscreteGaussian(1.86, 3).poisson(0.007) * 50
    found = fa.certify(job, delta=1e-6, neighbors="add", digits=4)
    assert float(found.epsilon) <= 1.0001 * fa.epsilon(job, delta=1e-6, neighbors="add")


def test_a_lattice_is_fine_wherever_a_tilt_leads() -> None:
    """One step has no largest tilt: masses at few tilts once left out the losses between, and 2e-3 of epsilon."""
    found = fa.certify(fa.Gaussian(1.03) * 1, delta=1.14e-10, neighbors="replace_one")
    assert float(found.epsilon) <= 1.00002 * fa.epsilon(fa.Gaussian(1.03), delta=1.14e-10, neighbors="replace_one")
    rare = fa.Gaussian(2.0).with_replacement(3, 1000) * 2  # two modes, far apart
    found = fa.certify(rare, delta=1e-8, neighbors="zero_out")
    assert float(found.epsilon) <= 1.00005 * fa.epsilon(rare, delta=1e-8, neighbors="zero_out")


def test_atoms_of_several_kinds_lie_near_the_points_of_a_lattice() -> None:
    """An epsilon next to the largest loss was 1.8e-4 too large: the step suited the largest atoms alone."""
    job = fa.DiscreteLaplace(17.1, 2) * 3 + fa.Laplace(47.2) * 5
    found = fa.certify(job, delta=1.9e-12, neighbors="remove")
    assert float(found.epsilon) <= 1.00002 * fa.epsilon(job, delta=1.9e-12, neighbors="remove")


def test_masses_beyond_floats_prove_nothing_and_warn_of_nothing() -> None:
    with warnings.catch_warnings(action="error"):
        assert Curve(np.array([-1.0, 0.0, 1.0]), np.full(3, 1e308), 0.0).epsilon(1e-6) == math.inf


def test_a_lattice_is_fine_where_one_rare_loss_is_enough() -> None:
    """Its losses have hardly a mass at any tilt: half of the step once proved more."""
    job = fa.Gaussian(13.3).with_replacement(27, 1000) * 7
    document = {"releases": releases(job, "replace_one"), "relation": "replace_one"}
    direction = Direction(checker, document, "remove", 1.77e-10)
    direction.measure(1 << 13, "epsilon", 1.77e-10)
    direction.measure(1 << 14, "epsilon", 1.77e-10)
    coarse, fine = direction.tried
    assert fine.number < coarse.number


def test_as_many_places_as_failed_are_not_tried_again() -> None:
    """Losses left of the window are added on its right by the checker alone: its three tries were once the same."""
    document = {"releases": releases(fa.Laplace(5.0) * 10, "remove"), "relation": "remove"}
    direction = Direction(checker, document, "remove", 1e-6)
    for places in (1 << 13, 1 << 14):
        direction.measure(places, "epsilon", 1e-6)
    claim = 1.01 * direction.tried[0].number
    assert direction.places(claim) == 1 << 13
    direction.failed = 1 << 13
    assert direction.places(claim) == 1 << 14
    direction.failed = 1 << 14
    assert direction.places(claim) == direction.places(99.0 * claim) == 1 << 15  # once a negative shift count


def test_losses_up_to_100_have_the_bits_that_they_cancel() -> None:
    job = fa.Gaussian(0.865).with_replacement(34, 1000) * 4
    direction = Direction(checker, {"releases": releases(job, "remove"), "relation": "remove"}, "remove", 1e-5)
    direction.measure(2048, "epsilon", 1e-5)
    assert direction.tried[0].number < 20.0  # of 128 bits it was infinite: y has 145 of them


def test_the_window_is_laid_from_masses_of_losses_that_are_far_out() -> None:
    """Of 192 bits those of losses above 100 were noise: the window ended at 597, and one epsilon of 18.6 was 700."""
    job = fa.Gaussian(0.606).with_replacement(19, 1000) * 11
    direction = Direction(checker, {"releases": releases(job, "remove"), "relation": "remove"}, "remove", 6e-4)
    assert direction.parts[0].high > 110.0
    assert direction.window.high < 130.0


def test_members_that_are_hardly_ever_drawn_together_are_not_listed() -> None:
    """Each one costs a tail at each point of a lattice: 19 draws took 93 s, and bits of far losses a half of them."""
    job = fa.Gaussian(0.865).with_replacement(34, 1000) * 4 + fa.Gaussian(5.0).poisson(0.01).group(3) * 9
    found = fa.certify(job, delta=1e-5, neighbors="remove", digits=3)
    reaches = [one["reach"] for one in found.document["releases"]]
    assert found.document["proof"]["remove"]["bits"] <= 160
    assert 3 <= reaches[0] <= 8
    assert reaches[1] == 3
    assert float(found.epsilon) <= 1.002 * fa.epsilon(job, delta=1e-5, neighbors="remove")
    document = found.document
    for reach in (1, 2):  # more members are an infinite loss, of a larger mass
        document["releases"][0]["reach"] = reach
        with pytest.raises(ValueError, match="only delta"):
            checker.proved(json.dumps(document))


def test_a_reach_is_refused_where_nothing_is_drawn() -> None:
    for one in ({"gaussian": "1", "reach": 3}, {"gaussian": "1", "group": 2, "reach": 3}):
        with pytest.raises(ValueError, match="drawn in two ways"):
            checker.one_release({"count": 1, **one}, "remove")


def test_a_window_that_is_moved_left_still_holds_epsilon() -> None:
    job = fa.Gaussian(14.7).fixed_size(21, 1000) * 317 + fa.DiscreteLaplace(1.07, 3) * 8
    document = {"releases": releases(job, "remove"), "relation": "remove"}
    plan = Direction(checker, document, "remove", 5.46e-8).plan(1 << 16, 0.0)
    assert (plan["first"] + plan["places"]) * float(plan["step"]) > 22.7  # it ended at 18.8; epsilon is 22.63


def test_a_lattice_of_both_directions_has_the_bits_of_the_harder_one() -> None:
    job = fa.Gaussian(1.0).fixed_size(9, 1000) * 2
    found = fa.certify(job, delta=5e-12, neighbors="replace_one", digits=2)
    document, bits = found.document, found.document["proof"]["add"]["bits"]
    assert document["proof"]["remove"] == document["proof"]["add"]
    assert bits >= Direction(checker, document, "add", 5e-12).plan(8192, 0.0)["bits"]


AT_THE_END = {
    "the largest loss": (fa.DiscreteLaplace(6.82, 3) * 3, 1e-10, "1.31965"),
    "one of a sum": (fa.Laplace(2.0) * 2, 1e-60, "1.00001"),
    "a table": (fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4]) * 2, 1e-9, "1.96166"),
    "its own delta": (fa.ApproxDP(0.5, 1e-6) * 1, 1e-6, "0.5"),
    "the sum of deltas": (fa.ApproxDP(0.5, 1e-6) * 3, 3e-6, "1.5"),
    "pure": (fa.PureDP(0.3) * 3 + fa.ApproxDP(0.1, 1e-7), 1e-7, "1"),
}


@pytest.mark.parametrize("name", AT_THE_END)
def test_an_epsilon_that_is_nearly_the_largest_loss_is_proved(name: str) -> None:
    job, delta, epsilon = AT_THE_END[name]
    assert fa.certify(job, delta=delta).epsilon == epsilon


def test_guarantees_add_up_to_a_delta() -> None:
    assert fa.certify(fa.ApproxDP(0.5, 1e-6) * 3, epsilon=1.5).delta == "0.000003"
    assert float(fa.certify(fa.ApproxDP(0.5, 1e-6) * 3, epsilon=1.4).delta) > 1e-2


def test_five_digits_are_five_digits() -> None:
    found = fa.certify(RUN, delta=1e-5)
    bounds = fa.epsilon_bounds(RUN, delta=1e-5)
    assert bounds.lower <= float(found.epsilon) <= bounds.upper * (1.0 + 2e-5)


def test_a_delta_is_proved() -> None:
    job = fa.Laplace(5.0) * 30
    found = fa.certify(job, epsilon=3.0)
    bounds = fa.delta_bounds(job, epsilon=3.0)
    assert found.epsilon == "3.0"
    assert bounds.lower <= float(found.delta) <= bounds.upper * (1.0 + 1e-3)


def test_more_digits_are_closer() -> None:
    job = fa.Laplace(5.0) * 30
    exact = fa.epsilon(job, delta=1e-6)
    off = [float(fa.certify(job, delta=1e-6, digits=digits).epsilon) - exact for digits in (3, 6)]
    assert 0.0 <= off[1] < 1e-5 < off[0] < 1e-2


@pytest.mark.parametrize(("name", "proved"), [("laplace", "10.2"), ("group of all", "3.1"), ("at most", "4.9")])
def test_the_program_runs_alone(name: str, proved: str, tmp_path: Path) -> None:
    """From a folder where there is no fastacct, isolated from the paths of this process."""
    path = fa.certify(JOBS[name][0], delta=1e-6, digits=3).save(tmp_path / "run.json")
    for file in (CHECKER, BATCHES, LINE):
        (tmp_path / file.name).write_text(file.read_text())
    command = [sys.executable, "-c", _ALONE, str(tmp_path / "checker.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"proved: epsilon <= {proved}")


_ALONE = """
import runpy, sys
sys.modules["fastacct"] = sys.modules["numpy"] = None  # whoever imports them fails
sys.argv = sys.argv[1:]
sys.path.insert(0, ".")  # as `python checker.py` does
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(("file", "most"), [(CHECKER, 200), (BATCHES, 160), (LINE, 120)])
def test_the_program_is_short_and_needs_flint_alone(file: Path, most: int) -> None:
    text = file.read_text()
    assert len(text.splitlines()) <= most
    assert f"{len(text.splitlines())} lines" in PAGE.read_text()
    names = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
        if name
    }
    assert names - {"flint"} <= sys.stdlib_module_names


def test_a_claim_is_read_as_it_is_printed() -> None:
    assert text_of(0.01024) == "0.01024"
    assert text_of(1e-9) == "0.000000001"
    assert releases(RUN, "add_remove") == [{"count": 2930, "gaussian": "1.0408", "poisson": "0.01024"}]


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"format": "fastacct certificate 1"}', "[" * 5000])
def test_what_is_no_certificate_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="the text is no certificate"):
        fa.Certificate(text)


@pytest.mark.parametrize(
    ("job", "relation", "name"),
    [
        (fa.Gaussian(1.0).allocation(10) * 1, "add_remove", "allocation"),
        (fa.ZCDP(0.1) * 1, "add_remove", "ZCDP"),
        (fa.Gaussian(1.0).allocation(10, selected=2) * 1, "add_remove", "allocation"),
        (fa.GaussianMixture(2.0, [(0.5, 0.0), (0.5, 1.0)]).poisson(0.1) * 2, "add_remove", "GaussianMixture"),
        (fa.Gaussian(1.0).fixed_size(9, 10).group(2) * 2, "add_remove", "fixed_size"),
    ],
)
def test_what_is_not_covered_is_refused_by_name(job: fa.Process, relation: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}.*has no certificate"):
        fa.certify(job, delta=1e-6, neighbors=relation)


WAYS = {"alone": lambda one: one, "sampled": lambda one: one.poisson(0.1), "in a group": lambda one: one.group(2)}
MADE_BY = {"PairOfTables": "from_pmf", "PairOfLosses": "from_losses"}
WORDS = {(True,): "yes", (False,): "no", (False, True): "on a ring", (): "there is none"}


def told_of_coverage() -> dict[tuple[str, str], str]:
    """What the page says of each kind, alone and sampled."""
    rows = re.findall(r"^\| (`.*) \| (.*) \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)
    each = [(names.split("`")[1::2], zip(WAYS, words, strict=False)) for names, *words in rows]
    return {(kind, way): word for kinds, words in each for way, word in [*words] for kind in kinds}


def are_covered(kind: fa.Mechanism, way: str) -> set[bool]:
    """Whether a mechanism is, at any relation; empty: there is none, or it tells nothing."""
    try:
        job = WAYS[way](kind)
    except ValueError:
        return set()
    refused = [told for relation in job.relations if "nothing is released" not in (told := refusal(job, relation))]
    assert all(type(kind).__name__ in told or not told for told in refused)
    return {not told for told in refused}


def refusal(job: fa.Mechanism, relation: str) -> str:
    """Empty: none."""
    try:
        releases(job, relation)
    except ValueError as error:
        return str(error)
    return ""


def test_what_the_page_says_is_covered_is_covered_and_the_rest_is_refused_by_name() -> None:
    page = told_of_coverage()
    found: dict[tuple[str, str], set[bool]] = {}
    for one in examples():
        if isinstance(one, Grouped | PoissonSampled | OfGaussian):  # samplers of Gaussian noise are tested above
            continue
        kind = type(one).__name__
        for way in WAYS:
            found.setdefault((MADE_BY.get(kind, kind), way), set()).update(are_covered(one, way))
    groups = {kind: known for (kind, way), known in found.items() if way == "in a group"}
    told = {at: WORDS[tuple(sorted(known))] for at, known in found.items() if at[1] != "in a group"}
    assert told == {at: word for at, word in page.items() if at in told}
    assert told.keys() == page.keys()
    assert all(False not in groups[kind] for (kind, way), word in told.items() if way == "alone" and word == "yes")


def test_random_allocation_is_said_to_rest_on_the_engine() -> None:
    with pytest.raises(ValueError, match=r"the ratio of a random allocation is a mean of many.*rests on the engine"):
        fa.certify(fa.Gaussian(1.0).allocation(10) * 2, delta=1e-6)


def test_a_process_that_has_run_for_long_certifies() -> None:
    checker.STARTED[:] = [process_time() - 3600.0]  # the ten minutes were once counted from the last proof
    assert float(fa.certify(fa.Laplace(5.0) * 3, delta=1e-6, digits=2).epsilon) < 0.61


def test_arguments() -> None:
    job = fa.Laplace(5.0) * 3
    with pytest.raises(TypeError, match="give delta"):
        fa.certify(job)
    with pytest.raises(TypeError, match="give delta"):
        fa.certify(job, delta=1e-6, epsilon=1.0)
    with pytest.raises(ValueError, match=r"digits = 13 is out of range"):
        fa.certify(job, delta=1e-6, digits=13)
    with pytest.raises(ValueError, match="of one job"):
        fa.certify(fa.Laplace([5.0, 6.0]) * 3, delta=1e-6)
