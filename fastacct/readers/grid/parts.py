"""Losses with their counts, and the spacings on which all of their atoms lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from fastacct.core.record import Record
from fastacct.losses.loss import ROUNDING, Bracket, Loss

__all__ = ["Part", "hits_atoms", "shared_spacing"]


class Part(Record):
    """Losses of one direction, and how often they occur."""

    bracket: Bracket
    count: int

    @property
    def upper(self) -> Loss:
        """From above."""
        return self.bracket.upper

    @property
    def lower(self) -> Loss:
        """From below."""
        return self.bracket.lower


def hits_atoms(parts: Sequence[Part], spacing: float) -> bool:
    """Whether the outermost atoms are on the grid in floating point: an ulp beside it, a mass moves by a cell."""
    for part in parts:
        if part.upper.lattice is not None and part.upper.quadrature > 0.0:
            low, high = part.upper.extent(0.0)
            if high + math.floor((low - high) / spacing) * spacing != low:
                return False
    return True


def shared_spacing(parts: Sequence[Part]) -> float | None:
    """The largest spacing of which all lattices are multiples, up to rounding; None if it is too small to matter."""
    lattices = (loss.lattice for part in parts for loss in (part.upper, part.lower))
    known = [lattice for lattice in lattices if lattice is not None]
    if not known:
        return None
    base, shared = known[0], 1
    for lattice in known:
        ratio = Fraction(lattice / base).limit_denominator(1000)
        if abs(float(ratio) - lattice / base) > 8.0 * ROUNDING * lattice / base:
            return None
        shared = math.lcm(shared, ratio.denominator)
    return base / shared if shared <= 1000 else None
