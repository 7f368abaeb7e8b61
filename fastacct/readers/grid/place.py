"""A place on the lattice of tilts: which grids suit the targets near it."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from fastacct.losses.loss import Moment, Weighted, log_moment

__all__ = ["CARE", "SMALLEST_TAIL", "Place", "floor_of"]

SMALLEST_TAIL: Final = 1e-299
CARE: Final = 27.0
"""How much less is left out with each degree of care, in logarithms."""


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
