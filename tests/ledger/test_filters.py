"""Filters of a budget: they admit what their notion admits, whatever the budget, and refuse the rest."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import fastacct as fa
from fastacct.ledger.filters import UNIT, _up

STEP = fa.Gaussian(1.0).poisson(0.01)


def test_filters_admit_what_their_notion_admits():
    """mu = sqrt(n)/sigma, rho = n/(2 sigma^2), order: by the definitions."""
    target = {"epsilon": 2.0, "delta": 1e-6}
    mu = fa.calibrate(fa.GDP, **target, bracket=(1e-6, 1e3))
    assert fa.Accountant(**target, filter="gdp").remaining(fa.Gaussian(100.0)) == math.floor(mu**2 * 1e4 * (1 - 1e-12))
    rho = fa.calibrate(fa.ZCDP, **target, bracket=(1e-6, 1e3))
    assert fa.Accountant(**target, filter="zcdp").remaining(fa.Gaussian(100.0)) == math.floor(2e4 * rho * (1 - 1e-12))
    by_order = fa.Accountant(**target, filter="rdp", order=12.0)
    limit = 2.0 - (fa.convert.rdp_to_epsilon(12.0, 1.0, 1e-6) - 1.0)
    assert by_order.remaining_budget() == pytest.approx(limit, rel=2e-13, abs=0.0)  # its rounding down
    each = fa.rdp(STEP, 12.0)
    assert by_order.remaining(STEP) == math.floor(limit / each * (1 - 1e-10))


def test_sums_of_a_filter_are_told_rounded_up():
    """A sum is a whole number of units, with more digits than a float has."""
    rng = np.random.default_rng(47)
    for digits in (20, 300, 1000, 1100):
        for _ in range(50):
            units = sum(int(word) << 30 * k for k, word in enumerate(rng.integers(1, 2**30, digits // 30)))
            truth = Fraction(units, UNIT)
            assert truth <= Fraction(_up(units)) <= truth * (1 + Fraction(1, 10**15))


def test_filters_refuse_what_has_no_such_guarantee():
    with pytest.raises(ValueError, match="filter 'gdp' adds Gaussian mechanisms only"):
        fa.Accountant(epsilon=1.0, delta=1e-5, filter="gdp").would_exceed(STEP)
    with pytest.raises(ValueError, match="zero-concentrated"):
        fa.Accountant(epsilon=1.0, delta=1e-5, filter="zcdp").would_exceed(STEP)
    assert fa.Accountant(epsilon=1.0, delta=1e-5, filter="rdp").would_exceed(fa.ApproxDP(0.1, 1e-9))
    with pytest.raises(ValueError, match="order"):
        fa.Accountant(epsilon=0.1, delta=1e-9, filter="rdp", order=1.5)


def test_replace_one_moves_the_sum_twice_as_far_in_every_filter():
    for kind in ("gdp", "zcdp", "rdp"):
        one, two = (
            fa.Accountant(epsilon=2.0, delta=1e-6, filter=kind, neighbors=n) for n in ("add_remove", "replace_one")
        )
        assert one.remaining(fa.Gaussian(100.0)) // 4 == two.remaining(fa.Gaussian(100.0))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(5.0, 1e3), min_size=1, max_size=12), st.sampled_from(["gdp", "zcdp", "rdp"]))
def test_sums_do_not_depend_on_the_order_and_reload_exactly(noises, kind):
    there, back = (fa.Accountant(epsilon=50.0, delta=1e-6, filter=kind, neighbors="remove") for _ in range(2))
    for noise in noises:
        there.compose(fa.Gaussian(noise))
    for noise in reversed(noises):
        back.compose(fa.Gaussian(noise))
    again = fa.Accountant.from_json(there.to_json())
    assert there._sum == back._sum == again._sum
    assert there.spent() == back.spent() == again.spent()
    assert there.odometer() >= there.spent() - 1e-12 or kind != "rdp"


@pytest.mark.parametrize("kind", ["gdp", "zcdp", "rdp"])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-6, 1e-12), (1e-8, 1e-6), (1e-4, 1e-300), (1e3, 1e-300), (1e12, 1e-6), (1e-3, 0.9)]
)
def test_filters_take_every_budget(kind, epsilon, delta):
    budget = fa.Accountant(epsilon=epsilon, delta=delta, filter=kind)
    noise = budget.calibrate(fa.Gaussian, bracket=(1e-9, 1e12))
    assert budget.would_exceed(fa.Gaussian(noise * (1.0 - 1e-6)))
    budget.compose(fa.Gaussian(noise))
    assert budget.spent() <= epsilon
    assert fa.epsilon(budget.ledger, delta=delta) <= epsilon


def test_small_budgets_of_concentrated_dp_are_not_wasted():
    """rho alpha + log(1/delta)/(alpha - 1) <= epsilon at the best alpha needs about epsilon^2 / (4 log(1/delta))."""
    budget = fa.Accountant(epsilon=1e-6, delta=1e-12, filter="zcdp")
    assert 1.0 <= budget.remaining_budget() / (1e-12 / (4.0 * math.log(1e12))) < 4.0
    rho = mp.mpf(budget.remaining_budget())

    def proved(order):
        return rho * order + mp.log1p(-1 / order) - (mp.log(mp.mpf("1e-12")) + mp.log(order)) / (order - 1)

    mp.dps = 40
    least = min(proved(mp.mpf(10) ** (mp.mpf(i) / 200)) for i in range(1200, 1800))
    assert least == pytest.approx(1e-6, rel=1e-4, abs=0.0)  # 200 orders a decade
    assert least >= 1e-6 * (1 - 1e-4)


@pytest.mark.parametrize("kind", ["gdp", "zcdp"])
def test_orders_of_an_odometer_share_delta(kind):
    """The union of 32 events, each of probability delta/32: a bound at the best order after the outputs are seen."""
    budget = fa.Accountant(delta=1e-6, filter=kind, neighbors="remove")
    budget.compose(fa.Gaussian(2.0), 5)
    with mp.workdps(30):
        rho, each = mp.mpf(5) / 8, mp.log(32 / mp.mpf(1e-6))
        truth = min(rho * (1 + mp.mpf(2) ** i) + each / mp.mpf(2) ** i for i in range(-8, 24))
        assert truth <= budget.odometer() <= truth * (1 + 1e-12)
