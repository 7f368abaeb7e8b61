"""Series of log-moments in the order (renyi/leaves.h): what they are off by is said, and it is needed where a
leaf is too wide for its terms or its nodes."""

from functools import cache

import pytest
from mpmath import binomial, exp, log, log1p, mp, mpf

from tests.kernel_parts import call

STEPS, TARGET = 10_000, 10.0


@cache
def moment(sigma, rate, order):
    """E_Q[(dP/dQ)^order] of a sampled Gaussian, at a whole order."""
    with mp.workdps(60):
        inverse, rate = 1 / (2 * mpf(sigma) ** 2), mpf(rate)
        terms = (
            binomial(order, k) * (1 - rate) ** (order - k) * rate**k * exp(k * (k - 1) * inverse)
            for k in range(order + 1)
        )
        return sum(terms)


def answers(cell, begin, radius):
    """(order less 1, M - 1 by the series, its relative error at most, epsilon) at the whole orders of a leaf."""
    for a in range(1, 12):
        if begin <= a < begin + radius:
            yield a, *call("orders", "series", *cell, begin, radius, a, STEPS, TARGET, answers=3)


def check(cell, leaf):
    """The relative errors of the series at its whole orders, each within what is said of it."""
    off = []
    with mp.workdps(60):
        for a, found, relative, epsilon in answers(cell, *leaf):
            true = moment(*cell, a + 1)
            assert abs(found - (true - 1)) <= relative * (true - 1)
            converted = (STEPS * log(true) + TARGET - log(mpf(1 + a))) / a - log1p(mpf(1) / a)
            assert mpf(epsilon) >= converted
            assert mpf(epsilon) <= converted * (1 + 1.01 * relative + 1e-13)
            off.append(float(abs(found / (true - 1) - 1)))
    assert off
    return max(off), relative


@pytest.mark.parametrize("cell", [(1.0, 0.01), (2.0, 0.1), (0.7, 0.001), (5.0, 0.2), (0.5, 0.1), (1.5, 0.05)])
@pytest.mark.parametrize("leaf", [(0.75, 0.5), (0.5, 1.0)], ids=str)
def test_series_of_usual_leaves_are_within_their_error(cell, leaf):
    assert check(cell, leaf)[1] < 1e-10


@pytest.mark.parametrize(
    ("cell", "leaf"),
    [
        ((0.7, 0.001), (0.5, 4.0)),
        ((0.5, 0.1), (0.5, 2.0)),
        ((0.6, 0.02), (0.5, 2.0)),
        ((0.7, 0.001), (1.5, 8.0)),
        ((1.0, 1e-4), (6.5, 16.0)),  # nearly all of it beyond the nodes that are summed
    ],
)
def test_a_leaf_that_is_too_wide_needs_its_error(cell, leaf):
    off, relative = check(cell, leaf)
    assert off > 5e-13 + 3e-14
    assert relative > off
