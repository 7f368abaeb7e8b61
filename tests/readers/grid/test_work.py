"""What a question on grids may cost: counted, the same whatever was asked before, and safe where it ends."""

import itertools
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.core.work import counted
from fastacct.losses.loss import Part
from fastacct.readers import cell
from fastacct.readers.grid import reader
from fastacct.readers.renyi import Renyi


def job():
    """A new one each time: nothing is kept of earlier questions."""
    return fa.Skellam(30.0) * 4 + fa.PureDP(0.1) * 3


@pytest.mark.parametrize("most", [1.0, 100.0, 1e3])
def test_where_work_ends_bounds_hold_and_do_not_depend_on_earlier_questions(monkeypatch, most):
    monkeypatch.setattr(cell.Smoothed, "is_possible", lambda *_: False)
    right = fa.epsilon_bounds(job(), delta=1e-6)
    deltas = np.geomspace(1e-12, 1e-2, 9)
    monkeypatch.setattr(reader, "_MOST_WORK", most)
    alone = fa.epsilon_bounds(job(), delta=1e-6)
    assert alone.lower <= right.upper
    assert alone.upper >= right.lower
    asked = job()
    assert (np.diff(fa.epsilon(asked, delta=deltas)) <= 0.0).all()
    fa.delta(asked, epsilon=[0.1, 1.0, 5.0])
    assert fa.epsilon_bounds(asked, delta=1e-6) == alone
    assert alone.upper - alone.lower > right.upper - right.lower


def test_epsilon_at_delta_0_needs_no_grid(monkeypatch):
    monkeypatch.setattr(cell, "Grid", None)
    parts = fa.Laplace(1.15).poisson(0.98) * 3 + fa.Exponential(0.015) * 3
    assert fa.epsilon(parts, delta=0.0, neighbors="remove") == parts.pure_epsilon("remove")


def test_many_different_rare_steps_are_not_asked_for_their_divergences(monkeypatch):
    """Twenty took seven minutes under replace-one."""

    def refuse(*_):
        raise AssertionError("divergences of many mixtures")

    monkeypatch.setattr(Renyi, "epsilon", refuse)
    steps = [fa.Gaussian(0.45 + 0.01 * i).poisson(4e-6) * (10 + i) for i in range(12)]
    lower, upper, _ = fa.epsilon_bounds(sum(steps, fa.Process()), delta=1e-4, neighbors="replace_one")
    assert 0.0 <= lower <= upper < 0.1
    assert upper >= fa.epsilon_lower(sum(steps, fa.Process()), delta=1e-4)


def test_a_delta_of_nothing_takes_few_compositions(monkeypatch):
    """26 grids of two million points took half a minute."""
    p, q = (0.1233, 0.0508, 0.7402), (0.0526, 0.6575, 0.2520)
    made, composition = [], reader.Composition
    monkeypatch.setattr(reader, "Composition", lambda *parts: made.append(parts) or composition(*parts))
    job = fa.Gaussian(15.56).poisson(1.111e-6) * 2 + fa.from_pmf([*p, 1.0 - sum(p)], [*q, 1.0 - sum(q)]) * 224
    lower, upper, _ = fa.delta_bounds(job, epsilon=350.1618264852739, neighbors="remove")
    assert lower == 0.0
    assert upper < 1e-300
    assert len(made) <= 6


def test_an_upper_bound_alone_is_that_of_the_bounds():
    """Coarse grids may agree and be far off: what is asked alone is as small as with its lower bound."""
    beside = fa.Gaussian(5000.0).poisson(0.01) * 1000
    for made, delta in ((fa.Laplace(5.0) * 5 + beside, 1e-6), (fa.Laplace(5.0) * 5 + beside, 1e-10)):
        assert fa.epsilon(made, delta=delta) <= fa.epsilon_bounds(made, delta=delta).upper * (1.0 + 1e-12)
    sample = fa.DiscreteLaplace(3.0).poisson(0.5) * 7 + fa.Gaussian(2000.0).poisson(0.1) * 100
    assert fa.epsilon(sample, delta=1e-6) <= fa.epsilon_bounds(sample, delta=1e-6).upper * (1.0 + 1e-12)


def grid(mechanism, count, tolerance=1e-6):
    one = mechanism.losses("remove").remove
    return reader.Grid([Part(one.upper, one.lower, count)], tolerance)


def test_that_epsilon_is_infinite_takes_no_composition(monkeypatch):
    monkeypatch.setattr(reader.Grid, "_composed", None)
    table = fa.from_pmf([0.5, 0.499, 0.001], [0.5, 0.5, 0.0])
    assert grid(table, 1000).epsilon(0.1) == (math.inf, math.inf, fa.Status.NOT_MET)
    # of draws with replacement at a delta of 1e-320 the finest cells took 14 s; the mass is the same in coarse ones
    sizes, measure = [], reader.lower_measure
    monkeypatch.setattr(
        reader, "lower_measure", lambda *given: sizes.append((one := measure(*given)).dots.mass.size) or one
    )
    noise, lost = grid(fa.Gaussian(1.0).poisson(0.1), 3), fa.ApproxDP(0.1, 1e-3).losses("remove").remove
    both = reader.Grid([*noise._parts, Part(lost.upper, lost.lower, 2)], 1e-6)
    assert 1.999e-3 * (1.0 - 1e-3) < both._surely_infinite <= 1.999e-3
    assert max(sizes) < 1 << 11


def test_where_no_grid_is_fine_enough_the_lower_one_is_coarser(monkeypatch):
    monkeypatch.setattr(reader, "_MOST_WORK", 300.0)
    one = grid(fa.DiscreteGaussian(3.7).poisson(0.3), 50)
    lower, upper, status = one.delta(1.0)
    assert 0.0 < lower < upper < 2.0 * lower
    assert status == fa.Status.LOOSE
    spacing = {
        is_upper: min(w.spacing if is_upper else w.below.spacing for key, w in one._kept.items() if key[2] == is_upper)
        for is_upper in (True, False)
    }
    assert spacing[False] > 1.4 * spacing[True]


def test_deltas_far_below_what_is_told_from_nothing_take_one_coarse_grid():
    one = grid(fa.Gaussian(1.0).poisson(0.1), 3)
    far = one.delta(80.0)
    assert far.lower == 0.0
    assert far.upper < 1e-290
    assert [key[2] for key in one._kept] == [True]
    assert max(w.mass.size for w in one._kept.values()) <= 1 << 15


def test_losses_that_hardly_ever_occur_do_not_make_the_grid_coarse():
    """The bulk of these losses is 1e-4 wide, and the largest is 10: epsilon was 0.18."""
    sample = fa.DiscreteGaussian(2.0).poisson(1e-4)
    lower, upper, _ = fa.epsilon_bounds(sample * 5, delta=1e-8)
    assert 0.0 < lower < upper < lower * (1.0 + 1e-5)
    x = np.arange(-20, 22)
    weight, moved = np.exp(-(x**2) / 8.0), np.exp(-((x - 1) ** 2) / 8.0)
    q = weight / weight.sum()
    p = (1.0 - 1e-4) * q + 1e-4 * moved / moved.sum()
    kinds = [(math.log(a / b), a) for a, b in zip(p.tolist(), q.tolist(), strict=True) if a > 1e-14]
    delta = dict.fromkeys((lower, upper), 0.0)
    for each in itertools.combinations_with_replacement(kinds, 5):
        loss, mass = sum(one for one, _ in each), math.prod(one for _, one in each)
        often = math.factorial(5) / math.prod(math.factorial(each.count(one)) for one in set(each))
        for at in delta:
            if loss > at:
                delta[at] += often * mass * -math.expm1(at - loss)
    assert delta[upper] <= 1e-8 * (1.0 + 1e-9)
    assert delta[lower] >= 1e-8 * (1.0 - 1e-9)


def test_looking_for_the_place_of_a_coarse_grid_is_work():
    """A trade-off of fifty-six alternatives looked for thousands, and ended nowhere."""
    for quantity, target in (("delta", 1.0), ("epsilon", 1e-5)):
        one = grid(fa.Gaussian(2.0).with_replacement(draws=20, records=400), 30, 1e-3)
        works = []
        for _ in range(2):
            with counted() as done:
                one.at_most(quantity, target)
            works.append(sum(done.values()))
        composed = sum(1e3 * one._place(key[0]).work / window.spacing for key, window in one._kept.items())
        assert works[0] == works[1] >= composed + 600.0 * one._whole[0][1].size
