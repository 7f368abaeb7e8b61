"""A process may fork while another of its threads is computing: the child answers, with the same bits."""

import os
import pickle
import signal
import threading

import pytest

import fastacct as fa
from fastacct.core.kept import cached

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
SECONDS = 20
PARENT = os.getpid()
BEGUN, GO_ON = threading.Event(), threading.Event()


class Slow(fa.Mechanism):
    """Laplace noise whose losses, divergences or shape take as long as the parent of the children pleases."""

    scale: float
    where: str = "losses"

    def _wait(self, where):
        if where == self.where and os.getpid() == PARENT:
            BEGUN.set()
            assert GO_ON.wait(60.0)

    def losses(self, relation):
        self._wait("losses")
        return fa.Laplace(self.scale).losses(relation)

    def divergence(self, orders, relation):
        self._wait("divergence")
        return fa.Laplace(self.scale).divergence(orders, relation)

    @property
    def tight(self):
        return self.where == "losses"


def told_by_a_child(ask):
    """What `ask()` is in a forked child; an alarm ends one that hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(SECONDS)
            os.write(write, pickle.dumps(ask()))
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        told = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child hangs"
    return pickle.loads(told)


def while_a_thread_runs(work, ask):
    """What a child says that is forked while a thread is inside a mechanism's losses or divergence."""
    BEGUN.clear()
    GO_ON.clear()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert BEGUN.wait(60.0)
        return told_by_a_child(ask)
    finally:
        GO_ON.set()
        thread.join()


def plain():
    return fa.Laplace(3.0) * 2 + fa.from_pmf([0.5, 0.5], [0.4, 0.6]) * 3


@pytest.mark.parametrize("where", ["losses", "divergence"])
def test_a_child_asks_the_job_that_a_thread_is_computing(where):
    job, ask = plain() + Slow(5.0, where), lambda: fa.epsilon(job, delta=1e-3)
    found = while_a_thread_runs(ask, ask)
    assert found == fa.epsilon(plain() + Slow(5.0, where), delta=1e-3) == ask()


def test_a_child_asks_another_job():
    found = while_a_thread_runs(lambda: fa.epsilon(Slow(6.0) * 2, delta=1e-3), lambda: fa.epsilon(plain(), delta=1e-3))
    assert found == fa.epsilon(plain(), delta=1e-3)


def test_a_child_composes_with_an_accountant_that_a_thread_is_using():
    budget = fa.Accountant(epsilon=50.0, delta=1e-5)
    budget.compose(plain())

    def ask():
        budget.compose(fa.Laplace(7.0), 2)
        return budget.spent()

    found = while_a_thread_runs(lambda: budget.compose(Slow(7.0)), ask)
    assert found == fa.epsilon(plain() + fa.Laplace(7.0) * 2, delta=1e-5)
    assert budget.ledger == plain() + Slow(7.0)


def test_a_reader_that_a_thread_was_inside_begins_anew_and_others_keep_what_they_have():
    on_grid = fa.Skellam(30.0) * 3
    busy, idle = on_grid + Slow(8.0, "divergence"), on_grid + fa.Laplace(3.0)
    fa.epsilon(idle, delta=1e-3)

    def is_kept():
        return ["_sides" in vars(next(iter(vars(job)["kept_readers"].values()))) for job in (busy, idle)]

    found = while_a_thread_runs(lambda: fa.epsilon(busy, delta=1e-3), is_kept)
    assert (found, is_kept()) == ([False, True], [True, True])


def test_what_is_kept_is_computed_without_a_lock_and_the_first_value_stays():
    class Kept:
        @cached
        def value(self):
            """About it."""
            begun.wait()  # both threads are inside
            return object()

    begun, made, found = threading.Barrier(2, timeout=60.0), Kept(), []
    threads = [threading.Thread(target=lambda: found.append(made.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [made.value] * 2
    assert Kept.value.__doc__ == "About it."
