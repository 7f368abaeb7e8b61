"""Marks of seeds that a guard keeps, with an engine that stands for that of Opacus."""

from types import SimpleNamespace

import pytest

from fastacct.training.opacus import Guard

PROGRAM, AGAIN = object(), "the loader's generator draws the same batches again"


class Accountant:
    sampling = "poisson"

    def __init__(self):
        self.history, self.seeds = [], set()

    def mechanism(self):
        return "fastacct"

    def optimizer(self):
        """One whose steps are recorded, as make_private returns it, and the sampler of its loader."""
        used = SimpleNamespace(sampler=SimpleNamespace(marks=[]))

        def record(optimizer):
            self.history.append(used)

        made = SimpleNamespace(step_hook=record)
        made.attach_step_hook = lambda hook: vars(made).update(step_hook=hook)
        return made, used.sampler


def begin(state, generator=PROGRAM, seed=1):
    """What a sampler notes where a pass begins."""
    given = SimpleNamespace(numpy=lambda: SimpleNamespace(tobytes=state.encode))
    return generator, given, seed


def step(optimizer):
    optimizer.step_hook(optimizer)


def guarded(accountant):
    engine = SimpleNamespace(accountant=accountant, get_epsilon=lambda delta: 0.1 * len(accountant.history))
    optimizer, sampler = accountant.optimizer()
    return Guard(engine, optimizer, delta=1e-5), optimizer, sampler


def test_a_pass_from_a_state_that_was_counted_is_refused():
    accountant = Accountant()
    _, optimizer, sampler = guarded(accountant)
    sampler.marks += [begin("a"), begin("a")]  # before the first step
    step(optimizer)
    sampler.marks += [begin("b")]
    step(optimizer)
    step(optimizer)
    for mark in ("a", "b", "a"):
        sampler.marks += [begin(mark)]
        for _ in range(2):
            with pytest.raises(ValueError, match=AGAIN):
                step(optimizer)
    assert len(accountant.history) == 3
    sampler.marks += [begin("c")]  # seeded anew
    step(optimizer)
    assert len(accountant.seeds) == 4  # of three states and a seed
    sampler.marks += [begin("d", object())]  # another generator of that seed, from which something else was drawn
    with pytest.raises(ValueError, match=AGAIN):
        step(optimizer)
    sampler.marks += [begin("e", object(), 2)]
    step(optimizer)


def test_guards_of_one_engine_share_their_marks():
    accountant = Accountant()
    _, optimizer, sampler = guarded(accountant)
    _, other, of_other = guarded(accountant)
    sampler.marks += [begin("a")]
    step(optimizer)
    of_other.marks += [begin("a")]
    with pytest.raises(ValueError, match=AGAIN):
        step(other)
    assert len(accountant.history) == 1


def test_a_second_guard_of_an_optimizer_sees_each_pass_once():
    accountant = Accountant()
    guard, optimizer, sampler = guarded(accountant)
    later = Guard(guard._engine, optimizer, delta=1e-4)
    for mark in "ab":
        sampler.marks += [begin(mark)]
        step(optimizer)
    sampler.marks += [begin("a")]
    with pytest.raises(ValueError, match=AGAIN):
        step(optimizer)
    assert len(accountant.history) == 2
    assert guard.epsilon == later.epsilon == 0.2
