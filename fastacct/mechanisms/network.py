"""Walks of a token along a graph."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from fastacct.core.inputs import COUNT, NONNEGATIVE, TINY, Cells, Domain, Reals
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.losses.atoms import both, everything
from fastacct.losses.loss import NOTHING, ROUNDING, Bracket, Pair
from fastacct.losses.revealed import revealed_gaussians
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, option, parameter, plain
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.guarantee import PureDP, RDPCurve

__all__ = ["RandomWalk"]


class RandomWalk(Mechanism, relations=ALL, tight=False):
    """Network DP of a token that sums along a graph (Cyffers, Bellet 2022), as one other user sees it.

    **Guarantee.** `graph="ring"`: for Gaussian noise that is added at least once between two visits to the observer
    (exact where it is once): each of its observations hides one contribution behind one noise. `graph="complete"`:
    for a token that goes to one of `parties` users at random (itself included), each of which adds noise: the path
    is revealed to the observer; between two of its visits m users add noise, j of them the one in question, whose
    contributions add up, so that its divergence is that of a Gaussian moved by j in noise of variance m, averaged
    over the path. The walk starts at a user drawn uniformly, or at the observer; a user at whom it starts is one
    visit further and has no such guarantee. `rounds` counts visits to the observer; that number must not depend on
    the data (to bound it with probability 1 - delta', compose with `ApproxDP(0, delta')`). No protection against
    users that collude: contract them into one. Of the revealed path all that counts is j, of which m is the rest: one
    step in three kinds (the observer, the user in question, any other) makes j geometric with ratio 1/2. The published
    O() statements for the complete graph, whose constants are not verified, are not used.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.RandomWalk(noise_multiplier=8.0, rounds=10), delta=1e-6), 9)
    1.742964362
    >>> walk = fa.RandomWalk(noise_multiplier=4.0, rounds=1, graph="complete", parties=100)
    >>> round(fa.rdp(walk, 4.0), 10)
    0.0025369696
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE, about="Over the contribution; one number for the complete graph.")
    rounds: int = constant(COUNT, about="How often the token visits the observer.")
    graph: Literal["ring", "complete"] = option(("ring", "complete"), "ring")
    parties: int = constant(Domain(3.0, 1000.0, integer=True), 3, about="Users of the complete graph.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.graph == "complete" and self.shape:
            raise TypeError("noise_multiplier must be one number for the complete graph, not an array")

    def decompose(self, relation: Relation) -> Process | None:
        if self.graph == "ring":
            return Gaussian(self.noise_multiplier) * self.rounds
        return None if self.rounds == 1 else replace(self, rounds=1) * self.rounds

    def losses(self, relation: Relation) -> Pair | None:
        if self.graph == "ring":
            return None
        noise = plain(self.noise_multiplier) / sensitivity(relation)
        if math.isinf(noise):
            return NOTHING
        return both(everything() if noise == 0.0 else _complete_losses(noise, self.parties))

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return (
            super().divergence(orders, relation)
            if self.graph == "ring"
            else self._curve(relation).divergence(orders, relation)
        )

    def pure_epsilon(self, relation: Relation) -> float:
        return 0.0 if self.noise_multiplier == math.inf else math.inf

    def grouped(self, size: int, relation: Relation) -> Process | None:
        return None if self.graph == "ring" else self._curve(relation).grouped(size, relation)

    def _curve(self, relation: Relation) -> Mechanism:
        noise = plain(self.noise_multiplier) / sensitivity(relation)
        return PureDP(0.0) if math.isinf(noise) else _complete_walk(noise, self.parties)


_VISITS: Final = 48
_WALK_ORDERS: Final = (1.05, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0, 64.0)


@lru_cache(maxsize=16)
def _complete_losses(noise: float, parties: int) -> Bracket:
    """j visits to a user between two to the observer, and o to others: j geometric, o negative binomial given j.

    Longer waits hide more: from above all beyond a cut count as the cut.  Beyond `_VISITS` as if nobody else had been.
    """
    noise = min(noise, 1e280)
    other = (parties - 2.0) / parties
    above, below, sizes = [], [], []
    for j in range(1, _VISITS + 1):
        mean = 0.5 * (j + 1.0) * (parties - 2.0)
        most = math.ceil(mean + 9.0 * math.sqrt(mean * 0.5 * parties) + 10.0 * parties)
        o = np.arange(1.0, most + 1.0)
        log_weight = np.append(0.0, np.cumsum(np.log1p(j / o) + math.log(other))) + (j + 1.0) * math.log(2.0 / parties)
        off = 2.0 * ROUNDING * (most + 20.0) * float(np.abs(log_weight).max())
        least, found = np.exp(log_weight) * (1.0 - off), np.exp(log_weight) * (1.0 + off)
        least[-1], found[-1] = 0.0, max(0.0, 1.0 - float(np.sum(least))) + 1e-14  # what is left of one
        above.append(found * 0.5 ** (j + 1))
        below.append(least * 0.5 ** (j + 1))
        sizes.append(j / np.sqrt(j + np.append(0.0, o)))
    far = 2.0 ** -np.arange(_VISITS + 2.0, 1002.0)
    above.append(far)
    below.append(0.0 * far)
    sizes.append(np.sqrt(np.arange(_VISITS + 1.0, 1001.0)))
    mu = np.concatenate(sizes) / noise
    return revealed_gaussians(np.concatenate(above), np.concatenate(below), mu, 2.0**-1000)


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
