"""The privacy loss of an epoch in which each record takes part in one of its steps, drawn at random.

With t steps and noise sigma, P is the mean of N(e_i, sigma^2 I) over the t unit vectors and Q = N(0, sigma^2 I): the
pair of every such run, adaptive ones included, and attained.  Under Q the likelihood ratio is the mean of t independent
log-normal numbers; `allocation` of the kernels gives its density on a lattice.  docs/algorithms/allocation.md.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.losses.loss import NOTHING, Apart, Pair, composed
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.losses.panels import PiecesPair
from fastacct.losses.pieces import Pieces, allocation_pieces, data_moments

_LEAST, _MOST = 0.1, 1e4
"""Noise for which there is a lattice."""
_TOP_ORDER: Final = 128
"""Moments of that order at most are computed; their cost grows with the square."""


@lru_cache(maxsize=64)
def _lattice(noise: float, steps: int) -> Pieces | None:
    """None where it would have too many points."""
    is_near = steps * (450.0 + 30.0 * noise) < 1e9  # what joins round grows with their number
    return allocation_pieces(noise, steps) if _LEAST <= noise <= _MOST and is_near else None


class _Allocated(PiecesPair):
    """The lattice of an epoch; log-moments beyond those from s = -1 to 0 are those of its divergences, from above."""

    def __init__(self, pieces: Pieces, noise: float, steps: int) -> None:
        super().__init__(pieces)
        self._divergence = partial(divergence, noise, steps)

    def moments(self, s: Cells, *, is_add: bool) -> Cells:
        """From below they are K'(0) s: K is convex."""
        rows, mean = (data_moments(self.pieces(), exponents, is_add=is_add) for exponents in (s, np.zeros(1)))
        ways: tuple[Direction, Direction] = ("add", "remove") if is_add else ("remove", "add")
        above = np.where((1.0 + s) - 1.0 < s, np.nextafter(1.0 + s, np.inf), 1.0 + s)  # K rises with s > 0
        for way, beyond, order in ((ways[0], s > 0.0, above), (ways[1], s < -1.0, -s)):
            if beyond.any():
                least = np.minimum(s * mean[2], s * mean[3])[beyond]
                rows[1, beyond] = (order - 1.0)[beyond] * self._divergence(order[beyond], way) * (1.0 + 1e-15)
                rows[0, beyond] = least - 1e-15 * np.abs(least)
        return rows


def allocated(noise: float, steps: int) -> Pair:
    """Of `steps` steps with this noise multiplier; where no lattice holds them, fewer steps bound them."""
    least = min(noise, _MOST)
    for few in (steps, min(steps, 20_000)):  # fewer steps stand for more
        if (lattice := _lattice(least, few)) is not None:
            pair = _Allocated(lattice, noise=least, steps=few)
            return pair if (few, least) == (steps, noise) else Apart(pair, NOTHING)
    return Apart(MixturePair(Mixture(least, ((1.0, 1.0),))), NOTHING)


def divergence(noise: float, steps: int, orders: Cells, relation: Relation) -> Cells:
    """Rényi divergence, from above; never more than that of all steps being one."""
    whole_step = orders / (2.0 * noise * noise)
    by_way = {"remove": _removed, "add": _added}
    bounds = [by_way[way](noise, steps, orders) for way in DIRECTIONS[relation]]
    return np.asarray(np.minimum(np.maximum.reduce(bounds), whole_step * (1.0 + 1e-15)))


def _removed(noise: float, steps: int, orders: Cells) -> Cells:
    """(alpha - 1) D is convex: a chord between whole orders."""
    top = math.ceil(min(float(np.max(orders)), _TOP_ORDER))
    moment = _log_moments(noise, steps, max(2, top))
    order = np.minimum(orders, _TOP_ORDER)
    low, high = np.floor(order).astype(int), np.ceil(order).astype(int)
    chord = moment[low] + (order - low) * (moment[high] - moment[low])
    return np.where(orders <= _TOP_ORDER, chord / (orders - 1.0), np.inf)


@lru_cache(maxsize=64)
def _log_moments(noise: float, steps: int, top: int) -> Cells:
    """log E_Q of the ratio to the powers 0, 1, 2, ..., `top`, from above: powers of a series of positive terms."""
    k = np.arange(top + 1.0)
    factorial = np.array([math.lgamma(number + 1.0) for number in k])
    power = 0.5 * k * (k - 1.0) / (noise * noise) - factorial
    total = composed(power, steps, _times)
    size = np.abs(total) + factorial + k * math.log(steps)
    value = total + factorial - k * math.log(steps) + 4e-14 * (1.0 + size) * math.log2(2.0 * steps)
    value[:2] = 0.0
    value[2] = math.log1p(math.expm1(1.0 / (noise * noise)) / steps) * (1.0 + 1e-14) if noise > 0.04 else value[2]
    return np.asarray(value)


def _times(one: Cells, other: Cells) -> Cells:
    return np.array([np.logaddexp.reduce(one[: k + 1] + other[k::-1]) for k in range(len(one))])


def _added(noise: float, steps: int, orders: Cells) -> Cells:
    """By the lattice; what is right of it has a ratio above 1, whose negative powers are below 1, and the kernel bounds
    what is left of it, or says nothing."""
    if (pieces := _lattice(noise, steps)) is None:
        return np.full(orders.shape, np.inf)
    lost = pieces.lost.p[1] + pieces.lost.q[1]
    plain = Pieces(pieces.atoms, pieces.panels, smooth=pieces.smooth, missing=lost)
    upper = data_moments(plain, orders.ravel() - 1.0, is_add=True)[1].reshape(orders.shape)
    return np.asarray(np.where(np.isnan(upper), np.inf, upper + lost) / (orders - 1.0))
