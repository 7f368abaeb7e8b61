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
from itertools import pairwise
from typing import Any, NamedTuple

import gmpy2
import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from .certify import NotConverged, bits, certify, exact, rounded
from .gaussian import gaussian_delta, gaussian_epsilon, sampled_gaussian_delta
from .root import root

DIRECTIONS = ("remove", "add")
METHODS = ("auto", "closed", "nested", "contour")

MAX_TERMS = 20_000_000
"""Exponentials of one evaluation of the contour: a longer sum is refused."""


_PATHS = ((74.0, 0.0), (74.0, 3.0), (68.0, 0.0), (74.0, 6.0), (68.0, 3.0))
"""Angles of the arms, and how many widths of the saddle the vertex is before it, tried in this order."""

_FEW_TERMS = 600_000
"""A sum this short is taken without looking for a shorter one."""

_TURNS = (2.0, 4.0, 7.0, 11.0, 15.0, 20.0, 27.0)
"""Degrees by which the hyperbola is turned to see how far it can be moved."""

_CELL = 0.5
"""Length in theta of the piece of the hyperbola that shares one curve and its nodes."""

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
    run = _Run(noise_multiplier, sample_rate, steps)
    eps = exact(epsilon)
    if mp.isnan(eps):
        raise ValueError("epsilon must not be NaN")
    if direction == "add_remove":
        return max(_delta(run, eps, one, digits, method) for one in DIRECTIONS)
    _check_direction(direction)
    return _delta(run, eps, direction, digits, method)


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
    run = _Run(noise_multiplier, sample_rate, steps)
    d = exact(delta)
    if not 0 <= d <= 1:
        raise ValueError(f"delta must be in [0, 1], got {delta}")
    if direction == "add_remove":
        return max(_epsilon(run, d, one, digits) for one in DIRECTIONS)
    _check_direction(direction)
    return _epsilon(run, d, direction, digits)


class _Run:
    """A run: s, q and T."""

    def __init__(self, noise_multiplier: Any, sample_rate: Any, steps: Any) -> None:
        self.s, self.q = exact(noise_multiplier), exact(sample_rate)
        if not self.s >= 0:
            raise ValueError(f"noise_multiplier must be in [0, inf], got {noise_multiplier}")
        if not 0 <= self.q <= 1:
            raise ValueError(f"sample_rate must be in [0, 1], got {sample_rate}")
        if not (steps == int(steps) and steps >= 0):
            raise ValueError(f"steps must be a whole number, not negative, got {steps}")
        self.steps = int(steps)

    def __str__(self) -> str:
        return f"{mp.nstr(self.s, 17)}, {mp.nstr(self.q, 17)}, {self.steps}"

    def closed(self, eps: mpf, direction: str, digits: int) -> mpf | None:
        """Return delta where it has a closed form."""
        if self.q == 0 or self.s == mp.inf or self.steps == 0:
            return gaussian_delta(0, eps, digits)
        if eps == mp.inf:
            return mpf(0)
        if self.steps == 1:
            return sampled_gaussian_delta(self.s, self.q, eps, direction, digits)
        if self.q == 1:
            with mp.workprec(2 * bits(digits + 20)):
                mu = mp.sqrt(self.steps) / self.s if self.s else mp.inf
                return gaussian_delta(mu, eps, digits)
        # each loss is above log(1-q)
        with mp.workprec(2 * bits(digits + 20) + max(0, -mp.mag(self.q))):
            least = self.steps * mp.log1p(-self.q)
            if direction == "remove" and eps <= least:
                return rounded(-mp.expm1(eps), digits)
            if direction == "add" and eps >= -least:
                return mpf(0)
            if self.s == 0:  # the records are seen
                return rounded(-mp.expm1(least) if direction == "remove" else -mp.expm1(eps + least), digits)
        return None


def _check_direction(direction: str) -> None:
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be 'remove', 'add' or 'add_remove', got {direction!r}")


def _delta(run: _Run, eps: mpf, direction: str, digits: int, method: str) -> mpf:
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
            return _two_steps(run, eps, direction, goal, level)
        return _contour_delta(run, eps, direction, goal, level)

    return rounded(certify(evaluate, digits, what), digits)


# --- two steps -------------------------------------------------------------------------------------------------------


def _two_steps(run: _Run, eps: mpf, direction: str, goal: int, level: int) -> mpf:
    """Return the integral over the loss L of one step of the closed form of the other step's delta(eps -+ L).

    The closed form is not analytic where the other step's loss is at its infimum: there the integral is split. The
    tanh-sinh rule does not mind what happens at the ends.
    """
    lost = 5
    while True:
        with mp.workprec(bits(goal + lost) + 64 + 2 * max(0, -mp.mag(run.q)) + 24 * level):
            total, largest = _two_steps_sum(run, eps, direction, goal + lost, level)
            needed = 5 if total <= 0 else 5 + max(0, int(mp.log10(largest / total)) + 1)
            if total > 0 and needed <= lost:
                return total
            lost = max(needed, 2 * lost)
            if lost > 400 + 20 * goal:
                raise NotConverged(f"two steps at {run}: delta is too small")


def _two_steps_sum(run: _Run, eps: mpf, direction: str, goal: int, level: int) -> tuple[mpf, mpf]:
    s, q = run.s, run.q
    least = mp.log1p(-q)
    grown = mp.exp(eps)
    half = 1 / (2 * s * s)
    root_two = mp.sqrt(2)

    def gaussian(e_eps: mpf) -> mpf:
        near, far = (half - mp.log(e_eps)) * s, (-half - mp.log(e_eps)) * s
        return (mp.erfc(-near / root_two) - e_eps * mp.erfc(-far / root_two)) / 2

    def integrand(z: mpf) -> mpf:
        ratio = 1 - q + q * mp.exp((2 * z - 1) * half)
        if direction == "remove":
            here = grown / ratio
            rest = here - 1 + q
            inner = q * gaussian(rest / q) if rest > 0 else 1 - here
            return ratio * inner
        here = grown * ratio
        rest = 1 - (1 - q) * here
        return rest * gaussian(q * here / rest) if rest > 0 else mpf(0)

    reach = s * mp.sqrt(2 * mp.log(10) * goal) + s
    low, high = -reach, reach + (1 if direction == "remove" else 0)
    # the loss of the outer step at which the inner one is at its infimum, and the z there
    bound = mp.exp(eps - least if direction == "remove" else -least - eps)
    cuts = [low, high]
    if bound > 1 - q:
        kink = (1 + 2 * s * s * mp.log((bound - 1 + q) / q)) / 2
        if low < kink < high:
            cuts.insert(1, kink)
    step = mpf(2) / (goal + 10) * mpf(0.8) ** level
    total = largest = mpf(0)
    for left, right in pairwise(cuts):
        pieces = max(1, int((right - left) / (6 * s)))
        edges = [left + (right - left) * k / pieces for k in range(pieces + 1)]
        for a, b in pairwise(edges):
            reach_t = mp.asinh(mp.log(10) * (goal + 5) / mp.pi)
            n = int(reach_t / step) + 1
            for k in range(-n, n + 1):
                t = (k + mpf(level % 2) / 2) * step
                inner = mp.pi / 2 * mp.sinh(t)
                tail = 2 / (1 + mp.exp(2 * abs(inner)))  # distance from the nearer end, in half-lengths
                distance = tail * (b - a) / 2
                z = b - distance if t > 0 else a + distance
                weight = step * (b - a) / 2 * mp.pi / 2 * mp.cosh(t) / mp.cosh(inner) ** 2
                value = weight * mp.exp(-z * z * half) * integrand(z)
                total += value
                largest = max(largest, abs(value))
    norm = s * mp.sqrt(2 * mp.pi)
    return total / norm, largest / norm


# --- many steps ------------------------------------------------------------------------------------------------------


def _contour_delta(run: _Run, eps: mpf, direction: str, goal: int, level: int) -> mpf:
    value, _ = _path(run, eps, direction, goal, level).read(eps)
    return value


def _path(run: _Run, eps: mpf, direction: str, goal: int, level: int) -> _Path:
    """Return a path that loses no more digits at `eps` than its precision has to spare."""
    lost = 6
    for _ in range(6):
        path = _Path(run, eps, direction, goal, lost, level)
        needed = path.lost_at(eps)
        if needed <= lost:
            return path
        lost = needed + 3
    raise NotConverged(f"{direction} delta at {run}, {mp.nstr(eps, 17)}: too much cancels")


class _Line(NamedTuple):
    """A curve in the plane of zeta and a trapezoidal rule on it (doubles)."""

    shape: tuple[float, float, float]
    start: float
    stop: float
    step: float


class _Loss:
    """The loss of one step and its log-moment in doubles: for choices, not for values."""

    def __init__(self, run: _Run) -> None:
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

    def line(self, u: Complexes, nats: float) -> tuple[_Line, Floats, Floats]:
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
        return _Line(chosen, float(x[first]), float(x[last]), min(steps)), sizes, moduli


class _Plan(NamedTuple):
    """How to sum along a hyperbola."""

    hyperbola: _Hyperbola
    cells: list[tuple[_Line, float]]
    step: float
    nats: float
    n_terms: int
    biggest: float


class _Hyperbola(NamedTuple):
    """A hyperbola and the modulus of the integrand along it and beside it (doubles)."""

    loss: _Loss
    steps: int
    eps: float
    direction: str
    vertex: float
    size: float
    angle: float

    def at(self, theta: Floats, turn: float = 0.0) -> Complexes:
        """Return u at theta + i turn."""
        arm = np.cosh(theta + 1j * (self.angle + turn)) - math.cos(self.angle)
        return np.asarray(self.vertex + self.size * arm, dtype=np.complex128)

    def log_size(self, theta: Floats, log_moment: Floats, turn: float = 0.0) -> Floats:
        """Return the log of the modulus of the integrand."""
        u = self.at(theta, turn)
        edge = 1 - u.real if self.direction == "remove" else u.real
        slope = self.size * np.abs(np.sinh(theta + 1j * (self.angle + turn)))
        scale = np.log(slope / np.abs(u * (u - 1)))
        return np.asarray(self.steps * (log_moment + self.loss.kappa * u.real) + self.eps * edge + scale)

    def plan(self, nats: float, least: float) -> _Plan | None:
        """Return the sum for an error of e^-nats of e^least, or None if it would be too long."""
        peak, total, biggest = -math.inf, 0, 0.0
        cells: list[tuple[_Line, float]] = []
        ends = np.array([0.0, _CELL / 2, _CELL])
        growth = {turn: -math.inf for degrees in _TURNS for turn in (math.radians(degrees), -math.radians(degrees))}
        for turn in list(growth):
            corner = self.at(np.zeros(1), turn)[0].real
            if self.angle + turn > math.pi / 2 or (corner <= 1 if self.direction == "remove" else corner >= 0):
                del growth[turn]
        log_steps = math.log(self.steps)
        for i in range(120):
            theta = ends + i * _CELL
            u = self.at(theta)
            line, _, _ = self.loss.line(u, nats + log_steps)
            # the grid of `line` is too coarse far out: what aliases there looks like growth
            width = min(0.1, 0.4 / self.loss.s, 2 * line.step)
            x = np.arange(line.start, line.stop, width).astype(np.complex128)
            loss, log_weight = self.loss.curve(line.shape, x)
            sizes, moduli = self.loss.sums(u, loss, log_weight, width)
            logs = self.log_size(theta, sizes)
            if logs.max() > least + 40:
                return None
            peak = max(peak, float(logs.max()))
            cells.append((line, float((moduli - sizes).max())))
            n_nodes = int((line.stop - line.start) / line.step)
            total += n_nodes
            biggest = max(biggest, float(np.abs(u).max()) * (line.stop - line.start + 10))
            for turn in growth:
                beside = self.at(theta, turn)
                near = self.loss.sums(beside, loss, log_weight, width)[0]
                growth[turn] = max(growth[turn], float(self.log_size(theta, near, turn).max()))
            if float(logs.max()) < least - nats - 5:
                break
        else:
            return None
        nats += max(0.0, peak - least)
        steps = []
        for sign in (1, -1):
            fits = [2 * math.pi * abs(t) / (nats + 3 + max(g - peak, 0.0)) for t, g in growth.items() if t * sign > 0]
            if not fits:
                return None
            steps.append(max(fits))
        step = min(steps)
        return _Plan(self, cells, step, nats, int(total * _CELL / step), biggest)


class _Path:
    """The nodes of the hyperbola: exponents T log M(u) and weights, good for any eps near the one it is made for."""

    def __init__(self, run: _Run, eps: mpf, direction: str, goal: int, lost: int, level: int) -> None:
        self.goal = goal
        steps = run.steps
        loss = _Loss(run)
        nats = math.log(10) * (goal + lost) + 6
        saddle, width = loss.saddle(steps, float(eps), direction)
        side = 1.0 if direction == "remove" else 0.0
        plans = []
        least = None
        for tilt, pull in _PATHS:
            # every level has its own hyperbola
            pulled = min(pull * width / abs(saddle - side), 0.6)
            vertex = side + (saddle - side) * (1 - pulled) + width * (0.0, 0.12, -0.08, 0.17, 0.05)[level % 5]
            size = width * (1 - pulled) * (2.0, 1.7, 2.2, 1.5, 1.9)[level % 5]
            angle = math.radians(tilt + (0.0, 1.1, -0.6, 1.7, 0.7)[level % 5])
            hyperbola = _Hyperbola(loss, steps, float(eps), direction, vertex, size, angle)
            if least is None:
                least = float(hyperbola.log_size(np.zeros(1), loss.line(np.full(1, complex(vertex)), nats)[1])[0])
            plan = hyperbola.plan(nats, least)
            if plan is not None:
                plans.append(plan)
                if plan.n_terms <= _FEW_TERMS:
                    break
        if not plans:
            raise NotConverged(f"{direction} delta at {run}: no path")
        plan = min(plans, key=lambda plan: plan.n_terms)
        self.n_terms = plan.n_terms
        if self.n_terms > MAX_TERMS:
            raise NotConverged(f"{direction} delta at {run}: {self.n_terms} terms, more than {MAX_TERMS}")
        c, size, angle, h, nats = plan.hyperbola.vertex, plan.hyperbola.size, plan.hyperbola.angle, plan.step, plan.nats
        h *= 0.96**level
        offset = 0.5 if level % 2 else 0.0

        prec = bits(nats / math.log(10) + math.log10(steps)) + 16 + int(math.log2(plan.biggest * steps + 2))
        with gmpy2.context(gmpy2.get_context(), precision=prec) as context:
            self.context = context.copy()
            self.exponents: list[Any] = []
            self.weights: list[Any] = []
            self.rates: list[Any] = []
            self.spread: list[float] = []
            with mp.workprec(prec + max(0, -mp.mag(run.q))):
                constants = [
                    _to_mpfr(v) for v in (run.s, mp.log(run.q / (1 - run.q)), mp.log1p(-run.q), 1 / mp.sqrt(2 * mp.pi))
                ]
            pi = gmpy2.const_pi()
            j = 0
            for i, (line, cancelled) in enumerate(plan.cells):
                nodes = _nodes(line, constants, (0.0, 0.375, 0.6875, 0.1875, 0.53125)[level % 5])
                while (j + offset) * h < (i + 1) * _CELL:
                    turn = gmpy2.mpc(gmpy2.mpfr(h) * (j + offset), angle)
                    u_j = c + size * (gmpy2.cosh(turn) - gmpy2.cos(gmpy2.mpfr(angle)))
                    moment = sum((gmpy2.exp(u_j * at_node + log_w) for at_node, log_w in nodes), gmpy2.mpc(0))
                    log_m = gmpy2.log(moment)
                    count = 1 if j + offset == 0 else 2
                    weight = size * gmpy2.sinh(turn) / (u_j * (u_j - 1)) * (h * count)
                    self.exponents.append(steps * (log_m + constants[2] * u_j))
                    self.weights.append(weight / (2 * pi * gmpy2.mpc(0, 1)))
                    self.rates.append(1 - u_j if direction == "remove" else u_j)
                    self.spread.append(cancelled)
                    j += 1

    def _terms(self, eps: mpf) -> tuple[list[Any], list[Any]]:
        x = _to_mpfr(eps)
        terms = [
            gmpy2.exp(e + rate * x) * w for e, rate, w in zip(self.exponents, self.rates, self.weights, strict=True)
        ]
        return terms, [t * rate for t, rate in zip(terms, self.rates, strict=True)]

    def read(self, eps: mpf) -> tuple[mpf, mpf]:
        """Return delta(eps) and its derivative."""
        with gmpy2.context(self.context):
            terms, slopes = self._terms(eps)
            value, slope = (sum((t.real for t in column), gmpy2.mpfr(0)) for column in (terms, slopes))
        return _to_mpf(value), _to_mpf(slope)

    def lost_at(self, eps: mpf) -> int:
        """Return how many digits cancel between the nodes, and within the moments."""
        with gmpy2.context(self.context):
            terms, _ = self._terms(eps)
            value = abs(sum((t.real for t in terms), gmpy2.mpfr(0)))
            if value == 0:
                return 10 * self.goal
            worst = max(
                (float(gmpy2.log(abs(t))) + spread for t, spread in zip(terms, self.spread, strict=True) if t != 0)
            )
            return max(0, int((worst - float(gmpy2.log(value)) + math.log(len(terms))) / math.log(10)) + 2)


def _nodes(line: _Line, constants: list[Any], offset: float) -> list[tuple[Any, Any]]:
    """Return log(1 + e^zeta) and the log of the weight at the nodes of the curve."""
    s, log_odds, _, root = constants
    height, start, lean = (gmpy2.mpfr(v) for v in line.shape)
    one, step = gmpy2.mpfr(1), gmpy2.mpfr(line.step)
    log_scale = gmpy2.log(step * s * root)
    out = []
    for k in range(int((line.stop - line.start) / line.step) + 2):
        x = gmpy2.mpfr(line.start) + (k - offset) * step
        down = gmpy2.exp(-x)
        bend = one / (one + down)
        rise = one / (one + gmpy2.exp(start - x)) if height else gmpy2.mpfr(0)
        grow = gmpy2.log(one + gmpy2.exp(x)) if x < 0 else x + gmpy2.log(one + down)
        zeta = gmpy2.mpc(x, height * rise + lean * grow)
        slope = gmpy2.mpc(one, height * rise * (one - rise) + lean * bend)
        loss = gmpy2.log(one + gmpy2.exp(zeta)) if zeta.real <= 0 else zeta + gmpy2.log(one + gmpy2.exp(-zeta))
        z_over_s = one / (2 * s) + s * (zeta - log_odds)
        out.append((loss, gmpy2.log(slope) + log_scale - z_over_s * z_over_s / 2))
    return out


def _to_mpfr(value: mpf) -> Any:
    sign, mantissa, exponent, _ = value._mpf_
    scaled = gmpy2.mul_2exp if exponent >= 0 else gmpy2.div_2exp
    return scaled(gmpy2.mpfr(-mantissa if sign else mantissa), abs(exponent))


def _to_mpf(value: Any) -> mpf:
    mantissa, exponent = value.as_mantissa_exp()
    with mp.workprec(max(int(mantissa).bit_length(), 2)):
        return mp.ldexp(mpf(int(mantissa)), int(exponent))


# --- epsilon ---------------------------------------------------------------------------------------------------------


def _epsilon(run: _Run, d: mpf, direction: str, digits: int) -> mpf:
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
    near_zero = run.steps <= 2 or _Loss(run).log_delta(run.steps, 0.0, direction) < float(mp.log(d)) + 1
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


def _few(run: _Run, eps: mpf, direction: str, goal: int, level: int) -> mpf:
    """Return delta of one step or of two."""
    if run.steps == 1:
        return sampled_gaussian_delta(run.s, run.q, eps, direction, goal)
    return _two_steps(run, eps, direction, goal, level)


def _bracket(run: _Run, d: mpf, direction: str, most: mpf, what: str) -> tuple[mpf, mpf]:
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


def _guess(run: _Run, d: mpf, direction: str, what: str) -> mpf:
    """Return roughly the epsilon of `d`, by the saddle-point approximation."""
    loss = _Loss(run)
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


def _solve(run: _Run, d: mpf, direction: str, goal: int, level: int, start: mpf, near: list[mpf], what: str) -> mpf:
    """Return the root in eps of log delta(eps) = log d by Newton's method."""
    read = _reader(run, direction, goal, level, start)
    eps, size = start, mp.inf
    for _ in range(60):
        value, slope = read(eps)
        if not (value > 0 and slope < 0):
            raise NotConverged(f"{what}: delta is not falling at {mp.nstr(eps, 10)}")
        move = mp.log(value / d) * value / -slope
        eps = max(eps + move, eps / 4)
        size = abs(move)
        if abs(mp.log(value / d)) > 2:  # the path was made for another epsilon
            read = _reader(run, direction, goal, level, eps)
        if size <= eps * mpf(10) ** -(goal // 2 + 3):  # the error after this step is of second order
            near.append(eps)
            return eps
    raise NotConverged(f"{what}: Newton's method did not settle")


def _reader(run: _Run, direction: str, goal: int, level: int, eps: mpf) -> Callable[[mpf], tuple[mpf, mpf]]:
    return _path(run, eps, direction, goal + 3, level).read
