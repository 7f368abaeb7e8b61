"""The contour integral of `exact` along its hyperbola, summed in arbitrary precision (gmpy2)."""

from __future__ import annotations

import math
from typing import Any

import gmpy2
import numpy as np
from mpmath import mp, mpf

from .certify import NotConverged, bits
from .hyperbola import CELL, Hyperbola
from .loss_in_doubles import LossInDoubles, Rule
from .run import Run

MAX_TERMS = 20_000_000
"""Exponentials of one evaluation of the contour: a longer sum is refused."""

_PATHS = ((74.0, 0.0), (74.0, 3.0), (68.0, 0.0), (74.0, 6.0), (68.0, 3.0))
"""Angles of the arms, and how many widths of the saddle the vertex is before it, tried in this order."""

_FEW_TERMS = 600_000
"""A sum this short is taken without looking for a shorter one."""


def path_at(run: Run, eps: mpf, direction: str, goal: int, level: int) -> Path:
    """Return a path that loses no more digits at `eps` than its precision has to spare."""
    lost = 6
    for _ in range(6):
        path = Path(run, eps, direction, goal, lost, level)
        needed = path.lost_at(eps)
        if needed <= lost:
            return path
        lost = needed + 3
    raise NotConverged(f"{direction} delta at {run}, {mp.nstr(eps, 17)}: too much cancels")


class Path:
    """The nodes of the hyperbola: exponents T log M(u) and weights, good for any eps near the one it is made for."""

    def __init__(self, run: Run, eps: mpf, direction: str, goal: int, lost: int, level: int) -> None:
        self.goal = goal
        steps = run.steps
        loss = LossInDoubles(run)
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
            hyperbola = Hyperbola(loss, steps, float(eps), direction, vertex, size, angle)
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
                while (j + offset) * h < (i + 1) * CELL:
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


def _nodes(line: Rule, constants: list[Any], offset: float) -> list[tuple[Any, Any]]:
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
