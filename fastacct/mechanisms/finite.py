"""Mechanisms with few outcomes: randomised response, and finite tables of probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, cast

import numpy as np

from fastacct.core.inputs import NONNEGATIVE, TINY, UNIT, Cells, Domain, Reals, as_cells
from fastacct.core.relations import DIRECTIONS, SAMPLED, Relation
from fastacct.losses.atoms import atoms, both, everything, in_reach, table
from fastacct.losses.divergence import of_atoms, padded, pure, unknown
from fastacct.losses.loss import ROUNDING, Pair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import WEIGHTS_OFF, constant, parameter, plain

__all__ = ["PairOfTables", "RandomizedResponse", "from_pmf"]

_ANSWERS: Final = Domain(2.0, 1e9, integer=True)


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Mechanism):
    """One of `answers` values: the true one with odds exp(epsilon) against each other one (the local model).

    **Guarantee.** Exact when the value of one person is replaced.  Under "zero_out" a person without a value answers
    uniformly at random.  The fair-coin version, truth with probability 3/4, is epsilon = log 3.

    Examples
    --------
    >>> import fastacct as fa
    >>> coin = fa.RandomizedResponse(epsilon=1.0986122886681098)
    >>> round(fa.epsilon(coin * 10, delta=1e-6, neighbors="replace_one"), 4)
    10.9861
    """

    epsilon: Reals = parameter(NONNEGATIVE)
    answers: int = constant(_ANSWERS, 2)
    relations: ClassVar[tuple[Relation, ...]] = ("replace_one", "zero_out")
    is_local: ClassVar[bool] = True

    def losses(self, relation: Relation) -> Pair:
        epsilon, k = plain(self.epsilon), self.answers
        if math.isinf(epsilon):
            return both(everything())
        in_reach(epsilon, 600.0)
        true = 1.0 / (1.0 + (k - 1) * math.exp(-epsilon))
        lie = true * math.exp(-epsilon)
        relative = (8.0 + 4.0 * epsilon) * ROUNDING
        if relation == "replace_one":
            loss, mass = np.array([-epsilon, 0.0, epsilon]), np.array([lie, (k - 2) * lie, true])
            if epsilon == 0.0:
                loss, mass = np.zeros(1), np.ones(1)
            return both(atoms(loss, np.zeros_like(loss), mass, relative, 0.0, epsilon or 1.0))
        # against a uniformly random answer
        loss = np.array([epsilon - math.log1p(math.expm1(epsilon) / k), -math.log1p(math.expm1(epsilon) / k)])
        error = 8.0 * ROUNDING * (np.abs(loss) + epsilon)
        sides = [
            atoms(sign * loss, error, mass, relative)
            for sign, mass in ((1.0, np.array([true, (k - 1) * lie])), (-1.0, np.array([1.0 / k, (k - 1) / k])))
        ]
        return Pair(*sides)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        epsilon, k = plain(self.epsilon), self.answers
        if relation == "replace_one" or math.isinf(epsilon):
            return pure(epsilon, k, orders)
        log_true = -math.log1p((k - 1) * math.exp(-epsilon))
        log_lie = log_true - epsilon
        log_p = np.array([log_true, log_lie + math.log(k - 1)])
        log_q = np.array([-math.log(k), math.log1p(-1.0 / k)])
        loss = np.array([log_true + math.log(k), log_lie + math.log(k)])
        return padded(
            np.maximum(np.maximum(of_atoms(log_p, loss, orders), of_atoms(log_q, -loss, orders)), TINY)
            + 1e-15 * (1.0 + epsilon + math.log(k))
        )

    def pure_epsilon(self, relation: Relation) -> float:
        return plain(self.epsilon)

    def grouped(self, size: int, relation: Relation) -> Process:
        """Every member of the group answers."""
        return self * size


@dataclass(frozen=True, eq=False)
class PairOfTables(Mechanism):
    """Two finite tables of probabilities over the same outcomes; made by `from_pmf`."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    relations: ClassVar[tuple[Relation, ...]] = SAMPLED

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            given = getattr(self, name)
            table = np.atleast_1d(as_cells(name, list(given) if isinstance(given, Iterable) else given, UNIT))
            if table.ndim != 1:
                raise TypeError(f"{name} must be one-dimensional, not of shape {table.shape}")
            if abs((total := math.fsum(table)) - 1.0) > WEIGHTS_OFF:
                raise ValueError(f"{name} sums to {total!r}, not to 1; put what is missing on an outcome of its own")
            object.__setattr__(self, name, tuple(table.tolist()))
        if len(self.p) != len(self.q):
            raise ValueError(f"p and q must have one length, not {len(self.p)} and {len(self.q)}")

    def losses(self, relation: Relation) -> Pair:
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
    return PairOfTables(cast("tuple[float, ...]", p), cast("tuple[float, ...]", q))
