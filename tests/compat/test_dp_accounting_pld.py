"""PLD objects of dp_accounting made from jobs: above the truth, close to it, and so are their compositions."""

import pytest

import fastacct as fa

pytest.importorskip("dp_accounting", reason="the extra dp_accounting is not installed")

from fastacct.compat.dp_accounting import to_dp_accounting


@pytest.mark.parametrize(
    "job",
    [fa.Gaussian(1.0).poisson(0.1) * 20, fa.Laplace(2.0) * 3, fa.Gaussian(2.0) + fa.RandomizedResponse(0.5).group(1)],
    ids=["sampled", "laplace", "mixed"],
)
def test_a_pld_object_is_above_the_truth_and_close(job):
    neighbors = "replace_one" if not all("add" in one.relations for one, _ in job) else "add_remove"
    there = to_dp_accounting(job, neighbors=neighbors)
    for epsilon in (0.0, 0.5, 1.2345, 2.0):
        truth = fa.delta_bounds(job, epsilon=epsilon, neighbors=neighbors)
        found = there.get_delta_for_epsilon(epsilon)
        assert truth.lower * (1 - 1e-9) <= found <= truth.upper * (1 + 1e-3) + 1e-12
    twice, both = there.self_compose(2), fa.epsilon_bounds(job * 2, delta=1e-5, neighbors=neighbors)
    assert both.lower - 1e-9 <= twice.get_epsilon_for_delta(1e-5) <= both.upper * 1.002 + 1e-3


def test_jobs_without_losses_have_no_pld_object():
    with pytest.raises(ValueError, match="no privacy losses are known"):
        to_dp_accounting(fa.ZCDP(0.1) * 2)


@pytest.mark.parametrize("neighbors", ["add", "remove"])
def test_a_pld_object_of_one_direction_composes_from_above(neighbors):
    """Its losses below 0 come from the other direction: taken from its own they would be too few."""
    job = fa.Gaussian(0.8).poisson(0.05)
    there = to_dp_accounting(job, neighbors=neighbors).self_compose(30)
    for epsilon in (0.2, 0.5, 1.0):
        truth = fa.delta_bounds(job * 30, epsilon=epsilon, neighbors=neighbors)
        assert truth.lower * (1 - 1e-9) <= there.get_delta_for_epsilon(epsilon) <= truth.upper * 1.01 + 1e-9
