"""Conversions of one Renyi bound to (epsilon, delta), at one order.

"mironov" is Mironov 2017, Proposition 3; "canonne_kamath_steinke" is Canonne, Kamath and Steinke 2020, Proposition 12
(equivalently Balle et al. 2020); "optimal" is the best that follows from one bound (Asoodeh et al. 2021): the largest
p - e^eps q over pairs of coins 0 <= q <= p <= 1 whose Renyi divergence is at most the bound,

    F(p, q) = p^a q^(1-a) + (1-p)^a (1-q)^(1-a) <= e^((a-1) r).

F is convex and the objective linear, so a stationary point is the optimum. It is found in the likelihood ratios
u = p/q > 1 > v = (1-p)/(1-q), where q = (1-v)/(u-v), F = q u^a + (1-q) v^a and stationarity reads

    (a-1) (u^a - v^a) = a e^eps (u^(a-1) - v^(a-1)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mpmath import mp, mpf

from .certify import bits, certify, exact, probability, rounded
from .root import root

CONVERSIONS = ("mironov", "canonne_kamath_steinke", "optimal")


def _powers(w: mpf, a: mpf) -> tuple[mpf, mpf, mpf]:
    """Return v^a, v^(a-1) and v^a - 1 at v = 1 - w, relatively accurate for small w."""
    if w == 1:
        return mpf(0), mpf(0), mpf(-1)
    log_v = mp.log1p(-w)
    return mp.exp(a * log_v), mp.exp((a - 1) * log_v), mp.expm1(a * log_v)


class Coins(NamedTuple):
    """The optimal pair of coins: likelihood ratios u and v = 1 - w, and where it stands on the profile."""

    u: mpf
    w: mpf
    epsilon: mpf
    delta: mpf

    def mean_loss(self, a: mpf) -> mpf:
        """Return the mean of the loss under the order-a tilt: the derivative in a of log F at fixed p and q."""
        q = self.w / (self.u - 1 + self.w)
        up = q * self.u**a
        if self.w == 1:
            return mp.log(self.u)
        log_v = mp.log1p(-self.w)
        down = (1 - q) * mp.exp(a * log_v)
        return (up * mp.log(self.u) + down * log_v) / (up + down)


def check_conversion(conversion: str) -> None:
    """Raise unless the conversion is known."""
    if conversion not in CONVERSIONS:
        raise ValueError(f"conversion must be one of {CONVERSIONS}, got {conversion!r}")


def rdp_to_epsilon(rdp: Any, order: Any, delta: Any, conversion: str, digits: int = 25) -> mpf:
    """Return the epsilon >= 0 that a Renyi bound at one order gives at `delta` (0 where the formula is negative)."""
    check_conversion(conversion)
    r, a = exact(rdp), exact(order)
    _check(r, a)
    d = probability("delta", delta)
    if d == 1 or r == 0:
        return mpf(0)
    if d == 0 or r == mp.inf:
        return mp.inf

    def evaluate(goal: int, level: int) -> mpf:
        with mp.workprec(conversion_bits(r, a, goal) + 32 * level):
            log_moment = (a - 1) * r
            if conversion != "optimal":
                return max(mpf(0), closed_epsilon(log_moment, a, d, conversion))
            if level % 2 == 0:
                return max(mpf(0), coins_at_delta(log_moment, a, d, goal).epsilon)
            # the same from the primal problem at fixed epsilon, inverted by bisection
            high = closed_epsilon(log_moment, a, d, "mironov")
            if high <= 0 or coins_at_epsilon(log_moment, a, mpf(0), goal).delta <= d:
                return mpf(0)
            return root(
                lambda e: mp.log(d) - mp.log(coins_at_epsilon(log_moment, a, e, goal + 3).delta), mpf(0), high, goal
            )

    return rounded(certify(evaluate, digits, f"epsilon from rdp {r} at order {a}, delta {d}"), digits)


def rdp_to_delta(rdp: Any, order: Any, epsilon: Any, conversion: str, digits: int = 25) -> mpf:
    """Return the delta <= 1 that a Renyi bound at one order gives at `epsilon` >= 0."""
    check_conversion(conversion)
    r, a, eps = exact(rdp), exact(order), exact(epsilon)
    _check(r, a)
    if not eps >= 0:
        raise ValueError(f"epsilon must be in [0, inf], got {epsilon}")
    if eps == mp.inf or r == 0:
        return mpf(0)
    if r == mp.inf:
        return mpf(1)

    def evaluate(goal: int, level: int) -> mpf:
        with mp.workprec(conversion_bits(r, a, goal) + max(0, mp.mag(eps) if eps else 0) + 32 * level):
            log_moment = (a - 1) * r
            if conversion != "optimal":
                return min(mpf(1), mp.exp(closed_log_delta(log_moment, a, eps, conversion)))
            if level % 2 == 0:
                return coins_at_epsilon(log_moment, a, eps, goal).delta
            return _delta_by_search(log_moment, a, eps, goal)

    return rounded(certify(evaluate, digits, f"delta from rdp {r} at order {a}, epsilon {eps}"), digits)


def _check(r: mpf, a: mpf) -> None:
    if not r >= 0:
        raise ValueError(f"rdp must be in [0, inf], got {r}")
    if not (a > 1 and mp.isfinite(a)):
        raise ValueError(f"order must be finite and above 1, got {a}")


def conversion_bits(r: mpf, a: mpf, goal: float) -> int:
    """Return a precision that leaves `goal` digits after the cancellations of small divergences and extreme orders."""
    with mp.workprec(60):
        lost = 3 * max(0, -mp.mag(r)) + max(0, mp.mag(r)) + 2 * abs(mp.mag(a - 1)) + mp.mag(a)
    return int(bits(goal) + 60 + lost)


def closed_epsilon(log_moment: mpf, a: mpf, d: mpf, conversion: str) -> mpf:
    """Return epsilon, of either sign, from K = (a-1) r by a closed formula, at the current precision."""
    if conversion == "mironov":
        return (log_moment - mp.log(d)) / (a - 1)
    return (log_moment - mp.log(d) - mp.log(a)) / (a - 1) + mp.log((a - 1) / a)


def closed_log_delta(log_moment: mpf, a: mpf, eps: mpf, conversion: str) -> mpf:
    """Return log(delta), of either sign, from K = (a-1) r by a closed formula, at the current precision."""
    if conversion == "mironov":
        return log_moment - (a - 1) * eps
    return log_moment - (a - 1) * eps + (a - 1) * mp.log(a - 1) - a * mp.log(a)


def coins_at_epsilon(log_moment: mpf, a: mpf, eps: mpf, goal: float) -> Coins:
    """Solve the primal problem at `eps` >= 0."""
    r = log_moment / (a - 1)
    grown = mp.exp(eps)
    edge = grown * a / (a - 1)
    if r >= mp.log(edge):
        # p = 1: the constraint is q >= e^-r
        return Coins(mp.exp(r), mpf(1), eps, max(mpf(0), -mp.expm1(eps - r)))
    log_excess = mp.log(mp.expm1(log_moment))

    def stationary_u(w: mpf) -> mpf:
        # the residual is convex and rising from its minimum at e^eps to the edge: Newton falls onto the root
        low, high, _ = _powers(w, a)
        u = edge
        for _ in range(500):
            power = u ** (a - 2)
            residual = (a - 1) * (power * u * u - low) - a * grown * (power * u - high)
            step = residual / (a * (a - 1) * power * (u - grown))
            u -= step
            if abs(step) <= mp.eps * 256 * u or step < 0:
                break
        return u

    def constraint(log_w: mpf) -> mpf:
        w = mp.exp(log_w)
        u = stationary_u(w)
        down, _, change = _powers(w, a)
        return mp.log(w / (u - 1 + w) * (u**a - down) + change) - log_excess

    low = mpf(-1)
    while constraint(low) > 0:
        low *= 2
    w = mp.exp(root(constraint, low, mpf(0), goal + 3))
    u = stationary_u(w)
    return Coins(u, w, eps, w / (u - 1 + w) * (u - grown))


def coins_at_delta(log_moment: mpf, a: mpf, d: mpf, goal: float) -> Coins:
    """Return the optimal pair whose delta is `d`, walking along F = e^K; its epsilon may be negative."""
    r = log_moment / (a - 1)
    if d * a >= 1:
        return Coins(mp.exp(r), mpf(1), r + mp.log1p(-d), d)

    def at(log_w: mpf) -> Coins:
        w = mp.exp(log_w)
        u, eps = _on_boundary(log_moment, a, w, goal + 5)
        return Coins(u, w, eps, w / (u - 1 + w) * (u - mp.exp(eps)))

    log_d = mp.log(d)
    low = mpf(log_d)
    while at(low).delta > d:
        low = 2 * low - 1
    return at(root(lambda log_w: mp.log(at(log_w).delta) - log_d, low, mpf(0), goal + 3))


def _on_boundary(log_moment: mpf, a: mpf, w: mpf, goal: float) -> tuple[mpf, mpf]:
    """Return u on F = e^K at v = 1 - w, and the epsilon whose optimum is there."""
    down, lower, change = _powers(w, a)
    log_target = mp.log(mp.expm1(log_moment))

    def constraint(log_log_u: mpf) -> mpf:
        u = mp.exp(mp.exp(log_log_u))
        excess = w / (u - 1 + w) * (u**a - down) + change
        return mp.log(excess) - log_target if excess > 0 else -mp.inf

    low = high = mpf(0)
    while constraint(high) < 0:
        high += 2
    while True:
        f_low = constraint(low)
        if f_low <= 0:
            break
        low -= 2
    while f_low == -mp.inf:  # below u = 1 within rounding: shrink the bracket from below
        middle = (low + high) / 2
        f_low = constraint(middle)
        if f_low > 0:
            high, f_low = middle, -mp.inf
        else:
            low = middle
    u = mp.exp(mp.exp(root(constraint, low, high, goal)))
    slope = (a - 1) * (u**a - down) / (a * (u ** (a - 1) - lower))
    return u, mp.log(slope)


def _delta_by_search(log_moment: mpf, a: mpf, eps: mpf, goal: float) -> mpf:
    """Return delta from the other parametrisation: the boundary point whose supporting line has slope e^eps."""
    r = log_moment / (a - 1)
    if r >= eps + mp.log(a / (a - 1)):
        return max(mpf(0), 1 - mp.exp(eps) / mp.exp(r))
    low = mpf(-1)
    while _on_boundary(log_moment, a, mp.exp(low), goal + 5)[1] < eps:
        low *= 2
    log_w = root(lambda x: eps - _on_boundary(log_moment, a, mp.exp(x), goal + 8)[1], low, mpf(0), goal + 5)
    w = mp.exp(log_w)
    u, _ = _on_boundary(log_moment, a, w, goal + 8)
    q = w / (u - 1 + w)
    return q * u - mp.exp(eps) * q
