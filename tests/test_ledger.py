"""Budgets: refusal before recording, exact sums, saved state, filters against what they must not exceed."""

import copy
import json
import math
import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import fastacct as fa
from fastacct.ledger import accountant
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


def test_the_rest_of_a_mixed_run_is_calibrated_given_the_history():
    mixed = fa.Accountant(epsilon=2.0, delta=1e-6)
    mixed.compose(STEP * 100 + fa.Laplace(10.0))
    rate = mixed.calibrate(lambda q: fa.Gaussian(1.0).poisson(q) * 500, bracket=(0.0, 1.0))
    assert 0.0 < rate < 1.0
    assert not mixed.would_exceed(fa.Gaussian(1.0).poisson(rate) * 500)


def test_the_state_of_every_mechanism_comes_back_bit_for_bit():
    for mechanism in examples():
        relation = mechanism.relations[0]
        budget = fa.Accountant(neighbors=relation)
        budget.compose(mechanism, 3)
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


# -- ledgers, copies, saved states ----------------------------------------------------------------------------------


SAVED = json.loads((Path(__file__).parent / "data" / "accountant_states.json").read_text())


@pytest.mark.parametrize("name", SAVED["filters"])
def test_states_of_the_first_version_still_load(name):
    saved = SAVED["filters"][name]
    budget = fa.Accountant.from_json(saved["state"])
    assert budget.to_json() == saved["state"]
    if name == "none":  # the version before it read the Laplace noise in it on another grid
        bounds = fa.epsilon_bounds(budget.ledger, delta=budget.delta)
        assert budget.spent() == bounds.upper
        assert bounds.lower <= saved["spent"] <= bounds.upper * (1.0 + 1e-4)
        assert bounds.upper <= saved["spent"] * (1.0 + 1e-4)
    else:
        assert budget.spent() == pytest.approx(saved["spent"], rel=1e-11)
    assert budget.remaining(fa.Gaussian(50.0)) == saved["remaining_gaussian_50"]


def _as_now(value):
    """A state of the first version with the names of this one, and parameters that it did not have."""
    if isinstance(value, list):
        return [_as_now(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _as_now(one) for name, one in value.items()}
    if "kind" in found:
        found["kind"] = {"Sampled": "PoissonSampled", "GroupOf": "Grouped"}.get(found["kind"], found["kind"])
    return found | ({"monotone": False} if found.get("kind") == "PermuteAndFlip" else {})


def test_the_state_of_the_first_version_with_every_mechanism_still_loads():
    budget = fa.Accountant.from_json(SAVED["every_mechanism"])
    assert json.loads(budget.to_json()) == _as_now(json.loads(SAVED["every_mechanism"]))
    again = fa.Accountant.from_json(budget.to_json())
    assert (again.to_json(), again.ledger) == (budget.to_json(), budget.ledger)
    known = set(examples())
    assert {one for one, _ in budget.ledger} <= known
    assert len(budget.ledger) >= 60


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


@pytest.mark.parametrize("kind", ["none", "gdp", "zcdp", "rdp"])
@pytest.mark.parametrize("copied", [fa.Accountant.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_a_ledger_of_its_own(kind, copied):
    one = fa.Accountant(epsilon=2.0, delta=1e-6, filter=kind)
    one.compose(fa.Gaussian(20.0), 5)
    two = copied(one)
    assert (two.to_json(), two.spent()) == (one.to_json(), one.spent())
    two.compose(fa.Gaussian(20.0), 5)
    assert one.ledger == fa.Gaussian(20.0) * 5
    assert two.ledger == fa.Gaussian(20.0) * 10
    assert two.spent() > one.spent()


# -- never overspent ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "gdp", "zcdp", "rdp"])
def test_eight_threads_together_admit_exactly_what_one_does(kind, monkeypatch):
    step, other = fa.Gaussian(25.0), fa.Gaussian(30.0).group(2)
    record = fa.Accountant._record

    def slowly(self, steps):
        time.sleep(0.002)  # time enough between decision and record for all the others to decide
        record(self, steps)

    monkeypatch.setattr(fa.Accountant, "_record", slowly)
    alone = fa.Accountant(epsilon=1.0, delta=1e-5, filter=kind)
    alone.compose(other, 3)
    most = alone.remaining(step)
    for pause in (True, False, False):
        if not pause:
            monkeypatch.undo()
        budget = fa.Accountant(epsilon=1.0, delta=1e-5, filter=kind)
        budget.compose(other, 3)
        admitted, start = [0] * 8, threading.Barrier(8)

        def hammer(i, budget=budget, admitted=admitted, start=start):
            start.wait()
            refused = 0
            while refused < 3:  # retries change nothing
                try:
                    budget.compose(fa.Gaussian(25.0))
                    admitted[i] += 1
                except fa.BudgetExceededError:
                    refused += 1

        _in_threads(hammer)
        assert sum(admitted) == most
        assert budget.ledger == step * most + other * 3
        assert budget.spent() <= 1.0
        assert fa.epsilon(budget.ledger, delta=1e-5) <= 1.0
        assert fa.Accountant.from_json(budget.to_json())._sum == budget._sum


def _in_threads(work):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_threads_that_read_while_others_compose_see_a_ledger_that_was_there():
    budget, start = fa.Accountant(epsilon=1e5, delta=1e-6, filter="gdp", neighbors="remove"), threading.Barrier(8)
    errors = []

    def work(i):
        start.wait()
        try:
            for n in range(60):
                if i % 2:
                    budget.compose(fa.Gaussian(10.0 + n + i))
                else:
                    again = fa.Accountant.from_json(budget.copy().to_json())
                    assert again._sum <= budget._sum
        except Exception as error:
            errors.append(error)

    _in_threads(work)
    assert not errors
    assert sum(count for _, count in budget.ledger) == 240


@pytest.mark.parametrize("kind", ["none", "zcdp"])
def test_a_crash_inside_compose_records_nothing_and_leaves_no_lock_behind(kind, monkeypatch):
    budget = fa.Accountant(epsilon=1.0, delta=1e-5, filter=kind)
    before = budget.to_json()
    with monkeypatch.context() as patch:
        patch.setattr("fastacct.ledger.accountant.epsilon", _crash)
        patch.setattr("fastacct.mechanisms.process.Process.decompose", _crash)
        with pytest.raises(KeyboardInterrupt):
            budget.compose(fa.Gaussian(20.0))
    assert budget.to_json() == before
    found = []
    thread = threading.Thread(target=lambda: found.append(budget.compose(fa.Gaussian(20.0))), daemon=True)
    thread.start()
    thread.join(60.0)
    assert found == [None]


def _crash(*args, **keywords):
    raise KeyboardInterrupt


def test_compose_inside_compose_is_refused(monkeypatch):
    """As a signal handler could: it would come between the decision and the record."""
    budget = fa.Accountant(epsilon=1.0, delta=1e-5)
    true, inner = accountant.epsilon, []

    def with_handler(*args, **keywords):
        with pytest.raises(RuntimeError, match="inside compose"):
            budget.compose(fa.Gaussian(20.0))
        inner.append(1)
        return true(*args, **keywords)

    monkeypatch.setattr(accountant, "epsilon", with_handler)
    budget.compose(fa.Gaussian(20.0))
    assert inner
    assert budget.ledger == fa.Gaussian(20.0) * 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_copy_that_works_while_a_thread_of_its_parent_held_the_lock():
    budget = fa.Accountant(epsilon=1.0, delta=1e-5, filter="gdp")
    budget.compose(fa.Gaussian(20.0), 2)
    held, release = threading.Event(), threading.Event()

    def hold():
        with budget._lock:
            budget._busy = True
            held.set()
            release.wait(60.0)
            budget._busy = False

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60.0)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a deadlock ends the child
        try:
            budget.compose(fa.Gaussian(20.0))
            os._exit(0 if budget.ledger == fa.Gaussian(20.0) * 3 else 1)
        finally:
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert budget.ledger == fa.Gaussian(20.0) * 2


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


# -- budgets far from the usual ones --------------------------------------------------------------------------------


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
    assert least == pytest.approx(1e-6, rel=1e-3)
    assert least >= 1e-6 * (1 - 1e-3)


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
