"""The privacy loss of the batches of one random order of all records, from below.

The other records may contribute nothing: random allocation, of a record that is zeroed out.  Or they contribute its
opposite: after a shift that everyone knows, the record's step is N(2), or N(1) where it is zeroed out, or N(0) where it
is replaced by another one like the others, and the other steps are N(0).  The latter is random allocation at half the
noise; of the former the largest step is looked at, in cells.  Proof: docs/algorithms/batches.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation, sensitivity
from fastacct.losses.atoms import DataPair
from fastacct.losses.loss import NOTHING, Atoms, Bracket, Pair
from fastacct.samplers.allocation import allocated

_NDTR_OFF: Final = 4e-13
"""Of distribution functions, relative, and of their logarithms."""
_LEAST_MASS: Final = 1e-200
"""Masses below it count as that, beside a larger one: losses are smaller then."""


def from_below(noise: float, steps: int, relation: Relation) -> Pair:
    """The latter, or the former where its mean loss is three times as large: jobs are asked for the former too."""
    moved = sensitivity(relation)
    lattice = allocated(noise / moved, steps)
    alike = lattice.pieces() if isinstance(lattice, DataPair) else None
    if noise > 10.0:  # the largest step says less there than the sum of all
        return NOTHING if alike is None else lattice
    opposed = _opposed(noise, steps, 2.0 - moved)
    cells = opposed.remove.lower.as_atoms()
    if alike is None or cells is None:
        return opposed
    loss, log_weight = alike.atoms[:, 0], alike.atoms[:, 1]
    least = float(np.sum(cells.mass * cells.loss)) * (1.0 if moved == 2.0 else 3.0)
    return lattice if float(np.sum(np.exp(log_weight + loss) * loss)) > least else opposed


def _opposed(noise: float, steps: int, mean: float) -> Pair:
    """In which cell the largest of the steps is, one of them 2 or this mean."""
    far = 7.0 * noise
    edges = np.linspace(mean - far, 2.0 + far, 256)
    (p, p_off), (q, q_off) = (_masses((edges - own) / noise, edges / noise, steps) for own in (2.0, mean))
    keep = ((p > _LEAST_MASS) | (q > _LEAST_MASS)) & (p_off < 1e-3) & (q_off < 1e-3)
    p, q, p_off, q_off = np.maximum(p[keep], _LEAST_MASS), np.maximum(q[keep], _LEAST_MASS), p_off[keep], q_off[keep]
    loss = np.log(p / q)
    error = 1.01 * (p_off + q_off) + _NDTR_OFF * (1.0 + np.abs(loss))

    def side(at: Cells, mass: Cells, off: Cells) -> Bracket:
        return Bracket(Atoms(at, error, mass * (1.0 + off)), Atoms(at, error, mass * (1.0 - off)))

    return Pair(side(loss, p, p_off), side(-loss, q, q_off))


def _masses(own: Cells, other: Cells, steps: int) -> tuple[Cells, Cells]:
    """Of the cells between these points, in units of the noise, and what they may be off by, relative."""
    from scipy.special import log_ndtr  # heavy to import

    log_below = log_ndtr(own) + (steps - 1.0) * log_ndtr(other)
    below = np.concatenate([[0.0], np.exp(log_below), [1.0]])
    above = np.concatenate([[1.0], -np.expm1(log_below), [0.0]])
    off = _NDTR_OFF * (1.0 + np.concatenate([[0.0], np.abs(log_below), [0.0]]))
    is_low = below[1:] < 0.5
    mass = np.where(is_low, np.diff(below), -np.diff(above))
    most = np.where(is_low, below[1:] * off[1:] + below[:-1] * off[:-1], above[1:] * off[1:] + above[:-1] * off[:-1])
    unknown = np.where(most > _LEAST_MASS, 1.0, 0.0)  # a difference that is all rounding is not known to be small
    return mass, np.divide(most, mass, out=unknown, where=mass > _LEAST_MASS)
