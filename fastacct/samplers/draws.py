"""How many of a group of records a random batch holds, and the privacy loss of Gaussian noise on it.

How many are drawn is random, c, with a distribution that does not depend on the data:

* Poisson samples, one for all members, or several with one noise: binomial.  The members move the sum by c, so that
  P = E N(c) against Q = N(0), where they are replaced Q = E N(-c).  Other contributions of norm 1 are no worse: the
  delta of mixtures of Gaussians grows with the inner products of means of one side, and falls with those of means of
  different sides (Kahane 1985; proof: docs/algorithms/batches.md, Groups).
* m of n records without replacement (hypergeometric) or with it (binomial, m draws).  What is drawn takes the place of
  others, and the sum moves by 2 c: P = E N(2 c) against N(0) where the group is added or removed, and there are data
  sets with this pair.  A group that is replaced or zeroed out: delta is at most P[c > 0] times that of N(2 c) against
  N(0), given c > 0, at the epsilon of amplification (Balle, Barthe, Gaboardi 2018), in both directions.

Counts that hardly ever occur are rounded up to the whole group, and from below left out: the loss increases in the
output, so that delta increases where mass of P is moved to larger means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation
from fastacct.losses.divergence import mean_of, of_sampled_gaussian
from fastacct.losses.drawn import drawn
from fastacct.losses.loss import NOTHING, Apart, Pair
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.losses.panels import SMALLEST_WEIGHT, PiecesPair, sampled_pieces, symmetric_pieces
from fastacct.samplers.fixed_size import replaced_divergence

MAX_COMPONENTS: Final = 65
"""Of each side of a Gaussian mixture."""
MOST_NOISE: Final = 1e100
"""A noise multiplier as which more counts, from above: squares of more are no numbers."""
_LEFT_OVER: Final = Decimal("1e-40")
"""Probability of all counts that are taken for the whole group."""
_FEW: Final = 24
"""Members of a group of which no count is left out."""
_MOST_DRAWN: Final = 2e4
"""Expected number of members drawn, beyond which the group counts as drawn altogether."""

Parts = tuple[tuple[float, float], ...]


class Counts(NamedTuple):
    """A distribution of whole numbers as (weight, count): one that is stochastically larger, and one that is smaller,
    if any is known."""

    above: Parts
    below: Parts | None


@lru_cache(maxsize=1024)
def binomial(size: int, rate: float, records: int = 1) -> Counts:
    """Of `size` draws, each with the probability rate / records."""
    with localcontext(Context(prec=60, Emin=-(10**15), Emax=10**15)):
        q = Decimal(rate) / records
        if size * q > _MOST_DRAWN or q >= 1:
            return Counts(((1.0, float(size)),), None if q < 1 else ((1.0, float(size)),))
        odds = q / (1 - q)
        return _counts((1 - q) ** size, lambda k: (size - k) * odds / (k + 1), size)


@lru_cache(maxsize=1024)
def hypergeometric(size: int, batch: int, records: int) -> Counts:
    """Of a group of `size` of the `records`, in a batch of so many; size + batch <= records."""
    few, many = min(size, batch), max(size, batch)
    with localcontext(Context(prec=60, Emin=-(10**15), Emax=10**15)):
        if Decimal(few) * many / records > _MOST_DRAWN or few > _MOST_DRAWN:
            return Counts(((1.0, float(few)),), None)
        first = Decimal(1)
        for i in range(few):
            first *= Decimal(records - many - i) / (records - i)
        others = records - few - many
        return _counts(first, lambda k: Decimal((few - k) * (many - k)) / ((k + 1) * (others + k + 1)), few)


def _counts(first: Decimal, ratio: Callable[[int], Decimal], size: int) -> Counts:
    """Of up to `size`, from the probability of none and the ratios of that of each number to the one before."""
    smallest = Decimal(SMALLEST_WEIGHT)
    masses, beyond = _first(first, ratio, size, smallest)
    step = -(-len(masses) // 512)  # before those that matter least are merged
    parts, waiting = list[list[float]](), Decimal(0)
    for k, mass in enumerate(masses):
        waiting += mass
        if (len(masses) - 1 - k) % step == 0 and waiting >= smallest:
            parts.append([float(waiting), float(k)])
            waiting = Decimal(0)
    below = _fewer(parts, -1) if len(parts) == len(masses) else None
    if beyond + waiting > 0:
        parts.append([float(max(beyond + waiting, smallest)), float(size)])
    return Counts(_fewer(parts, 1), below)


def _fewer(parts: list[list[float]], way: int) -> Parts:
    """As many as a side of a mixture has, some merged with their next larger (1) or smaller (-1): where least is moved
    least."""
    kept = [part.copy() for part in parts[::way]]
    while len(kept) > MAX_COMPONENTS:
        least_moved = min(range(len(kept) - 1), key=lambda i: kept[i][0] * abs(kept[i + 1][1] - kept[i][1]))
        kept[least_moved + 1][0] += kept.pop(least_moved)[0]
    return tuple((weight, k) for weight, k in kept[::way])


def _first(
    first: Decimal, ratio: Callable[[int], Decimal], size: int, smallest: Decimal
) -> tuple[list[Decimal], Decimal]:
    """Probabilities of the numbers up to where little is left, and what is left."""
    least = smallest if size < _FEW else _LEFT_OVER
    masses, beyond = [first], 1 - first
    while len(masses) <= size and (beyond > least or masses[-1] > least):
        masses.append(masses[-1] * ratio(len(masses) - 1))
        beyond -= masses[-1]
    if len(masses) > size:
        return masses, Decimal(0)
    # beyond the largest mass: what the difference leaves may be all rounding
    next_one = ratio(len(masses) - 1)
    return masses, max(masses[-1] * next_one / (1 - next_one) * (1 + Decimal("1e-30")), smallest)


def _both(counts: Counts, pair: Callable[[Parts], Pair]) -> Pair:
    """The pair, if the counts are exact; else one from above and one from below."""
    if counts.below == counts.above:
        return pair(counts.above)
    return Apart(pair(counts.above), NOTHING if counts.below is None else pair(counts.below))


def contributed(noise: float, counts: Counts, relation: Relation) -> Pair:
    """Of a group whose members contribute to a sum as often as they are drawn."""

    if noise > MOST_NOISE:
        return Apart(contributed(MOST_NOISE, counts, relation), NOTHING)

    def pair(parts: Parts) -> Pair:
        q = tuple((weight, -k) for weight, k in parts) if relation == "replace_one" else ((1.0, 0.0),)
        return MixturePair(Mixture(noise, parts, q))

    return _both(counts, pair)


def _some(parts: Parts) -> tuple[Parts, float]:
    """What draws some members, and how likely it is at most."""
    some = tuple((weight, k) for weight, k in parts if k > 0.0)
    return some, min(math.fsum(weight for weight, _ in some) * (1.0 + 4e-16), 1.0)


def swapped(noise: float, counts: Counts, relation: Relation) -> Pair:
    """Of a group whose members, where they are drawn, take the places of others."""
    if relation not in ("replace_one", "zero_out"):
        return contributed(0.5 * noise, counts, "remove")
    below = contributed(noise if relation == "zero_out" else 0.5 * noise, counts, "remove")
    counted, lost = counts.above, 0.0
    if counts.below is not None and counts.below != counts.above:
        counted, lost = counts.below, counts.above[-1][0]
    some, rate = _some(counted)
    pieces = symmetric_pieces if rate < 1.0 else sampled_pieces
    shares = [(weight / rate, pieces(2.0 * k / noise, rate)) for weight, k in some]
    least = below.below if isinstance(below, Apart) else below
    return _Swapped(noise, counts, PiecesPair(drawn(shares, lost)), least)


class _Swapped(Apart):
    """Of a group that is replaced or zeroed out: how many of it are drawn is revealed from above."""

    def __init__(self, noise: float, counts: Counts, above: Pair, below: Pair) -> None:
        super().__init__(above, below)
        self._noise = noise
        self._counts = counts

    def divergence(self, orders: Cells) -> Cells:
        """The mean of those of a record that takes another one's place, at each count."""
        some, rate = _some(self._counts.above)
        removed = [of_sampled_gaussian(np.asarray(0.5 * self._noise / k), np.asarray(rate), orders) for _, k in some]
        whole = (orders - 1.0) * mean_of(orders, zip((weight / rate for weight, _ in some), removed, strict=True))
        parts = []
        for (weight, k), bound in zip(some, removed, strict=True):
            if rate < 1.0:
                beside = np.expm1(np.minimum(whole, 60.0)) * min(rate / weight, 1e100)
                bound = replaced_divergence(self._noise / k, rate, orders, bound, beside)
            parts.append((weight / rate, bound))
        return mean_of(orders, parts) * (1.0 + 1e-14)
