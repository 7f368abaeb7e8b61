"""States that were changed after they were saved are refused, or answer stably and not less."""

import json
import random

import pytest

import fastacct as fa
from fastacct.ledger.state import sealed
from fastacct.training import Meter
from tests import tamper


@pytest.mark.parametrize("seed", range(40))
def test_changed_states_are_refused_or_say_the_same(seed):
    found, wrong = tamper.ask(300, seed)
    assert not wrong
    assert found["refused"] > 200
    assert found["taken"] > 5


def test_states_of_all_kinds_are_changed_in_all_ways():
    assert len(tamper.states()) == 14
    rng = random.Random(1)
    for state in tamper.states():
        assert tamper.verdict(state, state.text.encode()) in ("the same", "taken")
        assert len({tamper.tampered(rng, state.text) for _ in range(50)}) > 40


def test_a_reader_that_believes_a_changed_state_is_caught():
    """A meter that takes counts of which it was not told; one that crashes."""
    meters = [state for state in tamper.states() if "steps" in json.loads(state.text)]
    text = json.dumps({**json.loads(meters[0].text), "steps": 1, "units": 1, "meters": {"another": [1, 1]}})
    assert tamper.verdict(meters[0], text.encode()) == "refused"
    rest = {name: value for name, value in json.loads(text).items() if name != "checksum"}
    assert tamper.verdict(meters[0], json.dumps(rest).encode()) == "refused"
    believing = meters[0]._replace(read=lambda text: meters[0].read(json.dumps(sealed(json.loads(text)))))
    assert tamper.verdict(believing, json.dumps(rest).encode()).startswith("WRONG")
    crashing = meters[0]._replace(read=lambda text: json.loads(text)["no such field"])
    assert "KeyError" in tamper.verdict(crashing, text.encode())


def test_a_meter_says_why_it_refuses_a_changed_state():
    meter = Meter(noise_multiplier=1.0, sample_rate=0.01, delta=1e-5)
    meter.step(3)
    state = meter.state_dict()
    with pytest.raises(ValueError, match="checksum is not that of what was written"):
        meter.load_state_dict({**state, "steps": 2, "units": 2})
    with pytest.raises(ValueError, match="it has no checksum"):
        meter.load_state_dict({name: value for name, value in state.items() if name != "checksum"})
    assert meter.steps == 3


def test_a_process_in_a_state_has_pairs():
    text = fa.Accountant(delta=1e-5).to_json()
    parts = json.loads(text)
    del parts["checksum"]
    parts["ledger"] = [{"mechanism": {"kind": "Parallel", "jobs": [{"kind": "Process", "blocks": [[1]]}]}, "count": 1}]
    with pytest.raises(ValueError, match="no pairs of a mechanism and a count"):
        fa.Accountant.from_json(json.dumps(parts))
