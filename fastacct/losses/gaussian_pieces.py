"""Losses of Gaussian noise as data: a density in x = log of the ratio of N(mu, 1) to N(0, 1), sampled or not.

Under N(0, 1) x is normal with mean -mu^2/2 and variance mu^2, and the loss of the sample is log(1 - rate + rate e^x).
What lies further out than `_REACH` standard deviations counts as an infinite loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells
from fastacct.losses.loss import ROUNDING, Atoms, Bracket, Loss, Nodes, OutOfReachError, Pair, gauss_rule
from fastacct.losses.mixture import SMALLEST_TAIL, normal_reach
from fastacct.losses.pieces import PANEL, Lost, Pieces

__all__ = ["PiecesPair", "drawn", "sampled_pieces", "symmetric_pieces"]

_REACH: Final = 38.0
_STEP: Final = 0.25
"""Of the panels of a grid's nodes, in standard deviations."""
_CHUNK: Final = 1 << 15
_MOST_WIDE: Final = 1e5


def _panel(mu: float, rate: float, low: float, *, turned: bool) -> list[float]:
    centre, peak = -0.5 * mu * mu, -math.log(mu * math.sqrt(2.0 * math.pi))
    high = mu * (_REACH + 0.5 * mu)
    return [low, high, peak, 0.0, rate, 0.0, 4.0 * abs(centre), 8.0, 1.0 / (mu * mu), centre, float(turned)]


def _gone(mass: float = 0.0) -> Lost:
    return Lost((0.0, mass + SMALLEST_TAIL), (0.0, mass + SMALLEST_TAIL))


def sampled_pieces(mu: float, rate: float) -> Pieces:
    """(1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1)."""
    row = _panel(mu, rate, -mu * (_REACH + 0.5 * mu), turned=False)
    return Pieces(np.zeros((0, 4)), np.array([row]), lost=_gone())


def symmetric_pieces(mu: float, rate: float) -> Pieces:
    """The losses above 0 of that pair, their mirror images, and an atom at 0 with what is left; rate < 1."""
    rows = np.array([_panel(mu, rate, 0.0, turned=turned) for turned in (True, False)])
    log_weight = math.log1p(-rate) + math.log(math.erf(math.sqrt(0.125) * mu))
    atom = np.array([[0.0, log_weight, 0.0, 32.0 + 4.0 * abs(log_weight)]])
    return Pieces(atom, rows, lost=_gone(), is_mirrored=True)


def drawn(parts: Sequence[tuple[float, Pieces]], lost: float) -> Pieces:
    """One of several, drawn with these weights in sight of everyone; `lost` is an infinite loss."""
    atoms, panels = [np.zeros((0, 4))], [np.zeros((0, PANEL))]
    for weight, part in parts:
        atoms.append(part.atoms + np.array([0.0, math.log(weight), 0.0, 8.0]))
        panels.append(part.panels + np.array([0.0, 0.0, math.log(weight), *[0.0] * 4, 8.0, 0.0, 0.0, 0.0]))
    is_mirrored = all(part.is_mirrored for _, part in parts)
    return Pieces(np.concatenate(atoms), np.concatenate(panels), lost=_gone(lost), is_mirrored=is_mirrored)


class PiecesPair(Pair):
    """A pair that is data."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        remove = _PiecesLoss(pieces, False, infinite=pieces.lost.p[1])
        add = remove if pieces.is_mirrored else _PiecesLoss(pieces, True, infinite=pieces.lost.q[1])
        both = [Bracket(side, side) for side in (remove, add)]
        super().__init__(both[0], both[0] if pieces.is_mirrored else both[1])

    def pieces(self) -> Pieces:
        """The data."""
        return self._pieces


class _PiecesLoss(Loss):
    """One direction of atoms and Gaussian panels, for a grid."""

    pieces: Pieces
    is_add: bool

    def __post_init__(self) -> None:
        if self.pieces.atoms.size:
            object.__setattr__(self, "anchor", 0.0)

    def outside(self, tail: float) -> tuple[float, float]:
        """Both tails of every density."""
        return 4.0 * max(tail, SMALLEST_TAIL), math.inf

    def extent(self, tail: float) -> tuple[float, float]:
        """From the least to the largest loss of a panel."""
        ends = [self._side(row) * _loss(row, np.array(_ends(row, tail))) for row in self.pieces.panels.tolist()]
        return min(float(one.min()) for one in ends), max(float(one.max()) for one in ends)

    def _side(self, row: list[float]) -> float:
        return -1.0 if (row[10] != 0.0) != self.is_add else 1.0

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """Gauss points of panels that no edge cuts, and the atoms."""
        for row in self.pieces.panels.tolist():
            yield from self._of_panel(row, np.array([-np.inf, np.inf]) if edges is None else edges, tail)
        loss, log_weight, slip, fine = self.pieces.atoms.T
        mass = np.exp(log_weight + (0.0 if self.is_add else loss)) * (1.0 + fine * ROUNDING)
        yield from Atoms(-loss if self.is_add else loss, slip * ROUNDING, mass).nodes(edges, tail)

    def _of_panel(self, row: list[float], edges: Cells, tail: float) -> Iterator[Nodes]:
        _, _, peak, _, rate, _, slip, fine, curve, centre, _ = row
        low, high = _ends(row, tail)
        side, wide = self._side(row), 1.0 / math.sqrt(curve)
        cuts = np.clip(_place(row, side * edges), low, high)
        base = np.linspace(low, high, math.ceil((high - low) / (_STEP * wide)) + 1)
        breaks = np.unique(np.concatenate([base, cuts]))
        for start in range(0, breaks.size - 1, _CHUNK):
            piece = breaks[start : start + _CHUNK + 1]
            middle, half = 0.5 * (piece[1:] + piece[:-1]), 0.5 * (piece[1:] - piece[:-1])
            points, weights = gauss_rule(float(half.max()) / wide * (1.0 + 1e-12), 40.0 + wide, 1.0)
            x = (middle[:, None] + half[:, None] * points).ravel()
            loss, away = _loss(row, x), np.abs(x - centre)
            move = slip + 8.0 * np.abs(x)
            error = ROUNDING * (move + 16.0 * np.abs(loss) + 8.0 * np.abs(np.expm1(-loss)) - 4.0 * math.log(rate))
            log_mass = peak - 0.5 * curve * away * away + (loss if side > 0.0 else 0.0)
            mass = (half[:, None] * weights).ravel() * np.exp(log_mass)
            off = ROUNDING * (fine + 16.0 + 8.0 * abs(peak) + curve * away * (6.0 * away + move)) + error
            cell = self._cells(edges, cuts, middle, side)
            yield Nodes(np.repeat(cell, points.size), side * loss, error, mass, mass * off)

    @staticmethod
    def _cells(edges: Cells, cuts: Cells, middle: Cells, side: float) -> NDArray[np.intp]:
        """Of the parts of a panel: between two edges, where these are in x."""
        if side > 0.0:
            found = np.searchsorted(cuts, middle, side="right") - 1
        else:
            found = edges.size - 1 - np.searchsorted(cuts[::-1], middle, side="right")
        return np.clip(found, 0, edges.size - 2)


def _ends(row: list[float], tail: float) -> tuple[float, float]:
    """Those of a panel where it is more than `tail`."""
    wide, centre = 1.0 / math.sqrt(row[8]), row[9]
    if not wide < _MOST_WIDE:
        raise OutOfReachError(f"the means spread over {wide:g} standard deviations; allowed: at most {_MOST_WIDE:g}")
    reach = normal_reach(tail) * wide
    return max(row[0], centre - reach), min(row[1], centre + wide * wide + reach)


def _loss(row: list[float], x: Cells) -> Cells:
    rate = row[4]
    far = x + math.log(rate) + np.log1p((1.0 - rate) / rate * np.exp(-np.maximum(x, 30.0)))
    return np.where(x > 30.0, far, np.log1p(rate * np.expm1(np.minimum(x, 30.0))))


def _place(row: list[float], loss: Cells) -> Cells:
    """Where the panel has a loss, nearly: nodes know their own."""
    rate = row[4]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(loss, 600.0)) / rate, -1.0))
    return np.where(loss > 30.0 - math.log(rate), loss - math.log(rate), near)
