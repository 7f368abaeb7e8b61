"""Shares of a population from randomised answers: laws by enumeration, intervals by simulation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import fastacct as fa


def test_the_law_of_an_estimated_share_is_that_of_all_answers():
    mechanism = fa.RandomizedResponse(1.0, answers=3)
    true, lie = (Fraction(x) for x in mechanism._chances())
    n, have = 6, 2
    law = fa.utility(mechanism, respondents=n, share=have / n)
    found: dict[float, Fraction] = {}
    for told in itertools.product((0, 1), repeat=n):
        chances = [(true if i < have else lie) if x else 1 - (true if i < have else lie) for i, x in enumerate(told)]
        size = abs((Fraction(sum(told), n) - lie) / (true - lie) - Fraction(have, n))
        found[float(size)] = found.get(float(size), Fraction(0)) + math.prod(chances)
    assert law.mean_square == pytest.approx(sum(float(p) * e * e for e, p in found.items()), rel=1e-10)
    for t in (0.0, 0.1, 0.33, 0.8):
        want = float(sum(p for e, p in found.items() if e > t))
        assert law.tail(t + 1e-9) == pytest.approx(want, rel=1e-10, abs=1e-15)


def test_truthful_answers_have_no_error():
    law = fa.utility(fa.RandomizedResponse(math.inf), respondents=10, share=0.3)
    assert (law.mean_square, law.tail(1e-12), law.quantile(0.01)) == (0.0, 0.0, pytest.approx(0.0, abs=1e-15))


def test_intervals_of_shares_cover_as_often_as_they_say():
    mechanism, rng = fa.RandomizedResponse(1.5, answers=3), np.random.default_rng(2)
    share = np.array([0.05, 0.25, 0.7])
    true, lie = mechanism._chances()
    missed = np.zeros(3)
    means = []
    for _ in range(2000):
        found = mechanism.estimate(rng.multinomial(400, lie + share * (true - lie)), level=0.9)
        missed += (share < found.lower) | (share > found.upper)
        means.append(found.share)
    assert np.all(missed / 2000 <= 0.1 + 5.0 * math.sqrt(0.09 / 2000))
    assert np.all(missed / 2000 >= 0.01), "they are not wider than they need to be"
    spread = np.std(means, axis=0)
    assert np.all(np.abs(np.mean(means, axis=0) - share) <= 5.0 * spread / math.sqrt(2000)), "unbiased"
    np.testing.assert_allclose(found.standard_error, spread, rtol=0.25)


# -- calibration and errors ------------------------------------------------------------------------------------------
