"""Pictures of sweeps."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import RELATIONS
from fastacct.core.rounding import digits_up
from fastacct.core.words import told_names
from fastacct.plot.figures import LARGE, MEDIUM, NARROWEST, SMALL, WIDE, log_scale, name_axes, new_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

LEVELS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
TITLE_CHARACTERS: Final = 130.0  # per inch of line and point of height
PANELS: Final = 8
PANELS_PER_ROW: Final = 4
NAMES: Final = {"noise_multiplier": "noise multiplier", "sample_rate": "sample rate (Poisson)", "steps": "steps"}
AXES: Final = tuple(NAMES)
MAP_CELLS: Final = 6
"""Fewer cells a side are no map: they are drawn as numbers."""
FRAME: Final = "#d55e00"


@told_names
def epsilon_grid(dataset: xr.Dataset, *, levels: Sequence[float] = LEVELS) -> Figure:
    """Draw epsilon over (sample_rate, noise_multiplier), one panel per number of steps.

    **Guarantee.** The colours and lines show the certified upper bounds of the sweep, interpolated between its cells: a
    line is a picture of where a level is crossed, not itself a bound.

    Of more than eight numbers of steps the first, the middle and the last are drawn, of several deltas the largest: for
    others give a part of the grid, `dataset.sel(steps=[10, 1000], delta=1e-7)`.  Where the noise multiplier or the
    sample rate has a single value, lines of epsilon over the other are drawn (over the steps where both have).

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `fastacct.sweep` with the variable `epsilon`, or a part of one.
    levels : sequence of float
        Labelled contours of epsilon; the colours run from the first to the last.

    Raises
    ------
    ValueError, ModuleNotFoundError
        No variable epsilon, or a single cell; matplotlib is missing.

    Examples
    --------
    >>> import fastacct as fa
    >>> plan = fa.sweep(noise_multiplier=[1.0, 2.0], sample_rate=[0.01, 0.02], steps=[100, 1000], delta=1e-5)
    >>> fa.plot.epsilon_grid(plan.compute())
    <Figure size 645x430 with 3 Axes>
    """
    if "epsilon" not in dataset.data_vars:
        raise ValueError("the dataset has no variable 'epsilon': sweep with delta= to compute it")
    levels = sorted(float(level) for level in levels)
    if len(levels) < 2 or not all(math.isfinite(level) and level > 0 for level in levels):
        raise ValueError(f"levels = {levels}: needs at least two positive finite values")
    cells = dataset["epsilon"]
    cells = cells.expand_dims([name for name in (*AXES, "delta") if name not in cells.dims])
    cells = cells.drop_duplicates(...).sortby(list(cells.dims)).isel(delta=-1).transpose(*AXES)
    for name in AXES[:2]:  # what a logarithmic axis can show
        cells = cells.isel({name: np.flatnonzero(np.isfinite(cells[name].values) & (cells[name].values > 0))})
    if min(cells.shape[:2]) < 2:
        return _epsilon_lines(cells)
    if cells["steps"].size > PANELS:
        cells = cells.isel(steps=[0, cells["steps"].size // 2, -1])
    noises, rates, steps = (cells[name].values for name in AXES)
    rows = math.ceil(len(steps) / PANELS_PER_ROW)
    columns = math.ceil(len(steps) / rows)
    figure, axes = new_figure(max(NARROWEST, 2.55 * columns + 1.35), 1.3 + 3.0 * rows, rows, columns, share=True)
    for place, (axis, n_steps) in enumerate(zip(axes, steps, strict=False)):
        filled = draw_levels(axis, rates, noises, cells.sel(steps=n_steps).values, levels)
        axis.set_title(f"{n_steps:,} steps", fontsize=MEDIUM)
        axis.tick_params(labelleft=place % columns == 0, labelbottom=place + columns >= len(steps))
    for axis in axes[len(steps) :]:
        axis.remove()
    figure.supylabel(NAMES["noise_multiplier"], fontsize=MEDIUM)
    figure.supxlabel(NAMES["sample_rate"], fontsize=MEDIUM)
    _colour_bar(filled, axes[: len(steps)], levels)
    known = dataset.attrs | dataset["epsilon"].attrs
    about = [str(known.get(name, f"unknown {name}")) for name in ("guarantee", "neighbors", "accountant")]
    first = f"DP-SGD, epsilon at delta = {cells['delta'].item():g} ({RELATIONS.get(about[1], about[1])})"
    size = LARGE if figure.get_figwidth() >= 9 else MEDIUM
    room = int(TITLE_CHARACTERS * figure.get_figwidth() / size)
    words = f"{about[0]} by {about[2].partition('(')[0]}()"  # a class, without the settings
    figure.suptitle("\n".join([*textwrap.wrap(first, room), *textwrap.wrap(words, room)]), fontsize=size)
    return figure


@told_names
def epsilon_plane(
    dataset: xr.Dataset, x: str = "epochs", y: str = "batch_size", *, levels: Sequence[float] = LEVELS
) -> Figure:
    """Draw lines of equal epsilon over two axes of a sweep, such as epochs and batch size at one noise multiplier.

    **Guarantee.** As `epsilon_grid`.  All other axes must have one value: `dataset.sel(noise_multiplier=1.0)`.
    ValueError for others, and for axes of fewer than two positive finite values.

    Examples
    --------
    >>> import fastacct as fa
    >>> axes = {"records": 50_000, "batch_size": [64, 256, 1024], "epochs": [1, 10, 50], "delta": "1/n"}
    >>> figure = epsilon_plane(fa.sweep(**axes, noise_multiplier=1.0).compute())
    """
    cells = dataset["epsilon"]
    for name in (x, y):
        if name not in cells.dims or np.sum((cells[name].values > 0) & np.isfinite(cells[name].values)) < 2:
            raise ValueError(f"{name} must be an axis of two and more positive finite values")
    others = [str(name) for name in cells.dims if name not in (x, y)]
    if many := [name for name in others if cells.sizes[name] > 1]:
        raise ValueError(f"{many[0]} has {cells.sizes[many[0]]} values: choose one, dataset.sel({many[0]}=...)")
    places = {
        name: f"{cells[name].values.flat[0]:g}" for name in (*others, *(n for n in cells.coords if not cells[n].dims))
    }
    cells = cells.isel(dict.fromkeys(others, 0)).sortby([x, y]).transpose(y, x)
    cells = cells.where((cells[x] > 0) & (cells[y] > 0) & np.isfinite(cells[x]) & np.isfinite(cells[y]), drop=True)
    figure, (axis,) = new_figure(WIDE, 4.8)
    filled = draw_levels(axis, cells[x].values, cells[y].values, cells.values, sorted(map(float, levels)))
    name_axes(axis, NAMES.get(x, x.replace("_", " ")), NAMES.get(y, y.replace("_", " ")), grid=False)
    _colour_bar(filled, [axis], levels)
    places |= {name: str(value) for name, value in dataset.attrs.items() if name == "delta"}
    figure.suptitle(", ".join(f"{n} {v}".replace("_", " ") for n, v in places.items()), fontsize=MEDIUM)
    return figure


def _colour_bar(filled: QuadContourSet, axes: list[Axes], levels: Sequence[float]) -> None:
    bar = axes[0].figure.colorbar(filled, ax=axes, extend="both", pad=0.015, aspect=28)
    bar.set_label(r"$\varepsilon$ (certified upper bound)", fontsize=MEDIUM)
    bar.set_ticks(levels, labels=[f"{level:g}" for level in levels])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=SMALL)


def _epsilon_lines(cells: xr.DataArray) -> Figure:
    """Epsilon over the axis that varies, a line per number of steps."""
    over = next((name for name in reversed(AXES) if cells[name].size > 1 and name != "steps"), "steps")
    if cells[over].size < 2 or not cells.size:
        raise ValueError("a picture needs two positive finite values of noise_multiplier, sample_rate or steps")
    figure, (axis,) = new_figure(NARROWEST, 4.3)
    cells.squeeze().plot.line(ax=axis, x=over, xscale="log", yscale="log")
    name_axes(axis, NAMES[over], "epsilon (certified upper bound)")
    return figure


def draw_levels(axis: Axes, x: Cells, y: Cells, values: Cells, levels: Sequence[float]) -> QuadContourSet:
    """Colours, and labelled lines at the levels, of values over two logarithmic axes."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, LogNorm

    # Zero and infinity have no logarithm; far outside the levels they fall under the colour bar's two ends.
    finite = np.clip(values, levels[0] * 1e-6, levels[-1] * 1e6)
    log_scale(axis, axis.xaxis, x[0], x[-1])
    log_scale(axis, axis.yaxis, y[0], y[-1])
    fine, norm = np.geomspace(levels[0], levels[-1], 97), LogNorm(levels[0], levels[-1])
    light = ListedColormap(colormaps["Blues"](np.linspace(0.05, 0.7, 256)))  # black lines are seen on all of it
    filled = axis.contourf(x, y, finite, levels=fine, norm=norm, cmap=light, extend="both")
    crossed = [level for level in levels if finite.min() < level < finite.max()]
    if crossed:
        # Lines are interpolated in log(epsilon), which spans decades from one cell to the next.
        lines = axis.contour(
            x, y, np.log(finite), levels=np.log(crossed), colors="black", linewidths=0.8, linestyles="solid"
        )
        # in the middle of each line, far from the frame; none on one that cuts a corner
        middles = [tuple(part[len(part) // 2]) for one in lines.allsegs for part in one if 4 * len(part) > len(x)]
        place = (axis.transData - axis.transAxes).transform
        middles = [at for at in middles if np.all(np.abs(place(at) - 0.5) < (0.42, 0.46))]
        for text in axis.clabel(lines, fmt=lambda level: f"{math.exp(level):g}", fontsize=SMALL, manual=middles):
            text.set_bbox({"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75})
    return filled


def numbers_size(values: Cells) -> dict[str, float]:
    """Width and height of a panel that shows so many numbers."""
    rows, columns = values.shape
    return {"width": max(NARROWEST, 1.4 + 0.75 * columns), "height": max(3.0, 1.4 + 0.36 * rows)}


def draw_numbers(axis: Axes, x: Cells, y: Cells, values: Cells, framed: NDArray[np.bool_] | None = None) -> Axes:
    """A table of numbers, rounded up to three digits, darker where they are larger; some are framed."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    rank = np.argsort(np.argsort(values, axis=None)).reshape(values.shape) / max(1, values.size - 1)
    for (row, column), value in np.ndenumerate(values):
        known = math.isfinite(value)
        shade = colormaps["Blues"](0.05 + 0.45 * float(rank[row, column])) if known else "#eeeeee"
        at = column - 0.5, row - 0.5
        axis.add_patch(Rectangle(at, 1.0, 1.0, facecolor=shade, edgecolor="white"))
        if framed is not None and framed[row, column]:
            inside = at[0] + 0.05, at[1] + 0.05
            axis.add_patch(Rectangle(inside, 0.9, 0.9, facecolor="none", edgecolor=FRAME, linewidth=2.0))
        text = digits_up(value, 3) if known else "none" if value > 0.0 else "-"
        axis.text(column, row, text, ha="center", va="center", fontsize=SMALL)
    axis.set(xlim=(-0.5, len(x) - 0.5), ylim=(-0.5, len(y) - 0.5))
    axis.set_xticks(range(len(x)), [f"{one:g}" for one in x])
    axis.set_yticks(range(len(y)), [f"{one:,.0f}" for one in y])
    axis.tick_params(length=0)
    return axis
