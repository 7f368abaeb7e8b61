"""Rényi divergences at the ends of the orders: 1, the Kullback-Leibler divergence, and inf, the largest loss."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa


def kullback_leibler(noise, rate):
    """Of a Poisson-sampled Gaussian, the larger direction, to 20 digits."""
    with mp.workdps(40):
        s, q = mp.mpf(noise), mp.mpf(rate)

        def q_(x):
            return mp.npdf(x, 0, s)

        def p_(x):
            return (1 - q) * mp.npdf(x, 0, s) + q * mp.npdf(x, 1, s)

        edges = [s * i for i in range(-14, 15, 2)] + [1 + 14 * s]
        return max(
            mp.quad(lambda x: p_(x) * mp.log(p_(x) / q_(x)), sorted(edges)),
            mp.quad(lambda x: q_(x) * mp.log(q_(x) / p_(x)), sorted(edges)),
        )


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.1), (0.5, 0.01), (3.0, 0.5), (1.0, 1e-6)])
def test_order_one_is_the_kullback_leibler_divergence(noise, rate):
    exact = kullback_leibler(noise, rate)
    lower, upper, status = fa.rdp_bounds(fa.Gaussian(noise).poisson(rate), 1)
    assert lower <= exact <= upper
    assert upper - lower <= 1e-9 * upper
    assert status == fa.Status.TIGHT
    assert fa.dpsgd.rdp(noise_multiplier=noise, sample_rate=rate, orders=1) == upper


@pytest.mark.parametrize("noise", [0.1, 2.0, 1e8, 1e60])
def test_order_one_of_a_gaussian_is_half_its_squared_mu_however_small(noise):
    lower, upper, status = fa.rdp_bounds(fa.Gaussian(noise) * 2, 1)
    assert lower <= Fraction(1) / Fraction(noise) ** 2 <= upper <= lower * (1 + 1e-14)
    assert status == fa.Status.TIGHT
    variance = fa.privacy_loss(fa.Gaussian(noise) * 2).variance
    assert variance.lower <= 2 / Fraction(noise) ** 2 <= variance.upper <= variance.lower * (1 + 1e-14)


def test_order_one_of_mechanisms_without_gaussians():
    # read at order 1 + 1e-11
    assert fa.rdp(fa.PureDP(1.0), 1) == pytest.approx(math.tanh(0.5), rel=2e-11, abs=0.0)
    assert fa.rdp(fa.Laplace(1.0), 1) == pytest.approx(math.exp(-1.0), rel=2e-11, abs=0.0)
    both = 3 * math.tanh(0.5) + 0.125
    assert fa.rdp(fa.PureDP(1.0) * 3 + fa.Gaussian(2.0), 1) == pytest.approx(both, rel=2e-11, abs=0.0)
    assert fa.rdp(fa.PureDP(1.0), 1) >= math.tanh(0.5)


def test_order_one_of_different_gaussians_adds_up():
    job = fa.Gaussian(1.0).poisson(0.1) * 100 + fa.Gaussian(2.0).poisson(0.01) * 1000
    exact = 100 * kullback_leibler(1.0, 0.1) + 1000 * kullback_leibler(2.0, 0.01)
    lower, upper, _ = fa.rdp_bounds(job, 1)
    assert lower <= exact <= upper <= lower * (1 + 1e-8)


def test_the_infinite_order_is_the_largest_loss():
    assert fa.rdp(fa.PureDP(0.7) * 3, math.inf) == pytest.approx(2.1, rel=4e-15, abs=0.0)
    assert fa.rdp(fa.Laplace(2.0), math.inf) == pytest.approx(0.5, rel=4e-15, abs=0.0)
    assert fa.rdp(fa.Gaussian(1.0) + fa.PureDP(1.0), math.inf) == math.inf
    assert fa.rdp(fa.Gaussian(1.0) * 0, math.inf) == 0.0
    assert fa.rdp_bounds(fa.Gaussian(1.0).poisson(0.1), math.inf) == (math.inf, math.inf, fa.Status.NOT_MET)
    assert fa.rdp_bounds(fa.Gaussian(math.inf), math.inf) == (0.0, 0.0, fa.Status.TIGHT)


@pytest.mark.parametrize(
    ("job", "neighbors", "largest"),
    [
        (fa.Laplace(2.0) * 3, "add_remove", 1.5),
        (fa.Laplace(2.0).poisson(0.1), "remove", math.log1p(0.1 * math.expm1(0.5))),
        (fa.Gaussian(1.0).poisson(0.1) * 10, "add", -10.0 * math.log1p(-0.1)),
        (fa.Gaussian(1.0).poisson(0.1) * 10, "remove", math.inf),
        (fa.Gaussian(1.0).poisson(0.1).group(2) * 3, "remove", math.inf),
    ],
)
def test_the_infinite_order_is_known_from_below_too(job, neighbors, largest):
    lower, upper, _ = fa.rdp_bounds(job, [math.inf], neighbors=neighbors)
    assert lower[0] <= largest * (1.0 + 1e-15)
    assert upper[0] >= largest * (1.0 - 1e-15)
    assert upper[0] == lower[0] or upper[0] - lower[0] < 1e-6 * upper[0]


def test_the_ends_stand_in_arrays():
    orders = np.array([1.0, 1.5, 2.0, math.inf])
    job = fa.Gaussian([[1.0], [2.0]]).poisson(0.1) * 10
    value = fa.rdp(job, orders)
    assert (np.diff(value, axis=1) > 0).all()
    assert value[:, 1].tolist() == fa.rdp(job, 1.5)[:, 0].tolist()
    assert value[1, 0] == fa.rdp(fa.Gaussian(2.0).poisson(0.1) * 10, 1)
    bounds = fa.dpsgd.rdp_bounds(noise_multiplier=[[1.0], [2.0]], sample_rate=0.1, steps=10, orders=orders)
    assert bounds.upper.tolist() == value.tolist()
    assert (bounds.lower <= bounds.upper).all()
    assert fa.rdp(fa.Laplace([[1.0], [2.0]]), orders)[:, 3] == pytest.approx([1.0, 0.5], rel=4e-15, abs=0.0)


def test_no_divergence_exceeds_the_largest_loss():
    assert fa.rdp(fa.Laplace(1.0).poisson(0.1), 1e6) <= fa.rdp(fa.Laplace(1.0).poisson(0.1), math.inf)


@pytest.mark.parametrize("order", [0.999, -1.0, 1.1e11, -math.inf, math.nan])
def test_other_orders_are_refused(order):
    with pytest.raises(ValueError, match=r"orders\[1\] = .* is out of range; allowed: \[1, 1e\+11\] or inf"):
        fa.rdp(fa.Gaussian(1.0), [2.0, order])


@pytest.mark.parametrize("order", [1.0, math.inf])
def test_the_ends_convert_to_nothing(order):
    with pytest.raises(ValueError, match=r"orders\[0\] = .* is out of range; allowed: \(1, 1e\+11\]"):
        fa.RDP(orders=[order])


@pytest.mark.parametrize("rate", [0.1, 0.6])
@pytest.mark.parametrize("order", [2.0, 5.0])
def test_what_is_known_of_a_record_added_is_a_bound_from_above_alone(order, rate):
    """The kernel knows the larger direction: its lower bound is none of the other one."""
    found = fa.rdp_bounds(fa.Gaussian(1.0).poisson(rate), order, neighbors="add")
    with mp.workdps(20):
        moment = mp.quad(
            lambda x: mp.npdf(x) * (1 - rate + rate * mp.exp(x - mp.mpf(1) / 2)) ** (1 - order), mp.linspace(-12, 12, 9)
        )
        assert found.lower <= mp.log(moment) / (order - 1) <= found.upper
