"""Batches of a fixed size: divergences where a record is replaced, against their integrals in many digits."""

import numpy as np
import pytest
from mpmath import mp, mpf

from fastacct.samplers.fixed_size import replaced_divergence


@pytest.mark.parametrize("order", [1.25, 3.0])
@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.1), (2.0, 0.5)])
def test_the_divergence_of_the_symmetric_pair(noise, rate, order):
    """Left of 1 the ratio stands to the first power, right of it more than 1 is exchanged for its inverse."""
    with mp.workdps(16):
        s, q, a = mpf(noise), mpf(rate), mpf(order)

        def ratio(x):
            return 1 - q + q * mp.exp((2 * x - 2) / s**2)

        def integral(f, ends):
            return mp.quad(lambda x: mp.npdf(x, 0, s) * f(ratio(x)), mp.linspace(*ends, 5))

        below, above = (1 - 14 * s, mpf(1)), (mpf(1), 1 + 14 * s * max(1, a))
        moment = integral(lambda x: x**a, below) + integral(lambda x: x**a, above)
        removed = mp.log(moment) / (a - 1)
        moment += integral(lambda x: x - x**a, below) - integral(lambda x: 1 - x ** (1 - a), above)
        truth = mp.log(moment) / (a - 1)
        found = replaced_divergence(noise, rate, np.array([order]), np.array([float(removed)]))[0]
        assert truth * (1 - mpf("1e-13")) <= found <= truth * (1 + mpf("1e-9"))
