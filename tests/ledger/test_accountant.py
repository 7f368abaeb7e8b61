"""Budgets: refusal before recording, calibration of the rest, and decisions that are those made from scratch."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastacct as fa
from fastacct.ledger import accountant

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


@pytest.mark.parametrize("kind", ["none", "gdp", "zcdp", "rdp"])
def test_the_rest_of_the_run_is_calibrated_given_the_history(kind):
    budget = fa.Accountant(epsilon=2.0, delta=1e-6, filter=kind)
    budget.compose(fa.Gaussian(20.0), 30)
    sigma = budget.calibrate(lambda s: fa.Gaussian(s) * 100)
    assert not budget.would_exceed(fa.Gaussian(sigma) * 100)
    assert budget.would_exceed(fa.Gaussian(sigma * (1.0 - 1e-6)) * 100)


def test_the_rest_of_a_mixed_run_is_calibrated_given_the_history():
    mixed = fa.Accountant(epsilon=2.0, delta=1e-6)
    mixed.compose(STEP * 100 + fa.Laplace(10.0))
    rate = mixed.calibrate(lambda q: fa.Gaussian(1.0).poisson(q) * 500, bracket=(0.0, 1.0))
    assert 0.0 < rate < 1.0
    assert not mixed.would_exceed(fa.Gaussian(1.0).poisson(rate) * 500)


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
        start = time.process_time()
        for noise in noises:
            budget.compose(fa.Gaussian(noise))
        return time.process_time() - start

    budget = fa.Accountant(epsilon=1e6, delta=1e-6, filter="gdp", neighbors="remove")
    noises = np.linspace(100.0, 200.0, 3200)
    first = seconds(budget, noises[:200])
    seconds(budget, noises[200:3000])
    assert seconds(budget, noises[3000:]) < 4.0 * first  # a cost that grows with the history would be 16 times more


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


def test_without_a_budget_an_accountant_is_a_ledger():
    ledger = fa.Accountant(delta=1e-5)
    ledger.compose(STEP, 10**6)
    assert not ledger.would_exceed(fa.Gaussian(0.1))
    assert ledger.spent() == fa.epsilon(STEP * 10**6, delta=1e-5)
    assert ledger.spent(1e-7) == fa.epsilon(STEP * 10**6, delta=1e-7)
    assert fa.Accountant.from_json(ledger.to_json()).ledger == ledger.ledger
    with pytest.raises(TypeError, match="delta is missing"):
        fa.Accountant().spent()
    for ask in (lambda: ledger.remaining(STEP), ledger.remaining_budget, lambda: ledger.calibrate(fa.Gaussian)):
        with pytest.raises(ValueError, match="without a budget"):
            ask()
    with pytest.raises(TypeError, match="give delta"):
        fa.Accountant(epsilon=1.0)
    with pytest.raises(TypeError, match="needs an order"):
        fa.Accountant(filter="rdp")
    with pytest.raises(ValueError, match="replace_one"):
        fa.Accountant(neighbors="replace_one").compose(fa.Parallel(STEP, STEP * 2))
    by_order = fa.Accountant(filter="rdp", order=8.0)
    by_order.compose(STEP, 100)
    assert by_order.odometer(1e-6) >= 100 * fa.rdp(STEP, 8.0) + math.log(1e6) / 7.0


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([15.0, 20.0, 40.0]), st.integers(0, 40)), min_size=1, max_size=25),
    st.sampled_from(["none", "gdp", "zcdp", "rdp"]),
)
def test_every_decision_is_the_one_made_from_scratch(requests, kind):
    def fresh(job):
        return fa.Accountant(epsilon=1.0, delta=1e-5, filter=kind).would_exceed(job)

    budget = fa.Accountant(epsilon=1.0, delta=1e-5, filter=kind)
    for noise, count in requests:
        whole = budget.ledger + fa.Gaussian(noise) * count
        try:
            budget.compose(fa.Gaussian(noise), count)
        except fa.BudgetExceededError:
            assert fresh(whole)
        else:
            assert not fresh(whole)
            assert budget.ledger == whole
    assert fa.epsilon(budget.ledger, delta=1e-5) <= 1.0


@pytest.mark.parametrize("kind", ["none", "gdp", "zcdp", "rdp"])
def test_a_step_seen_before_is_not_computed_again(kind, monkeypatch):
    """By counting what is computed: times depend on the machine."""
    budget, calls = fa.Accountant(epsilon=50.0, delta=1e-6, filter=kind), []
    step = fa.Gaussian(50.0)
    read = ((accountant, "epsilon"),) if kind == "none" else ((fa.Process, "decompose"), (fa.Process, "divergence"))
    for place, name in read:
        true = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *a, true=true, **k: (calls.append(1), true(*a, **k))[1])
    budget.compose(step)
    first = len(calls)
    assert first
    for _ in range(2000):
        budget.compose(fa.Gaussian(50.0))
    assert len(calls) - first <= (8 if kind == "none" else 0)


@pytest.mark.parametrize("count", [6, 26, 126])
def test_steps_that_are_looked_at_ahead_fit_the_budget_themselves(count):
    """Budgets a little below what a step that was seen before is compared with: four times as much again."""
    budget = fa.Accountant(epsilon=fa.epsilon(fa.Gaussian(30.0) * count, delta=1e-5) * (1.0 - 5e-7), delta=1e-5)
    for _ in range(count - 1):
        budget.compose(fa.Gaussian(30.0))
    with pytest.raises(fa.BudgetExceededError):
        budget.compose(fa.Gaussian(30.0))
    assert budget.ledger == fa.Gaussian(30.0) * (count - 1)
    assert budget.spent() <= budget.budget
