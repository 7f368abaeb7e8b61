"""Walks of a token on the complete graph, against the mixture of Gaussians summed in full."""

import math
from functools import cache

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

import fastacct as fa
from fastacct.losses import revealed
from fastacct.losses.revealed import revealed_gaussians
from fastacct.mechanisms import network
from fastacct.mechanisms.network import _complete_losses


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def mixture_delta(noise, parties, epsilon):
    """As the docstring has it: m geometric, j of them binomial."""
    m, mass = mixture(parties)
    mu = np.arange(1, 61) / (np.sqrt(m) * noise)
    return float(np.sum(np.where(mass > 0.0, mass * gaussian_delta(mu, epsilon), 0.0)))


@cache
def mixture(parties):
    """Cycle lengths m in a column, and the probabilities of m with j = 1, 2, ..., 60 in its row."""
    m, j = np.arange(1, 40 * parties + 1)[:, None], np.arange(1, 61)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, m.size + 1)))])
    log_mass = log_factorial[m] - log_factorial[j] - log_factorial[np.maximum(m - j, 0)] - j * math.log(parties - 1)
    log_mass += (m - j) * math.log1p(-1 / (parties - 1)) + m * math.log1p(-1 / parties) - math.log(parties)
    return m, np.where(j <= m, np.exp(log_mass), 0.0)


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
    assert fa.RandomWalk(10.0, 10, "complete", 400).decompose("remove") == (walk * 10).decompose("remove")


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
    from fastacct.losses.loss import Part
    from fastacct.readers.listed import Listed

    for top in (0.01, 1.0, 30.0):
        mu = top * rng.random(40) ** 2 + 1e-3 * top
        weight = 0.7 * rng.dirichlet(np.ones(40))
        bracket = revealed_gaussians(weight, weight, mu, 0.0)
        reader = Listed.of([Part(bracket.upper, bracket.lower, 1)])
        for epsilon in (0.0, 0.1 * top, top, 3.0 * top):
            truth = float(np.sum(weight * gaussian_delta(mu, epsilon)))
            assert truth * 0.99 <= reader.delta(epsilon).lower <= truth * (1 + 1e-12)
            assert truth * (1 - 1e-12) <= reader.delta(epsilon).upper <= truth * 1.02


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


# -- what sums leave out, and errors of their parts, are paid for: without that entry a bound is too small -----------


def cycle_sum(noise, parties, order, longest):
    """The sum over cycles of at most this length: no more than the divergence of all of them."""
    c, total = 0.5 * order * (order - 1.0) / noise**2, 1.0
    log_factorial = np.array([math.lgamma(m + 1.0) for m in range(longest + 1)])
    share, stay = math.log(parties - 1), math.log1p(-1.0 / parties)
    for m in range(1, longest + 1):
        j = np.arange(m + 1)
        mass = log_factorial[m] - log_factorial[j] - log_factorial[m - j] - j * share
        mass += (m - j) * math.log1p(-1.0 / (parties - 1)) + m * stay - math.log(parties)
        total += float(np.sum(np.exp(mass + c * j * j / m) - np.exp(mass)))
    return math.log(total) / (order - 1.0)


def test_cycles_that_are_too_long_to_sum_are_paid():
    """Near the noise at which the divergence is infinite, cycles of more than 400 steps have a part of 1e-3."""
    summed, truth = (cycle_sum(1.05, 3, 2.0, longest) for longest in (400, 1200))
    assert truth > summed * 1.0003
    assert truth <= float(fa.rdp(fa.RandomWalk(1.05, 1, graph="complete", parties=3), 2.0)) < 1.2 * truth


def test_contributions_that_are_too_many_to_sum_are_paid(monkeypatch):
    """With at most four of them summed, of up to 640 steps."""
    truth = cycle_sum(2.0, 20, 2.0, 640)
    monkeypatch.setattr(network, "_WIDEST", 4)
    assert truth <= float(network._cycle(np.array([2.0]), 2.0, 20, 1)[0])


def test_rounding_of_a_sum_over_waiting_times_is_paid(monkeypatch):
    """5,000 products in any order: up to 6e-13, put here into the probabilities."""
    noise, stop, gaps = 1.5, 0.5, network._gaps
    with mp.workdps(30):
        power = mpf(1) / mpf(noise) ** 2
        raised = sum(mpf(stop) ** g * mp.expm1(power / g) for g in range(1, 200))
        truth = -mp.log1p(-raised)
    monkeypatch.setattr(network, "_gaps", lambda stop: (gaps(stop)[0], gaps(stop)[1] * (1.0 - 6e-13)))
    found = float(network._gradient_cycle(np.array([2.0]), noise, 4, 1)[0])
    assert truth <= found <= truth * (1 + 1e-11)


@pytest.mark.parametrize("lowest", [1.0, 4.0])
def test_an_error_of_the_share_that_moves_up_is_paid(monkeypatch, lowest):
    """A Gaussian that is a part of 3e-14 beyond its level, where delta is 1e-267 and grows 1,400 times as fast."""
    between = revealed._between
    monkeypatch.setattr(revealed, "_between", lambda *one: np.maximum(between(*one) - 1.9e-12, 0.0))
    mu, weight = np.array([lowest, 1.02 * lowest * (1.0 + 3e-14)]), np.array([1e-6, 1.0 - 1e-6])
    law = revealed_gaussians(weight, weight, mu, 0.0).upper
    at = law.loss[np.searchsorted(law.loss, lowest * (35.5 + 0.5 * lowest))]  # one of its points: nothing is rounded
    found = math.fsum(law.mass * np.maximum(-np.expm1(at - law.loss), 0.0))
    with mp.workdps(60):
        ends = [(mpf(w), mpf(m) / 2 - at / mpf(m), -mpf(m) / 2 - at / mpf(m)) for w, m in zip(weight, mu, strict=True)]
        assert found >= sum(w * (mp.ncdf(z) - mp.exp(at) * mp.ncdf(other)) for w, z, other in ends)


def test_a_sample_of_several_rounds_is_refused_where_it_is_made():
    """It was refused where it was asked for, as a part of whatever job."""
    once, walk = (fa.RandomWalk(4.0, rounds=rounds, graph="complete", parties=20) for rounds in (1, 5))
    with pytest.raises(ValueError, match=r"RandomWalk.* consists of several releases: .*Sample its guarantee"):
        walk.poisson(0.1)
    assert fa.epsilon(once.poisson(0.1), delta=1e-5) > 0.0
