"""Where losses are infinite, theorems need both directions, or sums are long: bounds beside the truth."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.readers.cell import CellReader

# -- infinite losses that occur often --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [100, 6643, 6644, 6700, 7000, 10_000, 16_384])
def test_infinite_losses_of_many_releases_do_not_underflow(count):
    truth = -math.expm1(count * math.log1p(-0.1))
    lower, upper, _ = fa.delta_bounds(fa.ApproxDP(0.1, 0.1) * count, epsilon=0.1 * count + 1.0)
    assert lower <= truth <= upper <= truth * (1.0 + 1e-6)
    assert fa.epsilon(fa.ApproxDP(0.1, 0.1) * count, delta=1e-5) == math.inf


def test_infinite_losses_of_other_jobs():
    table = fa.from_pmf([0.5, 0.5], [0.0, 1.0])
    assert fa.epsilon(table * 1500, delta=1e-5, neighbors="remove") == math.inf
    assert fa.delta(fa.ApproxDP(0.1, 0.1) * 8000 + fa.PureDP(0.5), epsilon=1.0) == 1.0
    with pytest.raises(fa.BudgetExceededError):
        fa.Accountant(epsilon=1.0, delta=1e-5).compose(fa.ApproxDP(0.1, 0.1), 10_000)
    rare = fa.from_pmf([0.9999999974661733, 2.5338267650191824e-09, 3.171051993931031e-200], [0.0, 0.0, 1.0])
    job = fa.DiscreteLaplace(0.05) * 3 + rare * 2 + fa.ApproxDP(5.8, 1e-12)
    assert fa.delta(job, epsilon=0.0, neighbors="remove") > 0.999999


def test_subnormal_deltas_are_on_their_side():
    lower, upper, _ = fa.delta_bounds(fa.ApproxDP(226.0881388488275, 1e-12).poisson(1e-300) * 2, epsilon=1.0)
    assert lower <= 2e-312 <= upper


# -- selection and samples need both directions ----------------------------------------------------------------------


def test_repeated_selection_rests_on_both_directions_of_its_base():
    """Geometric number of runs, mean 100, the second outcome preferred: by the generating function of the number."""
    base, mean = fa.from_pmf([1.0, 0.0], [0.7, 0.3]), 100.0
    gamma = 1.0 / mean

    def best_is_first(p):  # all K runs gave the first outcome: E p^K of the geometric law
        return gamma * p / (1.0 - (1.0 - gamma) * p)

    p, q = best_is_first(1.0), best_is_first(0.7)
    truth = math.log(p**2 / q)  # order 2; the second outcome has no mass with the record
    for neighbors in ("remove", "add_remove"):
        assert fa.rdp(fa.RepeatedSelection(base, mean, eta=1.0), 2.0, neighbors=neighbors) >= truth
    gaussian = fa.Gaussian(0.4).poisson(0.3)
    assert fa.rdp(fa.RepeatedSelection(gaussian, 1000.0), 2.0, neighbors="add") >= 182.66


def test_the_general_bound_of_samples_rests_on_both_directions():
    one = fa.Parallel(fa.from_pmf([0.5, 0.5], [1.0, 0.0]), fa.Laplace(1000.0))
    sample = one.poisson(0.01)
    assert fa.rdp(sample, 2.0, neighbors="add") >= math.log(1.0 / 0.995)
    truth = 1.0 - math.exp(0.3) * 0.995**100
    assert fa.delta(sample * 100, epsilon=0.3, neighbors="add") >= truth


def test_answers_of_the_local_model_are_not_sampled():
    with pytest.raises(ValueError, match="who does not take part"):
        fa.RandomizedResponse(2.0).poisson(0.1)


# -- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_of_a_pure_guarantee_is_a_bound():
    """Over all 1-DP mechanisms a pair of records is at most 1 - 1/e apart in total variation (Laplace attains it)."""
    for size in (2, 3, 4):
        lower, upper, _ = fa.delta_bounds(fa.PureDP(1.0).group(size), epsilon=0.0)
        assert lower == 0.0
        assert upper >= 1.0 - math.exp(-size / 2.0)
    assert not fa.PureDP(1.0).group(2).poisson(0.1).tight


def test_members_of_a_group_may_touch_different_laplace_noises():
    tree = fa.TreeAggregation(8.0, 7, noise="laplace").group(2)
    assert tree.decompose("add_remove").blocks.keys() == {
        fa.PureDP(np.nextafter(2.0 * 3.0 / 8.0 * (1.0 + 4e-16), 1.0).item())
    }
    assert fa.epsilon(tree, delta=0.0) == pytest.approx(0.75, rel=1e-14, abs=0.0)


# -- budgets and graphs at their ends --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "gdp", "zcdp", "rdp"])
def test_no_noise_does_not_fit(kind):
    budget = fa.Accountant(epsilon=1.0, delta=1e-5, filter=kind)
    for job in (fa.Gaussian(0.0), fa.Gaussian(1e-200), fa.Gaussian(1.0) + fa.Gaussian(0.0) * 2):
        assert budget.would_exceed(job)
        with pytest.raises(fa.BudgetExceededError):
            budget.compose(job)
    if kind != "gdp":
        assert budget.would_exceed(fa.PureDP(math.inf))


@pytest.mark.parametrize("own", [1e-10, 1e-3, 1.0])
@pytest.mark.parametrize("shared", [0.0, 1.0, 1e12])
def test_ill_conditioned_graphs_are_on_the_safe_side(own, shared):
    """A path of ten: eigenvalues in closed form, 2 - 2 cos(pi k/10)."""
    n = 10
    k = np.arange(n)
    values = 2.0 - 2.0 * np.cos(np.pi * k / n)
    vectors = np.cos(np.pi * np.outer(np.arange(n) + 0.5, k) / n)
    vectors /= np.sqrt((vectors**2).sum(axis=0))
    truth = math.sqrt(float(((vectors**2) @ (1.0 / (own + shared * values))).max()))
    found = fa.GOPA(own, shared, parties=n, edges=[(i, i + 1) for i in range(n - 1)]).mu
    assert truth * (1.0 - 1e-12) <= found <= 1.0 / math.sqrt(own) * (1.0 + 1e-12)
    if shared * 1e-13 < own:
        assert found <= truth * 1.01


# -- filters, ends, sums and tables ------------------------------------------------------------------------------------


def test_a_filter_of_one_direction_needs_losses_bounded_on_both_sides():
    for step in (fa.PureDP(5.0).poisson(0.1), fa.Laplace(0.2).poisson(0.1), fa.DiscreteLaplace(0.2).poisson(0.1)):
        budget = fa.Accountant(epsilon=30.0, delta=1e-6, filter="zcdp", neighbors="add")
        many = budget.remaining(step)
        assert many > 0
        assert fa.epsilon_lower(step * many, delta=1e-6, neighbors="add") <= 30.0


@pytest.mark.parametrize(
    ("epsilon", "count", "at", "truth"),
    [
        (1e-8, 20, 4e-8, 3.430973727e-10),
        (1e-6, 5, 2.5e-7, 3.5349309496987e-7),
        (1e-6, 1, 9e-7, 2.50000112500e-9),
        (1e-4, 1, 9e-5, 2.500112501495e-7),
        (0.01, 100, 0.999, 6.029626153e-306),
        (5.0, 20, 99.99999, 1.95936683455e-133),
        (1e-8, 2, 1.9999999998e-8, 2.963e-39),
    ],
)
def test_exponential_mechanisms_at_extremes(epsilon, count, at, truth):
    """By 60 digits; one mechanism also by its closed form."""
    assert fa.composition.exponential_mechanisms(epsilon, count, at) >= truth * (1.0 - 1e-9)


def test_sums_of_many_parts_pay_for_every_addition():
    tiny = [1.77e-15 - i * 1e-19 for i in range(19)]
    job = fa.ApproxDP(16.0, 0.0) + sum((fa.PureDP(x) * 1 for x in tiny), fa.Process())
    assert fa.epsilon(job, delta=0.0) >= 16.0000000000000336
    assert fa.delta(job, epsilon=16.0 + 1.4e-14) >= 3.7e-20


def test_a_table_with_a_deficit_keeps_it_in_its_lower_bound():
    lower, upper, _ = fa.delta_bounds(
        fa.from_pmf([1.0 - 9e-13, 0.0], [0.0, 1.0]) * 10_000, epsilon=1.0, neighbors="remove"
    )
    truth = math.exp(10_000 * math.log(1.0 - 9e-13))
    assert lower <= truth <= upper


def test_a_walk_on_a_ring_beside_other_releases_is_its_gaussians():
    """It was read with the losses of another graph: 1.938."""
    others = fa.Laplace(4.0) * 2
    least = fa.epsilon_lower(fa.Gaussian(8.0) * 10 + others, delta=1e-6)
    assert fa.epsilon(fa.RandomWalk(8.0, 10) + others, delta=1e-6) >= least > 2.1


@pytest.mark.parametrize("relation", ["add_remove", "add", "remove", "replace_one"])
def test_epsilon_at_delta_0_needs_no_grid(relation, monkeypatch):
    """The largest losses of all parts add up: a grid took 10 to 18 seconds for these."""
    monkeypatch.setattr(CellReader, "larger", lambda *_: pytest.fail("a reader was asked"))
    moved = 2.0 if relation == "replace_one" else 1.0
    for job, truth in (
        (fa.Laplace(5.0) * 10, 2.0 * moved),
        (fa.Laplace(2.0) + fa.Laplace(3.0) * 2 + fa.DiscreteLaplace(4.0) * 4, (0.5 + 2.0 / 3.0 + 1.0) * moved),
    ):
        found = fa.epsilon_bounds(job, delta=0.0, neighbors=relation)
        assert found.lower <= truth <= found.upper
        assert found.status == fa.Status.TIGHT
        assert found.upper - found.lower <= 4e-14
    if relation in ("add", "remove"):  # 1 - q + q exp(1/b), or the inverse of 1 - q + q exp(-1/b)
        sign = 1.0 if relation == "remove" else -1.0
        truth = sign * 10.0 * math.log1p(0.1 * math.expm1(sign * 0.2))
        found = fa.epsilon_bounds(fa.Laplace(5.0).poisson(0.1) * 10, delta=0.0, neighbors=relation)
        assert found.lower <= truth * (1 + 1e-15)
        assert truth * (1 - 1e-15) <= found.upper <= truth * (1 + 1e-13)
