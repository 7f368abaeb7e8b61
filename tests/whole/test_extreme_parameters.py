"""Guarantees at extreme parameters: amplified rounding, under- and overflow stay on the safe side."""

import math

import mpmath as mp
import pytest

import fastacct as fa

DIGITS = 50


def _sampled(epsilon, rate):
    """Pure epsilon of a Poisson sample."""
    return mp.log1p(mp.mpf(rate) * mp.expm1(epsilon))


@pytest.mark.parametrize(
    ("mechanism", "rate"),
    [
        (fa.Laplace(0.0524), 9.1e-10),
        (fa.Laplace(0.0239), 1.3e-20),
        (fa.Laplace(0.029135785279969743), 3.1913531088277845e-16),
        (fa.DiscreteLaplace(0.11, 34), 1.1e-143),
        (fa.DiscreteLaplace(0.27411546116347474, 9), 3.425836296841751e-16),
    ],
)
def test_pure_epsilon_of_a_sample_pays_for_the_rounding_of_its_base(mechanism, rate):
    with mp.workdps(DIGITS):
        base = 1 / mp.mpf(getattr(mechanism, "noise_multiplier", None) or mechanism.scale)
        truth = _sampled(getattr(mechanism, "sensitivity", 1) * base, rate)
        given = fa.epsilon(mechanism.poisson(rate), delta=0.0)
        assert truth <= given <= truth * (1 + mp.mpf("1e-12"))
    assert fa.delta(mechanism.poisson(rate), epsilon=float(truth) * (1.0 - 1e-15)) > 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "size"),
    [(2.1, 2e-57, 61), (0.47, 2.6e-69, 320), (0.48, 8e-264, 1202), (5.977426793392872, 8.48679294037707e-299, 97)],
)
def test_large_groups_of_epsilon_delta(epsilon, delta, size):
    with mp.workdps(DIGITS):
        truth = mp.mpf(delta) * mp.expm1(size * mp.mpf(epsilon)) / mp.expm1(mp.mpf(epsilon))
        given = fa.delta(fa.ApproxDP(epsilon, delta).group(size), epsilon=epsilon * size + 1.0)
        assert truth <= given <= truth * (1 + mp.mpf("1e-11"))


@pytest.mark.parametrize(
    ("job", "least"),
    [
        (fa.Laplace(1e170) + fa.ZCDP(0.0), 5e-171),
        (fa.PureDP(1e-170) * 10**15 + fa.ZCDP(0.0), 1e-163),
        (fa.Parallel(fa.PureDP(1e-170), fa.Laplace(1e171)) * 1000, 5e-171),
        (fa.NoisyIteration.single_pass(1e200, 5, 5) * 1, 4e-201),
        (fa.ZCDP(1e-10).poisson(1e-170) * 1, 5.6e-176),
        (fa.ZCDP(fa.convert.gdp_to_zcdp(1e-200)) * 1, 4e-201),
        (fa.Laplace(1e301) * 1, 5e-302),
        (fa.Laplace(1e301) * 7, 3e-301),
        (fa.GDP(1e-310) * 1, 4e-311),
        (fa.GDP(1e-310).group(3) * 1, 1e-310),
    ],
)
def test_what_releases_something_is_never_rounded_down_to_nothing(job, least):
    assert least <= fa.delta(job, epsilon=0.0) < 1e-140


def test_small_guarantees_are_never_converted_to_nothing():
    for mechanism in (fa.PureDP(1e-170), fa.Laplace(1e170), fa.Exponential(1e-170)):
        assert 0.0 < fa.rdp(mechanism, 2.0) < 1e-299
    for convert in (fa.convert.pure_to_zcdp, fa.convert.bounded_range_to_zcdp, fa.convert.gdp_to_zcdp):
        assert 0.0 < convert(1e-200) < 1e-320
        assert convert(0.0) == 0.0
    assert fa.convert.approximate_to_advantage(5e-324, 0.0) > 0.0
    assert fa.convert.rdp_to_delta(2.0, 1e-310, 0.0) >= 4e-156
    assert fa.convert.rdp_to_delta(1e11, 1e-299, 0.0) >= 1e-156
    assert fa.convert.rdp_to_epsilon(1e11, 1e-300, 1e-200, "mironov") >= 4.6e-9
    assert fa.convert.zcdp_to_epsilon_closed_form(math.inf, 1.0) == math.inf
    for method in ("zcdp", "gdp"):
        mechanism = fa.Gaussian(1e170)
        accountant = fa.Accountant(epsilon=1.0, delta=1e-5, filter=method)
        accountant.compose(mechanism)
        assert accountant._sum > 0


@pytest.mark.parametrize(
    ("epsilon", "count", "truth"),
    [(2.742497993019018e-280, 400, 1.09477901803855e-279), (6.373680626805337e-35, 100, 1.27448479291258651e-34)],
)
def test_exponential_mechanisms_with_tiny_ranges(epsilon, count, truth):
    assert truth <= fa.composition.exponential_mechanisms(epsilon, count, 0.0) <= truth * (1.0 + 1e-8)


def test_a_refused_composition_leaves_no_trace():
    accountant = fa.Accountant(epsilon=2.0, delta=1e-6, filter="zcdp")
    accountant.compose(fa.Gaussian(1e9), 2**53 - 1)
    spent, state = accountant.spent(), accountant.to_json()
    with pytest.raises(ValueError, match="count = 18014398509481982 is out of range"):
        accountant.compose(fa.Gaussian(1e9), 2**53 - 1)
    assert (accountant.spent(), accountant.to_json()) == (spent, state)
    assert fa.Accountant.from_json(state).spent() == spent
    for damaged in (
        "[" * 100_000,
        state.replace('"noise_multiplier": 1000000000.0', '"noise_multiplier": 0.0'),
        state.replace('"noise_multiplier": 1000000000.0', '"noise_multiplier": [1.0, 2.0]'),
    ):
        with pytest.raises(ValueError, match="state of an accountant"):
            fa.Accountant.from_json(damaged)
    with pytest.raises(ValueError, match="delta = 1"):
        fa.Accountant(epsilon=1.0, delta=1.0, filter="rdp")


def test_guessing_is_rounded_up():
    assert fa.tradeoff_bounds(fa.PureDP(0.0), 0.16).upper > 0.84


def test_lower_bounds_of_subnormal_deltas():
    assert fa.delta_bounds(fa.ApproxDP(1.0, 5e-324) * 3, epsilon=4.0).lower < 1.5e-323


# -- products that under- and overflow, theorems and their conditions ------------------------------------------------


def test_products_of_extreme_parameters():
    holdout = fa.Thresholdout(rate=1e300, size=10**9, budget=10**9)
    assert fa.epsilon(holdout, delta=0.0, neighbors="replace_one") >= 2e-300
    assert fa.log_delta_bounds(fa.PureDP(1e-10).poisson(5e-324), epsilon=0.0).upper >= -768.9
    assert fa.epsilon(fa.PureDP(1e-300).poisson(1e-30) * (2**53 - 1), delta=0.0) >= 9e-315
    assert fa.epsilon(fa.Laplace(1e308).poisson(5e-324), delta=0.0) > 0.0
    assert fa.epsilon(fa.PermuteAndFlip.from_scale(1e300, sensitivity=1e-300), delta=0.0) > 0.0
    assert fa.rdp(fa.RandomizedResponse(1e-310, 10**9), 2.0, neighbors="replace_one") > 0.0
    assert fa.delta(fa.ApproxDP(math.log(1.4), 5e-324).group(2), epsilon=2.0) >= 2.4 * 5e-324
    assert fa.convert.approximate_to_probabilistic(0.5, 5e-324, 1e-8)[1] >= 4.9406564831e-316
    assert fa.composition.advanced(math.inf, 0.0, 0, 1e-6)[0] == 0.0
    assert fa.composition.drift(math.inf, 0.0, 3, 1e-6)[0] == math.inf


def test_what_no_theorem_covers_is_refused():
    with pytest.raises(ValueError, match=r"sums to 0\.9"):
        fa.mechanisms.PairOfTables((0.5, 0.4), (0.5, 0.5))
    with pytest.raises(ValueError, match="is not known"):
        fa.RepeatedSelection(fa.RandomizedResponse(1.0), mean=2.0).poisson(0.1)
    with pytest.raises(ValueError, match="eta"):
        fa.RepeatedSelection(fa.Gaussian(4.0), mean=10.0, eta=1e-300)


def test_a_mixture_beside_a_divergence_is_not_below_either():
    job = fa.Gaussian(1.0).poisson(0.1).group(2) + fa.ZCDP(0.1)
    assert fa.epsilon(job, delta=1e-5) >= fa.epsilon_lower(fa.Gaussian(1.0).poisson(0.1).group(2), delta=1e-5)
    assert fa.rdp(job, 3.0) >= 0.2889982101341943 + 0.3  # multinomial sum, and rho times the order


@pytest.mark.parametrize(
    ("noise", "rate", "epsilon", "delta"),
    [
        (0.045, 0.5, 607.708606689674, 4.05965290996e-60),
        (0.15, 0.5, 233.4254382831315, 1.25230247356e-221),
        (0.1, 0.1, 332.53546473897404, 3.25800383334e-180),
    ],
)
def test_a_probability_that_underflows_counts_with_its_error(noise, rate, epsilon, delta):
    """One step under replace-one: e^epsilon multiplies a probability of Q below 1e-307.  Values: mpmath, 60 digits."""
    pair = fa.GaussianMixture(noise, p=[(1 - rate, 0), (rate, 1)], q=[(1 - rate, 0), (rate, -1)])
    found = fa.delta_bounds(fa.Gaussian(noise).poisson(rate), epsilon=epsilon, neighbors="replace_one")
    assert found.lower <= delta * (1 + 1e-9)
    assert found.upper >= delta * (1 - 1e-9)
    assert fa.delta(pair, epsilon=epsilon) >= delta * (1 - 1e-9)


def test_a_small_rate_of_true_positives_keeps_its_accuracy():
    for delta in (1e-17, 1e-12, 1e-9):
        assert delta <= fa.tpr_at_fpr(fa.ApproxDP(0.0, delta), 0.0) <= delta * (1 + 1e-13)


def test_the_largest_loss_of_a_sample_is_not_below_its_lower_bound():
    for scale, rate, largest in ((0.004, 0.5, 249.30685281944004), (0.5, 0.9999999994451548, 1.99999999952024495)):
        found = fa.epsilon_bounds(fa.Laplace(scale).poisson(rate), delta=0.0, neighbors="remove")
        assert found.lower <= largest <= found.upper * (1 + 4e-16)
        assert found.upper <= found.lower * (1 + 1e-12)


def test_no_losses_are_worse_than_divergences_where_delta_is_tiny():
    job = fa.DiscreteGaussian(2.0) * 3
    assert fa.epsilon(job, delta=1e-300) <= fa.epsilon(job, delta=1e-300, accountant=fa.RDP()) < math.inf


def test_the_lower_bound_at_delta_0_of_subnormal_masses_is_below_the_largest_loss():
    found = fa.epsilon_bounds(fa.DiscreteGaussian(2.0).poisson(1e-4) * 3, delta=0.0, neighbors="add")
    assert found.lower <= -3 * math.log1p(-1e-4) <= found.upper


def test_walks_with_enormous_noise():
    assert fa.epsilon(fa.RandomWalk(1e155, 1, "complete", 5), delta=1e-5) == 0.0


@pytest.mark.parametrize(
    ("noise", "rate", "epsilon"),
    [
        (0.02, 0.36821667850045064, 0.45920878934887327),
        (0.02, 2.1722852195249082e-06, 2.1722875789398584e-06),
        (0.05, 2.805115169411348e-09, 2.8051151733456785e-09),
    ],
)
def test_one_sampled_step_next_to_its_largest_loss(noise, rate, epsilon):
    """Direction add: k = q - (1 - q) (e^eps - 1) is all rounding there; delta is k times a Gaussian's."""
    with mp.workdps(60):
        q, e, s = mp.mpf(rate), mp.mpf(epsilon), mp.mpf(noise)
        k = q - (1 - q) * mp.expm1(e)
        inner = e + mp.log(q / k)
        truth = k * (mp.ncdf(1 / (2 * s) - inner * s) - mp.exp(inner) * mp.ncdf(-1 / (2 * s) - inner * s))
    bounds = fa.delta_bounds(fa.Gaussian(noise).poisson(rate), epsilon=epsilon, neighbors="add")
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper <= 100 * truth


@pytest.mark.parametrize(
    ("job", "delta", "neighbors"),
    [
        (fa.Exponential(3.5632120133280216e-05) * 3, 8.95e-23, "replace_one"),
        (fa.PermuteAndFlip(0.00029711127830617023).poisson(0.6093240016722379) * 2, 6e-262, "add"),
    ],
)
def test_delta_comes_back_close_below_the_sum_of_pure_guarantees(job, delta, neighbors):
    epsilon = fa.epsilon(job, delta=delta, neighbors=neighbors)
    assert fa.delta(job, epsilon=epsilon, neighbors=neighbors) <= delta * (1.0 + 1e-6)


@pytest.mark.parametrize("epsilon", [1e300, 1e308])
def test_epsilons_far_beyond_all_losses_are_answered_beside_losses_that_reach_infinity(epsilon):
    """A grid counted its steps up to there, which overflowed: what is left is the mass at infinity."""
    job = fa.Gaussian(3.0) * 5 + fa.ApproxDP(0.1, 1e-6) * 3
    lower, upper, _ = fa.delta_bounds(job, epsilon=epsilon)
    assert lower <= 1.0 - (1.0 - 1e-6) ** 3 <= upper * (1.0 + 1e-9)
    assert upper - lower <= 1e-9 * upper
