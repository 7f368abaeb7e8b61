"""Log-moments of a job's loss and their first two derivatives, by the compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from fastacct.core.bounds import narrowed
from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.losses.atoms import pieces_of
from fastacct.losses.loss import Apart, OutOfReachError, Pair
from fastacct.losses.mixture import mixture_of
from fastacct.losses.mixture_moments import mixture_moments
from fastacct.losses.moments import BETWEEN, moments_between
from fastacct.losses.pieces import data_moments
from fastacct.readers.contour import losses_of

if TYPE_CHECKING:
    from fastacct.mechanisms.algebra import Mechanism
    from fastacct.mechanisms.base import Count

Parts = Iterable[tuple["Mechanism", "Count"]]
"""Mechanisms that are evaluated directly (`Process.decompose`), and how often each is run."""


def moments(parts: Parts, relation: Relation, direction: Direction, s: Cells) -> Cells | None:
    """Bounds of log E_P exp(s L), its first and its second derivative, in rows: two of each; NaN where not known.

    None if not all losses are known, as mixtures or as data.  Of mechanisms that are bounds only they are those of the
    pair that stands for them.
    """
    total, size, n = np.zeros((6, s.size)), np.zeros((6, s.size)), 2.0
    for mechanism, count in parts:
        try:
            rows = _of_pair(losses_of(mechanism, relation), s, direction == "add")
        except OutOfReachError:
            return None
        if rows is None:
            return None
        rows = float(np.asarray(count)) * rows
        total, size, n = total + rows, size + np.abs(rows), n + 1.0
    return np.asarray(total + np.array([-1.0, 1.0] * 3)[:, None] * (n * ROUNDING * size))


def _of_pair(pair: Pair | None, s: Cells, is_add: bool) -> Cells | None:
    if pair is None:
        return None
    if pair.is_nothing:
        return np.zeros((6, s.size))
    if isinstance(pair, Apart):
        exponents = np.append(s, BETWEEN)
        above, below = _of_pair(pair.above, exponents, is_add), _of_pair(pair.below, exponents, is_add)
        return None if above is None or below is None else moments_between(above, below, s)
    if (own := pair.moments(s, is_add=is_add)) is not None:
        return own
    if (mixture := mixture_of(pair)) is not None:
        return mixture_moments(mixture, s, is_add=is_add)
    pieces = pieces_of(pair)
    return None if pieces is None else data_moments(pieces, s, is_add=is_add)


def at_order(own: Callable[[Cells], Cells | None], back: Callable[[Cells], Cells | None], alpha: float) -> Cells | None:
    """Rows of E_P exp((alpha - 1) L): next to 0, where alpha - 1 has few digits of alpha, as E_Q exp(-alpha (-L))."""
    if alpha >= 0.5:
        return own(np.array([alpha - 1.0]))
    rows, rows_back = own(np.array([alpha - 1.0])), back(np.array([-alpha]))
    if rows is None:
        return rows_back
    off = ROUNDING * np.abs(rows[2:4]).max()
    rows[:2] += np.array([[-off], [off]])
    if rows_back is not None:
        rows[:2, 0] = narrowed(max(rows[0, 0], rows_back[0, 0]), rows[1, 0], rows_back[1, 0])
    return rows


def divergence_bounds(parts: Parts, orders: Cells, relation: Relation) -> tuple[Cells, Cells] | None:
    """Both bounds at orders from 1 on, of the larger direction; None as above."""
    parts, a = list(parts), orders - 1.0
    lower, upper = np.full(a.shape, np.nan), np.zeros(a.shape)
    for direction in DIRECTIONS[relation]:
        if (rows := moments(parts, relation, direction, a)) is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            ends = np.where(a == 0.0, rows[2:4], rows[:2] / a)
        lower, upper = np.fmax(lower, ends[0]), np.maximum(upper, ends[1])
    lower, upper = np.nan_to_num(lower, nan=0.0, posinf=np.inf), np.nan_to_num(upper, nan=np.inf, posinf=np.inf)
    is_known = all(mechanism.tight for mechanism, _ in parts)  # else divergences may be below those of the pair
    return np.where(is_known, np.maximum(lower, 0.0) * (1.0 - 4e-16), 0.0), np.maximum(upper, 0.0) * (1.0 + 4e-16)
