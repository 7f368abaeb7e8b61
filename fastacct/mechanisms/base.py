"""What every mechanism is before anything is known of it: a frozen value of parameters, which may be arrays."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, Field, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeVar, cast

import numpy as np

from fastacct.core.inputs import (
    MAX_STEPS,
    Cells,
    Domain,
    Reals,
    as_cells,
    as_choice,
    as_listed,
    as_number,
    common_shape,
)
from fastacct.core.kept import cached
from fastacct.core.record import Compared, fields_of
from fastacct.core.relations import Relation, Replaced
from fastacct.core.words import hinting, unknown_named

AT_LEAST_ONE: Final = Domain(1.0, MAX_STEPS, integer=True)
WEIGHTS_OFF: Final = 1e-12
"""How far from 1 given probabilities may add up: rounding of the sum, no more."""
Count = int | Cells
_Key = TypeVar("_Key", bound=Hashable)
Divergence = Callable[[Cells, Relation], Cells]
"""Upper bounds of a Rényi divergence at orders, under a relation."""
Run = tuple[Cells, Cells, Cells]
"""Noise multiplier, sample rate and steps of a sampled Gaussian, as the kernels take them."""


def merge(blocks: Iterable[tuple[_Key, Any]], start: Mapping[_Key, Any] | None = None) -> dict[_Key, Any]:
    """Add the counts of equal keys: the one place where multiplicities meet.  The sums are exact below 2**53."""
    table: dict[_Key, Any] = dict(start or ())
    for key, count in blocks:
        table[key] = table[key] + count if key in table else count
    return table


class SampledGaussian(NamedTuple):
    """Parameters, which may be arrays, of a mechanism that is one Poisson-sampled Gaussian under some relation."""

    noise: Cells
    rate: Cells
    is_exact: bool
    """If False the noise was rounded down, or it stands for something else that it bounds."""


def parameter(domain: Domain, default: object = MISSING, about: str = "") -> Any:
    """A field of a mechanism that may be an array, with its allowed range, and what it is about, for the docstring."""

    def read(name: str, value: object) -> float | Cells:
        if type(value) is float and not domain.integer and domain.has(value, value):
            return value + 0.0  # the usual case, quickly
        return kept(as_cells(name, value, domain, may_be_empty=True))

    about_it = {"domain": domain, "kind": f"float or array in {domain}", "about": about, "read": read}
    return field(metadata=about_it, default=default)


def constant(domain: Domain, default: object = MISSING, about: str = "") -> Any:
    """A field of a mechanism that is one number, with its allowed range; whole numbers are stored as int."""
    kind = str(domain).replace("numbers", "number") if domain.integer else f"float in {domain}"

    def read(name: str, value: object) -> float:
        number = as_number(name, value, domain)
        return int(number) if domain.integer else number + 0.0

    return field(metadata={"constant": domain, "kind": kind, "about": about, "read": read}, default=default)


def option(allowed: tuple[str, ...] | tuple[bool, ...], default: object, about: str = "") -> Any:
    """A field of a mechanism that is one of a few words, or True or False."""
    kind = f"{{{', '.join(map(repr, allowed))}}}"

    def word(name: str, value: object) -> str:
        return as_choice(name, value, cast("tuple[str, ...]", allowed))

    def switch(name: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")
        return value

    read = switch if allowed == (False, True) else word
    return field(metadata={"allowed": allowed, "kind": kind, "about": about, "read": read}, default=default)


def _sections(cls: type) -> str:
    """The sections on parameters and errors of a class's docstring, from its fields; empty where these say nothing."""
    rows = []
    for name, own in vars(cls).items():
        if isinstance(own, Field) and "kind" in own.metadata:
            default = "" if own.default is MISSING else f", default {own.default!r}"
            rows += [f"{name} : {own.metadata['kind']}{default}", f"    {own.metadata['about']}"]
    errors = ["", "Raises", "------", "TypeError, ValueError", "    Naming the value and the allowed range."]
    rows = ["Parameters", "----------", *filter(str.strip, rows), *errors] if rows else []
    return textwrap.indent("\n".join(rows), "    ")


def plain(value: object) -> float:
    """A parameter of a mechanism with plain numbers."""
    return float(np.asarray(value, dtype=np.float64))


def scaled(value: Reals, size: int, power: int) -> int | Cells | None:
    """A parameter multiplied by a power of a group's size, or None where that is rounded."""
    if isinstance(value, int):
        return value * int(size**power)
    cells, factor = np.asarray(value), float(size) ** power
    with np.errstate(over="ignore"):
        moved = cells * factor
    is_whole = power > 0 and bool((moved <= 2.0**53).all()) and np.array_equal(np.floor(cells), cells)
    is_exact = math.frexp(factor)[0] == 0.5 and np.array_equal(moved / factor, cells)
    return moved if is_exact or is_whole else None


def are_proper(noise: Cells, rate: Cells) -> bool:
    """Whether several sampled Gaussians, in order of their noise, have noise and release something of some records."""
    return bool(noise.size > 1 and noise[0] > 0.0 and noise[-1] < np.inf and rate.min() > 0.0 and rate.max() < 1.0)


def store(value: Value, name: str, cells: Cells) -> None:
    """Set a field to a Python float, or to a private array that nobody can change."""
    object.__setattr__(value, name, kept(cells))


def kept(cells: Cells) -> float | Cells:
    """A Python float, or a private array that nobody can change; without negative zeros: equality is by value."""
    return frozen(cells) if cells.ndim else float(cells) + 0.0


def frozen(cells: Cells) -> Cells:
    """A private array that nobody can change."""
    private = cells + 0.0
    private.flags.writeable = False
    return private


def keep_tables(value: Value, **given: tuple[object, Domain]) -> None:
    """Check fields that are tables of one length, and store them as tuples."""
    sizes = {}
    for name, (listed, domain) in given.items():
        table = np.atleast_1d(as_cells(name, as_listed(name, listed), domain))
        if table.ndim != 1:
            raise TypeError(f"{name} must be one-dimensional, not of shape {table.shape}")
        sizes[name] = table.size
        object.__setattr__(value, name, tuple(table.tolist()))
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{' and '.join(sizes)} must have one length, not {' and '.join(map(str, sizes.values()))}")


_ASKED: Final = (
    *("epsilon", "epsilon_bounds", "delta", "delta_bounds", "rdp", "tradeoff", "tpr_at_fpr", "advantage", "bayes_risk"),
    *("gdp", "divergence", "privacy_loss", "explain", "report"),
)
OF_A_JOB: Final = {
    **{name: f"write fastacct.{name}(job, ...)" for name in _ASKED},
    **dict.fromkeys(("compose", "repeat", "self_compose", "then", "append"), "write job + other, job * count"),
    **dict.fromkeys(("sample", "subsample", "amplify"), "write .poisson(sample_rate); other samplers are methods, too"),
    **dict.fromkeys(
        ("noise_multiplier", "sample_rate", "steps", "mechanisms", "items", "keys", "values"),
        "a job's blocks are {mechanism: count}; more of it is job * count",
    ),
    "plot": "write fastacct.plot.tradeoff(job)",
    **dict.fromkeys(("save", "to_json", "to_dict"), "write fastacct.guarantee(job, delta=...).save(path)"),
    "calibrate": "write fastacct.calibrate(lambda x: ..., epsilon=..., delta=...)",
}
"""What to write instead of methods that jobs do not have."""


def _is_replaced(value: object) -> bool:
    """Of a field of a mechanism: a mechanism, a process, or several."""
    if isinstance(value, tuple):
        return any(_is_replaced(one) for one in value if type(one) is not float)
    return bool(getattr(value, "is_replaced", False))


class Composed:
    """What `+` and `*` compose, and nothing else does."""

    __array_ufunc__: ClassVar[None] = None  # numpy.array([10, 20]) * process is one process

    if not TYPE_CHECKING:
        __getattr__ = hinting(OF_A_JOB)

        def __pow__(self, other):
            raise TypeError("jobs add up: write job + other, or job * count")

        def __lt__(self, other):
            raise TypeError("jobs are compared at a delta: write fastacct.epsilon(job, delta=...) of each")

        __matmul__ = __sub__ = __truediv__ = __or__ = __and__ = __pow__
        __le__ = __gt__ = __ge__ = __lt__


class Value(Composed, Compared):
    """A frozen record of parameters, compared and hashed by them; arrays broadcast to the cells of a job."""

    def _unknown(self, names: list[str]) -> str:
        told = unknown_named(names, self.__dataclass_fields__)
        return told.replace("(fastacct.Gaussian", f"(fastacct.{type(self).__name__}")

    @cached
    def is_replaced(self) -> bool:
        """Whether noise, or that of a mechanism inside, was divided by a sensitivity to a record that is replaced."""
        return any(_is_replaced(getattr(self, each.name)) for each in fields_of(type(self)))

    def marked(self, is_replaced: bool) -> Self:
        """The mechanism, new and its caller's own, which is one of such noise if another one is that it is made of."""
        if is_replaced:
            self.__dict__["is_replaced"] = True
        return self

    def _key(self) -> tuple[object, ...]:
        return (*super()._key(), True) if self.is_replaced else super()._key()

    def __init_subclass__(cls, **options: bool) -> None:
        super().__init_subclass__(**options)
        text, section = cls.__doc__ or "", _sections(cls)
        if section and "    Parameters\n" not in text:
            before, heading, after = text.partition("    Examples\n")
            cls.__doc__ = f"{before.rstrip()}\n\n{section}\n\n{heading}{after}"

    def __post_init__(self) -> None:
        for own in fields_of(type(self)):
            value = getattr(self, own.name)
            if type(value) is Replaced:
                self.__dict__["is_replaced"] = True
            if read := own.metadata.get("read"):
                self.__dict__[own.name] = read(own.name, value)
        _ = self.shape  # refuse shapes that do not broadcast here, where their names are known

    @cached
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of all parameters; () for plain numbers."""
        shapes = {}
        for own in fields_of(type(self)):
            value = getattr(self, own.name)
            if type(value) is not float and isinstance(value, np.ndarray | Value) and value.shape:
                shapes[own.name] = value.shape
        return common_shape(shapes) if shapes else ()

    def at(self, shape: tuple[int, ...], cell: int) -> Self:
        """The mechanism of one cell of `shape`, in plain numbers."""
        changed: dict[str, object] = {}
        for own in fields_of(type(self)):
            value = getattr(self, own.name)
            if isinstance(value, np.ndarray):
                changed[own.name] = float(np.broadcast_to(value, shape).flat[cell])
            elif isinstance(value, Value) and value.shape:
                changed[own.name] = value.at(shape, cell)
        return replace(self, **changed).marked(self.is_replaced) if changed else self

    def place(self) -> tuple[str, tuple[float, ...]]:
        """A place among mechanisms with plain numbers: from values alone, the same in every process."""
        words, numbers = [type(self).__name__] + ["replaced"] * self.is_replaced, list[float]()
        for own in sorted(fields_of(type(self)), key=lambda one: one.name):
            value = getattr(self, own.name)
            if isinstance(value, Value):
                inner, inner_numbers = value.place()
                words.append(f"{own.name}={inner}")
                numbers += inner_numbers
            elif "domain" in own.metadata:
                numbers.append(float(value))
            else:
                words.append(f"{own.name}={value!r}")
        return ",".join(words), tuple(numbers)
