"""Losses with a density: Laplace noise, and the worst loss of a given range."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.atoms import epsilon_delta
from fastacct.losses.loss import NOTHING, ROUNDING, Atoms, Bracket, Loss, Nodes, gauss_rule

__all__ = ["LaplaceLoss", "TruncatedLaplaceLoss", "laplace_bracket"]

_CHUNK: Final = 1 << 15


@dataclass(frozen=True, eq=False)
class LaplaceLoss(Loss):
    """One release with Laplace noise, `largest` = sensitivity / scale: two atoms and a density between them.

    Without atoms the density alone, with mass 1: the dominating pair of all losses whose range is `largest`.
    """

    largest: float
    atoms: bool = True
    samples_by_node: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchor", self.largest)
        # both atoms; the density between them has no lattice, but any fraction of this spacing hits the atoms
        object.__setattr__(self, "lattice", 2.0 * self.largest)

    def extent(self, tail: float) -> tuple[float, float]:
        """The two atoms."""
        return -self.largest, self.largest

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """The atoms, and Gauss points of the density exp((loss - largest)/2)/4."""
        top = self.largest
        scale = 0.25 if self.atoms else 0.5 / -math.expm1(-top)
        if self.atoms:
            yield from _ends(top, (0.5 * math.exp(-top), 0.5), (4.0 + 4.0 * top) * ROUNDING, edges)
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
class TruncatedLaplaceLoss(Loss):
    """One release with truncated Laplace noise: the density of `between` with mass `share`, and an atom at each end.

    All masses are good to `relative`; the smaller loss comes first.
    """

    between: LaplaceLoss
    share: float
    ends: tuple[float, float]
    relative: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchor", self.between.anchor)
        object.__setattr__(self, "lattice", self.between.lattice)

    def extent(self, tail: float) -> tuple[float, float]:
        """Both ends."""
        return self.between.extent(tail)

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """The atoms, and the nodes of the density."""
        yield from _ends(self.between.largest, self.ends, self.relative, edges)
        for nodes in self.between.nodes(edges, tail):
            error = self.share * (nodes.mass_error + self.relative * nodes.mass)
            yield nodes._replace(mass=self.share * nodes.mass, mass_error=error)


def _ends(top: float, masses: tuple[float, float], relative: float, edges: Cells | None) -> Iterator[Nodes]:
    """Atoms at the smallest and at the largest loss."""
    mass = np.array(masses)
    for atoms in Atoms(np.array([-top, top]), np.zeros(2), mass).nodes(edges, 0.0):
        yield atoms._replace(mass_error=relative * mass)


def laplace_bracket(scale: float) -> Bracket:
    """Losses of noise with a scale in units of the sensitivity."""
    if 1.0 / scale < 1e-300:  # between nothing and a little more than there is
        return Bracket(epsilon_delta(1e-300, 0.0).upper, NOTHING.remove.lower)
    source = LaplaceLoss(1.0 / scale, slack=2.0 * ROUNDING / scale)
    return Bracket(source, source)
