"""The ledger of an answer at another epsilon: each entry grows by its own rate, and none is left out."""

import math

import pytest

from tests.kernel_parts import call

RATES = 2.0, 3.5, 1.5, 4.0, 1.2  # of put; the line's c, left, right and low


def moved(entry, by, change):
    return call("answers", "moved", 1.0, by, change, lists=([*entry], [*RATES]), answers=2)


@pytest.mark.parametrize(("by", "change"), [(0.0, 0.0), (0.1, -0.3), (-0.1, 0.25), (0.02, -0.05)])
def test_every_entry_is_moved_by_its_own_rate(by, change):
    put, c, left, right, low = RATES
    line, nothing = math.exp(-(c - 1.0) * by - change), moved([0.0] * 7, by, change)
    grown = {
        0: line,
        1: line,
        2: line * max(1.0, 1.0 + by),
        3: math.exp(put * by - change),
        4: math.exp(-(low - 1.0) * by - change),
        5: math.exp(by - change),
        6: math.exp(max(-(left - 1.0) * by, -(right - 1.0) * by) - change),
    }
    for i, factor in grown.items():
        up, down = moved([1e-3 * (j == i) for j in range(7)], by, change)
        assert up - nothing[0] == pytest.approx(1e-3 * factor * (i != 6), rel=1e-9, abs=1e-18)
        assert down - nothing[1] == pytest.approx(1e-3 * factor * (i < 3 or i == 6), rel=1e-9, abs=1e-18)


def test_what_is_no_number_certifies_nothing():
    for i in range(6):
        assert moved([math.nan if j == i else 0.0 for j in range(7)], 0.1, 0.0) == [math.inf, math.inf]
