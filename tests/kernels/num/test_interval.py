"""Two certified bounds of one number: what they share, and what holds where they do not meet."""

import math

import pytest

from tests.kernel_parts import call

NAN, INF = math.nan, math.inf


def shared(*ends):
    return call("plain", "share", *ends, answers=3)


def test_intervals_that_meet_share_the_narrower_ends():
    assert shared(1.0, 3.0, 2.0, 4.0) == [2.0, 3.0, 0.0]
    assert shared(1.0, 4.0, 2.0, 3.0) == [2.0, 3.0, 0.0]
    assert shared(1.0, 2.0, 2.0, 3.0) == [2.0, 2.0, 0.0]
    assert shared(0.0, INF, -INF, 5.0) == [0.0, 5.0, 0.0]


@pytest.mark.parametrize("ends", [(1.0, 2.0, 3.0, 4.0), (3.0, 4.0, 1.0, 2.0)])
def test_where_they_do_not_meet_the_larger_upper_end_holds_and_no_lower_one(ends):
    lower, upper, disagreed = shared(*ends)
    assert math.isnan(lower)
    assert (upper, disagreed) == (4.0, 1.0)
    assert math.isnan(shared(lower, upper, 0.0, 5.0)[0])  # and none comes back


@pytest.mark.parametrize("ends", [(NAN, 2.0, 1.0, 3.0), (1.0, 3.0, NAN, 2.0)])
def test_what_is_no_number_is_no_lower_end(ends):
    lower, upper, disagreed = shared(*ends)
    assert math.isnan(lower)
    assert (upper, disagreed) == (3.0, 0.0)


def test_an_upper_end_that_is_no_number_stays_none():
    """Then `fa_safe` says the largest that is possible."""
    for other in (NAN, 4.0):
        assert all(map(math.isnan, shared(1.0, NAN, 0.0, other)[:2]))


def test_ends_are_on_the_safe_side_of_what_is_possible():
    def safe(lower, upper):
        return call("plain", "safe", lower, upper, 0.0, 1.0, answers=3)

    assert safe(0.25, 0.5) == [0.25, 0.5, 0.0]
    assert safe(-1.0, 2.0) == [0.0, 1.0, 0.0]
    assert safe(NAN, NAN) == [0.0, 1.0, 0.0]
    assert safe(0.25, NAN) == [0.25, 1.0, 0.0]
    assert safe(0.75, 0.5) == [0.0, 0.75, 1.0]
