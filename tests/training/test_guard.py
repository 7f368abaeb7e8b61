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


def test_epsilon_is_that_of_the_engine_whoever_took_the_steps():
    """A checkpoint that was loaded after the guard was made left 0 where 4.178 is the truth."""
    accountant = Accountant()
    guard, _, _ = guarded(accountant)
    later, other, _ = guarded(accountant)
    accountant.history = [None] * 3  # of a checkpoint
    assert guard.epsilon == pytest.approx(0.3)
    step(other)
    assert guard.epsilon == later.epsilon == pytest.approx(0.4)


class Weight:
    """One of a model."""


def test_a_model_that_another_engine_has_trained_is_warned_of(recwarn):
    """A cell that is run twice: 4.178 each time where the second has 5.573."""
    groups = [{"params": [Weight()]}]
    for heard in (0, 1):
        accountant = Accountant()
        for _ in range(2):  # a second guard, and one that goes on
            _, optimizer, _ = guarded(accountant)
            optimizer.param_groups = groups
            step(optimizer)
            step(optimizer)
        assert len(recwarn) == heard
    assert "was trained under another meter" in str(recwarn.pop().message)


class Noise:
    """A generator that stands for one of PyTorch."""

    def __init__(self, seed):
        self.seed, self.drawn = seed, 0

    def initial_seed(self):
        return self.seed

    def get_state(self):
        return SimpleNamespace(numpy=lambda: SimpleNamespace(tobytes=f"{self.seed}, {self.drawn}".encode))


def test_noise_from_a_seed_that_was_counted_is_refused():
    """Two runs with the same noise on other batches give their difference away."""
    accountant = Accountant()
    _, optimizer, sampler = guarded(accountant)
    optimizer.generator = Noise(10**15)
    for state in "abc":
        sampler.marks += [begin(state)]
        for _ in range(2):
            optimizer.generator.drawn += 1
            step(optimizer)
    _, again, _ = guarded(accountant)
    again.generator = Noise(10**15)
    again.generator.drawn = 99  # wherever it stands
    with pytest.raises(ValueError, match=r"generator draws the same noise again.*one with a new seed"):
        step(again)
    again.generator = Noise(10**16)
    step(again)
    optimizer.generator.drawn = 1  # seeded anew where a pass begins
    sampler.marks += [begin("d")]
    with pytest.raises(ValueError, match="the same noise again"):
        step(optimizer)
    assert len(accountant.history) == 7


def test_a_hook_that_is_attached_later_stands_behind_the_guard_s():
    """Opacus has one hook alone: 30 steps were 0.0 where 4.178 is the truth."""
    accountant, heard = Accountant(), []
    guard, optimizer, _ = guarded(accountant)
    optimizer.attach_step_hook(heard.append)
    step(optimizer)
    assert (heard, guard.epsilon) == ([optimizer], 0.1)
