"""A place on the lattice of tilts: which grids suit the targets near it, and the spacings on which all atoms lie."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from fastacct.losses.loss import ROUNDING, Loss, Moment, OutOfReachError, Part, Weighted, log_moment

__all__ = ["CARE", "SMALLEST_TAIL", "Place", "Work", "floor_of", "hits_atoms", "shared_spacing"]

SMALLEST_TAIL: Final = 1e-299
CARE: Final = 27.0
"""How much less is left out with each degree of care, in logarithms."""


_MOST_WORK: Final = 4e6
"""What one question may cost, in about microseconds."""
_CELL_COST: Final = (10.0, 3.0)
"""Of a cell of a lower and of an upper measure of a density."""
_ATOMS: Final = 0.1
"""Times as much: of a cell of atoms."""
_POINT_COST: Final = 0.5
"""Of a point of a window, for each kind of release."""


class Work:
    """What a question has cost, counted, not timed: the same question has the same bits, whatever was asked before."""

    def __init__(self) -> None:
        self._spent: dict[Hashable, float] = {}

    def spend(self, key: Hashable, cost: float) -> None:
        """Count a composition that is used, once; one beyond what a question may cost is refused."""
        if key not in self._spent and math.fsum(self._spent.values()) + cost > _MOST_WORK:
            raise OutOfReachError(f"a grid of this job takes {cost / _MOST_WORK:.2g} times the work of a question")
        self._spent[key] = cost


class Place(NamedTuple):
    """A tilt of the lattice, with the grid that suits the targets near it."""

    tilt: float
    moment: Moment
    tail: float
    log_budget: float
    rate: float
    """About how fast log delta falls."""
    spacing: float
    least_spacing: float
    floors: tuple[float, ...]
    window: float
    """Length of the losses that the window holds."""

    def tail_at(self, care: int) -> float:
        """Mass that is left out of each part."""
        return max(self.tail * math.exp(-CARE * care), SMALLEST_TAIL)

    def cost(
        self,
        sources: Sequence[Loss],
        floors: Sequence[float],
        spacing: float,
        care: int,
        is_upper: bool,
        max_points: int,
    ) -> float:
        """About how long a composition on a grid takes, in microseconds."""
        spans = [source.extent(self.tail_at(care)) for source in sources]
        weights = [1.0 if source.quadrature > 0.0 else _ATOMS for source in sources]
        lengths = [max(b - max(a, low), 0.0) for (a, b), low in zip(spans, floors, strict=True)]
        cells = math.fsum(map(math.prod, zip(weights, lengths, strict=True))) / spacing
        points = min(self.window * math.sqrt(self.budget_at(care) / self.log_budget) / spacing, max_points)
        return cells * _CELL_COST[is_upper] + points * len(sources) * _POINT_COST

    def budget_at(self, care: int) -> float:
        """Log of the part of the tilted mass that is left out beside the window."""
        return max(self.log_budget - CARE * care, -690.0)


def floor_of(sketch: Weighted, tilt: float, log_budget: float) -> float:
    """A loss below which all mass, moved up to it, is less than exp(log_budget) of the tilted measure."""
    _, loss, log_mass = sketch
    if not loss.size:
        return -math.inf
    order = np.argsort(loss, kind="stable")
    loss, log_mass = loss[order], log_mass[order]
    whole = log_moment([(1, loss, log_mass)], tilt).value
    moved = tilt * loss[1:] - whole + np.log(np.cumsum(np.exp(log_mass[:-1])) + 1e-320)
    few = np.flatnonzero(moved < log_budget)
    return float(loss[few[-1] + 1]) if few.size else -math.inf


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
