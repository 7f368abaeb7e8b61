"""The commands `sweep` and `show`, and the TOML file: every mistake is an error that names the file and the key."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import sys
import time
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import fastacct.plot as plot
from fastacct.cli.answers import Answer, render
from fastacct.cli.options import accountant_by_name
from fastacct.core.extras import import_extra
from fastacct.core.files import refuse_existing
from fastacct.core.inputs import DOMAINS, Cells, Domain, as_cells, as_choice, as_number
from fastacct.sweep import AXES, Sweep, feasible, open_sweep
from fastacct.sweep import sweep as plan_sweep

if TYPE_CHECKING:
    import xarray as xr

SAMPLE_ROWS: Final = 5
MAX_AXIS: Final = 1e6
CONNECT: Final = "10s"
_KEYS: Final[dict[str, dict[str, type]]] = {
    "axes": dict.fromkeys(AXES, object),
    "accountant": {"name": str, "orders": str, "conversion": str, "neighbors": str, "bounds": bool, "threads": int},
    "batches": {"sampling": str, "at_most": int, "bands": int, "bins": str, "selected": int},
    "output": {"file": str, "overwrite": bool},
    "picture": {"file": str, "steps": list, "delta": object},
}
_SPACED: Final = dict.fromkeys(("start", "stop", "num", "scale"), object)


def load_config(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Read a sweep configuration: its five tables, with arrays for axes and paths for files.

    Nothing is guessed: an unknown key, a wrong type or a missing axis is an error that names the key and the file. File
    names in the configuration are relative to its own folder, and do not lead out of it. `examples/sweep.toml` explains
    every key.

    Examples
    --------
    >>> load_config("examples/sweep.toml")["axes"]["delta"].size  # doctest: +SKIP
    9
    """
    file = Path(path)
    text = file.read_bytes()
    try:
        return _tables(tomllib.loads(text.decode()), file.parent)
    except (ValueError, TypeError, RuntimeError) as error:  # RecursionError: brackets without end
        raise ValueError(f"{file}: {error}") from error


def _tables(document: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    _check("", document, dict.fromkeys(_KEYS, dict))
    tables = {name: _check(f"{name}.", document.get(name, {}), kinds) for name, kinds in _KEYS.items()}
    axes, settings, _, output, picture = tables.values()
    axes.update({name: _axis(name, value) for name, value in axes.items()})
    settings["accountant"] = accountant_by_name(*(settings.pop(key, None) for key in ("name", "orders", "conversion")))
    drawn = [name for name in ("noise_multiplier", "sample_rate") if np.size(axes.get(name, ())) > 1]
    if picture and ("delta" not in axes or "file" not in picture or len(drawn) < 2):
        raise ValueError("picture: needs a file, the axis delta, and two noise multipliers and sample rates")
    for name in picture.keys() & axes.keys():
        if np.size(picture[name]) == 0 or np.ndim(picture[name]) > 1:
            raise ValueError(f"picture.{name}: must be a value on the axis, or a list of some; got {picture[name]!r}")
        for value in np.atleast_1d(picture[name]):
            if value not in axes[name]:
                raise ValueError(f"picture.{name}: {value} is not on the axis")
    for name, table in (("output", output), ("picture", picture)):
        if "file" in table:
            table["file"] = folder / _inside(f"{name}.file", table["file"])
    return tables


def _inside(name: str, file: str) -> Path:
    """A file in the folder of the configuration: who runs somebody else's need not fear for files elsewhere."""
    path = Path(os.path.normpath(file))
    if path.anchor or path.parts[:1] == ("..",):
        raise ValueError(f"{name}: {file!r} is not in the folder of this file; --output FILE may be anywhere")
    return path


def _check(where: str, table: Mapping[str, object], kinds: Mapping[str, type]) -> dict[str, Any]:
    """A table without unknown keys, its words and switches of the right type; numbers are checked by who uses them."""
    for key, value in table.items():
        kind = kinds[as_choice(f"{where}key", key, tuple(kinds))]
        if not isinstance(value, kind):
            raise TypeError(f"{where}{key}: must be of type {kind.__name__}; got {value!r}")
    return dict(table)


def _axis(name: str, value: object) -> Cells | str:
    """An axis written as a number, a list, or a table {start, stop, num, scale}; delta also in words."""
    if isinstance(value, str) and name == "delta":
        return value
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
    """Every combination of the axes in a TOML file: a file of results, and a picture."""
    config = load_config(given.config)
    output, picture = config["output"], config["picture"]
    replace = given.overwrite or output.get("overwrite", False)
    if given.output is not None:
        output["file"] = given.output
    if "file" not in output and not picture and not given.dry_run:
        raise ValueError(f"{given.config}: nothing would be kept: give [output] file, --output FILE or [picture] file")
    try:
        plan = plan_sweep(**config["axes"], **config["batches"], **config["accountant"], client=None)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{given.config}: {error}") from None
    estimate = plan.estimate()
    inputs = {"config": str(given.config), "overwrite": replace}
    if given.dry_run:
        sizes = {name: getattr(estimate, name) for name in ("cells", "bytes", "seconds", "memory", "chunks")}
        warning = [f"warning: {estimate.warning}"] if estimate.warning else []
        return Answer({"command": "sweep", "dry_run": True, **sizes, "inputs": inputs}, [str(estimate), *warning])
    if estimate.warning and not given.quiet:
        print(f"warning: {estimate.warning}", file=sys.stderr)
    files = [where["file"] for where in (output, picture) if "file" in where]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
    if picture:
        refuse_existing(picture["file"], replace)
    drawn = plot.as_picture(picture.pop("file"), overwrite=replace) if picture else None
    kept, shown = output.get("file"), not given.quiet
    is_begun = kept is not None and not replace and any(one.exists() for one in (kept, Path(f"{kept}.zarr")))
    start = time.perf_counter()
    with _stopping(kept), _cluster(plan, given.scheduler) as plan:
        grid = plan.compute(progress=shown) if kept is None else plan.save(kept, progress=shown, overwrite=replace)
    seconds = time.perf_counter() - start
    if drawn:
        plot.save(plot.epsilon_grid(grid.sel(picture)), drawn, overwrite=replace)
    cells = grid[plan.quantity]
    rows, attrs = _sample_rows(cells), {str(name): value for name, value in grid.attrs.items()}
    sentences = [
        f"{cells.size:,} cells in {seconds:.2f} s" + (", beginning with what was there" if is_begun else ""),
        f"{cells.attrs['guarantee']} on {cells.name}, {attrs['neighbors']} neighbours, sampling: {attrs['sampler']}",
        f"accountant: {attrs['accountant']}",
        *(f"wrote {path} ({_size(path) / 1e6:,.1f} MB)" for path in files),
        "some of its cells:",
        render(rows),
    ]
    result = {"cells": cells.size, "seconds": seconds, "files": list(map(str, files))}
    guarantee = {"guarantee": cells.attrs["guarantee"], **attrs}
    return Answer({"command": "sweep", **result, "sample": rows, "inputs": inputs, **guarantee}, sentences)


@contextlib.contextmanager
def _stopping(path: Path | None) -> Iterator[None]:
    """Let a polite kill unwind the stack as Ctrl-C does, and say how to go on."""
    previous = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        again = "" if path is None else ": what is computed is kept, and the same command goes on from there"
        print(f"\nstopped{again}", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def _cluster(plan: Sweep, scheduler: str | None) -> Iterator[Sweep]:
    """The plan with the workers of a scheduler, if there is one."""
    if scheduler is None:
        yield plan
        return
    with import_extra("distributed", "sweep").Client(scheduler, timeout=CONNECT) as client:
        yield dataclasses.replace(plan, client=client)


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file()) if path.is_dir() else path.stat().st_size


def show(given: Namespace) -> Answer:
    """Cells of a result of `sweep` that satisfy a condition, as a table."""
    grid = open_sweep(given.result)
    found = feasible(grid, given.where, sort=given.sort or ())
    head = found.head(given.head)
    rows = [{str(name): value for name, value in row.items()} for row in head.to_dict("records")]
    met = f" satisfy {given.where}" if given.where else ""
    counted = f"{len(found):,} of {math.prod(grid.sizes.values()):,} cells{met}"
    more = [f"({len(found) - len(rows):,} more)"] if len(found) > len(rows) else []
    sentences = [counted, *([render(rows)] if rows else []), *more]
    return Answer({"command": "show", "cells": len(found), "rows": rows}, sentences)


def _sample_rows(cells: xr.DataArray) -> list[dict[str, float]]:
    """A few cells spread over the grid; golden-ratio steps, so that every axis varies and not only the slowest."""
    fractions = (np.arange(SAMPLE_ROWS) + 0.5) * (math.sqrt(5) - 1) / 2 % 1.0
    places = np.unique((fractions * cells.size).astype(np.int64))
    found = [cells[tuple(int(i) for i in np.unravel_index(place, cells.shape))] for place in places]
    return [
        {**{str(name): cell[name].item() for name in cells.dims}, str(cells.name): cell.values.item()} for cell in found
    ]
