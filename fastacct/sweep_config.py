"""Sweeps described by a TOML file: axes, accountant, output file and picture."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastacct.parsing import ACCOUNTANTS, CONVERSIONS, accountant_by_name, default_accountant
from fastacct.toml_table import TomlTable, read_toml

__all__ = ["Picture", "SweepConfig", "load_config"]

SCALES = ("linear", "log")
MAX_AXIS = 100_000_000


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
    axes: dict[str, Any]
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

    Guarantee
    ---------
    Nothing is guessed: an unknown key, a wrong type or a missing axis is an error. File names in the configuration are
    relative to its own folder.

    Parameters
    ----------
    path : path
        A TOML file with the tables axes, accountant (optional), output (optional) and picture (optional), as in
        `examples/sweep.toml`. Without a name the accountant is exact, or rdp if orders or a conversion are given;
        `bounds = true` adds the lower bound.

    Returns
    -------
    SweepConfig

    Raises
    ------
    ValueError, OSError
        The message names the key and the file.

    Examples
    --------
    >>> load_config("examples/sweep.toml").n_cells  # doctest: +SKIP
    675000
    """
    document = read_toml(path)
    axes_table = document.table("axes")
    names = ["noise_multiplier", "sample_rate", "steps"]
    if axes_table.has("delta") == axes_table.has("epsilon"):
        raise document.error("axes", "needs exactly one of delta (to compute epsilon) and epsilon (to compute delta)")
    names.append("delta" if axes_table.has("delta") else "epsilon")
    axes = {name: _axis(axes_table, name) for name in names}
    axes_table.done()
    settings = _accountant(document.table("accountant", required=False))
    output_table = document.table("output", required=False)
    output = output_table.get("file", "string", None)
    overwrite = output_table.get("overwrite", "boolean", False)
    output_table.done()
    picture = _picture(document.table("picture", required=False), axes)
    document.done()
    folder = document.file.parent
    return SweepConfig(document.file, axes, settings, folder / output if output else None, overwrite, picture)


def _axis(table: TomlTable, name: str) -> NDArray[Any]:
    """An axis written as a number, a list, or a table {start, stop, num, scale}."""
    whole = name == "steps"
    value = table.values[name] if table.has(name) else None
    if isinstance(value, dict):
        return _spaced(table.table(name), whole)
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
    table.done()
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


def _accountant(table: TomlTable) -> dict[str, Any]:
    orders = table.get("orders", "string", None)
    conversion = table.choice("conversion", CONVERSIONS, None)
    name = table.choice("name", tuple(ACCOUNTANTS), default_accountant(orders, conversion))
    try:
        accountant = accountant_by_name(name, orders, conversion)
    except ValueError as error:
        raise table.error("name", str(error)) from error
    settings = {
        "accountant": accountant,
        "neighbors": table.get("neighbors", "string", "add_remove"),
        "bounds": table.get("bounds", "boolean", False),
        "threads": table.get("threads", "integer", None),
    }
    table.done()
    return settings


def _picture(table: TomlTable, axes: dict[str, NDArray[Any]]) -> Picture | None:
    if not table.values:
        return None
    path = table.file.parent / table.get("file", "string")
    if path.suffix != ".png":
        raise table.error("file", f"must end in .png; got {path.name!r}")
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
    table.done()
    return Picture(path, steps, delta)
