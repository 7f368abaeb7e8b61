"""A finite Fourier sum: every entry of its ledger is needed, and both bounds hold."""

from __future__ import annotations

import math
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastacct.core.inputs import Cells
from fastacct.losses.loss import OutOfReachError
from fastacct.readers import finite_sum
from fastacct.readers.far_losses import FarLosses, up_to
from fastacct.readers.finite_sum import FiniteSum
from tests.sums_of_atoms import LOSS, MASS, PARTS, all_sums, atoms


@pytest.mark.parametrize("tilt", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("s", [0.1, 0.01, 1e-3])
def test_both_bounds_hold_at_any_tilt_beside_any_gaussian(tilt, s):
    made = FiniteSum(PARTS, tilt, s * s)
    for epsilon in (-0.4, 0.0, 0.5, 1.1032, 2.0, 3.2, 3.9):
        truth = all_sums(PARTS, epsilon)
        assert made.below(epsilon) <= truth * (1.0 + 1e-13)
        assert made.above(epsilon) >= truth * (1.0 - 1e-13)


@pytest.mark.parametrize("s", [0.1, 0.01, 1e-4])
@pytest.mark.parametrize("epsilon", [2.0 * 0.6059 + 3.0 * 0.1742 - 3.0 * 0.2119, 5.0 * 0.6059 + 3.0 * 0.2713 - 1e-5])
def test_what_the_gaussian_adds_is_taken_away_from_below(epsilon, s):
    """Next to a sum it adds something of the first order."""
    truth, made = all_sums(PARTS, epsilon), FiniteSum(PARTS, 2.0, s * s)
    assert made.smooth(epsilon)[0] > truth >= made.below(epsilon)


@pytest.mark.parametrize("cap", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("least", [0.0, 9.0])
def test_losses_beyond_a_cap_count_in_closed_form(cap, least):
    """Whatever the cap: also where others take more back than there is beyond it."""
    made, beyond = FiniteSum(PARTS, 2.0, 1e-6, least, cap), FarLosses(PARTS, cap)
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
    h = mp.mpf(finite_sum._SHIFT)
    with mp.workdps(30):
        for i in range(80):
            x = mp.mpf(i) / 10
            g = mp.npdf(x) - x * mp.ncdf(-x)
            m = mp.quad(lambda z, x=x: (h - abs(x - z)) * mp.npdf(z), [x - h, x, x + h])
            assert 2 * g <= finite_sum._HEIGHT * m
            assert i or 2 * g > 1.0488 * m


@pytest.mark.parametrize("out", [0.5, 2.0])
def test_sums_of_other_periods_are_taken_away(monkeypatch, out):
    monkeypatch.setattr(finite_sum, "OUT", out)
    wrong = 0
    for tilt in (0.4, 2.0):
        made = FiniteSum(PARTS, tilt, 1e-4)
        for epsilon in np.linspace(-0.5, 3.5, 17).tolist():
            truth = all_sums(PARTS, epsilon)
            assert made.below(epsilon) <= truth * (1.0 + 1e-13) <= made.above(epsilon) * (1.0 + 1e-12)
            unit = made._spacing / math.pi * math.exp(made._transform.scale - tilt * epsilon)
            rows, columns = made._phases(np.array([1e-4 * (0.5 + tilt) - epsilon]))
            whole = unit * float((np.einsum("ab,b->a", made._transform.wave, columns[:, 0]) * rows[:, 0]).sum().real)
            wrong += whole - unit * made._transform.error > made.smooth(epsilon)[1]
    assert wrong > 10


def test_the_gaussian_is_taken_for_all_that_its_three_points_may_say(monkeypatch):
    """Where other periods leave much open, what it adds is known from above alone."""
    monkeypatch.setattr(finite_sum, "OUT", 2.0)
    for tilt, places in ((2.0, (1.14, 1.215, 1.29)), (6.0, (2.93, 3.005, 3.08, 3.154))):
        made = FiniteSum(PARTS, tilt, 0.04)
        for epsilon in places:
            assert made.below(epsilon) <= all_sums(PARTS, epsilon)


def test_what_is_beyond_the_last_point_is_counted(monkeypatch):
    exact = FiniteSum(PARTS, 2.0, 1e-4)
    monkeypatch.setattr(finite_sum, "_LAST", 0.3)
    short = FiniteSum(PARTS, 2.0, 1e-4)
    assert short._rows * short._columns < 0.5 * exact._rows * exact._columns
    moved = 0
    for epsilon in np.linspace(0.0, 3.0, 25).tolist():
        (low, high), (least, most) = exact.smooth(epsilon), short.smooth(epsilon)
        assert least <= low <= high <= most
        moved += abs((least + most) - (low + high)) > 4.0 * (high - low)
    assert moved > 5


def off(made: FiniteSum, loss: Cells, weight: Cells) -> float:
    """Largest error of the sums of all phases, over what the ledger says."""
    found, grown = finite_sum._moments(loss, weight, made._period, made.points)
    t = np.arange(made.points).astype(np.longdouble) * np.longdouble(made._spacing)
    x = np.multiply.outer(t, loss.astype(np.longdouble))
    real, imaginary = (np.sum(wave(x) * weight, axis=1) for wave in (np.cos, np.sin))
    counted = grown * weight.sum() + 4.0 * t * np.sum(weight * np.abs(loss))
    return float(np.max(np.hypot(found.real - real, found.imag - imaginary) / (counted * finite_sum.ROUNDING)))


@pytest.mark.parametrize("wide", [1e-9, 0.01, 1.0, 40.0])
def test_all_phases_are_as_good_as_their_ledger_says(wide):
    """Of atoms in one place, side by side, and further apart than the period."""
    made, rng = FiniteSum(PARTS, 2.0, 1e-4), np.random.default_rng(3)
    loss, weight = 0.3 + wide * rng.standard_normal(200), rng.random(200)
    weight /= weight.sum()
    assert off(made, loss, weight) < 1.0


@pytest.mark.parametrize("points", [1, 2, 3, 5, 8, 13])
def test_few_phases_are_those_of_all_atoms(points):
    """The numbers around an atom are more than all that there are, and begin again several times."""
    few, rng = SimpleNamespace(_period=2.5, points=points, _spacing=2.0 * math.pi / 2.5), np.random.default_rng(points)
    loss, weight = rng.standard_normal(50), rng.random(50)
    assert off(few, loss, weight / weight.sum()) < 1.0


def test_sums_of_many_atoms_have_the_rounding_of_two():
    """A hundredth of one for each atom would be a hundred; as many as there are would be 20,000."""
    made, rng = FiniteSum([(atoms(LOSS, MASS), 1)], 2.0, 0.01), np.random.default_rng(3)
    loss, weight = 0.3 + 1e-3 * rng.standard_normal(20_000), np.full(20_000, 1.0 / 20_000)
    assert off(made, loss, weight) < 1.0
    assert finite_sum._moments(loss, weight, made._period, made.points)[1][0] < 300.0


SPREAD = atoms(1e-3 * np.random.default_rng(1).standard_normal(60), np.full(60, 1.0 / 60.0))


MANY = [(SPREAD, 20_000), (atoms(np.array([-0.0003, 0.0004]), np.array([0.55, 0.45])), 300)]


def test_groups_of_points_far_out_bound_their_terms():
    """Each term is found by itself here."""
    made = FiniteSum(MANY, 2.0, 1e-9)
    t = np.arange(made.points, made._last / made._spacing) * made._spacing
    assert made.points < 0.02 * t.size
    size = np.abs(made._payoff(t))
    for one, n in MANY:
        weight = one.mass * np.exp(2.0 * one.loss)
        size *= np.abs(np.exp(1j * np.multiply.outer(t, one.loss)) @ (weight / weight.sum())) ** n
    assert 0.0 < size.sum() < made._far < 1e-14 * abs(made._payoff(np.zeros(1))[0])


def test_a_period_beyond_all_numbers_has_too_many_points():
    """Tilts so large that nothing but the largest loss has any weight; a warning would be an error here."""
    with pytest.raises(OutOfReachError, match="too many points"):
        FiniteSum(PARTS, 5e6, 1e-20, 1e300)


def test_terms_that_are_left_out_may_have_any_sign():
    made, more = FiniteSum(MANY, 2.0, 1e-9), FiniteSum(MANY, 2.0, 1e-9)
    more._far += 0.01 * made._transform.size
    unit = made._spacing / math.pi * math.exp(made._transform.scale - 2.0 * 0.7)
    for least, most, side in zip(more.smooth(0.7), made.smooth(0.7), (-1.0, 1.0), strict=True):
        assert (least - most) * side == pytest.approx(0.01 * unit * made._transform.size, rel=1e-3)


@pytest.mark.parametrize("s", [1e-3, 1e-5])
def test_sums_of_which_few_points_matter_have_the_truth_inside(s):
    """A thousand releases of two answers: a binomial number of the larger one."""
    n, (low, high), share = 1_000, (-0.0131, 0.0177), 0.46
    made = FiniteSum([(atoms(np.array([low, high]), np.array([1.0 - share, share])), n)], 3.0, s * s)
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
    exact = [FiniteSum(PARTS, 2.0, 1e-4).smooth(epsilon) for epsilon in places]
    phases, moments = FiniteSum._phases, finite_sum._moments
    monkeypatch.setattr(finite_sum, "ROUNDING", 1e-9)
    monkeypatch.setattr(FiniteSum, "_phases", lambda self, x: phases(self, x * (1.0 + 3.9e-9)))
    monkeypatch.setattr(finite_sum, "_moments", lambda x, *others: moments(x * (1.0 - 3.9e-9), *others))
    rough = FiniteSum(PARTS, 2.0, 1e-4)
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
        made = FiniteSum(parts, tilt, math.exp(2.0 * log_s))
    except OutOfReachError:
        return
    truth = all_sums(parts, epsilon)
    assert made.below(epsilon) <= truth * (1.0 + 1e-12) + 1e-300
    assert made.above(epsilon) >= truth * (1.0 - 1e-12)


def test_two_hundred_thousand_releases_are_inside_the_binomial_sum():
    n, p, high, low = 200_000, 0.2, 0.031, -0.0083
    source = atoms(np.array([low, high]), np.array([1.0 - p, p]))
    tilt, centre = 0.2, n * (p * high + (1.0 - p) * low)
    made = FiniteSum([(source, n)], tilt, 1e-6)
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


def test_an_infinite_loss_is_counted_once():
    source = atoms(LOSS, MASS * (1.0 - 1e-4), 1e-4)
    made, lost = FiniteSum([(source, 4)], 2.0, 1e-6), -math.expm1(4 * math.log1p(-1e-4))
    truth = all_sums([(source, 4)], 0.5) + lost
    assert made.lost == pytest.approx(lost, rel=1e-12)
    assert made.below(0.5) + lost <= truth * (1.0 + 1e-14) <= made.above(0.5) <= made.below(0.5) + lost + 1e-4


def test_numbers_too_large_to_subtract_say_nothing():
    """Geometric sums of other periods far above what a double holds."""
    parts = [(atoms(np.array([-3.0132792081215087]), np.ones(1)), 256), (atoms(np.array([-6.586]), np.ones(1)), 120)]
    made = FiniteSum(parts, 0.00137535, 1.8743e-5)
    assert made.below(0.0) == 0.0
    assert made.above(0.0) == 1.0
