"""The privacy loss as a random variable, against sums and closed forms in 30 digits: nothing outside of the bounds."""

from __future__ import annotations

import collections
import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa
from fastacct.core.deltas import second_moment


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


@pytest.mark.parametrize("block", range(20))
def test_300_random_pairs_of_tables(block):
    rng = np.random.default_rng(100 + block)
    with mp.workdps(30):
        for _ in range(15):
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
        (lambda: fa.privacy_loss(fa.Gaussian(1.0), neighbors="both"), ValueError, "neighbors = 'both'"),
        (lambda: fa.privacy_loss(fa.Gaussian(1.0)).exceeds(math.nan), ValueError, "epsilon"),
        (lambda: fa.privacy_loss(fa.Gaussian(1.0)).quantile(0.0), ValueError, "beta"),
        (lambda: fa.privacy_loss(fa.RandomizedResponse(1.0)).exceeds(1.0), ValueError, "is not supported"),
        (lambda: fa.privacy_loss(3.0), TypeError, "job"),
        (lambda: fa.PrivacyLoss(fa.Gaussian(1.0), "both", None), ValueError, "neighbors = 'both'"),
        (lambda: fa.PrivacyLoss(fa.Gaussian([1.0, 2.0]), "add", None), TypeError, r"arrays of shape \(2,\)"),
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


def test_what_both_distributions_have_may_release_less_than_nothing():
    """The only common outcome is likelier without the record: its loss is below 0, and epsilon is not."""
    job = (
        fa.from_pmf((0.0, 0.9767420369355799, 0.023257963064420007), (0.04549490488172156, 0.9545050951182785, 0.0)) * 3
    )
    assert fa.epsilon_bounds(job, delta=0.25, neighbors="remove")[:2] == (0.0, 0.0)


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


@pytest.mark.parametrize(("left", "most"), [(0.0, 20_000), (1e-3, 2_000)])
def test_second_moments_without_an_upper_bound_take_few_deltas(left, most):
    """Of N(1, 1) against N(0, 1), and of what has a loss beyond all numbers besides."""
    asked = []
    gaussian = fa.Gaussian(1.0)

    def deltas(epsilon):
        asked.append(epsilon.size)
        low, high, _ = fa.delta_bounds(gaussian, epsilon=epsilon)
        return left + (1.0 - left) * low, left + (1.0 - left) * high

    low, high = second_moment(deltas, deltas, lambda order: math.inf if left else 0.5 * order, True)
    assert low > 1.24 * (1.0 - left)
    assert high == math.inf if left else high < 1.26
    assert sum(asked) < most


def test_of_disjoint_parts_only_the_largest_one_is_searched(monkeypatch):
    """One question says that another one is not larger, none is asked of a much smaller one; both sides take one."""
    asked = collections.Counter()
    deltas_of = fa.privacy_loss(fa.Gaussian(1.0))._deltas_of.__func__

    def counted(loss, direction, epsilon):
        asked[repr(loss._job)] += 1
        return deltas_of(loss, direction, epsilon)

    parts = [fa.Gaussian(noise) * 1 for noise in (9.0, 1.04, 1.02, 1.0)]
    loss = fa.privacy_loss(fa.Parallel(*parts) + fa.Laplace(3.0), neighbors="remove")
    monkeypatch.setattr(type(loss), "_deltas_of", counted)
    loss.quantile(0.02)
    assert len(asked) == 3
    assert sorted(asked.values())[:2] == [1, 1]
    assert max(asked, key=asked.get) == repr(parts[3] + fa.Laplace(3.0))
    asked.clear()
    loss.exceeds([1.0, 2.0])
    assert [*asked.values()] == [1, 1, 1, 1]


@pytest.mark.parametrize("direction", ["add_remove", "remove", "add"])
def test_of_disjoint_parts_every_answer_is_the_largest_of_them(direction):
    """A record is in one of them: a curve above all of their deltas has a tail that may be below that of a part."""
    parts, more = (fa.PureDP(1.0) * 1, fa.Gaussian(1.0) * 1, fa.PureDP(0.2) * 3), fa.Gaussian(2.0)
    job = fa.Parallel(*parts) + more
    whole, alone = (fa.privacy_loss(one, neighbors=direction) for one in (job, parts[0] + more))
    each = [fa.privacy_loss(part + more, neighbors=direction) for part in parts]
    asked = (
        lambda loss: loss.mean,
        lambda loss: loss.variance,
        lambda loss: loss.exceeds(0.7),
        lambda loss: loss.quantile(0.02),
        lambda loss: loss.divergence(0.5),
        lambda loss: loss.divergence(math.inf),
        lambda loss: loss.concentration,
    )
    for ask in asked:
        np.testing.assert_array_equal(ask(whole)[:2], np.max([ask(one)[:2] for one in each], axis=0))
    tails = whole.exceeds(np.array([-1.0, 0.7]))
    assert tails.upper[1] >= alone.exceeds(0.7).lower > 0.5


def test_of_parts_that_are_only_bounded_nothing_is_known_from_below():
    """The tree is two Gaussians of twice the sensitivity at most, which are a mechanism with a pair of its own."""
    tree = fa.TreeAggregation(8.0, 3, participations=2)
    loss = fa.privacy_loss(fa.Parallel(tree, fa.Gaussian(9.0)) + fa.Gaussian(30.0), neighbors="remove")
    for found in (loss.mean, loss.variance, loss.divergence(math.inf), loss.divergence(0.5), loss.exceeds(0.01)):
        assert found.lower == 0.0
        assert found.upper > 0.01
    assert loss.quantile(0.1).lower < 0.0
