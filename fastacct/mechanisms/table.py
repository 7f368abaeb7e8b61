"""Finite tables of probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fastacct.core.inputs import UNIT, Cells, as_cells
from fastacct.core.relations import DIRECTIONS, SAMPLED, Relation
from fastacct.losses.atoms import table
from fastacct.losses.divergence import of_atoms, padded, unknown
from fastacct.losses.loss import Pair
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.gaussian import WEIGHTS_OFF

__all__ = ["PairOfTables", "from_pmf"]


@dataclass(frozen=True, eq=False)
class PairOfTables(Mechanism):
    """Two finite tables of probabilities over the same outcomes; made by `from_pmf`."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    relations: ClassVar[tuple[Relation, ...]] = SAMPLED

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            table = np.atleast_1d(as_cells(name, list(getattr(self, name)), UNIT))
            if table.ndim != 1:
                raise TypeError(f"{name} must be one-dimensional, not of shape {table.shape}")
            if abs((total := math.fsum(table)) - 1.0) > WEIGHTS_OFF:
                raise ValueError(f"{name} sums to {total!r}, not to 1; put what is missing on an outcome of its own")
            object.__setattr__(self, name, tuple(table.tolist()))
        if len(self.p) != len(self.q):
            raise ValueError(f"p and q must have one length, not {len(self.p)} and {len(self.q)}")

    def losses(self, relation: Relation) -> Pair:
        """Atoms."""
        p, q = np.array(self.p), np.array(self.q)
        return Pair(table(p, q), table(q, p))

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Of the atoms; the tables may sum to 1 less 1e-12."""
        p, q = np.array(self.p), np.array(self.q)
        value = np.zeros(orders.shape)
        for direction in DIRECTIONS[relation]:
            one, other = (p, q) if direction == "remove" else (q, p)
            if ((one > 0.0) & (other == 0.0)).any():
                return unknown(orders)
            both = one > 0.0
            log_one = np.log(one[both])
            value = np.maximum(value, of_atoms(log_one, log_one - np.log(other[both]), orders))
        largest = -min(float(np.log(side[side > 0.0]).min()) for side in (p, q))
        return padded(value + 4e-15 * (1.0 + largest) + 2e-12 / (orders - 1.0))

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield from (
            from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4]),
            from_pmf([0.5, 0.4, 0.1, 0.0], [0.45, 0.45, 0.0, 0.1]),
        )


def from_pmf(p: Iterable[float], q: Iterable[float]) -> PairOfTables:
    """A mechanism whose worst pair of outputs has these probabilities: p with the record, q without.

    **Guarantee.** Exact for the tables as they are: each sums to 1 within 1e-12, and is not normalised.  That
    the pair dominates the mechanism is the caller's claim.  "remove" reads p against q, "add" q against p.

    Examples
    --------
    >>> import fastacct as fa
    >>> table = fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4])
    >>> round(fa.delta(table, epsilon=0.3, neighbors="remove"), 12)
    0.195042357727
    """
    tables = []
    for name, given in (("p", p), ("q", q)):
        table = np.atleast_1d(as_cells(name, list(given) if isinstance(given, Iterable) else given, UNIT))
        if table.ndim != 1:
            raise TypeError(f"{name} must be one-dimensional, not of shape {table.shape}")
        tables.append(tuple(table.tolist()))
    return PairOfTables(*tables)
