"""Jobs as tables: compound mechanisms expanded into those that are read themselves, and the rows of every cell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fastacct.mechanisms import Gaussian, GaussianMixture, Grouped, Mechanism, PoissonSampled, hashable
from fastacct.process import Process, merge

__all__ = ["Table", "check_relation", "expanded", "is_gaussian", "tables"]

Cell = tuple[tuple[str, float], ...]
Table = tuple[tuple[Mechanism, dict[str, float], float], ...]
"""(mechanism, its parameters in one cell, count), merged, in an order of their own."""


def check_relation(mechanism: Mechanism, neighbors: str) -> None:
    """Refuse a neighbouring relation that a mechanism does not support."""
    if neighbors not in mechanism.relations:
        raise ValueError(
            f"neighbors = {neighbors!r} is not supported by {mechanism!r}; "
            f"supported: {', '.join(map(repr, mechanism.relations))}"
        )


def is_gaussian(process: Process) -> bool:
    """Whether the kernels of Gaussian mixtures can read all of it."""
    return all(issubclass(kind, Gaussian | PoissonSampled | Grouped | GaussianMixture) for kind in process.kinds)


def expanded(process: Process, neighbors: str) -> Process:
    """The process in mechanisms that are read themselves; counts multiply."""
    if all(kind.parts is Mechanism.parts for kind in process.kinds):
        return process
    whole = Process()
    for mechanism, count in process:
        check_relation(mechanism, neighbors)
        parts = mechanism.parts(neighbors)
        whole = whole + (Process({mechanism: count}) if parts is None else expanded(parts, neighbors) * count)
    return whole


def tables(process: Process, neighbors: str) -> Iterator[Table]:
    """The mechanisms of every cell with their parameters and counts, equal ones merged."""
    for mechanism, _ in process:
        check_relation(mechanism, neighbors)
    if len(process) == 1 and not process.shape:  # nothing to merge
        for mechanism, count in process:
            yield ((mechanism, {name: float(value) for name, value in mechanism._cells().items()}, float(count)),)
        return
    columns = []
    for mechanism, count in process:
        names = mechanism._cells()  # parameters that may be arrays
        flat = {name: np.broadcast_to(value, process.shape).ravel() for name, value in names.items()}
        columns.append((mechanism, flat, np.broadcast_to(np.asarray(count, dtype=np.float64), process.shape).ravel()))
    for i in range(math.prod(process.shape)):
        rows: dict[tuple[Any, Cell], tuple[Mechanism, float]] = {}
        found = merge(
            ((_Kind(mechanism), tuple((name, float(x[i])) for name, x in flat.items())), float(count[i]))
            for mechanism, flat, count in columns
            if count[i] > 0.0
        )
        for (kind, cell), count in found.items():
            rows[kind, cell] = kind.mechanism, count
        order = sorted(rows, key=lambda key: (key[0].name, key[1], hash(key[0])))
        yield tuple((rows[key][0], dict(key[1]), rows[key][1]) for key in order)


class _Kind:
    """A mechanism up to its parameters that may be arrays."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        cells = mechanism._cells()
        constants = [(one.name, getattr(mechanism, one.name)) for one in fields(mechanism) if one.repr]
        constants = [(name, value) for name, value in constants if name not in cells]
        inner = getattr(mechanism, "mechanism", None)
        if isinstance(inner, Mechanism):
            constants = [(name, value) for name, value in constants if name != "mechanism"]
            constants.append(("mechanism", _Kind(inner)))
        constants.sort(key=lambda one: one[0])
        # what is equal decides the mechanisms themselves; names only bring them into an order
        self._key = (type(mechanism), tuple((name, hashable(value)) for name, value in constants))
        self.name: str = repr((type(mechanism).__name__, constants))

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kind) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def at_cell(process: Process, cell: int) -> Process:
    """One cell of a job with arrays, in plain numbers."""
    whole = Process()
    for mechanism, count in process:
        one = mechanism
        for name, value in mechanism._cells().items():
            if np.ndim(value):
                one = _with(one, name, float(np.broadcast_to(value, process.shape).ravel()[cell]))
        whole = whole + Process({one: int(np.broadcast_to(np.asarray(count), process.shape).ravel()[cell])})
    return whole


def _with(mechanism: Mechanism, name: str, value: float) -> Mechanism:
    """The mechanism with one parameter, perhaps of the mechanism inside, replaced."""
    if any(one.name == name for one in fields(mechanism)):
        return replace(mechanism, **{name: value})
    inner = _with(mechanism.mechanism, name, value)  # type: ignore[attr-defined]
    return replace(mechanism, mechanism=inner)  # type: ignore[call-arg]
