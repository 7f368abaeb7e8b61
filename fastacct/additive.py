"""Additive noise on a query: Laplace and the noises on whole numbers.  Parameters only, losses are elsewhere.

Noise multipliers are scales divided by what one record contributes at most, so that under replace-one a sum moves twice
as far.  Noises on whole numbers do not scale: they name their scale and the whole-number `sensitivity` to one record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fastacct._arrays import Domain
from fastacct.mechanisms import Declared, constant, parameter

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Laplace", "Skellam", "Staircase"]

ALL_RELATIONS: Final = ("add_remove", "add", "remove", "zero_out", "replace_one")
_SCALE: Final = Domain(0.0, float("inf"))
_POSITIVE: Final = Domain(0.0, 1e6, open_low=True)
_WHOLE: Final = Domain(1.0, 1e6, integer=True)


@dataclass(frozen=True, eq=False)
class Laplace(Declared):
    """Laplace noise on a query to which every record contributes at most 1 in L1 norm.

    **Guarantee.** Exact for one number, and for vectors of which a record moves one coordinate.  Where it may move
    several, by 1 altogether, one coordinate is the worst case for every Rényi order (log-sum-exp in the shift is
    convex): use `accountant=RDP()`, or `PureDP(1/noise_multiplier)`, which holds always.  Not for noise with density
    exp(-|y|_2/b).

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Scale b divided by the contribution; the standard deviation is sqrt(2) b.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.Laplace(noise_multiplier=2.0), delta=0.0), 6)
    0.5
    >>> round(fa.delta(fa.Laplace(noise_multiplier=2.0) * 5, epsilon=1.0), 4)
    0.1453
    """

    noise_multiplier: Any = parameter(_SCALE)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS


@dataclass(frozen=True, eq=False)
class DiscreteLaplace(Declared):
    """Noise on whole numbers with probabilities proportional to exp(-|k|/scale): the two-sided geometric mechanism.

    **Guarantee.** Exact: epsilon = sensitivity/scale at delta 0.  Source: Ghosh, Roughgarden, Sundararajan 2009.

    Parameters
    ----------
    scale : float or array in (0, 1e6]
    sensitivity : whole number in [1, 1e6]
        What one record adds at most; replacing one may move the sum twice as far.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.delta(fa.DiscreteLaplace(scale=2.0, sensitivity=3), epsilon=0.7), 12)
    0.342770324708
    """

    scale: Any = parameter(_POSITIVE)
    sensitivity: int = constant(_WHOLE, 1)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS


@dataclass(frozen=True, eq=False)
class DiscreteGaussian(Declared):
    """Noise on whole numbers with probabilities proportional to exp(-k^2/(2 scale^2)).

    **Guarantee.** Exact for one whole number.  (Vectors do not reduce to one coordinate; their zero-concentrated bound
    is `ZCDP(rho=sensitivity**2 / (2 * scale**2))` with the L2 sensitivity.)  Source: Canonne, Kamath, Steinke 2020.

    Parameters
    ----------
    scale : float or array in (0, 1e6]
        sigma of the exponent; the standard deviation is slightly less.
    sensitivity : whole number in [1, 1e6]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.delta(fa.DiscreteGaussian(scale=1.0), epsilon=1.0), 12)
    0.141351339406
    """

    scale: Any = parameter(_POSITIVE)
    sensitivity: int = constant(_WHOLE, 1)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS


@dataclass(frozen=True, eq=False)
class Skellam(Declared):
    """The difference of two Poisson variables, each of rate variance/2, added to a whole number.

    **Guarantee.** Exact for one whole number, up to the accuracy of SciPy's Bessel functions, for which 3e-11 is
    paid (against 45 digits, 8e-12 is the largest error seen up to a variance of 1e6). Rényi divergences by the
    bound of Agarwal, Kairouz and Liu 2021.

    Parameters
    ----------
    variance : float or array in (0, 1e6]
    sensitivity : whole number in [1, 1e6]

    Examples
    --------
    >>> import fastacct as fa
    >>> 0.0090476 <= fa.delta(fa.Skellam(variance=10.0), epsilon=0.5) <= 0.0090496
    True
    """

    variance: Any = parameter(_POSITIVE)
    sensitivity: int = constant(_WHOLE, 1)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS


@dataclass(frozen=True, eq=False)
class Staircase(Declared):
    """Noise with a piecewise constant density that drops by exp(-epsilon) every sensitivity (Geng, Viswanath 2014).

    **Guarantee.** A bound: the noise is epsilon-DP, and that is what is used.  Under replace-one `epsilon` must have
    been set for the sensitivity to a replacement.

    Parameters
    ----------
    epsilon : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.Staircase(epsilon=0.5) * 2, delta=0.0), 6)
    1.0
    """

    epsilon: Any = parameter(_SCALE)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False
