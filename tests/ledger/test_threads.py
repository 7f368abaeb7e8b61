"""A budget is never overspent: threads, crashes, signals and forks."""

import os
import signal
import sys
import threading
import time

import pytest

import fastacct as fa
from fastacct.ledger import accountant


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
