"""Laplace noise, and the staircase noise that is best for one query."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fastacct.core.inputs import NONNEGATIVE, Cells, Reals
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.core.rounding import divided_down, quotient_up
from fastacct.losses.atoms import both, in_reach
from fastacct.losses.density import laplace_bracket
from fastacct.losses.divergence import padded, square, unknown
from fastacct.losses.loss import NOTHING, Pair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import Count, exactly, parameter, plain
from fastacct.mechanisms.guarantee import PureDP

__all__ = ["Laplace", "Staircase"]


@dataclass(frozen=True, eq=False)
class Laplace(Mechanism):
    """Laplace noise on a query to which every record contributes at most 1 in L1 norm.

    **Guarantee.** Exact for one number, and for vectors of which a record moves one coordinate.  Where it may move
    several, by 1 altogether, one coordinate is the worst case for every Rényi order (log-sum-exp in the shift is
    convex): use `accountant=RDP()`, or `PureDP(1/noise_multiplier)`, which holds always.  Not for noise with density
    exp(-|y|_2/b).

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Scale b divided by the contribution; the standard deviation is sqrt(2) b.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.Laplace(noise_multiplier=2.0), delta=0.0), 6)
    0.5
    >>> round(fa.delta(fa.Laplace(noise_multiplier=2.0) * 5, epsilon=1.0), 4)
    0.1453
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE)
    relations: ClassVar[tuple[Relation, ...]] = ALL

    def losses(self, relation: Relation) -> Pair:
        """Two atoms and a density between them."""
        scale = plain(self.noise_multiplier) / sensitivity(relation)
        if math.isinf(scale):
            return NOTHING
        in_reach(1.0 / scale if scale > 0.0 else math.inf, 500.0)
        return both(laplace_bracket(scale))

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Mironov 2017, proposition 6."""
        scale = plain(self.noise_multiplier) / sensitivity(relation)
        if scale == 0.0:
            return unknown(orders)
        epsilon, a = 1.0 / scale, orders - 1.0
        if epsilon == 0.0:
            return np.zeros(orders.shape)
        x = (2.0 * a + 1.0) * epsilon
        value = np.maximum(epsilon + np.log1p(a * np.expm1(-x) / (2.0 * a + 1.0)) / a, 0.0) + 2e-15 * epsilon
        # cancels where both are small: anything epsilon-DP is epsilon^2/2-zCDP (Bun and Steinke 2016)
        return padded(np.minimum(np.minimum(value, 0.5 * orders * square(epsilon)), epsilon))

    def pure_epsilon(self, relation: Relation) -> float:
        """The largest loss."""
        scale = plain(self.noise_multiplier) / sensitivity(relation)
        return 1.0 / scale if scale > 0.0 else math.inf

    def group_exactly(self, size: int) -> Mechanism | None:
        """Less noise, where the division is exact."""
        return exactly(self, "noise_multiplier", 1.0 / size)

    def grouped(self, size: int, relation: Relation) -> Process:
        """Less noise, for a query that changes more."""
        return replace(self, noise_multiplier=divided_down(self.noise_multiplier, size)) * 1

    def grouped_within(self, count: Count, size: int, relation: Relation) -> Process:
        """The sum of all pure guarantees: members may touch different noises, which several small changes dominate."""
        total = quotient_up(np.asarray(count) * (size * sensitivity(relation)), self.noise_multiplier)
        return PureDP(total) * 1

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield from (Laplace(1.0), Laplace(20.0), Laplace(math.inf), Laplace(1.0).poisson(0.1), Laplace(10.0).group(3))


@dataclass(frozen=True, eq=False)
class Staircase(Mechanism):
    """Noise with a piecewise constant density that drops by exp(-epsilon) every sensitivity (Geng, Viswanath 2014).

    **Guarantee.** A bound: the noise is epsilon-DP, and that is what is used.  Under replace-one `epsilon` must have
    been set for the sensitivity to a replacement.

    Parameters
    ----------
    epsilon : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.Staircase(epsilon=0.5) * 2, delta=0.0), 6)
    1.0
    """

    epsilon: Reals = parameter(NONNEGATIVE)
    relations: ClassVar[tuple[Relation, ...]] = ALL
    tight: ClassVar[bool] = False

    def decompose(self, relation: Relation) -> Process:
        """Its pure guarantee."""
        return PureDP(self.epsilon) * 1

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests."""
        yield Staircase(0.5)
