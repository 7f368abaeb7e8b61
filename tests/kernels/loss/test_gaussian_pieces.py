"""Batches of fixed and of bounded size on the contour: losses with a Gaussian density as data."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastacct as fa
from fastacct import reference
from fastacct.losses.atoms import pieces_of
from fastacct.losses.loss import OutOfReachError
from fastacct.losses.panels import PiecesPair, drawn, replaced_pieces, sampled_pieces, symmetric_pieces
from fastacct.samplers.poisson import sample
from fastacct.samplers.truncated import kept_at_most, truncation
from tests.containment import is_above

ROUNDED = 1e-11  # of a truth that is summed in doubles
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(20)


def nodes(pieces):
    """Losses and masses under Q of the pair itself: Gauss points of fine panels, up to 30 standard deviations."""
    loss, mass = [pieces.atoms[:, 0]], [np.exp(pieces.atoms[:, 1])]
    for low, _, peak, _, rate, _, _, _, curve, centre, turned, other in pieces.panels.tolist():
        wide = curve**-0.5
        low = max(low, centre - (30.0 + wide) * wide)
        breaks = np.linspace(low, centre + (30.0 + wide) * wide, 500)
        half = 0.5 * np.diff(breaks)[:, None]
        x = (breaks[:-1, None] + half * (1.0 + POINTS)).ravel()
        back = np.log1p(rate * np.expm1(-x - other)) if other else 0.0
        ratio = np.log1p(rate * np.expm1(x)) - back
        density = np.exp(peak - 0.5 * curve * (x - centre) ** 2 + back + turned * ratio)
        loss.append(-ratio if turned else ratio)
        mass.append((half * WEIGHTS).ravel() * density)
    return np.concatenate(loss), np.concatenate(mass)


def delta_of(pieces, steps, epsilon, direction="remove"):
    """The integral of its own inverse Laplace transform, by the trapezoid rule."""
    loss, mass = nodes(pieces)
    if direction == "add":
        loss, mass = -loss, mass * np.exp(loss)
    c = 3.0
    while steps * np.log(mass @ np.exp(c * loss)) > 8.0:
        c = 1.0 + 0.7 * (c - 1.0)
    total, t, h = 0.0, 0.0, 0.02 / max(1.0, epsilon)
    while True:
        u = c + 1j * (t + h * np.arange(200))
        moment = np.exp(np.outer(u, loss)) @ mass
        value = np.real(moment**steps * np.exp(-(u - 1.0) * epsilon) / (u * (u - 1.0)))
        total += h * (value.sum() - (0.5 * value[0] if t == 0.0 else 0.0))
        if np.abs(moment[-1]) ** steps < 1e-15 * total:
            return total / math.pi
        t += 200 * h


@pytest.mark.parametrize(("noise", "rate", "steps"), [(5.0, 0.1, 200), (3.0, 0.05, 400), (8.0, 0.5, 60)])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_symmetric_pair_is_certified(noise, rate, steps, epsilon):
    job = fa.Gaussian(noise).fixed_size(batch_size=rate * 1000.0, records=1000.0) * steps
    truth = delta_of(symmetric_pieces(2.0 / noise, rate), steps, epsilon)
    found = fa.delta_bounds(job, epsilon=epsilon, neighbors="replace_one").upper
    assert is_above(found, truth, 1e-9, ROUNDED)
    assert found == fa.delta_bounds(job, epsilon=epsilon, neighbors="zero_out").upper
    assert is_above(fa.epsilon_bounds(job, delta=truth, neighbors="replace_one").upper, epsilon, 1e-8, ROUNDED)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("relation", ["add_remove", "zero_out", "replace_one"])
def test_truncated_samples_are_certified(relation, direction):
    # half of the batches are cut
    step = fa.Gaussian(3.0).poisson(0.05, at_most=50, records=1000)
    if relation == "add_remove":
        found = fa.delta(step * 300, epsilon=0.5, neighbors=direction)
    else:
        found = fa.delta(step * 300, epsilon=0.5, neighbors=relation)
    given_ = truncation(0.05, 50, 1000)
    whole = replaced_pieces if relation == "replace_one" else sampled_pieces
    made = sampled_pieces if relation == "add_remove" else symmetric_pieces
    pieces = drawn([(given_.rest, whole(1.0 / 3.0, 0.05)), (given_.tau, made(2.0 / 3.0, given_.replaced))], 0.0)
    truth = delta_of(pieces, 300, 0.5, direction)
    if relation != "add_remove":
        truth = max(truth, delta_of(pieces, 300, 0.5, "remove"), delta_of(pieces, 300, 0.5, "add"))
    assert is_above(found, truth, 1e-9, ROUNDED)


def test_rare_truncation_changes_nothing():
    step = fa.Gaussian(1.0).poisson(0.01, at_most=800, records=60_000) * 1000
    lower, upper, status = fa.epsilon_bounds(step, delta=1e-5)
    exact = fa.epsilon_bounds(fa.Gaussian(1.0).poisson(0.01) * 1000, delta=1e-5)
    assert lower <= exact.upper
    assert exact.lower <= upper <= exact.upper * (1.0 + 1e-9)
    assert status == 0


@settings(max_examples=5, deadline=None)
@example(noise=3.90625, batch=1, steps=80, log_delta=-9.0)
@given(
    noise=st.floats(0.8, 20.0),
    batch=st.integers(1, 900),
    steps=st.integers(80, 2000),
    log_delta=st.floats(-20.0, -2.0),
)
def test_intervals_meet_those_of_a_grid(noise, batch, steps, log_delta):
    job, delta = fa.Gaussian(noise).fixed_size(batch_size=batch, records=1000) * steps, math.exp(log_delta)
    line = fa.epsilon_bounds(job, delta=delta, neighbors="replace_one")
    grid = fa.epsilon_bounds(job, delta=delta, neighbors="replace_one", accountant=fa.PLD())
    by_line = fa.explain(job, delta=delta, neighbors="replace_one").answered != ("two distributions, remove",)
    # where no line is certified both are grids, and PLD's tolerance is 1e-4
    assert line.upper <= grid.upper * (1.0 + (1e-9 if by_line else 1e-4))
    assert grid.upper * 0.99 <= line.upper
    assert grid.lower <= line.lower * (1.0 + 1e-9)


def test_a_target_has_the_same_bits_alone_and_among_others():
    job = fa.Gaussian(2.0).fixed_size(batch_size=10, records=1000) * 1000
    targets = np.array([1e-7, 1e-3, 1e-5, 2e-5])
    together = fa.epsilon(job, delta=targets, neighbors="replace_one")
    assert together.tolist() == [fa.epsilon(job, delta=one, neighbors="replace_one") for one in targets.tolist()]


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 3.0, 30.0])
def test_one_step_is_the_theorem(epsilon):
    # Balle, Barthe, Gaboardi 2018: q delta_0(log(1 + (e^x - 1)/q))
    noise, rate = 1.3, 0.02
    job = fa.Gaussian(noise).fixed_size(batch_size=20, records=1000) * 1
    inner = math.log1p(math.expm1(epsilon) / rate)
    truth = rate * float(reference.gaussian_delta(2.0 / noise, inner))
    assert is_above(fa.delta(job, epsilon=epsilon, neighbors="replace_one"), truth, 1e-9, ROUNDED)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_masses_between_losses_are_those_of_the_data(direction):
    parts = sampled_pieces(0.4, 0.3), symmetric_pieces(0.8, 0.1), replaced_pieces(0.6, 0.2)
    pieces = drawn(list(zip((0.4, 0.3, 0.3), parts, strict=True)), 0.0)
    loss, mass = nodes(pieces)
    if direction == "add":
        loss, mass = -loss, mass
    else:
        mass = mass * np.exp(loss)
    law = PiecesPair(pieces).side(direction).upper
    edges = np.array([-60.0, -0.3, -0.1, 0.02, 0.2, 0.9, 60.0])
    found = law.masses(edges, 1e-30, 1.0).mass
    where = np.clip(np.searchsorted(edges, loss, side="right") - 1, 0, 5)
    assert found.sum() == pytest.approx(1.0, rel=1e-12)
    assert found == pytest.approx(np.bincount(where, mass, minlength=6), rel=0.02)  # its panels are cut nowhere


def test_tiny_chances_of_truncation_are_infinite_losses():
    law = kept_at_most(0.05, 1e-4, truncation(1e-4, 300, 301), "zero_out")
    assert pieces_of(law.above) is not None
    assert law.above.pieces().lost.p[1] < 1e-250


@pytest.mark.parametrize("noise", [6e-3, 4e-3, 1e-3])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_hardly_any_noise_releases_the_record_when_it_is_drawn(noise, relation):
    step = fa.Gaussian(noise).fixed_size(batch_size=1, records=10)
    found = fa.delta_bounds(step, epsilon=1.0, neighbors=relation)
    assert found.lower <= 0.1 <= found.upper <= 0.1000001
    assert fa.epsilon(step * 3 + fa.Gaussian(1.0), delta=0.5, neighbors=relation) < 2.0 * (2.0 / noise) ** 2


def test_a_batch_is_not_sampled():
    with pytest.raises(OutOfReachError, match="not known"):
        sample(PiecesPair(symmetric_pieces(1.0, 0.1)), 0.5)


def test_logarithms_of_what_is_known_from_two_sides_are_tight():
    step = fa.Gaussian(1.0).poisson(0.01, at_most=800, records=60_000) * 1000
    assert fa.log_delta_bounds(step, epsilon=1.0).status == 0


def test_losses_out_of_reach_have_curves():
    assert fa.tradeoff(fa.Laplace(1e-3) * 2, fpr=0.1) == 0.0
