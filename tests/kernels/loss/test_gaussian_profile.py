"""Delta of the Gaussian mechanism and its inverse, against 60 digits."""

import mpmath as mp
import pytest

from tests.kernel_parts import call


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.05, 0.0999, 0.1, 0.7, 3.0, 9.0, 40.0])
def test_delta_is_above_the_truth_and_next_to_it(mu):
    with mp.workdps(60):
        m = mp.mpf(mu)
        for share in (0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0):
            eps = float(share * mu)
            a = m / 2 - mp.mpf(eps) / m
            truth = mp.log(mp.ncdf(a) - mp.exp(mp.mpf(eps)) * mp.ncdf(a - m))
            found, back = call("plain", "gaussian", mu, eps, answers=2)
            assert truth <= found <= truth + mp.mpf("2e-12") * (1 + a * a)
            assert back <= eps * (1 + 1e-14)
            if eps > 1e-9 and truth < -1e-9:
                assert back >= eps * (1 - 1e-9)
