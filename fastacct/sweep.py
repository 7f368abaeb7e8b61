"""Outer-product sweeps over DP-SGD configurations: axes in, labelled grid out, in memory or streamed to a file.

The grid is walked in C order, (noise_multiplier, sample_rate) slowest, in rectangular chunks that are contiguous in it:
whatever the accountant computes once per (noise_multiplier, sample_rate) pair is shared by every number of steps and
every delta of the chunk.  A file is netCDF-4, or Parquet as a tidy table with one row per cell.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

import fastacct.dpsgd as dpsgd
from fastacct.accountants import Exact, Method
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output
from fastacct.core.inputs import COUNT, DOMAINS, Reals, as_cells, as_number
from fastacct.core.record import Record
from fastacct.core.relations import Relation
from fastacct.core.version import __version__

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["open_sweep", "sweep"]

Chunk = tuple[slice, ...]
Values = Sequence[NDArray[np.float64]]
Write = Callable[[Chunk, Values], None]
DEFAULT_CHUNK_CELLS: Final = 1 << 18
SMALLEST_CHUNK: Final = 1 << 14
METADATA_KEY: Final = b"fastacct_sweep"
LIBRARIES: Final = {".parquet": "pyarrow.parquet", ".nc": "netCDF4"}
NOTES: Final = {
    "noise_multiplier": "standard deviation of the Gaussian noise / L2 sensitivity",
    "sample_rate": "Poisson sampling probability of a record in a step",
    "steps": "number of steps",
    "delta": "delta of the (epsilon, delta) guarantee",
    "epsilon": "epsilon of the (epsilon, delta) guarantee (natural logarithm)",
}


def sweep(
    *,
    noise_multiplier: Reals,
    sample_rate: Reals,
    steps: Reals,
    delta: Reals | None = None,
    epsilon: Reals | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    bounds: bool = False,
    path: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool = False,
    chunk_cells: int = DEFAULT_CHUNK_CELLS,
    overwrite: bool = False,
) -> xr.Dataset:
    """Compute epsilon (or delta) on every combination of the given values, as a labelled grid.

    **Guarantee.** Every cell is what `fastacct.dpsgd.epsilon` (`fastacct.dpsgd.delta`) returns for that cell alone: a
    certified upper bound for Poisson-sampled DP-SGD under `neighbors`, and with `bounds` the lower bound of
    `epsilon_bounds` (`delta_bounds`) too.  The bits depend neither on `chunk_cells` nor on `threads`.

    Parameters
    ----------
    noise_multiplier, sample_rate, steps : float or 1-D array
        The first three axes; a scalar is an axis of length 1.  Order and repetitions are kept.
    delta, epsilon : float or 1-D array
        Exactly one of them: the last axis.  With `delta` the variable computed is `epsilon`, and the reverse.
    accountant, neighbors, threads
        As in `fastacct.dpsgd.epsilon`.
    bounds : bool
        Also compute the certified lower bound, as the variable `epsilon_lower` (`delta_lower`).
    path : path, optional
        Stream the result to this file instead of memory: `.parquet` (one row per cell; columns named after the axes
        and the variable) or `.nc` (netCDF-4).  The file appears complete at the end or not at all.
    progress : bool
        Show cells done, cells per second and the time left on stderr.
    chunk_cells : int
        Upper limit of cells computed at once: the working memory is about 100 bytes times this, whatever the grid.
    overwrite : bool
        Replace an existing file.

    Returns
    -------
    xarray.Dataset
        Dimensions (noise_multiplier, sample_rate, steps, delta) and the variable `epsilon` (and `epsilon_lower`), or
        (..., epsilon) and `delta`.  Without `path` it is in memory; with `path` its values are read from the file when
        they are used, so a grid larger than memory can be sliced.  `open_sweep` opens the file again later.

    Raises
    ------
    ValueError, TypeError
        Empty, NaN, multi-dimensional or out-of-range axes; neither or both of delta and epsilon; unknown suffix.
    FileExistsError, ModuleNotFoundError
        `path` exists and `overwrite` is false; an optional library is missing: the message names its extra.

    Examples
    --------
    >>> import fastacct as fa
    >>> grid = fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=[100, 1000], delta=1e-5)
    >>> round(float(grid.epsilon.sel(noise_multiplier=1.0, steps=1000).item()), 6)
    1.828237
    """
    import_extra("xarray", "sweep")
    if not isinstance(bounds, bool):
        raise TypeError(f"bounds must be True or False; got {bounds!r}")
    if (delta is None) == (epsilon is None):
        raise ValueError("give exactly one of delta= (to compute epsilon) and epsilon= (to compute delta)")
    accountant = Exact() if accountant is None else accountant
    variable = "epsilon" if epsilon is None else "delta"
    last = {"delta": delta} if epsilon is None else {"epsilon": epsilon}
    axes = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": steps, **last}
    attrs = {
        "title": f"{variable} of Poisson-sampled DP-SGD",
        "guarantee": "certified upper bound",
        "accountant": repr(accountant),
        "neighbors": neighbors,
        "sampler": "poisson",
        "fastacct_version": __version__,
    }
    variables = (variable, f"{variable}_lower") if bounds else (variable,)
    grid = Grid({name: _axis(name, values) for name, values in axes.items()}, variables, attrs)
    verb: Any = getattr(dpsgd, f"{variable}_bounds" if bounds else variable)

    def evaluate(parameters: dict[str, NDArray[Any]]) -> Values:
        found = verb(**parameters, accountant=accountant, neighbors=neighbors, threads=threads)
        wanted = (found.upper, found.lower) if bounds else (found,)
        return [np.asarray(values, dtype=np.float64) for values in wanted]

    # What the accountant refuses is refused now, not after an hour of work: each axis is tried alone. Zero steps need
    # no computation under any accountant, and sample_rate = 1 is the one rate that all of them accept.
    trivial = dict(zip(axes, map(np.array, (1.0, 1.0, 0, 1.0)), strict=True))
    for name, values in grid.axes.items():
        evaluate({**trivial, name: values})
    n_cells = math.prod(grid.shape)  # on small grids progress shows
    largest = min(int(as_number("chunk_cells", chunk_cells, COUNT)), max(SMALLEST_CHUNK, n_cells // 64))

    def fill(write: Write) -> None:
        start, done = time.monotonic(), 0
        for chunk in chunks(grid.shape, largest):
            found = evaluate(dict(zip(axes, grid.places(chunk), strict=True)))
            write(chunk, found)
            done += found[0].size
            if progress:
                speed = done / max(time.monotonic() - start, 1e-9)
                line = f"{done:,} of {n_cells:,} cells, {speed:,.0f} cells/s, {(n_cells - done) / speed:,.0f} s left"
                print(f"\r{line:70}", end="" if done < n_cells else "\n", file=sys.stderr, flush=True)

    if path is None:
        arrays = [np.empty(grid.shape) for _ in variables]
        fill(_assign(arrays))
        return grid.labelled(arrays)
    target = _as_file(path)
    writer = _write_netcdf if target.suffix == ".nc" else _write_parquet
    with atomic_output(target, overwrite=overwrite) as temporary, writer(temporary, grid) as write:
        fill(write)
    return open_sweep(target)


def open_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Open a `.parquet` or `.nc` file that `sweep` wrote, as the dataset that it returned; values are read when used.

    **Guarantee.** The values are those of the file; what they guarantee is recorded in the attributes.  ValueError for
    another suffix, and for a Parquet file that no sweep wrote.

    Examples
    --------
    >>> open_sweep("grid.parquet").epsilon.sel(delta=1e-5)  # doctest: +SKIP
    """
    target, xarray = _as_file(path), import_extra("xarray", "sweep")
    found: xr.Dataset = (
        xarray.open_dataset(target, engine="netcdf4") if target.suffix == ".nc" else _open_parquet(target)
    )
    return found


def _as_file(path: str | os.PathLike[str]) -> Path:
    """A path whose suffix names a format, of which the library is there."""
    target = Path(path)
    if target.suffix not in LIBRARIES:
        raise ValueError(f"path = {str(target)!r}: the suffix must be one of {', '.join(LIBRARIES)}")
    import_extra(LIBRARIES[target.suffix], "sweep")
    return target


def _axis(name: str, values: Any) -> NDArray[Any]:
    """A checked axis as a 1-D array: float64, int64 for steps."""
    cells = as_cells(name, values, DOMAINS[name])
    if cells.ndim > 1:
        raise ValueError(f"{name} must be a number or a 1-D array; got {cells.ndim} dimensions, shape {cells.shape}")
    return np.atleast_1d(cells).astype(np.int64 if name == "steps" else np.float64)


def chunks(shape: Sequence[int], largest: int) -> Iterator[Chunk]:
    """Cut a grid, in C order, into boxes that are contiguous in C order and hold at most `largest` cells."""
    first, *rest = shape
    inner = math.prod(rest)
    if inner > largest:
        for index in range(first):
            for below in chunks(rest, largest):
                yield slice(index, index + 1), *below
    else:
        thick = largest // inner
        for start in range(0, first, thick):
            yield slice(start, min(start + thick, first)), *(slice(0, size) for size in rest)


class Grid(Record):
    """The axes of a sweep, slowest first, the variables computed on them, and what they are."""

    axes: dict[str, NDArray[Any]]
    variables: Sequence[str]
    attrs: dict[str, str]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(len(values) for values in self.axes.values())

    def places(self, chunk: Chunk, *, sparse: bool = True) -> list[NDArray[Any]]:
        """The axes in a chunk: spread over it, or of shapes that broadcast to it."""
        cut = (values[part] for values, part in zip(self.axes.values(), chunk, strict=True))
        return list(np.meshgrid(*cut, indexing="ij", sparse=sparse))

    def labelled(self, values: Sequence[Any]) -> xr.Dataset:
        """The dataset around one array of the grid's shape per variable."""
        xarray = import_extra("xarray", "sweep")
        coords = {name: (name, axis, self.notes(name)) for name, axis in self.axes.items()}
        cells = zip(self.variables, values, strict=True)
        variables = {name: (tuple(self.axes), array, self.notes(name)) for name, array in cells}
        return xarray.Dataset(variables, coords=coords, attrs=self.attrs)  # type: ignore[no-any-return]

    def notes(self, name: str) -> dict[str, str]:
        """What an axis or a variable is, and what a variable guarantees."""
        side = "lower" if name.endswith("_lower") else "upper"
        guarantee = {"guarantee": f"certified {side} bound", "units": "1"} if name in self.variables else {}
        return {"long_name": NOTES[name.removesuffix("_lower")], **guarantee}


def _assign(arrays: Sequence[Any]) -> Write:
    """Write into one array per variable, in memory or in a file."""

    def write(chunk: Chunk, values: Values) -> None:
        for whole, part in zip(arrays, values, strict=True):
            whole[chunk] = part

    return write


@contextlib.contextmanager
def _write_netcdf(path: Path, grid: Grid) -> Iterator[Write]:
    with import_extra("netCDF4", "sweep").Dataset(str(path), "w") as file:
        for name, values in grid.axes.items():
            file.createDimension(name, len(values))
            file.createVariable(name, values.dtype, (name,))[:] = values
        # No fill value, and so no first pass that writes it: every cell is written before the file gets its name.
        for name in grid.variables:
            file.createVariable(name, np.float64, tuple(grid.axes), fill_value=False)
        for name in (*grid.axes, *grid.variables):
            file[name].setncatts(grid.notes(name))
        file.setncatts(grid.attrs)
        yield _assign([file[name] for name in grid.variables])


@contextlib.contextmanager
def _write_parquet(path: Path, grid: Grid) -> Iterator[Write]:
    import json

    arrow, parquet = import_extra("pyarrow", "sweep"), import_extra("pyarrow.parquet", "sweep")
    axes = {name: axis.tolist() for name, axis in grid.axes.items()}
    about = {"axes": axes, "variables": grid.variables, "attrs": grid.attrs}
    fields = [(name, arrow.from_numpy_dtype(axis.dtype)) for name, axis in grid.axes.items()]
    fields += [(name, arrow.float64()) for name in grid.variables]
    schema = arrow.schema(fields, metadata={METADATA_KEY: json.dumps(about)})
    # The axes repeat, so a dictionary makes them almost free; the values do not, and their bytes compress best when
    # the same byte of all of them stands together.
    columns = {"use_dictionary": list(grid.axes), "use_byte_stream_split": list(grid.variables)}
    with parquet.ParquetWriter(str(path), schema, compression="zstd", compression_level=1, **columns) as writer:

        def write(chunk: Chunk, values: Values) -> None:
            whole = [arrow.array(np.ravel(column)) for column in (*grid.places(chunk, sparse=False), *values)]
            table = arrow.Table.from_arrays(whole, schema=schema)
            writer.write_table(table, row_group_size=max(1, table.num_rows))

        yield write


def _open_parquet(path: Path) -> xr.Dataset:
    """The grid in a Parquet file; a variable is read, a part of the file at a time, when it is used."""
    arrow, dataset = import_extra("pyarrow", "sweep"), import_extra("pyarrow.dataset", "sweep")
    import json

    from xarray.backends import BackendArray
    from xarray.core import indexing

    table = dataset.dataset(path, format="parquet")
    about = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if "axes" not in about:
        raise ValueError(f"{path} was not written by fastacct.sweep of this version: its metadata has no axes")
    grid = Grid({name: np.array(axis) for name, axis in about["axes"].items()}, about["variables"], about["attrs"])
    shape, n_rows = grid.shape, table.count_rows()
    if n_rows != math.prod(shape):
        raise ValueError(f"{path} is damaged: {n_rows:,} rows for a grid of {math.prod(shape):,} cells")

    class Variable(BackendArray):
        def __init__(self, name: str) -> None:
            self.name, self.shape, self.dtype = name, shape, np.dtype(np.float64)

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            support = indexing.IndexingSupport.OUTER
            return indexing.explicit_indexing_adapter(key, shape, support, self._read)

        def _read(self, key: tuple[Any, ...]) -> NDArray[np.float64]:
            places = [np.arange(size)[index] for index, size in zip(key, shape, strict=True)]
            rows = np.ravel_multi_index(np.ix_(*map(np.atleast_1d, places)), shape).reshape(-1)
            found: NDArray[np.float64] = table.take(arrow.array(rows), columns=[self.name])[self.name].to_numpy()
            return found.reshape([chosen.size for chosen in places if chosen.ndim])  # a plain number drops its axis

    return grid.labelled([indexing.LazilyIndexedArray(Variable(name)) for name in grid.variables])
