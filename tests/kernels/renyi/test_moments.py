"""Each entry of the ledger of log-moments is needed: bounds hold with it, and without it do not.

Nodes are made so coarse, or passed over, or summed in the other form, that one entry matters; an oracle has the truth.
"""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from tests import kernel_parts

USUAL = {"step": 1.0, "limit": 50.0, "spare": 40.0}
ENTRIES = ("alias", "omitted", "near", "far")
SUMS = 5e-14
"""FA_ROUNDING: what sums may be off by, always."""


def ledger(sigma, q, order, **budget):
    """K and {entry: bound of the error of K}."""
    numbers = (sigma, q, order, *(USUAL | budget).values())
    k, *entries = kernel_parts.call("ledgers", "log_moment", *numbers, answers=1 + len(ENTRIES))
    assert k == k
    return mpf(k), dict(zip(ENTRIES, entries, strict=True))


def truth(sigma, q, order):
    """K of the doubles as they are."""
    with mp.workdps(40):
        return reference.rdp(sigma, q, order, digits=25) * (mpf(order) - 1)


def off(points, **budget):
    """[(error of K, entries, K)] of points."""
    found = []
    for point in points:
        k, entries = ledger(*point, **budget)
        with mp.workdps(40):
            found.append((abs(k - truth(*point)), entries, k))
    return found


def covered(found, without=None):
    """At how many points the error is within the ledger; without one entry, and with what few terms really round."""
    return sum(
        error
        <= sum(value for name, value in entries.items() if name != without)
        + (2e-15 if without else SUMS) * min(k, mpf(1))
        + mpf(2) ** -50 * k
        for error, entries, k in found
    )


def at_the_cliff(sigma, q, height):
    """The order at which the sampled bump, alpha (a/(2 sigma^2) + log q), is e^height of 1."""
    half, log_q = 0.5 / sigma**2, math.log(q)
    linear = half + log_q
    return sigma, q, 1.0 + (-linear + math.sqrt(linear**2 - 4.0 * half * (log_q - height))) / (2.0 * half)


MODERATE = [
    (1.0, 0.01, 8.0),
    (0.7, 0.1, 1.5),
    (3.0, 0.001, 30.0),
    (0.5, 0.3, 2.2),
    (10.0, 0.2, 300.0),
    (1.3, 1e-9, 4.5),
]
SMALL = [(0.6, 1e-12), (0.5, 1e-10), (1.0, 1e-7), (1.2, 1e-6), (0.4, 1e-12), (2.0, 1e-3)]
LARGE = [(30.0, 1e-4), (100.0, 1e-3), (55.0, 1e-9), (80.0, 3e-6), (300.0, 3e-4)]
CLIFFS = {entry: [at_the_cliff(*pair, height) for pair in pairs for height in (-3.0, 0.0, 3.0)]
          for entry, pairs in (("near", SMALL), ("far", LARGE))}  # fmt: skip
"""Orders at which the bump begins to show. At large ones a loss of some 1e5 to 1e6 cancels against z^2/(2 sigma^2)."""


@pytest.mark.parametrize("step", [1.15, 1.25, 1.4])
def test_aliases_of_a_coarse_grid_are_paid(step):
    found = off(MODERATE, step=step)
    assert covered(found) == len(MODERATE)
    assert covered(found, "alias") < len(MODERATE)


def test_stretches_that_are_passed_over_are_paid():
    # the bump holds a hundredth of M - 1, at all places in a block of 64 nodes
    sigma, points = 10.0, []
    for a in np.arange(1200.0, 1700.0, 20.0).tolist():
        q = 1e-3
        for _ in range(50):
            q = math.exp((2.0 * math.log(a * q / sigma) - math.log(2.0) - 4.4) / (1.0 + a) - a / (2.0 * sigma**2))
        points.append((sigma, q, 1.0 + a))
    found = off(points, spare=2.0)
    assert covered(found) == len(points)
    assert covered(found, "omitted") < len(points)


@pytest.mark.parametrize(("entry", "limit"), [("near", 600.0), ("far", 50.0)])
def test_rounding_of_near_and_of_far_terms_is_paid(entry, limit):
    found = off(CLIFFS[entry], step=0.9, limit=limit)
    assert covered(found) == len(found)
    assert covered(found, entry) < len(found)


def test_the_form_seen_from_the_bump_keeps_digits_where_a_loss_and_the_exponent_cancel():
    for error, entries, k in off(CLIFFS["far"], step=0.9):
        assert error <= 3e-13 * k
        assert entries["far"] <= 5e-12 * float(k)


def test_the_usual_budget_is_narrow_everywhere():
    rng = np.random.default_rng(20261126)
    points = []
    while len(points) < 40:
        point = (
            float(10 ** rng.uniform(-1.5, 5)),
            float(10 ** rng.uniform(-12, 0)),
            1.0 + float(10 ** rng.uniform(-3, 6)),
        )
        if fa.dpsgd.rdp(noise_multiplier=point[0], sample_rate=point[1], orders=point[2]) * point[2] < 500.0:
            points.append(point)
    found = off(points)
    assert covered(found) == len(points)
    assert all(sum(entries.values()) <= 5e-12 * min(float(k), 1.0) for _, entries, k in found)
