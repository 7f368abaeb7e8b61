"""Keywords of a run of DP-SGD: records, batches and epochs, deltas of records, what has been run already."""

import math
from fractions import Fraction

import numpy as np
import pytest

import fastacct as fa
from fastacct.accountants.run import rate_of_batch, steps_of_epochs
from fastacct.readers.contour import Contour
from fastacct.readers.nearby import EPSILON

SET = {"records": 60_000, "batch_size": 256, "epochs": 60}
SAME = {"sample_rate": 256 / 60_000, "steps": 14_063}  # 60 * 60000 / 256 = 14062.5
PLAIN = {"sample_rate": 0.01, "steps": 1000}
HISTORY = [(1.0, 0.01, 500), (1.5, 0.02, 100)]
TARGET = {"epsilon": 2.0, "delta": 1e-5}


# -- from numbers to readers -----------------------------------------------------------------------------------------

CELLS = {"noise_multiplier": np.array([0.8, 1.0, np.inf]), "sample_rate": [[0.0], [0.01], [1.0]], "steps": 30}
RUNS = {"numbers": {"noise_multiplier": 1.0, **PLAIN}, "cells": CELLS, "history": {"history": HISTORY}}
VERBS = {
    "epsilon_bounds": lambda **run: fa.dpsgd.epsilon_bounds(delta=1e-5, **run),
    "delta_lower": lambda **run: fa.dpsgd.delta_lower(epsilon=1.0, **run),
    "epsilon": lambda **run: fa.dpsgd.epsilon(delta=1e-5, accountant=fa.RDP(), threads=1, **run),
    "best_order": lambda **run: fa.dpsgd.best_order(delta=1e-5, **run),
    "rdp": lambda **run: fa.dpsgd.rdp(orders=8.0, **run),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_runs_are_read_without_mechanisms(verb, run, monkeypatch):
    expected = VERBS[verb](**run)
    monkeypatch.setattr("fastacct.accountants.run.Gaussian", None)
    np.testing.assert_array_equal(VERBS[verb](**run), expected)


@pytest.mark.parametrize("relation", ["add_remove", "add", "remove", "replace_one"])
@pytest.mark.parametrize("run", [*RUNS.values(), {"history": [*HISTORY, HISTORY[0], (3.0, 0.5, 0)]}])
def test_runs_and_the_processes_that_they_are_give_the_same_bits(run, relation):
    if "history" in run:
        job = sum((fa.Gaussian(noise).poisson(rate) * steps for noise, rate, steps in run["history"]), fa.Process())
    else:
        job = fa.Gaussian(run["noise_multiplier"]).poisson(run["sample_rate"]) * run["steps"]
    found = fa.dpsgd.epsilon_bounds(**run, delta=1e-5, neighbors=relation)
    np.testing.assert_array_equal(found, fa.epsilon_bounds(job, delta=1e-5, neighbors=relation))
    divergence = fa.dpsgd.rdp(**run, orders=8.0, neighbors=relation)
    np.testing.assert_array_equal(divergence, fa.rdp(job, 8.0, neighbors=relation))


@pytest.mark.parametrize("relation", ["add_remove", "add", "remove"])
def test_one_run_is_read_as_a_job_of_any_mixtures_is(relation):
    run = {"noise_multiplier": np.array([0.8, 1.0, 3.0]), "sample_rate": np.array([[0.01], [1.0]]), "steps": 30}
    job = fa.Gaussian(run["noise_multiplier"]).poisson(run["sample_rate"]) * run["steps"]
    contour = Contour(job, relation)
    flat = contour.read(np.arange(6), np.full(6, 1e-5), EPSILON, contour.directions, 1)
    found = fa.dpsgd.epsilon_bounds(**run, delta=1e-5, neighbors=relation)
    for one, other in zip(found, (flat.lower, flat.upper, flat.status), strict=True):
        np.testing.assert_array_equal(one.ravel(), other)


# -- records, batches, epochs ----------------------------------------------------------------------------------------


def test_batches_and_epochs_are_rates_and_steps():
    run, same = {"noise_multiplier": 1.1, **SET}, {"noise_multiplier": 1.1, **SAME}
    dpsgd = fa.dpsgd
    assert dpsgd.epsilon(**run, delta=1e-5) == dpsgd.epsilon(**same, delta=1e-5)
    assert dpsgd.delta(**run, epsilon=2.0) == dpsgd.delta(**same, epsilon=2.0)
    assert dpsgd.epsilon_bounds(**run, delta=1e-5) == dpsgd.epsilon_bounds(**same, delta=1e-5)
    assert dpsgd.delta_lower(**run, epsilon=2.0) == dpsgd.delta_lower(**same, epsilon=2.0)
    assert dpsgd.rdp(**run, orders=8) == dpsgd.rdp(**same, orders=8)
    assert dpsgd.best_order(**run, delta=1e-5) == dpsgd.best_order(**same, delta=1e-5)
    assert dpsgd.epsilon_approx(**run, delta=1e-5) == dpsgd.epsilon_approx(**same, delta=1e-5)
    renyi = {"accountant": fa.RDP(), "delta": 1e-5}
    assert dpsgd.epsilon(**run, **renyi) == dpsgd.epsilon(**same, **renyi)


def test_renyi_divergences_are_of_one_step_unless_said_otherwise():
    one = fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=0.01, orders=4)
    assert fa.dpsgd.rdp(noise_multiplier=1.0, batch_size=6, records=600, orders=4) == one
    two = fa.dpsgd.rdp(noise_multiplier=1.0, sample_rate=0.01, steps=100, orders=4)
    assert fa.dpsgd.rdp(noise_multiplier=1.0, batch_size=6, records=600, epochs=1, orders=4) == two


@pytest.mark.parametrize(
    ("epochs", "batch_size", "records", "steps"),
    [
        (60, 256, 60_000, 14_063),
        (1, 1, 1, 1),
        (0, 5, 10, 0),
        (1.1, 1, 10, 11),  # in floats 1.1 * 10 is above 11
        (0.1, 3, 10, 1),
        (1, 3, 10, 4),
        (2, 0.5, 3, 12),
        (1e-3, 10, 100, 1),
        (7, 0.07, 1, 100),  # in floats 7 / 0.07 is above 100
        (3, 0.3, 1, 10),
    ],
)
def test_epochs_are_counted_in_decimals_and_rounded_up(epochs, batch_size, records, steps):
    assert steps_of_epochs(epochs, batch_size, records) == steps
    run = {"noise_multiplier": 2.0, "delta": 1e-5}
    rate = rate_of_batch(batch_size, records)
    given = {"batch_size": batch_size, "records": records} if records > 1 else {"sample_rate": rate}
    assert fa.dpsgd.epsilon(**run, **given, epochs=epochs) == fa.dpsgd.epsilon(**run, sample_rate=rate, steps=steps)


def test_a_rate_of_a_batch_is_never_below_the_quotient():
    for batch, records in ((1, 3), (256, 60_000), (2, 3), (4096, 50_000), (7, 7), (0.5, 3), (1, 2**53)):
        rate = rate_of_batch(batch, records)
        assert Fraction(batch) / records <= Fraction(rate) <= 1
        assert rate == pytest.approx(batch / records, rel=3e-16, abs=0.0)  # an ulp


def test_a_delta_of_records_is_never_above_the_power():
    at = {"noise_multiplier": 1.0, **PLAIN}
    for n in (1, 3, 10, 49, 1000, 60_000, 2**53):
        delta = 1 / n if Fraction(1 / n) * n <= 1 else math.nextafter(1 / n, 0.0)
        assert fa.dpsgd.epsilon(**at, records=n, delta="1/n") == fa.dpsgd.epsilon(**at, delta=delta)
    assert fa.dpsgd.epsilon(**at, records=100, delta="1/n^1.5") == pytest.approx(
        fa.dpsgd.epsilon(**at, delta=1e-3), rel=1e-14, abs=0.0
    )


@pytest.mark.parametrize("words", ["1/n^2", "1/n**2", " 1 / n ^ 2 ", "1/n^2.0"])
def test_powers_may_be_written_in_several_ways(words):
    at = {"noise_multiplier": 1.0, **PLAIN}
    assert fa.dpsgd.epsilon(**at, records=64, delta=words) == fa.dpsgd.epsilon(**at, delta=math.nextafter(2**-12, 0))


def test_everything_broadcasts():
    noise, records, batch, epochs = np.array([[1.0], [2.0]]), np.array([1000, 2000, 5000]), 50, [1, 2, 3]
    run = {"records": records, "batch_size": batch, "epochs": epochs, "delta": "1/n"}
    found = fa.dpsgd.epsilon(noise_multiplier=noise, **run)
    assert found.shape == (2, 3)
    assert found.dtype == np.float64
    for i, j in np.ndindex(2, 3):
        alone = {"records": int(records[j]), "batch_size": batch, "epochs": epochs[j], "delta": "1/n"}
        assert found[i, j] == fa.dpsgd.epsilon(noise_multiplier=float(noise[i, 0]), **alone)
    assert isinstance(fa.dpsgd.epsilon(noise_multiplier=1.0, **SET, delta="1/n"), float)
    sigma = fa.dpsgd.noise_multiplier(epsilon=[1.0, 2.0, 3.0], **run)
    assert (fa.dpsgd.epsilon(noise_multiplier=sigma, **run) <= [1.0, 2.0, 3.0]).all()


def test_a_history_takes_a_delta_of_its_records():
    found = fa.dpsgd.epsilon(history=HISTORY, records=[1024, 4096], delta="1/n")
    np.testing.assert_array_equal(found, fa.dpsgd.epsilon(history=HISTORY, delta=[2.0**-10, 2.0**-12]))


# -- inverse verbs ---------------------------------------------------------------------------------------------------


def test_inverse_verbs_take_batches_epochs_and_records():
    sigma = fa.dpsgd.noise_multiplier(epsilon=2.0, delta="1/n", **SET)
    same = math.nextafter(1 / 60_000, 0.0) if Fraction(1 / 60_000) * 60_000 > 1 else 1 / 60_000
    assert sigma == fa.dpsgd.noise_multiplier(epsilon=2.0, delta=same, **SAME)
    steps = fa.dpsgd.steps(**TARGET, noise_multiplier=1.0, batch_size=6, records=600)
    assert steps == fa.dpsgd.steps(**TARGET, noise_multiplier=1.0, sample_rate=0.01)
    assert type(steps) is int
    rate = fa.dpsgd.sample_rate(epsilon=2.0, delta="1/n", records=2**16, noise_multiplier=1.0, steps=100)
    assert rate == fa.dpsgd.sample_rate(epsilon=2.0, delta=2.0**-16, noise_multiplier=1.0, steps=100)


@pytest.mark.parametrize("accountant", [None, fa.RDP()])
def test_a_sample_rate_for_epochs_counts_the_steps_that_it_means(accountant):
    run = {"noise_multiplier": 1.2, "delta": 1e-5, "accountant": accountant}
    rate = fa.dpsgd.sample_rate(epsilon=2.0, epochs=5, **run)
    assert 0.0 < rate < 1.0
    reached = fa.dpsgd.epsilon(sample_rate=rate, epochs=5, **run)
    assert 2.0 * (1 - 1e-4) < reached <= 2.0
    assert fa.dpsgd.epsilon(sample_rate=rate * (1 + 1e-3), epochs=5, **run) > 2.0


def test_corners_of_a_sample_rate_for_epochs():
    assert fa.dpsgd.sample_rate(**TARGET, noise_multiplier=1.0, epochs=0) == 1.0
    assert fa.dpsgd.sample_rate(**TARGET, noise_multiplier=math.inf, epochs=3) == 1.0
    assert fa.dpsgd.sample_rate(**TARGET, noise_multiplier=0.0, epochs=3) == 0.0
    assert fa.dpsgd.sample_rate(epsilon=2.0, delta=0.0, noise_multiplier=1.0, epochs=3) == 0.0
    assert fa.dpsgd.sample_rate(**TARGET, noise_multiplier=1.0, epochs=2**53) == 0.0
    found = fa.dpsgd.sample_rate(**TARGET, noise_multiplier=[0.0, math.inf], epochs=[3, 2])
    np.testing.assert_array_equal(found, [0.0, 1.0])


@pytest.mark.parametrize("accountant", [None, fa.RDP()])
def test_what_has_been_run_already_counts(accountant):
    how = {"accountant": accountant, "delta": 1e-5}

    def after(noise_multiplier=1.2, sample_rate=0.01, steps=500):
        return fa.dpsgd.epsilon(history=[*HISTORY, (noise_multiplier, sample_rate, steps)], **how)

    sigma = fa.dpsgd.noise_multiplier(epsilon=3.0, sample_rate=0.01, steps=500, history=HISTORY, **how)
    assert after(noise_multiplier=sigma) <= 3.0 < after(noise_multiplier=sigma * (1 - 1e-8))
    assert sigma > fa.dpsgd.noise_multiplier(epsilon=3.0, sample_rate=0.01, steps=500, **how)
    rate = fa.dpsgd.sample_rate(epsilon=3.0, noise_multiplier=1.2, steps=500, history=HISTORY, **how)
    assert after(sample_rate=rate) <= 3.0 < after(sample_rate=rate * (1 + 1e-8))
    steps = fa.dpsgd.steps(epsilon=3.0, noise_multiplier=1.2, sample_rate=0.01, history=HISTORY, **how)
    assert type(steps) is int
    assert after(steps=steps) <= 3.0 < after(steps=steps + 1)


def test_a_history_and_arrays():
    epsilon = np.array([2.5, 3.0])
    found = fa.dpsgd.steps(epsilon=epsilon, delta=1e-5, noise_multiplier=1.2, sample_rate=0.01, history=HISTORY)
    alone = [
        fa.dpsgd.steps(epsilon=e, delta=1e-5, noise_multiplier=1.2, sample_rate=0.01, history=HISTORY) for e in epsilon
    ]
    np.testing.assert_array_equal(found, alone)
    assert found.dtype == np.float64


def test_corners_after_a_history():
    known = {"delta": 1e-5, "history": HISTORY}
    part = {"sample_rate": 0.01, "steps": 10}
    assert fa.dpsgd.noise_multiplier(epsilon=math.inf, **part, **known) == 0.0
    assert fa.dpsgd.noise_multiplier(epsilon=3.0, sample_rate=0.01, steps=0, **known) == 0.0
    for target in ({"epsilon": 0.1, "delta": 1e-5}, {"epsilon": 3.0, "delta": 0.0}):
        with pytest.raises(ValueError, match="exceeds the target"):
            fa.dpsgd.noise_multiplier(**target, **part, history=HISTORY)
    assert fa.dpsgd.steps(epsilon=3.0, noise_multiplier=1.0, sample_rate=0.0, **known) == math.inf
    assert fa.dpsgd.steps(epsilon=3.0, noise_multiplier=0.0, sample_rate=0.1, **known) == 0
    assert fa.dpsgd.steps(epsilon=3.0, noise_multiplier=1e12, sample_rate=1e-9, **known) == 2**52  # and not any number
    assert fa.dpsgd.sample_rate(epsilon=3.0, noise_multiplier=0.0, steps=3, **known) == 0.0
    assert fa.dpsgd.sample_rate(epsilon=3.0, noise_multiplier=math.inf, steps=3, **known) == 1.0


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        ({**PLAIN, "batch_size": 6, "records": 600}, TypeError, "give either sample_rate or batch_size, not both"),
        ({**PLAIN, "epochs": 1}, TypeError, "give either steps or epochs, not both"),
        ({"batch_size": 6, "steps": 9}, TypeError, "batch_size needs records, the number of records of the data set"),
        ({"steps": 9}, TypeError, r"missing sample_rate \(or history="),
        ({"records": 600, "epochs": 1}, TypeError, r"missing sample_rate \(or history="),
        ({"sample_rate": 0.1}, TypeError, r"missing steps \(or history="),
        ({"batch_size": 7, "records": 6, "steps": 9}, ValueError, r"batch_size = 7\.0 exceeds records = 6\.0"),
        ({"batch_size": [6, 9], "records": [7, 8], "steps": 9}, ValueError, r"batch_size = 9\.0 exceeds records = 8"),
        ({"batch_size": 0, "records": 6, "steps": 9}, ValueError, r"batch_size = 0\.0 is out of range; .*\(0, 2\*\*53"),
        ({"batch_size": 1, "records": 1.5, "steps": 9}, ValueError, r"records = 1\.5 is out of range; .*whole"),
        ({"batch_size": 1, "records": 0, "steps": 9}, ValueError, r"records = 0\.0 is out of range"),
        ({**PLAIN, "records": -1}, ValueError, r"records = -1\.0 is out of range"),
        ({"sample_rate": 0.1, "epochs": -1}, ValueError, r"epochs = -1\.0 is out of range"),
        ({"sample_rate": 0.1, "epochs": math.nan}, ValueError, "epochs = nan is out of range"),
        ({"sample_rate": 0.1, "epochs": "3"}, TypeError, "epochs must be a number"),
        ({"sample_rate": 0.0, "epochs": 1}, ValueError, "epochs needs a positive sample_rate"),
        ({"sample_rate": 1e-300, "epochs": 9}, ValueError, r"steps = 1\.15\d*e\+18 is out of range"),
        ({"sample_rate": 256, "steps": 9}, ValueError, r"a batch size\? give batch_size= and records="),
        ({"batch_size": [1, 2], "records": [8, 8, 8], "steps": 9}, ValueError, "do not broadcast: batch_size"),
        ({"sample_rate": [0.1, 0.2], "epochs": [1, 2, 3]}, ValueError, "do not broadcast: epochs"),
    ],
)
def test_a_run_that_is_wrong_is_refused(run, error, message):
    with pytest.raises(error, match=message):
        fa.dpsgd.epsilon(noise_multiplier=1.0, delta=1e-5, **run)


@pytest.mark.parametrize("name", ["noise_multiplier", "sample_rate", "steps", "batch_size", "epochs"])
def test_a_history_stands_alone(name):
    with pytest.raises(TypeError, match=f"give either history or {name}, not both"):
        fa.dpsgd.epsilon(history=HISTORY, delta=1e-5, **{name: 1})


@pytest.mark.parametrize("delta", ["1e-5", "n", "1/m", "1/n^", "1/n^-1", "1/n^x", "2/n", ""])
def test_a_delta_in_other_words_is_refused(delta):
    with pytest.raises(ValueError, match='is neither a number nor a power of the records such as "1/n"'):
        fa.dpsgd.epsilon(noise_multiplier=1.0, **PLAIN, records=100, delta=delta)


def test_a_delta_of_records_needs_records():
    for run in ({"noise_multiplier": 1.0, **PLAIN}, {"history": HISTORY}):
        with pytest.raises(TypeError, match="delta = '1/n' needs records, the number of records of the data set"):
            fa.dpsgd.epsilon(**run, delta="1/n")
    with pytest.raises(ValueError, match=r"records = 0\.0 is out of range"):
        fa.dpsgd.epsilon(noise_multiplier=1.0, **PLAIN, records=0, delta="1/n")


@pytest.mark.parametrize(
    ("verb", "run", "message"),
    [
        ("noise_multiplier", {"noise_multiplier": 1.0, **PLAIN}, "noise_multiplier is what this function computes"),
        ("sample_rate", {"noise_multiplier": 1.0, **PLAIN}, "sample_rate is what this function computes"),
        (
            "sample_rate",
            {"noise_multiplier": 1.0, "steps": 9, "batch_size": 6, "records": 600},
            "batch_size would fix sample_rate, which is asked for",
        ),
        ("steps", {"noise_multiplier": 1.0, **PLAIN}, "steps is what this function computes"),
        (
            "steps",
            {"noise_multiplier": 1.0, "sample_rate": 0.1, "epochs": 3},
            "epochs would fix steps, which is asked for",
        ),
        ("sample_rate", {"noise_multiplier": 1.0, "steps": 9, "epochs": 3}, "give either steps or epochs, not both"),
        ("noise_multiplier", {"sample_rate": 0.1}, "missing steps"),
        ("noise_multiplier", {"epochs": 3}, "missing sample_rate$"),
        ("sample_rate", {"noise_multiplier": 1.0}, "missing steps"),
        ("steps", {}, "missing noise_multiplier, sample_rate"),
    ],
)
def test_keywords_that_would_fix_the_unknown_are_refused_by_name(verb, run, message):
    with pytest.raises(TypeError, match=message):
        getattr(fa.dpsgd, verb)(**TARGET, **run)


def test_a_history_that_exceeds_the_target_is_said_so():
    for verb, run in (("steps", {"sample_rate": 0.01}), ("sample_rate", {"steps": 10})):
        with pytest.raises(ValueError, match=r"what was released already costs epsilon .* exceeds the target"):
            getattr(fa.dpsgd, verb)(epsilon=0.1, delta=1e-5, noise_multiplier=1.0, **run, history=HISTORY)
