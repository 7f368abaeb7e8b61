"""Sweeps as netCDF-4: variables over the axes, written and read by hyperslabs."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastacct._grid import AXIS_NOTES, Grid, Sink, Values, variable_attrs
from fastacct.core.extras import import_extra

if TYPE_CHECKING:
    import xarray as xr


class ArraySink:
    """Chunks into the hyperslabs of the variables."""

    def __init__(self, file: Any, grid: Grid) -> None:
        for name, values in grid.axes.items():
            file.createDimension(name, len(values))
            column = file.createVariable(name, values.dtype, (name,))
            column.setncattr("long_name", AXIS_NOTES[name])
            column[:] = values
        # No fill value, and so no first pass that writes it: every cell is written before the file gets its name.
        self.variables = []
        for name in grid.variables:
            variable = file.createVariable(name, np.dtype(np.float64), grid.dims, fill_value=False)
            for key, text in variable_attrs(grid, name).items():
                variable.setncattr(key, text)
            self.variables.append(variable)
        for key, text in grid.attrs.items():
            file.setncattr(key, text)

    def write(self, chunk: tuple[slice, ...], values: Values) -> None:
        for variable, part in zip(self.variables, values, strict=True):
            variable[chunk] = part


@contextlib.contextmanager
def array_sink(path: Path, grid: Grid) -> Iterator[Sink]:
    """A netCDF file being written; closed (and then complete) when the block ends."""
    file = library().Dataset(str(path), "w")
    try:
        yield ArraySink(file, grid)
    finally:
        file.close()


def library() -> Any:
    """netCDF4, or h5netcdf (with h5py, without which it cannot write) under the same interface."""
    try:
        return importlib.import_module("netCDF4")
    except ImportError:
        import_extra("h5py", "sweep")
        return import_extra("h5netcdf.legacyapi", "sweep")


def open_grid(path: Path) -> xr.Dataset:
    """The grid in a netCDF file; a variable is read when it is used."""
    xarray = import_extra("xarray", "sweep")
    engine = "netcdf4" if library().__name__ == "netCDF4" else "h5netcdf"
    return xarray.open_dataset(path, engine=engine)  # type: ignore[no-any-return]
