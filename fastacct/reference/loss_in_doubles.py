"""The loss of one step of the Poisson-sampled Gaussian and its log-moment, in doubles.

They choose curves, steps and ends of the sums in `path`: how long the sums are, never what they add up to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from mpmath import mp
from numpy.typing import NDArray

from .certify import NotConverged
from .run import Run

_SHIFTS = (0.05, 0.12, 0.25, 0.45, 0.7, 1.0)
_SHAPES = [
    (height, start, lean)
    for height in (0.0, 0.1, 0.4, 1.0)
    for start in (-4.0, 0.0)
    for lean in (0.0, 0.3, 0.45, 0.6)
    if height or start == 0.0
]

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


class Rule(NamedTuple):
    """A curve in the plane of zeta and a trapezoidal rule on it (doubles)."""

    shape: tuple[float, float, float]
    start: float
    stop: float
    step: float


class LossInDoubles:
    """The loss of one step and its log-moment in doubles: for choices, not for values."""

    def __init__(self, run: Run) -> None:
        self.s = float(run.s)
        with mp.workprec(200 + max(0, -mp.mag(run.q))):
            self.log_odds = float(mp.log(run.q / (1 - run.q)))
            self.kappa = float(mp.log1p(-run.q))

    def moments(self, a: float) -> tuple[float, float, float]:
        """Return K(a) - a kappa and its derivatives K' - kappa and K''."""
        s = self.s
        low, high = min(a, 0.0) - 9 * s, max(a, 0.0) + 9 * s
        if a < 0:  # the mode solves z = a p(z), p the posterior
            left, right = a, 0.0
            for _ in range(60):
                mid = (left + right) / 2
                zeta = (mid - 0.5) / s**2 + self.log_odds
                p = 1 / (1 + math.exp(-min(max(zeta, -700.0), 700.0)))
                left, right = (mid, right) if mid < a * p else (left, mid)
            low = left - 9 * s
        n = int(min(2e5, (high - low) / (0.1 * min(s, s * s)))) + 100
        z, step = np.linspace(low, high, n, retstep=True)
        loss = np.logaddexp(0.0, (z - 0.5) / s**2 + self.log_odds)
        log_terms = a * loss - z**2 / (2 * s**2)
        top = float(log_terms.max())
        w = np.exp(log_terms - top)
        total = float(w.sum())
        mean = float((w * loss).sum()) / total
        variance = float((w * (loss - mean) ** 2).sum()) / total
        return top + math.log(total * float(step) / (s * math.sqrt(2 * math.pi))), mean, variance

    def saddle(self, steps: int, eps: float, direction: str) -> tuple[float, float]:
        """Return the minimum on the real axis of the modulus of the integrand, and its width."""
        sign = 1.0 if direction == "remove" else -1.0
        base = 1.0 if direction == "remove" else 0.0
        gap = eps if direction == "remove" else -eps
        low, high = -60.0, 25.0
        c = variance = 0.0
        for _ in range(50):
            c = base + sign * math.exp((low + high) / 2)
            _, mean, variance = self.moments(c)
            slope = steps * (mean + self.kappa) - gap - 1 / c - 1 / (c - 1)
            low, high = (low, (low + high) / 2) if slope * sign > 0 else ((low + high) / 2, high)
        return c, 1 / math.sqrt(steps * variance + 1 / c**2 + 1 / (c - 1) ** 2)

    def log_delta(self, steps: int, eps: float, direction: str) -> float:
        """Return log delta(eps), by the saddle-point approximation."""
        c, width = self.saddle(steps, eps, direction)
        edge = 1 - c if direction == "remove" else c
        k = steps * (self.moments(c)[0] + c * self.kappa)
        return k + edge * eps + math.log(width / (abs(c * (c - 1)) * math.sqrt(2 * math.pi)))

    def curve(self, shape: tuple[float, float, float], x: Complexes) -> tuple[Complexes, Complexes]:
        """Return l = log(1 + e^zeta) and the log of the weight per unit of x."""
        height, start, lean = shape
        rise = 1 / (1 + np.exp(-np.clip(x.real - start, -300, 300) - 1j * x.imag))
        grow = np.where(x.real > 0, x + np.log1p(np.exp(-np.abs(x.real) - 1j * x.imag)), 0)
        grow = np.where(x.real > 0, grow, np.log1p(np.exp(-np.abs(x.real) + 1j * x.imag)))
        bend = 1 / (1 + np.exp(-np.clip(x.real, -300, 300) - 1j * x.imag))
        zeta = x + 1j * (height * rise + lean * grow)
        slope = 1 + 1j * (height * rise * (1 - rise) + lean * bend)
        positive = zeta.real > 0
        loss = np.where(positive, zeta, 0) + np.log1p(np.exp(np.where(positive, -zeta, zeta)))
        z = 0.5 + self.s**2 * (zeta - self.log_odds)
        return loss, np.log(slope) - z**2 / (2 * self.s**2) + math.log(self.s / math.sqrt(2 * math.pi))

    def safe(self, shape: tuple[float, float, float], x: Complexes) -> bool:
        """Return whether the curve stays away from the singularities of log(1 + e^zeta) at +- i pi."""
        height, start, lean = shape
        near = x[np.abs(x.real) < 4.0]
        if near.size == 0:
            return True
        zeta = near + 1j * (height / (1 + np.exp(start - near)) + lean * np.log1p(np.exp(near)))
        return bool(np.all((zeta.real > 0.4) | (np.abs(zeta.imag) < 2.9)))

    def grid(self, shape: tuple[float, float, float], largest: float, nats: float) -> Floats:
        """Return a coarse grid that is surely long enough for real parts of u up to `largest`."""
        reach = self.s * math.sqrt(2 * nats) * 1.2 + self.s
        left, right = -reach, (reach + max(largest, 0.0)) / (1 - shape[2] ** 2)
        if largest < 0:  # the mode is to the left of 0, where the loss is about 1/|u|
            left -= self.s**2 * max(0.0, math.log(-largest) + self.log_odds + 3)
        ends = [(z - 0.5) / self.s**2 + self.log_odds for z in (left, right)]
        n = int((ends[1] - ends[0]) / min(0.1, 0.4 / self.s)) + 20
        if n > 300_000:
            raise NotConverged("the sum for one moment is too long")
        return np.linspace(ends[0], ends[1], n)

    def sums(self, u: Complexes, loss: Complexes, log_weight: Complexes, width: float) -> tuple[Floats, Floats]:
        """Return log|M e^(-u kappa)| at each u, and the log of the sum of moduli of its terms."""
        log_terms = u[:, None] * loss + log_weight
        top = log_terms.real.max(axis=1, keepdims=True)
        terms = np.exp(log_terms - top)
        moduli = np.log(np.abs(terms).sum(axis=1) * width) + top[:, 0]
        with np.errstate(divide="ignore"):
            sizes = np.log(np.abs(terms.sum(axis=1)) * width) + top[:, 0]
        return np.maximum(sizes, moduli - 27), moduli

    def line(self, u: Complexes, nats: float) -> tuple[Rule, Floats, Floats]:
        """Return a rule that is good for all `u`, and log|M e^(-u kappa)| and the log of the sum of moduli at each.

        `nats` is the accuracy wanted, relative to M.
        """
        grids = {lean: self.grid((0, 0, lean), float(u.real.max()), nats) for lean in {s[2] for s in _SHAPES}}
        best, chosen = math.inf, _SHAPES[0]
        for shape in _SHAPES:
            x = grids[shape[2]]
            if shape[0] * self.s > 12:
                continue
            loss, log_weight = self.curve(shape, x.astype(np.complex128))
            top = float(np.max((u[:, None] * loss + log_weight).real))
            if top + 0.5 * shape[0] < best - 1e-9:
                best, chosen = top + 0.5 * shape[0], shape
        x = grids[chosen[2]]
        width = float(x[1] - x[0])
        loss, log_weight = self.curve(chosen, x.astype(np.complex128))
        log_terms = u[:, None] * loss + log_weight
        sizes, moduli = self.sums(u, loss, log_weight, width)
        worth = (log_terms.real - sizes[:, None]).max(axis=0) > -nats - 8
        first, last = int(np.argmax(worth)), x.size - int(np.argmax(worth[::-1])) - 1
        if first == 0 or last == x.size - 1:
            raise NotConverged("the sum for one moment is not long enough")
        steps = []
        for sign in (-1, 1):
            fits = []
            for shift in (d * min(1.0, 6 / self.s) for d in _SHIFTS):
                moved = (x + 1j * sign * shift).astype(np.complex128)
                if not self.safe(chosen, moved):
                    continue
                moved_loss, moved_weight = self.curve(chosen, moved)
                growth = float(((u[:, None] * moved_loss + moved_weight).real - sizes[:, None]).max())
                fits.append(2 * math.pi * shift / (nats + max(growth, 0.0) + 5))
            if not fits:
                raise NotConverged("no strip of analyticity")
            steps.append(max(fits))
        return Rule(chosen, float(x[first]), float(x[last]), min(steps)), sizes, moduli
