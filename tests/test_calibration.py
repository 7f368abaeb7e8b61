"""Calibration: the value returned satisfies the target when checked; its neighbour at 1e-9 does not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastacct as fa


def targets(n, seed):
    rng = np.random.default_rng(seed)
    return (
        10 ** rng.uniform(-2, 1.5, n),
        10 ** rng.uniform(-12, -3, n),
        10 ** rng.uniform(-5, 0, n),
        np.floor(10 ** rng.uniform(0, 6, n)),
    )


def test_noise_multiplier_is_on_the_safe_side_and_tight():
    epsilon, delta, q, steps = targets(1000, 1)
    sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, sample_rate=q, steps=steps)
    assert (fa.dpsgd.epsilon(noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta) <= epsilon).all()
    less = fa.dpsgd.epsilon(noise_multiplier=sigma * (1 - 1e-9), sample_rate=q, steps=steps, delta=delta)
    assert (less > epsilon).all()


def test_sample_rate_is_on_the_safe_side_and_tight():
    epsilon, delta, _, steps = targets(500, 2)
    sigma = np.random.default_rng(2).uniform(0.4, 5, 500)
    q = fa.dpsgd.sample_rate(epsilon=epsilon, delta=delta, noise_multiplier=sigma, steps=steps)
    assert (fa.dpsgd.epsilon(noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta) <= epsilon).all()
    inner = (q > 0) & (q < 1)  # Renyi DP has a floor in epsilon that only rates below 1e-30 would pass: 0 then
    more = fa.dpsgd.epsilon(noise_multiplier=sigma, sample_rate=np.minimum(q * (1 + 1e-9), 1), steps=steps, delta=delta)
    assert inner.sum() > 350
    assert (more[inner] > epsilon[inner]).all()


def test_steps_is_the_largest_number_that_satisfies():
    epsilon, delta, q, _ = targets(500, 3)
    sigma = np.random.default_rng(3).uniform(0.4, 5, 500)
    steps = fa.dpsgd.steps(epsilon=epsilon, delta=delta, noise_multiplier=sigma, sample_rate=q)
    run = {"noise_multiplier": sigma, "sample_rate": q, "delta": delta}
    assert (fa.dpsgd.epsilon(**run, steps=steps) <= epsilon).all()
    assert (fa.dpsgd.epsilon(**run, steps=steps + 1) > epsilon).all()
    assert (steps == np.floor(steps)).all()


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


def test_edge_cases():
    free = {"delta": 1e-5, "epsilon": 1.0}
    assert fa.dpsgd.noise_multiplier(**free, sample_rate=0.0, steps=10) == 0.0
    assert fa.dpsgd.noise_multiplier(**free, sample_rate=0.1, steps=0) == 0.0
    assert fa.dpsgd.noise_multiplier(epsilon=1.0, delta=1.0, sample_rate=0.1, steps=10) == 0.0
    assert fa.dpsgd.noise_multiplier(epsilon=math.inf, delta=1e-5, sample_rate=0.1, steps=10) == 0.0
    assert fa.dpsgd.noise_multiplier(epsilon=1.0, delta=0.0, sample_rate=0.1, steps=10) == math.inf
    assert fa.dpsgd.steps(**free, noise_multiplier=1.0, sample_rate=0.0) == math.inf
    assert fa.dpsgd.steps(epsilon=1.0, delta=0.0, noise_multiplier=1.0, sample_rate=0.1) == 0.0
    assert fa.dpsgd.steps(epsilon=0.001, delta=1e-5, noise_multiplier=1.0, sample_rate=1.0) == 0.0
    assert fa.dpsgd.sample_rate(**free, noise_multiplier=100.0, steps=1) == 1.0
    assert fa.dpsgd.sample_rate(epsilon=1.0, delta=0.0, noise_multiplier=1.0, steps=1) == 0.0


def test_extreme_targets_are_reached():
    for epsilon, delta in [(1e-6, 1e-5), (1e4, 1e-5), (1.0, 1e-300), (0.0, 1e-5)]:
        sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, sample_rate=0.01, steps=100)
        assert 0 < sigma < math.inf
        assert fa.dpsgd.epsilon(noise_multiplier=sigma, sample_rate=0.01, steps=100, delta=delta) <= epsilon


@settings(max_examples=150, deadline=None)
@given(st.floats(0.05, 20), st.floats(1e-15, 1e-2), st.floats(1e-6, 1.0), st.integers(1, 10**6))
def test_noise_multiplier_round_trip(epsilon, delta, q, steps):
    sigma = fa.dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, sample_rate=q, steps=steps)
    run = {"sample_rate": q, "steps": steps, "delta": delta}
    assert fa.dpsgd.epsilon(noise_multiplier=sigma, **run) <= epsilon
    assert fa.dpsgd.epsilon(noise_multiplier=sigma * (1 - 1e-9), **run) > epsilon
