"""Few steps in direction add (line/capped_closed.h) against direct integration: truth inside, and intervals narrow."""

import csv
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa

TABLE = Path(__file__).parents[2] / "data" / "add_line.csv"
ROUNDING = 2e-15
"""Of log(delta) between the table's digits and the doubles that are compared."""


def _rows():
    with TABLE.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def _run(cells):
    return {name: cells[name] for name in ("noise_multiplier", "sample_rate", "steps")}


def _random_cells(seed, n, most_steps=10.99):
    rng = np.random.default_rng(seed)

    def log_uniform(low, high):
        return np.exp(rng.uniform(np.log(low), np.log(high), n))

    return {
        "noise_multiplier": log_uniform(0.4, 8.0),
        "sample_rate": log_uniform(1e-6, 0.5),
        "steps": np.floor(log_uniform(2.0, most_steps)),
        "delta": log_uniform(1e-12, 1e-2),
    }


def _delta(cells, epsilon):
    lower, upper, _ = fa.dpsgd.delta_bounds(epsilon=epsilon, neighbors="add", **_run(cells))
    return lower, upper


def _epsilon(cells):
    lower, upper, _ = fa.dpsgd.epsilon_bounds(delta=cells["delta"], neighbors="add", **_run(cells))
    return lower, upper


@pytest.fixture(scope="module")
def table():
    return _rows()


def test_the_table_is_large_enough_and_reaches_both_ends(table):
    assert table["steps"].size >= 75
    assert set(table["steps"]) >= {2.0, 3.0, 5.0, 10.0}
    assert table["noise_multiplier"].min() < 0.6
    assert table["noise_multiplier"].max() > 5.0


def test_true_delta_lies_inside(table):
    lower, upper = _delta(table, table["epsilon"])
    slack = table["tolerance"] + ROUNDING * (1.0 - np.log(table["delta"]))
    assert np.all(lower <= table["delta"] * (1.0 + slack))
    assert np.all(upper >= table["delta"] * (1.0 - slack))


def test_delta_is_narrow(table):
    lower, upper = _delta(table, table["epsilon"])
    assert (upper / lower - 1.0 <= 1e-9).mean() >= 0.98


def test_a_delta_that_is_off_by_one_in_a_billion_lies_outside(table):
    lower, upper = _delta(table, table["epsilon"])
    assert ((lower > table["delta"] * (1.0 - 1e-9)) & (upper < table["delta"] * (1.0 + 1e-9))).mean() >= 0.98


def test_epsilon_at_the_true_delta_brackets_the_true_epsilon(table):
    lower, upper = _epsilon(table)
    # the digits of delta, its rounding to a double, and the slope of log(delta), at most 1/epsilon to within 1e3
    slack = 1e-13 + 10.0 * table["tolerance"]
    assert np.all(lower <= table["epsilon"] * (1.0 + slack))
    assert np.all(upper >= table["epsilon"] * (1.0 - slack))
    assert np.all(upper - lower <= 1e-9 * upper)


def test_random_runs_are_certified():
    lower, upper = _epsilon(_random_cells(1, 1500))
    assert (upper - lower <= 1e-9 * upper).mean() >= 0.999


def test_epsilon_and_delta_are_inverse():
    cells = _random_cells(2, 300)
    lower, upper = _epsilon(cells)
    some = lower > 0.0
    cells = {name: values[some] for name, values in cells.items()}
    assert np.all(_delta(cells, upper[some])[0] <= cells["delta"])
    assert np.all(_delta(cells, lower[some])[1] >= cells["delta"])


def test_the_capped_and_the_vertical_line_agree_where_they_meet():
    """Next to the limit between the two lines, delta of one more step is larger, and by little."""
    cells = _random_cells(3, 200)
    cells["noise_multiplier"] = 12.0 / cells["steps"]  # steps * noise_multiplier is the limit
    lower, upper = _epsilon(cells)
    beside = dict(cells, noise_multiplier=cells["noise_multiplier"] * (1.0 + 1e-9))
    lower_beside, upper_beside = _epsilon(beside)
    some = upper > 1e-9
    # epsilon falls with the noise, at most like its tenth power here
    assert np.all(upper[some] >= lower_beside[some])
    assert np.all(lower[some] <= upper_beside[some] * (1.0 + 1e-6))


def test_hostile_runs_are_ordered_and_bounded():
    rng = np.random.default_rng(4)
    n = 150
    cells = {
        "noise_multiplier": np.exp(rng.uniform(np.log(0.05), np.log(30.0), n)),
        "sample_rate": np.exp(rng.uniform(np.log(1e-12), np.log(0.999), n)),
        "steps": np.floor(np.exp(rng.uniform(np.log(2.0), np.log(12.0), n))),
        "delta": np.exp(-np.exp(rng.uniform(np.log(0.1), np.log(690.0), n))),
    }
    lower, upper = _epsilon(cells)
    end = -cells["steps"] * np.log1p(-cells["sample_rate"])
    assert np.all((lower >= 0.0) & (lower <= upper) & (upper <= end * (1.0 + 1e-13)))
    more = dict(cells, steps=cells["steps"] + 1.0)
    assert np.all(lower <= _epsilon(more)[1] * (1.0 + 1e-14))


def test_exponents_beyond_1e15_keep_their_digits():
    """The truth is a contour integral at 30 digits: log delta changes by 4e-9 between its ends."""
    run = {"noise_multiplier": 0.17445314415963772, "sample_rate": 1.6751452295227267e-11, "steps": 80}
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**run, delta=2.4011666131034076e-21, neighbors="add")
    assert lower <= 1.3401136496414062e-09
    assert upper >= 1.3401136496414043e-09
    assert upper - lower <= 1e-9 * upper


@pytest.mark.parametrize("noise", [0.03, 0.06, 0.1])
def test_little_noise_hides_nothing_and_epsilon_is_next_to_the_largest_loss(noise):
    steps = np.array([2.0, 7.0, 30.0, 100.0, 500.0])
    run = {"noise_multiplier": noise, "sample_rate": 1e-3, "steps": steps}
    lower, upper, _ = fa.dpsgd.epsilon_bounds(**run, delta=1e-12, neighbors="add")
    end = -steps * np.log1p(-1e-3)
    assert np.all(upper <= end * (1.0 + 1e-13))
    assert np.all(lower >= end * (1.0 - 1e-6))


def test_every_answer_is_the_same_alone_and_in_company():
    cells = _random_cells(5, 40)
    together = _epsilon(cells)
    alone = [_epsilon({name: values[i : i + 1] for name, values in cells.items()}) for i in range(40)]
    assert np.array_equal(together[0], np.concatenate([lower for lower, _ in alone]))
    assert np.array_equal(together[1], np.concatenate([upper for _, upper in alone]))


DEEP = [  # log delta by integrals of one step's closed form, 40 digits
    ([(8.0, 3e-4, 2)], 0.0005792739355366455, -741.958618887884),
    ([(3.0, 0.01, 2)], 0.020098152734722784, -742.049973132061),
    ([(6.0, 0.002, 1), (1.0, 1e-7, 1)], 0.0019787353144294227, -374.923346106746),
    ([(8.0, 3e-4, 1), (0.5, 1e-7, 1)], 0.0002892175804306345, -370.969908183276),
    ([(4.0, 0.002, 1), (2.0, 1e-8, 1)], 0.0019995924305795196, -380.05879936417),
]


@pytest.mark.parametrize(("steps", "epsilon", "truth"), DEEP)
def test_moments_whose_squares_underflow_certify_nothing_false(steps, epsilon, truth):
    job = fa.Process((fa.Gaussian(noise).poisson(rate), count) for noise, rate, count in steps)
    lower, upper, _ = fa.log_delta_bounds(job, epsilon=epsilon, neighbors="add")
    assert lower <= truth + 1e-9
    assert upper >= truth - 1e-9
