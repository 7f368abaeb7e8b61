"""Rényi divergences of mechanisms in closed form, at many orders at once: one function per mechanism.

Every value is an upper bound of both directions: closed forms are padded by `PADDING`, checked against 50 digits.
inf: no divergence is known at that order.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Final

import numpy as np

from fastacct._arrays import TINY, Cells
from fastacct.additive import DiscreteGaussian, DiscreteLaplace, Laplace, Skellam, Staircase
from fastacct.mechanisms import Mechanism, moved
from fastacct.notions import ZCDP, ApproxDP, MeanConcentratedDP, PairOfTables, PureDP, RDPCurve
from fastacct.sampling import Sampled
from fastacct.selection import AboveThreshold, Exponential, PermuteAndFlip, RandomizedResponse

__all__ = ["PADDING", "divergence", "pure_epsilon", "square"]

PADDING: Final = 1e-11
Cell = dict[str, float]


@singledispatch
def divergence(mechanism: Mechanism, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    """Upper bound of the divergence of one release at the orders, the larger of both directions."""
    raise TypeError(f"no dominating pair is known for {mechanism!r}, and no Rényi divergence")


def pure_epsilon(mechanism: Mechanism, cell: Cell, neighbors: str) -> float:
    """Epsilon of pure differential privacy; inf where there is none, or none is known."""
    if isinstance(mechanism, Sampled):
        whole = pure_epsilon(mechanism.mechanism, {k: v for k, v in cell.items() if k != "sample_rate"}, neighbors)
        whole, rate = whole * (1.0 + 1e-15), cell["sample_rate"]  # below, its rounding may be most of what changes
        if neighbors == "add" and rate < 1.0:
            return _at_least(-math.log1p(rate * math.expm1(-whole)) * (1.0 + 2e-15 / (1.0 - rate)), whole * rate)
        if whole < 700.0:
            return _at_least(math.log1p(rate * math.expm1(whole)) * (1.0 + 2e-15), min(whole, rate))
        return whole if rate > 0.0 else 0.0
    if "epsilon" in cell:
        return cell["epsilon"] if cell.get("delta", 0.0) == 0.0 else math.inf
    if isinstance(mechanism, Laplace):
        scale = cell["noise_multiplier"] / moved(neighbors)
        return 1.0 / scale if scale > 0.0 else math.inf
    if isinstance(mechanism, DiscreteLaplace):
        return mechanism.sensitivity * moved(neighbors) / cell["scale"]
    nothing = math.isinf(cell.get("noise_multiplier", 0.0)) or cell.get("sample_rate", 1.0) == 0.0
    return 0.0 if nothing else math.inf


def _at_least(value: float, released: float) -> float:
    """Products that underflow are not nothing; subnormal numbers are not good to a part of themselves."""
    return value + 1e-323 if released > 0.0 and value < 1e-290 else value


def of_atoms(log_mass: Cells, loss: Cells, orders: Cells) -> Cells:
    """log sum mass exp((alpha - 1) loss) / (alpha - 1) = E_P: atoms of one direction, masses adding up to 1."""
    a = orders - 1.0
    finite = np.isfinite(log_mass)
    log_mass, loss = log_mass[finite], loss[finite]
    size = a[..., None] * loss
    top = size.max(axis=-1)
    near = np.log1p(np.maximum(np.sum(np.exp(log_mass) * np.expm1(np.minimum(size, 1.0)), axis=-1), -1.0 + 1e-16))
    far = top + np.log(np.sum(np.exp(log_mass + size - top[..., None]), axis=-1))
    # rounding: of masses and losses where the first order cancels, of the top where the logarithm takes it away again
    depth = 1.0 + float(np.abs(log_mass).max())
    near_pad, far_pad = 1e-14 * float(np.abs(loss).max()) * depth, 2e-15 * (np.abs(top) + depth) / a
    return np.asarray(np.maximum(np.where(top < 1.0, near, far), 0.0) / a + np.where(top < 1.0, near_pad, far_pad))


def _two_sided(log_mass: Cells, other: Cells, loss: Cells, orders: Cells) -> Cells:
    """The larger direction of atoms with masses P = exp(log_mass) and Q = exp(other)."""
    return np.maximum(of_atoms(log_mass, loss, orders), of_atoms(other, -loss, orders))


def _padded(value: Cells) -> Cells:
    return value * (1.0 + PADDING)


def square(x: float) -> float:
    """x^2 from above; never 0 where something is released."""
    return max(x * x * (1.0 + 1e-15), TINY) if x > 0.0 else 0.0


@divergence.register(Laplace)
def _laplace(mechanism: Laplace, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    """Mironov 2017, proposition 6."""
    scale = cell["noise_multiplier"] / moved(neighbors)
    if scale == 0.0:
        return np.full(orders.shape, np.inf)
    epsilon, a = 1.0 / scale, orders - 1.0
    if epsilon == 0.0:
        return np.zeros(orders.shape)
    x = (2.0 * a + 1.0) * epsilon
    value = np.maximum(epsilon + np.log1p(a * np.expm1(-x) / (2.0 * a + 1.0)) / a, 0.0) + 2e-15 * epsilon
    # cancels where both are small: anything epsilon-DP is epsilon^2/2-zCDP (Bun and Steinke 2016)
    return _padded(np.minimum(np.minimum(value, 0.5 * orders * square(epsilon)), epsilon))


@divergence.register(PureDP)
@divergence.register(Staircase)
@divergence.register(AboveThreshold)
@divergence.register(PermuteAndFlip)
def _pure(mechanism: Mechanism, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    return pure(cell["epsilon"], 2, orders)


def pure(epsilon: float, answers: int, orders: Cells) -> Cells:
    """Randomised response, one value replaced by another; with two answers the worst epsilon-DP mechanism."""
    if math.isinf(epsilon):
        return np.full(orders.shape, np.inf)
    log_true = -math.log1p((answers - 1) * math.exp(-epsilon))
    rest = math.log(answers - 2) if answers > 2 else -math.inf
    log_mass = np.array([log_true, log_true - epsilon, log_true - epsilon + rest])
    loss = np.array([epsilon, -epsilon, 0.0])
    # E exp(a l) - 1 is of second order in epsilon, its first-order parts cancel: below 1e-3 a bound of the same size
    value = np.minimum(of_atoms(log_mass, loss, orders), epsilon)
    small = orders * epsilon
    second = 0.5 * orders * square(epsilon)  # Bun and Steinke 2016
    value = np.where((small < 1e-3) & (answers == 2), np.minimum(second, epsilon), value)
    return _padded(np.maximum(value, TINY) if epsilon > 0.0 else value)


@divergence.register(RandomizedResponse)
def _randomized_response(mechanism: RandomizedResponse, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    epsilon, k = cell["epsilon"], mechanism.answers
    if neighbors == "replace_one" or math.isinf(epsilon):
        return pure(epsilon, k, orders)
    log_true = -math.log1p((k - 1) * math.exp(-epsilon))
    log_lie = log_true - epsilon
    log_p = np.array([log_true, log_lie + math.log(k - 1)])
    log_q = np.array([-math.log(k), math.log1p(-1.0 / k)])
    loss = np.array([log_true + math.log(k), log_lie + math.log(k)])
    return _padded(np.maximum(_two_sided(log_p, log_q, loss, orders), TINY) + 1e-15 * (1.0 + epsilon + math.log(k)))


@divergence.register(Exponential)
def _exponential(mechanism: Exponential, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    """The largest divergence of two points with losses t - epsilon and t, over t; never above epsilon^2 alpha / 8."""
    epsilon = cell["epsilon"]
    if math.isinf(epsilon):
        return np.full(orders.shape, np.inf)
    bound = np.minimum(orders * square(epsilon) / 8.0, epsilon)
    if epsilon < 1e-2:
        return _padded(bound)
    a = orders - 1.0
    log_one = np.log(-np.expm1(-orders * epsilon))
    t = np.log(a / orders) + log_one + epsilon - np.log(-np.expm1(-a * epsilon))
    value = t + (log_one - np.log(orders * -math.expm1(-epsilon))) / a
    return _padded(np.minimum(value + 1e-15 * (1.0 + epsilon) * (1.0 + 1.0 / a), bound))


@divergence.register(DiscreteLaplace)
def _discrete_laplace(mechanism: DiscreteLaplace, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    shift, step = int(mechanism.sensitivity * moved(neighbors)), 1.0 / cell["scale"]
    if shift > 4096:
        return pure(shift * step, 2, orders)
    outcome = np.arange(shift + 1.0)
    log_mass = math.log(-math.expm1(-step)) + (outcome - shift) * step
    log_mass[0], log_mass[-1] = -shift * step, 0.0
    loss = (2.0 * outcome - shift) * step
    value = of_atoms(log_mass - math.log1p(math.exp(-step)), loss, orders)
    return _padded(np.minimum(value + 1e-15 * (1.0 + shift * step), shift * step))


@divergence.register(DiscreteGaussian)
def _discrete_gaussian(mechanism: DiscreteGaussian, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    """Canonne, Kamath, Steinke 2020, theorem 4: that of the Gaussian, equal at whole orders."""
    return _padded(0.5 * orders * square(mechanism.sensitivity * moved(neighbors) / cell["scale"]))


@divergence.register(Skellam)
def _skellam(mechanism: Skellam, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    """Agarwal, Kairouz, Liu 2021: whole orders; between them (alpha - 1) D is convex, and D increases."""
    shift, v = mechanism.sensitivity * moved(neighbors), cell["variance"]

    def at(order: Cells) -> Cells:
        more = np.minimum(((2.0 * order - 1.0) * shift**2 + 6.0 * shift) / (4.0 * v * v), 1.5 * shift / v)
        return np.asarray(0.5 * order * shift**2 / v + more)

    low, high = np.maximum(np.floor(orders), 1.0), np.ceil(orders)
    share = orders - low
    chord = (1.0 - share) * (low - 1.0) * at(low) + share * (high - 1.0) * at(high)
    return _padded(np.where(high == orders, at(orders), np.minimum(chord / (orders - 1.0), at(high))))


@divergence.register(ApproxDP)
def _approximate(mechanism: ApproxDP, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    return pure(cell["epsilon"], 2, orders) if cell["delta"] == 0.0 else np.full(orders.shape, np.inf)


@divergence.register(PairOfTables)
def _tables(mechanism: PairOfTables, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    p, q = np.array(mechanism.p), np.array(mechanism.q)
    sides = {"remove": (p, q), "add": (q, p)}
    value = np.zeros(orders.shape)
    for direction in (neighbors,) if neighbors in sides else sides:
        one, other = sides[direction]
        if ((one > 0.0) & (other == 0.0)).any():
            return np.full(orders.shape, np.inf)
        both = one > 0.0
        log_one = np.log(one[both])
        value = np.maximum(value, of_atoms(log_one, log_one - np.log(other[both]), orders))
    largest = -min(float(np.log(table[table > 0.0]).min()) for table in (p, q))
    # the tables may sum to 1 less 1e-12
    return _padded(value + 4e-15 * (1.0 + largest) + 2e-12 / (orders - 1.0))


@divergence.register(ZCDP)
def _concentrated(mechanism: ZCDP, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    return (cell["xi"] + cell["rho"] * orders) * (1.0 + 4e-16)


@divergence.register(MeanConcentratedDP)
def _mean_concentrated(mechanism: MeanConcentratedDP, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    value = cell["mu"] + 0.5 * (orders - 1.0) * (cell["tau"] * cell["tau"])
    return np.where(value == 1.0, value, value * (1.0 + 4e-16))


@divergence.register(RDPCurve)
def _curve(mechanism: RDPCurve, cell: Cell, neighbors: str, orders: Cells) -> Cells:
    known, value = np.array(mechanism.orders), np.array(mechanism.values)
    scaled = np.interp(orders, known, (known - 1.0) * value) / (orders - 1.0)
    place = np.searchsorted(known, orders).clip(0, known.size - 1)
    scaled = np.where(orders == known[place], value[place], scaled * (1.0 + 4e-15))
    return np.asarray(np.where(orders < known[0], value[0], np.where(orders > known[-1], np.inf, scaled)))
