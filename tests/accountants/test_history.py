"""Runs of several blocks of steps: equal blocks are joined, the order does not matter, Gaussians are one Gaussian."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.accountants.run import of_history
from tests.containment import encloses_gaussian

RELATIONS = ("add_remove", "add", "remove", "zero_out", "replace_one")


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_history_of_equal_blocks_is_the_run(neighbors):
    deltas = [1e-5, 1e-9]
    run = {"noise_multiplier": 1.1, "sample_rate": 0.004, "steps": 5000}
    parts = [(1.1, 0.004, 1000), (1.1, 0.004, 3500), (2.0, 0.1, 0), (1.1, 0.004, 500), (3.0, 0.0, 7)]
    whole = fa.dpsgd.epsilon_bounds(**run, delta=deltas, neighbors=neighbors)
    for a, b in zip(whole, fa.dpsgd.epsilon_bounds(history=parts, delta=deltas, neighbors=neighbors), strict=True):
        np.testing.assert_array_equal(a, b)
    nearly = [(1.1, 0.004, 1000), (np.nextafter(1.1, 2), 0.004, 4000)]
    np.testing.assert_allclose(
        fa.dpsgd.epsilon(history=nearly, delta=deltas, neighbors=neighbors), whole.upper, rtol=2e-10, atol=0.0
    )


def test_history_does_not_depend_on_its_order():
    history = [(0.8, 0.01, 200), (2.0, 0.1, 300), (5.0, 1.0, 4), (1.0, 0.0, 99), (3.0, 0.5, 0)]
    forward, backward = (fa.dpsgd.delta_bounds(history=h, epsilon=[1.0, 3.0]) for h in (history, history[::-1]))
    for a, b in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(a, b)
    again = fa.dpsgd.delta_bounds(history=history, epsilon=[1.0, 3.0], threads=1)
    np.testing.assert_array_equal(forward.upper, again.upper)
    assert fa.dpsgd.delta(history=history, epsilon=3.0) == forward.upper[1]
    assert (forward.upper > fa.dpsgd.delta(history=history[:2], epsilon=[1.0, 3.0])).all()


def test_history_of_gaussians_is_a_gaussian():
    history = [(2.0, 1.0, 3), (3.0, 1.0, 5), (4.0, 1, 1)]
    with mp.workdps(30):
        mu = mp.sqrt(mpf(3) / 4 + mpf(5) / 9 + mpf(1) / 16)
    for relation, shift in (("add_remove", mu), ("replace_one", 2 * mu)):
        bounds = fa.dpsgd.epsilon_bounds(history=history, delta=1e-6, neighbors=relation)
        assert encloses_gaussian(bounds, shift, 1e-6, 1e-9)


def test_history_is_between_its_parts_and_below_renyi():
    history = [(0.8, 0.01, 2000), (2.0, 0.1, 300), (1.0, 0.02, 1000)]
    whole = fa.dpsgd.epsilon_bounds(history=history, delta=[1e-5, 1e-9])
    renyi = fa.dpsgd.epsilon(history=history, delta=[1e-5, 1e-9], accountant=fa.RDP())
    assert (whole.upper < renyi).all()
    assert (whole.upper - whole.lower < 1e-8 * whole.upper).all()
    for sigma, q, steps in history:
        part = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps}
        assert (fa.dpsgd.epsilon(**part, delta=[1e-5, 1e-9]) < whole.lower).all()


def test_more_steps_than_floats_can_count_are_refused():
    half = 2**53 - 1
    assert fa.dpsgd.epsilon(history=[(1e9, 1.0, half)], delta=1e-5) > 0
    with pytest.raises(ValueError, match=r"history: equal blocks are joined, and their count"):
        fa.dpsgd.epsilon(history=[(1e9, 1.0, half), (1e9, 1.0, half)], delta=1e-5)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_run_and_the_same_job_in_mechanisms_give_the_same_bits(neighbors):
    step, history = fa.Gaussian(noise_multiplier=1.1).poisson(sample_rate=0.01), [(1.1, 0.01, 3000), (2.0, 1.0, 5)]
    options = {"delta": [1e-5, 1e-9], "neighbors": neighbors}
    pairs = [
        (fa.dpsgd.epsilon_bounds(noise_multiplier=1.1, sample_rate=0.01, steps=3000, **options), step * 3000),
        (fa.dpsgd.epsilon_bounds(history=history, **options), step * 3000 + fa.Gaussian(noise_multiplier=2.0) * 5),
    ]
    for run, job in pairs:
        for a, b in zip(run, fa.epsilon_bounds(job, **options), strict=True):
            np.testing.assert_array_equal(a, b)


ODD = [math.nan, math.inf, -1.0, True, "1", 10**400, 2**60, 0, 0.5, 1.5, -0.0, None, np.float64(0.25), 1e-320]


def test_plain_rows_are_read_as_rows_of_any_other_kind():
    """The quick path, of lists of plain numbers, gives the process and the words of the one that looks at each row."""
    rng, refused = np.random.default_rng(6), 0
    for _ in range(300):
        rows = [
            (float(rng.choice([0.7, 1.0, math.inf])), float(rng.choice([0.0, 0.01, 1.0])), int(rng.integers(0, 3)))
            for _ in range(rng.integers(1, 6))
        ]
        if rng.random() < 0.6:
            row, column = rng.integers(len(rows)), rng.integers(3)
            rows[row] = (*rows[row][:column], ODD[rng.integers(len(ODD))], *rows[row][column + 1 :])
        found = []
        for history in (rows, iter(rows), [list(row) for row in rows]):
            try:
                job = of_history(history)
                found.append((job, str(job), hash(job)))
            except (TypeError, ValueError) as error:
                found.append((type(error), str(error).replace("[", "(").replace("]", ")")))
        assert found[0] == found[1] == found[2]
        refused += len(found[0]) == 2
    assert 50 < refused < 250
