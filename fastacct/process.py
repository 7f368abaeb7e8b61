"""Processes: which mechanism runs how often.  How counts add up is decided here and nowhere else.

A process is a table {mechanism: count}.  Composition adds counts of equal mechanisms, so n times a step and the sum of
n steps are the same table, and so is any order of a sum: they give the same bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np

from fastacct._arrays import MAX_STEPS, Cells, Domain, as_cells, common_shape, unwrap
from fastacct.mechanisms import Mechanism

__all__ = ["Process", "merge"]

_COUNT: Final = Domain(0.0, MAX_STEPS - 1.0, integer=True)
"""One less than the steps of DP-SGD: a sum or product beyond it cannot round down into the range."""
_Key = TypeVar("_Key", bound=Hashable)


class Process:
    """A composition: `step * 1000 + other * 3`.

    **Guarantee.** Mechanisms may be chosen adaptively as long as the table is fixed in advance.  Equal mechanisms are
    one entry; neither the order nor the grouping of a sum changes a bit of any result.

    Parameters
    ----------
    blocks : mapping {mechanism: count}, or iterable of (mechanism, count)
        Counts are whole numbers in [0, 2**53), or arrays of them that broadcast with the parameters.

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

    __slots__ = ("_blocks", "_kinds", "_shape")
    __array_ufunc__ = None  # numpy.array([10, 20]) * process is one process

    def __init__(self, blocks: Mapping[Mechanism, Any] | Iterable[tuple[Mechanism, Any]] = ()) -> None:
        items: Any = blocks.items() if isinstance(blocks, Mapping) else blocks
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise TypeError(f"blocks must be a table {{mechanism: count}}, not {blocks!r}")
        self._blocks = _table(items)
        self._shape = _shape(self._blocks)
        self._kinds: frozenset[type[Mechanism]] | None = None

    @property
    def blocks(self) -> Mapping[Mechanism, Any]:
        """The table {mechanism: count}, read-only."""
        return MappingProxyType(self._blocks)

    @property
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of all parameters and counts; () for plain numbers."""
        return self._shape

    @property
    def kinds(self) -> frozenset[type[Mechanism]]:
        """Classes of the mechanisms, for questions whose answer they decide."""
        if self._kinds is None:
            self._kinds = frozenset(map(type, self._blocks))
        return self._kinds

    def group(self, size: int) -> Process:
        """The same process, for `size` records that change together in every step."""
        return Process((mechanism.group(size), count) for mechanism, count in self)

    def __iter__(self) -> Iterator[tuple[Mechanism, Any]]:
        return iter(self._blocks.items())

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, mechanism: Mechanism) -> Any:
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"a process is looked up by mechanism, not by {mechanism!r}")
        return self._blocks.get(mechanism, 0)

    def __add__(self, other: Any) -> Process:
        if isinstance(other, Mechanism):
            return self._with({other: 1}, other.shape)
        if isinstance(other, Process):
            return self._with(other._blocks, other._shape)
        if isinstance(other, int) and not isinstance(other, bool) and other == 0:  # sum() starts with 0
            return self
        return NotImplemented

    __radd__ = __add__

    def _with(self, more: Mapping[Mechanism, Any], shape: tuple[int, ...]) -> Process:
        """The sum with another table.  A long sum of single steps must not look at every entry again each time."""
        if self._shape or shape or any(mechanism in self._blocks for mechanism in more):
            return Process((*self, *more.items()))
        total = Process.__new__(Process)
        total._blocks, total._shape, total._kinds = {**self._blocks, **more}, (), None
        return total

    def __mul__(self, count: Any) -> Process:
        if isinstance(count, Mechanism | Process):
            return NotImplemented
        times = as_cells("count", count, _COUNT)
        return Process((mechanism, unwrap(np.asarray(times * n))) for mechanism, n in self)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Process):
            return NotImplemented
        return self._blocks.keys() == other._blocks.keys() and all(
            np.array_equal(count, other._blocks[mechanism]) for mechanism, count in self
        )

    def __hash__(self) -> int:
        return hash(frozenset(self._blocks))

    def __repr__(self) -> str:
        rows = ", ".join(f"{mechanism!r}: {count!r}" for mechanism, count in self)
        return f"Process({{{rows}}})"


def merge(blocks: Iterable[tuple[_Key, Any]]) -> dict[_Key, Any]:
    """Add the counts of equal keys: the one place where multiplicities meet.  The sums are exact below 2**53."""
    table: dict[_Key, Any] = {}
    for key, count in blocks:
        table[key] = table[key] + count if key in table else count
    return table


def _table(items: Iterable[Any]) -> dict[Mechanism, Any]:
    read: list[tuple[Mechanism, Cells]] = []
    for item in items:
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], Mechanism):
            raise TypeError(f"a process is made of (mechanism, count), not {item!r}")
        if isinstance(item[1], Mechanism | Process):
            raise TypeError(f"count must be a whole number, not {item[1]!r}")
        read.append((item[0], as_cells("count", item[1], _COUNT)))
    table: dict[Mechanism, Any] = {}
    for mechanism, count in merge(read).items():
        total = as_cells("count", unwrap(np.asarray(count)), _COUNT)  # the sum must be a count too
        if total.ndim == 0 and total == 0.0 and mechanism.shape == ():
            continue  # zero times anything is nothing; an array keeps its shape
        if total.ndim:
            total = total.copy()
            total.flags.writeable = False
        common_shape({repr(mechanism): np.broadcast_to(0.0, mechanism.shape), "count": total})
        table[mechanism] = total if total.ndim else int(total)
    return table


def _shape(blocks: Mapping[Mechanism, Any]) -> tuple[int, ...]:
    named: dict[str, Any] = {}
    for i, (mechanism, count) in enumerate(blocks.items()):
        if mechanism.shape or np.ndim(count):
            named[f"mechanism {i}"] = np.broadcast_to(0.0, mechanism.shape)
            named[f"count {i}"] = np.asarray(count)
    return common_shape(named) if named else ()
