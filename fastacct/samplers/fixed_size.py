"""The privacy loss of Gaussian noise on a batch of fixed size, drawn without replacement from the records.

With rate q = batch size / records one slot of the batch holds the record with probability q, else another one; what
the slot holds moves the sum by 2 at most.  Given the rest of the batch, and by joint convexity over it:

* a record removed or added is the Poisson sample with rate q at half the noise, P = (1 - q) N(0) + q N(2) against
  Q = N(0), and there are data sets with this pair: exact for any number of steps;
* a record replaced has delta at most q delta_0(log(1 + (e^x - 1) / q)) at x >= 0, in both directions (Balle, Barthe,
  Gaboardi 2018), delta_0 that of the whole data set.  The least curve that is this for x >= 0 and its own mirror image
  is that of `SymmetricLoss`, which bounds any number of steps.  The pair above is one that occurs: a bound from below;
* a record that becomes zero keeps its slot: no worse than one replaced, no better than the Poisson sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.losses.loss import ROUNDING, Atoms, Bracket, Loss, Nodes, Pair, legendre
from fastacct.losses.mixture import Mixture, MixturePair, mixture_bracket

__all__ = ["SymmetricLoss", "poisson_replaced", "poisson_sampled", "replaced", "replaced_divergence", "zeroed"]

_LEAST: Final = 1e-299
_POINTS: Final = 24
"""Of a panel: with ellipses of sum of half-axes 4 the rule is off by 4^-48 of the largest value."""
_MOST_PANELS: Final = 1 << 15
_REACH: Final = 12.0
"""Standard deviations, beyond which lies less than 1e-32."""


class SymmetricLoss(Loss):
    """The losses above 0 of `base`, their mirror images, and an atom at 0 with what is left.

    A node of the base with loss x > 0 and mass m under P has m e^-x under Q: the mirror image has the loss -x, and
    masses exchanged.
    """

    base: Loss
    atom: float

    def outside(self, tail: float) -> tuple[float, float]:
        """That of the base on both sides."""
        missing, _ = self.base.outside(tail)
        return 2.0 * missing, math.inf

    def extent(self, tail: float) -> tuple[float, float]:
        """To both sides as far as the base."""
        high = max(self.base.extent(tail)[1], _LEAST)
        return -high, high

    def nodes(self, edges: Cells | None, tail: float) -> Iterator[Nodes]:
        """Those of the base in cells cut at both edges and their mirror images."""
        low, high = self.base.extent(tail)
        own = np.array([-np.inf, np.inf]) if edges is None else edges
        inner = own[np.isfinite(own)]
        cuts = np.unique(np.abs(np.append(inner, 0.0)))
        cuts = np.append(cuts[cuts < high], high + 1.0)
        right = np.clip(np.searchsorted(own, cuts[:-1], side="right") - 1, 0, own.size - 2)
        left = np.clip(np.searchsorted(own, -cuts[1:], side="right") - 1, 0, own.size - 2)
        for one in self.base.nodes(np.append(min(low, 0.0) - 1.0, cuts), tail):
            keep = (one.cell > 0) & (one.mass > 0.0)
            cell, loss, error = one.cell[keep] - 1, one.loss[keep], one.loss_error[keep]
            mass, relative = one.mass[keep], one.mass_error[keep] / one.mass[keep]
            turned = mass * np.exp(-loss)
            relative_turned = relative + error + ROUNDING * (4.0 + np.abs(loss))
            yield Nodes(right[cell], loss, error, mass, mass * relative)
            yield Nodes(left[cell], -loss, error, turned, turned * relative_turned)
        yield from Atoms(np.zeros(1), np.zeros(1), np.array([self.atom])).nodes(edges, tail)


def replaced(noise: float, rate: float) -> Pair:
    """Of one record replaced, 0 < rate < 1; both directions are alike."""
    one = Bracket(_symmetric(noise, rate), poisson_sampled(0.5 * noise, rate).remove.lower, is_apart=True)
    return Pair(one, one)


def zeroed(noise: float, rate: float) -> Pair:
    """Of one record that becomes zero, 0 < rate < 1."""
    above, below = _symmetric(noise, rate), poisson_sampled(noise, rate)
    return Pair(Bracket(above, below.remove.lower, is_apart=True), Bracket(above, below.add.lower, is_apart=True))


def poisson_sampled(noise: float, rate: float) -> Pair:
    """The Poisson-subsampled Gaussian: also the pair of a batch in which all other records contribute nothing."""
    return MixturePair(Mixture(noise, ((rate, 1.0),)))


def poisson_replaced(noise: float, rate: float) -> Pair:
    """The same, where the record is replaced."""
    rest = (1.0 - rate, 0.0)
    return MixturePair(Mixture(noise, (rest, (rate, 1.0)), (rest, (rate, -1.0))))


def _symmetric(noise: float, rate: float) -> SymmetricLoss:
    base = mixture_bracket(noise, {0.0: 1.0 - rate, 2.0: rate}, {0.0: 1.0}).upper
    # the base is cut where its loss is 0, at the output 1 but for a few ulps: what is beside it is given to the atom
    sliver = 32.0 * ROUNDING * (1.0 + 1.0 / noise)
    atom = (1.0 - rate) * math.erf(math.sqrt(0.5) / noise) * (1.0 + 8.0 * ROUNDING) + sliver
    return SymmetricLoss(
        base, atom, slack=base.slack + 32.0 * ROUNDING * rate * (1.0 + 1.0 / (noise * noise)), anchor=0.0
    )


def replaced_divergence(noise: float, rate: float, orders: Cells, removed: Cells) -> Cells:
    """Rényi divergence of `SymmetricLoss`, from above, given that of the base's pair (a record removed).

    With L the likelihood ratio of the base, 1 at x = 1, the moment is that of the base and more by the integral of
    L - L^alpha over x < 1, less by that of 1 - L^(1 - alpha) over x > 1.
    """
    found = []
    for order, value in zip(
        orders.ravel().tolist(), np.broadcast_to(removed, orders.shape).ravel().tolist(), strict=True
    ):
        more, size = _difference(noise, rate, order), (order - 1.0) * value
        if size < 1.0:
            found.append(math.log1p(max(math.expm1(size * (1.0 + 1e-15)) + more, 0.0)) / (order - 1.0))
        else:
            found.append((size + math.log1p(more * math.exp(-min(size, 700.0)))) / (order - 1.0))
    return np.array(found).reshape(orders.shape) * (1.0 + 1e-14)


def _difference(noise: float, rate: float, order: float) -> float:
    """The two integrals, from above; 1 bounds the first, and the second is not negative."""
    variance, a = noise * noise, order - 1.0
    # in the ellipses 2 |Im x| / variance is below 0.8 and below 1 / sqrt(order), |Im x| below noise, and L^order is
    # below exp(2.5) left of the first panel: the integrand is below 100 times the density's peak
    half = min(0.2 * variance, 0.5 * noise, 0.25 * variance / math.sqrt(order), 0.4 * variance / (order * rate))
    far = 1.0 + _REACH * noise
    n = math.ceil(far / (2.0 * half)) if half > 0.0 and far < 2.0 * half * _MOST_PANELS else 0
    if n == 0:
        return 1.0
    points, weights = legendre(_POINTS)
    half = 0.5 * far / n
    t = ((2.0 * np.arange(n) + 1.0)[:, None] * half + half * points).ravel()
    weight = np.tile(half * weights, n) / (noise * math.sqrt(2.0 * math.pi))
    left, right = (np.exp(-0.5 * ((1.0 + sign * t) / noise) ** 2) for sign in (-1.0, 1.0))
    below = np.log1p(rate * np.expm1(-2.0 * t / variance))
    above = np.log1p(rate * np.expm1(np.minimum(2.0 * t / variance, 700.0)))
    gained = float(np.sum(weight * left * np.exp(below) * -np.expm1(a * below)))
    lost = float(np.sum(weight * right * -np.expm1(-a * above)))
    return min(1.0, gained - lost + 1e-13 * (gained + lost) + 1e-24 / noise)
