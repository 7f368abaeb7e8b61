"""Losses of several releases together: each direction by itself, and errors of each release for all of them."""

import itertools
import math

import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.atoms import table
from fastacct.losses.loss import Atoms, Bracket, Pair
from fastacct.losses.total import total_losses
from fastacct.readers.single import Single

P, Q = np.array([5.0, 6.0, 5.0]) / 16.0, np.array([1.0, 12.0, 3.0]) / 16.0


def delta_of(loss, mass, count, epsilon):
    """The sum over all outcomes."""
    sums = itertools.product(zip(loss.tolist(), mass.tolist(), strict=True), repeat=count)
    return math.fsum(
        math.prod(m for _, m in one) * max(0.0, -math.expm1(epsilon - math.fsum(x for x, _ in one))) for one in sums
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.8])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_direction_has_its_own_losses(count, epsilon):
    found = total_losses([(Pair(table(P, Q), table(Q, P)), count)])
    for way, (p, q) in {"remove": (P, Q), "add": (Q, P)}.items():
        truth = delta_of(np.log(p / q), p, count, epsilon)
        bounds = Single(found.side(way)).delta(epsilon)
        assert bounds.lower <= truth <= bounds.upper
        assert bounds.upper - bounds.lower <= 1.5e-3  # an atom that nothing is next to is rounded down


@pytest.mark.parametrize("off", [1e-3, -1e-3])
def test_what_losses_may_be_off_by_is_paid_for_each_release(off):
    loss = np.log(P / Q)
    side = Atoms(loss + off * (1.0 - 1e-9), np.full(3, abs(off)), P)
    one = Bracket(side, side)
    found = total_losses([(Pair(one, one), 3)])
    for epsilon in (0.1, 0.8):
        truth = delta_of(loss, P, 3, epsilon)
        bounds = Single(found.remove).delta(epsilon)
        assert bounds.lower <= truth <= bounds.upper
        assert bounds.upper - bounds.lower <= 0.1


def test_isolated_atoms_are_not_spread_from_below():
    """Nothing near them takes up what a spread atom adds: the lower end was 7.68248, above the truth."""
    p = (0.27, 0.053, 0.09, 0.031, 0.1095, 0.415, 0.0315)
    q = (0.105, 0.191, 0.0554, 0.1133, 0.0061, 0.0316, 0.4976)
    job = fa.TruncatedLaplace(1.0589379880671066, 19.445929388651674) + fa.from_pmf(p, q) + fa.PureDP(0.0018689) * 2
    together = fa.Together(job).poisson(1.0 - 1e-13) * 2
    found = fa.epsilon_bounds(together, delta=1e-6, neighbors="remove")
    assert found.lower <= fa.epsilon(job * 2, delta=1e-6, neighbors="remove") <= found.upper * (1.0 + 1e-12)
    assert found.upper - found.lower < 2e-3
