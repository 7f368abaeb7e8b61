"""Mean, variance and concentration of a loss, against integrals and direct sums: sums over mechanisms, and rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from fastacct.core.deltas import smallest_tau
from fastacct.readers import moments
from tests.verbs.test_privacy_loss import law, random_pair, renyi


def test_the_rounding_of_a_sum_is_paid(monkeypatch):
    """Of mechanisms whose own moments are exact."""
    rng = np.random.default_rng(8)
    for size in (1, 2, 5, 12):
        own, counts = rng.uniform(-1.0, 1.0, (size, 50)), rng.integers(1, 10**6, size).tolist()
        rows = iter([np.broadcast_to(one, (6, 50)) for one in own])
        monkeypatch.setattr(moments, "_of_pair", lambda *_, rows=rows: next(rows))
        parts = [(fa.Gaussian(1.0 + k), count) for k, count in enumerate(counts)]
        found = moments.moments(parts, "add_remove", "remove", np.zeros(50))
        for k in range(50):
            truth = sum(Fraction(x) * n for x, n in zip(own[:, k].tolist(), counts, strict=True))
            for low, high in found[:, k].reshape(3, 2).tolist():
                assert Fraction(low) <= truth <= Fraction(high)
                assert high - low <= 1e-14 * sum(counts)


@pytest.mark.parametrize("share", [0.5, 0.3, 0.05, 1e-4, 0.9, 0.9999])
def test_the_standard_of_a_loss_with_two_values_is_the_published_one(share):
    """Kearns, Saul 1998: tau^2 = (1 - 2 p)/(2 log((1 - p)/p)), the variance 1/4 at p = 1/2; values 0 and 1."""
    square = (1.0 - 2.0 * share) / (2.0 * math.log((1.0 - share) / share)) if share != 0.5 else 0.25

    def log_moment(s):
        return np.log1p(share * np.expm1(np.minimum(s, 700.0))) + np.maximum(s - 700.0, 0.0)

    deviation = math.sqrt(share * (1.0 - share))
    given = log_moment, log_moment, fa.Bounds(share, share, fa.Status.TIGHT), deviation
    found = smallest_tau(*given, lambda s: 2.0 / np.abs(s))  # no loss is further than 1 from the mean
    assert math.sqrt(square) <= found <= math.sqrt(square) * 1.0006
    assert smallest_tau(*given, lambda s: np.full(s.shape, 9.0)) >= 3.0


def standard(masses):
    """The sup over a grid of s of 2 log E exp(s (L - E L)) / s^2, and the variance."""
    whole = mp.fsum(masses.values())
    loss = np.array([float(x) for x in masses])
    mass = np.array([float(m / whole) for m in masses.values()])
    loss, mass = loss[mass > 0.0], mass[mass > 0.0]
    mean = float(mp.fsum(m * x for x, m in masses.items()) / whole)
    variance = float(mp.fsum(m * (x - mean) ** 2 for x, m in masses.items()) / whole)
    away = loss - mean
    s = np.concatenate([[-1.0], [1.0]]) * np.geomspace(1e-2, 300.0, 2000)[:, None] / np.abs(away).max()
    at = s.ravel()[:, None] * away
    top = at.max(axis=1)
    log_moment = top + np.log((mass * np.exp(at - top[:, None])).sum(axis=1))
    good = np.abs(s.ravel()) * np.abs(away).max() > 0.05  # else rounding
    return max(variance, float(np.max(2.0 * log_moment[good] / s.ravel()[good] ** 2))), variance


@pytest.mark.parametrize("block", range(6))
def test_second_moments_of_300_random_pairs(block):
    rng = np.random.default_rng(500 + block)
    ratios = []
    with mp.workdps(30):
        for n in range(50):
            p, q = random_pair(rng)
            count = int(rng.integers(1, 4))
            for direction, (a, b) in [("remove", (p, q)), ("add", (q, p))][n % 2 :][:1]:  # in turn
                loss = fa.privacy_loss(fa.from_pmf(p, q) * count, neighbors=direction)
                masses = law(a, b, count)
                found, (mu, tau) = loss.variance, loss.concentration
                if mp.inf in masses:
                    assert found.upper == tau == math.inf
                    continue
                square, variance = standard(masses)
                assert found.lower <= variance * (1 + 1e-9) + 1e-12, (p, q, count, direction)
                assert variance <= found.upper * (1 + 1e-9) + 1e-12, (p, q, count, direction)
                assert mu >= renyi(masses, 1.0) * (1 - 1e-12)
                assert tau * tau >= square * (1 - 1e-9), (p, q, count, direction)
                ratios.append(tau / math.sqrt(square))
    assert np.median(ratios) <= 1.02
    assert max(ratios) <= 1.3


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (0.7, 4), (20.0, 10), (5.0, 1000)])
def test_gaussian_losses_are_subgaussian_with_their_standard_deviation(noise, steps):
    mu = math.sqrt(steps) / noise
    loss = fa.privacy_loss(fa.Gaussian(noise) * steps)
    assert loss.variance.lower <= mu * mu <= loss.variance.upper
    assert loss.variance.upper - loss.variance.lower <= 1e-10 * mu * mu
    assert mu <= loss.concentration.tau <= 1.0006 * mu


@pytest.mark.parametrize(("job", "most"), [(fa.Laplace(2.0) * 30, 400), (fa.Gaussian(2.0).poisson(0.1) * 20, 400)])
def test_the_standard_is_found_with_few_log_moments(job, most, monkeypatch):
    """Chords of a convex function are near to it: thousands were asked where they were bounded by their outer ends."""
    loss, asked = fa.privacy_loss(job, neighbors="remove"), []
    rows_of = type(loss)._rows
    monkeypatch.setattr(type(loss), "_rows", lambda one, s: asked.extend(s) or rows_of(one, s))
    tau = loss.concentration.tau
    assert len(asked) <= most
    monkeypatch.undo()
    s = np.geomspace(1e-2, 3e2, 400) / loss.variance.upper**0.5
    assert tau * tau >= np.max(2.0 * (loss._rows(s)[0] - s * loss.mean.upper) / (s * s)) * (1.0 - 1e-9)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_moments_of_sampled_jobs_are_those_of_their_steps(direction):
    steps = [(fa.Gaussian(0.8).poisson(0.1), 40), (fa.Gaussian(2.0).poisson(0.01).group(4), 300)]
    parts = [fa.privacy_loss(one, neighbors=direction) for one, _ in steps]
    whole = fa.privacy_loss(sum((one * n for one, n in steps), fa.Process()), neighbors=direction)
    for name in ("mean", "variance"):
        added = sum(n * getattr(part, name).upper for part, (_, n) in zip(parts, steps, strict=True))
        found = getattr(whole, name)
        assert found.lower <= added * (1.0 + 1e-12)
        assert found.upper == pytest.approx(added, rel=1e-12)
        assert found.upper - found.lower <= 1e-9 * found.upper
    seen = whole.exceeds(np.array([whole.mean.upper]))  # Cantelli's inequality
    assert 0.1 < seen.lower < seen.upper < 0.9


@pytest.mark.parametrize(("noise", "rate"), [(0.7, 0.2), (2.0, 0.5), (0.5, 0.1), (1.0, 0.9)])
def test_moments_of_a_sampled_gaussian_by_integration(noise, rate):
    """In both directions, which differ: bounds of one are not bounds of the other."""
    with mp.workdps(25):
        s, q = mp.mpf(noise), mp.mpf(rate)
        ends = [-14 * s, -5 * s, -s, 0, s, 3 * s, 6 * s, 14 * s, 14 * s + 2]

        def density(x):
            return mp.exp(-x * x / 2 / s / s) / s / mp.sqrt(2 * mp.pi)

        def ratio(x):
            return 1 - q + q * mp.exp((2 * x - 1) / 2 / s / s)

        for direction in ("remove", "add"):
            sign, weight = (1, ratio) if direction == "remove" else (-1, lambda x: mp.mpf(1))

            def mean_of(f, weight=weight):
                return mp.quad(lambda x: f(x) * density(x) * weight(x), ends)

            def loss(x, sign=sign):
                return sign * mp.log(ratio(x))

            first = mean_of(loss)
            second = mean_of(lambda x, loss=loss, first=first: (loss(x) - first) ** 2)
            two = mp.log(mean_of(lambda x, loss=loss: mp.exp(loss(x))))
            found = fa.privacy_loss(fa.Gaussian(noise).poisson(rate), neighbors=direction)
            divergences = fa.rdp_bounds(fa.Gaussian(noise).poisson(rate), 2.0, neighbors=direction)
            for bounds, truth in (
                (found.mean, first),
                (found.variance, second),
                (found.divergence(2.0), two),
                (divergences, two),
            ):
                assert bounds.lower <= truth * (1 + mp.mpf(1e-12)), (direction, bounds, truth)
                assert truth * (1 - mp.mpf(1e-12)) <= bounds.upper, (direction, bounds, truth)
            tau = max(
                2 * mp.log(mean_of(lambda x, t=t, loss=loss, first=first: mp.exp(t * (loss(x) - first)))) / t / t
                for t in (-3, -1, mp.mpf(-1) / 4, mp.mpf(1) / 4, 1, 3)
            )
            assert found.concentration.tau**2 >= tau * (1 - mp.mpf(1e-12))


def test_losses_too_small_for_any_order_are_bounded_safely():
    for noise in (1e11, 1e50, 1e300):
        loss = fa.privacy_loss(fa.Gaussian(noise))
        assert loss.variance.lower <= 1.0 / noise / noise <= loss.variance.upper
        assert loss.concentration.tau >= 1.0 / noise


@pytest.mark.parametrize(("noise", "steps"), [(0.41, 12), (1.0, 100), (5.0, 7)])
def test_mean_of_random_allocation_by_laplace_transforms(noise, steps):
    """E[S log S] = the integral over u of (E[S] e^-u - E[S e^(-u S)])/u, S a sum of independent log-normal numbers."""
    z = np.linspace(-12.0, 12.0 + 2.0 / noise, 8001)
    mass = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) * (z[1] - z[0])
    x = np.exp(z / noise - 0.5 / noise**2)
    w = np.linspace(-50.0, 12.0, 8001)
    total = 0.0
    for u in np.exp(w).tolist():
        rest = float((mass * -np.expm1(-u * x)).sum())  # 1 - the transform of one of them
        total += math.exp(-u) - math.exp((steps - 1) * math.log1p(-rest)) * float((mass * x * np.exp(-u * x)).sum())
    true = total * (w[1] - w[0]) - math.log(steps)
    found = fa.privacy_loss(fa.Gaussian(noise).allocation(steps)).mean
    off = 1e-11  # of the sum above, in doubles: terms of the size of log(steps) cancel
    assert found.lower - off <= true <= found.upper + off
    assert found.upper - found.lower <= 1e-9 * found.upper
    epochs = fa.privacy_loss(fa.Gaussian(noise).allocation(steps) * 30)
    assert epochs.mean.upper == pytest.approx(30.0 * found.upper, rel=1e-12, abs=0.0)
    assert (
        fa.rdp_bounds(fa.Gaussian(noise).allocation(steps), 1.0).upper
        <= max(found.upper, epochs.mean.upper / 30.0) * 1.001
    )


@pytest.mark.parametrize("noise", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_mean_and_variance_of_an_epoch_of_two_steps_by_integration(noise, direction):
    z = np.linspace(-14.0, 14.0, 1501)
    own = z + (1.0 / noise if direction == "remove" else 0.0)  # where the record is, in the first step
    loss = np.logaddexp(own[:, None] / noise, z / noise) - 0.5 / noise**2 - math.log(2.0)
    loss = loss if direction == "remove" else -loss
    mass = np.exp(-0.5 * (z[:, None] ** 2 + z**2)) * (z[1] - z[0]) ** 2 / (2.0 * math.pi)
    mean = float((mass * loss).sum())
    variance = float((mass * (loss - mean) ** 2).sum())
    found = fa.privacy_loss(fa.Gaussian(noise).allocation(2), neighbors=direction)
    for bounds, true in ((found.mean, mean), (found.variance, variance)):
        assert bounds.lower * (1.0 - 1e-12) <= true <= bounds.upper * (1.0 + 1e-12)
        assert bounds.upper - bounds.lower <= 1e-9 * true


MIXED = [
    fa.Gaussian(9.69).poisson(0.031).group(5) * 40 + fa.TruncatedLaplace(6.81, 136.2).poisson(0.0059) * 2,
    (fa.Laplace(2.0).poisson(0.1) + fa.Gaussian(3.0)).poisson(0.3) * 20 + fa.Laplace(5.0) * 3,
    fa.Skellam(20.0) * 30 + fa.Gaussian(4.0) * 2,
]


@pytest.mark.parametrize("job", MIXED, ids=str)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_moments_of_a_job_are_sums_over_its_releases(job, direction):
    """No composition is asked: the grid of a job that no line certifies takes a tenth of a second a delta."""
    loss = fa.privacy_loss(job, neighbors=direction)
    each = [(n, fa.privacy_loss(one, neighbors=direction)) for one, n in job]
    for ask in (lambda one: one.mean, lambda one: one.divergence(0.7), lambda one: one.divergence(3.0)):
        low, high = (math.fsum(n * ask(one)[side] for n, one in each) for side in (0, 1))
        found = ask(loss)
        assert found.lower <= high * (1.0 + 1e-12)
        assert low <= found.upper * (1.0 + 1e-12)
        assert found.upper <= high * (1.0 + 1e-9)
    # and the composition's own curve says the same
    chance = loss.exceeds(2.0)
    tail = loss.quantile(0.2)
    assert 0.0 <= chance.lower <= chance.upper <= 1.0
    assert loss.exceeds(tail.upper + 1e-9).lower <= 0.2
    assert loss.exceeds(tail.lower - 1e-6).upper >= 0.2
