"""Compiled mechanisms and their Poisson samples as weighted losses on panels, for a line in the complex plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells
from fastacct.losses.loss import ROUNDING
from fastacct.mechanisms.compiled.table import at_nodes, cut_evenly

if TYPE_CHECKING:
    from fastacct.mechanisms.compiled.mechanism import Compiled

__all__ = ["NoLineError", "Nodes", "nodes_of"]

_PANELS: Final = 1024
_MISSED: Final = 1e-11
"""Part of a mass that the panels of the line may miss of what the mechanism's own panels see."""
_MOST_KEPT: Final = 16


class NoLineError(Exception):
    """The mechanism does not allow it: infinite losses, a loss that is not monotone, too few releases."""


@dataclass(frozen=True)
class Nodes:
    """One mechanism, one direction: log mass of the denominator and loss at the nodes of either rule."""

    log_mass: tuple[Cells, Cells]  # panels x points, of the rules with 6 and 10 points
    loss: tuple[Cells, Cells]
    rounding: tuple[Cells, Cells]  # of the 10 points: relative of the masses, absolute of the losses
    base: Cells  # loss of the mechanism itself, of the 10 points
    fine_mass: Cells  # log mass, mean loss and least change of the loss over each of the mechanism's own panels
    fine_loss: Cells
    gap: Cells
    cut: NDArray[np.bool_]  # whether a breakpoint is between two of them
    missed: float  # largest relative difference of a panel's mass from that of the mechanism's own panels


def nodes_of(made: Compiled, rate: float, way: int) -> Nodes:
    """Nodes of a mechanism, or of its Poisson sample; kept with the mechanism."""
    key = "nodes", rate, way
    if key not in made.kept and len(made.kept) >= _MOST_KEPT:
        made.kept.clear()
    nodes: Nodes = made.kept.get(key) or made.kept.setdefault(key, _evaluated(made, rate, way))
    return nodes


def _evaluated(made: Compiled, rate: float, way: int) -> Nodes:
    """Nodes by both Gauss rules; refused where the panels of a line miss what those of the mechanism see."""
    low, high = float(made.table.edges[0]), float(made.table.edges[-1])
    fine = cut_evenly(low, high, made.breakpoints, made.panels)
    every = np.arange(0, fine.size - 1, max(1, made.panels // _PANELS))
    first = np.unique(np.concatenate([every, np.flatnonzero(np.isin(fine[:-1], made.breakpoints))]))
    edges = np.append(fine[first], fine[-1])
    if made.table.missing() > 0.0 or made.table.turned().missing() > 0.0:
        raise NoLineError("mass outside the domain")
    masses, losses = [], []
    for size in (6, 10):
        _, log_p, log_q, loss, log_size = at_nodes(made, edges, size)
        empty = ~((log_p > -np.inf) | (log_q > -np.inf))
        if not np.isfinite(loss[~empty]).all():
            raise NoLineError("infinite losses")
        masses.append(np.where(empty, -np.inf, log_q) + log_size)
        losses.append(np.where(empty, 0.0, loss))
    logs = np.where(empty, 0.0, np.abs(log_p) + np.abs(log_q))
    of_mass, of_loss = ROUNDING * (32.0 + 4.0 * (np.abs(log_size) + logs)), ROUNDING * (8.0 + 4.0 * logs)
    _, fine_log_p, fine_log_q, _, fine_size = at_nodes(made, fine, 10)
    fine_p, fine_q = np.exp(fine_log_p + fine_size).sum(axis=1), np.exp(fine_log_q + fine_size).sum(axis=1)
    missed = 0.0
    for each, whole in ((log_p, fine_p), (log_q, fine_q)):
        of_panel = np.add.reduceat(whole, first)
        off = np.abs(np.exp(each + log_size).sum(axis=1) - of_panel)
        known = of_panel > 1e-290
        part = off[known] / of_panel[known] - 2.0 * of_mass.max(axis=1)[known]  # more than rounding
        missed = max(missed, float(part.max(initial=0.0)))
        if not (missed <= _MISSED and float(off.sum()) <= _MISSED):
            raise NoLineError("something is narrower than the panels of the line")
    ends, base = made.evaluate(fine)[2], losses[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.diff(ends)
        fine_mass, fine_loss = np.log(fine_q), np.log(fine_p) - np.log(fine_q)
    fine_loss = np.where(np.isfinite(fine_loss), fine_loss, 0.0)
    if rate < 1.0:
        with np.errstate(over="ignore"):
            share = 1.0 / (1.0 + (1.0 - rate) / rate * np.exp(-ends))
        gap = gap * np.minimum(share[1:], share[:-1])
        losses = [np.logaddexp(math.log1p(-rate), loss + math.log(rate)) for loss in losses]
        fine_loss = np.logaddexp(math.log1p(-rate), fine_loss + math.log(rate))
    if way:
        masses = [mass + loss for mass, loss in zip(masses, losses, strict=True)]
        losses = [-loss for loss in losses]
        fine_mass, fine_loss = fine_mass + fine_loss, -fine_loss
    cut = np.isin(fine[1:-1], made.breakpoints)
    for array in (*masses, *losses, of_mass, of_loss, base, fine_mass, fine_loss, gap, cut):
        array.flags.writeable = False
    return Nodes(
        (masses[0], masses[1]), (losses[0], losses[1]), (of_mass, of_loss), base, fine_mass, fine_loss, gap, cut, missed
    )
