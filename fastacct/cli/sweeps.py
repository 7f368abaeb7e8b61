"""The command `sweep`, and its TOML file, where every mistake is an error that names the file and the key."""

from __future__ import annotations

import contextlib
import difflib
import math
import os
import signal
import sys
import time
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

import fastacct.plot as plot
from fastacct._figures import check
from fastacct.cli.answers import Answer, render, rounded_up
from fastacct.cli.options import accountant_by_name
from fastacct.core.files import refuse_existing
from fastacct.core.inputs import DOMAINS, Domain, as_cells, as_choice, as_number
from fastacct.sweep import sweep as sweep_grid

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["load_config", "sweep"]

SAMPLE_ROWS: Final = 5
MAX_AXIS: Final = 1e8
_AXES: Final = ("noise_multiplier", "sample_rate", "steps", "delta", "epsilon")
_KEYS: Final[dict[str, dict[str, type]]] = {
    "axes": dict.fromkeys(_AXES, object),
    "accountant": {"name": str, "orders": str, "conversion": str, "neighbors": str, "bounds": bool, "threads": int},
    "output": {"file": str, "overwrite": bool},
    "picture": {"file": str, "steps": list, "delta": float},
}
_SPACED: Final = dict.fromkeys(("start", "stop", "num", "scale"), object)
_KINDS: Final = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", list: "a list"}


def load_config(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Read a sweep configuration: its four tables, with arrays for axes and paths for files.

    Nothing is guessed: an unknown key, a wrong type or a missing axis is an error that names the key and the file. File
    names in the configuration are relative to its own folder. `examples/sweep.toml` explains every key.

    Examples
    --------
    >>> load_config("examples/sweep.toml")["axes"]["delta"].size  # doctest: +SKIP
    9
    """
    file = Path(path)
    text = file.read_bytes()
    try:
        return _tables(tomllib.loads(text.decode()), file.parent)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not a valid TOML file: {error}") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from error


def _tables(document: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    _check("", document, dict.fromkeys(_KEYS, dict))
    tables = {name: _check(f"{name}.", document.get(name, {}), kinds) for name, kinds in _KEYS.items()}
    axes, settings, output, picture = tables.values()
    for name in (*_AXES[:3], *axes):
        if name not in axes:
            raise ValueError(f"axes.{name}: missing")
        axes[name] = _axis(name, axes[name])
    if ("delta" in axes) == ("epsilon" in axes):
        raise ValueError("axes: needs exactly one of delta (to compute epsilon) and epsilon (to compute delta)")
    settings["accountant"] = accountant_by_name(*(settings.pop(key, None) for key in ("name", "orders", "conversion")))
    if picture and ("delta" not in axes or "file" not in picture):
        raise ValueError("picture: needs a file, and epsilon to show: the axis delta")
    for name in ("steps", "delta"):
        for value in np.atleast_1d(picture.get(name, [])):
            if value not in axes[name]:
                raise ValueError(f"picture.{name}: {value} is not on the axis")
    for table in (output, picture):
        if "file" in table:
            table["file"] = folder / table["file"]
    return tables


def _check(where: str, table: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """A table whose keys are known and of the right type; unknown ones first: a misspelt key is not a missing one."""
    for key in table:
        if key not in kinds:
            near = difflib.get_close_matches(key, kinds, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"{where}{key}: unknown key; {meant}known here: {', '.join(kinds)}")
    for key, value in table.items():
        kind = kinds[key]
        # bool is an int to Python, never to the reader of a TOML file
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind in (int, float)):
            raise TypeError(f"{where}{key}: must be {_KINDS.get(kind, 'a table')}; got {value!r}")
    return dict(table)


def _axis(name: str, value: Any) -> NDArray[Any]:
    """An axis written as a number, a list, or a table {start, stop, num, scale}."""
    if isinstance(value, dict):
        value = _spaced(f"axes.{name}.", _check(f"axes.{name}.", value, _SPACED), name == "steps")
    elif any(isinstance(item, bool) for item in (value if isinstance(value, list) else [value])):
        raise TypeError(f"axes.{name}: must be numbers; got {value!r}")
    as_cells(name, value, DOMAINS[name])
    return np.atleast_1d(value)


def _spaced(where: str, table: Mapping[str, Any], whole: bool) -> NDArray[Any]:
    scale = as_choice(f"{where}scale", table.get("scale", "linear"), ("linear", "log"))
    num = int(as_number(f"{where}num", table.get("num"), Domain(1.0, MAX_AXIS, integer=True)))
    allowed = Domain(0.0, 1e300, open_low=scale == "log")
    start, stop = (as_number(where + key, table.get(key), allowed) for key in ("start", "stop"))
    values = np.geomspace(start, stop, num) if scale == "log" else np.linspace(start, stop, num)
    if whole:
        return np.unique(np.rint(values)).astype(np.int64)
    # 12 digits: 1e-08 and not 1.0000000000000002e-08, so that a value on the axis can be named again.
    return np.array([float(f"{value:.12g}") for value in values])


def sweep(given: Namespace) -> Answer:
    """Every combination of the axes in a TOML file: a table of results, and a picture."""
    config = load_config(given.config)
    output, picture = config["output"], config["picture"]
    replace = given.overwrite or output.get("overwrite", False)
    files = [table["file"] for table in (output, picture) if "file" in table]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_existing(path, replace)
    drawn = check(picture.pop("file"), overwrite=replace) if picture else None
    with _termination_as_exit():
        start = time.perf_counter()
        settings = {**config["axes"], **config["accountant"], "progress": not given.quiet, "overwrite": replace}
        grid = sweep_grid(**settings, path=output.get("file"))
        seconds = time.perf_counter() - start
    if drawn:
        plot.save(plot.epsilon_grid(grid, **picture), drawn, overwrite=replace)
    variable = str(next(iter(grid.data_vars)))
    rows = _sample_rows(grid[variable], variable)
    body = [[*(f"{row[name]:g}" for name in row if name != variable), rounded_up(row[variable])] for row in rows]
    n_cells = grid[variable].size
    speed = n_cells / max(seconds, 1e-9)
    sentences = [
        f"{n_cells:,} cells in {seconds:.2f} s ({speed:,.0f} cells/s)",
        f"{grid.attrs['guarantee']} on {variable}, {grid.attrs['neighbors']} neighbours, Poisson sampling",
        f"accountant: {grid.attrs['accountant_summary']}",
        *(f"wrote {path} ({path.stat().st_size / 1e6:,.1f} MB)" for path in files),
        render(list(rows[0]), body, numeric=list(rows[0])),
    ]
    result = {"cells": n_cells, "seconds": seconds, "cells_per_second": speed, "files": list(map(str, files))}
    inputs = {"config": str(given.config), "overwrite": replace}
    return Answer("sweep", {**result, "sample": rows}, inputs, sentences, {str(k): v for k, v in grid.attrs.items()})


@contextlib.contextmanager
def _termination_as_exit() -> Iterator[None]:
    """Let a polite kill unwind the stack, so that a half-written file is removed as it is after Ctrl-C."""

    def stop(signal_number: int, frame: FrameType | None) -> None:
        sys.exit(128 + signal_number)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _sample_rows(cells: xr.DataArray, variable: str) -> list[dict[str, float]]:
    """A few cells spread over the grid; golden-ratio steps, so that every axis varies and not only the slowest."""
    fractions = (np.arange(SAMPLE_ROWS) + 0.5) * (math.sqrt(5) - 1) / 2 % 1.0
    rows = []
    for place in np.unique((fractions * cells.size).astype(np.int64)):
        cell = cells[tuple(int(index) for index in np.unravel_index(place, cells.shape))]
        rows.append({**{str(name): cell[name].item() for name in cells.dims}, variable: float(cell.item())})
    return rows
