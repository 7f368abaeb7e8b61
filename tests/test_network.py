"""Walks of a token on the complete graph, against the mixture of Gaussians summed in full."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import fastacct as fa
from fastacct.losses.revealed import revealed_gaussians
from fastacct.mechanisms.network import _complete_losses


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def mixture_delta(noise, parties, epsilon):
    """As the docstring has it: m geometric, j of them binomial."""
    total, most = 0.0, 40 * parties
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    for m in range(1, most + 1):
        j = np.arange(1, min(m, 60) + 1)
        mass = log_factorial[m] - log_factorial[j] - log_factorial[m - j] - j * math.log(parties - 1)
        mass = mass + (m - j) * math.log1p(-1 / (parties - 1)) + m * math.log1p(-1 / parties) - math.log(parties)
        total += float(np.sum(np.exp(mass) * gaussian_delta(j / (math.sqrt(m) * noise), epsilon)))
    return total


@pytest.mark.parametrize(("noise", "parties"), [(4.0, 20), (1.0, 3), (0.5, 50), (10.0, 100)])
def test_one_round_is_the_mixture(noise, parties):
    walk = fa.RandomWalk(noise, 1, graph="complete", parties=parties)
    for epsilon in (0.0, 0.3 / noise, 1.0 / noise, 4.0 / noise):
        truth = mixture_delta(noise, parties, epsilon)
        found = fa.delta(walk, epsilon=epsilon)
        assert truth * (1 - 1e-9) <= found <= truth * 1.02
        if epsilon == 0.0:
            assert found <= truth * (1 + 1e-8)


def test_four_hundred_users():
    """0.672 by divergences."""
    walk = fa.RandomWalk(10.0, 1, graph="complete", parties=400)
    found = fa.epsilon(walk, delta=1e-6)
    assert 0.0661 < found < 0.0662
    assert mixture_delta(10.0, 400, found) <= 1e-6
    assert fa.epsilon(walk * 10, delta=1e-6) == fa.epsilon(fa.RandomWalk(10.0, 10, "complete", 400), delta=1e-6)


def test_several_rounds_agree_with_a_double_sum():
    """Two rounds: the squares of the two mu add up."""
    noise, parties = 1.0, 3
    mu, mass = [], []
    for m in range(1, 120):
        for j in range(1, min(m, 40) + 1):
            mu.append(j / (math.sqrt(m) * noise))
            mass.append(math.comb(m, j) * 0.5**m * (2 / 3) ** m / 3)
    mu, mass = np.append(mu, 1e-30), np.append(mass, 0.5)
    both = np.sqrt(np.add.outer(mu**2, mu**2)).ravel()
    weight = np.outer(mass, mass).ravel()
    found = fa.delta(fa.RandomWalk(noise, 2, "complete", parties), epsilon=2.0)
    truth = float(np.sum(weight * gaussian_delta(both, 2.0)))
    assert truth * (1 - 1e-9) <= found <= truth * 1.005


def test_both_laws_bound_any_mixture():
    rng = np.random.default_rng(1)
    from fastacct.readers.listed import _Sums

    for top in (0.01, 1.0, 30.0):
        mu = top * rng.random(40) ** 2 + 1e-3 * top
        weight = 0.7 * rng.dirichlet(np.ones(40))
        bracket = revealed_gaussians(weight, weight, mu, 0.0)
        upper, lower = _Sums([(bracket.upper, 1)], True), _Sums([(bracket.lower, 1)], False)
        for epsilon in (0.0, 0.1 * top, top, 3.0 * top):
            truth = float(np.sum(weight * gaussian_delta(mu, epsilon)))
            assert truth * 0.99 <= lower.delta(epsilon) <= truth * (1 + 1e-12)
            assert truth * (1 - 1e-12) <= upper.delta(epsilon) <= truth * 1.02


def test_ends_of_the_range():
    for rounds in (1, 3):
        nothing = fa.RandomWalk(math.inf, rounds, graph="complete", parties=5)
        assert fa.delta(nothing, epsilon=0.0) == 0.0  # was 1.4e-8
        assert fa.epsilon(nothing, delta=0.0) == 0.0
        assert fa.epsilon(fa.RandomWalk(0.0, rounds, "complete", 5), delta=1e-5) == math.inf
        assert fa.epsilon(fa.RandomWalk(1e-6, rounds, "complete", 5), delta=1e-5) == math.inf
    assert 0.0 < fa.delta(fa.RandomWalk(1e308, 1, "complete", 5), epsilon=0.0) < 1e-270
    assert fa.epsilon(fa.RandomWalk(10.0, 1, "complete", 20), delta=1e-200) < math.inf


def test_replace_one_is_half_the_noise_and_groups_have_a_bound():
    walk = fa.RandomWalk(4.0, 2, "complete", 20)
    assert fa.epsilon(walk, delta=1e-5, neighbors="replace_one") == fa.epsilon(
        fa.RandomWalk(2.0, 2, "complete", 20), delta=1e-5
    )
    assert fa.epsilon(walk, delta=1e-5) < fa.epsilon(walk.group(2), delta=1e-5) < math.inf
    assert fa.epsilon_lower(walk, delta=1e-5) == 0.0
    assert _complete_losses(4.0, 20, 1).upper.infinite < 1e-298


def test_a_walk_on_the_complete_graph_is_the_sum_over_paths():
    """One cycle, 100 users, noise 4, order 4: a direct double sum over cycle lengths and contributions."""
    truth = 0.00253696548499959
    walk = fa.RandomWalk(4.0, 1, graph="complete", parties=100)
    assert truth <= fa.rdp(walk, 4.0) <= truth * (1.0 + 1e-5)
    assert fa.rdp(walk, 4.0, neighbors="replace_one") >= 4.0 * truth
    assert fa.epsilon(walk * 10, delta=1e-6) < fa.epsilon(fa.RandomWalk(4.0, 10), delta=1e-6)
    with pytest.raises(TypeError, match="noise_multiplier"):
        fa.RandomWalk(np.array([1.0, 2.0]), 1, graph="complete")
    with pytest.raises(ValueError, match="graph"):
        fa.RandomWalk(1.0, 1, graph="star")
