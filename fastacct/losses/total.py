"""The privacy loss of several releases together, as atoms at the points of one lattice: a bound on either side.

Each loss is rounded to a common lattice to the side asked for (docs/algorithms/grid.md), and masses are convolved by
the definition, in sums of positive terms.  What is bounded stays bounded: distributions that bound each release's
losses, for what the other ones have shown, bound those of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from fastacct.core.inputs import ROUNDING
from fastacct.losses.loss import Atoms, Bracket, Loss, Pair, refuse_where
from fastacct.losses.measure import GridMeasure, lower_measure, upper_measure
from fastacct_ext import _densities

_TAIL: Final = 1e-24
"""Mass of a density that is left out on either side: an infinite loss, from above."""
_MOST_TOGETHER: Final = 1000
"""Releases."""


def total_losses(parts: Sequence[tuple[Pair, int]]) -> Pair:
    """Of all releases of a job, each as often as is said."""
    n_releases = sum(count for _, count in parts)
    refuse_where(n_releases > _MOST_TOGETHER, f"{n_releases} releases on one sample; known of at most {_MOST_TOGETHER}")
    remove = _bracket([(pair.remove, count) for pair, count in parts])
    return Pair(remove, remove if all(p.is_mirrored for p, _ in parts) else _bracket([(p.add, n) for p, n in parts]))


def _bracket(parts: Sequence[tuple[Bracket, int]]) -> Bracket:
    sides = [[(side.upper if is_upper else side.lower, count) for side, count in parts] for is_upper in (True, False)]
    return Bracket(_total(sides[0], True), _total(sides[1], False), is_apart=True)


def _total(parts: Sequence[tuple[Loss, int]], is_upper: bool) -> Atoms:
    ends = [(source.extent(_TAIL), count) for source, count in parts]
    width = sum(count * (high - low) for (low, high), count in ends)
    refuse_where(not 0.0 < width < math.inf, "the losses of the releases on one sample have no common lattice")
    spacing, sum_so_far = width / 2.0**14, None
    for source, count in parts:
        if is_upper:
            measure = upper_measure(source, spacing, _TAIL)
        else:
            measure = lower_measure(source, spacing, _TAIL, without_rest=True).below
        while count:
            if count & 1:
                sum_so_far = measure if sum_so_far is None else _both(sum_so_far, measure, is_upper)
            count >>= 1
            measure = _both(measure, measure, is_upper) if count else measure
    assert sum_so_far is not None
    loss = sum_so_far.losses()
    error = sum_so_far.slack + 2.0 * ROUNDING * (abs(sum_so_far.origin) + sum_so_far.spacing * loss.size)
    return Atoms(loss, np.full(loss.size, error), sum_so_far.mass, infinite=sum_so_far.infinite)


def _both(a: GridMeasure, b: GridMeasure, is_upper: bool) -> GridMeasure:
    """Of two releases."""
    side, mass = 1.0 if is_upper else -1.0, np.empty(a.mass.size + b.mass.size - 1)
    _densities.convolve(a.mass, b.mass, mass)
    mass *= 1.0 + side * ROUNDING * (min(a.mass.size, b.mass.size) + 8.0)
    origin = a.origin + b.origin
    infinite = (a.infinite + b.infinite - (0.0 if is_upper else a.infinite * b.infinite)) * (
        1.0 + side * 8.0 * ROUNDING
    )
    return GridMeasure(
        origin,
        a.spacing,
        mass + 1e-300 if is_upper else mass,  # smaller products have no relative accuracy
        min(infinite, 1.0),
        a.slack + b.slack + 2.0 * ROUNDING * (abs(a.origin) + abs(b.origin)),
    )
