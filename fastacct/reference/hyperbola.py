"""Which hyperbola the contour integral of `exact` runs along, and with how many terms: a plan in doubles."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .loss_in_doubles import Complexes, Floats, LossInDoubles, Rule

_TURNS = (2.0, 4.0, 7.0, 11.0, 15.0, 20.0, 27.0)
"""Degrees by which the hyperbola is turned to see how far it can be moved."""

CELL = 0.5
"""Length in theta of the piece of the hyperbola that shares one curve and its nodes."""


class Plan(NamedTuple):
    """How to sum along a hyperbola."""

    hyperbola: Hyperbola
    cells: list[tuple[Rule, float]]
    step: float
    nats: float
    n_terms: int
    biggest: float


class Hyperbola(NamedTuple):
    """A hyperbola and the modulus of the integrand along it and beside it (doubles)."""

    loss: LossInDoubles
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

    def plan(self, nats: float, least: float) -> Plan | None:
        """Return the sum for an error of e^-nats of e^least, or None if it would be too long."""
        peak, total, biggest = -math.inf, 0, 0.0
        cells: list[tuple[Rule, float]] = []
        ends = np.array([0.0, CELL / 2, CELL])
        growth = {turn: -math.inf for degrees in _TURNS for turn in (math.radians(degrees), -math.radians(degrees))}
        for turn in list(growth):
            corner = self.at(np.zeros(1), turn)[0].real
            if self.angle + turn > math.pi / 2 or (corner <= 1 if self.direction == "remove" else corner >= 0):
                del growth[turn]
        log_steps = math.log(self.steps)
        for i in range(120):
            theta = ends + i * CELL
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
        return Plan(self, cells, step, nats, int(total * CELL / step), biggest)
