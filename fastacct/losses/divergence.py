"""Rényi divergences of losses, at many orders at once: of data, of mixtures, of any bracket.

Every value is an upper bound: closed forms are padded by `PADDING`, checked against 50 digits.  inf: not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np

from fastacct.core.engine import run_kernel
from fastacct.core.inputs import ROUNDING, TINY, Cells
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.core.rounding import PADDING
from fastacct.core.work import kept, spend
from fastacct.losses.atoms import pieces_of
from fastacct.losses.loss import Apart, Atoms, Bracket, OutOfReachError, Pair
from fastacct.losses.mixture import Mixture, MixturePair, lift
from fastacct.losses.mixture_moments import mixture_divergences
from fastacct.losses.pieces import data_moments
from fastacct_ext import _kernels


def unknown(orders: Cells) -> Cells:
    """inf at all orders."""
    return np.full(orders.shape, np.inf)


def of_atoms(log_mass: Cells, loss: Cells, orders: Cells) -> Cells:
    """log sum mass exp((alpha - 1) loss) / (alpha - 1) = E_P: atoms of one direction, masses adding up to 1."""
    a = orders - 1.0
    finite = np.isfinite(log_mass)
    log_mass, loss = log_mass[finite], loss[finite]
    spend(10.0 * a.size * loss.size)
    largest, mass = float(loss.max()), np.exp(log_mass)
    top = np.where(a > 0.0, a * largest, 0.0)
    is_near, value = top < 1.0, np.empty(a.shape)
    size = a[is_near][:, None] * loss
    value[is_near] = np.log1p(np.maximum(np.sum(mass * np.expm1(np.minimum(size, 1.0)), axis=-1), -1.0 + 1e-16))
    size = a[~is_near][:, None] * loss
    shift = top[~is_near]
    value[~is_near] = shift + np.log(np.sum(np.exp(log_mass + size - shift[:, None]), axis=-1))
    # rounding: of masses and losses where the first order cancels, of the top where the logarithm takes it away again
    depth = 1.0 + float(np.abs(log_mass).max())
    near_pad, far_pad = 1e-14 * float(np.abs(loss).max()) * depth, 2e-15 * (np.abs(top) + depth) / a
    return np.asarray(np.maximum(value, 0.0) / a + np.where(is_near, near_pad, far_pad))


def of_bracket(bracket: Bracket, orders: Cells) -> Cells:
    """exp((alpha - 1) loss) is convex and falls in exp(-loss): what bounds delta everywhere bounds it."""
    source = bracket.upper
    if not isinstance(source, Atoms) or source.infinite > 0.0:
        return unknown(orders)
    keep = source.mass > 0.0
    excess = max(0.0, float(source.mass.sum()) - 1.0) + 64.0 * ROUNDING  # added by pairs
    loss = (source.loss + source.loss_error)[keep]
    return of_atoms(np.log(source.mass[keep]), loss, orders) + excess / (orders - 1.0)


def of_pair(pair: Pair, orders: Cells, relation: Relation) -> Cells:
    """The larger direction of a relation; inf where the losses are too extreme for a grid."""
    if (own := pair.divergence(orders)) is not None:
        return own
    if isinstance(pair, Apart):
        pair = pair.above
    if pair.is_nothing:
        return np.zeros(orders.shape)
    if isinstance(pair, MixturePair):
        return of_mixture(pair.mixture, orders, relation)
    if (pieces := pieces_of(pair)) is not None:
        a = orders.ravel() - 1.0
        spend(a.size * (1e4 + 300.0 * len(pieces.panels) + 60.0 * len(pieces.table.points)))
        asked = DIRECTIONS[relation][: 1 if pieces.is_mirrored else 2]
        rows = [data_moments(pieces, a, is_add=direction == "add")[1] for direction in asked]
        bounds = np.asarray(np.maximum.reduce(rows) / a * (1.0 + 4.0 * ROUNDING)).reshape(orders.shape)
        bounds = np.maximum(bounds, TINY)
        if (missing := np.isnan(bounds)).any():
            bounds[missing] = _of_brackets(pair, orders[missing], relation)
        return np.asarray(bounds)
    return _of_brackets(pair, orders, relation)


def _of_brackets(pair: Pair, orders: Cells, relation: Relation) -> Cells:
    """The larger direction, by losses as atoms or on a grid."""
    try:
        sides = [pair.side(direction) for direction in DIRECTIONS[relation]]
        bounds = np.maximum.reduce([of_bracket(side, orders) for side in dict.fromkeys(sides)])
        laws = [bracket.upper for bracket in (pair.remove, pair.add)]
        atoms = [law for law in laws if isinstance(law, Atoms) and law.infinite == 0.0]
        if len(atoms) == 2:  # Bun, Steinke 2016, proposition 3.3
            largest = max(float((np.abs(law.loss) + law.loss_error).max(initial=0.0)) for law in atoms)
            bounds = np.minimum(bounds, padded(0.5 * orders * square(largest)))
        return np.asarray(bounds)
    except OutOfReachError:
        return unknown(orders)


def of_mixture(mixture: Mixture, orders: Cells, relation: Relation) -> Cells:
    """The larger direction, of Gaussian mixtures."""
    asked = DIRECTIONS[relation][: 1 if mixture.is_symmetric else 2]
    found = [_of_direction(mixture, way, np.asarray(orders, dtype=np.float64).tobytes()) for way in asked]
    return np.asarray(np.maximum.reduce(found)).reshape(orders.shape)


@kept(256)
def _of_direction(mixture: Mixture, direction: Direction, orders: bytes) -> Cells:
    """One direction, kept: other counts and relations of a mechanism begin with the same orders."""
    return mixture_divergences(mixture, np.frombuffer(orders), is_add=direction == "add")


def mean_of(orders: Cells, parts: Iterable[tuple[float, Cells]]) -> Cells:
    """Of releases of which one is made, in sight of everyone, with these weights: exp((alpha - 1) D) has their mean."""
    a, near, far = orders - 1.0, np.zeros(orders.shape), np.full(orders.shape, -np.inf)
    for weight, value in parts:
        if weight > 0.0:
            near = near + lift(weight, a * value)
            far = np.logaddexp(far, a * value + math.log(weight))
    value = np.where(far < 0.5, np.log1p(near), np.maximum(far, 0.0)) / a
    return np.asarray(value * (1.0 + 1e-14) + 1e-15 / a * (far >= 0.5))


def padded(value: Cells) -> Cells:
    """With what is added for the rounding of closed forms."""
    return value * (1.0 + PADDING)


def square(x: float) -> float:
    """x^2 from above; never 0 where something is released."""
    return max(x * x * (1.0 + 1e-15), TINY) if x > 0.0 else 0.0


def of_sampled_gaussian(noise: Cells, rate: Cells, orders: Cells) -> Cells:
    """One step of the Poisson-sampled Gaussian, by the compiled kernel."""
    kernel = partial(_kernels.rdp_upper, noise, rate, np.asarray(1.0), orders)
    (upper,), _ = run_kernel(kernel, orders.shape, 1, 1)
    return upper
