"""Losses with a density: Laplace noise, whole or cut off, and the worst loss of a given range."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.atoms import epsilon_delta
from fastacct.losses.loss import NOTHING, ROUNDING, Atoms, Bracket, Loss, Nodes, gauss_rule

__all__ = ["LaplaceLoss", "bounded_range", "laplace_bracket"]

_CHUNK: Final = 1 << 15


class LaplaceLoss(Loss):
    """A density with peak exp((loss - largest)/2) between -largest and largest, and atoms of masses `ends` there.

    The density counts with `share`.  Beyond rounding it is good to `relative`, the atoms to `ends_off`.
    """

    largest: float
    peak: float
    ends: tuple[float, float] | None = None
    ends_off: float = 0.0
    share: float = 1.0
    relative: float = 0.0
    samples_by_node: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchor", self.largest)
        # panels are an eighth of the range or less, and the rule's ellipses 5,000 times as far
        object.__setattr__(self, "gain", math.expm1(min(640.0 * self.largest, 700.0)))
        # both atoms; the density between them has no lattice, but any fraction of this spacing hits the atoms
        object.__setattr__(self, "lattice", 2.0 * self.largest)

    def extent(self, tail: float) -> tuple[float, float]:
        """Both ends."""
        return -self.largest, self.largest

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """The atoms, and Gauss points of the density."""
        top = self.largest
        if self.ends is not None:
            ends = np.array(self.ends)
            for atoms in Atoms(np.array([-top, top]), np.zeros(2), ends).nodes(edges, 0.0):
                yield atoms._replace(mass_error=self.ends_off * ends)
        n_base = math.ceil(min(max(4.0 * top, 8.0), 2.0**20))
        breaks = np.linspace(-top, top, n_base + 1)
        if edges is not None:
            breaks = np.unique(np.concatenate([breaks, edges[(edges > -top) & (edges < top)]]))
        for start in range(0, breaks.size - 1, _CHUNK):
            piece = breaks[start : start + _CHUNK + 1]
            middle, half = 0.5 * (piece[1:] + piece[:-1]), 0.5 * (piece[1:] - piece[:-1])
            cell = np.zeros(middle.size, dtype=np.intp)
            if edges is not None:
                cell = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, edges.size - 2)
            points, weights = gauss_rule(float(half.max()) * (1.0 + 1e-12), 0.5, 0.0)
            loss = (middle[:, None] + half[:, None] * points).ravel()
            mass = (half[:, None] * weights).ravel() * self.peak * np.exp(0.5 * (loss - top))
            error = self.share * (mass * (ROUNDING * (48.0 + 8.0 * top)) + self.relative * mass)
            yield Nodes(np.repeat(cell, points.size), loss, np.zeros_like(loss), self.share * mass, error)


def laplace_bracket(scale: float) -> Bracket:
    """Losses of noise with a scale in units of the sensitivity."""
    top = 1.0 / scale
    if top < 1e-300:  # between nothing and a little more than there is
        return Bracket(epsilon_delta(1e-300, 0.0).upper, NOTHING.remove.lower)
    ends, off = (0.5 * math.exp(-top), 0.5), (4.0 + 4.0 * top) * ROUNDING
    source = LaplaceLoss(top, 0.25, ends, off, slack=2.0 * ROUNDING / scale)
    return Bracket(source, source)


def bounded_range(largest: float) -> Bracket:
    """The dominating pair of all losses whose range is `largest`."""
    source = LaplaceLoss(largest, 0.5 / -math.expm1(-largest), slack=2.0 * ROUNDING * largest)
    return Bracket(source, source)
