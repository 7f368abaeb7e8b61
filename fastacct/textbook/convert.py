"""Conversions of numbers between notions of privacy: each theorem, with its condition, rounded to the safe side.

Guarantees as mechanisms (`PureDP`, `ApproxDP`, `ZCDP`, `RDPCurve`, `GDP`) are converted by the verbs:
`fa.epsilon(fa.ZCDP(0.5), delta=1e-5)`, `fa.rdp(fa.PureDP(1.0), 2.0)`.  A conversion that is missing here is false:
rho-zCDP does not imply GDP, and (epsilon, delta)-DP with delta > 0 bounds no Rényi divergence.

Arguments broadcast; numbers give a float, arrays an array.  Values out of range raise ValueError or TypeError naming
argument, value, index and range.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from fastacct.accountants.question import answer
from fastacct.accountants.rdp import CONVERSIONS, RDP, Conversion
from fastacct.core.inputs import NONNEGATIVE, UNIT, Domain, Floats, Reals, as_choice, as_common, unwrap
from fastacct.core.rounding import raised
from fastacct.core.words import told_names
from fastacct.mechanisms.gaussian import Gaussian

__all__ = ["approximate_to_advantage", "approximate_to_probabilistic", "bounded_range_to_zcdp", "gdp_to_zcdp"]
__all__ += ["moments_to_rdp", "pure_to_zcdp", "rdp_to_delta", "rdp_to_epsilon", "rdp_to_moments"]
__all__ += ["zcdp_to_epsilon_closed_form"]

_ORDER: Final = Domain(1.0, 1e11, open_low=True)
_POWER: Final = Domain(0.0, 1e11, open_low=True)


@told_names
def pure_to_zcdp(epsilon: Reals) -> float | Floats:
    """epsilon-DP is rho-zCDP with rho = epsilon tanh(epsilon/2), the smallest possible (below epsilon^2/2).

    >>> round(pure_to_zcdp(1.0), 12)
    0.46211715726
    """
    (e,) = as_common(epsilon=(epsilon, NONNEGATIVE))
    return unwrap(raised(e * np.tanh(0.5 * e), e > 0.0))


@told_names
def bounded_range_to_zcdp(epsilon: Reals) -> float | Floats:
    """Losses in a range of length epsilon (the exponential mechanism): rho = epsilon^2/8.  Cesar, Rogers 2021.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.convert.bounded_range_to_zcdp(2.0), 9)
    0.5
    """
    (e,) = as_common(epsilon=(epsilon, NONNEGATIVE))
    with np.errstate(over="ignore"):
        return unwrap(raised(e * e / 8.0, e > 0.0))


@told_names
def gdp_to_zcdp(mu: Reals) -> float | Floats:
    """mu-GDP is rho-zCDP with rho = mu^2/2.  (The converse is false.)

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.convert.gdp_to_zcdp(1.0), 9)
    0.5
    """
    (m,) = as_common(mu=(mu, NONNEGATIVE))
    with np.errstate(over="ignore"):
        return unwrap(raised(0.5 * m * m, m > 0.0))


@told_names
def moments_to_rdp(power: Reals, log_moment: Reals) -> tuple[float | Floats, float | Floats]:
    """(order, divergence) from the moments accountant: alpha(lambda) = log E exp(lambda L) at order 1 + lambda.

    D = alpha(lambda)/lambda (Abadi et al. 2016, [arXiv:1607.00133](https://arxiv.org/abs/1607.00133)).

    >>> order, divergence = moments_to_rdp(32.0, 4.0)
    >>> order, round(divergence, 12)
    (33.0, 0.125)
    """
    t, m = as_common(power=(power, _POWER), log_moment=(log_moment, NONNEGATIVE))
    return unwrap(np.asarray(1.0 + t)), unwrap(raised(m / t, m > 0.0))


@told_names
def rdp_to_moments(order: Reals, divergence: Reals) -> tuple[float | Floats, float | Floats]:
    """(lambda, alpha(lambda)) of the moments accountant from a Rényi divergence: alpha(lambda) = lambda D(1 + lambda).

    >>> power, log_moment = rdp_to_moments(33.0, 0.125)
    >>> power, round(log_moment, 12)
    (32.0, 4.0)
    """
    a, d = as_common(order=(order, _ORDER), divergence=(divergence, NONNEGATIVE))
    with np.errstate(over="ignore"):
        return unwrap(np.asarray(a - 1.0)), unwrap(raised((a - 1.0) * d, d > 0.0))


@told_names
def zcdp_to_epsilon_closed_form(rho: Reals, delta: Reals) -> float | Floats:
    """The textbook formula rho + 2 sqrt(rho log(1/delta)); `fa.epsilon(fa.ZCDP(rho), delta=delta)` is smaller.

    >>> round(zcdp_to_epsilon_closed_form(0.5, 1e-5), 12)
    5.298525912188
    """
    r, d = as_common(rho=(rho, NONNEGATIVE), delta=(delta, Domain(0.0, 1.0, open_low=True)))
    with np.errstate(invalid="ignore"):
        value = np.where(r < np.inf, r + 2.0 * np.sqrt(r) * np.sqrt(-np.log(d)), np.inf)
        return unwrap(raised(value, r > 0.0))


@told_names
def rdp_to_epsilon(
    order: Reals, divergence: Reals, delta: Reals, conversion: Conversion = "canonne_kamath_steinke"
) -> float | Floats:
    """Smallest epsilon that a Rényi divergence at one order proves at delta.

    Parameters
    ----------
    order, divergence, delta : float or array
    conversion : {"canonne_kamath_steinke", "mironov", "optimal"}
        "mironov": divergence + log(1/delta)/(order - 1) (2017, proposition 3).  "canonne_kamath_steinke" (2020,
        proposition 12; the same as Balle et al. 2020) is the best formula, "optimal" (Asoodeh et al. 2021) the best
        value that a single divergence can prove.

    Examples
    --------
    >>> [round(rdp_to_epsilon(8, 0.5, 1e-5, c), 9) for c in ("mironov", "canonne_kamath_steinke")]
    [2.144703638, 1.714109168]
    """
    return _at_one_order("epsilon", order, divergence, {"delta": (delta, UNIT)}, conversion)


@told_names
def rdp_to_delta(
    order: Reals, divergence: Reals, epsilon: Reals, conversion: Conversion = "canonne_kamath_steinke"
) -> float | Floats:
    """Smallest delta that a Rényi divergence at one order proves at epsilon; as `rdp_to_epsilon`.

    >>> f"{rdp_to_delta(8, 0.5, 1.5, 'optimal'):.6e}"
    '4.341297e-05'
    """
    return _at_one_order("delta", order, divergence, {"epsilon": (epsilon, NONNEGATIVE)}, conversion)


def _at_one_order(
    quantity: Literal["epsilon", "delta"],
    order: Reals,
    divergence: Reals,
    target: dict[str, tuple[Reals, Domain]],
    conversion: Conversion,
) -> float | Floats:
    """The answer for one release of the Gaussian that has this divergence at this order, from this order alone."""
    as_choice("conversion", conversion, CONVERSIONS)
    a, r, t = as_common(order=(order, _ORDER), divergence=(divergence, NONNEGATIVE), **target)
    with np.errstate(divide="ignore"):
        noise = np.sqrt(0.5 * a) / np.sqrt(r) * (1.0 - 1e-15)
    out = np.empty(a.shape)
    for i in np.ndindex(a.shape):
        method = RDP(orders=float(a[i]), conversion=conversion)
        out[i] = answer(quantity, Gaussian(float(noise[i])), float(t[i]), method, only_upper=True).upper
    return unwrap(out)


@told_names
def approximate_to_advantage(epsilon: Reals, delta: Reals) -> float | Floats:
    """Largest membership advantage under (epsilon, delta)-DP: (exp(epsilon) - 1 + 2 delta)/(exp(epsilon) + 1).

    >>> round(approximate_to_advantage(1.0, 1e-5), 12)
    0.462122536088
    """
    e, d = as_common(epsilon=(epsilon, NONNEGATIVE), delta=(delta, UNIT))
    return unwrap(np.asarray(np.minimum(raised(np.tanh(0.5 * e) * (1.0 - d) + d, (e > 0.0) | (d > 0.0)), 1.0)))


@told_names
def approximate_to_probabilistic(epsilon: Reals, delta: Reals, slack: Reals) -> tuple[float | Floats, float | Floats]:
    """(epsilon + slack, a bound on the probability that the loss exceeds it) under (epsilon, delta)-DP.

    The bound is delta/(1 - exp(-slack)).  Conversely, a loss of at most epsilon with probability 1 - delta implies
    (epsilon, delta)-DP without any slack.

    Examples
    --------
    >>> import fastacct as fa
    >>> [round(x, 6) for x in fa.convert.approximate_to_probabilistic(1.0, 1e-6, 0.5)]
    [1.5, 3e-06]
    """
    e, d, s = as_common(
        epsilon=(epsilon, NONNEGATIVE), delta=(delta, UNIT), slack=(slack, Domain(0.0, np.inf, open_low=True))
    )
    share = np.minimum(raised(d / -np.expm1(-s), d > 0.0), 1.0)
    return unwrap(np.asarray(np.nextafter(e + s, np.inf))), unwrap(np.asarray(share))
