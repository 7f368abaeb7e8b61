"""Mechanisms of which only a guarantee is known: pure, approximate, zero-concentrated, Rényi.

A guarantee is the caller's claim, for the neighbouring relation that is asked for: nothing is doubled for replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from fastacct.core.inputs import MAX_ORDER, NONNEGATIVE, UNIT, Cells, Domain, Reals
from fastacct.core.relations import ALL, Relation
from fastacct.core.rounding import multiplied_up
from fastacct.losses.atoms import both, epsilon_delta, in_reach
from fastacct.losses.loss import Pair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import keep_tables, parameter, plain

_ORDER: Final = Domain(1.0, MAX_ORDER, open_low=True)


class PureDP(Mechanism, relations=ALL):
    """Anything that is epsilon-DP.

    **Guarantee.** Exact for the class: randomised response dominates all of it (Kairouz, Oh, Viswanath 2015), also when
    the mechanisms are chosen adaptively.  epsilon must hold for both orders of two neighbouring data sets, also where
    "add" or "remove" alone is asked for.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.PureDP(0.1) * 100, delta=1e-6), 4)
    4.7746
    """

    epsilon: Reals = parameter(NONNEGATIVE)

    def losses(self, relation: Relation) -> Pair:
        return _worst_pair(plain(self.epsilon), 0.0)

    def pure_epsilon(self, relation: Relation) -> float:
        return plain(self.epsilon)

    def grouped(self, size: int, relation: Relation) -> Process:
        return PureDP(multiplied_up(self.epsilon, size)) * 1


class ApproxDP(Mechanism, relations=ALL):
    """Anything that is (epsilon, delta)-DP.

    **Guarantee.** Exact for the class, homogeneous or not (the dominating pair of Kairouz, Oh, Viswanath 2015 and
    Murtagh, Vadhan 2016, composed numerically).  For both orders of two neighbouring data sets, as `PureDP`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.ApproxDP(0.1, 1e-8) * 100, delta=1e-5), 3)
    4.33
    """

    epsilon: Reals = parameter(NONNEGATIVE)
    delta: Reals = parameter(UNIT)

    def losses(self, relation: Relation) -> Pair:
        return _worst_pair(plain(self.epsilon), plain(self.delta))

    def pure_epsilon(self, relation: Relation) -> float:
        return plain(self.epsilon) if self.delta == 0.0 else math.inf

    def grouped(self, size: int, relation: Relation) -> Process:
        """(size epsilon, delta (exp(size epsilon) - 1)/(exp(epsilon) - 1))."""
        epsilon, delta = np.broadcast_arrays(np.asarray(self.epsilon), np.asarray(self.delta))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            times = np.where(epsilon > 0.0, np.expm1(size * epsilon) / np.expm1(epsilon), float(size))
            total = np.nextafter(delta * times * (1.0 + 1e-14 + 1e-15 * size * epsilon), np.inf)
            found = np.where(delta > 0.0, np.minimum(total, 1.0), 0.0)
        found = np.where(np.isnan(found), 1.0, found)
        return ApproxDP(multiplied_up(epsilon, size), found) * 1


def _worst_pair(epsilon: float, delta: float) -> Pair:
    if math.isfinite(epsilon):
        in_reach(epsilon)
    return both(epsilon_delta(epsilon, delta))


class ZCDP(Mechanism, relations=ALL, tight=False):
    """Anything that is (xi, rho)-zero-concentrated: divergence at most xi + rho alpha at every order alpha > 1.

    **Guarantee.** The best conversion at a continuous order.  zCDP does not imply mu-GDP with mu = sqrt(2 rho), which
    would be smaller.  Source: Bun and Steinke 2016.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.ZCDP(rho=0.5), delta=1e-5), 3)
    4.728
    """

    rho: Reals = parameter(NONNEGATIVE)
    xi: Reals = parameter(NONNEGATIVE, 0.0)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return (plain(self.xi) + plain(self.rho) * orders) * (1.0 + 4e-16)

    def grouped(self, size: int, relation: Relation) -> Process:
        if np.any(np.asarray(self.xi) > 0.0):
            raise ValueError(f"group privacy of {self!r} is implemented for xi = 0 only")
        return ZCDP(multiplied_up(self.rho, float(size) * size)) * 1

    def concentration(self, relation: Relation) -> float:
        return plain(self.rho) if self.xi == 0.0 else math.inf


class MeanConcentratedDP(Mechanism, relations=ALL, tight=False):
    """(mu, tau)-concentrated DP of Dwork and Rothblum 2016: the loss L has mean at most mu, and L - E L
    is subgaussian with standard tau.

    **Guarantee.** For this very mechanism, not for what is computed from its output: the notion is not closed under
    post-processing (Bun and Steinke 2016).  Its divergences are at most mu + (alpha - 1) tau^2/2.

    Examples
    --------
    >>> import fastacct as fa
    >>> gaussian = fa.MeanConcentratedDP(mu=0.5, tau=1.0)
    >>> round(fa.rdp(gaussian, 2.0), 12)
    1.0
    """

    mu: Reals = parameter(NONNEGATIVE)
    tau: Reals = parameter(NONNEGATIVE)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        value = plain(self.mu) + 0.5 * (orders - 1.0) * (plain(self.tau) * plain(self.tau))
        return np.where(value == 1.0, value, value * (1.0 + 4e-16))


class RDPCurve(Mechanism, relations=ALL, tight=False):
    """Rényi divergences at some orders, in both directions.

    **Guarantee.** Between two orders (alpha - 1) times the divergence is interpolated linearly, which is a bound since
    it is convex; below the first order its own divergence bounds (divergences increase), beyond the last nothing is
    known.

    Parameters
    ----------
    orders : sequence of numbers in (1, 1e11], increasing
    values : sequence of numbers in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> curve = fa.RDPCurve(orders=[2, 4, 8, 16], values=[1.0, 2.0, 4.0, 8.0])
    >>> fa.rdp(curve * 2, [2.0, 3.0])
    array([2. , 3.5])
    """

    orders: tuple[float, ...]
    values: tuple[float, ...]

    def __init__(self, orders: Iterable[float], values: Iterable[float]) -> None:
        keep_tables(self, orders=(orders, _ORDER), values=(values, NONNEGATIVE))
        if not (np.diff(self.orders) > 0.0).all():
            raise ValueError(f"orders must increase, not {list(self.orders)!r}")

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        known, value = np.array(self.orders), np.array(self.values)
        scaled = np.interp(orders, known, (known - 1.0) * value) / (orders - 1.0)
        place = np.searchsorted(known, orders).clip(0, known.size - 1)
        scaled = np.where(orders == known[place], value[place], scaled * (1.0 + 4e-15))
        return np.asarray(np.where(orders < known[0], value[0], np.where(orders > known[-1], np.inf, scaled)))

    def grouped(self, size: int, relation: Relation) -> Process:
        """Mironov 2017, proposition 2, at the next power of two."""
        doublings = math.ceil(math.log2(size))
        orders, values = np.array(self.orders), np.array(self.values)
        if not (known := orders >= 2.0 ** (doublings + 1)).any():
            raise ValueError(f"groups of {size} need an order of at least {2 ** (doublings + 1)} in {self!r}")
        with np.errstate(over="ignore"):
            return RDPCurve(orders[known] / 2.0**doublings, values[known] * 3.0**doublings * (1.0 + 1e-15)) * 1
