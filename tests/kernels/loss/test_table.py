"""What panels of a table miss counts in the error of every moment."""

import math

from tests.kernel_parts import call


def test_mass_that_panels_miss_is_an_error_of_every_moment():
    for v in (-2.0, 0.0, 1.0, 5.0):
        whole = 0.3 * math.exp(v * 0.7)  # both rules agree on it
        assert call("shapes", "panel", 0.7, math.log(0.3), 0.0, v, answers=1)[0] <= 1e-14 * whole
        (off,) = call("shapes", "panel", 0.7, math.log(0.3), 1e-3, v, answers=1)
        assert 1e-3 * whole <= off <= 3e-3 * whole
