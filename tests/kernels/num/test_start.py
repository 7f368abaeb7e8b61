"""The start of a line's phasors is as exact as docs/algorithms/arithmetic.md proves, against 40 digits."""

import mpmath as mp
import numpy as np

from tests.kernel_parts import call

UNIT = 2.0**-53
ROOT = 0.5**0.5
PLACES = [*np.geomspace(1e-6, 0.999 * ROOT, 60), *np.linspace(0.9 * ROOT, 1.57, 60)]


def off(found, truth, size):
    """By how many units of `size` a number is off."""
    return float(abs(mp.mpf(found) - truth) / (size * UNIT))


@mp.workdps(40)
def test_the_functions_that_do_not_cancel():
    for x in [*PLACES, *(-x for x in PLACES)]:
        c, sine, rest = call("start", "turned", x, answers=3)
        x = mp.mpf(x)
        true = mp.cos(x) - 1, mp.sin(x), mp.sin(x) - x
        assert off(c, true[0], abs(true[0])) < 6
        assert off(sine, true[1], abs(true[1])) < 6
        assert off(rest, true[2], 6 * abs(true[2]) if x * x < 0.5 else 7 * abs(true[1])) < 1


@mp.workdps(40)
def test_a_node_begins_within_its_bound():
    rng = np.random.default_rng(5)
    near = [(float(p), float(x)) for p in (-1.0, -0.3466, -0.01, 0.3466, 0.9999) for x in PLACES]
    far = [(float(p), float(x)) for p, x in rng.uniform([-40.0, -40.0], [9.0, 40.0], (200, 2))]
    for p, x in near + far:
        real, imaginary = call("start", "started", p, x, answers=2)
        s = mp.mpc(p, x)
        most = max(mp.mpf(1), mp.exp(p))
        size = min(abs(s) ** 2 * most / 2, 2 * most + abs(s))
        assert off(abs(mp.mpc(real, imaginary) - (mp.exp(s) - 1 - s)), mp.mpf(0), size) < 46
