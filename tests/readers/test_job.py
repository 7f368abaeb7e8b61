"""Jobs as they are read: what is known of a record that is replaced by what is known of one removed and one added."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.core.bounds import Bounds, DisjointBoundsWarning
from fastacct.readers import job
from fastacct.readers.asked import Settings
from fastacct.readers.cell import CellReader


def gaussian_delta(mu, epsilon):
    """Closed form, in 30 digits."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("mu", [0.5, 1.0])
def test_a_replacement_is_a_removal_and_an_addition(mu, epsilon):
    """delta(2 e) <= (1 + exp(e)) delta'(e): of Gaussian noise the record that is replaced moves the mean by 2."""
    step = fa.Gaussian(1.0 / mu) * 1

    def twice(quantity, target):
        target = np.array([target])
        ask = job.Ask(quantity, target, target.shape, "replace_one")
        return float(job.by_cells(step, ask, Settings(("twice",))).upper[0])

    with mp.workdps(30):
        truth = gaussian_delta(2 * mpf(mu), mpf(epsilon))
        assert twice("delta", epsilon) >= truth
        assert gaussian_delta(2 * mpf(mu), mpf(twice("epsilon", float(truth)))) <= truth


def test_a_part_of_the_data_answers_as_it_does_alone():
    """Of a part of Gaussians, too, that its line leaves wide: a first bound of it is not its last one."""
    part = fa.Gaussian(0.035).poisson(0.18) * 7
    both = fa.delta_bounds(fa.Parallel(part, fa.Laplace(7e5) * 2), epsilon=0.3, neighbors="add")
    assert both == fa.delta_bounds(part, epsilon=0.3, neighbors="add")


KNOWN = {
    "gaussians": fa.Gaussian(1.0).poisson(0.01) * 1000 + fa.Gaussian(20.0),
    "laplace": fa.Laplace(3.0) * 4,
    "parts of the data": fa.Parallel(fa.Gaussian(1.0), fa.Laplace(2.0)) * 1,
    "several cells": fa.Gaussian([2.0, 4.0]) * 10,
}


@pytest.mark.parametrize("other", [fa.Exponential(0.1) * 2, fa.RepeatedSelection(fa.Gaussian(9.0), mean=2.0) * 1])
@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
def test_a_job_releases_at_least_what_its_known_mechanisms_do(known, other):
    """Of a selection a class is bounded, and nothing from below: the rest of a job proves its lower end by itself."""
    for bounds, low, target in (
        (fa.epsilon_bounds, fa.epsilon_lower, {"delta": np.array([[1e-5], [1e-9]])}),
        (fa.delta_bounds, fa.delta_lower, {"epsilon": np.array([[0.1], [0.7]])}),
    ):
        found, alone = bounds(known + other, **target), low(known, **target)
        assert (found.lower == np.minimum(alone, found.upper)).all()
        assert (found.lower > 0.0).all()
        assert (found.lower < found.upper).all()
        one = bounds((known + other).cell(0), **{name: float(value[1, 0]) for name, value in target.items()})
        assert (one.lower, one.upper) == (found.lower[1, 0], found.upper[1, 0])
    assert fa.epsilon_lower(other, delta=1e-5) == 0.0
    assert np.max(fa.epsilon_lower(known * 0 + other, delta=1e-5)) == 0.0


@pytest.mark.parametrize("neighbors", ["add", "remove", "add_remove"])
def test_a_selection_that_is_in_the_job_reaches_its_lower_end(neighbors):
    """Report noisy max of two scores as a table, which the class of that epsilon has: between the ends of the class."""
    first = math.exp(0.05) / (1.0 + math.exp(0.05))
    table, noise = fa.from_pmf([first, 1.0 - first], [1.0 - first, first]), fa.Gaussian(2.0).poisson(0.1) * 20
    truth = fa.epsilon_bounds(table + noise, delta=1e-6, neighbors=neighbors)
    found = fa.epsilon_bounds(fa.Exponential(0.1) + noise, delta=1e-6, neighbors=neighbors)
    assert 0.5 * found.upper < found.lower <= truth.upper
    assert truth.lower <= found.upper


@pytest.mark.parametrize("known", [KNOWN["gaussians"], KNOWN["laplace"], KNOWN["several cells"]])
def test_an_attack_on_the_known_mechanisms_is_one_on_the_whole_job(known):
    fpr, whole = np.array([[0.001], [0.01], [0.1], [1.0]]), known + fa.Exponential(0.1)
    true, false = fa.tpr_at_fpr_bounds(whole, fpr), fa.tradeoff_bounds(whole, fpr)
    of_part = fa.tpr_at_fpr_bounds(known, fpr), fa.tradeoff_bounds(known, fpr)
    assert (true.lower == np.minimum(of_part[0].lower, true.upper)).all()
    assert (false.upper == np.maximum(of_part[1].upper, false.lower)).all()
    assert (true.lower[:3] > fpr[:3]).all()
    assert (true.lower <= true.upper).all()
    assert (false.lower <= false.upper).all()
    assert (true.upper == fa.tpr_at_fpr(whole, fpr)).all()
    alone = fa.tpr_at_fpr_bounds(fa.Exponential(0.1), 0.01)
    assert alone.lower == 0.01 < alone.upper


def test_known_mechanisms_reach_their_largest_loss_at_delta_0():
    job = fa.Laplace(2.0) * 3 + fa.Exponential(0.1)
    found = fa.epsilon_bounds(job, delta=0.0)
    assert 1.5 * (1.0 - 1e-12) < found.lower <= 1.5 < found.upper


def test_a_known_part_that_is_above_its_job_is_heard():
    part, ask = fa.Process({fa.Gaussian(0.5): 1}), job.Ask("epsilon", np.full((1, 2), 1e-5), (1, 2))
    least, most = np.zeros((1, 2)), np.full((1, 2), 0.1)
    with pytest.warns(DisjointBoundsWarning):
        found = job._beside(part, ask, Bounds(least, most, np.ones((1, 2), dtype=np.uint8)))
    assert found.upper.min() > 9.0  # the safe side is kept
    assert (found.lower == 0.0).all()


def test_targets_in_any_order_have_bounds_of_their_own():
    """What is not tight takes over what harder targets of the same call have, and nothing of easier ones."""
    whole, targets = fa.Exponential(1.0) * 2 + fa.Laplace(2.0) * 3, np.array([2.0, 0.5, 1.0])
    found = fa.delta_bounds(whole, epsilon=targets)
    assert (found.upper >= [fa.delta_bounds(whole, epsilon=one).lower for one in targets.tolist()]).all()
    assert (found.upper >= [fa.delta(fa.Laplace(2.0) * 3, epsilon=one) for one in targets.tolist()]).all()
    assert np.argsort(found.upper).tolist() == [0, 2, 1]


def no_grid(*_, **__):
    pytest.fail("a grid was asked")


def test_of_several_alternatives_the_largest_is_roughly_known(monkeypatch):
    """By lines, where these know it."""
    monkeypatch.setattr(CellReader, "roughly", no_grid)
    whole = fa.Parallel(fa.Laplace(2.0), fa.Laplace(5.0)) * 1
    assert job.roughly("delta", whole, 0.3, "add_remove") == fa.delta(fa.Laplace(2.0), epsilon=0.3)


def test_alternatives_are_told_apart_by_divergences_before_any_grid(monkeypatch):
    """Of those that are much smaller lines know nothing here."""
    for name in ("roughly", "larger"):
        monkeypatch.setattr(CellReader, name, no_grid)
    draws = fa.Gaussian(19.5).with_replacement(draws=54, records=1000) * 5
    table = fa.from_pmf([0.55, 0.45], [0.75, 0.25]) * 3
    whole = fa.Parallel(draws, fa.PureDP(0.07) + fa.Laplace(5.17) * 3) * 11 + table
    found = fa.delta_bounds(whole, epsilon=6.46, neighbors="remove")
    assert found.status == fa.Status.TIGHT
    assert found == fa.delta_bounds(
        (fa.PureDP(0.07) + fa.Laplace(5.17) * 3) * 11 + table, epsilon=6.46, neighbors="remove"
    )


def test_finite_losses_of_all_releases_are_added_up():
    whole = (fa.from_pmf([0.5, 0.5, 0.0], [0.2, 0.3, 0.5]) * 3).decompose("remove")
    assert job.largest_finite(whole, "remove") == pytest.approx(3.0 * math.log(2.5), rel=1e-12)
    assert job.largest_finite(whole, "remove") >= 3.0 * math.log(2.5) * (1.0 - 1e-15)


def test_a_delta_below_every_double_is_asked_of_nobody_else(monkeypatch):
    monkeypatch.setattr(job, "_cells", None)
    for run in (fa.Gaussian(1.0).poisson(0.01) * 10, fa.Gaussian(2.0) * 3 + fa.Gaussian(1.0).poisson(0.01) * 10):
        found = fa.delta_bounds(run, epsilon=[60.0, 5000.0])
        assert found.upper[0] > found.lower[0] > 0.0
        assert (found.lower[1], found.upper[1]) == (0.0, math.ulp(0.0))


ABOUT = {
    "truncated": (fa.Gaussian(0.9).poisson(0.01, at_most=20, records=1000) * 300, ("zero_out", "replace_one", "add")),
    "draws": (fa.Gaussian(1.5).with_replacement(10, 1000) * 200, ("zero_out", "replace_one", "remove")),
    "replaced": (fa.Gaussian(1.0).poisson(0.01) * 400, ("replace_one",)),
    "several": (fa.Gaussian(1.0).poisson(0.01) * 400 + fa.Laplace(20.0) * 3, ("add_remove", "remove")),
    "plain": (fa.Gaussian(2.0) * 3, ("add_remove",)),
    "epochs": (fa.Gaussian(1.0).allocation(50) * 3, ("add_remove", "zero_out")),
}


@pytest.mark.parametrize("kind", ABOUT)
def test_lines_that_are_not_certified_say_about_what_is(kind):
    """Near what was expected to eight digits, of the larger direction; further away to about two."""
    run, relations = ABOUT[kind]
    for relation in relations:
        lower, upper, _ = (float(x) for x in fa.epsilon_bounds(run, delta=1e-5, neighbors=relation))
        upper = upper if run.tight else fa.epsilon(run, delta=1e-5, neighbors=relation)
        assert job.about(run, 1e-5, relation, upper) == pytest.approx(upper, rel=3e-8)
        for away in (0.3, 0.75, 1.3, 3.0):
            assert job.about(run, 1e-5, relation, upper * away) == pytest.approx(upper, rel=0.02)
        assert lower <= upper


def test_of_what_never_decays_nothing_is_said_about():
    assert job.about(fa.RandomizedResponse(0.3) * 4, 1e-5, "replace_one", 1.0) == math.inf
    assert job.about(fa.ZCDP(0.1) * 4, 1e-5, "add_remove", 1.0) == math.inf
    assert job.about(fa.Gaussian(0.0) * 4, 1e-5, "add_remove", 1.0) == math.inf
