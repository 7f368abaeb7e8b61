"""Exact privacy profiles of the Gaussian and of one step of the Poisson-sampled Gaussian mechanism."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from .certify import bits, certify, exact, noise_and_rate, probability, rounded
from .root import root


def gaussian_delta(mu: Any, epsilon: Any, digits: int = 25) -> mpf:
    """Return delta(epsilon) of N(mu, 1) against N(0, 1), for any real epsilon.

    Balle and Wang 2018, Theorem 8: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu). Certified against the same quantity
    written as one integral of positive terms, phi(c) Int_0^inf e^(c s - s^2/2) (1 - e^(-mu s)) ds, c = mu/2 - eps/mu.
    """
    m, eps = exact(mu), exact(epsilon)
    if not m >= 0:
        raise ValueError(f"mu must be in [0, inf], got {mu}")
    if mp.isnan(eps):
        raise ValueError("epsilon must not be NaN")
    if eps == mp.inf:
        return mpf(0)
    if eps == -mp.inf or m == mp.inf:
        return mpf(1)
    if m == 0:
        with mp.workprec(bits(digits + 10) + max(0, -mp.mag(eps) if eps else 0)):
            return rounded(max(mpf(0), -mp.expm1(eps)), digits)

    return rounded(
        certify(lambda goal, level: _gaussian_delta(m, eps, goal, level), digits, f"Gaussian delta at {m}, {eps}"),
        digits,
    )


def _gaussian_delta(mu: mpf, eps: mpf, goal: int, level: int) -> mpf:
    lost = 2 * abs(mp.mag(mu)) + (2 * max(0, mp.mag(eps / mu)) if eps else 0)
    with mp.workprec(bits(goal) + 40 + 32 * level + lost):
        c = mu / 2 - eps / mu
        if level % 2 == 0:
            return (mp.erfc(-c / mp.sqrt(2)) - mp.exp(eps) * mp.erfc((mu - c) / mp.sqrt(2))) / 2
        return _gaussian_delta_integral(mu, c, goal)


def _gaussian_delta_integral(mu: mpf, c: mpf, goal: int) -> mpf:
    """By the trapezoid rule: around a peak far from 0 in s itself, else in x, s = e^(x - e^-x)."""
    nats = mp.log(10) * (goal + 8)
    reach = mp.sqrt(2 * nats)

    def integrand(s: mpf) -> mpf:
        return mp.exp(c * s - s * s / 2 - c * c / 2) * -mp.expm1(-mu * s)

    if c > reach:
        h = mp.pi * mp.sqrt(2 / nats)
        n = int(reach / h)
        total = mp.fsum(integrand(c + k * h) for k in range(-n, n + 1))
        return total * h / mp.sqrt(2 * mp.pi)
    h, total, scale = mpf("1.9") / ((goal + 8) * max(1, c / 3)), mpf(0), 1 / (1 + max(-c, mpf(0)))
    for sign in (1, -1):
        k = 0 if sign > 0 else 1
        value = mpf(1)
        while k * h < 1 or value > total * mp.eps:
            x = sign * k * h
            s = scale * mp.exp(x - mp.exp(-x))
            value = integrand(s) * s * (1 + mp.exp(-x))
            total += value
            k += 1
    return total * h / mp.sqrt(2 * mp.pi)


def gaussian_epsilon(mu: Any, delta: Any, digits: int = 25) -> mpf:
    """Return the smallest epsilon >= 0 at which N(mu, 1) against N(0, 1) has a delta no larger than `delta`."""
    m, d = exact(mu), probability("delta", delta)
    if d == 1 or m == 0:
        return mpf(0)
    if d == 0 or m == mp.inf:
        return mp.inf
    if gaussian_delta(m, 0, digits) <= d:
        return mpf(0)

    near: list[mpf] = []

    def evaluate(goal: int, level: int) -> mpf:
        with mp.workprec(bits(goal + 10)):
            log_d = mp.log(d)
            low, high = mpf(0), m * m / 2 + m * mp.sqrt(-2 * log_d) + m
            if near:  # the bracket of the next evaluation; `root` refuses it if the sign does not change there
                low, high = near[-1] * (1 - mpf(10) ** -8), near[-1] * (1 + mpf(10) ** -8)
            near.append(root(lambda e: log_d - mp.log(_gaussian_delta(m, e, goal + 4, level)), low, high, goal))
            return near[-1]

    return rounded(certify(evaluate, digits, f"Gaussian epsilon at {m}, {d}"), digits)


def sampled_gaussian_delta(
    noise_multiplier: Any, sample_rate: Any, epsilon: Any, direction: str, digits: int = 25
) -> mpf:
    """Return the exact delta(epsilon) of one step of the Poisson-sampled Gaussian mechanism, for any real epsilon.

    `direction` is "remove" (the sampled mixture against the Gaussian), "add" (the other way) or "add_remove" (the
    larger of the two). Both reduce to the Gaussian profile at a shifted epsilon.
    """
    (s, q), eps = noise_and_rate(noise_multiplier, sample_rate), exact(epsilon)
    if direction == "add_remove":
        return max(sampled_gaussian_delta(s, q, eps, one, digits) for one in ("remove", "add"))
    if direction not in ("remove", "add"):
        raise ValueError(f"direction must be 'remove', 'add' or 'add_remove', got {direction!r}")
    if eps == mp.inf:
        return mpf(0)
    if q == 0 or s == mp.inf:
        return gaussian_delta(0, eps, digits)
    tiny = max([0] + [-mp.mag(v) for v in (q, eps) if v and mp.isfinite(v)])
    with mp.workprec(2 * bits(digits + 20) + 4 * tiny + (2 * abs(mp.mag(s)) if s else 0)):
        mu = 1 / s if s else mp.inf
        grown = mp.exp(eps)
        if direction == "remove":
            rest = grown - 1 + q
            if rest <= 0:
                return rounded(1 - grown, digits)
            return rounded(q * gaussian_delta(mu, mp.log(rest / q), digits + 2), digits)
        rest = 1 - (1 - q) * grown
        if rest <= 0:
            return mpf(0)
        return rounded(rest * gaussian_delta(mu, mp.log(q * grown / rest), digits + 2), digits)
