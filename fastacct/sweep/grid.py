"""What a grid is: its axes, the quantity computed on them, and the chunks that it is cut into.

It is kept in C order with noise multipliers and sample rates slowest, in boxes that are contiguous in it: what is
computed once per (noise multiplier, sample rate) is shared by the numbers of steps and the targets of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

import fastacct.dpsgd as dpsgd
from fastacct.accountants import Method
from fastacct.accountants.run import as_delta
from fastacct.core.extras import Foreign, import_extra
from fastacct.core.labels import NOTES
from fastacct.core.record import Record
from fastacct.core.relations import Relation
from fastacct.core.version import __version__

if TYPE_CHECKING:
    import xarray as xr

Chunk = tuple[slice, ...]
Values = Sequence[NDArray[np.generic]]
TARGETS: Final = ("delta", "epsilon", "orders")
FIXED: Final = {
    "noise_multiplier": ("noise_multiplier",),
    "sample_rate": ("sample_rate", "batch_size"),
    "steps": ("steps", "epochs"),
}
"""Which axes fix a parameter of a run."""


class Grid(Record):
    """The axes of a sweep, slowest first, and what is computed on them."""

    quantity: str
    axes: dict[str, NDArray[np.generic]]
    delta_in_words: str | None
    accountant: Method
    neighbors: Relation
    bounds: bool
    threads: int | None
    client: Foreign
    batches: Mapping[str, object]
    """How batches are drawn, as keywords of `fastacct.dpsgd`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes, slowest first."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def variables(self) -> tuple[str, ...]:
        """What is computed in each cell."""
        return (self.quantity, f"{self.quantity}_lower", "status") if self.bounds else (self.quantity,)

    @property
    def settings(self) -> dict[str, str]:
        """What the numbers depend on beside the axes."""
        words = {} if self.delta_in_words is None else {"delta": self.delta_in_words}
        batches = {name: str(value) for name, value in self.batches.items()}
        how = {"accountant": repr(self.accountant), "neighbors": self.neighbors, "sampler": batches.pop("sampling")}
        how |= batches
        return {"quantity": self.quantity, **words, **how, "fastacct_version": __version__}

    def evaluate(self, chunk: Chunk, threads: int | None = None) -> Values:
        """The variables in a chunk."""
        cut = (values[part] for values, part in zip(self.axes.values(), chunk, strict=True))
        given: dict[str, object] = dict(zip(self.axes, np.meshgrid(*cut, indexing="ij", sparse=True), strict=True))
        if self.delta_in_words is not None:
            given["delta"] = self.delta_in_words
        verb: Any = getattr(dpsgd, f"{self.quantity}_bounds" if self.bounds else self.quantity)
        how: dict[str, object] = {} if self.quantity == "rdp" else {"accountant": self.accountant}
        how |= self.batches if self.batches["sampling"] != "poisson" else {}
        found = verb(**given, **how, neighbors=self.neighbors, threads=threads or self.threads)
        shape = tuple(part.stop - part.start for part in chunk)
        wanted = (found.upper, found.lower, found.status) if self.bounds else (found,)
        return [np.broadcast_to(np.asarray(one), shape) for one in wanted]

    def labelled(self, values: Mapping[str, object]) -> xr.Dataset:
        """The dataset around arrays of the grid's shape."""
        xarray = import_extra("xarray", "sweep")
        coordinates: dict[str, object] = {name: (name, axis, self.notes(name)) for name, axis in self.axes.items()}
        if self.delta_in_words is not None:
            deltas = as_delta(self.delta_in_words, {"records": self.axes["records"]})
            coordinates["delta"] = ("records", deltas, self.notes("delta"))
        cells = {name: (tuple(self.axes), array, self.notes(name)) for name, array in values.items()}
        title = f"{self.quantity} of DP-SGD"
        found: xr.Dataset = xarray.Dataset(cells, coordinates, {"title": title, **self.settings})
        return found

    def notes(self, name: str) -> dict[str, str]:
        """What an axis or a variable is, and what a variable guarantees."""
        if name == "status":
            return {"long_name": "0: tight, 1: looser than 1e-6, 2: the target is not met"}
        about = {"long_name": NOTES[name.removesuffix("_lower")]}
        if name not in self.variables:
            return about
        side = "lower bound" if name.endswith("_lower") else "upper bound"
        is_sought = self.quantity in FIXED
        return about | {"guarantee": "certified to meet the target" if is_sought else f"certified {side}", "units": "1"}


def chunk_shape(shape: Sequence[int], cells: int) -> tuple[int, ...]:
    """The box of at most so many cells, contiguous in C order, that a grid is cut into: boxes of nearly equal sizes."""
    found: list[int] = []
    for place, length in enumerate(shape):
        most = min(length, max(1, cells // math.prod(shape[place + 1 :])))
        parts = -(-length // most)
        found.append(-(-length // parts))
    return tuple(found)


def chunk_counts(shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """The number of chunks along each axis."""
    return tuple(-(-whole // part) for whole, part in zip(shape, chunks, strict=True))


def chunk_at(shape: Sequence[int], chunks: Sequence[int], index: int) -> Chunk:
    """The chunk of an index, in C order."""
    places = np.unravel_index(index, chunk_counts(shape, chunks))
    corners = [int(i) * part for i, part in zip(places, chunks, strict=True)]
    return tuple(
        slice(start, min(start + part, whole)) for start, part, whole in zip(corners, chunks, shape, strict=True)
    )


def chunk_count(shape: Sequence[int], chunks: Sequence[int]) -> int:
    """The number of chunks of a grid."""
    return math.prod(chunk_counts(shape, chunks))
