"""Audits by many runs: power, what must not change an answer, what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastacct as fa
from fastacct.audit.counts import local_level


def test_a_test_by_hand_is_what_scores_show():
    """Every member above every other: all thresholds between them have 100 of 100 and 0 of 100."""
    found = fa.audit.scores(range(100, 200), range(100), confidence=0.9)
    level = local_level(100, 0.025)
    hits = level ** (1 / 100)
    assert found.epsilon(1e-3) == pytest.approx(math.log((hits - 1e-3) / (1 - hits)), rel=1e-9)


def test_power_of_many_runs():
    random = np.random.default_rng(7)
    audits = [fa.audit.scores(random.normal(2, 1, 1000), random.normal(0, 1, 1000)) for _ in range(400)]
    shown = [found.epsilon(1e-5) for found in audits]
    assert np.median(shown) >= 2.75
    assert max(shown) < fa.epsilon(fa.Gaussian(0.5), delta=1e-5)
    assert not any(found.refutes(fa.Gaussian(0.5)) for found in audits[:40])
    assert all(found.refutes(fa.Gaussian(0.75)) for found in audits[:40])


def test_the_noise_that_is_refuted_is_refuted_and_less_is_not():
    random = np.random.default_rng(1)
    found = fa.audit.scores(random.normal(2, 1, 1000), random.normal(0, 1, 1000))
    noise = found.noise(fa.Gaussian)
    assert 0.5 < noise < 0.65
    assert found.refutes(fa.Gaussian(noise))
    assert not found.refutes(fa.Gaussian(noise * (1 - 1e-6)))
    assert fa.audit.scores([1.0, 2.0], [1.0, 2.0]).noise(fa.Gaussian) == math.inf


def test_one_direction_is_asked_as_it_was_drawn():
    """Members are sure in one of five runs, others never: the loss of a removed record is infinite, of an added not."""
    random = np.random.default_rng(2)
    members, others = np.where(random.random(2000) < 0.2, 1.0, 0.0), np.zeros(2000)
    found = fa.audit.scores(members, others)
    remove, add = (found.epsilon(0.0, neighbors=way) for way in ("remove", "add"))
    assert remove > 3.0
    assert add < 0.25
    assert found.epsilon(0.0) == max(remove, add)
    assert fa.audit.scores(others, members).epsilon(0.0, neighbors="add") == pytest.approx(remove)
    assert found.refutes(fa.PureDP(1.0))
    assert not found.refutes(fa.ApproxDP(0.0, 0.25))


SCORES = st.lists(st.integers(-6, 6), min_size=1, max_size=30)


@given(members=SCORES, others=SCORES, delta=st.sampled_from([0.0, 1e-5, 0.1]), random=st.randoms(use_true_random=False))
def test_only_the_order_of_scores_matters(members, others, delta, random):
    shown = fa.audit.scores(members, others).epsilon(delta)
    mixed = random.sample(members, len(members)), random.sample(others, len(others))
    assert fa.audit.scores(*mixed).epsilon(delta) == shown
    assert fa.audit.scores([x**3 - 7.5 for x in members], [x**3 - 7.5 for x in others]).epsilon(delta) == shown
    assert fa.audit.scores(others, members).epsilon(delta) == shown
    assert fa.audit.scores([-x for x in members], [-x for x in others]).epsilon(delta) == shown
    swapped = fa.audit.scores(others, members).epsilon(delta, neighbors="add")
    assert swapped == fa.audit.scores(members, others).epsilon(delta, neighbors="remove")


@given(members=SCORES, others=SCORES, low=st.floats(0.5, 0.999), more=st.floats(0.0, 0.0009), delta=st.floats(0.0, 1.0))
def test_more_confidence_or_delta_never_shows_more(members, others, low, more, delta):
    less, sure = (fa.audit.scores(members, others, confidence=c) for c in (low, low + more))
    assert sure.epsilon(delta) <= less.epsilon(delta) * (1 + 1e-8) + 1e-9
    assert less.epsilon(min(1.0, delta + 0.01)) <= less.epsilon(delta)


def test_ties_are_counted_as_what_they_are():
    """Scores of 0 and 1: three tests, whatever the order in which they are given."""
    found = fa.audit.scores([1] * 90 + [0] * 10, [1] * 20 + [0] * 80)
    spread = fa.audit.scores([1.0 + i * 1e-9 for i in range(90)] + [0] * 10, [1] * 20 + [0] * 80)
    assert 0.0 < found.epsilon(0.0) <= spread.epsilon(0.0)
    assert fa.audit.scores([0.0] * 100, [0.0] * 100).epsilon(0.0) == 0.0


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (([1.0, math.nan], [0.0]), r"members\[1\] = nan is out of range"),
        (([1.0], [0.0, 1.0, math.nan]), r"others\[2\] = nan"),
        (([], [0.0]), "members is an empty array"),
        (([[1.0]], [0.0]), r"members must be one list of numbers, not an array of shape \(1, 1\)"),
        ((["a"], [0.0]), "members must be a number or an array"),
    ],
)
def test_scores_that_are_none_are_refused(given_, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fa.audit.scores(*given_)


@pytest.mark.parametrize("confidence", [0.4, 1.0, math.nan, 95])
def test_a_confidence_out_of_range_is_refused(confidence):
    for make in (
        lambda: fa.audit.scores([1.0], [0.0], confidence=confidence),
        lambda: fa.audit.one_run(10, 5, 5, confidence=confidence),
        lambda: fa.audit.sequential([True], [False], confidence=confidence),
        lambda: fa.audit.plan(fa.Gaussian(1.0), delta=1e-5, confidence=confidence),
    ):
        with pytest.raises(ValueError, match="confidence = "):
            make()


def test_infinite_scores_are_scores():
    plain = fa.audit.scores([1.0, 2.0, 9.0] * 20, [0.0, -9.0, 1.0] * 20).epsilon(1e-5)
    assert fa.audit.scores([1.0, 2.0, math.inf] * 20, [0.0, -math.inf, 1.0] * 20).epsilon(1e-5) == plain > 0.0
