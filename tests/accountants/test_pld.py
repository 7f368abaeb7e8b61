"""The accountant by discretised losses: directions, edges, histories, calibration, grids of its own."""

import math

import numpy as np
import pytest

import fastacct as fa
from fastacct import reference
from fastacct.accountants.pld import PLD
from fastacct.core.bounds import Status
from fastacct.readers.asked import Ask
from tests.containment import holds
from tests.grids import on_grid, step


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
    assert both.upper == remove.upper
    value = fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5, accountant=PLD())
    assert 1.828236666516577 <= value <= 1.828236666516577 * (1 + 1e-4)


def test_the_accountant_broadcasts_and_knows_the_edges():
    lower, upper, status = pld("epsilon", 10.0, 1.0, 100, [0.0, 1e-5, 1.0])
    assert upper[0] == math.inf
    assert upper[1] == pytest.approx(4.3771780956812246, rel=1e-4, abs=0.0)  # its tolerance
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
    parts = [
        (step(1.0, 0.01, "remove"), 500),
        (step(2.0, 0.02, "remove"), 300),
    ]
    for i, epsilon in enumerate((1.0, 1.5)):
        same = on_grid(parts, epsilon=epsilon)
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


def test_a_tolerance_of_nothing_is_refused():
    with pytest.raises(ValueError, match="tolerance"):
        PLD(tolerance=0.0)


@pytest.mark.parametrize("neighbors", ["add", "remove"])
@pytest.mark.parametrize("job", [fa.Gaussian(1.0) * 3, fa.Gaussian(1.0).poisson(0.05) * 10], ids=repr)
def test_sums_of_mixtures_are_on_a_grid_where_no_line_is_asked(job, neighbors):
    """The line says more of mixtures, and these accountants do not ask it; pure guarantees are known of some."""
    exact = fa.epsilon_bounds(job, delta=1e-4, neighbors=neighbors)
    grid = fa.epsilon_bounds(job, delta=1e-4, neighbors=neighbors, accountant=fa.PLD())
    assert grid.lower <= exact.upper
    assert exact.lower <= grid.upper <= grid.lower * 1.0003


def test_of_a_pair_that_only_dominates_there_is_no_lower_bound():
    """Laplace noise of one dimension stands for that of three, whose losses are smaller."""
    for job in (fa.LaplaceL2(2.0, dimension=3), fa.LaplaceL2(2.0, dimension=3) * 4 + fa.Laplace(3.0)):
        lower, upper, status = fa.epsilon_bounds(job, delta=1e-5, accountant=PLD())
        assert lower == 0.0 < upper
        assert status == Status.LOOSE
        assert fa.delta_bounds(job, epsilon=0.1, accountant=PLD()).lower == 0.0
    assert fa.epsilon_bounds(fa.LaplaceL2(2.0, dimension=1), delta=1e-5, accountant=PLD()).lower > 0.0
