"""Loaders that go on beyond one pass: cycles of JAX Privacy that are begun anew, repeated data sets of grain.

Classes of their names stand in for both libraries where these are not installed.
"""

import json
import random
import sys
from types import ModuleType

import pytest

import fastacct as fa
from fastacct.training import Meter

PER, RUN = 3, {"noise_multiplier": 1.0, "delta": 1e-4}


def of_cycles(count):
    """With the same groups in each, which is not below new ones."""
    run = {"records": PER, "batch_size": 1, "sampling": "allocation", "bins": "persistent"}
    found = fa.dpsgd.epsilon(**RUN, **run, epochs=count)
    assert found >= fa.epsilon_lower(fa.Gaussian(1.0).allocation(steps=PER) * count, delta=1e-4)
    return found


def standing_in(patch, module, name, **fields):
    """An object of a class of a library."""
    methods = {"__len__": lambda self: self.length} if "length" in fields else {}
    kind = type(name, (), {"__module__": module, "__qualname__": name, **methods})
    home = ModuleType(module)
    setattr(home, name, kind)
    patch.setitem(sys.modules, module, home)
    made = kind()
    vars(made).update(fields)
    return made


@pytest.fixture
def sampler(monkeypatch):
    home = "jax_privacy.batch_selection"
    return standing_in(monkeypatch, home, "BallsInBinsSampling", iterations=3 * PER + 1, cycle_length=PER)


@pytest.fixture
def repeated(monkeypatch):
    home = "grain._src.python.dataset.transformations"
    source = standing_in(monkeypatch, f"{home}.source", "SourceMapDataset", length=7)
    order = standing_in(monkeypatch, f"{home}.shuffle", "ShuffleMapDataset", _parent=source, _seed=5, length=7)
    given = {"_batch_size": 2, "_drop_remainder": False, "_parent": order, "length": 4}
    batches = standing_in(monkeypatch, f"{home}.batch", "BatchMapDataset", **given)
    return standing_in(monkeypatch, f"{home}.repeat", "RepeatMapDataset", _parent=batches, _reseed_each_epoch=True)


def test_a_cycle_that_is_begun_anew_counts_again(sampler):
    meter = Meter(sampler, **RUN)
    for _ in meter.batches(range(99)):
        break
    assert (meter.steps, meter.epsilon) == (1, of_cycles(1))
    meter.step()  # the cycle goes on
    assert meter.epsilon == of_cycles(1)
    again = Meter(sampler, **RUN)
    again.load_state_dict(json.loads(json.dumps(meter.state_dict())))
    assert (again.epsilon, again.was_open) == (of_cycles(1), True)
    again.step()  # of new groups
    assert again.epsilon == of_cycles(2)
    kept = Meter(sampler, **RUN)
    kept.load_state_dict(meter.state_dict())
    kept.epoch(goes_on=True)
    kept.step()
    assert kept.epsilon == of_cycles(1)
    kept.step()
    assert kept.epsilon == of_cycles(2)
    for _ in meter.batches(range(99)):
        break
    assert meter.epsilon == of_cycles(2)


def test_each_begin_counts_whole_cycles(sampler):
    rng = random.Random(2)
    for _ in range(30):
        meter, cycles, steps = Meter(sampler, **RUN), 0, 0
        for _ in range(rng.randint(1, 4)):
            taken = rng.randint(1, 5)
            if steps + taken > sampler.iterations:
                break
            if rng.random() < 0.5:
                meter, state = Meter(sampler, **RUN), meter.state_dict()
                meter.load_state_dict(state)
            else:
                meter.epoch()
            for _ in range(taken):
                meter.step()
            cycles, steps = cycles + -(-taken // PER), steps + taken
        assert (meter.steps, meter.epsilon) == (steps, of_cycles(cycles))


def test_what_remains_knows_cycles_that_were_left(sampler):
    meter = Meter(sampler, **RUN, stop_at=of_cycles(3))
    assert meter.remaining == 9
    meter.step(4)
    assert meter.remaining == 5
    meter.epoch()
    assert meter.remaining == 3
    meter.step(3)
    assert (meter.remaining, meter.epsilon) == (0, of_cycles(3))
    with pytest.raises(fa.BudgetExceededError, match="1 more step would spend"):
        meter.step()
    free = Meter(sampler, **RUN)
    for left in range(10, 0, -1):  # each the first of a cycle, and no more than the sampler draws
        assert free.remaining == left
        free.epoch()
        free.step()
    with pytest.raises(fa.BudgetExceededError, match="the sampler draws 10 batches"):
        free.step()
    assert free.epsilon == of_cycles(10)


def test_batches_of_a_repeated_data_set_begin_each_pass(repeated):
    run = {"noise_multiplier": 4.0, "neighbors": "zero_out", "delta": 1e-4}
    verb = {"records": 7, "sampling": "shuffled"} | run
    meter = Meter(repeated, **run)
    assert len([*meter.batches(range(12))]) == meter.steps == 12
    assert meter.epsilon == fa.dpsgd.epsilon(**verb, batch_size=2, epochs=3)
    meter = Meter(repeated, **run, accumulate=2)
    assert [meter.steps for _ in meter.batches(range(8))] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert meter.epsilon == fa.dpsgd.epsilon(**verb, batch_size=4, epochs=2)
    with pytest.raises(ValueError, match="accumulate = 3 leaves some of the 4 batches of a pass for the next"):
        next(Meter(repeated, **run, accumulate=3).batches(range(8)))
    meter = Meter(repeated, **run, stop_at=fa.dpsgd.epsilon(**verb, batch_size=2, epochs=2))
    assert len([*meter.batches(range(12))]) == 8


def test_a_loader_whose_passes_have_no_length_is_refused(monkeypatch):
    fields = {"_shuffle": False, "_num_epochs": 1, "_num_records": 100}
    sampler = standing_in(monkeypatch, "grain._src.python.samplers", "IndexSampler", **fields)
    with pytest.raises(ValueError, match="the loader does not say how many batches a pass has"):
        Meter(sampler, **RUN, neighbors="zero_out")


def test_what_cannot_be_accumulated_names_the_keyword():
    run = RUN | {"sampling": "fixed_size", "records": 100, "batch_size": 10}
    with pytest.raises(ValueError, match=r"^accumulate = 2: nothing is known of sampling = 'fixed_size' and steps on"):
        Meter(**run, accumulate=2)
