"""Networks: decentralised averaging, and walks of a token."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from fastacct.core.inputs import COUNT, NONNEGATIVE, Domain, Reals
from fastacct.core.relations import ALL, Relation
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, parameter
from fastacct.mechanisms.gaussian import GDP, Gaussian

__all__ = ["GOPA", "RandomWalk"]

_VARIANCE: Final = Domain(0.0, 1e12)
_UP: Final = 1.0 + 1e-9
"""What is paid for the rounding of mu."""


@dataclass(frozen=True, eq=False)
class GOPA(Mechanism, relations=("replace_one",), tight=False):
    """Decentralised averaging with noise that cancels between neighbours (Sabater, Bellet, Ramon 2022).

    **Guarantee.** mu-GDP for replacing one honest party's value in [0, 1], against all others together: the view of
    the dishonest is a Gaussian, and mu is its largest one-coordinate signal-to-noise ratio, computed here from the
    graph of honest parties.  `edges` are the (int, int) between honest parties, by default all; remove the others
    first.  Parties that are not connected are worse off, and mu says so.

    Examples
    --------
    >>> import fastacct as fa
    >>> ring = fa.GOPA(0.5, 2.0, parties=12, edges=[(i, i + 1) for i in range(11)])
    >>> round(ring.mu ** 2, 9), round(fa.GOPA(0.5, 2.0, parties=12).mu ** 2, 9)
    (0.780790711, 0.204081633)
    """

    independent_variance: float = constant(_VARIANCE, about="Of each party's own noise.")
    pairwise_variance: float = constant(_VARIANCE, about="Of the noise that two neighbours share with opposite signs.")
    parties: int = constant(Domain(1.0, 4096.0, integer=True), about="Honest ones.")
    edges: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edges is not None:
            object.__setattr__(self, "edges", _edges(self.edges, self.parties))

    @property
    def mu(self) -> float:
        """Of Gaussian DP, for the worst honest party; inf without noise of their own."""
        own, shared, n = self.independent_variance, self.pairwise_variance, self.parties
        if own == 0.0:
            return math.inf
        if self.edges is None:
            return math.sqrt(1.0 / (n * own) + (1.0 - 1.0 / n) / (own + n * shared))
        laplacian = np.zeros((n, n))
        for i, j in self.edges:
            laplacian[i, i] += 1.0
            laplacian[j, j] += 1.0
            laplacian[i, j] -= 1.0
            laplacian[j, i] -= 1.0
        # the eigenvalues found are those of a matrix within `off` of it, and less noise is the safe side
        values, vectors = np.linalg.eigh(laplacian)
        off = 4e-16 * n * max(1.0, float(values[-1]))
        if own <= 4.0 * shared * off:
            return math.sqrt(1.0 / own)
        square = float(((vectors * vectors) @ (1.0 / (own + shared * (values - off)))).max())
        return math.sqrt(min(square * (1.0 + 1e-14 * n), 1.0 / own))

    def decompose(self, relation: Relation) -> Process:
        return GDP(self.mu * _UP) * 1


def _edges(edges: object, parties: int) -> tuple[tuple[int, int], ...]:
    if isinstance(edges, str | bytes) or not isinstance(edges, Iterable):
        raise TypeError(f"edges must be a sequence of (int, int), not {edges!r}")
    found = set()
    for k, edge in enumerate(edges):
        pair = tuple(edge) if isinstance(edge, Iterable) and not isinstance(edge, str) else ()
        if len(pair) != 2 or not all(isinstance(x, int) and not isinstance(x, bool) for x in pair):
            raise TypeError(f"edges[{k}] must be (int, int), not {edge!r}")
        if not all(0 <= x < parties for x in pair) or pair[0] == pair[1]:
            raise ValueError(f"edges[{k}] = {pair!r} must name two different parties in [0, {parties - 1}]")
        found.add((min(pair), max(pair)))
    return tuple(sorted(found))


@dataclass(frozen=True, eq=False)
class RandomWalk(Mechanism, relations=ALL, tight=False):
    """Network DP of a token that sums along a ring (Cyffers, Bellet 2022), as one other user sees it.

    **Guarantee.** For Gaussian noise that is added at least once between two visits to the observer (exact where it is
    once): each of its observations hides one contribution behind one noise.  The number of visits must not depend on
    the data (to bound it with probability 1 - delta', compose with `ApproxDP(0, delta')`).  No protection against users
    that collude: contract them into one.
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE, about="Over the contribution.")
    rounds: int = constant(COUNT, about="How often the token visits the observer.")

    def decompose(self, relation: Relation) -> Process:
        return Gaussian(self.noise_multiplier) * self.rounds
