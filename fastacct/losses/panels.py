"""Losses with densities as data: Laplace's and Gaussians', sampled or not; and their masses between losses.

Of a Gaussian x is the log of the ratio of N(mu, 1) to N(0, 1).  Under N(0, 1) it is normal with mean -mu^2/2 and
variance mu^2, and what lies further out than `_FURTHEST` standard deviations counts as an infinite loss.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.kept import cached
from fastacct.losses.atoms import DataPair, epsilon_delta
from fastacct.losses.drawn import drawn, left_out, often
from fastacct.losses.loss import LEAST_TAIL, NOTHING, Atoms, Bracket, Loss, Masses, OutOfReachError, Pair, ruled
from fastacct.losses.mixture import check_spread, normal_reach
from fastacct.losses.pieces import NO_ATOMS, Lost, Pieces, log_sample, sample_rounding

_FURTHEST: Final = 38.0
SMALLEST_WEIGHT: Final = 1e-290
"""Of what is drawn: products of smaller ones with masses would underflow."""


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
    slip, atoms = slack / ROUNDING, NO_ATOMS
    if ends is not None and min(ends) > 0.0:
        at = [(x, math.log(mass) - x) for x, mass in zip((-largest, largest), ends, strict=True)]
        atoms = np.array([[x, y, slip, (ends_off + slack) / ROUNDING + 4.0 + 2.0 * (abs(y) + abs(x))] for x, y in at])
    # the density of P at the largest loss is that of Q at the smallest
    row = [-largest, largest, math.log(peak), -0.5, 1.0, 0.0, slip, relative / ROUNDING + 4.0]
    return PiecesPair(Pieces(atoms, np.array([[*row, 0.0, 0.0, 0.0, 0.0]]), lost=Lost(lost, lost), is_mirrored=True))


@lru_cache(maxsize=256)
def laplace(scale: float) -> Pair:
    """Of noise with a scale in units of the sensitivity."""
    top = 1.0 / scale
    if top < 1e-300:  # between nothing and a little more than there is
        bracket = Bracket(epsilon_delta(1e-300, 0.0).upper, NOTHING.remove.lower)
        return Pair(bracket, bracket)
    return exponential(
        top, 0.25, (0.5 * math.exp(-top), 0.5), (4.0 + 4.0 * top) * ROUNDING, slack=2.0 * ROUNDING / scale
    )


def bounded_range(largest: float) -> Pair:
    """The dominating pair of all losses whose range is `largest`."""
    return exponential(largest, 0.5 / -math.expm1(-largest), slack=2.0 * ROUNDING * largest)


def _panel(mu: float, rate: float, low: float, *, turned: bool) -> list[float]:
    centre, peak = -0.5 * mu * mu, -math.log(mu * math.sqrt(2.0 * math.pi))
    high = mu * (_FURTHEST + 0.5 * mu)
    return [low, high, peak, 0.0, rate, 0.0, 4.0 * abs(centre), 8.0, 1.0 / (mu * mu), centre, float(turned), 0.0]


def sampled_pieces(mu: float, rate: float) -> Pieces:
    """(1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1)."""
    row = _panel(mu, rate, -mu * (_FURTHEST + 0.5 * mu), turned=False)
    return Pieces(NO_ATOMS, np.array([row]), lost=left_out())


def replaced_pieces(mu: float, rate: float) -> Pieces:
    """(1 - rate) N(0, 1) + rate N(mu, 1) against (1 - rate) N(0, 1) + rate N(-mu, 1); rate < 1."""
    low = -mu * (_FURTHEST + 1.5 * mu)
    row = _panel(mu, rate, low, turned=False)
    row[-1] = mu * mu
    return Pieces(NO_ATOMS, np.array([row]), lost=left_out(), is_mirrored=True)


def symmetric_pieces(mu: float, rate: float) -> Pieces:
    """The losses above 0 of that pair, their mirror images, and an atom at 0 with what is left; rate < 1."""
    rows = np.array([_panel(mu, rate, 0.0, turned=turned) for turned in (True, False)])
    log_weight = math.log1p(-rate) + math.log(math.erf(math.sqrt(0.125) * mu))
    atom = np.array([[0.0, log_weight, 0.0, 32.0 + 4.0 * abs(log_weight)]])
    return Pieces(atom, rows, lost=left_out(), is_mirrored=True)


class PiecesPair(DataPair):
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
    """One direction of atoms and panels."""

    pieces: Pieces
    is_add: bool

    def __post_init__(self) -> None:
        row = _Panel(*self.pieces.panels[0].tolist())
        largest = row.high if self._side(row) > 0.0 else row.low
        anchor = float(self._side(row) * row.loss(np.array(largest)))
        if self.pieces.atoms.size:
            mass, loss = self._atoms()
            anchor = float(loss[np.argmax(mass)])
        if self.pieces.atoms.size or row.curve == 0.0:
            object.__setattr__(self, "anchor", anchor)
        if row.curve == 0.0 and row.rate == 1.0:
            # both atoms; the density between them has no lattice, but any fraction of this spacing hits the atoms
            object.__setattr__(self, "lattice", row.high - row.low)

    def _atoms(self) -> tuple[Cells, Cells]:
        """Masses and losses."""
        loss, log_weight, *_ = self.pieces.atoms.T
        return np.exp(log_weight + (0.0 if self.is_add else loss)), -loss if self.is_add else loss

    def _side(self, row: _Panel) -> float:
        """1: the loss grows with x, and the density is the heavier one of both."""
        return -1.0 if (row.turned != 0.0) != self.is_add else 1.0

    @cached
    def _panels(self) -> list[_Panel]:
        return [_Panel(*row) for row in self.pieces.panels.tolist()]

    def outside(self, tail: float) -> tuple[float, float]:
        """Both tails of every Gaussian density."""
        is_curved = self._panels[0].curve > 0.0
        return (4.0 * max(tail, LEAST_TAIL), math.inf) if is_curved else (0.0, -math.inf)

    def without_rare(self, tail: float, *, is_upper: bool) -> Loss:
        """Without parts that are hardly ever drawn, whose weights P and Q share."""
        kept, gone = often(self.pieces, tail)
        if not gone:
            return self
        few = replace(drawn(kept, 0.0), is_mirrored=self.pieces.is_mirrored)
        infinite = (self.infinite + gone) * (1.0 + 16.0 * ROUNDING)  # weights are good to 8 units
        return replace(self, pieces=few, infinite=infinite if is_upper else self.infinite)

    def extent(self, tail: float) -> tuple[float, float]:
        """From the least to the largest loss."""
        ends = [self._side(row) * row.loss(np.array(row.ends(tail))) for row in self._panels]
        loss = np.concatenate([*ends, self._atoms()[1]])
        return float(loss.min()), float(loss.max())

    def masses(self, edges: Cells, tail: float, side: float) -> Masses:
        """Sums over the atoms and the panels."""
        mass, loss = self._atoms()
        *_, slip, fine = self.pieces.atoms.T * ROUNDING
        off = fine + slip + 4.0 * ROUNDING * (1.0 + np.abs(loss))
        sums = [Atoms(loss, slip, mass * np.maximum(1.0 + side * off, 0.0)).masses(edges, tail, side)]
        sums += [row.masses(edges, tail, side, self._side(row)) for row in self._panels]
        off = 1.0 + side * ROUNDING * len(sums)
        mass, excess = (np.sum(rows, axis=0) * off for rows in ([x.mass for x in sums], [x.excess for x in sums]))
        return Masses(mass, excess, max(x.slip for x in sums))

    def points(self) -> tuple[Cells, Cells]:
        """The atoms, and pieces of the panels."""
        return self._points

    @cached
    def _points(self) -> tuple[Cells, Cells]:
        mass, loss = self._atoms()
        for row in self._panels:
            a, b = row.pieces(row.breaks(0.0), 0.0)
            loss = np.concatenate([loss, self._side(row) * row.loss(0.5 * (a + b))])
            mass = np.concatenate([mass, row.sums(a, b, self._side(row))[0]])
        return loss, mass


class _Panel(NamedTuple):
    """A row of panels.  With z in standard deviations from the centre, log-ratios x are mu z - mu^2/2: Gaussian
    densities times exp(x), or exp(-x - other), are those with their mean moved by mu, or by -mu."""

    low: float
    high: float
    peak: float
    slope: float
    rate: float
    shift: float
    slip: float
    fine: float
    curve: float
    centre: float
    turned: float
    other: float

    @property
    def wide(self) -> float:
        """Standard deviation."""
        return 1.0 / math.sqrt(self.curve)

    def ends(self, tail: float) -> tuple[float, float]:
        """Of x; of a Gaussian density where it is more than `tail`."""
        if self.curve == 0.0:
            return self.low, self.high
        check_spread(self.wide)
        reach, apart = normal_reach(tail) * self.wide, self.wide**2
        back = apart if self.other > 0.0 else 0.0
        return max(self.low, self.centre - back - reach), min(self.high, self.centre + apart + reach)

    def breaks(self, tail: float) -> Cells:
        """Ends of pieces on which a rule is good, of Gaussian densities about each of their centres."""
        low, high = self.ends(tail)
        if self.curve == 0.0:
            return np.linspace(low, high, 1 << 10)
        wide, reach = self.wide, normal_reach(tail)
        steep = reach + 2.0 + wide * (2.0 if self.other > 0.0 else 1.0)
        base = wide * np.linspace(-reach, reach, math.ceil(reach * steep) + 1)
        centres = self.centre + wide * wide * np.array([-1.0 if self.other > 0.0 else 0.0, 0.0, 1.0])
        return np.unique(np.clip(np.concatenate([[low, high], *(centre + base for centre in centres)]), low, high))

    def loss(self, x: Cells) -> Cells:
        """Rising with x."""
        sampled = log_sample(self.rate, x)
        return sampled - log_sample(self.rate, -x - self.other) if self.other > 0.0 else sampled

    def _off(self, x: Cells) -> Cells:
        """Error of the loss, where x is off by a few roundings and what the row says."""
        move = self.slip + 8.0 * (np.abs(x) + abs(self.centre) * (self.curve > 0.0))
        off = 16.0 * np.abs(self.loss(x)) + sample_rounding(self.rate, x, move)
        if self.other > 0.0:
            off += sample_rounding(self.rate, -x - self.other, move + 8.0 * self.other)
        return np.asarray(ROUNDING * off)

    def place(self, loss: Cells, low: float, high: float) -> Cells:
        """x of a loss, nearly, between two ends; of a sample against another one it is the root of a quadratic."""
        rate, near = self.rate, np.minimum(loss, 300.0)
        if rate == 1.0 and not self.other:
            return np.clip(loss, low, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if not self.other:
                far = loss - math.log(rate) + np.log1p(-(1.0 - rate) * np.exp(-np.maximum(loss, 30.0)))
                least = np.log(np.maximum(np.exp(near) - (1.0 - rate), 0.0) / rate)
                x = np.log1p(np.maximum(np.expm1(near) / rate, -1.0))
                x = np.where(loss > 30.0 - math.log(rate), far, np.where(loss < -1.0, least, x))
                return np.asarray(np.clip(x, low, high))
            half, product = 0.5 * (1.0 - rate) / rate * np.expm1(near), np.exp(near - self.other)
            root = np.sqrt(half * half + product)
            x = np.where(half > 0.0, np.log(half + root), near - self.other - np.log(root - half)) + (loss - near)
            x = np.where(root > 0.0, x, 0.5 * (near - self.other))  # at loss 0, where both terms underflow
            for _ in range(3):  # small x have their digits from here
                x = np.clip(x, low, high)
                back = -x - self.other
                slope = rate * (np.exp(x - log_sample(rate, x)) + np.exp(back - log_sample(rate, back)))
                most = 1e-9 * (1.0 + np.abs(x))  # where the loss is flat, its rounding would lead far away
                x = x + np.clip(np.nan_to_num((loss - self.loss(x)) / slope), -most, most)
            return np.asarray(np.clip(x, low, high))

    def masses(self, edges: Cells, tail: float, side: float, way: float) -> Masses:
        """`way`: 1 where the loss grows with x and the density is the heavier one, -1 where neither is."""
        low, high = self.ends(tail)
        least, most = np.sort(way * self.loss(np.array([low, high]))).tolist()
        beside = 1e-6 * (1.0 + max(abs(least), abs(most)))  # further than rounding
        first = max(int(np.searchsorted(edges, least - beside)) - 1, 0)
        last = int(np.searchsorted(edges, most + beside)) + 2
        mine = self._masses(edges[first:last], (low, high), tail, side, way)
        around = first, edges.size - 1 - first - mine.mass.size
        return Masses(np.pad(mine.mass, around), np.pad(mine.excess, around), mine.slip)

    def _masses(self, edges: Cells, ends: tuple[float, float], tail: float, side: float, way: float) -> Masses:
        """The same between edges that are next to all losses, or the last ones."""
        low, high = ends
        cut, n = self.place(way * edges, low, high), edges.size - 1
        inside, missed = (cut > low) & (cut < high), self.loss(cut) - way * edges
        # what rounding puts at an end of all x misses losses, too, unless all of them are beyond it
        missed = np.where(cut <= low, -missed, np.where(cut >= high, missed, np.abs(missed)))
        slip = float((missed + self._off(cut)).max(initial=0.0))
        breaks = self.breaks(tail) if self.curve > 0.0 else np.array([low, high])
        a, b = self.pieces(np.unique(np.concatenate([cut[inside], breaks])), tail)
        mass, excess, off = self.sums(a, b, way)
        first = a if way > 0.0 else b
        cell, error = np.searchsorted(way * cut[:-1], way * 0.5 * (a + b), side="right") - 1, self._off(first)
        is_above, cell = cell >= 0, np.maximum(cell, 0)
        beyond = way * self.loss(first) - edges[cell] + side * error
        excess += (mass - excess) * -np.expm1(-np.maximum(beyond, 0.0))
        most = np.bincount(cell, minlength=n)
        off = (1.0 + side * (ROUNDING * off + error)) * (1.0 + side * ROUNDING * (16.0 + 2.0 * most[cell]))
        mass, excess = (np.asarray(np.bincount(cell, x, n), dtype=float) for x in (mass * off, excess * off * is_above))
        return Masses(mass, excess, slip)

    def pieces(self, ends: Cells, tail: float) -> tuple[Cells, Cells]:
        """Those where one of the densities has its bulk."""
        a, b = ends[:-1], ends[1:]
        if self.curve == 0.0:
            return a, b
        far = np.abs(0.5 * (a + b) - self.centre)
        near = np.minimum(far, np.abs(far - self.wide**2)) <= normal_reach(tail) * self.wide
        return a[near], b[near]

    def sums(self, a: Cells, b: Cells, way: float) -> tuple[Cells, Cells, Cells]:
        """Masses of pieces, their excess over the loss at the lower end, and their errors in roundings."""
        return self._gaussian(a, b, way) if self.curve > 0.0 else self._exponential(a, b, way)

    def _exponential(self, a: Cells, b: Cells, way: float) -> tuple[Cells, Cells, Cells]:
        """Of exp(-x/2), with integrals that are differences of exponentials; times exp(x) less exp(end), a square."""
        assert self.slope == -0.5  # of all that has two ends with losses of one size
        share, rate = -np.expm1(-0.5 * (b - a)), self.rate
        low, high = (self.peak - 0.5 * (x - self.low) for x in (a, b))
        size = 64.0 + self.fine + self.slip + 8.0 * (abs(self.peak) + np.abs(low) + np.abs(b))
        if way > 0.0:
            right = 2.0 * rate * np.exp(high + b) * share
            return 2.0 * (1.0 - rate) * np.exp(low) * share + right, right * share, size
        mass = 2.0 * np.exp(low) * share
        return mass, rate * mass * share * np.exp(b - self.loss(b)), size

    def _gaussian(self, a: Cells, b: Cells, way: float) -> tuple[Cells, Cells, Cells]:
        """Of Gaussian densities, by rules; all of their terms are positive."""
        wide, rate, n = self.wide, self.rate, a.size
        z, width = (a - self.centre) / wide, (b - a) / wide
        moved = np.array([0.0, wide, -wide][: 3 if self.other > 0.0 else 2])[:, None]
        away = np.maximum(np.abs(z - moved), np.abs(z + width - moved))
        level = way * self.loss(b if way < 0.0 else a)
        mass, excess = np.zeros(n), np.zeros(n)
        for pieces, points, weights in ruled(0.5 * width * (away.max(axis=0) + 1.0)):
            x, scale = points * (b - a)[pieces, None], (b - a)[pieces, None] * weights
            here = z[pieces, None] + x / wide
            t = x if way > 0.0 else (b - a)[pieces, None] - x
            same = np.exp(self.peak - 0.5 * here * here)
            term, rise = same, np.zeros_like(same)
            if way > 0.0 or self.other > 0.0:
                heavy = np.exp(self.peak - 0.5 * (here - way * wide) ** 2)
                term, rise = (1.0 - rate) * same + rate * heavy, heavy * -np.expm1(-t)
            if way < 0.0 or self.other > 0.0:
                rise = rise + np.exp(self.peak - 0.5 * (here + way * wide) ** 2 + level[pieces, None]) * np.expm1(t)
            mass[pieces], excess[pieces] = (scale * term).sum(axis=1), rate * (scale * rise).sum(axis=1)
        least = away.min(axis=0) + math.sqrt(-2.0 * math.log(rate)) + 1.0
        size = 64.0 + self.fine + 8.0 * (abs(self.peak) + least * least)
        size += least / wide * (self.slip + 8.0 * (np.abs(a) + np.abs(b) + abs(self.centre)))
        return mass, excess, size
