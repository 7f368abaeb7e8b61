"""From one notion of privacy to another, each direction that is a theorem, with its condition.

Whatever is a mechanism (`PureDP`, `ApproxDP`, `ZCDP`, `RDPCurve`, `GDP`) is converted by the verbs:
`fa.epsilon(fa.ZCDP(0.5), delta=1e-5)`, `fa.rdp(fa.PureDP(1.0), 2.0)`.  Here are the conversions of numbers to numbers,
rounded to the safe side.  What is not here is not true: rho-zCDP does not imply GDP, and (epsilon, delta) with
delta > 0 implies no Rényi divergence.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastacct import dpsgd
from fastacct._arrays import Domain, as_choice, as_common, unwrap
from fastacct.accountants import CONVERSIONS, RDP

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
_OPEN_SHARE: Final = Domain(0.0, 1.0, open_low=True)


def _raised(value: Any, positive: Any) -> Any:
    """From above, and never 0 where something is released."""
    return unwrap(np.where(positive, np.nextafter(np.asarray(value * _UP), np.inf), 0.0))


def pure_to_zcdp(epsilon: Any) -> Any:
    """epsilon-DP is rho-zCDP with rho = epsilon tanh(epsilon/2), the smallest one (below epsilon^2/2).

    >>> round(pure_to_zcdp(1.0), 12)
    0.46211715726
    """
    (e,) = as_common(epsilon=(epsilon, _POSITIVE))
    return _raised(e * np.tanh(0.5 * e), e > 0.0)


def bounded_range_to_zcdp(epsilon: Any) -> Any:
    """Losses within a range of epsilon (the exponential mechanism): rho = epsilon^2/8.  Source: Cesar, Rogers 2021."""
    (e,) = as_common(epsilon=(epsilon, _POSITIVE))
    with np.errstate(over="ignore"):
        return _raised(e * e / 8.0, e > 0.0)


def pure_to_concentrated(epsilon: Any) -> tuple[Any, Any]:
    """epsilon-DP is (mu, tau)-mean-concentrated with mu = epsilon (exp(epsilon) - 1)/2 and tau = epsilon.

    Source: Dwork, Rothblum 2016, theorem 3.5.

    >>> round(pure_to_concentrated(0.7)[0], 12)
    0.354813447615
    """
    (e,) = as_common(epsilon=(epsilon, _POSITIVE))
    with np.errstate(over="ignore"):
        return _raised(0.5 * e * np.expm1(e), e > 0.0), unwrap(np.asarray(e * 1.0))


def concentrated_to_rdp(mu: Any, tau: Any, order: Any) -> Any:
    """(mu, tau)-mean-concentrated DP has divergences of at most mu + (order - 1) tau^2/2."""
    m, t, a = as_common(mu=(mu, _POSITIVE), tau=(tau, _POSITIVE), order=(order, _ORDER))
    with np.errstate(over="ignore"):
        return _raised(m + 0.5 * (a - 1.0) * t * t, (m > 0.0) | (t > 0.0))


def gdp_to_zcdp(mu: Any) -> Any:
    """mu-GDP is rho-zCDP with rho = mu^2/2.  (The converse is false.)"""
    (m,) = as_common(mu=(mu, _POSITIVE))
    with np.errstate(over="ignore"):
        return _raised(0.5 * m * m, m > 0.0)


def zcdp_to_rdp(rho: Any, order: Any, xi: Any = 0.0) -> Any:
    """(xi, rho)-zCDP has divergences of at most xi + rho order, by definition."""
    r, a, x = as_common(rho=(rho, _POSITIVE), order=(order, _ORDER), xi=(xi, _POSITIVE))
    with np.errstate(over="ignore"):
        return _raised(x + r * a, (x > 0.0) | (r > 0.0))


def zcdp_to_epsilon_closed_form(rho: Any, delta: Any) -> Any:
    """The textbook rho + 2 sqrt(rho log(1/delta)); `fa.epsilon(fa.ZCDP(rho), delta=delta)` is smaller.

    >>> round(zcdp_to_epsilon_closed_form(0.5, 1e-5), 12)
    5.298525912188
    """
    r, d = as_common(rho=(rho, _POSITIVE), delta=(delta, _OPEN_SHARE))
    with np.errstate(invalid="ignore"):
        return _raised(np.where(r < np.inf, r + 2.0 * np.sqrt(r) * np.sqrt(-np.log(d)), np.inf), r > 0.0)


def moments_to_rdp(moment_order: Any, log_moment: Any) -> tuple[Any, Any]:
    """The moments accountant's log E exp(lambda loss) is lambda times the divergence of order lambda + 1.

    Returns (order, divergence).

    >>> moments_to_rdp(1.0, 0.5)
    (2.0, 0.5000000000000001)
    """
    k, m = as_common(moment_order=(moment_order, Domain(1e-15, 1e11)), log_moment=(log_moment, _POSITIVE))
    order = np.where((k + 1.0) - 1.0 > k, np.nextafter(k + 1.0, 0.0), k + 1.0)  # divergences increase with the order
    return unwrap(order), unwrap(np.asarray(np.where(m > 0.0, np.nextafter(m / k, np.inf), 0.0)))


def rdp_to_moments(order: Any, divergence: Any) -> tuple[Any, Any]:
    """The inverse of `moments_to_rdp`: (lambda, alpha(lambda))."""
    a, r = as_common(order=(order, _ORDER), divergence=(divergence, _POSITIVE))
    value = (a - 1.0) * r
    return unwrap(np.asarray(a - 1.0)), unwrap(np.asarray(np.where(r > 0.0, np.nextafter(value, np.inf), 0.0)))


def rdp_to_epsilon(order: Any, divergence: Any, delta: Any, conversion: str = "canonne_kamath_steinke") -> Any:
    """Smallest epsilon that one divergence proves at delta.

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
    return _at_one_order(order, divergence, delta, conversion, for_delta=False)


def rdp_to_delta(order: Any, divergence: Any, epsilon: Any, conversion: str = "canonne_kamath_steinke") -> Any:
    """Smallest delta that one divergence proves at epsilon; as `rdp_to_epsilon`.

    >>> f"{rdp_to_delta(8, 0.5, 1.5, 'optimal'):.6e}"
    '4.341297e-05'
    """
    return _at_one_order(order, divergence, epsilon, conversion, for_delta=True)


def _at_one_order(order: Any, divergence: Any, target: Any, conversion: str, *, for_delta: bool) -> Any:
    """A Gaussian with this divergence at this order, read at this order alone."""
    as_choice("conversion", conversion, CONVERSIONS)
    name, domain = ("epsilon", _POSITIVE) if for_delta else ("delta", _SHARE)
    a, r, t = as_common(order=(order, _ORDER), divergence=(divergence, _POSITIVE), **{name: (target, domain)})
    out = np.empty(a.shape)
    with np.errstate(divide="ignore"):
        noise = np.sqrt(0.5 * a) / np.sqrt(r) * (1.0 - 1e-15)
    for i in np.ndindex(a.shape):
        method = RDP(orders=float(a[i]), conversion=conversion)
        run: dict[str, Any] = {
            "noise_multiplier": float(noise[i]),
            "sample_rate": 1.0,
            "steps": 1,
            "accountant": method,
        }
        out[i] = dpsgd.delta(**run, epsilon=float(t[i])) if for_delta else dpsgd.epsilon(**run, delta=float(t[i]))
    return unwrap(out)


def approximate_to_advantage(epsilon: Any, delta: Any) -> Any:
    """Largest membership advantage under (epsilon, delta)-DP: (exp(epsilon) - 1 + 2 delta)/(exp(epsilon) + 1).

    >>> round(approximate_to_advantage(1.0, 1e-5), 12)
    0.462122536088
    """
    e, d = as_common(epsilon=(epsilon, _POSITIVE), delta=(delta, _SHARE))
    value = _raised(np.tanh(0.5 * e) * (1.0 - d) + d, (e > 0.0) | (d > 0.0))
    return unwrap(np.minimum(np.asarray(value), 1.0))


def approximate_to_probabilistic(epsilon: Any, delta: Any, slack: Any) -> tuple[Any, Any]:
    """(epsilon, delta)-DP bounds the probability that the loss exceeds epsilon + slack by delta/(1 - exp(-slack)).

    Returns (epsilon + slack, that probability).  A loss of at most epsilon with probability 1 - delta implies
    (epsilon, delta)-DP; the converse needs the slack.
    """
    e, d, s = as_common(
        epsilon=(epsilon, _POSITIVE), delta=(delta, _SHARE), slack=(slack, Domain(0.0, np.inf, open_low=True))
    )
    share = np.where(d > 0.0, np.minimum(np.nextafter(d / -np.expm1(-s) * _UP, np.inf), 1.0), 0.0)
    return unwrap(np.asarray(np.nextafter(e + s, np.inf))), unwrap(np.asarray(share))
