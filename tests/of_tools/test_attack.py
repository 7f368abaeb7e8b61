"""A few of the random jobs that `make attack` asks by the thousand, on grids that stop early; each fault is seen."""

import os
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest

from fastacct.losses.atoms import in_reach
from fastacct.losses.loss import OutOfReachError
from fastacct.readers import cell
from tests import attack, random_jobs

JOB = [(attack.fa.Gaussian(5.0), 30), (attack.fa.Gaussian(3.0).poisson(0.1), 10)]


def faults(*questions, seed=5):
    """What is seen when these questions, and those that every job is asked, are put."""
    one = attack.Attack(seed, np.random.default_rng(seed), JOB, "remove")
    for question in (attack.Attack.base, *questions):
        with suppress(attack.GivenUpError):
            question(one)
    return one.report.faults


def kinds(*questions, **told):
    return {kind for kind, _ in faults(*questions, **told)}


@pytest.mark.parametrize("seed", sorted(set(range(30)) - {3, 7, 8, 13, 16}))  # which take up to a minute each
def test_no_random_job_is_answered_wrongly(seed, monkeypatch):
    monkeypatch.setattr(cell, "TOLERANCE", 0.3)
    one = attack.Attack(seed)
    with suppress(attack.GivenUpError):
        one.base()
        one.arrays("epsilon_bounds", "delta")
    assert one.report.faults == [], one.report.about


@pytest.mark.parametrize("name", attack.OTHERS)
def test_a_job_that_is_answered_well_has_no_fault(name):
    assert faults(attack.OTHERS[name][1]) == []


@pytest.mark.parametrize("name", random_jobs.KINDS)
def test_a_cell_of_random_arrays_is_the_same_in_numbers(name):
    def made(**told):
        return random_jobs.KINDS[name](random_jobs.Draws(np.random.default_rng(5), **told))

    if random_jobs.takes_arrays(name):
        assert made(size=3).at((3,), 1) == made(size=3, only=1)
    assert made() == made()


def test_every_kind_is_drawn():
    seen = {attack.Attack(seed).size for seed in range(20)}
    assert seen == {0, 2, 3}
    drawn = [random_jobs.random_job(np.random.default_rng(seed)) for seed in range(600)]
    assert {relation for _, relation in drawn} == set(random_jobs.RELATIONS)
    written = " ".join(repr(parts) for parts, _ in drawn)
    for one in (
        *["Together", "Parallel", "shuffled", "selected=", "persistent", "with_replacement"],
        *["at_most", ".group(", "jit"],
    ):
        assert one in written, one


def test_an_attack_sees_answers_that_are_too_small(monkeypatch):
    """Half the epsilon of a composition is below one of its parts, or its delta above what was asked."""
    right = attack.fa.epsilon_bounds

    def halved(job, **told):
        lower, upper, status = right(job, **told)
        return attack.fa.Bounds(0.5 * lower, 0.5 * upper, status) if len(job) > 1 else right(job, **told)

    monkeypatch.setattr(attack.fa, "epsilon_bounds", halved)
    found = [what for seed in range(5, 12) for kind, what in faults(seed=seed) if kind in ("order", "part")]
    assert any("delta at epsilon(delta)" in what for what in found)
    assert any("is below its part" in what for what in found)


def test_an_attack_sees_a_calibration_that_misses(monkeypatch):
    right = attack.fa.calibrate
    monkeypatch.setattr(attack.fa, "calibrate", lambda build, **told: 0.9 * right(build, **told))
    assert kinds(attack.Attack.calibrate_noise) == {"target"}


@pytest.mark.parametrize(
    "error",
    [
        OutOfReachError("quantiles are not known"),
        ValueError("operands could not be broadcast together"),
        IndexError("list index out of range"),
        ZeroDivisionError(),
    ],
)
def test_an_attack_sees_errors_that_are_no_refusals(error, monkeypatch):
    """Of an internal class, of NumPy's or of Python's making: only what the package raises in words is a refusal."""

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(attack.fa, "gdp", fails)
    assert kinds(attack.Attack.fit) == {"crash"}


def test_an_attack_sees_an_internal_class_that_the_package_raises(monkeypatch):
    monkeypatch.setattr(attack.fa, "gdp", lambda *_, **__: in_reach(1e300))
    (fault,) = faults(attack.Attack.fit)
    assert fault[0] == "crash"
    assert "OutOfReachError" in fault[1]


def test_what_the_package_refuses_in_words_is_no_fault_but_counted(monkeypatch):
    one = attack.Attack(5, np.random.default_rng(5), JOB, "remove")
    with pytest.raises(attack.GivenUpError):
        one.put("epsilon", delta=2.0)
    assert one.report.faults == []
    assert [text for text in one.report.refusals if "delta" in text]
    with pytest.raises(attack.GivenUpError):
        one.put("epsilon", delta=2.0, must=True)
    assert [kind for kind, _ in one.report.faults] == ["crash"]


def test_an_attack_sees_warnings(monkeypatch):
    right = attack.fa.gdp

    def warns(*args, **told):
        warnings.warn("overflow encountered in exp", RuntimeWarning, stacklevel=1)
        return right(*args, **told)

    monkeypatch.setattr(attack.fa, "gdp", warns)
    assert kinds(attack.Attack.fit) == {"crash"}


@pytest.mark.parametrize("verb", ["epsilon_bounds", "delta_bounds", "rdp_bounds", "tradeoff_bounds"])
def test_an_attack_sees_bits_that_depend_on_neighbours(verb, monkeypatch):
    right = getattr(attack.fa, verb)

    def moved(*args, **told):
        found = right(*args, **told)
        return (
            attack.fa.Bounds(found.lower, np.nextafter(found.upper, np.inf), found.status)
            if np.ndim(found.lower)
            else found
        )

    monkeypatch.setattr(attack.fa, verb, moved)
    name = {"epsilon_bounds": "delta", "delta_bounds": "epsilon", "rdp_bounds": "orders", "tradeoff_bounds": "fpr"}[
        verb
    ]
    assert "bits" in kinds(lambda one: one.arrays(verb, name))


@pytest.mark.parametrize("lasts", [0.3, 60.0])
def test_an_attack_sees_slow_answers_and_ends_those_that_hang(lasts, monkeypatch):
    def slow(*_, **__):
        start = time.process_time()
        while time.process_time() - start < lasts:
            pass

    monkeypatch.setattr(attack, "SECONDS", 0.2)
    monkeypatch.setattr(attack.fa, "explain", slow)
    found = faults(attack.Attack.why)
    assert [kind for kind, what in found if "explain" in what] == ["slow"], found


def test_a_process_that_ends_is_a_fault_of_its_job():
    found = list(attack.asked([1, 2, 3], 2, _ends_at_two))
    assert [report.seed for report in found] == [1, 2, 3]
    assert [report.faults for report in found] == [[], [("crash", "the process ended")], []]


def _ends_at_two(seed):
    if seed == 2:
        os._exit(1)
    return attack.Report(seed)


def test_the_number_of_processes_changes_nothing():
    one, two = (list(attack.asked([0, 4], n, _drawn)) for n in (1, 2))
    assert [r.about for r in one] == [r.about for r in two] == [attack.Attack(seed).report.about for seed in (0, 4)]


def _drawn(seed):
    return attack.Attack(seed).report
