"""The ladder: an infinite answer is final, bounds meet in one place, and a rung is asked only where it may gain."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.bounds import DisjointBoundsWarning
from fastacct.readers import ladder
from fastacct.readers.contour import Contour
from fastacct.readers.nearby import EPSILON


def never(name, monkeypatch):
    """A rung that must not be asked."""
    rung = ladder.LADDER[name]
    monkeypatch.setitem(ladder.LADDER, name, rung._replace(ask=lambda *_: pytest.fail(f"{name} was asked")))


def test_an_answer_that_is_known_to_be_infinite_is_final(monkeypatch):
    for name in ("pure", "losses", "divergences", "unsampled"):
        never(name, monkeypatch)
    assert fa.epsilon_bounds(fa.TruncatedLaplace(2.0, 10.0) * 2, delta=1e-6)[:2] == (math.inf, math.inf)


def test_no_rung_is_asked_above_a_line_that_is_tight(monkeypatch):
    for name in ladder.LADDER:
        if name != "line":
            never(name, monkeypatch)
    assert fa.epsilon_bounds(fa.Laplace(5.0) * 100, delta=1e-6).status == fa.Status.TIGHT
    assert fa.epsilon_bounds(fa.Gaussian(2.0).poisson(0.01) * 100, delta=1e-6).status == fa.Status.TIGHT


def test_bounds_that_exclude_each_other_are_told_and_the_larger_one_counts(monkeypatch):
    job = fa.DiscreteGaussian(5.0) * 3
    honest = fa.epsilon_bounds(job * 1, delta=1e-4)
    lie = ladder.Said(0.0, 0.5 * honest.lower, "a lie")
    monkeypatch.setitem(ladder.LADDER, "line", ladder.LADDER["line"]._replace(ask=lambda *_: lie))
    with pytest.warns(DisjointBoundsWarning):
        found = fa.epsilon_bounds(fa.DiscreteGaussian(5.0) * 3, delta=1e-4)
    assert found.upper >= honest.lower
    assert found.lower == 0.0  # either may be the wrong one


@pytest.mark.parametrize(
    ("job", "neighbors"),
    [
        (fa.DiscreteGaussian(3.0).poisson(0.2) * 2, "add_remove"),
        (fa.Laplace(2.0) * 3 + fa.PureDP(0.1), "add_remove"),
        (fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4]).poisson(0.3) + fa.Exponential(0.3), "remove"),
    ],
    ids=["listed", "pure", "table"],
)
def test_targets_that_are_asked_together_have_the_bounds_of_each_alone(job, neighbors):
    """The line is asked for all at once, and each that it leaves climbs by itself; 0 has the sum of pure guarantees."""
    for ask, name, targets in (
        (fa.epsilon_bounds, "delta", [0.0, 1e-12, 1e-5, 0.02, 1.0]),
        (fa.delta_bounds, "epsilon", [0.0, 0.1, 1.0, 9.0, math.inf]),
    ):
        together = ask(fa.Process(list(job * 1)), **{name: targets}, neighbors=neighbors)
        alone = [ask(fa.Process(list(job * 1)), **{name: target}, neighbors=neighbors) for target in targets]
        for i, one in enumerate(alone):
            if one.status == fa.Status.TIGHT:
                assert (together.lower[i], together.upper[i], together.status[i]) == one
            assert together.upper[i] <= one.upper


def test_divergences_answer_where_losses_that_are_known_from_two_sides_do_not():
    """They say no more than such losses, but these say nothing of a delta so small, and a rung before them little."""
    job = fa.Gaussian(1.6).poisson(0.004, at_most=597, records=1000) * 4 + fa.PureDP(0.26) * 2
    by_divergences = fa.epsilon(job, delta=1e-300, neighbors="remove", accountant=fa.RDP())
    assert fa.epsilon(job, delta=1e-300, neighbors="remove") <= by_divergences * (1.0 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1.7e-6])
def test_one_release_of_mixtures_is_read_wherever_its_line_is_not_tight(epsilon):
    """No grid is needed for it: a rare record is replaced, and the line is 1e-5 wide."""
    lower, upper, _ = fa.delta_bounds(fa.Gaussian(1.22).poisson(1e-9), epsilon=epsilon, neighbors="replace_one")
    assert 0.0 < upper <= lower * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("job", "targets"),
    [
        (fa.Gaussian(39.7).poisson(1.146e-3) * 221 + fa.Gaussian(1.43).poisson(1.32e-7) * 2_610_221, {"epsilon": 0.44}),
        (fa.Gaussian(22.1).poisson(2.46e-8) * 1195 + fa.Gaussian(8.31).poisson(1e-7) * 67, {"epsilon": 0.61}),
        (
            fa.Gaussian(0.0352).poisson(0.6) * 2 + fa.Gaussian(6.0).poisson(0.73) * 2_778_147,
            {"delta": 1e-36, "neighbors": "add"},
        ),
    ],
    ids=["rare", "small", "add"],
)
def test_what_the_line_leaves_wide_of_several_sampled_gaussians_divergences_bound(job, targets):
    """Deltas were up to 1e13 times larger."""
    verb = fa.delta if "epsilon" in targets else fa.epsilon
    assert 0.0 < verb(job, **targets) <= verb(job, **targets, accountant=fa.RDP()) * (1.0 + 1e-6)


def test_where_nothing_else_is_known_the_job_without_its_samples_answers():
    """Random allocation has no losses one by one, and what else is there neither a line nor finite divergences."""
    sample = fa.Together(fa.ApproxDP(0.1, 1e-11) + fa.DiscreteGaussian(1.26, 2) * 3).poisson(0.0065)
    assert fa.epsilon(sample * 2 + fa.Gaussian(4.68).allocation(20), delta=1e-5) < 24.0


@pytest.mark.parametrize("relation", ["add_remove", "add", "replace_one"])
@pytest.mark.parametrize("noise", [1e-200, 1e155, 1e300])
def test_noise_whose_square_is_no_number_is_answered(noise, relation):
    """Losses of mixtures divide by the square, which raised an error where grids or one release were asked."""
    sampled = fa.Gaussian(noise).poisson(0.3)
    for job in (sampled, sampled * 3, sampled + fa.Gaussian(2.0).poisson(0.1) * 2, sampled + fa.Skellam(9.0)):
        for verb, targets in (
            (fa.epsilon, {"delta": 1e-6}),
            (fa.epsilon, {"delta": 1e-300}),
            (fa.delta, {"epsilon": 1e308}),
        ):
            assert verb(job, **targets, neighbors=relation) >= 0.0


def test_a_line_that_is_made_asks_no_run_for_its_mechanisms(monkeypatch):
    job = fa.Gaussian(2.0).poisson(0.1) * 10
    monkeypatch.setattr(type(job), "is_gaussian", property(lambda _: pytest.fail("mechanisms were built")))
    assert Contour(job, "add_remove").read_cell(0, np.array([1e-5]), EPSILON)[0].status[0] == fa.Status.TIGHT


def test_of_disjoint_parts_only_those_that_may_be_the_largest_are_asked_on(monkeypatch):
    for name in ("losses", "divergences", "coarse", "unsampled"):
        never(name, monkeypatch)
    largest = fa.epsilon_bounds(fa.Laplace(1.0) * 30, delta=1e-6)
    parts = (fa.Laplace(1.0) * 30, fa.Together(fa.Laplace(20.0) * 2).poisson(0.1) * 2, fa.Gaussian(30.0))
    assert fa.epsilon_bounds(fa.Parallel(*parts), delta=1e-6) == largest


def test_rare_steps_of_a_replaced_record_are_known_from_below():
    """The contour says nothing of a few of them; sums of losses do."""
    lower, upper, _ = fa.delta_bounds(
        fa.Gaussian(0.7).poisson(1e-4) * np.array([2, 3]), epsilon=0.01, neighbors="replace_one"
    )
    assert (0.998 * upper < lower).all()
    assert 3.85e-7 < upper[0] < 3.86e-7
