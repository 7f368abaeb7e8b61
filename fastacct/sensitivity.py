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

from fastacct.core.inputs import COUNT, POSITIVE, Domain, as_choice, as_number
from fastacct.core.relations import Relation, Replaced, as_relation
from fastacct.core.relations import sensitivity as moved_by
from fastacct.core.rounding import float_above

__all__ = ["clipped", "count", "histogram", "mean", "sum", "top_k"]

Norm = Literal["l1", "l2", "linf"]
_NORMS: Final[tuple[Norm, ...]] = ("l1", "l2", "linf")
_ANY: Final = Domain(-1e300, 1e300)


def count(*, neighbors: Relation = "add_remove") -> float:
    """Of the number of records with a property: 1 under every relation.

    Replacing a record changes the count by 1 at most: from having the property to not.  Zeroing one out takes it away.

    >>> count(), count(neighbors="replace_one")
    (1.0, 1.0)
    """
    return _under(as_relation(neighbors), 1.0)


def sum(low: float, high: float, *, neighbors: Relation = "add_remove") -> float:
    """Of the sum of values in [low, high]: max(|low|, |high|), for replacing a record high - low.

    >>> sum(0.0, 5.0), sum(-1.0, 5.0, neighbors="replace_one")
    (5.0, 6.0)
    """
    low, high = _interval(low, high)
    moved = float_above(Fraction(high) - Fraction(low))
    return _under(as_relation(neighbors), moved) if neighbors == "replace_one" else max(abs(low), abs(high))


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


def histogram(*, norm: Norm = "l1", neighbors: Relation = "add_remove") -> float:
    """Of the counts of disjoint bins, each record in one: 1; replacing a record moves two bins: 2 in L1, sqrt(2) in L2.

    Zeroing a record out takes it out of its bin.

    >>> histogram(), histogram(norm="l2", neighbors="replace_one")
    (1.0, 1.4142135623730951)
    """
    return _under(neighbors, _of_ones(moved_by(as_relation(neighbors)), as_choice("norm", norm, _NORMS)))


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


def top_k(k: int, *, norm: Norm = "l2", neighbors: Relation = "add_remove") -> float:
    """Of the counts of many items, at most `k` of which one record has: k in L1, sqrt(k) in L2, 1 in L-infinity.

    Replacing a record may move k counts up and k others down.

    >>> top_k(4), top_k(4, norm="l1", neighbors="replace_one")
    (2.0, 8.0)
    """
    moved = as_number("k", k, COUNT) * moved_by(as_relation(neighbors))
    return _under(neighbors, _of_ones(moved, as_choice("norm", norm, _NORMS)))


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
