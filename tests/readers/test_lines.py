"""Trade-off curves of jobs that are known by their deltas alone: the lines that each epsilon and delta prove."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import fastacct as fa
from fastacct.readers import lines

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
def test_a_rate_asks_few_deltas_and_finds_the_same(fpr):
    noise = NormalDist()
    asked = []

    def delta_at(epsilon):
        asked.append(epsilon)
        return max(noise.cdf(0.5 - epsilon) - math.exp(epsilon) * noise.cdf(-0.5 - epsilon), 0.0)

    search = lines._Search(delta_at, fpr)
    assert search.found()
    search.refined()
    truth = noise.cdf(noise.inv_cdf(fpr) + 1.0)
    assert truth * (1.0 - 1e-9) <= search.best <= truth * (1.0 + 1e-6)
    assert 1.0 - search.best >= (1.0 - truth) * (1.0 - 1e-6)
    assert len(set(asked)) <= 16


def test_no_grid_is_asked_where_the_line_shows_that_no_other_epsilon_is_better(monkeypatch):
    job = fa.Gaussian(1.0).poisson(0.01).group(7) + fa.Gaussian(2.8552281409689324).fixed_size(19, 1000)
    monkeypatch.setattr(lines, "delta_of", lambda *_: pytest.fail("all readers are asked"))
    found = fa.tpr_at_fpr_bounds(job, 7.09e-8, neighbors="replace_one").upper
    assert found == pytest.approx(2.3763190184424e-06, rel=1e-7)  # of forty deltas by all readers


def test_other_readers_are_asked_where_the_line_says_little():
    job = fa.Gaussian(1.0).poisson(0.01).group(7) + fa.Gaussian(2.8552281409689324).fixed_size(19, 1000)
    found = fa.tpr_at_fpr_bounds(job, 0.01, neighbors="replace_one").upper
    delta = fa.delta(job, epsilon=0.1, neighbors="replace_one")
    assert found <= delta + math.exp(0.1) * 0.01 < fa.delta(fa.Gaussian(2.8), epsilon=0.1) + math.exp(0.1) * 0.01
