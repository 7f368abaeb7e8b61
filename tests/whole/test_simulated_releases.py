"""Simulated releases: algorithms are run on two neighbouring data sets, and what an attacker learns is compared with
what is accounted for.

The lower bound is statistically valid: with probability 1 - 2 ALPHA (Clopper, Pearson), P(event | D) - exp(epsilon)
P(event | D') is above it.  It must not exceed the accounted delta; with half the noise it must, or the audit would see
nothing.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import beta

import fastacct as fa

ALPHA = 1e-6
Simulation = Callable[[np.random.Generator, bool, float, int], np.ndarray]
"""(generator, whether the record is there, factor of all noise, number of runs) -> whether the event happened."""


def excess(simulate: Simulation, epsilon: float, factor: float, runs: int) -> float:
    """Lower confidence bound of P(event | D) - exp(epsilon) P(event | D')."""
    rng = np.random.default_rng(20)
    hits = [int(np.count_nonzero(simulate(rng, there, factor, runs))) for there in (True, False)]
    low = beta.ppf(ALPHA, hits[0], runs - hits[0] + 1) if hits[0] else 0.0
    high = beta.ppf(1.0 - ALPHA, hits[1] + 1, runs - hits[1]) if hits[1] < runs else 1.0
    return float(low - math.exp(epsilon) * high)


def laplace(rng, scale, shape):
    return rng.laplace(0.0, scale, shape)


def response(rng, there, factor, runs):
    """Three answers, epsilon 1; half the noise: half as many lies."""
    lie = 2.0 / (2.0 + math.e) * factor
    truth = 0 if there else 1
    answers = np.where(rng.random(runs) < lie, (truth + rng.integers(1, 3, runs)) % 3, truth)
    return answers == 0


def threshold(rng, there, factor, runs, scale=1.0, tests=6):
    """Five queries below a threshold and one above; without the record the five are 1 higher and the last 1 lower."""
    noise = laplace(rng, 4.0 * scale * factor, (runs, tests))
    level = laplace(rng, 2.0 * scale * factor, (runs, 1))
    value = np.zeros(tests) if there else np.array([1.0] * (tests - 1) + [-1.0])
    above = value + noise >= level
    return ~above[:, :-1].any(axis=1) & above[:, -1]


def sparse(rng, there, factor, runs):
    """Twice in a row, the threshold's noise redrawn."""
    return threshold(rng, there, factor, runs) & threshold(rng, there, factor, runs)


def holdout(rng, there, factor, runs):
    """Thresholdout with rate * size = 1, budget 1: six queries whose gap is near the threshold, then the answer."""
    passed = threshold(rng, there, factor, runs)
    answer = (0.0 if there else -1.0) + laplace(rng, factor, runs)
    return passed & (answer > 0.0)


def discoveries(rng, there, factor, runs):
    """PAPRIKA's sparse vector on log p-values, one rejection: noise in units of eta / epsilon."""
    return threshold(rng, there, factor, runs)


def tree(rng, there, factor, runs):
    """Prefix sums of seven leaves: the nodes above the first leaf in the released part of the tree."""
    nodes = [(0, 1), (0, 2), (2, 3), (0, 4), (4, 5), (4, 6), (6, 7)]  # what the prefix sums 1 to 7 are made of
    holds = np.array([start <= 0 < stop for start, stop in nodes])
    seen = rng.normal(0.0, 1.7 * factor, (runs, len(nodes))) + (holds if there else 0.0)
    return seen[:, holds].sum(axis=1) > 0.5 * holds.sum() + 1.7**2


def decentral(rng, there, factor, runs):
    """GOPA, four parties, all pairs: variances 0.5 and 2; the best linear test."""
    n, own, pair = 4, 0.5, 2.0
    x = np.zeros(n)
    x[0] = 1.0 if there else 0.0
    seen = x + rng.normal(0.0, math.sqrt(own) * factor, (runs, n))
    for i in range(n):
        for j in range(i):
            shared = rng.normal(0.0, math.sqrt(pair) * factor, runs)
            seen[:, i] += shared
            seen[:, j] -= shared
    covariance = own * np.eye(n) + pair * (n * np.eye(n) - np.ones((n, n)))
    weight = np.linalg.inv(covariance)[0]
    return seen @ weight > 0.5 * weight[0] + factor**2


def walk(rng, there, factor, runs):
    """A ring: ten rounds, each contribution hidden by one noise before the observer sees the token again."""
    seen = (1.0 if there else 0.0) + rng.normal(0.0, 3.0 * factor, (runs, 10))
    return seen.sum(axis=1) > 5.0 + 9.0


AUDITS = {
    "randomised response": (fa.RandomizedResponse(1.0, 3), response, 1.0, "replace_one", 200_000),
    "above threshold": (fa.AboveThreshold(1.0), threshold, 1.0, "remove", 200_000),
    "sparse vector": (fa.SparseVector(1.0, 2), sparse, 2.0, "remove", 1_000_000),
    "thresholdout": (fa.Thresholdout(0.01, 100, 1), holdout, 2.0, "replace_one", 400_000),
    "paprika": (fa.Paprika(1.0, 1e-6, conditions_hold=True), discoveries, 1.0, "remove", 200_000),
    "tree aggregation": (fa.TreeAggregation(1.7, 7), tree, 1.0, "remove", 200_000),
    "gopa": (fa.GOPA(0.5, 2.0, parties=4), decentral, 1.0, "replace_one", 200_000),
    "ring": (fa.RandomWalk(3.0, 10), walk, 1.0, "remove", 200_000),
}


@pytest.mark.parametrize("name", AUDITS)
def test_no_audit_finds_more_than_is_accounted_for(name):
    mechanism, simulate, epsilon, neighbors, runs = AUDITS[name]
    delta = fa.delta(mechanism, epsilon=epsilon, neighbors=neighbors)
    assert excess(simulate, epsilon, 1.0, runs) <= delta


@pytest.mark.parametrize("name", AUDITS)
def test_every_audit_sees_half_the_noise(name):
    mechanism, simulate, epsilon, neighbors, runs = AUDITS[name]
    delta = fa.delta(mechanism, epsilon=epsilon, neighbors=neighbors)
    assert excess(simulate, epsilon, 0.5, runs) > delta


def test_audits_of_exact_mechanisms_are_close_to_what_is_accounted_for():
    """The event is the best one: with the right noise the audit comes within 3 % of the exact delta."""
    for name in ("tree aggregation", "gopa", "ring"):
        mechanism, simulate, epsilon, neighbors, _ = AUDITS[name]
        delta = fa.delta(mechanism, epsilon=epsilon, neighbors=neighbors)
        assert 0.0 <= delta - excess(simulate, epsilon, 1.0, 1_000_000) < 0.01
