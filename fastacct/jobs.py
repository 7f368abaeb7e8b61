"""The long commands: a sweep from its configuration file, curves, and the tightness of every accountant."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastacct._arrays import as_choice
from fastacct._extras import import_extra
from fastacct._files import refuse_existing
from fastacct.answers import Answer, render, rounded_down, rounded_up
from fastacct.sweep_config import SweepConfig, load_config

if TYPE_CHECKING:
    import xarray as xr

    from fastacct.tightness import Score

__all__ = ["run_curves", "run_sweep", "run_tightness", "tightness_answer"]

SAMPLE_ROWS = 5
CURVE_ROWS = 6
GUARANTEES = {
    "privacy": "certified lower and upper bounds of delta at every epsilon",
    "tradeoff": "certified lower and upper bounds of the error rates of the best attack",
}


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


def run_curves(
    runs: Sequence[dict[str, Any]],
    kind: str,
    neighbors: str,
    smallest_delta: float,
    points: int,
    table_file: Path | None,
    picture: Path | None,
    overwrite: bool,
    as_json: bool,
) -> str:
    """Compute the curves of several runs, write their files, and return the summary to print.

    Guarantee
    ---------
    As for `fastacct.curve`; files appear complete or not at all.

    Parameters
    ----------
    runs : sequence of dict
        noise_multiplier, sample_rate and steps of each.
    kind : {"privacy", "tradeoff"}
    neighbors : {"add_remove", "add", "remove"}
        A privacy curve of "add_remove" is drawn in both directions.
    smallest_delta, points
        Of privacy curves.
    table_file, picture : path, optional
        A CSV file with every point, a .png file.
    overwrite, as_json : bool

    Returns
    -------
    str

    Raises
    ------
    ValueError, OSError, ImportError

    Examples
    --------
    >>> run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    >>> print(run_curves([run], "privacy", "remove", 1e-6, 9, None, None, False, False))  # doctest: +SKIP
    """
    from fastacct import curve

    as_choice("kind", kind, ("privacy", "tradeoff"))
    as_choice("neighbors", neighbors, ("add_remove", *curve.DIRECTIONS))
    _refuse(table_file, picture, overwrite)
    given = [curve.Run(**run) for run in runs]
    found: list[Any]
    if kind == "privacy":
        directions = ("remove", "add") if neighbors == "add_remove" else (neighbors,)
        options: dict[str, Any] = {"smallest_delta": smallest_delta, "points": points}
        found = [curve.privacy_curve(run, direction, **options) for run in given for direction in directions]
    else:
        found = [curve.tradeoff_curve(run, neighbors) for run in given]
    if table_file:
        curve.write_csv(found, table_file, overwrite=overwrite)
    if picture:
        from fastacct import plot

        floor = math.log10(smallest_delta)
        figure = plot.tradeoff_curves(found) if kind == "tradeoff" else plot.privacy_curves(found, lowest_log10=floor)
        plot.save(figure, picture, overwrite=overwrite)
    columns = curve.COLUMNS[type(found[0])]
    body = [
        [str(one.run), *(_cell(name, value) for name, value in zip(columns, row, strict=True))]
        for one in found
        for row in _spread(curve.points_of(one))
    ]
    sentences = [
        render(["run", *columns], body, numeric=columns[1:]),
        f"{GUARANTEES[kind]}, when every step samples each record independently (Poisson).",
        *_written(table_file, picture),
    ]
    result = {
        "curves": [
            {**one.run._asdict(), "points": [dict(zip(columns, row, strict=True)) for row in curve.points_of(one)]}
            for one in found
        ],
        "files": [str(path) for path in (table_file, picture) if path],
    }
    inputs = {"runs": list(runs), "kind": kind, "smallest_delta": smallest_delta, "points": points}
    context = {"guarantee": GUARANTEES[kind], "neighbors": neighbors, "sampler": "poisson"}
    return Answer("curve", result, inputs, sentences, context).text(as_json)


def run_tightness(
    count: int,
    regimes: Sequence[str] | None,
    seed: int | None,
    table_file: Path | None,
    picture: Path | None,
    overwrite: bool,
    as_json: bool,
) -> str:
    """Compare every accountant with the certified interval on random runs, write the files, return the summary.

    Guarantee
    ---------
    As for `fastacct.tightness`; files appear complete or not at all.

    Parameters
    ----------
    count : int
        Runs of each regime.
    regimes : sequence of str, optional
        Default: everyday and broad.
    seed : int, optional
    table_file, picture : path, optional
        A CSV file with every value, a .png file.
    overwrite, as_json : bool

    Returns
    -------
    str

    Raises
    ------
    ValueError, OSError, ImportError

    Examples
    --------
    >>> print(run_tightness(100, None, None, None, None, False, False))  # doctest: +SKIP
    """
    from fastacct import tightness

    _refuse(table_file, picture, overwrite)
    chosen = list(dict.fromkeys(regimes or tightness.USUAL))
    seed = tightness.SEED if seed is None else seed
    studies: dict[str, list[Any]] = {}
    for regime in chosen:
        runs = tightness.draw(regime, count, seed)
        bounds = tightness.truth(runs)
        studies[regime] = [tightness.score(one, runs, bounds) for one in tightness.own_accountants()]
    return tightness_answer(studies, table_file, picture, overwrite, {"count": count, "seed": seed}).text(as_json)


def tightness_answer(
    studies: dict[str, list[Score]],
    table_file: Path | None,
    picture: Path | None,
    overwrite: bool,
    inputs: dict[str, Any],
) -> Answer:
    """Write the files of a tightness study, and say what it found.

    Parameters
    ----------
    studies : dict of list of Score
        By regime.
    table_file, picture : path, optional
    overwrite : bool
    inputs : dict
        What was asked for.

    Returns
    -------
    Answer

    Examples
    --------
    >>> tightness_answer(studies, None, None, False, {}).text(as_json=False)  # doctest: +SKIP
    """
    from fastacct import tightness

    if table_file:
        tightness.write_csv([entry for scores in studies.values() for entry in scores], table_file, overwrite=overwrite)
    if picture:
        from fastacct import plot

        plot.save(plot.tightness(studies), picture, overwrite=overwrite)
    sentences, rows = [], []
    for regime, scores in studies.items():
        bounds = scores[0].truth
        known = f"the truth is known to 1e-6 in {bounds.resolved.mean():.1%} of {len(bounds.lower):,} runs"
        sentences.append(f"{regime} ({tightness.DESCRIPTIONS[regime]}): {known}")
        sentences.append(render(tightness.HEADER, tightness.table(scores), numeric=tightness.HEADER[1:]) + "\n")
        for entry in scores:
            about = {"regime": regime, "accountant": entry.contender, "claims_bound": entry.claims_bound}
            rows.append({**about, **entry.summary._asdict()})
    sentences += [tightness.LEGEND, *_written(table_file, picture)]
    files = [str(path) for path in (table_file, picture) if path]
    return Answer("tightness", {"rows": rows, "files": files}, inputs, sentences)


def _refuse(table_file: Path | None, picture: Path | None, overwrite: bool) -> None:
    """What cannot be written is said before anything is computed."""
    for path, suffix in ((table_file, ".csv"), (picture, ".png")):
        if path is None:
            continue
        if path.suffix != suffix:
            raise ValueError(f"{path}: the name must end in {suffix}")
        refuse_existing(path, overwrite)
    if picture:
        import_extra("matplotlib.figure", "plot")


def _written(*paths: Path | None) -> list[str]:
    return [f"wrote {path}" for path in paths if path]


def _spread(rows: list[list[Any]]) -> list[list[Any]]:
    """A few rows over the whole of a curve, the first and the last among them."""
    picked = np.unique(np.linspace(0, len(rows) - 1, CURVE_ROWS).round().astype(np.int64))
    return [rows[index] for index in picked]


def _cell(name: str, value: Any) -> str:
    """A bound is never shown on its wrong side."""
    if not isinstance(value, float):
        return str(value)
    return (
        rounded_down(value)
        if name.endswith("_lower")
        else rounded_up(value)
        if name.endswith("_upper")
        else f"{value:g}"
    )


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
    return render(columns, body, numeric=columns)
