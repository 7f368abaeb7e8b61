"""Losses that are data with a cap and a floor on the line: few steps whose losses are mostly 0, and rare large ones."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfc

import fastacct as fa
from fastacct.samplers.draws import binomial
from tests.containment import is_above

ROUNDED = 1e-11  # of a truth that is summed in doubles
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(20)
ROOT = math.sqrt(0.5)


def gaussian_delta(mu, epsilon):
    """Of N(mu, 1) against N(0, 1)."""
    return 0.5 * (erfc((epsilon / mu - 0.5 * mu) * ROOT) - np.exp(epsilon) * erfc((epsilon / mu + 0.5 * mu) * ROOT))


def one_step(shares, rate, epsilon):
    """Delta of one batch that holds a replaced record with probability `rate`, 2 c / noise = mu with these shares."""
    away = np.abs(epsilon)
    inner = np.log1p(np.expm1(away) / rate)
    found = rate * sum(share * gaussian_delta(mu, inner) for share, mu in shares)
    return np.where(epsilon >= 0.0, found, -np.expm1(epsilon) + np.exp(epsilon) * found)


def two_steps(shares, rate, epsilon):
    """The mean of the other step's delta over the losses of one, which are 0 or on either side of it."""
    x0 = math.log1p(math.expm1(epsilon) / rate)  # where the loss is epsilon, and the other's delta has a corner
    total, left = 0.0, 1.0
    for share, mu in shares:
        high = min(40.0 * mu + 0.5 * mu * mu, 600.0)
        breaks = np.unique(np.concatenate([np.linspace(0.0, high, 800), [min(x0, high)]]))
        half = 0.5 * np.diff(breaks)[:, None]
        x = (breaks[:-1, None] + half * (1.0 + POINTS)).ravel()
        density = np.exp(-0.5 * (x / mu + 0.5 * mu) ** 2) / (mu * math.sqrt(2 * math.pi))
        mass = share * (half * WEIGHTS).ravel() * density
        ratio = 1.0 + rate * np.expm1(x)
        loss = np.log(ratio)
        total += float(np.sum(mass * ratio * one_step(shares, rate, epsilon - loss)))
        total += float(np.sum(mass * one_step(shares, rate, epsilon + loss)))
        left -= float(np.sum(mass * (1.0 + ratio)))
    return total + left * float(one_step(shares, rate, np.array(epsilon)))


@pytest.mark.parametrize(("noise", "batch", "epsilon"), [(1.0, 3, 0.5), (2.0, 20, 1.0), (0.7, 5, 4.0), (5.0, 100, 0.3)])
def test_two_steps_of_fixed_size_are_their_integral(noise, batch, epsilon):
    job = fa.Gaussian(noise).fixed_size(batch_size=batch, records=1000) * 2
    truth = two_steps([(1.0, 2.0 / noise)], batch / 1000, epsilon)
    for relation in ("replace_one", "zero_out"):
        assert is_above(fa.delta(job, epsilon=epsilon, neighbors=relation), truth, 1e-9, ROUNDED)
    assert is_above(fa.epsilon(job, delta=truth, neighbors="replace_one"), epsilon, 1e-8, ROUNDED)


@pytest.mark.parametrize(("noise", "draws", "epsilon"), [(1.5, 10, 1.0), (3.0, 100, 1.0), (1.0, 2, 2.0)])
def test_two_batches_of_draws_with_replacement_are_their_integral(noise, draws, epsilon):
    job = fa.Gaussian(noise).with_replacement(draws=draws, records=1000) * 2
    some = [(weight, 2.0 * c / noise) for weight, c in binomial(draws, 1.0, 1000).above if c > 0.0]
    rate = math.fsum(weight for weight, _ in some)
    truth = two_steps([(weight / rate, mu) for weight, mu in some], rate, epsilon)
    assert is_above(fa.delta(job, epsilon=epsilon, neighbors="replace_one"), truth, 1e-9, ROUNDED)


@settings(max_examples=12, deadline=None)
@given(
    noise=st.floats(0.6, 8.0),
    batch=st.integers(1, 300),
    steps=st.integers(1, 60),
    log_delta=st.floats(-24.0, -5.0),
    kind=st.sampled_from(["fixed", "truncated", "truncated, add_remove"]),
)
def test_few_steps_meet_a_grid(noise, batch, steps, log_delta, kind):
    base, relation = fa.Gaussian(noise), "add_remove" if "add_remove" in kind else "replace_one"
    if kind == "fixed":
        job = base.fixed_size(batch_size=batch, records=1000) * steps
    else:
        job = base.poisson(batch / 1000, at_most=min(999, batch + 20), records=1000) * steps
    delta = math.exp(log_delta)
    line = fa.epsilon_bounds(job, delta=delta, neighbors=relation)
    grid = fa.epsilon_bounds(job, delta=delta, neighbors=relation, accountant=fa.PLD())
    assert grid.lower <= line.upper * (1.0 + 1e-9)
    assert line.upper <= grid.upper * (1.0 + 1e-4) + 1e-12
    assert line.lower <= grid.upper * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("step", "relation"),
    [
        (fa.Gaussian(1.5).fixed_size(batch_size=20, records=1000), "replace_one"),
        (fa.Gaussian(1.0).poisson(0.01, at_most=25, records=1000), "add_remove"),
        (fa.Gaussian(1.0).poisson(0.01, at_most=25, records=1000), "replace_one"),
        (fa.Gaussian(2.0).with_replacement(draws=20, records=1000), "replace_one"),
    ],
    ids=["fixed size", "at most", "at most, replaced", "with replacement"],
)
@pytest.mark.parametrize("steps", [1, 2, 7, 40, 300])
def test_few_steps_need_no_grid(steps, step, relation):
    answered = fa.explain(step * steps, delta=1e-6, neighbors=relation).answered
    assert not any("two distributions" in one for one in answered), answered


def test_targets_far_from_the_one_that_a_line_was_drawn_for_are_right():
    """Of one step nothing is taken back: what that says of one epsilon says nothing of a larger one."""
    job = fa.Gaussian(1.6).fixed_size(batch_size=27, records=1487) * 1
    for delta in (1e-3, 3e-4, 2.787e-4, 2e-4, 1e-4, 1e-5):
        upper = fa.epsilon(job, delta=delta, neighbors="replace_one")
        truth = float(one_step([(1.0, 2.0 / 1.6)], 27 / 1487, np.array(upper)))
        assert truth == pytest.approx(delta, rel=1e-8)


def test_a_shared_line_is_forgotten_where_a_later_one_is_not_drawn():
    """Its windows have moved then: what it says of another epsilon was e^17 too large, and e^10 and more below."""
    first = fa.Gaussian(48.7972).fixed_size(batch_size=153180585, records=10**12) * 20
    job = first + fa.Gaussian(7.4430814816971).fixed_size(batch_size=461833405, records=10**12) * 11
    found = fa.log_delta_bounds(job, epsilon=0.0073066363596656705, neighbors="replace_one").upper
    alone = fa.delta_bounds(job, epsilon=0.0073066363596656705, neighbors="replace_one").upper
    assert found == pytest.approx(math.log(alone), abs=1e-6)


def test_windows_serve_a_job_beside_others():
    few = fa.Gaussian(1.5).fixed_size(batch_size=20, records=1000) * 7
    for other in (fa.Laplace(20.0) * 3, fa.Gaussian(4.0) * 2, fa.Gaussian(2.0).poisson(0.05) * 10):
        both, back = few + other, other + few
        found = fa.epsilon_bounds(both, delta=1e-6, neighbors="replace_one")
        assert found == fa.epsilon_bounds(back, delta=1e-6, neighbors="replace_one")
        for part in (few, other):
            assert found.upper >= fa.epsilon_bounds(part, delta=1e-6, neighbors="replace_one").lower
        grid = fa.epsilon_bounds(both, delta=1e-6, neighbors="replace_one", accountant=fa.PLD())
        assert grid.lower <= found.upper <= grid.upper * (1.0 + 1e-4)
