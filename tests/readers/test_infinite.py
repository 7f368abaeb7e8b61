"""Losses that only one distribution of a pair has, beside others: both directions, whatever is lost."""

import math

import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.readers import infinite

P, Q = (8, 5, 2, 1, 0), (4, 6, 2, 0, 4)
"""In sixteenths: a sixteenth is lost in one direction, a quarter in the other one."""
JOB = fa.from_pmf([one / 16 for one in P], [one / 16 for one in Q]) + fa.Gaussian(1.0)
SIDES = {"remove": (P, Q), "add": (Q, P)}


def delta_of(p, q, epsilon):
    """Delta of the table beside Gaussian noise: one of a Gaussian for each outcome, and what is lost."""
    total = mpf(0)
    for a, b in zip(p, q, strict=True):
        if a and b:
            at = mpf(epsilon) - mp.log(mpf(a) / b)
            total += mpf(a) / 16 * (mp.ncdf(mpf(1) / 2 - at) - mp.exp(at) * mp.ncdf(-mpf(1) / 2 - at))
        elif a:
            total += mpf(a) / 16
    return total


@pytest.mark.parametrize("way", SIDES)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 30.0])
def test_a_table_that_loses_something_beside_gaussian_noise(way, epsilon):
    with mp.workdps(30):
        truth = delta_of(*SIDES[way], epsilon)
        found = fa.delta_bounds(JOB, epsilon=epsilon, neighbors=way)
        assert found.lower <= truth <= found.upper
        assert found.upper <= truth * (1 + 1e-6)
        found = fa.log_delta_bounds(JOB, epsilon=epsilon, neighbors=way)
        assert found.lower <= mp.log(truth) <= found.upper


@pytest.mark.parametrize(("way", "delta"), [("remove", 0.1), ("remove", 0.3), ("add", 0.26), ("add", 0.5)])
def test_epsilons_meet_a_target_of_which_some_is_lost(way, delta):
    found = fa.epsilon_bounds(JOB, delta=delta, neighbors=way)
    with mp.workdps(30):
        assert delta_of(*SIDES[way], found.upper) <= delta <= delta_of(*SIDES[way], found.lower)
    assert found.status == fa.Status.TIGHT


@pytest.mark.parametrize("lost", [1e-260, 1e-300])
def test_what_is_lost_is_all_of_delta_where_nothing_else_is(lost):
    """So little that it is not seen before: 1 - (1 - lost)^2, beyond all other losses."""
    job = fa.from_pmf([0.5, 0.5, lost], [0.4, 0.6, 0.0]) * 2
    assert fa.delta(job, epsilon=50.0) >= 2.0 * lost * (1.0 - 1e-15)
    assert fa.delta_lower(job, epsilon=50.0) <= 2.0 * lost
    assert fa.log_delta_bounds(job, epsilon=50.0).upper >= math.log(2.0) + math.log(lost)
    assert fa.epsilon(job, delta=lost) == math.inf


@pytest.mark.parametrize("epsilon", [30.0, 39.0, 60.0, 1000.0])
def test_a_direction_that_loses_nothing_has_deltas_below_all_numbers(epsilon):
    """Of a table and a Gaussian: delta is more than nothing, and its logarithm a number."""
    job = fa.from_pmf([0.5, 0.5, 0.0], [0.4, 0.5, 0.1]) + fa.Gaussian(1.0)
    with mp.workdps(40):
        truth = mpf(0)
        for p, q in ((mpf(0.5), mpf(0.4)), (mpf(0.5), mpf(0.5))):
            at = epsilon - mp.log(p / q)
            truth += p * (mp.ncdf(mpf(1) / 2 - at) - mp.exp(at) * mp.ncdf(-mpf(1) / 2 - at))
        log_truth = float(mp.log(truth))
    found = fa.log_delta_bounds(job, epsilon=epsilon, neighbors="remove")
    assert found.lower <= log_truth <= found.upper
    assert found.upper - found.lower < 1e-6
    assert fa.delta(job, epsilon=epsilon, neighbors="remove") >= float(truth)
    assert fa.delta(job, epsilon=epsilon, neighbors="remove") > 0.0


@pytest.mark.parametrize("epsilon", [0.5, 2.5])
def test_a_direction_that_is_not_the_larger_one_does_not_decide_the_status(epsilon):
    """It was LOOSE at a width of 6e-14: in direction add, whose delta is next to nothing there, less is certified."""
    job = fa.ApproxDP(0.3, 1e-6).poisson(0.9) * 3
    for found in (fa.delta_bounds(job, epsilon=epsilon), fa.log_delta_bounds(job, epsilon=epsilon)):
        assert found.upper - found.lower <= 1e-6 * abs(found.upper)
        assert found.status == fa.Status.TIGHT


def test_no_line_is_asked_where_nothing_is_left_of_one(monkeypatch):
    monkeypatch.setattr(infinite, "read_job", lambda *_, **__: pytest.fail("a line was asked"))
    whole = fa.from_pmf([0.5, 0.49, 0.01, 0.0], [0.3, 0.69, 0.0, 0.01]) * 10_000 + fa.Gaussian(1.0)
    found = fa.delta_bounds(whole, epsilon=[0.0, 1.0, 500.0], neighbors="remove")
    assert (found.lower > 1.0 - 1e-14).all()
    assert (found.upper == 1.0).all()
    assert fa.epsilon_lower(whole, delta=0.3, neighbors="remove") == math.inf
