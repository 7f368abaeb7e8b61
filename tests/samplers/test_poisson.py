"""Poisson samples and groups of any mechanism: against tables mixed by hand, closed forms and published values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct.accountants import RDP
from fastacct.losses.loss import Atoms, Bracket, Pair
from fastacct.samplers.poisson import general_bound, sample, sampled_pure_epsilon

P, Q = (0.5, 0.4, 0.1, 0.0), (0.45, 0.45, 0.0, 0.1)


def mixed(p, q, rate):
    return [(1.0 - rate) * b + rate * a for a, b in zip(p, q, strict=True)]


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("neighbors", ["add", "remove", "add_remove"])
@pytest.mark.parametrize("tables", [((0.6, 0.25, 0.15), (0.3, 0.3, 0.4)), (P, Q)], ids=["common", "infinite"])
def test_the_sample_of_two_tables_is_the_mixed_table(tables, neighbors, rate):
    p, q = tables
    sample, truth = fa.from_pmf(p, q).poisson(rate), fa.from_pmf(mixed(p, q, rate), q)
    for count in (1, 4):
        for epsilon in (0.0, 0.02, 0.3):
            ours = fa.delta_bounds(sample * count, epsilon=epsilon, neighbors=neighbors)
            by_hand = fa.delta_bounds(truth * count, epsilon=epsilon, neighbors=neighbors)
            assert ours.lower <= by_hand.upper + 1e-15  # rounding of the table mixed by hand
            assert by_hand.lower - 1e-15 <= ours.upper <= by_hand.upper * 1.001 + 1e-14


@pytest.mark.parametrize(
    "mechanism",
    [fa.Laplace(1.0), fa.PureDP(0.7), fa.ApproxDP(0.5, 1e-4), fa.DiscreteGaussian(2.0), fa.Skellam(10.0)],
    ids=repr,
)
@pytest.mark.parametrize("rate", [1e-6, 0.05, 0.9])
def test_one_sample_is_the_amplification_of_balle_barthe_gaboardi(mechanism, rate):
    for epsilon in (0.05, 0.3):
        amplified = math.log1p(rate * math.expm1(epsilon))
        ours = fa.delta_bounds(mechanism.poisson(rate), epsilon=amplified, neighbors="remove")
        whole = fa.delta_bounds(mechanism, epsilon=epsilon, neighbors="remove")
        assert ours.lower <= rate * whole.upper * (1.0 + 1e-9)
        assert ours.upper >= rate * whole.lower * (1.0 - 1e-9)
        assert ours.upper <= rate * whole.upper * 1.002 + 1e-13


def test_a_sampled_laplace_is_the_integral_of_its_densities():
    rate, epsilon, scale = 0.1, 0.05, 1.0
    x = np.linspace(-45.0, 46.0, 4_000_001)
    p, q = (0.5 / scale * np.exp(-np.abs(x - m) / scale) for m in (1.0, 0.0))
    mix = (1.0 - rate) * q + rate * p
    for neighbors, (one, other) in {"remove": (mix, q), "add": (q, mix)}.items():
        truth = np.trapezoid(np.maximum(one - math.exp(epsilon) * other, 0.0), x)
        lower, upper, _ = fa.delta_bounds(fa.Laplace(scale).poisson(rate), epsilon=epsilon, neighbors=neighbors)
        assert lower <= truth * (1.0 + 1e-8)
        assert truth * (1.0 - 1e-8) <= upper <= truth * 1.001


def test_a_sampled_gdp_is_the_sampled_gaussian_and_a_sampled_mixture_a_mixture():
    run = fa.Gaussian(2.0).poisson(0.1) * 30
    for other in (fa.GDP(0.5).poisson(0.1), fa.GaussianMixture(2.0, [(1.0, 1.0)]).poisson(0.1)):
        a, b = fa.delta_bounds(run, epsilon=0.7), fa.delta_bounds(other * 30, epsilon=0.7)
        assert a.lower <= b.upper <= a.upper * (1.0 + 1e-9)
    deeper = fa.GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)]).poisson(0.5) * 30
    a, b = fa.delta_bounds(fa.Gaussian(2.0).poisson(0.05) * 30, epsilon=0.7), fa.delta_bounds(deeper, epsilon=0.7)
    assert a.lower <= b.upper <= a.upper * (1.0 + 1e-9)


def test_divergence_of_a_sample_and_the_general_bound_meet_published_values():
    """Sampled Laplace, q = 0.02, epsilon_0 = 1, order 5: the binomial sum, and Zhu and Wang's bound with factor 3."""
    exact, bound = 8.737653614399294e-4, 1.048721968455635e-3
    ours = fa.rdp(fa.Laplace(1.0).poisson(0.02), 5.0)
    assert exact <= ours <= exact * (1.0 + 1e-4)
    orders = np.array([5.0])
    found = general_bound(lambda a: fa.Laplace(1.0).divergence(a, "add_remove"), 0.02, orders, np.array([np.inf]))
    assert bound <= found[0] <= bound * (1.0 + 1e-8)


@pytest.mark.parametrize("rate", [1e-4, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("base", [fa.PureDP(1.0), fa.DiscreteLaplace(1.0, 2), fa.Laplace(0.5)], ids=repr)
def test_the_general_bound_is_above_the_exact_divergence_of_both_directions(base, rate):
    orders = np.array([1.3, 2.0, 2.5, 4.0, 9.7, 32.0])
    bound = general_bound(lambda at: base.divergence(at, "add_remove"), rate, orders, np.full(orders.size, np.inf))
    for neighbors in ("add", "remove"):
        assert np.all(fa.rdp(base.poisson(rate), orders, neighbors=neighbors) <= bound * (1.0 + 1e-6) + 1e-14)


def test_a_curve_is_sampled_by_the_general_bound():
    gaussian = fa.RDPCurve(orders=np.arange(2.0, 65.0), values=np.arange(2.0, 65.0) / (2.0 * 2.0**2))
    ours = fa.epsilon(gaussian.poisson(0.01) * 1000, delta=1e-5)
    tight = fa.epsilon(fa.Gaussian(2.0).poisson(0.01) * 1000, delta=1e-5, accountant=RDP())
    assert tight <= ours <= 2.0 * tight


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_errors_of_losses_are_paid_before_they_are_sampled(direction):
    loss, off, rate = np.array([-0.4, 0.3]), 1e-3, 0.3
    atoms = Atoms(loss, np.full(2, 2.0 * off), np.array([0.4, 0.6]))
    found = sample(Pair(Bracket(atoms, atoms), Bracket(atoms, atoms)), rate).side(direction)
    sign = 1.0 if direction == "remove" else -1.0
    below, above = (sign * np.log1p(rate * np.expm1(sign * (loss + side * 2.0 * off))) for side in (-1.0, 1.0))
    assert (found.upper.loss[:2] + found.upper.loss_error[:2] >= above).all()
    assert (found.lower.loss[:2] - found.lower.loss_error[:2] <= below).all()


@pytest.mark.parametrize("relation", ["add", "remove"])
def test_pure_epsilon_of_a_sample_is_not_below_the_logarithm(relation):
    """log(1 + q (e^epsilon - 1)), and -log(1 + q (e^-epsilon - 1)) in direction add, in 40 digits."""
    rng, sign = np.random.default_rng(43), -1 if relation == "add" else 1
    for epsilon, rate in zip((10.0 ** rng.uniform(-9, 1, 300)).tolist(), rng.uniform(0, 1, 300).tolist(), strict=True):
        with mp.workdps(40):
            truth = sign * mp.log1p(mpf(rate) * mp.expm1(sign * mpf(epsilon)))
            found = sampled_pure_epsilon(epsilon, rate, relation)
            assert truth <= found <= truth * (1 + mpf("2e-14") / (1 - mpf(rate)))


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_masses_of_a_sample_are_all_of_it(direction):
    base = fa.TruncatedLaplace(1.0, 3.0).losses("remove")
    bracket = base.sampled(0.3).side(direction)
    for law, side in ((bracket.upper, 1.0), (bracket.lower, -1.0)):
        edges = np.array([-1e300, -0.1, 0.2, 1e300])
        mass = law.infinite + float(law.masses(edges, 0.0, side).mass.sum())
        assert mass == pytest.approx(1.0, abs=1e-12)
        assert side * (mass - 1.0) >= 0.0


def test_rates_at_the_ends_and_array_rates():
    job = fa.Laplace(2.0).poisson(np.array([0.0, 0.5, 1.0]))
    upper = fa.delta(job * 2, epsilon=0.3)
    assert upper[0] == 0.0
    assert upper[0] < upper[1] < upper[2]
    assert upper[2] == fa.delta(fa.Laplace(2.0) * 2, epsilon=0.3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fa.PoissonSampled(fa.Laplace(1.0).poisson(0.1), 0.5), "sample once"),
        (lambda: fa.Gaussian(1.0).poisson(0.1).group(2).poisson(0.5), "sample once"),
        (lambda: fa.GOPA(0.5, 2.0, parties=12).poisson(0.1), "Poisson-subsampled"),
        (lambda: fa.delta(fa.SparseVector(0.1, 3).poisson(0.1), epsilon=1.0), "not the composition of their samples"),
        (lambda: fa.delta(fa.Laplace(1.0).poisson(0.1), epsilon=1.0, neighbors="replace_one"), "replace_one"),
        (lambda: fa.Laplace(1.0).poisson(1.5), "sample_rate"),
    ],
)
def test_what_is_not_known_of_samples_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-300, 1.0), st.floats(1e-300, 1.0))
def test_a_sample_of_a_sample_multiplies_the_rates_and_never_rounds_down(one, other):
    twice = fa.Laplace(1.0).poisson(one).poisson(other)
    assert twice == fa.Laplace(1.0).poisson(other).poisson(one)
    assert twice.mechanism == fa.Laplace(1.0)
    exact = Fraction(one) * Fraction(other)
    assert Fraction(math.nextafter(twice.sample_rate, 0.0)) < exact <= Fraction(twice.sample_rate)


def test_a_sample_of_a_sample_of_arrays():
    rates, other = np.array([0.0, 0.5, 1.0]), np.array([[0.25], [1.0]])
    np.testing.assert_array_equal(fa.Gaussian(1.0).poisson(rates).poisson(other).sample_rate, rates * other)
    with pytest.raises(ValueError, match="sample_rate"):
        fa.Gaussian(1.0).poisson(0.5).poisson(1.5)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 3.0), st.floats(0.0, 0.01), st.floats(1e-6, 0.999), st.floats(0.0, 2.0))
def test_a_sample_is_never_worse_than_the_mechanism_and_never_better_than_the_formula(epsilon, delta, rate, at):
    base = fa.ApproxDP(epsilon, delta)
    sample = fa.delta_bounds(base.poisson(rate), epsilon=at)
    assert sample.lower <= fa.delta(base, epsilon=at) * (1.0 + 1e-9)
    x = math.log1p(math.expm1(at) / rate)
    truth = rate * (delta + (1.0 - delta) * max(0.0, -math.expm1(x - epsilon)) / (1.0 + math.exp(-epsilon)))
    assert sample.upper >= truth * (1.0 - 1e-9)


# -- groups ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "size", "same"),
    [
        (fa.Laplace(3.0), 3, fa.Laplace(1.0)),
        (fa.DiscreteLaplace(2.0), 3, fa.DiscreteLaplace(2.0, 3)),
        (fa.DiscreteGaussian(2.0), 2, fa.DiscreteGaussian(2.0, 2)),
        (fa.Skellam(10.0), 2, fa.Skellam(10.0, 2)),
        (fa.PureDP(0.1), 3, fa.PureDP(0.3)),
        (fa.GDP(0.1), 5, fa.GDP(0.5)),
        (fa.ZCDP(0.02), 3, fa.ZCDP(0.18)),
        (fa.Exponential(0.1), 3, fa.Exponential(0.3)),
        (fa.RandomizedResponse(1.0, 3), 3, fa.RandomizedResponse(1.0, 3) * 3),
        (fa.ApproxDP(0.2, 1e-6), 3, fa.ApproxDP(0.6, 3.713227455801440e-6)),
        (fa.TreeAggregation(8.0, 1000), 2, fa.TreeAggregation(4.0, 1000)),
        (fa.RDPCurve([8.0, 16.0], [0.1, 0.2]), 2, fa.RDPCurve([4.0, 8.0], [0.3, 0.6])),
    ],
    ids=repr,
)
def test_group_of_a_mechanism(mechanism, size, same):
    neighbors = mechanism.relations[0]
    for epsilon in (0.3, 1.0):
        ours, truth = (
            fa.delta_bounds(job * 2, epsilon=epsilon, neighbors=neighbors) for job in (mechanism.group(size), same)
        )
        assert truth.lower * (1.0 - 1e-12) <= ours.upper <= truth.upper * 1.001 + 1e-15
        assert ours.lower <= truth.upper * (1.0 + 1e-12)


def test_a_group_of_one_is_the_mechanism_and_groups_of_groups_multiply():
    assert fa.Laplace(1.0).group(1) == fa.Laplace(1.0)
    assert fa.PureDP(0.1).group(3).group(2) == fa.PureDP(0.1).group(6)
    assert (fa.Gaussian(1.0) * 3 + fa.Laplace(2.0)).group(2) == fa.Gaussian(1.0).group(2) * 3 + fa.Laplace(1.0)


@pytest.mark.parametrize(
    "mechanism",
    [fa.from_pmf(P, Q), fa.GaussianMixture(1.0, [(1.0, 1.0)]), fa.MeanConcentratedDP(0.1, 0.4), fa.ZCDP(0.1, xi=0.1)],
    ids=repr,
)
def test_groups_of_which_nothing_is_known_are_refused(mechanism):
    with pytest.raises(ValueError, match=r"group privacy .*is (not )?implemented for"):
        mechanism.group(2)


def test_bad_group_sizes_are_refused():
    for size in (0, 1.5, -1, math.inf):
        with pytest.raises(ValueError, match="size"):
            fa.Laplace(1.0).group(size)


@pytest.mark.parametrize("delta", [1e-14, 1e-20, 1e-300])
def test_a_record_that_is_added_can_take_everything_back_however_rarely(delta):
    """An infinite loss of the whole is the largest one of the sample, direction add, whatever its mass."""
    rate = 0.5
    upper = fa.ApproxDP(0.3, delta).poisson(rate).losses("add_remove").add.upper
    assert upper.loss[np.argmax(upper.loss)] >= -math.log1p(-rate) * (1.0 - 1e-15)
    assert upper.mass[np.argmax(upper.loss)] >= delta * (1.0 - 1e-12)
    assert fa.epsilon(fa.ApproxDP(0.3, delta).poisson(rate), delta=0.01 * delta, neighbors="add") > 0.6
