"""What a meter is given beside what it counts: cycles."""

import copy
import json
import pickle
import sys
from types import ModuleType

import pytest

from fastacct.loaders.seen import in_order
from fastacct.training import Meter
from fastacct.training.given import go_on, of_keywords, refuse_other_draws

POISSON = of_keywords({"sample_rate": 0.1})
CYCLES = POISSON._replace(per=10)


def test_samples_that_are_drawn_anew_are_no_cycles():
    with pytest.raises(ValueError, match="may draw a record again after 1 batches, and the meter counts cycles of 10"):
        refuse_other_draws(POISSON, CYCLES)
    with pytest.raises(ValueError, match="after 5 batches"):
        refuse_other_draws(POISSON._replace(per=5), CYCLES)
    refuse_other_draws(CYCLES, CYCLES)
    refuse_other_draws(CYCLES, POISSON)  # more is counted


def test_records_that_are_repeated_among_workers_are_not_counted_once():
    """Of 41 records of two workers one comes twice in a pass: 2.884 where 4.346 is the truth."""
    once = in_order({}, 41, 8)
    twice = once._replace(share=0.5)
    for counted in (once, of_keywords({"sample_rate": 1.0})):
        with pytest.raises(ValueError, match="repeats some records in a pass"):
            refuse_other_draws(twice, counted)
    refuse_other_draws(twice, twice)
    refuse_other_draws(once, twice)  # more is counted


def test_samples_of_another_shape_are_refused():
    truncated = {"sampling": "truncated", "records": 100, "sample_rate": 0.1}
    with pytest.raises(ValueError, match="draws at_most = 5, and the meter counts 20"):
        refuse_other_draws(of_keywords(truncated | {"at_most": 5}), of_keywords(truncated | {"at_most": 20}))
    bins = {"sampling": "allocation", "records": 10, "batch_size": 1}
    with pytest.raises(ValueError, match="draws bins = 'persistent', and the meter counts ''"):
        refuse_other_draws(of_keywords(bins | {"bins": "persistent"}), of_keywords(bins))


def test_checkpoints_of_other_trainings_are_added():
    """Of another day's 30 steps and of 20 of one's own 30 were left; of 30 and 30, and of 20 and 30, too."""

    def made(steps):
        meter = Meter(noise_multiplier=1.0, delta=1e-4, sample_rate=0.1)
        if steps:
            meter.step(steps)
        return meter

    for own, kept in ((0, 30), (20, 30), (30, 30), (30, 20), (30, 0)):
        meter = made(own)
        before, state = meter.state_dict(), json.loads(json.dumps(made(kept).state_dict()))
        for _ in range(2):  # the second time it has all of it
            go_on(meter, state)
            assert meter.steps == meter._units == own + kept
        meter.step(5)
        go_on(meter, state)
        assert meter.steps == own + kept + 5
        go_on(meter, before)  # its own
        assert meter.steps == own + kept + 5


def test_checkpoints_of_one_training_are_not_added():
    first = Meter(noise_multiplier=1.0, delta=1e-4, sample_rate=0.1)
    states = []
    for _ in range(3):
        first.step(10)
        states.append(first.state_dict())
    again = Meter(noise_multiplier=1.0, delta=1e-4, sample_rate=0.1)
    for state, steps in ((states[1], 20), (states[0], 20), (states[2], 30), (states[2], 30)):
        go_on(again, state)
        assert again.steps == steps
    again.step(5)
    go_on(first, again.state_dict())  # 30 of them are its own
    assert first.steps == 35
    go_on(again, states[1])
    assert again.steps == 35
    again.load_state_dict(states[1])  # what came after is lost, and counts as another's from here on
    again.step(3)
    go_on(first, again.state_dict())
    assert first.steps == 38


def test_a_pass_that_is_open_is_left_where_a_training_goes_back():
    """Its rest comes in a new order: 6.573 where 8.385 is the truth."""
    meter = Meter(noise_multiplier=1.0, delta=1e-4, records=40, batch_size=4, sampling="shuffled", neighbors="zero_out")
    meter.epoch()
    meter.step(4)
    state = meter.state_dict()
    meter.step()
    go_on(meter, state)
    assert (meter.steps, meter.waits, meter.was_open) == (5, True, False)


def test_a_copy_of_a_meter_counts_for_itself():
    meter = Meter(noise_multiplier=1.0, delta=1e-4, sample_rate=0.1)
    for made in (copy.copy(meter), copy.deepcopy(meter), pickle.loads(pickle.dumps(meter))):
        before = meter.steps
        meter.step(10)
        made.step(10 + before)
        go_on(meter, made.state_dict())
        assert meter.steps == 2 * (10 + before)


def grain(patch, kind, **fields):
    """An object of a class of grain's, or of one that stands in for it."""
    home = f"grain._src.python.dataset.transformations.{kind}"
    made = type(f"{kind.title()}MapDataset", (), {"__module__": home, "__len__": lambda self: 6})
    patch.setitem(sys.modules, home, ModuleType(home))
    setattr(sys.modules[home], made.__name__, made)
    thing = made()
    vars(thing).update(fields)
    return thing


def test_keywords_stand_for_no_loader_of_which_nothing_is_proved(monkeypatch):
    meter = Meter(noise_multiplier=1.0, delta=1e-4, sample_rate=0.5)
    meter.refuse_other(object())  # nobody knows
    twice = grain(monkeypatch, "repeat", _parent=grain(monkeypatch, "source"))
    with pytest.raises(ValueError, match="between the records and their order nothing may stand"):
        meter.refuse_other(grain(monkeypatch, "batch", _parent=twice, _batch_size=2, _drop_remainder=False))
