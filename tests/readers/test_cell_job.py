"""Jobs as the kernels read them: weights that are off are paid, and told by the closed form of one release."""

import itertools

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.losses.mixture import Mixture
from fastacct.losses.mixture_moments import mixture_divergences, mixture_moments
from fastacct.readers import cell_job, nearby

WEIGHTS, MEANS = (0.625, 0.25, 0.125), (0, 1, 2)


def told(off):
    """The mixture against N(0, 1), each weight a little too large."""
    return Mixture(1.0, tuple((w * (1.0 + off), float(m)) for w, m in zip(WEIGHTS, MEANS, strict=True)), ((1.0, 0.0),))


def delta_of(epsilon):
    """Beyond the output where the loss is epsilon."""
    low, high = mpf(-20), mpf(20)
    for _ in range(80):
        x = (low + high) / 2
        ratio = sum(w * mp.exp(m * x - mpf(m * m) / 2) for w, m in zip(WEIGHTS, MEANS, strict=True))
        low, high = (x, high) if ratio < mp.exp(epsilon) else (low, x)
    return sum(w * mp.ncdf(m - x) for w, m in zip(WEIGHTS, MEANS, strict=True)) - mp.exp(epsilon) * mp.ncdf(-x)


@pytest.mark.parametrize("off", [1e-6, -1e-6])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_weights_that_are_off_move_epsilon(off, epsilon):
    """They do not add up to 1, by 1e-6: no more is known of each."""
    job = cell_job.job_of([(told(off), 1.0)])
    with mp.workdps(25):
        truth = delta_of(epsilon)
        found = cell_job.read_job(job, nearby.both(np.array([epsilon])), nearby.DELTA, cell_job.REMOVE)
        assert found.lower[0] <= truth <= found.upper[0]
        assert found.upper[0] - found.lower[0] <= 1e-4 * truth
        found = cell_job.read_job(job, nearby.both(np.array([float(truth)])), nearby.EPSILON, cell_job.REMOVE)
        assert found.lower[0] <= epsilon <= found.upper[0]


@pytest.mark.parametrize("off", [1e-6, -1e-6])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_weights_that_are_off_move_divergences(off, order):
    """E_Q (P/Q)^order is a sum over the components of each factor, whose means multiply pair by pair."""
    picks = itertools.product(zip(map(mpf, WEIGHTS), MEANS, strict=True), repeat=order)
    with mp.workdps(25):
        moment = sum(
            mp.fprod(w for w, _ in pick) * mp.exp(sum(a * b for (_, a), (_, b) in itertools.combinations(pick, 2)))
            for pick in picks
        )
        assert mixture_divergences(told(off), np.array([float(order)]), is_add=False)[0] >= mp.log(moment) / (order - 1)
        lower, upper = mixture_moments(told(off), np.array([order - 1.0]), is_add=False)[:2, 0]
        assert lower <= mp.log(moment) <= upper


@pytest.mark.parametrize(
    "job", [(fa.Gaussian(0.8).poisson(0.03) * 50).group(5), fa.Gaussian(1.5).with_replacement(20, 400) * 7]
)
def test_an_epsilon_has_the_same_bits_beside_targets_of_which_no_ends_are_one(job):
    deltas = np.array([1e-5, 0.7, 0.0, 1e-300, 3e-6])
    several, alone = fa.epsilon_bounds(job, delta=deltas), [fa.epsilon_bounds(job, delta=x) for x in deltas.tolist()]
    for i in (0, 1, 4):
        assert (several.lower[i], several.upper[i]) == alone[i][:2]
