"""Every mechanism: recomputed values, closed forms, extremes, and refusals."""

import math
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.testing import examples
from tests import mechanism_table

EXAMPLES = list(examples())


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("job", "epsilon", "neighbors", "truth"),
    [
        (fa.Laplace(1.0), 0.3, "add_remove", 0.2953119102812866),
        (fa.Laplace(2.0) * 2, 0.3, "add_remove", 0.171991494580512),
        (fa.Laplace(2.0) * 5, 1.0, "add_remove", 0.145315612763074),
        (fa.Laplace(2.0) * 8, 2.0, "remove", 0.0760745998935700),
        (fa.Laplace(4.0) * 8, 2.0, "replace_one", 0.0760745998935700),
        (fa.DiscreteLaplace(2.0, 3), 0.7, "add_remove", 0.3427703247078267),
        (fa.DiscreteGaussian(1.0), 1.0, "add", 0.14135133940562191),
        (fa.DiscreteGaussian(5.0), 0.5, "remove", 0.00049776303128830736),
        (fa.DiscreteGaussian(2.0, 2), 2.0, "add_remove", 0.018330461470936056),
        (fa.DiscreteGaussian(2.0), 2.0, "replace_one", 0.018330461470936056),
        (fa.Skellam(10.0), 0.5, "add_remove", 0.009048312113578078),
        (fa.PureDP(0.3) * 12, 1.8, "add_remove", 0.03019838465849414),  # 12 steps, i = 3 of Kairouz, Oh, Viswanath
        (fa.ApproxDP(0.3, 1e-6) * 12, 1.8, "add_remove", 0.03021002221387154),
        (sum((fa.PureDP(e) * 1 for e in (0.1, 0.25, 0.4, 0.15, 0.3)), fa.Process()), 0.5, "remove", 0.0816069690243949),
        (fa.Exponential(0.5) * 5, 0.8, "add_remove", 0.0469374),
        (fa.GOPA(0.5, 2.0, parties=12), 1.0, "replace_one", 0.003430187121569797),
        (fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4]), 0.3, "remove", 0.1950423577271991),
    ],
    ids=repr,
)
def test_delta(job, epsilon, neighbors, truth):
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon, neighbors=neighbors)
    if isinstance(job, fa.Mechanism) and not job.tight:
        assert lower == 0.0  # of a bound nothing is known from below
    digits = 1e-6 if truth == 0.0469374 else 1e-13
    assert lower <= truth * (1 + digits)
    assert truth * (1 - digits) <= upper <= truth * (1 + 2e-4)


@pytest.mark.parametrize(
    ("job", "delta", "neighbors", "truth"),
    [
        (fa.PureDP(0.1) * 100, 1e-6, "add_remove", 4.774567588107986),
        (fa.PureDP(0.05) * 400, 1e-5, "add_remove", 4.359702992618818),
        (fa.TreeAggregation(8.0, 1000), 1e-5, "add_remove", 1.534679796336763),
        (fa.RandomWalk(8.0, 10), 1e-6, "add_remove", 1.742964361980138),
        (fa.RandomizedResponse(math.log(3.0)) * 10, 0.0, "replace_one", 10 * math.log(3.0)),
    ],
    ids=repr,
)
def test_epsilon(job, delta, neighbors, truth):
    lower, upper, _ = fa.epsilon_bounds(job, delta=delta, neighbors=neighbors)
    assert lower <= truth * (1 + 1e-13)
    assert truth * (1 - 1e-13) <= upper <= truth * (1 + 2e-4)


@pytest.mark.parametrize(
    ("mechanism", "neighbors", "order", "truth"),
    [
        (fa.Laplace(1.0), "add_remove", 2.0, 0.6191236299985929),
        (fa.Laplace(10.0), "add_remove", 32.0, 0.0782057585889131),
        (fa.Laplace(0.5), "add_remove", 1.5, 1.4368091584146),
        (fa.Laplace(1.0), "add_remove", 1.0001, 0.3679123098615636),
        (fa.Laplace(0.02), "add_remove", 500.0, 49.99861293250456),
        (fa.PureDP(1.0), "add_remove", 2.0, 0.7353256640555192),
        (fa.PureDP(0.1), "add_remove", 10.0, 0.04388778868993219),
        (fa.PureDP(3.0), "add_remove", 1.5, 2.907776667127977),
        (fa.RandomizedResponse(1.0, 10), "replace_one", 2.0, 0.2961304483633015),
        (fa.Exponential(1.0), "add_remove", 2.0, 0.240229013916555),
        (fa.Exponential(0.1), "add_remove", 8.0, 0.009921822448498383),
        (fa.Exponential(4.0), "add_remove", 1.3, 2.055144663886771),
        (fa.Exponential(2.0), "add_remove", 20.0, 1.798689925839548),
        (fa.DiscreteLaplace(1.0), "add_remove", 2.0, 0.7353256640555192),
        (fa.DiscreteLaplace(2.0, 3), "add_remove", 2.5, 1.224638403029056),
        (fa.DiscreteLaplace(10 / 3, 10), "add_remove", 4.0, 2.827057825329008),
        (fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4]), "remove", 8.0, 0.6203021045144242),
        (fa.GDP(2.0), "add_remove", 4.0, 8.0),
    ],
    ids=repr,
)
def test_divergence(mechanism, neighbors, order, truth):
    assert truth * (1 - 1e-14) <= fa.rdp(mechanism, order, neighbors=neighbors) <= truth * (1 + 1e-8)


@pytest.mark.parametrize(
    ("mechanism", "order", "truth", "slack"),
    [
        (fa.DiscreteGaussian(0.5), 3.0, 6.0, 1e-10),
        (fa.DiscreteGaussian(0.5), 2.5, 4.980820321702013, 4e-3),
        (fa.Skellam(10.0), 2.0, 0.09965443845354252, 0.3),
        (fa.Skellam(100.0, 3), 4.0, 0.1795178174278303, 0.1),
        (fa.RepeatedSelection(fa.Gaussian(4.0), 10.0), 6.0, 1.01860532719, 1e-5),
        # at order 1 + sqrt(32 log 10), a larger one than asked for; 1.6585 at order 6 itself
        (fa.RepeatedSelection(fa.Gaussian(4.0), 10.0, eta=1.0), 6.0, 1.5782245, 1e-6),
    ],
    ids=repr,
)
def test_bound_of_a_divergence(mechanism, order, truth, slack):
    assert truth * (1 - 1e-11) <= fa.rdp(mechanism, order) <= truth * (1 + slack)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.05, 1.0, 8.0, 40.0])
@pytest.mark.parametrize("order", [1.0 + 1e-9, 1.01, 1.5, 2.0, 17.0, 1e4, 1e9])
def test_closed_forms_at_extremes(epsilon, order):
    """Against the defining sums and integrals, 60 digits: never below, and close."""
    with mp.workdps(60):
        e, a = mpf(epsilon), mpf(order) - 1
        p = 1 / (1 + mp.exp(-e))
        response = mp.log(p * mp.exp(a * e) + (1 - p) * mp.exp(-a * e)) / a
        x = (2 * a + 1) * e
        laplace = e + mp.log1p(a * mp.expm1(-x) / (2 * a + 1)) / a
        two = [(mp.exp(t - e), t) for t in [mpf(i) * e / 400 for i in range(401)]]
        low = mp.exp(-e)
        one = max(mp.log(((1 - w) * mp.exp(a * t) + (w - low) * mp.exp(a * (t - e))) / (1 - low)) / a for w, t in two)
    for mechanism, truth in ((fa.PureDP(epsilon), response), (fa.Laplace(float(1 / e)), laplace)):
        found = fa.rdp(mechanism, order)
        assert found >= truth * (1 - mpf("1e-15")), mechanism
        assert found <= truth * (1 + mpf("2e-3")) + 1e-30, mechanism
    assert fa.rdp(fa.Exponential(epsilon), order) >= one * (1 - mpf("1e-15"))


def test_the_table_of_the_documentation_is_that_of_the_code():
    assert (DOCS / "mechanisms.md").read_text().split(mechanism_table.MARK)[
        1
    ].strip() == mechanism_table.table().strip()


@pytest.mark.parametrize(
    ("job", "delta", "truth"),
    [
        (fa.PureDP(30.0) + fa.Gaussian(20.0), 1e-5, 30.1600420345),
        (fa.Laplace(1.0) * 1, 0.0007296643054608226, 0.99854013872),
        (fa.Laplace(0.3295874876965075) * 1, 0.00102, 1 / 0.3295874876965075 + 2 * math.log1p(-0.00102)),
        (fa.Laplace(0.2) * 1, 0.0011835632037430763, 4.9976315),
    ],
    ids=repr,
)
def test_a_window_far_away_is_not_nothing(job, delta, truth):
    """Once (0, 0, TIGHT): all weights of a grid underflowed, and their sum was taken for delta."""
    bounds = fa.epsilon_bounds(job, delta=delta)
    assert bounds.lower <= truth * (1 + 1e-7)
    assert truth * (1 - 1e-7) <= bounds.upper <= truth * (1 + 2e-4)


@pytest.mark.parametrize(
    ("epsilon", "k", "order"), [(1e-6, 3, 2.0), (1e-12, 3, 4.0), (0.5, 687746553, 2.87), (1e-3, 10**9, 1e4)]
)
def test_divergence_of_many_answers(epsilon, k, order):
    with mp.workdps(60):
        e, a = mpf(epsilon), mpf(order)
        lie = 1 / (mp.exp(e) + k - 1)
        true = lie * mp.exp(e)
        truth = mp.log(true**a * lie ** (1 - a) + lie**a * true ** (1 - a) + (k - 2) * lie) / (a - 1)
    found = fa.rdp(fa.RandomizedResponse(epsilon, k), order, neighbors="replace_one")
    assert truth * (1 - mpf("1e-15")) <= found


@pytest.mark.parametrize(
    "mechanism",
    [
        fa.PureDP(1e308),
        fa.Exponential(1e308),
        fa.ApproxDP(1e308, 1e-5),
        fa.DiscreteLaplace(1e-300, 9),
        fa.Laplace(1e-20),
    ],
    ids=repr,
)
def test_extremes_end_on_the_safe_side(mechanism):
    assert fa.delta(mechanism, epsilon=1.0) == 1.0
    assert fa.epsilon(mechanism * 2, delta=1e-7) >= 1e19
    assert fa.delta(fa.RandomizedResponse(800.0), epsilon=1.0, neighbors="zero_out") > 0.4
    assert fa.delta(fa.GDP(1e-200), epsilon=0.0) >= 3.98e-201


def test_noisy_maxima_of_scores_that_move_apart_cost_twice():
    assert fa.PermuteAndFlip.from_scale(2.0).epsilon == 2 * fa.PermuteAndFlip.from_scale(2.0, monotone=True).epsilon


def test_no_order_beats_the_pure_guarantee():
    """The bare conversion is above it at small deltas."""
    for mechanism in (fa.Laplace(2.0), fa.PureDP(0.5), fa.Exponential(0.5), fa.DiscreteLaplace(2.0)):
        assert fa.epsilon(mechanism, delta=1e-12, accountant=fa.RDP()) <= 0.5 * (1 + 1e-14)
        assert fa.epsilon(mechanism, delta=0.0) <= 0.5 * (1 + 1e-14)


def test_zcdp_is_not_gaussian_dp():
    """Randomised response of 0.1 is zero-concentrated with rho = 0.1 tanh(0.05), but not sqrt(2 rho)-GDP."""
    rho = 0.1 * math.tanh(0.05)
    truth = fa.delta_lower(fa.RandomizedResponse(0.1), epsilon=0.0, neighbors="replace_one")
    assert fa.delta(fa.GDP(math.sqrt(2 * rho)), epsilon=0.0) < truth <= fa.delta(fa.ZCDP(rho), epsilon=0.0)


def test_concentrated_conversion():
    assert fa.delta(fa.ZCDP(0.5), epsilon=4.0) == pytest.approx(0.0001957954169577216, rel=5e-10, abs=0.0)
    assert fa.delta(fa.ZCDP(0.5), epsilon=4.0) >= 0.0001957954169577216
    assert fa.delta(fa.GDP(1.0), epsilon=4.0) < fa.delta(fa.ZCDP(0.5), epsilon=4.0)


@pytest.mark.parametrize("mechanism", [m for m in EXAMPLES if not m.tight], ids=repr)
def test_a_bound_claims_nothing_from_below(mechanism):
    neighbors = mechanism.relations[0]
    job = mechanism * 2 + mechanism
    assert fa.delta_bounds(job, epsilon=0.1, neighbors=neighbors).lower == 0.0
    assert fa.epsilon_bounds(job, delta=1e-5, neighbors=neighbors).lower == 0.0
    assert fa.log_delta_bounds(job, epsilon=0.1, neighbors=neighbors).lower == -math.inf


def test_mixed_jobs():
    """Sampled Gaussians, Laplace, randomised response and a black box in one job, whatever the order of the sum."""
    parts = [
        fa.Gaussian(1.0).poisson(0.01) * 100,
        fa.Laplace(20.0) * 3,
        fa.RandomizedResponse(0.1) * 2,
        fa.ApproxDP(0.1, 1e-8) * 1,
    ]
    job = sum(parts, fa.Process())
    bounds = fa.epsilon_bounds(job, delta=1e-5, neighbors="replace_one")
    assert bounds == fa.epsilon_bounds(sum(parts[::-1], fa.Process()), delta=1e-5, neighbors="replace_one")
    assert bounds.upper - bounds.lower <= 2e-4 * bounds.upper
    alone = fa.epsilon_lower(parts[0], delta=1e-5, neighbors="replace_one")
    assert alone < bounds.lower < bounds.upper < alone + 3 * 0.1 + 2 * 0.1 + 0.1
    assert fa.epsilon(job, delta=1e-9, neighbors="replace_one") == math.inf  # the black box fails


def test_a_gaussian_read_by_losses_is_the_gaussian():
    for neighbors in ("remove", "add", "add_remove", "replace_one"):
        gaussian = fa.Gaussian(1.0).poisson(0.05) * 20
        with_nothing = gaussian + fa.PureDP(1e-13)
        exact = fa.delta_bounds(gaussian, epsilon=0.7, neighbors=neighbors)
        grid = fa.delta_bounds(with_nothing, epsilon=0.7, neighbors=neighbors)
        assert grid.lower <= exact.upper * (1 + 1e-10)
        assert exact.lower <= grid.upper <= exact.upper * (1 + 2e-4)


def test_arrays_are_read_cell_by_cell():
    scale, epsilon = np.array([[1.0], [2.0]]), np.array([0.1, 0.5, 1.0])
    grid = fa.delta(fa.Laplace(scale) * 2 + fa.Gaussian(3.0), epsilon=epsilon)
    assert grid.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        assert grid[i, j] == fa.delta(fa.Laplace(float(scale[i, 0])) * 2 + fa.Gaussian(3.0), epsilon=float(epsilon[j]))


def test_accountants_read_what_they_know_and_no_more():
    job = fa.Laplace(2.0) * 3
    assert fa.epsilon(job, delta=1e-5, accountant=fa.PLD()) <= fa.epsilon(job, delta=1e-5, accountant=fa.RDP())
    assert fa.epsilon(job, delta=1e-5, accountant=fa.RDP(orders=[2.0])) > fa.epsilon(job, delta=1e-5)
    older = fa.epsilon(job, delta=0.05, accountant=fa.RDP(conversion="mironov"))
    assert older > fa.epsilon(job, delta=0.05, accountant=fa.RDP())
    listed = [
        (fa.ZCDP(0.1), fa.PLD(), "no dominating pair is known"),
        (job, fa.RDP(conversion="optimal"), "conversion = 'optimal'"),
        (job, fa.BasicComposition(), "covers Gaussians"),
    ]
    for one, accountant, message in listed:
        with pytest.raises(ValueError, match=message):
            fa.epsilon(one, delta=1e-5, accountant=accountant)
    with pytest.raises(ValueError, match="no lower bound"):
        fa.epsilon_bounds(job, delta=1e-5, accountant=fa.RDP())
    with pytest.raises(ValueError, match="a trade-off curve of one direction covers"):
        fa.tradeoff(fa.ZCDP(0.1), [0.1], neighbors="remove")
    assert fa.tradeoff(fa.GDP(1.0), [0.1]) == fa.tradeoff(fa.Gaussian(1.0), [0.1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fa.Laplace(-1.0), r"noise_multiplier = -1.0 is out of range"),
        (lambda: fa.PureDP([0.1, float("nan")]), r"epsilon\[1\]"),
        (lambda: fa.DiscreteGaussian(1.0, 1.5), r"sensitivity = 1.5"),
        (lambda: fa.Paprika(1.0, 1e-6), r"conditions_hold must be True"),
        (lambda: fa.RDPCurve([2, 2], [1, 1]), r"orders must increase"),
        (lambda: fa.RDPCurve([2, 3], [1]), r"one length"),
        (lambda: fa.from_pmf([0.5, 0.6], [0.5, 0.5]), r"p sums to 1.1"),
        (lambda: fa.from_pmf([0.5, 0.4], [0.5, 0.5]), r"p sums to 0.9"),
        (lambda: fa.GOPA(1.0, 1.0, parties=3, edges=[(0, 3)]), r"two different parties"),
        (lambda: fa.delta(fa.RandomizedResponse(1.0), epsilon=1.0), r"'add_remove' is not supported"),
        (lambda: fa.NoisyIteration(1.0, 10, contraction=1.1), r"contraction = 1.1"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
