"""The exact kernels against an independent 80-bit oracle: containment is absolute, width a second assertion."""

import csv
import gzip
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
import fastacct.reference
from fastacct.core.engine import run_kernel
from fastacct_ext import _kernels
from fastacct_ext._kernels import Directions, Quantity
from tests.containment import holds

SAMPLE = Path(__file__).parents[2] / "data" / "exact_sample_large.csv.gz"
AGREEMENT = 1e-12  # of the oracle's two paths


def rows():
    with gzip.open(SAMPLE, "rt") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@pytest.fixture(scope="module")
def readings():
    """(row, log of the oracle's delta, lower, upper, slope) of every row."""
    out = []
    for way, directions in (("1", Directions.REMOVE), ("-1", Directions.ADD)):
        some = [row for row in rows() if row["dir"] == way]
        cells = tuple(np.array([float(row[name]) for row in some]) for name in ("sigma", "q", "steps", "eps"))
        kernel = partial(_kernels.exact_bounds, *cells, quantity=Quantity.LOG_DELTA, directions=directions)
        found, _ = run_kernel(kernel, (len(some),), 3, 2)
        logs = [float(mp.log(mpf(row["delta"]))) for row in some]
        out += list(zip(some, logs, *(values.tolist() for values in found), strict=True))
    return out


def test_the_sample_is_large_enough(readings):
    assert len(readings) >= 5000


def test_true_delta_lies_inside(readings):
    outside = [
        (row, lower - log, upper - log) for row, log, lower, upper, _ in readings if not lower - AGREEMENT <= log
    ]
    outside += [
        (row, lower - log, upper - log) for row, log, lower, upper, _ in readings if not log <= upper + AGREEMENT
    ]
    assert not outside


def test_width_of_delta(readings):
    widths = np.array([upper - lower for _, _, lower, upper, _ in readings])
    within = np.array([float(row["eps"]) <= 1e4 for row, *_ in readings])  # beyond it rounding of epsilon shows
    assert (widths[within] <= 1e-9).mean() >= 0.985
    assert (widths[within] <= 4e-9).mean() >= 0.995
    assert (widths <= 1e-6).all()
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert f"truth at {len(widths):,} points" in readme
    for limit, percent in re.findall(r"(?m)^\| at most (\S+) \| (\S+) % \|$", readme):
        assert float(percent) == pytest.approx(
            100.0 * (widths <= float(limit)).mean(), abs=0.2
        )  # kernels of other processors round elsewhere


def test_epsilon_brackets_the_point_of_the_oracle(readings):
    """At the oracle's delta, the interval of epsilon contains the epsilon it was computed at."""
    for row, log, _, _, slope in readings[::5]:
        epsilon, delta = float(row["eps"]), float(np.exp(log))
        if not (1e-300 < delta < 1.0 and slope < 0.0):
            continue
        run = {
            "noise_multiplier": float(row["sigma"]),
            "sample_rate": float(row["q"]),
            "steps": int(row["steps"]),
        }
        bounds = fa.dpsgd.epsilon_bounds(**run, delta=delta, neighbors="remove" if row["dir"] == "1" else "add")
        slack = 2e-12 / -slope + 1e-15 * epsilon  # the oracle's own error, and that of delta as a double
        assert bounds.lower <= epsilon + slack, row
        assert bounds.upper >= epsilon - slack, row


@pytest.mark.parametrize(
    ("direction", "q", "sigma", "steps", "epsilon"),
    [
        ("remove", 0.5, 50.0, 10**9, 51002.882965453035),
        ("add", 0.5, 50.0, 10**9, 50958.269989860506),
        ("remove", 0.01, 20.0, 10**9, 223.47084225136297),
        ("add", 0.7, 3.0, 10**8, 2669749.495372372),
        ("remove", 0.65, 2.3, 5_879_257, 233470.33873171528),
    ],
)
def test_very_many_steps_keep_their_digits(direction, q, sigma, steps, epsilon):
    """A relative error of 1e-18 in the logarithm of one step's moment would show after 1e9 steps.

    The logarithm of the composed moment is about epsilon: what rounds it, and its sum, is a share of delta that grows
    with epsilon.
    """
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "epsilon": epsilon}
    truth = fa.reference.exact_delta(**run, direction=direction)
    bounds = fa.dpsgd.delta_bounds(**run, neighbors=direction)
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper - bounds.lower <= (1e-9 + 2e-12 * epsilon) * bounds.upper
    ends = fa.dpsgd.epsilon_bounds(noise_multiplier=sigma, sample_rate=q, steps=steps, delta=1e-5, neighbors=direction)
    assert ends.upper - ends.lower <= 1e-9 * ends.upper


ROUND_TRIPS = [  # noise multiplier, sample rate, steps, delta: cells where an abandoned line was once read
    (1.198670389266739, 0.00025307634675616743, 673.0, 2.401171982171787e-73),
    (1.0409671331112094, 0.0004648573242408223, 143.0, 3.045904606447669e-91),
    (1.1691958141203447, 0.0004160201101984072, 516.0, 1.6054818777823756e-107),
    (1.4623019582907293, 0.0008669915080425974, 151.0, 2.918473912142068e-136),
]


def random_runs(rng, n):
    """Few expected participations, deltas down to the smallest: (noise multiplier, sample rate, steps, delta)."""
    rate = 10.0 ** rng.uniform(-6.0, -0.05, n)
    steps = np.maximum(np.round(10.0 ** rng.uniform(np.log10(0.05), np.log10(30.0), n) / rate), 1.0)
    return 10.0 ** rng.uniform(-0.5, 1.3, n), rate, steps, 10.0 ** rng.uniform(-290.0, -2.0, n)


@pytest.mark.parametrize("directions", [Directions.ADD, Directions.REMOVE], ids=["add", "remove"])
def test_delta_at_a_bound_of_epsilon_is_on_the_same_side(directions):
    """epsilon -> delta -> epsilon: each kernel checks the other, and no interval may contradict another."""
    known = np.array(ROUND_TRIPS).T
    cells = tuple(np.concatenate(pair) for pair in zip(known, random_runs(np.random.default_rng(12), 60), strict=True))
    shape, log_delta = cells[0].shape, np.log(cells[3])

    def read(target, quantity):
        kernel = partial(_kernels.exact_bounds, *cells[:3], target, quantity=quantity, directions=directions)
        (lower, upper, _), _ = run_kernel(kernel, shape, 3, 2, cells_per_task=8)
        return lower, upper

    lower, upper = read(cells[3], Quantity.EPSILON)
    slack = 4e-16 * (1.0 - log_delta)  # of the logarithm alone
    delta_lower = np.where(upper < np.inf, read(np.minimum(upper, 1e300), Quantity.LOG_DELTA)[0], -np.inf)
    delta_upper = np.where(lower > 0.0, read(lower, Quantity.LOG_DELTA)[1], np.inf)
    assert (upper < np.inf).mean() > 0.9
    assert (lower > 0.0).mean() > 0.5
    too_small = np.flatnonzero(delta_lower > log_delta + slack)
    too_large = np.flatnonzero(delta_upper < log_delta - slack)
    assert not too_small.size, [tuple(float(cell[i]) for cell in cells) for i in too_small]
    assert not too_large.size, [tuple(float(cell[i]) for cell in cells) for i in too_large]


def test_delta_near_one_keeps_its_side():
    """log(v - 1) near the pole once lost half its digits: lower bounds above 1."""
    run = {"noise_multiplier": 0.66979, "sample_rate": 0.505055, "steps": 80730, "neighbors": "remove"}
    for epsilon in (0.0, 500.0, 745.0):
        bounds = fa.dpsgd.delta_bounds(**run, epsilon=epsilon)
        assert bounds.lower < 1.0
        assert bounds.upper == 1.0


@pytest.mark.parametrize(
    ("direction", "q", "sigma", "steps", "epsilon", "delta"),
    [
        ("remove", 0.01, 1.0, 10_000, 6.0, "1.7597760848e-05"),
        ("add", 0.01, 1.0, 10_000, 6.0, "2.2954140803e-06"),
        ("remove", 0.01, 1.0, 1_000, 1.5, "1.0925590767e-04"),
        ("remove", 0.1, 2.0, 100, 1.0, "1.1497861201e-02"),
        ("remove", 1e-4, 0.5, 10_000, 0.5, "1.337265729e-04"),
        ("remove", 0.02, 0.8, 10, 1.0, "1.051038519e-04"),
        ("remove", 1e-5, 0.5, 10_000, 0.2, "9.88655694e-07"),
    ],
)
def test_published_digits(direction, q, sigma, steps, epsilon, delta):
    bounds = fa.dpsgd.delta_bounds(
        noise_multiplier=sigma, sample_rate=q, steps=steps, epsilon=epsilon, neighbors=direction
    )
    printed = len(delta.partition("e")[0]) - 1
    assert holds(bounds, float(delta), 1e-9, 0.5 * 10.0 ** (1 - printed))
