"""The privacy losses of mechanisms, for composition by discretised distributions: one function per mechanism.

A function gets the parameters of one cell and the relation, and returns the losses of both directions: (remove, add),
the same object where the pair is its own mirror image.  None: nothing is released.
"""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch
from typing import Final

import numpy as np

from fastacct._arrays import Cells
from fastacct._extras import import_extra
from fastacct._jobs_exact import dominating_pair
from fastacct._loss_distribution import LossDistribution
from fastacct._pld_sampled import sampled
from fastacct._pld_sources import ROUNDING, Atoms, LaplaceLoss, OutOfReachError
from fastacct.additive import DiscreteGaussian, DiscreteLaplace, Laplace, Skellam, Staircase
from fastacct.mechanisms import Gaussian, GaussianMixture, Grouped, Mechanism, PoissonSampled, moved
from fastacct.notions import ApproxDP, PairOfTables, PureDP
from fastacct.sampling import Sampled
from fastacct.selection import AboveThreshold, Exponential, PermuteAndFlip, RandomizedResponse

__all__ = ["Losses", "has_losses", "losses"]

Losses = tuple[LossDistribution, LossDistribution]
Cell = dict[str, float]
MOST_ATOMS: Final = 1 << 19
BESSEL: Final = 3e-11
"""Relative error allowed of SciPy's exponentially scaled Bessel functions."""


def has_losses(mechanism: Mechanism) -> bool:
    """Whether a dominating pair is known."""
    if isinstance(mechanism, Sampled):
        return has_losses(mechanism.mechanism)
    return losses.dispatch(type(mechanism)) is not losses.dispatch(object)


@singledispatch
def losses(mechanism: Mechanism, cell: Cell, neighbors: str) -> Losses | None:
    """Losses of one release, (remove, add); None when nothing is released."""
    raise TypeError(f"no dominating pair is known for {mechanism!r}")


def _both(one: LossDistribution) -> Losses:
    return one, one


def _everything() -> Losses:
    return _both(LossDistribution.from_epsilon_delta(0.0, 1.0))


def _in_reach(largest: float, most: float = 1e5) -> None:
    """Refuse losses that no grid holds; divergences and pure guarantees answer then."""
    if not largest <= most:
        raise OutOfReachError(f"a loss of {largest:g} is too large for a grid")


def _atoms(loss: Cells, error: Cells, mass: Cells, relative: float, left_out: float, lattice: float | None) -> Losses:
    """Atoms whose masses are good to `relative`; `left_out` bounds the mass beyond them."""
    keep = mass > 0.0
    loss, error, mass = loss[keep], error[keep], mass[keep]
    upper = Atoms(loss, error, mass * (1.0 + relative), min(1.0, left_out), 0.0, lattice)
    lower = Atoms(loss, error, mass * (1.0 - relative), 0.0, 0.0, lattice)
    return _both(LossDistribution(upper, lower))


@losses.register(Gaussian)
@losses.register(PoissonSampled)
@losses.register(Grouped)
@losses.register(GaussianMixture)
def _gaussian(mechanism: Mechanism, cell: Cell, neighbors: str) -> Losses | None:
    return _mixtures(mechanism, cell, neighbors, 1.0)


def _mixtures(mechanism: Mechanism, cell: Cell, neighbors: str, share: float) -> Losses | None:
    """Gaussian mixtures; of a Poisson sample with rate `share`."""
    inner = 1.0 if isinstance(mechanism, Gaussian | GaussianMixture) or share < 1.0 else cell.get("sample_rate", 1.0)
    pair = dominating_pair(mechanism, cell["noise_multiplier"], inner, neighbors)
    if pair is None:
        return None
    if pair.noise == 0.0:
        return _everything()
    p = pair.p if pair.q or pair.p[0][0] == 1.0 else ((1.0 - pair.p[0][0], 0.0), pair.p[0])
    q = pair.q or ((1.0, 0.0),)
    if share < 1.0:
        p = tuple((share * weight, mean) for weight, mean in p) + tuple(((1.0 - share) * w, mean) for w, mean in q)
    (p_weight, p_mean), (q_weight, q_mean) = (tuple(map(list, zip(*side, strict=True))) for side in (p, q))
    remove = LossDistribution.from_mixture(pair.noise, p_weight, p_mean, q_weight, q_mean)
    if (pair.plain and share == 1.0) or (p_weight == q_weight and p_mean == [-mean for mean in q_mean]):
        return _both(remove)
    turned = ([-mean for mean in side] for side in (q_mean, p_mean))
    return remove, LossDistribution.from_mixture(pair.noise, q_weight, next(turned), p_weight, next(turned))


@losses.register(Laplace)
def _laplace(mechanism: Laplace, cell: Cell, neighbors: str) -> Losses | None:
    scale = cell["noise_multiplier"] / moved(neighbors)
    if math.isinf(scale):
        return None
    _in_reach(1.0 / scale if scale > 0.0 else math.inf, 500.0)
    return _both(LossDistribution.from_laplace(scale))


@losses.register(DiscreteLaplace)
def _discrete_laplace(mechanism: DiscreteLaplace, cell: Cell, neighbors: str) -> Losses:
    shift, scale = int(mechanism.sensitivity * moved(neighbors)), cell["scale"]
    if shift > MOST_ATOMS:
        raise OutOfReachError(f"a sensitivity of {shift} gives too many losses")
    _in_reach(shift / scale)
    rest = math.exp(-1.0 / scale)
    outcome = np.arange(shift + 1.0)  # 0: all outcomes up to 0; shift: all from there
    mass = -math.expm1(-1.0 / scale) * np.exp((outcome - shift) / scale)
    mass[0], mass[-1] = math.exp(-shift / scale), 1.0
    loss = (2.0 * outcome - shift) / scale
    relative = (16.0 + 4.0 * shift / scale) * ROUNDING
    return _atoms(loss, 4.0 * ROUNDING * np.abs(loss), mass / (1.0 + rest), relative, 0.0, 2.0 / scale)


@losses.register(DiscreteGaussian)
def _discrete_gaussian(mechanism: DiscreteGaussian, cell: Cell, neighbors: str) -> Losses:
    shift, scale = mechanism.sensitivity * moved(neighbors), cell["scale"]
    reach = math.ceil(38.0 * scale) + 1
    if 2 * reach > MOST_ATOMS:
        raise OutOfReachError(f"a scale of {scale:g} gives too many losses; a Gaussian's zCDP covers it")
    noise = np.arange(-reach, reach + 1.0)
    size = 0.5 * (noise / scale) ** 2
    weight = np.exp(-size)
    mass = weight / math.fsum(np.sort(weight))
    loss = shift * (noise + 0.5 * shift) / scale**2
    # beyond the reach: less than exp(-38^2/2) each, falling geometrically
    relative = (16.0 + 8.0 * float(np.minimum(size, 745.0).max())) * ROUNDING
    return _atoms(loss, 6.0 * ROUNDING * np.abs(loss), mass, relative, 1e-290, shift / scale**2)


@losses.register(Skellam)
def _skellam(mechanism: Skellam, cell: Cell, neighbors: str) -> Losses:
    ive = import_extra("scipy.special", "pld").ive

    shift, variance = int(mechanism.sensitivity * moved(neighbors)), cell["variance"]
    reach = _skellam_reach(variance)
    if 2 * (reach + shift) > MOST_ATOMS:
        raise OutOfReachError(f"variance = {variance:g} with sensitivity {shift} gives too many losses")
    noise = np.arange(-reach, reach + 1)
    mass, other = ive(np.abs(noise), variance), ive(np.abs(noise + shift), variance)
    known = (mass > 1e-290) & (other > 1e-290)
    left_out = 4e-290 * noise.size + math.fsum(mass[~known]) * (
        1.0 + BESSEL
    )  # a ratio of subnormal numbers says nothing
    loss = np.log(mass[known]) - np.log(other[known])
    error = np.full(loss.size, 2.0 * BESSEL) + 4.0 * ROUNDING * np.abs(loss)
    return _atoms(loss, error, mass[known], BESSEL, left_out, None)


@lru_cache(maxsize=256)
def _skellam_reach(variance: float) -> int:
    """Where the probabilities are below 1e-290, and fall by half at least from one to the next."""
    ive = import_extra("scipy.special", "pld").ive

    reach = 16
    while ive(reach, variance) > 1e-290 or reach < 2.0 * variance**0.5:
        reach += max(1, reach // 8)
    return reach


@losses.register(RandomizedResponse)
def _randomized_response(mechanism: RandomizedResponse, cell: Cell, neighbors: str) -> Losses:
    epsilon, k = cell["epsilon"], mechanism.answers
    if math.isinf(epsilon):
        return _everything()
    _in_reach(epsilon, 600.0)
    true = 1.0 / (1.0 + (k - 1) * math.exp(-epsilon))
    lie = true * math.exp(-epsilon)
    relative = (8.0 + 4.0 * epsilon) * ROUNDING
    if neighbors == "replace_one":
        loss, mass = np.array([-epsilon, 0.0, epsilon]), np.array([lie, (k - 2) * lie, true])
        if epsilon == 0.0:
            loss, mass = np.zeros(1), np.ones(1)
        return _atoms(loss, np.zeros_like(loss), mass, relative, 0.0, epsilon or 1.0)
    # against a uniformly random answer
    loss = np.array([epsilon - math.log1p(math.expm1(epsilon) / k), -math.log1p(math.expm1(epsilon) / k)])
    error = 8.0 * ROUNDING * (np.abs(loss) + epsilon)
    sides = [
        _atoms(sign * loss, error, mass, relative, 0.0, None)[0]
        for sign, mass in ((1.0, np.array([true, (k - 1) * lie])), (-1.0, np.array([1.0 / k, (k - 1) / k])))
    ]
    return sides[0], sides[1]


@losses.register(Exponential)
def _exponential(mechanism: Exponential, cell: Cell, neighbors: str) -> Losses | None:
    epsilon = cell["epsilon"]
    if epsilon < 1e-290:
        return None if epsilon == 0.0 else _both(LossDistribution.from_pure(epsilon))
    _in_reach(epsilon, 600.0)
    source = LaplaceLoss(epsilon, atoms=False, slack=2.0 * ROUNDING * epsilon)
    return _both(LossDistribution(source, source))


@losses.register(PureDP)
@losses.register(Staircase)
@losses.register(AboveThreshold)
@losses.register(PermuteAndFlip)
def _pure(mechanism: Mechanism, cell: Cell, neighbors: str) -> Losses:
    if math.isfinite(cell["epsilon"]):
        _in_reach(cell["epsilon"])
    return _both(LossDistribution.from_pure(cell["epsilon"]))


@losses.register(ApproxDP)
def _approximate(mechanism: ApproxDP, cell: Cell, neighbors: str) -> Losses:
    if math.isfinite(cell["epsilon"]):
        _in_reach(cell["epsilon"])
    return _both(LossDistribution.from_epsilon_delta(cell["epsilon"], cell["delta"]))


@losses.register(Sampled)
def _sampled(mechanism: Sampled, cell: Cell, neighbors: str) -> Losses | None:
    base, rate = mechanism.mechanism, cell["sample_rate"]
    if rate == 0.0:
        return None
    if isinstance(base, GaussianMixture | Grouped) and cell["noise_multiplier"] > 0.0:
        return _mixtures(base, cell, neighbors, rate)
    both = losses(base, {name: value for name, value in cell.items() if name != "sample_rate"}, neighbors)
    if both is None or rate == 1.0:
        return both
    remove, add = (
        LossDistribution(sampled(side.upper_source, rate, way, True), sampled(side.lower_source, rate, way, False))
        for side, way in zip(both, ("remove", "add"), strict=True)
    )
    return remove, add


@losses.register(PairOfTables)
def _tables(mechanism: PairOfTables, cell: Cell, neighbors: str) -> Losses:
    return LossDistribution.from_pmf(mechanism.p, mechanism.q), LossDistribution.from_pmf(mechanism.q, mechanism.p)
