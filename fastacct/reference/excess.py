"""Excess moments of the sampled Gaussian by Gauss-Legendre panels and by the binomial series.

With W = (1-q) + q exp((2z-1)/(2 sigma^2)) = 1 + x the likelihood ratio of one step at z ~ N(0, sigma^2), the three
excess moments at order a are

    E_0 = E[W^a] - 1 = E[W^a - 1 - a x],    E_1 = E[W^a log W - x],    E_2 = E[W^a log(W)^2],

the value and the derivatives in a of M(a) - 1. E[x] = 0, so the subtracted terms change nothing but make every
integrand non-negative: no cancellation between nodes, and relative accuracy however small the moment.
"""

from __future__ import annotations

import math
from functools import lru_cache

from mpmath import mp, mpf

from .certify import NotConverged, bits

MAX_TERMS = 30_000
"""Longest binomial sum taken; a longer one is left to the quadrature."""


@lru_cache(maxsize=64)
def gauss_legendre(n: int, prec: int) -> tuple[tuple[mpf, mpf], ...]:
    """Return the nodes and weights of the n-point Gauss-Legendre rule on [-1, 1], to `prec` bits."""
    rule = []
    with mp.workprec(prec + 20):
        for i in range((n + 1) // 2):
            x = mpf(0) if 2 * i + 1 == n else mp.cos(mp.pi * (i + mpf(3) / 4) / (n + mpf(1) / 2))
            for _ in range(60):
                p0, p1 = mpf(1), x
                for k in range(2, n + 1):
                    p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
                slope = n * (x * p1 - p0) / (x * x - 1)
                step = p1 / slope
                x -= step
                if abs(step) < mpf(2) ** (-prec // 2 - 8):  # Newton doubles the digits: this step was the last needed
                    break
            else:
                raise NotConverged(f"Gauss-Legendre node {i} of {n}")
            weight = 2 / ((1 - x * x) * slope * slope)
            rule += [(x, weight)] if x == 0 else [(x, weight), (-x, weight)]
    return tuple(rule)


class _Integrand:
    """The integrands of E_0, E_1, E_2 in t = z / sigma, without the factor 1/sqrt(2 pi), and bounds on their tails."""

    def __init__(self, sigma: mpf, q: mpf, a: mpf, which: tuple[int, ...]) -> None:
        self.sigma, self.q, self.a, self.which = sigma, q, a, which
        self.slope = 1 / sigma
        self.shift = self.slope * self.slope / 2
        self.log_rate = a * self.slope
        self.branch = float(sigma * mp.log((1 - q) / q) + self.slope / 2)  # t where both parts of W are equal

    def factors(self, t: mpf) -> tuple[mpf, mpf, mpf, list[mpf]]:
        """Return x, log W, W^a and the integrands at t before the Gaussian factor."""
        x = self.q * (mp.exp(t * self.slope - self.shift) - 1)
        return self._from_ratio(x)

    def _from_ratio(self, x: mpf) -> tuple[mpf, mpf, mpf, list[mpf]]:
        log_w = mp.log(1 + x)
        power = mp.exp(self.a * log_w)
        values = []
        for k in self.which:
            if k == 0:
                values.append(power - 1 - self.a * x)
            elif k == 1:
                values.append(power * log_w - x)
            else:
                values.append(power * log_w * log_w)
        return x, log_w, power, values

    def left_supremum(self) -> list[mpf]:
        """Return the suprema over z < 1/2 (W < 1)."""
        edge = self._from_ratio(-self.q)[3]
        return [self._peak(k, v, -self.q, mpf(0)) for k, v in zip(self.which, edge, strict=True)]

    def _peak(self, k: int, largest_end: mpf, x_low: mpf, x_high: mpf) -> mpf:
        # E_0 and E_1 have integrands that fall while W < 1 and rise while W > 1; that of E_2 has one more bump, at
        # log W = -2/a.
        if k == 2 and 1 + x_low < mp.exp(-2 / self.a) < 1 + x_high:
            return max(largest_end, 4 * mp.exp(-2) / self.a**2)
        return largest_end

    def right_tail(self, t: mpf) -> list[mpf]:
        """Return upper bounds on the integrals from t to infinity (infinite while t is too small for the argument)."""
        y = t * self.slope - self.shift
        if y <= 0:
            return [mp.inf] * len(self.which)
        # d log x / dt = 1 / (sigma (1 - e^-y)), d log(log W) / dt is no more than that, d log W / dt <= 1 / sigma;
        # all three fall with t, so beyond t the integrand decays at least as fast as exp(-rate * distance).
        x, log_w, power, _ = self.factors(t)
        growth = self.slope / (1 - mp.exp(-y))
        gauss = mp.exp(-t * t / 2)
        bounds = []
        for k in self.which:
            candidates = [(power * log_w**k, t - self.log_rate - k * growth)]
            if k == 0:
                # Taylor: W^a - 1 - a x <= a (a-1) / 2 x^2 max(1, W^(a-2))
                lift = max(self.a - 2, mpf(0))
                taylor = self.a * (self.a - 1) / 2 * x * x * mp.exp(lift * log_w)
                candidates.append((taylor, t - 2 * growth - lift * self.slope))
            bounds.append(min(gauss * v / rate if rate > 0 else mp.inf for v, rate in candidates))
        return bounds

    def panel_bound(self, u: mpf, v: mpf, at_u: _Sample, at_v: _Sample) -> list[mpf]:
        """Return upper bounds on the integrals over [u, v]."""
        width = v - u
        nearest = max(u, -v, mpf(0))
        gauss = width * mp.exp(-nearest * nearest / 2)
        tilted = mp.inf
        if u * self.slope >= self.shift:
            # W^a exp(-a t / sigma) falls with t: take it at u, and the maximum of the Gaussian that is left
            top = min(max(self.log_rate, u), v)
            tilted = width * at_u[2] * mp.exp((top - u) * self.log_rate - top * top / 2)
        bounds = []
        for i, k in enumerate(self.which):
            flat = gauss * self._peak(k, max(at_u[3][i], at_v[3][i]), at_u[0], at_v[0])
            bounds.append(min(flat, tilted * at_v[1] ** k) if tilted != mp.inf else flat)
        return bounds

    def half_width(self, u: mpf, v: mpf, scale: float) -> float:
        """Return the largest half-width that a panel around [u, v] may have."""
        sigma = float(self.sigma)
        centre = float((u + v) / 2) - self.branch
        distance = math.hypot(centre, math.pi * sigma)
        nearest = max(abs(centre) - float(v - u) / 2, 0.0)
        p = 1.0 / (1.0 + math.exp(min(nearest / sigma, 700.0)))
        curvature = 1.0 + float(self.a) * p * (1.0 - p) / sigma**2
        return scale * min(2.0 / math.sqrt(curvature), 0.5 * distance)


_Sample = tuple[mpf, mpf, mpf, list[mpf]]


def working_bits(sigma: mpf, q: mpf, a: mpf, goal_digits: float) -> int:
    """Return the precision at which one integrand value keeps `goal_digits` digits of the moment."""
    with mp.workprec(60):
        small_ratio = 2 * max(0, -mp.mag(q * min(1, 1 / sigma)))
        near_one = max(0, -mp.mag(a - 1)) if a > 1 else 0
        exponent = 2 * max(0, mp.mag(a / sigma)) + max(0, mp.mag(a)) + 2 * max(0, mp.mag(1 / sigma))
    return int(bits(goal_digits) + 20 + small_ratio + near_one + exponent)


def quadrature(
    sigma: mpf, q: mpf, a: mpf, which: tuple[int, ...], goal_digits: float, level: int = 0
) -> tuple[mpf, ...]:
    """Return the excess moments E_k, k in `which`, by Gauss-Legendre panels; what is left out is bounded and added up.

    `level` changes the panels, the number of nodes and the precision.
    """
    with mp.workprec(working_bits(sigma, q, a, goal_digits) + 24 * level):
        f = _Integrand(sigma, q, a, which)
        scale = 0.83**level
        n = int(0.87 * goal_digits) + 4 + level
        rule = gauss_legendre(n, -(-mp.prec // 64) * 64)
        tolerance = mpf(10) ** (-(goal_digits + 1))
        floor = [mpf(0)] * len(which)
        for _ in range(4):
            totals, left_out, seen = _panels(f, rule, scale, tolerance, floor)
            if all(lost <= tolerance * total for lost, total in zip(left_out, totals, strict=True)):
                norm = 1 / mp.sqrt(2 * mp.pi)
                return tuple(norm * total for total in totals)
            floor = [min(old, new) if old else new for old, new in zip(totals, seen, strict=True)]
            tolerance /= 1000
    raise NotConverged("the integral left out never became negligible")


def _panels(
    f: _Integrand, rule: tuple[tuple[mpf, mpf], ...], scale: float, tolerance: mpf, floor: list[mpf]
) -> tuple[list[mpf], list[mpf], list[mpf]]:
    # The size of the integrals, from below and roughly: the largest values seen, times a width they surely have.
    width = min(mpf(1), f.sigma) / 4
    seen = list(floor)

    def look(t: mpf) -> _Sample:
        sample = f.factors(t)
        gauss = mp.exp(-t * t / 2) * width
        for i, value in enumerate(sample[3]):
            seen[i] = max(seen[i], value * gauss)
        return sample

    for guess in _modes(f):
        look(mpf(guess))
    look(f.log_rate)

    sup = f.left_supremum()
    left = mpf(-6)
    left_out = [s * mp.exp(-left * left / 2) / -left for s in sup]
    while any(lost > tolerance / 8 * s for lost, s in zip(left_out, seen, strict=True)):
        left -= 1
        left_out = [s * mp.exp(-left * left / 2) / -left for s in sup]
    right = max(f.log_rate, f.slope / 2, mpf(0)) + 6
    tail = f.right_tail(right)
    while any(lost > tolerance / 8 * s for lost, s in zip(tail, seen, strict=True)):
        right += 1
        tail = f.right_tail(right)
    left_out = [a + b for a, b in zip(left_out, tail, strict=True)]

    totals = [mpf(0)] * len(f.which)
    stack = [(left, right, look(left), look(right))]
    while stack:
        u, v, at_u, at_v = stack.pop()
        bound = f.panel_bound(u, v, at_u, at_v)
        if all(b <= tolerance / 64 * s for b, s in zip(bound, seen, strict=True)):
            left_out = [a + b for a, b in zip(left_out, bound, strict=True)]
            continue
        half, centre = (v - u) / 2, (u + v) / 2
        if float(half) > f.half_width(u, v, scale):
            at_centre = look(centre)
            stack += [(u, centre, at_u, at_centre), (centre, v, at_centre, at_v)]
            continue
        for node, weight in rule:
            t = centre + half * node
            gauss = mp.exp(-t * t / 2) * (weight * half)
            for i, value in enumerate(f.factors(t)[3]):
                totals[i] += gauss * value
    return totals, left_out, seen


def _modes(f: _Integrand) -> list[float]:
    """Return rough places (in t) where the integrand may peak: they only speed up the choice of what to leave out."""
    sigma, a = float(f.sigma), float(f.a)
    points = [-2.0, -1.0, 0.0, 1.0, 2.0]
    if a / sigma > 60:
        return points
    for start in (a / sigma, f.branch, 0.5 * a / sigma):
        t = start
        for _ in range(12):
            gap = (t - f.branch) / sigma
            p = 1.0 / (1.0 + math.exp(min(max(-gap, -700.0), 700.0)))
            t = 0.5 * t + 0.5 * a / sigma * p
        points.append(t)
    return points


def series(sigma: mpf, q: mpf, order: int, goal_digits: float, level: int = 0) -> mpf | None:
    """Return E_0 at an integer order by the binomial sum over k >= 2 of Bin(order, q; k) expm1(k (k-1) / (2 sigma^2)).

    Every term is positive; those left out are bounded block by block. None if more than `MAX_TERMS` are needed. The
    recurrence runs up each block at even levels and down at odd ones.
    """
    blocks = _blocks(float(sigma), q, order, (goal_digits + 2) * math.log(10.0))
    if blocks is None:
        return None
    n_terms = sum(v - u + 1 for u, v in blocks)
    with mp.workprec(60):
        small = max(0, mp.mag(sigma * sigma)) + max(0, mp.mag(order * order / (sigma * sigma)))
    extra = 30 + 24 * level + 2 * n_terms.bit_length() + 2 * order.bit_length() + small
    with mp.workprec(bits(goal_digits) + extra + max(0, -mp.mag(1 - q))):
        return mp.fsum(_block_sum(sigma, q, order, u, v, level % 2 == 1) for u, v in blocks)


def _block_sum(sigma: mpf, q: mpf, order: int, low: int, high: int, downwards: bool) -> mpf:
    inverse = 1 / (sigma * sigma)
    k, last, sign = (high, low, -1) if downwards else (low, high, 1)
    log_pmf = mp.loggamma(order + 1) - mp.loggamma(k + 1) - mp.loggamma(order - k + 1)
    pmf = mp.exp(log_pmf + k * mp.log(q) + (order - k) * mp.log(1 - q))
    grown = mp.exp(k * (k - 1) * inverse / 2)
    step = mp.exp(sign * (k if not downwards else k - 1) * inverse)  # from exp(c_k) to exp(c_(k +- 1))
    step_of_step = mp.exp(inverse)
    odds = q / (1 - q) if not downwards else (1 - q) / q
    total = pmf * (grown - 1)
    while k != last:
        pmf = pmf * odds * (order - k) / (k + 1) if not downwards else pmf * odds * k / (order - k + 1)
        k += sign
        grown *= step
        step *= step_of_step
        total += pmf * (grown - 1)
    return total


def _blocks(sigma: float, q: mpf, order: int, nats: float) -> list[tuple[int, int]] | None:
    """Return blocks of k outside of which the terms add up to less than exp(-nats) of the sum."""
    log_q, log_p = float(mp.log(q)), float(mp.log(1 - q))
    log_odds = log_q - log_p
    top = math.lgamma(order + 1)

    def log_pmf(k: float) -> float:
        return top - math.lgamma(k + 1) - math.lgamma(order - k + 1) + k * log_q + (order - k) * log_p

    def exponent(k: float) -> float:
        return k * (k - 1) / (2 * sigma**2)

    def log_term(k: int) -> float:
        c = exponent(k)
        return log_pmf(k) + (c if c > 40 else math.log(math.expm1(c)))

    def log_bound(u: int, v: int, theta: float) -> float:
        # the tilted binomial is log-concave: its maximum over the block is at its mode, moved into the block; the
        # rest is convex in the exponent (theta the chord), or rising (theta = 0): its maximum is at an end
        tilted = log_odds + theta
        mode = (order + 1) / (1 + math.exp(-tilted)) if tilted > -700 else 0.0
        k = min(max(math.floor(mode), u), v)
        c = exponent(v)
        ends = c - theta * v if theta or c > 40 else math.log(math.expm1(c))
        return math.log(v - u + 1) + log_pmf(k) + theta * k + ends

    # doubles carry the logarithms: the slack covers their rounding
    slack = 3.0 + 1e-14 * (exponent(order) + top + abs(order * log_q) + abs(order * log_p))
    best = max(log_term(2), log_term(order), log_term(min(max(int(order * float(q)), 2), order)))
    kept: list[tuple[int, int]] = []
    stack = [(2, order)]
    n_kept = n_looked = 0
    while stack:
        u, v = stack.pop()
        n_looked += 1
        best = max(best, log_term(u), log_term(v))
        bound = min(log_bound(u, v, 0.0), log_bound(u, v, (u + v - 1) / (2 * sigma**2)))
        if bound < best - nats - slack - math.log(n_looked + 100.0):
            continue
        if v - u < 16:
            n_kept += v - u + 1
            if n_kept > MAX_TERMS:
                return None
            if kept and kept[-1][1] + 1 == u:
                kept[-1] = (kept[-1][0], v)
            else:
                kept.append((u, v))
            continue
        middle = (u + v) // 2
        stack += [(middle + 1, v), (u, middle)]
    return kept
