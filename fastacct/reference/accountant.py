"""The continuous-order Renyi accountant of DP-SGD: the infimum over all real orders above 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

from .certify import GUARD_DIGITS, NotConverged, agree, bits, certify, exact, noise_and_rate, probability, rounded
from .conversion import (
    check_conversion,
    closed_epsilon,
    closed_log_delta,
    coins_at_delta,
    coins_at_epsilon,
    conversion_bits,
)
from .excess import quadrature
from .root import root
from .sampled_gaussian import log_moment_derivatives

_SEARCH_DIGITS = 8

_LIMIT = 24
"""log(order - 1) = -24 tells whether the optimal conversion is best in the limit at order 1."""


class _Run:
    """T steps with their log-moment T K(a) and derivative T K'(a); `level` picks the discretisation."""

    def __init__(self, noise_multiplier: Any, sample_rate: Any, steps: Any, level: int = 0) -> None:
        self.s, self.q = noise_and_rate(noise_multiplier, sample_rate)
        self.steps = exact(steps)
        if not (self.steps >= 0 and mp.isfinite(self.steps)):
            raise ValueError(f"steps must be finite and not negative, got {steps}")
        self.level = level
        self.nothing = self.q == 0 or self.s == mp.inf or self.steps == 0
        self.everything = not self.nothing and self.s == 0

    def moments(self, a: mpf, digits: int) -> tuple[mpf, mpf]:
        with mp.workprec(bits(digits + 15)):
            if self.q == 1:
                k = a * (a - 1) / (2 * self.s**2), (a - mpf(1) / 2) / self.s**2
            else:
                excess, slope = quadrature(self.s, self.q, a, (0, 1), digits, self.level)
                k = mp.log1p(excess), slope / (1 + excess)
            return self.steps * k[0], self.steps * k[1]


def rdp_epsilon(
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    delta: Any,
    conversion: str = "canonne_kamath_steinke",
    digits: int = 25,
) -> tuple[mpf, mpf]:
    """Return (epsilon, order): the smallest epsilon >= 0 over all real orders, and the order that gives it.

    The order is certified to about a third of the digits: epsilon is stationary there. It is inf where no order is
    needed (nothing is released), nan where none helps, and 1 where the "optimal" conversion is best in the limit.
    """
    check_conversion(conversion)
    d = probability("delta", delta)
    run = _Run(noise_multiplier, sample_rate, steps)
    if run.nothing or d == 1:
        return mpf(0), mp.inf
    if run.everything or d == 0:
        return mp.inf, mp.nan

    def value(run: _Run, a: mpf, goal: int) -> mpf:
        k, _ = run.moments(a, goal + 5)
        if conversion == "optimal":
            return coins_at_delta(k, a, d, goal).epsilon
        return closed_epsilon(k, a, d, conversion)

    def rising(run: _Run, a: mpf, goal: int) -> mpf:
        # (a-1)^2 times the derivative of epsilon in a for the closed formulas (both rise with a, so the minimum is
        # unique); for the optimal one an expression of the derivative's sign, by the envelope theorem
        k, slope = run.moments(a, goal + 5)
        if conversion == "optimal":
            return mp.log(slope / coins_at_delta(k, a, d, goal).mean_loss(a))
        return (a - 1) * slope - k + mp.log(d) + (mp.log(a) if conversion != "mironov" else 0)

    eps, order = _infimum(run, rising, value, digits, conversion, f"epsilon at {run.s}, {run.q}, {run.steps}, {d}")
    return max(mpf(0), eps), order


def rdp_delta(
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    epsilon: Any,
    conversion: str = "canonne_kamath_steinke",
    digits: int = 25,
) -> tuple[mpf, mpf]:
    """Return (delta, order): the smallest delta <= 1 over all real orders, and the order that gives it.

    The order is 1 where delta is 1 to all the digits, otherwise as in `rdp_epsilon`.
    """
    check_conversion(conversion)
    eps = exact(epsilon)
    if not eps >= 0:
        raise ValueError(f"epsilon must be in [0, inf], got {epsilon}")
    run = _Run(noise_multiplier, sample_rate, steps)
    if run.nothing or eps == mp.inf:
        return mpf(0), mp.inf
    if run.everything:
        return mpf(1), mp.nan
    if conversion != "optimal":
        # as the order falls to 1, delta rises to 1 like 1 - c (order - 1), order - 1 = exp(eps - T KL)
        _, kl, _ = log_moment_derivatives(run.s, run.q, 1, 12)
        gap = run.steps * kl - eps
        if gap > (0 if conversion == "mironov" else (digits + 8) * mp.log(10)):
            return mpf(1), mpf(1)

    def value(run: _Run, a: mpf, goal: int) -> mpf:
        # delta is the exponential of K less (a-1) eps: what they are large by is lost
        size = run.moments(a, _SEARCH_DIGITS)[0] + a * eps + 2
        with mp.workprec(mp.prec + mp.mag(size)):
            k, _ = run.moments(a, goal + 5 + int(mp.log10(size)))
            if conversion == "optimal":
                return coins_at_epsilon(k, a, eps, goal).delta
            return mp.exp(closed_log_delta(k, a, eps, conversion))

    def rising(run: _Run, a: mpf, goal: int) -> mpf:
        k, slope = run.moments(a, goal + 5)
        if conversion == "optimal":
            return mp.log(slope / coins_at_epsilon(k, a, eps, goal).mean_loss(a))
        return slope - eps + (mp.log((a - 1) / a) if conversion != "mironov" else 0)

    delta, order = _infimum(run, rising, value, digits, conversion, f"delta at {run.s}, {run.q}, {run.steps}, {eps}")
    return min(mpf(1), delta), order


_Function = Callable[[_Run, mpf, int], mpf]


def _infimum(
    run: _Run, rising: _Function, value: _Function, digits: int, conversion: str, what: str
) -> tuple[mpf, mpf]:
    def order_at(x: mpf) -> mpf:
        return 1 + mp.exp(x)

    def evaluate(goal: int, level: int) -> mpf:
        fine = _Run(run.s, run.q, run.steps, level)
        with mp.workprec(8 * bits(goal + 20)):
            if conversion == "optimal" and rising(fine, order_at(mpf(-_LIMIT)), goal + 2 * _LIMIT) >= 0:
                # the infimum is the limit at order 1, approached linearly in order - 1
                a = 1 + mpf(10) ** (-(goal + 5 + level))
            else:
                coarse = _bracket(lambda x: rising(fine, order_at(x), _SEARCH_DIGITS + _lost(x)), mpf(level) / 3)
                # an error e in log(order - 1) costs e^2 in the value
                half = goal // 2 + 3
                with mp.workprec(mp.prec + 4 * int(abs(coarse[0]) + abs(coarse[1]))):
                    a = order_at(root(lambda x: rising(fine, order_at(x), half + _lost(x)), *coarse, half))
            x = mp.log(a - 1)
            with mp.workprec(mp.prec + conversion_bits(_divergence(fine, a), a, goal)):
                result = value(fine, a, goal + _lost(x))
                if conversion == "optimal":
                    bar = result - abs(result) * mpf(10) ** -6
                    for at in [mpf(y) for y in range(-4, 9, 2)] + [x + y for y in (-2, -1, 1, 2)]:
                        if value(fine, order_at(at), _SEARCH_DIGITS) < bar:
                            raise NotConverged(f"{what}: a lower value than the stationary one at {mp.nstr(a, 10)}")
        found.append(a)
        return result

    found: list[mpf] = []
    result = rounded(certify(evaluate, digits, what), digits)
    near_one = mpf(10) ** (-digits)
    if found[-1] - 1 < near_one and found[-2] - 1 < near_one:
        return result, mpf(1)
    if not agree(found[-1] - 1, found[-2] - 1, digits // 3):
        raise NotConverged(f"{what}: the order is not settled, {found[-2:]}")
    return result, rounded(found[-1], digits)


def _divergence(run: _Run, a: mpf) -> mpf:
    """Return the divergence of the whole run at order a, roughly: it sets the precision of the conversion."""
    return run.moments(a, _SEARCH_DIGITS)[0] / (a - 1)


def _lost(x: mpf) -> int:
    """Return the digits that (a-1) K' - K loses near order 1, plus a few."""
    return GUARD_DIGITS + max(0, int(-x / mp.log(10)))


def _bracket(f: Callable[[mpf], mpf], start: mpf) -> tuple[mpf, mpf]:
    """Return a bracket of the sign change of a rising function, from steps that double."""
    step = mpf(1)
    with mp.workprec(200):
        low = high = start
        if f(start) < 0:
            while True:
                low, high = high, high + step
                step *= mpf(3) / 2
                if f(high) >= 0:
                    return low, high
                if high > 400:
                    raise NotConverged("no finite order is optimal")
        while True:
            low, high = low - step, low
            step *= mpf(3) / 2
            if f(low) < 0:
                return low, high
            if low < -200:
                raise NotConverged("the optimal order is too close to 1")
