"""Gradients of epsilon and log delta where runs, rates and targets end."""

import math

import numpy as np
import pytest
from mpmath import mp

import fastacct as fa
from fastacct import reference
from tests.verbs.test_gradient import LOOSE, NAMES, NOT_MET, TIGHT, run_of


@pytest.mark.parametrize("neighbors", ["remove", "add"])
def test_all_records_have_the_derivative_by_the_rate_from_below(neighbors):
    run, h = run_of(2.0, 1.0, 50), 1e-5
    found = fa.dpsgd.delta_gradient(**run, epsilon=1.0, neighbors=neighbors).sample_rate
    near = fa.dpsgd.delta_gradient(**run | {"sample_rate": [1.0 - h, 1.0 - 2.0 * h]}, epsilon=1.0, neighbors=neighbors)
    assert found == pytest.approx(2.0 * near.sample_rate[0] - near.sample_rate[1], rel=1e-7)


def test_below_all_records_the_larger_direction_falls_least():
    run = run_of(2.0, 1.0, 50)
    both = fa.dpsgd.epsilon_gradient(**run, delta=1e-4)
    each = [fa.dpsgd.epsilon_gradient(**run, delta=1e-4, neighbors=one).sample_rate for one in ("remove", "add")]
    assert both.sample_rate == min(each) < max(each)
    assert both.direction == "both"


@pytest.mark.parametrize(
    ("change", "value", "status"),
    [
        ({"sample_rate": 0.0}, 0.0, TIGHT),
        ({"steps": 0}, 0.0, TIGHT),
        ({"noise_multiplier": math.inf}, 0.0, TIGHT),
        ({"noise_multiplier": 0.0}, math.nan, NOT_MET),
        ({"noise_multiplier": 0.0, "delta": 1.0}, 0.0, TIGHT),
        ({"delta": 1.0}, 0.0, TIGHT),
        ({"delta": 0.9}, 0.0, TIGHT),  # above delta(0)
        ({"delta": 0.0}, math.nan, NOT_MET),
        ({"steps": 12.5}, math.nan, LOOSE),
        ({"noise_multiplier": 1e-3, "delta": 1e-300}, math.nan, LOOSE),
    ],
)
def test_edge_cases_of_epsilon(change, value, status):
    found = fa.dpsgd.epsilon_gradient(**run_of(1.0, 0.1, 100) | {"delta": 1e-5} | change)
    for one, error in zip(found[:3], found.errors_approx, strict=True):
        assert one == value or (math.isnan(one) and math.isnan(value))
        assert error == (0.0 if value == 0.0 else math.inf)
    assert found.status == status


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"sample_rate": 0.0}, NOT_MET),
        ({"noise_multiplier": math.inf}, NOT_MET),
        ({"noise_multiplier": 0.0}, NOT_MET),
        ({"epsilon": math.inf}, NOT_MET),
        ({"epsilon": 11.0, "neighbors": "add"}, NOT_MET),  # beyond the largest loss, 10.5
        ({"steps": 99.5}, LOOSE),
    ],
)
def test_edge_cases_of_delta(change, status):
    found = fa.dpsgd.delta_gradient(**run_of(1.0, 0.1, 100) | {"epsilon": 1.0} | change)
    assert np.isnan(found[:4]).all()
    assert np.isinf(found.errors_approx).all()
    assert found.status == status


def test_the_largest_loss_of_an_added_record_has_a_gradient():
    found = fa.dpsgd.epsilon_gradient(**run_of(1.0, 0.1, 100), delta=0.0, neighbors="add")
    assert found[:2] == (0.0, pytest.approx(100 / 0.9, rel=1e-15))
    assert found.steps == pytest.approx(-math.log1p(-0.1), rel=1e-15)
    assert (found.direction, found.status) == ("add", TIGHT)


def test_both_directions_tie_at_epsilon_0():
    run = run_of(3.0, 0.3, 100)
    both, remove, add = (
        fa.dpsgd.delta_gradient(**run, epsilon=0, neighbors=x) for x in ("add_remove", "remove", "add")
    )
    assert both.direction == "both"
    assert both[:4] == remove[:4]
    for name in NAMES:
        assert getattr(add, name) == pytest.approx(getattr(remove, name), rel=1e-8)


def test_one_to_nine_steps_have_no_derivative_by_steps():
    found = fa.dpsgd.epsilon_gradient(**run_of(1.0, 0.1, [1, 9, 10, 90]), delta=1e-6)
    assert np.isnan(found.steps).tolist() == [True, True, False, False]
    assert np.isfinite([found.noise_multiplier, found.sample_rate]).all()
    assert found.status.tolist() == [LOOSE, LOOSE, LOOSE, TIGHT]
    assert np.isfinite(found.errors_approx[2][2])


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "part"), [(0.7, 0.02, 20, 0.5), (0.7, 0.02, 300, 0.5), (2.5, 0.18, 100, 0.7)]
)
def test_next_to_the_largest_loss_whole_steps_alone_count(noise, rate, steps, part):
    """What the formula gives between whole numbers of added steps has other derivatives there."""
    epsilon = -part * steps * math.log1p(-rate)

    def log_delta(n):
        bounds = fa.dpsgd.delta_bounds(**run_of(noise, rate, n), epsilon=epsilon, neighbors="add")
        assert bounds.status == TIGHT
        return math.log(0.5 * (bounds.lower + bounds.upper))

    near, far, farther = ((log_delta(steps + k) - log_delta(steps - k)) / (2 * k) for k in (1, 2, 3))
    exact, fewer = (15.0 * near - 6.0 * far + farther) / 10.0, (4.0 * near - far) / 3.0
    found = fa.dpsgd.delta_gradient(**run_of(noise, rate, steps), epsilon=epsilon, neighbors="add")
    assert abs(found.steps - exact) <= found.errors_approx[2] + abs(exact - fewer)


@pytest.mark.parametrize("neighbors", ["remove", "add"])
@pytest.mark.parametrize("less", [0.3, 1e-2, 1e-4])
def test_epsilons_next_to_0_move_as_delta_does_or_not_at_all(neighbors, less):
    run = run_of(2.0, 0.02, 400)
    delta = fa.dpsgd.delta(**run, epsilon=0.0, neighbors=neighbors) * (1.0 - less)
    epsilon = fa.dpsgd.epsilon(**run, delta=delta, neighbors=neighbors)
    of_epsilon = fa.dpsgd.epsilon_gradient(**run, delta=delta, neighbors=neighbors)
    of_delta = fa.dpsgd.delta_gradient(**run, epsilon=epsilon, neighbors=neighbors)
    for name, error in zip(NAMES, of_epsilon.errors_approx, strict=True):
        quotient = -getattr(of_delta, name) / of_delta.epsilon
        if error < math.inf:
            assert abs(getattr(of_epsilon, name) - quotient) <= error + 1e-7 * abs(quotient), name
    assert np.isfinite(of_epsilon[:2]).all()


@pytest.mark.parametrize("neighbors", ["remove", "add"])
@pytest.mark.parametrize("missing", [1e-2, 1e-4, 1e-7])
def test_next_to_all_records_the_error_is_known(neighbors, missing):
    noise, steps, h = 0.5, 1, mp.mpf(10) ** -14
    found = fa.dpsgd.delta_gradient(**run_of(noise, 1.0 - missing, steps), epsilon=2.0, neighbors=neighbors)
    rate = mp.mpf(1.0 - missing)
    with mp.workdps(60):
        ends = [
            mp.log(reference.exact_delta(noise, x, 1, 2.0, direction=neighbors, digits=40))
            for x in (rate + h, rate - h)
        ]
        assert abs(found.sample_rate - (ends[0] - ends[1]) / (2 * h)) <= found.errors_approx[1]
