"""Sums of atoms beside a small Gaussian: every entry of the ledger is needed, and both bounds hold."""

from __future__ import annotations

import math
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastacct as fa
from fastacct.core.bounds import DisjointBoundsWarning, Found, Status
from fastacct.core.inputs import Cells
from fastacct.losses.loss import Atoms, OutOfReachError, Part, log_moment, weighted
from fastacct.readers import smoothed
from fastacct.readers.far_losses import FarLosses, up_to
from fastacct.readers.grid.reader import Grid
from fastacct.readers.smoothed import Smoothed, _Sum
from tests.grids import part

LOSS, MASS = np.array([-0.3137, 0.1742, 0.6059]), np.array([0.3, 0.45, 0.25])


def atoms(loss: Cells, mass: Cells, infinite: float = 0.0) -> Atoms:
    return Atoms(loss, np.zeros(loss.size), mass, infinite=infinite)


def all_sums(parts: list[tuple[Atoms, int]], epsilon: float) -> float:
    """Delta of finite losses, by every sum."""
    loss, mass = np.zeros(1), np.ones(1)
    for one, n in parts:
        for _ in range(n):
            loss, mass = np.add.outer(loss, one.loss).ravel(), np.multiply.outer(mass, one.mass).ravel()
    return math.fsum((mass * -np.expm1(np.minimum(epsilon - loss, 0.0))).tolist())


PARTS = [(atoms(LOSS, MASS), 5), (atoms(np.array([-0.2119, 0.2713]), np.array([0.55, 0.45])), 3)]


@pytest.mark.parametrize("tilt", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("s", [0.1, 0.01, 1e-3])
def test_both_bounds_hold_at_any_tilt_beside_any_gaussian(tilt, s):
    made = _Sum(PARTS, tilt, s * s)
    for epsilon in (-0.4, 0.0, 0.5, 1.1032, 2.0, 3.2, 3.9):
        truth = all_sums(PARTS, epsilon)
        assert made.below(epsilon) <= truth * (1.0 + 1e-13)
        assert made.above(epsilon) >= truth * (1.0 - 1e-13)


@pytest.mark.parametrize("s", [0.1, 0.01, 1e-4])
@pytest.mark.parametrize("epsilon", [2.0 * 0.6059 + 3.0 * 0.1742 - 3.0 * 0.2119, 5.0 * 0.6059 + 3.0 * 0.2713 - 1e-5])
def test_what_the_gaussian_adds_is_taken_away_from_below(epsilon, s):
    """Next to a sum it adds something of the first order."""
    truth, made = all_sums(PARTS, epsilon), _Sum(PARTS, 2.0, s * s)
    assert made.smooth(epsilon)[0] > truth >= made.below(epsilon)


@pytest.mark.parametrize("cap", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("least", [0.0, 9.0])
def test_losses_beyond_a_cap_count_in_closed_form(cap, least):
    """Whatever the cap: also where others take more back than there is beyond it."""
    made, beyond = _Sum(PARTS, 2.0, 1e-6, least, cap), FarLosses(PARTS, cap)
    for epsilon in (-0.4, 0.0, 0.3, 0.5, 0.9, 1.1032, 2.0, 3.2):
        truth = all_sums(PARTS, epsilon)
        assert made.below(epsilon) <= truth * (1.0 + 1e-12)
        assert made.above(epsilon) >= truth * (1.0 - 1e-12)
        own = truth - all_sums([(up_to(one, cap), n) for one, n in PARTS], epsilon)
        low, high = beyond.bounds(epsilon)
        assert low <= own + 1e-12
        assert own <= high + 1e-12


def test_beyond_a_cap_that_others_hardly_undo_all_is_known():
    parts = [(atoms(np.array([-0.01, 0.02, 5.0]), np.array([0.5, 0.49, 0.01])), 6)]
    low, high = FarLosses(parts, 1.0).bounds(0.5)
    own = all_sums(parts, 0.5) - all_sums([(up_to(one, 1.0), n) for one, n in parts], 0.5)
    assert own * (1.0 - 1e-11) <= high <= low * (1.0 + 1e-9) <= own * (1.0 + 2e-9)


def test_three_points_are_above_what_the_gaussian_adds():
    """2 G <= 1.05 M of the proof, at places all over where either matters."""
    h = mp.mpf(smoothed._SHIFT)
    with mp.workdps(30):
        for i in range(80):
            x = mp.mpf(i) / 10
            g = mp.npdf(x) - x * mp.ncdf(-x)
            m = mp.quad(lambda z, x=x: (h - abs(x - z)) * mp.npdf(z), [x - h, x, x + h])
            assert 2 * g <= smoothed._HEIGHT * m
            assert i or 2 * g > 1.0488 * m


@pytest.mark.parametrize("out", [0.5, 2.0])
def test_sums_of_other_periods_are_taken_away(monkeypatch, out):
    monkeypatch.setattr(smoothed, "_OUT", out)
    wrong = 0
    for tilt in (0.4, 2.0):
        made = _Sum(PARTS, tilt, 1e-4)
        for epsilon in np.linspace(-0.5, 3.5, 17).tolist():
            truth = all_sums(PARTS, epsilon)
            assert made.below(epsilon) <= truth * (1.0 + 1e-13) <= made.above(epsilon) * (1.0 + 1e-12)
            unit = made._spacing / math.pi * math.exp(made._transform.scale - tilt * epsilon)
            rows, columns = made._phases(np.array([-epsilon]))
            whole = unit * float((np.einsum("ab,b->a", made._transform.wave, columns[:, 0]) * rows[:, 0]).sum().real)
            wrong += whole - unit * made._transform.error > made.smooth(epsilon)[1]
    assert wrong > 10


def test_the_gaussian_is_taken_for_all_that_its_three_points_may_say(monkeypatch):
    """Where other periods leave much open, what it adds is known from above alone."""
    monkeypatch.setattr(smoothed, "_OUT", 2.0)
    for tilt, places in ((2.0, (1.14, 1.215, 1.29)), (6.0, (2.93, 3.005, 3.08, 3.154))):
        made = _Sum(PARTS, tilt, 0.04)
        for epsilon in places:
            assert made.below(epsilon) <= all_sums(PARTS, epsilon)


def test_errors_of_losses_go_outward_on_both_sides():
    source = Atoms(LOSS, np.full(3, 1e-6), MASS)
    parts = [Part(source, source, 5)]
    sides = Smoothed(parts, Grid(parts, 1e-6), 1e-6)._sides
    lower, upper = (_Sum(side, 2.0, 1e-10) for side in sides)
    for epsilon in (0.0, 0.52, 1.31, 2.2):
        least, most = (all_sums([(atoms(LOSS + off, MASS), 5)], epsilon) for off in (-1e-6, 1e-6))
        assert lower.below(epsilon) <= least * (1.0 + 1e-12)
        assert most * (1.0 - 1e-12) <= upper.above(epsilon) <= most * (1.0 + 1e-7)


def test_what_is_beyond_the_last_point_is_counted(monkeypatch):
    exact = _Sum(PARTS, 2.0, 1e-4)
    monkeypatch.setattr(smoothed, "_LAST", 0.3)
    short = _Sum(PARTS, 2.0, 1e-4)
    assert short._rows * short._columns < 0.5 * exact._rows * exact._columns
    moved = 0
    for epsilon in np.linspace(0.0, 3.0, 25).tolist():
        (low, high), (least, most) = exact.smooth(epsilon), short.smooth(epsilon)
        assert least <= low <= high <= most
        moved += abs((least + most) - (low + high)) > 4.0 * (high - low)
    assert moved > 5


def off(made: _Sum, loss: Cells, weight: Cells, **near: int) -> float:
    """Largest error of the sums of all phases, over what the ledger says."""
    found, grown = smoothed._moments(loss, weight, made._period, made.points, **near)
    t = np.arange(made.points).astype(np.longdouble) * np.longdouble(made._spacing)
    x = np.multiply.outer(t, loss.astype(np.longdouble))
    real, imaginary = (np.sum(wave(x) * weight, axis=1) for wave in (np.cos, np.sin))
    counted = grown * weight.sum() + 4.0 * t * np.sum(weight * np.abs(loss))
    return float(np.max(np.hypot(found.real - real, found.imag - imaginary) / (counted * smoothed.ROUNDING)))


@pytest.mark.parametrize("wide", [1e-9, 0.01, 1.0, 40.0])
def test_all_phases_are_as_good_as_their_ledger_says(wide):
    """Of atoms in one place, side by side, and further apart than the period."""
    made, rng = _Sum(PARTS, 2.0, 1e-4), np.random.default_rng(3)
    loss, weight = 0.3 + wide * rng.standard_normal(200), rng.random(200)
    weight /= weight.sum()
    assert off(made, loss, weight) < 1.0
    assert off(made, loss, weight, near=11) > 1.0


@pytest.mark.parametrize("points", [1, 2, 3, 5, 8, 13])
def test_few_phases_are_those_of_all_atoms(points):
    """The numbers around an atom are more than all that there are, and begin again several times."""
    few, rng = SimpleNamespace(_period=2.5, points=points, _spacing=2.0 * math.pi / 2.5), np.random.default_rng(points)
    loss, weight = rng.standard_normal(50), rng.random(50)
    assert off(few, loss, weight / weight.sum()) < 1.0


def test_many_atoms_are_added_up_in_many_sums():
    """So that few roundings are counted: a hundredth of one for each atom."""
    made, rng = _Sum([(atoms(LOSS, MASS), 1)], 2.0, 0.01), np.random.default_rng(3)
    loss, weight = 0.3 + 1e-3 * rng.standard_normal(20_000), np.full(20_000, 1.0 / 20_000)
    assert off(made, loss, weight) < 1.0
    assert smoothed._moments(loss, weight, made._period, made.points)[1][0] < 0.05 * loss.size


SPREAD = atoms(1e-3 * np.random.default_rng(1).standard_normal(60), np.full(60, 1.0 / 60.0))
MANY = [(SPREAD, 20_000), (atoms(np.array([-0.0003, 0.0004]), np.array([0.55, 0.45])), 300)]


def test_groups_of_points_far_out_bound_their_terms():
    """Each term is found by itself here."""
    made = _Sum(MANY, 2.0, 1e-9)
    t = np.arange(made.points, made._last / made._spacing) * made._spacing
    assert made.points < 0.02 * t.size
    size = np.abs(made._payoff(t))
    for one, n in MANY:
        weight = one.mass * np.exp(2.0 * one.loss)
        size *= np.abs(np.exp(1j * np.multiply.outer(t, one.loss)) @ (weight / weight.sum())) ** n
    assert 0.0 < size.sum() < made._far < 1e-14 * abs(made._payoff(np.zeros(1))[0])


def test_terms_that_are_left_out_may_have_any_sign():
    made, more = _Sum(MANY, 2.0, 1e-9), _Sum(MANY, 2.0, 1e-9)
    more._far += 0.01 * made._transform.size
    unit = made._spacing / math.pi * math.exp(made._transform.scale - 2.0 * 0.7)
    for least, most, side in zip(more.smooth(0.7), made.smooth(0.7), (-1.0, 1.0), strict=True):
        assert (least - most) * side == pytest.approx(0.01 * unit * made._transform.size, rel=1e-3)


@pytest.mark.parametrize("s", [1e-3, 1e-5])
def test_sums_of_which_few_points_matter_have_the_truth_inside(s):
    """A thousand releases of two answers: a binomial number of the larger one."""
    n, (low, high), share = 1_000, (-0.0131, 0.0177), 0.46
    made = _Sum([(atoms(np.array([low, high]), np.array([1.0 - share, share])), n)], 3.0, s * s)
    with mp.workdps(30):
        chance = [mp.binomial(n, k) * mp.mpf(share) ** k * (1 - mp.mpf(share)) ** (n - k) for k in range(n + 1)]
        for epsilon in (0.9, 1.63, 2.5):
            losses = [k * mp.mpf(high) + (n - k) * mp.mpf(low) - epsilon for k in range(n + 1)]
            truth = float(mp.fsum(p * (1 - mp.exp(-x)) for p, x in zip(chance, losses, strict=True) if x > 0))
            assert made.below(epsilon) <= truth <= made.above(epsilon)
            assert made.above(epsilon) - made.below(epsilon) < (1e-9 + 20.0 * s * s) * truth


def test_phases_as_bad_as_their_bound_are_counted(monkeypatch):
    """With a rounding of 1e-9 instead, and phases off by as much as is counted."""
    places = (0.5, 1.103, 2.03)
    exact = [_Sum(PARTS, 2.0, 1e-4).smooth(epsilon) for epsilon in places]
    phases, moments = _Sum._phases, smoothed._moments
    monkeypatch.setattr(smoothed, "ROUNDING", 1e-9)
    monkeypatch.setattr(_Sum, "_phases", lambda self, x: phases(self, x * (1.0 + 2.9e-9)))
    monkeypatch.setattr(smoothed, "_moments", lambda x, *others: moments(x * (1.0 - 3.9e-9), *others))
    rough = _Sum(PARTS, 2.0, 1e-4)
    for epsilon, (low, high) in zip(places, exact, strict=True):
        least, most = rough.smooth(epsilon)
        assert least <= low <= high <= most
        assert abs(0.5 * (least + most) - 0.5 * (low + high)) > 5.0 * (
            high - low
        )  # more than a sum without a ledger has


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-2.0, 2.0), st.floats(0.01, 1.0)), min_size=2, max_size=4),
    st.integers(1, 6),
    st.floats(0.05, 20.0),
    st.floats(-9.0, -2.0),
    st.floats(-1.0, 4.0),
)
def test_random_tables_are_inside_the_sum_over_all_outcomes(rows, count, tilt, log_s, epsilon):
    loss, mass = np.array(rows).T
    parts = [(atoms(loss, mass / mass.sum()), count)]
    try:
        made = _Sum(parts, tilt, math.exp(2.0 * log_s))
    except OutOfReachError:
        return
    truth = all_sums(parts, epsilon)
    assert made.below(epsilon) <= truth * (1.0 + 1e-12) + 1e-300
    assert made.above(epsilon) >= truth * (1.0 - 1e-12)


def test_two_hundred_thousand_releases_are_inside_the_binomial_sum():
    n, p, high, low = 200_000, 0.2, 0.031, -0.0083
    source = atoms(np.array([low, high]), np.array([1.0 - p, p]))
    tilt, centre = 0.2, n * (p * high + (1.0 - p) * low)
    made = _Sum([(source, n)], tilt, 1e-6)
    with mp.workdps(40):
        epsilon = mp.mpf(centre) + 9
        terms = []
        for k in range(38_000, 46_000):
            z = epsilon - k * mp.mpf(high) - (n - k) * mp.mpf(low)
            if z < 0:
                log_mass = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
                log_mass += k * mp.log(mp.mpf(p)) + (n - k) * mp.log(mp.mpf(1.0 - p))
                terms.append(-mp.exp(log_mass) * mp.expm1(z))
        truth = float(mp.fsum(terms))
    found = made.below(float(epsilon)), made.above(float(epsilon))
    assert found[0] <= truth <= found[1] <= found[0] * (1.0 + 1e-5)


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


def test_an_infinite_loss_is_counted_once():
    source = atoms(LOSS, MASS * (1.0 - 1e-4), 1e-4)
    made, lost = _Sum([(source, 4)], 2.0, 1e-6), -math.expm1(4 * math.log1p(-1e-4))
    truth = all_sums([(source, 4)], 0.5) + lost
    assert made.below(0.5) <= truth <= made.above(0.5) <= made.below(0.5) + 1e-4


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


def test_numbers_too_large_to_subtract_say_nothing():
    """Geometric sums of other periods far above what a double holds."""
    parts = [(atoms(np.array([-3.0132792081215087]), np.ones(1)), 256), (atoms(np.array([-6.586]), np.ones(1)), 120)]
    made = _Sum(parts, 0.00137535, 1.8743e-5)
    assert made.below(0.0) == 0.0
    assert made.above(0.0) == 1.0


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
    lower, upper = Smoothed(parts, Grid(parts, 1e-6), 1e-6)._sums(22.0, 1e-9, 1.0)
    assert upper._tilt < lower._tilt
    for one in (lower, upper):
        moments = [(n, *weighted(a, n)[1:]) for a, n in one._parts]
        least = min(log_moment(moments, 1.25**k).value - 22.0 * 1.25**k for k in range(-20, 40))
        assert log_moment(moments, one._tilt).value - 22.0 * one._tilt <= least + 8.0


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
