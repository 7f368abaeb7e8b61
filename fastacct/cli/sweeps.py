"""The command `sweep`, and its TOML file, where every mistake is an error that names the file and the key."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import fastacct.plot as plot
from fastacct.cli.answers import Answer, render
from fastacct.cli.options import accountant_by_name
from fastacct.core.files import refuse_existing
from fastacct.core.inputs import DOMAINS, Cells, Domain, as_cells, as_choice, as_number
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
    "picture": {"file": str, "steps": list, "delta": object},
}
_SPACED: Final = dict.fromkeys(("start", "stop", "num", "scale"), object)


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
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from error


def _tables(document: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    _check("", document, dict.fromkeys(_KEYS, dict))
    tables = {name: _check(f"{name}.", document.get(name, {}), kinds) for name, kinds in _KEYS.items()}
    axes, settings, output, picture = tables.values()
    if len(axes) != 4 or not axes.keys() >= set(_AXES[:3]):
        raise ValueError(
            "axes: needs noise_multiplier, sample_rate, steps, and exactly one of delta (to compute epsilon) and "
            "epsilon (to compute delta)"
        )
    axes.update({name: _axis(name, value) for name, value in axes.items()})
    settings["accountant"] = accountant_by_name(*(settings.pop(key, None) for key in ("name", "orders", "conversion")))
    if picture and ("delta" not in axes or "file" not in picture or min(axes[x].size for x in _AXES[:2]) < 2):
        raise ValueError("picture: needs a file, the axis delta, and two noise multipliers and sample rates")
    for name in picture.keys() & axes.keys():
        for value in np.atleast_1d(picture[name]):
            if value not in axes[name]:
                raise ValueError(f"picture.{name}: {value} is not on the axis")
    for table in (output, picture):
        if "file" in table:
            table["file"] = folder / table["file"]
    return tables


def _check(where: str, table: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """A table without unknown keys, its words and switches of the right type; numbers are checked by who uses them."""
    for key, value in table.items():
        kind = kinds[as_choice(f"{where}key", key, tuple(kinds))]
        if not isinstance(value, kind):
            raise TypeError(f"{where}{key}: must be of type {kind.__name__}; got {value!r}")
    return dict(table)


def _axis(name: str, value: object) -> Cells:
    """An axis written as a number, a list, or a table {start, stop, num, scale}."""
    if not isinstance(value, dict):
        return np.atleast_1d(as_cells(name, np.array(value, dtype=object), DOMAINS[name]))
    where, table = f"axes.{name}.", _check(f"axes.{name}.", value, _SPACED)
    scale = as_choice(f"{where}scale", table.get("scale", "linear"), ("linear", "log"))
    num = int(as_number(f"{where}num", table.get("num"), Domain(1.0, MAX_AXIS, integer=True)))
    allowed = Domain(0.0, 1e300, open_low=scale == "log")
    start, stop = (as_number(where + key, table.get(key), allowed) for key in ("start", "stop"))
    values = np.geomspace(start, stop, num) if scale == "log" else np.linspace(start, stop, num)
    # 12 digits: 1e-08 and not 1.0000000000000002e-08, so that a value on the axis can be named again.
    decimals = np.unique(np.rint(values)) if name == "steps" else np.array([float(f"{x:.12g}") for x in values])
    return as_cells(name, decimals, DOMAINS[name])


def sweep(given: Namespace) -> Answer:
    """Every combination of the axes in a TOML file: a table of results, and a picture."""
    config = load_config(given.config)
    output, picture = config["output"], config["picture"]
    replace = given.overwrite or output.get("overwrite", False)
    files = [table["file"] for table in (output, picture) if "file" in table]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_existing(path, replace)
    drawn = plot.as_picture(picture.pop("file"), overwrite=replace) if picture else None
    # A polite kill unwinds the stack, so that a half-written file is removed as it is after Ctrl-C.
    previous = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        start = time.perf_counter()
        settings = {**config["axes"], **config["accountant"], "progress": not given.quiet, "overwrite": replace}
        grid = sweep_grid(**settings, path=output.get("file"))
        seconds = time.perf_counter() - start
    finally:
        signal.signal(signal.SIGTERM, previous)
    if drawn:
        plot.save(plot.epsilon_grid(grid.sel(picture)), drawn, overwrite=replace)
    cells = grid[str(next(iter(grid.data_vars)))]
    rows, attrs = _sample_rows(cells), {str(name): value for name, value in grid.attrs.items()}
    speed = cells.size / max(seconds, 1e-9)
    sentences = [
        f"{cells.size:,} cells in {seconds:.2f} s ({speed:,.0f} cells/s)",
        f"{attrs['guarantee']} on {cells.name}, {attrs['neighbors']} neighbours, Poisson sampling",
        f"accountant: {attrs['accountant']}",
        *(f"wrote {path} ({path.stat().st_size / 1e6:,.1f} MB)" for path in files),
        render(rows),
    ]
    result = {"cells": cells.size, "seconds": seconds, "cells_per_second": speed, "files": list(map(str, files))}
    inputs = {"config": str(given.config), "overwrite": replace}
    return Answer({"command": "sweep", **result, "sample": rows, "inputs": inputs, **attrs}, sentences)


def _sample_rows(cells: xr.DataArray) -> list[dict[str, float]]:
    """A few cells spread over the grid; golden-ratio steps, so that every axis varies and not only the slowest."""
    fractions = (np.arange(SAMPLE_ROWS) + 0.5) * (math.sqrt(5) - 1) / 2 % 1.0
    places = np.unique((fractions * cells.size).astype(np.int64))
    found = [cells[tuple(int(i) for i in np.unravel_index(place, cells.shape))] for place in places]
    return [{**{str(name): cell[name].item() for name in cells.dims}, str(cells.name): cell.item()} for cell in found]
