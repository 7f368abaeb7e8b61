"""A privacy loss as data, the form that the kernels read: atoms, and panels on which Q's density is an exponential or
a Gaussian.

A pair (P, Q) is described by its loss under Q; that of the other direction is the same, -loss under P.  Both
distributions are counted without what only one of them has: `lost` says how much that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.record import Record
from fastacct_ext import _kernels
from fastacct_ext._kernels import Data

if TYPE_CHECKING:
    from fastacct.losses.loss import Atoms

NO_ATOMS: Final = np.zeros((0, 4))
"""Numbers of an atom: loss, log of its weight under Q, and by how many units of 2^-53 they may be off: the loss, and
the weight relative."""
NO_PANELS: Final = np.zeros((0, 12))
"""Numbers of a panel of x: ends, log of Q's density at the lower one and its slope, the sample rate, a shift, and units
of x and of the density; curvature of the density, and from where; whether it is turned: that is P's density then, and
the loss minus this one; 0, or minus the sum of x and Q's own log-ratio, where Q is a sample, too.  The loss is
log(1 - rate + rate exp(x)) + shift, less the same of Q's."""
MOST_ATOMS: Final = 1 << 15
"""Points of a lattice."""


class Lost(NamedTuple):
    """Bounds of the mass of P where Q has none, and of Q where P has none."""

    p: tuple[float, float] = (0.0, 0.0)
    q: tuple[float, float] = (0.0, 0.0)

    def flipped(self) -> Lost:
        """Of the other direction."""
        return Lost(self.q, self.p)


class Table(Record):
    """Values of functions: rows as of atoms, ten points and then six of each panel; slices, rows of log mass under Q,
    mean loss, change of the loss, and whether a breakpoint ends it; the largest relative mass that panels miss."""

    points: Cells
    slices: Cells
    missed: float = 0.0


class Pieces(Record):
    """The pair of one release, direction remove.  Rows are in increasing order of their losses."""

    atoms: Cells
    panels: Cells
    table: Table = Table(NO_ATOMS, NO_ATOMS)
    lost: Lost = Lost()
    smooth: tuple[float, ...] = (0.0,) * 4
    """Of a lattice of a loss with a Gaussian part: noise, steps, distance, window; distance 0: atoms are atoms."""
    lattice: float | None = None
    """Distance that divides all differences of losses, if any."""
    is_mirrored: bool = False
    """Whether the other direction is the same."""
    missing: float = 0.0
    """By how much masses that users give, which count as they are, miss 1."""
    parts: tuple[tuple[float, Pieces], ...] = ()
    """What it is one of, drawn with these weights in sight of everyone."""

    def proper(self) -> Pieces:
        """The pair of what both distributions have, each divided by its mass."""
        if max(self.lost.p[1], self.lost.q[1]) < 1e-250:  # nothing beside the least rounding of a row
            return self
        (p, p_off), (q, q_off) = ((0.5 * (a + b), (b - a) / (1.0 - b) / ROUNDING) for a, b in self.lost)
        absent, shift = -math.log1p(-q), math.log1p(-q) - math.log1p(-p)
        off = p_off + q_off + 4.0 * (abs(absent) + abs(shift))
        slip = 0.0 if self.is_mirrored else off  # both masses are the same then, whatever they are
        atoms, panels = self.atoms.copy(), self.panels.copy()
        atoms[:, 0] += shift
        atoms[:, 1] += absent
        atoms[:, 2] += slip + 2.0 * np.abs(atoms[:, 0]) * (shift != 0.0)
        atoms[:, 3] += off
        is_turned = panels[:, 10] != 0.0  # their density is P's
        panels[:, 2] += np.where(is_turned, absent + shift, absent)
        panels[:, 5] += np.where(is_turned, -shift, shift)
        panels[:, 6:8] += slip, off
        return replace(self, atoms=atoms, panels=panels, lost=Lost())

    def sampled(self, rate: float) -> Pieces:
        """Of a Poisson sample: loss log(1 - rate + rate exp(loss)) under the same Q, and log(1 - rate) where P has
        nothing."""
        atoms, panels = _sampled_rows(self.atoms, rate), self.panels.copy()
        taken, (low, high), missing = self.lost.p, self.lost.q, 0.0
        if low > 0.0:
            end, off = math.log1p(-rate), 8.0 + 0.5 * (high - low) / high / ROUNDING
            atoms = np.concatenate([[[end, math.log(0.5 * (low + high)), 8.0 * abs(end), off]], atoms])
        else:
            missing = high  # if there at all, it has at most this of both
        panels[:, 4] *= rate
        pad, table = 1.0 + 4.0 * ROUNDING, self.table
        if table.slices.size:
            slices = table.slices.copy()
            slices[:, 1] = np.logaddexp(math.log1p(-rate), table.slices[:, 1] + math.log(rate))
            apart = np.abs(table.slices[:, 2])  # L' grows with the loss: its least is at the lower end
            slices[:, 2] *= 1.0 / (1.0 + (1.0 - rate) / rate * np.exp(np.minimum(apart - table.slices[:, 1], 700.0)))
            table = Table(_sampled_rows(table.points, rate), slices, table.missed)
        quantum = 2.0 * math.ulp(0.0)  # what products below 1e-307 round, at most
        low, high = max(0.0, rate * taken[0] / pad - quantum), rate * taken[1] * pad + quantum * (taken[1] > 0.0)
        return Pieces(atoms, panels, table, Lost((low, high + missing), (0.0, missing)), missing=self.missing)


def log_sample(rate: float, x: Cells) -> Cells:
    """log(1 - rate + rate exp(x)): the loss of a Poisson sample where that of the mechanism is x."""
    if rate == 1.0:
        return x
    far = x + math.log(rate) + np.log1p((1.0 - rate) / rate * np.exp(-np.maximum(x, 30.0)))
    grown = rate * np.expm1(np.minimum(x, 30.0))
    near = np.where(
        grown > -0.5, np.log1p(np.maximum(grown, -0.5)), np.log(1.0 - rate + rate * np.exp(np.minimum(x, 0.0)))
    )
    return np.where(x > 30.0, far, near)


def sample_rounding(rate: float, x: Cells, move: Cells) -> Cells:
    """By how many units of 2^-53 the logarithm of a sample is off, where x is off by `move`."""
    if rate == 1.0:
        return move
    value = log_sample(rate, x)
    far = np.where(x > 30.0, -4.0 * math.log(rate), 0.0)
    slope = np.exp(np.minimum(x + math.log(rate) - value, 0.0))
    return np.asarray(slope * move + 8.0 * np.minimum(np.abs(np.expm1(-value)), 1.0 + np.abs(value)) + far)


def _sampled_rows(rows: Cells, rate: float) -> Cells:
    """Points of a Poisson sample, under the same Q."""
    loss, log_weight, slip, fine = rows.T
    near, value = np.minimum(loss, 30.0), log_sample(rate, loss)
    share = rate * np.exp(near - np.log1p(rate * np.expm1(near)))
    off = 8.0 * (1.0 + np.abs(loss) + abs(math.log(rate)))  # of what is added up there
    moved = np.where(loss > 30.0, slip + off, share * slip + 8.0 * np.abs(-np.expm1(-value))) + 8.0 * np.abs(value)
    return np.stack([value, log_weight, moved + 1e-300, fine], axis=1)


def allocation_pieces(noise: float, steps: int) -> Pieces | None:
    """Of an epoch in which a record takes part in one random step: a lattice; None where it has too many points."""
    rows, results = np.empty((MOST_ATOMS, NO_ATOMS.shape[1])), np.empty(4)
    n = _kernels.allocation(noise, steps, rows, results)
    if n == 0:
        return None
    step, window, p, q = results.tolist()
    atoms = rows[:n].copy()
    atoms.flags.writeable = False
    smooth = noise, float(steps), step, window
    return Pieces(atoms, NO_PANELS, lost=Lost((0.0, p), (0.0, q)), smooth=smooth)


def atom_rows(loss: Cells, error: Cells, least: Cells, most: Cells) -> Cells:
    """Atoms from bounds of their masses under P."""
    mass = 0.5 * (least + most)
    keep = mass > 0.0
    loss, error, mass, half = loss[keep], error[keep], mass[keep], 0.5 * (most - least)[keep]
    log_weight = np.log(mass) - loss
    fine = half / mass / ROUNDING + 4.0 + 2.0 * np.abs(log_weight) + 2.0 * np.abs(loss) + error / ROUNDING
    order = np.argsort(loss, kind="stable")
    return np.stack([loss, log_weight, error / ROUNDING, fine], axis=1)[order]


def spacing_of(parts: Sequence[tuple[Pieces | Atoms, float]]) -> float:
    """A distance that divides all differences of losses of each part; 0 where none is known."""
    apart = [data.lattice or 0.0 for data, _ in parts]
    if not (least := min(apart, default=0.0)) > 0.0:
        return 0.0
    shares = [Fraction(distance / least).limit_denominator(64) for distance in apart]
    near = all(abs(float(k) * least / x - 1.0) < 1e-13 for k, x in zip(shares, apart, strict=True))
    return least / math.lcm(*[share.denominator for share in shares]) if near else 0.0


def columns(parts: Sequence[tuple[Pieces, float]]) -> Data:
    """One table of all of them, and how often each, as the kernels take them."""
    data = [one for one, _ in parts]
    atoms, panels = [one.atoms for one in data], [one.panels for one in data]
    points, slices = [one.table.points for one in data], [one.table.slices for one in data]
    return Data(
        np.array([count for _, count in parts], dtype=np.float64),
        _sizes(atoms),
        _sizes(panels),
        np.concatenate([NO_ATOMS, *atoms]),
        np.concatenate([NO_PANELS, *panels]),
        _sizes(points) // np.int32(16),  # points of a panel of a table
        _sizes(slices),
        np.concatenate([NO_ATOMS, *points]),
        np.concatenate([NO_ATOMS, *slices]),
        np.array([one.table.missed for one in data], dtype=np.float64),
        np.array([one.smooth for one in data], dtype=np.float64).reshape(-1, 4),
    )


def data_moments(pieces: Pieces, s: Cells, *, is_add: bool) -> Cells:
    """Bounds of K(s) = log E_P exp(s L), of K' and of K'', in rows: two of each.  NaN: not known."""
    (_, infinite), lost = pieces.lost.flipped() if is_add else pieces.lost
    if infinite > 0.0:
        return _of_lattice(pieces, s, infinite, is_add)
    rows, off = np.empty((s.size, 6)), np.array([0.5 * (lost[0] + lost[1]), 0.5 * (lost[1] - lost[0]), pieces.missing])
    data, orders = columns([(pieces, 1.0)]), np.ascontiguousarray(s, dtype=np.float64)
    for i in range(s.size):  # one by one: nodes that are kept for the next one would decide its last bits
        _kernels.data_moments(data, is_add, off, orders[i : i + 1], rows[i : i + 1])
    return rows.T.copy()


def _of_lattice(pieces: Pieces, s: Cells, lost: float, is_add: bool) -> Cells:
    """The same from -1 to 0, of a lattice that does not have all losses: they are finite, but `lost` of their mass is
    away; K'' at 0 alone.

    With E_P exp(|L|) <= 1 + exp(1/sigma^2), either direction: of mass D, E|L| <= D x and E L^2 <= D x^2 at most, with
    x = log((1 + exp(1/sigma^2))/D) >= 2, since log, and log^2 from there, are their own concave majorants above 1.
    Of the mass D_P of P and D_Q of Q, E exp(s L) <= D_P^(1 + s) D_Q^-s (Hoelder).  Mass that is only misplaced counts
    at the farthest point, too.
    """
    rows_out, noise = np.full((6, s.size), np.nan), pieces.smooth[0]
    is_zero, inside = s == 0.0, (s > -1.0) & (s < 0.0)
    if not noise > 0.0 or not (is_zero | inside).any():
        return rows_out
    reach = float(np.abs(pieces.atoms[[0, -1], 0]).max())
    at_0 = _mean_and_variance(pieces, lost, is_add, reach)
    rows_out[:, is_zero] = at_0[:, None]
    if inside.any():
        (_, p), (_, q) = pieces.lost.flipped() if is_add else pieces.lost
        inner = s[inside]
        of_all = data_moments(replace(pieces, lost=Lost(), missing=p + q), inner, is_add=is_add)[:2]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            gone = p ** (1.0 + inner) * q**-inner + (p + q) * np.exp(np.maximum(1.0 + inner, -inner) * reach)
            k = of_all + np.log1p(np.array([[-1.0], [1.0]]) * (1.0 + 1e-12) * gone * np.exp(-of_all))
            k += np.array([[-4.0], [4.0]]) * ROUNDING * np.abs(k)
        rows_out[:2, inside] = np.where(np.isfinite(k).all(axis=0), k, np.nan)
        back = _mean_and_variance(pieces, q, not is_add, reach)
        rows_out[2:4, inside] = np.array([[-back[3]], [at_0[3]]])  # K is convex, and 0 at -1 and at 0
    return rows_out


def _mean_and_variance(pieces: Pieces, lost: float, is_add: bool, reach: float) -> Cells:
    """Rows at 0."""
    noise = pieces.smooth[0]
    far = max(math.log(2.0) + 1.0 / (noise * noise) - math.log(max(lost, 1e-300)), 2.0) + reach
    rows = data_moments(replace(pieces, lost=Lost()), np.zeros(1), is_add=is_add)[:, 0]
    mean, lost = float(np.abs(rows[2:4]).max()), max(lost, 1e-300)
    off = lost * (mean + far)
    spread = lost * (float(rows[5]) + mean * mean + far * far) + 2.0 * (mean + off) * off
    pads = np.array([0.0, 0.0, -off, off, -spread, spread]) * (1.0 + 1e-12)
    return np.where(np.arange(6) < 2, 0.0, rows) + pads


def _sizes(rows: Sequence[Cells]) -> NDArray[np.int32]:
    return np.array([*map(len, rows)], dtype=np.int32)
