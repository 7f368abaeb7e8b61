"""Losses that are atoms: finite tables, the worst pair of (epsilon, delta)-DP; and Laplace's, a density between two."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.loss import NOTHING, ROUNDING, Atoms, Bracket, Loss, Nodes, OutOfReachError, Pair, gauss_rule

__all__ = ["LaplaceLoss", "atoms", "both", "bounded_range", "epsilon_delta", "everything", "exact_atoms", "in_reach"]
__all__ += ["laplace_bracket", "table"]

MOST_ATOMS: Final = 1 << 19
_CHUNK: Final = 1 << 15


def both(one: Bracket) -> Pair:
    """A pair that is its own mirror image."""
    return Pair(one, one)


def in_reach(largest: float, most: float = 1e5) -> None:
    """Refuse losses that no grid holds; divergences and pure guarantees answer then."""
    if not largest <= most:
        raise OutOfReachError(f"a loss of {largest:g} is too large for a grid")


def few(count: float, what: str) -> None:
    """Refuse more atoms than are listed."""
    if count > MOST_ATOMS:
        raise OutOfReachError(f"{what} gives too many losses")


def atoms(
    loss: Cells, error: Cells, mass: Cells, relative: float, left_out: float = 0.0, lattice: float | None = None
) -> Bracket:
    """Atoms whose masses are good to `relative`; `left_out` bounds the mass beyond them."""
    keep = mass > 0.0
    loss, error, mass = loss[keep], error[keep], mass[keep]
    upper = Atoms(loss, error, mass * (1.0 + relative), infinite=min(1.0, left_out), lattice=lattice)
    return Bracket(upper, Atoms(loss, error, mass * (1.0 - relative), lattice=lattice))


def exact_atoms(
    loss: Cells, error: Cells, mass: Cells, infinite: Cells, lattice: float | None, ulps: float = 0.0
) -> Bracket:
    """Atoms with masses good to `ulps`, and parts of the mass of an infinite loss."""
    infinite = infinite[infinite > 0.0]
    sides = []
    for sign in (1.0, -1.0):
        rest = math.fsum(infinite) * (1.0 + sign * 2.0 * ROUNDING * (infinite.size > 1))
        changed = mass * (1.0 + sign * ulps * ROUNDING)
        sides.append(Atoms(loss, error, changed, infinite=min(rest, 1.0), lattice=lattice))
    return Bracket(*sides)


def everything() -> Bracket:
    """An infinite loss, always: everything is released."""
    return exact_atoms(np.zeros(0), np.zeros(0), np.zeros(0), np.ones(1), None)


def epsilon_delta(epsilon: float, delta: float) -> Bracket:
    """The pair that dominates all of (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015)."""
    if math.isinf(epsilon) or delta == 1.0:
        return everything()
    if epsilon == 0.0:
        loss, share = np.zeros(1), np.ones(1)
    else:
        loss = np.array([-epsilon, epsilon])
        share = np.array([math.exp(-epsilon), 1.0]) / (1.0 + math.exp(-epsilon))
    lattice = 2.0 * epsilon or 1.0
    return exact_atoms(loss, np.zeros_like(loss), (1.0 - delta) * share, np.array([delta]), lattice, 6.0)


def table(p: Cells, q: Cells) -> Bracket:
    """Finite distributions: the loss of outcome i is log(p[i] / q[i]), infinite where q[i] = 0 < p[i]."""
    finite = (p > 0.0) & (q > 0.0)
    loss = np.log(p[finite]) - np.log(q[finite])
    error = ROUNDING * (8.0 + 4.0 * (np.abs(np.log(p[finite])) + np.abs(np.log(q[finite]))))
    near = (p[finite] < 2.0 * q[finite]) & (q[finite] < 2.0 * p[finite])
    with np.errstate(divide="ignore"):  # of no use there
        small = np.log1p((p[finite] - q[finite]) / q[finite])
    loss, error = np.where(near, small, loss), np.where(near, 8.0 * ROUNDING * np.abs(small), error)
    return exact_atoms(loss, error, p[finite], p[(p > 0.0) & (q == 0.0)], None)


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
