"""Noise on whole numbers: two-sided geometric, discrete Gaussian, Skellam.

These noises do not scale: they name their scale and the whole-number `sensitivity` to one record.
"""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache
from typing import Final

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.core.inputs import ROUNDING, Cells, Domain, Reals
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.losses.atoms import atoms, both, everything, few, in_reach
from fastacct.losses.divergence import padded, square
from fastacct.losses.loss import Atoms, Bracket, Pair
from fastacct.mechanisms import error
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.base import constant, parameter, plain

_POSITIVE: Final = Domain(0.0, 1e6, open_low=True)
_WHOLE: Final = Domain(1.0, 1e6, integer=True)
_MOST_LOSS: Final = 1e290
"""Larger losses overflow somewhere; they count as infinite from above, and as this much from below."""
BESSEL: Final = 3e-11
"""Relative error allowed of SciPy's exponentially scaled Bessel functions."""


class DiscreteLaplace(Mechanism, relations=ALL, group_powers={"sensitivity": 1}):
    """Noise on whole numbers with probabilities proportional to exp(-|k|/scale): the two-sided geometric mechanism.

    **Guarantee.** Exact: epsilon = sensitivity/scale at delta 0.  Source: Ghosh, Roughgarden, Sundararajan 2009.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.DiscreteLaplace(scale=2.0), delta=0), 6)
    0.5
    """

    scale: Reals = parameter(_POSITIVE)
    sensitivity: int = constant(_WHOLE, 1, about="What one record adds at most; replacing one: twice that.")

    def losses(self, relation: Relation) -> Pair:
        """Atoms: all outcomes below the smaller sum are one loss, and all above the larger one."""
        shift, scale = int(self.sensitivity * sensitivity(relation)), plain(self.scale)
        few(shift, f"a sensitivity of {shift}")
        in_reach(shift / scale)
        rest = math.exp(-1.0 / scale)
        outcome = np.arange(shift + 1.0)  # 0: all outcomes up to 0; shift: all from there
        mass = -math.expm1(-1.0 / scale) * np.exp((outcome - shift) / scale)
        mass[0], mass[-1] = math.exp(-shift / scale), 1.0
        loss = (2.0 * outcome - shift) / scale
        relative = (16.0 + 4.0 * shift / scale) * ROUNDING
        return both(atoms(loss, 4.0 * ROUNDING * np.abs(loss), mass / (1.0 + rest), relative, 0.0, 2.0 / scale))

    def pure_epsilon(self, relation: Relation) -> float:
        return self.sensitivity * sensitivity(relation) / plain(self.scale)

    def error_law(self, *, dimension: float = 1) -> error.ErrorLaw:
        """Independent noise on each coordinate."""
        step = 1.0 / plain(self.scale)
        rest, lost = math.exp(-step), -math.expm1(-step)
        variance = 2.0 * rest / lost**2
        return error.additive(variance, lambda t: 2.0 / (1.0 + rest) * np.exp(-step * (np.floor(t) + 1.0)), dimension)


class DiscreteGaussian(Mechanism, relations=ALL, group_powers={"sensitivity": 1}):
    """Noise on whole numbers with probabilities proportional to exp(-k^2/(2 scale^2)).

    **Guarantee.** Exact for one whole number.  (Vectors do not reduce to one coordinate; their zero-concentrated bound
    is `ZCDP(rho=sensitivity**2 / (2 * scale**2))` with the L2 sensitivity.)  Source: Canonne, Kamath, Steinke 2020.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.DiscreteGaussian(scale=5.0) * 10, delta=1e-6), 3)
    2.921
    """

    scale: Reals = parameter(_POSITIVE, about="sigma of the exponent; the standard deviation is slightly less.")
    sensitivity: int = constant(_WHOLE, 1)

    def losses(self, relation: Relation) -> Pair:
        shift, scale = self.sensitivity * sensitivity(relation), plain(self.scale)
        reach = math.ceil(38.0 * scale) + 1
        few(2 * reach, f"a scale of {scale:g}")
        if shift * shift / scale / scale > _MOST_LOSS:  # no noise but with a probability below 1e-300
            least = Atoms(np.array([0.25 * _MOST_LOSS]), np.zeros(1), np.array([1.0 - ROUNDING]))
            return both(Bracket(everything().upper, least))
        noise = np.arange(-reach, reach + 1.0)
        size = 0.5 * (noise / scale) ** 2
        weight = np.exp(-size)
        mass = weight / weight.sum()
        loss = shift * (noise + 0.5 * shift) / scale**2
        # beyond the reach: less than exp(-38^2/2) each, falling geometrically
        relative = (80.0 + 8.0 * float(np.minimum(size, 745.0).max())) * ROUNDING
        return both(atoms(loss, 6.0 * ROUNDING * np.abs(loss), mass, relative, 1e-290, shift / scale**2))

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Canonne, Kamath, Steinke 2020, theorem 4: that of the Gaussian, equal at whole orders."""
        return padded(0.5 * orders * square(self.sensitivity * sensitivity(relation) / plain(self.scale)))

    def concentration(self, relation: Relation) -> float:
        return 0.5 * square(self.sensitivity * sensitivity(relation) / plain(self.scale)) * (1.0 + 1e-15)

    def error_law(self, *, dimension: float = 1) -> error.ErrorLaw:
        """Independent noise on each coordinate, by sums over the whole numbers."""
        scale = plain(self.scale)
        reach = math.ceil(38.0 * scale) + 1
        few(2 * reach, f"a scale of {scale:g}")
        noise = np.arange(reach + 1.0)
        weight = np.exp(-0.5 * (noise / scale) ** 2)
        return _of_weights(weight / (2.0 * math.fsum(weight[1:]) + 1.0), dimension)


class Skellam(Mechanism, relations=ALL, group_powers={"sensitivity": 1}):
    """The difference of two Poisson variables, each of rate variance/2, added to a whole number.

    **Guarantee.** Exact for one whole number, up to the accuracy of SciPy's Bessel functions.  For it 3e-11 is
    added; against 45 digits, 8e-12 is the largest error seen up to a variance of 1e6. Rényi divergences by the
    bound of Agarwal, Kairouz and Liu 2021.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.Skellam(variance=25.0) * 10, delta=1e-6), 3)
    2.892
    """

    variance: Reals = parameter(_POSITIVE)
    sensitivity: int = constant(_WHOLE, 1)

    def losses(self, relation: Relation) -> Pair:
        ive = import_extra("scipy.special", "pld").ive

        shift, variance = int(self.sensitivity * sensitivity(relation)), plain(self.variance)
        reach = _skellam_reach(variance)
        few(2 * (reach + shift), f"variance = {variance:g} with sensitivity {shift}")
        far = ive(np.arange(reach + shift + 1), variance)
        noise = np.arange(-reach, reach + 1)
        mass, other = far[np.abs(noise)], far[np.abs(noise + shift)]
        known = (mass > 1e-290) & (other > 1e-290)  # a ratio of subnormal numbers says nothing
        left_out = 4e-290 * noise.size + float(np.sum(mass[~known])) * (1.0 + 2.0 * BESSEL)
        loss = np.log(mass[known]) - np.log(other[known])
        error = np.full(loss.size, 2.0 * BESSEL) + 4.0 * ROUNDING * np.abs(loss)
        return both(atoms(loss, error, mass[known], BESSEL, left_out, None))

    def error_law(self, *, dimension: float = 1) -> error.ErrorLaw:
        """Independent noise on each coordinate; up to the accuracy of SciPy's Bessel functions."""
        variance = plain(self.variance)
        reach = _skellam_reach(variance)
        few(2 * reach, f"variance = {variance:g}")
        mass = import_extra("scipy.special", "pld").ive(np.arange(reach + 1), variance)
        return dataclasses.replace(_of_weights(mass, dimension), mean_square=error.as_dimension(dimension) * variance)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Agarwal, Kairouz, Liu 2021: whole orders; between them (alpha - 1) D is convex, and D increases."""
        shift, v = self.sensitivity * sensitivity(relation), plain(self.variance)

        def at(order: Cells) -> Cells:
            more = np.minimum(((2.0 * order - 1.0) * shift**2 + 6.0 * shift) / 4.0 / v / v, 1.5 * shift / v)
            return np.asarray(0.5 * order * shift**2 / v + more)

        low, high = np.maximum(np.floor(orders), 1.0), np.ceil(orders)
        share = orders - low
        with np.errstate(over="ignore", invalid="ignore"):
            chord = (1.0 - share) * (low - 1.0) * at(low) + share * (high - 1.0) * at(high)
            return padded(np.where(high == orders, at(orders), np.fmin(chord / (orders - 1.0), at(high))))


def _of_weights(mass: Cells, dimension: float) -> error.ErrorLaw:
    """Symmetric noise with these probabilities of 0, 1, 2, ..."""
    above = np.append(2.0 * np.cumsum(mass[:0:-1])[::-1], 0.0)
    variance = 2.0 * math.fsum(mass * np.arange(mass.size) ** 2.0)
    last = above.size - 1
    return error.additive(variance, lambda t: above[np.minimum(np.floor(t), last).astype(np.intp)], dimension)


@lru_cache(maxsize=256)
def _skellam_reach(variance: float) -> int:
    """Where the probabilities are below 1e-290, and fall by half at least from one to the next."""
    ive = import_extra("scipy.special", "pld").ive

    reach = 16
    while ive(reach, variance) > 1e-290 or reach < 2.0 * variance**0.5:
        reach += max(1, reach // 8)
    return reach
