"""The privacy loss of Gaussian noise on a batch of fixed size, drawn without replacement from the records.

With rate q = batch size / records one slot of the batch holds the record with probability q, else another one; what
the slot holds moves the sum by 2 at most.  Given the rest of the batch, and by joint convexity over it:

* a record removed or added is the Poisson sample with rate q at half the noise, P = (1 - q) N(0) + q N(2) against
  Q = N(0), and there are data sets with this pair: exact for any number of steps;
* a record replaced has delta at most q delta_0(log(1 + (e^x - 1) / q)) at x >= 0, in both directions (Balle, Barthe,
  Gaboardi 2018), delta_0 that of the whole data set.  The least curve that is this for x >= 0 and its own mirror image
  is that of `symmetric_pieces`, which bounds any number of steps.  The pair above is one that occurs: a bound from
  below;
* a record that becomes zero keeps its slot: no worse than one replaced, no better than the Poisson sample.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import Relation, sensitivity
from fastacct.losses.loss import Apart, Pair, legendre
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.losses.panels import PiecesPair, symmetric_pieces


def replaced(noise: float, rate: float, relation: Relation) -> Pair:
    """Of one record replaced, both directions being alike, or of one that becomes zero; 0 < rate < 1."""
    below = poisson_sampled(noise / sensitivity(relation), rate)
    return Apart(PiecesPair(symmetric_pieces(2.0 / noise, rate)), below)


def poisson_sampled(noise: float, rate: float) -> Pair:
    """The Poisson-subsampled Gaussian: also the pair of a batch in which all other records contribute nothing."""
    return MixturePair(Mixture(noise, ((rate, 1.0),)))


def poisson_replaced(noise: float, rate: float) -> Pair:
    """The same, where the record is replaced."""
    absent = (1.0 - rate, 0.0)
    return MixturePair(Mixture(noise, (absent, (rate, 1.0)), (absent, (rate, -1.0))))


def replaced_divergence(noise: float, rate: float, orders: Cells, removed: Cells, beside: Cells | float = 0.0) -> Cells:
    """Rényi divergence of `symmetric_pieces`, from above, given that of the base's pair (a record removed).

    With L the likelihood ratio of the base, 1 at x = 1, the moment is that of the base and more by the integral of
    L - L^alpha over x < 1, less by that of 1 - L^(1 - alpha) over x > 1.  Where the moment is added to others of 1
    and `beside`, integrals below 1e-9 of these are not taken, but bounded.
    """
    bounds = []
    for order, value, other in zip(
        *(np.broadcast_to(x, orders.shape).ravel().tolist() for x in (orders, removed, beside)), strict=True
    ):
        size = (order - 1.0) * value
        # beside it the two integrals are less than rounding
        added = _difference(noise, rate, order) if size < 37.0 and other < 1e9 else 1.0
        if size < 1.0:
            bounds.append(math.log1p(max(math.expm1(size * (1.0 + 1e-15)) + added, 0.0)) / (order - 1.0))
        else:
            bounds.append((size + math.log1p(added * math.exp(-min(size, 700.0)))) / (order - 1.0))
    return np.array(bounds).reshape(orders.shape) * (1.0 + 1e-14)


@lru_cache(maxsize=1 << 14)
def _difference(noise: float, rate: float, order: float) -> float:
    """The two integrals, from above; 1 bounds the first, and the second is not negative."""
    variance, a = noise * noise, order - 1.0
    # in the ellipses 2 |Im x| / variance is below 0.8 and below 1 / sqrt(order), |Im x| below noise, and L^order is
    # below exp(2.5) left of the first panel: the integrand is below 100 times the density's peak
    half = min(0.2 * variance, 0.5 * noise, 0.25 * variance / math.sqrt(order), 0.4 * variance / (order * rate))
    far = 1.0 + 12.0 * noise  # beyond it lies less than 1e-32
    n = math.ceil(far / (2.0 * half)) if half > 0.0 and far < 2.0 * half * 2.0**15 else 0
    if n == 0:
        return 1.0
    points, weights = legendre(24)  # with ellipses of sum of half-axes 4 the rule is off by 4^-48 of the largest value
    half = 0.5 * far / n
    t = ((2.0 * np.arange(n) + 1.0)[:, None] * half + half * points).ravel()
    weight = np.tile(half * weights, n) / (noise * math.sqrt(2.0 * math.pi))
    here, right = (np.exp(-0.5 * ((1.0 + sign * t) / noise) ** 2) for sign in (-1.0, 1.0))
    below = np.log1p(rate * np.expm1(-2.0 * t / variance))
    above = np.log1p(rate * np.expm1(np.minimum(2.0 * t / variance, 700.0)))
    gained = float(np.sum(weight * here * np.exp(below) * -np.expm1(a * below)))
    lost = float(np.sum(weight * right * -np.expm1(-a * above)))
    return min(1.0, gained - lost + 1e-13 * (gained + lost) + 1e-24 / noise)
