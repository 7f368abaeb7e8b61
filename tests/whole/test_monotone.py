"""Every property of the shape of a privacy curve: monotone in everything, convex, invertible, never above Rényi."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import fastacct as fa

TIGHT = fa.Status.TIGHT
SIGMAS, RATES = st.floats(0.3, 50), st.floats(1e-6, 1.0)
STEPS, TARGETS = st.integers(1, 10**6), st.floats(1e-30, 0.5)
RELATIONS = st.sampled_from(["add_remove", "add", "remove"])


@settings(max_examples=60, deadline=None)
@given(SIGMAS, RATES, STEPS, TARGETS, st.floats(1.001, 4.0), st.sampled_from(["add_remove", "add", "remove"]))
def test_epsilon_is_monotone_in_everything(sigma, q, steps, delta, factor, neighbors):
    base = (sigma, q, steps, delta)
    easier = [
        (sigma * factor, q, steps, delta),
        (sigma, q / factor, steps, delta),
        (sigma, q, steps // 2, delta),
        (sigma, q, steps, min(1.0, delta * factor)),
    ]
    rows = np.array([base, *easier])
    names = ("noise_multiplier", "sample_rate", "steps", "delta")
    run = dict(zip(names, rows.T, strict=True))
    lower, upper, status = fa.dpsgd.epsilon_bounds(**run, neighbors=neighbors)
    assert (lower <= upper).all()
    assert (lower[1:] <= upper[0]).all(), "a lower bound above the upper bound of a harder case"
    sure = status[1:] == TIGHT  # below 1 + 1e-6 times the truth, which is at most the bound of the harder case
    assert (upper[1:][sure] <= upper[0] * (1 + 1e-6)).all()


@settings(max_examples=40, deadline=None)
@given(SIGMAS, RATES, STEPS, RELATIONS)
def test_epsilon_of_one_call_falls_with_delta_whatever_its_status(sigma, q, steps, neighbors):
    deltas = np.concatenate([np.geomspace(1e-300, 1e-30, 5), np.geomspace(1e-20, 0.9, 15)])
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "neighbors": neighbors}
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**run, delta=deltas)
    assert (lower <= upper).all()
    assert (np.diff(upper[np.isfinite(upper)]) <= 0.0).all()
    assert np.isinf(upper[: np.isinf(upper).sum()]).all()


@settings(max_examples=40, deadline=None)
@example(4.0, 0.00038, 1000, 0.0545, "add_remove")
@example(11.8125, 0.9442756402436563, 22311, 0.0, "add_remove")
@example(25.0, 0.9375, 105227, 0.0, "add_remove")
@given(SIGMAS, RATES, STEPS, st.floats(0.0, 2.0), RELATIONS)
def test_delta_of_one_call_falls_with_epsilon_whatever_its_status(sigma, q, steps, start, neighbors):
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "neighbors": neighbors}
    lower, upper, status = fa.dpsgd.delta_bounds(**run, epsilon=start + np.append(0.0, np.geomspace(1e-3, 30.0, 19)))
    assert (lower <= upper).all()
    # where delta hardly falls, next to 1, two certified ends may cross by what a TIGHT interval is wide
    room = np.where(status == fa.Status.TIGHT, np.minimum(upper - lower, 2e-9 * upper), 0.0)
    assert (np.diff(upper) <= room[1:]).all()


@settings(max_examples=60, deadline=None)
@given(SIGMAS, RATES, STEPS, st.floats(0.0, 8.0), st.floats(0.05, 1.0), st.sampled_from(["add", "remove"]))
def test_delta_falls_and_is_convex_in_the_exponential_of_epsilon(sigma, q, steps, epsilon, gap, neighbors):
    epsilons = epsilon + gap * np.arange(3)
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "neighbors": neighbors}
    lower, upper, _ = fa.dpsgd.delta_bounds(**run, epsilon=epsilons)
    assert (lower <= upper).all()
    assert (lower[1:] <= upper[:-1]).all()
    left, middle, right = np.exp(epsilons - epsilons[1])
    share = (middle - left) / (right - left)
    assert lower[1] <= ((1 - share) * upper[0] + share * upper[2]) * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(SIGMAS, RATES, STEPS, TARGETS)
def test_exact_is_never_above_renyi(sigma, q, steps, delta):
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "delta": delta}
    exact, renyi = fa.dpsgd.epsilon_bounds(**run), fa.dpsgd.epsilon(**run, accountant=fa.RDP())
    assert exact.upper <= renyi * (1 + 1e-9)
    assert exact.lower <= renyi


@settings(max_examples=60, deadline=None)
@given(SIGMAS, RATES, STEPS, TARGETS)
def test_delta_and_epsilon_are_inverse(sigma, q, steps, delta):
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps}
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**run, delta=delta)
    assert fa.dpsgd.delta_lower(**run, epsilon=upper) <= delta * (1 + 1e-12)
    assume(lower > 0.0)
    assert fa.dpsgd.delta(**run, epsilon=lower) >= delta * (1 - 1e-12)


def test_renyi_is_strictly_above_in_the_everyday_regime():
    run = {"noise_multiplier": [0.8, 1.0, 2.0], "sample_rate": 0.01, "steps": 10000, "delta": 1e-6}
    assert (fa.dpsgd.epsilon(**run) < 0.98 * fa.dpsgd.epsilon(**run, accountant=fa.RDP(conversion="optimal"))).all()


def test_where_no_line_is_certified_delta_has_the_bound_of_its_windows():
    """Between the losses of no and of one large step delta falls from 1e-66 to 1e-105: no line serves there."""
    run = {"noise_multiplier": 4.0, "sample_rate": 0.00038, "steps": 1000}
    epsilon = np.array([0.0545, 0.06, 0.1, 0.3, 1.0])
    lower, upper, status = fa.dpsgd.delta_bounds(**run, epsilon=epsilon)
    assert upper[0] <= 2.5e-66
    assert (status[1:] == fa.Status.LOOSE).all()
    assert (np.diff(upper) <= 0.0).all()
    assert (upper[1:] < [1e-64, 1e-80, 1e-138, 1e-210]).all()
    assert (lower <= upper).all()
    assert fa.dpsgd.delta(**run, epsilon=0.06, neighbors="remove", accountant=fa.RDP()) > 1e-10


def test_epsilon_without_a_line_is_where_that_bound_is_met():
    run = {"noise_multiplier": 0.1626896, "sample_rate": 0.0261977294, "steps": 32, "neighbors": "remove"}
    lower, upper, status = fa.dpsgd.epsilon_bounds(**run, delta=6e-29)
    assert status == fa.Status.LOOSE
    assert lower < 427.79 < upper < 450.0, "the truth, by a line that is not asked any more, is 427.78"
    assert fa.dpsgd.delta(**run, epsilon=upper) <= 6e-29


@pytest.mark.parametrize(
    "mechanism",
    [
        fa.ZCDP(0.0175).poisson(0.0255),
        fa.ZCDP(0.3, 0.1).poisson(0.2),
        fa.RDPCurve([2.0, 4.0, 16.0], [0.1, 0.2, 0.8]).poisson(0.1),
        fa.RepeatedSelection(fa.ZCDP(0.02), 10.0, eta=1.0),
    ],
    ids=repr,
)
def test_divergences_known_by_general_theorems_rise_with_the_order(mechanism):
    """What a theorem says at a larger order holds at all below it: 128, 150 and 200 fell from 0.00859 to 0.00818."""
    orders = np.concatenate([np.linspace(1.01, 12.0, 40), [64.0, 100.5, 128.0, 150.0, 200.0, 299.5, 300.0, 301.0, 1e4]])
    found = fa.rdp(mechanism, orders)
    assert np.isfinite(found).any()
    assert (found[1:] >= found[:-1] * (1.0 - 1e-11)).all()
