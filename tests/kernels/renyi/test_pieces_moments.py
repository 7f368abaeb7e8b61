"""Log-moments of losses that are data, and their derivatives, against integrals and sums in many digits."""

import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.atoms import pieces_of
from fastacct.losses.pieces import data_moments

SEED = 0


def log_moments(expectation, s):
    """log E exp(s L), and mean and variance under the tilted weights, given the expectation of functions of L."""
    sums = [expectation(lambda loss, k=k: mp.exp(s * loss) * loss**k) for k in range(3)]
    mean = sums[1] / sums[0]
    return mp.log(sums[0]), mean, sums[2] / sums[0] - mean * mean


def laplace(scale, rate, s, is_add):
    """Poisson-sampled Laplace noise: under Q atoms 1/2 and exp(-t)/2 at the ends, and a density between them."""
    t, q = 1 / mp.mpf(scale), mp.mpf(rate)

    def expectation(f):
        def of(x):
            ratio = 1 - q + q * mp.exp(x)
            return f(-mp.log(ratio)) if is_add else ratio * f(mp.log(ratio))

        inner = mp.quad(lambda x: of(x) * mp.exp(-(x + t) / 2) / 4, [-t + 2 * t * mp.mpf(k) / 12 for k in range(13)])
        return of(-t) / 2 + of(t) * mp.exp(-t) / 2 + inner

    return log_moments(expectation, mp.mpf(s))


def table(p, q, s, is_add):
    """Masses as they are."""
    p, q = [[mp.mpf(float(x)) for x in side] for side in ((q, p) if is_add else (p, q))]
    return log_moments(lambda f: mp.fsum(a * f(mp.log(a / b)) for a, b in zip(p, q, strict=True)), mp.mpf(s))


def exponents(random, size):
    """Of both signs, next to 0 and -1 too."""
    near = random.choice([-1.0, 1.0], size) * 10.0 ** random.uniform(-5.0, 1.3, size)
    return np.where(random.random(size) < 0.2, -1.0 - near, near)


def check(rows, truth, widest):
    for k, true in enumerate(truth):
        low, high = rows[2 * k], rows[2 * k + 1]
        assert low <= true <= high
        assert high - low <= widest * abs(true) + 1e-14 * (k == 1) * abs(truth[2])


def test_laplace_noise_and_its_samples():
    random = np.random.default_rng(SEED)
    with mp.workdps(40):
        for _ in range(30):
            scale, rate = 10.0 ** random.uniform(-1.2, 6.0), random.choice([1.0, 10.0 ** random.uniform(-4.0, -0.05)])
            is_add, s = bool(random.integers(2)), exponents(random, 1)
            if abs(s[0]) > 800.0 * scale:
                continue
            noise = fa.Laplace(scale)
            pieces = pieces_of((noise if rate == 1.0 else noise.poisson(rate)).losses("remove"))
            rows = data_moments(pieces, s, is_add=is_add)[:, 0]
            check(rows, laplace(scale, rate, s[0], is_add), 3e-13)


def test_tables_count_as_they_are():
    random = np.random.default_rng(SEED + 1)
    with mp.workdps(400):  # variances are differences of powers of the losses
        for _ in range(100):
            size = int(random.integers(2, 6))
            q = random.dirichlet(np.ones(size))
            if random.random() < 0.5:
                p = random.dirichlet(np.full(size, 0.3))
            else:  # very small losses
                shift = random.normal(size=size) * 10.0 ** random.uniform(-9.0, -2.0)
                p = q * (1.0 + shift - np.sum(shift * q))
                p /= p.sum()
            if p.min() < 1e-200:
                continue
            is_add, s = bool(random.integers(2)), exponents(random, 1) * 10.0 ** random.uniform(0.0, 5.0)
            rows = data_moments(pieces_of(fa.from_pmf(p, q).losses("remove")), s, is_add=is_add)[:, 0]
            for k, true in enumerate(table(p, q, s[0], is_add)):
                assert rows[2 * k] - 1e-300 <= true <= rows[2 * k + 1] + 1e-300
            assert rows[1] - rows[0] <= 1e-13 * (1.0 + abs(s[0])) + 1e-12 * abs(rows[0])


@pytest.mark.parametrize("order", [300.0, 1e5, 1e11])
def test_large_orders_of_densities_are_bounded_by_the_largest_loss(order):
    """2 D(alpha) of Laplace noise, scale 5, in closed form (Mironov 2017)."""
    with mp.workdps(40):
        a = mp.mpf(order)
        inner = a / (2 * a - 1) * mp.exp((a - 1) / 5) + (a - 1) / (2 * a - 1) * mp.exp(-a / 5)
        true = float(2 * mp.log(inner) / (a - 1))
    lower, upper, status = fa.rdp_bounds(fa.Laplace(5.0) * 2, order)
    assert lower <= true * (1.0 + 1e-15)
    assert true * (1.0 - 1e-15) <= upper <= true * (1.0 + 1e-7)
    assert status == fa.Status.TIGHT


def test_sampled_laplace_noise_has_both_bounds_of_every_order():
    """They were those of a grid, up to 3 % above, from above alone."""
    job = fa.Laplace(5.0).poisson(0.01) * 1000
    lower, upper, status = fa.rdp_bounds(job, [1.0, 1.5, 2.0, 8.0, 64.0, 1e4])
    assert np.all(status == fa.Status.TIGHT)
    assert np.all(upper - lower <= 1e-11 * upper)
    for order, low, high in zip((1.5, 2.0, 8.0, 64.0), lower[1:5], upper[1:5], strict=True):
        with mp.workdps(30):
            true = float(1000 * laplace(5.0, 0.01, order - 1.0, False)[0] / (order - 1.0))
        assert low <= true * (1.0 + 1e-14)
        assert true * (1.0 - 1e-14) <= high


def test_a_mass_that_p_misses_counts():
    """P of Q's first two outcomes alone: sum over them of p^alpha q^(1 - alpha)."""
    p, q = np.array([0.75, 0.25, 0.0]), np.array([0.5, 0.25, 0.25])
    loss = fa.privacy_loss(fa.from_pmf(p, q) * 3, neighbors="remove")
    kl = 3.0 * math.fsum(a * math.log(a / b) for a, b in zip(p[:2], q[:2], strict=True))
    assert loss.mean.lower <= kl * (1.0 + 1e-14)
    assert kl * (1.0 - 1e-14) <= loss.mean.upper <= kl * (1.0 + 1e-12)
    for order in (0.25, 3.0):
        true = 3.0 / (order - 1.0) * math.log(math.fsum(p[:2] ** order * q[:2] ** (1.0 - order)))
        found = loss.divergence(order)
        assert found.lower <= true * (1.0 + 1e-14)
        assert true * (1.0 - 1e-14) <= found.upper <= true * (1.0 + 1e-12)
    assert fa.privacy_loss(fa.from_pmf(p, q), neighbors="add").mean.upper == math.inf


def test_guarantees_have_no_lower_bounds_of_moments():
    job = fa.Exponential(0.3) * 20
    assert not job.tight
    loss = fa.privacy_loss(job)
    assert loss.mean.lower == loss.variance.lower == 0.0
    assert loss.mean.upper <= fa.rdp(job, 1.0) * (1.0 + 1e-12)
    assert fa.rdp_bounds(job, [1.0, 2.0]).lower.tolist() == [0.0, 0.0]


def test_tables_whose_masses_miss_one_have_bounds_as_they_are_and_divided():
    """P lacks 9e-13: divergences of orders next to 1 fell below that of order 1."""
    p, q = [0.5, 0.5 - 9e-13], [1e-19, 1.0]
    with mp.workdps(40):
        true = float(mp.fsum(mp.mpf(a) * mp.log(mp.mpf(a) / mp.mpf(b)) for a, b in zip(p, q, strict=True)))
    job = fa.from_pmf(p, q)
    assert fa.rdp(job, 1.0, neighbors="remove") >= true
    for bounds in (fa.rdp_bounds(job, 1.0, neighbors="remove"), fa.privacy_loss(job).mean):
        assert bounds.lower <= true <= bounds.upper <= true + 1e-9


@pytest.mark.parametrize("order", [1e-18, 1e-12, 1e-6, 0.3])
def test_orders_next_to_0_keep_their_digits(order):
    """order - 1 has few digits of the order: the loss of the other direction has all."""
    with mp.workdps(60):
        p, alpha = 1 / (1 + mp.exp(-1)), mp.mpf(order)
        true = mp.log(p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)) / (alpha - 1)
        found = fa.privacy_loss(fa.PureDP(1.0)).divergence(order)
        assert found.lower <= true <= found.upper
        assert found.upper - found.lower <= 1e-12 * true


def test_unknown_moments_are_no_numbers_nowhere():
    for job, orders in (
        (fa.ApproxDP(1.0, 1e-5), [1.0, 2.0]),
        (fa.Laplace(18.0).poisson(0.3) + fa.Gaussian(0.2), [1e7]),
    ):
        lower, upper, _ = fa.rdp_bounds(job, orders)
        assert np.all(lower >= 0.0)
        assert np.all(upper >= lower)


def test_moments_below_all_normal_numbers_are_above_the_truth():
    assert (
        fa.rdp(fa.RandomizedResponse(1.0499319614847756e-148, 5), 1.0, neighbors="zero_out") >= 8.8188569899781473e-298
    )
    assert fa.rdp(fa.PureDP(2.0600236234236858e-147), 1.0) >= 2.1218486645318257e-294
