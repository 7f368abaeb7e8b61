"""The labelled grid of a sweep, and its files: netCDF-4, or Parquet as a tidy table with one row per cell.

A writer is a function of a chunk (slices) and its values, one array per variable. Chunks arrive in the C order of the
grid, each one contiguous in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.extras import import_extra

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Grid", "Values", "Write", "assign", "format_of"]

Values = Sequence[NDArray[np.float64]]
Chunk = tuple[slice, ...]
Write = Callable[[Chunk, Values], None]
Writer = Callable[[Path, "Grid"], contextlib.AbstractContextManager[Write]]
Opener = Callable[[Path], "xr.Dataset"]
METADATA_KEY: Final = b"fastacct_sweep"
NOTES: Final = {
    "noise_multiplier": "standard deviation of the Gaussian noise / L2 sensitivity",
    "sample_rate": "Poisson sampling probability of a record in a step",
    "steps": "number of steps",
    "delta": "delta of the (epsilon, delta) guarantee",
    "epsilon": "epsilon of the (epsilon, delta) guarantee (natural logarithm)",
}


@dataclasses.dataclass(frozen=True)
class Grid:
    """The axes of a sweep, slowest first, the variables computed on them, and what the first of them guarantees."""

    axes: dict[str, NDArray[Any]]
    variables: tuple[str, ...]
    attrs: dict[str, str]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(len(values) for values in self.axes.values())

    def places(self, chunk: Chunk, *, sparse: bool = True) -> list[NDArray[Any]]:
        """The axes in a chunk: spread over it, or of shapes that broadcast to it."""
        cut = (values[part] for values, part in zip(self.axes.values(), chunk, strict=True))
        return list(np.meshgrid(*cut, indexing="ij", sparse=sparse))

    def notes(self, name: str) -> dict[str, str]:
        """What an axis or a variable is, and what a variable guarantees."""
        about = {"long_name": NOTES[name.removesuffix("_lower")]}
        if name in self.axes:
            return about
        guarantee = self.attrs["guarantee"] if name == self.variables[0] else "certified lower bound"
        return {**about, "guarantee": guarantee, "units": "1"}

    def labelled(self, values: Sequence[Any]) -> xr.Dataset:
        """The dataset around one array of the grid's shape per variable."""
        xarray = import_extra("xarray", "sweep")
        coords = {name: ((name,), axis, self.notes(name)) for name, axis in self.axes.items()}
        cells = zip(self.variables, values, strict=True)
        variables = {name: (tuple(self.axes), array, self.notes(name)) for name, array in cells}
        return xarray.Dataset(variables, coords=coords, attrs=dict(self.attrs))  # type: ignore[no-any-return]


def assign(arrays: Sequence[Any]) -> Write:
    """Write into one array per variable, in memory or in a file."""

    def write(chunk: Chunk, values: Values) -> None:
        for whole, part in zip(arrays, values, strict=True):
            whole[chunk] = part

    return write


def format_of(path: Path) -> tuple[Writer, Opener]:
    """How a file of this suffix is written (complete when the block ends) and opened; the library for it is there."""
    if path.suffix not in _FORMATS:
        raise ValueError(f"path = {str(path)!r}: the suffix must be one of {', '.join(_FORMATS)}")
    library, writer, opener = _FORMATS[path.suffix]
    import_extra(library, "sweep")
    return writer, opener


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
        yield assign([file[name] for name in grid.variables])


def _open_netcdf(path: Path) -> xr.Dataset:
    xarray = import_extra("xarray", "sweep")
    return xarray.open_dataset(path, engine="netcdf4")  # type: ignore[no-any-return]


@contextlib.contextmanager
def _write_parquet(path: Path, grid: Grid) -> Iterator[Write]:
    arrow, parquet = import_extra("pyarrow", "sweep"), import_extra("pyarrow.parquet", "sweep")
    about = {"variables": grid.variables, "dims": list(grid.axes), "shape": grid.shape, "attrs": grid.attrs}
    fields = [(name, arrow.from_numpy_dtype(axis.dtype)) for name, axis in grid.axes.items()]
    fields += [(name, arrow.float64()) for name in grid.variables]
    schema = arrow.schema(fields, metadata={METADATA_KEY: json.dumps(about)})
    # The axes repeat, so a dictionary makes them almost free; the values do not, and their bytes compress best when
    # the same byte of all of them stands together.
    options = {
        "use_dictionary": list(grid.axes),
        "use_byte_stream_split": list(grid.variables),
        "compression": "zstd",
        "compression_level": 1,
    }
    with parquet.ParquetWriter(str(path), schema, **options) as writer:

        def write(chunk: Chunk, values: Values) -> None:
            columns = [np.ravel(column) for column in (*grid.places(chunk, sparse=False), *values)]
            table = arrow.Table.from_arrays([arrow.array(column) for column in columns], schema=schema)
            writer.write_table(table, row_group_size=max(1, table.num_rows))

        yield write


def _open_parquet(path: Path) -> xr.Dataset:
    """The grid in a Parquet file; a variable is read, a part of the file at a time, when it is used."""
    arrow, dataset = import_extra("pyarrow", "sweep"), import_extra("pyarrow.dataset", "sweep")
    from xarray.backends import BackendArray
    from xarray.core import indexing

    table = dataset.dataset(path, format="parquet")
    metadata = (table.schema.metadata or {}).get(METADATA_KEY)
    if metadata is None:
        raise ValueError(f"{path} was not written by fastacct.sweep: it has no {METADATA_KEY.decode()!r} metadata")
    about = json.loads(metadata)
    shape, n_rows = tuple(about["shape"]), table.count_rows()
    if n_rows != math.prod(shape):
        raise ValueError(f"{path} is damaged: {n_rows:,} rows for a grid of {math.prod(shape):,} cells")

    def take(name: str, places: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
        rows = np.ravel_multi_index(np.ix_(*places), shape).reshape(-1)
        found: NDArray[Any] = table.take(arrow.array(rows), columns=[name])[name].to_numpy()
        return found

    class Variable(BackendArray):
        def __init__(self, name: str) -> None:
            self.name, self.shape, self.dtype = name, shape, np.dtype(np.float64)

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            support = indexing.IndexingSupport.OUTER
            return indexing.explicit_indexing_adapter(key, shape, support, self._read)

        def _read(self, key: tuple[Any, ...]) -> NDArray[np.float64]:
            places = [np.arange(size)[index] for index, size in zip(key, shape, strict=True)]
            kept = [chosen.size for chosen in places if chosen.ndim]  # a plain number drops its axis
            return take(self.name, [np.atleast_1d(chosen) for chosen in places]).reshape(kept)

    axes, first = {}, [np.arange(1)] * len(shape)
    for place, name in enumerate(about["dims"]):
        axes[name] = take(name, [*first[:place], np.arange(shape[place]), *first[place + 1 :]])
    variables = about["variables"] if "variables" in about else [about["variable"]]  # one, in files of 0.1
    grid = Grid(axes, tuple(variables), about["attrs"])
    return grid.labelled([indexing.LazilyIndexedArray(Variable(name)) for name in grid.variables])


_FORMATS: Final[dict[str, tuple[str, Writer, Opener]]] = {
    ".parquet": ("pyarrow.parquet", _write_parquet, _open_parquet),
    ".nc": ("netCDF4", _write_netcdf, _open_netcdf),
}
