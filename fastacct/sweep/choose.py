"""From a grid to a decision: the cells that satisfy a condition, the cheapest, and those none is better than."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["cheapest", "feasible", "pareto"]

_LEAST: Final = ("noise_multiplier", "epochs", "steps")


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
    if not hasattr(grid, "data_vars") or not grid.sizes:
        raise TypeError(f"grid must be a dataset such as fastacct.open_sweep(path), not {type(grid).__name__}")
    rows = grid.to_dataframe(dim_order=[str(name) for name in grid.dims]).reset_index()
    rows = rows[[*grid.dims, *(name for name in grid.coords if name not in grid.dims), *grid.data_vars]]
    names = [sort] if isinstance(sort, str) else list(sort)
    for name in names:
        if not isinstance(name, str) or name.removeprefix("-") not in rows.columns:
            raise ValueError(f"sort = {name!r} is not a column; there are {', '.join(map(str, rows.columns))}")
    if where is not None:
        columns = ", ".join(map(str, rows.columns))
        try:
            found = rows.eval(where, engine="python", local_dict={}, global_dict={})
        except Exception as error:
            raise ValueError(f"where = {where!r} is not a condition on {columns}: {error}") from None
        if getattr(found, "dtype", None) != np.bool_ or len(found) != len(rows):
            raise ValueError(f"where = {where!r} is not a condition on {columns}: it is not true or false of each cell")
        rows = rows[np.asarray(found)]
    if names:
        rows = rows.sort_values(
            [name.removeprefix("-") for name in names],
            ascending=[not name.startswith("-") for name in names],
            kind="stable",
        )
    return rows.reset_index(drop=True)


def cheapest(grid: xr.Dataset, where: str, axis: str, *, largest: bool = False) -> xr.DataArray:
    """The smallest (or largest) value of an axis that satisfies a condition, for each combination of the others.

    NaN where none does.

    >>> import fastacct as fa
    >>> grid = fa.sweep(noise_multiplier=[0.8, 1.0, 1.2], sample_rate=0.01, steps=[500, 1000], delta=1e-5).compute()
    >>> fa.cheapest(grid, "epsilon <= 2.5", "noise_multiplier").values.ravel().tolist()
    [0.8, 1.0]
    """
    if axis not in grid.dims:
        raise ValueError(f"axis = {axis!r} is not an axis; there are {', '.join(map(str, grid.dims))}")
    rows = feasible(grid, where)
    if len(grid.dims) == 1:
        values = rows[axis]
        only: Any = grid[axis].isel({axis: 0}, drop=True).astype(float)
        least = (values.max() if largest else values.min()) if len(values) else np.nan
        return only.copy(data=least).assign_attrs(condition=where)  # type: ignore[no-any-return]
    others = [str(name) for name in grid.dims if name != axis]
    grouped = rows.groupby(others)[axis]
    found: Any = (grouped.max() if largest else grouped.min()).to_xarray()
    found = found.reindex({name: grid[name] for name in others}).transpose(*others)
    return found.assign_attrs(grid[axis].attrs | {"condition": where})  # type: ignore[no-any-return]


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
    low, high = ([names] if isinstance(names, str) else [*names] for names in (minimize, maximize))
    if minimize is _LEAST:
        low = [name for name in low if name in rows.columns]
    if unknown := [name for name in (*low, *high) if name not in rows.columns]:
        raise ValueError(f"{unknown[0]!r} is not a column; there are {', '.join(map(str, rows.columns))}")
    if not low and not high:
        raise ValueError("name at least one column to minimize or to maximize")
    goals = np.column_stack(
        [*(rows[name].to_numpy(float) for name in low), *(-rows[name].to_numpy(float) for name in high)]
    )
    order = np.lexsort(goals.T[::-1])
    kept: list[int] = []
    for place in order.tolist():  # what stands later is not better in everything: one pass is enough
        front = goals[kept]
        if not len(kept) or not ((front <= goals[place]).all(axis=1) & (front < goals[place]).any(axis=1)).any():
            kept.append(place)
    return rows.iloc[kept].reset_index(drop=True)
