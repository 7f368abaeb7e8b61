"""What curves of deltas say of a loss: the largest of several, and the largest inside of an interval."""

import math
import warnings

import numpy as np

from fastacct.core import deltas
from fastacct.core.deltas import Tail
from fastacct.core.work import spend


def exponential(rate: float, near: tuple[float, float]) -> Tail:
    """A loss that exceeds e > 0 with probability exp(-rate e), known exactly."""

    def exceeds(loss, sides, steps):
        return [np.full(np.size(steps), min(1.0, math.exp(-rate * max(float(loss), 0.0)))) for _ in sides]

    return Tail(near, exceeds, 0.0, True)


def test_a_loss_that_is_a_little_larger_at_the_chance_is_not_left_out():
    """Where the first one has 0.01 the other one has 0.015, though it is looked at later."""
    first, second = 1.0, -math.log(0.015) / -math.log(0.01)
    tails = [exponential(first, (4.7, 5.4)), exponential(second, (4.6, 5.3))]
    truth = -math.log(0.01) / second
    lower, upper = deltas.largest_quantile(tails, 0.01)
    assert lower <= truth * (1.0 + 1e-12)
    assert truth * (1.0 - 1e-12) <= upper <= truth * (1.0 + 1e-6)


def test_the_largest_inside_of_an_interval_is_not_below_any_place_there():
    """Of 2 (a + b s)/s^2 through both ends, where that is larger inside."""
    rng = np.random.default_rng(1)
    low = np.exp(rng.uniform(-3.0, 3.0, 500))
    high = low * np.exp(rng.uniform(0.0, 2.0, 500))
    here, there = np.exp(rng.uniform(-3.0, 3.0, (2, 500)))
    found = deltas._of_chords(low, high, here, there)
    at = low + (high - low) * np.linspace(0.0, 1.0, 201)[:, None]
    chord = here + (there - here) * (at - low) / (high - low)
    inside = (2.0 * chord / (at * at)).max(axis=0)
    at_ends = 2.0 * np.maximum(here / low**2, there / high**2)
    assert (inside <= np.maximum(found, at_ends) * (1.0 + 1e-12)).all()
    assert (found > at_ends).any()


def falling(e):
    """A delta, 1 - x/4 up to x = 4, that is known exactly."""
    at = np.maximum(1.0 - np.exp(e) / 4.0, 0.0)
    return at, at


def test_weights_of_either_sign_have_the_integral_inside():
    at = np.linspace(0.0, 2.0, 41)
    x, (low, high) = np.exp(at), falling(at)
    x_mid = np.minimum(x[:-1], 4.0)
    truth = np.diff(x_mid - x_mid * x_mid / 8.0)
    mass, moment = np.diff(x)[:-1], np.diff(x * x / 2.0)[:-1]
    for sign in (1.0, -1.0):
        least, most = deltas._by_chords(at, 0.99 * low, 1.01 * high, sign * mass, sign * moment)
        assert (least <= sign * truth).all()
        assert (sign * truth <= most).all()
        assert float(np.sum(most - least)) < 0.1


def test_what_lies_beyond_the_last_epsilon_is_part_of_an_integral():
    """The integral of x^(top - 1)/x over x > 1 is 1/(1 - top)."""
    at, top = np.linspace(0.0, 2.0, 401), np.array([-0.5, -2.0])
    low, high = deltas.power_bounds(at, np.exp(-at), np.exp(-at), top)
    assert (low <= 1.0 / (1.0 - top)).all()
    assert (1.0 / (1.0 - top) <= high).all()


def test_an_integral_that_overflows_is_infinite_from_above():
    """Of powers of which some moments overflow where masses do not."""
    at, top = np.linspace(0.0, 20.0, 401), np.array([63.0, 50.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = deltas.power_bounds(at, np.exp(-at), np.exp(-at), top)
    assert (high == np.inf).all()
    assert (low > 1e200).all()
    assert np.isfinite(low).all()


def test_a_rare_loss_far_out_is_part_of_the_second_moment():
    """A delta below 1e-15 ends the integral, and has a loss of 300."""
    mass, loss = 9e-16, 300.0

    def own(e):
        delta = -mass * np.expm1(np.minimum(e - loss, 0.0))
        return delta, delta

    def other(e):
        delta = np.maximum(mass - np.expm1(e) * (1.0 - mass), 0.0)
        return delta, delta

    _, upper = deltas.second_moment(own, other, lambda alpha: loss, True)
    assert upper >= mass * loss * loss


def test_what_no_search_has_time_for_is_at_most_where_half_the_chance_is_and_log_two():
    """P(L > e + log 2) is at most 2 delta(e): of many losses, each of which takes long, the quantile is finite."""
    asked = []

    def dear(rate):
        tail = exponential(rate, (-math.log(0.02) / rate, -math.log(0.01) / rate))

        def exceeds(loss, sides, steps):
            asked.append(rate)
            spend(1e9)
            return tail.exceeds(loss, sides, steps)

        return tail._replace(exceeds=exceeds)

    rates = np.linspace(1.0, 1.05, 40)
    lower, upper = deltas.largest_quantile([dear(rate) for rate in rates], 0.01)
    assert lower <= -math.log(0.01) <= upper < -math.log(0.01) + 1.0
    assert len(asked) < 14
