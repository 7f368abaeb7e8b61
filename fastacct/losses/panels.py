"""Losses with densities as data: Laplace's and Gaussians', sampled or not; and their nodes, for a grid.

Of a Gaussian x is the log of the ratio of N(mu, 1) to N(0, 1).  Under N(0, 1) it is normal with mean -mu^2/2 and
variance mu^2, and what lies further out than `_REACH` standard deviations counts as an infinite loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import Cells
from fastacct.core.kept import cached
from fastacct.losses.atoms import epsilon_delta
from fastacct.losses.loss import NOTHING, ROUNDING, Atoms, Bracket, Loss, Nodes, OutOfReachError, Pair, gauss_rule
from fastacct.losses.mixture import SMALLEST_TAIL, normal_reach
from fastacct.losses.pieces import PANEL, Lost, Pieces, atom_rows, log_sample

_REACH: Final = 38.0
_STEP: Final = 0.25
"""Of the panels of a grid's nodes, in standard deviations."""
_CHUNK: Final = 1 << 15
_MOST_WIDE: Final = 1e5


def exponential(
    largest: float,
    peak: float,
    ends: tuple[float, float] | None = None,
    ends_off: float = 0.0,
    relative: float = 0.0,
    *,
    slack: float,
    lost: tuple[float, float] = (0.0, 0.0),
) -> PiecesPair:
    """P's density peak exp((loss - largest)/2) between -largest and largest, and atoms of masses `ends` there.

    Losses are good to `slack`, the density to `relative`, the atoms to `ends_off`; `lost` bounds what only P has.
    """
    atoms = np.zeros((0, 4))
    if ends is not None and min(ends) > 0.0:
        mass, loss = np.array(ends), np.array([-largest, largest])
        atoms = atom_rows(loss, np.full(2, slack), mass * (1.0 - ends_off), mass * (1.0 + ends_off))
    # the density of P at the largest loss is that of Q at the smallest
    row = [-largest, largest, math.log(peak), -0.5, 1.0, 0.0, slack / ROUNDING, relative / ROUNDING + 4.0]
    return PiecesPair(Pieces(atoms, np.array([[*row, 0.0, 0.0, 0.0, 0.0]]), lost=Lost(lost, lost), is_mirrored=True))


def laplace(scale: float) -> Pair:
    """Of noise with a scale in units of the sensitivity."""
    top = 1.0 / scale
    if top < 1e-300:  # between nothing and a little more than there is
        one = Bracket(epsilon_delta(1e-300, 0.0).upper, NOTHING.remove.lower)
        return Pair(one, one)
    return exponential(
        top, 0.25, (0.5 * math.exp(-top), 0.5), (4.0 + 4.0 * top) * ROUNDING, slack=2.0 * ROUNDING / scale
    )


def bounded_range(largest: float) -> Pair:
    """The dominating pair of all losses whose range is `largest`."""
    return exponential(largest, 0.5 / -math.expm1(-largest), slack=2.0 * ROUNDING * largest)


def _panel(mu: float, rate: float, low: float, *, turned: bool) -> list[float]:
    centre, peak = -0.5 * mu * mu, -math.log(mu * math.sqrt(2.0 * math.pi))
    high = mu * (_REACH + 0.5 * mu)
    return [low, high, peak, 0.0, rate, 0.0, 4.0 * abs(centre), 8.0, 1.0 / (mu * mu), centre, float(turned), 0.0]


def _gone(mass: float = 0.0) -> Lost:
    return Lost((0.0, mass + SMALLEST_TAIL), (0.0, mass + SMALLEST_TAIL))


def sampled_pieces(mu: float, rate: float) -> Pieces:
    """(1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1)."""
    row = _panel(mu, rate, -mu * (_REACH + 0.5 * mu), turned=False)
    return Pieces(np.zeros((0, 4)), np.array([row]), lost=_gone())


def replaced_pieces(mu: float, rate: float) -> Pieces:
    """(1 - rate) N(0, 1) + rate N(mu, 1) against (1 - rate) N(0, 1) + rate N(-mu, 1); rate < 1."""
    low = -mu * (_REACH + 1.5 * mu)
    row = _panel(mu, rate, low, turned=False)
    row[-1] = mu * mu
    return Pieces(np.zeros((0, 4)), np.array([row]), lost=_gone(), is_mirrored=True)


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
        panels.append(part.panels + np.array([0.0, 0.0, math.log(weight), *[0.0] * 4, 8.0, *[0.0] * 4]))
    is_mirrored = all(part.is_mirrored for _, part in parts)
    rows = np.concatenate(panels)  # those of one loss follow each other: the kernels lay nodes for their sum
    order = np.lexsort((rows[:, 0], rows[:, 4], -rows[:, 10]))
    whole = np.concatenate(atoms), rows[order]
    return Pieces(*whole, lost=_gone(lost), is_mirrored=is_mirrored, parts=tuple(parts))


def without(pieces: Pieces, most: float) -> tuple[Pieces, float]:
    """The same without parts that are hardly ever drawn, and the weight of these, at most `most`."""
    kept, gone = sorted(pieces.parts, key=lambda part: -part[0]), 0.0
    while len(kept) > 1 and gone + kept[-1][0] <= most:
        gone += kept.pop()[0]
    if not gone:
        return pieces, 0.0
    shares = [(weight / (1.0 - gone), part) for weight, part in kept]
    return replace(drawn(shares, 0.0), lost=pieces.lost), gone * (1.0 + len(pieces.parts) * ROUNDING)


class PiecesPair(Pair):
    """A pair that is data."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    def _bracket(self, is_add: bool, lost: tuple[float, float]) -> Bracket:
        if not self._pieces.panels.size:  # atoms of a lattice, which are no losses
            raise OutOfReachError("random allocation is known by its log-moments: its losses are not known one by one")
        return Bracket(*[_PiecesLoss(self._pieces, is_add, infinite=mass) for mass in (lost[1], lost[0])])

    @cached
    def remove(self) -> Bracket:
        """P against Q."""
        return self._bracket(False, self._pieces.lost.p)

    @cached
    def add(self) -> Bracket:
        """Q against P."""
        return self.remove if self._pieces.is_mirrored else self._bracket(True, self._pieces.lost.q)

    @property
    def is_mirrored(self) -> bool:
        """Whether both directions are one."""
        return self._pieces.is_mirrored

    def pieces(self) -> Pieces:
        """The data."""
        return self._pieces

    def sampled(self, rate: float) -> Pair | None:
        """Data again, but of what is a batch already."""
        return None if self._pieces.panels[:, 10:].any() else PiecesPair(self._pieces.sampled(rate))


class _PiecesLoss(Loss):
    """One direction of atoms and panels, for a grid."""

    pieces: Pieces
    is_add: bool

    def __post_init__(self) -> None:
        low, high, _, _, rate, _, _, _, curve, *_ = row = self.pieces.panels[0].tolist()
        anchor = float(self._side(row) * _loss(row, np.array(high if self._side(row) > 0.0 else low)))
        if self.pieces.atoms.size:
            mass, loss = self._atoms()
            anchor = float(loss[np.argmax(mass)])
        if self.pieces.atoms.size or curve == 0.0:
            object.__setattr__(self, "anchor", anchor)
        if curve == 0.0:  # panels are an eighth of the range or less, and the rule's ellipses 5,000 times as far
            gain = math.expm1(min(640.0 * high, 700.0)) * (rate * math.exp(min(4.0 * high, 700.0)) if rate < 1.0 else 1)
            object.__setattr__(self, "gain", gain)
        if curve == 0.0 and rate == 1.0:
            # both atoms; the density between them has no lattice, but any fraction of this spacing hits the atoms
            object.__setattr__(self, "lattice", high - low)

    def _atoms(self) -> tuple[Cells, Cells]:
        """Masses and losses."""
        loss, log_weight, *_ = self.pieces.atoms.T
        return np.exp(log_weight + (0.0 if self.is_add else loss)), -loss if self.is_add else loss

    def outside(self, tail: float) -> tuple[float, float]:
        """Both tails of every Gaussian density."""
        is_curved = self.pieces.panels[0, 8] > 0.0
        return (4.0 * max(tail, SMALLEST_TAIL), math.inf) if is_curved else (0.0, -math.inf)

    def extent(self, tail: float) -> tuple[float, float]:
        """From the least to the largest loss."""
        ends = [self._side(row) * _loss(row, np.array(_ends(row, tail))) for row in self.pieces.panels.tolist()]
        loss = np.concatenate([*ends, self._atoms()[1]])
        return float(loss.min()), float(loss.max())

    def _side(self, row: list[float]) -> float:
        return -1.0 if (row[10] != 0.0) != self.is_add else 1.0

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """Gauss points of panels that no edge cuts, and the atoms."""
        mass, loss = self._atoms()
        *_, slip, fine = self.pieces.atoms.T * ROUNDING
        off = mass * (fine + slip + 4.0 * ROUNDING * np.abs(loss))
        for one in Atoms(loss, slip, mass).nodes(edges, tail):
            yield one._replace(mass_error=off)
        for row in self.pieces.panels.tolist():
            yield from self._of_panel(row, np.array([-np.inf, np.inf]) if edges is None else edges, tail)

    def _of_panel(self, row: list[float], edges: Cells, tail: float) -> Iterator[Nodes]:
        first, _, peak, slope, rate, _, slip, fine, curve, centre, _, other = row
        side, wide = self._side(row), 1.0 / math.sqrt(curve) if curve > 0.0 else 1.0
        cuts, bends = np.clip(_place(row, side * edges), *_ends(row, tail)), (0.5, 0.0)
        breaks, beside = np.unique(np.concatenate([_breaks(row, tail), cuts])), math.inf
        if curve > 0.0:
            bends, beside = (_steep(row), 1.0), normal_reach(tail) * wide
        for start in range(0, breaks.size - 1, _CHUNK):
            piece = breaks[start : start + _CHUNK + 1]
            middle, half = 0.5 * (piece[1:] + piece[:-1]), 0.5 * (piece[1:] - piece[:-1])
            far = np.abs(middle - centre)  # of a Gaussian density there are two or three bulks
            near = np.minimum(far, np.abs(far - wide * wide)) <= beside
            middle, half = middle[near], half[near]
            if not middle.size:
                continue
            points, weights = gauss_rule(float(half.max()) / wide * (1.0 + 1e-12), *bends)
            x = (middle[:, None] + half[:, None] * points).ravel()
            loss, away, move = _loss(row, x), np.abs(x - centre), slip + 8.0 * np.abs(x)
            error = ROUNDING * (16.0 * np.abs(loss) + _rounding(rate, x, move))
            power = slope * (x - first) - 0.5 * curve * away * away
            size = 16.0 + 8.0 * abs(peak) + 12.0 * np.abs(power) + (abs(slope) + curve * away) * move
            if other > 0.0:
                power += log_sample(rate, -x - other)
                error += 2.0 * ROUNDING * _rounding(rate, -x - other, move)
            mass = (half[:, None] * weights).ravel() * np.exp(peak + power + (loss if side > 0.0 else 0.0))
            off = mass * (ROUNDING * (fine + size) + error)
            cell = self._cells(edges, cuts, middle, side)
            yield Nodes(np.repeat(cell, points.size), side * loss, error, mass, off)

    @staticmethod
    def _cells(edges: Cells, cuts: Cells, middle: Cells, side: float) -> NDArray[np.intp]:
        """Of the parts of a panel: between two edges, where these are in x."""
        if side > 0.0:
            found = np.searchsorted(cuts, middle, side="right") - 1
        else:
            found = edges.size - 1 - np.searchsorted(cuts[::-1], middle, side="right")
        return np.clip(found, 0, edges.size - 2)


def _ends(row: list[float], tail: float) -> tuple[float, float]:
    """Those of a panel, of a Gaussian density where it is more than `tail`."""
    if row[8] == 0.0:
        return row[0], row[1]
    wide, centre = 1.0 / math.sqrt(row[8]), row[9]
    if not wide < _MOST_WIDE:
        raise OutOfReachError(f"the means spread over {wide:g} standard deviations; allowed: at most {_MOST_WIDE:g}")
    reach = normal_reach(tail) * wide
    other = wide * wide if row[11] > 0.0 else 0.0
    return max(row[0], centre - other - reach), min(row[1], centre + wide * wide + reach)


def _steep(row: list[float]) -> float:
    """How far out a Gaussian density is asked for, at most, in standard deviations."""
    return 40.0 + (2.0 if row[11] > 0.0 else 1.0) / math.sqrt(row[8])


def _breaks(row: list[float], tail: float) -> Cells:
    """Ends of parts on which a rule of few points is good: of a Gaussian density about both of its centres."""
    low, high = _ends(row, tail)
    if row[8] == 0.0:
        return np.linspace(low, high, math.ceil(min(max(2.0 * (high - low), 8.0), 2.0**20)) + 1)
    wide, reach = 1.0 / math.sqrt(row[8]), normal_reach(tail)
    base = wide * np.linspace(-reach, reach, math.ceil(2.0 * reach * max(1.0 / _STEP, _steep(row) / 10.0)) + 1)
    centres = row[9] + wide * wide * np.array([-1.0 if row[11] > 0.0 else 0.0, 0.0, 1.0])
    return np.asarray(np.clip(np.concatenate([[low, high], *(centre + base for centre in centres)]), low, high))


def _rounding(rate: float, x: Cells, move: Cells) -> Cells:
    """By how many units of 2^-53 the logarithm of a sample is off, where x is off by `move`."""
    if rate == 1.0:
        return move
    value = log_sample(rate, x)
    far = np.where(x > 30.0, -4.0 * math.log(rate), 0.0)
    slope = np.exp(np.minimum(x + math.log(rate) - value, 0.0))
    return np.asarray(slope * move + 8.0 * np.abs(np.expm1(-value)) + far)


def _loss(row: list[float], x: Cells) -> Cells:
    one = log_sample(row[4], x)
    return one - log_sample(row[4], -x - row[11]) if row[11] > 0.0 else one


def _place(row: list[float], loss: Cells) -> Cells:
    """Where the panel has a loss, nearly: nodes know their own."""
    rate = row[4]
    if row[11] > 0.0:
        low, high = np.full(loss.shape, row[0]), np.full(loss.shape, row[1])
        for _ in range(60):
            middle = 0.5 * (low + high)
            is_left = _loss(row, middle) < loss
            low, high = np.where(is_left, middle, low), np.where(is_left, high, middle)
        return low
    if rate == 1.0:
        return loss
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(loss, 600.0)) / rate, -1.0))
    return np.where(loss > 30.0 - math.log(rate), loss - math.log(rate), near)
