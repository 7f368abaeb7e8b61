"""Losses with a density: Laplace noise, and the worst loss of a given range."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.atoms import epsilon_delta, exact_atoms
from fastacct.losses.loss import QUADRATURE, ROUNDING, Atoms, Bracket, Nodes, gauss_rule

__all__ = ["LaplaceLoss", "TruncatedLaplaceLoss", "laplace_bracket"]

_CHUNK: Final = 1 << 15


@dataclass(frozen=True, eq=False)
class LaplaceLoss:
    """One release with Laplace noise, `largest` = sensitivity / scale: two atoms and a density between them.

    Without atoms the density alone, with mass 1: the dominating pair of all losses whose range is `largest`.
    """

    largest: float
    atoms: bool = True
    infinite: float = 0.0
    slack: float = 0.0
    quadrature: float = QUADRATURE
    bottom: float = 0.0

    @property
    def anchor(self) -> float | None:
        """The atom at the largest loss."""
        return self.largest

    @property
    def lattice(self) -> float | None:
        """Both atoms; the density between them has no lattice, but any fraction of this spacing hits the atoms."""
        return 2.0 * self.largest

    def outside(self, tail: float) -> tuple[float, float]:
        """Nothing."""
        return 0.0, -math.inf

    def extent(self, tail: float) -> tuple[float, float]:
        """The two atoms."""
        return -self.largest, self.largest

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """The atoms, and Gauss points of the density exp((loss - largest)/2)/4."""
        top = self.largest
        scale = 0.25 if self.atoms else 0.5 / -math.expm1(-top)
        if self.atoms:
            ends, none = np.array([-top, top]), np.zeros(2)
            mass = np.array([0.5 * math.exp(-top), 0.5])
            for atoms in Atoms(ends, none, mass).nodes(edges, tail):
                yield atoms._replace(mass_error=(4.0 + 4.0 * top) * ROUNDING * mass)
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
            density = (half[:, None] * weights).ravel() * scale * np.exp(0.5 * (loss - top))
            error = density * (ROUNDING * (48.0 + 8.0 * top))
            yield Nodes(np.repeat(cell, points.size), loss, np.zeros_like(loss), density, error)


@dataclass(frozen=True, eq=False)
class TruncatedLaplaceLoss:
    """One release with truncated Laplace noise: the density of `between` with mass `share`, and an atom at each end.

    All masses are good to `relative`; the smaller loss comes first.
    """

    between: LaplaceLoss
    share: float
    ends: tuple[float, float]
    relative: float
    infinite: float
    slack: float
    quadrature: float = QUADRATURE
    bottom: float = 0.0

    @property
    def anchor(self) -> float | None:
        """The largest loss."""
        return self.between.largest

    @property
    def lattice(self) -> float | None:
        """As of plain Laplace noise."""
        return self.between.lattice

    def outside(self, tail: float) -> tuple[float, float]:
        """Nothing."""
        return 0.0, -math.inf

    def extent(self, tail: float) -> tuple[float, float]:
        """Both ends."""
        return self.between.extent(tail)

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """The atoms, and the nodes of the density."""
        top, mass = self.between.largest, np.array(self.ends)
        for atoms in Atoms(np.array([-top, top]), np.zeros(2), mass).nodes(edges, tail):
            yield atoms._replace(mass_error=self.relative * mass)
        for nodes in self.between.nodes(edges, tail):
            error = self.share * (nodes.mass_error + self.relative * nodes.mass)
            yield nodes._replace(mass=self.share * nodes.mass, mass_error=error)


def laplace_bracket(scale: float) -> Bracket:
    """Losses of noise with a scale in units of the sensitivity."""
    if 1.0 / scale < 1e-300:  # between nothing and a little more than there is
        nothing = exact_atoms(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 1.0)
        return Bracket(epsilon_delta(1e-300, 0.0).upper, nothing.lower)
    source = LaplaceLoss(1.0 / scale, slack=2.0 * ROUNDING / scale)
    return Bracket(source, source)
