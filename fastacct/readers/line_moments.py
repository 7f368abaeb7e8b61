"""The log-moment of a compiled mechanism by two Gauss rules on panels: at real orders, and at those of a line.

docs/algorithms/compiled.md says what is assumed, and what the errors are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells
from fastacct.readers.line_nodes import Nodes, NoLineError

__all__ = ["TOGETHER", "Part", "Tilted", "log_moment", "log_moments"]

TOGETHER: Final = 11
"""Points of a line whose cosines are those of the one in the middle, turned."""
_NEGLIGIBLE: Final = -50.0
_VARIATION: Final = 4.0
"""How much more the density of the loss may vary than its means over panels."""
_SMOOTH: Final = 1.7
"""Largest ratio of those means from one panel to the next."""

Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class Part:
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
        panels = []
        for weights, losses in zip(self.weights, self.losses, strict=True):
            phase = t * losses
            panels.append((weights * np.cos(phase)).sum(axis=-1) + 1j * (weights * np.sin(phase)).sum(axis=-1))
        return float(abs(panels[1].sum()) + self._error(panels, t))

    def along(self, h: float, first: int, n: int) -> tuple[Complex, Cells]:
        """M(c + i t) exp(-i t centre) at n multiples t of h, and bounds of its errors; n is a multiple of `TOGETHER`.

        exp(i t loss) is a product: of that in the middle of `TOGETHER` points, and of a few steps to either side.
        """
        steps, panels = np.arange(TOGETHER // 2 + 1) * h, []
        middles = np.arange(first + TOGETHER // 2, first + n, TOGETHER) * h
        for weights, losses in zip(self.weights, self.losses, strict=True):
            phase = np.multiply.outer(middles, losses)
            far_cos, far_sin = np.cos(phase), np.sin(phase)
            phase = np.multiply.outer(steps, losses)
            near_cos, near_sin = weights * np.cos(phase), weights * np.sin(phase)
            cosines = _each(far_cos, near_cos) + 1j * _each(far_sin, near_cos)
            sines = 1j * _each(far_cos, near_sin) - _each(far_sin, near_sin)
            found = np.concatenate([(cosines - sines)[:, :0:-1], cosines + sines], axis=1)
            panels.append(found.reshape(n, -1))
        return np.asarray(panels[1].sum(axis=-1)), self._error(panels, np.arange(first, first + n) * h)

    def _error(self, panels: list[Complex], t: Any) -> Any:
        off = 10.0 * np.abs(panels[1] - panels[0]).sum(axis=-1) + self.dropped
        return off + self.rounding + self.per_order * (self.c + t)


def _each(far: Cells, near: Cells) -> Cells:
    """Products summed over the points of each panel."""
    return np.asarray(np.einsum("apn,bpn->abp", far, near))


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
