"""Moments of losses of which two pairs are known, or several of which one is drawn, against integrals in 25 digits."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.loss import Apart
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.losses.mixture_moments import mixture_moments
from fastacct.losses.moments import BETWEEN, drawn_moments, moments_between
from fastacct.privacy_loss import PrivacyLoss
from fastacct.samplers.allocation import allocated
from fastacct.samplers.truncated import truncation


def sample(noise, rate, mean=1.0):
    return Mixture(noise, ((rate, mean),))


def integrals(noise, rate, mean, s, is_add):
    """E_P of exp(s L), of L exp(s L) and of L^2 exp(s L) of a Poisson sample of N(mean, noise^2)."""
    sigma, q, m = mp.mpf(noise), mp.mpf(rate), mp.mpf(mean)

    def ratio(x):
        return 1 - q + q * mp.exp((2 * x * m - m * m) / 2 / sigma**2)

    def of(x, k):
        one, density = ratio(x), mp.exp(-x * x / 2 / sigma**2) / sigma / mp.sqrt(2 * mp.pi)
        loss, weight = (-mp.log(one), 1) if is_add else (mp.log(one), one)
        return density * weight * mp.exp(s * loss) * loss**k

    far = m * max(s + 1, -s, 1)
    ends = [-14 * sigma, -5 * sigma, -sigma, 0, m / 2, m, far, far + 5 * sigma, far + 14 * sigma]
    return [mp.quad(lambda x, k=k: of(x, k), sorted(set(ends))) for k in range(3)]


@pytest.mark.parametrize("s", [-3.0, -1.0, -0.4, 0.0, 1e-3, 2.0])
@pytest.mark.parametrize("is_add", [False, True])
def test_one_of_two_samples_that_is_drawn_in_sight_of_everyone(s, is_add):
    parts = (0.999, 1.2, 0.05, 1.0), (0.001, 1.2, 0.1, 2.0)
    rows = drawn_moments([(w, mixture_moments(sample(n, q, m), np.array([s]), is_add=is_add)) for w, n, q, m in parts])[
        :, 0
    ]
    with mp.workdps(25):
        sums = [mp.mpf(0)] * 3
        for w, *numbers in parts:
            sums = [a + mp.mpf(w) * b for a, b in zip(sums, integrals(*numbers, s, is_add), strict=True)]
        mean = sums[1] / sums[0]
        truth = mp.log(sums[0] / mp.fsum(mp.mpf(part[0]) for part in parts)), mean, sums[2] / sums[0] - mean * mean
        for k, true in enumerate(truth):
            low, high = rows[2 * k : 2 * k + 2]
            assert low - 1e-15 * (k == 0) <= true <= high + 1e-15 * (k == 0), k
            assert high - low <= 1e-12 * abs(true) + 1e-15, k


def test_a_weight_of_nothing_says_nothing():
    rows = mixture_moments(sample(1.0, 0.1), np.array([0.0, 1.0]), is_add=False)
    far = np.full(rows.shape, np.nan)
    assert np.allclose(drawn_moments([(1.0, rows), (0.0, far)]), rows, rtol=1e-11, atol=1e-14)


def between(above, below, s, is_add):
    at = np.append(s, BETWEEN)
    return moments_between(*(mixture_moments(one, at, is_add=is_add) for one in (above, below)), s)


@pytest.mark.parametrize("is_add", [False, True])
def test_what_lies_between_two_samples_is_inside(is_add):
    """Variances do not grow with the pair: a sample of 9 of 10 records has a larger one than all of them."""
    random, larger = np.random.default_rng(3), 0
    s = np.array([-4.0, -1.0, -0.3, 0.0, 0.2, 3.0])
    for _ in range(300):
        noise, (low, rate, high) = math.exp(random.uniform(-1.3, 2.0)), np.sort(random.random(3)).tolist()
        if random.random() < 0.3:
            high = 1.0
        true = mixture_moments(sample(noise, rate), s, is_add=is_add)
        above = mixture_moments(sample(noise, high), s, is_add=is_add)
        rows = between(sample(noise, high), sample(noise, low), s, is_add)
        for k in (0, 2, 4):
            known = np.isfinite(rows[k])
            assert np.all(rows[k][known] <= true[k + 1][known] + 1e-14)
            assert np.all(true[k][known] <= rows[k + 1][known] + 1e-14)
        assert np.isfinite(rows[:2]).all()
        assert np.isfinite(rows[2:4, 1:4]).all()
        assert np.isfinite(rows[4:, 3]).all()
        larger += int(true[4, 3] > above[5, 3])
    assert larger > 5 or is_add


def test_two_equal_pairs_leave_no_room():
    s = np.array([-2.0, -0.5, 0.0, 0.7])
    one = sample(0.9, 0.07)
    rows, true = between(one, one, s, False), mixture_moments(one, s, is_add=False)
    assert np.allclose(rows[:2], true[:2], rtol=1e-14)
    assert np.allclose(rows[[2, 3, 4, 5], 2], true[[2, 3, 4, 5], 2], rtol=1e-9)


JOBS = {
    "truncated": fa.Gaussian(2.0).poisson(0.1, at_most=120, records=1000),
    "never truncated": fa.Gaussian(1.5).poisson(0.001, at_most=900, records=1000),
    "truncated, and noise": fa.Gaussian(1.2).poisson(0.02, at_most=25, records=1000) * 100 + fa.Laplace(3.0),
    "allocation": fa.Gaussian(2.0).allocation(10),
    "matrix": fa.MatrixGaussian.from_strategy([1.0, 0.5, 0.375], 9.0, bins=7, steps=50),
}


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("name", list(JOBS))
def test_moments_need_no_deltas(name, direction, monkeypatch):
    """A delta takes milliseconds, and thousands were asked; concentration of random allocation was an error."""

    def refused(*_):
        raise AssertionError("a delta is asked")

    monkeypatch.setattr(PrivacyLoss, "_deltas_of", refused)
    loss = fa.privacy_loss(JOBS[name], neighbors=direction)
    mean, variance, (mu, tau) = loss.mean, loss.variance, loss.concentration
    assert 0.0 < mean.lower <= mean.upper == mu < math.inf
    assert 0.0 < variance.lower <= variance.upper < tau * tau < math.inf


def test_a_truncated_sample_is_between_what_may_be_drawn_and_what_is_kept():
    noise, rate, at_most, records = 2.0, 0.1, 120, 1000
    given = truncation(rate, at_most, records)
    with mp.workdps(25):
        for direction in ("remove", "add"):
            is_add = direction == "add"
            loss = fa.privacy_loss(
                fa.Gaussian(noise).poisson(rate, at_most=at_most, records=records), neighbors=direction
            )
            sums = [
                mp.mpf(given.rest) * a + mp.mpf(given.tau) * b
                for a, b in zip(
                    integrals(noise, rate, 1.0, 0.0, is_add),
                    integrals(noise, given.replaced, 2.0, 0.0, is_add),
                    strict=True,
                )
            ]
            least = integrals(noise, given.kept, 1.0, 0.0, is_add)
            assert loss.mean.lower <= least[1] <= sums[1] <= loss.mean.upper
            assert loss.mean.upper - loss.mean.lower <= (sums[1] - least[1]) * (1 + 1e-9)
            assert loss.variance.lower <= least[2] - least[1] ** 2
            assert sums[2] - sums[1] ** 2 <= loss.variance.upper <= 1.02 * (sums[2] - sums[1] ** 2)


@pytest.mark.parametrize(("noise", "steps"), [(0.5, 10), (2.0, 2), (5.0, 300)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_log_moments_of_random_allocation_meet_those_of_its_deltas(noise, steps, direction):
    loss = fa.privacy_loss(fa.Gaussian(noise).allocation(steps), neighbors=direction)
    alpha = np.array([0.1, 0.5, 0.9])
    low, high = loss._by_deltas(alpha)
    pair = allocated(noise, steps)
    rows = pair.moments(alpha - 1.0, is_add=direction == "add")
    for k in range(3):
        found = loss.divergence(float(alpha[k]))
        assert found.lower <= high[k]
        assert low[k] <= found.upper
        assert found.upper - found.lower <= 1e-9 * found.upper
    assert np.all(rows[2] <= rows[3])
    beyond = pair.moments(np.array([-9.0, -1.5, 0.5, 6.0]), is_add=direction == "add")
    assert np.all(beyond[0] <= beyond[1])
    two = fa.rdp_bounds(fa.Gaussian(noise).allocation(steps), 7.0, neighbors=direction)
    assert beyond[0, 3] / 6.0 <= two.upper <= beyond[1, 3] / 6.0 * (1.0 + 1e-12)


def test_moments_of_an_epoch_of_two_steps_by_integration():
    noise, z = 1.0, np.linspace(-12.0, 12.0, 2401)
    own = z + 1.0 / noise
    loss = np.logaddexp(own[:, None] / noise, z / noise) - 0.5 / noise**2 - math.log(2.0)
    mass = np.exp(-0.5 * (z[:, None] ** 2 + z**2)) * (z[1] - z[0]) ** 2 / (2.0 * math.pi)
    for s in (-0.9, -0.5, -0.01):
        true = math.log(float((mass * np.exp(s * loss)).sum()))
        low, high = allocated(noise, 2).moments(np.array([s]), is_add=False)[:2, 0]
        assert low <= true + 1e-13
        assert true - 1e-13 <= high <= low + 1e-12


def test_known_only_where_both_pairs_are():
    unknown = Apart(MixturePair(sample(1.0, 0.1)), fa.from_pmf([0.5, 0.5], [0.4, 0.6]).losses("remove"))
    assert unknown.moments(np.zeros(1), is_add=False) is None


def test_log_moments_of_allocation_hold_next_to_0():
    """An order that rounds to one below is that of a smaller moment."""
    loss = fa.privacy_loss(fa.Gaussian(0.3).allocation(steps=10), neighbors="add")
    for s in (1e-17, 1e-16, 3e-16, 1e-12):
        assert loss._moment(1, np.array([s]))[0] >= s * loss.mean.lower > 0.0
