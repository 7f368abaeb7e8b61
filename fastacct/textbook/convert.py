"""Conversions of numbers between notions of privacy: each theorem, with its condition, rounded to the safe side.

Guarantees as mechanisms (`PureDP`, `ApproxDP`, `ZCDP`, `RDPCurve`, `GDP`) are converted by the verbs:
`fa.epsilon(fa.ZCDP(0.5), delta=1e-5)`, `fa.rdp(fa.PureDP(1.0), 2.0)`.  A conversion that is missing here is false:
rho-zCDP does not imply GDP, and (epsilon, delta)-DP with delta > 0 bounds no Rényi divergence.

Arguments broadcast; numbers give a float, arrays an array.  Values out of range raise ValueError or TypeError naming
argument, value, index and range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

import fastacct.dpsgd as dpsgd
from fastacct.accountants.rdp import CONVERSIONS, RDP, Conversion
from fastacct.core.inputs import Cells, Domain, Floats, Real, Reals, as_choice, as_common, unwrap

__all__ = [
    "approximate_to_advantage",
    "approximate_to_probabilistic",
    "bounded_range_to_zcdp",
    "concentrated_to_rdp",
    "gdp_to_zcdp",
    "moments_to_rdp",
    "pure_to_concentrated",
    "pure_to_zcdp",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "rdp_to_moments",
    "zcdp_to_epsilon_closed_form",
    "zcdp_to_rdp",
]

_UP: Final = 1.0 + 4e-15
_POSITIVE: Final = Domain(0.0, np.inf)
_ORDER: Final = Domain(1.0, 1e11, open_low=True)
_SHARE: Final = Domain(0.0, 1.0)


def _raised(value: Cells, positive: NDArray[np.bool_]) -> Cells:
    """Round up; 0 only where nothing is released."""
    return np.where(positive, np.nextafter(value * _UP, np.inf), 0.0)


@overload
def pure_to_zcdp(epsilon: Real) -> float: ...
@overload
def pure_to_zcdp(epsilon: Reals) -> Floats: ...
def pure_to_zcdp(epsilon: Reals) -> float | Floats:
    """epsilon-DP is rho-zCDP with rho = epsilon tanh(epsilon/2), the smallest possible (below epsilon^2/2).

    >>> round(pure_to_zcdp(1.0), 12)
    0.46211715726
    """
    (e,) = as_common(epsilon=(epsilon, _POSITIVE))
    return unwrap(_raised(e * np.tanh(0.5 * e), e > 0.0))


@overload
def bounded_range_to_zcdp(epsilon: Real) -> float: ...
@overload
def bounded_range_to_zcdp(epsilon: Reals) -> Floats: ...
def bounded_range_to_zcdp(epsilon: Reals) -> float | Floats:
    """Losses in a range of length epsilon (the exponential mechanism): rho = epsilon^2/8.  Cesar, Rogers 2021."""
    (e,) = as_common(epsilon=(epsilon, _POSITIVE))
    with np.errstate(over="ignore"):
        return unwrap(_raised(e * e / 8.0, e > 0.0))


@overload
def pure_to_concentrated(epsilon: Real) -> tuple[float, float]: ...
@overload
def pure_to_concentrated(epsilon: Reals) -> tuple[Floats, Floats]: ...
def pure_to_concentrated(epsilon: Reals) -> tuple[float | Floats, float | Floats]:
    """epsilon-DP is (mu, tau)-mean-concentrated with mu = epsilon (exp(epsilon) - 1)/2 and tau = epsilon.

    Source: Dwork, Rothblum 2016, theorem 3.5.

    >>> round(pure_to_concentrated(0.7)[0], 12)
    0.354813447615
    """
    (e,) = as_common(epsilon=(epsilon, _POSITIVE))
    with np.errstate(over="ignore"):
        return unwrap(_raised(0.5 * e * np.expm1(e), e > 0.0)), unwrap(np.array(e))


@overload
def concentrated_to_rdp(mu: Real, tau: Real, order: Real) -> float: ...
@overload
def concentrated_to_rdp(mu: Reals, tau: Reals, order: Reals) -> Floats: ...
def concentrated_to_rdp(mu: Reals, tau: Reals, order: Reals) -> float | Floats:
    """(mu, tau)-mean-concentrated DP has Rényi divergences of at most mu + (order - 1) tau^2/2."""
    m, t, a = as_common(mu=(mu, _POSITIVE), tau=(tau, _POSITIVE), order=(order, _ORDER))
    with np.errstate(over="ignore"):
        return unwrap(_raised(m + 0.5 * (a - 1.0) * t * t, (m > 0.0) | (t > 0.0)))


@overload
def gdp_to_zcdp(mu: Real) -> float: ...
@overload
def gdp_to_zcdp(mu: Reals) -> Floats: ...
def gdp_to_zcdp(mu: Reals) -> float | Floats:
    """mu-GDP is rho-zCDP with rho = mu^2/2.  (The converse is false.)"""
    (m,) = as_common(mu=(mu, _POSITIVE))
    with np.errstate(over="ignore"):
        return unwrap(_raised(0.5 * m * m, m > 0.0))


@overload
def zcdp_to_rdp(rho: Real, order: Real, xi: Real = 0.0) -> float: ...
@overload
def zcdp_to_rdp(rho: Reals, order: Reals, xi: Reals = 0.0) -> Floats: ...
def zcdp_to_rdp(rho: Reals, order: Reals, xi: Reals = 0.0) -> float | Floats:
    """(xi, rho)-zCDP has Rényi divergences of at most xi + rho order, by definition."""
    r, a, x = as_common(rho=(rho, _POSITIVE), order=(order, _ORDER), xi=(xi, _POSITIVE))
    with np.errstate(over="ignore"):
        return unwrap(_raised(x + r * a, (x > 0.0) | (r > 0.0)))


@overload
def zcdp_to_epsilon_closed_form(rho: Real, delta: Real) -> float: ...
@overload
def zcdp_to_epsilon_closed_form(rho: Reals, delta: Reals) -> Floats: ...
def zcdp_to_epsilon_closed_form(rho: Reals, delta: Reals) -> float | Floats:
    """The textbook formula rho + 2 sqrt(rho log(1/delta)); `fa.epsilon(fa.ZCDP(rho), delta=delta)` is smaller.

    >>> round(zcdp_to_epsilon_closed_form(0.5, 1e-5), 12)
    5.298525912188
    """
    r, d = as_common(rho=(rho, _POSITIVE), delta=(delta, Domain(0.0, 1.0, open_low=True)))
    with np.errstate(invalid="ignore"):
        value = np.where(r < np.inf, r + 2.0 * np.sqrt(r) * np.sqrt(-np.log(d)), np.inf)
        return unwrap(_raised(value, r > 0.0))


@overload
def moments_to_rdp(moment_order: Real, log_moment: Real) -> tuple[float, float]: ...
@overload
def moments_to_rdp(moment_order: Reals, log_moment: Reals) -> tuple[Floats, Floats]: ...
def moments_to_rdp(moment_order: Reals, log_moment: Reals) -> tuple[float | Floats, float | Floats]:
    """(order, divergence) from the moments accountant's log E exp(lambda loss), which is lambda D at order lambda + 1.

    >>> moments_to_rdp(1.0, 0.5)
    (2.0, 0.5000000000000001)
    """
    k, m = as_common(moment_order=(moment_order, Domain(1e-15, 1e11)), log_moment=(log_moment, _POSITIVE))
    order = np.where((k + 1.0) - 1.0 > k, np.nextafter(k + 1.0, 0.0), k + 1.0)  # divergences increase with the order
    return unwrap(order), unwrap(np.where(m > 0.0, np.nextafter(m / k, np.inf), 0.0))


@overload
def rdp_to_moments(order: Real, divergence: Real) -> tuple[float, float]: ...
@overload
def rdp_to_moments(order: Reals, divergence: Reals) -> tuple[Floats, Floats]: ...
def rdp_to_moments(order: Reals, divergence: Reals) -> tuple[float | Floats, float | Floats]:
    """(lambda, log-moment) of the moments accountant: the inverse of `moments_to_rdp`."""
    a, r = as_common(order=(order, _ORDER), divergence=(divergence, _POSITIVE))
    moment_order = np.asarray(a - 1.0)
    return unwrap(moment_order), unwrap(np.where(r > 0.0, np.nextafter(moment_order * r, np.inf), 0.0))


@overload
def rdp_to_epsilon(order: Real, divergence: Real, delta: Real, conversion: Conversion = ...) -> float: ...
@overload
def rdp_to_epsilon(order: Reals, divergence: Reals, delta: Reals, conversion: Conversion = ...) -> Floats: ...
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
    return _at_one_order(dpsgd.epsilon, order, divergence, "delta", delta, conversion)


@overload
def rdp_to_delta(order: Real, divergence: Real, epsilon: Real, conversion: Conversion = ...) -> float: ...
@overload
def rdp_to_delta(order: Reals, divergence: Reals, epsilon: Reals, conversion: Conversion = ...) -> Floats: ...
def rdp_to_delta(
    order: Reals, divergence: Reals, epsilon: Reals, conversion: Conversion = "canonne_kamath_steinke"
) -> float | Floats:
    """Smallest delta that a Rényi divergence at one order proves at epsilon; as `rdp_to_epsilon`.

    >>> f"{rdp_to_delta(8, 0.5, 1.5, 'optimal'):.6e}"
    '4.341297e-05'
    """
    return _at_one_order(dpsgd.delta, order, divergence, "epsilon", epsilon, conversion)


def _at_one_order(
    read: Callable[..., float | Floats],
    order: Reals,
    divergence: Reals,
    given: str,
    target: Reals,
    conversion: Conversion,
) -> float | Floats:
    """The answer for one release of the Gaussian that has this divergence at this order, from this order alone."""
    as_choice("conversion", conversion, CONVERSIONS)
    domain = _SHARE if given == "delta" else _POSITIVE
    a, r, t = as_common(order=(order, _ORDER), divergence=(divergence, _POSITIVE), **{given: (target, domain)})
    with np.errstate(divide="ignore"):
        noise = np.sqrt(0.5 * a) / np.sqrt(r) * (1.0 - 1e-15)
    out = np.empty(a.shape)
    for i in np.ndindex(a.shape):
        run = {"noise_multiplier": float(noise[i]), "sample_rate": 1.0, "steps": 1, given: float(t[i])}
        out[i] = read(**run, accountant=RDP(orders=float(a[i]), conversion=conversion))
    return unwrap(out)


@overload
def approximate_to_advantage(epsilon: Real, delta: Real) -> float: ...
@overload
def approximate_to_advantage(epsilon: Reals, delta: Reals) -> Floats: ...
def approximate_to_advantage(epsilon: Reals, delta: Reals) -> float | Floats:
    """Largest membership advantage under (epsilon, delta)-DP: (exp(epsilon) - 1 + 2 delta)/(exp(epsilon) + 1).

    >>> round(approximate_to_advantage(1.0, 1e-5), 12)
    0.462122536088
    """
    e, d = as_common(epsilon=(epsilon, _POSITIVE), delta=(delta, _SHARE))
    return unwrap(np.asarray(np.minimum(_raised(np.tanh(0.5 * e) * (1.0 - d) + d, (e > 0.0) | (d > 0.0)), 1.0)))


@overload
def approximate_to_probabilistic(epsilon: Real, delta: Real, slack: Real) -> tuple[float, float]: ...
@overload
def approximate_to_probabilistic(epsilon: Reals, delta: Reals, slack: Reals) -> tuple[Floats, Floats]: ...
def approximate_to_probabilistic(epsilon: Reals, delta: Reals, slack: Reals) -> tuple[float | Floats, float | Floats]:
    """(epsilon + slack, a bound on the probability that the loss exceeds it) under (epsilon, delta)-DP.

    The bound is delta/(1 - exp(-slack)).  Conversely, a loss of at most epsilon with probability 1 - delta implies
    (epsilon, delta)-DP without any slack.
    """
    e, d, s = as_common(
        epsilon=(epsilon, _POSITIVE), delta=(delta, _SHARE), slack=(slack, Domain(0.0, np.inf, open_low=True))
    )
    share = np.minimum(_raised(d / -np.expm1(-s), d > 0.0), 1.0)
    return unwrap(np.asarray(np.nextafter(e + s, np.inf))), unwrap(np.asarray(share))
