"""Gaussian mixtures of one noise: the pair that the contour kernels read, and its losses as data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.kept import cached
from fastacct.losses.loss import CHUNK, LEAST_TAIL, NOTHING, Atoms, Bracket, Loss, Masses, Pair, refuse_where, ruled

Weights = dict[float, float]
"""Of the components of a mixture, by mean."""
_MAX_SPREAD: Final = 1e5
_MOST_PANELS: Final = 4e6
_SMALL: Final = 60.0
"""A term smaller by this many units of its logarithm than another one is less than 1e-26 of their sum."""
LEAST_NOISE: Final = 1e-150
"""Less noise is none: its square underflows."""


def check_spread(spread: float) -> None:
    """Refuse means that are too many standard deviations apart."""
    allowed = f"allowed: at most {_MAX_SPREAD:g}"
    refuse_where(not spread <= _MAX_SPREAD, f"the means spread over {spread:g} standard deviations; {allowed}")


@lru_cache(maxsize=256)
def normal_reach(tail: float) -> float:
    """Standard deviations outside which any normal distribution has a mass of at most `tail`."""
    log_tail = math.log(min(0.5, max(tail, LEAST_TAIL)))
    reach = 1.0
    while -0.5 * reach * reach - math.log(reach * 1.25) > log_tail:  # 2 phi(x)/x <= exp(-x^2/2) / (1.25 x)
        reach += 0.25
    return reach


class GaussianMixtures(Loss):
    """P = sum p_j N(m_j, sigma^2) against Q = sum q_j N(m_j, sigma^2), with a loss that increases in the output.

    Where it is most of a side, the weight of the component `reference` is one minus the others: losses are log1p of
    terms that vanish with the sampling rate, accurate relative to themselves.
    """

    sigma: float
    means: Cells
    p: Cells
    q: Cells
    reference: int
    off: float = 0.0
    """By how much weights may be off, relative to themselves."""

    @cached
    def _spread(self) -> float:
        """Largest distance from a centre of P at which a component of P or Q matters, in standard deviations."""
        spread = (float(self.means[-1]) - float(self.means[0])) / self.sigma
        check_spread(spread)
        return 40.0 + spread  # at 40 a normal density is less than any mass `outside`

    def outside(self, tail: float) -> tuple[float, float]:
        """Both tails of every component, at the supremum of the loss."""
        missing = max(tail, LEAST_TAIL) * (1.0 + 1e-12)
        if self.q[-1] == 0.0:
            return missing, math.inf
        value = math.log(self.p[-1] / self.q[-1])
        return missing, value + 8.0 * ROUNDING * (1.0 + abs(value)) + 2.0 * self.off

    def _centres(self) -> Cells:
        return self.means[self.p > 0.0]

    def extent(self, tail: float) -> tuple[float, float]:
        """Losses of the ends of the outputs covered."""
        reach, centres = normal_reach(tail) * self.sigma, self._centres()
        loss, error, _ = self.loss(np.array([centres[0] - reach, centres[-1] + reach]))
        return float(loss[0] - error[0]), float(loss[1] + error[1])

    def loss(self, x: Cells) -> tuple[Cells, Cells, Cells]:
        """Loss at outputs `x`, a bound of its error, and its derivative."""
        p_log, p_error, p_mean = self.log_mean(self.p, x)
        q_log, q_error, q_mean = self.log_mean(self.q, x)
        value = p_log - q_log
        slope = np.maximum(p_mean - q_mean, 0.0) / self.sigma**2
        return value, p_error + q_error + ROUNDING * np.abs(value) + 2.0 * self.off, slope

    def log_mean(self, weights: Cells, x: Cells) -> tuple[Cells, Cells, Cells]:
        """log sum w_j N(x; m_j) / N(x; m_reference), a bound of its error, and the mean m_j under its terms."""
        origin, (terms, gone, negligible) = float(self.means[self.reference]), self._terms(weights, x)
        lifts = [lift(weight, y) for weight, _, y, _ in terms]
        total = np.sum([*lifts, np.full_like(x, -gone)], axis=0)
        own = [(float(weights[self.reference]), np.zeros_like(x))] * bool(weights[self.reference] > 0.0)
        value, is_near = _log_of_sum(total, [*own, *((weight, y) for weight, _, y, _ in terms)])
        error, mean_of = 4.0 * ROUNDING * np.abs(value), np.full_like(x, origin)
        scale = 1.0 / (1.0 + total) if is_near else np.exp(np.minimum(-value, 700.0))
        for (weight, mean, y, size), lifted in zip(terms, lifts, strict=True):
            share = (lifted + weight) * scale if is_near else np.exp(np.minimum(y + (math.log(weight) - value), 0.0))
            size *= 6.0
            size += 8.0 - 2.0 * math.log(weight)
            size *= share
            size += 4.0 * np.minimum(weight * scale, 2.0)
            error += ROUNDING * size
            mean_of += share * (mean - origin)
        error += negligible + ROUNDING * 8.0 * np.minimum(gone * scale, 2.0)
        return value, error, mean_of

    def _terms(self, weights: Cells, x: Cells) -> tuple[list[tuple[float, float, Cells, Cells]], float, float]:
        """Components beside the reference that matter, with their log-ratios and the size of what these are made of;
        the weight of the others, and a bound of what they are of the sum."""
        origin, variance = float(self.means[self.reference]), self.sigma**2
        terms, gone, used, (counted, negligible) = [], 0.0, weights > 0.0, self._matters(weights, x)
        for mean, weight, matters in zip(self.means[used].tolist(), weights[used].tolist(), counted, strict=True):
            if mean != origin and matters:
                y = (mean - origin) * (x - 0.5 * (mean + origin)) / variance
                size = abs(mean - origin) * (np.abs(x) + 0.5 * abs(mean + origin)) / variance
                terms.append((weight, mean, y, size))
            elif mean != origin:
                gone += weight
        return terms, gone, negligible

    def _matters(self, weights: Cells, x: Cells) -> tuple[list[bool], float]:
        """Which components with a weight are not negligible at some output between the ends of `x`, and a bound of what
        the others are of the sum.

        Logarithms of their terms are linear in the output: of two, one is the smaller everywhere if it is at both ends.
        A rare one is negligible beside the reference only where it is beside its own weight.
        """
        used = weights > 0.0
        offsets = self.means[used] - self.means[self.reference]
        if offsets.size < 3 or not x.size:
            return [True] * offsets.size, 0.0
        ends = np.array([[x.min()], [x.max()]]) - self.means[self.reference]
        with np.errstate(over="ignore", invalid="ignore"):
            lift = offsets * (ends - 0.5 * offsets) / self.sigma**2
            term = lift + np.log(weights[used])
            top = int(np.argmax(term.sum(axis=0)))
            small = (term - term[:, top, None]).max(axis=0) <= -_SMALL
        if offsets[top] == 0.0:
            small &= lift.max(axis=0) <= -_SMALL
        negligible = float(np.count_nonzero(small))
        if offsets[top] == 0.0:
            negligible = min(negligible, float(weights[used][small].sum()) / float(weights[self.reference]))
        return [not is_small for is_small in small.tolist()], negligible * 1e-26

    def _density(self, x: Cells) -> tuple[Cells, Cells]:
        """Density of P and a bound of its error."""
        value, error, size = np.zeros_like(x), np.zeros_like(x), np.abs(x) / self.sigma
        (counted, negligible), used = self._matters(self.p, x), self.p > 0.0
        for weight, mean, matters in zip(self.p[used].tolist(), self.means[used].tolist(), counted, strict=True):
            if matters:
                z = np.abs(x - mean) / self.sigma
                term = (weight / (self.sigma * math.sqrt(2.0 * math.pi))) * np.exp(-0.5 * z * z)
                value += term
                error += term * (10.0 + z * (z + size))
        error *= 4.0 * ROUNDING
        return value, error + (self.off + negligible) * value

    @cached
    def _table(self) -> tuple[Cells, Cells]:
        """Outputs and losses, both increasing, from which inverses start."""
        x = self._outputs(normal_reach(0.0), 2048)
        return x, np.maximum.accumulate(self.loss(x)[0])

    def _outputs(self, reach: float, many: int) -> Cells:
        """Increasing outputs, so many between the ends of each component: about each, or evenly where that is fewer."""
        centres, far = self._centres(), reach * self.sigma
        low, high = float(centres[0] - far), float(centres[-1] + far)
        even = math.ceil(many * (high - low) / (2.0 * far))
        is_reached = np.diff(centres).max(initial=0.0) <= 2.0 * far  # also what is between
        if even <= many * centres.size // 2 and is_reached:
            return np.linspace(low, high, even + 1)
        return np.unique(np.concatenate([m + np.linspace(-far, far, many + 1) for m in centres]))

    def _output(self, loss: Cells) -> Cells:
        """Outputs with these losses, nearly (what is missing becomes slack); the ends of the table beyond it."""
        x_table, loss_table = self._table
        x = np.interp(loss, loss_table, x_table)
        todo = np.flatnonzero((loss > loss_table[0]) & (loss < loss_table[-1]))
        right = np.searchsorted(loss_table, loss[todo])
        low, high = x_table[right - 1], x_table[right]
        for _ in range(60):
            place, wanted = x[todo], loss[todo]
            value, error, slope = self.loss(place)
            off = value - wanted
            low, high = np.where(off < 0.0, place, low), np.where(off < 0.0, high, place)
            open_ = (np.abs(off) > 4.0 * error) & (high - low > 4.0 * ROUNDING * np.abs(place))
            if not open_.any():
                break
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = place - off / slope
            step = np.where((step > low) & (step < high), step, 0.5 * (low + high))
            todo, low, high = todo[open_], low[open_], high[open_]
            x[todo] = step[open_]
        return np.asarray(x)

    def masses(self, edges: Cells, tail: float, side: float) -> Masses:
        """By rules on pieces that no edge cuts."""
        reach, n = normal_reach(tail), edges.size - 1
        base = self._outputs(reach, math.ceil(max(min(n / 8, 4096.0), 16.0)))
        cuts = np.concatenate([self._output(edges[i : i + CHUNK]) for i in range(0, n + 1, CHUNK)])
        cuts = np.maximum.accumulate(np.clip(cuts, base[0], base[-1]))
        cuts[[0, -1]] = base[[0, -1]]  # beyond the ends lies nothing, wherever rounding puts the outer edges
        low, high = self._near(np.unique(np.concatenate([cuts, base])), reach)
        cell = np.minimum(np.searchsorted(cuts, 0.5 * (low + high), side="right") - 1, n - 1)
        sums, slip, width = np.zeros((3, n)), 0.0, high - low
        for pieces, points, weights in ruled(0.5 * width / self.sigma * self._steep(low, high)):
            x = (low[pieces, None] + width[pieces, None] * points).ravel()
            scale, where = (width[pieces, None] * weights).ravel(), np.repeat(cell[pieces], points.size)
            first = int(where[0])
            (density, off), (loss, error, _) = self._density(x), self.loss(x)
            above = loss - edges[where] + side * error
            beyond = above - (edges[where + 1] - edges[where]) if side > 0.0 else -above
            slip = max(slip, float(beyond.max()))
            mass = scale * np.maximum(density + side * off, 0.0)
            each = mass * -np.expm1(-np.maximum(above, 0.0))
            for row, column in zip(sums, (mass, each, np.ones(x.size)), strict=True):
                counted = np.bincount(where - first, column)
                row[first : first + counted.size] += counted
        mass, excess = sums[:2] * (1.0 + side * ROUNDING * (16.0 + sums[2]))
        return Masses(mass, excess, slip + 2.0**-56)

    def points(self) -> tuple[Cells, Cells]:
        """Cells about every component."""
        x = 0.5 * (self._table[0][1:] + self._table[0][:-1])
        return self.loss(x)[0], self._density(x)[0] * np.diff(self._table[0])

    def _near(self, ends: Cells, reach: float) -> tuple[Cells, Cells]:
        """Pieces near a component of P, as narrow as the rules ask."""
        low, high, centres, middle = ends[:-1], ends[1:], self._centres(), 0.5 * (ends[1:] + ends[:-1])
        right = np.minimum(np.searchsorted(centres, middle), centres.size - 1)
        away = np.minimum(np.abs(middle - centres[right]), np.abs(middle - centres[np.maximum(right - 1, 0)]))
        near = away <= reach * self.sigma
        low, high = low[near], high[near]
        pieces = np.maximum(np.ceil(0.501 * (high - low) / self.sigma * self._steep(low, high)), 1.0)
        if (total := pieces.sum()) == low.size:
            return low, high
        refuse_where(total > _MOST_PANELS, f"the loss needs {total:g} panels; at most {_MOST_PANELS:g}")
        many = pieces.astype(np.intp)
        place = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        width, start = np.repeat((high - low) / pieces, many), np.repeat(low, many)
        return start + place * width, start + (place + 1.0) * width

    def _steep(self, low: Cells, high: Cells) -> Cells:
        """The largest slope of the logarithm of a density that matters there, over how much of it rules take.

        Where the slope is large the curvature is nothing beside it, and a rule takes five times as much.
        """
        far = np.maximum(high - self.means[0], self.means[-1] - low) / self.sigma
        slope = np.minimum(far, self._spread) + 1.0
        return np.asarray(slope / np.clip(slope / 8.0, 1.0, 5.0))


def lift(weight: float, y: Cells) -> Cells:
    """weight (exp(y) - 1), where only the product may be small enough to be held; at most about exp(700)."""
    if y.max(initial=0.0) < 600.0:
        return np.asarray(weight * np.expm1(y))
    return np.where(y < 600.0, weight * np.expm1(np.minimum(y, 600.0)), np.exp(np.minimum(y + math.log(weight), 700.0)))


def _log_of_sum(less_one: Cells, terms: list[tuple[float, Cells]]) -> tuple[Cells, bool]:
    """The logarithm of a sum, from the sum less 1, or by its terms where that has no digits; whether it nowhere is."""
    near = (less_one > -0.5) & (less_one < 1e260)
    value = np.log1p(np.where(near, less_one, 0.0))
    if near.all():
        return value, True
    logs = [y[~near] + math.log(weight) for weight, y in terms]
    top = np.max(logs, axis=0)
    value[~near] = top + np.log(np.sum([np.exp(term - top) for term in logs], axis=0))
    return value, False


class Mixture(NamedTuple):
    """A dominating pair of Gaussian mixtures; components are (weight, mean).

    No components of Q: Q is one Gaussian at 0, and P has the one component (sample rate, sensitivity) beside it.
    """

    noise: float
    p: tuple[tuple[float, float], ...]
    q: tuple[tuple[float, float], ...] = ()

    @property
    def is_sampled(self) -> bool:
        """Whether one cell of the vectorised kernel can hold it, the division by the sensitivity being exact."""
        return not self.q and self.p[0][1] in (1.0, 2.0)

    @property
    def is_plain(self) -> bool:
        """A Gaussian without sampling."""
        return not self.q and self.p[0][0] == 1.0

    @property
    def rounding(self) -> float:
        """Relative error of the weights: of those stored, and of their sums; none where no side has more than two.

        The kernels take the first of two weights for 1 less the second, unless that is 0: what is so rounded may be
        much of a small first weight.
        """
        if len(self.p) + len(self.q) <= 2 or all(
            len(side) == 1 or (len(side) == 2 and side[0][0] == 1.0 - side[1][0]) for side in (self.p, self.q)
        ):
            return 0.0
        off = sum(abs(math.fsum(weight for weight, _ in side) - 1.0) for side in (self.p, self.q) if side)
        pairs = [(side[0][0], 1.0 - side[1][0]) for side in (self.p, self.q) if len(side) == 2]
        return 2.0**-52 + off + sum(abs(a - b) / min(a, b) for a, b in pairs if b > 0.0)

    @property
    def off(self) -> float:
        """By how much the logarithms of its densities may be off; less is in the errors of the losses."""
        return self.rounding if self.rounding > 8.0 * ROUNDING else 0.0

    def sides(self) -> tuple[Weights, Weights]:
        """All components of P and of Q."""
        p = self.p if self.q or self.p[0][0] == 1.0 else ((1.0 - self.p[0][0], 0.0), self.p[0])
        return _weights(p), _weights(self.q or ((1.0, 0.0),))

    @property
    def is_symmetric(self) -> bool:
        """Whether the means of Q are minus those of P."""
        p, q = self.sides()
        return list(p.values()) == list(q.values()) and list(p) == [0.0 - mean for mean in q]

    def sampled(self, rate: float) -> Mixture:
        """The pair of a Poisson sample; weights are products rounded once."""
        p, q = self.sides()
        shares = ((Fraction(rate), p), (1 - Fraction(rate), q))
        mixed = _weights((float(share * Fraction(w)), mean) for share, side in shares for mean, w in side.items())
        means = sorted(mixed, key=lambda mean: (abs(mean), mean))
        return Mixture(self.noise, tuple((mixed[mean], mean) for mean in means), tuple((w, m) for m, w in q.items()))


def _weights(components: Iterable[tuple[float, float]]) -> Weights:
    """Weights by mean, those of equal means added."""
    mixed: Weights = {}
    for weight, mean in components:
        mixed[mean + 0.0] = mixed.get(mean + 0.0, 0.0) + weight
    return mixed


class MixturePair(Pair):
    """A pair of Gaussian mixtures: computed by the contour kernels, or as brackets made on demand."""

    has_atoms = False

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture

    @cached
    def remove(self) -> Bracket:
        """P against Q."""
        if self.mixture.noise < LEAST_NOISE:  # everything is released, but a sample may not draw the record
            none = np.zeros(0)
            return Bracket(Atoms(none, none, none, infinite=1.0), NOTHING.remove.lower)
        return self._bracket(*self.mixture.sides())

    @cached
    def add(self) -> Bracket:
        """Q against P."""
        if self.mixture.noise < LEAST_NOISE or self.mixture.is_plain or self.mixture.is_symmetric:
            return self.remove
        return self._bracket(*({0.0 - mean: w for mean, w in side.items()} for side in self.mixture.sides()[::-1]))

    def _bracket(self, p: Weights, q: Weights) -> Bracket:
        return mixture_bracket(self.mixture.noise, p, q, 2.0 * self.mixture.off)

    def sampled(self, rate: float) -> Pair | None:
        """Gaussian mixtures again."""
        return MixturePair(self.mixture.sampled(rate)) if self.mixture.noise > 0.0 else None


def mixture_of(pair: Pair) -> Mixture | None:
    """The Gaussian mixtures that a pair is, if it is a pair of these."""
    return pair.mixture if isinstance(pair, MixturePair) else None


def common_means(p: Weights, q: Weights) -> tuple[Cells, Cells, Cells, int]:
    """All means with a weight in increasing order, their weights in P and in Q, and the place of the largest in Q."""
    means = np.array(sorted({mean for side in (p, q) for mean, weight in side.items() if weight > 0.0}))
    p_all, q_all = (np.array([side.get(mean, 0.0) for mean in means.tolist()]) for side in (p, q))
    return means, p_all, q_all, int(np.argmax(q_all))


def mixture_bracket(sigma: float, p: Weights, q: Weights, off: float = 0.0) -> Bracket:
    """Mixtures of Gaussians with one standard deviation, P against Q, as weights by mean, which may be `off`.

    The loss must increase with the output: p[m] / q[m] must not decrease as m grows (it is refused otherwise).
    """
    means, p_all, q_all, reference = common_means(p, q)
    if np.array_equal(p_all, q_all) or math.isinf(sigma):
        return NOTHING.remove
    refuse_where(sigma > 1e154, f"the variance of noise {sigma:g} is no number")
    # likelihood ratio order of the weights, hence of the mixtures (the normal kernel is totally positive)
    cross = p_all[None, :] * q_all[:, None]
    if (np.triu(cross.T - cross * (1.0 + 8.0 * ROUNDING), 1) > 0.0).any():  # products of samples round
        raise ValueError("the loss must increase with the output: p_weights / q_weights decreases as the mean grows")
    source = GaussianMixtures(sigma, means, p_all, q_all, reference, off)
    return Bracket(source, source)
