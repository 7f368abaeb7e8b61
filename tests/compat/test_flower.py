"""Flower's protocol: certified answers, questions that change nothing, states, a round refused before its release."""

import json
import math
import re
from pathlib import Path

import pytest

import fastacct as fa

flwr = pytest.importorskip("flwr.serverapp", reason="the extra flower is not installed")

from fastacct.compat.flower import FastAccountant  # noqa: E402

from flwr.supercore.privacy_accounting import NeighboringRelation, SamplingMethod  # noqa: E402 isort: skip

POISSON = (SamplingMethod.POISSON, NeighboringRelation.ADD_OR_REMOVE_ONE)
FIXED = (SamplingMethod.WITHOUT_REPLACEMENT, NeighboringRelation.REPLACE_ONE)
WHOLE = (SamplingMethod.NO_AMPLIFICATION, NeighboringRelation.ADD_OR_REMOVE_ONE)
PAGE = Path(__file__).parents[2] / "docs" / "backends" / "flower.md"


def config(model=WHOLE, max_epsilon=None, population=1000):
    method, relation = model
    return flwr.PrivacyConfig(1e-5, population, relation, method, max_epsilon)


def event(noise=1.5, sample=50, population=1000):
    return flwr.GaussianPrivacyEvent(noise, sample, population)


HISTORY = [(event(), 20), (event(2.0, 100), 5), (event(), 10)]


def truth(model, history=HISTORY):
    """The same history, written down once more."""
    make = {
        POISSON: lambda e: fa.Gaussian(e.noise_multiplier).poisson(e.sample_size / e.population_size),
        FIXED: lambda e: fa.Gaussian(e.noise_multiplier).fixed_size(
            batch_size=e.sample_size, records=e.population_size
        ),
        WHOLE: lambda e: fa.Gaussian(e.noise_multiplier / (1 if e.sample_size == e.population_size else 2)),
    }[model]
    return fa.Process((make(one), count) for one, count in history)


def relation(model):
    return "replace_one" if model is FIXED else "add_remove"


def composed(make, model, history=HISTORY):
    accountant = make(config(model))
    for one, count in history:
        accountant.compose(one, count)
    return accountant


def failures(make, model):
    """What a maker of accountants gets wrong."""
    accountant, job = composed(make, model), truth(model)
    asked = {"neighbors": relation(model)}
    epsilon, delta = accountant.get_epsilon(1e-5), accountant.get_delta(2.0)
    found = []
    if not fa.epsilon_lower(job, delta=1e-5, **asked) <= epsilon:
        found.append("epsilon below the truth")
    if not epsilon <= fa.epsilon(job, delta=1e-5, **asked) * (1 + 1e-9):
        found.append("epsilon too large")
    if not fa.delta_lower(job, epsilon=2.0, **asked) <= delta <= fa.delta(job, epsilon=2.0, **asked) * (1 + 1e-9):
        found.append("delta")
    limit = fa.epsilon_lower(job, delta=1e-5, **asked)
    one, count = HISTORY[-1]
    if limit and not composed(make, model, HISTORY[:-1]).would_exceed(one, 0.999 * limit, count):
        found.append("would_exceed")
    return found


@pytest.mark.parametrize("model", [POISSON, FIXED, WHOLE], ids=lambda model: model[0].value)
def test_answers_are_those_of_the_same_process(model):
    assert failures(FastAccountant, model) == []


class Low(FastAccountant):
    def _epsilon(self, counts, delta):
        return super()._epsilon(counts, delta) * 0.97


class Once(FastAccountant):
    def _more(self, event, count):
        return super()._more(event, 1)


class Forgetful(FastAccountant):
    def _more(self, event, count):
        self._counts = {}
        return super()._more(event, count)


@pytest.mark.parametrize("canary", [Low, Once, Forgetful])
@pytest.mark.parametrize("model", [POISSON, WHOLE], ids=lambda model: model[0].value)
def test_canaries_are_caught(canary, model):
    found = failures(canary, model)
    assert "epsilon below the truth" in found
    assert "would_exceed" in found


def test_what_is_above_is_also_at_most_what_flower_says():
    pytest.importorskip("dp_accounting", reason="Flower's own accountant needs dp_accounting")
    for model, size in ((POISSON, 50), (WHOLE, 1000)):
        history = [(event(sample=size), 30), (event(2.0, size), 5)]
        ours, theirs = (composed(make, model, history) for make in (FastAccountant, flwr.RdpAccountant))
        assert ours.get_epsilon(1e-5) <= theirs.get_epsilon(1e-5)
        assert ours.get_delta(2.0) <= theirs.get_delta(2.0)
        assert ours.num_releases == theirs.num_releases == 35
    # without replacement their noise multiplier is over how far a replaced client moves a sum: 2 clipping norms
    ours = composed(FastAccountant, FIXED, [(event(3.0), 30)])
    theirs = composed(flwr.RdpAccountant, FIXED, [(event(1.5), 30)])
    assert ours.get_epsilon(1e-5) <= theirs.get_epsilon(1e-5)


@pytest.mark.parametrize(("size", "noise", "rounds"), [(500, 1.0, 10), (900, 2.0, 50), (100, 0.3, 10), (1000, 1.0, 10)])
@pytest.mark.parametrize("model", [FIXED, WHOLE], ids=lambda model: model[0].value)
def test_no_number_is_below_the_truth_of_the_fixed_number_of_clients_that_strategies_sample(model, size, noise, rounds):
    sampled = fa.Gaussian(noise).fixed_size(batch_size=size, records=1000) * rounds
    lower = fa.epsilon_lower(sampled, delta=1e-5, neighbors=relation(model))
    assert composed(FastAccountant, model, [(event(noise, size), rounds)]).get_epsilon(1e-5) >= lower
    assert lower > 20.0 or size == 1000


def test_a_question_changes_nothing():
    accountant = composed(FastAccountant, POISSON)
    before, epsilon = accountant.state_dict(), accountant.get_epsilon(1e-5)
    assert accountant.would_exceed(event(0.1), 1.0, 1000)
    assert not accountant.would_exceed(event(), 1000.0)
    assert (accountant.state_dict(), accountant.get_epsilon(1e-5)) == (before, epsilon)
    for bad in (lambda: accountant.compose(event(population=999)), lambda: accountant.compose(event(), 0)):
        with pytest.raises(ValueError, match=r"population_size|count"):
            bad()
    assert accountant.state_dict() == before


def test_limits_come_from_the_call_or_from_the_configuration():
    with pytest.raises(ValueError, match="max_epsilon is neither"):
        FastAccountant(config()).would_exceed(event())
    for bad in (0.0, -1.0, math.inf, math.nan, True):
        with pytest.raises(ValueError, match="max_epsilon"):
            FastAccountant(config()).would_exceed(event(), bad)
    once = fa.epsilon(fa.Gaussian(0.75), delta=1e-5)
    assert not FastAccountant(config(max_epsilon=once)).would_exceed(event())  # just fits
    assert FastAccountant(config(max_epsilon=math.nextafter(once, 0.0))).would_exceed(event())
    assert not FastAccountant(config(max_epsilon=0.1)).would_exceed(event(), 1e6)


def test_questions_out_of_range_are_refused():
    accountant = FastAccountant(config())
    assert accountant.get_epsilon(1e-5) == accountant.get_delta(0.0) == 0.0
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            accountant.get_epsilon(delta)
    for epsilon in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            accountant.get_delta(epsilon)


def test_a_rate_between_two_floats_is_rounded_up():
    from fractions import Fraction

    for sample in range(1, 50):
        accountant = FastAccountant(config(POISSON))
        accountant.compose(event(sample=sample))
        ((mechanism, _),) = accountant.process
        assert Fraction(mechanism.sample_rate) >= Fraction(sample, 1000)
        assert mechanism.sample_rate <= sample / 1000 * (1 + 3e-16)


@pytest.mark.parametrize("model", [POISSON, FIXED, WHOLE], ids=lambda model: model[0].value)
def test_states_come_back_through_json(model):
    accountant = composed(FastAccountant, model)
    state = json.loads(accountant.to_json())
    assert state == accountant.state_dict()
    again = FastAccountant(config(model))
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert again.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    assert again.num_releases == 35


def stored(noise, population):
    return {"noise_multiplier": noise, "sample_size": 5, "population_size": population}


@pytest.mark.parametrize(
    "damage",
    [
        {"schema_version": 2},
        {"schema_version": None},
        {"backend": "prv"},
        {"config": None},
        {"compositions": None},
        {"compositions": [{"event": stored(1.0, 1000)}]},
        {"compositions": [{"event": stored(-1.0, 1000), "count": 1}]},
        {"compositions": [{"event": stored(1.0, 1000), "count": -1}]},
        {"compositions": [{"event": stored(1.0, 10), "count": 1}]},
    ],
)
def test_damaged_and_foreign_states_are_refused_and_change_nothing(damage):
    accountant = composed(FastAccountant, POISSON)
    before = accountant.state_dict()
    with pytest.raises(ValueError, match=r"schema_version|backend|configuration|damaged"):
        accountant.load_state_dict(before | damage)
    assert accountant.state_dict() == before
    with pytest.raises(ValueError, match="another configuration"):
        FastAccountant(config(WHOLE)).load_state_dict(before)


def test_a_history_of_flowers_own_accountant_is_taken_over():
    pytest.importorskip("dp_accounting", reason="Flower's own accountant needs dp_accounting")
    theirs, ours = composed(flwr.RdpAccountant, POISSON), FastAccountant(config(POISSON))
    ours.load_state_dict(json.loads(json.dumps(theirs.state_dict())))
    assert ours.get_epsilon(1e-5) == composed(FastAccountant, POISSON).get_epsilon(1e-5)


def test_it_has_everything_that_the_protocol_asks_for():
    names = [name for name in vars(flwr.PrivacyAccountant) if not name.startswith("_")]
    assert len(names) >= 8
    assert all(hasattr(FastAccountant, name) for name in names)
    spent = composed(FastAccountant, WHOLE).get_privacy_spent()
    assert (spent.delta, spent.num_releases, spent.accounting_method) == (1e-5, 35, "fastacct")
    assert spent.epsilon == fa.epsilon(truth(WHOLE), delta=1e-5)


def test_the_examples_of_the_page_run():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, scope)
    assert scope["released"] == 6


@pytest.mark.parametrize("model", [POISSON, FIXED, WHOLE])
@pytest.mark.parametrize("counts", [(1, 40), (40, 1)])
def test_no_composition_is_below_a_part(model, counts):
    rounds = [(event(8.0, 20), counts[0]), (event(12.0, 50), counts[1])]
    whole = FastAccountant(config(model))
    for one, count in rounds:
        whole.compose(one, count)
    for one, count in rounds:
        part = FastAccountant(config(model))
        part.compose(one, count)
        relation = "replace_one" if model == FIXED else "add_remove"
        assert whole.get_epsilon(1e-3) >= fa.epsilon_lower(part.process, delta=1e-3, neighbors=relation) * (1.0 - 1e-9)


def test_bounds_have_both_ends_where_amplification_is_proved():
    for given in (POISSON, WHOLE):
        accountant = composed(FastAccountant, given)
        lower, upper, status = accountant.bounds(1e-5)
        assert upper == accountant.get_epsilon(1e-5)
        is_poisson = given is POISSON
        assert (lower > 0.99 * upper) == is_poisson
        assert status == (fa.Status.TIGHT if is_poisson else fa.Status.LOOSE)
