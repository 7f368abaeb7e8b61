"""Divergences of losses as data: what their masses and places may be off by is paid."""

import numpy as np
import pytest
from mpmath import mp, mpf

import fastacct as fa
from fastacct.losses.divergence import of_bracket
from fastacct.losses.loss import Atoms, Bracket

ORDERS = np.array([1.001, 1.5, 2.0, 8.0, 300.0])


@pytest.mark.parametrize(("off", "excess"), [(0.0, 0.0), (1e-3, 0.0), (0.0, 1e-6), (1e-3, 1e-6)])
def test_errors_of_losses_and_masses_beyond_one_are_paid(off, excess):
    share = 1.0 / (1.0 + np.exp(-0.2))  # randomised response
    loss, mass = np.array([-0.2, 0.2]), np.array([1.0 - share, share + excess])
    atoms = Atoms(loss, np.full(2, 2.0 * off), mass)
    found = of_bracket(Bracket(atoms, atoms), ORDERS)
    for order, value in zip(ORDERS.tolist(), found.tolist(), strict=True):
        with mp.workdps(40):
            a = mpf(order) - 1
            moment = mp.fsum(mpf(m) * mp.exp(a * (mpf(x) + 2 * mpf(off))) for x, m in zip(loss, mass, strict=True))
            truth = mp.log(moment) / a
            # the masses count once in the moment, and once more for what they are beyond 1
            assert truth <= value <= truth + (mpf("1e-13") + 2 * mpf(excess)) / min(a, mpf(1)), order


@pytest.mark.parametrize("order", [2, 3, 8])
def test_the_larger_direction_counts_whichever_it_is(order):
    """Of a table and of a mixture, by their sums; each also with its sides exchanged."""
    p, q = (5, 6, 5), (1, 12, 3)
    with mp.workdps(30):
        sides = [
            mp.fsum(mpf(a) / 16 * (mpf(a) / b) ** (order - 1) for a, b in zip(*one, strict=True))
            for one in ((p, q), (q, p))
        ]
        truth, other = (mp.log(one) / (order - 1) for one in sides)
        assert truth != other
        for way in ((p, q), (q, p)):
            found = fa.rdp(fa.from_pmf(*([one / 16 for one in side] for side in way)), float(order))
            assert max(truth, other) <= found <= max(truth, other) * (1 + mpf("1e-9"))
        # a tenth at 2 against N(0, 1): of the larger direction the moment is a sum over components
        weights = {0: mpf(0.875), 2: mpf(0.125)}
        moment = mp.fsum(
            mp.binomial(order, k) * weights[2] ** k * weights[0] ** (order - k) * mp.exp(4 * mp.binomial(k, 2))
            for k in range(order + 1)
        )
        truth = mp.log(moment) / (order - 1)
        right, left = ([(0.875, 0.0), (0.125, mean)] for mean in (2.0, -2.0))
        for job in (fa.GaussianMixture(1.0, p=right), fa.GaussianMixture(1.0, p=[(1.0, 0.0)], q=left)):
            found = fa.rdp(job, float(order))
            assert truth <= found <= truth * (1 + mpf("1e-9"))
