"""The Rényi reader of jobs that are known by a divergence alone: each conversion at one order is above the oracle."""

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from fastacct.readers.renyi import _log_delta_at

RNG = np.random.default_rng(31)
CASES = [
    (float(10 ** RNG.uniform(-4, 0.5)), float(1 + 10 ** RNG.uniform(-1, 2)), float(10 ** RNG.uniform(-12, -1)))
    for _ in range(25)
]


@pytest.mark.parametrize("conversion", ["mironov", "canonne_kamath_steinke"])
def test_each_conversion_of_a_concentrated_job_is_never_below_the_oracle(conversion):
    met = 0
    for rho, order, delta in CASES:
        job, how = fa.ZCDP(rho) * 3, {"accountant": fa.RDP(orders=[order], conversion=conversion)}
        with mp.workdps(40):
            divergence = 3 * mpf(rho) * mpf(order)
            variation = mp.sqrt(-mp.expm1(-divergence))  # Bretagnolle and Huber: delta of epsilon 0
            exact = reference.rdp_to_epsilon(divergence, order, delta, conversion, digits=18)
            found = fa.epsilon(job, delta=delta, **how)
            if variation > delta * (1 + 1e-9):
                assert exact <= found <= exact * (1 + mpf("1e-11")) + mpf("1e-12"), (rho, order, delta)
                met += exact > 0
            epsilon = float(max(exact, mpf("0.1")))
            truth = min(mpf(1), variation, reference.rdp_to_delta(divergence, order, epsilon, conversion, digits=18))
            found = fa.delta(job, epsilon=epsilon, **how)
            assert truth <= found <= truth * (1 + mpf("1e-10")), (rho, order, epsilon)
    assert met > 10


@pytest.mark.parametrize("conversion", ["mironov", "canonne_kamath_steinke"])
def test_logarithms_of_delta_are_rounded_up(conversion):
    """Delta itself is rounded up once more; its logarithm is asked for alone, too."""
    value, order, epsilon = np.array(CASES).T[0] * 3.0, np.array(CASES).T[1], np.array(CASES).T[0] * 7.0
    found = _log_delta_at(value, order, epsilon, conversion)
    for i in range(value.size):
        with mp.workdps(40):
            truth = mp.log(reference.rdp_to_delta(value[i], order[i], epsilon[i], conversion, digits=18))
            truth = min(truth, mp.log(-mp.expm1(-mpf(value[i]))) / 2)
            assert truth <= found[i] <= truth + mpf("1e-11") * (1 + abs(truth))


def test_a_small_divergence_proves_epsilon_zero_at_its_total_variation_and_not_below():
    for rho, order in ((1e-6, 2.0), (1e-3, 1.7)):
        accountant = fa.RDP(orders=[order])
        with mp.workdps(40):
            variation = float(mp.sqrt(-mp.expm1(-mpf(rho) * mpf(order))))
        assert fa.epsilon(fa.ZCDP(rho), delta=variation * (1 + 1e-9), accountant=accountant) == 0.0
        assert fa.epsilon(fa.ZCDP(rho), delta=variation * (1 - 1e-9), accountant=accountant) > 0.0
