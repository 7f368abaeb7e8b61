"""Log-moments of the sampled Gaussian at whole orders, where they are sums of positive terms, in 50 digits."""

import mpmath as mp
import pytest

from tests.kernel_parts import call


def truth(sigma, q, order):
    """log of the binomial sum."""
    s, q = 1 / (2 * mp.mpf(sigma) ** 2), mp.mpf(q)
    terms = (
        mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.expm1(k * (k - 1) * s) for k in range(order + 1)
    )
    return mp.log1p(mp.fsum(terms))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0, 60.0])
@pytest.mark.parametrize("q", [1e-7, 0.01, 0.4, 0.999])
def test_whole_orders_are_between_their_bounds_with_a_cache_and_without(sigma, q):
    with mp.workdps(50):
        for order in (2, 3, 7, 40):
            right = truth(sigma, q, order)
            *bounds, loose = call("plain", "moment", sigma, q, order - 1.0, answers=5)
            for lower, upper in zip(bounds[::2], bounds[1::2], strict=True):
                assert lower <= right <= upper
                assert upper - lower <= 1e-10 * upper
            assert right <= loose * (1 + 1e-13)


@pytest.mark.parametrize("sigma", [1e-90, 0.02, 1.0, 1e90])
def test_without_sampling_it_is_that_of_a_gaussian_and_outside_the_nodes_minkowskis(sigma):
    with mp.workdps(50):
        s = 1 / (2 * mp.mpf(sigma) ** 2)
        for a in (1e-3, 1.0, 50.0):
            right = mp.mpf(a) * (1 + mp.mpf(a)) * s
            lower, upper, *_ = call("plain", "moment", sigma, 1.0, a, answers=5)
            assert lower <= right <= upper
            assert upper - lower <= 1e-14 * upper
            q = mp.mpf(0.25)
            bound = (1 + mp.mpf(a)) * mp.log1p(q * mp.expm1(a * s))
            loose = call("plain", "moment", sigma, 0.25, a, answers=5)[4]
            assert abs(loose - bound) <= 1e-13 * (1 + abs(mp.mpf(a) * (1 + a) * s))
