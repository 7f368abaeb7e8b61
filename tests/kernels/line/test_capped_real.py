"""K at real exponents on a few nodes is its definition, with what is missing taken off and what may be off added."""

import mpmath as mp
import numpy as np
import pytest

from tests.kernel_parts import call

LOSS = np.linspace(-0.3, 2.0, 8)
WEIGHT = np.exp(-3.0 * np.linspace(0.0, 1.0, 8) ** 2)
WEIGHT /= WEIGHT.sum()
LARGE = np.where(LOSS > 1.0, WEIGHT, 0.0)


@pytest.mark.parametrize("v", [0.5, 1.0, 3.0, -0.7])
@pytest.mark.parametrize(("missing", "add"), [(0.0, 0.0), (0.01, 0.0), (0.0, 0.02), (0.01, 0.3)])
def test_a_moment_is_its_definition_with_what_is_missing_and_what_may_be_off(v, missing, add):
    with mp.workdps(30):
        w, loss, large = ([mp.mpf(x) for x in one.tolist()] for one in (WEIGHT, LOSS, LARGE))
        grown = [a * mp.exp(v * x) for a, x in zip(w, loss, strict=True)]
        one = 1 + mp.fsum(a * mp.expm1(v * x) for a, x in zip(w, loss, strict=True)) - missing + add
        mean = mp.fsum(a * x for a, x in zip(grown, loss, strict=True)) / one
        second = mp.fsum(a * x * x for a, x in zip(grown, loss, strict=True)) / one
        jumps = mp.fsum(a * mp.exp(v * x) for a, x in zip(large, loss, strict=True)) / one
        right = 50 * (v * mp.mpf(0.1) + mp.log(one)), 50 * (mp.mpf(0.1) + mean), 50 * (second - mean**2), 50 * jumps
    lists = LOSS.tolist(), WEIGHT.tolist(), LARGE.tolist()
    found = call("real", "moment", 50.0, 0.1, missing, v, add, lists=lists, answers=4)
    for a, b in zip(found, right, strict=True):
        assert abs(a - b) <= 1e-12 * (1 + abs(b))
