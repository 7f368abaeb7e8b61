"""Pictures of sweeps."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastacct._files import atomic_output

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["epsilon_grid", "save"]

LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DPI = 200
# Three panels are 9 inches wide: shown 900 pixels wide, the smallest text is still 12 pixels high.
SMALL, MEDIUM, LARGE = 9.0, 10.0, 12.0
TITLE_CHARACTERS = 130.0  # per inch of line and point of height
NARROWEST = 6.4
SHORTEST_LABELLED = 0.25  # of the width of a panel
NEIGHBORS = {
    "add_remove": "add or remove one record",
    "add": "add one record",
    "remove": "remove one record",
    "replace_one": "replace one record",
    "zero_out": "zero out one record",
}


def epsilon_grid(
    dataset: xr.Dataset,
    *,
    steps: Sequence[int] | int | None = None,
    delta: float | None = None,
    levels: Sequence[float] = LEVELS,
) -> Figure:
    """Draw epsilon over (sample_rate, noise_multiplier), one panel per number of steps.

    Guarantee
    ---------
    The colours and lines show the certified upper bounds of the sweep, interpolated between its cells: a line is a
    picture of where a level is crossed, not itself a bound.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `fastacct.sweep` with the variable `epsilon`; at least two different sample rates and noise
        multipliers.
    steps : int or sequence of int, optional
        The panels; values of the axis `steps`. Default: the first, the middle and the last of the axis.
    delta : float, optional
        A value of the axis `delta`. Default: the largest.
    levels : sequence of float
        Labelled contours of epsilon; the colours run from the first to the last.

    Returns
    -------
    matplotlib.figure.Figure
        Not registered with pyplot: nothing to close, safe in threads.

    Raises
    ------
    ValueError
        No variable epsilon, too small a grid, or a value that is not on its axis.
    ImportError
        matplotlib is missing.

    Examples
    --------
    >>> save(epsilon_grid(grid, steps=[1000, 10000], delta=1e-5), "grid.png")  # doctest: +SKIP
    """
    figure_class = _matplotlib("matplotlib.figure").Figure
    log_norm = _matplotlib("matplotlib.colors").LogNorm
    if "epsilon" not in dataset.data_vars:
        raise ValueError("the dataset has no variable 'epsilon': sweep with delta= to compute it")
    levels = sorted(float(level) for level in levels)
    if len(levels) < 2 or not all(math.isfinite(level) and level > 0 for level in levels):
        raise ValueError(f"levels = {levels}: needs at least two positive finite values")
    rates, noises = (_log_axis(dataset, name) for name in ("sample_rate", "noise_multiplier"))
    panels = _panels(dataset, steps)
    chosen_delta = _on_axis(dataset, "delta", float(np.max(dataset["delta"].values)) if delta is None else delta)

    width = max(NARROWEST, 2.55 * len(panels) + 1.35)
    figure = figure_class(figsize=(width, 4.3), layout="constrained")
    figure.get_layout_engine().set(wspace=0.05)
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True, sharey=True))
    norm = log_norm(levels[0], levels[-1])
    for axis, n_steps in zip(axes, panels, strict=True):
        grid = dataset["epsilon"].sel(steps=n_steps, delta=chosen_delta).transpose("noise_multiplier", "sample_rate")
        values = _distinct(grid.values, dataset)
        filled = _draw_panel(axis, rates, noises, values, levels, norm)
        axis.set_title(f"{n_steps:,} steps", fontsize=MEDIUM)
    axes[0].set_ylabel("noise multiplier", fontsize=MEDIUM)
    figure.supxlabel("sample rate (Poisson)", fontsize=MEDIUM)
    title_size = LARGE if width >= 9 else MEDIUM
    figure.suptitle(_title(dataset, chosen_delta, int(TITLE_CHARACTERS * width / title_size)), fontsize=title_size)
    bar = figure.colorbar(filled, ax=list(axes), extend="both", pad=0.015, aspect=28)
    bar.set_label("epsilon", fontsize=MEDIUM)
    bar.set_ticks(levels, labels=[f"{level:g}" for level in levels])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=SMALL)
    return figure  # type: ignore[no-any-return]


def save(figure: Figure, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a figure as PNG, whole or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path
        Name ending in .png, in an existing folder.
    overwrite : bool
        Replace an existing file.

    Returns
    -------
    pathlib.Path
        The file written.

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
    target = Path(path)
    if target.suffix != ".png":
        raise ValueError(f"path = {str(target)!r}: a picture's name must end in .png")
    canvas = _matplotlib("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    with atomic_output(target, overwrite=overwrite) as temporary:
        # No creation date and no software version inside: the same sweep gives the same bytes.
        canvas.print_figure(str(temporary), format="png", dpi=DPI, metadata={"Software": None})
    return target


def _matplotlib(module: str) -> Any:
    from fastacct.sweep import import_extra

    return import_extra(module, "plot")


def _log_axis(dataset: xr.Dataset, name: str) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.unique(np.asarray(dataset[name].values, dtype=np.float64))
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) < 2:
        raise ValueError(f"{name}: a picture needs at least two different positive finite values on this axis")
    return values


def _distinct(values: NDArray[np.float64], dataset: xr.Dataset) -> NDArray[np.float64]:
    """The panel sorted along both axes, without repeated, zero or infinite coordinates."""
    picks = []
    for name in ("noise_multiplier", "sample_rate"):
        coordinate = dataset[name].values
        unique, first = np.unique(coordinate, return_index=True)
        picks.append(first[np.isfinite(unique) & (unique > 0)])
    return values[np.ix_(*picks)]


def _panels(dataset: xr.Dataset, steps: Sequence[int] | int | None) -> list[int]:
    available = np.unique(dataset["steps"].values)
    if steps is None:
        picked = available[sorted({0, len(available) // 2, len(available) - 1})]
        return [int(value) for value in picked]
    asked = [steps] if np.isscalar(steps) else list(steps)  # type: ignore[arg-type]
    if not asked:
        raise ValueError("steps is empty: a picture needs at least one panel")
    return [int(_on_axis(dataset, "steps", value)) for value in asked]


def _on_axis(dataset: xr.Dataset, name: str, value: Any) -> Any:
    """`value`, if the axis has it (exactly once: a repeated value would give a panel two answers)."""
    coordinate = dataset[name].values
    count = int(np.count_nonzero(coordinate == value))
    if count != 1:
        nearest = coordinate[np.argmin(np.abs(coordinate - value))]
        problem = "is not on the axis" if count == 0 else "is repeated on the axis"
        raise ValueError(f"{name} = {value}: {problem} of the sweep; the nearest value there is {nearest}")
    return value


def _draw_panel(
    axis: Axes,
    rates: NDArray[np.float64],
    noises: NDArray[np.float64],
    values: NDArray[np.float64],
    levels: Sequence[float],
    norm: Any,
) -> Any:
    # Zero and infinity have no logarithm; far outside the levels they fall under the colour bar's two ends.
    finite = np.clip(values, levels[0] * 1e-6, levels[-1] * 1e6)
    axis.set_xscale("log")
    axis.set_yscale("log")
    fine = np.geomspace(levels[0], levels[-1], 97)
    filled = axis.contourf(rates, noises, finite, levels=fine, norm=norm, cmap="viridis_r", extend="both")
    crossed = [level for level in levels if finite.min() < level < finite.max()]
    if crossed:
        _draw_lines(axis, rates, noises, finite, crossed)
    axis.tick_params(labelsize=SMALL)
    _plain_ticks(axis, noises)
    return filled


def _draw_lines(
    axis: Axes,
    rates: NDArray[np.float64],
    noises: NDArray[np.float64],
    values: NDArray[np.float64],
    levels: Sequence[float],
) -> None:
    """Labelled lines, interpolated in log(epsilon): epsilon spans decades from one cell to the next."""
    style: dict[str, Any] = {"colors": "black", "linewidths": 0.8, "linestyles": "solid"}
    lines = axis.contour(rates, noises, np.log(values), levels=np.log(levels), **style)
    names = dict(zip(lines.levels, (f"{level:g}" for level in levels), strict=True))
    places = [_label_place(np.asarray(path.vertices), axis) for path in lines.get_paths()]
    middles = [place for place in places if place is not None]
    for text in axis.clabel(lines, fmt=names, fontsize=SMALL, inline=True, inline_spacing=4, manual=middles):
        text.set_bbox({"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75})


def _label_place(vertices: NDArray[np.float64], axis: Axes) -> tuple[float, float] | None:
    """Half way along a line as it is seen, far from the frame; None where the line is too short for its label."""
    if len(vertices) < 2:
        return None
    seen = axis.transAxes.inverted().transform(axis.transData.transform(vertices))
    travelled = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(seen, axis=0).T))])
    if travelled[-1] < SHORTEST_LABELLED:
        return None
    x, y = vertices[int(np.searchsorted(travelled, travelled[-1] / 2))]
    return float(x), float(y)


def _plain_ticks(axis: Axes, noises: NDArray[np.float64]) -> None:
    """Noise multipliers as 0.5, 1, 2, ... : powers of two read better than powers of ten over so short a range."""
    ticker = _matplotlib("matplotlib.ticker")
    exponents = np.arange(math.ceil(math.log2(noises[0]) - 1e-9), math.floor(math.log2(noises[-1]) + 1e-9) + 1)
    if len(exponents) >= 2:
        axis.yaxis.set_major_locator(ticker.FixedLocator(list(2.0**exponents)))
        axis.yaxis.set_minor_locator(ticker.NullLocator())
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))


def _title(dataset: xr.Dataset, delta: float, line_length: int) -> str:
    attrs = dataset.attrs
    guarantee = str(attrs.get("guarantee", "no guarantee recorded"))
    relation = NEIGHBORS.get(str(attrs.get("neighbors", "")), str(attrs.get("neighbors", "unknown neighbours")))
    accountant = str(attrs.get("accountant_summary", attrs.get("accountant", "unknown accountant")))
    lines = [f"DP-SGD epsilon at delta = {delta:g}, {guarantee} ({relation})", textwrap.shorten(accountant, 90)]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, line_length))
