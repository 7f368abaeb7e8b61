"""The exact kernels against an independent 80-bit oracle: containment is absolute, width a second assertion."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
import fastacct.reference
from fastacct._arrays import run_kernel
from fastacct_ext import _kernels

SAMPLE = Path(__file__).parent / "data" / "exact_sample_large.csv.gz"
LOG_DELTA = 2
AGREEMENT = 1e-12  # of the oracle's two paths


def rows():
    with gzip.open(SAMPLE, "rt") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@pytest.fixture(scope="module")
def readings():
    """(row, log of the oracle's delta, lower, upper, slope) of every row."""
    out = []
    for way, directions in (("1", 2), ("-1", 1)):
        some = [row for row in rows() if row["dir"] == way]
        cells = tuple(np.array([float(row[name]) for row in some]) for name in ("sigma", "q", "steps", "eps"))
        found, _ = run_kernel(_kernels.Op.EXACT, cells, (len(some),), 3, 2, option=LOG_DELTA, conversion=directions)
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
    assert (widths <= 1e-9).mean() >= 0.99
    assert (widths <= 1e-6).mean() >= 0.999


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
def test_double_double_lines_keep_their_digits(direction, q, sigma, steps, epsilon):
    """A relative error of 1e-21 in the logarithm of one step's moment would show after 1e9 steps."""
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps, "epsilon": epsilon}
    truth = fa.reference.exact_delta(**run, direction=direction)
    bounds = fa.dpsgd.delta_bounds(**run, neighbors=direction)
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper - bounds.lower <= 2e-12 * bounds.upper


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
        ("remove", 0.01, 1.0, 10_000, 6.0, 1.7597760848e-05),
        ("add", 0.01, 1.0, 10_000, 6.0, 2.2954140803e-06),
        ("remove", 0.01, 1.0, 1_000, 1.5, 1.0925590767e-04),
        ("remove", 0.1, 2.0, 100, 1.0, 1.1497861201e-02),
        ("remove", 1e-4, 0.5, 10_000, 0.5, 1.337265729e-04),
        ("remove", 0.02, 0.8, 10, 1.0, 1.051038519e-04),
        ("remove", 1e-5, 0.5, 10_000, 0.2, 9.886556894e-07),
    ],
)
def test_published_digits(direction, q, sigma, steps, epsilon, delta):
    bounds = fa.dpsgd.delta_bounds(
        noise_multiplier=sigma, sample_rate=q, steps=steps, epsilon=epsilon, neighbors=direction
    )
    assert bounds.lower == pytest.approx(delta, rel=1e-9)
    assert bounds.upper == pytest.approx(delta, rel=1e-9)
