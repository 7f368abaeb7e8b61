"""Mechanisms: what is known of them, under fixed method names; how they compose, are sampled and grouped.

Parameters may be arrays, which broadcast; readers evaluate such a job cell by cell, in plain numbers.  What a class
does not say is the unsafe answer: unknown losses, an infinite divergence, no pure guarantee.  Methods that take a
relation are asked of a mechanism with plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import ClassVar, Final

import numpy as np

from fastacct.core.inputs import TINY, UNIT, Cells, Reals, as_number, unwrap
from fastacct.core.kept import kept_by_argument
from fastacct.core.relations import SAMPLED, Relation, both_ways, sensitivity
from fastacct.core.rounding import float_above
from fastacct.core.words import told_names
from fastacct.losses.divergence import of_pair, of_sampled_gaussian, square, unknown
from fastacct.losses.loss import NOTHING, OutOfReachError, Pair
from fastacct.mechanisms.base import (
    AT_LEAST_ONE,
    Count,
    Divergence,
    SampledGaussian,
    parameter,
    plain,
    scaled,
)
from fastacct.mechanisms.claimed import completed
from fastacct.mechanisms.process import DeltaOf, Process
from fastacct.mechanisms.samplers import Refusals
from fastacct.samplers.poisson import general_bound, sample, sampled_pure_epsilon

__all__ = ["Grouped", "Mechanism", "PoissonSampled", "Process"]

_WHY: Final = ("no_group", "no_sample")
_FACTS: Final = ("relations", "tight", "is_local", "is_gaussian", "has_groups", "group_powers", *_WHY)


class Mechanism(Refusals):
    """Base of all mechanisms: compose them with `*` and `+`, compare and hash them by their parameters.

    To define your own, derive a frozen dataclass from this class and implement `losses`, `divergence` or `decompose`.
    Mechanisms are final: their guarantees do not pass to subclasses.
    """

    relations: ClassVar[tuple[Relation, ...]] = SAMPLED
    """Neighbouring relations that are supported."""
    tight: ClassVar[bool] = True
    """True if the analysed pair dominates tightly.  If False, results are upper bounds, and it adds 0 to lower ones."""
    is_local: ClassVar[bool] = False
    """Whether everyone sees who takes part, as in the local model: then sampling does not amplify."""
    is_gaussian: ClassVar[bool] = False
    """Whether the losses are Gaussian mixtures that increase in the output, whatever the parameters."""
    has_groups: ClassVar[bool] = False
    """Whether `sample_losses` has the pairs of groups of any size."""
    group_powers: ClassVar[dict[str, int]] = {}
    """The parameters that the same mechanism has for a group, and which power of its size multiplies them."""
    no_group: ClassVar[str] = ""
    no_sample: ClassVar[str] = ""
    """Why nothing is known of groups of records, and of samples, if that is so."""

    def __init_subclass__(cls, **facts: object) -> None:
        """Take the above as keywords of the class, as in `class Mine(Mechanism, relations=ALL, tight=False)`."""
        super().__init_subclass__()
        for name, value in facts.items():
            if name not in _FACTS:
                raise TypeError(f"{name} is not known of a mechanism; allowed: {', '.join(_FACTS)}")
            setattr(cls, name, value)
        completed(cls, Mechanism)

    # -- what is known of it ------------------------------------------------------------------------------------------

    def decompose(self, relation: Relation) -> Process | None:
        """An equivalent process of simpler mechanisms, or None if this one is evaluated directly."""
        return None

    def losses(self, relation: Relation) -> Pair | None:
        """Privacy losses of one release in both directions, or None if no dominating pair is known."""
        return None

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Upper bound of the Rényi divergence of one release at orders above 1, by its losses; inf if not known."""
        if (gaussian := self.sampled_gaussian(relation)) is not None:
            return of_sampled_gaussian(gaussian.noise, gaussian.rate, orders)
        return self._of_losses(orders, 1.0, relation)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        """The same, for a mechanism whose divergence needs the delta of another job."""
        return self.divergence(orders, relation)

    def pure_epsilon(self, relation: Relation) -> float:
        """Epsilon of pure differential privacy; inf where there is none, or none is known."""
        return math.inf

    def concentration(self, relation: Relation) -> float:
        """rho of zero-concentrated DP in the directions of the relation; inf where none is known."""
        if (gaussian := self.sampled_gaussian(relation)) is not None and gaussian.rate == 1.0:
            return 0.5 * square(1.0 / float(gaussian.noise)) if gaussian.noise > 0.0 else math.inf
        epsilon = self.pure_epsilon(both_ways(relation))  # the theorem needs the loss of both directions to be bounded
        return max(epsilon * math.tanh(0.5 * epsilon) * (1.0 + 4e-15), TINY if epsilon > 0.0 else 0.0)

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian | None:
        """The parameters of the Poisson-sampled Gaussian that this mechanism is under a relation, or None."""
        return None

    def alternatives(self) -> tuple[Process, ...]:
        """Jobs of which one is run, on the part of the data that a record is in; empty for all but parallel ones."""
        return ()

    def unsampled(self) -> Mechanism:
        """The mechanism on the whole data set, whose losses are never smaller."""
        return self

    def local(self) -> Process:
        """What somebody learns who sees every message; of decentralised mechanisms alone."""
        raise ValueError(f"{self!r} is not decentralised: nobody sees less than all of its output")

    # -- of a random batch, and of a group of records -----------------------------------------------------------------

    @property
    def has_losses(self) -> bool:
        """Whether a dominating pair is known."""
        return type(self).losses is not Mechanism.losses

    @property
    def is_gaussian_sampled(self) -> bool:
        """Whether the losses of a Poisson sample are Gaussian mixtures that increase in the output, too."""
        return self.is_gaussian

    @property
    def sample_relations(self) -> tuple[Relation, ...]:
        """Relations under which a Poisson sample is supported."""
        return tuple(relation for relation in self.relations if relation in SAMPLED and not self.no_sample)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair | None:
        """Losses of a Poisson sample with a rate above 0, for `size` records that change together."""
        pair = self.losses(relation) if size == 1 else None
        return pair if pair is None or pair.is_nothing or rate == 1.0 else pair.sampled(rate) or sample(pair, rate)

    def sample_divergence(self, orders: Cells, rate: float, relation: Relation, own: Divergence) -> Cells:
        """Rényi divergence of a Poisson sample with a rate above 0: by its losses, or from its `own` divergence."""
        found = self._of_losses(orders, rate, relation)
        if (unknown_at := ~np.isfinite(found)).any():
            bound, both = own(orders[unknown_at], relation), both_ways(relation)  # the theorem rests on both directions
            if rate < 1.0 and np.isfinite(own(np.array([2.0]), relation)).all():
                bound = general_bound(lambda order: own(order, both), rate, orders[unknown_at], bound)
            found[unknown_at] = bound
        return found

    def _of_losses(self, orders: Cells, rate: float, relation: Relation) -> Cells:
        """Divergence of the losses, or of those of a Poisson sample; inf where they are not known."""
        with suppress(OutOfReachError):
            pair = self.losses(relation) if rate == 1.0 else self._sampled_losses((rate, relation))
            return unknown(orders) if pair is None else of_pair(pair, orders, relation)
        return unknown(orders)

    @kept_by_argument
    def _sampled_losses(self, asked: tuple[float, Relation]) -> Pair | None:
        """Of a Poisson sample, kept: a search asks divergences five times."""
        return self.sample_losses(asked[0], 1, asked[1])

    def sampled_together(self, others: Sequence[tuple[Mechanism, Count]], rate: Reals) -> Mechanism | None:
        """This mechanism and others of its class, all on one Poisson sample, as one mechanism; None if not known."""
        return None

    def group_exactly(self, size: int) -> Mechanism | None:
        """The same mechanism with other parameters for `size` records, where that is exact, rounding included."""
        moved = {name: scaled(getattr(self, name), size, power) for name, power in self.group_powers.items()}
        is_known = moved and all(value is not None for value in moved.values())
        return replace(self, **moved).marked(self.is_replaced) if is_known else None

    def grouped(self, size: int, relation: Relation) -> Process | None:
        """A process that bounds the mechanism for `size` records that change together; None if none is known."""
        group = Grouped(self, size) if self.has_groups else self.group_exactly(size)
        return None if group is None else group * 1

    def grouped_within(self, count: Count, size: int, relation: Relation) -> Process | None:
        """The same for `count` releases of a composition, of which members of the group may touch different ones."""
        return None if (group := self.grouped(size, relation)) is None else group * count

    # -- verbs --------------------------------------------------------------------------------------------------------

    @told_names
    def group(self, size: int) -> Mechanism:
        """The same mechanism, for `size` records that change together."""
        members = int(as_number("size", size, AT_LEAST_ONE))
        return self if members == 1 else self.group_exactly(members) or Grouped(self, members)

    @told_names
    def poisson(self, sample_rate: Reals) -> Mechanism:
        """The same mechanism on a random batch: every record takes part with probability `sample_rate`."""
        return PoissonSampled(self, sample_rate)

    def __mul__(self, count: int | Cells) -> Process:
        return Process({self: count})

    __rmul__ = __mul__

    def __add__(self, other: Mechanism | Process) -> Process:
        return Process({self: 1}) + other

    def __radd__(self, other: Process | int) -> Process:
        return other + Process({self: 1})


def _inner(name: str) -> property:
    """A property that a sample or a group takes from the mechanism inside."""
    return property(attrgetter(f"mechanism.{name}"))


class PoissonSampled(Mechanism):
    """A mechanism on a Poisson sample: every record takes part independently with probability `sample_rate`.

    **Guarantee.** The amplification is that of Poisson sampling; shuffled or fixed-size batches are other mechanisms.
    Of a mechanism with a dominating pair (P, Q) the pair is ((1 - q) Q + q P, Q) for "remove", the same exchanged for
    "add".  Source: Zhu, Dong, Wang 2022, theorem 11; exact where the pair is.  Where only
    Rényi divergences are known, the bound of Zhu and Wang 2019 (factor 3, no condition).  Replace-one is supported for
    Gaussians only: the sample's pair needs more than the mechanism's own.  Under zero-out a record that is not drawn
    must be as if zeroed.  Of a group, `mechanism.group(k).poisson(q)` draws all of it or none,
    `mechanism.poisson(q).group(k)` each member.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.PoissonSampled(fa.Gaussian(noise_multiplier=1.0), sample_rate=0.01)
    >>> step == fa.Gaussian(1.0).poisson(0.01)
    True
    >>> round(fa.epsilon(fa.ApproxDP(0.5, 1e-6).poisson(0.1), delta=1.001e-7), 6)  # log(1 + 0.1 (exp(0.5) - 1))
    0.062855
    """

    mechanism: Mechanism
    sample_rate: Reals = parameter(UNIT, about="Expected batch size divided by the size of the data set.")

    def __post_init__(self) -> None:
        inner = self.mechanism
        if not isinstance(inner, Mechanism):
            raise TypeError(f"mechanism must be a mechanism, not {inner!r}")
        while isinstance(inner, Grouped):
            inner = inner.mechanism
        if isinstance(inner, PoissonSampled):
            raise ValueError(f"{self.mechanism!r} is a sample already; sample once, at the product of the rates")
        if self.mechanism.is_local or not self.relations:
            own, sampled = (", ".join(map(repr, names)) for names in (self.mechanism.relations, SAMPLED))
            why = self.mechanism.no_sample or f"it supports {own}, and a sample is known for {sampled}"
            why = "in the local model everyone sees who does not take part" if self.mechanism.is_local else why
            raise ValueError(f"Poisson-subsampled {self.mechanism!r} is not known: {why}")
        super().__post_init__()
        if type(self.mechanism).decompose is not Mechanism.decompose:
            self.decompose(self.relations[0])  # which refuses several releases

    relations = _inner("sample_relations")
    tight, has_losses, has_groups = _inner("tight"), _inner("has_losses"), _inner("has_groups")
    is_gaussian = _inner("is_gaussian_sampled")

    def decompose(self, relation: Relation) -> Process | None:
        """The sample of the one release that the mechanism is; a composition with losses is sampled as a whole."""
        parts = self.mechanism.decompose(relation)
        inner = list(parts or ())
        if len(inner) == 1 and np.all(np.asarray(inner[0][1]) == 1):
            return Process({inner[0][0].poisson(self.sample_rate): 1})
        if parts is None or self.mechanism.has_losses:
            return None
        why = "its sample is not the composition of their samples. Sample its guarantee instead, PureDP or ApproxDP"
        raise ValueError(f"{self.mechanism!r} consists of several releases: {why}")

    def unsampled(self) -> Mechanism:
        return self.mechanism

    @kept_by_argument
    def losses(self, relation: Relation) -> Pair | None:
        return self.sample_losses(1.0, 1, relation)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair | None:
        """Of the sample of a group, each member drawn independently."""
        own = plain(self.sample_rate)
        return NOTHING if own == 0.0 else self.mechanism.sample_losses(own, size, relation) if rate == 1.0 else None

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        return self.divergence_given(orders, relation, None)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        if self.sampled_gaussian(relation) is not None:
            return super().divergence(orders, relation)

        def own(at: Cells, under: Relation) -> Cells:
            return self.mechanism.divergence_given(at, under, delta_of)

        rate = plain(self.sample_rate)
        return np.zeros(orders.shape) if rate == 0.0 else self.mechanism.sample_divergence(orders, rate, relation, own)

    def pure_epsilon(self, relation: Relation) -> float:
        rate = plain(self.sample_rate)
        return sampled_pure_epsilon(self.mechanism.pure_epsilon(relation), rate, relation) if rate > 0.0 else 0.0

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian | None:
        """The Gaussian's noise with this rate, but under replace-one."""
        is_one = relation != "replace_one" and self.mechanism.has_groups
        inner = self.mechanism.sampled_gaussian(relation) if is_one else None
        return None if inner is None else inner._replace(rate=np.asarray(self.sample_rate))

    def poisson(self, sample_rate: Reals) -> PoissonSampled:
        """A sample of the sample: the rates multiply.  A product that is not a float is rounded up."""
        rate = PoissonSampled(self.mechanism, sample_rate).sample_rate
        own, inner = np.broadcast_arrays(np.asarray(self.sample_rate), np.asarray(rate))
        rates = zip(own.flat, inner.flat, strict=True)
        up = [float_above(Fraction(float(a)) * Fraction(float(b))) for a, b in rates]
        return PoissonSampled(self.mechanism, unwrap(np.array(up).reshape(own.shape)))

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.poisson(sample_rate={self.sample_rate!r})"


class Grouped(Mechanism):
    """A mechanism, for `size` records that change together; made by `.group(size)`.

    **Guarantee.** Exact for Gaussians and their Poisson samples, and where records come or go for batches of fixed size
    and draws with replacement; else a bound.  Where more than 65 counts of members in a batch matter, neighbouring ones
    are rounded up.  Additive noise: the query changes `size` times as much.  Pure DP: size epsilon.
    (epsilon, delta): (size epsilon, delta (exp(size epsilon) - 1) / (exp(epsilon) - 1)).  zCDP: size^2 rho.  GDP: size
    mu.  Rényi DP: Mironov 2017, proposition 2, at the next power of two.  Randomised response: every member of the
    group answers.  A composition: part by part.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.Gaussian(noise_multiplier=2.0).poisson(sample_rate=0.1).group(3)
    Gaussian(noise_multiplier=2.0).poisson(sample_rate=0.1).group(3)
    >>> fa.PureDP(0.5).group(3).decompose("add_remove")
    Process({PureDP(epsilon=1.5000000000000002): 1})
    """

    mechanism: Mechanism
    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"mechanism must be a mechanism, not {self.mechanism!r}")
        object.__setattr__(self, "size", int(as_number("size", self.size, AT_LEAST_ONE)))
        if self.mechanism.no_group:
            raise ValueError(f"group privacy is not implemented for {self.mechanism!r}: {self.mechanism.no_group}")
        if not self.mechanism.has_groups:
            for relation in self.mechanism.relations[:1]:
                self.decompose(relation)  # refuses here what is not known

    relations, is_local, no_sample = _inner("relations"), _inner("is_local"), _inner("no_sample")

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """Whether the group's own pair is known."""
        return self.mechanism.tight and self.mechanism.has_groups

    @property
    def is_gaussian(self) -> bool:  # type: ignore[override]
        return self.mechanism.is_gaussian and self.mechanism.has_groups

    def decompose(self, relation: Relation) -> Process | None:
        if self.mechanism.has_groups:
            return None
        parts = self.mechanism.decompose(relation)
        if parts is None:
            groups = [self.mechanism.grouped(self.size, relation)]
        else:
            groups = [mechanism.grouped_within(count, self.size, relation) for mechanism, count in parts]
        bounds = [group for group in groups if group is not None]
        if len(bounds) < len(groups):
            raise ValueError(
                f"group privacy is not implemented for {self.mechanism!r}; a class of your own says group_powers or "
                "grouped; otherwise model the group with GaussianMixture or from_pmf, or use PureDP or ApproxDP"
            )
        return sum(bounds, Process())

    def unsampled(self) -> Mechanism:
        unsampled = self.mechanism.unsampled()
        return self if unsampled == self.mechanism else unsampled.group(self.size)

    def losses(self, relation: Relation) -> Pair | None:
        return self.mechanism.sample_losses(1.0, self.size, relation)

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian | None:
        """A Gaussian with less noise; rounded down unless the division is exact."""
        inner = None if isinstance(self.mechanism, PoissonSampled) else self.mechanism.sampled_gaussian(relation)
        if inner is None:
            return None
        noise, exact = inner.noise / self.size, self.size * sensitivity(relation) <= 2.0
        return SampledGaussian(noise if exact else np.asarray(np.nextafter(noise, 0.0)), inner.rate, exact)

    def group(self, size: int) -> Mechanism:
        return self.mechanism.group(self.size * int(as_number("size", size, AT_LEAST_ONE)))

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.group({self.size})"
