"""Sensitivity of common queries under each neighbouring relation: the noise that a mechanism adds is a multiple of it.

A sensitivity is the largest distance, in the norm asked for, between the answers on two neighbouring data sets.  Noise
multipliers are noise divided by the contribution of one record: mechanisms know that replacing a record moves a sum
twice as far.  A sensitivity under replace_one counts the replacement already: noise divided by it belongs to a verb
under `add_remove`, and a verb under `replace_one` refuses a plain number that was divided by it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from fastacct.core.inputs import COUNT, POSITIVE, Cells, Domain, as_choice, as_number
from fastacct.core.relations import Relation, Replaced, as_relation
from fastacct.core.relations import sensitivity as moved_by
from fastacct.core.rounding import float_above
from fastacct.core.words import told_names
from fastacct.mechanisms.strategies import as_strategy

__all__ = ["clipped", "count", "histogram", "matrix", "mean", "sum", "top_k"]

Norm = Literal["l1", "l2", "linf"]
_NORMS: Final[tuple[Norm, ...]] = ("l1", "l2", "linf")
_ANY: Final = Domain(-1e300, 1e300)


@told_names
def count(*, neighbors: Relation = "add_remove") -> float:
    """Of the number of records with a property: 1 under every relation.

    Replacing a record changes the count by 1 at most: from having the property to not.  Zeroing one out takes it away.

    >>> count(), count(neighbors="replace_one")
    (1.0, 1.0)
    """
    return _under(as_relation(neighbors), 1.0)


@told_names
def sum(low: float, high: float, *, neighbors: Relation = "add_remove") -> float:
    """Of the sum of values in [low, high]: max(|low|, |high|), for replacing a record high - low.

    >>> sum(0.0, 5.0), sum(-1.0, 5.0, neighbors="replace_one")
    (5.0, 6.0)
    """
    relation, (low, high) = as_relation(neighbors), _interval(low, high)
    if relation == "replace_one":
        return _under(relation, float_above(Fraction(high) - Fraction(low)))
    return max(abs(low), abs(high))


@told_names
def mean(low: float, high: float, *, records: int, neighbors: Relation = "replace_one") -> float:
    """Of the mean of values in [low, high] over `records` records, of the larger of two neighbouring data sets.

    Replacing one, adding one to n - 1 records or removing one of n: at most (high - low) / n.  Zeroing one out, with
    the number of records kept: max(|low|, |high|) / n.

    >>> mean(0.0, 10.0, records=100), mean(0.0, 10.0, records=100, neighbors="remove")
    (0.1, 0.1)
    """
    low, high = _interval(low, high)
    n = as_number("records", records, COUNT)
    moved = max(abs(low), abs(high)) if as_relation(neighbors) == "zero_out" else Fraction(high) - Fraction(low)
    return _under(neighbors, float_above(Fraction(moved) / Fraction(n)))


@told_names
def histogram(*, norm: Norm = "l1", neighbors: Relation = "add_remove") -> float:
    """Of the counts of disjoint bins, each record in one: 1; replacing a record moves two bins: 2 in L1, sqrt(2) in L2.

    Zeroing a record out takes it out of its bin.

    >>> histogram(), histogram(norm="l2", neighbors="replace_one")
    (1.0, 1.4142135623730951)
    """
    return _under(neighbors, _of_ones(moved_by(as_relation(neighbors)), as_choice("norm", norm, _NORMS)))


@told_names
def clipped(
    clip: float, *, dimension: int = 1, by: Norm = "l2", norm: Norm = "l2", neighbors: Relation = "add_remove"
) -> float:
    """Of a sum of vectors clipped to `clip` in the norm `by`, measured in `norm`; twice as much for replacing a record.

    >>> clipped(1.0), clipped(1.0, dimension=4, norm="l1"), clipped(2.0, neighbors="replace_one")
    (1.0, 2.0, 4.0)
    """
    bound, d = as_number("clip", clip, POSITIVE), as_number("dimension", dimension, COUNT)
    powers = {"l1": 1.0, "l2": 0.5, "linf": 0.0}
    by, norm = as_choice("by", by, _NORMS), as_choice("norm", norm, _NORMS)
    more = max(powers[norm] - powers[by], 0.0)  # the largest L_norm in a ball of L_by: all coordinates equal, or one
    spread = d if more == 1.0 else _root_up(d) if more == 0.5 else 1.0
    return _under(neighbors, float_above(Fraction(bound) * Fraction(spread)) * moved_by(as_relation(neighbors)))


@told_names
def top_k(k: int, *, norm: Norm = "l2", neighbors: Relation = "add_remove") -> float:
    """Of the counts of many items, at most `k` of which one record has: k in L1, sqrt(k) in L2, 1 in L-infinity.

    Replacing a record may move k counts up and k others down.

    >>> top_k(4), top_k(4, norm="l1", neighbors="replace_one")
    (2.0, 8.0)
    """
    moved = as_number("k", k, COUNT) * moved_by(as_relation(neighbors))
    return _under(neighbors, _of_ones(moved, as_choice("norm", norm, _NORMS)))


@told_names
def matrix(
    strategy: ArrayLike,
    *,
    participations: int = 1,
    separation: int = 1,
    epochs: bool = False,
    steps: int | None = None,
    neighbors: Relation = "add_remove",
) -> float:
    """Of a matrix mechanism with strategy C to a record that takes part in several steps: the largest norm of C times
    its contributions, each of norm at most 1.

    Noise is added to C x: `Gaussian(noise / matrix(C, ...))` is the whole run, without amplification, adaptive where C
    is lower triangular (Denisov et al. 2022).

    **Guarantee.** Never below the truth.  Exact, where all columns have inner products of at least 0, for one
    participation, for `epochs=True`, for bands no wider than the separation, and for Toeplitz matrices whose
    coefficients do not increase (Kalinin, Lampert 2024); else a bound (Choquette-Choo et al. 2023).

    Parameters
    ----------
    strategy : 2-D array, or 1-D array of the coefficients of a lower triangular Toeplitz matrix of `steps`
    participations : int
        Of one record, at most.
    separation : int
        Steps from one participation of a record to the next one, at least; with epochs=True exactly.
    neighbors
        Replacing a record moves each contribution twice as far.

    >>> round(matrix([1.0, 0.5], steps=6, participations=3, separation=2) ** 2, 9)
    3.75
    """
    k, b = int(as_number("participations", participations, COUNT)), int(as_number("separation", separation, COUNT))
    c, most = as_strategy(strategy, steps)
    n, unit = c.shape[1], 2.0**-52
    inner = np.abs(c.T @ c) + 2.0 * len(c) * unit * (np.abs(c).T @ np.abs(c)) * (c.min() < 0.0)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    falls = np.ndim(strategy) == 1 and c.min() >= 0.0 and (np.diff(c[:, 0]) <= 0.0).all()
    if epochs or falls:
        chosen = [np.arange(start, n, b)[:k] for start in (range(n) if epochs else (0,))]
        square = max(float(inner[np.ix_(one, one)].sum()) for one in chosen)
    elif k == 1 or not inner[apart >= b].any():
        square = float(_separated(inner.diagonal()[None, :], k, b)[0])
    else:
        square = float(_separated(_separated(inner, k, b)[None, :], k, b)[0])
    value = math.sqrt(square) * most * (1.0 + (n + len(c) + 16) * unit)
    return _under(neighbors, value * moved_by(as_relation(neighbors)))


def _separated(weights: Cells, most: int, apart: int) -> Cells:
    """Of each row the largest sum of at most so many weights that are so far apart."""
    rows, n = weights.shape
    best = np.zeros((n + 1, rows))  # of the first i weights
    for _ in range(min(most, -(-n // apart))):
        found = np.zeros((n + 1, rows))
        for i in range(n):
            found[i + 1] = np.maximum(found[i], best[max(i + 1 - apart, 0)] + weights[:, i])
        best = found
    return best[n]


def _of_ones(number: float, norm: Norm) -> float:
    """The norm of a vector of so many ones."""
    return {"l1": number, "l2": _root_up(number), "linf": 1.0}[norm]


def _root_up(value: float) -> float:
    near = math.sqrt(value)
    return near if Fraction(near) ** 2 >= Fraction(value) else math.nextafter(near, math.inf)


def _under(relation: Relation, value: float) -> float:
    return Replaced(value) if relation == "replace_one" else value


def _interval(low: float, high: float) -> tuple[float, float]:
    low, high = as_number("low", low, _ANY), as_number("high", high, _ANY)
    if low > high:
        raise ValueError(f"low = {low!r} is above high = {high!r}")
    return low, high
