"""States of accountants: written, read back bit for bit, copied, and refused where they are damaged."""

import copy
import json
import math
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
        (lambda s: s.update(version=True), "version = True"),
        (lambda s: s.update(format="other"), "format"),
        (lambda s: s.pop("ledger"), "damaged"),
        (lambda s: s["ledger"][0]["mechanism"].update(kind="Unknown"), "kind = 'Unknown'"),
        (lambda s: s["ledger"][0].update(count=-1), "count"),
        (lambda s: s["ledger"][0]["mechanism"].pop("noise_multiplier"), "damaged"),
        (lambda s: s["ledger"][0]["mechanism"].update(noise_multiplier="nan"), "NaN"),
        (lambda s: s["ledger"][0]["mechanism"].update(noise_multiplier=math.nan), "NaN"),
        (lambda s: s["ledger"][0]["mechanism"].update(is_replaced=1), "is_replaced = 1"),
    ],
)
def test_a_damaged_state_is_refused(damage, message):
    budget = fa.Accountant(epsilon=3.0, delta=1e-5)
    budget.compose(fa.Gaussian(5.0), 3)
    state = json.loads(budget.to_json())
    damage(state)
    with pytest.raises(ValueError, match=f"checksum|{message}"):
        fa.Accountant.from_json(json.dumps(state))
    del state["checksum"]  # as earlier versions wrote it
    with pytest.raises(ValueError, match=message):
        fa.Accountant.from_json(json.dumps(state))
    with pytest.raises(ValueError, match="not the state"):
        fa.Accountant.from_json("{")


@pytest.mark.parametrize("text", [None, 5, 1.0, [], {}])
def test_what_is_no_text_is_named(text):
    with pytest.raises(TypeError, match=f"text must be the JSON that to_json returned, not {type(text).__name__}"):
        fa.Accountant.from_json(text)


HOSTILE = [
    None, True, False, -1, 0, 2.5, 1e400, -1e400, 2**53, "5", "inf", "nan", "", [], {}, [1], [[1, 2]], math.nan, 1e-320,
    {"kind": "Gaussian"}, {"kind": []}, {"kind": "Process", "blocks": []}, {"kind": "Parallel", "jobs": []},
    {"kind": "Gaussian", "noise_multiplier": 1.0}, "__class__",
]  # fmt: skip


def tampered(whole, part=None):
    """A document with one of its values replaced or left out, at every place; the document itself is changed."""
    part = whole if part is None else part
    for place in [*part] if isinstance(part, dict) else range(len(part)):
        kept = part[place]
        for value in HOSTILE:
            part[place] = value
            yield json.dumps(whole)
        if isinstance(part, dict):
            del part[place]
            yield json.dumps(whole)
        part[place] = kept
        if isinstance(kept, dict | list):
            yield from tampered(whole, kept)


def ledger_of_many():
    one = fa.Gaussian(9.0)
    many = [
        one, fa.Laplace(30.0), one.allocation(5), one.fixed_size(2, 50), one.poisson(0.1, at_most=9, records=60),
        one.with_replacement(3, 50), fa.Parallel(fa.Laplace(9.0), one * 2), fa.Together(one + fa.Laplace(30.0)),
        fa.GaussianMixture(5.0, p=[(0.5, 0.0), (0.5, 1.0)]), fa.from_pmf([0.5, 0.5], [0.49, 0.51]),
        fa.from_losses([0.5, -0.2, math.inf], [0.5, 0.45, 0.05]), fa.RDPCurve([2, 4], [0.1, 0.2]),
        fa.TreeAggregation(20.0, 9), fa.GradientWalk(4.0, 3, 50, 2), fa.BandMF(9.0, 0.1, 10, 2),
    ]  # fmt: skip
    budget = fa.Accountant(delta=1e-5, neighbors="zero_out")
    for i, mechanism in enumerate(many):
        budget.compose(mechanism, i + 1)
    return budget


def test_a_state_that_was_tampered_with_is_refused():
    budget = ledger_of_many()
    whole = json.loads(budget.to_json())
    same = 0
    for text in tampered(whole):
        try:
            found = fa.Accountant.from_json(text)
        except ValueError:
            continue
        same += 1
        assert (found.to_json(), found.ledger) == (budget.to_json(), budget.ledger)
    assert same < 10, "only the checksum may be left out, as earlier versions did; or nothing was changed"


def test_a_state_without_a_checksum_is_refused_or_stable():
    whole = json.loads(ledger_of_many().to_json())
    del whole["checksum"]
    taken = 0
    for text in tampered(whole):
        try:
            found = fa.Accountant.from_json(text)
        except ValueError:
            continue
        taken += 1
        again = fa.Accountant.from_json(found.to_json())
        assert (again.to_json(), again.ledger) == (found.to_json(), found.ledger)
    assert taken > 100


def test_a_checksum_goes_by_values():
    """Databases write 20 for 20.0, and other blanks."""
    budget = fa.Accountant(epsilon=3.0, delta=1e-5)
    budget.compose(fa.Gaussian(20.0), 3)
    text = json.dumps(json.loads(budget.to_json())).replace("20.0", "20").replace("3.0", "3")
    assert fa.Accountant.from_json(text).to_json() == budget.to_json()


def test_noise_for_a_replaced_record_is_known_as_such_after_reloading():
    noise = fa.Gaussian(3.0 / fa.sensitivity.clipped(1.0, neighbors="replace_one"))
    budget = fa.Accountant(delta=1e-5)
    budget.compose(noise.poisson(0.1), 3)
    budget.compose(fa.Laplace(5.0))
    again = fa.Accountant.from_json(budget.to_json())
    assert again.to_json() == budget.to_json()
    for ledger in (budget.ledger, again.ledger):
        with pytest.raises(ValueError, match="would count the replacement again"):
            fa.epsilon(ledger, delta=1e-5, neighbors="replace_one")
    assert again.spent() == budget.spent()


SAVED = json.loads((Path(__file__).parents[1] / "data" / "accountant_states.json").read_text())


def without_checksum(budget):
    return {name: value for name, value in json.loads(budget.to_json()).items() if name != "checksum"}


@pytest.mark.parametrize("name", SAVED["filters"])
def test_states_of_the_first_version_still_load(name):
    saved = SAVED["filters"][name]
    budget = fa.Accountant.from_json(saved["state"])
    assert without_checksum(budget) == json.loads(saved["state"])
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
    assert without_checksum(budget) == _as_now(json.loads(SAVED["every_mechanism"]))
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
