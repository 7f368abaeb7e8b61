"""Components and numbers of draws that hardly ever occur are left out, and counted; steps that hardly differ."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.readers import cell_job, nearby
from fastacct.readers.cell import CellReader
from fastacct.samplers import draws


@pytest.mark.parametrize("many", [1, 3, 100])
@pytest.mark.parametrize("far", [50.0, 30.0])
def test_a_component_that_is_hardly_ever_drawn_is_all_that_is_left_of_delta(far, many):
    """P is at least 1e-31 N(far), whose delta is 1e-31 less nothing up to some epsilon."""
    job = fa.GaussianMixture(1.0, [(1 - 1e-31, 0.0), (1e-31, far)]) * many
    for epsilon in (0.1, 5.0, 150.0):
        least = 1e-31 * (1 - 1e-6)
        lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon, neighbors="remove")
        assert upper >= least
        assert lower <= many * 1e-31 * (1 + 1e-9)
        assert fa.log_delta_bounds(job, epsilon=epsilon, neighbors="remove").upper >= math.log(least)
        assert fa.epsilon(job, delta=0.99e-31, neighbors="remove") > epsilon
        assert fa.epsilon_bounds(job, delta=1.01e-31 * many, neighbors="remove").lower < epsilon
    together = [fa.epsilon(job, delta=[1e-20, 0.99e-31], neighbors="remove")[1] for _ in range(2)]
    assert min(together) > 150.0


def test_a_weight_that_is_small_beside_the_rounding_of_the_other_one_is_not_rounded():
    """The first of two weights is 1e-9, and 1 less the second one is not, nor what is left out beside 1e-12."""
    m = fa.GaussianMixture(0.05, p=[(1e-12, 0.0), (1 - 1e-12 - 1e-14, 1.0), (1e-14, 100.0), (1e-31, 200.0)])
    lower, upper, _ = fa.epsilon_bounds(m, delta=1e-3, neighbors="add")
    assert lower <= 27.63002061559 <= upper
    two = fa.GaussianMixture(0.05, p=[(1e-10, 0.0), (1 - 1e-10, 1.0)])
    lower, upper, _ = fa.epsilon_bounds(two, delta=1e-10, neighbors="add")
    assert lower <= -math.log(1e-10) + math.log1p(-1e-10) <= upper
    for step in (fa.Gaussian(0.2).fixed_size(1, 10**9), fa.Gaussian(0.2).with_replacement(1, 10**9)):
        lower, upper, _ = fa.epsilon_bounds(step.group(10**9 - 1), delta=1e-9, neighbors="add")
        assert lower <= 20.723265835666 <= upper
        lower, upper, _ = fa.delta_bounds(step.group(10**9 - 1), epsilon=20.7, neighbors="add")
        assert lower <= 0.0228278240644 <= upper


def test_what_is_left_out_on_the_other_side_is_not_lost_either():
    """Q has 1e-33 N(-100), which is all of delta at epsilons that P's own weights do not reach."""
    m = fa.GaussianMixture(
        1.0, p=[(1 - 1e-14 - 1e-60, 0.0), (1e-14, 1.0), (1e-60, 100.0)], q=[(1.0, 0.0), (1e-33, -100.0)]
    )
    assert fa.epsilon(m, delta=1e-40, neighbors="add") > 1000.0
    many = fa.GaussianMixture(
        1.0, p=[(1 - 1e-14, 0.0), (1e-14 - 1e-60, 1.0), (1e-60, 100.0)], q=[(1.0, 0.0), (9e-31, -100.0)]
    )
    assert fa.epsilon(many * 10**12, delta=1e-20, neighbors="add") > 100.0


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_what_both_sides_have_far_out_is_not_left_out_of_one(rate):
    """The sample of a pair whose Q reaches far to the left: P has it there, too, and the loss increases as before."""
    pair = fa.GaussianMixture(1.0, p=[(0.9, 0.0), (0.1, 1.0)], q=[(1.0 - 1e-32, 0.0), (1e-32, -60.0)])
    plain = fa.GaussianMixture(1.0, p=[(0.9, 0.0), (0.1, 1.0)])
    for way in ("remove", "add"):
        found, other = (fa.epsilon_bounds(one.poisson(rate) * 20, delta=1e-5, neighbors=way) for one in (pair, plain))
        assert found.upper == pytest.approx(other.upper, rel=1e-6)
        assert found.lower <= other.upper
        lower, upper, _ = fa.delta_bounds(pair.poisson(rate) * 20, epsilon=200.0, neighbors=way)
        assert lower <= 20e-32
        assert upper < 1e-10


def test_targets_of_one_call_do_not_change_each_other():
    job = fa.Gaussian(0.3).poisson(1e-4).group(20) * 100
    assert fa.epsilon(job, delta=[1e-2, 1e-9, 1e-20])[1] == fa.epsilon(job, delta=1e-9)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("noise", [1e-200, 1e-155, 1e155, 1e300])
def test_noise_whose_square_is_no_number(noise, relation):
    for job in (fa.Gaussian(noise).poisson(0.1).group(3) * 5, fa.Gaussian(noise).with_replacement(3, 10) * 5):
        lower, upper, _ = fa.delta_bounds(job, epsilon=1.0, neighbors=relation)
        assert lower <= (1.0 if noise < 1.0 else 1e-100)
        assert upper >= (0.79 if noise < 1.0 else 0.0)
    upper = fa.delta(fa.Gaussian(noise).shuffled(10), epsilon=1.0, neighbors="zero_out")
    assert upper == 1.0 if noise < 1.0 else upper < 1e-100


def test_numbers_of_draws_that_hardly_occur_do_not_need_a_grid(monkeypatch):
    """The truth is between: of all numbers from above, of those that are left from below."""
    job = fa.Gaussian(0.806).with_replacement(118, 50_000) * 5033
    found = fa.epsilon(job, delta=1.77e-5, neighbors="replace_one")
    monkeypatch.setattr(CellReader, "larger", None)  # what asks grids
    assert fa.epsilon(job * 1, delta=1.77e-5, neighbors="replace_one") == found


@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("digits", [2, 3, 5])
def test_bounds_without_some_numbers_of_draws_hold_for_all(steps, digits):
    pair = draws.swapped(2.0, draws.binomial(60, 1.0, 1000), "replace_one")
    job = cell_job.job_of([], [(pair.above.pieces(), float(steps))])
    near, lost = job.near(digits)
    assert 0.0 < lost < steps * 10.0**-digits
    whole = cell_job._read(job._replace(near=None), nearby.both(np.array([0.01])), nearby.EPSILON, cell_job.BOTH)
    assert whole.status[0] == fa.Status.TIGHT
    found = cell_job._by_near(near, lost, nearby.both(np.array([0.01])), nearby.EPSILON, cell_job.BOTH)
    assert found.lower[0] <= whole.lower[0] * (1 + 1e-9)
    assert found.upper[0] >= whole.upper[0] * (1 - 1e-9)
    alone = cell_job._read(near._replace(shift=0.0), nearby.both(np.array([0.01])), nearby.EPSILON, cell_job.BOTH)
    assert alone.upper[0] < whole.lower[0], "what is left out matters here, and has to be counted"


@pytest.mark.parametrize("rate", [1e-3, 1e-200, 1e-305])
@pytest.mark.parametrize("noise", [1e3, 1e10, 1e150])
def test_the_sum_of_total_variations_of_a_job_is_above_delta_and_a_number(noise, rate):
    """To first order delta(0) is sqrt(steps) mean / (noise sqrt(2 pi)); sums that underflow bound nothing."""
    least = math.log(math.sqrt(10) * 2 * rate) - math.log(noise * math.sqrt(2 * math.pi)) - 1e-3
    for relation in ("add_remove", "replace_one"):
        job = fa.Gaussian(noise).poisson(rate).group(2) * 10
        upper = fa.log_delta_bounds(job, epsilon=0.0, neighbors=relation).upper
        assert least + (math.log(2) if relation == "replace_one" else 0.0) <= upper <= 0.0
        assert fa.delta(job, epsilon=0.0, neighbors=relation) >= 0.0
