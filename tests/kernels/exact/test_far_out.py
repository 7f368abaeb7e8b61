"""Deltas far out, where hardly any sum of losses has a large one: the saddle of those that have, and their floor."""

import math

import pytest

import fastacct as fa

# by fastacct.reference.exact_delta(noise_multiplier, sample_rate, 2, epsilon, direction="remove", digits=10): two
# nested integrals
TRUTHS = {(3.0, 3e-5, 0.2): 8.71059991380817e-162, (2.0, 1e-4, 0.5): 1.19338941841703e-72}


@pytest.mark.parametrize("run", TRUTHS)
def test_a_delta_far_out_is_certified_where_large_losses_are_rare(run):
    """It is within 1e-6: no window that exponents outweigh is cut off, and small losses do not outweigh all others."""
    noise, rate, epsilon = run
    lower, upper, status = fa.dpsgd.delta_bounds(noise_multiplier=noise, sample_rate=rate, steps=2, epsilon=epsilon)
    assert lower <= TRUTHS[run] <= upper
    assert status == fa.Status.TIGHT
    lower, upper, status = fa.dpsgd.epsilon_bounds(noise_multiplier=noise, sample_rate=rate, steps=2, delta=TRUTHS[run])
    assert lower <= epsilon * (1.0 + 1e-9)
    assert upper >= epsilon * (1.0 - 1e-9)
    assert status == fa.Status.TIGHT


def test_a_delta_that_no_double_holds_is_answered_by_the_windows():
    """Renyi divergences see losses without a cap, and have 4e-100 here."""
    lower, upper, _ = fa.dpsgd.delta_bounds(noise_multiplier=9.87656, sample_rate=5.14245e-5, steps=199, epsilon=0.1144)
    assert (lower, upper) == (0.0, math.ulp(0.0))
