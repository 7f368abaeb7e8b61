"""Gaussian mixtures: divergences against 30 digits, large groups of a sample, means that are shifted."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.mixture import Mixture
from fastacct.losses.mixture_moments import mixture_divergences, mixture_moments
from fastacct.mechanisms.gaussian import _joint_noise


def exact_divergence(sigma, p, q, order):
    """To 20 digits and more, by quadrature between all centres."""
    with mp.workdps(30):
        s, order = mp.mpf(sigma), mp.mpf(order)

        def density(weights, x):
            return mp.fsum(mp.mpf(w) * mp.npdf(x, m, s) for m, w in weights.items())

        means = [*p, *q]
        low = min(*means, order * min(p) - (order - 1) * max(q)) - 13 * s
        high = max(*means, order * max(p) - (order - 1) * min(q)) + 13 * s
        edges = mp.linspace(low, high, int(mp.ceil((high - low) / (3 * s))) + 1)
        return mp.log(mp.quad(lambda x: density(p, x) ** order * density(q, x) ** (1 - order), edges)) / (order - 1)


ONE, TENTH = {0.0: 1.0}, {0.0: 0.9, 1.0: 0.1}
TINY_RATE = {0.0: 1.0 - 2.0**-20, 1.0: 2.0**-20}
THREE = {0.0: 0.729, 1.0: 0.243, 2.0: 0.027, 3.0: 0.001}
CASES = [
    (1.0, TENTH, ONE, 2.0, "0.01703686323617660623526175"),
    (1.0, TENTH, ONE, 2.5, "0.02350372726100312602448037"),
    (0.5, TENTH, ONE, 7.3, "11.93192520982388977784208"),
    (5.0, {0.0: 0.5, 1.0: 0.25, 2.0: 0.25}, ONE, 64.0, "3.718398795971713492870662"),
    (2.0, TENTH, {0.0: 0.9, -1.0: 0.1}, 3.7, "0.01832572524961212086781324"),
    (0.7, TENTH, {0.0: 0.9, -1.0: 0.1}, 16.0, "13.9758003620428972527183"),
    (0.5, TENTH, {0.0: 0.9, -1.0: 0.1}, 33.3, "64.33148795848439273983353"),
    (1.0, ONE, {0.0: 0.75, 1.0: 0.25}, 5.0, "0.09830445711499521300174847"),
    (1.0, THREE, ONE, 12.5, "48.74157034893249025683589"),
    (1.0, ONE, THREE, 1.01, "0.04624857166231392889392501"),
    (3.0, TINY_RATE, {0.0: 1.0 - 2.0**-20, -1.0: 2.0**-20}, 1.5, "3.037890458075693371089611e-13"),
    (1.0, {1.0: 1.0}, ONE, 4.0, "2.0"),
    (0.5, {1.0: 0.5, -1.0: 0.5}, ONE, 3.0, "5.306852988242788275105367"),
    (2.0, {2.0: 0.5, 9.0: 0.5}, {-2.0: 0.5, -7.0: 0.5}, 1.2, "14.91400189591323424956833"),
]


def mixture_of(sigma, p, q):
    return Mixture(sigma, *(tuple((weight, mean) for mean, weight in side.items()) for side in (p, q)))


@pytest.mark.parametrize(("sigma", "p", "q", "order", "exact"), CASES)
def test_divergences_of_mixtures_are_certified_and_tight(sigma, p, q, order, exact):
    exact = mp.mpf(exact)  # by `exact_divergence`
    value = mixture_divergences(mixture_of(sigma, p, q), np.array([order]), is_add=False)[0]
    assert exact <= value <= exact * (1 + mp.mpf("1e-11"))


def exact_moments(sigma, p, q, u):
    """K(u), K' and K'' to 25 digits, by a fine trapezoidal rule."""
    with mp.workdps(50):
        s, u = mp.mpf(sigma), mp.mpf(u)
        low, high = min(*p, *q), max(*p, *q)
        reach = (1 + abs(u)) * (high - low) + 22 * s
        h = s / 12 / mp.sqrt(1 + abs(u) / 8)
        sums = [mp.mpf(0)] * 3
        for j in range(int(mp.floor((low - reach) / h)), int(mp.ceil((high + reach) / h))):
            logs = [mp.log(mp.fsum(mp.mpf(w) * mp.npdf(j * h, m, s) for m, w in side.items())) for side in (p, q)]
            loss = logs[0] - logs[1]
            term = mp.exp(logs[0] + u * loss)
            sums = [old + term * loss**k for k, old in enumerate(sums)]
        mean = sums[1] / sums[0]
        return mp.log(sums[0] * h), mean, sums[2] / sums[0] - mean**2


@pytest.mark.parametrize("u", [-3.5, -1.0, -0.5, -0.3, 0.0, 2.0**-20, 1.5, 24.0])
@pytest.mark.parametrize(
    ("sigma", "p", "q"),
    [
        (1.0, {0.0: 0.75, 1.0: 0.25}, ONE),
        (0.5, TINY_RATE, {0.0: 1.0 - 2.0**-20, -1.0: 2.0**-20}),
        (3.0, {0.0: 0.625, 1.0: 0.25, 2.0: 0.125}, ONE),
        (2.0, {2.0: 0.5, 3.0: 0.5}, {-2.0: 0.5, -1.0: 0.5}),
    ],
)
def test_log_moments_of_mixtures_their_means_and_variances_are_certified_and_tight(sigma, p, q, u):
    want = exact_moments(sigma, p, q, u)
    pair = mixture_of(sigma, p, q)
    for is_add, at, sign in ((False, u, 1), (True, -1.0 - u, -1)):  # the other direction is the same integral
        found = mixture_moments(pair, np.array([at]), is_add=is_add)[:, 0].tolist()
        scales = abs(want[0]) + mp.mpf("1e-33"), abs(want[1]) + mp.sqrt(want[2]), want[2]
        for value, low, high, scale in zip(want, found[::2], found[1::2], scales, strict=True):
            ends = sorted((sign * low, sign * high)) if value is want[1] else (low, high)
            assert ends[0] <= value + mp.mpf("1e-45")
            assert value - mp.mpf("1e-45") <= ends[1]
            assert high - low <= 1e-10 * scale


@pytest.mark.parametrize(
    ("p", "exact"),  # by sums in 50 digits
    [
        ({20.0: 1e-300, 100.0: 0.5, 101.0: 0.5}, 8.97753058483044),
        ({0.0: 1e-300, 100.0: 0.5, 101.0: 0.5}, 6.97753058483044),
        ({34.0: 1e-100, 100.0: 0.5, 101.0: 0.5}, 8.10584352827681),
        ({34.0: 1e-60, 100.0: 0.5, 101.0: 0.5}, 7.17550611696609),
        ({30.0: 1e-44, 100.0: 0.5, 101.0: 0.5}, 5.52337115244180),
    ],
)
def test_light_components_are_seen_where_heavy_ones_are_far_away(p, exact):
    job = fa.GaussianMixture(1.0, [(weight, mean) for mean, weight in p.items()])
    found = fa.privacy_loss(job, neighbors="remove").divergence(0.01)
    assert found.lower * (1 - 1e-14) <= exact <= found.upper * (1 + 1e-14)
    assert found.upper - found.lower <= 1e-7


def test_divergences_of_mixtures_equal_those_of_the_kernel():
    orders = np.array([1 + 2.0**-40, 1.5, 2.0, 17.3, 64.0, 1e4, 1e7, 1e11])
    for noise, rate in ((1.0, 0.1), (0.5, 1e-6), (4.0, 0.7)):
        mixture = fa.GaussianMixture(noise, [(1 - rate, 0.0), (rate, 1.0)])
        kernel = fa.rdp(fa.Gaussian(noise).poisson(rate), orders)
        assert fa.rdp(mixture, orders) == pytest.approx(kernel, rel=2e-12, abs=0.0)  # what both pay for rounding


def test_rdp_of_groups_and_replaced_records_has_tight_bounds_on_both_sides():
    orders = np.array([1.0 + 2.0**-20, 2.0, 3.5, 40.0])
    for job, relation in (
        (fa.Gaussian(2.0).poisson(0.1).group(3) * 7, "add_remove"),
        (fa.Gaussian(2.0).poisson(0.1).group(3) * 7, "add"),
        (fa.Gaussian(1.0).poisson(0.01) * 100 + fa.Gaussian(4.0) * 2, "replace_one"),
    ):
        lower, upper, status = fa.rdp_bounds(job, orders, neighbors=relation)
        assert (status == fa.Status.TIGHT).all()
        assert upper == pytest.approx(fa.rdp(job, orders, neighbors=relation), rel=1e-15, abs=0.0)
        assert (upper - lower <= 1e-11 * upper).all()


def test_rdp_of_mixtures_groups_and_replaced_records():
    order = 3.5
    three = exact_divergence(2.0, THREE, ONE, order)
    assert fa.rdp(fa.Gaussian(2.0).poisson(0.1).group(3), order) == pytest.approx(float(three), rel=1e-12, abs=0.0)
    swapped = exact_divergence(2.0, TENTH, {0.0: 0.9, -1.0: 0.1}, order)
    assert fa.rdp(fa.Gaussian(2.0).poisson(0.1), order, neighbors="replace_one") == pytest.approx(
        float(swapped), rel=1e-12, abs=0.0
    )
    mixture = fa.GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)])
    assert fa.rdp(mixture * 10, order) == pytest.approx(10 * fa.rdp(mixture, order), rel=4e-15, abs=0.0)
    turned = exact_divergence(2.0, ONE, TENTH, order)
    assert fa.rdp(mixture, order, neighbors="add") == pytest.approx(float(turned), rel=1e-12, abs=0.0)


def test_rdp_of_mixtures_increases_with_the_order_and_ends_at_the_largest_loss():
    orders = np.array([1.0, 1 + 1e-9, 1.1, 2.0, 5.0, 64.0, 1e3, 1e5, 1e8, 1e11])
    for neighbors in ("add_remove", "add", "remove"):
        value = fa.rdp(fa.Gaussian(1.0).poisson(0.3).group(4), orders, neighbors=neighbors)
        assert np.isfinite(value).all()
        assert (np.diff(value) > -1e-11 * value[:-1]).all()
    assert fa.rdp(fa.Gaussian(1.0).poisson(0.3).group(4), math.inf) == math.inf


def test_rdp_of_mixtures_at_the_ends_of_the_noise():
    parts = [(0.5, 0.0), (0.5, 1.0)]
    assert fa.rdp(fa.GaussianMixture(0.0, parts), 2.0) == math.inf
    assert fa.rdp(fa.GaussianMixture(math.inf, parts), 2.0) == 0.0
    assert 0 < fa.rdp(fa.GaussianMixture(1e120, parts), 2.0) <= 1e-230
    assert fa.rdp(fa.GaussianMixture(1e-3, parts), 2.0) == pytest.approx(1e6 - 2 * math.log(2.0), rel=1e-13, abs=0.0)


def test_the_renyi_accountant_covers_groups_beside_other_mechanisms():
    job = fa.Gaussian(4.0).poisson(0.01).group(3) * 100 + fa.Laplace(50.0)
    exact, renyi = fa.epsilon(job, delta=1e-5), fa.epsilon(job, delta=1e-5, accountant=fa.RDP())
    assert exact <= renyi <= 1.5 * exact


@pytest.mark.parametrize(("size", "rate"), [(65, 0.1), (65, 0.5), (100, 0.01), (200, 0.3), (1000, 0.9)])
def test_the_numbers_drawn_of_a_large_group_are_rounded_up(size, rate):
    job = fa.Gaussian(20.0).poisson(rate).group(size)
    pair = job.losses("remove")
    mixture = getattr(pair, "above", pair).mixture
    weights, means = (np.array(column) for column in zip(*mixture.p, strict=True))
    assert len(means) <= 65
    assert math.fsum(weights) == pytest.approx(1.0, rel=1e-14, abs=0.0)  # weights are rounded up
    assert (np.diff(means) > 0).all()
    assert means[-1] == size
    with mp.workdps(40):
        q, law = mp.mpf(rate), []
        for k in range(size + 1):
            law.append(mp.binomial(size, k) * q**k * (1 - q) ** (size - k))
        tail = np.cumsum(weights[::-1])[::-1]
        for mean, mine in zip([-1.0, *means[:-1]], tail, strict=True):  # P(X > mean)
            assert mine >= mp.fsum(law[int(mean) + 1 :]) * (1 - mp.mpf("1e-13"))


def test_a_large_group_is_as_exact_as_a_small_one():
    step = fa.Gaussian(20.0).poisson(0.1)
    before, after = step.group(64), step.group(65)
    lower, upper, status = fa.epsilon_bounds(after, delta=1e-5)
    assert status == fa.Status.TIGHT
    assert upper - lower <= 1e-9 * upper
    last, one_before = (fa.epsilon(step.group(k), delta=1e-5) for k in (64, 63))
    assert last < upper < last + 1.2 * (last - one_before)
    assert fa.epsilon(after, delta=1e-5, neighbors="add") <= upper
    assert fa.rdp(after, 2.0) > fa.rdp(before, 2.0)
    assert 0.0 < fa.tradeoff(after, 0.1) < fa.tradeoff(before, 0.1)


def test_large_groups_of_certain_draws_are_exact():
    assert fa.epsilon_bounds(fa.Gaussian(100.0).poisson(1.0).group(100), delta=1e-5).status == fa.Status.TIGHT
    assert fa.epsilon(fa.Gaussian(1.0).poisson(0.0).group(100), delta=1e-5) == 0.0


def test_very_large_groups_have_a_bound():
    for size, rate in ((3000, 0.5), (10**9, 1e-8), (10**12, 0.5), (70, 1e-9)):
        noise = 100.0 * size * rate + 10.0
        upper = fa.delta(fa.Gaussian(noise).poisson(rate).group(size), epsilon=1.0)
        assert 0.0 <= upper <= 1.0
    assert fa.delta(fa.Gaussian(200.0).poisson(0.5).group(300), epsilon=1.0) < 0.5


def test_noise_of_several_gaussians_is_not_above_that_of_one():
    """1/noise^2 add up: in fractions."""
    rng = np.random.default_rng(53)
    for _ in range(200):
        noises, counts = 10.0 ** rng.uniform(-3, 3, 3), rng.integers(1, 1000, 3)
        total = sum(int(n) / Fraction(float(noise)) ** 2 for noise, n in zip(noises, counts, strict=True))
        found = Fraction(_joint_noise(noises.tolist(), counts.tolist())) ** 2
        assert 1 - Fraction(1, 10**15) <= found * total <= 1


@pytest.mark.parametrize(("relation", "far"), [("add_remove", 1), ("replace_one", 2)])
def test_noise_of_gaussian_dp_is_not_above_the_inverse_of_mu(relation, far):
    mu = 10.0 ** np.random.default_rng(59).uniform(-3, 3, 300)
    ((gaussian, _),) = fa.GDP(mu).decompose(relation)
    for noise, one in zip(gaussian.noise_multiplier.tolist(), mu.tolist(), strict=True):
        assert far * (1 - Fraction(1, 10**15)) <= Fraction(noise) * Fraction(one) <= far


def exact_group_delta(noise, rate, size, epsilon, direction):
    """Delta of one release of a sample to a group, from all terms of the binomial law, to 30 digits."""
    with mp.workdps(40):
        s, q, e = mp.mpf(noise), mp.mpf(rate), mp.mpf(epsilon)
        weights = [mp.binomial(size, k) * q**k * (1 - q) ** (size - k) for k in range(min(size, 60) + 1)]

        def loss(z):
            return mp.log(mp.fsum(w * mp.exp(k * (2 * z - k) / (2 * s * s)) for k, w in enumerate(weights)))

        at, low, high = e if direction == "remove" else -e, mp.mpf(-40 * noise), mp.mpf(40 * noise)
        for _ in range(130):
            middle = (low + high) / 2
            low, high = (middle, high) if loss(middle) < at else (low, middle)
        if direction == "remove":
            above = mp.fsum(w * mp.ncdf((k - low) / s) for k, w in enumerate(weights))
            return float(above - mp.exp(e) * mp.ncdf(-low / s))
        return float(mp.ncdf(low / s) - mp.exp(e) * mp.fsum(w * mp.ncdf((low - k) / s) for k, w in enumerate(weights)))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("size", [64, 65, 100, 300, 1000])
def test_a_large_group_is_bounded_from_above_and_not_by_much(size, direction):
    epsilon = 3e-4 * size
    exact = exact_group_delta(3.0, 0.001, size, epsilon, direction)
    upper = fa.delta(fa.Gaussian(3.0).poisson(0.001).group(size), epsilon=epsilon, neighbors=direction)
    assert exact > 1e-8
    assert exact * (1.0 - 1e-15) <= upper <= exact * (1.0 + 1e-6)


@pytest.mark.parametrize("relation", ["remove", "add"])
def test_bounds_of_large_groups_are_finite_and_grow_with_the_group(relation):
    sizes = [64, 65, 100, 300, 1000]
    jobs = [fa.Gaussian(3.0).poisson(0.001).group(size) * 1000 for size in sizes]
    found = [fa.epsilon_bounds(job, delta=1e-5, neighbors=relation) for job in jobs]
    upper = np.array([float(one.upper) for one in found])
    assert np.isfinite(upper).all()
    assert (np.diff(upper) > 0.0).all()
    assert (upper > float(found[0].lower)).all()
    for job, epsilon in zip(jobs, upper, strict=True):  # and the other way round
        back = fa.delta_bounds(job, epsilon=epsilon, neighbors=relation)
        assert back.lower <= 1e-5
        assert 1e-5 * (1.0 - 1e-3) <= back.upper <= 1e-5 * (1.0 + 1e-3)


def test_members_of_a_group_that_are_hardly_ever_drawn_are_paid():
    """A component far out with weight r adds at most r to delta, and its bound is not below that of a nearer one."""
    parts = [(0.9, 0.0), (0.1, 1.0)]
    with_far = fa.GaussianMixture(1.0, p=[*parts, (1e-32, 1e4)]) * 40
    near = fa.GaussianMixture(1.0, p=parts) * 40
    for epsilon in (5.0, 20.0, 60.0):
        upper = fa.delta(with_far, epsilon=epsilon, neighbors="remove")
        assert upper >= fa.delta_lower(near, epsilon=epsilon, neighbors="remove") + 40e-32 * (1.0 - 1e-9)
        assert upper <= fa.delta(near, epsilon=epsilon, neighbors="remove") * (1.0 + 1e-9) + 41e-32
