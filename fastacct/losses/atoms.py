"""Losses that are atoms: finite tables, the worst pair of (epsilon, delta)-DP; and what pairs of them are as data."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.losses.loss import NOTHING, Atoms, Bracket, Pair, refuse_where
from fastacct.losses.pieces import MOST_ATOMS, NO_PANELS, Lost, Pieces, atom_rows, spacing_of


def both(one: Bracket) -> Pair:
    """A pair that is its own mirror image."""
    return pair_of(one, one)


def pair_of(remove: Bracket, add: Bracket) -> Pair:
    """A pair; `NOTHING` where every loss is 0, exactly: beside other losses such atoms take long, and say nothing."""
    sides = [one.upper.as_atoms() for one in (remove, add)]
    if all(one and not (one.infinite or one.loss.any() or one.loss_error.any()) for one in sides):
        return NOTHING
    return Pair(remove, add)


def in_reach(largest: float, most: float = 1e5) -> None:
    """Refuse losses that no grid holds; divergences and pure guarantees answer then."""
    refuse_where(not largest <= most, f"a loss of {largest:g} is too large for a grid")


def few(count: float, what: str) -> None:
    """Refuse more atoms than are listed."""
    refuse_where(count > 1 << 19, f"{what} gives too many losses")


def atoms(
    loss: Cells, error: Cells, mass: Cells, relative: float, left_out: float = 0.0, lattice: float | None = None
) -> Bracket:
    """Atoms whose masses are good to `relative`; `left_out` bounds the mass beyond them."""
    keep = mass > 0.0
    loss, error, mass = loss[keep], error[keep], mass[keep]
    upper = Atoms(loss, error, mass * (1.0 + relative), infinite=min(1.0, left_out), lattice=lattice)
    return Bracket(upper, Atoms(loss, error, mass * (1.0 - relative), lattice=lattice))


def exact_atoms(
    loss: Cells, error: Cells, mass: Cells, infinite: Cells, lattice: float | None, ulps: float = 0.0
) -> Bracket:
    """Atoms with masses good to `ulps`, and parts of the mass of an infinite loss."""
    infinite = infinite[infinite > 0.0]
    sides = []
    for sign in (1.0, -1.0):
        bounded = math.fsum(infinite) * (1.0 + sign * 2.0 * ROUNDING * (infinite.size > 1))
        changed = mass * (1.0 + sign * ulps * ROUNDING)
        sides.append(Atoms(loss, error, changed, infinite=min(bounded, 1.0), lattice=lattice))
    return Bracket(*sides)


def everything() -> Bracket:
    """An infinite loss, always: everything is released."""
    return exact_atoms(np.zeros(0), np.zeros(0), np.zeros(0), np.ones(1), None)


def epsilon_delta(epsilon: float, delta: float) -> Bracket:
    """The pair that dominates all of (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015)."""
    if math.isinf(epsilon) or delta == 1.0:
        return everything()
    if epsilon == 0.0:
        loss, share = np.zeros(1), np.ones(1)
    else:
        loss = np.array([-epsilon, epsilon])
        share = np.array([math.exp(-epsilon), 1.0]) / (1.0 + math.exp(-epsilon))
    lattice = 2.0 * epsilon or 1.0
    return exact_atoms(loss, np.zeros_like(loss), (1.0 - delta) * share, np.array([delta]), lattice, 6.0)


def table(p: Cells, q: Cells) -> Bracket:
    """Finite distributions: the loss of outcome i is log(p[i] / q[i]), infinite where q[i] = 0 < p[i]."""
    finite = (p > 0.0) & (q > 0.0)
    loss = np.log(p[finite]) - np.log(q[finite])
    error = ROUNDING * (8.0 + 4.0 * (np.abs(np.log(p[finite])) + np.abs(np.log(q[finite]))))
    near = (p[finite] < 2.0 * q[finite]) & (q[finite] < 2.0 * p[finite])
    with np.errstate(divide="ignore"):  # of no use there
        small = np.log1p((p[finite] - q[finite]) / q[finite])
    loss, error = np.where(near, small, loss), np.where(near, 8.0 * ROUNDING * np.abs(small), error)
    return exact_atoms(loss, error, p[finite], p[(p > 0.0) & (q == 0.0)], None)


class DataPair(Pair):
    """A pair that has a form of its own as data."""

    has_atoms = False

    @abstractmethod
    def pieces(self) -> Pieces | None:
        """The data; None where there is none."""


def are_scattered(pairs: Sequence[tuple[Pair, int]]) -> bool:
    """Whether all losses are atoms, and such that a line knows no more than Chernoff's bound, or not sooner than a
    sum: more than two of one release alone, or on no lattice that all share, or thousands."""
    atoms = _atoms_of(pairs)
    most = max((one.loss.size for one, _ in atoms), default=0)
    if len(atoms) < len(pairs) or most <= 2:
        return False
    return [count for _, count in atoms] == [1] or are_many(most) or spacing_of(atoms) == 0.0


def _atoms_of(pairs: Sequence[tuple[Pair, int]]) -> list[tuple[Atoms, int]]:
    """Of those that are atoms."""
    return [(one, count) for pair, count in pairs if pair.has_atoms and (one := pair.remove.upper.as_atoms())]


def are_many(atoms: int) -> bool:
    """Whether one finite sum takes less time than a lattice of so many losses."""
    return atoms > 1 << 13


def pieces_of(pair: Pair) -> Pieces | None:
    """What a pair says of itself, or what its atoms are; kept with it; None where they are bounds only, or too many."""
    kept: dict[str, Pieces | None] = vars(pair)
    if "found" not in kept:
        own = (pair.pieces() if isinstance(pair, DataPair) else None) or _of_atoms(pair)
        kept["found"] = own if own is not None and _is_plain(own) else None
    return kept["found"]


def _of_atoms(pair: Pair) -> Pieces | None:
    """Of a pair whose sides are the same atoms with masses from above and from below."""
    remove, add = pair.remove, pair.add
    lost = Lost((remove.lower.infinite, remove.upper.infinite), (add.lower.infinite, add.upper.infinite))
    upper, lower = remove.upper.as_atoms(), remove.lower.as_atoms()
    if upper is None or lower is None or upper.loss.shape != lower.loss.shape:
        return None
    if not 0 < upper.loss.size <= MOST_ATOMS or remove.is_apart or add.is_apart:
        return None
    atoms = atom_rows(upper.loss, upper.loss_error, lower.mass, upper.mass)
    data = Pieces(atoms, NO_PANELS, lost=lost, lattice=upper.lattice, is_mirrored=pair.is_mirrored)
    if not (missing := _missing(data)) < 1e-11:  # what misses more of 1 in all is no rounding
        return None
    return replace(data, missing=missing + 8.0 * ROUNDING) if np.array_equal(upper.mass, lower.mass) else data


def _is_plain(found: Pieces) -> bool:
    """Whether its numbers are such that the kernels take them, and their products have all digits."""
    losses = found.atoms[:, 0], found.panels[:, :2], found.table.points[:, 0]
    widest = max((float(np.abs(rows).max()) for rows in losses if rows.size), default=0.0)
    most = max(found.lost.p[1], found.lost.q[1])
    is_within = most < 1.0 and 1e-150 < widest < 1e5 and found.panels[:, 4].min(initial=1.0) > 1e-150
    return bool(is_within and (found.atoms[:, 3] < 1e9).all())


def _missing(found: Pieces) -> float:
    """By how much the masses miss 1, both together."""
    loss, log_weight = found.atoms[:, 0], found.atoms[:, 1]
    q, p = float(np.exp(log_weight).sum()), float(np.exp(log_weight + loss).sum())
    off = 128.0 * ROUNDING  # of sums of NumPy: a sum without rounding takes long where sizes differ
    return abs(q + 0.5 * sum(found.lost.q) - 1.0) + abs(p + 0.5 * sum(found.lost.p) - 1.0) + off
