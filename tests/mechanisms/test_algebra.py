"""Sums of mechanisms on one sample, and jobs without cells."""

import math

import numpy as np
import pytest

import fastacct as fa


def test_two_gaussians_on_one_sample_are_one_gaussian():
    assert (fa.Gaussian(1.0) * 2).poisson(0.1) == fa.Gaussian(1 / math.sqrt(2)).poisson(0.1)
    assert (fa.Gaussian(2.0) * 4).poisson(0.1) == fa.Gaussian(1.0).poisson(0.1)
    assert (fa.Gaussian(3.0) * 1).poisson(0.1) == fa.Gaussian(3.0).poisson(0.1)
    assert (fa.Gaussian(15.0) + fa.Gaussian(20.0)).poisson(0.5) == fa.Gaussian(12.0).poisson(0.5)


def test_the_noise_of_one_sample_is_never_rounded_up():
    rng = np.random.default_rng(5)
    for a, b, n in zip(rng.uniform(0.1, 9, 50), rng.uniform(0.1, 9, 50), rng.integers(1, 1000, 50), strict=True):
        noise = (fa.Gaussian(a) * int(n) + fa.Gaussian(b)).poisson(0.1).mechanism.noise_multiplier
        from fractions import Fraction

        square = 1 / (int(n) / Fraction(float(a)) ** 2 + 1 / Fraction(float(b)) ** 2)
        assert Fraction(noise) ** 2 <= square < Fraction(math.nextafter(noise, 9.0)) ** 2


def test_one_sample_costs_more_than_a_sample_for_each():
    together = fa.epsilon((fa.Gaussian(2.0) * 4).poisson(0.1) * 10, delta=1e-5)
    assert together > fa.epsilon(fa.Gaussian(2.0).poisson(0.1) * 40, delta=1e-5)
    assert together == fa.epsilon(fa.Gaussian(1.0).poisson(0.1) * 10, delta=1e-5)


def test_one_sample_of_arrays():
    job = fa.Gaussian([1.0, 2.0]) * np.array([[1], [4]]) + fa.Gaussian(math.inf)
    assert job.poisson([0.1, 0.2]) == fa.Gaussian([[1.0, 2.0], [0.5, 1.0]]).poisson([0.1, 0.2])
    assert (fa.Gaussian(1.0) * np.array([0, 1])).poisson(0.1) == fa.Gaussian([math.inf, 1.0]).poisson(0.1)
    assert (fa.Gaussian(0.0) + fa.Gaussian(1.0)).poisson(0.1) == fa.Gaussian(0.0).poisson(0.1)
    assert (fa.Gaussian(1e-200) + fa.Gaussian(1e200)).poisson(0.1) == fa.Gaussian(1e-200 * (1 - 2.0**-53)).poisson(0.1)


@pytest.mark.parametrize(
    "job",
    [
        fa.Gaussian(1.0) + fa.Laplace(1.0),
        fa.Laplace(1.0) * 2,
        fa.Gaussian(1.0).poisson(0.1) * 2,
        fa.Gaussian(1.0) + fa.Gaussian(3.0).group(3),
        fa.PureDP(0.1) * 3,
    ],
)
def test_other_releases_on_one_sample_are_one_release(job):
    assert job.poisson(0.1) == fa.Together(job).poisson(0.1)


def test_a_rate_out_of_range_is_refused_for_a_process():
    with pytest.raises(ValueError, match=r"sample_rate = 1\.5 is out of range"):
        (fa.Gaussian(1.0) * 2).poisson(1.5)


NONE = np.zeros((2, 0))


@pytest.mark.parametrize(
    "job",
    [
        fa.Gaussian(NONE).poisson(0.1) * 5,
        fa.Gaussian(1.0).poisson(NONE) * 5,
        fa.Gaussian(1.0).poisson(0.1) * NONE,
        fa.Gaussian(NONE) + fa.Laplace(1.0),
        fa.PureDP(NONE),
        fa.Gaussian(NONE).poisson(0.1).group(2),
        fa.GaussianMixture(NONE, [(0.5, 0.0), (0.5, 1.0)]),
        (fa.Gaussian(NONE) * 2).poisson(0.1),
    ],
    ids=repr,
)
def test_jobs_without_cells_have_answers_without_cells(job):
    assert fa.epsilon(job, delta=1e-5).shape == (2, 0)
    assert fa.epsilon_bounds(job, delta=1e-5).status.shape == (2, 0)
    assert fa.delta(job, epsilon=1.0).shape == (2, 0)
    assert fa.tradeoff(job, 0.1).shape == (2, 0)
    assert fa.rdp(job, 2.0).shape == (2, 0)
    assert fa.rdp(job, 1.0).shape == (2, 0)
    assert fa.rdp(job, math.inf).shape == (2, 0)


def test_targets_without_cells_have_answers_without_cells():
    assert fa.epsilon(fa.Gaussian(1.0), delta=[]).shape == (0,)
    assert (fa.Gaussian(np.array([])).poisson(0.1) * 5).shape == (0,)
    assert fa.dpsgd.epsilon(noise_multiplier=[], sample_rate=0.1, steps=10, delta=1e-5).shape == (0,)
    assert fa.rdp(fa.Gaussian(1.0), []).shape == (0,)


def test_lists_without_meaning_stay_refused():
    with pytest.raises(ValueError, match="orders is an empty array"):
        fa.RDP(orders=[])
    with pytest.raises(ValueError, match="is an empty array"):
        fa.RDPCurve([], [])
