"""Statements of lectures by one call, and numbers that may not contradict each other."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

import fastacct as fa

LEFT = fa.Gaussian(1.0).poisson(0.1) * 20
TABLE = fa.from_pmf((0.6, 0.25, 0.15), (0.3, 0.3, 0.4))


def renyi_of_one_step(order, q=0.1):
    """Of N(0, 1) from (1 - q) N(0, 1) + q N(1, 1), by quadrature."""

    def integrand(x):
        density = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        return density * ((1.0 - q) + q * math.exp(x - 0.5)) ** (1.0 - order)

    return math.log(quad(integrand, -30.0, 30.0, epsabs=0.0, epsrel=1e-11, points=[0.0], limit=400)[0]) / (order - 1.0)


def test_no_order_is_above_the_largest_loss():
    orders = np.array([1.0, 2.0, 16.0, 1000.0, math.inf])
    largest = fa.epsilon(LEFT, delta=0.0, neighbors="add")
    found = fa.rdp(LEFT, orders, neighbors="add")
    assert np.all(found <= largest * (1.0 + 1e-12))
    assert np.all(np.diff(found) >= -1e-12 * largest)
    for order, upper in zip((2.0, 16.0), found[1:], strict=False):
        assert 20 * renyi_of_one_step(order) <= upper
    bounds = fa.rdp_bounds(LEFT, orders, neighbors="add")
    assert np.all(bounds.lower <= bounds.upper)
    np.testing.assert_array_equal(bounds.upper, found)
    jobs = fa.Gaussian(np.array([1.0, 2.0])).poisson(0.1) * np.array([20, 5])
    assert fa.rdp(jobs, 1000.0, neighbors="add").tolist() == [
        fa.rdp(jobs.cell(i), 1000.0, neighbors="add") for i in (0, 1)
    ]


@pytest.mark.parametrize(
    ("job", "neighbors"),
    [
        (TABLE, "remove"),
        (TABLE + fa.Laplace(1.0), "add_remove"),
        (TABLE.poisson(0.2) * 3, "add_remove"),
        (fa.GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)]), "add"),
        (fa.Gaussian(1.0).poisson(0.1).group(2) * 5, "add"),
        (fa.Gaussian(1.0).fixed_size(100, 1000) * 20, "add"),
        (fa.Gaussian(2.0).poisson(0.1, at_most=120, records=1000), "add"),
        (fa.Laplace(2.0) * 3, "remove"),
        (LEFT, "add"),
        (LEFT, "remove"),
    ],
    ids=repr,
)
def test_order_infinity_is_epsilon_at_delta_zero(job, neighbors):
    assert fa.rdp(job, math.inf, neighbors=neighbors) == pytest.approx(
        fa.epsilon(job, delta=0.0, neighbors=neighbors), rel=1e-12
    )


def test_a_class_that_is_defined_by_its_concentration_knows_it():
    loss = fa.privacy_loss(fa.MeanConcentratedDP(0.5, 1.0) * 4)
    assert loss.concentration == pytest.approx((2.0, 2.0), rel=1e-12)
    one = fa.privacy_loss(fa.MeanConcentratedDP(0.5, 1.0))
    for t in (1.0, 2.5):
        assert math.exp(-t * t / 2) <= one.exceeds(0.5 + t).upper <= math.exp(-t * t / 2) * 1.001
    # rho-zCDP: min over alpha of exp((alpha - 1) (rho alpha - t))
    assert math.exp(-((2.5 - 0.5) ** 2) / 2) <= fa.privacy_loss(fa.ZCDP(0.5)).exceeds(2.5).upper <= 0.1355


def test_chernoff_is_never_below_the_probability():
    for job in (
        fa.RDPCurve(np.arange(2.0, 65.0), np.arange(2.0, 65.0) / 2),
        fa.ZCDP(0.5),
    ):  # as of a Gaussian of noise 1
        loss = fa.privacy_loss(job)
        truth = fa.privacy_loss(fa.Gaussian(1.0)).exceeds([1.0, 3.0, 6.0]).lower
        assert np.all(loss.exceeds([1.0, 3.0, 6.0]).upper >= truth)


@pytest.mark.parametrize(
    ("p", "q", "half"),
    [([1.0, 0.0], [0.6, 0.4], 0.0), ([0.5, 0.5, 0.0], [0.2, 0.4, 0.4], 0.5 * math.log(2.0))],
)
def test_losses_are_concentrated_where_p_misses_an_outcome_of_q(p, q, half):
    mean = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0.0)
    for count in (1, 3):
        found = fa.privacy_loss(fa.from_pmf(p, q) * count, neighbors="remove").concentration
        assert found.mu == pytest.approx(count * mean, rel=1e-6)
        least = math.sqrt(count) * half  # that of losses of +-half about the mean
        assert least - 1e-12 <= found.tau <= 1.004 * least + 1e-9


def test_the_moments_accountant_is_renyi_dp_of_the_order_above():
    order, divergence = fa.convert.moments_to_rdp([1.0, 32.0], [0.5, 4.0])
    np.testing.assert_allclose(order, [2.0, 33.0], rtol=1e-12)
    np.testing.assert_allclose(divergence, [0.5, 0.125], rtol=1e-12)
    power, moment = fa.convert.rdp_to_moments(order, divergence)
    np.testing.assert_allclose(power, [1.0, 32.0], rtol=1e-12)
    assert np.all(moment >= [0.5, 4.0])
    with pytest.raises(ValueError, match=r"power = 0\.0"):
        fa.convert.moments_to_rdp(0.0, 1.0)


def test_the_classical_noise_of_dpsgd_holds_and_is_refused_where_its_proof_does_not():
    run = {"records": 100, "batch_size": 10, "steps": 2000}
    noise = fa.classical.dpsgd_noise_multiplier(1.0, 1e-5, **run)
    step = fa.Gaussian(noise).fixed_size(batch_size=10, records=100)
    assert fa.epsilon(step * 2000, delta=1e-5, neighbors="replace_one") <= 1.0
    with pytest.raises(ValueError, match="needs at least 2154"):
        fa.classical.dpsgd_noise_multiplier(1.0, 1e-6, records=1000, batch_size=1, steps=1)
    with pytest.raises(ValueError, match="epsilon"):
        fa.classical.dpsgd_noise_multiplier(1.5, 1e-6, **run)
    with pytest.raises(ValueError, match="steps = 1 are too few"):  # the delta of a step would be above 1
        fa.classical.dpsgd_noise_multiplier(1e-6, 0.9, records=1000, batch_size=1, steps=1)
    with pytest.raises(ValueError, match="batch_size = 20 exceeds records = 10"):
        fa.classical.dpsgd_noise_multiplier(1.0, 1e-6, records=10, batch_size=20, steps=10**6)


def test_randomized_response_by_the_probability_of_the_truth():
    assert fa.RandomizedResponse.from_truth(0.75).epsilon == pytest.approx(math.log(3.0), rel=1e-14)
    assert fa.RandomizedResponse.from_truth(0.75).epsilon >= math.log(3.0)
    assert fa.RandomizedResponse.from_truth(0.4, 4).epsilon == pytest.approx(math.log(0.4 * 3 / 0.6), rel=1e-14)
    assert fa.RandomizedResponse.from_truth(0.5).epsilon == 0.0
    assert fa.RandomizedResponse.from_truth(0.1, 10).epsilon > 0.0  # the float 0.1 is above 1/10
    assert fa.RandomizedResponse.from_truth(1.0).epsilon == math.inf
    with pytest.raises(ValueError, match="below 1/answers"):
        fa.RandomizedResponse.from_truth(0.3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fa.rdp(LEFT, 0.5), r"fa\.divergence\(job, orders\)"),
        (lambda: fa.utility(fa.Laplace(1.0) * 3), "whose release has an error of its own"),
        (lambda: fa.kl, "divergence"),
        (lambda: fa.mse, "utility"),
        (lambda: fa.reconstruction, "tpr_at_fpr"),
    ],
)
def test_awkward_ways_are_told_the_right_one(call, message):
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        call()
