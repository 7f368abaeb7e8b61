"""The privacy loss as a random variable, against sums and closed forms in 30 digits: nothing outside of the bounds."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa


def law(p, q, count):
    """Losses and probabilities under P of all outcomes of a composition, in 30 digits."""
    found: dict[mp.mpf, mp.mpf] = {}
    for outcome in itertools.combinations_with_replacement(range(len(p)), count):
        ways = math.factorial(count)
        for i in set(outcome):
            ways //= math.factorial(outcome.count(i))
        mass = ways * mp.fprod(mp.mpf(p[i]) for i in outcome)
        if mass > 0:
            above = mp.fprod(mp.mpf(q[i]) for i in outcome)
            loss = mp.log(mp.fprod(mp.mpf(p[i]) for i in outcome) / above) if above > 0 else mp.inf
            found[loss] = found.get(loss, mp.mpf(0)) + mass
    return found


def renyi(masses, order):
    """By direct sums over the losses."""
    whole = mp.fsum(masses.values())
    if order == math.inf:
        return float(max(masses))
    if order == 1.0:
        return float(mp.fsum(m * x for x, m in masses.items()) / whole)
    if order > 1.0 and mp.inf in masses:
        return math.inf
    finite = mp.fsum(m * mp.exp((order - 1) * x) for x, m in masses.items() if x < mp.inf)
    return float(mp.log(finite / (whole if order else 1)) / (order - 1)) if finite > 0 else math.inf


def random_pair(rng):
    k = int(rng.integers(2, 6))
    p, q = rng.dirichlet(np.full(k, 0.7), 2)
    if rng.random() < 0.3:
        p[0], q[-1] = 0.0, 0.0
    p, q = p / math.fsum(p), q / math.fsum(q)
    return p.tolist(), q.tolist()


@pytest.mark.parametrize("block", range(6))
def test_300_random_pairs_of_tables(block):
    rng = np.random.default_rng(100 + block)
    with mp.workdps(30):
        for _ in range(50):
            p, q = random_pair(rng)
            count = int(rng.integers(1, 4))
            job = fa.from_pmf(p, q) * count
            for direction, (a, b) in {"remove": (p, q), "add": (q, p)}.items():
                masses = law(a, b, count)
                whole = mp.fsum(masses.values())  # the tables add up to 1 within rounding
                loss = fa.privacy_loss(job, neighbors=direction)
                at = np.concatenate([rng.normal(0.0, 2.0, 4), [0.0, -30.0, 30.0]])
                found = loss.exceeds(at)
                for e, low, high in zip(at, found.lower, found.upper, strict=True):
                    true = float(mp.fsum(m for x, m in masses.items() if x > e) / whole)
                    assert low * (1 - 1e-12) <= true <= high * (1 + 1e-12), (p, q, count, direction, e)
                beta = float(rng.uniform(0.02, 0.9))
                bounds = loss.quantile(beta)
                tails = {x: mp.fsum(m for y, m in masses.items() if y > x) / whole for x in masses}
                true = float(min(x for x, tail in tails.items() if tail <= beta))
                assert bounds.lower <= true + 1e-12 * (1.0 + abs(true)), (p, q, count, direction, beta)
                assert true <= bounds.upper + 1e-12 * (1.0 + abs(true)), (p, q, count, direction, beta)
                for order in (
                    0.0,
                    float(rng.uniform(0.01, 0.99)),
                    0.5,
                    1.0,
                    float(1.0 + rng.exponential(3.0)),
                    500.0,
                    math.inf,
                ):
                    bounds = loss.divergence(order)
                    want = renyi(masses, order)
                    assert bounds.lower <= want * (1 + 1e-12) + 1e-15, (p, q, count, direction, order)
                    assert want <= bounds.upper * (1 + 1e-12) + 1e-15, (p, q, count, direction, order)


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
    assert mu <= loss.concentration.tau <= 1.05 * mu


def test_the_loss_of_laplace_noise_by_integration():
    for noise in (0.5, 1.0, 5.0):
        b = mp.mpf(noise)
        ends = [-60 * b, 0, 1, 60 * b]
        moment = [
            mp.quad(lambda x, k=k, b=b: ((abs(x - 1) - abs(x)) / b) ** k * mp.exp(-abs(x) / b) / (2 * b), ends)
            for k in (1, 2)
        ]
        loss = fa.privacy_loss(fa.Laplace(noise))
        assert loss.variance.lower <= float(moment[1] - moment[0] ** 2) <= loss.variance.upper
        assert loss.variance.upper - loss.variance.lower <= 1e-4 * float(moment[1])
    sampled = fa.privacy_loss(fa.Gaussian(1.0).poisson(0.1) * 10).concentration
    assert sampled.tau == pytest.approx(math.sqrt(10.0), rel=0.01)  # of large s, as without a sample


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (0.7, 4), (20.0, 10), (5.0, 1000)])
def test_gaussian_losses_are_normal(noise, steps):
    mu = math.sqrt(steps) / noise
    loss = fa.privacy_loss(fa.Gaussian(noise) * steps)
    assert loss.mean.lower <= mu * mu / 2.0 <= loss.mean.upper
    assert loss.mean.upper - loss.mean.lower <= 1e-9 * mu * mu
    at = mu * mu / 2.0 + mu * np.array([-5.0, -1.0, 0.0, 2.0, 5.0])
    found = loss.exceeds(at)
    true = np.array([float(mp.ncdf(-(e - mu * mu / 2.0) / mu)) for e in at])
    assert np.all(found.lower <= true)
    assert np.all(true <= found.upper)
    assert np.all(found.upper - found.lower <= 1e-3 * true)
    for beta in (0.9, 0.5, 1e-3):
        bounds = loss.quantile(beta)
        want = mu * mu / 2.0 - mu * float(mp.sqrt(2) * mp.erfinv(2 * beta - 1))
        assert bounds.lower <= want <= bounds.upper
        assert bounds.upper - bounds.lower <= 1e-3 * mu


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_step_of_dp_sgd_by_integration(direction):
    noise, rate = 0.8, 0.1
    loss = fa.privacy_loss(fa.Gaussian(noise).poisson(rate), neighbors=direction)
    for e in (-0.08, 0.0, 0.05, 0.3, 1.0):
        # the loss grows with the output x: where log((1 - q) + q exp((2 x - 1) / (2 s^2))) is e, or -e for add
        inside = (math.exp(e if direction == "remove" else -e) - (1.0 - rate)) / rate
        if inside <= 0.0:
            true = 0.0 if direction == "add" else 1.0
        else:
            x = noise**2 * math.log(inside) + 0.5
            q = float(mp.ncdf(-x / noise))
            p = (1.0 - rate) * q + rate * float(mp.ncdf(-(x - 1.0) / noise))
            true = p if direction == "remove" else 1.0 - q
        found = loss.exceeds(e)
        assert found.lower <= true <= found.upper
        assert found.upper - found.lower <= 1e-3


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


@pytest.mark.parametrize("order", [0.01, 0.3, 0.7, 0.99])
def test_orders_below_1_of_gaussians_and_laplace_noise(order):
    found = fa.divergence(fa.Gaussian(2.0) * 3, order)
    assert found.lower <= order * 3.0 / 8.0 <= found.upper
    assert found.upper - found.lower <= 1e-10 * found.upper
    with mp.workdps(25):  # one release of Laplace noise of scale 2
        inner = mp.quad(
            lambda x: mp.exp(-order * abs(x) / 2 - (1 - mp.mpf(order)) * abs(x - 1) / 2) / 4,
            [-400, -100, 0, 1, 100, 400],
        )
        true = float(mp.log(inner) / (mp.mpf(order) - 1))
    for direction in ("remove", "add"):
        found = fa.divergence(fa.Laplace(2.0), order, neighbors=direction)
        assert found.lower <= true <= found.upper
        assert found.upper - found.lower <= 1e-12 * true


def test_tables_are_compared_in_both_directions():
    p, q = [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]
    assert fa.divergence((p, q), math.inf, neighbors="remove").upper == pytest.approx(math.log(2.0), rel=1e-12)
    assert fa.divergence((p, q), math.inf, neighbors="add").upper == math.inf
    assert fa.divergence((q, p), 2.0, neighbors="remove").upper == math.inf
    found = fa.divergence((p, q), 0.0, neighbors="remove")
    assert found.lower <= math.log(4.0 / 3.0) <= found.upper * (1 + 1e-12)
    assert found.upper == pytest.approx(math.log(4.0 / 3.0), rel=1e-9)


def test_where_delta_is_a_line_the_rounding_of_steps_is_paid():
    small = 0.5 * math.exp(-30.0)
    loss = fa.privacy_loss(fa.from_pmf([0.5, 0.5], [small, 1.0 - small]), neighbors="remove")
    found = loss.exceeds(np.random.default_rng(0).uniform(0.1, 29.9, 300))
    assert np.all(found.lower <= 0.5)
    assert np.all(found.upper >= 0.5)


def test_a_tail_falls_and_quantiles_are_its_inverse():
    loss = fa.privacy_loss(fa.Gaussian(1.0).poisson(0.01) * 1000)
    at = np.linspace(-1.0, 3.0, 41)
    found = loss.exceeds(at.reshape(41, 1))
    assert found.upper.shape == (41, 1)
    assert np.all(np.diff(found.upper.ravel()) <= 1e-6)
    upper = loss.quantile(0.05).upper
    assert loss.exceeds(upper).upper <= 0.05
    assert loss.exceeds(loss.quantile(0.05).lower - 1e-6).lower > 0.05 - 1e-4


def test_mass_of_an_infinite_loss_and_bounds_without_a_lower_side():
    revealing = fa.privacy_loss(fa.ApproxDP(1.0, 0.1))
    assert revealing.quantile(0.05).upper == math.inf
    assert revealing.exceeds(600.0).lower == pytest.approx(0.1, rel=1e-6)
    bound = fa.privacy_loss(fa.Staircase(0.5) * 3)
    assert bound.exceeds(1.6).upper <= 1e-290
    assert bound.mean.lower == 0.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fa.privacy_loss(fa.Gaussian([1.0, 2.0])), TypeError, r"arrays of shape \(2,\)"),
        (lambda: fa.privacy_loss(fa.Gaussian(1.0), neighbors="add_remove"), ValueError, "neighbors = 'add_remove'"),
        (lambda: fa.privacy_loss(fa.Gaussian(1.0)).exceeds(math.nan), ValueError, "epsilon"),
        (lambda: fa.privacy_loss(fa.Gaussian(1.0)).quantile(0.0), ValueError, "beta"),
        (lambda: fa.privacy_loss(fa.RandomizedResponse(1.0)).exceeds(1.0), ValueError, "is not supported"),
        (lambda: fa.privacy_loss(3.0), TypeError, "job"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("p", "q", "order", "true"),
    [
        ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 1 - 1e-9, 693147200.16),
        ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 1 - 3 * 2.0**-53, 2.0811049e15),
        ([1.0, 0.0], [0.5, 0.5], 1e-12, 0.69314718056),
        ([1.0, 0.0], [2.0**-20, 1 - 2.0**-20], 1.7e-16, 20.0 * math.log(2.0)),
        ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 0.0, 0.69314718055994530942),
    ],
)
def test_orders_next_to_0_and_1_with_an_infinite_loss(p, q, order, true):
    found = fa.divergence((p, q), order, neighbors="remove")
    assert found.lower <= true * (1 + 1e-8)
    assert found.upper >= true * (1 - 1e-8)


def test_tables_that_add_up_to_1_within_1e_12_only():
    found = fa.privacy_loss(fa.from_pmf([0.3, 0.7], [0.5, 0.5 - 9e-13]), neighbors="remove").exceeds(0.0)
    assert found.lower <= 0.7 <= found.upper
    loss = fa.privacy_loss(fa.from_pmf([0.5, 0.5 - 9e-13], [0.3, 0.7]), neighbors="remove")
    found = loss.exceeds(-0.3364712366230129)
    assert found.lower <= 0.5 <= found.upper
    bounds = loss.quantile(0.5)
    assert bounds.lower <= math.log((0.5 - 9e-13) / 0.7) <= bounds.upper


def test_a_large_divergence_of_a_gaussian_is_known_from_below_too():
    mean = fa.privacy_loss(fa.Gaussian(0.1)).mean
    assert 49.0 <= mean.lower <= 50.0 <= mean.upper <= 50.0 * (1 + 1e-12)


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


def test_what_both_distributions_have_may_release_less_than_nothing():
    """The only common outcome is likelier without the record: its loss is below 0, and epsilon is not."""
    job = (
        fa.from_pmf((0.0, 0.9767420369355799, 0.023257963064420007), (0.04549490488172156, 0.9545050951182785, 0.0)) * 3
    )
    assert fa.epsilon_bounds(job, delta=0.25, neighbors="remove")[:2] == (0.0, 0.0)


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


@pytest.mark.parametrize("beta", [0.9, 0.1, 3.8e-8])
def test_a_quantile_asks_few_deltas(beta, monkeypatch):
    """25 of them at each of two dozen losses, far apart, were half a minute where each composes a grid."""
    asked = []
    deltas_of = fa.privacy_loss(fa.Gaussian(1.0))._deltas_of.__func__

    def counted(loss, direction, epsilon):
        asked.extend(epsilon.tolist())
        return deltas_of(loss, direction, epsilon)

    loss = fa.privacy_loss(fa.Gaussian(5.0) * 30 + fa.Laplace(20.0) * 2, neighbors="add")
    monkeypatch.setattr(type(loss), "_deltas_of", counted)
    found = loss.quantile(beta)
    assert len(asked) <= 160
    assert max(asked) <= abs(found.upper) + 3.0
    monkeypatch.undo()
    assert loss.exceeds(found.upper).upper <= beta * (1.0 + 1e-9)
    assert loss.exceeds(found.lower).lower >= beta * (1.0 - 1e-9)
    assert found.upper - found.lower <= 1.2e-4 * abs(found.upper)


def test_the_lower_end_of_a_bound_is_that_of_any_pair():
    """P(L <= -t) <= exp(-t): nothing is looked for."""
    loss = fa.privacy_loss(fa.Staircase(0.5) * 3)
    for beta in (1e-9, 0.3, 0.999):
        found = loss.quantile(beta)
        assert found.lower == pytest.approx(math.log1p(-beta), rel=1e-12, abs=1e-10 / (1.0 - beta))
        assert found.lower <= math.log1p(-beta)
        assert loss.exceeds(found.upper).upper <= beta
    assert loss.quantile(1.0).lower == -math.inf


@pytest.mark.parametrize("p", [[0.2, 0.3, 0.5], [1e-3, 0.499, 0.5]])
def test_quantiles_of_few_losses_are_at_them(p):
    """Delta is a line between losses: the best steps change from one to the next."""
    q, count = p[::-1], 7
    masses = law(p, q, count)
    for beta in (0.9, 0.31, 0.05, 1e-4, 1e-12):
        tails = {x: mp.fsum(m for y, m in masses.items() if y > x) for x in masses}
        true = float(min(x for x, tail in tails.items() if tail <= beta))
        found = fa.privacy_loss(fa.from_pmf(p, q) * count, neighbors="remove").quantile(beta)
        assert found.lower - 1e-12 <= true <= found.upper + 1e-12
        assert found.upper - found.lower <= 1e-5 * (1.0 + abs(true))


SKEWED = [
    fa.Gaussian(1.0).poisson(0.1) * 10,
    fa.from_pmf([0.6, 0.3, 0.1], [0.3, 0.3, 0.4]) * 2,
    fa.Gaussian(2.0) + fa.Laplace(3.0).poisson(0.2),
]


@pytest.mark.parametrize("job", SKEWED, ids=str)
def test_without_a_direction_every_answer_is_the_larger_one_of_both(job):
    both, *ways = (fa.privacy_loss(job, **way) for way in ({}, {"neighbors": "remove"}, {"neighbors": "add"}))
    asked = [lambda loss: loss.mean, lambda loss: loss.variance, lambda loss: loss.concentration]
    asked += [lambda loss: loss.divergence(0.5), lambda loss: loss.divergence(3.0)]
    asked += [lambda loss: loss.exceeds([-0.3, 0.4]), lambda loss: loss.quantile(0.1)]
    for ask in asked:
        one, other = (np.stack(ask(way)[:2]) for way in ways)
        assert np.array_equal(np.stack(ask(both)[:2]), np.maximum(one, other))
    assert fa.privacy_loss(job, neighbors="add_remove").mean == both.mean
    found = fa.divergence(job, [0.5, 3.0])
    sides = [fa.divergence(job, [0.5, 3.0], neighbors=way) for way in ("remove", "add")]
    assert np.array_equal(found.upper, np.maximum(*(side.upper for side in sides)))
    assert [found.upper[1], found.lower[1]] == [getattr(fa.divergence(job, 3.0), end) for end in ("upper", "lower")]


def test_the_order_of_a_divergence_has_its_former_name_for_a_release():
    with pytest.warns(DeprecationWarning, match="order is called orders"):
        found = fa.divergence(fa.Gaussian(1.0), order=2.0)
    assert found == fa.divergence(fa.Gaussian(1.0), orders=2.0)
    with pytest.raises(TypeError, match="give orders, and no order"):
        fa.divergence(fa.Gaussian(1.0), order=2.0, orders=2.0)
