"""Masses of densities (density/panel.h) and composed masses on a grid (density/window.h): each error, made as large as
it may be, is inside with its entry and outside without.  Weights at any places (density/spread.h)."""

import math

import numpy as np
import pytest
from mpmath import erfc, exp, mp, mpf, sqrt

from tests.kernel_parts import call


def mass(low, high, mean):
    """Of a normal distribution."""
    return (erfc((low - mean) / sqrt(mpf(2))) - erfc((high - mean) / sqrt(mpf(2)))) / 2


def excess(distance, low, high, epsilon, turned):
    """The integral of (P - e^epsilon Q)_+ over an interval."""
    middle = mpf(epsilon) / distance + mpf(distance) / 2  # where P's loss is epsilon
    if turned:
        middle = mpf(distance) - middle
        high = min(mpf(high), middle)
    else:
        low = max(mpf(low), middle)
    if low >= high:
        return mpf(0)
    p, q = mass(low, high, distance), mass(low, high, 0)
    return q - exp(epsilon) * p if turned else p - exp(epsilon) * q


(X2, W2), (X3, W3) = np.polynomial.legendre.leggauss(2), np.polynomial.legendre.leggauss(3)
RULES = [*X2, *X3], [*W2, *W3]


@pytest.mark.parametrize("turned", [0, 1])
def test_masses_of_coarse_panels_are_within_their_errors(turned):
    """Two and three points on panels a third of a deviation to three deviations wide."""
    missed = 0
    rng = np.random.default_rng(1)
    with mp.workdps(40):
        for _ in range(200):
            distance, low, wide = rng.uniform([0.3, -3.0, 0.3], [2.0, 2.0, 3.0]).tolist()
            epsilon, good = float(rng.uniform(0.0, 1.5)), 10.0 ** float(rng.uniform(-6.0, 0.0))
            found = call("density", "excess", distance, low, low + wide, epsilon, good, turned, lists=RULES, answers=2)
            true = excess(distance, low, low + wide, epsilon, turned)
            assert found[0] <= true <= found[1]
            missed += abs(0.5 * (found[0] + found[1]) - true) > 1e-6
    assert missed > 50  # by the middle of the bounds


@pytest.mark.parametrize(
    ("distance", "low", "high", "epsilon"), [(3.9686, 3.2939, 6.2325, 2.1183), (2.8915, 3.9023, 6.8699, 1.282)]
)
def test_panels_in_which_q_is_missed_by_more_than_p(distance, low, high, epsilon):
    with mp.workdps(40):
        found = call("density", "excess", distance, low, high, epsilon, 1e-4, 0, lists=RULES, answers=2)
        assert found[0] <= excess(distance, low, high, epsilon, 0) <= found[1]


FIRST, SPACING, TILT, LOG_SCALE = -1.0, 0.1, 1.5, 0.3
MASSES = np.random.default_rng(2).uniform(0.2, 1.0, 40) * np.exp(-0.5 * np.linspace(-2.0, 2.0, 40) ** 2) / 400.0
LOSSES = FIRST + SPACING * np.arange(MASSES.size)
FAR = math.log1p(1.0 / TILT)
"""How far beyond epsilon a tilted mass adds most."""


def delta_of(losses, tilted, epsilon):
    """Delta of tilted masses."""
    gain = np.exp(LOG_SCALE - TILT * losses) * tilted * -np.expm1(np.minimum(epsilon - losses, 0.0))
    return float(gain[losses > epsilon].sum())


def window(is_upper, epsilon, delta=0.5, **errors):
    """(delta, epsilon) of those masses with these errors."""
    tails = [np.exp(-TILT * (LOSSES[k:] - LOSSES[k])) * MASSES[k:] for k in range(MASSES.size)]
    gains = [(tail * -np.expm1(LOSSES[k] - LOSSES[k:])).sum() for k, tail in enumerate(tails)]
    peak = math.exp(-TILT * math.log1p(1.0 / TILT) - math.log1p(TILT))
    usual = {
        "infinite": 0.0, "slack": 0.0, "top": 100.0, "tilt": TILT, "log_scale": LOG_SCALE, "each_error": 0.0,
        "norm_error": 1.0, "below": 0.0, "above": 0.0, "log_moment": math.inf, "place_error": 0.0, "sum_error": 1e-14,
        "peak": peak,
    }  # fmt: skip
    numbers = (is_upper, MASSES.size, FIRST, SPACING, *(usual | errors).values(), epsilon, delta)
    sums = [*(tail.sum() for tail in tails), 0.0], [*gains, 0.0]
    return call("density", "window", *numbers, lists=sums, answers=2)


def worst(error, size, side, epsilon):
    """Delta of masses with an error as large as it may be."""
    weights = np.where(epsilon < LOSSES, np.exp(-TILT * LOSSES) * -np.expm1(epsilon - LOSSES), 0.0)
    if error == "slack":
        return delta_of(LOSSES, MASSES, epsilon - side * size)
    if error == "each_error":
        return delta_of(LOSSES, np.where(epsilon < LOSSES, np.maximum(MASSES + side * size, 0.0), 0.0), epsilon)
    if error == "norm_error":
        return delta_of(LOSSES, MASSES + side * size * weights / np.linalg.norm(weights), epsilon)
    return delta_of(np.append(LOSSES, epsilon + FAR), np.append(MASSES, size if side > 0 else -size), epsilon)


ERRORS = {"slack": 0.01, "each_error": 1e-5, "norm_error": 1e-4, "above": 1e-5, "below": 1e-5}


@pytest.mark.parametrize("epsilon", [-1.3, -0.53, 0.3, 1.25, 1.99])
@pytest.mark.parametrize("is_upper", [1, 0])
@pytest.mark.parametrize("error", ERRORS)
def test_every_error_of_composed_masses_is_paid_and_no_more(error, is_upper, epsilon):
    """What is left out below adds to an upper bound only where epsilon is below, too."""
    size, side = ERRORS[error], 1.0 if is_upper else -1.0
    errors = {error: size} | ({"each_error": 1.0} if error == "norm_error" else {})
    bare, found = (window(is_upper, epsilon, **given)[0] for given in ({}, errors))
    if error == "below" and is_upper and epsilon > FIRST:
        assert found == bare
        return
    true = worst(error, size, side, epsilon)
    assert side * (found - true) >= -1e-13 * true  # of the sum it is compared with
    assert abs(found - true) <= 1e-3 * true
    assert side * (bare - true) < -1e-5 * true


@pytest.mark.parametrize("is_upper", [1, 0])
def test_infinite_losses_are_added_to_both_bounds(is_upper):
    bare, found = (window(is_upper, 0.3, **given)[0] for given in ({}, {"infinite": 0.01}))
    assert found == pytest.approx(bare + 0.01, rel=1e-15)
    assert found > bare + 0.01 if is_upper else found < bare + 0.01


@pytest.mark.parametrize("epsilon", [0.3, 1.25])
def test_a_log_moment_alone_bounds_delta_and_is_met_by_one_loss(epsilon):
    """All of the mass where the weight e^(-tilt x)(1 - e^-x) is largest."""
    loss = epsilon + FAR
    found = window(1, epsilon, above=1e3, log_moment=TILT * loss)[0]
    true = -math.expm1(epsilon - loss)
    assert true <= found <= true * (1.0 + 1e-11)


@pytest.mark.parametrize("is_upper", [1, 0])
@pytest.mark.parametrize("errors", [{}, {"slack": 0.01}, {"each_error": 1e-5}, {"infinite": 1e-3}], ids=str)
def test_epsilon_of_composed_masses_is_on_the_side_of_the_bound(is_upper, errors):
    for delta in (0.1, 0.03, 0.01, 0.002):
        epsilon = window(is_upper, 0.0, delta, **errors)[1]
        at = window(is_upper, epsilon, **errors)[0]
        if epsilon > 0.0:
            assert at <= delta if is_upper else at >= delta
            assert at == pytest.approx(delta, rel=1e-9)


def test_masses_are_convolved():
    lists = [1.0, 2.0, 4.0], [1.0, 8.0, 0.0, 64.0]
    assert call("density", "both", lists=lists, answers=6) == [1, 10, 20, 96, 128, 256]


@pytest.mark.parametrize("many", [1, 10_001])
def test_weights_are_spread_over_all_numbers_near_them(many):
    """To two roundings of their sums, however many have the same place, and 160 of each."""
    places, weights = [3.25, -1000.5, 39.875], [0.3, 1.7, 0.0003]
    high, low = np.array(call("density", "spread", many, lists=(places, weights), answers=2 * 76)).reshape(2, 76)
    with mp.workdps(40):
        true = [mpf(0)] * 76
        for place, weight, count in zip(places, weights, (1, 1, many), strict=True):
            nearest = round(place) if place != -1000.5 else -1000  # to an even number
            for number in range(nearest - 18, nearest + 19):
                true[nearest % 40 + number - nearest + 18] += count * weight * exp(-((number - mpf(place)) ** 2) / 8)
        for k in range(76):
            assert abs(mpf(float(high[k])) + mpf(float(low[k])) - true[k]) <= 40 * mpf(2) ** -53 * true[k]
    if many > 1:  # one sum alone has more roundings
        assert np.abs(low).max() > 100.0 * 2.0**-53 * high.max()
