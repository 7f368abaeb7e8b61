"""Compositions on a grid: the truth is inside the bounds, and the bounds are close.

Truth comes from closed forms (Gaussian, Laplace by tilted Irwin-Hall sums, randomised response by binomial sums), from
`fastacct.reference` (one step), from contour integrals at 30 digits (many steps), or from enumeration in exact
arithmetic.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import fastacct as fa
from fastacct import reference
from fastacct.core.bounds import Bounds, Status
from fastacct.losses.atoms import epsilon_delta, exact_atoms, table
from fastacct.losses.mixture import mixture_bracket
from fastacct.losses.panels import laplace
from fastacct.readers.grid.reader import Grid
from tests.containment import encloses_gaussian, holds
from tests.grids import gaussian, on_grid, part, step


def both(bounds):
    """The answers at two targets, which share a grid (and have the bits that each has alone)."""
    return [Bounds(*(float(x[i]) for x in bounds[:2]), bounds.status[i]) for i in (0, 1)]


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
    loss = gaussian(sigma)
    assert holds(on_grid([(loss, n)], epsilon=epsilon), truth, 1e-3)


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-14, 1e-20, 1e-30, 1e-60, 1e-100])
def test_epsilon_of_gaussians_is_inside_down_to_tiny_deltas(delta):
    assert encloses_gaussian(on_grid([(gaussian(8.0), 64)], delta=delta), 1, delta, 1e-3)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-5])
def test_the_tolerance_is_met(tolerance):
    bounds = on_grid([(gaussian(10.0), 100)], epsilon=3.0, tolerance=tolerance)
    assert holds(bounds, reference.gaussian_delta(1, 3, digits=20), tolerance)
    assert bounds.status == (Status.TIGHT if bounds.upper - bounds.lower <= 1e-6 * bounds.upper else Status.LOOSE)


@pytest.mark.parametrize(
    ("largest", "n", "epsilon", "truth"),
    [(0.5, 2, 0.3, "0.171991494580512"), (0.5, 5, 1.0, "0.145315612763074"), (0.5, 8, 2.0, "0.0760745998935700")],
)
def test_composed_laplace_is_inside_its_exact_value(largest, n, epsilon, truth):
    loss = laplace(1 / largest).remove
    assert holds(on_grid([(loss, n)], epsilon=epsilon), mpf(truth), 1e-3)


@pytest.mark.parametrize(("epsilon", "k"), [(0.3, 12), (0.1, 100), (2.0, 7), (0.01, 1000), (5.0, 1)])
def test_randomised_response_is_exact_up_to_rounding(epsilon, k):
    loss = epsilon_delta(epsilon, 0.0)
    for at in (0.0, 0.7 * epsilon, 0.4 * k * epsilon, 0.99 * k * epsilon):
        truth = coins_delta(epsilon, k, at)
        assert holds(on_grid([(loss, k)], epsilon=at, tolerance=1e-6), truth, 1e-6)


def test_optimal_composition_of_pure_privacy_meets_published_values():
    for epsilon, k, delta, truth in [(0.1, 100, 1e-6, 4.774567588107986), (0.05, 400, 1e-5, 4.359702992618818)]:
        loss = epsilon_delta(epsilon, 0.0)
        assert holds(on_grid([(loss, k)], delta=delta, tolerance=1e-6), truth, 1e-6)
    loss = epsilon_delta(0.3, 1e-6)
    assert holds(on_grid([(loss, 12)], epsilon=6 * 0.3), mpf("0.03021002221387154"), 1e-6)


def test_heterogeneous_pure_privacy_is_inside_the_sum_over_all_signs():
    parts = [(epsilon_delta(e, 0.0), 1) for e in (0.1, 0.25, 0.4, 0.15, 0.3)]
    truth = mpf("0.08160696902439490")
    assert holds(on_grid(parts, epsilon=0.5, tolerance=1e-6), truth, 1e-6)
    unequal = [(epsilon_delta(e, 0.0), 1) for e in (0.1, math.sqrt(0.1), 1 / 3)]
    with mp.workdps(40):
        pairs = []
        for e in (0.1, math.sqrt(0.1), 1 / 3):
            a = 1 / (1 + mp.exp(-mpf(e)))
            pairs.append(((a, 1 - a), (1 - a, a)))
        truth = mp.fsum(
            max(mpf(0), mp.fprod(p for p, _ in o) - mp.exp(mpf(0.25)) * mp.fprod(q for _, q in o))
            for o in itertools.product(*(list(zip(*pair, strict=True)) for pair in pairs))
        )
    assert holds(on_grid(unequal, epsilon=0.25), truth, 1e-3)


WEIGHTS = st.lists(st.integers(0, 20), min_size=2, max_size=4)


def as_probabilities(weights):
    """Multiples of 1/64, exact in floating point, with a sum of exactly one."""
    total = sum(weights)
    parts = [64 * w // total for w in weights]
    parts[0] += 64 - sum(parts)
    return [x / 64 for x in parts]


@settings(max_examples=60, deadline=None, derandomize=True)
@example([([16, 6], [3, 7], 2), ([0, 0, 1, 1], [0, 7, 10, 14], 2)], 2.625)  # next to the largest loss
@given(st.lists(st.tuples(WEIGHTS, WEIGHTS, st.integers(1, 2)), min_size=1, max_size=2), st.floats(0.0, 3.0))
def test_finite_distributions_are_inside_the_sum_over_all_outcomes(raw, epsilon):
    pairs, parts = [], []
    for p, q, count in raw:
        assume(sum(p) and sum(q))
        size = min(len(p), len(q))
        assume(sum(p[:size]) and sum(q[:size]))
        pair = as_probabilities(p[:size]), as_probabilities(q[:size])
        pairs += [pair] * count
        parts.append((table(*map(np.array, pair)), count))
    truth = enumerated_delta(pairs, epsilon)
    lower, upper, _ = on_grid(parts, epsilon=epsilon, tolerance=1e-2)
    assert lower <= truth <= upper
    near = enumerated_delta(pairs, max(0.0, epsilon - 0.03)) - enumerated_delta(pairs, epsilon + 0.03)
    assert upper - lower <= 0.05 * upper + near + 1e-12, "apart by more than a grid this coarse is"


def test_a_count_is_a_repetition_and_the_order_does_not_matter():
    a, b = step(1.0, 0.1), laplace(3.0).remove
    once = on_grid([(a, 3), (b, 2)], epsilon=0.8, tolerance=1e-2)
    for parts in (
        [(b, 2), (a, 3)],
        [(a, 1), (b, 1), (a, 2), (b, 1)],
        [(a, 1)] * 3 + [(b, 1)] * 2,
        [(a, 3), (b, 2), (a, 0)],
    ):
        again = on_grid(parts, epsilon=0.8, tolerance=1e-2)
        # one grid, rounded in another order
        assert again.lower == pytest.approx(once.lower, rel=1e-12, abs=0.0)
        assert again.upper == pytest.approx(once.upper, rel=1e-12, abs=0.0)


def test_a_grid_that_would_be_too_fine_keeps_what_coarser_ones_have_shown():
    bounds = on_grid([(step(3.5, 0.001, "remove"), 4)], epsilon=0.5, tolerance=0.05)
    truth = fa.delta_bounds(fa.Gaussian(3.5).poisson(0.001) * 4, epsilon=0.5, neighbors="remove")
    assert bounds.lower <= truth.upper
    assert truth.lower <= bounds.upper < 1.0


@settings(max_examples=8, deadline=None)
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
    at_low, at_high = both(on_grid([(part, n)], epsilon=[low, high], tolerance=0.05))
    more = on_grid([(part, n + 1)], epsilon=low, tolerance=0.05)
    noisier = on_grid([(step(1.1 * sigma, q, direction), n)], epsilon=low, tolerance=0.05)
    for bounds in (at_low, at_high, more, noisier):
        assert 0.0 <= bounds.lower <= bounds.upper <= 1.0
    assert at_high.lower <= at_low.upper
    assert at_low.lower <= more.upper
    assert noisier.lower <= at_low.upper


@settings(max_examples=8, deadline=None)
@given(st.floats(0.5, 4.0), st.floats(1e-3, 1.0), st.integers(1, 100), st.floats(-25.0, -1.0))
def test_epsilon_and_delta_are_inverse(sigma, q, n, log_delta):
    delta = 10.0**log_delta
    part = step(sigma, q)
    lower, upper, _ = on_grid([(part, n)], delta=delta, tolerance=1e-2)
    at_upper, at_lower = both(on_grid([(part, n)], epsilon=[upper, lower], tolerance=0.05))
    assert at_upper.lower <= delta
    assert at_lower.upper >= delta or lower == 0.0


def test_a_target_has_the_same_bits_alone_and_among_others():
    loss = step(1.0, 0.05)
    targets = [0.3, 1.0, 1.1, 4.0, 0.0]
    together = Grid([part(loss, 200)], 1e-3)
    for target in targets:
        assert together.delta(target) == Grid([part(loss, 200)], 1e-3).delta(target)


def test_beyond_all_finite_losses_only_what_is_infinite_is_left():
    job = fa.TruncatedLaplace(1.0, 12.0).poisson(0.1) * 2
    lower, upper, _ = fa.delta_bounds(job, epsilon=[0.5, 3.0, 300.0])
    assert upper[1] == upper[2] <= upper[0]
    assert (upper - lower)[1:].max() <= 1e-9 * upper[1]
    assert fa.epsilon(job, delta=0.99 * lower[1]) == math.inf


def test_the_smaller_direction_does_not_change_the_answer():
    job = fa.Laplace(1.0).poisson(0.1) * 30
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        both_ways = fa.delta_bounds(job, epsilon=epsilon)
        each = [fa.delta_bounds(job, epsilon=epsilon, neighbors=way) for way in ("remove", "add")]
        assert both_ways.upper == pytest.approx(max(one.upper for one in each), rel=1e-9, abs=0.0)
        assert both_ways.lower == pytest.approx(max(one.lower for one in each), rel=1e-9, abs=0.0)


def test_the_mass_of_an_infinite_loss_is_kept():
    loss = table(np.array([0.25, 0.5, 0.25]), np.array([0.0, 0.5, 0.5]))
    truth = 1 - 0.75**3
    lower, upper, _ = on_grid([(loss, 3)], epsilon=50.0)
    assert lower <= truth <= upper <= lower * (1 + 1e-12)
    assert on_grid([(loss, 3)], delta=0.5)[:2] == (math.inf, math.inf)
    assert on_grid([(loss, 3)], delta=0.58).upper < 50.0
    given = exact_atoms(np.array([0.0, -math.log(2.0)]), np.zeros(2), np.array([0.5, 0.25]), np.array([0.25]), None)
    assert on_grid([(given, 3)], epsilon=50.0).lower <= truth <= on_grid([(given, 3)], epsilon=50.0).upper


def test_a_black_box_has_its_own_epsilon_and_delta():
    assert on_grid([(epsilon_delta(1.5, 1e-5), 1)], delta=1e-5).upper == pytest.approx(1.5, rel=2e-14, abs=0.0)
    assert on_grid([(epsilon_delta(1.5, 1e-5), 1)], delta=1e-5).lower <= 1.5
    assert on_grid([(epsilon_delta(1.0, 1.0), 1)], epsilon=3.0)[:2] == (1.0, 1.0)
    assert on_grid([(epsilon_delta(math.inf, 0.0), 1)], epsilon=3.0)[:2] == (1.0, 1.0)


def test_pure_losses_have_an_epsilon_at_delta_zero():
    lower, upper, _ = on_grid([(epsilon_delta(0.7, 0.0), 9)], delta=0.0)
    assert lower <= 6.3 <= upper <= lower * (1 + 1e-12)
    lower, upper, _ = fa.epsilon_bounds(fa.Laplace(2.0) * 4, delta=0.0, accountant=fa.PLD())
    assert lower <= 2.0 <= upper <= 2.0 * (1 + 1e-12)


def test_nothing_composes_to_nothing():
    assert on_grid([(laplace(1.0).remove, 0)], epsilon=0.0)[:2] == (0.0, 0.0)
    assert on_grid([], delta=1e-5)[:2] == (0.0, 0.0)


def test_a_loss_that_does_not_increase_is_refused():
    mixture_bracket(1.0, {0.0: 0.5, 1.0: 0.5}, {0.0: 0.8, 1.0: 0.2})
    mixture_bracket(1.0, {0.0: 0.9, 2.0: 0.1}, {0.0: 0.9, -2.0: 0.1})
    for p, q in [
        ({0.0: 1.0}, {0.0: 0.9, 1.0: 0.1}),
        ({-1.0: 0.5, 1.0: 0.5}, {0.0: 1.0}),
        ({0.0: 0.2, 1.0: 0.8}, {0.0: 0.1, 1.0: 0.9}),
    ]:
        with pytest.raises(ValueError, match="increase"):
            mixture_bracket(1.0, p, q)


def test_a_mixture_of_equal_laws_releases_nothing():
    for one in (
        mixture_bracket(1.0, {0.0: 0.3, 1.0: 0.7}, {0.0: 0.3, 1.0: 0.7}),
        step(1.0, 0.0),
        step(math.inf, 0.5),
    ):
        lower, upper, _ = on_grid([(one, 1)], epsilon=0.0)
        assert lower == 0.0
        assert upper <= 1e-14


def test_a_mixture_is_inside_direct_integration():
    # group of two under Poisson sampling: means 0, 1, 2 with binomial weights against 0
    q, sigma, epsilon = 0.25, 1.5, 0.4
    weights = [(1 - q) ** 2, 2 * q * (1 - q), q**2]
    loss = mixture_bracket(sigma, dict(zip((0.0, 1.0, 2.0), weights, strict=True)), {0.0: 1.0})
    with mp.workdps(30):

        def excess(x):
            p = mp.fsum(w * mp.npdf(x, m, sigma) for w, m in zip(weights, (0, 1, 2), strict=True))
            return p - mp.exp(mpf(epsilon)) * mp.npdf(x, 0, sigma)

        edge = mp.findroot(excess, 2)
        truth = mp.quad(excess, [edge, edge + 4, edge + 10, edge + 30])
    assert holds(on_grid([(loss, 1)], epsilon=epsilon), truth, 1e-3)


def test_densities_whose_losses_round_to_one_number_have_a_fine_grid():
    """Of a group that is hardly ever seen: all losses of the nodes are 20 log(1 / 0.7)."""
    rare = fa.Gaussian(0.001).poisson(0.3).group(20)
    found = fa.epsilon_bounds(rare, delta=0.0, neighbors="add", accountant=fa.PLD())
    assert found.lower <= -20.0 * math.log(0.7) <= found.upper
    assert found.status == fa.Status.TIGHT
