"""Processes: which mechanism runs how often.  How counts add up is decided here, and by `merge`, and nowhere else.

A process is a table {mechanism: count}.  Composition adds counts of equal mechanisms, so n times a step and the sum of
n steps are the same table, and so is any order of a sum: they give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import comb, fsum, prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fastacct.core.html import table
from fastacct.core.inputs import MAX_STEPS, Cells, Domain, Reals, as_cells, common_shape, unwrap
from fastacct.core.kept import kept_by_argument
from fastacct.core.relations import Relation, refuse
from fastacct.core.words import told_names
from fastacct.mechanisms.base import Composed, Count, Run, SampledGaussian, Value, are_proper, frozen, merge

if TYPE_CHECKING:
    from fastacct.mechanisms.algebra import Mechanism

_COUNT: Final = Domain(0.0, MAX_STEPS, integer=True)
_SUM: Final = Domain(0.0, MAX_STEPS - 1.0, integer=True)
"""Of sums and products: one beyond it cannot round down into the range."""
_SHOWN: Final = ("blocks", "decompose", "group", "poisson", "shape", "tight", "together", "unsampled")
"""What a person does with a job, and completion shows."""
_MOST_ALTERNATIVES: Final = 64
_Fact = TypeVar("_Fact")
Cell = tuple[tuple["Mechanism", int], ...]
"""The mechanisms of one cell of a job in plain numbers, and how often each is run."""
DeltaOf = Callable[["Process", Cells, Relation], Cells]
"""Certified deltas of a job at epsilons, under a relation: how another job is evaluated, passed in by a reader."""


class Sampled(NamedTuple):
    """Poisson-sampled Gaussians: columns of numbers, or of arrays that broadcast to a shape."""

    noise: Cells | Sequence[Cells]
    rate: Cells | Sequence[Cells]
    steps: Cells | Sequence[Count]
    shape: tuple[int, ...] = ()
    is_exact: bool = True
    order: NDArray[np.intp] | slice | None = None
    """Of noise and rate, where each of several has noise and releases something of some records, in plain numbers."""

    def _rows(self) -> Iterator[Run]:
        for noise, rate, count in zip(self.noise, self.rate, self.steps, strict=True):
            yield np.asarray(noise, np.float64), np.asarray(rate, np.float64), np.asarray(count, np.float64)

    @property
    def run(self) -> Run | None:
        """The only one, in arrays that broadcast; None if there are several."""
        nothing = np.asarray(1.0), np.asarray(0.0), np.asarray(0.0)
        return None if len(self.noise) > 1 else next(self._rows(), nothing)

    @property
    def runs(self) -> list[Run]:
        """All, flat over the cells."""

        def flat(cells: Cells) -> Cells:
            return np.broadcast_to(cells, self.shape).ravel() if self.shape else cells.reshape(1)

        return [(flat(noise), flat(rate), flat(count)) for noise, rate, count in self._rows()]

    @property
    def columns(self) -> Run | None:
        """Noise, rate and count in that order; None where there is none."""
        if self.order is None:
            return None
        noise, rate, count = (np.asarray(column)[self.order] for column in self[:3])
        return noise, rate, count


class Process(Composed):
    """A composition: `step * 1000 + other * 3`.

    **Guarantee.** Mechanisms may be chosen adaptively as long as the table is fixed in advance.  Equal mechanisms are
    one entry; neither the order nor the grouping of a sum changes a bit of any result.

    Parameters
    ----------
    blocks : mapping {mechanism: count}, or iterable of (mechanism, count)
        Counts are whole numbers in [0, 2**53], or arrays of them that broadcast with the parameters.

    Raises
    ------
    TypeError, ValueError
        For what is not a mechanism, a count that is not a whole number or too large, shapes that do not broadcast.

    Examples
    --------
    >>> import fastacct as fa
    >>> step, last = fa.Gaussian(1.0).poisson(0.01), fa.Gaussian(20.0)
    >>> run = step * 100 + last + 2 * step
    >>> run == last + step * 102, run[step]
    (True, 102)
    """

    together: ClassVar[Callable[[Process], Mechanism]]
    """All releases as one mechanism, which is made of processes: mechanisms/nested.py says so."""

    def __init__(self, blocks: Mapping[Any, Count] | Iterable[tuple[Mechanism, Count]] = ()) -> None:
        items: object = blocks.items() if isinstance(blocks, Mapping) else blocks
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise TypeError(f"blocks must be a table {{mechanism: count}}, not {blocks!r}")
        self._blocks = _table(items)
        self._shape = _shape(self._blocks)
        self._facts: dict[object, object] = {}
        """What is known of the mechanisms, whatever their counts: processes of the same ones share it."""

    @property
    def blocks(self) -> Mapping[Mechanism, Count]:
        """The table {mechanism: count}, read-only."""
        return MappingProxyType(self._blocks)

    @property
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of all parameters and counts; () for plain numbers."""
        return self._shape

    @property
    def tight(self) -> bool:
        """Whether every analysed pair dominates tightly; if not, results are upper bounds."""
        return self._fact("tight", lambda: all(mechanism.tight for mechanism in self._blocks))

    @property
    def is_replaced(self) -> bool:
        """Whether noise of some mechanism was divided by a sensitivity to a record that is replaced."""
        return self._fact("replaced", lambda: any(mechanism.is_replaced for mechanism in self._blocks))

    def _fact(self, name: object, find: Callable[[], _Fact]) -> _Fact:
        if name not in self._facts:
            self._facts[name] = find()
        return cast("_Fact", self._facts[name])

    def refuse(self, relation: Relation) -> None:
        """Refuse a neighbouring relation that some mechanism does not support."""
        for mechanism in self._blocks:
            if relation not in mechanism.relations:
                raise refuse(mechanism, relation, mechanism.relations)
            if relation == "replace_one" and mechanism.is_replaced:
                raise ValueError(
                    f"the noise of {mechanism!r} was divided by a sensitivity under replace_one, and neighbors = "
                    "'replace_one' would count the replacement again: divide it by 0.5 * sensitivity, which is doubled"
                )

    def decompose(self, relation: Relation) -> Process:
        """An equivalent process of mechanisms that are evaluated directly; counts multiply."""
        parts = self._fact(("parts", relation), lambda: self._parts(relation))
        if parts is None:
            return self
        kept: dict[str, Process] = self.__dict__.setdefault("decomposed", {})
        if relation not in kept:
            kept[relation] = sum((part * count for part, (_, count) in zip(parts, self, strict=True)), Process())
        return kept[relation]

    def _parts(self, relation: Relation) -> list[Process] | None:
        """What each mechanism is equivalent to; None if all are evaluated directly."""
        self.refuse(relation)
        parts = [mechanism.decompose(relation) for mechanism in self._blocks]
        if all(own is None for own in parts):
            return None
        return [
            Process({mechanism: 1}) if own is None else own.decompose(relation)
            for mechanism, own in zip(self._blocks, parts, strict=True)
        ]

    @property
    def is_gaussian(self) -> bool:
        """Whether all losses are Gaussian mixtures that increase in the output, whatever the parameters."""
        return self._fact("gaussian", lambda: all(mechanism.is_gaussian for mechanism in self._blocks))

    def sampled(self, relation: Relation, *, exactly: bool = False) -> Sampled | None:
        """The sampled Gaussians that the job is or (but `exactly`) is bounded by; None if there is anything else."""
        gaussians = self._fact(("sampled", relation), lambda: self._sampled(relation))
        if gaussians is None or (exactly and not gaussians.is_exact):
            return None
        counts = self.decompose(relation)._blocks.values()
        return gaussians._replace(steps=list(counts) if self._shape else np.fromiter(counts, np.float64, len(counts)))

    def _sampled(self, relation: Relation) -> Sampled | None:
        """Whatever the counts."""
        kinds = list[SampledGaussian]()
        for mechanism in self.decompose(relation)._blocks:
            if (gaussian := mechanism.sampled_gaussian(relation)) is None:
                return None
            kinds.append(gaussian)
        is_exact = self.tight and all(gaussian.is_exact for gaussian in kinds)
        noise, rate = [gaussian.noise for gaussian in kinds], [gaussian.rate for gaussian in kinds]
        if self._shape:
            return Sampled(noise, rate, (), self._shape, is_exact)
        noises, rates = np.array(list(map(float, noise))), np.array(list(map(float, rate)))
        order = np.lexsort((rates, noises))
        return Sampled(noises, rates, (), (), is_exact, order if are_proper(noises[order], rates) else None)

    def cells(self) -> Iterator[Cell]:
        """The mechanisms of every cell in plain numbers with their counts, equal ones merged, in an order of values."""
        for cell in range(prod(self._shape)):
            one = merge(self._at(cell)) if self._shape else self._blocks
            used = [(mechanism, int(count)) for mechanism, count in one.items() if count > 0]
            yield tuple(sorted(used, key=lambda item: item[0].place()) if len(used) > 1 else used)

    def cell(self, index: int) -> Process:
        """One cell of the job, in plain numbers."""
        return Process(self._at(index)) if self._shape else self

    def _at(self, cell: int) -> Iterator[tuple[Mechanism, int]]:
        counts = ((mechanism, np.broadcast_to(count, self._shape).flat[cell]) for mechanism, count in self)
        return ((mechanism.at(self._shape, cell), int(count)) for mechanism, count in counts)

    @kept_by_argument
    def alternatives(self, relation: Relation) -> list[Process]:
        """Processes of which one is run, whichever part of the data a record is in; more than a few stay one."""
        if not self.has_alternatives:
            return [self]
        choices = [Process()]
        for kind, n in self:
            chosen = [one.decompose(relation) for one in _sums(kind.alternatives(), n)] or [Process({kind: n})]
            choices = [choice + pick for choice in choices for pick in chosen]
            if len(choices) > _MOST_ALTERNATIVES:
                return [self]
        return choices

    @property
    def has_alternatives(self) -> bool:
        """Whether a mechanism is run on parts of the data, of which a record is in one."""
        return self._fact("alternatives", lambda: any(mechanism.alternatives() for mechanism in self._blocks))

    def divergence(self, orders: Cells, relation: Relation, delta_of: DeltaOf | None = None) -> Cells:
        """Upper bound of the Rényi divergence of a job of plain numbers at orders above 1: divergences add up."""
        return cell_divergence(next(self.decompose(relation).cells()), orders, relation, delta_of)

    def pure_epsilon(self, relation: Relation) -> float:
        """Sum of pure guarantees of a job of plain numbers, inf where one is missing."""
        return cell_pure_epsilon(next(self.decompose(relation).cells()), relation)

    def unsampled(self) -> Process:
        """The same process on the whole data set, whose losses are never smaller."""
        return self.changed(lambda mechanism: mechanism.unsampled())

    def changed(self, change: Callable[[Mechanism], Mechanism]) -> Process:
        """The same process with other mechanisms; itself where they are the same."""
        others = [(change(mechanism), count) for mechanism, count in self]
        return self if all(a is b for (a, _), b in zip(others, self._blocks, strict=True)) else Process(others)

    @told_names
    def group(self, size: int) -> Process:
        """The same process, for `size` records that change together in every step."""
        return Process((mechanism.group(size), count) for mechanism, count in self)

    @told_names
    def poisson(self, sample_rate: Reals) -> Mechanism:
        """All of the process on one Poisson sample: a record that is drawn takes part in every release.

        Plain Gaussians are one, with 1/noise^2 the sum of theirs (rounded to less noise).  Others are `Together`.
        """
        blocks = list(self)
        same = len({type(mechanism) for mechanism, _ in blocks}) == 1
        whole = blocks[0][0].sampled_together(blocks, sample_rate) if same else None
        return Process.together(self).poisson(sample_rate) if whole is None else whole

    def __iter__(self) -> Iterator[tuple[Mechanism, Count]]:
        return iter(self._blocks.items())

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, mechanism: Mechanism) -> Count:
        if not isinstance(mechanism, Value):
            raise TypeError(f"a process is looked up by mechanism, not by {mechanism!r}")
        return self._blocks.get(mechanism, 0)

    def __add__(self, other: Mechanism | Process | int) -> Process:
        if isinstance(other, Value):
            return self._with({other: 1}, other.shape)
        if isinstance(other, Process):
            return self._with(other._blocks, other._shape)
        if isinstance(other, int) and not isinstance(other, bool) and other == 0:  # sum() starts with 0
            return self
        raise TypeError(f"jobs add up: write job + other, or job * count; not job + {other!r}")

    __radd__ = __add__

    def _with(self, more: Mapping[Mechanism, Count], shape: tuple[int, ...]) -> Process:
        """The sum with another table.  A long sum of single steps must not look at every entry again each time."""
        if self._shape or shape:
            return Process((*self, *more.items()))
        blocks = merge(more.items(), self._blocks)
        if any(blocks[mechanism] >= MAX_STEPS for mechanism in more):
            return Process((*self, *more.items()))  # which refuses what is too much
        joined = Process.__new__(Process)
        joined._blocks, joined._shape = blocks, ()
        joined._facts = self._facts if len(blocks) == len(self._blocks) else {}
        return joined

    def __mul__(self, count: Count) -> Process:
        if isinstance(count, Value | Process):
            return NotImplemented
        times = as_cells("count", count, _COUNT, may_be_empty=True)
        return Process((mechanism, _product(times, n)) for mechanism, n in self)

    __rmul__ = __mul__

    def __dir__(self) -> list[str]:
        return [*_SHOWN]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Process):
            return NotImplemented
        return self._blocks.keys() == other._blocks.keys() and all(
            np.array_equal(count, other._blocks[mechanism]) for mechanism, count in self
        )

    def __hash__(self) -> int:
        return hash(frozenset(self._blocks))

    def __reduce__(self) -> tuple[type[Process], tuple[tuple[tuple[Mechanism, Count], ...]]]:
        return Process, (tuple(self),)  # without what readers keep

    def __repr__(self) -> str:
        rows = ", ".join(f"{mechanism!r}: {count!r}" for mechanism, count in self)
        return f"Process({{{rows}}})"

    def _repr_html_(self) -> str:
        return table("process", self, ("mechanism", "releases"))


def _product(times: Cells, n: Count) -> Count:
    product = times * n
    if np.any(product >= MAX_STEPS):
        domain = _SUM if np.any((times > 1.0) & (np.asarray(n) > 1)) else _COUNT
        product = as_cells("count", unwrap(np.asarray(product)), domain)
    return product if product.ndim else int(product)


def _sums(jobs: Sequence[Process], count: Count) -> list[Process]:
    """All sums of so many of some jobs; none where there are none, or more than a few."""
    if not jobs or np.ndim(count) or comb(int(count) + max(len(jobs) - 1, 1), int(count)) > _MOST_ALTERNATIVES:
        return []
    sums = [Process()]
    for _ in range(int(count)):
        sums = [*dict.fromkeys(one + job for one in sums for job in jobs)]
    return sums


def _table(items: Iterable[object]) -> dict[Mechanism, Count]:
    # zero times anything is nothing; an array keeps its shape
    kept = ((kind, n) for kind, n in _joined([*map(_entry, items)]).items() if np.ndim(n) or n != 0.0 or kind.shape)
    return {kind: frozen(np.asarray(n)) if np.ndim(n) else int(n) for kind, n in kept}


def _joined(read: list[tuple[Mechanism, Count]]) -> dict[Mechanism, Count]:
    """Counts of equal mechanisms added up, which must be counts, too."""
    merged = merge(read)
    if len(merged) < len(read):
        sums = ((kind, unwrap(np.asarray(total))) for kind, total in merged.items())
        merged = {kind: as_cells("count", total, _SUM, may_be_empty=True) for kind, total in sums}
    for kind, total in merged.items():
        if kind.shape and np.ndim(total) and kind.shape != np.shape(total):
            common_shape({repr(kind): kind.shape, "count": np.shape(total)})
    return merged


def _entry(item: object) -> tuple[Mechanism, Count]:
    """A mechanism and its count, checked."""
    if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], Value):
        raise TypeError(f"a process is made of (mechanism, count), not {item!r}: or write job + other * count")
    if type(item[1]) is int and 0 <= item[1] < MAX_STEPS:  # quickly
        return item
    if isinstance(item[1], Value | Process):
        raise TypeError(f"count must be a whole number, not {item[1]!r}")
    return cast("Mechanism", item[0]), as_cells("count", item[1], _COUNT, may_be_empty=True)


def _shape(blocks: Mapping[Mechanism, Count]) -> tuple[int, ...]:
    named: dict[str, tuple[int, ...]] = {}
    for i, (mechanism, count) in enumerate(blocks.items()):
        if mechanism.shape or np.ndim(count):
            named |= {f"mechanism {i}": mechanism.shape, f"count {i}": np.shape(count)}
    return common_shape(named) if named else ()


def cell_pure_epsilon(cell: Cell, relation: Relation) -> float:
    """Sum of pure guarantees, rounded up; inf where one is missing."""
    return fsum(count * mechanism.pure_epsilon(relation) for mechanism, count in cell) * (1.0 + 1e-15)


def cell_divergence(cell: Cell, orders: Cells, relation: Relation, delta_of: DeltaOf | None) -> Cells:
    """Upper bound of the Rényi divergence of one cell; inf where one is not known."""
    total = np.zeros(orders.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        for mechanism, count in cell:
            total = total + count * mechanism.divergence_given(orders, relation, delta_of) * (1.0 + 4e-16)
        total = total * (1.0 + 1e-15 * len(cell))
    return np.where(np.isnan(total), np.inf, total)  # what overflowed is not known
