"""Losses of one direction, and compositions of them on a grid, as tests of the grid ask."""

from __future__ import annotations

import math

import numpy as np

from fastacct.core.bounds import Bounds
from fastacct.core.inputs import ROUNDING
from fastacct.losses.loss import Bracket, Part
from fastacct.losses.measure import GridMeasure, Lowered
from fastacct.losses.mixture import mixture_bracket
from fastacct.readers.grid.reader import Grid
from fastacct.readers.grid.window import Window


def gaussian(sigma: float) -> Bracket:
    """N(1, sigma^2) against N(0, sigma^2)."""
    return mixture_bracket(sigma, {1.0: 1.0}, {0.0: 1.0})


def step(sigma: float, q: float, direction: str = "remove") -> Bracket:
    """One step of the Poisson-sampled Gaussian."""
    if direction == "remove":
        return mixture_bracket(sigma, {0.0: 1.0 - q, 1.0: q}, {0.0: 1.0})
    return mixture_bracket(sigma, {0.0: 1.0}, {0.0: 1.0 - q, -1.0: q})


def part(bracket: Bracket, count: int) -> Part:
    """Losses that occur so often."""
    return Part(bracket.upper, bracket.lower, count, is_apart=bracket.is_apart)


def on_grid(parts, *, epsilon=None, delta=None, tolerance=1e-3) -> Bounds:
    """Bounds of delta at `epsilon`, or of epsilon at `delta`, of a composition of (bracket, count)."""
    grid = Grid([part(bracket, count) for bracket, count in parts], tolerance)
    ask, target = (grid.delta, epsilon) if delta is None else (grid.epsilon, delta)
    if np.ndim(target):
        return Bounds(*(np.array(side) for side in zip(*map(ask, target), strict=True)))
    return Bounds(*ask(target))


def window(measure: GridMeasure, is_upper: bool) -> Window:
    """A measure that is not tilted, to be read."""
    size = measure.spacing * (measure.mass.size - 1)
    slack, top = measure.slack + 4.0 * ROUNDING * (abs(measure.origin) + size), measure.origin + size
    return Window(is_upper, measure.origin, measure.spacing, measure.mass, measure.infinite, slack, top)


def lower_delta(lowered: Lowered, epsilon: float) -> float:
    """What a lower measure says of delta of one release."""
    place = (epsilon - lowered.dots.origin) / lowered.dots.spacing
    cells = [math.floor(place + off) for off in (-1e-9, 1e-9)]  # of two cells at a point
    rest = max((float(lowered.rest[k]) for k in cells if 0 <= k < lowered.rest.size), default=0.0)
    return window(lowered.below, False).delta(epsilon) - rest
