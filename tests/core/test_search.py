"""Ends of a crossing are points at which each bound has been seen on its side."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastacct.core.search import boundary, crossing


@settings(max_examples=80, deadline=None)
@given(
    st.floats(0.1, 50.0),
    st.floats(-300.0, -0.1),
    st.sampled_from([0.0, 1e-14, 1e-9, 1e-3]),
    st.floats(1e-6, 1e3),
)
def test_each_end_has_been_seen_on_its_side(rate, log_target, width, top):
    target, asked = math.exp(log_target), set()

    def bounds(x):
        asked.add(x)
        value = math.exp(-rate * x)
        return value * (1.0 - width), value * (1.0 + width)

    low, high = crossing(bounds, target, top)
    assert 0.0 <= low <= high <= top
    assert low == 0.0 or (low in asked and bounds(low)[0] >= target)
    assert high == top or (high in asked and bounds(high)[1] <= target)
    root = -log_target / rate
    if 1e-6 * top < root < 0.99 * top and width < 1e-6:
        assert low <= root <= high
        assert high - low <= 1e-8 * root + 8.0 * width / rate


@pytest.mark.parametrize("jump", [0.3, 0.999999, 1e-12, 1e-30])
def test_a_jump_is_enclosed(jump):
    low, high = crossing(lambda x: (0.5, 0.5) if x < jump else (0.0, 0.0), 0.1, 1.0)
    assert low < jump <= high <= low * (1.0 + 1e-11)


@pytest.mark.parametrize("ends", [(1e-3, 1e3), (-2.0, 50.0), (1, 10**6)])
def test_the_end_that_is_returned_meets_the_target(ends):
    """Of rising and of falling functions; a step further it is not met."""
    rng = np.random.default_rng(11)
    for at in rng.uniform(2.0, 40.0, 25).tolist():
        for sign in (1.0, -1.0):

            def level(x, at=at, sign=sign):
                return sign * math.atan(x - at)

            found = boundary(level, ends, "the target")
            assert level(found) <= 0.0
            assert level(found + sign * (1 if isinstance(ends[0], int) else 1e-7 * at)) > 0.0
