"""Guarantees, at sizes where floating-point numbers have no relative accuracy."""

import math

import mpmath
import numpy as np
import pytest

import fastacct as fa


@pytest.mark.parametrize("epsilon", [1e-20, 3e-20, 1e-10])
@pytest.mark.parametrize("rate", [1e-300, 7e-303, 1e-310])
@pytest.mark.parametrize("neighbors", ["add", "remove", "add_remove"])
def test_the_sample_of_a_tiny_guarantee_is_rounded_up(epsilon, rate, neighbors):
    """The result is subnormal; it was 1.1e-5 below the truth."""
    with mpmath.workdps(60):
        q, e = mpmath.mpf(rate), mpmath.mpf(epsilon)
        add, remove = -mpmath.log1p(q * mpmath.expm1(-e)), mpmath.log1p(q * mpmath.expm1(e))
        truth = {"add": add, "remove": remove, "add_remove": max(add, remove)}[neighbors]
        job = fa.PureDP(epsilon).poisson(rate)
        found = fa.epsilon_bounds(job, delta=0.0, neighbors=neighbors)
        assert found.lower <= truth <= found.upper
        assert found.upper <= truth + 30 * mpmath.mpf(5e-324) + truth * mpmath.mpf(1e-12)
        at = fa.delta_bounds(job, epsilon=0.0, neighbors=neighbors)
        tv = q * (1 - mpmath.exp(-e)) / (1 + mpmath.exp(-e))
        assert at.lower <= tv <= at.upper


def test_a_group_of_what_has_a_gaussian_guarantee_has_its_group():
    for one in (fa.NoisyIteration(4.0, 500, contraction=0.99), fa.GOPA(0.5, 2.0, parties=12)):
        neighbors = one.relations[0]
        found = fa.delta(one.group(3), epsilon=1.0, neighbors=neighbors)
        truth = fa.delta(fa.GDP(3.0 * one.mu), epsilon=1.0, neighbors=neighbors)
        assert truth <= found <= truth * (1.0 + 1e-6)


def test_docstrings_list_the_parameters_with_the_ranges_that_are_checked():
    text = fa.SparseVector.__doc__
    assert "\n    epsilon : float or array in [0, inf]\n" in text
    assert "\n    answers : whole number in [1, 1e+09], default 1\n" in text
    assert text.index("**Guarantee.**") < text.index("Parameters\n") < text.index("Raises\n") < text.index("Examples\n")


def test_a_group_of_a_curve_of_divergences_may_diverge_more_than_twice_as_much():
    """Three tables, two of which are neighbours of the one between: 2.24 times the divergence of twice the order."""
    first, between, last = np.array([[0.0326, 0.0014, 0.966], [0.8544, 0.1294, 0.0162], [0.9026, 0.0973, 0.0001]])

    def divergence(order, p, q):
        return math.log(math.fsum(p**order * q ** (1.0 - order))) / (order - 1.0)

    pairs = (first, between), (between, first), (between, last), (last, between)
    known = max(divergence(4.0, p, q) for p, q in pairs)
    truth = divergence(2.0, first, last)
    assert truth > 2.2 * known
    assert fa.rdp(fa.RDPCurve([4.0], [known]).group(2) * 1, 2.0) >= truth


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.1, 1e-6), (2.0, 1e-9)])
def test_a_group_of_an_approximate_guarantee_loses_a_geometric_sum(epsilon, delta, size):
    """Tables in a row, from one that never has an outcome on: each has it exp(epsilon) times as often, and delta."""
    chance = [0.0]
    for _ in range(size):
        one = math.exp(epsilon) * chance[-1] + delta
        assert (1.0 - chance[-1]) - math.exp(epsilon) * (1.0 - one) <= 0.0  # the other direction loses nothing
        chance.append(one)
    found = fa.delta(fa.ApproxDP(epsilon, delta).group(size), epsilon=size * epsilon)
    assert chance[-1] * (1.0 - 1e-13) <= found <= chance[-1] * (1.0 + 1e-6)


@pytest.mark.parametrize("order", [1.5, 4.0, 50.0])
def test_guarantees_of_gaussian_noise_are_above_its_divergences(order):
    """order d^2/2 of means that are d standard deviations apart, whatever the notion."""
    for apart in (0.3, 2.0):
        truth = 0.5 * order * apart * apart * (1.0 - 1e-15)
        rho = 0.5 * apart * apart
        assert fa.rdp(fa.MeanConcentratedDP(mu=rho, tau=apart), order) >= truth
        for size in (2, 3):
            assert fa.rdp(fa.ZCDP(rho).group(size), order) >= size * size * truth
            assert fa.rdp(fa.GDP(apart).group(size), order) >= size * size * truth
