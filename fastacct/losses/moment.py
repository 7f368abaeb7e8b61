"""The log-moment K(u) = log E exp(u L) of a composition, at real u, from weighted points."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.loss import Loss

__all__ = ["Moment", "Weighted", "log_moment", "weighted"]


class Moment(NamedTuple):
    """log E exp(tilt L) over the finite losses, and its first two derivatives."""

    value: float
    mean: float
    variance: float


Weighted = tuple[int, Cells, Cells]
"""A count, losses and logarithms of masses."""


def log_moment(parts: Iterable[Weighted], tilt: float) -> Moment:
    """Log-moment of a composition at `tilt`, rounded."""
    value = mean = variance = 0.0
    for count, loss, log_mass in parts:
        exponent = tilt * loss + log_mass
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        centre = float(np.sum(weight * loss)) / total
        value += count * (top + math.log(total))
        mean += count * centre
        variance += count * float(np.sum(weight * (loss - centre) ** 2)) / total
    return Moment(value, mean, variance)


def weighted(source: Loss, count: int) -> Weighted:
    """Losses and log-masses of the nodes of a source, without a grid."""
    nodes = list(source.nodes(None, 0.0))
    loss, mass = (np.concatenate([getattr(one, name) for one in nodes]) for name in ("loss", "mass"))
    keep = mass > 0.0
    return count, loss[keep], np.log(mass[keep])
