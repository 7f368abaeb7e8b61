"""From a log-moment to epsilon and delta: the published formulas in 40 digits are never above what is returned."""

import math

import mpmath as mp
import numpy as np
import pytest

from tests.kernel_parts import call

MIRONOV, CKS, OPTIMAL = 0, 1, 2
RNG = np.random.default_rng(7)
POINTS = [
    (float(10 ** RNG.uniform(-4, 2)), float(10 ** RNG.uniform(-1, 2)), -float(10 ** RNG.uniform(0, 2)))
    for _ in range(40)
]


def of_mironov(k, a, log_delta):
    return (k - log_delta) / a


def of_canonne(k, a, log_delta):
    return (k - log_delta - mp.log1p(a)) / a + mp.log(a / (1 + a))


def implied_at(y, k, alpha, delta):
    """Epsilon by the dual of the optimal conversion, at one y in (0, 1)."""
    d = mp.expm1(k) + 1 - alpha * y ** (alpha - 1) + (alpha - 1) * y**alpha
    x = (y ** (alpha - 1) + d / (alpha * delta)) ** (1 / (alpha - 1))
    return mp.log((alpha - 1) * (x / alpha + delta / d * y ** (alpha - 1) * (x - y)))


@pytest.mark.parametrize(("rule", "formula"), [(MIRONOV, of_mironov), (CKS, of_canonne)])
def test_both_conversions_are_their_formulas_rounded_up(rule, formula):
    with mp.workdps(40):
        for k, a, log_delta in POINTS:
            truth = formula(mp.mpf(k), mp.mpf(a), mp.mpf(log_delta))
            size = (k - log_delta) / a + math.log1p(a) / a + math.log1p(1.0 / a)
            found, back, _ = call("plain", "implied", rule, k, a, log_delta, float(abs(truth)), answers=3)
            assert truth <= found <= truth + 1e-14 * size
            if truth > 0:
                of_delta = log_delta + (truth - mp.mpf(float(truth))) * a  # at the epsilon that was asked, exactly
                assert of_delta <= back <= of_delta + 1e-13 * (a * size + 1.0)


def test_the_optimal_conversion_is_below_that_of_canonne_and_above_a_gaussian():
    """Of a Gaussian K = a (1 + a)/(2 s^2) the true epsilon is below what any conversion makes of one order."""
    for s in (0.5, 2.0, 10.0):
        for a in (0.3, 2.0, 20.0):
            k = 0.5 * a * (1.0 + a) / s**2
            for log_delta in (-3.0, -12.0, -40.0):
                best, _, _ = call("plain", "implied", OPTIMAL, k, a, log_delta, 1.0, answers=3)
                usual, _, _ = call("plain", "implied", CKS, k, a, log_delta, 1.0, answers=3)
                assert best <= usual
                _, truth = call("plain", "gaussian", 1.0 / s, max(best, 0.0), answers=2)
                (log_delta_there, _) = call("plain", "gaussian", 1.0 / s, max(best, 0.0), answers=2)
                assert log_delta_there <= log_delta + 1e-9
                assert truth <= max(best, 0.0) + 1e-9


def test_the_optimal_conversion_needs_all_of_what_a_point_leaves_open():
    """At y next to 1 the minimum over y is far below Canonne's line: D there is (e^K - 1) + alpha a (log y)^2/2."""
    with mp.workdps(40):
        for k, a, log_delta in ((1e-3, 1.0, -4.0), (0.05, 3.0, -6.0), (0.5, 9.0, -12.0)):
            found, _, _ = call("plain", "implied", OPTIMAL, k, a, log_delta, 1.0, answers=3)
            alpha, delta = 1 + mp.mpf(a), mp.exp(mp.mpf(log_delta))
            least = min(implied_at(1 - mp.exp(-mp.mpf(i) / 8), mp.mpf(k), alpha, delta) for i in range(1, 200))
            assert least - mp.mpf("1e-4") <= found <= least + mp.mpf("1e-10")


def test_a_delta_is_rounded_up_at_most_1_and_never_0():
    for log_delta in (-1e-3, -1.0, -50.0, -700.0, -745.0, -1e5):
        (_, _, found) = call("plain", "implied", CKS, 1.0, 1.0, log_delta, 1.0, answers=3)
        assert 0.0 < found <= 1.0
        assert mp.exp(mp.mpf(log_delta)) <= found <= mp.exp(mp.mpf(log_delta)) * (1 + mp.mpf("1e-14")) + 1e-323
    assert call("plain", "implied", CKS, 1.0, 1.0, 0.5, 1.0, answers=3)[2] == 1.0
