"""Compiled mechanisms and their Poisson samples as weighted losses on panels, and their log-moments by two Gauss rules:
at real orders, and at those of a line in the complex plane.

docs/algorithms/compiled.md says what is assumed, and what the errors are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells
from fastacct.core.record import Record
from fastacct.losses.loss import ROUNDING
from fastacct.mechanisms.compiled.table import at_nodes, cut_evenly
from fastacct_ext import _densities
from fastacct_ext._densities import TOGETHER

if TYPE_CHECKING:
    from fastacct.mechanisms.compiled.mechanism import Compiled

__all__ = ["TOGETHER", "NoLineError", "Nodes", "Part", "Tilted", "log_moment", "log_moments", "nodes_of"]

_PANELS: Final = 1024
_MISSED: Final = 1e-11
"""Part of a mass that the panels of the line may miss of what the mechanism's own panels see."""
_MOST_KEPT: Final = 16
_NEGLIGIBLE: Final = -50.0
_VARIATION: Final = 4.0
"""How much more the density of the loss may vary than its means over panels."""
_SMOOTH: Final = 1.7
"""Largest ratio of those means from one panel to the next."""

Complex = NDArray[np.complex128]


class NoLineError(Exception):
    """The mechanism does not allow it: infinite losses, a loss that is not monotone, too few releases."""


class Nodes(Record):
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


class Part(Record):
    """One mechanism, `count` times."""

    nodes: Nodes
    count: float

    def moments(self, v: Cells, powers: int) -> list[Cells]:
        """E exp(v loss) at real points >= 1, and that of powers of the loss times it."""
        mass, loss = self.nodes.log_mass[1].ravel(), self.nodes.loss[1].ravel()
        # M >= 1 here, and a node's share is largest at an end of the range
        keep = mass + np.maximum(v.max() * loss, v.min() * loss) > _NEGLIGIBLE - 10.0
        mass, loss = mass[keep], loss[keep]
        with np.errstate(over="ignore", invalid="ignore"):
            each = np.exp(np.multiply.outer(v, loss) + mass)
            # (not by a BLAS, whose sums depend on the number of its threads)
            return [each.sum(axis=-1), *(np.einsum("ij,j->i", each, loss**power) for power in range(1, powers + 1))]


class Tilted:
    """M(c + i t) of one mechanism."""

    def __init__(self, nodes: Nodes, c: float) -> None:
        size = [mass + c * loss for mass, loss in zip(nodes.log_mass, nodes.loss, strict=True)]
        if not max(float(s.max()) for s in size) < 600.0:
            raise NoLineError("M overflows")
        whole = [np.exp(s) for s in size]
        self.value = float(whole[1].sum())
        self.c = c
        panels = whole[1].sum(axis=1)
        seen = np.maximum(panels, whole[0].sum(axis=1)) > math.exp(_NEGLIGIBLE) * self.value
        self.dropped = float(whole[1][~seen].sum() + whole[0][~seen].sum())
        self.centre = float((whole[1] * nodes.loss[1]).sum()) / self.value
        self.weights = [w[seen] for w in whole]
        self.losses = [loss[seen] - self.centre for loss in nodes.loss]
        whole_error = [float((self.weights[1] * one[seen]).sum()) for one in nodes.rounding]
        self.rounding, self.per_order = whole_error[0] + 2.0 * whole_error[1], 2.0 * whole_error[1]
        self.rounding += 2.0 * nodes.missed * self.value
        self.slope = float((self.weights[1] * np.abs(self.losses[1])).sum()) * (1.0 + 1e-6)
        self.variation = self._variation(seen, nodes)

    def _variation(self, seen: NDArray[np.bool_], nodes: Nodes) -> float:
        """Bound of the variation of the tilted density of the loss; inf where the loss is not smooth and monotone."""
        panels = np.exp(nodes.fine_mass + self.c * nodes.fine_loss)
        gap, some = nodes.gap, panels > math.exp(_NEGLIGIBLE) * self.value / panels.size
        order = nodes.base[seen].ravel()
        rising = np.diff(order) > 0.0
        if not (rising.all() or not rising.any()) or not (np.sign(gap[some]) == np.sign(gap[some][0])).all():
            return math.inf
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            density = np.where(some, panels / np.abs(gap), 0.0)
        if not np.isfinite(density).all():
            return math.inf
        high = density > 1e-2 * density.max()
        inner = high[1:] & high[:-1] & ~nodes.cut
        ratio = density[1:][inner] / density[:-1][inner]
        if ((ratio > _SMOOTH) | (ratio < 1.0 / _SMOOTH)).any():
            return math.inf
        return _VARIATION * float(np.abs(np.diff(np.concatenate([[0.0], density, [0.0]]))).sum())

    def at(self, t: float) -> float:
        """|M(c + i t)|, with its error."""
        panels = [np.empty(len(losses), dtype=np.complex128) for losses in self.losses]
        for weights, losses, out in zip(self.weights, self.losses, panels, strict=True):
            _densities.phases_at(weights, losses, t, out)
        return float(abs(panels[1].sum()) + self._error(panels, t))

    def along(self, h: float, first: int, n: int) -> tuple[Complex, Cells]:
        """M(c + i t) exp(-i t centre) at n multiples t of h, and bounds of its errors; n is a multiple of `TOGETHER`.

        exp(i t loss) is a product: of that in the middle of `TOGETHER` points, and of a few steps to either side.
        """
        panels = [np.empty((n, len(losses)), dtype=np.complex128) for losses in self.losses]
        for weights, losses, out in zip(self.weights, self.losses, panels, strict=True):
            _densities.phases_along(weights, losses, h, first, np.empty((TOGETHER + 1) * losses.size), out)
        return np.asarray(panels[1].sum(axis=-1)), self._error(panels, np.arange(first, first + n) * h)

    def _error(self, panels: list[Complex], t: float | NDArray[np.floating]) -> Cells:
        off = 10.0 * np.abs(panels[1] - panels[0]).sum(axis=-1) + self.dropped
        return np.asarray(off + self.rounding + self.per_order * (self.c + t))


def log_moment(parts: list[Part], v: Cells) -> Cells:
    """K at real points."""
    return np.asarray(np.sum([part.count * np.log(part.moments(v, 0)[0]) for part in parts], axis=0))


def log_moments(parts: list[Part], v: Cells) -> tuple[Cells, Cells, Cells]:
    """K at real points, and its first two derivatives."""
    total: Cells = np.zeros((3, v.size))
    for part in parts:
        m, first, second = part.moments(v, 2)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = first / m
            total += part.count * np.array([np.log(m), mean, second / m - mean * mean])
    return total[0], total[1], total[2]
