"""Sweeps over configurations of DP-SGD: axes in, a labelled grid out, in memory or in a file that can be resumed.

Here is which question the axes ask, and the way from a grid to a decision; `cost` predicts and evaluates chunks,
`store` writes them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from fastacct.accountants import RDP, Exact
from fastacct.accountants.batching import COMPANIONS
from fastacct.accountants.run import Run, as_delta, parameters, refused
from fastacct.core.extras import Foreign, import_extra
from fastacct.core.html import table
from fastacct.core.inputs import DOMAINS, Reals, as_cells, check_memory
from fastacct.core.labels import labels_of
from fastacct.core.relations import as_relation
from fastacct.core.words import did_you_mean, hinting, told_names, written_out
from fastacct.sweep.cost import Estimate, estimate, in_memory
from fastacct.sweep.grid import FIXED, TARGETS, Grid
from fastacct.sweep.store import open_sweep, save

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Sweep", "cheapest", "feasible", "open_sweep", "pareto", "sweep"]

AXES: Final = (
    "noise_multiplier", "sample_rate", "batch_size", "records", "steps", "epochs", "delta", "epsilon", "orders",
)  # fmt: skip
"""In the order of the dimensions."""
_WHOLE: Final = ("steps", "records")
_CONDITION: Final = (
    ast.Expression, ast.BoolOp, ast.boolop, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.BitAnd, ast.BitOr, ast.UnaryOp, ast.unaryop, ast.Compare, ast.cmpop, ast.Name, ast.Load, ast.Constant, ast.List,
    ast.Tuple,
)  # fmt: skip
"""What a condition may consist of."""
_LEAST: Final = ("noise_multiplier", "epochs", "steps")


_HINTS: Final = {
    "plot": "write fastacct.plot.epsilon_grid(sweep.compute())",
    **dict.fromkeys(("run", "epsilon", "result", "values"), "compute() returns the grid, save(path) writes it"),
    **dict.fromkeys(
        ("to_dataframe", "to_csv", "to_pandas"),
        "write compute().to_dataframe(), or fastacct.feasible(sweep.compute()); save(path) writes a file",
    ),
}


class Sweep(Grid):
    """A grid that is not computed yet: made by `fastacct.sweep`.

    `estimate` says what it takes, `compute` gives it in memory, `save` writes it to a file, resuming what was begun.

    Examples
    --------
    >>> import fastacct as fa
    >>> plan = fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=[100, 1000], delta=1e-5)
    >>> plan, plan.compute().epsilon.shape
    (Sweep(epsilon of 4 cells: noise_multiplier 2, sample_rate 1, steps 2, delta 1), (2, 1, 2, 1))
    """

    if not TYPE_CHECKING:
        __getattr__ = hinting(_HINTS)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name} {len(values)}" for name, values in self.axes.items())
        return f"Sweep({self.quantity} of {self.size:,} cells: {axes})"

    def _repr_html_(self) -> str:
        return table(repr(self), [*self.axes.items(), *self.settings.items()])

    def estimate(self) -> Estimate:
        """Predict what the sweep takes, from a cost model and some cells that are evaluated now (half a second)."""
        return estimate(self)

    def compute(self, *, progress: bool = False) -> xr.Dataset:
        """Compute the grid in memory.

        **Guarantee.** As `fastacct.sweep`.  `progress` shows the share of the work done and the time left on stderr.
        MemoryError, before anything is computed, where the grid is larger than the memory.
        """
        check_memory(self.shape, len(self.variables))
        return self.labelled(in_memory(self, progress))

    def save(self, path: str | os.PathLike[str], *, progress: bool = False, overwrite: bool = False) -> xr.Dataset:
        """Compute the grid chunk by chunk into a file, or go on where a sweep was stopped; the dataset loads lazily.

        **Guarantee.** As `fastacct.sweep`.  Whatever stops the process, nothing but the chunks in flight is lost: the
        same call goes on.  The file is complete when it opens with `open_sweep`.

        Parameters
        ----------
        path : path
            `.zarr` (chunks are written as they come), `.nc` (netCDF-4) or `.parquet` (one row per cell); the last two
            are written from a Zarr store beside them when all is computed.
        progress : bool
            Show the share of the work done and the time left on stderr.
        overwrite : bool
            Replace what is at the path, unless it is this sweep, begun or complete: then go on with it.

        Raises
        ------
        ValueError
            The store at `path` has other axes or settings: the message names the first that differs.
        FileExistsError, BlockingIOError, OSError
            The file exists; another process writes it; it cannot be written.
        """
        return save(self, path, progress=progress, overwrite=overwrite)


@told_names
def sweep(
    *,
    delta: Reals | str | None = None,
    epsilon: Reals | None = None,
    orders: Reals | None = None,
    bounds: bool = False,
    client: Foreign = None,
    **run: Unpack[Run],
) -> Sweep:
    """Plan every combination of the given values, as a labelled grid; nothing is computed yet.

    **Guarantee.** Every cell is what the verb of `fastacct.dpsgd` returns for that cell alone, bit for bit: a certified
    upper bound for DP-SGD with batches drawn by `sampling`, under `neighbors`, and with `bounds` the lower bound and
    the status too.  The bits depend neither on chunks nor on threads or machines.

    Parameters
    ----------
    noise_multiplier, sample_rate, steps, batch_size, records, epochs : float or 1-D array
        The axes; a scalar is an axis of length 1.  Keywords as in `fastacct.dpsgd.epsilon`.
    delta, epsilon, orders : float or 1-D array
        What is computed: epsilon at `delta`, delta at `epsilon`, the Rényi divergence at `orders`.  With delta and
        epsilon the parameter left out: the smallest noise multiplier, the largest sample rate or number of steps.
        With `records`, delta may be "1/n" or a power such as "1/n^1.1".
    sampling, at_most, bands, bins, selected : optional
        How batches are drawn, the same in all cells; as in `fastacct.dpsgd.epsilon`.
    accountant, neighbors, threads
        As in `fastacct.dpsgd.epsilon`.
    bounds : bool
        Also compute the certified lower bound, as the variable `epsilon_lower` (`delta_lower`), and the status.
    client : dask.distributed.Client, optional
        Compute on its workers, one thread of kernels per thread of a worker.

    Returns
    -------
    Sweep
        With the methods `estimate`, `compute` and `save`.

    Raises
    ------
    ValueError, TypeError
        Empty, repeated, NaN, multi-dimensional or out-of-range values; axes that do not fix a run and one question.
    ModuleNotFoundError
        A library of the extra `sweep` is missing.

    Examples
    --------
    >>> import fastacct as fa
    >>> plan = fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=[100, 1000], delta=1e-5)
    >>> grid = plan.compute()
    >>> round(float(grid.epsilon.sel(noise_multiplier=1.0, steps=1000).item()), 6)
    1.828237
    """
    import_extra("xarray", "sweep")
    if not isinstance(bounds, bool):
        raise TypeError(f"bounds must be True or False; got {bounds!r}")
    refused(run, ("history",), "a sweep is of single runs: give noise_multiplier, sample_rate and steps, not {}")
    every: dict[str, Any] = {**run, "delta": delta, "epsilon": epsilon, "orders": orders}
    given = {name: every[name] for name in AXES if every.get(name) is not None}
    quantity = _quantity(given)
    words = given.pop("delta") if isinstance(delta, str) else None
    axes = {name: _axis(name, value) for name, value in given.items()}
    if words is not None:
        as_delta(words, axes)
    elif "records" in axes and "batch_size" not in axes and run.get("sampling", "poisson") == "poisson":
        raise TypeError('records is for batch_size and for a delta such as "1/n"')
    chosen, relation = run.get("accountant"), as_relation(run.get("neighbors", "add_remove"))
    chosen = chosen if chosen is not None else RDP() if quantity == "rdp" else Exact()
    batches = {"sampling": run.get("sampling", "poisson")}
    batches |= {name: every[name] for name in COMPANIONS if every.get(name) is not None}
    for name, value in batches.items():
        if np.ndim(value) > 0:
            raise TypeError(f"{name} is the same in all cells of a sweep: give one value")
    plan = Sweep(quantity, axes, words, chosen, relation, bounds, run.get("threads"), client, batches)
    ends = [np.unique([axis.min(), axis.max()]) for axis in axes.values()]  # no cell is more extreme than these
    extremes: Any = {name: one for name, one in zip(axes, np.ix_(*ends), strict=True) if name not in TARGETS}
    parameters(extremes, quantity)  # what no run has is refused now, not after an hour of work
    plan.evaluate((slice(0, 1),) * len(axes))
    return plan


written_out({name: kind for name, kind in Run.__annotations__.items() if name != "history"}, (sweep,))


def _quantity(given: Mapping[str, object]) -> str:
    """What the axes ask for."""
    missing = [name for name, fixing in FIXED.items() if not any(one in given for one in fixing)]
    targets = tuple(name for name in TARGETS if name in given)
    verbs: dict[tuple[str, ...], str] = {("delta",): "epsilon", ("epsilon",): "delta", ("orders",): "rdp"}
    asked = verbs.get(targets)
    if asked and not missing:
        return asked
    if targets == ("delta", "epsilon") and len(missing) == 1:
        return missing[0]
    raise TypeError(
        "a sweep needs noise_multiplier, sample_rate (or batch_size and records), steps (or epochs), and one of delta "
        "(to compute epsilon), epsilon (to compute delta) and orders (to compute Renyi divergences); or delta and "
        f"epsilon, and two of the three; got {', '.join(given) or 'none'}"
    )


def _axis(name: str, values: object) -> NDArray[np.generic]:
    """A checked axis as a 1-D array: float64, int64 for whole numbers."""
    cells = as_cells(name, np.asarray(values) if labels_of(values) else values, DOMAINS[name])
    if cells.ndim > 1:
        raise ValueError(f"{name} must be a number or a 1-D array; got {cells.ndim} dimensions, shape {cells.shape}")
    axis = np.atleast_1d(cells).astype(np.int64 if name in _WHOLE else np.float64)
    unique, first = np.unique(axis, return_index=True)
    if unique.size < axis.size:
        again = np.setdiff1d(np.arange(axis.size), first)[0]
        raise ValueError(f"{name}[{again}] = {axis[again]} repeats an earlier value: labels of an axis are different")
    return axis


# -- from a grid to a decision -----------------------------------------------------------------------------------------


@told_names
def feasible(grid: xr.Dataset, where: str | None = None, *, sort: str | Sequence[str] = ()) -> pd.DataFrame:
    """The cells of a grid that satisfy a condition, one row each.

    Parameters
    ----------
    grid : xarray.Dataset
        A result of a sweep.
    where : str, optional
        A condition on its axes and variables, such as "epsilon <= 3 and steps >= 1000" (`pandas.DataFrame.query`).
    sort : str or sequence of str
        Columns to sort by; descending with a minus before the name.

    Examples
    --------
    >>> import fastacct as fa
    >>> grid = fa.sweep(noise_multiplier=[0.8, 1.0, 1.2], sample_rate=0.01, steps=[500, 1000], delta=1e-5).compute()
    >>> fa.feasible(grid, "epsilon <= 2", sort="-steps")[["noise_multiplier", "steps"]].head(1).values.tolist()
    [[1.0, 1000.0]]
    """
    rows = _rows(grid)
    names = _columns("sort", sort, [*rows.columns, *(f"-{name}" for name in rows.columns)])
    if where is not None:
        rows = rows[_meets(rows, where)]
    if names:
        columns, rising = [name.removeprefix("-") for name in names], [not name.startswith("-") for name in names]
        rows = rows.sort_values(columns, ascending=rising, kind="stable")
    return rows.reset_index(drop=True)


def _columns(argument: str, given: str | Sequence[str], known: Sequence[str]) -> list[str]:
    """The columns that an argument names."""
    names = [given] if isinstance(given, str) else [*given] if isinstance(given, Iterable) else None
    if names is None:
        raise TypeError(f"{argument} must be a column or a list of columns, not {given!r}")
    for name in names:
        if name not in known:
            there = ", ".join(one for one in known if not one.startswith("-"))
            raise ValueError(
                f"{argument} = {name!r} is not a column{did_you_mean(str(name), known)}; there are {there}"
            )
    return names


def _rows(grid: xr.Dataset) -> pd.DataFrame:
    """All cells of a grid, in C order."""
    if not hasattr(grid, "data_vars") or not grid.sizes:
        raise TypeError(f"grid must be a dataset such as fastacct.open_sweep(path), not {type(grid).__name__}")
    rows = grid.to_dataframe(dim_order=[str(name) for name in grid.dims]).reset_index()
    return rows[[*grid.dims, *(name for name in grid.coords if name not in grid.dims), *grid.data_vars]]


def _meets(rows: pd.DataFrame, where: str) -> NDArray[np.bool_]:
    """Of each row, whether it satisfies a condition, which compares numbers: nothing is called, raised or indexed."""
    try:
        for node in ast.walk(ast.parse(where, mode="eval")):
            if not isinstance(node, _CONDITION):
                raise TypeError(f"{type(node).__name__} is not allowed")
            if isinstance(node, ast.Name) and node.id not in (*rows.columns, "inf"):  # pandas has names of its own
                raise TypeError(f"{node.id} is none of them{did_you_mean(node.id, map(str, rows.columns))}")
            if isinstance(node, ast.Constant) and not isinstance(node.value, bool | int | float):
                raise TypeError(f"{node.value!r} is not a number")
        found = rows.eval(where, engine="python", local_dict={}, global_dict={})
        if getattr(found, "dtype", None) != np.bool_ or len(found) != len(rows):
            raise TypeError("it is not true or false of each cell")
    except Exception as error:
        columns = ", ".join(map(str, rows.columns))
        raise ValueError(f"where = {where!r} is not a condition on {columns}: {error}") from None
    return np.asarray(found)


@told_names
def cheapest(grid: xr.Dataset, where: str, axis: str, *, largest: bool = False) -> xr.DataArray:
    """The smallest (or largest) value of an axis that satisfies a condition, for each combination of the others.

    NaN where none does.

    >>> import fastacct as fa
    >>> grid = fa.sweep(noise_multiplier=[0.8, 1.0, 1.2], sample_rate=0.01, steps=[500, 1000], delta=1e-5).compute()
    >>> fa.cheapest(grid, "epsilon <= 2.5", "noise_multiplier").values.ravel().tolist()
    [0.8, 1.0]
    """
    rows = _rows(grid)
    if axis not in grid.dims:
        raise ValueError(f"axis = {axis!r} is not an axis; there are {', '.join(map(str, grid.dims))}")
    meets = _meets(rows, where).reshape([*grid.sizes.values()])
    cells = grid[axis].where(import_extra("xarray", "sweep").DataArray(meets, grid.coords, grid.dims))
    values: Foreign = cells.max(axis) if largest else cells.min(axis)
    found = values.transpose(..., *(name for name in grid.dims if name != axis))
    return found.assign_attrs(grid[axis].attrs | {"condition": where})  # type: ignore[no-any-return]


@told_names
def pareto(
    grid: xr.Dataset,
    where: str | None = None,
    *,
    minimize: str | Sequence[str] = _LEAST,
    maximize: str | Sequence[str] = (),
) -> pd.DataFrame:
    """The cells that satisfy a condition and that no other such cell is at least as good as in everything named.

    Names that the grid does not have are left out of the default of `minimize`.  Sorted by the first name.

    >>> import fastacct as fa
    >>> grid = fa.sweep(noise_multiplier=[0.8, 1.0, 1.2], sample_rate=0.01, steps=[500, 1000], delta=1e-5).compute()
    >>> best = fa.pareto(grid, "epsilon <= 2.5", minimize="noise_multiplier", maximize="steps")
    >>> best[["noise_multiplier", "steps"]].values.tolist()
    [[0.8, 500.0], [1.0, 1000.0]]
    """
    rows = feasible(grid, where)
    least = [name for name in _LEAST if name in rows.columns] if minimize is _LEAST else minimize
    low, high = (_columns(*one, [*rows.columns]) for one in (("minimize", least), ("maximize", maximize)))
    if not low and not high:
        raise ValueError("name at least one column to minimize or to maximize")
    goals = np.column_stack([rows[low].to_numpy(float), -rows[high].to_numpy(float)])
    order = np.lexsort(goals.T[::-1])
    kept: list[int] = []
    for place in order.tolist():  # what stands later is not better in everything: one pass is enough
        front = goals[kept]
        if not len(kept) or not ((front <= goals[place]).all(axis=1) & (front < goals[place]).any(axis=1)).any():
            kept.append(place)
    return rows.iloc[kept].reset_index(drop=True)
