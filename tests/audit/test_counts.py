"""Bounds of rates: against mpmath, an exact recursion, and values of other code."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fastacct.audit.counts import least_rate, local_level, rate_bounds

mpmath = pytest.importorskip("mpmath")


@pytest.mark.parametrize("trials", [1, 2, 7, 50, 1000, 2000])
@pytest.mark.parametrize("level", [0.3, 0.025, 1e-3, 1e-9])
def test_bounds_of_rates_are_quantiles_of_the_beta_distribution_from_below(trials, level):
    for count in {1, 2, trials // 2 or 1, trials - 1 or 1, trials} & set(range(trials + 1)):
        rate = least_rate(np.array([float(count)]), trials, math.log(level))[0]
        with mpmath.workdps(30):
            chance = mpmath.betainc(count, trials - count + 1, 0, mpmath.mpf(float(rate)), regularized=True)
            assert (1 - 1e-8) * level <= chance <= level


def holds(counts, rates, trials):
    """Probability that each k-th smallest of uniform numbers is at least its rate: whole numbers, exactly."""
    law, before = {0: Fraction(1)}, Fraction(0)
    for k, rate in zip(counts, map(Fraction, rates), strict=True):
        share = (rate - before) / (1 - before)
        after = {}
        for j, chance in law.items():
            for more in range(k - j):
                left = trials - j
                step = math.comb(left, more) * share**more * (1 - share) ** (left - more)
                after[j + more] = after.get(j + more, 0) + chance * step
        law, before = after, rate
    return sum(law.values())


@pytest.mark.parametrize("trials", [1, 2, 5, 12])
@pytest.mark.parametrize("alpha", [0.2, 0.0125, 1e-5])
def test_all_bounds_of_a_sample_hold_together_as_often_as_was_asked(trials, alpha):
    found = 1 - holds(range(1, trials + 1), rate_bounds(trials, alpha)[1:].tolist(), trials)
    assert alpha * (1 - 1e-7) <= found <= alpha


@pytest.mark.parametrize(
    ("trials", "level"), [(10, 0.003681842191), (100, 0.001093783689), (1000, 0.00053291785)], ids=str
)
def test_levels_are_those_of_a_recursion_in_other_code(trials, level):
    assert local_level(trials, 0.025) == pytest.approx(level, rel=1e-9)


def test_bounds_of_large_samples_hold_and_lose_little():
    """3,000 trials, where not every count has a bound of its own: violated in alpha of all samples."""
    random, trials, alpha, runs = np.random.default_rng(3), 3000, 0.1, 4000
    bounds = rate_bounds(trials, alpha)
    false = sum(bool(np.any(np.sort(random.random(trials)) < bounds[1:])) for _ in range(runs))
    assert 0.08 < false / runs < 0.115
    assert np.all(np.diff(bounds) >= 0.0)
    assert local_level(trials, alpha) > local_level(2000, alpha) * 0.9
