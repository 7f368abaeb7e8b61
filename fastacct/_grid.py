"""The labelled grid of a sweep: its axes and variables, where finished cells go, and the dataset around them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastacct.core.extras import import_extra

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AXIS_NOTES", "Grid", "Sink", "Values", "labelled", "variable_attrs"]

AXIS_NOTES = {
    "noise_multiplier": "standard deviation of the Gaussian noise / L2 sensitivity",
    "sample_rate": "Poisson sampling probability of a record in a step",
    "steps": "number of steps",
    "delta": "delta of the (epsilon, delta) guarantee",
    "epsilon": "epsilon of the (epsilon, delta) guarantee (natural logarithm)",
}


@dataclasses.dataclass(frozen=True)
class Grid:
    """The axes of a sweep, the variables computed on them, and what the first of them guarantees."""

    axes: dict[str, NDArray[Any]]
    variables: tuple[str, ...]
    attrs: dict[str, str]

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes, slowest first."""
        return tuple(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def n_cells(self) -> int:
        """Number of combinations."""
        return math.prod(self.shape)


Values = Sequence[NDArray[np.float64]]
"""One array per variable of the grid."""


class Sink(Protocol):
    """Where finished chunks go; chunks arrive in C order, each one contiguous in it."""

    def write(self, chunk: tuple[slice, ...], values: Values) -> None: ...


def variable_attrs(grid: Grid, name: str) -> dict[str, str]:
    """What a variable is and guarantees."""
    guarantee = grid.attrs["guarantee"] if name == grid.variables[0] else "certified lower bound"
    return {"long_name": AXIS_NOTES[name.removesuffix("_lower")], "guarantee": guarantee, "units": "1"}


def labelled(grid: Grid, values: Sequence[Any]) -> xr.Dataset:
    """The labelled dataset around one array of the grid's shape per variable."""
    import_extra("xarray", "sweep")
    import xarray

    coords = {name: ((name,), axis, {"long_name": AXIS_NOTES[name]}) for name, axis in grid.axes.items()}
    variables = {
        name: (grid.dims, array, variable_attrs(grid, name)) for name, array in zip(grid.variables, values, strict=True)
    }
    return xarray.Dataset(variables, coords=coords, attrs=dict(grid.attrs))
