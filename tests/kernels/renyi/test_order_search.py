"""Sums of log-moments over a run, the best order, and the total variation that a divergence next to order 1 implies."""

import mpmath as mp
import numpy as np
import pytest

from tests.kernel_parts import call
from tests.kernels.renyi.test_log_moment import truth


@pytest.mark.parametrize("order", [2, 5, 20])
def test_log_moments_of_all_steps_add_up(order):
    for first, second in (((1.0, 0.01, 1000.0), (2.0, 0.1, 30.0)), ((0.7, 0.2, 1.0), (5.0, 0.5, 7.0))):
        with mp.workdps(50):
            right = first[2] * truth(*first[:2], order) + second[2] * truth(*second[:2], order)
            upper, _, _ = call("plain", "run_of_two", *first, *second, order - 1.0, 1e-5, answers=3)
            assert right <= upper <= right * (1 + mp.mpf("1e-10"))


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
def test_the_best_order_is_no_worse_than_all_whole_ones_and_no_better_than_possible(delta):
    first, second = (1.0, 0.01, 1000.0), (2.0, 0.1, 30.0)
    _, found, best = call("plain", "run_of_two", *first, *second, 1.0, delta, answers=3)
    least = np.inf
    for order in (*range(2, 40), 1.0 + best - 1.0):
        upper, _, _ = call("plain", "run_of_two", *first, *second, order - 1.0, delta, answers=3)
        eps = (upper - np.log(delta) - np.log(order)) / (order - 1.0) + np.log1p(-1.0 / order)
        least = min(least, eps)
    assert least * (1 - 1e-9) <= found <= least * (1 + 1e-9)


def test_total_variation_is_the_smaller_of_pinskers_and_of_bretagnolle_and_hubers_bound():
    with mp.workdps(40):
        for kl in (1e-12, 1e-3, 0.5, 1.5, 1.7, 5.0, 30.0):
            for a in (2.0**-40, 0.5):
                (found,) = call("plain", "variation", kl * a, a, answers=1)
                k = mp.mpf(kl * a) / mp.mpf(a)
                right = mp.sqrt(min(k / 2, -mp.expm1(-k)))
                assert right <= found <= right * (1 + mp.mpf("1e-14"))
