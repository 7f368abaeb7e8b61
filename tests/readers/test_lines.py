"""Trade-off curves of jobs that are known by their deltas alone: the lines that each epsilon and delta prove."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import fastacct as fa
from fastacct.readers import contour, lines
from fastacct.tradeoff import (
    tpr_at_fpr_bounds,
    tradeoff_bounds,
)

FPR = np.concatenate([[0.0, 1e-12, 1e-3, 0.5, 1.0], np.linspace(0.01, 0.99, 33), 1.0 - np.geomspace(1e-9, 1e-2, 8)])


def curve(epsilon, delta, fpr):
    """The curve of all of (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015)."""
    steep = 1.0 - delta - math.exp(epsilon) * fpr
    return np.maximum(np.maximum(steep, math.exp(-epsilon) * (1.0 - delta - fpr)), 0.0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 2.5, 7.0, 30.0])
def test_a_pure_guarantee_has_its_own_curve(epsilon):
    value = fa.tradeoff(fa.PureDP(epsilon), FPR)
    exact = curve(epsilon, 0.0, FPR)
    assert (value <= exact).all()
    # lines are moved down by roundings of 1 + exp(30) * fpr; at a rate of 1e-12 exp(30) times an ulp remains
    assert value == pytest.approx(exact, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 0.1), (0.5, 1e-6), (0.0, 0.2), (5.0, 0.5)])
def test_an_approximate_guarantee_has_its_own_curve(epsilon, delta):
    value = fa.tradeoff(fa.ApproxDP(epsilon, delta), FPR)
    exact = curve(epsilon, delta, FPR)
    assert (value <= exact + 1e-16).all()
    assert value == pytest.approx(exact, rel=1e-12, abs=5e-14)


def test_pure_guarantees_of_different_mechanisms_meet_at_their_sum():
    job = fa.PureDP(0.5) + fa.PureDP(1.0)
    # four outcomes of two randomised responses: the last corner before (1, 0)
    low = math.exp(-1.5) / ((1.0 + math.exp(-0.5)) * (1.0 + math.exp(-1.0)))
    assert fa.tradeoff(job, 1.0 - low / 4) == pytest.approx(math.exp(-1.5) * low / 4, rel=1e-11, abs=0.0)


def test_several_releases_of_one_guarantee_have_all_corners():
    # the losses 2, 0 and -2, with masses a^2, 2 a b and b^2
    a, b = math.e / (1.0 + math.e), 1.0 / (1.0 + math.e)
    null, other = [b * b, b * b + 2 * a * b, 1.0], [a * a, a * a + 2 * a * b, 1.0]
    fpr = np.linspace(0.0, 1.0, 101)
    exact = 1.0 - np.interp(fpr, [0.0, *null], [0.0, *other])
    value = fa.tradeoff(fa.PureDP(1.0) * 2, fpr)
    assert (value <= exact + 1e-15).all()
    assert value == pytest.approx(exact, rel=1e-10, abs=1e-12)  # delta to 1e-11, by one period of the kernel


def test_each_cell_has_its_own_corners():
    value = fa.tradeoff(fa.PureDP([1.0, 2.5]), 0.5)
    assert value == pytest.approx([0.5 / math.e, 0.5 * math.exp(-2.5)], rel=1e-12, abs=0.0)


@pytest.mark.parametrize(("noise", "fpr"), [(1 / 60, 9.150265297927118e-27), (0.1, 4.264399337262957e-05)])
def test_the_best_line_before_a_corner_is_found(noise, fpr):
    # delta is 1 - exp((epsilon - c) / 2) with c = 1/noise: the best line lies between two epsilons that all rates share
    epsilon = -2.0 * math.log(2.0 * fpr) - 1.0 / noise
    truth = -math.expm1(0.5 * (epsilon - 1.0 / noise)) + math.exp(epsilon) * fpr
    assert truth * (1.0 - 1e-12) <= fa.tpr_at_fpr(fa.Laplace(noise), fpr) <= truth * (1.0 + 1e-4)


def test_no_rates_give_no_rates():
    for job in (fa.PureDP(1.0), fa.Gaussian(1.0), fa.Gaussian(1.0).poisson(0.1) * 3):
        assert fa.tradeoff(job, []).shape == (0,)
        assert fa.tradeoff_bounds(job, np.zeros((2, 0))).status.shape == (2, 0)
        assert fa.tpr_at_fpr(job, []).shape == (0,)
        assert fa.bayes_risk(job, members=[]).shape == (0,)
        assert fa.positive_predictive_value(job, [], members=0.5).shape == (0,)


def laplace_curve(x, epsilon):
    """Dong, Roth, Su 2022: the trade-off curve of Laplace noise."""
    end = math.exp(-epsilon)
    return np.where(
        x < 0.5 * end, 1.0 - x / end, np.where(x <= 0.5, 0.25 * end / np.maximum(x, 1e-300), end * (1.0 - x))
    )


def test_lines_of_certified_deltas_are_below_the_curve_and_touch_it():
    x = np.array([0.0, 1e-3, 0.1, 0.4, 0.9, 1.0])
    truth = laplace_curve(x, 1.0)
    found = fa.tradeoff(fa.PureDP(1.0), x)  # the worst of the class, below every epsilon-DP mechanism
    assert np.all(found <= truth)
    np.testing.assert_allclose(found, np.maximum(1.0 - math.e * x, (1.0 - x) / math.e), rtol=1e-12, atol=1e-13)
    one = fa.tradeoff_bounds(fa.ApproxDP(1.0, 1e-5), 0.1)
    assert one.lower <= 1.0 - 1e-5 - math.e * 0.1 <= one.upper <= one.lower + 1e-12
    assert one.status == fa.Status.TIGHT


@pytest.mark.parametrize("fpr", [1e-6, 1e-4, 0.03, 0.4, 0.9])
def test_a_rate_asks_a_few_times_for_deltas_and_finds_the_same(fpr):
    noise = NormalDist()
    asked = []

    def deltas_at(epsilons):
        asked.append(epsilons)
        return [max(noise.cdf(0.5 - e) - math.exp(e) * noise.cdf(-0.5 - e), 0.0) for e in epsilons]

    search = lines._Search(deltas_at, fpr)
    assert search.found()
    search.refined()
    truth = noise.cdf(noise.inv_cdf(fpr) + 1.0)
    assert truth * (1.0 - 1e-9) <= search.best <= truth * (1.0 + 1e-6)
    assert 1.0 - search.best >= (1.0 - truth) * (1.0 - 1e-6)
    assert len(asked) <= 12
    assert len({epsilon for each in asked for epsilon in each}) <= 32


def test_what_grids_foretell_is_read_by_the_line_where_it_knows_more(monkeypatch):
    job = fa.Gaussian(1.0).poisson(0.01).group(7) + fa.Gaussian(2.8552281409689324).fixed_size(19, 1000)
    asked = []
    delta_of = lines.delta_of
    monkeypatch.setattr(lines, "delta_of", lambda *given: asked.append(given[1].size) or delta_of(*given))
    found = fa.tpr_at_fpr_bounds(job, 7.09e-8, neighbors="replace_one").upper
    assert found == pytest.approx(2.3763190184424e-06, rel=1e-7)  # of forty deltas by all readers
    assert sum(asked) <= 12  # forty before grids that take little time said where


def test_other_readers_are_asked_where_the_line_says_little():
    job = fa.Gaussian(1.0).poisson(0.01).group(7) + fa.Gaussian(2.8552281409689324).fixed_size(19, 1000)
    found = fa.tpr_at_fpr_bounds(job, 0.01, neighbors="replace_one").upper
    delta = fa.delta(job, epsilon=0.1, neighbors="replace_one")
    assert found <= delta + math.exp(0.1) * 0.01 < fa.delta(fa.Gaussian(2.8), epsilon=0.1) + math.exp(0.1) * 0.01


RATES = np.array([1e-3, 0.05, 0.2, 0.4, 0.6, 0.95])


@pytest.mark.parametrize("size", [0.2, 1.0, 3.0])
def test_one_release_of_laplace_noise_is_known_from_both_sides(size):
    """Dong, Roth, Su 2022, appendix: a line, a hyperbola, a line."""
    found = fa.tradeoff_bounds(fa.Laplace(1.0 / size), fpr=RATES)
    far = RATES > 0.5
    middle = np.exp(-size) / (4.0 * RATES)
    true = np.where(far, np.exp(-size) * (1.0 - RATES), np.where(0.5 * np.exp(-size) > RATES, np.nan, middle))
    true = np.where(np.isnan(true), 1.0 - np.exp(size) * RATES, true)
    assert (found.lower <= true * (1.0 + 1e-15)).all()
    assert (true * (1.0 - 1e-15) <= found.upper).all()
    assert (found.upper - found.lower <= 1e-6).all()


@pytest.mark.parametrize("job", [fa.Laplace(5.0) * 10, fa.DiscreteGaussian(4.0) * 7, fa.ApproxDP(0.5, 1e-6) * 3])
def test_of_losses_that_are_their_own_mirror_images_one_direction_is_all(job):
    whole = fa.tradeoff_bounds(job, RATES)
    for way in ("remove", "add"):
        one = fa.tradeoff_bounds(job, RATES, neighbors=way)
        assert (one.lower <= whole.upper * (1.0 + 1e-12)).all()
        assert (whole.lower <= one.upper * (1.0 + 1e-12)).all()
        assert one.lower == pytest.approx(whole.lower, rel=1e-8, abs=1e-11)
    one_sided = fa.Laplace(5.0).poisson(0.1) * 10
    assert not contour.Contour(one_sided, "add_remove").is_symmetric
    assert contour.Contour(job, "add_remove").is_symmetric


@pytest.mark.parametrize(("epsilon", "fpr"), [(0.8, 0.1), (1.2450898035345461, 0.001)])
def test_rates_below_the_smallest_double_are_not_nothing(epsilon, fpr):
    """Beyond losses of 745 exp underflows: the error of 1,000 responses, about 1e-121 and 1e-258, was said to be 0."""
    found = fa.tradeoff_bounds(fa.RandomizedResponse(epsilon) * 1000, fpr, neighbors="replace_one")
    assert found.upper > 1e-259


@pytest.mark.parametrize("relation", ["add_remove", "remove", "add"])
@pytest.mark.parametrize(("deltas", "noise"), [(1, 2.0), (3, 0.6), (0, 2.0)])
def test_without_a_false_alarm_only_what_one_side_has_is_found_beside_gaussians(deltas, noise, relation):
    """Losses are not bounded, and what is beyond all finite ones is the failures of (epsilon, delta)-DP."""
    job = (fa.ApproxDP(0.5, 2e-3) * deltas if deltas else fa.Laplace(3.0)) + fa.Gaussian(noise) * 2
    lower, upper, status = fa.tradeoff_bounds(job, 0.0, neighbors=relation)
    assert lower <= (1.0 - 2e-3) ** deltas * (1.0 + 1e-14)
    assert (1.0 - 2e-3) ** deltas <= upper * (1.0 + 1e-14)
    assert upper - lower <= 1e-12
    assert status == fa.Status.TIGHT


def test_one_response_is_two_lines():
    """Kairouz, Oh, Viswanath 2015."""
    found = fa.tradeoff_bounds(fa.PureDP(1.0), fpr=RATES)
    true = np.maximum(1.0 - math.e * RATES, (1.0 - RATES) / math.e)
    assert (found.lower <= true * (1.0 + 1e-15)).all()
    assert (true * (1.0 - 1e-15) <= found.upper).all()
    assert (found.upper - found.lower <= 1e-6).all()


@pytest.mark.parametrize(
    "job",
    [
        fa.Laplace(5.0) * 100,
        fa.Laplace(2.0).poisson(0.1) * 50,
        fa.PureDP(0.1) * 500 + fa.Laplace(2.0) * 2,
        fa.Laplace(5.0) * 20 + fa.Gaussian(1.0).poisson(0.01) * 200,
    ],
    ids=repr,
)
def test_curves_of_losses_that_are_data_are_known_from_both_sides(job):
    """And each direction is the inverse of the other: that is how one set of tests sees both."""
    found = fa.tradeoff_bounds(job, fpr=RATES)
    assert (found.upper - found.lower <= 1e-5).all()
    one = fa.tradeoff_bounds(job, fpr=RATES, neighbors="remove")
    back = fa.tradeoff_bounds(job, fpr=one.upper, neighbors="add")
    assert (back.lower <= RATES * (1.0 + 1e-12)).all()
    assert (fa.tradeoff_bounds(job, fpr=one.lower, neighbors="add").upper >= RATES * (1.0 - 1e-12)).all()
    assert (back.upper >= RATES - 1e-4).all()


@pytest.mark.parametrize(
    ("job", "fpr", "true"),
    [
        (fa.ApproxDP(0.006154768844853826, 1.2267293628817806e-10), 0.5, 0.50306793364876365),
        (fa.ApproxDP(0.3252498441917916, 2.4188659848621988e-06) * 3, 0.8042728384775326, 0.92623126121529),
        (
            fa.DiscreteLaplace(0.6576740617493353, sensitivity=7) * 3,
            0.7321499872292432,
            1.0 - 3.6354681453752333542e-15,
        ),
    ],
)
def test_corners_of_lattices_are_taken_where_they_are(job, fpr, true):
    """Convolved atoms, exactly; a point beside the corner was taken for it."""
    for neighbors in ("add", "remove", "add_remove"):
        lower, upper, status = tpr_at_fpr_bounds(job, fpr, neighbors=neighbors)
        assert lower <= true * (1.0 + 1e-14)
        assert true * (1.0 - 1e-14) <= upper <= lower + 1e-9
        assert status == fa.Status.TIGHT
    power = tradeoff_bounds(job, fpr, neighbors="remove")
    if true > 0.999:
        assert power.lower <= 3.6354681453752333542e-15 <= power.upper


def test_what_an_attack_reaches_in_a_cell_does_not_depend_on_the_others():
    """Where the curve of the known part of another cell was not known, that of none was looked at."""
    known = fa.ApproxDP(np.array([0.01, 0.001]), np.array([8e-3, 2e-12])) * np.array([6, 1])
    jobs, fpr = known + fa.Staircase(0.1), np.array([[0.1], [1e-3]])
    for verb in (fa.tradeoff_bounds, fa.tpr_at_fpr_bounds):
        found = verb(jobs, fpr)
        for i, j in np.ndindex(2, 2):
            assert tuple(one[i, j] for one in found) == verb(jobs.cell(j), fpr[i, 0])


@pytest.mark.parametrize(
    ("job", "fpr"),
    [
        (fa.RepeatedSelection(fa.Gaussian(2.0), 7.0, eta=1.0) + fa.PureDP(0.98) * 3, 0.01),
        (fa.RepeatedSelection(fa.Gaussian(2.96), 11.2, eta=0.0) + fa.Laplace(4.0), 0.1),
    ],
    ids=["beside a guarantee", "beside noise"],
)
def test_beside_a_selection_both_lines_of_each_delta_are_tried(job, fpr):
    """The rate has a minimum on either side of 0: it was up to a third too large."""
    epsilon = np.append(0.0, np.geomspace(1e-2, 8.0, 60))
    delta = fa.delta(job, epsilon=epsilon)
    steep, flat = delta + np.exp(epsilon) * fpr, -np.expm1(-epsilon) + np.exp(-epsilon) * (delta + fpr)
    found = fa.tpr_at_fpr(job, fpr)
    assert found <= min(steep.min(), flat.min()) * (1.0 + 1e-4)
    assert found < 0.99 * flat.min()


def test_a_class_beside_others_is_searched_by_its_line(monkeypatch):
    """All readers are asked at the line's best place alone."""
    job = fa.Gaussian(1.5).poisson(0.02) * 300 + fa.Exponential(0.2) * 4
    asked = []
    delta_of = lines.delta_of
    monkeypatch.setattr(lines, "delta_of", lambda *given: asked.append(given[1].size) or delta_of(*given))
    found = fa.tpr_at_fpr(job, np.array([1e-4, 0.01, 0.3]))
    assert sum(asked) <= 3
    for rate, rates in zip(found, (1e-4, 0.01, 0.3), strict=True):
        at = np.append(0.0, np.geomspace(1e-2, 8.0, 60))
        delta = fa.delta(job, epsilon=at)
        flat = -np.expm1(-at) + np.exp(-at) * (delta + rates)
        assert rate <= min((delta + np.exp(at) * rates).min(), flat.min()) * (1.0 + 1e-7)


def test_lines_whose_slopes_differ_by_next_to_nothing_meet_somewhere():
    """A quotient by that difference overflows."""
    mixture = fa.GaussianMixture(
        8.2, p=((0.48, 0.0), (0.122, 0.619), (0.398, 0.996)), q=((0.666, 0.0), (0.334, -0.996))
    )
    sampled = fa.Together(fa.Gaussian(0.998).fixed_size(177, 1000) + fa.RandomizedResponse(0.0108, answers=7))
    fpr = [8.738059113165241e-06, 1.6783563703526996e-09, 0.0]
    fnr = fa.tradeoff(mixture * 70 + sampled, fpr, envelope="convex", neighbors="zero_out")
    assert 0.99 < fnr[0] < fnr[1] < fnr[2] > 1.0 - 1e-14
