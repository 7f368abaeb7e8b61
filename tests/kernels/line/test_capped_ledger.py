"""What errors of the points of a line make of it (line/capped_ledger.h), and what is bounded without a line
(line/capped_bound.h)."""

import math

import pytest

from tests.kernel_parts import call

# by fastacct.reference.exact_delta(noise_multiplier=, sample_rate=, steps=, epsilon=, direction="remove"), 30 digits
TRUTHS = {
    (0.8, 0.02, 10, 1.0): 0.000105103851866237,
    (2.0, 0.1, 100, 1.0): 0.0114978612009078,
    (1.0, 0.01, 1000, 1.0): 0.00261242057862692,
}
# ... and direction="add"
ADDED = {
    (1.0, 0.1, 100, 0.5): 0.29188374528224525,
    (2.0, 0.1, 100, 0.3): 0.10184529451838795,
    (1.0, 0.01, 1000, 0.2): 0.08685703079113559,
}


@pytest.mark.parametrize("need", [4.0, 6.0, 9.0, 14.0, 24.0])
@pytest.mark.parametrize(
    "run", [(2.0, 0.1, 100, 1.0), (1.0, 0.01, 1000, 1.0), (5.0, 0.05, 20_000, 3.0), (1.0, 0.01, 10_000, 6.0)]
)
def test_errors_of_all_points_are_paid_over_all_steps(run, need):
    """Every point is moved by what its errors allow, in the direction that adds most: all of it, and hardly more."""
    change, paid, over_all = call("bound", "moved", *run, need, answers=3)
    assert change <= paid
    assert change >= 0.8 * paid
    assert over_all > 0.0


@pytest.mark.parametrize("run", TRUTHS)
def test_the_bound_without_a_line_is_above_and_near_the_truth(run):
    """Chernoff's bound of the windows: two to six times delta."""
    *job, epsilon = run
    upper, back = call("bound", "upper", *job, epsilon, math.log(TRUTHS[run]), answers=2)
    assert TRUTHS[run] * (1.0 - 1e-12) <= math.exp(upper) <= 6.0 * TRUTHS[run]
    assert epsilon <= back <= 1.5 * epsilon


@pytest.mark.parametrize("cap", [3.0, 4.0])
@pytest.mark.parametrize("run", ADDED)
def test_what_a_cap_takes_of_direction_add_is_paid(run, cap):
    """A cap of so many standard deviations takes too much of delta, and the ledger has more than that."""
    log_value, put = call("bound", "added", *run, cap * run[0], answers=2)
    assert math.exp(log_value) < ADDED[run] * (1.0 - 1e-7)
    assert math.exp(log_value) * (1.0 + put) >= ADDED[run]
