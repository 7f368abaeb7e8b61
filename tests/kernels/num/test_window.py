"""The logarithm of the normal distribution's tail, against 40 digits."""

import mpmath as mp
import numpy as np

from tests.kernel_parts import call


def test_the_tail_is_within_eight_roundings():
    with mp.workdps(40):
        for x in [*np.linspace(-8.0, 29.99, 60), *np.linspace(30.0, 300.0, 30), 0.0]:
            (found,) = call("plain", "log_tail", float(x), answers=1)
            truth = mp.log(mp.erfc(mp.mpf(float(x)) / mp.sqrt(2)) / 2)
            assert abs(found - truth) <= 8 * mp.mpf(2) ** -53 * (1 + mp.mpf(float(x)) ** 2), x
