"""Mechanisms of which only a guarantee is known, in whatever notion: pure, approximate, zero-concentrated, Rényi,
Gaussian, mean-concentrated, a table of probabilities.

A guarantee is the caller's claim, for the neighbouring relation that is asked for: nothing is doubled for replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from fastacct._arrays import MAX_ORDER, Domain, as_cells
from fastacct.additive import ALL_RELATIONS
from fastacct.mechanisms import WEIGHTS_OFF, Declared, Gaussian, Mechanism, moved, parameter

if TYPE_CHECKING:
    from fastacct.process import Process

__all__ = ["GDP", "ZCDP", "ApproxDP", "MeanConcentratedDP", "PairOfTables", "PureDP", "RDPCurve", "from_pmf"]

_EPSILON: Final = Domain(0.0, math.inf)
_SHARE: Final = Domain(0.0, 1.0)
_ORDER: Final = Domain(1.0, MAX_ORDER, open_low=True)


@dataclass(frozen=True, eq=False)
class PureDP(Declared):
    """Anything that is epsilon-DP.

    **Guarantee.** Exact for the class: randomised response dominates all of it (Kairouz, Oh, Viswanath 2015), also when
    the mechanisms are chosen adaptively.  epsilon must hold for both orders of two neighbouring data sets, also where
    "add" or "remove" alone is asked for.

    Parameters
    ----------
    epsilon : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.epsilon(fa.PureDP(0.1) * 100, delta=1e-6), 4)
    4.7746
    """

    epsilon: Any = parameter(_EPSILON)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS


@dataclass(frozen=True, eq=False)
class ApproxDP(Declared):
    """Anything that is (epsilon, delta)-DP.

    **Guarantee.** Exact for the class, homogeneous or not (the dominating pair of Kairouz, Oh, Viswanath 2015 and
    Murtagh, Vadhan 2016, composed numerically).  For both orders of two neighbouring data sets, as `PureDP`.

    Parameters
    ----------
    epsilon : float or array in [0, inf]
    delta : float or array in [0, 1]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.delta(fa.ApproxDP(0.3, 1e-6) * 12, epsilon=1.8), 6)
    0.03021
    """

    epsilon: Any = parameter(_EPSILON)
    delta: Any = parameter(_SHARE)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS


@dataclass(frozen=True, eq=False)
class GDP(Declared):
    """Anything that is mu-GDP: a trade-off curve above that of N(mu, 1) against N(0, 1) (Dong, Roth, Su 2022).

    **Guarantee.** Exact for the class; mu^2 add up.

    Parameters
    ----------
    mu : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.delta(fa.GDP(mu=0.5) * 4, epsilon=1.0), 8)
    0.12693674
    """

    mu: Any = parameter(_EPSILON)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS

    def parts(self, neighbors: str) -> Process:
        """A Gaussian, whose sum moves twice as far under replace-one."""
        far = moved(neighbors)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            noise = np.asarray(far / np.asarray(self.mu))
            exact = noise * np.asarray(self.mu) == far
        power = np.where(noise > 0.0, np.frexp(noise)[0] == 0.5, True)  # a power of two: the division was exact
        noise = np.where((exact & power) | (noise == np.inf), noise, np.nextafter(noise, 0.0))
        noise = np.where(np.asarray(self.mu) > 0.0, np.minimum(noise, np.finfo(float).max), noise)
        return Gaussian(float(noise) if noise.ndim == 0 else noise) * 1


@dataclass(frozen=True, eq=False)
class ZCDP(Declared):
    """Anything that is (xi, rho)-zero-concentrated: divergence at most xi + rho alpha at every order alpha > 1.

    **Guarantee.** The best conversion at a continuous order.  zCDP does not imply mu-GDP with mu = sqrt(2 rho), which
    would be smaller.  Source: Bun and Steinke 2016.

    Parameters
    ----------
    rho : float or array in [0, inf]
    xi : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> f"{fa.delta(fa.ZCDP(rho=0.5), epsilon=4.0):.6e}"
    '1.957954e-04'
    """

    rho: Any = parameter(_EPSILON)
    xi: Any = parameter(_EPSILON, 0.0)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class MeanConcentratedDP(Declared):
    """(mu, tau)-concentrated DP of Dwork and Rothblum 2016: the loss has mean at most mu, and less its mean it is
    subgaussian with standard tau.

    **Guarantee.** For this very mechanism, not for what is computed from its output: the notion is not closed under
    post-processing (Bun and Steinke 2016).  Its divergences are at most mu + (alpha - 1) tau^2/2.

    Parameters
    ----------
    mu : float or array in [0, inf]
    tau : float or array in [0, inf]

    Examples
    --------
    >>> import fastacct as fa
    >>> gaussian = fa.MeanConcentratedDP(mu=0.5, tau=1.0)
    >>> round(fa.rdp(gaussian, 2.0), 12)
    1.0
    """

    mu: Any = parameter(_EPSILON)
    tau: Any = parameter(_EPSILON)
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class RDPCurve(Mechanism):
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
    relations: ClassVar[tuple[str, ...]] = ALL_RELATIONS
    exact: ClassVar[bool] = False

    def __init__(self, orders: Iterable[float], values: Iterable[float]) -> None:
        order, value = (
            np.atleast_1d(as_cells(name, list(given) if isinstance(given, Iterable) else given, domain))
            for name, given, domain in (("orders", orders, _ORDER), ("values", values, _EPSILON))
        )
        if order.ndim != 1 or order.shape != value.shape:
            raise ValueError(f"orders and values must have one length, not {order.shape} and {value.shape}")
        if not (np.diff(order) > 0.0).all():
            raise ValueError(f"orders must increase, not {order.tolist()!r}")
        object.__setattr__(self, "orders", tuple(order.tolist()))
        object.__setattr__(self, "values", tuple(value.tolist()))

    def _cells(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class PairOfTables(Mechanism):
    """Two finite tables of probabilities over the same outcomes; made by `from_pmf`."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            table = np.atleast_1d(as_cells(name, list(getattr(self, name)), _SHARE))
            if table.ndim != 1:
                raise TypeError(f"{name} must be one-dimensional, not of shape {table.shape}")
            if abs((total := math.fsum(table)) - 1.0) > WEIGHTS_OFF:
                raise ValueError(f"{name} sums to {total!r}, not to 1; put what is missing on an outcome of its own")
            object.__setattr__(self, name, tuple(table.tolist()))
        if len(self.p) != len(self.q):
            raise ValueError(f"p and q must have one length, not {len(self.p)} and {len(self.q)}")

    def _cells(self) -> dict[str, Any]:
        return {}


def from_pmf(p: Iterable[float], q: Iterable[float]) -> PairOfTables:
    """A mechanism whose worst pair of outputs has these probabilities: p with the record, q without.

    **Guarantee.** Exact for the tables as they are: each sums to 1 within 1e-12, and is not normalised.  That
    the pair dominates the mechanism is the caller's claim.  "remove" reads p against q, "add" q against p.

    Examples
    --------
    >>> import fastacct as fa
    >>> table = fa.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4])
    >>> round(fa.delta(table, epsilon=0.3, neighbors="remove"), 12)
    0.195042357727
    """
    tables = []
    for name, given in (("p", p), ("q", q)):
        table = np.atleast_1d(as_cells(name, list(given) if isinstance(given, Iterable) else given, _SHARE))
        if table.ndim != 1:
            raise TypeError(f"{name} must be one-dimensional, not of shape {table.shape}")
        tables.append(tuple(table.tolist()))
    return PairOfTables(*tables)
