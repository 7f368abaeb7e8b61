"""Random k-out graphs: with which probability every set of parties has many neighbours, and the resistance it implies.

Proofs: docs/algorithms/networks.md.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells

_UP: Final = Context(prec=30, rounding=ROUND_CEILING, Emin=-(10**15), Emax=10**15)
"""Products and quotients rounded up, of whole numbers that are exact."""
_ROUNDED: Final = 1.0 + 1e-9
"""What is added for the rounding of a few thousand sums."""


def connected_resistance(parties: int) -> float:
    """Largest diagonal entry of the pseudo-inverse of the Laplacian of any connected graph: that of a path's end."""
    return (parties - 1.0) * (2.0 * parties - 1.0) / (6.0 * parties)


@lru_cache(maxsize=64)
def kout_resistance(parties: int, honest: int, draws: int, delta: float) -> tuple[float, float]:
    """Resistance of the honest part of a random k-out graph, and the probability that it is larger, at most `delta`.

    Each of the `parties` draws `draws` others, uniformly and independently; of the edges those between the `honest`
    count, who are fixed before the graph is drawn.  The resistance bounds the diagonal of the pseudo-inverse of their
    Laplacian.  If the honest part is disconnected with a probability that may be above `delta`: (inf, that
    probability).
    """
    if honest == 1:
        return 0.0, 0.0
    sizes = range(1, honest // 2 + 1)
    apart = [_few_neighbours(parties, honest, draws, size, 0) for size in sizes]
    left = delta - _total(apart)
    if not left > 0.0:
        return math.inf, min(1.0, _total(apart))
    log_share = math.log(left / len(apart)) - 1e-6 if left / len(apart) > 0.0 else -math.inf
    most = _most_missed(parties, honest, draws, log_share)
    missed = [
        at_none if w == 0 else _few_neighbours(parties, honest, draws, size, w)
        for size, w, at_none in zip(sizes, most.tolist(), apart, strict=True)
    ]
    found = _resistance(np.minimum(most + 1, honest - np.array(sizes)), honest)
    if (failure := _total(missed)) > delta:  # by rounding alone: connectedness was certified above
        return connected_resistance(honest), _total(apart)
    return min(found, connected_resistance(honest)), failure


def _total(chances: list[Decimal]) -> float:
    """The sum, rounded up."""
    total = Decimal(0)
    for one in chances:
        total = _UP.add(total, one)
    return math.nextafter(float(total), math.inf) if total else 0.0


def _few_neighbours(parties: int, honest: int, draws: int, size: int, w: int) -> Decimal:
    """At least the probability that some set of `size` honest parties has at most w honest neighbours.

    The union bound over sets S and sets W of w others: S draws from S, W and the dishonest, all others not from S.
    """
    inside = math.comb(parties - honest + size + w - 1, draws)
    outside = math.comb(parties - 1 - size, draws)
    rest = honest - size - w
    if inside == 0 or (outside == 0 and rest > 0):
        return Decimal(0)
    every = Decimal(math.comb(parties - 1, draws))
    halves = w == 0 and 2 * size == honest  # S and its complement are then the same event
    found = _UP.plus(Decimal(math.comb(honest, size) // (2 if halves else 1)))
    for factor in (
        _UP.plus(Decimal(math.comb(honest - size, w))),
        _power(_UP.divide(Decimal(inside), every), size),
        _power(_UP.divide(Decimal(outside), every), rest),
    ):
        found = _UP.multiply(found, factor)
    return found


def _power(base: Decimal, exponent: int) -> Decimal:
    """base^exponent, rounded up."""
    found = Decimal(1)
    while exponent:
        if exponent & 1:
            found = _UP.multiply(found, base)
        base, exponent = _UP.multiply(base, base), exponent >> 1
    return found


def _most_missed(parties: int, honest: int, draws: int, log_share: float) -> NDArray[np.int64]:
    """For each size of S the largest w whose probability seems to be at most this; 0 where there is none."""
    log_factorial = np.append(0.0, np.cumsum(np.log(np.arange(1.0, parties + 1.0))))

    def log_comb(n: NDArray[np.int64], k: NDArray[np.int64] | int) -> Cells:
        inside = np.maximum(n - k, 0)
        return np.where(n < k, -np.inf, log_factorial[np.maximum(n, 0)] - log_factorial[k] - log_factorial[inside])

    every = log_comb(np.array(parties - 1), draws)
    most = np.zeros(honest // 2, dtype=np.int64)
    for size in range(1, honest // 2 + 1):
        w = np.arange(honest - size)
        stay = log_comb(parties - honest + size + w - 1, draws) - every
        avoid = log_comb(np.array(parties - 1 - size), draws) - every
        chance = log_factorial[honest] - log_factorial[size] - log_factorial[honest - size]
        chance = chance + log_comb(np.array(honest - size), w) + size * stay + (honest - size - w) * avoid
        allowed = np.flatnonzero(chance <= log_share)
        most[size - 1] = allowed[-1] if allowed.size else 0
    return most


def _resistance(neighbours: NDArray[np.int64], honest: int) -> float:
    """A bound of max_u of the (u, u) entry of the pseudo-inverse, if every set S up to a half has so many neighbours.

    Potentials of a unit current from u to all: of the edges to distinct neighbours of the s highest the j-th smallest
    drop is at most (1 - s/h)/(v - j + 1), of those to the s lowest (s/h)/(v - j + 1).
    """
    from_top, from_bottom = np.full(honest + 1, np.inf), np.full(honest + 1, np.inf)
    from_top[1] = from_bottom[1] = 0.0
    for s, v in enumerate(neighbours.tolist(), start=1):
        reached = slice(s + 1, s + v + 1)
        shares = 1.0 / np.arange(v, 0.0, -1.0)
        for drops, flow in ((from_top, 1.0 - s / honest), (from_bottom, s / honest)):
            drops[reached] = np.minimum(drops[reached], drops[s] + flow * shares)
            drops[s + 1 :] = np.minimum.accumulate(drops[:s:-1])[::-1]
    m = np.arange(1, honest + 1)
    rest = from_top[1:] + from_bottom[:0:-1]  # of those that are lower than the m-th
    with np.errstate(invalid="ignore"):
        mean = (np.cumsum(from_top[1:]) + np.where(m < honest, (honest - m) * rest, 0.0)) / honest
    return float(np.nanmin(mean)) * _ROUNDED
