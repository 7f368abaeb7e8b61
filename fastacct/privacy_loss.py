"""The privacy loss of a job as a random variable: its mean, the probability that it is above epsilon, its quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from fastacct.accountants.question import Job, answer, as_process
from fastacct.accountants.run import verb
from fastacct.core.bounds import Bounds
from fastacct.core.deltas import (
    FEWER,
    LARGEST,
    STEPS,
    Concentration,
    Tail,
    bounded,
    chances,
    larger,
    largest_quantile,
    power_bounds,
    second_moment,
    smallest_tau,
)
from fastacct.core.engine import AT_ONCE
from fastacct.core.html import table
from fastacct.core.inputs import MAX_ORDER, ROUNDING, Cells, Domain, Reals, as_cells, as_choice, as_number
from fastacct.core.kept import cached
from fastacct.core.relations import DIRECTIONS, Direction
from fastacct.core.words import hinting
from fastacct.epsilon import rdp
from fastacct.mechanisms.base import WEIGHTS_OFF, plain
from fastacct.mechanisms.finite import from_pmf
from fastacct.mechanisms.guarantee import MeanConcentratedDP
from fastacct.readers.asked import ROUGHLY, Ask
from fastacct.readers.job import exact, largest_finite
from fastacct.readers.moments import at_order, moments

Both = Literal["add_remove", "remove", "add"]
_BOTH: Final[tuple[Both, ...]] = ("add_remove", "remove", "add")
_ANY: Final = Domain(-1e300, 1e300)
_CHANCE: Final = Domain(0.0, 1.0, open_low=True)
_ORDER: Final = Domain(0.0, MAX_ORDER, or_infinite=True)


class PrivacyLoss:
    """log dP/dQ under P, for all releases of a job together; made by `fastacct.privacy_loss`."""

    if not TYPE_CHECKING:
        __getattr__ = hinting({"max": "divergence(math.inf) is the largest loss"})

    def __init__(self, job: Job, relation: Both, threads: int | None, *, is_tight: bool = True) -> None:
        self._relation, self._job, self._threads = as_choice("neighbors", relation, _BOTH), as_process(job), threads
        if shape := self._job.shape:
            raise TypeError(f"the job has arrays of shape {shape}: ask for one job at a time")
        direction, *others = DIRECTIONS[relation]
        self._direction: Direction = direction
        self._is_tight, parts = is_tight and self._job.tight, self._job.decompose(direction)
        each, several = [PrivacyLoss(job, way, threads) for way in others], parts.alternatives(direction)
        if len(several) > 1:  # one for each part of the data that a record may be in
            each = [PrivacyLoss(one, direction, threads, is_tight=self._is_tight) for one in several] + each
        elif others:
            each = [PrivacyLoss(job, direction, threads), *each]
        self.ways: list[PrivacyLoss] = [way for loss in each for way in loss.ways or [loss]]
        releases = sum(float(np.asarray(count)) for _, count in parts)
        self._off = 0.0 if parts.sampled(direction, exactly=True) else 2.0 * WEIGHTS_OFF * releases
        """By how much the probabilities of a pair may miss 1: those that users give, do."""
        self._other: Direction = "add" if direction == "remove" else "remove"
        self._grids: dict[Direction, tuple[Cells, Cells, Cells]] = {}

    def __repr__(self) -> str:
        return f"PrivacyLoss({self._job!r}, neighbors={self._relation!r})"

    def _repr_html_(self) -> str:
        return table(repr(self), [("mean", *self.mean[:2], self.mean.status)], ("", "lower", "upper", "status"))

    @cached
    def _apart(self) -> tuple[tuple[float, PrivacyLoss], ...]:
        """How often each release is made, and the loss of one; empty for one release, or where one of several is made.

        Losses of releases are independent under P: log-moments, means and variances add up, and deltas of one release
        are quicker than those of all.
        """
        releases = [(kind, float(np.asarray(count))) for kind, count in self._job.decompose(self._direction)]
        is_single = sum(count for _, count in releases) == 1.0
        if is_single or not releases or any(kind.alternatives() for kind, _ in releases):
            return ()
        return tuple((n, PrivacyLoss(kind, self._direction, self._threads)) for kind, n in releases if n > 0.0)

    def _sum(self, of_one: Callable[[PrivacyLoss], Bounds]) -> tuple[float, float]:
        """Over all releases: of lower and of upper bounds that are at least 0."""
        lower, upper = np.sum([[n * end for end in of_one(loss)[:2]] for n, loss in self._apart], axis=0).tolist()
        off = (len(self._apart) + 2.0) * 4e-16
        return lower * (1.0 - off) if self._is_tight else 0.0, upper * (1.0 + off)

    @property
    @larger
    def mean(self) -> Bounds:
        """The Kullback-Leibler divergence of P from Q: certified bounds."""
        return self.divergence(1.0)

    @larger
    def divergence(self, order: float) -> Bounds:
        """The Rényi divergence of P from Q of an order in [0, 1e11] or inf: certified bounds.

        0: -log Q(P > 0), from above only.  1: the Kullback-Leibler divergence.  inf: the largest loss.  Others are
        integrals over the output where the losses are known; of Gaussian mixtures below 1 up to divergences of 80.  Of
        other jobs orders from 1 on are bounded above as by `fastacct.rdp`, the rest by integrals over certified deltas.
        """
        alpha = as_number("order", order, _ORDER)
        own, back = (partial(loss._moments, many=4 if alpha <= 1.0 else 2) for loss in (self, self._back))
        if 0.0 < alpha < math.inf and (rows := at_order(own, back, alpha)) is not None:
            ends = rows[2:4, 0] if alpha == 1.0 else np.sort(rows[:2, 0] / (alpha - 1.0))
            lower, upper = (ends.clip(0.0) * (1.0 + 4.0 * ROUNDING * np.array([-1.0, 1.0]))).tolist()
            if not self._is_tight:  # divergences, which grow with the order, may say more than its pair
                lower, upper = 0.0, min(upper, float(rdp(self._job, max(alpha, 1.0), neighbors=self._direction)))
            return bounded(lower, upper)
        return bounded(*self._by_curve(alpha))

    def _by_curve(self, alpha: float) -> tuple[float, float]:
        """The divergence of an order from certified deltas, from above by `fastacct.rdp` too where it is known."""
        if alpha == 0.0:
            lost = float(self._deltas_of(self._other, np.array([LARGEST]))[1][0]) + self._off
            lower, upper = 0.0, math.inf if lost >= 1.0 else -math.log1p(-lost) * (1.0 + 1e-14)
        elif alpha == math.inf:
            least = answer("epsilon", self._job, 0.0, None, self._direction, self._threads)
            largest = float(rdp(self._job, alpha, neighbors=self._direction))
            lower, upper = float(least.lower) if self._is_tight else 0.0, min(float(least.upper), largest)
        else:
            if self._apart:
                lower, upper = self._sum(lambda one: one.divergence(alpha))
            else:
                low, high = self._by_deltas(np.array([min(alpha, 64.0)]))  # divergences grow with the order
                lower, upper = max(low.item(), 0.0), high.item()
            if alpha >= 1.0:
                upper = min(upper, float(rdp(self._job, alpha, neighbors=self._direction, threads=self._threads)))
                lower = min(lower, upper)
        return lower, upper

    @cached
    @larger
    def variance(self) -> Bounds:
        """The variance under P: certified bounds.

        To 1e-9 of itself where the losses are known.  Of other jobs about 1e-6 of the second moment wide for losses of
        the size of 1, and from above inf where losses beyond 700 matter.  Of the pair that is analysed: a mechanism
        that a guarantee describes (`PureDP`, `GDP`), or post-processing, may have a larger one.
        """
        if (rows := self._moments(np.zeros(1), 6)) is not None:
            return bounded(rows[4].item() if self._is_tight else 0.0, rows[5].item())
        if self._apart:
            return bounded(*self._sum(lambda one: one.variance))
        mean = self.mean
        if math.isinf(mean.upper):
            return bounded(0.0, math.inf)
        deltas, back = (partial(self._deltas_of, direction) for direction in (self._direction, self._other))
        renyi = partial(self._renyi, self._direction)
        low, high = second_moment(deltas, back, lambda order: renyi(np.array([order])).item(), self._is_tight)
        high -= mean.lower * mean.lower * (1.0 - 1e-15)
        low -= mean.upper * mean.upper * (1.0 + 1e-15)
        return bounded(max(low, 0.0), max(high, 0.0))

    @property
    @larger
    def concentration(self) -> Concentration:
        """(mu, tau) of mean-concentrated DP in this direction: the smallest from above, tau to about 1e-3 at best.

        mu is the upper bound of the mean, and tau^2 at least 2 log E exp(s (L - E L)) / s^2 for all s.  Infinite where
        no bound is found: losses that are infinite, have heavier tails, or are beyond 700.  As `variance` it is of the
        pair that is analysed: mean-concentrated DP does not pass to what a pair dominates, nor to post-processing.
        """
        parts = [(kind, plain(n)) for kind, n in self._job if isinstance(kind, MeanConcentratedDP)]
        if 0 < len(parts) == len([*self._job]):  # by definition; squares add up
            mu = math.fsum(n * plain(kind.mu) for kind, n in parts)
            square = math.fsum(n * plain(kind.tau) ** 2 for kind, n in parts)
            return Concentration(mu * (1.0 + 4e-16), math.sqrt(square) * (1.0 + 4e-16))
        mean = self.mean
        if math.isinf(mean.upper) or math.isinf((variance := self.variance).upper):
            return Concentration(mean.upper, math.inf)
        if variance.upper == 0.0:
            return Concentration(mean.upper, 0.0)
        rho, pure = self._growth(self._direction)
        rho_back, pure_back = self._growth(self._other)

        def far(s: Cells) -> Cells:
            right = np.minimum(rho * (1.0 + 1.0 / s), pure / s)
            backward = np.minimum(rho_back + mean.upper / s, (pure_back + mean.upper) / s)
            return np.asarray(2.0 * np.maximum(right, backward))

        tau = smallest_tau(partial(self._moment, 1), partial(self._moment, 0), mean, math.sqrt(variance.upper), far)
        return Concentration(mean.upper, min(tau, 0.5 * (pure + pure_back)))  # Hoeffding: half the range

    def _growth(self, direction: Direction) -> tuple[float, float]:
        """rho of zero-concentrated DP and epsilon of pure DP in one direction; inf where none is known."""
        parts = [(kind, float(np.asarray(count))) for kind, count in self._job.decompose(direction)]
        rho = sum(k * min(m.concentration(direction), m.unsampled().concentration(direction)) for m, k in parts)
        pure = sum(k * m.pure_epsilon(direction) for m, k in parts)
        if math.isinf(min(rho, pure)):
            pure = PrivacyLoss(self._job, direction, self._threads).divergence(math.inf).upper
        if math.isinf(pure) and direction == self._other:  # an outcome that P does not have has no loss under P
            pure = largest_finite(self._job.decompose(direction), direction)
        return float(rho) * (1.0 + 1e-12), float(pure) * (1.0 + 1e-12)

    @cached
    def _back(self) -> PrivacyLoss:
        """The loss of the other direction."""
        back = PrivacyLoss(self._job, self._other, self._threads)
        back._grids = self._grids
        return back

    def _moment(self, side: Literal[0, 1], s: Cells) -> Cells:
        """Bounds of log E_P exp(s L), from below or from above."""
        value = np.full(s.shape, np.nan) if (rows := self._rows(s)) is None else rows[side]
        if (unknown := ~np.isfinite(value)).any():
            value[unknown] = self._by_parts(side, s[unknown])
        return np.asarray(value)

    def _by_parts(self, side: Literal[0, 1], s: Cells) -> Cells:
        """The same of losses that are no data: the sum over the releases, or by divergences of all together."""
        if each := [n * loss._moment(side, s) for n, loss in self._apart]:
            rounded = 4e-16 * (len(each) + 2.0) * np.sum(np.abs(each), axis=0)
            return np.asarray(np.sum(each, axis=0) + (rounded if side else -rounded))
        return self._most(s) if side else np.array([*map(self._least, s.tolist())])

    def _least(self, s: float) -> float:
        if s > -1.0:
            found = self.divergence(1.0 + s).lower if s > 0.0 else self._by_deltas(np.array([1.0 + s]))[1].item()
            return float(s * found) if math.isfinite(found) else -math.inf
        return float((-s - 1.0) * self._back.divergence(-s).lower) if s < -1.0 else -math.inf

    def _most(self, s: Cells) -> Cells:
        value = np.empty(s.shape)
        right, backward = s > 0.0, s < -1.0
        value[right] = s[right] * self._renyi(self._direction, 1.0 + s[right])
        value[backward] = (-s[backward] - 1.0) * self._renyi(self._other, -s[backward])
        near = (s > -1.0) & ~right
        if near.any():
            value[near] = s[near] * self._by_deltas(1.0 + s[near])[0]
        value[s == -1.0] = 0.0
        return value

    def _rows(self, s: Cells) -> Cells | None:
        """Bounds of the log-moments of all releases and of their derivatives; NaN where not known, None if nowhere."""
        return moments(self._job.decompose(self._direction), self._direction, self._direction, s)

    def _moments(self, s: Cells, many: int) -> Cells | None:
        """Those rows, where so many of them are known."""
        rows = self._rows(s)
        return rows if rows is not None and np.isfinite(rows[:many]).all() else None

    def _renyi(self, direction: Direction, orders: Cells) -> Cells:
        return np.asarray(rdp(self._job, orders, neighbors=direction, threads=self._threads))

    def _by_deltas(self, alpha: Cells) -> tuple[Cells, Cells]:
        """Of orders above 0, by the integral of both directions' deltas with weights (Sason, Verdu 2016):

        E_Q[f(P/Q)] = the integral over x > 1 of f''(x) delta(x) + x^-3 f''(1/x) delta'(x), f = x^alpha or x log x.
        """
        low, high = np.empty(alpha.size), np.empty(alpha.size)
        for start in range(0, alpha.size, AT_ONCE):
            chunk = slice(start, start + AT_ONCE)
            sides = (self._direction, alpha[chunk] - 1.0), (self._other, -alpha[chunk])
            ends = [power_bounds(*self._grid(way), top) for way, top in sides]
            low[chunk], high[chunk] = (sum(side) for side in zip(*ends, strict=True))
        a = 1.0 - alpha
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.maximum(alpha * low - self._off / np.abs(a), 0.0)  # of |1 - sum p^alpha q^(1 - alpha)| / |a|
            most = a * (alpha * high + self._off / np.abs(a))
            lower = -np.log1p(-a * least) / a * (1.0 - 1e-14)
            upper = np.where((alpha < 1.0) & (most < 1.0), -np.log1p(-np.minimum(most, 1.0)) / a, math.inf)
        return np.where(alpha == 1.0, low, lower), np.where(alpha == 1.0, high, upper)

    def _grid(self, direction: Direction) -> tuple[Cells, Cells, Cells]:
        """Epsilons, and bounds of delta there; found once."""
        if direction not in self._grids:
            reach = 1.0
            while reach < 300.0 and self._deltas_of(direction, np.array([reach]))[1][0] > 1e-15:
                reach *= 2.0
            many = 512 // (1 if self._is_tight else FEWER)
            epsilons = np.append(reach * np.linspace(0.0, 1.0, many + 1) ** 2, reach * 1.01)
            self._grids[direction] = (epsilons, *self._deltas_of(direction, epsilons))
        return self._grids[direction]

    @larger
    def exceeds(self, epsilon: Reals) -> Bounds:
        """Probability that the loss is above epsilon, which may be negative: certified bounds; arrays broadcast.

        delta is convex in exp(epsilon), and Q(L > epsilon) its slope there: differences of certified deltas on both
        sides enclose it, and P(L > epsilon) = delta + exp(epsilon) Q(L > epsilon).  About 1e-5 wide for losses of the
        size of 1, and wider for very small ones; at a loss that has a probability of its own the upper bound includes
        it.  Losses beyond 700 on either side are only known to be there.
        """
        cells = as_cells("epsilon", epsilon, _ANY)
        below, above = self._exceeds(np.clip(cells, -LARGEST, LARGEST), (0, 1))
        lower = np.where(cells > LARGEST, 0.0, below.max(axis=-1))
        upper = np.where(cells < -LARGEST, 1.0, above.min(axis=-1))
        return bounded(lower, upper)

    def quantile(self, beta: float) -> Bounds:
        """The smallest epsilon that the loss is above with probability at most beta: certified bounds, inf included."""
        chance = float(as_cells("beta", beta, _CHANCE))
        return bounded(*largest_quantile([way._tail(chance) for way in self.ways or [self]], chance))

    def _tail(self, chance: float) -> Tail:
        asked = chance * np.array([1.0, 0.5])
        near = exact(self._job, Ask("epsilon", asked, asked.shape, self._direction), ROUGHLY).upper.tolist()
        return Tail(near, self._exceeds, self._off, self._is_tight)

    def _exceeds(self, epsilon: Cells, sides: Sequence[int], steps: Cells = STEPS) -> list[Cells]:
        """Bounds of P(L > epsilon), from below (side 0) or above (1), one by each of these steps."""
        here = epsilon[..., None]
        apart = steps * np.maximum(np.abs(here), 1.0)
        points = np.concatenate([here, *(here - apart if side else here + apart for side in sides)], axis=-1)
        bounds = zip(sides, chances(points, *self._deltas(points), sides), strict=True)
        return [np.minimum(one, self._by_moments(epsilon)[..., None]) if side else one for side, one in bounds]

    def _by_moments(self, epsilon: Cells) -> Cells:
        """Chernoff's bound of P(L > epsilon), of jobs that are known by their divergences alone; else 1."""
        if all(kind.has_losses for kind, _ in self._job.decompose(self._direction)):
            return np.ones(epsilon.shape)
        a = self._divergences[0] - 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = np.exp(a * (self._divergences[1] - epsilon[..., None])) * (1.0 + 1e-12)
        return np.asarray(np.nan_to_num(bounds, nan=1.0).min(axis=-1))

    @cached
    def _divergences(self) -> tuple[Cells, Cells]:
        orders = 1.0 + np.geomspace(1e-3, 1e4, 281)
        return orders, self._renyi(self._direction, orders)

    def _deltas(self, epsilon: Cells) -> tuple[Cells, Cells]:
        """Bounds of delta at any epsilon: left of 0 by the other direction, with P and Q exchanged."""
        flat = epsilon.ravel()
        low, high = np.empty(flat.size), np.empty(flat.size)
        for direction, own in ((self._direction, flat >= 0.0), (self._other, flat < 0.0)):
            if own.any():
                low[own], high[own] = self._deltas_of(direction, np.abs(flat[own]))
        negative, weight = flat < 0.0, np.exp(np.minimum(flat, 0.0))
        beside = -np.expm1(np.minimum(flat, 0.0))
        low = np.where(negative, np.maximum((beside + weight * low) * (1.0 - 1e-15) - self._off, 0.0), low)
        high = np.where(negative, (beside + weight * high) * (1.0 + 1e-15) + self._off, high)
        return low.reshape(epsilon.shape), high.reshape(epsilon.shape)

    def _deltas_of(self, direction: Direction, epsilon: Cells) -> tuple[Cells, Cells]:
        bounds = answer("delta", self._job, epsilon, None, direction, self._threads, only_upper=not self._is_tight)
        return np.asarray(bounds.lower if self._is_tight else np.zeros(epsilon.shape)), np.minimum(bounds.upper, 1.0)


@verb({}, formerly={"order": "orders"})
def divergence(
    job: Job | tuple[Iterable[float], Iterable[float]], orders: Reals, *, neighbors: Both = "add_remove"
) -> Bounds:
    """Rényi divergence of any orders, in one direction or the larger of both: certified lower and upper bounds.

    **Guarantee.** As `privacy_loss(job).divergence(order)`; of two tables of probabilities over the same outcomes, that
    of the first from the second (`neighbors="remove"`), the reverse ("add"), or the larger one.

    >>> import fastacct as fa
    >>> p, q = [0.6, 0.25, 0.15], [0.3, 0.3, 0.4]
    >>> fa.divergence((p, q), [0.5, 1, 2, float("inf")], neighbors="remove").upper.round(4)
    array([0.1172, 0.2232, 0.3816, 0.6931])
    """
    of = from_pmf(*job) if isinstance(job, tuple | list) and len(job) == 2 else job
    loss, cells = privacy_loss(of, neighbors=neighbors), as_cells("orders", orders, _ORDER, may_be_empty=True)
    each = np.array([loss.divergence(order)[:2] for order in cells.ravel().tolist()]).reshape(*cells.shape, 2)
    return bounded(each[..., 0], each[..., 1])


@verb({})
def privacy_loss(job: Job, *, neighbors: Both = "add_remove", threads: int | None = None) -> PrivacyLoss:
    """The privacy loss of a job in one direction, as a random variable, or what is the larger of both.

    **Guarantee.** Certified lower and upper bounds of its mean, tail and quantiles, for the dominating pair of the job
    ("remove": P with the record, Q without).  Of a job that is only a bound (`tight` is False) lower bounds are 0.

    Parameters
    ----------
    job : Mechanism or Process
        In plain numbers: TypeError for arrays, ValueError for a relation that a mechanism does not support.
    neighbors : {"add_remove", "remove", "add"}
        "add_remove": every answer is the larger one of the two directions.  Of `Parallel` it is that of all parts.
    threads : int, optional

    Returns
    -------
    PrivacyLoss
        With `mean`, `exceeds(epsilon)` and `quantile(beta)`.

    Examples
    --------
    >>> import fastacct as fa
    >>> loss = fa.privacy_loss(fa.Gaussian(1.0) * 4)   # a normal variable with mean 2 and standard deviation 2
    >>> round(loss.mean.upper, 9), round(loss.exceeds(4.0).upper, 3), round(loss.quantile(0.5).upper, 3)
    (2.0, 0.159, 2.0)
    """
    return PrivacyLoss(job, neighbors, threads)
