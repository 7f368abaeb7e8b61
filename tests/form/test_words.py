"""What completion and `help` show, and what a misspelt name is answered with."""

import inspect

import pytest

import fastacct as fa

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}


@pytest.mark.parametrize("name", sorted({*fa.dpsgd.__all__} - {"job"}))
def test_functions_of_runs_show_every_keyword_and_take_it(name):
    shown = inspect.signature(getattr(fa.dpsgd, name)).parameters
    assert {"noise_multiplier", "sample_rate", "steps", "records", "batch_size", "epochs", "history"} <= shown.keys()
    assert shown["neighbors"].default == "add_remove"
    assert all(one.kind == inspect.Parameter.KEYWORD_ONLY for one in shown.values())
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        getattr(fa.dpsgd, name)(**{one: 0.5 for one in ("epsilon", "delta", "orders") if one in shown}, no_such=1.0)


def test_defaults_that_are_shown_are_those_that_are_taken():
    shown = inspect.signature(fa.dpsgd.epsilon).parameters
    given = {name: one.default for name, one in shown.items() if one.default is not inspect.Parameter.empty}
    assert fa.dpsgd.epsilon(**given | RUN, delta=1e-5) == fa.dpsgd.epsilon(**RUN, delta=1e-5)


@pytest.mark.parametrize(
    "function",
    [fa.epsilon_bounds, fa.delta, fa.delta_bounds, fa.log_delta_bounds, fa.rdp_bounds, fa.tpr_at_fpr, fa.advantage],
)
def test_verbs_show_their_keywords(function):
    shown = inspect.signature(function).parameters
    assert {"neighbors", "threads"} <= shown.keys()
    assert not any(one.kind == inspect.Parameter.VAR_KEYWORD for one in shown.values())
    assert ("accountant" in shown) == (function in (fa.epsilon_bounds, fa.delta, fa.delta_bounds))


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: fa.dpsgd.epsilon(sigma=1.0, sample_rate=0.1, steps=1, delta=1e-5), "noise_multiplier"),
        (lambda: fa.dpsgd.epsilon(noise_mutliplier=1.0, sample_rate=0.1, steps=1, delta=1e-5), "noise_multiplier"),
        (lambda: fa.dpsgd.epsilon(noise_multiplier=1.0, q=0.1, steps=1, delta=1e-5), "sample_rate"),
        (lambda: fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.1, T=1, delta=1e-5), "steps"),
        (lambda: fa.dpsgd.epsilon(**RUN, delta=1e-5, dataset_size=9), "records"),
        (lambda: fa.dpsgd.epsilon(**RUN, delta=1e-5, neighbours="add"), "neighbors"),
        (lambda: fa.epsilon(fa.Gaussian(1.0), delta=1e-5, neighbours="add"), "neighbors"),
        (lambda: fa.epsilon_bounds(fa.Gaussian(1.0), delta=1e-5, relation="add"), "neighbors"),
        (lambda: fa.rdp(fa.Gaussian(1.0), 2.0, relation="add"), "neighbors"),
        (lambda: fa.tradeoff(fa.Gaussian(1.0), 0.1, relation="add"), "neighbors"),
        (lambda: fa.bayes_risk(fa.Gaussian(1.0), members=0.5, relation="add"), "neighbors"),
        (lambda: fa.sweep(sigma=1.0, sample_rate=0.1, steps=1, delta=1e-5), "noise_multiplier"),
        (lambda: fa.RDP(conversion="Mironof"), "mironov"),
        (lambda: fa.epsilon(fa.Gaussian(1.0), delta=1e-5, neighbors="add-remove"), "add_remove"),
        (lambda: fa.epsilom, "epsilon"),
        (lambda: fa.PRV, "PLD"),
        (lambda: fa.dpsgd.eps, "epsilon"),
    ],
)
def test_a_name_that_is_not_known_is_answered_with_the_one_that_was_meant(call, meant):
    with pytest.raises((TypeError, ValueError, AttributeError), match=rf"did you mean '{meant}'"):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fa.dpsgd.epsilon(**RUN, delta="1e-5"), "write it without quotes"),
        (
            lambda: fa.Gaussian(sigma=1.0),
            r"'sigma' \(did you mean 'noise_multiplier'\?\); its parameters: noise_multiplier; .* sensitivity$",
        ),
        (
            lambda: fa.Laplace(scale=1.0),
            r"'scale' \(did you mean 'noise_multiplier'\?\); its parameters: noise_multiplier; .* sensitivity$",
        ),
        (lambda: fa.dpsgd.epsilon(**RUN, delta=1e-5, sampling="shuffle"), "did you mean 'shuffled'"),
        (lambda: fa.dpsgd.steps(**RUN, epsilon=1.0, delta=1e-5), "steps is what this function computes"),
        (
            lambda: fa.no_such_thing_at_all,
            r"no attribute 'no_such_thing_at_all' \(dir\(fastacct\) has the names; a job such as",
        ),
    ],
)
def test_other_mistakes_are_answered_with_what_to_do(call, message):
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        call()


def test_delta_may_be_a_power_of_the_records_in_capitals():
    run = {"noise_multiplier": 1.0, "records": 1000, "batch_size": 10, "epochs": 1}
    assert fa.dpsgd.epsilon(**run, delta="1/N") == fa.dpsgd.epsilon(**run, delta="1/n")


def test_a_conversion_has_a_short_name():
    assert fa.RDP(conversion="cks") == fa.RDP()
