"""Conversions, composition theorems and textbook calibrations: published values, conditions, the safe side."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp

import fastacct as fa
from fastacct import classical, composition, convert


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        # recomputed from the formulas in 40 digits
        (convert.pure_to_zcdp(1.0), 0.4621171572600098),
        (convert.rdp_to_epsilon(8, 0.5, 1e-5, "mironov"), 2.144703637852890),
        (convert.rdp_to_epsilon(8, 0.5, 1e-5), 1.714109167845533),
        (convert.zcdp_to_epsilon_closed_form(0.5, 1e-5), 5.298525912188081),
        (fa.epsilon(fa.ZCDP(0.5), delta=1e-5), 4.728386984943314),
        (convert.rdp_to_delta(2.0, 0.1, 0.5, "optimal"), 0.03827216968),
        (convert.rdp_to_delta(8.0, 0.5, 1.5, "optimal"), 4.341296883e-5),
        (convert.rdp_to_delta(2.0, 0.01, 0.1, "optimal"), 0.02006281880),
        (convert.approximate_to_advantage(1.0, 1e-5), 0.4621225360884372),
        (composition.advanced(0.1, 0.0, 100, 1e-6)[0], 6.308230950513408),
        (composition.advanced(0.05, 0.0, 400, 1e-5)[0], 5.823947839708562),
        (fa.delta(fa.ApproxDP(0.3, 0.0) * 12, epsilon=0.3 * 6.0), 0.03019838465849414),
        (fa.delta(fa.ApproxDP(0.1, 0.0) * 100, epsilon=0.1 * 20.0), 0.02014017842819153),
        (fa.delta(fa.ApproxDP(0.3, 1e-6) * 12, epsilon=0.3 * 6.0), 0.03021002221387154),
        (composition.exponential_mechanisms(1.0, 5, 1.2), 0.1475776587207642),
        (composition.exponential_mechanisms(0.2, 30, 0.5), 0.06872207015545280),
        (fa.rdp(fa.NoisyIteration.single_pass(3.75, 20, 5), 4.0), 0.008888888888888889),
    ],
)
def test_published_values(value, truth):
    assert truth * (1.0 - 1e-9) <= value <= truth * (1.0 + 2e-9)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 3.0), st.floats(1.01, 60.0))
def test_a_pure_mechanism_keeps_every_notion_it_is_converted_to(epsilon, order):
    worst = fa.rdp(fa.PureDP(epsilon), order)
    assert worst <= convert.pure_to_zcdp(epsilon) * order * (1.0 + 1e-10)
    assert fa.rdp(fa.Exponential(epsilon), order) <= convert.bounded_range_to_zcdp(epsilon) * order * (1.0 + 1e-10)


@settings(max_examples=40, deadline=None)
@given(st.floats(1.05, 50.0), st.floats(0.3, 10.0), st.floats(1e-10, 0.1))
def test_conversions_of_one_divergence_are_above_the_gaussian_that_has_it(order, sigma, delta):
    divergence = fa.rdp(fa.Gaussian(sigma), order)
    truth = fa.epsilon_lower(fa.Gaussian(sigma), delta=delta)
    values = [
        convert.rdp_to_epsilon(order, divergence, delta, c) for c in ("optimal", "canonne_kamath_steinke", "mironov")
    ]
    assert truth <= values[0] <= values[1] * (1.0 + 1e-7) + 1e-9 <= values[2] * (1.0 + 1e-6) + 2e-9


def test_the_probability_of_a_large_loss():
    """P(loss > epsilon + slack) of the Gaussian mechanism, from its delta."""
    mu, epsilon, slack = 1.0, 2.0, 0.5
    delta = fa.delta(fa.GDP(mu), epsilon=epsilon)
    at, share = convert.approximate_to_probabilistic(epsilon, delta, slack)
    assert 2.5 <= at <= 2.5 * (1.0 + 1e-15)
    assert 0.5 * math.erfc((at - 0.5 * mu**2) / mu / math.sqrt(2.0)) <= share


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 1.5), st.floats(0.0, 1e-4), st.integers(1, 200), st.floats(1e-9, 0.1))
def test_every_composition_theorem_is_above_the_optimal_one(epsilon, delta, count, slack):
    for theorem in (composition.advanced, composition.drift):
        total, rest = theorem(epsilon, delta, count, slack)
        assert fa.delta_lower(fa.ApproxDP(epsilon, delta) * count, epsilon=total) <= rest
    total, rest = composition.basic([epsilon] * count, [delta] * count)
    assert fa.delta_lower(fa.ApproxDP(epsilon, delta) * count, epsilon=total) <= rest


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 3.0), st.integers(1, 12), st.floats(0.0, 1.0))
@example(1.0, 5, 0.998046875)
def test_mechanisms_fixed_in_advance_are_between_one_position_and_the_adaptive_bound(epsilon, count, share):
    at = share * epsilon * count
    fixed = composition.exponential_mechanisms(epsilon, count, at)
    assert fixed <= fa.delta(fa.Exponential(epsilon) * count, epsilon=at) * (1.0 + 1e-6) + 1e-14
    # all of them at the middle position: the losses are known, and nothing is chosen
    t = 0.5 * epsilon
    q = (math.exp(-t) - math.exp(-epsilon)) / -math.expm1(-epsilon)
    p = [q * math.exp(t), (1.0 - q) * math.exp(t - epsilon)]
    p[1] = 1.0 - p[0]
    middle = fa.delta_lower(fa.from_pmf(p, [q, 1.0 - q]) * count, epsilon=at, neighbors="remove")
    assert middle <= fixed * (1.0 + 1e-9) + 1e-13


# -- textbook calibrations ---------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 1.0), st.floats(1e-12, 0.89))
def test_the_classic_gaussian_is_private_where_it_is_offered(epsilon, delta):
    sigma = classical.gaussian_noise_multiplier(epsilon, delta)
    assert fa.delta(fa.Gaussian(sigma), epsilon=epsilon) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(6.78, 1e-2), (8.42, 1e-5), (10.25, 1e-12)])
def test_beyond_one_the_classic_gaussian_is_refused_since_it_fails(epsilon, delta):
    sigma = math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
    assert fa.delta_lower(fa.Gaussian(sigma), epsilon=epsilon) > delta
    with pytest.raises(ValueError, match="epsilon"):
        classical.gaussian_noise_multiplier(epsilon, delta)


def test_the_laplace_scale():
    assert fa.epsilon(fa.Laplace(classical.laplace_noise_multiplier(0.7)), delta=0.0) <= 0.7


@pytest.mark.parametrize("slack", [1e-3, 0.5, 3.0])
@pytest.mark.parametrize("mass", [1e-6, 0.2])
def test_the_probability_of_a_large_loss_is_attained(mass, slack):
    """A loss of epsilon + slack, or 0 else: its delta at epsilon is the mass times 1 - exp(-slack)."""
    epsilon, found = fa.convert.approximate_to_probabilistic(1.0, mass * -math.expm1(-slack), slack)
    assert epsilon >= 1.0 + slack
    assert mass * (1.0 - 1e-15) <= found <= mass * (1.0 + 1e-12)


@pytest.mark.parametrize(("batch", "steps"), [(100, 10**4), (1000, 10**5)])
def test_the_noise_of_lectures_is_their_formula_rounded_up(batch, steps):
    found = classical.dpsgd_noise_multiplier(0.5, 1e-6, records=10**4, batch_size=batch, steps=steps)
    with mp.workdps(30):
        share, delta = mp.mpf(batch) / 10**4, mp.mpf(1e-6)
        truth = 16 * share * mp.sqrt(steps * mp.log(2 / delta) * mp.log(2.5 * share * steps / delta)) / mp.mpf(0.5)
        assert truth <= found <= truth * (1 + mp.mpf("1e-12"))
