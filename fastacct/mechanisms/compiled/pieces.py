"""The loss of a compiled mechanism as data: values at the points of two Gauss rules in panels of its domain.

docs/algorithms/compiled.md says what is assumed, and what the errors are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.losses.pieces import NO_ATOMS, NO_PANELS, Lost, Pieces, Table
from fastacct.mechanisms.compiled.table import at_nodes, cut_evenly, locked

if TYPE_CHECKING:
    from fastacct.mechanisms.compiled.mechanism import Compiled

_PANELS: Final = 1024
_MISSED: Final = 1e-11
"""Part of a mass that these panels may miss of what the mechanism's own panels see."""
_BEYOND: Final = 1e-290
"""Mass beyond the domain where losses grow on there."""
_NOTHING: Final = -1e9
"""Log of the mass of slices where there is none."""
_EMPTY: Final = -800.0
"""Log of the weight of points where both densities are 0."""


def _log_sums(rows: Cells) -> Cells:
    """Of each row, where single terms may be below all floats."""
    most = np.maximum(rows.max(axis=1), -1e300)
    with np.errstate(divide="ignore"):
        return np.asarray(most + np.log(np.exp(rows - most[:, None]).sum(axis=1)))


def pieces_at(made: Compiled) -> Pieces | None:
    """Points and slices in direction remove.

    None where there is mass outside the domain, a loss without bound in it, something narrower than a panel, or a loss
    that falls and rises.
    """
    low, high = float(made.table.edges[0]), float(made.table.edges[-1])
    fine = cut_evenly(low, high, made.breakpoints, made.panels)
    every = np.arange(0, fine.size - 1, max(1, made.panels // _PANELS))
    first = np.unique(np.concatenate([every, np.flatnonzero(np.isin(fine[:-1], made.breakpoints))]))
    range_, seen = np.stack([made.table.low, made.table.high]), (made.table.p > 0.0) | (made.table.q > 0.0)
    if made.table.missing > 0.0 or made.table.turned().missing > 0.0 or np.isinf(range_[:, seen]).any():
        return None
    _, log_p, log_q, loss, log_size = at_nodes(made, np.append(fine[first], fine[-1]), 10, 6)
    empty = ~((log_p > -np.inf) | (log_q > -np.inf))
    if not np.isfinite(loss[~empty]).all():
        return None
    logs = np.where(empty, 0.0, np.abs(log_p) + np.abs(log_q))
    fineness, slip = 32.0 + 4.0 * (np.abs(log_size) + logs), 8.0 + 4.0 * logs
    _, fine_log_p, fine_log_q, _, fine_size = at_nodes(made, fine, 10)
    log_fine_p, log_fine_q = _log_sums(fine_log_p + fine_size), _log_sums(fine_log_q + fine_size)
    missed = 0.0
    for each, whole in ((log_p, np.exp(log_fine_p)), (log_q, np.exp(log_fine_q))):
        of_panel = np.add.reduceat(whole, first)
        off = np.abs(np.exp(each[:, :10] + log_size[:, :10]).sum(axis=1) - of_panel)
        known = of_panel > 1e-290
        part = off[known] / of_panel[known] - 2.0 * ROUNDING * fineness[:, :10].max(axis=1)[known]  # more than rounding
        missed = max(missed, float(part.max(initial=0.0)))
        if not (missed <= _MISSED and float(off.sum()) <= _MISSED):
            return None
    ends = made.evaluate(fine)[2]
    with np.errstate(invalid="ignore"):
        gap, mean = np.diff(ends), log_fine_p - log_fine_q
    seen, log_weight = np.isfinite(mean), np.where(empty, _EMPTY, log_q + log_size)
    cut = np.append(np.isin(fine[1:-1], made.breakpoints), False)
    # where there is nothing the density falls to 0: those slices count, too
    mass, mean = np.where(seen, log_fine_q, _NOTHING), np.where(seen, mean, 0.0)
    gap = np.where(np.isfinite(gap), gap, 0.0)
    slices = np.stack([mass, mean, gap, cut], axis=1)
    points = np.stack([np.where(empty, -np.inf, loss), log_weight, slip, fineness], axis=2)
    if gap.sum() < 0.0:  # kernels sort the points, which takes no time where losses rise
        slices[:, 3] = np.roll(slices[:, 3], 1)
        slices, points = slices[::-1], np.concatenate([points[::-1, 9::-1], points[::-1, :9:-1]], axis=1)
    for rule in (points[:, :10], points[:, 10:]):
        rising = np.maximum.accumulate(rule[..., 0].ravel()).reshape(rule.shape[:2])
        rising = np.maximum(rising, rising[np.isfinite(rising)].min(initial=0.0))  # before the first: nothing
        moved = np.where(np.isfinite(rule[..., 0]), rising - rule[..., 0], 0.0) / ROUNDING
        if (moved > 4.0 * rule[..., 2] + 1e4 * (1.0 + np.abs(rising))).any():
            return None
        rule[..., 0], rule[..., 2] = rising, rule[..., 2] + moved  # rounding that is in no order costs sorting
    none = NO_ATOMS, NO_PANELS
    p, q = ((0.0, 0.0 if largest < np.inf else _BEYOND) for _, largest in made.largest_loss)
    table = Table(locked(np.ascontiguousarray(points.reshape(-1, 4))), locked(np.ascontiguousarray(slices)), missed)
    return Pieces(*none, table, Lost(p, q))
