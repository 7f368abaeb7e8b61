"""The table of samplers: its rows are what mechanisms, runs and files of jobs know."""

import inspect

import pytest

import fastacct as fa
from fastacct.accountants.batching import in_words
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.samplers import OF_ONE_SIZE, SAMPLERS, VERBS

RUN = {"noise_multiplier": 2.0, "delta": 1e-5}
WITH = {"batch_size": 10, "records": 1000, "epochs": 2, "at_most": 20, "bands": 4, "sample_rate": 0.01, "steps": 200}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_run_with_what_its_row_needs_is_answered_and_one_without_is_refused(name):
    row = SAMPLERS[name]
    rest = {} if row.is_by_epochs else {"steps": WITH["steps"]}
    if not {"batch_size", "records"} <= {*row.needs}:
        rest["sample_rate"] = WITH["sample_rate"]
    needed = {key: WITH[key] for key in row.needs}
    neighbors = row.drawn[0] if row.drawn else "add_remove"
    assert 0.0 < fa.dpsgd.epsilon(**RUN, **rest, **needed, sampling=name, neighbors=neighbors) < 100.0
    for key in row.needs:
        with pytest.raises((TypeError, ValueError), match=key):
            fa.dpsgd.epsilon(**RUN, **rest, **{k: v for k, v in needed.items() if k != key}, sampling=name)
    assert in_words(name) == row.about


@pytest.mark.parametrize("verb", VERBS)
def test_methods_of_the_table_are_those_of_gaussian_noise_and_other_noise_refuses_them(verb):
    refused = SAMPLERS[verb].refused
    given = dict.fromkeys(("batch_size", "draws", "steps"), 10) | {"records": 1000}
    known = inspect.signature(vars(Gaussian)[verb]).parameters
    settings = {name: value for name, value in given.items() if name in known}
    if refused:
        assert getattr(fa.Gaussian(2.0), verb)(**settings).made_by == verb
        with pytest.raises(ValueError, match=f"^{refused} known for Gaussian noise only, not for Laplace"):
            getattr(fa.Laplace(2.0), verb)(**settings)
    assert verb in dir(fa.Laplace(2.0))


def test_batches_of_one_size_are_told_by_whether_a_record_is_drawn_twice():
    assert [SAMPLERS[name].adds_up for name in OF_ONE_SIZE] == [False, True]
    twice = [fa.dpsgd.epsilon(**RUN, batch_size=10, records=1000, steps=9, sampling=name) for name in OF_ONE_SIZE]
    assert twice[0] < twice[1], "a record that may come twice is known better"


def test_a_report_says_of_a_sampler_what_its_row_says(monkeypatch):
    """Of one whose batches vary: what is expected, and that no sum is divided by how many were drawn."""
    run = {"noise_multiplier": 2.0, "records": 1000, "batch_size": 10, "steps": 200, "sampling": "fixed_size"}

    def told():
        text = str(fa.report(**run, delta=1e-5, neighbors="replace_one"))
        return "noise multiplier 2, expected batch" in text, "divided by a fixed number" in text

    assert told() == (False, False)
    secret = {name for name, one in SAMPLERS.items() if one.hides_size}
    assert secret == {"poisson", "truncated", "cyclic", "allocation"}
    monkeypatch.setitem(SAMPLERS, "fixed_size", SAMPLERS["fixed_size"]._replace(keeps_size=False))
    assert told() == (True, True)
