"""A Gaussian loss on a lattice that is cut short, against the sums themselves and against what they stand for."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from tests.kernel_parts import call

STEP, HIGH, NOISE = 0.2, 40.0, 1.0
LAW = NormalDist(-0.5, 1.0)
LOSS = np.arange(-7.0, 41.0, STEP)
"""The losses of Gaussian noise under Q.  Its left end has 4e-11 of their mass beyond it; the window is far away."""
LOG_WEIGHT = -0.5 * (LOSS + 0.5) ** 2 - 0.5 * math.log(2.0 * math.pi) + math.log(STEP)


def bounds(v, t):
    return call(
        "shapes",
        "lattice",
        NOISE,
        1.0,
        STEP,
        HIGH,
        LOSS.size,
        v,
        t,
        lists=(LOSS.tolist(), LOG_WEIGHT.tolist()),
        answers=2,
    )


@pytest.mark.parametrize("v", [0.0, 0.5, 1.0])
def test_sums_of_a_lattice_that_is_cut_stay_below_their_bound_at_all_heights(v):
    """They do not fall for ever, as those of the whole lattice do: the cut is seen at every height."""
    for t in (2.0, 4.0, 6.0, 7.0, 8.0):
        majorant, _ = bounds(v, t)
        for height in np.linspace(t, 12.0, 50):
            found = abs(np.sum(np.exp(LOG_WEIGHT + (v + 1j * height) * LOSS)))
            assert math.log(found) <= majorant, (t, height)


@pytest.mark.parametrize("v", [0.0, 0.5])
def test_what_a_lattice_is_off_by_is_bounded(v):
    truth = math.exp(0.5 * v * (v - 1.0))
    _, off = bounds(v, 0.0)
    assert abs(float(np.sum(np.exp(LOG_WEIGHT + v * LOSS))) - truth) <= off + 1e-14
    assert off <= 1e-4
