"""Laplace noise, whole or cut off on both sides, and the staircase noise that is best for one query."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from fastacct.core.inputs import COUNT, NONNEGATIVE, ROUNDING, UNIT, Cells, Domain, Reals, as_number
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.core.rounding import divided_down, quotient_up
from fastacct.losses.atoms import both, everything, in_reach
from fastacct.losses.divergence import padded, square, unknown
from fastacct.losses.loss import NOTHING, Pair
from fastacct.losses.panels import exponential, laplace
from fastacct.mechanisms import error
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import Count, constant, parameter, plain
from fastacct.mechanisms.guarantee import ApproxDP, PureDP

_NOISE: Final = Domain(0.0, 1e15)
_LEAST: Final = 1e-290
"""Smaller masses of an infinite loss are given as this."""


class Laplace(Mechanism, relations=ALL, group_powers={"noise_multiplier": -1}):
    """Laplace noise on numbers of which a record moves one, by at most 1 (if it moves several: `PureDP(1 / noise)`).

    **Guarantee.** Exact for one number, and for vectors of which a record moves one coordinate.  Where it may move
    several, by 1 altogether, one coordinate is the worst case for every Rényi order (log-sum-exp in the shift is
    convex): use `accountant=RDP()`, or `PureDP(1/noise_multiplier)`, which holds always.  Not for noise with density
    exp(-|y|_2/b).

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.Laplace(noise_multiplier=2.0), delta=0.0), 6)
    0.5
    >>> round(fa.delta(fa.Laplace(noise_multiplier=2.0) * 5, epsilon=1.0), 4)
    0.1453
    """

    noise_multiplier: Reals = parameter(
        NONNEGATIVE, about="Scale b over the contribution; standard deviation: sqrt(2) b."
    )

    def losses(self, relation: Relation) -> Pair:
        scale = plain(self.noise_multiplier) / sensitivity(relation)
        if math.isinf(scale):
            return NOTHING
        in_reach(1.0 / scale if scale > 0.0 else math.inf, 500.0)
        return laplace(scale)

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

    def error_law(self, *, dimension: float = 1) -> error.ErrorLaw:
        """Independent noise on each coordinate; published: b log(d / beta) (Dwork, Roth 2014, theorem 3.8)."""
        b, d = plain(self.noise_multiplier), error.as_dimension(dimension)
        return error.additive(
            2.0 * b * b,
            lambda t: np.exp(-(t / b)) if b > 0.0 else np.zeros(np.shape(t)),
            d,
            lambda beta: b * math.log(d / beta),
            "Dwork, Roth 2014, theorem 3.8",
        )

    def pure_epsilon(self, relation: Relation) -> float:
        scale = plain(self.noise_multiplier) / sensitivity(relation)
        return 1.0 / scale if scale > 0.0 else math.inf

    def grouped(self, size: int, relation: Relation) -> Process:
        return replace(self, noise_multiplier=divided_down(self.noise_multiplier, size)) * 1

    def grouped_within(self, count: Count, size: int, relation: Relation) -> Process:
        """The sum of all pure guarantees: members may touch different noises, which several small changes dominate."""
        total = quotient_up(np.asarray(count) * (size * sensitivity(relation)), self.noise_multiplier)
        return PureDP(total) * 1


class LaplaceL2(Mechanism, relations=ALL, group_powers={"noise_multiplier": -1}):
    """Noise with density proportional to exp(-|y|_2/b) on a sum of vectors, each of L2 norm at most 1.

    **Guarantee.** That of `Laplace` noise on one number with the same b, exact in one dimension and a bound in more:
    epsilon = 1/b at delta 0, and composed like Laplace noise.  (Along a line parallel to what a record adds the density
    is log-concave and falls at most as exp(-|x|/b).  So f <= min(F, 1 - F)/b, with equality for Laplace noise: its
    trade-off curve is the lowest.  docs/mechanisms.md has the proof.)  The norm of the noise is Gamma distributed with
    shape `dimension`, its direction uniform.  Source: Chaudhuri, Monteleoni, Sarwate 2011.

    Examples
    --------
    >>> import fastacct as fa
    >>> noise = fa.LaplaceL2(noise_multiplier=2.0, dimension=3)
    >>> round(fa.epsilon(noise, delta=0.0), 12), fa.utility(noise).mean_square
    (0.5, 48.0)
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE, about="Scale b over the largest L2 norm of a contribution.")
    dimension: int = constant(COUNT, 1)

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """In one dimension it is Laplace noise."""
        return self.dimension == 1

    def decompose(self, relation: Relation) -> Process:
        return Laplace(self.noise_multiplier) * 1

    def error_law(self) -> error.ErrorLaw:
        """The norm of the noise."""
        return error.sum_of_norms(plain(self.noise_multiplier), self.dimension, np.asarray(1))


class Staircase(Mechanism, relations=ALL, tight=False):
    """Noise with a piecewise constant density that drops by exp(-epsilon) every sensitivity (Geng, Viswanath 2014).

    **Guarantee.** A bound: the noise is epsilon-DP, and that is what is used.  Under replace-one `epsilon` must have
    been set for the sensitivity to a replacement.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.Staircase(epsilon=0.5) * 2, delta=0.0), 6)
    1.0
    """

    epsilon: Reals = parameter(NONNEGATIVE)

    def error_law(self, *, dimension: float = 1, gamma: float | None = None) -> error.ErrorLaw:
        """Steps of width 1, `gamma` of which is the higher part: by default 1 / (1 + exp(epsilon / 2)), which has the
        least expected absolute error."""
        epsilon = plain(self.epsilon)
        share = 1.0 / (1.0 + math.exp(0.5 * min(epsilon, 1400.0))) if gamma is None else as_number("gamma", gamma, UNIT)
        if not 0.0 < epsilon < math.inf:
            raise ValueError(f"epsilon = {epsilon!r}: the staircase needs a positive and finite one")
        rest, lost = math.exp(-epsilon), -math.expm1(-epsilon)
        height = lost / (2.0 * (share + rest * (1.0 - share)))
        sums = 1.0 / lost, rest / lost**2, rest * (1.0 + rest) / lost**3  # of exp(-k epsilon) times 1, k, k^2
        high = 3.0 * sums[2] * share + 3.0 * sums[1] * share**2 + sums[0] * share**3
        low = 3.0 * sums[2] * (1.0 - share) + 3.0 * sums[1] * (1.0 - share**2) + sums[0] * (1.0 - share**3)

        def tail(t: Cells) -> Cells:
            step = np.floor(t)
            inside = np.maximum(share - (t - step), 0.0) + rest * np.minimum(1.0 - share, 1.0 - (t - step))
            beyond = rest * (share + rest * (1.0 - share)) / lost
            return np.asarray(2.0 * height * np.exp(-epsilon * step) * (inside + beyond))

        variance = 2.0 * height * (high + rest * low) / 3.0
        return error.additive(variance, tail, dimension, source="Geng, Viswanath 2014")

    def decompose(self, relation: Relation) -> Process:
        return PureDP(self.epsilon) * 1


class TruncatedLaplace(Mechanism, relations=ALL, group_powers={"noise_multiplier": -1, "bound": -1}):
    """Laplace noise that is never larger than a bound: density proportional to exp(-|x|/b) on [-bound, bound].

    **Guarantee.** Exact for one number to which every record contributes at most 1.  An outcome that only one of two
    data sets can have gives it away: delta is at least the probability of those at every epsilon, and equal to it from
    epsilon = 1/b on (Geng, Ding, Guo, Kumar 2020); there is no pure guarantee.

    Examples
    --------
    >>> import fastacct as fa
    >>> noise = fa.TruncatedLaplace(noise_multiplier=2.0, bound=20.0)
    >>> f"{fa.delta(noise, epsilon=0.6):.6e}"
    '1.472662e-05'
    >>> round(fa.epsilon(noise * 4, delta=1e-4), 3)
    1.999
    """

    noise_multiplier: Reals = parameter(_NOISE, about="Scale b divided by the contribution.")
    bound: Reals = parameter(NONNEGATIVE, about="Largest noise, divided by the contribution; inf: `Laplace`.")

    def losses(self, relation: Relation) -> Pair:
        shift, scale, bound = sensitivity(relation), plain(self.noise_multiplier), plain(self.bound)
        if scale == 0.0 or 2.0 * bound <= shift:
            return both(everything())
        if bound == math.inf:
            return Laplace(self.noise_multiplier).losses(relation)
        in_reach(shift / scale, 500.0)
        largest, between, ends, infinite, off = _cut_off(shift, scale, bound)
        peak, slack = 0.5 / -math.expm1(-largest), 4.0 * ROUNDING * largest
        least = infinite * (1.0 - off) if infinite > _LEAST else 0.0
        lost = least, _infinite_up(shift, scale, bound)
        return exponential(largest, peak * between, ends, off, off, slack=slack, lost=lost)

    def error_law(self, *, dimension: float = 1) -> error.ErrorLaw:
        """Independent noise on each coordinate, the tail cut off at the bound."""
        b, bound = plain(self.noise_multiplier), plain(self.bound)
        if bound == math.inf or b == 0.0:
            return Laplace(self.noise_multiplier).error_law(dimension=dimension)
        whole = -math.expm1(-bound / b)
        variance = b * b * _third_moment(bound / b) / whole if bound > 0.0 else 0.0

        def tail(t: Cells) -> Cells:
            left = np.maximum(bound - t, 0.0) / b
            return np.asarray(np.where(left > 0.0, -np.expm1(-left) * np.exp(-np.minimum(t, bound) / b) / whole, 0.0))

        return error.additive(variance, tail, dimension)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        if self.bound == math.inf:
            return Laplace(self.noise_multiplier).divergence(orders, relation)
        return unknown(orders)

    def pure_epsilon(self, relation: Relation) -> float:
        return Laplace(self.noise_multiplier).pure_epsilon(relation) if self.bound == math.inf else math.inf

    def grouped(self, size: int, relation: Relation) -> Process:
        shift = size * sensitivity(relation)
        scale, bound = np.broadcast_arrays(np.asarray(self.noise_multiplier), np.asarray(self.bound))
        cells = zip(scale.flat, bound.flat, strict=True)
        lost = [_infinite_up(shift, float(b), float(most)) for b, most in cells]
        return ApproxDP(quotient_up(shift, scale), np.reshape(lost, scale.shape)) * 1


def _third_moment(x: float) -> float:
    """The integral of u^2 exp(-u) from 0 to x: by its series where the closed form cancels."""
    if x > 20.0:
        return 2.0 - math.exp(-x) * (x * x + 2.0 * x + 2.0)
    term = x**3 * math.exp(-x) / 3.0
    total, k = 0.0, 4
    while term > 1e-17 * total:
        total, term, k = total + term, term * x / k, k + 1
    return total


def _cut_off(shift: float, scale: float, bound: float) -> tuple[float, float, tuple[float, float], float, float]:
    """Largest loss; masses of the losses between the ends, of both ends, and of an infinite loss; their relative error.

    P has noise around 0 and Q around `shift` < 2 bound: the loss (|x - shift| - |x|)/scale falls in x > shift - bound.
    """
    whole = -2.0 * math.expm1(-bound / scale)
    if shift <= bound:
        far, largest = -math.expm1(-(bound - shift) / scale) / whole, shift / scale
        between = -math.expm1(-largest) / whole
        ends = (math.exp(-largest) * far, far)
        infinite = math.exp(-(bound - shift) / scale) * between
    else:
        largest, ends = (2.0 * bound - shift) / scale, (0.0, 0.0)
        between = -math.exp(-(shift - bound) / scale) * math.expm1(-largest) / whole
        infinite = 0.5 - math.expm1(-(shift - bound) / scale) / whole
    relative = ROUNDING * (64.0 + 16.0 * (min(bound / scale, 800.0) + shift / scale))
    return largest, between, ends, infinite, relative


def _infinite_up(shift: float, scale: float, bound: float) -> float:
    """Probability of the outcomes that only one of two data sets can have, rounded up."""
    if scale == 0.0 or 2.0 * bound <= shift:
        return 1.0
    *_, infinite, relative = _cut_off(shift, scale, bound)
    return 0.0 if bound == math.inf else min(1.0, max(infinite * (1.0 + relative), _LEAST))
