"""The command `sweep`, and its TOML file, where every mistake is an error that names the key and the file."""

from __future__ import annotations

import contextlib
import difflib
import math
import os
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

import fastacct as fa
from fastacct import plot
from fastacct._figures import SUFFIXES
from fastacct.accountants.rdp import CONVERSIONS
from fastacct.cli.answers import Answer, render, rounded_up
from fastacct.cli.options import (
    ACCOUNTANTS,
    Options,
    accountant_by_name,
    command,
    default_accountant,
)
from fastacct.core.extras import import_extra
from fastacct.core.files import refuse_existing

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Picture", "SweepConfig", "TomlTable", "load_config", "read_toml"]

KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "table": (dict,),
}
SAMPLE_ROWS: Final = 5
MISSING: Final = object()
SCALES: Final = ("linear", "log")
MAX_AXIS: Final = 100_000_000


class TomlTable:
    """One table of a TOML file. A key that is not known is refused first: a misspelt one is not a missing one."""

    def __init__(
        self, values: Mapping[str, Any], file: Path, prefix: str = "", known: Collection[str] | None = None
    ) -> None:
        self.values, self.file, self.prefix = values, file, prefix
        for key in values if known is not None else ():
            if key not in (known or ()):
                near = difflib.get_close_matches(key, known or (), 1)
                meant = f"did you mean {near[0]}? " if near else ""
                raise self.error(key, f"unknown key; {meant}known here: {', '.join(known or ())}")

    def error(self, key: str, problem: str) -> ValueError:
        """A ValueError that says where in which file the problem is."""
        return ValueError(f"{self.file}: {self.prefix}{key}: {problem}")

    def get(self, key: str, kind: str, default: Any = MISSING) -> Any:
        """The value of `key`, which must be of `kind` (a name in KINDS); required unless there is a default."""
        article = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
        if key not in self.values:
            if default is MISSING:
                raise self.error(key, f"missing: {article} is needed here")
            return default
        value = self.values[key]
        # bool is an int to Python, never to the reader of a TOML file
        if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
            raise self.error(key, f"must be {article}; got {value!r}")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: Any = MISSING) -> Any:
        """The value of `key`, which must be one of the allowed words."""
        value = self.get(key, "string", default)
        if value is not default and value not in allowed:
            raise self.error(key, f"must be one of {', '.join(allowed)}; got {value!r}")
        return value

    def table(self, key: str, known: Collection[str] | None, required: bool = True) -> TomlTable:
        """The sub-table `key` (an empty one if it is absent and not required), whose keys are among the known."""
        values = self.get(key, "table", MISSING if required else {})
        return TomlTable(values, self.file, f"{self.prefix}{key}.", known)

    def tables(self, key: str, known: Collection[str]) -> list[TomlTable]:
        """The array of tables `key`."""
        found = self.get(key, "list")
        if not found or not all(isinstance(item, dict) for item in found):
            raise self.error(key, f"must be tables written as [[{self.prefix}{key}]]")
        return [TomlTable(item, self.file, f"{self.prefix}{key}[{index}].", known) for index, item in enumerate(found)]


def read_toml(path: str | os.PathLike[str], known: Collection[str]) -> TomlTable:
    """Read a TOML file whose top-level keys are among the known; a file that is not TOML is a ValueError."""
    file = Path(path)
    try:
        return TomlTable(tomllib.loads(file.read_text(encoding="utf-8")), file, "", known)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not a valid TOML file: {error}") from error


@dataclass(frozen=True)
class Picture:
    """The picture of a sweep: where it goes, and which slices it shows (None: chosen by the plot)."""

    path: Path
    steps: list[int] | None
    delta: float | None


@dataclass(frozen=True)
class SweepConfig:
    """A sweep ready to run: `axes` and `settings` are keywords of `fastacct.sweep`."""

    file: Path
    axes: dict[str, NDArray[Any]]
    settings: dict[str, Any]
    output: Path | None
    overwrite: bool
    picture: Picture | None

    @property
    def n_cells(self) -> int:
        """Number of combinations."""
        return math.prod(len(values) for values in self.axes.values())


def load_config(path: str | os.PathLike[str]) -> SweepConfig:
    """Read a sweep configuration.

    Nothing is guessed: an unknown key, a wrong type or a missing axis is an error that names the key and the file. File
    names in the configuration are relative to its own folder. `examples/sweep.toml` explains every key.

    Examples
    --------
    >>> load_config("examples/sweep.toml").n_cells  # doctest: +SKIP
    675000
    """
    document = read_toml(path, ("axes", "accountant", "output", "picture"))
    names = ["noise_multiplier", "sample_rate", "steps"]
    axes_table = document.table("axes", (*names, "delta", "epsilon"))
    if ("delta" in axes_table.values) == ("epsilon" in axes_table.values):
        raise document.error("axes", "needs exactly one of delta (to compute epsilon) and epsilon (to compute delta)")
    names.append("delta" if "delta" in axes_table.values else "epsilon")
    axes = {name: _axis(axes_table, name) for name in names}
    settings = _accountant(document)
    output_table = document.table("output", ("file", "overwrite"), required=False)
    output = output_table.get("file", "string", None)
    overwrite = output_table.get("overwrite", "boolean", False)
    picture = _picture(document.table("picture", ("file", "steps", "delta"), required=False), axes)
    folder = document.file.parent
    return SweepConfig(document.file, axes, settings, folder / output if output else None, overwrite, picture)


def _axis(table: TomlTable, name: str) -> NDArray[Any]:
    """An axis written as a number, a list, or a table {start, stop, num, scale}."""
    value = table.values.get(name)
    if isinstance(value, dict):
        return _spaced(table.table(name, ("start", "stop", "num", "scale")), name == "steps")
    if not isinstance(value, list):
        value = [table.get(name, "number")]
    if not value:
        raise table.error(name, "is empty: an axis needs at least one value")
    for index, item in enumerate(value):
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise table.error(f"{name}[{index}]", f"must be a number; got {item!r}")
    return np.asarray(value)


def _spaced(table: TomlTable, whole: bool) -> NDArray[Any]:
    start, stop = (float(table.get(key, "number")) for key in ("start", "stop"))
    num = table.get("num", "integer")
    scale = table.choice("scale", SCALES, "linear")
    if not 1 <= num <= MAX_AXIS:
        raise table.error("num", f"must be between 1 and {MAX_AXIS:,}; got {num}")
    for key, end in (("start", start), ("stop", stop)):
        if not math.isfinite(end):
            raise table.error(key, f"must be finite; got {end}")
        if scale == "log" and end <= 0:
            raise table.error(key, f"must be positive on a log scale; got {end}")
    values = np.geomspace(start, stop, num) if scale == "log" else np.linspace(start, stop, num)
    if whole:
        return np.unique(np.rint(values)).astype(np.int64)
    # 12 digits: 1e-08 and not 1.0000000000000002e-08, so that a value on the axis can be named again.
    return np.array([float(f"{value:.12g}") for value in values])


def _accountant(document: TomlTable) -> dict[str, Any]:
    known = ("name", "orders", "conversion", "neighbors", "bounds", "threads")
    table = document.table("accountant", known, required=False)
    orders = table.get("orders", "string", None)
    conversion = table.choice("conversion", CONVERSIONS, None)
    name = table.choice("name", tuple(ACCOUNTANTS), default_accountant(orders, conversion))
    try:
        accountant = accountant_by_name(name, orders, conversion)
    except ValueError as error:
        raise table.error("name", str(error)) from error
    return {
        "accountant": accountant,
        "neighbors": table.get("neighbors", "string", "add_remove"),
        "bounds": table.get("bounds", "boolean", False),
        "threads": table.get("threads", "integer", None),
    }


def _picture(table: TomlTable, axes: Mapping[str, NDArray[Any]]) -> Picture | None:
    if not table.values:
        return None
    path = table.file.parent / table.get("file", "string")
    if path.suffix not in SUFFIXES:
        raise table.error("file", f"must end in {', '.join(SUFFIXES)}; got {path.name!r}")
    if "delta" not in axes:
        raise table.error("file", "a picture shows epsilon: it needs the axis delta, not epsilon")
    steps = table.get("steps", "list", None)
    for value in steps or []:
        if isinstance(value, bool) or not isinstance(value, int):
            raise table.error("steps", f"must be integers; got {value!r}")
        if value not in axes["steps"]:
            raise table.error("steps", f"{value} is not on the axis steps")
    delta = table.get("delta", "number", None)
    if delta is not None and delta not in axes["delta"]:
        raise table.error("delta", f"{delta} is not on the axis delta")
    return Picture(path, steps, delta)


# -- the command ----------------------------------------------------------------------------------------------------


@command(["config"], ["overwrite", "quiet"], "examples/sweep.toml")
def sweep(given: Options) -> Answer:
    """Every combination of the axes in a TOML file: a table of results, and a picture."""
    config = load_config(given.config)
    replace = given.overwrite or config.overwrite
    files = [path for path in (config.output, config.picture.path if config.picture else None) if path]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_existing(path, replace)
    if config.picture:
        import_extra("matplotlib.figure", "plot")
    with _termination_as_exit():
        start = time.perf_counter()
        settings = {**config.axes, **config.settings}
        grid = fa.sweep(**settings, path=config.output, progress=not given.quiet, overwrite=replace)
        seconds = time.perf_counter() - start
    if config.picture:
        figure = plot.epsilon_grid(grid, steps=config.picture.steps, delta=config.picture.delta)
        plot.save(figure, config.picture.path, overwrite=replace)
    variable = str(next(iter(grid.data_vars)))
    rows = _sample_rows(grid, variable)
    body = [[*(f"{row[name]:g}" for name in row if name != variable), rounded_up(row[variable])] for row in rows]
    speed = config.n_cells / max(seconds, 1e-9)
    sentences = [
        f"{config.n_cells:,} cells in {seconds:.2f} s ({speed:,.0f} cells/s)",
        f"{grid.attrs['guarantee']} on {variable}, {grid.attrs['neighbors']} neighbours, Poisson sampling",
        f"accountant: {grid.attrs['accountant_summary']}",
        *(f"wrote {path} ({path.stat().st_size / 1e6:,.1f} MB)" for path in files),
        render(list(rows[0]), body, numeric=list(rows[0])),
    ]
    result = {"cells": config.n_cells, "seconds": seconds, "cells_per_second": speed, "files": list(map(str, files))}
    inputs = {"config": str(config.file), "overwrite": replace}
    return Answer("sweep", {**result, "sample": rows}, inputs, sentences, {str(k): v for k, v in grid.attrs.items()})


@contextlib.contextmanager
def _termination_as_exit() -> Iterator[None]:
    """Let a polite kill unwind the stack, so that a half-written file is removed as it is after Ctrl-C."""

    def stop(signal_number: int, frame: FrameType | None) -> None:
        sys.exit(128 + signal_number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _sample_rows(grid: xr.Dataset, variable: str) -> list[dict[str, float]]:
    """A few cells spread over the grid; golden-ratio steps, so that every axis varies and not only the slowest."""
    cells = grid[variable]
    fractions = (np.arange(SAMPLE_ROWS) + 0.5) * (math.sqrt(5) - 1) / 2 % 1.0
    rows = []
    for place in np.unique((fractions * cells.size).astype(np.int64)):
        indices = np.unravel_index(place, cells.shape)
        cell = cells.isel(dict(zip(cells.dims, (int(index) for index in indices), strict=True)))
        rows.append({**{str(name): cell[name].item() for name in cells.dims}, variable: float(cell.item())})
    return rows
