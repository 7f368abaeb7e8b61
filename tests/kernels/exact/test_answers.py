"""Certified answers as kernels give them (exact/exact_readout.h), and the parameters that meet a target (invert/): each
is checked by a question of its own."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from tests.kernel_parts import call

ADD, REMOVE, BOTH = 1, 2, 3
RUNS = [  # noise, rate, steps, delta, epsilon
    (1.0, 0.01, 1000, 1e-5, 1.0),
    (2.0, 0.1, 50, 1e-6, 1.5),
    (0.7, 0.005, 20_000, 1e-7, 4.0),
    (3.0, 0.3, 5, 1e-4, 0.4),
    (0.9, 0.02, 300, 1e-3, 0.2),
    (5.0, 0.2, 2, 1e-8, 0.1),
    (1.2, 1.0, 10, 1e-5, 6.0),
]
WANTED = ("noise", "rate", "steps")


def upper(is_exact, ways, sigma, rate, steps, delta):
    """Epsilon of a run, from a cold start."""
    return call("answers", "epsilon", is_exact, ways, sigma, rate, steps, delta, answers=2)[1]


@pytest.mark.parametrize("way", [(1, BOTH), (1, REMOVE), (1, ADD), (0, BOTH)], ids=["both", "remove", "add", "renyi"])
@pytest.mark.parametrize("wanted", range(3), ids=WANTED)
def test_a_parameter_meets_its_target_and_the_next_one_does_not(wanted, way):
    for *run, delta, epsilon in RUNS:
        for more in (1.0, 1.37, 3.1):
            value, status = call("answers", "calibrated", wanted, *way, *run, delta, epsilon * more, answers=2)
            if status != 0.0 or (wanted == 1 and value in (0.0, 1.0)) or (wanted == 2 and value == 0.0):
                continue
            at, beyond = run.copy(), run.copy()
            at[wanted] = value
            beyond[wanted] = value + 1.0 if wanted == 2 else value * (1.0 + (1e-7 if wanted == 1 else -1e-7))
            assert upper(*way, *at, delta) <= epsilon * more
            assert upper(*way, *beyond, delta) > epsilon * more or beyond[1] > 1.0


@pytest.mark.parametrize(
    ("wanted", "way", "run"),
    [  # noise, rate, steps, delta, epsilon: where a search ends a little above the target, or an ulp beside it
        (0, (1, ADD), (1.193048513859731, 0.809135603350698, 2314.0, 9.420971514499696e-05, 0.09753087751888713)),
        (0, (1, BOTH), (0.9487027851580044, 0.002425109562003248, 12.0, 4.628712922278045e-07, 4.138633325912641)),
        (1, (1, ADD), (5.671717638393203, 0.20410279530951322, 475.0, 0.004633592853132689, 1.979494662050277)),
        (1, (1, ADD), (6.19628351012524, 0.001922541910837107, 2377.0, 6.426585829252709e-05, 1.153297408399604)),
        (1, (0, BOTH), (4.508482695657001, 0.8110672276648142, 618.0, 9.081338062689611e-06, 1.2481860843326966)),
        (0, (0, BOTH), (0.817434152288563, 0.04439212473515629, 29.0, 0.006640519253689933, 1.0966843561200459)),
        (1, (0, BOTH), (1.2236272490331686, 0.05932494707498451, 39.0, 0.000907814414725131, 7.196026558329474)),
        (0, (0, BOTH), (4.401029533300777, 0.16812420686788673, 237.0, 1.2014212336035586e-07, 6.953346775228938)),
    ],
)
def test_what_a_search_ends_at_is_checked_as_a_caller_would_ask(wanted, way, run):
    *at, delta, epsilon = run
    at[wanted], status = call("answers", "calibrated", wanted, *way, *run, answers=2)
    assert status == 0.0
    assert upper(*way, *at, delta) <= epsilon


def test_hardly_any_parameter_is_left_out_above():
    """A rate of 1, or no step at all, is seldom what is found."""
    found = [
        call("answers", "calibrated", wanted, 1, REMOVE, *run[:3], run[3], run[4], answers=2)
        for run, wanted in itertools.product(RUNS, range(3))
    ]
    assert sum(status == 0.0 and value not in (0.0, 1.0) for value, status in found) >= 17


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999999])
def test_an_epsilon_just_below_the_largest_loss_is_no_target_that_all_meet(share):
    """In direction add no loss is above -steps log(1 - rate); a little below it, few of the largest deltas are met."""
    for sigma, rate, steps in ((0.5, 0.2, 3), (0.4, 0.3, 5), (0.3, 0.1, 2)):
        epsilon = -steps * math.log1p(-rate) * share
        value, status = call("answers", "calibrated", 2, 1, ADD, sigma, rate, 1.0, 1e-9, epsilon, answers=2)
        assert status == 0.0
        assert value == 0.0 or upper(1, ADD, sigma, rate, value, 1e-9) <= epsilon
        assert upper(1, ADD, sigma, rate, value + 1.0, 1e-9) > epsilon


@pytest.mark.parametrize("steps", [2, 3, 10])
def test_epsilon_is_below_the_largest_loss_by_delta_at_least(steps):
    """No sum of losses is above the largest one: delta(epsilon) is at most 1 - e^(epsilon - largest)."""
    for sigma, rate in ((0.2, 0.3), (0.3, 0.1), (0.5, 0.5)):
        largest = -steps * math.log1p(-rate)
        for delta in (1e-2, 1e-4, 1e-6, 1e-8):
            lower, above = call("answers", "epsilon", 1, ADD, sigma, rate, steps, delta, answers=2)
            assert lower <= (largest + math.log1p(-delta)) * (1.0 + 1e-15)
            assert lower <= above <= largest * (1.0 + 1e-14)


@pytest.mark.parametrize("steps", [1, 2, 5, 40, 1000])
def test_no_delta_is_above_the_chance_to_take_part_nor_above_all_total_variations(steps):
    """Below either of both epsilon is not 0; with one step the bound is delta at 0."""
    near = math.inf
    for sigma, rate in itertools.product((0.3, 0.5, 1.0, 3.0), (1e-5, 1e-3, 0.02, 0.3)):
        most, low, _ = call("answers", "at_zero", sigma, rate, steps, answers=3)
        assert low <= most
        near = min(near, most - low)
    assert near < (1e-12 if steps == 1 else 0.3)


def test_the_chance_to_take_part_counts_what_its_logarithm_rounds():
    """At noise of 1e25 to 1e140 it is a sum of hundreds, of which an ulp is more than what all else rounds."""
    rng = np.random.default_rng(3)
    with mp.workdps(60):
        for noise, rate in np.exp(rng.uniform([60.0, -3.0], [320.0, -0.01], (200, 2))).tolist():
            most, _, _ = call("answers", "at_zero", noise, rate, 1.0, answers=3)
            assert mp.log(mp.mpf(rate) * mp.erf(1 / (mp.sqrt(8) * mp.mpf(noise)))) <= most


@pytest.mark.parametrize(
    ("count", "delta", "epsilon", "weight", "mean"),
    [
        (30, 1e-3, 1.0, [1.0, 0.95, 0.05], [0.2, 0.0, -1.0]),
        (5, 1e-4, 0.5, [1.0, 0.9, 0.1], [0.1, 0.0, -2.0]),
        (1, 1e-5, 0.3, [1.0, 0.9, 0.1], [0.1, 0.0, -1.5]),
        (200, 1e-6, 2.0, [1.0, 0.99, 0.01], [0.02, 0.0, -1.0]),
    ],
)
def test_the_larger_direction_decides(count, delta, epsilon, weight, mean):
    """Mixtures of which `add` is the larger one, though `remove` is asked first."""
    add, remove, both = (
        call("answers", "mixtures", way, count, 1.0, delta, epsilon, lists=(weight, mean), answers=4)
        for way in (ADD, REMOVE, BOTH)
    )
    assert add[0] > 1.001 * remove[1]
    assert add[2] > 1.001 * remove[3]
    assert both == add


LEAST = math.ulp(0.0)


@pytest.mark.parametrize("ways", [BOTH, REMOVE])
def test_a_delta_below_every_double_is_known_at_once(ways):
    usual = [(4.0, 0.01, 1000, 9.0), (2.0, 0.003, 3000, 20.0), (6.0, 0.05, 200, 6.0)]
    rare = [(8.1, 0.0002, 1040, 0.5), (4.3, 0.0015, 4, 2.9), (8.8, 0.00014, 18, 0.18)]  # moments are of large losses
    for sigma, rate, steps, epsilon in usual + rare:
        lower, upper, _, log_upper, at_once = call("answers", "delta", ways, sigma, rate, steps, epsilon, answers=5)
        assert at_once == 1.0
        assert (lower, upper) == (0.0, LEAST)
        assert log_upper < -744.0


def test_a_delta_that_is_a_double_is_not_nothing():
    """From where delta is everyday to where it is no double any more: never below its own logarithm."""
    nothing = 0
    for sigma, rate, steps in [(4.0, 0.01, 1000), (1.2, 0.01, 2000), (8.0, 0.1, 400), (5.0, 0.0003, 100)]:
        for epsilon in (0.25 * 1.25**k for k in range(18)):
            found = call("answers", "delta", BOTH, sigma, rate, steps, epsilon, answers=5)
            lower, upper, log_lower, _, at_once = found
            assert lower <= upper
            assert log_lower <= math.log(upper) + 1e-12
            nothing += at_once == 1.0
    assert 9 < nothing < 50


def test_a_largest_loss_is_known_where_chernoff_would_do():
    """In direction add delta is 0 from the largest loss on, which is better than the least double."""
    epsilon = -50 * math.log1p(-0.01) * 1.001
    lower, upper, _, _, at_once = call("answers", "delta", ADD, 9.0, 0.01, 50, epsilon, answers=5)
    assert (lower, upper, at_once) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("sigma", [50.0, 1e100])
def test_steps_on_all_records_whose_exponent_is_no_double_have_some_delta(sigma):
    for ways in (ADD, REMOVE, BOTH):
        for steps in (1.0, 1000.0):
            epsilon = 2e154 / sigma * math.sqrt(steps)
            _, found, _, log_found, _ = call("answers", "delta", ways, sigma, 1.0, steps, epsilon, answers=5)
            assert 0.0 < found <= 2.0 * LEAST
            assert math.isfinite(log_found)
