"""What a question on grids may cost: counted, the same whatever was asked before, and safe where it ends."""

import numpy as np
import pytest

import fastacct as fa
from fastacct.readers import cell
from fastacct.readers.grid import reader
from fastacct.readers.renyi import Renyi


def job():
    """A new one each time: nothing is kept of earlier questions."""
    return fa.Skellam(30.0) * 4 + fa.PureDP(0.1) * 3


@pytest.mark.parametrize("most", [1.0, 100.0, 1e3])
def test_where_work_ends_bounds_hold_and_do_not_depend_on_earlier_questions(monkeypatch, most):
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
