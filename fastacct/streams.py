"""Mechanisms along a stream, an iteration or a network: trees of partial sums, DP-FTRL, noisy iterations, GOPA, walks.

Each is a process of simpler mechanisms, or Gaussian DP with a known mu.  Parameters and counting; no readout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from fastacct._arrays import TINY, Cells, Domain, as_cells, as_choice
from fastacct.additive import ALL_RELATIONS, Laplace
from fastacct.mechanisms import Declared, Gaussian, Mechanism, constant, moved, parameter
from fastacct.notions import GDP, ZCDP, PureDP, RDPCurve

if TYPE_CHECKING:
    from fastacct.process import Process

__all__ = ["DPFTRL", "GOPA", "NoisyIteration", "RandomWalk", "TreeAggregation"]

_NOISE: Final = Domain(0.0, math.inf)
_COUNT: Final = Domain(1.0, 2.0**52, integer=True)
_FEW: Final = Domain(1.0, 64.0, integer=True)
_VARIANCE: Final = Domain(0.0, 1e12)
_POSITIVE: Final = Domain(0.0, 1e300, open_low=True)
_UP: Final = 1.0 + 1e-9
"""What is paid for the rounding of mu."""


@dataclass(frozen=True, eq=False)
class TreeAggregation(Declared):
    """All prefix sums of a stream from a binary tree of noisy partial sums (Dwork et al. 2010; Chan, Shi, Song 2011).

    **Guarantee.** Exact for Gaussian noise and one participation: a record touches floor(log2 steps) + 1 of the
    nodes that are released (one more than log2 says where steps is a power of two), and its contribution is at most
    1. With several participations in one tree a node moves by as many at most, a bound (of Laplace noise: the sum
    of all pure guarantees). The data may depend on what has been released. A record that is added or removed leaves
    the places of the others as they are (its own is empty).

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Standard deviation of a node's noise ("gaussian"), or its scale ("laplace"), over the contribution.
    steps : whole number
        Leaves of the tree.
    noise : {"gaussian", "laplace"}
    participations : whole number in [1, 64]
        How often one record may occur.
    whole_tree : bool
        All nodes are released: ceil(log2 steps) + 1 per record.

    Examples
    --------
    >>> import fastacct as fa
    >>> tree = fa.TreeAggregation(noise_multiplier=8.0, steps=1000)
    >>> tree.parts("add_remove"), round(fa.epsilon(tree, delta=1e-5), 9)
    (Process({Gaussian(noise_multiplier=8.0): 10}), 1.534679796)
    """

    noise_multiplier: Any = parameter(_NOISE)
    steps: int = constant(_COUNT)
    noise: str = "gaussian"
    participations: int = constant(_FEW, 1)
    whole_tree: bool = False
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS

    def __post_init__(self) -> None:
        super().__post_init__()
        as_choice("noise", self.noise, ("gaussian", "laplace"))

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """With one participation a record touches so many nodes and no others."""
        return self.participations == 1

    def parts(self, neighbors: str) -> Process:
        """The nodes that one record touches."""
        nodes = (self.steps - 1).bit_length() + 1 if self.whole_tree else self.steps.bit_length()
        if self.noise == "laplace" and self.participations > 1:
            # a node may move several times as far, which several small moves do not dominate; together they are pure
            with np.errstate(divide="ignore"):
                total = (
                    moved(neighbors) * nodes * self.participations / np.asarray(self.noise_multiplier) * (1.0 + 4e-16)
                )
            return PureDP(float(total) if total.ndim == 0 else total) * 1
        if self.noise == "laplace":
            return Laplace(self.noise_multiplier) * nodes
        return Gaussian(self.noise_multiplier).group(self.participations) * nodes


@dataclass(frozen=True, eq=False)
class DPFTRL(Declared):
    """DP-FTRL (Kairouz et al. 2021): tree aggregation of gradients, the tree begun afresh every epoch.

    **Guarantee.** Exact for Gaussian noise and a record that occurs once an epoch.  The post-processing of the tree's
    noise (Honaker) changes nothing.  A record that is added or removed leaves the batches of the others as they are.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
    steps : whole number
        Of one epoch.
    epochs : whole number

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.DPFTRL(noise_multiplier=8.0, steps=1000, epochs=3).parts("add_remove")
    Process({Gaussian(noise_multiplier=8.0): 30})
    """

    noise_multiplier: Any = parameter(_NOISE)
    steps: int = constant(_COUNT)
    epochs: int = constant(_COUNT, 1)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS

    def parts(self, neighbors: str) -> Process:
        """The nodes of all trees."""
        return Gaussian(self.noise_multiplier) * (self.steps.bit_length() * self.epochs)


@dataclass(frozen=True, eq=False)
class NoisyIteration(Declared):
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

    noise_multiplier: float = constant(_POSITIVE)
    steps: int = constant(_COUNT)
    contraction: float = constant(Domain(0.0, 1.0, open_low=True), 1.0)
    diameter: float = constant(Domain(0.0, math.inf, open_low=True), math.inf)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False

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
        noise = as_cells("noise_multiplier", noise_multiplier, _POSITIVE)
        total, place = as_cells("steps", steps, _COUNT), as_cells("position", position, _COUNT)
        if noise.ndim or total.ndim or place.ndim:
            raise TypeError("noise_multiplier, steps and position must be one number each")
        if place > total:
            raise ValueError(f"position = {int(place)} is out of range; allowed: whole numbers in [1, {int(total)}]")
        with np.errstate(over="ignore"):
            rho = float(0.5 / (noise * noise * (total - place + 1.0)) * (1.0 + 2e-15))
        return ZCDP(max(rho, TINY) if noise < np.inf else 0.0)

    def parts(self, neighbors: str) -> Process:
        """One Gaussian."""
        return GDP(self.mu * _UP) * 1


@dataclass(frozen=True, eq=False)
class GOPA(Declared):
    """Decentralised averaging with noise that cancels between neighbours (Sabater, Bellet, Ramon 2022).

    **Guarantee.** mu-GDP for replacing one honest party's value in [0, 1], against all others together: the view of
    the dishonest is a Gaussian, and mu is its largest one-coordinate signal-to-noise ratio, computed here from the
    graph of honest parties.  `edges` are those between honest parties; remove the others first.  Parties that are not
    connected are worse off, and mu says so.

    Parameters
    ----------
    independent_variance : float in [0, 1e12]
        Of each party's own noise.
    pairwise_variance : float in [0, 1e12]
        Of the noise that two neighbours share with opposite signs.
    parties : whole number in [1, 4096]
        Honest ones.
    edges : sequence of (int, int), optional
        Default: the complete graph.

    Examples
    --------
    >>> import fastacct as fa
    >>> ring = fa.GOPA(0.5, 2.0, parties=12, edges=[(i, i + 1) for i in range(11)])
    >>> round(ring.mu ** 2, 9), round(fa.GOPA(0.5, 2.0, parties=12).mu ** 2, 9)
    (0.780790711, 0.204081633)
    """

    independent_variance: float = constant(_VARIANCE)
    pairwise_variance: float = constant(_VARIANCE)
    parties: int = constant(Domain(1.0, 4096.0, integer=True))
    edges: tuple[tuple[int, int], ...] | None = None
    relations: ClassVar[tuple[str, ...]] = ("replace_one",)
    exact: ClassVar[bool] = False

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

    def parts(self, neighbors: str) -> Process:
        """One Gaussian."""
        return GDP(self.mu * _UP) * 1


def _edges(edges: Any, parties: int) -> tuple[tuple[int, int], ...]:
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
class RandomWalk(Declared):
    """Network DP of a token that sums along a graph (Cyffers, Bellet 2022), as one other user sees it.

    **Guarantee.** `graph="ring"`: for Gaussian noise that is added at least once between two visits to the observer
    (exact where it is once): each of its observations hides one contribution behind one noise. `graph="complete"`:
    for a token that goes to one of `parties` users at random (itself included), each of which adds noise: the path
    is revealed to the observer; between two of its visits m users add noise, j of them the one in question, whose
    contributions add up, so that its divergence is that of a Gaussian moved by j in noise of variance m, averaged
    over the path. The walk starts at a user drawn uniformly, or at the observer; a user at whom it starts is one
    visit further and has no such guarantee. `rounds` counts visits to the observer; that number must not depend on
    the data (to bound it with probability 1 - delta', compose with `ApproxDP(0, delta')`). No protection against
    users that collude: contract them into one. The published O() statements for the complete graph, whose constants
    are not verified, are not used.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Of one noise, over the contribution; one number for the complete graph.
    rounds : whole number
        How often the token visits the observer.
    graph : {"ring", "complete"}
    parties : whole number in [3, 1000]
        Users of the complete graph.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.RandomWalk(noise_multiplier=8.0, rounds=10), delta=1e-6), 9)
    1.742964362
    >>> walk = fa.RandomWalk(noise_multiplier=4.0, rounds=1, graph="complete", parties=100)
    >>> round(fa.rdp(walk, 4.0), 10)
    0.0025369696
    """

    noise_multiplier: Any = parameter(_NOISE)
    rounds: int = constant(_COUNT)
    graph: str = "ring"
    parties: int = constant(Domain(3.0, 1000.0, integer=True), 3)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if as_choice("graph", self.graph, ("ring", "complete")) == "complete" and np.ndim(self.noise_multiplier):
            raise TypeError("noise_multiplier must be one number for the complete graph, not an array")

    def parts(self, neighbors: str) -> Process:
        """One Gaussian a round, or one curve of divergences."""
        if self.graph == "ring":
            return Gaussian(self.noise_multiplier) * self.rounds
        return _complete_walk(self.noise_multiplier / moved(neighbors), self.parties) * self.rounds


_WALK_ORDERS: Final = (1.05, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0, 64.0)


@lru_cache(maxsize=64)
def _complete_walk(noise: float, parties: int) -> Mechanism:
    """Divergences of one cycle between two visits to the observer."""
    if not noise > 0.0:
        return PureDP(math.inf)
    orders = np.array(_WALK_ORDERS)
    values = _cycle(orders, noise, parties)
    known = np.isfinite(values)
    return RDPCurve(orders[known], values[known]) if known.any() else PureDP(math.inf)


def _cycle(orders: Cells, noise: float, parties: int) -> Cells:
    """log E exp(c j^2/m)/(alpha - 1), c = alpha (alpha - 1)/(2 noise^2), m geometric from 0, j binomial of m."""
    a, share, log_stay = orders - 1.0, 1.0 / (parties - 1.0), math.log1p(-1.0 / parties)
    c = np.maximum(0.5 * orders * a / noise / noise * (1.0 + 2e-15), TINY)
    most, widest = 32 * parties, 400
    total = np.zeros(orders.size)
    log_factorial = np.array([math.lgamma(m + 1.0) for m in range(most + 1)])  # good to 1e-9, which is paid
    with np.errstate(over="ignore", invalid="ignore"):
        for m in range(1, most + 1):
            k = np.arange(1, min(m, widest) + 1)
            log_mass = log_factorial[m] - log_factorial[k] - log_factorial[m - k]
            log_mass += k * math.log(share) + (m - k) * math.log1p(-share)
            x = c[:, None] * (k * k / m)
            terms = np.where(x < 1.0, np.exp(log_mass) * np.expm1(np.minimum(x, 1.0)), np.exp(log_mass + x))
            total += math.exp(m * log_stay) / parties * terms.sum(axis=1)
        # wider jumps, by exp(c j^2/m) <= exp(c j), and longer cycles, j below and above a part of m: Chernoff
        rates = np.geomspace(1e-3, 30.0, 400)
        growth = np.log1p(share * np.expm1(c[:, None] + rates))
        wide = np.exp(np.min(-rates * widest + most * np.maximum(growth, 0.0), axis=1))
        far = np.full(orders.size, np.inf)
        for part in (0.02, 0.05, 0.1, 0.2, 0.4, 0.7):
            below = np.log1p(share * np.expm1(c * part)) + log_stay
            above = np.min(growth - rates * part, axis=1) + log_stay
            rest = [np.where(x < 0.0, np.exp((most + 1) * x) / -np.expm1(x), np.inf) for x in (below, above)]
            far = np.minimum(far, (rest[0] + rest[1]) / parties)
        value = np.log1p(total * (1.0 + 1e-8) + wide + far) / a * (1.0 + 1e-14)
    return np.where(np.isnan(value), np.inf, value)
