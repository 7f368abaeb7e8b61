"""Sweeps as Parquet: a tidy table, one row per cell in the C order of the grid, read back as a lazy grid."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastacct._grid import Grid, Sink, Values, labelled
from fastacct.core.extras import import_extra

if TYPE_CHECKING:
    import xarray as xr

METADATA_KEY = b"fastacct_sweep"


class TableSink:
    """One row group per chunk."""

    def __init__(self, writer: Any, grid: Grid, schema: Any) -> None:
        self.arrow = import_extra("pyarrow", "sweep")
        self.writer, self.grid, self.schema = writer, grid, schema

    def write(self, chunk: tuple[slice, ...], values: Values) -> None:
        shape, size = values[0].shape, values[0].size
        columns = []
        for position, axis in enumerate(self.grid.axes.values()):
            spread = [1] * len(shape)
            spread[position] = -1
            column = np.broadcast_to(axis[chunk[position]].reshape(spread), shape)
            columns.append(self.arrow.array(column.reshape(-1)))
        columns += [self.arrow.array(np.ascontiguousarray(part).reshape(-1)) for part in values]
        table = self.arrow.Table.from_arrays(columns, schema=self.schema)
        self.writer.write_table(table, row_group_size=max(1, size))


@contextlib.contextmanager
def table_sink(path: Path, grid: Grid) -> Iterator[Sink]:
    """A Parquet file being written; closed (and then complete) when the block ends."""
    arrow = import_extra("pyarrow", "sweep")
    parquet = import_extra("pyarrow.parquet", "sweep")
    about = {"variables": grid.variables, "dims": grid.dims, "shape": grid.shape, "attrs": grid.attrs}
    fields = [(name, arrow.from_numpy_dtype(axis.dtype)) for name, axis in grid.axes.items()]
    fields += [(name, arrow.float64()) for name in grid.variables]
    schema = arrow.schema(fields, metadata={METADATA_KEY: json.dumps(about)})
    # The axes repeat, so a dictionary makes them almost free; the values do not, and their bytes compress best when
    # the same byte of all of them stands together.
    options = {
        "use_dictionary": list(grid.dims),
        "use_byte_stream_split": list(grid.variables),
        "compression": "zstd",
        "compression_level": 1,
    }
    with parquet.ParquetWriter(str(path), schema, **options) as writer:
        yield TableSink(writer, grid, schema)


def open_grid(path: Path) -> xr.Dataset:
    """The grid in a Parquet file; a variable is read row group by row group, when it is used."""
    parquet = import_extra("pyarrow.parquet", "sweep")
    with parquet.ParquetFile(path) as file:
        metadata = (file.schema_arrow.metadata or {}).get(METADATA_KEY)
        if metadata is None:
            raise ValueError(f"{path} was not written by fastacct.sweep: it has no {METADATA_KEY.decode()!r} metadata")
        about = json.loads(metadata)
        sizes = [file.metadata.row_group(index).num_rows for index in range(file.metadata.num_row_groups)]
    shape, dims = tuple(about["shape"]), tuple(about["dims"])
    if sum(sizes) != math.prod(shape):
        raise ValueError(f"{path} is damaged: {sum(sizes):,} rows for a grid of {math.prod(shape):,} cells")
    rows = RowReader(path, sizes)
    axes = {}
    for position, name in enumerate(dims):
        stride = math.prod(shape[position + 1 :])
        axes[name] = rows.take(name, np.arange(shape[position]) * stride)
    variables = tuple(about["variables"] if "variables" in about else [about["variable"]])  # one, in files of 0.1
    grid = Grid(axes, variables, about["attrs"])
    return labelled(grid, [_lazy(rows, grid, name) for name in variables])


class RowReader:
    """Values of one column at given row numbers, with one row group in memory at a time."""

    def __init__(self, path: Path, group_sizes: list[int]) -> None:
        self.path = path
        self.edges = np.array([0, *itertools.accumulate(group_sizes)])

    def take(self, column: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The column at `rows` (any shape, any order)."""
        parquet = import_extra("pyarrow.parquet", "sweep")
        with parquet.ParquetFile(self.path) as file:
            dtype = file.schema_arrow.field(column).type.to_pandas_dtype()
            out = np.empty(rows.shape, dtype=dtype)
            flat, wanted = out.reshape(-1), rows.reshape(-1)
            ascending = bool(np.all(wanted[1:] >= wanted[:-1]))
            order = None if ascending else np.argsort(wanted, kind="stable")
            ordered = wanted if order is None else wanted[order]
            bounds = np.searchsorted(ordered, self.edges)
            for group, (start, stop) in enumerate(itertools.pairwise(bounds)):
                if start == stop:
                    continue
                values = file.read_row_group(group, columns=[column])[column].to_numpy()
                found = values[ordered[start:stop] - self.edges[group]]
                flat[slice(start, stop) if order is None else order[start:stop]] = found
        return out


def _lazy(rows: RowReader, grid: Grid, variable: str) -> Any:
    """An xarray array that turns an index into row numbers and reads only those."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class CellArray(BackendArray):
        def __init__(self) -> None:
            self.shape = grid.shape
            self.dtype = np.dtype(np.float64)

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            support = indexing.IndexingSupport.OUTER
            return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

        def _read(self, key: tuple[Any, ...]) -> NDArray[np.float64]:
            chosen = [np.arange(size)[index] for index, size in zip(key, self.shape, strict=True)]
            numbers = np.ravel_multi_index(np.ix_(*map(np.atleast_1d, chosen)), self.shape)
            dropped = tuple(position for position, picked in enumerate(chosen) if picked.ndim == 0)
            return rows.take(variable, numbers).squeeze(axis=dropped)

    return indexing.LazilyIndexedArray(CellArray())
