"""Densities of means of log-normal numbers (loss/sums.h, loss/allocation.h): what coarse ones miss is within what they
say of it, and is more than what usual ones say."""

import math
from functools import cache

import numpy as np
import pytest
from mpmath import mp

from tests.kernel_parts import call

USUAL = {"least": 1e-250, "right": 1e-32, "small": 1e-21}
MOST = 6000


def one(place, sigma):
    """The density of one number's logarithm."""
    tau = 1.0 / sigma
    return np.exp(-0.5 * ((place + 0.5 * tau * tau) / tau) ** 2) / tau / math.sqrt(2.0 * math.pi)


def two(place, sigma):
    """That of the mean of two: an integral over the difference of both, by the trapezoid rule."""
    step = 1.0 / 32.0
    apart = np.arange(-60.0 / sigma - 5.0, 60.0 / sigma + 5.0, step)
    x, y = (place[:, None] - np.logaddexp(0.0, side * apart)[None] + math.log(2.0) for side in (-1.0, 1.0))
    return (one(x, sigma) * one(y, sigma)).sum(axis=1) * step


@cache
def means(count, sigma, coarse, **budget):
    """(errors, relative and absolute, places, density); `coarse`: how often the usual step is doubled."""
    found = call("sums", "means", count, sigma, coarse, MOST, lists=(list((USUAL | budget).values()),), answers=MOST)
    relative, absolute, first, step, n = found[:5]
    return relative, absolute, first + step * np.arange(int(n)), np.array(found[5 : 5 + int(n)])


def missed(count, sigma, coarse, **budget):
    """The largest mass that is missed at a point, or in all, under P or Q; and what is said of it."""
    relative, absolute, place, density = means(count, sigma, coarse, **budget)
    step = place[1] - place[0]
    more = np.maximum(1.0, np.exp(place))
    some = np.linspace(0, place.size - 1, 25).astype(int)
    true = (one if count == 1 else two)(place[some], sigma)
    at_points = (np.abs(density[some] - true) * more[some]).max() * step
    in_all = max(abs(density.sum() * step - 1.0), abs((density * np.exp(place)).sum() * step - 1.0))
    return max(at_points, in_all), relative + absolute


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_usual_densities_miss_next_to_nothing(count, sigma):
    off, said = missed(count, sigma, 0)
    assert off <= said
    assert said < 1e-13


@pytest.mark.parametrize(
    ("count", "coarse", "budget"),
    [(2, 1, {}), (2, 2, {}), (2, 3, {}), (1, 0, {"least": 1e-8}), (2, 0, {"least": 1e-8}), (2, 0, {"small": 1e-6})],
    ids=[
        "between some points",
        "between points",
        "between few points",
        "ends of one",
        "ends of two",
        "what a sum leaves out",
    ],
)
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_what_coarse_densities_miss_is_said(count, coarse, budget, sigma):
    off, said = missed(count, sigma, coarse, **budget)
    assert off <= said
    assert off > 1e-13


@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.0])
def test_between_points_a_density_is_as_near_as_the_page_says(sigma):
    """65 u of rounding, and what the polynomial is off by; against 40 digits, wherever all neighbours are there."""
    places = np.random.default_rng(7).uniform(40.0, 380.0, 64)
    places[::8] = np.floor(places[::8]) + 1e-9
    said, first, step, *found = call("sums", "between", sigma, places.size, lists=(list(places),), answers=67)
    with mp.workdps(40):
        for place, value in zip(places, found, strict=True):
            z = (mp.mpf(first) + mp.mpf(step) * mp.mpf(place)) * sigma + 1 / (2 * mp.mpf(sigma))
            true = sigma * mp.npdf(z)
            assert abs(value / true - 1) < said + 65 * 2.0**-53


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_what_is_missed_of_one_number_is_missed_of_both(sigma):
    """Errors of what is joined are added: two have at least twice those of one, where rounding is nothing."""
    alone, both = (means(count, sigma, 1)[1] for count in (1, 2))
    assert both >= 1.9 * alone
