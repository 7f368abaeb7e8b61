"""Mechanisms: frozen values that compose, are sampled and grouped.

Parameters may be arrays, which broadcast; readers evaluate such a job cell by cell, in plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from fastacct.core.inputs import MAX_STEPS, Cells, Domain, Reals, as_number, unwrap
from fastacct.core.relations import SAMPLED, Relation, sensitivity
from fastacct.losses.divergence import of_pair, unknown
from fastacct.losses.loss import NOTHING, Pair
from fastacct.mechanisms.base import DeltaOf, Known, SampledGaussian, parameter, plain
from fastacct.mechanisms.process import Process
from fastacct.samplers.poisson import sampled_pure_epsilon

__all__ = ["Grouped", "Mechanism", "PoissonSampled", "Process"]

_SIZE: Final = Domain(1.0, MAX_STEPS, integer=True)


@dataclass(frozen=True, eq=False)
class Mechanism(Known):
    """Base of all mechanisms: compose them with `*` and `+`, compare and hash them by their parameters.

    To define your own, derive a frozen dataclass from this class and implement `losses`, `divergence` or `decompose`.
    Mechanisms are final: their guarantees do not pass to subclasses.
    """

    __array_ufunc__: ClassVar[None] = None  # numpy.array([10, 20]) * mechanism is one process

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__bases__:
            if issubclass(base, Mechanism) and base is not Mechanism:
                raise TypeError(
                    f"{base.__name__} is final: {cls.__name__} would inherit guarantees that need not hold for it; "
                    "derive it from fastacct.Mechanism and implement losses, divergence or decompose"
                )

    def group(self, size: int) -> Mechanism:
        """The same mechanism, for `size` records that change together."""
        whole = int(as_number("size", size, _SIZE))
        return self if whole == 1 else self.group_exactly(whole) or Grouped(self, whole)

    def grouped(self, size: int, relation: Relation) -> Process | None:
        """A process that bounds the mechanism for `size` records that change together; None if none is known."""
        return Grouped(self, size) * 1 if self.groups_directly else None

    def poisson(self, sample_rate: Reals) -> PoissonSampled:
        """The same mechanism on a random batch: every record takes part with probability `sample_rate`."""
        return PoissonSampled(self, sample_rate)

    def __mul__(self, count: int | Cells) -> Process:
        return Process({self: count})

    __rmul__ = __mul__

    def __add__(self, other: Mechanism | Process) -> Process:
        return Process({self: 1}) + other

    def __radd__(self, other: Process | int) -> Process:
        return other + Process({self: 1})


@dataclass(frozen=True, eq=False)
class PoissonSampled(Mechanism):
    """A mechanism on a Poisson sample: every record takes part independently with probability `sample_rate`.

    **Guarantee.** The amplification is that of Poisson sampling; shuffled or fixed-size batches are other mechanisms.
    For a mechanism with a dominating pair (P, Q) the pair of its sample is ((1 - q) Q + q P, Q) for "remove" and
    (Q, (1 - q) Q + q P) for "add" (Zhu, Dong, Wang 2022, theorem 11): exact where the pair is.  Where only Rényi
    divergences are known, the bound of Zhu and Wang 2019 (factor 3, no condition).  Replace-one is supported for
    Gaussians only: the sample's pair needs more than the mechanism's own.  Under zero-out a record that is not drawn
    must be as if zeroed.  Of a group, `mechanism.group(k).poisson(q)` draws all of it or none,
    `mechanism.poisson(q).group(k)` each member.

    Parameters
    ----------
    mechanism : Mechanism
    sample_rate : float or array in [0, 1]
        Expected batch size divided by the size of the data set.

    Raises
    ------
    TypeError, ValueError
        For a rate out of range, shapes that do not broadcast, and mechanisms whose sample is not known.

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
    sample_rate: Reals = parameter(Domain(0.0, 1.0))

    def __post_init__(self) -> None:
        inner = self.mechanism
        if not isinstance(inner, Mechanism):
            raise TypeError(f"mechanism must be a mechanism, not {inner!r}")
        while isinstance(inner, Grouped):
            inner = inner.mechanism
        if isinstance(inner, PoissonSampled):
            raise ValueError(f"{self.mechanism!r} is a sample already; sample once, at the product of the rates")
        if self.mechanism.is_local:
            raise ValueError(
                f"the Poisson sample of {self.mechanism!r} is not known: in the local model everyone sees who does not "
                "take part"
            )
        if not self.relations:
            raise ValueError(
                f"the Poisson sample of {self.mechanism!r} is not known: it supports "
                f"{', '.join(map(repr, self.mechanism.relations))}, and a sample is known for "
                f"{', '.join(map(repr, SAMPLED))}"
            )
        super().__post_init__()

    @property
    def relations(self) -> tuple[Relation, ...]:  # type: ignore[override]
        """Those under which the sample of the mechanism is supported."""
        return self.mechanism.sample_relations

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """As of the mechanism."""
        return self.mechanism.tight

    @property
    def has_losses(self) -> bool:
        """As of the mechanism."""
        return self.mechanism.has_losses

    @property
    def is_gaussian(self) -> bool:  # type: ignore[override]
        """As of the mechanism's samples."""
        return self.mechanism.is_gaussian_sampled

    @property
    def groups_directly(self) -> bool:  # type: ignore[override]
        """As of the mechanism."""
        return self.mechanism.groups_directly

    def decompose(self, relation: Relation) -> Process | None:
        """The sample of the one release that the mechanism is; a composition is sampled as a whole."""
        parts = self.mechanism.decompose(relation)
        if parts is None:
            return None
        inner = list(parts)
        if len(inner) != 1 or not np.all(np.asarray(inner[0][1]) == 1):
            raise ValueError(
                f"{self.mechanism!r} consists of several releases: its sample is not the composition of their samples. "
                "Sample its guarantee instead, PureDP or ApproxDP"
            )
        return Process({inner[0][0].poisson(self.sample_rate): 1})

    def unsampled(self) -> Mechanism:
        """The mechanism inside."""
        return self.mechanism

    def losses(self, relation: Relation) -> Pair | None:
        """Those of the sample."""
        return self.sample_losses(1.0, 1, relation)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair | None:
        """Of the sample of a group, each member drawn independently."""
        own = plain(self.sample_rate)
        return NOTHING if own == 0.0 else self.mechanism.sample_losses(own, size, relation) if rate == 1.0 else None

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Of the sample."""
        return self.divergence_given(orders, relation, None)

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        """Of the sample."""
        if self.sampled_gaussian(relation) is not None:
            return super().divergence(orders, relation)

        def own(at: Cells, under: Relation) -> Cells:
            return self.mechanism.divergence_given(at, under, delta_of)

        rate = plain(self.sample_rate)
        return np.zeros(orders.shape) if rate == 0.0 else self.mechanism.sample_divergence(orders, rate, relation, own)

    def pure_epsilon(self, relation: Relation) -> float:
        """Of the sample."""
        rate = plain(self.sample_rate)
        return sampled_pure_epsilon(self.mechanism.pure_epsilon(relation), rate, relation) if rate > 0.0 else 0.0

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian | None:
        """The Gaussian's noise with this rate, but under replace-one."""
        if relation == "replace_one" or not self.mechanism.groups_directly:
            return None
        inner = self.mechanism.sampled_gaussian(relation)
        return None if inner is None else inner._replace(rate=np.asarray(self.sample_rate))

    def poisson(self, sample_rate: Reals) -> PoissonSampled:
        """A sample of the sample: the rates multiply.  A product that is not a float is rounded up."""
        rate = PoissonSampled(self.mechanism, sample_rate).sample_rate
        own, other = np.broadcast_arrays(np.asarray(self.sample_rate), np.asarray(rate))
        exact = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(own.flat, other.flat, strict=True)]
        near = [float(one) for one in exact]
        up = [np.nextafter(value, 2.0) if value < one else value for value, one in zip(near, exact, strict=True)]
        return PoissonSampled(self.mechanism, unwrap(np.array(up).reshape(own.shape)))

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.poisson(sample_rate={self.sample_rate!r})"


@dataclass(frozen=True, eq=False)
class Grouped(Mechanism):
    """A mechanism, for `size` records that change together; made by `.group(size)`.

    **Guarantee.** Exact for Gaussians, and for their Poisson samples up to 64 records; else a bound.  Of more members
    of a sample, how many are drawn is rounded up to one of 65 numbers.  Additive noise: the query changes `size` times
    as much.  Pure DP: size epsilon.  (epsilon, delta): (size epsilon, delta (exp(size epsilon) - 1) /
    (exp(epsilon) - 1)).  zCDP: size^2 rho.  GDP: size mu.  Rényi DP: Mironov 2017, proposition 2, at the next power of
    two.  Randomised response: every member of the group answers.  A composition: part by part.

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
        object.__setattr__(self, "size", int(as_number("size", self.size, _SIZE)))
        if not self.mechanism.groups_directly:
            for relation in self.mechanism.relations[:1]:
                self.decompose(relation)  # refuses here what is not known

    @property
    def relations(self) -> tuple[Relation, ...]:  # type: ignore[override]
        """Those of the mechanism; of Poisson samples without replace-one."""
        sampled = isinstance(self.mechanism, PoissonSampled)
        return self.mechanism.sample_relations if sampled else self.mechanism.relations

    @property
    def tight(self) -> bool:  # type: ignore[override]
        """Whether the group's own pair is known."""
        inner = self.mechanism
        if isinstance(inner, PoissonSampled) and self.size > inner.mechanism.largest_exact_group:
            return bool(np.all(np.isin(np.asarray(inner.sample_rate), (0.0, 1.0))))
        return inner.groups_directly

    @property
    def is_local(self) -> bool:  # type: ignore[override]
        """As of the mechanism."""
        return self.mechanism.is_local

    @property
    def is_gaussian(self) -> bool:  # type: ignore[override]
        """Where the group's own pair is known."""
        return self.mechanism.is_gaussian and self.mechanism.groups_directly

    def decompose(self, relation: Relation) -> Process | None:
        """The groups of all parts."""
        if self.mechanism.groups_directly:
            return None
        parts = self.mechanism.decompose(relation)
        whole = Process()
        for one, count in [(self.mechanism, None)] if parts is None else parts:
            found = (
                one.grouped(self.size, relation) if count is None else one.grouped_within(count, self.size, relation)
            )
            if found is None:
                raise ValueError(
                    f"group privacy is not implemented for {self.mechanism!r}; model the group directly with "
                    "GaussianMixture or from_pmf, or use PureDP or ApproxDP"
                )
            whole = whole + found
        return whole

    def losses(self, relation: Relation) -> Pair | None:
        """Of the group."""
        return self.mechanism.sample_losses(1.0, self.size, relation)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """That of the Gaussian which the group is, or by its losses."""
        if self.sampled_gaussian(relation) is not None:
            return super().divergence(orders, relation)
        pair = self.losses(relation)
        return unknown(orders) if pair is None else of_pair(pair, orders, relation)

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian | None:
        """A Gaussian with less noise; rounded down unless the division is exact."""
        inner = None if isinstance(self.mechanism, PoissonSampled) else self.mechanism.sampled_gaussian(relation)
        if inner is None:
            return None
        exact = self.size * sensitivity(relation) <= 2.0
        noise = inner.noise / self.size
        return SampledGaussian(noise if exact else np.asarray(np.nextafter(noise, 0.0)), inner.rate, exact)

    def group(self, size: int) -> Mechanism:
        """Groups of groups."""
        return self.mechanism.group(self.size * int(as_number("size", size, _SIZE)))

    def __repr__(self) -> str:
        return f"{self.mechanism!r}.group({self.size})"
