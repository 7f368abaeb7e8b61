"""Several releases on one Poisson sample: the loss of all of them, sampled once."""

import itertools
import math

import numpy as np
import pytest

import fastacct as fa

TWO = fa.Gaussian(2.0) + fa.Gaussian(3.0)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("rate", "count"), [(1.0, 1), (0.1, 1), (0.01, 30), (0.5, 5)])
def test_gaussians_are_the_one_that_they_are_together(rate, count, direction):
    exact = TWO.poisson(rate) * count
    found = fa.Together(TWO).poisson(rate) * count
    for delta in (1e-3, 1e-9):
        lower, upper, _ = fa.epsilon_bounds(found, delta=delta, neighbors=direction)
        truth = fa.epsilon(exact, delta=delta, neighbors=direction)
        assert lower <= truth * (1.0 + 1e-12)
        assert truth <= upper * (1.0 + 1e-12) <= truth * (1.0 + 1e-4)


@pytest.mark.parametrize(("count", "epsilon"), [(1, 2.0), (1, 3.2), (20, 3.0), (20, 4.6)])
def test_few_samples_are_known_at_tiny_deltas(count, epsilon):
    """Down to some 1e-22: points of the curve of both releases are as dense there as the logarithm of delta."""
    truth = fa.log_delta_bounds(TWO.poisson(0.1) * count, epsilon=epsilon)
    lower, upper, _ = fa.log_delta_bounds(fa.Together(TWO).poisson(0.1) * count, epsilon=epsilon)
    assert lower <= truth.upper
    assert truth.lower <= upper <= truth.upper + 1e-4


def responses(epsilons, rate, epsilon):
    """Delta of randomized responses on one sample, all outcomes listed."""
    total = 0.0
    for truths in itertools.product([True, False], repeat=len(epsilons)):
        p = math.prod(1.0 / (1.0 + math.exp(-e if true else e)) for e, true in zip(epsilons, truths, strict=True))
        q = math.prod(1.0 / (1.0 + math.exp(e if true else -e)) for e, true in zip(epsilons, truths, strict=True))
        total += max(0.0, (1.0 - rate) * q + rate * p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
def test_few_outcomes_are_listed(epsilon):
    job = (fa.PureDP(0.7) * 2 + fa.PureDP(0.2)).poisson(0.3)
    truth = responses([0.7, 0.7, 0.2], 0.3, epsilon)
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon, neighbors="remove")
    assert lower <= truth <= upper
    assert upper <= truth * (1.0 + 1e-4)


def test_a_sample_for_all_is_less_private_than_one_for_each():
    both, each = TWO.poisson(0.05) * 50, (fa.Gaussian(2.0).poisson(0.05) + fa.Gaussian(3.0).poisson(0.05)) * 50
    assert fa.epsilon(each, delta=1e-6) < fa.epsilon(both, delta=1e-6)
    mixed = fa.Gaussian(2.0) + fa.Laplace(6.0)
    one, other = mixed.poisson(0.05) * 50, (fa.Gaussian(2.0).poisson(0.05) + fa.Laplace(6.0).poisson(0.05)) * 50
    assert fa.epsilon(other, delta=1e-6) < fa.epsilon(one, delta=1e-6) < fa.epsilon(mixed * 50, delta=1e-6)


@pytest.mark.parametrize("relation", ["add_remove", "zero_out", "replace_one"])
def test_without_a_sample_it_is_the_job(relation):
    mixed = fa.Gaussian(2.0) + fa.Laplace(6.0) * 2
    for delta in (1e-9, 1e-2):
        told = {"delta": delta, "neighbors": relation}
        assert fa.epsilon_bounds(fa.Together(mixed) * 3, **told) == fa.epsilon_bounds(mixed * 3, **told)
    assert fa.rdp(fa.Together(mixed) * 3, 4.0, neighbors=relation) == fa.rdp(mixed * 3, 4.0, neighbors=relation)


def test_parallel_parts_within_are_alternatives():
    """A record is in one of the parts."""
    job = fa.Together(fa.Parallel(fa.Laplace(2.0), fa.Gaussian(1.0)) + fa.Laplace(3.0))
    lower, upper, status = fa.epsilon_bounds(job, delta=1e-5)
    each = [fa.epsilon_bounds(one + fa.Laplace(3.0), delta=1e-5) for one in (fa.Laplace(2.0), fa.Gaussian(1.0))]
    assert (lower, upper) == (max(one.lower for one in each), max(one.upper for one in each))
    assert status == fa.Status.TIGHT


def test_samples_within_a_sample():
    """A client takes part in a round, and its records in each of the steps there."""
    inner = fa.Gaussian(1.0).poisson(0.1) * 10
    outer = inner.poisson(0.2) * 20
    upper = fa.epsilon(inner * 20, delta=1e-5)
    lower = fa.epsilon(fa.Gaussian(1.0).poisson(0.02) * 200, delta=1e-5)
    assert lower < fa.epsilon(outer, delta=1e-5) < upper


def test_divergences_answer_for_what_has_no_losses():
    job = (fa.ZCDP(0.01) + fa.Gaussian(4.0)).poisson(0.1)
    assert 0.0 < fa.epsilon(job * 10, delta=1e-5) < fa.epsilon((fa.ZCDP(0.01) + fa.Gaussian(4.0)) * 10, delta=1e-5)


@pytest.mark.parametrize(
    ("job", "match"),
    [
        (fa.RandomizedResponse(1.0) * 2, "in the local model everyone sees"),
        (fa.Gaussian(2.0).allocation(10) * 2, "its records are drawn already"),
        (fa.Process(), "job needs at least one release"),
        (fa.Laplace(np.array([1.0, 2.0])) * 2, "job must be a mechanism or a process of plain numbers"),
    ],
)
def test_what_has_no_sample_is_refused(job, match):
    with pytest.raises((ValueError, TypeError), match=match):
        job.poisson(0.1)


def test_losses_far_beyond_any_exponential_are_bounded_from_above():
    """Of a lattice with so much slack that from below one distribution would have more than exp(700)."""
    releases = fa.NoisyIteration(0.7, 20) * 100 + fa.Gaussian(2.0).poisson(0.1).group(3) * 236 + fa.PureDP(0.1)
    job = releases.poisson(0.5)
    for one in (job, job * 3):
        found = fa.epsilon_bounds(one, delta=1e-9, neighbors="remove")
        assert found.lower <= found.upper < math.inf
