"""Delta of Gaussian noise on batches of fixed or bounded size, from the moments of their pairs on a vertical line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Literal, NamedTuple

from mpmath import mp, mpc, mpf

from .certify import NotConverged

__all__ = ["Branch", "batch_delta", "truncation"]


class Branch(NamedTuple):
    """One of several releases of which one is made in sight of everyone."""

    weight: mpf
    noise: mpf
    rate: mpf
    kind: Literal["sampled", "replaced", "slot"]
    """A Poisson sample with a record added or removed, the same with it replaced, a fixed batch with it replaced."""


def truncation(rate: float, at_most: int, records: int) -> tuple[mpf, mpf]:
    """tau and p' of a Poisson batch of which at most so many records are kept, by sums of exact terms."""
    p, q = mpf(rate), 1 - mpf(rate)

    def tail(n: int, k: int) -> mpf:
        return mp.fsum(comb(n, j) * p**j * q ** (n - j) for j in range(k, n + 1))

    tau = tail(records - 1, at_most)
    return tau, mpf(at_most) / records * tail(records, at_most + 1) / tau


def batch_delta(branches: Sequence[Branch], steps: int, epsilon: float, *, add: bool = False, digits: int = 14) -> mpf:
    """Delta of `steps` such releases, composed; on two lines with two steps, which have to agree."""
    found = []
    with mp.workdps(digits + 16):
        for level in (0, 1):
            moment, still = _moment(branches, level)
            found.append(_contour(moment, still, steps, mpf(epsilon), add, level))
        if abs(found[0] - found[1]) > mpf(10) ** -digits * abs(found[0]):
            raise NotConverged(f"{found[0]} and {found[1]} disagree")
        return +found[0]


def _moment(branches: Sequence[Branch], level: int) -> tuple[Callable[[mpc], mpc], mpf]:
    """E_Q exp(u L) of one release, and the probability that its loss is 0."""
    terms: list[tuple[mpf, mpf]] = []
    still = mpf(0)
    for weight, s, q, kind in branches:
        reach, n = 13 * s, 500 + 100 * level
        if kind == "slot":  # Gauss points on panels right of x = 1, each loss with both signs
            atom = (1 - q) * mp.erf(1 / (s * mp.sqrt(2)))
            still += weight * atom
            terms.append((weight * atom, mpf(0)))
            for x, w in _panels(mpf(1), 3 + reach, 24, 16 + 4 * level):
                mass = weight * w * mp.npdf(x, 0, s)
                loss = mp.log1p(q * mp.expm1(2 * (x - 1) / s**2))
                terms += [(mass, loss), (mass * mp.exp(loss), -loss)]
            continue
        low, high = -1 - reach, 2 + reach
        h = (high - low) / n
        for k in range(n + 1):
            x = low + k * h
            if kind == "sampled":
                density, loss = mp.npdf(x, 0, s), mp.log1p(q * mp.expm1((2 * x - 1) / (2 * s**2)))
            else:
                below = (1 - q) * mp.npdf(x, 0, s) + q * mp.npdf(x, -1, s)
                density, loss = below, mp.log(((1 - q) * mp.npdf(x, 0, s) + q * mp.npdf(x, 1, s)) / below)
            terms.append((weight * h * density, loss))
    return lambda u: mp.fsum(mass * mp.exp(u * loss) for mass, loss in terms), still


def _panels(low: mpf, high: mpf, n: int, points: int) -> list[tuple[mpf, mpf]]:
    """Points and weights of a Gauss rule on each of n panels."""
    found = []
    for i in range(points):
        x = mp.cos(mp.pi * (i + mpf("0.75")) / (points + mpf("0.5")))
        for _ in range(8):
            x -= mp.legendre(points, x) / _slope(points, x)
        found.append((x, 2 / ((1 - x * x) * _slope(points, x) ** 2)))
    half = (high - low) / (2 * n)
    return [(low + (2 * k + 1) * half + half * x, half * w) for k in range(n) for x, w in found]


def _slope(n: int, x: mpf) -> mpf:
    return n * (x * mp.legendre(n, x) - mp.legendre(n - 1, x)) / (x * x - 1)


def _contour(moment: Callable[[mpc], mpc], still: mpf, steps: int, epsilon: mpf, add: bool, level: int) -> mpf:
    """The integral over a line through the saddle, right of 1 for a record removed and left of 0 for one added."""

    def kernel(u: mpc) -> mpc:
        tilt = u * epsilon if add else (1 - u) * epsilon
        return (moment(u) ** steps - still**steps) * mp.exp(tilt) / (u * (u - 1))

    def place(x: mpf) -> mpf:
        return -mp.exp(x) if add else 1 + mp.exp(x)

    low, high = mpf(-5), mpf(6)
    for _ in range(15):  # to 1 %: the line need not be at the saddle
        a, b = low + (high - low) * mpf("0.382"), low + (high - low) * mpf("0.618")
        low, high = (low, b) if kernel(place(a)) < kernel(place(b)) else (a, high)
    c = place((low + high) / 2)
    c = c if level == 0 else (c * mpf("0.97") if add else 1 + (c - 1) * mpf("0.97"))
    top = kernel(mpc(c)).real
    d = mpf("1e-6") * abs(c)
    bend = (mp.log(kernel(mpc(c + d)).real) + mp.log(kernel(mpc(c - d)).real) - 2 * mp.log(top)) / d**2
    h = mpf("0.28" if level == 0 else "0.23") / mp.sqrt(bend)
    total, k = top / 2, 0
    while True:
        k += 1
        value = kernel(mpc(c, k * h))
        total += value.real
        if abs(value) < top * mpf(10) ** -(mp.dps - 8):
            return total * h / mp.pi
        if k > 4000:
            raise NotConverged("the integrand does not fall")
