"""The readers of one cell: the larger direction decides, however little it is larger."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.loss import Atoms
from fastacct.readers.asked import EXACTLY
from fastacct.readers.cell import Side
from fastacct.readers.job import roughly


def delta_of(p, q, count, epsilon):
    """Of a table that is released a few times: the sum over all outcomes."""
    return math.fsum(
        max(0.0, math.prod(p[i] for i in one) - math.exp(epsilon) * math.prod(q[i] for i in one))
        for one in itertools.product(range(len(p)), repeat=count)
    )


TABLES = [((5, 6, 5), (4, 3, 9)), ((3, 6, 7), (7, 4, 5)), ((6, 6, 4), (2, 3, 11))]


@pytest.mark.parametrize(("p", "q"), TABLES)
def test_a_direction_that_is_a_little_larger_is_not_left_out(p, q):
    """On grids, where the first grid of a direction may say that it is not the larger one."""
    p, q = ([one / 16 for one in side] for side in (p, q))
    first, second = delta_of(p, q, 4, 1.0), delta_of(q, p, 4, 1.0)
    assert first * 1.01 < second < first * 1.05
    grid = fa.PLD(spacing=1e-3)
    found = fa.delta_bounds(fa.from_pmf(p, q) * 4, epsilon=1.0, accountant=grid)
    assert found.lower <= second * (1.0 + 1e-12)
    assert second * (1.0 - 1e-12) <= found.upper
    reached = fa.epsilon(fa.from_pmf(p, q) * 4, delta=second, accountant=grid)
    assert reached >= 1.0 - 1e-9


def test_losses_that_are_the_same_both_ways_hide_no_direction_of_others():
    job = fa.from_pmf([5 / 16, 6 / 16, 5 / 16], [4 / 16, 3 / 16, 9 / 16]) * 2 + fa.DiscreteLaplace(2.0) * 2
    first, second = (fa.delta_bounds(job, epsilon=1.0, neighbors=way) for way in ("remove", "add"))
    assert first.upper < second.lower
    for accountant in (fa.Exact(), fa.PLD(spacing=1e-3)):
        assert fa.delta(job, epsilon=1.0, accountant=accountant) >= second.lower


def test_what_is_roughly_known_is_of_the_larger_direction():
    job = fa.Laplace(3.0).poisson(0.2) * 20
    truth = fa.delta_bounds(job, epsilon=0.5)
    assert truth.lower <= roughly("delta", job, 0.5, "add_remove") <= 1.01 * truth.upper


def test_a_loss_that_is_surely_reached_is_that_of_the_lower_losses():
    """The upper ones may stand for more than there is."""

    def atoms(largest: float) -> Atoms:
        return Atoms(np.array([0.0, largest]), np.zeros(2), np.array([0.5, 0.5]))

    both = SimpleNamespace(lower=atoms(0.5), upper=atoms(0.7))
    pair = SimpleNamespace(one_release=lambda direction: None, side=lambda direction: both)
    assert 0.999999 < Side([(pair, 2)], "remove", EXACTLY).reached() <= 1.0
