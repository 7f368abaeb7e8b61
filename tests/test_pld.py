"""Discretised privacy-loss distributions: the truth is inside the bounds, and the bounds are close.

Truth comes from closed forms (Gaussian, Laplace by tilted Irwin-Hall sums, randomised response by binomial sums), from
`fastacct.reference` (one step), from contour integrals at 30 digits (many steps), or from enumeration in exact
arithmetic.
"""

import itertools
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from fastacct.core.bounds import Bounds, Status
from fastacct.losses.loss import _legendre
from fastacct.losses.measure import GridMeasure, lower_measure, upper_measure
from fastacct.pld import PLD, LossDistribution, compose_bounds
from fastacct.readers.grid.composition import Composition
from fastacct.readers.grid.parts import Part
from fastacct.readers.grid.reader import Grid
from fastacct.readers.grid.window import Window
from fastacct.readers.job import Ask


def holds(bounds, truth, width):
    """The truth is inside, and the bounds are no further apart than `width`, relative."""
    lower, upper, _ = bounds
    assert lower <= truth <= upper, (float(lower / truth - 1) if truth else lower, float(upper / truth - 1))
    assert upper - lower <= width * upper
    return True


def encloses_gaussian(bounds, delta, width):
    """The epsilon of N(1, 1) at delta is inside (delta falls with epsilon: no root is searched), and as `holds`."""
    lower, upper, _ = bounds
    at_upper, at_lower = (reference.gaussian_delta(1, epsilon, digits=20) for epsilon in (upper, lower))
    assert at_upper <= mpf(delta) <= at_lower
    assert upper - lower <= width * upper
    return True


def both(bounds):
    """The answers at two targets, which share a grid (and have the bits that each has alone)."""
    return [Bounds(*(float(x[i]) for x in bounds[:2]), bounds.status[i]) for i in (0, 1)]


def step(sigma, q, direction="remove"):
    return LossDistribution.from_sampled_gaussian(sigma, q, direction)


def coins_delta(epsilon, k, at):
    """Exact delta of k-fold randomised response: sum over the number of truthful answers."""
    with mp.workdps(40):
        e, x, norm = mp.exp(epsilon), mpf(at), (1 + mp.exp(epsilon)) ** k
        terms = (
            mp.binomial(k, i) * (e**i - mp.exp(x) * e ** (k - i)) / norm
            for i in range(k + 1)
            if (2 * i - k) * mpf(epsilon) > x
        )
        return mp.fsum(terms)


def enumerated_delta(pairs, at):
    """Exact delta of the composition of finite pairs (p, q): sum over all outcomes."""
    with mp.workdps(50):
        grown, total = mp.exp(mpf(at)), mpf(0)
        for outcome in itertools.product(*(list(zip(p, q, strict=True)) for p, q in pairs)):
            p = math.prod((Fraction(a) for a, _ in outcome), start=Fraction(1))
            q = math.prod((Fraction(b) for _, b in outcome), start=Fraction(1))
            excess = mpf(p.numerator) / p.denominator - grown * q.numerator / q.denominator
            total += max(mpf(0), excess)
        return total


# ---------------------------------------------------------------------------------------------------- compositions


@pytest.mark.parametrize(
    ("sigma", "n", "epsilon"),
    [
        (1.0, 1, 0.0),
        (1.0, 1, 1.0),
        (10.0, 100, 1.0),
        (3.0, 1, 4.0),
        (20.0, 1000, 8.0),
        (10.0, 100, 12.0),  # 6e-32: far below the rounding floor of a plain FFT
        (10.0, 100, 30.0),  # 5e-193
        (0.01, 1, 5300.0),
        (0.1, 180, 10000.0),
        (100.0, 100_000, 10.0),
    ],
)
def test_composed_gaussians_are_inside_their_closed_form(sigma, n, epsilon):
    truth = reference.gaussian_delta(mp.sqrt(n) / mpf(sigma), epsilon, digits=20)
    loss = LossDistribution.from_gaussian_pair(sigma)
    assert holds(compose_bounds([(loss, n)], epsilon=epsilon), truth, 1e-3)


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-14, 1e-20, 1e-30, 1e-60, 1e-100])
def test_epsilon_of_gaussians_is_inside_down_to_tiny_deltas(delta):
    assert encloses_gaussian(compose_bounds([(LossDistribution.from_gaussian_pair(8.0), 64)], delta=delta), delta, 1e-3)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-5])
def test_the_tolerance_is_met(tolerance):
    bounds = compose_bounds([(LossDistribution.from_gaussian_pair(10.0), 100)], epsilon=3.0, tolerance=tolerance)
    assert holds(bounds, reference.gaussian_delta(1, 3, digits=20), tolerance)
    assert bounds.status == (Status.TIGHT if bounds.upper - bounds.lower <= 1e-6 * bounds.upper else Status.LOOSE)


@pytest.mark.parametrize(
    ("largest", "n", "epsilon", "truth"),
    [(0.5, 2, 0.3, "0.171991494580512"), (0.5, 5, 1.0, "0.145315612763074"), (0.5, 8, 2.0, "0.0760745998935700")],
)
def test_composed_laplace_is_inside_its_exact_value(largest, n, epsilon, truth):
    loss = LossDistribution.from_laplace(1 / largest)
    assert holds(compose_bounds([(loss, n)], epsilon=epsilon), mpf(truth), 1e-3)
    assert holds(loss.self_compose(n).delta(epsilon), mpf(truth), 1e-3)


@pytest.mark.parametrize("noise", [0.02, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("part", [-0.9, -0.3, 0.0, 0.5, 0.99, 1.0, 1.5])
def test_one_laplace_is_inside_its_closed_form(noise, part):
    top = 1 / mpf(noise)
    epsilon = float(part * top)
    with mp.workdps(30):
        truth = max(mpf(0), -mp.expm1((mpf(epsilon) - top) / 2)) if epsilon >= -top else -mp.expm1(mpf(epsilon))
    lower, upper, _ = LossDistribution.from_laplace(noise, spacing=float(top) / 500).delta(epsilon)
    assert lower <= truth <= upper
    # the curve of a grid is convex between its points: 2nd order in the spacing
    assert upper - lower <= 1e-2 * truth + 1e-5


@pytest.mark.parametrize(("epsilon", "k"), [(0.3, 12), (0.1, 100), (2.0, 7), (0.01, 1000), (5.0, 1)])
def test_randomised_response_is_exact_up_to_rounding(epsilon, k):
    loss = LossDistribution.from_pure(epsilon)
    for at in (0.0, 0.7 * epsilon, 0.4 * k * epsilon, 0.99 * k * epsilon):
        truth = coins_delta(epsilon, k, at)
        assert holds(compose_bounds([(loss, k)], epsilon=at, tolerance=1e-6), truth, 1e-6)
        lower, upper, _ = loss.self_compose(k).delta(at)
        assert lower <= truth <= upper
        if truth > 1e-25:
            assert upper - lower <= 1e-8 * upper


def test_optimal_composition_of_pure_privacy_meets_published_values():
    for epsilon, k, delta, truth in [(0.1, 100, 1e-6, 4.774567588107986), (0.05, 400, 1e-5, 4.359702992618818)]:
        loss = LossDistribution.from_pure(epsilon)
        assert holds(compose_bounds([(loss, k)], delta=delta, tolerance=1e-6), truth, 1e-6)
    loss = LossDistribution.from_epsilon_delta(0.3, 1e-6)
    assert holds(compose_bounds([(loss, 12)], epsilon=6 * 0.3), mpf("0.03021002221387154"), 1e-6)


def test_heterogeneous_pure_privacy_is_inside_the_sum_over_all_signs():
    parts = [(LossDistribution.from_pure(e), 1) for e in (0.1, 0.25, 0.4, 0.15, 0.3)]
    truth = mpf("0.08160696902439490")
    assert holds(compose_bounds(parts, epsilon=0.5, tolerance=1e-6), truth, 1e-6)
    unequal = [(LossDistribution.from_pure(e), 1) for e in (0.1, math.sqrt(0.1), 1 / 3)]
    with mp.workdps(40):
        pairs = []
        for e in (0.1, math.sqrt(0.1), 1 / 3):
            a = 1 / (1 + mp.exp(-mpf(e)))
            pairs.append(((a, 1 - a), (1 - a, a)))
        truth = mp.fsum(
            max(mpf(0), mp.fprod(p for p, _ in o) - mp.exp(mpf(0.25)) * mp.fprod(q for _, q in o))
            for o in itertools.product(*(list(zip(*pair, strict=True)) for pair in pairs))
        )
    assert holds(compose_bounds(unequal, epsilon=0.25), truth, 1e-3)


ONE_STEP = [
    (1.0, 0.01, 0.05),
    (0.5, 0.01, 2.0),
    (0.7, 1e-4, 0.5),
    (0.8, 0.3, 0.2),
    (2.0, 0.5, 0.0),
    (2.0, 0.9, 1.5),
    (0.3, 0.02, 7.0),
    (5.0, 0.001, 1e-4),
]


@pytest.mark.parametrize(("sigma", "q", "epsilon"), ONE_STEP)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_one_sampled_gaussian_is_inside_its_closed_form(sigma, q, epsilon, direction):
    truth = reference.sampled_gaussian_delta(sigma, q, epsilon, direction, digits=20)
    bounds = compose_bounds([(step(sigma, q, direction), 1)], epsilon=epsilon)
    if truth == 0:
        assert bounds[:2] == (0.0, 0.0)
    else:
        assert holds(bounds, truth, 1e-3)


def test_random_sampled_gaussians_are_inside_their_closed_form():
    rng = np.random.default_rng(11)
    for _ in range(40):
        sigma, q = float(10 ** rng.uniform(-1, 1.5)), float(10 ** rng.uniform(-8, 0))
        direction = ("remove", "add")[int(rng.integers(2))]
        top = 8 / sigma + 1 / (2 * sigma**2) + math.log(q) if direction == "remove" else -math.log1p(-q)
        epsilon = max(0.0, float(top * rng.uniform() ** 2))
        truth = reference.sampled_gaussian_delta(sigma, q, epsilon, direction, digits=20)
        lower, upper, _ = compose_bounds([(step(sigma, q, direction), 1)], epsilon=epsilon, tolerance=0.1)
        assert lower <= truth <= upper, (sigma, q, direction, epsilon)
        # a bulk far narrower than the finest grid is only known to be inside one cell;
        # below 1e-100 nothing is promised but the side
        if truth < mpf(10) ** -100:
            continue
        assert upper <= (1.2 if q > 1e-6 else 5) * truth + mpf(10) ** -290, (sigma, q, direction, epsilon)


@pytest.mark.parametrize(
    ("sigma", "q", "n", "delta", "truth"),
    [  # contour integrals at 30 digits, "remove" direction
        (1.0, 0.01, 1000, 1e-5, 1.828236666516577),
        (1.0, 0.01, 1000, 1e-8, 2.6978679344938),
        (1.0, 0.01, 1000, 1e-12, 3.91429815603747),
        (1.0, 0.01, 1000, 1e-13, 4.2298113591490),
        (1.0, 0.01, 1000, 1e-15, 4.854537750604924),
        (4.0, 0.01, 10_000, 1e-5, 0.9468668007643804),
        (0.8, 0.001, 20_000, 1e-7, 1.487465154879526),
        (5.0, 0.5, 10, 1e-6, 1.468665021160587),
        (2.0, 0.01, 10_000, 1e-6, 2.446733944484),
        (1.0, 0.01, 10_000, 1e-6, 6.907384495045),
    ],
)
def test_epsilon_of_composed_sampled_gaussians_meets_contour_integrals(sigma, q, n, delta, truth):
    assert holds(compose_bounds([(step(sigma, q), n)], delta=delta), truth, 1e-3)


@pytest.mark.parametrize(
    ("direction", "sigma", "q", "n", "epsilon", "truth"),
    [
        ("remove", 1.0, 0.01, 10_000, 6.0, 1.7597760848e-05),
        ("add", 1.0, 0.01, 10_000, 6.0, 2.2954140803e-06),
        ("remove", 1.0, 0.01, 1000, 1.5, 0.0001092559076688116),
        ("remove", 2.0, 0.1, 100, 1.0, 1.1497861201e-02),
        ("remove", 0.8, 0.02, 10, 1.0, 1.051038519e-04),  # few participations: a single large loss decides
        ("remove", 0.5, 0.02, 2, 1.0, 0.002232888468572),
        ("remove", 1.0, 0.1, 2, 0.3, 0.01187510056858),
        ("remove", 2.0, 0.5, 2, 0.2, 0.07473618549057),
        ("add", 2.0, 0.5, 2, 0.2, 0.06190479977587),
    ],
)
def test_delta_of_composed_sampled_gaussians_meets_contour_integrals(direction, sigma, q, n, epsilon, truth):
    lower, upper, _ = compose_bounds([(step(sigma, q, direction), n)], epsilon=epsilon)
    last_digit = 1e-9  # of the truths
    assert lower <= truth * (1 + last_digit)
    assert upper >= truth * (1 - last_digit)
    assert upper - lower <= 1e-3 * upper


def test_a_bulk_narrower_than_the_grid_keeps_the_bounds():
    lower, upper, _ = compose_bounds([(step(0.5, 1e-5), 10_000)], epsilon=0.2, tolerance=0.02)
    assert lower <= 9.886556894e-07 * (1 + 1e-9)
    assert 9.886556894e-07 * (1 - 1e-9) <= upper <= 1.02 * lower


# ------------------------------------------------------------------------------- finite distributions, infinite losses

WEIGHTS = st.lists(st.integers(0, 20), min_size=2, max_size=4)


def as_probabilities(weights):
    """Multiples of 1/64, exact in floating point, with a sum of exactly one."""
    total = sum(weights)
    parts = [64 * w // total for w in weights]
    parts[0] += 64 - sum(parts)
    return [x / 64 for x in parts]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WEIGHTS, WEIGHTS, st.integers(1, 2)), min_size=1, max_size=2), st.floats(0.0, 3.0))
def test_finite_distributions_are_inside_the_sum_over_all_outcomes(raw, epsilon):
    pairs, parts = [], []
    for p, q, count in raw:
        assume(sum(p) and sum(q))
        size = min(len(p), len(q))
        assume(sum(p[:size]) and sum(q[:size]))
        pair = as_probabilities(p[:size]), as_probabilities(q[:size])
        pairs += [pair] * count
        parts.append((LossDistribution.from_pmf(*pair), count))
    truth = enumerated_delta(pairs, epsilon)
    lower, upper, _ = compose_bounds(parts, epsilon=epsilon, tolerance=1e-2)
    assert lower <= truth <= upper
    assert upper - lower <= 0.05 * upper + 1e-12


def test_infinite_loss_mass_is_kept():
    loss = LossDistribution.from_pmf([0.25, 0.5, 0.25], [0.0, 0.5, 0.5])
    assert loss.delta(math.inf)[:2] == (0.25, 0.25)
    assert loss.epsilon(0.25)[:2] == pytest.approx((0.0, 0.0))
    assert loss.epsilon(0.249)[:2] == (math.inf, math.inf)
    truth = 1 - 0.75**3
    lower, upper, _ = compose_bounds([(loss, 3)], epsilon=50.0)
    assert lower <= truth <= upper <= lower * (1 + 1e-12)
    assert compose_bounds([(loss, 3)], delta=0.5)[:2] == (math.inf, math.inf)
    assert compose_bounds([(loss, 3)], delta=0.58).upper < 50.0


def test_a_black_box_has_its_own_epsilon_and_delta():
    loss = LossDistribution.from_epsilon_delta(1.5, 1e-5)
    assert loss.epsilon(1e-5)[:2] == pytest.approx((1.5, 1.5), rel=1e-12)
    assert loss.epsilon(1e-5).upper >= 1.5 >= loss.epsilon(1e-5).lower
    assert compose_bounds([(loss, 1)], delta=1e-5).upper == pytest.approx(1.5, rel=1e-12)
    assert LossDistribution.from_epsilon_delta(1.0, 1.0).delta(3.0)[:2] == (1.0, 1.0)
    assert LossDistribution.from_epsilon_delta(0.0, 0.0).delta(0.0).upper <= 1e-14
    assert LossDistribution.from_pure(math.inf).delta(3.0)[:2] == (1.0, 1.0)


def test_pure_losses_have_an_epsilon_at_delta_zero():
    lower, upper, _ = compose_bounds([(LossDistribution.from_pure(0.7), 9)], delta=0.0)
    assert lower <= 6.3 <= upper <= lower * (1 + 1e-12)
    loss = LossDistribution.from_laplace(2.0).self_compose(4)
    assert loss.epsilon(0.0).lower <= 2.0 <= loss.epsilon(0.0).upper <= 2.0 * (1 + 1e-12)
    assert compose_bounds([(LossDistribution.from_gaussian_pair(1.0), 1)], delta=0.0).upper == math.inf


# ------------------------------------------------------------------------------------------------------------- algebra


def test_a_count_is_a_repetition_and_the_order_does_not_matter():
    a, b = step(1.0, 0.1), LossDistribution.from_laplace(3.0)
    once = compose_bounds([(a, 3), (b, 2)], epsilon=0.8, tolerance=1e-2)
    for parts in (
        [(b, 2), (a, 3)],
        [(a, 1), (b, 1), (a, 2), (b, 1)],
        [(a, 1)] * 3 + [(b, 1)] * 2,
        [(a, 3), (b, 2), (a, 0)],
    ):
        again = compose_bounds(parts, epsilon=0.8, tolerance=1e-2)
        assert again.lower == pytest.approx(once.lower, rel=1e-6)
        assert again.upper == pytest.approx(once.upper, rel=1e-6)


def test_self_composition_is_repeated_composition():
    loss = LossDistribution.from_laplace(2.0, spacing=1 / 256)
    whole, pieces = loss.self_compose(5), loss.compose(loss).self_compose(2).compose(loss)
    for epsilon in (0.0, 0.3, 1.0, 2.4):
        for one, other in ((whole.delta(epsilon), pieces.delta(epsilon)),):
            assert one.lower <= other.upper
            assert other.lower <= one.upper
            assert one.lower == pytest.approx(other.lower, rel=1e-6)
            assert one.upper == pytest.approx(other.upper, rel=1e-6)


def test_a_kept_composition_is_accurate_over_thirty_orders_of_magnitude():
    composed = LossDistribution.from_gaussian_pair(8.0, spacing=1 / 2048).self_compose(64)
    for epsilon in np.linspace(-1.0, 11.5, 26):
        truth = reference.gaussian_delta(1, float(epsilon), digits=20)
        assert holds(composed.delta(float(epsilon)), truth, 5e-4)
    array = composed.delta(np.array([[0.5, 1.0], [2.0, 4.0]]))
    assert array.upper.shape == (2, 2)
    assert array.upper[1, 0] == composed.delta(2.0).upper
    for delta in (1e-2, 1e-9, 1e-25):
        assert encloses_gaussian(composed.epsilon(delta), delta, 5e-4)


def test_a_kept_composition_composes_on():
    # 8 + 56 Gaussians, the second part from its grid only
    first = LossDistribution.from_gaussian_pair(8.0, spacing=1 / 2048)
    rest = first.self_compose(56)
    truth = reference.gaussian_delta(1, 6, digits=20)
    assert holds(rest.compose(first.self_compose(8)).delta(6.0), truth, 1e-3)
    assert holds(compose_bounds([(first, 8), (rest, 1)], epsilon=6.0), truth, 2e-3)


def test_nothing_composes_to_nothing():
    loss = LossDistribution.from_laplace(1.0)
    assert loss.self_compose(0).delta(0.0).upper <= 1e-14
    assert compose_bounds([(loss, 0)], epsilon=0.0)[:2] == (0.0, 0.0)
    assert compose_bounds([], delta=1e-5)[:2] == (0.0, 0.0)


def test_a_grid_that_would_be_too_fine_keeps_what_coarser_ones_have_shown():
    bounds = compose_bounds([(step(3.5, 0.001, "remove"), 4)], epsilon=0.5, tolerance=0.05)
    truth = fa.delta_bounds(fa.Gaussian(3.5).poisson(0.001) * 4, epsilon=0.5, neighbors="remove")
    assert bounds.lower <= truth.upper
    assert truth.lower <= bounds.upper < 1.0


@settings(max_examples=20, deadline=None)
@example(3.5, 0.001, 3, "remove", 1.0, 0.5)
@given(
    st.floats(0.6, 4.0),
    st.floats(1e-3, 1.0),
    st.integers(1, 300),
    st.sampled_from(["remove", "add"]),
    st.floats(0.0, 2.0),
    st.floats(0.0, 2.0),
)
def test_bounds_agree_with_monotonicity(sigma, q, n, direction, one, other):
    low, high = sorted((one, other))
    part = step(sigma, q, direction)
    at_low, at_high = both(compose_bounds([(part, n)], epsilon=[low, high], tolerance=0.05))
    more = compose_bounds([(part, n + 1)], epsilon=low, tolerance=0.05)
    noisier = compose_bounds([(step(1.1 * sigma, q, direction), n)], epsilon=low, tolerance=0.05)
    for bounds in (at_low, at_high, more, noisier):
        assert 0.0 <= bounds.lower <= bounds.upper <= 1.0
    assert at_high.lower <= at_low.upper
    assert at_low.lower <= more.upper
    assert noisier.lower <= at_low.upper


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 4.0), st.floats(1e-3, 1.0), st.integers(1, 100), st.floats(-25.0, -1.0))
def test_epsilon_and_delta_are_inverse(sigma, q, n, log_delta):
    delta = 10.0**log_delta
    part = step(sigma, q)
    lower, upper, _ = compose_bounds([(part, n)], delta=delta, tolerance=1e-2)
    at_upper, at_lower = both(compose_bounds([(part, n)], epsilon=[upper, lower], tolerance=0.05))
    assert at_upper.lower <= delta
    assert at_lower.upper >= delta or lower == 0.0


# ------------------------------------------------------------------------------------------------- what it is made from

SOURCES = {
    "gaussian": (LossDistribution.from_gaussian_pair(1.3), lambda e: reference.gaussian_delta(1 / mpf(1.3), e, 20)),
    "remove": (step(0.9, 0.07), lambda e: reference.sampled_gaussian_delta(0.9, 0.07, e, "remove", 20)),
    "add": (step(0.9, 0.07, "add"), lambda e: reference.sampled_gaussian_delta(0.9, 0.07, e, "add", 20)),
    "tiny rate": (step(0.6, 1e-5), lambda e: reference.sampled_gaussian_delta(0.6, 1e-5, e, "remove", 20)),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("spacing", [0.5, 0.11, 0.013, 0.0017])
def test_every_grid_bounds_the_curve_everywhere(name, spacing):
    loss, exact = SOURCES[name]
    upper, lower = upper_measure(loss.bracket.upper, spacing, 1e-30), lower_measure(loss.bracket.lower, spacing, 1e-30)
    assert 1.0 <= upper.mass.sum() + upper.infinite <= 1.0 + 1e-11
    assert 1.0 - 1e-11 <= lower.mass.sum() + lower.infinite <= 1.0
    for epsilon in np.concatenate([np.linspace(-1.5, 4.0, 12), lower.losses()[:: max(1, lower.mass.size // 7)]]):
        truth = exact(float(epsilon))
        assert Window.of(lower, False).delta(epsilon) <= truth <= Window.of(upper, True).delta(epsilon), epsilon


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(("tail", "floor"), [(0.02, -math.inf), (1e-30, -0.05), (1e-30, 0.05), (0.3, 0.02)])
def test_what_a_grid_leaves_out_is_paid_for(name, tail, floor):
    loss, exact = SOURCES[name]
    upper = upper_measure(loss.bracket.upper, 0.01, tail, floor)
    lower = lower_measure(loss.bracket.lower, 0.01, tail, floor)
    assert upper.mass.sum() + upper.infinite >= 1.0
    assert lower.mass.sum() + lower.infinite + lower.bottom <= 1.0
    for epsilon in np.linspace(-0.4, 2.0, 13):
        truth = exact(float(epsilon))
        assert Window.of(lower, False).delta(epsilon) <= truth <= Window.of(upper, True).delta(epsilon), epsilon


@pytest.mark.parametrize("name", ["gaussian", "remove", "add"])
def test_both_grids_are_of_second_order(name):
    # log-moments: E exp(2 L) off by 3 spacing^2 / 6 above and 3 spacing^2 / 12 below
    loss, _ = SOURCES[name]
    gaps = []
    for spacing in (0.004, 0.002):
        upper, lower = (
            upper_measure(loss.bracket.upper, spacing, 1e-30),
            lower_measure(loss.bracket.lower, spacing, 1e-30),
        )
        above, below = (math.log(float(m.mass @ np.exp(2 * m.losses()))) for m in (upper, lower))
        gaps.append((above - below) / spacing**2)
    assert 0.6 < gaps[1] < 1.0
    assert gaps[0] < 1.6


def test_upper_masses_meet_the_connect_the_dots_formula():
    loss = LossDistribution.from_gaussian_pair(5.0)
    upper = upper_measure(loss.bracket.upper, 0.01, 1e-30)
    near = int(np.argmin(np.abs(upper.losses() - 1.4)))
    assert upper.losses()[near] == pytest.approx(1.4, abs=1e-12)
    assert upper.mass[near] == pytest.approx(9.2434941619975e-13, rel=1e-9)


def test_quadrature_weights_are_good_to_an_ulp():
    for n in (2, 5, 16, 33):
        points, weights = _legendre(n)
        with mp.workdps(40):
            for x, w in zip(points.tolist(), weights.tolist(), strict=True):
                root = mp.findroot(lambda t: mp.legendre(n, t), mpf(x))  # noqa: B023
                slope = n * (root * mp.legendre(n, root) - mp.legendre(n - 1, root)) / (root**2 - 1)
                assert abs(root - x) < 2e-16
                assert abs(2 / ((1 - root**2) * slope**2) / w - 1) < 2.5e-16


@pytest.mark.parametrize("counts", [(1,), (2,), (13,), (3, 5)])
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_convolution_errors_are_inside_their_bounds(counts, tilt):
    rng = np.random.default_rng(3)
    spacing = 0.125
    parts = []
    for count in counts:
        mass = 2.0 ** -rng.integers(1, 30, 6).astype(float)
        parts.append((GridMeasure(-0.375, spacing, mass / 2.0), count))
    for is_upper in (True, False):
        composition = Composition(parts, is_upper)
        tilted = composition.window(tilt, -60.0, 1 << 12)
        exact = [Fraction(1)]
        for measure, count in parts:
            for _ in range(count):
                exact = [
                    sum(
                        exact[i - j] * Fraction(m)
                        for j, m in enumerate(measure.mass.tolist())
                        if 0 <= i - j < len(exact)
                    )
                    for i in range(len(exact) + measure.mass.size - 1)
                ]
        with mp.workdps(40):
            worst = norm = mpf(0)
            for i, mass in enumerate(tilted.mass.tolist()):
                at = mpf(exact[tilted.offset + i].numerator) / exact[tilted.offset + i].denominator
                loss = mpf(composition.origin.numerator) / composition.origin.denominator + (tilted.offset + i) * mpf(
                    spacing
                )
                off = mass - at * mp.exp(tilt * loss - mpf(tilted.log_scale))
                # tilted inputs are rounded to the safe side
                worst = max(worst, -off if is_upper else off)
                norm += off**2
            assert worst <= tilted.each_error
            assert tilted.each_error < 1e-11
            assert mp.sqrt(norm) <= 1e-10


# --------------------------------------------------------------------------------------------------------------- inputs


def test_a_loss_that_does_not_increase_is_refused():
    LossDistribution.from_mixture(1.0, [0.5, 0.5], [0.0, 1.0], [0.8, 0.2], [0.0, 1.0])
    LossDistribution.from_mixture(1.0, [0.9, 0.1], [0.0, 2.0], [0.9, 0.1], [0.0, -2.0])
    for p, means_p, q, means_q in [
        ([1.0], [0.0], [0.9, 0.1], [0.0, 1.0]),
        ([0.5, 0.5], [-1.0, 1.0], [1.0], [0.0]),
        ([0.2, 0.8], [0.0, 1.0], [0.1, 0.9], [0.0, 1.0]),
    ]:
        with pytest.raises(ValueError, match="increase"):
            LossDistribution.from_mixture(1.0, p, means_p, q, means_q)


def test_a_mixture_of_equal_laws_releases_nothing():
    loss = LossDistribution.from_mixture(1.0, [0.3, 0.7], [0.0, 1.0], [0.3, 0.7], [0.0, 1.0])
    for one in (loss, step(1.0, 0.0), step(math.inf, 0.5)):
        assert one.delta(0.0).lower == 0.0
        assert one.delta(0.0).upper <= 1e-14


def test_a_mixture_is_inside_direct_integration():
    # group of two under Poisson sampling: means 0, 1, 2 with binomial weights against 0
    q, sigma, epsilon = 0.25, 1.5, 0.4
    weights = [(1 - q) ** 2, 2 * q * (1 - q), q**2]
    loss = LossDistribution.from_mixture(sigma, weights, [0, 1, 2], [1.0], [0.0])
    with mp.workdps(30):

        def excess(x):
            p = mp.fsum(w * mp.npdf(x, m, sigma) for w, m in zip(weights, (0, 1, 2), strict=True))
            return p - mp.exp(mpf(epsilon)) * mp.npdf(x, 0, sigma)

        edge = mp.findroot(excess, 2)
        truth = mp.quad(excess, [edge, edge + 4, edge + 10, edge + 30])
    assert holds(compose_bounds([(loss, 1)], epsilon=epsilon), truth, 1e-3)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: LossDistribution.from_pmf([0.5, 0.6], [0.5, 0.5]), "p sums to"),
        (lambda: LossDistribution.from_pmf([0.5, 0.5], [1.0]), "one length"),
        (lambda: LossDistribution.from_pmf([0.5, -0.5], [0.5, 0.5]), r"p\[1\]"),
        (lambda: LossDistribution.from_losses([-math.inf], [0.5]), "-inf"),
        (lambda: LossDistribution.from_losses([1.0], [0.5], infinite_mass=0.6), "sums to"),
        (lambda: LossDistribution.from_sampled_gaussian(1.0, 0.1, "both"), "direction"),
        (lambda: LossDistribution.from_gaussian_pair(0.0), "noise_multiplier"),
        (lambda: LossDistribution.from_mixture(1.0, [0.5], [0.0], [1.0], [0.0]), "sum to 1"),
        (lambda: LossDistribution.from_laplace(1.0, spacing=0.0), "spacing"),
        (lambda: LossDistribution.from_laplace(1.0).self_compose(2.5), "n = 2.5"),
        (lambda: compose_bounds([(LossDistribution.from_pure(1.0), 1)]), "either"),
        (lambda: compose_bounds([(LossDistribution.from_pure(1.0), 1)], epsilon=-1.0), "epsilon"),
        (lambda: compose_bounds([LossDistribution.from_pure(1.0)], epsilon=1.0), r"parts\[0\]"),
        (lambda: compose_bounds([(LossDistribution.from_pure(1.0), -1)], epsilon=1.0), "count"),
        (lambda: PLD(tolerance=0.0), "tolerance"),
        (lambda: LossDistribution.from_laplace(1.0).compose(LossDistribution.from_laplace(3.0)), "spacing"),
    ],
)
def test_bad_input_is_refused_by_name(call, match):
    with pytest.raises((TypeError, ValueError), match=match):
        call()


def test_importing_costs_nothing_heavy():
    code = """
import sys, fastacct.pld, fastacct.compat.dp_accounting
print([name for name in ("scipy", "dp_accounting") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ----------------------------------------------------------------------------------------------------------- accountant


def pld(quantity, sigma, q, steps, target, *, neighbors="add_remove", **options):
    """Bounds of a run by the accountant, at a target that broadcasts with it."""
    target = np.asarray(target, dtype=np.float64)
    process = fa.Gaussian(sigma).poisson(q) * steps
    shape = np.broadcast_shapes(process.shape, target.shape)
    return PLD(**options).bounds(process, Ask(quantity, target, shape, neighbors))


def test_the_accountant_takes_the_larger_direction():
    run = (1.0, 0.3, 10, 1e-5)
    remove, add, both = (pld("epsilon", *run, neighbors=name) for name in ("remove", "add", "add_remove"))
    assert add.upper < remove.lower <= both.lower <= both.upper
    assert both.upper == pytest.approx(float(remove.upper), rel=1e-4)
    value = fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5, accountant=PLD())
    assert 1.828236666516577 <= value <= 1.828236666516577 * (1 + 1e-4)


def test_the_accountant_broadcasts_and_knows_the_edges():
    lower, upper, status = pld("epsilon", 10.0, 1.0, 100, [0.0, 1e-5, 1.0])
    assert upper[0] == math.inf
    assert upper[1] == pytest.approx(4.3771780956812246, rel=1e-4)
    assert upper[2] == 0.0
    assert status.tolist() == [Status.NOT_MET, Status.LOOSE, Status.TIGHT]
    assert upper[1] - lower[1] <= 1e-4 * upper[1]
    assert pld("epsilon", [1.0, math.inf, 1.0], [0.0, 0.1, 0.1], [5, 5, 0], 1e-5).upper.tolist() == [0.0] * 3
    assert pld("epsilon", 0.0, 0.1, 5, 1e-5).upper == math.inf
    assert pld("delta", 0.0, 0.1, 5, 1.0).upper == 1.0
    assert pld("delta", 1.0, 0.1, 5, math.inf).upper == 0.0
    assert pld("epsilon", 1e-7, 0.1, 5, 1e-5).upper == math.inf  # out of reach: the safe side


def test_a_history_is_its_composition():
    run = fa.Gaussian(1.0).poisson(0.01) * 500 + fa.Gaussian(2.0).poisson(0.02) * 300
    lower, upper, status = fa.delta_bounds(run, epsilon=[1.0, 1.5], accountant=PLD(tolerance=1e-3))
    parts = [(step(1.0, 0.01), 500), (step(2.0, 0.02), 300)]
    for i, epsilon in enumerate((1.0, 1.5)):
        same = compose_bounds(parts, epsilon=epsilon)
        assert same.lower <= upper[i]
        assert lower[i] <= same.upper
        assert upper[i] - lower[i] <= 1e-3 * upper[i]
    assert status.tolist() == [Status.LOOSE, Status.LOOSE]


@pytest.mark.parametrize("wanted", ["noise_multiplier", "sample_rate", "steps"])
def test_calibration_is_on_the_safe_side_and_close(wanted):
    others = {
        "noise_multiplier": {"sample_rate": 0.1, "steps": 100},
        "sample_rate": {"noise_multiplier": 2.0, "steps": 100},
        "steps": {"noise_multiplier": 2.0, "sample_rate": 0.1},
    }[wanted]
    value = getattr(fa.dpsgd, wanted)(epsilon=2.0, delta=1e-5, accountant=PLD(tolerance=1e-3), **others)

    def delta(x):
        return fa.dpsgd.delta_bounds(epsilon=2.0, accountant=PLD(tolerance=1e-3), **others, **{wanted: x})

    assert delta(value).lower <= 1e-5
    worse = {"noise_multiplier": 0.995 * value, "sample_rate": 1.005 * value, "steps": value + max(1, value // 100)}[
        wanted
    ]
    assert delta(worse).upper > 1e-5


def test_a_fixed_grid_is_used_as_it_is():
    coarse, fine = (pld("epsilon", 2.0, 0.1, 100, 1e-6, spacing=h) for h in (0.02, 0.005))
    assert fine.lower - coarse.lower > 0
    assert coarse.upper - fine.upper > 0
    assert coarse.lower <= fine.lower <= fine.upper <= coarse.upper


def test_the_upper_bound_alone_is_that_of_both():
    job = fa.Gaussian(10.0) * 100
    lower, upper, _ = fa.delta_bounds(job, epsilon=2.0, accountant=PLD())
    assert fa.delta(job, epsilon=2.0, accountant=PLD()) == upper
    assert fa.delta_lower(job, epsilon=2.0, accountant=PLD()) == lower
    assert holds((lower, upper, None), reference.gaussian_delta(1, 2, digits=20), 1e-4)


def test_a_target_has_the_same_bits_alone_and_among_others():
    loss = step(1.0, 0.05)
    targets = [0.3, 1.0, 1.1, 4.0, 0.0]
    together = Grid([Part(loss.bracket, 200)], 1e-3)
    for target in targets:
        assert together.delta(target) == Grid([Part(loss.bracket, 200)], 1e-3).delta(target)


# ------------------------------------------------------------------------------------------------------- dp_accounting


def test_converting_without_the_library_says_what_is_missing(monkeypatch):
    from fastacct.compat.dp_accounting import to_dp_accounting

    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        to_dp_accounting(LossDistribution.from_laplace(1.0))


def test_values_of_dp_accounting_bound_from_one_side():
    from fastacct.compat.dp_accounting import from_dp_accounting

    class Pmf:
        _discretization, _lower_loss, _infinity_mass = 0.5, -1, 0.125

        def __init__(self, pessimistic):
            self._pessimistic_estimate, self._probs = pessimistic, np.array([0.25, 0.0, 0.0, 0.625])

        def to_dense_pmf(self):
            return self

    class Distribution:
        _pmf_remove, _pmf_add = Pmf(True), Pmf(False)

    remove, add = from_dp_accounting(Distribution())
    truth = 0.125 + 0.625 * -math.expm1(0.25 - 1.0)
    assert remove.delta(0.25)[:2] == (0.0, pytest.approx(truth, rel=1e-14))
    assert add.delta(0.25)[:2] == (pytest.approx(truth, rel=1e-14), 1.0)
    assert remove.delta(0.25).upper >= truth >= add.delta(0.25).lower
    assert isinstance(compose_bounds([(remove, 3)], epsilon=1.0), Bounds)
    with pytest.raises(TypeError, match="not a dp_accounting"):
        from_dp_accounting(3)


def test_conversion_to_dp_accounting_stays_above_and_comes_back():
    pytest.importorskip("dp_accounting")
    from fastacct.compat.dp_accounting import from_dp_accounting, to_dp_accounting

    remove, add = (step(1.0, 0.1, d).at_spacing(1e-3).self_compose(20) for d in ("remove", "add"))
    there = to_dp_accounting(remove, add)
    back = from_dp_accounting(there)
    for epsilon in (0.0, 0.5, 1.2345, 2.0):
        mine = [one.delta(epsilon) for one in (remove, add)]
        assert there.get_delta_for_epsilon(epsilon) == pytest.approx(max(b.upper for b in mine), rel=1e-4)
        for here, again in zip(mine, back, strict=True):
            assert here.lower <= again.delta(epsilon).upper <= here.upper * (1 + 1e-4)
