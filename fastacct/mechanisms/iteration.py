"""Noisy iterations whose last iterate alone is released."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import COUNT, POSITIVE, TINY, Domain, as_number
from fastacct.core.relations import ALL, Relation
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant
from fastacct.mechanisms.guarantee import GDP, ZCDP

__all__ = ["NoisyIteration"]

_UP: Final = 1.0 + 1e-9
"""What is paid for the rounding of mu."""


@dataclass(frozen=True, eq=False)
class NoisyIteration(Mechanism):
    """The last iterate of noisy gradient descent, or of any iteration of contractive maps with Gaussian noise.

    **Guarantee.** mu-GDP, for hidden iterates of full-batch steps that contract by `contraction` (1: convex and smooth
    losses, step size at most 2/smoothness), projections included; exact on quadratics.  With `diameter` the set the
    iterates are projected to bounds mu whatever the number of steps.  Sources: Bok, Su, Altschuler 2024; Feldman et
    al. 2018 for the second bound.

    Parameters
    ----------
    noise_multiplier : float in (0, 1e300]
        Standard deviation of the noise over the largest change of one gradient, both before the step size.
    steps : whole number
    contraction : float in (0, 1]
    diameter : float in (0, 1e300], optional
        Of the set, over step size times the largest change of one gradient.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.NoisyIteration(noise_multiplier=3.75, steps=500, contraction=0.99)
    >>> round(step.mu, 6)
    3.73716
    """

    noise_multiplier: float = constant(POSITIVE)
    steps: int = constant(COUNT)
    contraction: float = constant(Domain(0.0, 1.0, open_low=True), 1.0)
    diameter: float = constant(Domain(0.0, math.inf, open_low=True), math.inf)
    relations: ClassVar[tuple[Relation, ...]] = ALL
    tight: ClassVar[bool] = False

    @property
    def mu(self) -> float:
        """Of Gaussian DP, the smaller of the bounds."""
        c, n = self.contraction, float(self.steps)
        if c == 1.0:
            square = n
        else:
            log_c = math.log(c)
            square = math.tanh(-0.5 * n * log_c) / math.tanh(-0.5 * log_c)
        if self.diameter < n:
            for k in (math.floor(self.diameter) or 1, math.ceil(self.diameter)):
                square = min(square, (self.diameter + k) ** 2 / k)
        return math.sqrt(square) / self.noise_multiplier

    @staticmethod
    def single_pass(noise_multiplier: float, steps: int, position: int) -> ZCDP:
        """One pass of noisy SGD over `steps` records, the one at `position` (from 1) changed; the last iterate.

        **Guarantee.** rho = 1 / (2 noise_multiplier^2 (steps - position + 1)), amplification by iteration (Feldman,
        Mironov, Talwar, Thakurta 2018, theorem 23), for convex smooth losses, step size at most 2/smoothness, iterates
        hidden.  Noise over the largest change of one gradient (2 L for L-Lipschitz losses).  The record at the end has
        no amplification: take the worst position unless the order is random and hidden.

        Examples
        --------
        >>> import fastacct as fa
        >>> early = fa.NoisyIteration.single_pass(noise_multiplier=3.75, steps=20, position=5)
        >>> round(fa.rdp(early, 4.0), 12)
        0.008888888889
        """
        noise = as_number("noise_multiplier", noise_multiplier, POSITIVE)
        total, place = as_number("steps", steps, COUNT), as_number("position", position, COUNT)
        if place > total:
            raise ValueError(f"position = {int(place)} is out of range; allowed: whole numbers in [1, {int(total)}]")
        with np.errstate(over="ignore"):
            rho = float(0.5 / (noise * noise * (total - place + 1.0)) * (1.0 + 2e-15))
        return ZCDP(max(rho, TINY) if noise < np.inf else 0.0)

    def decompose(self, relation: Relation) -> Process:
        """One Gaussian."""
        return GDP(self.mu * _UP) * 1

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield from (
            NoisyIteration(3.75, 500, contraction=0.99),
            NoisyIteration(4.0, 10_000, diameter=5.0),
        )
