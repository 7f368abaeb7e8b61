"""Renyi divergence and log-moment of one step of the Poisson-sampled Gaussian mechanism."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from .certify import bits, certify, exact, noise_and_rate, rounded
from .excess import quadrature, series

_SERIES_ORDER_MAX = 10_000_000


def rdp(noise_multiplier: Any, sample_rate: Any, order: Any, digits: int = 25, method: str = "auto") -> mpf:
    """Return the Renyi divergence of P = (1-q) N(0, s^2) + q N(1, s^2) from Q = N(0, s^2), relatively accurate.

    Parameters
    ----------
    noise_multiplier, sample_rate, order : float, int, str or mpf
        s >= 0, 0 <= q <= 1 and the order, > 1 (1 is the Kullback-Leibler divergence, inf the supremum of the loss).
    digits : int
        Significant digits certified.
    method : {"auto", "series", "quadrature"}
        How M - 1 is found; "auto" takes the binomial series at integer orders and the quadrature elsewhere.

    Raises
    ------
    NotConverged
        If the digits cannot be certified.
    """
    a = exact(order)
    if a == 1:
        s, q = _parameters(noise_multiplier, sample_rate, a)
        trivial = _trivial(s, q, a, lambda: 1 / (2 * s * s))
        if trivial is not None:
            return rounded(trivial, digits)
        value = certify(lambda goal, level: quadrature(s, q, a, (1,), goal, level)[0], digits, f"KL at {s}, {q}")
        return rounded(value, digits)
    moment = log_moment(noise_multiplier, sample_rate, order, digits + 1, method)
    with mp.workprec(bits(digits + 6)):
        if a == mp.inf:
            return moment
        return rounded(moment / _minus_one(a), digits)


def log_moment(noise_multiplier: Any, sample_rate: Any, order: Any, digits: int = 25, method: str = "auto") -> mpf:
    """Return K = log E_Q[(P/Q)^order] = (order - 1) rdp of one step; parameters as in `rdp`."""
    a = exact(order)
    s, q = _parameters(noise_multiplier, sample_rate, a)
    trivial = _trivial(s, q, a, lambda: a * _minus_one(a) / (2 * s * s))
    if trivial is not None:
        return rounded(trivial, digits)
    if a == 1:
        return mpf(0)
    if method not in ("auto", "series", "quadrature"):
        raise ValueError(f"method must be 'auto', 'series' or 'quadrature', got {method!r}")
    whole = mp.isint(a) and a <= _SERIES_ORDER_MAX
    if method == "series" and not whole:
        raise ValueError(f"the series needs an integer order <= {_SERIES_ORDER_MAX}, got {order}")

    def evaluate(goal: int, level: int) -> mpf:
        excess = None
        if method != "quadrature" and whole:
            excess = series(s, q, int(a), goal, level)
            if excess is None and method == "series":
                raise ValueError(f"the series at order {order} has too many terms")
        if excess is None:
            (excess,) = quadrature(s, q, a, (0,), goal, level)
        with mp.workprec(bits(goal + 5)):
            return mp.log1p(excess)

    return rounded(certify(evaluate, digits, f"log-moment at {s}, {q}, {a}"), digits)


def log_moment_derivatives(
    noise_multiplier: Any, sample_rate: Any, order: Any, digits: int = 25
) -> tuple[mpf, mpf, mpf]:
    """Return (K, K', K'') of one step: the log-moment and its first two derivatives in the order."""
    a = exact(order)
    s, q = _parameters(noise_multiplier, sample_rate, a)
    if a == mp.inf:
        raise ValueError("the derivatives are defined at finite orders")
    zero = mpf(0)
    if q == 0 or s == mp.inf:
        return zero, zero, zero
    if s == 0:
        return mp.inf, mp.inf, mp.inf
    if q == 1:
        with mp.workprec(bits(digits + 40)):
            k2 = 1 / (s * s)
            closed = (a * _minus_one(a) * k2 / 2, (a - mpf(1) / 2) * k2, k2)
        return _triple(rounded(closed, digits))

    def evaluate(goal: int, level: int) -> tuple[mpf, mpf, mpf]:
        lost = 0
        while True:
            with mp.workprec(bits(goal + lost + 10)):
                if a > 1:
                    e0, e1, e2 = quadrature(s, q, a, (0, 1, 2), goal + lost, level)
                else:
                    e0, (e1, e2) = zero, quadrature(s, q, a, (1, 2), goal + lost, level)
                first, second = e1 / (1 + e0), e2 / (1 + e0)
                curvature = second - first * first
                # K'' is a variance: digits go when it is small beside the square of the mean
                needed = goal + lost if curvature <= 0 else max(0, int(mp.log10(second / curvature)) + 1)
                if needed <= lost + 1 or lost > 20 * goal:
                    return mp.log1p(e0), first, curvature
            lost = needed

    return _triple(rounded(certify(evaluate, digits, f"log-moment derivatives at {s}, {q}, {a}"), digits))


def _triple(values: tuple[mpf, ...]) -> tuple[mpf, mpf, mpf]:
    value, first, second = values
    return value, first, second


def _minus_one(a: mpf) -> mpf:
    with mp.workprec(4096):
        return a - 1


def _parameters(noise_multiplier: Any, sample_rate: Any, a: mpf) -> tuple[mpf, mpf]:
    s, q = noise_and_rate(noise_multiplier, sample_rate)
    if not a >= 1:
        raise ValueError(f"order must be at least 1, got {a}")
    return s, q


def _trivial(s: mpf, q: mpf, a: mpf, unsampled: Any) -> mpf | None:
    if q == 0 or s == mp.inf:
        return mpf(0)
    if s == 0 or a == mp.inf:
        return mp.inf
    if q == 1:
        with mp.workprec(4096):
            return unsampled()
    return None
