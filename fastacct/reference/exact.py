"""Exact privacy profiles of T steps of the Poisson-sampled Gaussian mechanism.

With Q = N(0, s^2), P = (1-q) N(0, s^2) + q N(1, s^2), L = log dP/dQ, M(u) = E_Q[e^(u L)] and S the sum of T losses,

    remove  delta(eps) = E_Q[(e^S - e^eps)_+] = 1/(2 pi i) Int M(u)^T e^(-(u-1) eps) / (u (u-1)) du    right of 1,
    add     delta(eps) = E_Q[(1 - e^(eps+S))_+] = 1/(2 pi i) Int M(u)^T e^(u eps) / (u (u-1)) du       left of 0.

One step and q = 1 have closed forms. Two steps are one integral of the closed form of one step. Otherwise u runs over
a hyperbola whose arms open to the right, u = c + mu (cosh(theta + i b) - cos b), where the integrand falls at least
exponentially in |u|, however few records take part; the trapezoidal rule in theta converges geometrically. The kernels
integrate along a vertical line or a ray, in panels.

M(u) is a trapezoidal sum too, along a curve in the plane of zeta, where L = log(1-q) + log(1 + e^zeta) and z is linear
in zeta. Doubles choose curves, steps and ends; they decide how long the sums are, never what they add up to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

from .certify import NotConverged, bits, certify, exact, probability, rounded
from .gaussian import gaussian_epsilon, sampled_gaussian_delta
from .loss_in_doubles import LossInDoubles
from .path import path_at
from .root import root
from .run import Run
from .two_steps import two_steps

DIRECTIONS = ("remove", "add")
METHODS = ("auto", "closed", "nested", "contour")


def exact_delta(
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    epsilon: Any,
    *,
    direction: str = "add_remove",
    digits: int = 30,
    method: str = "auto",
) -> mpf:
    """Return the exact delta(epsilon) of T steps of the Poisson-sampled Gaussian mechanism, for any real epsilon.

    Parameters
    ----------
    noise_multiplier, sample_rate : float, int, str or mpf
        s >= 0 and 0 <= q <= 1.
    steps : int
        T >= 0.
    epsilon : float, int, str or mpf
        Any real number or inf.
    direction : {"add_remove", "remove", "add"}
        "remove" (the mixture against the Gaussian), "add" (the other way) or the larger of the two.
    digits : int
        Significant digits certified.
    method : {"auto", "closed", "nested", "contour"}
        "closed" wants one step or q = 1, "nested" two steps.

    Raises
    ------
    NotConverged
        If the digits cannot be certified, or the sums would be too long.
    """
    run = Run(noise_multiplier, sample_rate, steps)
    eps = exact(epsilon)
    if mp.isnan(eps):
        raise ValueError("epsilon must not be NaN")
    return _worst(direction, lambda one: _delta(run, eps, one, digits, method))


def exact_epsilon(
    noise_multiplier: Any,
    sample_rate: Any,
    steps: Any,
    delta: Any,
    *,
    direction: str = "add_remove",
    digits: int = 30,
) -> mpf:
    """Return the smallest epsilon >= 0 at which the exact delta is no larger than `delta`; else as in `exact_delta`."""
    run = Run(noise_multiplier, sample_rate, steps)
    d = probability("delta", delta)
    return _worst(direction, lambda one: _epsilon(run, d, one, digits))


def _worst(direction: str, value: Callable[[str], mpf]) -> mpf:
    """Return the value of one direction, or the larger of the two."""
    if direction == "add_remove":
        return max(value(one) for one in DIRECTIONS)
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be 'remove', 'add' or 'add_remove', got {direction!r}")
    return value(direction)


def _delta(run: Run, eps: mpf, direction: str, digits: int, method: str) -> mpf:
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    what = f"{direction} delta at {run}, {mp.nstr(eps, 17)}"
    if method in ("auto", "closed") or not 0 < run.q < 1 or not 0 < run.s < mp.inf or run.steps == 0:
        value = run.closed(eps, direction, digits)
        if value is not None:
            return value
    if method == "closed":
        raise ValueError(f"{what}: no closed form")
    if method == "nested" and run.steps != 2:
        raise ValueError("the nested integral is for two steps")

    def evaluate(goal: int, level: int) -> mpf:
        if run.steps == 2 and method != "contour":
            return two_steps(run, eps, direction, goal, level)
        return path_at(run, eps, direction, goal, level).read(eps)[0]

    return rounded(certify(evaluate, digits, what), digits)


# --- epsilon ---------------------------------------------------------------------------------------------------------


def _epsilon(run: Run, d: mpf, direction: str, digits: int) -> mpf:
    if run.q == 0 or run.s == mp.inf or run.steps == 0 or d == 1:
        return mpf(0)
    what = f"{direction} epsilon at {run}, {mp.nstr(d, 17)}"
    with mp.workprec(2 * bits(digits + 20) + max(0, -mp.mag(run.q))):
        least = run.steps * mp.log1p(-run.q) if run.q < 1 else -mp.inf
        if d == 0 or run.s == 0:
            if run.s == 0 and d > 0:
                return _epsilon_seen(least, d, direction)
            return rounded(-least, digits) if direction == "add" else mp.inf
        if run.q == 1:
            return gaussian_epsilon(mp.sqrt(run.steps) / run.s, d, digits)
    # a root above 0 is proof enough that delta(0) is larger
    near_zero = run.steps <= 2 or LossInDoubles(run).log_delta(run.steps, 0.0, direction) < float(mp.log(d)) + 1
    if near_zero and _delta(run, mpf(0), direction, max(6, digits // 2), "auto") <= d:
        return mpf(0)
    if run.steps <= 2:
        low, high = _bracket(run, d, direction, -least, what)

        def invert(goal: int, level: int) -> mpf:
            with mp.workprec(bits(goal + 10)):
                log_d = mp.log(d)
                return root(lambda e: log_d - mp.log(_few(run, e, direction, goal + 4, level)), low, high, goal)

        return rounded(certify(invert, digits, what), digits)
    start = _guess(run, d, direction, what)

    def evaluate(goal: int, level: int) -> mpf:
        with mp.workprec(bits(goal + 10)):
            return _solve(run, d, direction, goal, level, near[-1], near, what)

    near = [start]
    return rounded(certify(evaluate, digits, what), digits)


def _few(run: Run, eps: mpf, direction: str, goal: int, level: int) -> mpf:
    """Return delta of one step or of two."""
    if run.steps == 1:
        return sampled_gaussian_delta(run.s, run.q, eps, direction, goal)
    return two_steps(run, eps, direction, goal, level)


def _bracket(run: Run, d: mpf, direction: str, most: mpf, what: str) -> tuple[mpf, mpf]:
    """Return two epsilons around that of `d`, both with a positive delta."""

    def value(eps: mpf) -> mpf:
        try:
            return _few(run, eps, direction, 6, 0)
        except NotConverged:  # too small to be found
            return mpf(0)

    with mp.workprec(bits(30)):
        low, high = mpf(0), mpf(1) if direction == "remove" else most / 2
        while (at_high := value(high)) > d:
            low, high = high, 2 * high if direction == "remove" else (high + most) / 2
        for _ in range(60):
            if at_high > 0 and low > 0 and high - low < low / 20:
                return low, high
            middle = (low + high) / 2
            at_middle = value(middle)
            if at_middle > d:
                low = middle
            else:
                high, at_high = middle, at_middle
    raise NotConverged(f"{what}: no bracket")


def _epsilon_seen(least: mpf, d: mpf, direction: str) -> mpf:
    """Return epsilon where the records are seen (s = 0)."""
    if direction == "remove":
        return mp.inf if -mp.expm1(least) > d else mpf(0)
    return max(mpf(0), mp.log1p(-d) - least)


def _guess(run: Run, d: mpf, direction: str, what: str) -> mpf:
    """Return roughly the epsilon of `d`, by the saddle-point approximation."""
    loss = LossInDoubles(run)
    goal = float(mp.log(d))
    most = math.inf if direction == "remove" else -run.steps * loss.kappa

    low, high = 0.0, min(1.0, most / 2)
    while loss.log_delta(run.steps, high, direction) > goal:
        low, high = high, 2 * high if direction == "remove" else (high + most) / 2
        if high > 1e7 or (high - low) < 1e-12 * high:
            raise NotConverged(f"{what}: no start")
    for _ in range(30):
        mid = (low + high) / 2
        low, high = (mid, high) if loss.log_delta(run.steps, mid, direction) > goal else (low, mid)
        if high - low < 1e-3 * high:
            break
    return mpf((low + high) / 2)


def _solve(run: Run, d: mpf, direction: str, goal: int, level: int, start: mpf, near: list[mpf], what: str) -> mpf:
    """Return the root in eps of log delta(eps) = log d by Newton's method."""
    read = path_at(run, start, direction, goal + 3, level).read
    eps, size = start, mp.inf
    for _ in range(60):
        value, slope = read(eps)
        if not (value > 0 and slope < 0):
            raise NotConverged(f"{what}: delta is not falling at {mp.nstr(eps, 10)}")
        move = mp.log(value / d) * value / -slope
        eps = max(eps + move, eps / 4)
        size = abs(move)
        if abs(mp.log(value / d)) > 2:  # the path was made for another epsilon
            read = path_at(run, eps, direction, goal + 3, level).read
        if size <= eps * mpf(10) ** -(goal // 2 + 3):  # the error after this step is of second order
            near.append(eps)
            return eps
    raise NotConverged(f"{what}: Newton's method did not settle")
