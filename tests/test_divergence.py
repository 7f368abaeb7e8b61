"""Divergences of losses as data: what their masses and places may be off by is paid."""

import numpy as np
import pytest
from mpmath import mp, mpf

from fastacct.losses.divergence import of_bracket
from fastacct.losses.loss import Atoms, Bracket

ORDERS = np.array([1.001, 1.5, 2.0, 8.0, 300.0])


@pytest.mark.parametrize(("off", "excess"), [(0.0, 0.0), (1e-3, 0.0), (0.0, 1e-6), (1e-3, 1e-6)])
def test_errors_of_losses_and_masses_beyond_one_are_paid(off, excess):
    share = 1.0 / (1.0 + np.exp(-0.2))  # randomised response
    loss, mass = np.array([-0.2, 0.2]), np.array([1.0 - share, share + excess])
    atoms = Atoms(loss, np.full(2, off), mass, slack=off)
    found = of_bracket(Bracket(atoms, atoms), ORDERS)
    for order, value in zip(ORDERS.tolist(), found.tolist(), strict=True):
        with mp.workdps(40):
            a = mpf(order) - 1
            moment = mp.fsum(mpf(m) * mp.exp(a * (mpf(x) + 2 * mpf(off))) for x, m in zip(loss, mass, strict=True))
            truth = mp.log(moment) / a
            # the masses count once in the moment, and once more for what they are beyond 1
            assert truth <= value <= truth + (mpf("1e-13") + 2 * mpf(excess)) / min(a, mpf(1)), order
