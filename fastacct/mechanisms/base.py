"""What is known of a mechanism: the method names under which its own file says it.

What a class does not say is the unsafe answer: unknown losses, an infinite divergence, no pure guarantee.  Methods that
take a relation are asked of a mechanism with plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from fastacct.core.inputs import TINY, Cells, Domain, Reals, as_cells, as_number, common_shape
from fastacct.core.relations import SAMPLED, Relation, both_ways
from fastacct.losses.divergence import of_pair, of_sampled_gaussian, square, unknown
from fastacct.losses.loss import OutOfReachError, Pair
from fastacct.samplers.poisson import general_bound, sample

if TYPE_CHECKING:
    from fastacct.mechanisms.algebra import Mechanism
    from fastacct.mechanisms.process import Process

__all__ = [
    "Count",
    "DeltaOf",
    "Divergence",
    "Known",
    "SampledGaussian",
    "constant",
    "exactly",
    "parameter",
    "plain",
    "store",
]

Count = int | Cells
Divergence = Callable[[Cells, Relation], Cells]
"""Upper bounds of a Rényi divergence at orders, under a relation."""
DeltaOf = Callable[["Process", Cells, Relation], Cells]
"""Certified deltas of a job at epsilons, under a relation: how another job is evaluated, passed in by a reader."""


class SampledGaussian(NamedTuple):
    """Parameters, which may be arrays, of a mechanism that is one Poisson-sampled Gaussian under some relation."""

    noise: Cells
    rate: Cells
    is_exact: bool
    """If False the noise was rounded down."""


def parameter(domain: Domain, default: Any = MISSING) -> Any:
    """A field of a mechanism that may be an array, with its allowed range."""
    return field(metadata={"domain": domain}, default=default)


def constant(domain: Domain, default: Any = MISSING) -> Any:
    """A field of a mechanism that is one number, with its allowed range; whole numbers are stored as int."""
    return field(metadata={"constant": domain}, default=default)


@dataclass(frozen=True, eq=False)
class Known:
    """What a mechanism says of itself; the defaults are the unsafe answers."""

    relations: ClassVar[tuple[Relation, ...]] = SAMPLED
    """Neighbouring relations that are supported."""
    tight: ClassVar[bool] = True
    """True if the analysed pair dominates tightly.  If False, results are upper bounds and every lower bound is 0."""
    is_local: ClassVar[bool] = False
    """Whether everyone sees who takes part, as in the local model: then sampling does not amplify."""
    is_gaussian: ClassVar[bool] = False
    """Whether the losses are Gaussian mixtures that increase in the output, whatever the parameters."""
    groups_directly: ClassVar[bool] = False
    """Whether `sample_losses` covers groups of records."""
    largest_exact_group: ClassVar[float] = math.inf
    """Of how many records `sample_losses` has the group's own pair, not one that dominates it."""
    __array_ufunc__: ClassVar[None] = None  # numpy.array([10, 20]) * mechanism is one process

    def __post_init__(self) -> None:
        for one in fields(self):
            if "domain" in one.metadata:
                store(
                    self,
                    one.name,
                    as_cells(one.name, getattr(self, one.name), one.metadata["domain"], may_be_empty=True),
                )
            elif "constant" in one.metadata:
                domain = one.metadata["constant"]
                number = as_number(one.name, getattr(self, one.name), domain)
                object.__setattr__(self, one.name, int(number) if domain.integer else number + 0.0)
        _ = self.shape  # refuse shapes that do not broadcast here, where their names are known

    # -- what is known of it ------------------------------------------------------------------------------------------

    def decompose(self, relation: Relation) -> Process | None:
        """An equivalent process of simpler mechanisms, or None if this one is evaluated directly."""
        return None

    def losses(self, relation: Relation) -> Pair | None:
        """Privacy losses of one release in both directions, or None if no dominating pair is known."""
        return None

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """Upper bound of the Rényi divergence of one release at orders above 1; inf where none is known."""
        one = self.sampled_gaussian(relation)
        return unknown(orders) if one is None else of_sampled_gaussian(one.noise, one.rate, orders)

    def pure_epsilon(self, relation: Relation) -> float:
        """Epsilon of pure differential privacy; inf where there is none, or none is known."""
        return math.inf

    def divergence_given(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
        """The same, for a mechanism whose divergence needs the delta of another job."""
        return self.divergence(orders, relation)

    def alternatives(self) -> tuple[Process, ...]:
        """Jobs of which one is run, on the part of the data that a record is in; empty for all but parallel ones."""
        return ()

    def concentration(self, relation: Relation) -> float:
        """rho of zero-concentrated DP in the directions of the relation; inf where none is known."""
        one = self.sampled_gaussian(relation)
        if one is not None and one.rate == 1.0:
            return 0.5 * square(1.0 / float(one.noise)) if one.noise > 0.0 else math.inf
        epsilon = self.pure_epsilon(both_ways(relation))  # the theorem needs the loss of both directions to be bounded
        if epsilon == math.inf:
            return math.inf
        return max(epsilon * math.tanh(0.5 * epsilon) * (1.0 + 4e-15), TINY if epsilon > 0.0 else 0.0)

    def sampled_gaussian(self, relation: Relation) -> SampledGaussian | None:
        """The parameters of the Poisson-sampled Gaussian that this mechanism is under a relation, or None."""
        return None

    @classmethod
    def examples(cls) -> Iterable[Mechanism]:
        """Instances for tests, docs and benches, corners among them."""
        return ()

    def unsampled(self) -> Known:
        """The mechanism on the whole data set, whose losses are never smaller."""
        return self

    # -- of a random batch, and of a group of records -----------------------------------------------------------------

    @property
    def has_losses(self) -> bool:
        """Whether a dominating pair is known."""
        return type(self).losses is not Known.losses

    @property
    def is_gaussian_sampled(self) -> bool:
        """Whether the same holds for a Poisson sample."""
        return self.is_gaussian

    @property
    def sample_relations(self) -> tuple[Relation, ...]:
        """Relations under which a Poisson sample is supported."""
        return tuple(one for one in self.relations if one in SAMPLED)

    def sample_losses(self, rate: float, size: int, relation: Relation) -> Pair | None:
        """Losses of a Poisson sample with a rate above 0, for `size` records that change together."""
        pair = self.losses(relation) if size == 1 else None
        if pair is None or pair.is_nothing or rate == 1.0:
            return pair
        return pair.sampled(rate) or sample(pair, rate)

    def sample_divergence(self, orders: Cells, rate: float, relation: Relation, own: Divergence) -> Cells:
        """Rényi divergence of a Poisson sample with a rate above 0: by its losses, or from its `own` divergence."""
        try:
            pair = self.sample_losses(rate, 1, relation)
        except OutOfReachError:
            pair = None
        found = unknown(orders) if pair is None else of_pair(pair, orders, relation)
        if np.isfinite(found).all():
            return found
        whole = own(orders, relation)
        if rate == 1.0 or not np.isfinite(own(np.array([2.0]), relation)).all():
            return np.minimum(found, whole)
        both = both_ways(relation)  # the theorem rests on both directions
        return np.minimum(found, general_bound(lambda at: own(at, both), rate, orders, whole))

    def sampled_together(self, others: Iterable[tuple[Mechanism, Count]], rate: Reals) -> Mechanism | None:
        """This mechanism and others of its class, all on one Poisson sample, as one mechanism; None if not known."""
        return None

    def group_exactly(self, size: int) -> Mechanism | None:
        """The same mechanism with another parameter for `size` records, where that is exact, rounding included."""
        return None

    def grouped(self, size: int, relation: Relation) -> Process | None:
        """A process that bounds the mechanism for `size` records that change together; None if none is known."""
        return None

    def grouped_within(self, count: Count, size: int, relation: Relation) -> Process | None:
        """The same for `count` releases of a composition, of which members of the group may touch different ones."""
        one = self.grouped(size, relation)
        return None if one is None else one * count

    # -- values and cells ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of all parameters; () for plain numbers."""
        arrays = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                arrays[one.name] = value
            elif isinstance(value, Known) and value.shape:
                arrays[one.name] = np.broadcast_to(0.0, value.shape)
        return common_shape(arrays) if arrays else ()

    def at(self, shape: tuple[int, ...], cell: int) -> Self:
        """The mechanism of one cell of `shape`, in plain numbers."""
        changed: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                changed[one.name] = float(np.broadcast_to(value, shape).flat[cell])
            elif isinstance(value, Known) and value.shape:
                changed[one.name] = value.at(shape, cell)
        return replace(self, **changed) if changed else self

    def place(self) -> tuple[str, tuple[float, ...]]:
        """A place among mechanisms with plain numbers: from values alone, the same in every process."""
        words, numbers = [type(self).__name__], list[float]()
        for one in sorted(fields(self), key=lambda one: one.name):
            value = getattr(self, one.name)
            if isinstance(value, Known):
                inner, more = value.place()
                words.append(f"{one.name}={inner}")
                numbers += more
            elif "domain" in one.metadata:
                numbers.append(float(value))
            else:
                words.append(f"{one.name}={value!r}")
        return ",".join(words), tuple(numbers)

    def _key(self) -> tuple[Hashable, ...]:
        values = (getattr(self, one.name) for one in fields(self))
        kind = cast("Hashable", type(self))
        return (kind, *((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Known) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


def store(mechanism: Known, name: str, cells: Cells) -> None:
    """A Python float, or a private array that nobody can change."""
    value = float(cells) + 0.0 if cells.ndim == 0 else cells + 0.0  # no negative zero: equality is by value
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    object.__setattr__(mechanism, name, value)


def plain(value: object) -> float:
    """A parameter of a mechanism with plain numbers."""
    return float(np.asarray(value, dtype=np.float64))


def exactly(mechanism: Mechanism, name: str, factor: float) -> Mechanism | None:
    """The mechanism with a parameter multiplied by a power of two, or None where that is not exact."""
    value = np.asarray(getattr(mechanism, name))
    with np.errstate(over="ignore"):
        moved = value * factor
    if math.frexp(factor)[0] != 0.5 or not np.array_equal(moved / factor, value):
        return None
    return replace(mechanism, **{name: moved})
