"""Decentralised averages whose noise cancels between neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fastacct.core.inputs import Domain, as_number
from fastacct.core.relations import Relation
from fastacct.mechanisms import error
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant
from fastacct.mechanisms.gaussian import GDP
from fastacct.mechanisms.guarantee import ApproxDP
from fastacct.mechanisms.random_graph import kout_resistance

_PARTIES: Final = Domain(1.0, 4096.0, integer=True)
_VARIANCE: Final = Domain(0.0, 1e12)
_UP: Final = 1.0 + 1e-9
"""What is added for the rounding of mu."""


class GOPA(Mechanism, relations=("replace_one",), tight=False):
    """Decentralised averaging with noise that cancels between neighbours (Sabater, Bellet, Ramon 2022).

    **Guarantee.** mu-GDP for replacing one honest party's value in [0, 1], against everything that is published and
    all that `colluding` parties know: a dishonest server knows no more. Their noise and edges protect nobody and are
    dropped; what is left is a Gaussian, and mu is its largest one-coordinate signal-to-noise ratio, computed from the
    graph of honest parties. Honest parties that are not connected are worse off, and mu says so.

    The graph is complete, or has the `edges` given, or is drawn at random: each party draws `draws` others, all sets
    equally likely. Then mu holds except with a probability of at most `graph_delta`, by a union bound over all sets of
    honest parties that might have few neighbours, none included; that probability is added to delta. It covers every
    coalition of this size that is fixed before the graph is drawn, whoever is in it.  For one that is chosen after
    the graph is seen, give a drawn graph's own `edges` and the coalition: mu is exact then. Proofs:
    docs/algorithms/networks.md.

    Examples
    --------
    >>> import fastacct as fa
    >>> ring = fa.GOPA(0.5, 2.0, parties=12, edges=[(i, i + 1) for i in range(11)])
    >>> round(ring.mu ** 2, 9), round(fa.GOPA(0.5, 2.0, parties=12).mu ** 2, 9)
    (0.780790711, 0.204081633)
    >>> round(fa.GOPA(0.5, 2.0, parties=12, colluding=4).mu ** 2, 9)
    0.303030303
    >>> drawn = fa.GOPA(1.0, 100.0, parties=1000, colluding=200, draws=20, graph_delta=1e-9)
    >>> round(drawn.mu ** 2, 4), drawn.graph_failure <= 1e-9
    (0.006, True)
    """

    independent_variance: float = constant(_VARIANCE, about="Of each party's own noise.")
    pairwise_variance: float = constant(_VARIANCE, about="Of the noise that two neighbours share with opposite signs.")
    parties: int = constant(_PARTIES, about="All of them, the colluding ones included.")
    edges: tuple[tuple[int, int], ...] | None = None
    colluding: int | tuple[int, ...] = 0
    draws: int = constant(
        Domain(0.0, 4095.0, integer=True), 0, about="Neighbours that each party draws; 0: no random graph."
    )
    graph_delta: float = constant(
        Domain(0.0, 1.0, open_low=True), 1e-9, about="Allowed for a random graph without this mu."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edges is not None:
            object.__setattr__(self, "edges", _edges(self.edges, self.parties))
        object.__setattr__(self, "colluding", as_coalition(self.colluding, self.parties))
        if self.edges is not None and self.draws:
            raise ValueError("edges and draws exclude each other: a random graph has no edges until it is drawn")
        if self.edges is not None and isinstance(self.colluding, int) and self.colluding:
            raise TypeError(
                f"colluding = {self.colluding!r} must name the parties, as in (0, 5), where edges are given: "
                "it matters which of them collude"
            )
        if self.draws >= self.parties:
            raise ValueError(f"draws = {self.draws} is out of range; allowed: [0, {self.parties - 1}], the others")
        if self.draws and not math.isfinite(self._drawn[0]):
            raise ValueError(
                f"graph_delta = {self.graph_delta!r} is too small: the honest part of the random graph may be "
                f"disconnected with probability {self._drawn[1]:.3g}; let each party draw more, or allow more"
            )

    @property
    def honest(self) -> int:
        """How many parties do not collude."""
        return self.parties - (self.colluding if isinstance(self.colluding, int) else len(self.colluding))

    @property
    def _drawn(self) -> tuple[float, float]:
        return kout_resistance(self.parties, self.honest, self.draws, self.graph_delta)

    @property
    def graph_failure(self) -> float:
        """Probability that a random graph is not as good as `mu` says, at most `graph_delta`; 0 for given edges."""
        return self._drawn[1] if self.draws else 0.0

    @property
    def mu(self) -> float:
        """Of Gaussian DP, for the worst honest party; inf without noise of their own."""
        own, shared, n = self.independent_variance, self.pairwise_variance, self.honest
        if own == 0.0:
            return math.inf
        if self.draws:
            together = shared / self._drawn[0] if n > 1 else 0.0
            apart = 1.0 / (own / (1.0 - 1.0 / n) + together) if n > 1 else 0.0
            return math.sqrt(min(1.0 / (n * own) + apart, 1.0 / own))
        if self.edges is None:
            return math.sqrt(1.0 / (n * own) + (1.0 - 1.0 / n) / (own + n * shared))
        return _mu_of(
            own, shared, self.parties, self.colluding if isinstance(self.colluding, tuple) else (), self.edges
        )

    def error_law(self) -> error.ErrorLaw:
        """Of the average of all parties, if they all do as agreed: noise of pairs cancels."""
        return error.gaussian(math.sqrt(self.independent_variance / self.parties))

    def decompose(self, relation: Relation) -> Process:
        known = GDP(self.mu * _UP) * 1
        return known + ApproxDP(0.0, self.graph_failure) if self.graph_failure > 0.0 else known

    def local(self) -> Process:
        """Where a party trusts nobody: its own noise alone."""
        own = self.independent_variance
        return GDP(math.sqrt(1.0 / own) * _UP if own > 0.0 else math.inf) * 1


@lru_cache(maxsize=64)
def _mu_of(own: float, shared: float, parties: int, bad: tuple[int, ...], edges: tuple[tuple[int, int], ...]) -> float:
    """By the eigenvalues of the Laplacian of the honest part."""
    n, left_out = parties - len(bad), set(bad)
    place = np.cumsum(~np.isin(np.arange(parties), bad)) - 1
    kept = [(place[i], place[j]) for i, j in edges if i not in left_out and j not in left_out]
    i, j = np.array(kept, dtype=np.intp).reshape(-1, 2).T
    laplacian = np.diag(np.bincount(np.append(i, j), minlength=n).astype(np.float64))
    laplacian[i, j] = laplacian[j, i] = -1.0
    # the eigenvalues found are those of a matrix within `off` of it, and less noise is the safe side
    values, vectors = np.linalg.eigh(laplacian)
    off = 4e-16 * n * max(1.0, float(values[-1]))
    if own <= 4.0 * shared * off:
        return math.sqrt(1.0 / own)
    with np.errstate(over="ignore"):
        square = float(((vectors * vectors) @ (1.0 / (own + shared * (values - off)))).max())
    return math.sqrt(min(square * (1.0 + 1e-14 * n), 1.0 / own))


def _listed(given: object) -> tuple[Any, ...] | None:
    """What a sequence consists of, NumPy's whole numbers as Python's; None for what is no sequence."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        return None
    return tuple(int(one) if isinstance(one, np.integer) else one for one in given)


def as_coalition(colluding: object, parties: int) -> int | tuple[int, ...]:
    """How many collude, or which, in order."""
    who = _listed(colluding)
    if who is None:
        return int(as_number("colluding", colluding, Domain(0.0, parties - 1.0, integer=True)))
    for k, one in enumerate(who):
        if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one < parties:
            raise ValueError(f"colluding[{k}] = {one!r} must be a party: a whole number in [0, {parties - 1}]")
    if len(set(who)) == parties:
        raise ValueError("colluding names all parties: nobody is left to protect")
    return tuple(sorted(set(who)))


def _edges(edges: object, parties: int) -> tuple[tuple[int, int], ...]:
    if (given := _listed(edges)) is None:
        raise TypeError(f"edges must be a sequence of (int, int), not {edges!r}")
    found = set()
    for k, edge in enumerate(given):
        pair = _listed(edge) or ()
        if len(pair) != 2 or not all(isinstance(x, int) and not isinstance(x, bool) for x in pair):
            raise TypeError(f"edges[{k}] must be (int, int), not {edge!r}")
        if not all(0 <= x < parties for x in pair) or pair[0] == pair[1]:
            raise ValueError(f"edges[{k}] = {pair!r} must name two different parties in [0, {parties - 1}]")
        found.add((min(pair), max(pair)))
    return tuple(sorted(found))
