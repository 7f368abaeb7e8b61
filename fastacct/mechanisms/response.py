"""Randomised response: the local model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import NONNEGATIVE, TINY, Cells, Domain, Reals
from fastacct.core.relations import Relation
from fastacct.losses.atoms import atoms, both, everything, in_reach
from fastacct.losses.divergence import of_atoms, padded, pure
from fastacct.losses.loss import ROUNDING, Pair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, parameter, plain

__all__ = ["RandomizedResponse"]

_ANSWERS: Final = Domain(2.0, 1e9, integer=True)


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Mechanism):
    """One of `answers` values: the true one with odds exp(epsilon) against each other one (the local model).

    **Guarantee.** Exact when the value of one person is replaced.  Under "zero_out" a person without a value answers
    uniformly at random.  The fair-coin version, truth with probability 3/4, is epsilon = log 3.

    Parameters
    ----------
    epsilon : float or array in [0, inf]
    answers : whole number in [2, 1e9]

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
        """Atoms."""
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
        """Of the atoms."""
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
        """The largest loss under replace-one."""
        return plain(self.epsilon)

    def grouped(self, size: int, relation: Relation) -> Process:
        """Every member of the group answers."""
        return self * size

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield from (
            RandomizedResponse(1.0),
            RandomizedResponse(0.3, 10),
            RandomizedResponse(0.0),
            RandomizedResponse(0.5, 3).group(2),
        )
