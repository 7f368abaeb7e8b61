"""Figures, logarithmic axes, legends and files of the pictures; the only place that creates a figure."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["MEDIUM", "SMALL", "SUFFIXES", "check", "legend", "log_scale", "name_axes", "new_figure", "palette", "save"]

Color = tuple[float, float, float, float]
SUFFIXES: Final = (".png", ".pdf", ".svg")
DPI: Final = 200
SMALL: Final = 9.0
"""Points: three panels are 9 inches wide; shown 900 pixels wide, the smallest text is still 12 pixels high."""
MEDIUM: Final = 10.0
LEGEND_INSIDE: Final = 4
"""Entries that have room inside a panel; longer legends stand beside it."""
LEGEND_ROWS: Final = 16
LETTER: Final = 0.055
"""Width of a letter of a tick's label, in widths of the narrowest panel."""


def save(figure: Figure, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a figure as PNG, PDF or SVG, as its suffix says; whole or not at all, the same bytes for the same figure.

    Raises
    ------
    ValueError
        Another suffix.
    FileExistsError
        The file exists and `overwrite` is false.

    Examples
    --------
    >>> save(epsilon_grid(grid), "grid.png")  # doctest: +SKIP
    PosixPath('grid.png')
    """
    target = check(path, overwrite=overwrite)
    import matplotlib

    kind = target.suffix[1:]
    # no creation date, no version of the software, no random names inside
    nothing = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    with atomic_output(target, overwrite=overwrite) as temporary, matplotlib.rc_context({"svg.hashsalt": "fastacct"}):
        figure.savefig(temporary, format=kind, dpi=DPI, metadata=nothing)
    return target


def check(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path of a picture, if `save` can write it: suffix, folder, existing file, matplotlib."""
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise ValueError(f"path = {str(target)!r}: a picture's name must end in {', '.join(SUFFIXES)}")
    refuse_existing(target, overwrite)
    import_extra("matplotlib.figure", "plot")
    return target


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, share: bool = False
) -> tuple[Figure, list[Axes]]:
    import_extra("matplotlib.figure", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", wspace=0.08)
    axes = np.atleast_1d(figure.subplots(rows, columns, sharex=share, sharey=share)).ravel().tolist()
    for axis in axes:
        axis.tick_params(labelsize=SMALL)
    return figure, axes


def palette(n: int) -> list[Color]:
    import matplotlib

    return [matplotlib.colormaps["viridis"](place) for place in np.linspace(0.0, 0.85, n)]


def name_axes(axis: Axes, x: str, y: str) -> None:
    """Both labels, and a grid."""
    axis.set_xlabel(x, fontsize=MEDIUM)
    axis.set_ylabel(y, fontsize=MEDIUM)
    axis.grid(True, color="#dddddd", linewidth=0.6)


def legend(figure: Figure, axis: Axes, entries: int) -> None:
    """Inside the panel if it is short, else beside it."""
    if entries <= LEGEND_INSIDE:
        axis.legend(fontsize=SMALL, frameon=False)
        return
    columns = math.ceil(entries / LEGEND_ROWS)
    figure.set_figwidth(figure.get_figwidth() + 1.6 * columns)
    axis.legend(fontsize=SMALL, frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5), ncols=columns)


def log_scale(axis: Axes, side: Axis, low: float, high: float, base: int = 10) -> None:
    """A logarithmic axis with a handful of labels, none of which run into each other."""
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    (axis.set_xscale if side is axis.xaxis else axis.set_yscale)("log")
    (axis.set_xlim if side is axis.xaxis else axis.set_ylim)(low, high)
    fine = list(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high))
    ticks = _log_ticks(low, high, base, fine)
    side.set_major_locator(FixedLocator(ticks))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(lambda value, _: _label(value, ticks))


def _log_ticks(low: float, high: float, base: int, fine: list[float]) -> list[float]:
    """The roundest numbers of an interval, at least three if possible, as far apart as their labels are long."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    twos = [2.0**k for k in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)] if base == 2 else []
    tens = [[float(f"1e{k}") for k in range(first, last + 1) if k % stride == 0] for stride in range(1, 100)]
    finer = [[float(f"{d}e{k}") for k in range(first, last + 1) for d in digits] for digits in ((1, 3), (1, 2, 5))]
    best: list[float] = []
    for candidates in (twos, *tens, *finer, fine):
        inside = [value for value in candidates if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        apart: list[float] = []
        for value in inside:
            length = len(re.sub(r"\\cdot|[${}^]", "", _label(value, inside)))
            if not apart or math.log(value / apart[-1]) >= LETTER * length * math.log(high / low):
                apart.append(value)
        if len(inside) == len(apart) >= 3:
            return apart
        best = max(best, apart, key=len)
    return best


def _label(value: float, others: list[float]) -> str:
    """0.5, 1, 20; with powers of ten where one of the numbers of an axis would be long."""
    if min(others) >= 1e-3 and max(others) < 1e4:
        return f"{value:.6g}"
    mantissa, exponent = f"{value:.4e}".split("e")
    digits = f"{float(mantissa):g}"
    return f"$10^{{{int(exponent)}}}$" if digits == "1" else f"${digits}\\cdot10^{{{int(exponent)}}}$"
