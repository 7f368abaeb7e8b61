"""Losses that are atoms: finite tables, the worst pair of (epsilon, delta)-DP."""

from __future__ import annotations

import math

import numpy as np

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.losses.loss import NOTHING, Atoms, Bracket, OutOfReachError, Pair


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
    if not largest <= most:
        raise OutOfReachError(f"a loss of {largest:g} is too large for a grid")


def few(count: float, what: str) -> None:
    """Refuse more atoms than are listed."""
    if count > 1 << 19:
        raise OutOfReachError(f"{what} gives too many losses")


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
