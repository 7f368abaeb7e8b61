"""Certified intervals: their status, and what becomes of two that exclude each other."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.bounds import DisjointBoundsWarning, Found, Status, judged, meet, narrowed, status_of
from fastacct.losses.loss import OutOfReachError
from fastacct.readers import cell, ladder
from fastacct.readers.grid.window import Window
from fastacct.readers.renyi import Renyi


def test_the_width_decides_the_status():
    assert judged(1.0, 1.0 + 1e-7, math.inf) == Found(1.0, 1.0 + 1e-7, Status.TIGHT)
    assert judged(1.0, 1.1, math.inf).status == Status.LOOSE
    assert judged(1.0, math.inf, math.inf).status == Status.NOT_MET


def test_bounds_that_differ_by_rounding_meet():
    assert narrowed(1.0 + 1e-15, 2.0, 1.0) == (1.0, 1.0)
    assert judged(1.0 + 1e-15, 1.0, math.inf) == Found(1.0, 1.0, Status.TIGHT)


def test_of_bounds_that_exclude_each_other_the_larger_one_is_returned_with_a_warning():
    with pytest.warns(DisjointBoundsWarning, match=r"at least 2\.0, at most 1\.0"):
        assert narrowed(2.0, 3.0, 1.0) == (-math.inf, 3.0)  # either may be the wrong one
    with pytest.warns(DisjointBoundsWarning):
        assert judged(2.0, 1.0, math.inf) == Found(-math.inf, 2.0, Status.LOOSE)
    with pytest.warns(DisjointBoundsWarning):
        assert judged(1.0 + 1e-9, 1.0, math.inf).status == Status.LOOSE  # however near they are


def test_what_is_no_number_bounds_nothing():
    nan = math.nan
    assert narrowed(1.0, nan) == (1.0, math.inf)
    assert narrowed(0.0, nan, 1.0) == narrowed(0.0, 1.0, nan) == (0.0, 1.0)
    assert narrowed(nan, 2.0) == (-math.inf, 2.0)
    assert judged(1.0, nan, math.inf) == Found(1.0, math.inf, Status.NOT_MET)
    low, high = meet(np.array([0.5, 0.5, 1.0]), np.array([nan, 2.0, 1.0]))
    assert low.tolist() == [0.5, 0.5, 1.0]
    assert high.tolist() == [math.inf, 2.0, 1.0]


def test_a_reader_that_says_too_little_is_not_believed_in_silence(monkeypatch):
    """Grids whose upper sums are far too small, and divergences that are: the answer is not the smaller one."""

    def no_line(*_):
        raise OutOfReachError("not asked here")

    monkeypatch.setitem(ladder.LADDER, "line", ladder.LADDER["line"]._replace(ask=no_line))
    monkeypatch.setattr(cell.Smoothed, "is_possible", lambda *_: False)
    job = fa.Skellam(30.0) * 4 + fa.PureDP(0.1)
    right = fa.epsilon_bounds(job, delta=1e-6)
    job = fa.Skellam(30.0) * 4 + fa.PureDP(0.1)
    monkeypatch.setattr(Window, "epsilon", lambda self, delta: (0.5 if self.is_upper else 1.0) * right.lower)
    with pytest.warns(DisjointBoundsWarning):
        wrong = fa.epsilon_bounds(job, delta=1e-6)
    assert wrong.upper >= right.lower
    assert wrong.status != Status.TIGHT
    assert wrong.lower == 0.0  # nobody knows which of them is wrong
    monkeypatch.undo()
    monkeypatch.setitem(ladder.LADDER, "line", ladder.LADDER["line"]._replace(ask=no_line))
    monkeypatch.setattr(cell.Smoothed, "is_possible", lambda *_: False)
    monkeypatch.setattr(cell, "TOLERANCE", 0.1)  # so wide that divergences are asked, too
    monkeypatch.setattr(Renyi, "epsilon", lambda self, delta, below: 0.5 * right.lower)
    job = fa.Skellam(30.0) * 4 + fa.PureDP(0.1)
    with pytest.warns(DisjointBoundsWarning):
        assert fa.epsilon(job, delta=1e-6) >= right.lower > 0.0


@pytest.mark.parametrize("upper", [1e-300, 1e-9, 1.0, 1e300])
def test_an_interval_is_tight_up_to_a_millionth_of_its_upper_end(upper):
    for width, status in ((0.99e-6, Status.TIGHT), (1.01e-6, Status.LOOSE)):
        lower = upper * (1.0 - width)
        assert judged(lower, upper, math.inf).status == status
        assert status_of(np.array([lower]), np.array([upper])).tolist() == [status]


@pytest.mark.parametrize("upper", [1e-300, 1.0, 1e300])
def test_bounds_meet_up_to_the_rounding_of_their_sums_and_no_further(upper):
    assert narrowed(upper * (1.0 + 0.9e-12), upper) == (upper, upper)
    with pytest.warns(DisjointBoundsWarning):
        assert narrowed(upper * (1.0 + 1.1e-12), upper) == (-math.inf, upper * (1.0 + 1.1e-12))
    with pytest.warns(DisjointBoundsWarning):
        assert meet(np.array([1.001 * upper]), np.array([upper]))[1].tolist() == [1.001 * upper]
