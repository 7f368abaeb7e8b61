"""States of accountants: written, read back bit for bit, copied, and refused where they are damaged."""

import copy
import json
import pickle
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.testing import examples


def test_the_state_of_every_mechanism_comes_back_bit_for_bit():
    for mechanism in examples():
        relation = mechanism.relations[0]
        budget = fa.Accountant(neighbors=relation)
        budget.compose(mechanism, 3)
        again = fa.Accountant.from_json(budget.to_json())
        assert again.ledger == budget.ledger
        assert again.to_json() == budget.to_json()


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
        fits = saved["remaining_gaussian_50"]  # what `remaining` searches for, a grid at every step
        assert not budget.would_exceed(fa.Gaussian(50.0) * fits)
        assert budget.would_exceed(fa.Gaussian(50.0) * (fits + 1))
    else:
        assert budget.spent() == pytest.approx(saved["spent"], rel=2e-12, abs=0.0)  # searches end elsewhere now
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
    new = {
        "PermuteAndFlip": {"monotone": False},
        "GOPA": {"colluding": 0, "draws": 0, "graph_delta": 1e-9},
        "RandomWalk": {"colluding": 0, "noise": "once"},
    }
    return found | new.get(found.get("kind"), {})


def test_the_state_of_the_first_version_with_every_mechanism_still_loads():
    budget = fa.Accountant.from_json(SAVED["every_mechanism"])
    assert json.loads(budget.to_json()) == _as_now(json.loads(SAVED["every_mechanism"]))
    again = fa.Accountant.from_json(budget.to_json())
    assert (again.to_json(), again.ledger) == (budget.to_json(), budget.ledger)
    known = set(examples())
    assert {one for one, _ in budget.ledger} <= known
    assert len(budget.ledger) >= 60


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
