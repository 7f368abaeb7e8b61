"""Walks of a token along a graph."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from fastacct.core.inputs import COUNT, NONNEGATIVE, ROUNDING, TINY, Cells, Domain, Reals
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.losses.atoms import both, everything
from fastacct.losses.loss import NOTHING, Bracket, Pair
from fastacct.losses.revealed import revealed_gaussians
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, option, parameter, plain
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.gopa import as_coalition
from fastacct.mechanisms.guarantee import PureDP, RDPCurve

_ROUNDS: Final = (
    "Visits of the observer; of a coalition in all so many times its size, at the last of which the walk stops."
)
_MOST_OF_SUM: Final = 1000


class RandomWalk(Mechanism, relations=ALL, tight=False):
    """Network DP of a token that sums along a graph (Cyffers, Bellet 2022), as one other user sees it.

    **Guarantee.** For one user's contributions, against one observer, or against an observer and the `colluding` ones,
    who count as one. Whoever sees all messages has `local()`. `rounds` must not depend on the data (to bound it with
    probability 1 - delta', compose with `ApproxDP(0, delta')`).

    `graph="ring"`: each observation hides one contribution behind the noise that is added at least once between two
    visits (exact where it is once). With `noise="every"` every user adds noise, and a contribution hides behind that
    of all users between two who collude: as many as the shortest way has whose ends are the observer, at place 0, or
    the `colluding` places; if only their number is given, one. Then the walk starts and ends at the observer: a
    contribution on a shorter stretch, to the first look or after the last, has no such guarantee.

    `graph="complete"`: the token goes to one of `parties` users at random (itself included), each of which adds noise,
    and the path is revealed. Between two visits to the coalition m users add noise, j of them the one in question:
    given the path, a Gaussian moved by j in noise of variance m. The average over paths is taken: j is geometric, as
    of the steps that matter one kind goes to the coalition and one to the user, and m is j and the steps between. The
    coalition is visited `rounds` times its size, and the walk ends with the last of these visits: what is published
    elsewhere, or after a number of steps fixed beforehand, is not covered. The walk starts at a user drawn uniformly,
    or at the observer; a user at whom it is known to start is one visit further and has no such guarantee. Proof:
    docs/algorithms/networks.md.
    The published O() statements, whose constants are not verified, are not used.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.RandomWalk(noise_multiplier=8.0, rounds=10), delta=1e-6), 9)
    1.742964362
    >>> walk = fa.RandomWalk(noise_multiplier=4.0, rounds=1, graph="complete", parties=100)
    >>> round(fa.rdp(walk, 4.0), 10)
    0.0025369655
    >>> coalition = fa.RandomWalk(noise_multiplier=4.0, rounds=1, graph="complete", parties=100, colluding=9)
    >>> round(fa.rdp(coalition, 4.0), 8)
    0.01452736
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE, about="Over the contribution; one number for the complete graph.")
    rounds: int = constant(COUNT, about=_ROUNDS)
    graph: Literal["ring", "complete"] = option(("ring", "complete"), "ring")
    parties: int = constant(Domain(3.0, _MOST_OF_SUM, integer=True), 3, about="Users: of the ring if all add noise.")
    colluding: int | tuple[int, ...] = 0
    noise: Literal["once", "every"] = option(
        ("once", "every"), "once", about="On the ring: at least once between two visits, or by every user."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "colluding", as_coalition(self.colluding, self.parties))
        if self.graph == "complete":
            if self.shape:
                raise TypeError("noise_multiplier must be one number for the complete graph, not an array")
            _check_coalition(self.colluding, self.parties)
            return
        if (isinstance(self.colluding, int) and self._coalition >= self.parties) or not self._ways:
            raise ValueError(f"colluding = {self.colluding!r} and the observer are all {self.parties} users")
        if self.noise == "once" and self.colluding:
            raise ValueError(
                "colluding parties on a ring whose noise is added once between two visits may see a contribution "
                "without noise: only noise='every' protects"
            )

    def decompose(self, relation: Relation) -> Process:
        if self.graph == "ring":
            return Gaussian(self._hidden_by()) * self.rounds
        return WalkCycle(plain(self.noise_multiplier), self.parties, self._coalition) * (self.rounds * self._coalition)

    def _hidden_by(self) -> Reals:
        """Standard deviation of what a contribution on the ring hides behind."""
        is_alone = self.noise == "once" or (self.colluding and isinstance(self.colluding, int))
        if (shortest := 1 if is_alone else min(self._ways)) == 1:
            return self.noise_multiplier
        noise, most = np.asarray(self.noise_multiplier, dtype=np.float64), np.finfo(np.float64).max
        with np.errstate(over="ignore"):  # overflow is not infinite
            return np.where(noise < np.inf, np.minimum(noise * (math.sqrt(shortest) * (1.0 - 1e-15)), most), noise)

    @property
    def _ways(self) -> tuple[int, ...]:
        """How many honest users follow one another on the ring, between those who collude."""
        places = (0, *(self.colluding if isinstance(self.colluding, tuple) else ()), self.parties)
        ways = (after - before - 1 for before, after in pairwise(sorted(set(places))))
        return tuple(one for one in ways if one > 0)

    def local(self) -> Process:
        """Where all messages are seen: one contribution behind its own noise a round, if every user adds noise."""
        alone = self.noise_multiplier if self.graph == "complete" or self.noise == "every" else 0.0
        return Gaussian(alone) * self.rounds

    @property
    def _coalition(self) -> int:
        """The observer and those who collude with it."""
        return 1 + (self.colluding if isinstance(self.colluding, int) else len(self.colluding))


class WalkCycle(Mechanism, relations=ALL, tight=False):
    """What the coalition learns between two of its visits on the complete graph; made by the two walks.

    **Guarantee.** That of `RandomWalk`, or of `GradientWalk` (`step="gradient"`), for a coalition visited once.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.RandomWalk(4.0, rounds=3, graph="complete", parties=20, colluding=1).decompose("add_remove")
    Process({WalkCycle(noise_multiplier=4.0, parties=20, coalition=2, step='sum'): 6})
    """

    noise_multiplier: float = constant(NONNEGATIVE)
    parties: int = constant(Domain(3.0, 1e9, integer=True))
    coalition: int = constant(COUNT, 1)
    step: Literal["sum", "gradient"] = option(("sum", "gradient"), "sum")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_coalition(self.coalition - 1, self.parties)
        if self.step == "sum" and self.parties > _MOST_OF_SUM:
            raise ValueError(f"parties = {self.parties} is out of range; allowed for a sum: [3, {_MOST_OF_SUM}]")

    @property
    def has_losses(self) -> bool:
        return self.step == "sum"

    def losses(self, relation: Relation) -> Pair | None:
        if self.step == "gradient":
            return None
        noise = self.noise_multiplier / sensitivity(relation)
        if math.isinf(noise):
            return NOTHING
        return both(everything() if noise == 0.0 else _complete_losses(noise, self.parties, self.coalition))

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        noise = self.noise_multiplier / sensitivity(relation)
        if self.step == "sum":
            return self._curve(relation).divergence(orders, relation)
        if math.isinf(noise) or noise == 0.0:
            return np.full_like(orders, 0.0 if noise else np.inf)
        return _gradient_cycle(orders, noise, self.parties, self.coalition)

    def pure_epsilon(self, relation: Relation) -> float:
        return 0.0 if self.noise_multiplier == math.inf else math.inf

    def grouped(self, size: int, relation: Relation) -> Process | None:
        return None if self.step == "gradient" else self._curve(relation).grouped(size, relation)

    def _curve(self, relation: Relation) -> Mechanism:
        noise = self.noise_multiplier / sensitivity(relation)
        return PureDP(0.0) if math.isinf(noise) else _complete_walk(noise, self.parties, self.coalition)


_VISITS: Final = 48
_WIDEST: Final = 400
"""Contributions of one user to a cycle that are summed one by one."""
_WALK_ORDERS: Final = (1.05, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0, 64.0)


@lru_cache(maxsize=16)
def _complete_losses(noise: float, parties: int, coalition: int) -> Bracket:
    """j visits to a user between two to a coalition, and o to others: j geometric, o negative binomial given j.

    Longer waits hide more: from above all beyond a cut count as the cut.  Beyond `_VISITS` as if nobody else had been.
    """
    noise = min(noise, 1e280)
    known, other = coalition + 1.0, (parties - 1.0 - coalition) / parties
    above, below, sizes = [], [], []
    for j in range(1, _VISITS + 1):
        mean = (j + 1.0) * (parties - known) / known
        most = math.ceil(mean + 9.0 * math.sqrt(mean * parties / known) + 20.0 * parties / known)
        o = np.arange(1.0, most + 1.0)
        log_weight = np.append(0.0, np.cumsum(np.log1p(j / o) + math.log(other)))
        log_weight += (j + 1.0) * math.log(known / parties)
        off = 2.0 * ROUNDING * (most + 20.0) * float(np.abs(log_weight).max())
        least, found = np.exp(log_weight) * (1.0 - off), np.exp(log_weight) * (1.0 + off)
        least[-1], found[-1] = 0.0, max(0.0, 1.0 - float(np.sum(least))) + 1e-14  # what is left of one
        chance = coalition / known * known**-j
        above.append(found * chance)
        below.append(least * chance)
        sizes.append(j / np.sqrt(j + np.append(0.0, o)))
    far = coalition / known * known ** -np.arange(_VISITS + 1.0, 1001.0)
    above.append(far)
    below.append(0.0 * far)
    sizes.append(np.sqrt(np.arange(_VISITS + 1.0, 1001.0)))
    mu = np.concatenate(sizes) / noise
    return revealed_gaussians(np.concatenate(above), np.concatenate(below), mu, known**-1000)


@lru_cache(maxsize=64)
def _complete_walk(noise: float, parties: int, coalition: int) -> Mechanism:
    """Divergences of one cycle between two visits to the coalition."""
    if not noise > 0.0:
        return PureDP(math.inf)
    orders = np.array(_WALK_ORDERS)
    values = _cycle(orders, noise, parties, coalition)
    known = np.isfinite(values)
    return RDPCurve(orders[known], values[known]) if known.any() else PureDP(math.inf)


def _cycle(orders: Cells, noise: float, parties: int, coalition: int) -> Cells:
    """log E exp(c j^2/m)/(alpha - 1), c = alpha (alpha - 1)/(2 noise^2), m geometric from 0, j binomial of m."""
    a, share, log_stay = orders - 1.0, 1.0 / (parties - coalition), math.log1p(-coalition / parties)
    c = np.maximum(0.5 * orders * a / noise / noise * (1.0 + 2e-15), TINY)
    most = max(32 * -(-parties // coalition), _WIDEST)
    total = np.zeros(orders.size)
    log_factorial = np.array([math.lgamma(m + 1.0) for m in range(most + 1)])  # good to 1e-9, which is counted
    with np.errstate(over="ignore", invalid="ignore"):
        for m in range(1, most + 1):
            k = np.arange(1, min(m, _WIDEST) + 1)
            log_mass = log_factorial[m] - log_factorial[k] - log_factorial[m - k]
            log_mass += k * math.log(share) + (m - k) * math.log1p(-share)
            x = c[:, None] * (k * k / m)
            few = np.exp(log_mass) * np.expm1(np.minimum(x, 1.0))
            terms = np.where(x < 1.0, few, -np.expm1(-x) * np.exp(log_mass + x))
            total += math.exp(m * log_stay) * coalition / parties * terms.sum(axis=1)
        # wider jumps, by exp(c j^2/m) <= exp(c j), and longer cycles, j between two parts of m: Chernoff
        rates = np.append(0.0, np.geomspace(1e-3, 30.0, 400))
        growth = np.log1p(share * np.expm1(c[:, None] + rates))
        wide = np.exp(np.min(-rates * _WIDEST + most * np.maximum(growth, 0.0), axis=1)) if most > _WIDEST else 0.0
        far = np.zeros(orders.size)
        for least, part in pairwise(np.linspace(0.0, 1.0, 65).tolist()):
            growth = np.log1p(share * np.expm1(c[:, None] * part + rates)) - rates * least
            x = np.min(growth, axis=1) + log_stay
            far += np.where(x < 0.0, np.exp((most + 1) * x) / -np.expm1(x), np.inf) * coalition / parties
        value = np.log1p(total * (1.0 + 1e-8) + wide + far) / a * (1.0 + 1e-14)
    return np.where(np.isnan(value), np.inf, value)


class GradientWalk(Mechanism, relations=ALL, tight=False, no_group="the theorem is for one user's steps"):
    """Network DP of a token that carries a model along the complete graph and takes a noisy gradient step at each user.

    **Guarantee.** Rényi DP for one user against another one, or against that one and the `colluding` ones together, who
    see the model when it visits them, and the path. Every step is x - eta (gradient + noise), projections on a convex
    set included, of a convex loss with smoothness beta, and eta is at most 2/beta: a contraction. The token goes to one
    of `parties` users at random (itself included), each of which adds noise. A step of the user in question is
    hidden by the noise of all steps until its next one or a visit to the coalition: with g such steps, its own
    included, its divergence is that of noise g times as large in variance (amplification by iteration: Feldman,
    Mironov, Talwar, Thakurta 2018; walks: Cyffers, Bellet 2022). g is geometric, and so is the number of its steps
    between two visits: both are averaged over, as the path is revealed. Proof: docs/algorithms/networks.md. Start and
    `rounds` as for `RandomWalk`.

    On a ring the user before the observer has no amplification, and on other graphs, or where losses are not convex,
    no theorem with constants is known here: these are refused.

    Examples
    --------
    >>> import fastacct as fa
    >>> walk = fa.GradientWalk(noise_multiplier=8.0, rounds=10, parties=1000)
    >>> round(fa.epsilon(walk, delta=1e-6), 3), round(fa.epsilon(walk.local(), delta=1e-6), 3)
    (0.52, 1.743)
    """

    noise_multiplier: float = constant(
        NONNEGATIVE, about="Standard deviation over the largest norm of a user's gradient, both before the step size."
    )
    rounds: int = constant(COUNT, about=_ROUNDS)
    parties: int = constant(Domain(3.0, 1e9, integer=True), about="Users of the complete graph.")
    colluding: int = constant(Domain(0.0, 1e9, integer=True), 0, about="Besides the observer.")
    graph: Literal["complete"] = option(
        ("complete",), "complete", about="For others no theorem with constants is known."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_coalition(self.colluding, self.parties)

    def decompose(self, relation: Relation) -> Process:
        coalition = 1 + self.colluding
        return WalkCycle(self.noise_multiplier, self.parties, coalition, "gradient") * (self.rounds * coalition)

    def local(self) -> Process:
        """Where all messages are seen: one step behind its own noise a round, their mean number."""
        return Gaussian(self.noise_multiplier) * self.rounds


def _gradient_cycle(orders: Cells, noise: float, parties: int, coalition: int) -> Cells:
    """Divergence of the steps between two visits: their number geometric, and the noise that hides each as well."""
    gaps, chances = _gaps((coalition + 1.0) / parties)
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.maximum(0.5 * orders * (orders - 1.0) / noise / noise * (1.0 + 2e-15), TINY)
        raised = np.sum(np.expm1(power[..., None] / gaps) * chances, axis=-1) * (1.0 + 1e-12)  # row by row: same bits
        # the sum over j of (coalition / (coalition + 1)^(j + 1)) (1 + raised)^j
        found = -np.log1p(-raised / coalition) / (orders - 1.0) * (1.0 + 1e-14)
    return np.where(raised < coalition, found, np.inf)


def _gaps(stop: float) -> tuple[Cells, Cells]:
    """Geometric waiting times and their probabilities; from 1,000 on in blocks, as their least, which hides least."""
    far = np.ceil(np.geomspace(1e3, max(1e4, 40.0 / stop), 4000))
    gaps = np.unique(np.append(np.arange(1.0, 1000.0), far))
    log_stay = math.log1p(-stop)
    return gaps, np.exp((gaps - 1.0) * log_stay) * -np.expm1(np.append(np.diff(gaps), np.inf) * log_stay)


def _check_coalition(colluding: int | tuple[int, ...], parties: int) -> None:
    """On the complete graph: a number, and another user beside the coalition and the one in question."""
    if not isinstance(colluding, int):
        raise TypeError(f"colluding must be a number on the complete graph, not {colluding!r}")
    if colluding > parties - 3:
        raise ValueError(
            f"colluding = {colluding} is out of range; allowed: [0, {parties - 3}]: of {parties} users one observes, "
            "one is protected, and one more hides it; without that one all is local()"
        )
