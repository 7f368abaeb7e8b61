"""Few atoms and their sums, one by one."""

from __future__ import annotations

import math

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.loss import Atoms

LOSS, MASS = np.array([-0.3137, 0.1742, 0.6059]), np.array([0.3, 0.45, 0.25])


def atoms(loss: Cells, mass: Cells, infinite: float = 0.0) -> Atoms:
    return Atoms(loss, np.zeros(loss.size), mass, infinite=infinite)


def all_sums(parts: list[tuple[Atoms, int]], epsilon: float) -> float:
    """Delta of finite losses, by every sum."""
    loss, mass = np.zeros(1), np.ones(1)
    for one, n in parts:
        for _ in range(n):
            loss, mass = np.add.outer(loss, one.loss).ravel(), np.multiply.outer(mass, one.mass).ravel()
    return math.fsum((mass * -np.expm1(np.minimum(epsilon - loss, 0.0))).tolist())


PARTS = [(atoms(LOSS, MASS), 5), (atoms(np.array([-0.2119, 0.2713]), np.array([0.55, 0.45])), 3)]
