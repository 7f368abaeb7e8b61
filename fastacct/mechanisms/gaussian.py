"""Gaussian noise, its Poisson samples and groups, and mixtures of Gaussians."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import Cells, Domain, Reals, as_cells
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.losses.divergence import of_pair
from fastacct.losses.loss import NOTHING, Pair
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.base import Divergence, SampledGaussian, parameter, plain, store

__all__ = ["Gaussian", "GaussianMixture"]

MAX_COMPONENTS: Final = 65
"""Of each side of a Gaussian mixture."""
WEIGHTS_OFF: Final = 1e-12
"""How far from 1 the weights of a mixture may add up: rounding of the sum, no more."""
_NOISE: Final = Domain(0.0, math.inf)
_WEIGHT: Final = Domain(0.0, 1.0)
_MEAN: Final = Domain(-1e150, 1e150)
_SMALLEST_WEIGHT: Final = 1e-290


@dataclass(frozen=True, eq=False)
class Gaussian(Mechanism):
    """Noise N(0, noise_multiplier^2) on a sum to which every record contributes a vector of norm at most 1.

    **Guarantee.** `noise_multiplier` is the standard deviation of the noise divided by the clipping norm.  The
    sensitivity of the sum is 1 under add/remove and zero-out, and 2 under replace-one, which is taken into account.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        0: no noise, nothing can be certified.  inf: nothing is released.

    Raises
    ------
    TypeError, ValueError
        Naming the value and the allowed range.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.Gaussian(noise_multiplier=1.5).poisson(sample_rate=0.01) * 1000
    Process({Gaussian(noise_multiplier=1.5).poisson(sample_rate=0.01): 1000})
    """

    noise_multiplier: Reals = parameter(_NOISE)
    relations: ClassVar[tuple[Relation, ...]] = ALL
    is_gaussian: ClassVar[bool] = True
    groups_directly: ClassVar[bool] = True

    @property
    def sample_relations(self) -> tuple[Relation, ...]:
        """All of them: the pair of a sample under replace-one is known, too."""
        return ALL

    def losses(self, relation: Relation) -> Pair:
        """A Gaussian against another one."""
        return self.sample_losses(1.0, 1, relation)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair:
        """Gaussian mixtures; how many of a group are drawn is binomial."""
        noise = plain(self.noise_multiplier)
        if noise == math.inf:
            return NOTHING
        if rate == 1.0:
            return MixturePair(Mixture(noise, ((1.0, size * sensitivity(relation)),)))
        if relation == "replace_one":  # the record is drawn or not, and when drawn moves the sum one way or the other
            rest = (1.0 - rate, 0.0)
            return MixturePair(Mixture(noise, (rest, (rate, 1.0)), (rest, (rate, -1.0))))
        if size == 1:
            return MixturePair(Mixture(noise, ((rate, 1.0),)))
        return MixturePair(Mixture(noise, _binomial(size, rate), ((1.0, 0.0),)))

    def sample_divergence(self, orders: Cells, rate: float, relation: Relation, own: Divergence) -> Cells:
        """By the losses, where the kernel has none (under replace-one)."""
        return of_pair(self.sample_losses(rate, 1, relation), orders, relation)

    def pure_epsilon(self, relation: Relation) -> float:
        """None, but of infinite noise."""
        return 0.0 if self.noise_multiplier == math.inf else math.inf

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian:
        """Its own noise over the sensitivity of the sum."""
        return SampledGaussian(np.asarray(self.noise_multiplier) / sensitivity(relation), np.asarray(1.0), True)

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield from (Gaussian(1.0), Gaussian(0.3), Gaussian(math.inf), Gaussian(3.0).group(2))
        yield from (Gaussian(1.0).poisson(0.01), Gaussian(0.7).poisson(1e-4), Gaussian(2.0).poisson(0.0))
        yield Gaussian(2.0).poisson(0.1).group(3)


@lru_cache(maxsize=1024)
def _binomial(size: int, rate: float) -> tuple[tuple[float, float], ...]:
    """How many of a group are drawn: weights rounded once, from exact arithmetic."""
    if size >= MAX_COMPONENTS:
        raise ValueError(
            f"group({size}) at sample_rate = {rate!r}: size = {size} is out of range; allowed: whole numbers in "
            f"[1, {MAX_COMPONENTS - 1}]"
        )
    q = Fraction(rate)
    weights = [float(math.comb(size, k) * q**k * (1 - q) ** (size - k)) for k in range(size + 1)]
    if min(weights) < _SMALLEST_WEIGHT:
        raise ValueError(
            f"group({size}) at sample_rate = {rate!r}: the probability that all or none are drawn is below the "
            "smallest float; take a smaller group"
        )
    return tuple((weight, float(k)) for k, weight in enumerate(weights))


@dataclass(frozen=True, eq=False)
class GaussianMixture(Mechanism):
    """A pair of one-dimensional Gaussian mixtures with one noise: P with the records, Q without.

    **Guarantee.** Numbers hold for every mechanism that the pair dominates; that it does is the caller's claim.
    "remove" compares P with Q, "add" Q with P, and "add_remove" is the larger of both.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Standard deviation of the noise, in the unit of the means.
    p : sequence of (weight, mean)
        Weights positive, adding up to 1 within 1e-12; means >= 0; at most 65 components.
    q : sequence of (weight, mean)
        The same with means <= 0.  Default: all weight at 0.

    Raises
    ------
    TypeError, ValueError
        Naming component, value and range.  Means on the wrong side of 0 are refused: the privacy loss would not be
        increasing, which the analysis needs.  (Shifting all means by one number changes nothing.)

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.GaussianMixture(noise_multiplier=2.0, p=[(0.9, 0.0), (0.1, 1.0)])
    GaussianMixture(noise_multiplier=2.0, p=((0.9, 0.0), (0.1, 1.0)), q=((1.0, 0.0),))
    """

    noise_multiplier: Reals = parameter(_NOISE)
    p: tuple[tuple[float, float], ...] = ()
    q: tuple[tuple[float, float], ...] = ((1.0, 0.0),)
    is_gaussian: ClassVar[bool] = True

    def __init__(
        self,
        noise_multiplier: Reals,
        p: Sequence[tuple[float, float]],
        q: Sequence[tuple[float, float]] = ((1.0, 0.0),),
    ) -> None:
        store(self, "noise_multiplier", as_cells("noise_multiplier", noise_multiplier, _NOISE))
        object.__setattr__(self, "p", _components("p", p, 1.0))
        object.__setattr__(self, "q", _components("q", q, -1.0))

    @property
    def is_gaussian_sampled(self) -> bool:
        """Whether the loss of a sample increases in the output, too."""
        return self.q == ((1.0, 0.0),)

    def losses(self, relation: Relation) -> Pair:
        """The mixtures themselves."""
        noise = plain(self.noise_multiplier)
        released = max(mean for _, mean in self.p) > min(mean for _, mean in self.q)
        return MixturePair(Mixture(noise, self.p, self.q)) if released and noise < math.inf else NOTHING

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """By the losses."""
        return of_pair(self.losses(relation), orders, relation)

    def pure_epsilon(self, relation: Relation) -> float:
        """None, but where nothing is released."""
        return 0.0 if self.losses(relation).is_nothing else math.inf

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, corners among them."""
        yield GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)])


def _components(name: str, value: object, side: float) -> tuple[tuple[float, float], ...]:
    """Components with distinct means on the given side of 0, sorted outwards."""
    if isinstance(value, str | bytes | dict | set) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence of (weight, mean), not {value!r}")
    weights: dict[float, list[float]] = {}
    for i, part in enumerate(value):
        if isinstance(part, str | bytes) or not isinstance(part, Iterable) or len(pair := list(part)) != 2:
            raise TypeError(f"{name}[{i}] must be (weight, mean), not {part!r}")
        weight = as_cells(f"{name}[{i}] weight", pair[0], _WEIGHT)
        mean = as_cells(f"{name}[{i}] mean", pair[1], _MEAN)
        if weight.ndim or mean.ndim:
            raise TypeError(f"{name}[{i}] must be two numbers, not arrays")
        if mean * side < 0.0:
            raise ValueError(
                f"{name}[{i}] mean = {float(mean)!r} is on the wrong side: means of p must be >= 0 and means of q "
                "<= 0, or the privacy loss is not increasing"
            )
        if weight > 0.0:
            weights.setdefault(float(mean) + 0.0, []).append(float(weight))
    total = math.fsum(w for parts in weights.values() for w in parts)
    if abs(total - 1.0) > WEIGHTS_OFF:
        raise ValueError(f"the weights of {name} add up to {total!r}, not to 1")
    if len(weights) > MAX_COMPONENTS:
        raise ValueError(f"{name} has {len(weights)} components; allowed: at most {MAX_COMPONENTS}")
    return tuple((math.fsum(weights[mean]), mean) for mean in sorted(weights, key=abs))
