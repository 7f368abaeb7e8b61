"""The privacy loss of a Poisson sample from that of the mechanism.

With rate q and losses l of a pair (P, Q) the sample's pair has

* remove, (1 - q) Q + q P against Q: loss log(1 + q (e^l - 1)) with mass m (q + (1 - q) e^-l), and log(1 - q) where
  only Q has mass;
* add, Q against (1 - q) Q + q P: loss -log(1 + q (e^-l - 1)) with the mass m of Q, and -log(1 - q) where only Q has
  mass.

delta' = q delta(log(1 + (e^x - 1)/q)), or (1 - (1 - q) e^x) delta(x + log(q / (1 - (1 - q) e^x))), grows with delta at
every x, so that bounds stay bounds.  For "remove" the total mass 1 is made of q P and (1 - q) Q: what the masses
m e^-l leave of 1 is what only Q has, and the atom at log(1 - q) gets it, rounded to the side asked for.  Errors of a
loss are taken into it before (both maps rise with slope at most 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.core.inputs import ROUNDING, TINY, Cells
from fastacct.core.kept import cached
from fastacct.core.relations import Relation
from fastacct.core.rounding import PADDING, at_least
from fastacct.core.work import spend
from fastacct.losses.atoms import DataPair, pieces_of
from fastacct.losses.loss import Apart, Atoms, Bracket, Loss, OutOfReachError, Pair
from fastacct.losses.pieces import Pieces, log_sample, sample_rounding

_LAST_ORDER: Final = 300
"""Largest order of the general bound; its cost grows with the square."""


def _loss(loss: Cells, rate: float, direction: str) -> tuple[Cells, Cells]:
    """Loss of the sample and a bound of its rounding error."""
    sign = 1.0 if direction == "remove" else -1.0
    value = log_sample(rate, sign * loss)
    error = ROUNDING * (sample_rounding(rate, sign * loss, 4.0 * np.abs(loss)) + 4.0 * np.abs(value))
    return sign * value, error + np.where(loss == 0.0, 0.0, 1e-323)  # subnormal products have no relative accuracy


def _sampled_atoms(base: Loss, rate: float, direction: str, side: float) -> Atoms:
    assert isinstance(base, Atoms)  # others are refused before
    keep = base.mass > 0.0
    mass, loss = base.mass[keep], base.loss[keep] + side * base.loss_error[keep]
    loss = loss + side * 2.0 * ROUNDING * np.abs(loss)
    value, error = _loss(loss, rate, direction)
    missing, infinite, end = base.infinite, 0.0, -math.log1p(-rate)
    if direction == "remove":
        (mass, missing), infinite, end = _removed(mass, loss, rate, side), rate * base.infinite, -end
        if base.infinite > 0.0:
            infinite = max(0.0, infinite * (1.0 + side * 2.0 * ROUNDING) + side * 1e-323)
    if 0.0 < missing < 1e-13 and side > 0.0 and direction == "remove" and value.size:
        mass[np.argmin(value)] += missing  # nothing but rounding, at the least loss there is: moved up to one
    elif missing > 0.0:
        value, error = np.append(value, end), np.append(error, 4.0 * ROUNDING * abs(end))
        mass = np.append(mass, missing)
    return Atoms(value, error, mass, infinite=min(infinite, 1.0))


def _removed(mass: Cells, loss: Cells, rate: float, side: float) -> tuple[Cells, float]:
    """Masses of the sample of atoms of P, with the record in it, and what of Q has no loss among them."""
    log_mass = np.log(mass)
    of_q = np.exp(np.minimum(log_mass - loss, 600.0))  # from below errors may be so large that Q has too much
    size = np.where(loss > 800.0, 0.0, np.abs(loss))  # beyond, Q has nothing, however large its relative error is
    relative = ROUNDING * (20.0 + 2.0 * size + 2.0 * np.abs(log_mass))
    mass = rate * mass + (1.0 - rate) * of_q
    total = _total(of_q * (1.0 - side * relative), side)
    missing = (1.0 - rate) * max(0.0, 1.0 - total) * (1.0 + side * 4.0 * ROUNDING)
    if side < 0.0 and total > 1.0:
        mass = mass / total
    mass = mass * (1.0 + side * (relative + 4.0 * ROUNDING))
    return np.maximum(mass + side * 1e-323, 0.0), missing  # products below 1e-307 have no relative accuracy


def _total(mass: Cells, side: float) -> float:
    """NumPy's sum, which adds in pairs, a little less or more: one without rounding takes long where sizes differ."""
    return float(np.sum(mass)) * (1.0 - side * 32.0 * ROUNDING)


class _SampledPair(DataPair):
    """A pair under Poisson sampling: theorem 11 of Zhu, Dong, Wang (2022)."""

    has_atoms = True

    def __init__(self, base: Pair, rate: float) -> None:
        self._base = base
        self._rate = rate

    def pieces(self) -> Pieces | None:
        pieces = pieces_of(self._base)
        return None if pieces is None else pieces.sampled(self._rate)

    def _made(self, one: Bracket, way: str) -> Bracket:
        upper, lower = _sampled_atoms(one.upper, self._rate, way, 1.0), _sampled_atoms(one.lower, self._rate, way, -1.0)
        return Bracket(upper, lower, is_apart=one.is_apart)

    @cached
    def remove(self) -> Bracket:
        """P against Q."""
        return self._made(self._base.remove, "remove")

    @cached
    def add(self) -> Bracket:
        """Q against P."""
        return self._made(self._base.add, "add")


def sample(pair: Pair, rate: float) -> Pair:
    """Losses of the Poisson sample with 0 < rate < 1."""
    if isinstance(pair, Apart):
        return pair.each(sample, rate)
    for base in (pair.remove.upper, pair.remove.lower, pair.add.upper, pair.add.lower):
        if not isinstance(base, Atoms):
            raise OutOfReachError(f"the sample of {type(base).__name__} is not known")
    return _SampledPair(pair, rate)


def general_bound(divergence: Callable[[Cells], Cells], rate: float, orders: Cells, whole: Cells) -> Cells:
    """Zhu and Wang 2019, theorem 5: no condition on the mechanism (factor 3), at whole orders.

    Between whole orders (alpha - 1) D is convex, and 0 at 1; D rises with the order, so that what holds at a larger one
    holds; the sample never has more than the mechanism, `whole`.
    """
    whole_orders = np.arange(2, _LAST_ORDER + 1)
    spend(1e8)
    scaled = _at_whole_orders(divergence(whole_orders.astype(np.float64)).tobytes(), rate)
    nearest = np.minimum(orders, _LAST_ORDER)
    low, high = np.floor(nearest).astype(int), np.ceil(nearest).astype(int)
    share = nearest - low
    with np.errstate(invalid="ignore"):
        chord = np.where(share > 0.0, (1.0 - share) * scaled[low] + share * scaled[high], scaled[low]) / (orders - 1.0)
    least = np.minimum.accumulate((scaled[2:] / (whole_orders - 1.0))[::-1])[::-1]
    bound = np.minimum(chord, least[np.maximum(high - 2, 0)]) * (1.0 + 10.0 * PADDING)
    return np.minimum(np.where(orders <= _LAST_ORDER, bound, np.inf), whole)


@lru_cache(maxsize=64)
def _at_whole_orders(own: bytes, rate: float) -> Cells:
    """(alpha - 1) D of the sample at 0 (not used), 1, 2, ..., of the mechanism's own at 2, 3, ..."""
    gammaln = import_extra("scipy.special", "pld").gammaln
    each, whole_orders = np.frombuffer(own), np.arange(2, _LAST_ORDER + 1)
    scaled = np.full(_LAST_ORDER + 1, np.inf)
    scaled[:2] = 0.0
    for a in whole_orders[each < np.inf]:
        j = np.arange(2, a + 1)
        log_pmf = gammaln(a + 1) - gammaln(j + 1) - gammaln(a - j + 1)
        log_pmf = log_pmf + j * math.log(rate) + (a - j) * math.log1p(-rate)
        size = (j - 1) * each[: a - 1]
        small = np.minimum(size, 100.0)  # beyond, in logarithms: a factor overflows where another one underflows
        gain = np.where(j == 2, np.expm1(small), 3.0 * np.exp(small) - 1.0)
        if size[-1] < 100.0:
            total = float(np.sum(np.exp(log_pmf) * gain))
            scaled[a] = max(math.log1p(total), TINY if size[-1] > 0.0 else 0.0)
        else:
            with np.errstate(divide="ignore"):
                terms = log_pmf + np.where(size < 100.0, np.log(gain), size + math.log(3.0))
            scaled[a] = float(np.logaddexp(0.0, terms.max() + math.log(float(np.sum(np.exp(terms - terms.max()))))))
    return scaled


def sampled_pure_epsilon(epsilon: float, rate: float, relation: Relation) -> float:
    """Pure epsilon of the sample of an epsilon-DP mechanism."""
    padded = epsilon * (1.0 + 1e-15)  # below, its rounding may be most of what changes
    if relation == "add" and rate < 1.0:
        return at_least(-math.log1p(rate * math.expm1(-padded)) * (1.0 + 2e-15 / (1.0 - rate)), min(padded, rate))
    if padded < 700.0:
        return at_least(math.log1p(rate * math.expm1(padded)) * (1.0 + 2e-15), min(padded, rate))
    return padded if rate > 0.0 else 0.0
