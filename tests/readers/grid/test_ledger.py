"""Each entry of the grid's ledger is needed: the bounds hold with it, and without it they do not.

Every job here is made so that one entry matters; taking that entry out of the ledger must break the containment.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import fastacct as fa
from fastacct.core.inputs import Cells
from fastacct.losses.loss import Atoms, Bracket, Masses, Part
from fastacct.losses.measure import GridMeasure, lower_measure, upper_measure
from fastacct.mechanisms.finite import PairOfTables
from fastacct.readers.grid import reader
from fastacct.readers.grid.composition import Composition
from fastacct.readers.grid.place import moved_up
from fastacct.readers.grid.reader import Grid
from tests.grids import lower_delta, part
from tests.grids import window as on_window

STEP, COUNT, SHARE = 0.125, 40, 0.2


def binomial_delta(epsilon: float, shift: float = 0.0) -> float:
    """Delta of COUNT releases whose loss is STEP with probability SHARE, else -STEP, each moved by `shift`."""
    terms = (
        math.comb(COUNT, k) * SHARE**k * (1.0 - SHARE) ** (COUNT - k) * -math.expm1(epsilon - loss)
        for k in range(COUNT + 1)
        if (loss := (2 * k - COUNT) * STEP + COUNT * shift) > epsilon
    )
    return math.fsum(terms)


def two_points(slack: float = 0.0) -> GridMeasure:
    return GridMeasure(-STEP, STEP, np.array([1.0 - SHARE, 0.0, SHARE]), 0.0, slack)


def violations(is_upper: bool, shift: float, tilt: float, **dropped: float) -> int:
    """At how many epsilons the bound of one side is on the wrong side of the truth."""
    composition = Composition([(two_points(abs(shift)), COUNT)], is_upper)
    window = replace(composition.window(tilt, -46.0, 1 << 16), **dropped)
    bad = 0
    for epsilon in np.linspace(0.1, 4.6, 46).tolist():
        truth, found = binomial_delta(epsilon, shift), window.finite(epsilon)
        bad += found < truth * (1.0 - 1e-9) if is_upper else found > truth * (1.0 + 1e-9)
    return bad


@pytest.mark.parametrize("is_upper", [True, False])
def test_the_error_of_the_transform_is_paid(is_upper):
    """Without a tilt, deltas of 1e-20 are below the rounding of the transform."""
    assert binomial_delta(4.6) < 1e-20
    assert violations(is_upper, 0.0, 0.0) == 0
    assert violations(is_upper, 0.0, 0.0, each_error=0.0, norm_error=0.0) > 0


@pytest.mark.parametrize("place", [1, 500])
@pytest.mark.parametrize(("way", "share", "count"), [("back", 0.001, 2), ("there", 0.4, 8)])
def test_a_transform_as_bad_as_its_bound_is_paid(monkeypatch, way, share, count, place):
    """Its error, 8 u log2(n) of the 2-norm, is at one mass: of the sum, or of a release less its largest mass."""
    size, known = 1 << 10, np.zeros(1 << 10)
    known[: 2 * count + 1 : 2] = [
        math.comb(count, k) * share**k * (1.0 - share) ** (count - k) for k in range(count + 1)
    ]
    norm_of = math.sqrt(float(np.sum(known * known))) if way == "back" else share
    worst = 0.99 * 8.0 * 2.0**-53 * 10.0 * norm_of
    there, back, at = np.fft.rfft, np.fft.irfft, worst * (np.arange(size) == place)
    if way == "back":
        monkeypatch.setattr(np.fft, "irfft", lambda x, n: back(x, n) + at)
    else:
        monkeypatch.setattr(np.fft, "rfft", lambda x: there(x + at))
    one = GridMeasure(-STEP, STEP, np.array([1.0 - share, 0.0, share]), 0.0, 0.0)
    masses, each, norm, _ = Composition([(one, count)], True)._convolve(0.0, size)
    off = np.abs(masses - known)
    assert off.max() >= 0.9 * worst
    assert off.max() <= each
    assert math.sqrt(float(np.sum(off * off))) <= norm


@pytest.mark.parametrize(("is_upper", "shift"), [(True, 1e-3), (False, -1e-3)])
def test_the_slack_of_a_sum_is_paid_once_for_each_release(is_upper, shift):
    assert violations(is_upper, shift, 2.0) == 0
    assert violations(is_upper, shift, 2.0, slack=abs(shift)) > 0


class Slipped(Atoms):
    """Losses that are told from where they are by `off`."""

    off: float

    def masses(self, edges: Cells, tail: float, side: float) -> Masses:
        moved = Atoms(self.loss - side * self.off, self.loss_error, self.mass).masses(edges, tail, side)
        return moved._replace(slip=moved.slip + self.off)


@pytest.mark.parametrize("off", [1e-4, 3e-3, 2e-2])
def test_losses_that_slip_from_their_cells_are_paid(off):
    """Both where they lie on the grid and in how their masses are split between two points."""
    loss, mass = np.array([-0.4, 0.296, 0.304]), np.array([0.3, 0.35, 0.35])
    source = Slipped(loss, np.zeros(3), mass, off, anchor=0.0)
    upper, lower = on_window(upper_measure(source, 0.01, 0.0), True), lower_measure(source, 0.01, 0.0)
    for epsilon in (0.2, 0.25, 0.28, 0.2995):
        truth = math.fsum(m * -math.expm1(epsilon - x) for x, m in zip(loss, mass, strict=True) if x > epsilon)
        assert lower_delta(lower, epsilon) <= truth <= upper.delta(epsilon)
        assert upper.delta(epsilon) - truth <= 5.0 * off + 1e-3


def test_masses_that_underflow_stay_on_their_side():
    """Products of subnormal masses round to nothing: such a mass goes to the safe side as a whole."""
    loss, mass = np.array([-0.2, 0.1, 0.3001]), np.array([0.6, 0.4, 3e-323])
    none = np.zeros(3)
    one = Bracket(Atoms(loss, none, mass), Atoms(loss, none, mass))
    top = Grid([part(one, 2)], 1e-4, spacing=7e-3).epsilon(0.0)
    assert top.lower <= 2 * 0.3001 <= top.upper


def test_bounds_do_not_rise_where_targets_change_their_tilt():
    job, way = fa.Laplace(2.0).poisson(0.5) * 30, "remove"
    for verb, key, border in (("epsilon", "delta", 2.3829394973828693e-14), ("delta", "epsilon", 8.376861621640199)):
        targets = np.array([border * (1.0 - 1e-9), np.nextafter(border, 0.0), border, border * (1.0 + 1e-9)])
        found = getattr(fa, verb)(job, **{key: targets}, neighbors=way)
        assert (np.diff(found) <= 0.0).all()
        assert found[2] == getattr(fa, verb)(job, **{key: border}, neighbors=way)


def lone_atoms() -> tuple[Part, Atoms]:
    """Losses between the points of any grid, too far apart for masses to be moved together."""
    loss, mass = np.array([-0.3137, 0.1742, 0.6059]), np.array([0.3, 0.45, 0.25])
    source = Atoms(loss, np.zeros(3), mass, anchor=0.0)
    return Part(source, source, 6), source


def sums_delta(source: Atoms, count: int, epsilon: float) -> float:
    """Delta of all sums."""
    loss, mass = np.zeros(1), np.ones(1)
    for _ in range(count):
        loss, mass = np.add.outer(loss, source.loss).ravel(), np.multiply.outer(mass, source.mass).ravel()
    return math.fsum((mass * -np.expm1(np.minimum(epsilon - loss, 0.0))).tolist())


@pytest.mark.parametrize("epsilon", [1.4207, 1.8524, 1.9086, 2.772])  # sums of six
def test_what_lone_losses_leave_above_the_truth_is_taken_away(epsilon):
    part, source = lone_atoms()
    truth, grid = sums_delta(source, 6, epsilon), Grid([part], 1e-2, spacing=0.01)
    lower = grid._composed(grid._at(epsilon), 0, False)
    assert 0.8 * truth < lower.delta(epsilon) <= truth
    assert lower.epsilon(truth) <= epsilon
    assert lower.below.delta(epsilon) > truth
    assert lower.rest(epsilon) <= lower._replace(dots=None, more=None).rest(epsilon)


@pytest.mark.parametrize("epsilon", [0.42, 0.84, 1.68])
def test_what_is_left_is_looked_for_as_far_as_dots_may_be_away(epsilon):
    """Sums of 40 losses are 21 points apart, those of their dots around them."""
    loss = np.array([-0.105, 0.105])  # amid cells
    source = Atoms(loss, np.zeros(2), np.array([0.5, 0.5]), anchor=0.0)
    grid = Grid([Part(source, source, 40)], 1e-2, spacing=0.01)
    truth = math.fsum(math.comb(40, k) * 0.5**40 * max(0.0, -math.expm1(epsilon - 0.21 * (k - 20))) for k in range(41))
    found = grid.delta(epsilon)
    assert found.lower <= truth <= found.upper


def test_the_rest_reaches_as_far_as_sums_of_dots_may_be_away():
    _, source = lone_atoms()
    grid = Grid([Part(source, source, 2)], 1e-2, spacing=0.01)
    lower, at = grid._composed(grid._at(0.7801), 0, False), 0.1742 + 0.6059
    far = math.sqrt(1.5 * 2) * 0.01
    assert min(lower.rest(at - far), lower.rest(at + far)) > 0.5 * lower.rest(at) > 0.0
    assert lower.rest(at + 0.1) < 1e-6 * lower.rest(at)


@pytest.mark.parametrize("count", [2, 6, 20])
def test_the_largest_loss_is_not_that_of_the_dots(count):
    part, _ = lone_atoms()
    assert Grid([replace(part, count=count)], 1e-2).epsilon(0.0).lower <= 0.6059 * count


def test_an_infinite_loss_does_not_hide_that_little_is_left():
    loss, mass = np.array([-0.3137, 0.1742, 0.447018]), np.array([0.3, 0.7 - 1e-5, 4e-41])
    source = Atoms(loss, np.zeros(3), mass, infinite=1e-5, anchor=0.0)
    found = Grid([Part(source, source, 1)], 1e-2, spacing=0.1).epsilon(1e-5)
    assert found.lower <= 0.447018


@pytest.mark.parametrize("count", [1, 4])
def test_slack_beyond_a_cell_widens_where_the_rest_is_looked_for(monkeypatch, count):
    """The truth may be the losses less the slack."""

    def slack(*given):
        found = lower_measure(*given)
        below, dots = (replace(one, slack=one.slack + 0.08) for one in (found.below, found.dots))
        return replace(found, below=below, dots=dots)

    monkeypatch.setattr(reader, "lower_measure", slack)
    for top in np.linspace(0.4, 0.41, 5):
        source = Atoms(np.array([top - 0.9, top]), np.zeros(2), np.array([0.5, 0.5]), anchor=0.0)
        grid = Grid([Part(source, source, count)], 1e-2, spacing=0.01)
        low = replace(source, loss=source.loss - 0.08)
        for epsilon in np.linspace(0.0, count * 0.42, 60):
            assert grid.delta(epsilon).lower <= sums_delta(low, count, epsilon) + 1e-13


def test_mass_below_a_floor_is_rounded_down():
    """It counts where another release has an infinite loss; a sum of 50,000 terms is off by as many roundings."""
    source = Atoms(np.zeros(50_000), np.zeros(50_000), np.full(50_000, 1.0 / 50_000), anchor=0.0)
    lowered = lower_measure(source, 0.01, 0.0, 0.9)
    assert 1.0 - 1e-10 < lowered.below.bottom <= math.fsum(source.mass.tolist())


def test_upper_bounds_of_a_coarse_grid_fall():
    job = fa.Laplace(8.607348810282607).poisson(0.27014630048896915) * 49
    found = fa.delta(job, epsilon=[0.0, 1.47381853, 4.9923047], neighbors="add", accountant=fa.PLD(spacing=0.1))
    assert (np.diff(found) <= 0.0).all()


@pytest.mark.parametrize("epsilon", [0.003, 4.21, 12.6, 40.0])
def test_dots_of_many_lone_losses_are_moved_back(epsilon):
    """What is left of 4,000 losses amid cells, in all cells where their dots may be, is more than there is."""
    loss = np.array([-0.105, 0.105])
    source = Atoms(loss, np.zeros(2), np.array([0.5, 0.5]), anchor=0.0)
    grid = Grid([Part(source, source, 4000)], 1e-2, spacing=0.01)
    truth = math.fsum(
        math.comb(4000, k) / 2**4000 * -math.expm1(epsilon - 0.21 * (k - 2000))
        for k in range(2001, 4001)
        if 0.21 * (k - 2000) > epsilon
    )
    lower = grid._composed(grid._at(epsilon), 0, False)
    assert 0.0 < lower.delta(epsilon) <= truth < lower._replace(below=replace(lower.below, slack=0.0)).delta(epsilon)
    assert 0.7 * epsilon - 3.0 < lower.epsilon(truth) <= epsilon


@pytest.mark.parametrize("tilt", [0.0, 9.0])
def test_sums_of_dots_are_hardly_ever_further_above_than_is_said(tilt):
    """Dots at both ends of a cell have the mean of exp(-loss) of a loss amid it: their own mean is above."""
    n, spacing, log_rarely = 40_000, 0.1, -30.0
    loss = 0.5 * spacing
    up = -math.expm1(-loss) / -math.expm1(-spacing)
    tilted = up * math.exp(tilt * spacing) / (1.0 - up + up * math.exp(tilt * spacing))
    chance = binom(n, tilted)
    spread = spacing * math.sqrt(-0.5 * n * log_rarely)
    assert chance.logsf(math.floor((moved_up(n, spacing, tilt, log_rarely) + n * loss) / spacing)) <= log_rarely
    assert chance.logsf(math.floor((spread + n * loss) / spacing)) > 0.9 * log_rarely  # which is not enough


def test_a_lattice_is_kept_beside_others_that_do_not_share_it():
    """Two losses 20,000 times are on a lattice; what occurs once or is a density beside them is rounded alone."""
    p, step, many = 0.15, 0.6665, 20_000
    two = Atoms(np.array([-0.0755, step - 0.0755]), np.zeros(2), np.array([1.0 - p, p]))
    other, _ = lone_atoms()
    grid = Grid([Part(two, two, many), replace(other, count=1)], 1e-6)
    centre = many * (p * step - 0.0755)
    chance = binom(many, p)
    for epsilon in (centre + 10.0, centre + 200.0):
        k = np.arange(many + 1)
        each = [
            float(np.sum(chance.pmf(k) * -np.expm1(np.minimum(epsilon - moved - k * step + many * 0.0755, 0.0)))) * mass
            for moved, mass in zip(other.upper.loss, other.upper.mass, strict=True)
        ]
        found = grid.delta(epsilon)
        assert found.status == fa.Status.TIGHT
        assert found.lower * (1.0 - 1e-9) <= math.fsum(each) <= found.upper * (1.0 + 1e-9)


def test_the_larger_of_two_lower_ends_of_lone_losses_counts():
    """What is left seems more than moving all dots back, and is less."""
    table = PairOfTables(
        p=(7.06e-113, 9.006177954993354e-40, 6.63e-100, 1.0, 1.7062114400665785e-20),
        q=(0.41616584886222974, 0.0013890075113295616, 0.03523804638756864, 0.002091431077246023, 0.5451156661616261),
    )
    job = fa.PureDP(559.1472780531299) + table.poisson(0.20923938554581545) * 994 + fa.PureDP(72.24637495349978)
    assert fa.epsilon_bounds(job, delta=1.117e-30, neighbors="remove").status == fa.Status.TIGHT
