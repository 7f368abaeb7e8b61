"""The two long commands: a sweep from its configuration file, and the table of published figures."""

from __future__ import annotations

import contextlib
import io
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastacct._files import refuse_existing
from fastacct.answers import Answer, fixed_up, rounded_up
from fastacct.published import Comparison, compare, default_file, load
from fastacct.sweep import import_extra
from fastacct.sweep_config import SweepConfig, load_config

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["run_published", "run_sweep"]

SAMPLE_ROWS = 5
WIDEST_TABLE = 200


def run_sweep(config_file: Path, overwrite: bool, *, progress: bool, as_json: bool) -> str:
    """Run a configured sweep, write its files, and return the summary to print.

    Guarantee
    ---------
    The output files appear complete or not at all; existing ones are replaced only with `overwrite`, here or in the
    configuration.

    Parameters
    ----------
    config_file : path
        See `examples/sweep.toml`.
    overwrite : bool
        Replace existing files whatever the configuration says.
    progress : bool
        Progress bar on stderr.
    as_json : bool
        Return a JSON document instead of sentences.

    Returns
    -------
    str

    Raises
    ------
    ValueError, OSError, ImportError
        Before any computation wherever possible.

    Examples
    --------
    >>> print(run_sweep(Path("examples/sweep.toml"), True, progress=False, as_json=False))  # doctest: +SKIP
    """
    from fastacct.sweep import sweep

    config = load_config(config_file)
    replace = overwrite or config.overwrite
    picture = config.picture
    files = [path for path in (config.output, picture.path if picture else None) if path]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_existing(path, replace)
    if picture:
        import_extra("matplotlib.figure", "plot")
    with _termination_as_exit():
        start = time.perf_counter()
        grid = sweep(**config.axes, **config.settings, path=config.output, progress=progress, overwrite=replace)
        seconds = time.perf_counter() - start
    if picture:
        from fastacct import plot

        figure = plot.epsilon_grid(grid, steps=picture.steps, delta=picture.delta)
        plot.save(figure, picture.path, overwrite=replace)
    return _sweep_answer(config, grid, seconds, files, replace).text(as_json)


def run_published(file: Path | None, as_json: bool) -> tuple[str, bool]:
    """Recompute a file of published figures; the text to print, and whether every row matches.

    Guarantee
    ---------
    As for `fastacct.published.compare`.

    Parameters
    ----------
    file : path, optional
        Default: `examples/published_dp_sgd.toml`.
    as_json : bool
        Return a JSON document instead of a table.

    Returns
    -------
    text : str
    all_match : bool

    Raises
    ------
    ValueError, OSError

    Examples
    --------
    >>> text, all_match = run_published(None, as_json=False)  # doctest: +SKIP
    """
    source = default_file() if file is None else file
    rows = compare(load(source))
    n_matching = sum(row.matches for row in rows)
    summary = f"{n_matching} of {len(rows)} published figures reproduced ({source})"
    lines = [] if as_json else [_published_table(rows), summary, *_mismatches(rows)]
    result = {"matching": n_matching, "rows": [_published_row(row) for row in rows]}
    answer = Answer("published", result, {"file": str(source)}, lines, {"guarantee": "certified upper bound"})
    return answer.text(as_json), n_matching == len(rows)


# -- sweep -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _termination_as_exit() -> Iterator[None]:
    """Let a polite kill unwind the stack, so that a half-written file is removed as it is after Ctrl-C."""

    def stop(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _sweep_answer(
    config: SweepConfig, grid: xr.Dataset, seconds: float, files: Sequence[Path], replace: bool
) -> Answer:
    variable = str(next(iter(grid.data_vars)))
    rows = _sample_rows(grid, variable)
    speed = config.n_cells / max(seconds, 1e-9)
    sentences = [
        f"{config.n_cells:,} cells in {seconds:.2f} s ({speed:,.0f} cells/s)",
        f"{grid.attrs['guarantee']} on {variable}, {grid.attrs['neighbors']} neighbours, Poisson sampling",
        f"accountant: {grid.attrs['accountant_summary']}",
        *(f"wrote {path} ({path.stat().st_size / 1e6:,.1f} MB)" for path in files),
        _rows_table(rows),
    ]
    result = {
        "cells": config.n_cells,
        "seconds": seconds,
        "cells_per_second": speed,
        "files": [str(path) for path in files],
        "sample": rows,
    }
    return Answer("sweep", result, {"config": str(config.file), "overwrite": replace}, sentences, dict(grid.attrs))


def _sample_rows(grid: xr.Dataset, variable: str) -> list[dict[str, float]]:
    """A few cells spread over the grid; golden-ratio steps, so that every axis varies and not only the slowest."""
    shape = grid[variable].shape
    fractions = (np.arange(SAMPLE_ROWS) + 0.5) * (math.sqrt(5) - 1) / 2 % 1.0
    picked = np.unique((fractions * math.prod(shape)).astype(np.int64))
    rows = []
    for number in picked:
        place = dict(zip(grid[variable].dims, (int(index) for index in np.unravel_index(number, shape)), strict=True))
        cell = grid[variable].isel(place)
        rows.append({**{str(name): cell[name].item() for name in place}, variable: float(cell.item())})
    return rows


def _rows_table(rows: list[dict[str, float]]) -> str:
    columns = list(rows[0])
    body = [[f"{row[name]:g}" for name in columns[:-1]] + [rounded_up(row[columns[-1]])] for row in rows]
    return _render(columns, body, numeric=columns)


# -- published figures -----------------------------------------------------------------------------------------------


def _published_table(rows: Sequence[Comparison]) -> str:
    columns = ["source", "sigma", "q", "T", "delta", "published", "same orders", "any order", "default", ""]
    body = []
    for row in rows:
        shown = row.configuration
        values = [f"{shown.noise_multiplier:g}", f"{shown.sample_rate:.4g}", f"{shown.steps}", f"{shown.delta:g}"]
        same = fixed_up(row.same, max(4, shown.decimals + 2))
        figures = [same, fixed_up(row.continuous, 4), fixed_up(row.default, 4)]
        published = f"{shown.published:.{shown.decimals}f}"
        body.append([shown.name, *values, published, *figures, "ok" if row.matches else "NO"])
    legend = (
        "published: to the digits compared. same orders: the source's conversion and orders. any order: the same\n"
        "conversion, best real order. default: what fastacct reports. All are certified upper bounds on epsilon for\n"
        "Poisson sampling and data sets that differ by adding or removing one record."
    )
    return _render(columns, body, numeric=columns[1:9]) + "\n" + legend


def _published_row(row: Comparison) -> dict[str, Any]:
    shown = row.configuration
    return {
        "name": shown.name,
        "source": shown.source,
        "noise_multiplier": shown.noise_multiplier,
        "sample_rate": shown.sample_rate,
        "steps": shown.steps,
        "delta": shown.delta,
        "conversion": shown.conversion,
        "published": str(shown.published),
        "decimals": shown.decimals,
        "rounding": shown.rounding,
        "same_orders": row.same,
        "any_order": row.continuous,
        "default": row.default,
        "matches": row.matches,
    }


def _mismatches(rows: Sequence[Comparison]) -> list[str]:
    return [
        f"MISMATCH {row.configuration.name}: published {row.configuration.published} "
        f"(rounding {row.configuration.rounding}, {row.configuration.decimals} decimals), "
        f"recomputed {row.same!r}, any order {row.continuous!r}"
        for row in rows
        if not row.matches
    ]


def _render(columns: Sequence[str], body: Sequence[Sequence[str]], numeric: Sequence[str]) -> str:
    """A table as text."""
    box = import_extra("rich.box", "cli")
    console_class = import_extra("rich.console", "cli").Console
    table = import_extra("rich.table", "cli").Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name in numeric else "left", no_wrap=True)
    for row in body:
        table.add_row(*row)
    out = io.StringIO()
    console_class(file=out, width=WIDEST_TABLE, no_color=True).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")
