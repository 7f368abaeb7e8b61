"""Log-moments of a job's loss and their first two derivatives: of Gaussian mixtures, by the compiled kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.losses.loss import ROUNDING
from fastacct.losses.mixture_moments import mixture_moments

if TYPE_CHECKING:
    from fastacct.mechanisms.algebra import Mechanism
    from fastacct.mechanisms.base import Count

__all__ = ["least_divergences", "moments"]

Parts = Iterable[tuple["Mechanism", "Count"]]
"""Mechanisms that are evaluated directly (`Process.decompose`), and how often each is run."""


def moments(parts: Parts, relation: Relation, direction: Direction, s: Cells) -> Cells | None:
    """Bounds of log E_P exp(s L), its first and its second derivative, in rows: two of each; NaN where not known.

    None if the losses are not all those of Gaussian mixtures.
    """
    found, n = np.zeros((6, s.size)), 2.0
    for one, count in parts:
        pair = one.losses(relation)
        mixture = None if pair is None else pair.as_mixture()
        if mixture is not None:
            found += float(np.asarray(count)) * mixture_moments(mixture, s, is_add=direction == "add")
            n += 1.0
        elif pair is None or not pair.is_nothing:
            return None
    return np.asarray(found + np.array([-1.0, 1.0] * 3)[:, None] * (n * ROUNDING * np.abs(found)))


def least_divergences(parts: Parts, orders: Cells, relation: Relation) -> Cells | None:
    """Lower bounds at orders above 1, of the larger direction; None as above."""
    parts, least = list(parts), np.zeros(orders.shape)
    for direction in DIRECTIONS[relation]:
        if (known := moments(parts, relation, direction, orders - 1.0)) is None:
            return None
        least = np.fmax(least, known[0] / (orders - 1.0) * (1.0 - 4e-16))
    return least
