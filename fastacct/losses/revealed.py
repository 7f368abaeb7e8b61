"""The privacy loss of plain Gaussians of which one is drawn, in sight of everyone: delta is the mean of theirs.

A Gaussian split between a smaller and a larger mu at the same mean of the total variation is an upper bound, Gaussians
put together in one are a lower bound (proof: docs/algorithms/grid.md).  What is left are a few hundred mu, whose losses
are rounded to points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.losses.atoms import in_reach
from fastacct.losses.loss import Atoms, Bracket, Index, legendre

_REACH: Final = 39.0
"""Standard deviations; beyond them lies less than 1e-300."""
_MU_RATIO: Final = 1.02
"""Of neighbouring mu."""


def revealed_gaussians(weight: Cells, least_weight: Cells, mu: Cells, rest: float) -> Bracket:
    """Gaussians with these mu > 0 and weights, from above and below; what is missing of one has mu = 0.

    `rest` bounds the probability that is left out: an infinite loss from above, from below nothing.
    """
    in_reach(float(mu.max()), 1e4)
    least = float(mu.min())
    n = max(1, math.ceil(math.log(float(mu.max()) / least) / math.log(_MU_RATIO)))
    levels: Cells = least * np.power(_MU_RATIO, np.arange(n + 1, dtype=np.float64))
    levels[-1] = max(levels[-1], float(mu.max()))
    cell = np.clip(np.searchsorted(levels, mu, side="right") - 1, 0, n - 1)
    place = _between(mu, levels[cell], levels[cell + 1])
    up = weight * np.minimum(np.nan_to_num(place, nan=1.0) + 2e-12, 1.0)
    stay, move = np.bincount(cell, weight - up, minlength=n + 1), np.bincount(cell + 1, up, minlength=n + 1)
    above = np.asarray(stay + move, dtype=np.float64)
    total = np.asarray(np.bincount(cell, least_weight, minlength=n), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        share = np.where(total > 0.0, np.bincount(cell, least_weight * np.nan_to_num(place), minlength=n) / total, 0.0)
    below = _mean_of(np.maximum(share - 4e-12, 0.0), levels[:-1], levels[1:])
    edges = _edges(least, float(levels[-1]))
    unseen = max(0.0, 1.0 - float(np.sum(weight)))
    sides = []
    for side, weights, places in ((1.0, above, levels), (-1.0, total, below)):
        # masses and their means of exp(-loss) in a cell are good to 1e-11, by far: densities, rules and sums
        atoms = on_points(_nodes(weights, places, edges), edges, 1e-11, side > 0.0)
        mass = np.append(atoms.mass, max(0.0, unseen + side * 1e-12 * (1.0 - unseen)))
        infinite = min(1.0, rest + 1e-299) if side > 0.0 else 0.0
        sides.append(Atoms(np.append(atoms.loss, 0.0), np.append(atoms.loss_error, 0.0), mass, infinite=infinite))
    return Bracket(*sides)


def _between(mu: Cells, low: Cells, high: Cells) -> Cells:
    """Where the total variation of `mu` lies between those of `low` and `high`, from 0 to 1; nan where all are 1."""
    from scipy.special import erf, erfc  # heavy to import

    root = math.sqrt(0.125)
    with np.errstate(invalid="ignore", divide="ignore"):
        near = (erf(mu * root) - erf(low * root)) / (erf(high * root) - erf(low * root))
        far = (erfc(low * root) - erfc(mu * root)) / (erfc(low * root) - erfc(high * root))
    return np.asarray(np.clip(np.where(high < 2.0, near, far), 0.0, 1.0))


def _mean_of(share: Cells, low: Cells, high: Cells) -> Cells:
    """A mu whose total variation lies at most at this share between those of its level and the next."""
    left_end, right = low.copy(), high.copy()
    for _ in range(40):
        middle = 0.5 * (left_end + right)
        is_low = _between(middle, low, high) <= share
        left_end, right = np.where(is_low, middle, left_end), np.where(is_low, right, middle)
    return np.asarray(left_end)


def _edges(least: float, most: float) -> Cells:
    """Points, the same to both sides of 0, fine enough for every mu that reaches them."""
    points = [0.0]
    while (last := points[-1]) < most * (0.5 * most + _REACH):
        narrowest = 2.0 * last / (math.sqrt(_REACH * _REACH + 2.0 * last) + _REACH)
        # in standard deviations of the narrowest loss that reaches a point
        points.append(last + 0.15 * max(least, narrowest))
    return np.array([*(-point for point in points[:0:-1]), *points])


def _nodes(weight: Cells, mu: Cells, edges: Cells) -> Iterator[tuple[Index, Cells, Cells]]:
    """Gauss points of the density of every Gaussian's loss, in the cells that it reaches."""
    points, weights = legendre(20)  # half a cell is at most 3.4 over the slope of a density
    used = weight > 0.0
    for share, mean in zip(weight[used].tolist(), mu[used].tolist(), strict=True):
        centre = 0.5 * mean * mean
        first = max(0, int(np.searchsorted(edges, centre - _REACH * mean, side="right")) - 1)
        last = min(edges.size - 1, int(np.searchsorted(edges, centre + _REACH * mean)))
        half = 0.5 * (edges[first + 1 : last + 1] - edges[first:last])
        above = half[:, None] * (1.0 + points)
        z = (edges[first:last, None] - centre + above) / mean
        mass = share / (mean * math.sqrt(2.0 * math.pi)) * half[:, None] * weights * np.exp(-0.5 * z * z)
        cell = np.repeat(np.arange(first, last), points.size)
        yield cell, above.ravel(), mass.ravel()


def on_points(nodes: Iterable[tuple[Index, Cells, Cells]], edges: Cells, off: float, is_upper: bool) -> Atoms:
    """Losses as atoms at `edges`, or one in each cell: a bound on either side, masses being good to `off`.

    From above the mass of a cell is split between its ends such that the mean of exp(-loss) stays, from below it is put
    where exp(-loss) is that mean.  (Points are distances to the lower end of their cell.)
    """
    n = edges.size - 1
    mass, right = np.zeros(n), np.zeros(n)
    for cell, above, each in nodes:
        mass += np.bincount(cell, each, minlength=n)
        right += np.bincount(cell, each * -np.expm1(-above), minlength=n)
    if is_upper:
        part = np.minimum(right * (1.0 + off) / -np.expm1(-np.diff(edges)), mass)
        points = np.append(mass - part, 0.0) + np.append(0.0, part)
        return Atoms(edges, np.zeros(n + 1), points * (1.0 + off))
    keep = mass > 1e-300
    mass, right, low = mass[keep], right[keep], edges[:-1][keep]
    loss = low - np.log1p(-np.minimum(right / mass, 1.0 - 2.0**-20))
    error = off * np.diff(edges)[keep] + 4.0 * ROUNDING * np.abs(loss)
    return Atoms(loss, error, mass * (1.0 - off))
