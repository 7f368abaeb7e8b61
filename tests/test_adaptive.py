"""Budgets: refusal before recording, exact sums, saved state, filters against what they must not exceed."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastacct as fa
from fastacct.testing import examples

STEP = fa.Gaussian(1.0).poisson(0.01)


def test_without_a_filter_the_ledger_is_the_job():
    budget = fa.Accountant(epsilon=3.0, delta=1e-5)
    for _ in range(10):
        budget.compose(STEP, 100)
    budget.compose(fa.Laplace(20.0))
    assert budget.ledger == STEP * 1000 + fa.Laplace(20.0)
    assert budget.spent() == fa.epsilon(STEP * 1000 + fa.Laplace(20.0), delta=1e-5)


@pytest.mark.parametrize("kind", ["none", "gdp", "zcdp", "rdp"])
def test_what_does_not_fit_is_refused_and_not_recorded(kind):
    budget = fa.Accountant(epsilon=1.0, delta=1e-5, filter=kind)
    step = fa.Gaussian(20.0)
    most = budget.remaining(step)
    budget.compose(step, most)
    before = budget.to_json()
    assert budget.would_exceed(step)
    with pytest.raises(fa.BudgetExceededError, match="does not fit"):
        budget.compose(step)
    assert budget.to_json() == before
    assert budget.remaining(step) == 0
    assert fa.epsilon(budget.ledger, delta=1e-5) <= 1.0  # no filter admits more than the exact curve
    assert budget.remaining_budget() >= 0.0


def test_filters_admit_what_their_notion_admits():
    """mu = sqrt(n)/sigma, rho = n/(2 sigma^2), order: by the definitions."""
    target = {"epsilon": 2.0, "delta": 1e-6}
    mu = fa.calibrate(fa.GDP, **target, bracket=(1e-6, 1e3))
    assert fa.Accountant(**target, filter="gdp").remaining(fa.Gaussian(100.0)) == math.floor(mu**2 * 1e4 * (1 - 1e-12))
    rho = fa.calibrate(fa.ZCDP, **target, bracket=(1e-6, 1e3))
    assert fa.Accountant(**target, filter="zcdp").remaining(fa.Gaussian(100.0)) == math.floor(2e4 * rho * (1 - 1e-12))
    by_order = fa.Accountant(**target, filter="rdp", order=12.0)
    limit = 2.0 - (fa.convert.rdp_to_epsilon(12.0, 1.0, 1e-6) - 1.0)
    assert by_order.remaining_budget() == pytest.approx(limit, rel=1e-12)
    each = fa.rdp(STEP, 12.0)
    assert by_order.remaining(STEP) == math.floor(limit / each * (1 - 1e-10))


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


@pytest.mark.parametrize("kind", ["none", "gdp", "zcdp", "rdp"])
def test_the_rest_of_the_run_is_calibrated_given_the_history(kind):
    budget = fa.Accountant(epsilon=2.0, delta=1e-6, filter=kind)
    budget.compose(fa.Gaussian(20.0), 30)
    sigma = budget.calibrate(lambda s: fa.Gaussian(s) * 100)
    assert not budget.would_exceed(fa.Gaussian(sigma) * 100)
    assert budget.would_exceed(fa.Gaussian(sigma * (1.0 - 1e-6)) * 100)
    mixed = fa.Accountant(epsilon=2.0, delta=1e-6)
    mixed.compose(STEP * 100 + fa.Laplace(10.0))
    rate = mixed.calibrate(lambda q: fa.Gaussian(1.0).poisson(q) * 500, bracket=(0.0, 1.0))
    assert 0.0 < rate < 1.0
    assert not mixed.would_exceed(fa.Gaussian(1.0).poisson(rate) * 500)


def test_the_state_of_every_mechanism_comes_back_bit_for_bit():
    for mechanism in examples():
        relation = mechanism.relations[0]
        budget = fa.Accountant(epsilon=1e6, delta=0.999, neighbors=relation)
        budget._ledger[mechanism] = 3
        again = fa.Accountant.from_json(budget.to_json())
        assert again.ledger == budget.ledger
        assert again.to_json() == budget.to_json()


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


def test_the_odometer_bounds_the_loss_at_all_times():
    """Adaptive Gaussian noises that look at the loss so far: how often it ever exceeds the odometer."""
    rng, delta, bad = np.random.default_rng(4), 0.05, 0
    for _ in range(400):
        budget, loss, over = fa.Accountant(epsilon=100.0, delta=delta, filter="zcdp", neighbors="remove"), 0.0, False
        for _ in range(12):
            sigma = 2.0 if loss > 0.0 else 4.0
            budget.compose(fa.Gaussian(sigma))
            loss += rng.normal(0.5 / sigma**2, 1.0 / sigma)
            over |= loss > budget.odometer()
        bad += over
    assert bad <= 0.05 * 400 + 3.0 * math.sqrt(0.05 * 0.95 * 400)


def test_a_step_costs_the_same_after_a_long_history():
    def seconds(budget, noises):
        start = time.perf_counter()
        for noise in noises:
            budget.compose(fa.Gaussian(noise))
        return time.perf_counter() - start

    budget = fa.Accountant(epsilon=1e6, delta=1e-6, filter="gdp", neighbors="remove")
    noises = np.linspace(100.0, 200.0, 3200)
    first = seconds(budget, noises[:200])
    seconds(budget, noises[200:3000])
    assert seconds(budget, noises[3000:]) < 4.0 * first  # a cost that grows with the history would be 16 times more


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s.update(version=2), "version = 2"),
        (lambda s: s.update(format="other"), "format"),
        (lambda s: s.pop("ledger"), "damaged"),
        (lambda s: s["ledger"][0]["mechanism"].update(kind="Unknown"), "kind = 'Unknown'"),
        (lambda s: s["ledger"][0].update(count=-1), "count"),
        (lambda s: s["ledger"][0]["mechanism"].pop("noise_multiplier"), "damaged"),
    ],
)
def test_a_damaged_state_is_refused(damage, message):
    budget = fa.Accountant(epsilon=3.0, delta=1e-5)
    budget.compose(fa.Gaussian(5.0), 3)
    state = json.loads(budget.to_json())
    damage(state)
    with pytest.raises(ValueError, match=message):
        fa.Accountant.from_json(json.dumps(state))
    with pytest.raises(ValueError, match="not the state"):
        fa.Accountant.from_json("{")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"filter": "exact"}, "filter"),
        ({"order": 3.0}, "order"),
        ({"neighbors": "other"}, "neighbors"),
    ],
)
def test_bad_budgets_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        fa.Accountant(**{"epsilon": 1.0, "delta": 1e-5, **keywords})


def test_arrays_are_refused():
    with pytest.raises(TypeError, match="plain numbers"):
        fa.Accountant(epsilon=1.0, delta=1e-5).compose(fa.Gaussian(np.array([1.0, 2.0])))


# -- parallel composition ----------------------------------------------------------------------------------------------


def test_parallel_is_the_largest_and_composes():
    a, b = fa.Laplace(2.0) * 2, fa.Gaussian(1.0)
    both = fa.Parallel(a, b)
    for epsilon in (0.1, 0.9):
        expected = np.maximum(*(np.array(fa.delta_bounds(job, epsilon=epsilon)) for job in (a, b)))
        np.testing.assert_array_equal(np.array(fa.delta_bounds(both, epsilon=epsilon)), expected)
    assert fa.delta(fa.Parallel(b, b) * 2, epsilon=1.0) == fa.delta(b * 2, epsilon=1.0)
    orders = np.array([1.5, 2.0, 8.0])
    np.testing.assert_allclose(fa.rdp(both, orders), np.maximum(fa.rdp(a, orders), fa.rdp(b, orders)), rtol=1e-12)
    assert fa.delta(both * 2, epsilon=1.0) >= fa.delta(b * 2, epsilon=1.0)
    with pytest.raises(ValueError, match="replace_one"):
        fa.delta(both, epsilon=1.0, neighbors="replace_one")
    with pytest.raises(ValueError, match="different parts"):
        both.group(2)
    with pytest.raises(TypeError, match=r"jobs\[1\]"):
        fa.Parallel(b, fa.Gaussian(np.array([1.0, 2.0])) * 1)
