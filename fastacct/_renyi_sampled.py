"""Rényi divergences of Poisson samples: from losses where they are known, else from divergences of the mechanism."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct._arrays import TINY, Cells
from fastacct._extras import import_extra
from fastacct._losses import has_losses, losses
from fastacct._pld_sources import ROUNDING, Atoms, OutOfReachError
from fastacct._renyi_forms import PADDING, divergence, of_atoms
from fastacct.mechanisms import Mechanism
from fastacct.sampling import Sampled

__all__ = ["general_bound"]

_MOST: Final = 300
"""Largest order of the general bound; its cost grows with the square."""
_FINER: Final = 16.0


@divergence.register(Sampled)
def _sampled(mechanism: Sampled, cell: dict[str, float], neighbors: str, orders: Cells) -> Cells:
    rate, base = cell["sample_rate"], mechanism.mechanism
    inner = {name: value for name, value in cell.items() if name != "sample_rate"}
    if rate == 0.0:
        return np.zeros(orders.shape)
    found = np.full(orders.shape, np.inf)
    if has_losses(base):
        found = _of_losses(mechanism, cell, neighbors, orders)
        if np.isfinite(found).all():
            return np.asarray(found)
    try:
        whole = divergence(base, inner, neighbors, orders)
    except TypeError:  # a mixture: no closed form
        return found
    if rate == 1.0:
        return np.asarray(np.minimum(found, whole))
    both = "add_remove" if neighbors in ("add", "remove") else neighbors  # the theorem rests on both directions
    return np.asarray(np.minimum(found, general_bound(base, inner, both, rate, orders, whole)))


def _of_losses(mechanism: Sampled, cell: dict[str, float], neighbors: str, orders: Cells) -> Cells:
    """exp((alpha - 1) loss) is convex and falls in exp(-loss): what bounds delta everywhere bounds it."""
    try:
        both = losses(mechanism, cell, neighbors)
    except OutOfReachError:
        return np.full(orders.shape, np.inf)
    value = np.zeros(orders.shape)
    if both is None:
        return value
    for side in {"remove": both[:1], "add": both[1:]}.get(neighbors, both):
        source = side.upper_source
        if isinstance(source, Atoms):
            loss, mass, infinite = source.loss + source.loss_error + source.slack, source.mass, source.infinite
        else:
            grid = side.at_spacing(side.spacing / _FINER).upper
            loss = grid.losses() + grid.slack
            loss, mass, infinite = loss + 4.0 * ROUNDING * np.abs(loss), grid.mass, grid.infinite
        if infinite > 0.0:
            return np.full(orders.shape, np.inf)
        keep = mass > 0.0
        excess = max(0.0, math.fsum(mass) - 1.0) + 4.0 * ROUNDING
        value = np.maximum(value, of_atoms(np.log(mass[keep]), loss[keep], orders) + excess / (orders - 1.0))
    return value


def general_bound(
    base: Mechanism, cell: dict[str, float], neighbors: str, rate: float, orders: Cells, whole: Cells
) -> Cells:
    """Zhu and Wang 2019, theorem 5: no condition on the mechanism (factor 3), at whole orders.

    Between whole orders (alpha - 1) D is convex, and 0 at 1; the sample never has more than the mechanism, `whole`.
    """
    gammaln = import_extra("scipy.special", "pld").gammaln

    top = int(min(max(2.0, float(np.max(np.ceil(np.minimum(orders, _MOST))))), _MOST))
    whole_orders = np.arange(2, top + 1)
    each = divergence(base, cell, neighbors, whole_orders.astype(np.float64))
    scaled = np.zeros(top + 1)  # (alpha - 1) D at 0 (not used), 1, 2, ...
    for a in whole_orders:
        j = np.arange(2, a + 1)
        log_pmf = (
            gammaln(a + 1) - gammaln(j + 1) - gammaln(a - j + 1) + j * math.log(rate) + (a - j) * math.log1p(-rate)
        )
        size = (j - 1) * each[: a - 1]
        with np.errstate(over="ignore"):
            gain = np.where(j == 2, np.expm1(size), 3.0 * np.exp(size) - 1.0)
            total = float(np.sum(np.exp(log_pmf) * gain))
        if math.isfinite(total):
            scaled[a] = max(math.log1p(total), TINY if size[-1] > 0.0 else 0.0)
        else:
            terms = log_pmf + size + math.log(3.0)
            scaled[a] = float(np.logaddexp(0.0, terms.max() + math.log(float(np.sum(np.exp(terms - terms.max()))))))
    low, high = np.floor(np.minimum(orders, top)).astype(int), np.ceil(np.minimum(orders, top)).astype(int)
    share = np.minimum(orders, top) - low
    chord = ((1.0 - share) * scaled[low] + share * scaled[high]) / (orders - 1.0)
    found = np.minimum(chord, scaled[high] / np.maximum(high - 1.0, 1.0)) * (1.0 + 10.0 * PADDING)
    return np.minimum(np.where(orders <= top, found, np.inf), whole)
