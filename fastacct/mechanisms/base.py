"""What every mechanism is before anything is known of it: a frozen value of parameters, which may be arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, cast

import numpy as np

from fastacct.core.inputs import Cells, Domain, as_cells, as_number, common_shape
from fastacct.core.relations import Relation

if TYPE_CHECKING:
    from fastacct.mechanisms.process import Process

__all__ = [
    "WEIGHTS_OFF",
    "Count",
    "DeltaOf",
    "Divergence",
    "SampledGaussian",
    "Value",
    "constant",
    "parameter",
    "plain",
    "store",
]

WEIGHTS_OFF: Final = 1e-12
"""How far from 1 given probabilities may add up: rounding of the sum, no more."""
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


def plain(value: object) -> float:
    """A parameter of a mechanism with plain numbers."""
    return float(np.asarray(value, dtype=np.float64))


def store(value: Value, name: str, cells: Cells) -> None:
    """Set a field to a Python float, or to a private array that nobody can change."""
    stored = float(cells) + 0.0 if cells.ndim == 0 else cells + 0.0  # no negative zero: equality is by value
    if isinstance(stored, np.ndarray):
        stored.flags.writeable = False
    object.__setattr__(value, name, stored)


@dataclass(frozen=True, eq=False)
class Value:
    """A frozen dataclass of parameters, compared and hashed by them; arrays broadcast to the cells of a job."""

    __array_ufunc__: ClassVar[None] = None  # numpy.array([10, 20]) * mechanism is one process

    def __post_init__(self) -> None:
        for one in fields(self):
            given = getattr(self, one.name)
            if "domain" in one.metadata:
                store(self, one.name, as_cells(one.name, given, one.metadata["domain"], may_be_empty=True))
            elif "constant" in one.metadata:
                domain = one.metadata["constant"]
                number = as_number(one.name, given, domain)
                object.__setattr__(self, one.name, int(number) if domain.integer else number + 0.0)
        _ = self.shape  # refuse shapes that do not broadcast here, where their names are known

    @property
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of all parameters; () for plain numbers."""
        arrays = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                arrays[one.name] = value
            elif isinstance(value, Value) and value.shape:
                arrays[one.name] = np.broadcast_to(0.0, value.shape)
        return common_shape(arrays) if arrays else ()

    def at(self, shape: tuple[int, ...], cell: int) -> Self:
        """The mechanism of one cell of `shape`, in plain numbers."""
        changed: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                changed[one.name] = float(np.broadcast_to(value, shape).flat[cell])
            elif isinstance(value, Value) and value.shape:
                changed[one.name] = value.at(shape, cell)
        return replace(self, **changed) if changed else self

    def place(self) -> tuple[str, tuple[float, ...]]:
        """A place among mechanisms with plain numbers: from values alone, the same in every process."""
        words, numbers = [type(self).__name__], list[float]()
        for one in sorted(fields(self), key=lambda one: one.name):
            value = getattr(self, one.name)
            if isinstance(value, Value):
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
        return self._key() == other._key() if isinstance(other, Value) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())
