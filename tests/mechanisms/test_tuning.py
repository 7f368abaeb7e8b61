"""The best of a random number of runs, against the law of the best one written out."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import fastacct as fa
from fastacct.mechanisms.nested import _log_share


def chosen(p, eta, mean):
    """Law of the best outcome of K runs with the law `p`, outcomes in rising order; last: no run at all."""
    below = np.concatenate([[0.0], np.cumsum(p)])
    if eta is None:
        f = np.exp(mean * (below - 1.0))
    else:
        gamma = math.exp(_log_share(eta, mean))
        x = (1.0 - gamma) * np.minimum(below, 1.0)
        f = np.log1p(-x) / math.log(gamma) if eta == 0.0 else ((1.0 - x) ** -eta - 1.0) / (gamma**-eta - 1.0)
    return np.append(np.diff(f), f[0])


@pytest.mark.parametrize("eta", [None, -0.5, 0.0, 1.0, 3.0])
@pytest.mark.parametrize("mean", [1.5, 10.0, 200.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_pure_guarantee_holds_for_every_order_of_the_outcomes(eta, mean, epsilon):
    claimed = fa.epsilon(fa.RepeatedSelection(fa.PureDP(epsilon), mean, eta), delta=0.0)
    worst = 0.0
    for k in (2, 3, 5):
        weights = np.ones(k)
        for true, other in itertools.permutations(range(k), 2):
            p, q = weights.copy(), weights.copy()
            p[true], q[other] = math.exp(epsilon), math.exp(epsilon)
            a, b = chosen(p / p.sum(), eta, mean), chosen(q / q.sum(), eta, mean)
            keep = (a > 1e-12) & (b > 1e-12)
            worst = max(worst, float(np.max(np.abs(np.log(a[keep] / b[keep])))))
    assert worst <= claimed * (1 + 1e-9)
    if eta is None:
        assert claimed == pytest.approx(epsilon + mean * math.tanh(epsilon / 2), rel=2e-14, abs=0.0)
    else:
        assert claimed == pytest.approx((2 + eta) * epsilon, rel=2e-14, abs=0.0)


def test_the_pure_guarantee_is_reached():
    """By a very rare outcome below a rare one, with the geometric law: 3 epsilon."""
    epsilon, mean, t, few = 0.5, 1e9, 1e-4, 1e-9
    p = np.array([1.0 - t - few, few, t])
    q = np.array([0.0, few * math.exp(epsilon), t * math.exp(-epsilon)])
    q[0] = 1.0 - q[1] - q[2]
    found = math.log(chosen(q, 1.0, mean)[1] / chosen(p, 1.0, mean)[1])
    assert 2.99 * epsilon < found <= 3.0 * epsilon * (1 + 1e-6)


@pytest.mark.parametrize("eta", [None, 1.0])
def test_no_pure_guarantee_without_one_of_the_base(eta):
    assert fa.epsilon(fa.RepeatedSelection(fa.Gaussian(4.0), 10.0, eta), delta=0.0) == math.inf


def test_both_directions_of_the_base_are_needed():
    base = fa.PureDP(1.0).poisson(0.5)
    tuned = fa.RepeatedSelection(base, 10.0, eta=1.0)
    one = max(base.pure_epsilon(way) for way in ("add", "remove"))
    for neighbors in ("add", "remove"):
        assert fa.epsilon(tuned, delta=0.0, neighbors=neighbors) == pytest.approx(3.0 * one, rel=2e-14, abs=0.0)


@pytest.mark.parametrize("eta", [-0.9, 0.0, 1.0, 1e6])
def test_one_run_is_the_base(eta):
    base, tuned = fa.Gaussian(4.0), fa.RepeatedSelection(fa.Gaussian(4.0), 1, eta)
    assert fa.epsilon_bounds(tuned, delta=1e-5) == fa.epsilon_bounds(base, delta=1e-5)
    assert fa.rdp(tuned * 3, 4.0) == fa.rdp(base * 3, 4.0)
    assert tuned.tight
    assert not fa.RepeatedSelection(fa.Gaussian(4.0), 2, eta).tight


def test_a_poisson_number_of_mean_one_is_not_one_run():
    assert fa.epsilon(fa.RepeatedSelection(fa.Gaussian(4.0), 1.0), delta=1e-5) > fa.epsilon(
        fa.Gaussian(4.0), delta=1e-5
    )


@pytest.mark.parametrize("eta", [-0.9, -0.5, 0.0, 0.5, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("mean", [1 + 1e-12, 1 + 1e-9, 1.5, 1e9, 1e12, 1e15])
def test_share_is_rounded_down_for_all_means(eta, mean):
    with mpmath.workdps(60):
        log_gamma, e = mpmath.mpf(_log_share(eta, mean)), mpmath.mpf(eta)
        more = mpmath.exp(-log_gamma) - 1
        runs = more / -log_gamma if eta == 0.0 else e * more / -mpmath.expm1(e * log_gamma)
        assert mean <= runs <= mean * (1 + 1e-12)


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0])
def test_many_runs_cost_what_the_theorem_says(eta):
    """Papernot and Steinke 2022, theorem 2, at the best of many orders."""
    mean, order = 1e15, 4.0
    with mpmath.workdps(40):
        log_gamma = mpmath.mpf(_log_share(eta, mean))
        orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(k) / 1000) for k in range(-1000, 3000)]
        best = min((1 - 1 / x) * x / 32 - log_gamma / x for x in orders)
        each = [
            a / 32 + (1 + eta) * best + mpmath.log(mean) / (a - 1) for a in [*orders, mpmath.mpf(order)] if a >= order
        ]
    found = fa.rdp(fa.RepeatedSelection(fa.Gaussian(4.0), mean, eta), order)
    assert found == pytest.approx(float(min(each)), rel=1e-5, abs=0.0)  # 1,000 orders a decade
    assert found < fa.rdp(fa.RepeatedSelection(fa.Gaussian(4.0), mean), order)


@pytest.mark.parametrize("order", [2.0, 20.0, 200.0])
@pytest.mark.parametrize("way", ["remove", "add"])
def test_the_best_of_many_runs_of_a_table_whose_directions_differ(way, order):
    """A rare best outcome that one side almost lacks: of many runs the other side nearly always has it."""
    tables = [np.array(one) for one in ([1.0 - 2.0**-20, 2.0**-20], [0.875, 0.125])]
    mean = 64.0
    gamma = 1.0 / mean

    def best(table):  # the generating function of a geometric number, at the chance of no better outcome
        seen = np.cumsum(table)
        return np.diff(gamma * seen / (1.0 - (1.0 - gamma) * seen), prepend=0.0)

    p, q = (np.log(best(one)) for one in (tables if way == "remove" else tables[::-1]))
    truth = float(np.logaddexp.reduce(p + (order - 1.0) * (p - q))) / (order - 1.0)
    job = fa.RepeatedSelection(fa.from_pmf(*(one.tolist() for one in tables)), mean=mean, eta=1.0)
    assert fa.rdp(job, order, neighbors=way) >= truth
