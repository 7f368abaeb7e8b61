"""Sums of atoms beside a small Gaussian: which sums are made, and what they say together."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.bounds import DisjointBoundsWarning, Found, Status
from fastacct.losses.loss import Atoms, OutOfReachError, Part, log_moment, weighted
from fastacct.readers import smoothed
from fastacct.readers.far_losses import known_atoms
from fastacct.readers.finite_sum import FiniteSum
from fastacct.readers.grid.reader import Grid
from fastacct.readers.smoothed import Smoothed
from tests.grids import part
from tests.sums_of_atoms import LOSS, MASS, all_sums, atoms


def test_errors_of_losses_go_outward_on_both_sides():
    source = Atoms(LOSS, np.full(3, 1e-6), MASS)
    parts = [Part(source, source, 5)]
    sides = Smoothed(parts, Grid(parts, 1e-6), 1e-6)._losses(0.0).sides
    lower, upper = (FiniteSum(side, 2.0, 1e-10) for side in sides)
    for epsilon in (0.0, 0.52, 1.31, 2.2):
        least, most = (all_sums([(atoms(LOSS + off, MASS), 5)], epsilon) for off in (-1e-6, 1e-6))
        assert lower.below(epsilon) <= least * (1.0 + 1e-12)
        assert most * (1.0 - 1e-12) <= upper.above(epsilon) <= most * (1.0 + 1e-7)


@pytest.mark.parametrize("delta", [1e-3, 1e-11])
def test_sampled_discrete_noise_meets_the_grid(delta):
    parts = [part(fa.DiscreteGaussian(2.0).poisson(0.05).losses("remove").remove, 100)]
    grid = Grid(parts, 1e-6)
    assert Smoothed.is_possible(parts, grid)
    ours, theirs = Smoothed(parts, grid, 1e-6).epsilon(delta), Grid(parts, 1e-6).epsilon(delta)
    assert ours.status == fa.Status.TIGHT
    assert ours.lower <= theirs.upper
    assert theirs.lower <= ours.upper
    back = Smoothed(parts, grid, 1e-6).delta(ours.upper)
    assert back.lower <= delta
    assert Smoothed(parts, grid, 1e-6).delta(ours.lower).upper >= delta


def test_a_target_has_the_same_bits_alone_and_among_others():
    job = fa.DiscreteGaussian(2.0).poisson(0.05) * 100
    deltas = np.geomspace(1e-9, 1e-3, 5)
    found = fa.epsilon_bounds(job, delta=deltas, neighbors="add_remove")
    for i in (0, 3):
        alone = fa.epsilon_bounds(fa.DiscreteGaussian(2.0).poisson(0.05) * 100, delta=deltas[i], neighbors="add_remove")
        assert (found.lower[i], found.upper[i]) == (alone.lower, alone.upper)
    assert "finite sum" in str(fa.explain(job, delta=1e-5, neighbors="add_remove"))


def test_losses_that_a_lattice_holds_stay_on_the_grid():
    parts = [part(fa.DiscreteLaplace(3.0).losses("remove").remove, 100)]
    assert not Smoothed.is_possible(parts, Grid(parts, 1e-6))


@pytest.mark.parametrize(("scale", "by"), [(100.0, "contour"), (250.0, "finite sum")])
def test_thousands_of_losses_on_a_lattice_are_summed(scale, by):
    """A hundred releases of one scale, and one of ten times that, are nearly the same sum."""
    job, one = fa.DiscreteGaussian(scale) * 100, fa.DiscreteGaussian(10.0 * scale, sensitivity=100)
    assert by in str(fa.explain(job, delta=1e-6, neighbors="add_remove"))
    found, same = (fa.epsilon_bounds(x, delta=1e-6, neighbors="add_remove") for x in (job, one))
    assert found.status == fa.Status.TIGHT
    assert found.lower <= same.upper * (1.0 + 1e-13)
    assert same.lower <= found.upper * (1.0 + 1e-13)


def test_tiny_losses_beside_a_huge_one_do_not_overflow():
    parts = [fa.PureDP(1e5), *(fa.PureDP(e).poisson(0.1) * 300 for e in (1.3e-5, 1.13e-5, 7.17e-6))]
    lower, upper, _ = fa.epsilon_bounds(sum(parts, fa.Process()), delta=1e-30, neighbors="remove")
    assert lower <= 1e5 + 900 * 1.3e-5
    assert upper >= 1e5 - 900 * 1.3e-5


def test_what_a_sum_has_said_holds_where_the_grid_says_less(monkeypatch):
    parts = [Part(atoms(LOSS, MASS), atoms(LOSS, MASS), 5)]
    made, nothing = Smoothed(parts, Grid(parts, 1e-6), 1e-6), Found(0.0, math.inf, Status.NOT_MET)

    def no_more(*_):
        raise OutOfReachError("rounding")

    monkeypatch.setattr(made, "_less", no_more)
    monkeypatch.setattr(made, "_is_enough", lambda own, found: False)
    monkeypatch.setattr(made._grid, "delta", lambda epsilon: nothing._replace(upper=1.0))
    monkeypatch.setattr(made._grid, "epsilon", lambda delta: nothing)
    truth = all_sums([(atoms(LOSS, MASS), 5)], 1.0)
    assert made.delta(1.0).lower <= truth <= made.delta(1.0).upper <= 1.01 * truth
    assert made.epsilon(truth).lower <= 1.0 <= made.epsilon(truth).upper <= 1.01


def test_each_of_two_distributions_has_its_own_tilt():
    """One of them alone has a rare large loss, which weighs most under the other's tilt."""
    tail = atoms(np.append(LOSS, 9.0), np.append(MASS, 1e-13))
    parts = [Part(tail, atoms(LOSS, MASS), 40, is_apart=True)]
    made = Smoothed(parts, Grid(parts, 1e-6), 1e-6)
    (lower, alone), upper = made._sums(made._losses(0.0), 22.0, 1e-9, 1.0)
    assert upper._tilt < lower.sum._tilt
    assert alone.sum is upper
    for one in (lower.sum, upper):
        moments = [(n, *weighted(a, n)[1:]) for a, n in one._parts]
        least = min(log_moment(moments, 1.25**k).value - 22.0 * 1.25**k for k in range(-20, 40))
        assert log_moment(moments, one._tilt).value - 22.0 * one._tilt <= least + 8.0


@pytest.mark.parametrize(("less", "moved", "is_one"), [(1e-9, 5e-10, True), (1e-9, 3e-4, False), (1e-3, 0.0, False)])
def test_sides_that_hardly_differ_share_a_sum(less, moved, is_one):
    """From below masses and losses are less, and there is no infinite one."""
    low, high = atoms(LOSS - moved, MASS * (1.0 - less)), atoms(LOSS, MASS, 1e-3)
    parts = [Part(high, low, 5)]
    made = Smoothed(parts, Grid(parts, 1e-6), 1e-6)
    for epsilon in (0.3, 1.0, 2.03):
        truth = all_sums([(low, 5)], epsilon)
        (lower,), upper = made._sums(made._losses(0.0), epsilon, truth, 1.0)
        assert (lower.sum is upper) == is_one
        assert truth * (1.0 - 1e-6) <= lower.below(epsilon) <= truth * (1.0 + 1e-13)
        assert upper.above(epsilon) >= all_sums([(high, 5)], epsilon) + 1.0 - (1.0 - 1e-3) ** 5


def test_a_shared_sum_is_moved_by_all_that_the_sides_differ():
    """Right of every sum but one, where next to nothing else is in the money."""
    low, high, n = atoms(LOSS - 2e-4, MASS * (1.0 - 1e-3)), atoms(LOSS, MASS), 5
    parts, epsilon = [Part(high, low, n)], n * 0.6059 - 0.01
    made = FiniteSum([(known_atoms(parts[0], is_upper=True, rare=0.0), n)], 2.0, 1e-10)
    less, moved = Smoothed(parts, Grid(parts, 1e-6), 1e-6)._losses(0.0).apart
    lower, truth = smoothed._Lower(made, 0.0, moved, math.exp(-less)).below(epsilon), all_sums([(low, n)], epsilon)
    assert 0.999 * truth < lower <= truth < 0.91 * smoothed._Lower(made, 0.0).below(epsilon)


def test_rare_losses_are_infinite_from_above_and_none_from_below():
    loss, mass = np.append(LOSS, [7.0, -9.0, 8.0]), np.append(MASS, [2e-7, 3e-7, 1e-3])
    source = atoms(loss, mass, 1e-9)
    both = [known_atoms(Part(source, source, 3), is_upper, 1e-6) for is_upper in (False, True)]
    assert [one.loss.size for one in both] == [6, 6]  # 2e-7 and 3e-7 are more than a sixth of it each
    low, high = (known_atoms(Part(source, source, 3), is_upper, 2e-6) for is_upper in (False, True))
    assert low.loss.size == high.loss.size == 4
    assert low.infinite == source.infinite
    assert 5.01e-7 <= high.infinite <= 5.02e-7


def test_a_delta_below_the_mass_of_infinite_losses_needs_no_sum():
    low, high = atoms(LOSS, MASS * (1.0 - 1e-4), 1e-4), atoms(LOSS, MASS * (1.0 - 1e-4), 1.1e-4)
    parts, least = [Part(high, low, 3)], 1.0 - (1.0 - 1e-4) ** 3
    made = Smoothed(parts, Grid(parts, 1e-6), 1e-6)
    assert made.epsilon(0.999 * least)[:2] == (math.inf, math.inf)
    assert not made._losses(1e-30).kept
    assert made.epsilon(1.001 * least).lower < math.inf  # from below not all of that is infinite


@pytest.mark.parametrize("is_apart", [False, True])
def test_of_a_delta_that_no_finite_loss_decides_the_grid_is_asked(is_apart):
    parts = [Part(atoms(LOSS, MASS), atoms(LOSS, MASS), 5, is_apart=is_apart)]
    made = Smoothed(parts, Grid(parts, 1e-6), 1e-6)
    assert made.roughly(0.0) == math.inf
    assert made.epsilon(0.0) == Grid(parts, 1e-6).epsilon(0.0)


def test_rare_losses_are_left_out_where_they_are_next_to_nothing_of_delta():
    job = fa.DiscreteGaussian(2.0).poisson(0.1) * 50
    parts = [part(next(iter(job))[0].losses("remove").remove, 50)]
    made = Smoothed(parts, Grid(parts, 1e-6), 1e-6)
    for delta in (1e-6, 1e-19):
        found = made.epsilon(delta)
        assert found.status == Status.TIGHT
        assert made.delta(found.upper).lower <= delta <= made.delta(found.lower).upper
    few, everything = (made._losses(rare).sides[1][0][0].loss.size for rare in (1e-30, 0.0))
    assert few < 0.5 * everything


def test_of_two_answers_that_exclude_each_other_the_larger_end_bounds():
    one, other = Found(1.0, 1.1, Status.LOOSE), Found(2.0, 2.5, Status.LOOSE)
    for first, second in ((one, other), (other, one)):
        with pytest.warns(DisjointBoundsWarning, match="do not meet"):
            assert smoothed._both(first, second, math.inf).upper == 2.5


@pytest.mark.parametrize(
    ("q", "r", "s", "rounds", "delta"), [(0.0212, 0.058, 1.41, 116, 1e-6), (0.05, 0.03, 2.0, 40, 1e-5)]
)
def test_records_within_clients_within_rounds_against_quadrature(q, r, s, rounds, delta):
    """Two steps: a sum over both of their outputs; rounds: a contour sum, whose aliases are far away.  The first has
    rare large losses under any tilt that is of use."""
    x = np.arange(-9.0, 11.0 + 2.5 / s, 0.06)
    step, weight = np.log1p(r * np.expm1(x / s - 0.5 / s**2)), np.exp(-0.5 * x * x) * 0.06 / math.sqrt(2.0 * math.pi)
    mass = np.multiply.outer(weight, weight).ravel()
    loss = np.log1p(q * np.expm1(np.add.outer(step, step).ravel()))
    loss, mass = loss[mass > 1e-30], mass[mass > 1e-30]
    found = fa.epsilon_bounds((fa.Gaussian(s).poisson(r) * 2).poisson(q) * rounds, delta=delta, neighbors="remove")
    assert found.status == fa.Status.TIGHT
    c = 1.0 + 1.5 / found.upper
    period = max(40.0 * found.upper, float(loss.max()) * 3.0)
    apart, tilted = 2.0 * math.pi / period, mass * np.exp(c * loss)
    turn, phase, ends = np.exp(1j * apart * loss), tilted.astype(complex), np.array([found.lower, found.upper])
    total = np.zeros(2)
    for k in range(20000):
        factor, u = phase.sum() / tilted.sum(), complex(c, k * apart)
        total += (0.5 if k == 0 else 1.0) * (factor**rounds * np.exp(-1j * k * apart * ends) / (u * (u - 1.0))).real
        if k > 50 and abs(factor) ** rounds < 1e-15:
            break
        phase *= turn
    high, low = apart / math.pi * total * np.exp(rounds * math.log(tilted.sum()) - (c - 1.0) * ends)
    assert low <= delta * (1.0 + 1e-9)
    assert high >= delta * (1.0 - 1e-9)


def test_a_side_whose_losses_are_all_rare_has_no_sum():
    """From below nothing is known of one sample of so large a job: the grid answers."""
    inner = (
        fa.DiscreteGaussian(1.4040146262284126, sensitivity=3) * 296
        + fa.Skellam(165.32849617771956, sensitivity=1) * 40
    )
    lower, upper, _ = fa.epsilon_bounds(
        fa.Together(inner).poisson(0.06962657289400637) * 3, delta=0.0009983323090721299
    )
    assert lower <= upper < math.inf


def test_a_loss_that_is_always_infinite_is_known():
    always = fa.from_pmf([1.0, 0.0], [0.0, 1.0])
    assert fa.epsilon_bounds(always * 2, delta=1e-5)[:2] == (math.inf, math.inf)
    some = always + fa.from_pmf([0.2, 0.3, 0.5], [0.5, 0.2, 0.3]) * 9
    assert fa.epsilon_lower(some, delta=1e-5) == math.inf
    assert fa.delta_lower(some, epsilon=1.0) > 1.0 - 1e-12
