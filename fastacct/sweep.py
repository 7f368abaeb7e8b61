"""Outer-product sweeps over DP-SGD configurations: axes in, labelled grid out, in memory or streamed to a file.

The grid is walked in C order, (noise_multiplier, sample_rate) slowest, in rectangular chunks: whatever the accountant
computes once per (noise_multiplier, sample_rate) pair is shared by every number of steps and every delta of the chunk.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import fastacct._netcdf as _netcdf
import fastacct._parquet as _parquet
import fastacct.dpsgd as dpsgd
from fastacct._grid import Grid, Sink, Values, labelled
from fastacct.accountants import RDP, Exact, Method
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.inputs import DOMAINS, as_cells
from fastacct.core.version import __version__

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Grid", "open_sweep", "sweep"]

FORMATS = (".parquet", ".nc")
DEFAULT_CHUNK_CELLS = 1 << 18
SMALLEST_CHUNK = 1 << 14

ACCOUNTANT_NOTES = {
    "Exact": "exact privacy curve",
    "RDP": "Renyi DP",
    "BasicComposition": "basic composition",
    "AdvancedComposition": "advanced composition",
    "ZCDPComposition": "zero-concentrated DP",
    "AnalyticGaussian": "analytic Gaussian mechanism",
    "CLT": "central limit theorem",
}
CONVERSION_NOTES = {
    "mironov": "Mironov's conversion",
    "canonne_kamath_steinke": "the conversion of Canonne, Kamath and Steinke",
    "optimal": "the optimal conversion",
}

Evaluate = Callable[[dict[str, Any]], Values]


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

    Guarantee
    ---------
    Every cell is what `fastacct.dpsgd.epsilon` (`fastacct.dpsgd.delta`) returns for that cell alone: a certified upper
    bound for Poisson-sampled DP-SGD under `neighbors`, and with `bounds` the lower bound of `epsilon_bounds`
    (`delta_bounds`) too. The bits depend neither on `chunk_cells` nor on `threads`.

    Parameters
    ----------
    noise_multiplier, sample_rate, steps : float or 1-D array
        The first three axes; a scalar is an axis of length 1. Order and repetitions are kept.
    delta, epsilon : float or 1-D array
        Exactly one of them: the last axis. With `delta` the variable computed is `epsilon`, and the reverse.
    accountant : accountant, optional
        Default `fastacct.Exact()`.
    neighbors : str
        Neighbouring relation, as in `fastacct.dpsgd.epsilon`.
    bounds : bool
        Also compute the certified lower bound, as the variable `epsilon_lower` (`delta_lower`). The accountant must
        prove one.
    path : path, optional
        Stream the result to this file instead of memory: `.parquet` (one row per cell; columns named after the axes
        and the variable) or `.nc` (netCDF-4). The file appears complete at the end or not at all.
    threads : int, optional
        Threads inside the accountant (default: all cores).
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
        (..., epsilon) and `delta`. Without `path` it is in memory; with `path` its values are read from the file when
        they are used, so a grid larger than memory can be sliced. `open_sweep` opens the file again later.

    Raises
    ------
    ValueError, TypeError
        Empty, NaN, multi-dimensional or out-of-range axes; neither or both of delta and epsilon; unknown suffix.
    FileExistsError
        `path` exists and `overwrite` is false.
    ModuleNotFoundError
        An optional library is missing; the message names the extra to install.

    Examples
    --------
    >>> import fastacct as fa
    >>> grid = fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=[100, 1000], delta=1e-5)
    >>> grid.epsilon.shape
    (2, 1, 2, 1)
    >>> round(float(grid.epsilon.sel(noise_multiplier=1.0, steps=1000).item()), 6)
    1.828237
    """
    import_extra("xarray", "sweep")
    if not isinstance(bounds, bool):
        raise TypeError(f"bounds must be True or False; got {_shown(bounds)}")
    accountant = Exact() if accountant is None else accountant
    grid = _make_grid(noise_multiplier, sample_rate, steps, delta, epsilon, accountant, neighbors, bounds)
    evaluate = _evaluator(grid, accountant, neighbors, threads)
    _check_axes(grid, evaluate)
    largest = _chunk_limit(grid.n_cells, chunk_cells)
    if path is None:
        memory = MemorySink(grid)
        _run(grid, evaluate, memory, largest, progress)
        return labelled(grid, memory.values)
    target = Path(path)
    open_sink = _sink_for(target)
    refuse_existing(target, overwrite)
    with atomic_output(target, overwrite=overwrite) as temporary, open_sink(temporary, grid) as sink:
        _run(grid, evaluate, sink, largest, progress)
    return open_sweep(target)


def open_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Open a file written by `sweep`; values are read when they are used.

    Guarantee
    ---------
    The values are those of the file; what they guarantee is recorded in the attributes of the dataset.

    Parameters
    ----------
    path : path
        A `.parquet` or `.nc` file that `sweep` wrote.

    Returns
    -------
    xarray.Dataset
        The same labels and attributes as the dataset that `sweep` returned.

    Raises
    ------
    ValueError
        Unknown suffix, or a Parquet file that no sweep wrote.

    Examples
    --------
    >>> open_sweep("grid.parquet").epsilon.sel(delta=1e-5)  # doctest: +SKIP
    """
    source = Path(path)
    _sink_for(source)  # refuses unknown suffixes
    return (_netcdf if source.suffix == ".nc" else _parquet).open_grid(source)  # type: ignore[no-any-return]


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
    if orders is None:
        searched = "best real order"
    elif len(orders) == 1:
        searched = f"order {orders[0]:g}"
    else:
        searched = f"best of {len(orders)} orders between {min(orders):g} and {max(orders):g}"
    return f"{words}, {searched}, {CONVERSION_NOTES.get(accountant.conversion, accountant.conversion)}"


# -- axes ------------------------------------------------------------------------------------------------------------


def _make_grid(
    noise_multiplier: ArrayLike,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    delta: ArrayLike | None,
    epsilon: ArrayLike | None,
    accountant: Any,
    neighbors: str,
    bounds: bool,
) -> Grid:
    if (delta is None) == (epsilon is None):
        given = "neither" if delta is None else "both"
        raise ValueError(
            f"give exactly one of delta= (to compute epsilon) and epsilon= (to compute delta); got {given}"
        )
    axes = {
        "noise_multiplier": _axis("noise_multiplier", noise_multiplier),
        "sample_rate": _axis("sample_rate", sample_rate),
        "steps": _axis("steps", steps),
    }
    last = "delta" if epsilon is None else "epsilon"
    axes[last] = _axis(last, delta if epsilon is None else epsilon)
    variable = "epsilon" if last == "delta" else "delta"
    attrs = {
        "title": f"{variable} of Poisson-sampled DP-SGD",
        "guarantee": "certified upper bound",
        "accountant": repr(accountant),
        "accountant_summary": describe_accountant(accountant),
        "neighbors": neighbors,
        "sampler": "poisson",
        "fastacct_version": __version__,
    }
    return Grid(axes, (variable, f"{variable}_lower") if bounds else (variable,), attrs)


def _axis(name: str, values: Any) -> NDArray[Any]:
    """One axis as a 1-D array: float64, or int64 for steps."""
    array = as_cells(name, values, DOMAINS[name])
    if array.ndim > 1:
        raise ValueError(f"{name} must be a number or a 1-D array; got {array.ndim} dimensions, shape {array.shape}")
    array = np.atleast_1d(array)
    return array.astype(np.int64) if name == "steps" else array


def _shown(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check_axes(grid: Grid, evaluate: Evaluate) -> None:
    """Try every axis on the accountant before the first chunk: what it refuses is refused now, not after an hour of
    work.

    One call per axis, with every other parameter at a value that needs no computation. Zero steps need none under any
    accountant, and sample_rate = 1 is the one rate that all of them accept.
    """
    last = grid.dims[-1]
    trivial = {"noise_multiplier": 1.0, "sample_rate": 1.0, "steps": 0, last: 1.0}
    for name, values in grid.axes.items():
        evaluate({**trivial, name: values})


# -- evaluation ------------------------------------------------------------------------------------------------------


def _evaluator(grid: Grid, accountant: Any, neighbors: str, threads: int | None) -> Evaluate:
    """The accountant's call with everything but the axes filled in."""
    both = len(grid.variables) == 2
    verb: Any = getattr(dpsgd, f"{grid.variables[0]}_bounds" if both else grid.variables[0])

    def evaluate(parameters: dict[str, Any]) -> Values:
        found = verb(**parameters, accountant=accountant, neighbors=neighbors, threads=threads)
        wanted = (found.upper, found.lower) if both else (found,)
        return tuple(np.asarray(values, dtype=np.float64) for values in wanted)

    return evaluate


def _chunk_limit(n_cells: int, chunk_cells: int) -> int:
    """Cells per chunk: small grids are cut too, so that a progress bar moves."""
    if isinstance(chunk_cells, bool) or not isinstance(chunk_cells, int):
        raise TypeError(f"chunk_cells must be an integer; got {_shown(chunk_cells)}")
    if chunk_cells < 1:
        raise ValueError(f"chunk_cells = {chunk_cells}: must be at least 1")
    return min(chunk_cells, max(SMALLEST_CHUNK, n_cells // 64))


def chunks(shape: Sequence[int], largest: int) -> Iterator[tuple[slice, ...]]:
    """Cut a grid, in C order, into boxes that are contiguous in C order and hold at most `largest` cells."""
    cut, inner = 0, math.prod(shape[1:])
    while inner > largest:
        cut += 1
        inner = math.prod(shape[cut + 1 :])
    n_parts = math.ceil(shape[cut] / (largest // inner))
    edges = [shape[cut] * part // n_parts for part in range(n_parts + 1)]
    whole = tuple(slice(0, size) for size in shape[cut + 1 :])
    for outer in np.ndindex(*shape[:cut]):
        fixed = tuple(slice(index, index + 1) for index in outer)
        for start, stop in itertools.pairwise(edges):
            yield (*fixed, slice(start, stop), *whole)


def _run(grid: Grid, evaluate: Evaluate, sink: Sink, largest: int, progress: bool) -> None:
    """Evaluate every chunk and hand it to the sink, in order."""
    n_dims = len(grid.dims)
    with _progress_bar(grid.n_cells, progress) as advance:
        for chunk in chunks(grid.shape, largest):
            parameters = {}
            for position, (name, values) in enumerate(grid.axes.items()):
                spread = [1] * n_dims
                spread[position] = -1
                parameters[name] = values[chunk[position]].reshape(spread)
            result = evaluate(parameters)
            sink.write(chunk, result)
            advance(result[0].size)


@contextlib.contextmanager
def _progress_bar(n_cells: int, show: bool) -> Iterator[Callable[[int], None]]:
    if not show:
        yield lambda n_done: None
        return
    import_extra("rich", "sweep")
    from rich import progress
    from rich.console import Console
    from rich.table import Column

    class Speed(progress.ProgressColumn):
        def render(self, task: progress.Task) -> str:
            speed = task.finished_speed or task.speed
            return "" if speed is None else f"{speed:,.0f} cells/s"

    bar = progress.Progress(
        progress.TextColumn("{task.completed:,.0f} of {task.total:,.0f} cells"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        Speed(Column(no_wrap=True)),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("sweep", total=n_cells)

        def advance(n_done: int) -> None:
            bar.update(task, advance=n_done)

        yield advance


# -- where the cells go ----------------------------------------------------------------------------------------------


class MemorySink:
    """Chunks into one array per variable."""

    def __init__(self, grid: Grid) -> None:
        self.values: Values = [np.empty(grid.shape) for _ in grid.variables]

    def write(self, chunk: tuple[slice, ...], values: Values) -> None:
        for whole, part in zip(self.values, values, strict=True):
            whole[chunk] = part


@contextlib.contextmanager
def _netcdf_sink(path: Path, grid: Grid) -> Iterator[Sink]:
    with _netcdf.array_sink(path, grid) as sink:
        yield sink


@contextlib.contextmanager
def _parquet_sink(path: Path, grid: Grid) -> Iterator[Sink]:
    with _parquet.table_sink(path, grid) as sink:
        yield sink


def _sink_for(path: Path) -> Callable[[Path, Grid], contextlib.AbstractContextManager[Sink]]:
    """The writer for a file name, its libraries checked before any computation."""
    if path.suffix == ".parquet":
        import_extra("pyarrow.parquet", "sweep")
        return _parquet_sink
    if path.suffix == ".nc":
        _netcdf.library()
        return _netcdf_sink
    raise ValueError(f"path = {str(path)!r}: the suffix must be one of {', '.join(FORMATS)}")
