"""Cells that share (noise_multiplier, sample_rate) share work over orders, and no bit of an answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fastacct as fa
from fastacct_ext import _kernels

Arrays = dict[str, NDArray[np.float64]]

QUESTIONS = pytest.mark.parametrize("ask", [fa.dpsgd.epsilon, fa.dpsgd.delta])
CONVERSIONS = pytest.mark.parametrize("conversion", ["canonne_kamath_steinke", "mironov"])


def shared_grid(groups: int, each: int, seed: int, ask: Any, *, extreme: bool = False) -> Arrays:
    """Cells sorted so that `each` of them share noise and rate."""
    rng = np.random.default_rng(seed)
    n = groups * each
    reach = (-12, 0, 0.02, 100.0, 9, -200) if extreme else (-4, -1, 0.4, 8.0, 5, -10)
    target = (
        {"delta": 10 ** rng.uniform(reach[5], -0.1 if extreme else -4, n)}
        if ask is fa.dpsgd.epsilon
        else {"epsilon": np.exp(rng.uniform(-5, 4, n))}
    )
    return {
        "noise_multiplier": np.repeat(np.exp(rng.uniform(np.log(reach[2]), np.log(reach[3]), groups)), each),
        "sample_rate": np.repeat(10 ** rng.uniform(reach[0], reach[1], groups), each),
        "steps": np.floor(10 ** rng.uniform(0, reach[4], n)),
        **target,
    }


@QUESTIONS
@CONVERSIONS
@pytest.mark.parametrize("extreme", [False, True])
def test_a_cell_of_a_shared_grid_has_the_bits_that_it_has_alone(ask: Any, conversion: Any, extreme: bool) -> None:
    run = shared_grid(12, 50, 1, ask, extreme=extreme)
    options = {"accountant": fa.RDP(conversion=conversion), "threads": 1}
    together = ask(**run, **options)
    for i in np.random.default_rng(2).permutation(together.size)[:150]:
        assert ask(**{name: float(value[i]) for name, value in run.items()}, **options) == together[i]


@QUESTIONS
@CONVERSIONS
def test_the_order_of_cells_and_the_cutting_change_no_bit(ask: Any, conversion: Any) -> None:
    run = shared_grid(8, 400, 3, ask)
    accountant = fa.RDP(conversion=conversion)
    together = ask(**run, accountant=accountant, threads=1)
    rng = np.random.default_rng(4)
    within = np.lexsort((rng.random(together.size), run["noise_multiplier"]))
    for index in (rng.permutation(together.size), within, within[::-1]):
        mixed = {name: value[index] for name, value in run.items()}
        np.testing.assert_array_equal(ask(**mixed, accountant=accountant, threads=1), together[index])
        np.testing.assert_array_equal(ask(**mixed, accountant=accountant, threads=2), together[index])
    pieces = [
        ask(**{name: value[i : i + 7] for name, value in run.items()}, accountant=accountant, threads=1)
        for i in range(0, together.size, 7)
    ]
    np.testing.assert_array_equal(np.concatenate(pieces), together)


def test_more_orders_than_leaves_are_kept_change_no_bit() -> None:
    rng = np.random.default_rng(5)
    n = 3000
    run = {
        "noise_multiplier": 8.0,
        "sample_rate": 1e-4,
        "steps": np.floor(10 ** rng.uniform(0, 12, n)),
        "delta": 10 ** rng.uniform(-250, -1, n),
    }
    together = fa.dpsgd.epsilon(**run, accountant=fa.RDP(), threads=1)
    for i in range(0, n, 20):
        alone = run | {"steps": run["steps"][i], "delta": run["delta"][i]}
        assert fa.dpsgd.epsilon(**alone, accountant=fa.RDP()) == together[i]


@QUESTIONS
def test_the_best_order_of_a_shared_cell_is_at_least_as_good_as_every_listed_one(ask: Any) -> None:
    run = shared_grid(20, 20, 6, ask)
    best = ask(**run, accountant=fa.RDP())
    for orders in (np.linspace(1.05, 3, 40), np.geomspace(2, 2000, 60)):
        assert (best <= ask(**run, accountant=fa.RDP(orders=orders)) * (1 + 1e-12)).all()


def test_many_deltas_of_one_job_are_those_of_single_runs() -> None:
    deltas = np.geomspace(1e-12, 1e-2, 150)
    job = 1000 * fa.Gaussian(1.1).poisson(0.01)
    together = fa.epsilon(job, delta=deltas, accountant=fa.RDP())
    runs = {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 1000}
    np.testing.assert_array_equal(together, fa.dpsgd.epsilon(**runs, delta=deltas, accountant=fa.RDP()))


@CONVERSIONS
def test_listing_every_order_near_the_best_one_finds_the_same_epsilon(conversion: Any) -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        run = {
            "noise_multiplier": np.exp(rng.uniform(-0.9, 2.0)),
            "sample_rate": 10 ** rng.uniform(-4, -1),
            "steps": np.floor(10 ** rng.uniform(1, 5)),
            "delta": 10 ** rng.uniform(-10, -4),
        }
        best = fa.dpsgd.epsilon(**run, accountant=fa.RDP(conversion=conversion))
        coarse = np.geomspace(0.05, 1e5, 600)
        each = [
            fa.dpsgd.epsilon(**run, accountant=fa.RDP(conversion=conversion, orders=[1 + a])) for a in coarse.tolist()
        ]
        near = coarse[int(np.argmin(each))]
        fine = 1 + near * np.linspace(0.98, 1.02, 4001)
        listed = fa.dpsgd.epsilon(**run, accountant=fa.RDP(conversion=conversion, orders=fine))
        assert best <= listed * (1 + 3e-13)
        assert best >= listed * (1 - 3e-4)  # the list is coarse where the best order is sharp


def test_levels_of_instructions_agree() -> None:
    run = shared_grid(30, 30, 7, fa.dpsgd.epsilon)
    names = ["baseline", "x86-64-v3", "x86-64-v4"]
    answers = []
    for name in names:
        try:
            _kernels.select(name)
        except ValueError:
            continue
        try:
            assert _kernels.level() == name
            answers.append(fa.dpsgd.epsilon(**run, accountant=fa.RDP(), threads=1))
        finally:
            _kernels.select()
    if len(answers) == 1:
        pytest.skip("this processor has one level of instructions: nothing to compare")
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], rtol=1e-12, atol=0)


def test_the_steps_that_an_epsilon_allows_are_those_it_was_computed_for() -> None:
    rng = np.random.default_rng(8)
    n = 200
    run = {
        "noise_multiplier": rng.uniform(0.5, 4, n),
        "sample_rate": 10 ** rng.uniform(-4, -1, n),
        "delta": 10 ** rng.uniform(-10, -4, n),
    }
    steps = np.floor(10 ** rng.uniform(0, 5, n))
    epsilon = fa.dpsgd.epsilon(**run, steps=steps, accountant=fa.RDP())
    again = fa.dpsgd.steps(epsilon=epsilon, **run, accountant=fa.RDP())
    assert (again >= steps).all()
    assert (fa.dpsgd.epsilon(**run, steps=again, accountant=fa.RDP()) <= epsilon).all()
