"""Distributions of privacy losses as values: infinite losses, compositions that are kept, mixtures, and refusals."""

import math
import subprocess
import sys

import numpy as np
import pytest
from mpmath import mp, mpf

from fastacct import reference
from fastacct.pld import PLD, LossDistribution, compose_bounds
from tests.containment import encloses_gaussian, holds


@pytest.mark.parametrize("noise", [0.02, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("part", [-0.9, -0.3, 0.0, 0.5, 0.99, 1.0, 1.5])
def test_one_laplace_is_inside_its_closed_form(noise, part):
    top = 1 / mpf(noise)
    epsilon = float(part * top)
    with mp.workdps(30):
        truth = max(mpf(0), -mp.expm1((mpf(epsilon) - top) / 2)) if epsilon >= -top else -mp.expm1(mpf(epsilon))
    lower, upper, _ = LossDistribution.from_laplace(noise, spacing=float(top) / 500).delta(epsilon)
    assert lower <= truth <= upper
    # the curve of a grid is convex between its points: 2nd order in the spacing
    assert upper - lower <= 1e-2 * truth + 1e-5


def test_infinite_loss_mass_is_kept():
    loss = LossDistribution.from_pmf([0.25, 0.5, 0.25], [0.0, 0.5, 0.5])
    assert loss.delta(math.inf)[:2] == (0.25, 0.25)
    lower, upper, _ = loss.epsilon(0.25)
    assert -1e-14 <= lower <= 0.0 <= upper <= 1e-14
    assert loss.epsilon(0.249)[:2] == (math.inf, math.inf)
    truth = 1 - 0.75**3
    lower, upper, _ = compose_bounds([(loss, 3)], epsilon=50.0)
    assert lower <= truth <= upper <= lower * (1 + 1e-12)
    assert compose_bounds([(loss, 3)], delta=0.5)[:2] == (math.inf, math.inf)
    assert compose_bounds([(loss, 3)], delta=0.58).upper < 50.0


def test_a_black_box_has_its_own_epsilon_and_delta():
    loss = LossDistribution.from_epsilon_delta(1.5, 1e-5)
    assert loss.epsilon(1e-5)[:2] == pytest.approx((1.5, 1.5), rel=2e-14, abs=0.0)  # outward rounding
    assert loss.epsilon(1e-5).upper >= 1.5 >= loss.epsilon(1e-5).lower
    assert compose_bounds([(loss, 1)], delta=1e-5).upper == pytest.approx(1.5, rel=2e-14, abs=0.0)
    assert LossDistribution.from_epsilon_delta(1.0, 1.0).delta(3.0)[:2] == (1.0, 1.0)
    assert LossDistribution.from_epsilon_delta(0.0, 0.0).delta(0.0).upper <= 1e-14
    assert LossDistribution.from_pure(math.inf).delta(3.0)[:2] == (1.0, 1.0)


def test_pure_losses_have_an_epsilon_at_delta_zero():
    lower, upper, _ = compose_bounds([(LossDistribution.from_pure(0.7), 9)], delta=0.0)
    assert lower <= 6.3 <= upper <= lower * (1 + 1e-12)
    loss = LossDistribution.from_laplace(2.0).self_compose(4)
    assert loss.epsilon(0.0).lower <= 2.0 <= loss.epsilon(0.0).upper <= 2.0 * (1 + 1e-12)
    assert compose_bounds([(LossDistribution.from_gaussian_pair(1.0), 1)], delta=0.0).upper == math.inf


def test_self_composition_is_repeated_composition():
    loss = LossDistribution.from_laplace(2.0, spacing=1 / 256)
    whole, pieces = loss.self_compose(5), loss.compose(loss).self_compose(2).compose(loss)
    for epsilon in (0.0, 0.3, 1.0, 2.4):
        for one, other in ((whole.delta(epsilon), pieces.delta(epsilon)),):
            assert one.lower <= other.upper
            assert other.lower <= one.upper
            # what each transform pays for its errors
            assert one.lower == pytest.approx(other.lower, rel=5e-11, abs=0.0)
            assert one.upper == pytest.approx(other.upper, rel=5e-11, abs=0.0)


def test_a_kept_composition_is_accurate_over_thirty_orders_of_magnitude():
    composed = LossDistribution.from_gaussian_pair(8.0, spacing=1 / 2048).self_compose(64)
    for epsilon in np.linspace(-1.0, 11.5, 26):
        truth = reference.gaussian_delta(1, float(epsilon), digits=20)
        assert holds(composed.delta(float(epsilon)), truth, 5e-4)
    array = composed.delta(np.array([[0.5, 1.0], [2.0, 4.0]]))
    assert array.upper.shape == (2, 2)
    assert array.upper[1, 0] == composed.delta(2.0).upper
    for delta in (1e-2, 1e-9, 1e-25):
        assert encloses_gaussian(composed.epsilon(delta), 1, delta, 5e-4)


def test_a_kept_composition_composes_on():
    # 8 + 56 Gaussians, the second part from its grid only
    first = LossDistribution.from_gaussian_pair(8.0, spacing=1 / 2048)
    rest = first.self_compose(56)
    truth = reference.gaussian_delta(1, 6, digits=20)
    assert holds(rest.compose(first.self_compose(8)).delta(6.0), truth, 1e-3)
    assert holds(compose_bounds([(first, 8), (rest, 1)], epsilon=6.0), truth, 2e-3)


def test_nothing_composes_to_nothing():
    loss = LossDistribution.from_laplace(1.0)
    assert loss.self_compose(0).delta(0.0).upper <= 1e-14
    assert compose_bounds([(loss, 0)], epsilon=0.0)[:2] == (0.0, 0.0)
    assert compose_bounds([], delta=1e-5)[:2] == (0.0, 0.0)


def test_a_loss_that_does_not_increase_is_refused():
    LossDistribution.from_mixture(1.0, [0.5, 0.5], [0.0, 1.0], [0.8, 0.2], [0.0, 1.0])
    LossDistribution.from_mixture(1.0, [0.9, 0.1], [0.0, 2.0], [0.9, 0.1], [0.0, -2.0])
    for p, means_p, q, means_q in [
        ([1.0], [0.0], [0.9, 0.1], [0.0, 1.0]),
        ([0.5, 0.5], [-1.0, 1.0], [1.0], [0.0]),
        ([0.2, 0.8], [0.0, 1.0], [0.1, 0.9], [0.0, 1.0]),
    ]:
        with pytest.raises(ValueError, match="increase"):
            LossDistribution.from_mixture(1.0, p, means_p, q, means_q)


def test_a_mixture_of_equal_laws_releases_nothing():
    loss = LossDistribution.from_mixture(1.0, [0.3, 0.7], [0.0, 1.0], [0.3, 0.7], [0.0, 1.0])
    for one in (
        loss,
        *(LossDistribution.from_sampled_gaussian(sigma, q, "remove") for sigma, q in ((1.0, 0.0), (math.inf, 0.5))),
    ):
        assert one.delta(0.0).lower == 0.0
        assert one.delta(0.0).upper <= 1e-14


def test_a_mixture_is_inside_direct_integration():
    # group of two under Poisson sampling: means 0, 1, 2 with binomial weights against 0
    q, sigma, epsilon = 0.25, 1.5, 0.4
    weights = [(1 - q) ** 2, 2 * q * (1 - q), q**2]
    loss = LossDistribution.from_mixture(sigma, weights, [0, 1, 2], [1.0], [0.0])
    with mp.workdps(30):

        def excess(x):
            p = mp.fsum(w * mp.npdf(x, m, sigma) for w, m in zip(weights, (0, 1, 2), strict=True))
            return p - mp.exp(mpf(epsilon)) * mp.npdf(x, 0, sigma)

        edge = mp.findroot(excess, 2)
        truth = mp.quad(excess, [edge, edge + 4, edge + 10, edge + 30])
    assert holds(compose_bounds([(loss, 1)], epsilon=epsilon), truth, 1e-3)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: LossDistribution.from_pmf([0.5, 0.6], [0.5, 0.5]), "p sums to"),
        (lambda: LossDistribution.from_pmf([0.5, 0.5], [1.0]), "one length"),
        (lambda: LossDistribution.from_pmf([0.5, -0.5], [0.5, 0.5]), r"p\[1\]"),
        (lambda: LossDistribution.from_losses([-math.inf], [0.5]), "-inf"),
        (lambda: LossDistribution.from_losses([1.0], [0.5], infinite_mass=0.6), "sums to"),
        (lambda: LossDistribution.from_sampled_gaussian(1.0, 0.1, "both"), "direction"),
        (lambda: LossDistribution.from_gaussian_pair(0.0), "noise_multiplier"),
        (lambda: LossDistribution.from_mixture(1.0, [0.5], [0.0], [1.0], [0.0]), "sum to 1"),
        (lambda: LossDistribution.from_laplace(1.0, spacing=0.0), "spacing"),
        (lambda: LossDistribution.from_laplace(1.0).self_compose(2.5), "n = 2.5"),
        (lambda: compose_bounds([(LossDistribution.from_pure(1.0), 1)]), "either"),
        (lambda: compose_bounds([(LossDistribution.from_pure(1.0), 1)], epsilon=-1.0), "epsilon"),
        (lambda: compose_bounds([LossDistribution.from_pure(1.0)], epsilon=1.0), r"parts\[0\]"),
        (lambda: compose_bounds([(LossDistribution.from_pure(1.0), -1)], epsilon=1.0), "count"),
        (lambda: PLD(tolerance=0.0), "tolerance"),
        (lambda: LossDistribution.from_laplace(1.0).compose(LossDistribution.from_laplace(3.0)), "spacing"),
    ],
)
def test_bad_input_is_refused_by_name(call, match):
    with pytest.raises((TypeError, ValueError), match=match):
        call()


def test_importing_costs_nothing_heavy():
    code = """
import sys, fastacct.pld
print([name for name in ("scipy", "dp_accounting") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
