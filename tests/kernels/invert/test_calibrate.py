"""Calibration: the value returned satisfies the target when checked; its neighbour at 1e-9 (exact: 1e-8) does not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastacct as fa


def targets(n, seed, accountant=None):
    rng = np.random.default_rng(seed)
    if accountant == fa.Exact():  # where runs are made; the corners have tests of their own
        return (
            10 ** rng.uniform(-0.7, 1, n),
            10 ** rng.uniform(-10, -4, n),
            10 ** rng.uniform(-2.5, 0, n),
            np.floor(10 ** rng.uniform(2, 5, n)),
        )
    return (
        10 ** rng.uniform(-2, 1.5, n),
        10 ** rng.uniform(-12, -3, n),
        10 ** rng.uniform(-5, 0, n),
        np.floor(10 ** rng.uniform(0, 6, n)),
    )


def missed(accountant, epsilon, run):
    """Cells where a neighbour of a calibrated value still satisfies the target, although its bounds are tight."""
    if accountant == fa.Exact():
        bounds = fa.dpsgd.epsilon_bounds(**run)
        return (bounds.upper <= epsilon) & (bounds.status == fa.Status.TIGHT)
    return fa.dpsgd.epsilon(**run, accountant=accountant) <= epsilon


WIDTH = {fa.RDP(): 1e-9, fa.Exact(): 1e-8}
ACCOUNTANTS = pytest.mark.parametrize(("accountant", "n"), [(fa.RDP(), 1000), (fa.Exact(), 60)])


@ACCOUNTANTS
def test_noise_multiplier_is_on_the_safe_side_and_tight(accountant, n):
    epsilon, delta, q, steps = targets(n, 1, accountant)
    run = {"sample_rate": q, "steps": steps, "delta": delta}
    sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, **run, accountant=accountant)
    assert (fa.dpsgd.epsilon(noise_multiplier=sigma, **run, accountant=accountant) <= epsilon).all()
    assert not missed(accountant, epsilon, run | {"noise_multiplier": sigma * (1 - WIDTH[accountant])}).any()


@ACCOUNTANTS
def test_sample_rate_is_on_the_safe_side_and_tight(accountant, n):
    epsilon, delta, _, steps = targets(n, 2, accountant)
    sigma = np.random.default_rng(2).uniform(0.4, 5, n)
    run = {"noise_multiplier": sigma, "steps": steps, "delta": delta}
    q = fa.dpsgd.sample_rate(epsilon=epsilon, **run, accountant=accountant)
    assert (fa.dpsgd.epsilon(sample_rate=q, **run, accountant=accountant) <= epsilon).all()
    inner = (q > 0) & (q < 1)  # Renyi DP has a floor in epsilon that only rates below 1e-30 would pass: 0 then
    assert inner.mean() > 0.7
    more = np.minimum(q * (1 + WIDTH[accountant]), 1)
    assert not missed(accountant, epsilon, run | {"sample_rate": more})[inner].any()


@ACCOUNTANTS
def test_steps_is_the_largest_number_that_satisfies(accountant, n):
    epsilon, delta, q, _ = targets(n, 3, accountant)
    sigma = np.random.default_rng(3).uniform(0.4, 5, n)
    run = {"noise_multiplier": sigma, "sample_rate": q, "delta": delta}
    steps = fa.dpsgd.steps(epsilon=epsilon, **run, accountant=accountant)
    assert (fa.dpsgd.epsilon(**run, steps=steps, accountant=accountant) <= epsilon).all()
    assert not missed(accountant, epsilon, run | {"steps": steps + 1}).any()
    assert (steps == np.floor(steps)).all()


@pytest.mark.parametrize(
    ("epsilon", "delta", "q", "steps"),
    [
        (1.88082, 1.68278e-06, 0.000673372, 6694),
        (4.49124, 6.91392e-09, 0.000178573, 75622),
        (4.4, 4.8e-7, 1.63e-4, 65852),
    ],
)
def test_few_participations_are_calibrated_as_narrowly_as_many(epsilon, delta, q, steps):
    run, target = {"sample_rate": q, "steps": steps, "delta": delta}, {"epsilon": epsilon, "delta": delta}
    sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, **run)
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run) <= epsilon
    assert fa.dpsgd.epsilon_lower(noise_multiplier=sigma * (1 - 1e-8), **run) > epsilon
    assert fa.dpsgd.steps(**target, noise_multiplier=sigma, sample_rate=q) == steps
    assert fa.dpsgd.sample_rate(**target, noise_multiplier=sigma, steps=steps) == pytest.approx(q, rel=1e-7)


def test_direction_add_needs_hardly_any_noise_beyond_its_largest_loss():
    run = {"sample_rate": 0.00329, "steps": 868, "delta": 2.6e-12, "neighbors": "add"}
    assert -868 * math.log1p(-0.00329) < 2.9
    sigma = fa.dpsgd.noise_multiplier(epsilon=2.9, **run)
    assert 0 < sigma <= 1e-6
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run) <= 2.9
    sigma = fa.dpsgd.noise_multiplier(epsilon=2.8, **run)
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run) <= 2.8
    assert fa.dpsgd.epsilon_lower(**run | {"noise_multiplier": sigma * (1 - 1e-8)}) > 2.8


def test_a_cell_has_the_same_bits_alone_as_in_any_array():
    epsilon, delta, q, steps = targets(30, 6, fa.Exact())
    run = {"epsilon": epsilon, "delta": delta, "sample_rate": q, "steps": steps}
    forwards = fa.dpsgd.noise_multiplier(**run)
    backwards = fa.dpsgd.noise_multiplier(**{name: column[::-1] for name, column in run.items()})[::-1]
    alone = [fa.dpsgd.noise_multiplier(**{name: column[i] for name, column in run.items()}) for i in range(30)]
    np.testing.assert_array_equal(forwards, backwards)
    np.testing.assert_array_equal(forwards, alone)


def test_exact_needs_less_noise_and_allows_more_steps_and_a_higher_rate_than_renyi():
    target = {"epsilon": 3.0, "delta": 1e-5}
    saved = fa.dpsgd.noise_multiplier(**target, sample_rate=0.01, steps=10000)
    assert saved < 0.95 * fa.dpsgd.noise_multiplier(**target, sample_rate=0.01, steps=10000, accountant=fa.RDP())
    run = {"noise_multiplier": 1.0}
    steps, rate = fa.dpsgd.steps(**target, **run, sample_rate=0.01), fa.dpsgd.sample_rate(**target, **run, steps=10000)
    assert steps > 1.1 * fa.dpsgd.steps(**target, **run, sample_rate=0.01, accountant=fa.RDP())
    assert rate > 1.05 * fa.dpsgd.sample_rate(**target, **run, steps=10000, accountant=fa.RDP())


@pytest.mark.parametrize("neighbors", ["add", "remove", "add_remove", "zero_out", "replace_one"])
def test_every_relation_calibrates_to_its_own_epsilon(neighbors):
    run, relation = {"sample_rate": 0.01, "steps": 3000, "delta": 1e-6}, {"neighbors": neighbors}
    sigma = fa.dpsgd.noise_multiplier(epsilon=2.0, **run, **relation)
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run, **relation) <= 2.0
    assert fa.dpsgd.epsilon(noise_multiplier=sigma * (1 - 1e-8), **run, **relation) > 2.0
    rest = {"noise_multiplier": 1.5, "delta": 1e-6, **relation}
    steps = fa.dpsgd.steps(epsilon=2.0, sample_rate=0.01, **rest)
    at = [fa.dpsgd.epsilon(steps=steps + i, sample_rate=0.01, **rest) for i in (0, 1)]
    assert at[0] <= 2.0 < at[1]
    rate = fa.dpsgd.sample_rate(epsilon=2.0, steps=3000, **rest)
    assert fa.dpsgd.epsilon(sample_rate=rate, steps=3000, **rest) <= 2.0
    assert fa.dpsgd.epsilon(sample_rate=rate * (1 + 1e-8), steps=3000, **rest) > 2.0


def test_calibration_has_the_same_bits_for_any_number_of_threads():
    epsilon, delta, q, _ = targets(40, 4, fa.Exact())
    target = {"epsilon": epsilon, "delta": delta, "sample_rate": q, "steps": 3000}
    one, two = (fa.dpsgd.noise_multiplier(**target, threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    few = {name: value[:4] if np.ndim(value) else value for name, value in target.items()} | {"sample_rate": 0.02}
    one, two = (fa.dpsgd.noise_multiplier(**few, neighbors="replace_one", threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "accountant", [fa.RDP(orders=[2, 4, 8, 16, 32, 64]), fa.RDP(conversion="mironov"), fa.RDP(conversion="optimal")]
)
def test_other_accountants_calibrate_to_their_own_epsilon(accountant):
    run = {"sample_rate": 0.01, "steps": 2000, "delta": 1e-5}
    sigma = fa.dpsgd.noise_multiplier(epsilon=2.0, **run, accountant=accountant)
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run, accountant=accountant) <= 2.0
    assert fa.dpsgd.epsilon(noise_multiplier=sigma * (1 - 1e-9), **run, accountant=accountant) > 2.0
    steps = fa.dpsgd.steps(epsilon=2.0, delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, accountant=accountant)
    at = [
        fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=steps + i, delta=1e-5, accountant=accountant)
        for i in (0, 1)
    ]
    assert at[0] <= 2.0 < at[1]


@pytest.mark.parametrize("options", [{}, {"accountant": fa.RDP()}, {"neighbors": "replace_one"}])
def test_edge_cases(options):
    free, target = {"delta": 1e-5, "epsilon": 1.0, **options}, {"sample_rate": 0.1, "steps": 10, **options}
    assert fa.dpsgd.noise_multiplier(**free, sample_rate=0.0, steps=10) == 0.0
    assert fa.dpsgd.noise_multiplier(**free, sample_rate=0.1, steps=0) == 0.0
    assert fa.dpsgd.noise_multiplier(epsilon=1.0, delta=1.0, **target) == 0.0
    assert fa.dpsgd.noise_multiplier(epsilon=math.inf, delta=1e-5, **target) == 0.0
    assert fa.dpsgd.noise_multiplier(epsilon=1.0, delta=0.0, **target) == math.inf
    assert fa.dpsgd.steps(**free, noise_multiplier=1.0, sample_rate=0.0) == math.inf
    assert fa.dpsgd.steps(**free, noise_multiplier=math.inf, sample_rate=0.1) == math.inf
    assert fa.dpsgd.steps(**free, noise_multiplier=0.0, sample_rate=0.1) == 0.0
    assert fa.dpsgd.steps(epsilon=1.0, delta=0.0, noise_multiplier=1.0, sample_rate=0.1, **options) == 0.0
    assert fa.dpsgd.steps(epsilon=0.001, delta=1e-5, noise_multiplier=1.0, sample_rate=1.0, **options) == 0.0
    assert fa.dpsgd.sample_rate(**free, noise_multiplier=100.0, steps=1) == 1.0
    assert fa.dpsgd.sample_rate(epsilon=1.0, delta=0.0, noise_multiplier=1.0, steps=1, **options) == 0.0
    assert fa.dpsgd.sample_rate(**free, noise_multiplier=0.0, steps=1) == 0.0


def test_targets_far_from_what_is_spent_are_compared():
    assert fa.calibrate(fa.PureDP, epsilon=math.inf, delta=0.0, bracket=(1.0, 2.0)) == 2.0
    with pytest.raises(ValueError, match="is met neither"):
        fa.calibrate(fa.PureDP, epsilon=1e-320, delta=0.0, bracket=(1e10, 1e11))


@pytest.mark.parametrize("accountant", [None, fa.RDP()])
def test_extreme_targets_are_reached(accountant):
    run = {"sample_rate": 0.01, "steps": 100, "accountant": accountant}
    for epsilon, delta in [(1e-6, 1e-5), (1e4, 1e-5), (1.0, 1e-300), (0.0, 1e-5)]:
        sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, **run)
        assert 0 < sigma < math.inf
        assert fa.dpsgd.epsilon(noise_multiplier=sigma, delta=delta, **run) <= epsilon


@settings(max_examples=150, deadline=None)
@given(st.floats(0.05, 20), st.floats(1e-15, 1e-2), st.floats(1e-6, 1.0), st.integers(1, 10**6))
def test_renyi_noise_multiplier_round_trip(epsilon, delta, q, steps):
    run = {"sample_rate": q, "steps": steps, "delta": delta, "accountant": fa.RDP()}
    sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, **run)
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run) <= epsilon
    assert fa.dpsgd.epsilon(noise_multiplier=sigma * (1 - 1e-9), **run) > epsilon


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 20), st.floats(1e-12, 1e-2), st.floats(1e-3, 1.0), st.integers(1, 10**5))
def test_exact_noise_multiplier_round_trip(epsilon, delta, q, steps):
    run = {"sample_rate": q, "steps": steps, "delta": delta}
    sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, **run)
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run) <= epsilon
    less = run | {"noise_multiplier": sigma * (1 - 1e-8)}
    assert fa.dpsgd.epsilon_lower(**less) <= epsilon * (1 + 1e-6) or not missed(fa.Exact(), epsilon, less)
