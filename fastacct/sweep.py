"""Outer-product sweeps over DP-SGD configurations: axes in, labelled grid out, in memory or streamed to a file.

The grid is walked in C order, (noise_multiplier, sample_rate) slowest, in rectangular chunks: whatever the accountant
computes once per (noise_multiplier, sample_rate) pair is shared by every number of steps and every delta of the chunk.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

import fastacct.dpsgd as dpsgd
from fastacct._grid import Grid, Values, Write, assign, format_of
from fastacct.accountants import RDP, Exact, Method
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.inputs import DOMAINS, as_cells
from fastacct.core.version import __version__

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["open_sweep", "sweep"]

DEFAULT_CHUNK_CELLS: Final = 1 << 18
SMALLEST_CHUNK: Final = 1 << 14
ACCOUNTANT_NOTES: Final = {
    "Exact": "exact privacy curve",
    "RDP": "Renyi DP",
    "BasicComposition": "basic composition",
    "AdvancedComposition": "advanced composition",
    "ZCDPComposition": "zero-concentrated DP",
    "AnalyticGaussian": "analytic Gaussian mechanism",
    "CLT": "central limit theorem",
}
CONVERSION_NOTES: Final = {
    "mironov": "Mironov's conversion",
    "canonne_kamath_steinke": "the conversion of Canonne, Kamath and Steinke",
    "optimal": "the optimal conversion",
}
Evaluate = Callable[..., Values]


def sweep(
    *,
    noise_multiplier: ArrayLike,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    delta: ArrayLike | None = None,
    epsilon: ArrayLike | None = None,
    accountant: Any = None,
    neighbors: str = "add_remove",
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
    last = "delta" if epsilon is None else "epsilon"
    axes: dict[str, Any] = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": steps}
    axes[last] = delta if epsilon is None else epsilon
    grid = _make_grid(axes, accountant, neighbors, bounds)
    evaluate = _evaluator(grid, {"accountant": accountant, "neighbors": neighbors, "threads": threads})
    # What the accountant refuses is refused now, not after an hour of work: each axis is tried alone. Zero steps need
    # no computation under any accountant, and sample_rate = 1 is the one rate that all of them accept.
    trivial = dict(zip(grid.axes, (1.0, 1.0, 0, 1.0), strict=True))
    for name, values in grid.axes.items():
        evaluate(**{**trivial, name: values})
    if isinstance(chunk_cells, bool) or not isinstance(chunk_cells, int):
        raise TypeError(f"chunk_cells must be an integer; got {chunk_cells!r}")
    if chunk_cells < 1:
        raise ValueError(f"chunk_cells = {chunk_cells}: must be at least 1")
    largest = min(chunk_cells, max(SMALLEST_CHUNK, math.prod(grid.shape) // 64))  # progress shows on small grids
    if path is None:
        arrays = [np.empty(grid.shape) for _ in grid.variables]
        _run(grid, evaluate, assign(arrays), largest, progress)
        return grid.labelled(arrays)
    target = Path(path)
    writer, opener = format_of(target)
    refuse_existing(target, overwrite)
    with atomic_output(target, overwrite=overwrite) as temporary, writer(temporary, grid) as write:
        _run(grid, evaluate, write, largest, progress)
    return opener(target)


def open_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Open a `.parquet` or `.nc` file that `sweep` wrote, as the dataset that it returned; values are read when used.

    **Guarantee.** The values are those of the file; what they guarantee is recorded in the attributes.  ValueError for
    another suffix, and for a Parquet file that no sweep wrote.

    Examples
    --------
    >>> open_sweep("grid.parquet").epsilon.sel(delta=1e-5)  # doctest: +SKIP
    """
    return format_of(Path(path))[1](Path(path))


def describe_accountant(accountant: Method) -> str:
    """Say in words what an accountant does; `repr` for one that is not built in.

    Examples
    --------
    >>> describe_accountant(Exact())
    'exact privacy curve'
    """
    words = ACCOUNTANT_NOTES.get(type(accountant).__name__, repr(accountant))
    if not isinstance(accountant, RDP):
        return words
    orders = accountant.orders
    searched = "best real order" if orders is None else f"order {orders[0]:g}"
    if orders is not None and len(orders) > 1:
        searched = f"best of {len(orders)} orders between {min(orders):g} and {max(orders):g}"
    return f"{words}, {searched}, {CONVERSION_NOTES.get(accountant.conversion, accountant.conversion)}"


def _make_grid(axes: dict[str, Any], accountant: Method, neighbors: str, bounds: bool) -> Grid:
    """The checked axes as 1-D arrays (float64, int64 for steps), and what is computed on them."""
    checked = {}
    for name, values in axes.items():
        cells = as_cells(name, values, DOMAINS[name])
        if cells.ndim > 1:
            raise ValueError(
                f"{name} must be a number or a 1-D array; got {cells.ndim} dimensions, shape {cells.shape}"
            )
        checked[name] = np.atleast_1d(cells).astype(np.int64 if name == "steps" else np.float64)
    variable = "epsilon" if "delta" in axes else "delta"
    attrs = {
        "title": f"{variable} of Poisson-sampled DP-SGD",
        "guarantee": "certified upper bound",
        "accountant": repr(accountant),
        "accountant_summary": describe_accountant(accountant),
        "neighbors": neighbors,
        "sampler": "poisson",
        "fastacct_version": __version__,
    }
    return Grid(checked, (variable, f"{variable}_lower") if bounds else (variable,), attrs)


def _evaluator(grid: Grid, settings: dict[str, Any]) -> Evaluate:
    """The accountant's call with everything but the axes filled in."""
    both = len(grid.variables) == 2
    verb: Any = getattr(dpsgd, f"{grid.variables[0]}_bounds" if both else grid.variables[0])

    def evaluate(**parameters: Any) -> Values:
        found = verb(**parameters, **settings)
        wanted = (found.upper, found.lower) if both else (found,)
        return tuple(np.asarray(values, dtype=np.float64) for values in wanted)

    return evaluate


def chunks(shape: Sequence[int], largest: int) -> Iterator[tuple[slice, ...]]:
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


def _run(grid: Grid, evaluate: Evaluate, write: Write, largest: int, progress: bool) -> None:
    """Evaluate every chunk and write it, in order."""
    start, done, total = time.monotonic(), 0, math.prod(grid.shape)
    for chunk in chunks(grid.shape, largest):
        values = evaluate(**dict(zip(grid.axes, grid.places(chunk), strict=True)))
        write(chunk, values)
        if progress:
            done += values[0].size
            speed = done / max(time.monotonic() - start, 1e-9)
            line = f"{done:,} of {total:,} cells, {speed:,.0f} cells/s, {(total - done) / speed:,.0f} s left"
            print(f"\r{line:70}", end="" if done < total else "\n", file=sys.stderr, flush=True)
