"""Gaussian noise, its Poisson samples and groups, Gaussian differential privacy, and mixtures of Gaussians."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from fastacct.core.inputs import COUNT, NONNEGATIVE, UNIT, Cells, Domain, Reals, as_cells, as_choice, as_number, unwrap
from fastacct.core.relations import ALL, Relation, sensitivity
from fastacct.core.rounding import multiplied_up
from fastacct.core.words import told_names
from fastacct.losses.loss import NOTHING, Pair
from fastacct.losses.mixture import Mixture, MixturePair
from fastacct.mechanisms import error
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import WEIGHTS_OFF, Count, SampledGaussian, parameter, plain, store
from fastacct.mechanisms.batches import FixedSizeBatch, TruncatedPoisson, WithReplacement
from fastacct.mechanisms.epochs import RandomAllocation, Shuffled
from fastacct.samplers.draws import MAX_COMPONENTS, binomial, contributed

_AT_LEAST_0: Final = Domain(0.0, 1e150)
_AT_MOST_0: Final = Domain(-1e150, 0.0)


class Gaussian(Mechanism, relations=ALL, is_gaussian=True, has_groups=True):
    """Noise N(0, noise_multiplier^2) on a sum to which every record contributes a vector of norm at most 1.

    **Guarantee.** `noise_multiplier` is the standard deviation of the noise divided by the clipping norm.  The
    sensitivity of the sum is 1 under add/remove and zero-out, and 2 under replace-one, which is taken into account.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.Gaussian(noise_multiplier=1.5).poisson(sample_rate=0.01) * 1000
    Process({Gaussian(noise_multiplier=1.5).poisson(sample_rate=0.01): 1000})
    """

    noise_multiplier: Reals = parameter(
        NONNEGATIVE, about="0: no noise, nothing can be certified.  inf: nothing is released."
    )

    @property
    def sample_relations(self) -> tuple[Relation, ...]:
        """All of them: the pair of a sample under replace-one is known, too."""
        return ALL

    def plain_noise(self) -> Cells:
        return np.asarray(self.noise_multiplier)

    def losses(self, relation: Relation) -> Pair:
        return self.sample_losses(1.0, 1, relation)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair:
        """Gaussian mixtures; how many of a group are drawn is binomial."""
        noise = plain(self.noise_multiplier)
        if noise == math.inf:
            return NOTHING
        if rate == 1.0:
            return MixturePair(Mixture(noise, ((1.0, size * sensitivity(relation)),)))
        if size > 1:
            return contributed(noise, binomial(size, rate), relation)
        if relation == "replace_one":  # the record is drawn or not, and when drawn moves the sum one way or the other
            rest = (1.0 - rate, 0.0)
            return MixturePair(Mixture(noise, (rest, (rate, 1.0)), (rest, (rate, -1.0))))
        return MixturePair(Mixture(noise, ((rate, 1.0),)))

    def sampled_together(self, others: Sequence[tuple[Mechanism, Count]], rate: Reals) -> Mechanism:
        known = [(np.asarray(one.noise_multiplier), np.asarray(n)) for one, n in others if isinstance(one, Gaussian)]
        cells = np.broadcast_arrays(*itertools.chain(*known))
        noise = [_joint_noise(cell[::2], cell[1::2]) for cell in zip(*(one.flat for one in cells), strict=True)]
        together = Gaussian(unwrap(np.array(noise, dtype=np.float64).reshape(cells[0].shape)))
        return together.marked(any(mechanism.is_replaced for mechanism, _ in others)).poisson(rate)

    @told_names
    def poisson(
        self, sample_rate: Reals, *, at_most: Reals | None = None, records: Reals | None = None, draws: int = 1
    ) -> Mechanism:
        """On a Poisson sample; of more than `at_most` of the `records` a random choice is kept (`TruncatedPoisson`).

        With `draws` above 1 on so many independent samples, to whose sum noise is added once (gradient accumulation,
        several workers): a record is as many that change together, `.poisson(sample_rate).group(draws)`.
        """
        if at_most is None and records is None:
            many, sample = int(as_number("draws", draws, COUNT)), super().poisson(sample_rate)
            return sample if many == 1 else sample.group(many)
        if at_most is None or records is None:
            raise TypeError("give at_most and records, or neither")
        if draws != 1:
            raise ValueError(f"draws = {draws!r}: several samples of bounded size with one noise are not known")
        return TruncatedPoisson(self, sample_rate, at_most, records)

    @told_names
    def fixed_size(self, batch_size: Reals, records: Reals) -> FixedSizeBatch:
        """On a batch of `batch_size` of the `records`, drawn without replacement."""
        return FixedSizeBatch(self, batch_size, records)

    @told_names
    def with_replacement(self, draws: Reals, records: Reals) -> WithReplacement:
        """On `draws` independent draws from the `records`."""
        return WithReplacement(self, draws, records)

    @told_names
    def allocation(
        self, steps: Reals, *, epochs: Reals = 1.0, bins: str = "fresh", selected: Reals = 1.0
    ) -> RandomAllocation:
        """In one random step of the `steps` of an epoch, or in `selected`; bins="persistent": the same in all."""
        return RandomAllocation(self, steps, _epochs(bins, epochs, "allocation"), selected)

    @told_names
    def shuffled(self, steps: Reals, *, epochs: Reals = 1.0, bins: str = "fresh") -> Shuffled:
        """In one step of an epoch, by a random order of all records; bins="persistent": one for all `epochs`."""
        return Shuffled(self, steps, _epochs(bins, epochs, "shuffled"))

    def error_law(self, *, dimension: float = 1) -> error.ErrorLaw:
        """Independent noise on each coordinate."""
        return error.gaussian(plain(self.noise_multiplier), dimension)

    def pure_epsilon(self, relation: Relation) -> float:
        return 0.0 if self.noise_multiplier == math.inf else math.inf

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian:
        return SampledGaussian(np.asarray(self.noise_multiplier) / sensitivity(relation), np.asarray(1.0), True)


def _epochs(bins: str, epochs: Reals, verb: str) -> Reals:
    if as_choice("bins", bins, ("fresh", "persistent")) == "fresh" and np.any(np.asarray(epochs) != 1.0):
        raise TypeError(f'epochs is for bins="persistent"; with fresh bins multiply: .{verb}(steps) * epochs')
    return epochs


def _joint_noise(noises: Sequence[float], counts: Sequence[float]) -> float:
    """The noise of one Gaussian for several: the largest float that is not above it."""
    run = [(Fraction(float(noise)), int(n)) for noise, n in zip(noises, counts, strict=True) if n and noise < math.inf]
    if any(noise == 0 for noise, _ in run):
        return 0.0
    if not run:
        return math.inf
    square = 1 / sum((n / noise**2 for noise, n in run), Fraction(0))
    shift = 120 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2  # 120 bits of the root
    root = Fraction(math.isqrt(math.floor(square * Fraction(4) ** shift))) / Fraction(2) ** shift
    near = float(root)
    return near if near <= root else math.nextafter(near, 0.0)


class GDP(Mechanism, relations=ALL, group_powers={"mu": 1}):
    """Anything that is mu-GDP: a trade-off curve above that of N(mu, 1) against N(0, 1) (Dong, Roth, Su 2022).

    **Guarantee.** Exact for the class; mu^2 add up.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.epsilon(fa.GDP(0.5) * 4, delta=1e-6) == fa.epsilon(fa.Gaussian(1.0), delta=1e-6)
    True
    """

    mu: Reals = parameter(NONNEGATIVE)

    def decompose(self, relation: Relation) -> Process:
        far = sensitivity(relation)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            noise = np.asarray(far / np.asarray(self.mu))
            exact = noise * np.asarray(self.mu) == far
        power = np.where(noise > 0.0, np.frexp(noise)[0] == 0.5, True)  # a power of two: the division was exact
        noise = np.where((exact & power) | (noise == np.inf), noise, np.nextafter(noise, 0.0))
        noise = np.where(np.asarray(self.mu) > 0.0, np.minimum(noise, np.finfo(float).max), noise)
        return Gaussian(noise) * 1

    def grouped(self, size: int, relation: Relation) -> Process:
        return GDP(multiplied_up(self.mu, size)) * 1


class GaussianMixture(Mechanism, is_gaussian=True):
    """A pair of one-dimensional Gaussian mixtures with one noise: P with the records, Q without.

    **Guarantee.** Numbers hold for every mechanism that the pair dominates; that it does is the caller's claim.
    "remove" compares P with Q, "add" Q with P, and "add_remove" is the larger of both.

    Parameters
    ----------
    noise_multiplier : float or array in [0, inf]
        Standard deviation of the noise, in the unit of the means.
    p : sequence of (weight, mean)
        Weights adding up to 1 within 1e-12, means at least 0; at most 65 components.
    q : sequence of (weight, mean)
        The same with means of at most 0.  Default: all weight at 0.

    Raises
    ------
    TypeError, ValueError
        Naming component, value and range.  Shift all means, which changes nothing, so that those of p are at least 0
        and those of q at most 0; where no shift does, the privacy loss is not increasing, which the analysis needs.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.GaussianMixture(noise_multiplier=2.0, p=[(0.9, 0.0), (0.1, 1.0)])
    GaussianMixture(noise_multiplier=2.0, p=((0.9, 0.0), (0.1, 1.0)), q=((1.0, 0.0),))
    """

    noise_multiplier: Reals = parameter(NONNEGATIVE)
    p: tuple[tuple[float, float], ...] = ()
    q: tuple[tuple[float, float], ...] = ((1.0, 0.0),)

    def __init__(
        self,
        noise_multiplier: Reals,
        p: Sequence[tuple[float, float]],
        q: Sequence[tuple[float, float]] = ((1.0, 0.0),),
    ) -> None:
        store(self, "noise_multiplier", as_cells("noise_multiplier", noise_multiplier, NONNEGATIVE, may_be_empty=True))
        for name, side, domain in (("p", p, _AT_LEAST_0), ("q", q, _AT_MOST_0)):
            object.__setattr__(self, name, _components(name, side, domain))

    @property
    def is_gaussian_sampled(self) -> bool:
        return self.q == ((1.0, 0.0),)

    def losses(self, relation: Relation) -> Pair:
        noise = plain(self.noise_multiplier)
        released = max(mean for _, mean in self.p) > min(mean for _, mean in self.q)
        return MixturePair(Mixture(noise, self.p, self.q)) if released and noise < math.inf else NOTHING

    def pure_epsilon(self, relation: Relation) -> float:
        return 0.0 if self.losses(relation).is_nothing else math.inf


def _components(name: str, value: object, means: Domain) -> tuple[tuple[float, float], ...]:
    """Checked components with positive weights and distinct means, sorted outwards from 0."""
    if isinstance(value, str | bytes | dict | set) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence of (weight, mean), not {value!r}")
    weights: dict[float, list[float]] = {}
    for i, part in enumerate(value):
        if isinstance(part, str | bytes) or not isinstance(part, Iterable) or len(pair := list(part)) != 2:
            raise TypeError(f"{name}[{i}] must be (weight, mean), not {part!r}")
        weight, mean = as_number(f"{name}[{i}] weight", pair[0], UNIT), as_number(f"{name}[{i}] mean", pair[1], means)
        if weight > 0.0:
            weights.setdefault(mean + 0.0, []).append(weight)
    total = math.fsum(weight for parts in weights.values() for weight in parts)
    if abs(total - 1.0) > WEIGHTS_OFF:
        raise ValueError(f"the weights of {name} add up to {total!r}, not to 1")
    if len(weights) > MAX_COMPONENTS:
        raise ValueError(f"{name} has {len(weights)} components; allowed: at most {MAX_COMPONENTS}")
    return tuple((math.fsum(weights[mean]), mean) for mean in sorted(weights, key=abs))
