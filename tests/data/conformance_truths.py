"""Epsilon of compositions of different mechanisms in arbitrary precision, from the definitions of their losses.

delta(eps) is the integral of the product of the moments E_Q[exp(u L)] along a vertical line, right of 1 for a record
removed and left of 0 for one added. Losses with few values, and Laplace noise alone, have sums instead. Every value is
found twice, on two lines and with two steps or by two formulas, and returned only if both agree; doubles place lines
and steps, and decide nothing else. No module of the package but `fastacct.reference` is used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpc, mpf

from fastacct.reference import NotConverged
from fastacct.reference.certify import agree, bits
from fastacct.reference.root import root

GUARD = 12
LEVELS = 7


class Part(NamedTuple):
    """The same release, so many times.

    Attributes
    ----------
    kind : str
        "gaussian" (a mean of 1), "sampled" (drawn or not), "mirrored" (replaced where drawn), "slot" (replaced in a
        batch of fixed size), "laplace" (epsilon = 1 / scale) or "response" (values of probability
        `scale` / `rate` times uniform, the true one the rest).
    """

    kind: str
    scale: float
    count: int
    rate: mpf = mpf(1)


# --- moments ----------------------------------------------------------------------------------------------------------


def _losses(part: Part, c: float, reach: float, fine: float) -> tuple[list[tuple[mpf, mpf]], mpf]:
    """Masses under Q and losses of a release that has no moment in closed form, and the mass at loss 0."""
    s, q = mpf(part.scale), mpf(part.rate)
    sd = part.scale
    wide = (2.0 * sd * math.sqrt(mp.prec * 0.35)) + 2.0
    step = min(0.3 * sd * sd, 0.5 * sd, 2.2 * sd * sd / (0.35 * reach + 4.0) * 2.0) / fine
    low, high = -1.0 - wide, 1.0 + wide
    far = c if part.kind == "sampled" else 2.0 * c  # where the tilted law has its peak
    low, high = (low, high + max(far, 1.0)) if c > 0 else (low + min(far, -1.0), high)
    if part.kind == "mirrored":
        low, high = -max(-low, high), max(-low, high)
    if part.kind == "slot":
        return _slot(s, q, high, fine)
    first, last = math.floor(low / step), math.ceil(high / step)
    h, terms = mpf(step), []
    for k in range(first, last + 1):
        x = k * h
        if part.kind == "sampled":
            mass, loss = mp.npdf(x, 0, s), mp.log1p(q * mp.expm1((2 * x - 1) / (2 * s * s)))
        else:
            mass = (1 - q) * mp.npdf(x, 0, s) + q * mp.npdf(x, -1, s)
            loss = mp.log(((1 - q) * mp.npdf(x, 0, s) + q * mp.npdf(x, 1, s)) / mass)
        terms.append((h * mass, loss))
    return terms, mpf(0)


def _slot(s: mpf, q: mpf, high: float, fine: float) -> tuple[list[tuple[mpf, mpf]], mpf]:
    """Gauss points right of 1, where (1-q) N(0) + q N(2) has a loss above 0, and its mirror image."""
    still = (1 - q) * mp.erf(1 / (s * mp.sqrt(2)))
    terms, points = [(still, mpf(0))], int(24 * fine)
    n = math.ceil((high + 2) * fine / (0.5 * min(float(s), float(s * s))))
    rule = [_polished(points, math.cos(math.pi * (i + 0.75) / (points + 0.5))) for i in range(points)]
    half = mpf(high + 2) / (2 * n)
    for k, (x, w) in itertools.product(range(n), rule):
        at = 1 + (2 * k + 1) * half + half * x
        mass, loss = half * w * mp.npdf(at, 0, s), mp.log1p(q * mp.expm1(2 * (at - 1) / s**2))
        terms += [(mass, loss), (mass * mp.exp(loss), -loss)]
    return terms, still


def _polished(n: int, start: float) -> tuple[mpf, mpf]:
    """A node and weight of the Gauss-Legendre rule, by Newton's method from a double."""
    x = mpf(start)
    for _ in range(8):
        before, last = mpf(1), x
        for k in range(2, n + 1):
            before, last = last, ((2 * k - 1) * x * last - (k - 1) * before) / k
        slope = n * (x * last - before) / (x * x - 1)
        x -= last / slope
    return x, 2 / ((1 - x * x) * slope * slope)


def _closed(part: Part, u: mpc) -> mpc:
    if part.kind == "gaussian":
        return mp.exp(u * (u - 1) / (2 * mpf(part.scale) ** 2))
    if part.kind == "laplace":
        e = 1 / mpf(part.scale)
        return (u * mp.exp((u - 1) * e) + (u - 1) * mp.exp(-u * e)) / (2 * u - 1)
    lie, k = mpf(part.scale) / mpf(part.rate), mpf(part.rate)
    true = 1 - (k - 1) * lie
    e = mp.log(true / lie)
    return lie * mp.exp(u * e) + true * mp.exp(-u * e) + (k - 2) * lie


def _in_doubles(parts: Sequence[Part], c: float) -> tuple[float, float, float]:
    """Log of the product of moments at real u = c, with two derivatives."""
    d = 1e-4 * abs(c)
    values = [sum(p.count * _log_moment(p, x) for p in parts) for x in (c - d, c, c + d)]
    return values[1], (values[2] - values[0]) / (2 * d), (values[2] - 2 * values[1] + values[0]) / d**2


def _log_moment(p: Part, u: float) -> float:
    s, q = float(p.scale), float(p.rate)
    if p.kind in ("gaussian", "laplace", "response"):
        with mp.workdps(20):
            return float(mp.log(_closed(p, mpf(u))))
    x = np.linspace(-30 * s - 2 + min(u, 0), 30 * s + 2 + max(u, 0), 8001) if p.kind != "slot" else None
    if x is None:
        x = np.linspace(1, 30 * s + 4 + abs(u) * 2, 8001)
        loss, mass = np.log1p(q * np.expm1(np.minimum(2 * (x - 1) / s**2, 600))), -x * x / (2 * s * s)
        both = np.logaddexp(mass + u * loss, mass + (1 - u) * loss)
        rest = (1 - q) * math.erf(1 / (s * math.sqrt(2)))
        return float(np.log(np.exp(both).sum() * (x[1] - x[0]) / (s * math.sqrt(2 * math.pi)) + rest))
    at = [-((x - m) ** 2) / (2 * s * s) for m in (-1, 0, 1)]
    up = np.logaddexp(np.log1p(-q) + at[1], math.log(q) + at[2])
    down = at[1] if p.kind == "sampled" else np.logaddexp(np.log1p(-q) + at[1], math.log(q) + at[0])
    log = u * up + (1 - u) * down
    top = log.max()
    return float(top + np.log(np.exp(log - top).sum() * (x[1] - x[0]) / (s * math.sqrt(2 * math.pi))))


# --- the line ---------------------------------------------------------------------------------------------------------


class Line:
    """delta of a composition near one epsilon, and its derivative."""

    def __init__(self, parts: Sequence[Part], c: float, bend: float, digits: int, level: int) -> None:
        self.c = (
            mpf(c) * (1 if level % 2 == 0 else mpf("0.97"))
            if c < 0
            else 1 + mpf(c - 1) * (1 - mpf(level % 2) * 3 / 100)
        )
        gap = float(self.c - 1) if c > 0 else float(-self.c)
        fine = 1.0 + 0.3 * level
        h = min(0.5 / math.sqrt(bend), 2 * math.pi * gap / ((digits + 4) * math.log(10))) / (1.7 * 1.3**level)
        # the integrand falls like a Gaussian at first; how far that goes is seen on the way
        self.h, self.points = mpf(h), list[tuple[mpc, mpc]]()
        numeric = [p for p in parts if p.kind in ("sampled", "mirrored", "slot")]
        closed = [p for p in parts if p not in numeric]
        reach = math.sqrt(2 * (digits + GUARD) * math.log(10) / bend)
        running, stills = [], mpf(1)
        for part in numeric:
            terms, still = _losses(part, float(self.c), reach, fine)
            start = [mpc(mass * mp.exp(self.c * loss)) for mass, loss in terms]
            running.append((part.count, start, [mp.expj(self.h * loss) for _, loss in terms]))
            stills *= still**part.count
        stills = stills if numeric and not closed else mpf(0)
        top = None
        for k in range(6000):
            u = mpc(self.c, k * self.h)
            product = mpc(1)
            for i, (count, now, turn) in enumerate(running):
                product *= mp.fsum(now) ** count
                running[i] = (count, [a * b for a, b in zip(now, turn, strict=True)], turn)
            for part in closed:
                product *= _closed(part, u) ** part.count
            value = (product - stills) / (u * (u - 1))
            top = abs(value) if top is None else top
            self.points.append((u, value))
            if abs(value) < top * mpf(10) ** -(digits + GUARD - 2):
                return
        raise NotConverged("the integrand does not fall")

    def read(self, eps: mpf) -> tuple[mpf, mpf]:
        """delta and its derivative in epsilon."""
        total = slope = mpf(0)
        for k, (u, value) in enumerate(self.points):
            rate = u if self.c < 0 else 1 - u
            term = value * mp.exp(rate * eps) * (mpf(1) / 2 if k == 0 else 1)
            total, slope = total + term.real, slope + (rate * term).real
        return total * self.h / mp.pi, slope * self.h / mp.pi


def _place(parts: Sequence[Part], log_delta: float) -> tuple[float, float, float]:
    """(c, bend, epsilon) of the saddle where delta is about exp(log_delta), a record removed."""

    def at(x: float) -> tuple[float, float, float, float]:
        c = 1 + math.exp(x)
        k, slope, bend = _in_doubles(parts, c)
        eps = slope - 1 / c - 1 / (c - 1)
        bend += 1 / c**2 + 1 / (c - 1) ** 2
        return k + (1 - c) * eps - math.log(c * (c - 1)) - 0.5 * math.log(2 * math.pi * bend), c, bend, eps

    low, high = -6.0, 8.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[0] > log_delta else (low, middle)
    return at(low)[1:]


def composed_epsilon(parts: Sequence[Part], delta: float, digits: int) -> mpf:
    """The epsilon >= 0 at which delta of a composition, a record removed, is `delta`."""
    c, bend, start = _place(parts, math.log(delta))
    previous: mpf | None = None
    for level in range(LEVELS):
        with mp.workprec(bits(digits + GUARD + 4 * level) + 20):
            line, goal, eps = Line(parts, c, bend, digits, level), mpf(delta), mpf(start)
            for _ in range(60):
                value, slope = line.read(eps)
                move = mp.log(value / goal) * value / -slope
                eps += move
                if abs(move) < abs(eps) * mpf(10) ** -(digits + 4):
                    break
            else:
                raise NotConverged("Newton's method did not settle")
        if eps <= 0:
            raise NotConverged("epsilon is not above 0")
        if previous is not None and agree(eps, previous, digits):
            return eps
        previous = eps
    raise NotConverged(f"no two of {LEVELS} lines agree")


def added_is_not_larger(parts: Sequence[Part], epsilon: mpf, delta: float) -> bool:
    """Whether delta at `epsilon`, a record added, is at most `delta` as well."""
    c, low, high = 0.0, -6.0, 8.0
    eps = float(epsilon)

    def kernel(x: float) -> float:
        u = -math.exp(x)
        return _in_doubles(parts, u)[0] + u * eps - math.log(u * (u - 1))

    for _ in range(60):
        a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, b) if kernel(a) < kernel(b) else (a, high)
    c = -math.exp((low + high) / 2)
    bend = max(_in_doubles(parts, c)[2], 0.0) + 1 / c**2 + 1 / (c - 1) ** 2
    with mp.workprec(bits(30)):
        values = [Line(parts, c, bend, 8, level).read(epsilon)[0] for level in (0, 1)]
        if not agree(values[0], values[1], 6):
            raise NotConverged(f"{values} disagree")
        return bool(values[0] <= mpf(delta) * (1 + mpf("1e-5")))


# --- sums -------------------------------------------------------------------------------------------------------------


def responses_epsilon(parts: Sequence[Part], delta: float, digits: int) -> mpf:
    """Epsilon of randomised responses: all sums of their losses, with their exact probabilities."""
    with mp.workprec(bits(digits + 2 * GUARD)):
        sums: dict[tuple[int, ...], mpf] = {(): mpf(1)}
        sizes = []
        for p in parts:
            k, lie = int(p.rate), mpf(p.scale) / int(p.rate)
            true = 1 - (k - 1) * lie
            sizes.append(mp.log(true / lie))
            one = {1: true, -1: lie, 0: (k - 2) * lie}
            law: dict[int, mpf] = {0: mpf(1)}
            for _ in range(p.count):
                law = _added(law, one)
            sums = {(*key, j): mass * more for key, mass in sums.items() for j, more in law.items()}
        losses = sorted(
            (mp.fsum(j * size for j, size in zip(key, sizes, strict=True)), mass) for key, mass in sums.items()
        )
        goal = mpf(delta)
        return _by_sums(losses, goal)


def _added(law: dict[int, mpf], one: dict[int, mpf]) -> dict[int, mpf]:
    found: dict[int, mpf] = {}
    for (a, mass), (b, more) in itertools.product(law.items(), one.items()):
        if more:
            found[a + b] = found.get(a + b, mpf(0)) + mass * more
    return found


def _by_sums(losses: Sequence[tuple[mpf, mpf]], goal: mpf) -> mpf:
    """Where sum of P - e^eps Q over the losses above eps falls to `goal`: between two losses it is one logarithm."""
    p = q = mpf(0)
    for i in range(len(losses) - 1, -1, -1):
        loss, mass = losses[i]
        if p - mp.exp(loss) * q > goal:
            return mp.log((p - goal) / q)
        p, q = p + mass, q + mass * mp.exp(-loss)
    raise NotConverged("epsilon is not above 0")


def laplace_epsilon(scale: float, count: int, delta: float, digits: int) -> mpf:
    """Epsilon of Laplace releases of one scale, by two formulas that have to agree."""
    e = 1 / mpf(scale)
    with mp.workprec(bits(digits + 3 * GUARD) + 8 * count):
        e = 1 / mpf(scale)
        if delta == 0:
            return count * e
        if count == 1:
            return e + 2 * mp.log1p(-mpf(delta))
        found = root(lambda x: mpf(delta) - _laplace_closed(e, count, x), mpf(0), count * e, digits + 6)
        if not agree(_laplace_by_parts(e, count, found), mpf(delta), digits - 2):
            raise NotConverged(f"{found} is not the root of both")
        return found


def _tilted(e: mpf, n: int) -> Iterable[tuple[mpf, int, mpf]]:
    """(weight, j, shift): sums of n losses under the law in the middle of P and Q: so many uniform, the rest +-e."""
    for j in range(n + 1):
        for plus in range(n - j + 1):
            ways = mpf(math.comb(n, j) * math.comb(n - j, plus))
            yield ways * (mp.exp(-e / 2) / 2) ** n * e**j, j, (2 * plus - (n - j)) * e


def _laplace_closed(e: mpf, n: int, eps: mpf) -> mpf:
    """Integrals of (x - a)_+^(j-1) exp(+-x/2) by the finite sums of their antiderivatives."""
    total = mpf(0)
    for weight, j, shift in _tilted(e, n):
        if j == 0:
            total += weight * max(mpf(0), mp.exp(shift / 2) - mp.exp(eps - shift / 2))
            continue
        top = shift + j * e
        for i in range(j + 1):
            a = shift - j * e + 2 * e * i
            low = max(a, eps)
            if low < top:
                value = sum(
                    sign * mp.exp(eps if sign < 0 else 0) * (_primitive(j, a, rate, top) - _primitive(j, a, rate, low))
                    for sign, rate in ((1, mpf(1) / 2), (-1, mpf(-1) / 2))
                )
                total += weight * (-1) ** i * math.comb(j, i) * value / (math.factorial(j - 1) * (2 * e) ** j)
    return total


def _primitive(j: int, a: mpf, rate: mpf, x: mpf) -> mpf:
    """Of (x - a)^(j-1) exp(rate x)."""
    y = x - a
    return mp.exp(rate * x) * mp.fsum(
        (-1) ** m * mp.ff(j - 1, m) * y ** (j - 1 - m) / rate ** (m + 1) for m in range(j)
    )


def _laplace_by_parts(e: mpf, n: int, eps: mpf) -> mpf:
    """The same from the distribution function: Gauss rules between the knots of the density of sums."""
    total = mpf(0)
    for weight, j, shift in _tilted(e, n):
        if j == 0:
            total += weight * max(mpf(0), mp.exp(shift / 2) - mp.exp(eps - shift / 2))
            continue
        knots = sorted({max(eps, shift - j * e + 2 * e * i) for i in range(j + 1)} | {shift + j * e})
        knots = [x for x in knots if x <= shift + j * e]
        if len(knots) > 1:

            def density(x: mpf, j: int = j, shift: mpf = shift) -> mpf:
                terms = ((i, x - shift + j * e - 2 * e * i) for i in range(j + 1))
                parts = ((-1) ** i * math.comb(j, i) * y ** (j - 1) for i, y in terms if y > 0)
                return mp.fsum(parts) / (math.factorial(j - 1) * (2 * e) ** j)

            total += weight * mp.quad(lambda x, f=density: f(x) * (mp.exp(x / 2) - mp.exp(eps - x / 2)), knots)
    return total


def sampled_laplace_epsilon(scale: float, rate: float, delta: float, digits: int) -> mpf:
    """One Poisson sample, a record removed: delta is that of Laplace noise at a larger epsilon, times the rate."""
    with mp.workprec(bits(digits + GUARD) + 80):
        inner = 1 / mpf(scale) + 2 * mp.log1p(-mpf(delta) / mpf(rate))
        return mp.log1p(mpf(rate) * mp.expm1(inner))
