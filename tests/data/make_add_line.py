"""Write delta(epsilon) of few steps in direction add, by direct integration over the steps' losses.

    python tests/data/make_add_line.py --out tests/data/add_line.csv

With l = log(1 + w) >= 0 the loss of a step less log(1 - q), delta is D_n(eta) = E[(1 - exp(l_1 + ... + l_n - eta))_+],
eta = -n log(1 - q) - epsilon. D_1 has a closed form, and D_n(eta) = E[D_(n-1)(eta - l)]: one real integral a step, no
transform, no contour. Two and three steps: in 30 digits (mpmath). More: D_1 in 60 digits, the others in 80-bit numbers,
log D interpolated between Chebyshev points of log(expm1(eta)), each value twice with different points and nodes; doubles
were off by more than two such values differ. Columns: noise_multiplier,
sample_rate, steps, epsilon (shortest decimal that reads back), delta, tolerance (relative).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import random
from typing import Any

import mpmath
import numpy as np
from mpmath import mp, mpf
from numpy.polynomial import chebyshev
from scipy.special import log_ndtr

DIGITS = 30
GOOD = 3e-11
"""Largest disagreement of two computations that is accepted."""
Wide = np.longdouble


def log_expm1(loss: Any) -> Any:
    return loss + np.log(-np.expm1(-loss))


def log_first(sigma: float, q: float, eta: Any) -> Any:
    """Return log D_1 in doubles: (e^eta - 1) Phi(z/sigma) - odds Phi((z - 1)/sigma), times e^-eta."""
    odds = math.log(q) - math.log1p(-q)
    z = sigma**2 * (log_expm1(eta) - odds) + 0.5
    step = np.linspace(0.0, 1.0, 33)
    # d/dz of the bracket is (e^l)' Phi(z/sigma): integrated, nothing cancels
    x, weight = np.polynomial.legendre.leggauss(24)
    total = np.zeros_like(z)
    depth = 12.0 * sigma**2
    for low, high in itertools.pairwise(step):
        for node, w in zip(x, weight, strict=True):
            t = 0.5 * (low + high) + 0.5 * (high - low) * node
            at = z - depth * t**2 * 3.0
            growth = (at - 0.5) / sigma**2 + odds
            jacobian = 0.5 * (high - low) * depth * 6.0 * t / sigma**2
            total += w * jacobian * np.exp(growth - log_expm1(eta) + log_ndtr(at / sigma) - log_ndtr(z / sigma))
    return np.log(total) + log_expm1(eta) + log_ndtr(z / sigma) - eta


class Profile:
    """log D_n for n = 1, 2, ... up to eta_max, in doubles."""

    def __init__(self, sigma: float, q: float, steps: int, eta_max: float, points: int, nodes: int) -> None:
        self.sigma, self.nodes = sigma, nodes
        self.odds = math.log(q) - math.log1p(-q)
        self.q, self.high = q, float(log_expm1(np.float64(eta_max)))
        low = min(self.high - 3.0, self.odds - 0.5 / sigma**2 - 13.0 / sigma - 3.0)
        # the fit of D_n reaches four units further down than that of D_(n+1), which reads it
        self.lows = [low - 4.0 * (steps - n) for n in range(steps + 1)]
        self.fits: list[Any] = [None]
        x = chebyshev.chebpts1(points)
        for n in range(1, steps):
            eta = np.logaddexp(0.0, self.lows[n] + 0.5 * (x + 1.0) * (self.high - self.lows[n]))
            self.fits.append(chebyshev.chebfit(x, np.array([self.log_delta(n, e) for e in eta]), points - 1))

    def log_delta(self, n: int, eta: float) -> float:
        if n == 1:
            return float(log_first(self.sigma, self.q, np.array([eta]))[0])
        s, low = self.sigma, self.lows[n - 1]
        z_top = s**2 * (float(log_expm1(np.float64(eta))) - self.odds) + 0.5
        wide = min(s, s * s)
        t, h = np.linspace(-45.0, (z_top - min(-10.0 * s, z_top - 12.0 * s)) / wide, self.nodes, retstep=True)
        back = wide * np.logaddexp(0.0, t)
        z = z_top - back
        # with a = 1 - e^-eta and b = 1 - e^(-back/sigma^2): exp(eta - l) - 1 = a b/(1 - a b)
        ab = np.expm1(-eta) * np.expm1(-back / s**2)
        at = np.log(ab) - np.log1p(-ab)
        inside = at > low
        place = 2.0 * (np.where(inside, at, low) - low) / (self.high - low) - 1.0
        value = np.where(inside, chebyshev.chebval(place, self.fits[n - 1]), -1e300)
        terms = value - 0.5 * (z / s) ** 2 - np.logaddexp(0.0, -t)
        most = terms.max()
        return float(most + math.log(np.exp(terms - most).sum() * wide * h / (s * math.sqrt(2.0 * math.pi))))


def widened(x: Any) -> Any:
    """Return an mpmath number as an 80-bit one."""
    return Wide(float(x)) + Wide(float(x - mpf(float(x))))


def narrowed(x: Any) -> Any:
    """Return an 80-bit number as one of mpmath."""
    return mpf(float(x)) + mpf(float(x - Wide(float(x))))


class WideProfile(Profile):
    """The same in 80-bit numbers, D_1 in 60 digits."""

    def __init__(self, sigma: float, q: float, steps: int, eta_max: float, points: int, nodes: int) -> None:
        self.sigma, self.nodes, self.high = Wide(sigma), nodes, Wide(float(log_expm1(np.float64(eta_max))))
        self.log_odds = mp.log(mpf(q)) - mp.log1p(-mpf(q))
        self.odds = widened(self.log_odds)
        low = min(self.high - 3.0, self.odds - 0.5 / sigma**2 - 13.0 / sigma - 3.0)
        self.lows = [low - 4.0 * (steps - n) for n in range(steps + 1)]
        self.fits = [None]
        angle = widened(mp.pi) * (2 * np.arange(points, dtype=Wide) + 1) / (2 * points)
        for n in range(1, steps):
            eta = np.logaddexp(Wide(0), self.lows[n] + (np.cos(angle) + 1) / 2 * (self.high - self.lows[n]))
            values = np.array([self.log_delta(n, e) for e in eta])
            fit = np.cos(np.arange(points)[:, None] * angle) @ values * 2 / points
            fit[0] /= 2
            self.fits.append(fit)

    def log_delta(self, n: int, eta: Any) -> Any:
        if n == 1:
            with mp.workdps(60):
                s, loss = mpf(float(self.sigma)), narrowed(eta)
                z = s * s * (mp.log(mp.expm1(loss)) - self.log_odds) + mpf(1) / 2
                bracket = mp.expm1(loss) * mp.ncdf(z / s) - mp.exp(self.log_odds) * mp.ncdf((z - 1) / s)
                return widened(mp.log(bracket) - loss)
        s, low = self.sigma, self.lows[n - 1]
        z_top = s**2 * (log_expm1(eta) - self.odds) + Wide(0.5)
        wide = min(s, s * s)
        h = ((z_top - min(-10.0 * s, z_top - 12.0 * s)) / wide + 45) / (self.nodes - 1)
        t = h * np.arange(self.nodes, dtype=Wide) - 45
        back = wide * np.logaddexp(Wide(0), t)
        ab = np.expm1(-eta) * np.expm1(-back / s**2)
        at = np.log(ab) - np.log1p(-ab)
        place = 2 * (np.maximum(at, low) - low) / (self.high - low) - 1
        value = np.where(at > low, chebyshev.chebval(place, self.fits[n - 1]), Wide(-1e300))
        terms = value - ((z_top - back) / s) ** 2 / 2 - np.logaddexp(Wide(0), -t)
        most = terms.max()
        return most + np.log(np.exp(terms - most).sum() * wide * h / (s * np.sqrt(2 * widened(mp.pi))))


def exact(sigma: float, q: float, steps: int, eta: Any, step: float) -> Any:
    """Return D_n in mpmath for one to three steps: a trapezoid sum in t, z = top - wide log(1 + e^t)."""
    s, odds = mpf(sigma), mpf(q) / (1 - mpf(q))
    top = s * s * mp.log(mp.expm1(eta) / odds) + mpf(1) / 2
    if steps == 1:
        return mp.exp(-eta) * (mp.expm1(eta) * mp.ncdf(top / s) - odds * mp.ncdf((top - 1) / s))
    wide, h, total = min(s, s * s), mpf(step), mpf(0)
    for direction in (1, -1):
        k = 0 if direction == 1 else 1
        while True:
            t = direction * k * h
            z = top - wide * mp.log1p(mp.exp(t))
            rest = eta - mp.log1p(odds * mp.exp((z - mpf(1) / 2) / s**2))
            term = wide / (1 + mp.exp(-t)) * mp.npdf(z / s) / s
            if rest > 0:
                term *= exact(sigma, q, steps - 1, rest, step)
            total += term
            far = z < min(-6 * s, top - 3 * s) if direction == 1 else rest < eta / 2 and z < 6 * s
            if far and term < total * mpf(10) ** (-20 if steps == 2 else -17):
                break
            k += 1
    return total * h


def row(rng: random.Random, steps: int) -> list[str] | None:
    """Return one row, or None where the run is refused or two computations disagree."""
    sigma, q = (math.exp(rng.uniform(math.log(a), math.log(b))) for a, b in ((0.4, 8.0), (1e-6, 0.5)))
    target = rng.uniform(math.log(1e-12), math.log(1e-2))
    end = -steps * math.log1p(-q)
    rough = Profile(sigma, q, steps, end, 120, 600)
    low, high = rough.lows[steps], rough.high
    if rough.log_delta(steps, end) < target:
        return None
    for _ in range(50):
        middle = 0.5 * (low + high)
        eta = float(np.logaddexp(0.0, middle))
        low, high = (low, middle) if rough.log_delta(steps, eta) > target else (middle, high)
    epsilon = end - float(np.logaddexp(0.0, low))
    if epsilon < 1e-3 * end:
        return None
    with mp.workdps(DIGITS):
        eta = -steps * mp.log1p(-mpf(q)) - mpf(epsilon)
        if steps <= 3:
            a, b = (exact(sigma, q, steps, eta, step) for step in ((0.2, 0.14) if steps == 2 else (0.36, 0.3)))
        else:
            a, b = (
                mp.exp(narrowed(WideProfile(sigma, q, steps, end, *sizes).log_delta(steps, widened(eta))))
                for sizes in ((120, 800), (160, 1100))
            )
        gap = abs(float(a / b - 1))
        delta = mpmath.nstr(b, 17)
    if gap > GOOD:
        return None
    return [repr(sigma), repr(q), str(steps), repr(epsilon), delta, f"{max(2 * gap, 1e-14):.1e}"]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with open(args.out, "w", newline="") as file:
        file.write(f"# command: make_add_line.py --seed {args.seed}\n")
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["noise_multiplier", "sample_rate", "steps", "epsilon", "delta", "tolerance"])
        for steps, count in ((2, 40), (3, 12), (4, 8), (5, 8), (7, 8), (10, 1)):
            done = 0
            while done < count:
                found = row(rng, steps)
                if found:
                    out.writerow(found)
                    file.flush()
                    done += 1


if __name__ == "__main__":
    main()
