"""Outward rounding against fractions: never on the wrong side, and not far off; with numbers that underflow."""

import math
from fractions import Fraction

import numpy as np

from fastacct.core.rounding import at_least, divided_down, multiplied_up, quotient_up, rate_of_batch

RNG = np.random.default_rng(41)
NUMBERS = [*(10.0 ** RNG.uniform(-12.0, 12.0, 300)).tolist(), *(10.0 ** RNG.uniform(-322.0, -305.0, 100)).tolist()]
OTHERS = (10.0 ** RNG.uniform(0.0, 3.0, len(NUMBERS))).tolist()
PAIRS = list(zip(NUMBERS, OTHERS, strict=True))
LITTLE, LEAST = Fraction(1, 10**15), Fraction(3 * math.ulp(0.0))


def test_products_are_rounded_up():
    for value, factor in PAIRS:
        truth = Fraction(value) * Fraction(factor)
        assert truth <= Fraction(multiplied_up(value, factor)) <= truth * (1 + LITTLE) + LEAST
    assert (multiplied_up(0.0, 3.0), multiplied_up(1e308, 100.0)) == (0.0, math.inf)


def test_quotients_are_rounded_down():
    for value, divisor in PAIRS:
        truth = Fraction(value) / Fraction(divisor)
        assert truth * (1 - LITTLE) - LEAST <= Fraction(divided_down(value, divisor)) <= truth
    assert (divided_down(0.0, 3.0), divided_down(math.inf, 3.0)) == (0.0, math.inf)


def test_quotients_of_rounded_numbers_are_rounded_up():
    """Both numbers are floats next to the true ones."""
    off = Fraction(1, 2**53)
    for value, divisor in PAIRS[:300]:
        truth = Fraction(value) * (1 + off) / (Fraction(divisor) * (1 - off))
        assert truth <= Fraction(quotient_up(value, divisor)) <= truth * (1 + LITTLE)
    for value, divisor in zip(OTHERS, (10.0 ** RNG.uniform(300.0, 308.2, len(OTHERS))).tolist(), strict=True):
        assert Fraction(value) / Fraction(divisor) <= Fraction(quotient_up(value, divisor))
    assert (quotient_up(0.0, 3.0), quotient_up(1.0, 0.0), quotient_up(1e308, 1e-308)) == (0.0, math.inf, math.inf)


def test_rates_of_batches_are_rounded_up():
    for records in range(1, 60):
        for size in range(1, records + 1):
            rate = Fraction(rate_of_batch(size, records))
            assert Fraction(size, records) <= rate <= Fraction(size, records) * (1 + LITTLE)


def test_products_that_underflow_are_not_nothing():
    assert at_least(1e-200 * 1e-200, 1.0) > 0.0
    assert at_least(0.0, 0.0) == 0.0
    for value, share in zip(NUMBERS[300:], (10.0 ** RNG.uniform(-19.0, -4.0, 100)).tolist(), strict=True):
        assert Fraction(value) * Fraction(share) <= Fraction(at_least(value * share, value))
