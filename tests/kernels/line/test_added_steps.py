"""Few added steps: coarse lines hold the truth by their ledger alone, and its entries are needed."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct import reference
from tests.kernels.line.test_capped_line import _holds, _ledger

JOBS = {
    "two steps": ([(0.8, 0.01, 2)], 0.012),
    "three steps": ([(0.6, 0.05, 3)], 0.1),
    "five steps": ([(0.8, 0.01, 5)], 0.02),
    "ten steps": ([(1.1, 0.2, 10)], 1.2),
    "two kinds": ([(0.7, 0.02, 2), (1.3, 0.1, 3)], 0.25),
}


def _line(job, **budget):
    steps, epsilon = JOBS[job]
    return _ledger(steps, 0.0, epsilon, floor=2.0, **budget)


def _truth(job):
    """Bounds of log delta, from the usual line, which `test_add_line` holds to the truth."""
    steps, epsilon = JOBS[job]
    whole = fa.Process((fa.Gaussian(noise).poisson(rate), count) for noise, rate, count in steps)
    lower, upper, status = fa.log_delta_bounds(whole, epsilon=epsilon, neighbors="add")
    assert status == fa.Status.TIGHT
    return lower - 1e-12, upper + 1e-12


@pytest.mark.parametrize("job", [name for name, (steps, _) in JOBS.items() if len(steps) == 1])
def test_the_usual_line_is_the_oracle_s(job):
    (noise, rate, steps), epsilon = JOBS[job][0][0], JOBS[job][1]
    run = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "epsilon": epsilon}
    lower, upper = _truth(job)
    assert lower <= math.log(float(reference.exact_delta(**run, direction="add"))) <= upper


@pytest.mark.parametrize(
    ("entry", "job", "budget"),
    [
        ("alias", "three steps", {"tolerance": 4.0}),
        ("alias", "two kinds", {"tolerance": 4.0}),
        ("tail", "two steps", {"dead": 6.0}),
        ("tail", "five steps", {"dead": 6.0}),
    ],
)
def test_every_entry_of_the_ledger_is_needed(entry, job, budget):
    """A line drawn so coarsely that one entry matters: with it the truth is inside, without it outside."""
    ledger, truth = _line(job, **budget), _truth(job)
    assert _holds(ledger, truth), ledger
    assert not _holds(ledger, truth, without=entry), ledger


@pytest.mark.parametrize("job", JOBS)
def test_what_lies_left_of_the_nodes_is_added(job):
    short, whole, truth = _line(job, left=3.0), _line(job), _truth(job)
    assert _holds(short, truth), short
    assert not _holds(short | {"up": whole["up"], "down": whole["down"]}, truth), short


@pytest.mark.parametrize("job", JOBS)
def test_coarse_lines_hold_the_truth(job):
    truth, narrow = _truth(job), 0
    rng = np.random.default_rng(9)
    for _ in range(60):
        budget = {
            "tolerance": rng.uniform(2.0, 30.0),
            "dead": rng.uniform(5.0, 36.0),
            "need": rng.uniform(6.0, 30.0),
            "left": rng.uniform(3.0, 9.0),
        }
        ledger = _line(job, **budget)
        assert ledger is None or _holds(ledger, truth), (budget, ledger)
        narrow += ledger is not None and ledger["up"] < 1.0
    assert narrow > 20
