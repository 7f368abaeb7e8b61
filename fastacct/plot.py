"""Pictures: sweeps, curves, and how tight each accountant is.

Needs matplotlib (`pip install "fastacct[plot]"`), which is imported when the first picture is drawn. Every function
returns a `matplotlib.figure.Figure` that is not registered with pyplot: nothing to close, safe in threads. `save`
writes it as PNG, PDF or SVG.

>>> import fastacct as fa
>>> axes = {"noise_multiplier": [0.5, 1, 2, 4], "sample_rate": [0.001, 0.01, 0.1], "steps": [100, 1000]}
>>> grid = fa.sweep(**axes, delta=1e-5).compute()
>>> figure = fa.plot.epsilon_grid(grid)
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.relations import RELATIONS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

    from fastacct.curve import PrivacyCurve, Run, TradeoffCurve
    from fastacct.tightness import Score

__all__ = ["as_picture", "epsilon_grid", "epsilon_plane", "privacy_curves", "save", "tightness", "tradeoff_curves"]

Cells = NDArray[np.float64]
Color = tuple[float, float, float, float]
LEVELS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SUFFIXES: Final = (".png", ".pdf", ".svg")
DPI: Final = 200
SMALL: Final = 9.0
"""Points: three panels are 9 inches wide; shown 900 pixels wide, the smallest text is still 12 pixels high."""
MEDIUM: Final = 10.0
LARGE: Final = 12.0
TITLE_CHARACTERS: Final = 130.0  # per inch of line and point of height
NARROWEST: Final = 6.4
WITH_LEGEND: Final = 8.0
PANELS: Final = 8
PANELS_PER_ROW: Final = 4
LEGEND_ROWS: Final = 16
WRONG: Final = "#c62828"
RATIOS: Final = (0.4, 300.0)
"""Horizontal axis of the tightness picture; what is outside is drawn at its ends."""
NAMES: Final = {"noise_multiplier": "noise multiplier", "sample_rate": "sample rate (Poisson)", "steps": "steps"}
AXES: Final = tuple(NAMES)
DASHES: Final = {"remove": "-", "add": "--"}


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
    target = as_picture(path, overwrite=overwrite)
    import matplotlib

    kind = target.suffix[1:]
    # no creation date, no version of the software, no random names inside
    nothing = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    with atomic_output(target, overwrite=overwrite) as temporary, matplotlib.rc_context({"svg.hashsalt": "fastacct"}):
        figure.savefig(temporary, format=kind, dpi=DPI, metadata=nothing)
    return target


def as_picture(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path of a picture, if `save` can write it: suffix, folder, existing file, matplotlib."""
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise ValueError(f"path = {str(target)!r}: a picture's name must end in {', '.join(SUFFIXES)}")
    refuse_existing(target, overwrite)
    import_extra("matplotlib.figure", "plot")
    return target


# -- sweeps ----------------------------------------------------------------------------------------------------------


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
    figure, axes = _new_figure(max(NARROWEST, 2.55 * columns + 1.35), 1.3 + 3.0 * rows, rows, columns, share=True)
    for place, (axis, n_steps) in enumerate(zip(axes, steps, strict=False)):
        filled = _draw_panel(axis, rates, noises, cells.sel(steps=n_steps).values, levels)
        axis.set_title(f"{n_steps:,} steps", fontsize=MEDIUM)
        axis.tick_params(labelleft=place % columns == 0, labelbottom=place + columns >= len(steps))
    for axis in axes[len(steps) :]:
        axis.remove()
    figure.supylabel(NAMES["noise_multiplier"], fontsize=MEDIUM)
    figure.supxlabel(NAMES["sample_rate"], fontsize=MEDIUM)
    bar = figure.colorbar(filled, ax=axes[: len(steps)], extend="both", pad=0.015, aspect=28)
    bar.set_label("epsilon", fontsize=MEDIUM)
    bar.set_ticks(levels, labels=[f"{level:g}" for level in levels])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=SMALL)
    known = dataset.attrs | dataset["epsilon"].attrs
    about = [str(known.get(name, f"unknown {name}")) for name in ("guarantee", "neighbors", "accountant")]
    first = f"DP-SGD epsilon at delta = {cells['delta'].item():g}, {about[0]} ({RELATIONS.get(about[1], about[1])})"
    size = LARGE if figure.get_figwidth() >= 9 else MEDIUM
    room = int(TITLE_CHARACTERS * figure.get_figwidth() / size)
    lines = [*textwrap.wrap(first, room), *textwrap.wrap(textwrap.shorten(about[2], 120), room)]
    figure.suptitle("\n".join(lines), fontsize=size)
    return figure


def epsilon_plane(
    dataset: xr.Dataset, x: str = "epochs", y: str = "batch_size", *, levels: Sequence[float] = LEVELS
) -> Figure:
    """Draw lines of equal epsilon over two axes of a sweep, such as epochs and batch size at one noise multiplier.

    **Guarantee.** As `epsilon_grid`.  All other axes must have one value: `dataset.sel(noise_multiplier=1.0)`.
    ValueError for others, and for axes of fewer than two positive finite values.

    Examples
    --------
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
    figure, (axis,) = _new_figure(WITH_LEGEND, 4.8)
    filled = _draw_panel(axis, cells[x].values, cells[y].values, cells.values, sorted(map(float, levels)))
    _name_axes(axis, NAMES.get(x, x.replace("_", " ")), NAMES.get(y, y.replace("_", " ")))
    bar = figure.colorbar(filled, ax=axis, extend="both", pad=0.015)
    bar.set_label("epsilon (certified upper bound)", fontsize=MEDIUM)
    bar.set_ticks(levels, labels=[f"{level:g}" for level in levels])
    bar.ax.minorticks_off()
    places |= {name: str(value) for name, value in dataset.attrs.items() if name == "delta"}
    figure.suptitle(", ".join(f"{n} {v}".replace("_", " ") for n, v in places.items()), fontsize=MEDIUM)
    return figure


def _epsilon_lines(cells: xr.DataArray) -> Figure:
    """Epsilon over the axis that varies, a line per number of steps."""
    over = next((name for name in reversed(AXES) if cells[name].size > 1 and name != "steps"), "steps")
    if cells[over].size < 2 or not cells.size:
        raise ValueError("a picture needs two positive finite values of noise_multiplier, sample_rate or steps")
    figure, (axis,) = _new_figure(NARROWEST, 4.3, 1, 1)
    cells.squeeze().plot.line(ax=axis, x=over, xscale="log", yscale="log")
    _name_axes(axis, NAMES[over], "epsilon (certified upper bound)")
    return figure


def _draw_panel(axis: Axes, rates: Cells, noises: Cells, values: Cells, levels: Sequence[float]) -> QuadContourSet:
    from matplotlib.colors import LogNorm

    # Zero and infinity have no logarithm; far outside the levels they fall under the colour bar's two ends.
    finite = np.clip(values, levels[0] * 1e-6, levels[-1] * 1e6)
    _log_scale(axis, axis.xaxis, rates[0], rates[-1])
    _log_scale(axis, axis.yaxis, noises[0], noises[-1])
    fine, norm = np.geomspace(levels[0], levels[-1], 97), LogNorm(levels[0], levels[-1])
    filled = axis.contourf(rates, noises, finite, levels=fine, norm=norm, cmap="viridis_r", extend="both")
    crossed = [level for level in levels if finite.min() < level < finite.max()]
    if crossed:
        # Lines are interpolated in log(epsilon), which spans decades from one cell to the next.
        style: dict[str, Any] = {"colors": "black", "linewidths": 0.8, "linestyles": "solid"}
        lines = axis.contour(rates, noises, np.log(finite), levels=np.log(crossed), **style)
        for text in axis.clabel(lines, fmt=lambda level: f"{math.exp(level):g}", fontsize=SMALL):
            text.set_bbox({"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75})
    return filled


# -- curves ----------------------------------------------------------------------------------------------------------


def privacy_curves(curves: Sequence[PrivacyCurve]) -> Figure:
    """Draw delta over epsilon: one colour per run, adding a record dashed, the certified interval shaded.

    **Guarantee.** The lines are the certified upper bounds; the shade reaches down to the lower bounds and is rarely
    visible.

    The vertical axis ends where the first curve ends that ends.  ValueError without any curve.

    Examples
    --------
    >>> from fastacct.curve import Run, privacy_curve
    >>> figure = privacy_curves([privacy_curve(Run(1.0, 0.01, 100), way, points=9) for way in ("remove", "add")])
    """
    colors = _colors(curves)
    figure, (axis,) = _new_figure(WITH_LEGEND, 4.3)
    bounds = [np.stack([curve.log_delta_lower, curve.log_delta_upper]) / math.log(10.0) for curve in curves]
    floor = min(-1.0, max(float(upper[np.isfinite(upper)].min(initial=0.0)) for _, upper in bounds))
    for curve, both in zip(curves, bounds, strict=True):
        lower, upper = np.clip(both, 2 * floor, 0.0)
        axis.fill_between(curve.epsilon, lower, upper, color=colors[curve.run], alpha=0.2, linewidth=0)
        axis.plot(curve.epsilon, upper, DASHES[curve.direction], color=colors[curve.run], linewidth=1.6)
    entries = [(str(run), "-", color) for run, color in colors.items()]
    ways = dict.fromkeys(curve.direction for curve in curves)
    entries += [(f"{way} a record", DASHES[way], (0.0, 0.0, 0.0, 1.0)) for way in ways]
    for label, dash, color in entries:
        axis.plot([], [], dash, color=color, linewidth=1.6, label=label)
    axis.set(xlim=(0.0, max(float(curve.epsilon[-1]) for curve in curves)), ylim=(floor, 0.0))
    _name_axes(axis, "epsilon", "delta")
    from matplotlib.ticker import MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axis.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$" if value else "1")
    _legend(figure, len(entries))
    figure.suptitle("Certified privacy curves (Poisson sampling)", fontsize=MEDIUM)
    return figure


def tradeoff_curves(curves: Sequence[TradeoffCurve]) -> Figure:
    """Draw the errors of the best attack, and its true-positive rate at small false-positive rates.

    **Guarantee.** No attack is below a line on the left, or above it on the right.  ValueError without any curve.
    """
    colors = _colors(curves)
    figure, (errors, power) = _new_figure(1.4 * WITH_LEGEND, 4.3, 1, 2)
    smallest = max(min(float(curve.fpr[curve.fpr > 0.0].min(initial=1.0)) for curve in curves), 1e-12)
    for curve in curves:
        errors.plot(curve.fpr, curve.fnr_lower, color=colors[curve.run], linewidth=1.6, label=str(curve.run))
        power.plot(curve.fpr, curve.tpr_upper, color=colors[curve.run], linewidth=1.6)
    errors.plot([0.0, 1.0], [1.0, 0.0], ":", color="grey", label="guessing")
    power.plot([smallest, 1.0], [smallest, 1.0], ":", color="grey")
    errors.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    for side in (power.xaxis, power.yaxis):
        _log_scale(power, side, smallest, 1.0)
    for axis, name in ((errors, "smallest false-negative rate"), (power, "largest true-positive rate")):
        _name_axes(axis, "false-positive rate", name)
    _legend(figure, len(curves) + 1)
    figure.suptitle("Certified limits of every attack (Poisson sampling)", fontsize=MEDIUM)
    return figure


def _colors(curves: Sequence[PrivacyCurve] | Sequence[TradeoffCurve]) -> dict[Run, Color]:
    if not curves:
        raise ValueError("curves is empty: nothing to draw")
    runs = dict.fromkeys(curve.run for curve in curves)
    viridis = import_extra("matplotlib", "plot").colormaps["viridis"]
    return dict(zip(runs, map(viridis, np.linspace(0.0, 0.85, len(runs))), strict=True))


# -- tightness -------------------------------------------------------------------------------------------------------


def tightness(studies: Mapping[str, Sequence[Score]]) -> Figure:
    """Draw how far the epsilon of each accountant is from the truth, one panel per regime of {regime: scores}.

    **Guarantee.** Ratios are taken where the truth is known to 1e-6; what is left of the line is below the truth.
    ValueError without any score.
    """
    names = list(dict.fromkeys(entry.contender for scores in studies.values() for entry in scores))
    if not names:
        raise ValueError("studies is empty: nothing to draw")
    figure, axes = _new_figure(max(NARROWEST, 4.8 * len(studies)), 1.6 + 0.28 * len(names), 1, len(studies), share=True)
    for axis, (regime, scores) in zip(axes, studies.items(), strict=True):
        _log_scale(axis, axis.xaxis, *RATIOS)
        axis.axvspan(RATIOS[0], 1.0, color="#fbe3e1", linewidth=0)
        axis.axvline(1.0, color="black", linewidth=0.8)
        for entry in scores:
            _draw_ratios(axis, names.index(entry.contender), entry)
        axis.set_title(regime, fontsize=MEDIUM)
        axis.text(1.035, 1.02, "median", transform=axis.transAxes, fontsize=SMALL, va="bottom")
    axes[0].set_yticks(range(len(names)), labels=names, fontsize=SMALL)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel("epsilon / exact epsilon (dot: median; thick: 10 to 90 %; thin: all)", fontsize=MEDIUM)
    figure.suptitle("How tight each accountant is: red is below the truth", fontsize=LARGE)
    return figure


def _draw_ratios(axis: Axes, row: int, entry: Score) -> None:
    found, ratios = entry.summary, np.clip(entry.ratios, *RATIOS)
    color = "#1a7f37" if entry.contender.startswith("exact") else "#2f5d8c" if entry.claims_bound else "#8a6d1d"
    notes = []
    if ratios.size:
        low, ten, median, ninety, high = np.quantile(ratios, (0.0, 0.1, 0.5, 0.9, 1.0))
        axis.plot([low, high], [row, row], color=color, linewidth=1.0)
        axis.plot([ten, ninety], [row, row], color=color, linewidth=5.0, solid_capstyle="butt")
        axis.plot([median], [row], "o", color="white", markeredgecolor=color, markersize=5, clip_on=False)
        notes = [f"{found.median:,.2f}" if found.median < 100.0 else f"{found.median:,.0f}"]
    for count, word in ((found.below, "below"), (found.failed, "fail")):
        if count:
            notes.append(f"{max(count / found.asked, 0.01):.0%} {word}")
    color = WRONG if found.below and entry.claims_bound else "black"
    place = axis.get_yaxis_transform()
    axis.text(1.035, row, ", ".join(notes), transform=place, va="center", fontsize=SMALL, color=color)


# -- figures ---------------------------------------------------------------------------------------------------------


def _new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, share: bool = False
) -> tuple[Figure, list[Axes]]:
    figure: Figure = import_extra("matplotlib.figure", "plot").Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", wspace=0.08)
    axes = np.atleast_1d(figure.subplots(rows, columns, sharex=share, sharey=share)).ravel().tolist()
    for axis in axes:
        axis.tick_params(labelsize=SMALL)
    return figure, axes


def _name_axes(axis: Axes, x: str, y: str) -> None:
    axis.set_xlabel(x, fontsize=MEDIUM)
    axis.set_ylabel(y, fontsize=MEDIUM)
    axis.grid(True, color="#dddddd", linewidth=0.6)


def _legend(figure: Figure, entries: int) -> None:
    columns = math.ceil(entries / LEGEND_ROWS)
    figure.set_figwidth(figure.get_figwidth() + 2.4 * (columns - 1))
    figure.legend(loc="outside right center", fontsize=SMALL, frameon=False, ncols=columns)


def _log_scale(axis: Axes, side: Axis, low: float, high: float) -> None:
    """A logarithmic axis with a handful of labels, none of which run into each other."""
    from matplotlib.ticker import FixedLocator, NullLocator

    (axis.set_xscale if side is axis.xaxis else axis.set_yscale)("log")
    (axis.set_xlim if side is axis.xaxis else axis.set_ylim)(low, high)
    side.set_major_locator(FixedLocator(_log_ticks(low, high)))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(lambda value, _: f"{value:g}")


def _log_ticks(low: float, high: float) -> list[float]:
    """The roundest numbers of an interval: powers of ten, or where these are few 1 and 3, or 1, 2 and 5 times them."""
    from matplotlib.ticker import MaxNLocator

    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    candidates = [(3, [float(f"1e{k}") for k in tens if k % stride == 0]) for stride in range(len(tens), 0, -1)]
    for least, digits in ((3, (1, 3)), (2, (1, 2, 5))):
        candidates.append((least, [float(f"{digit}e{k}") for k in tens for digit in digits]))
    even = (MaxNLocator(nbins=n, steps=[1, 2, 5, 10]).tick_values(low, high) for n in range(3, 9))
    for least, ticks in (*candidates, *((2, list(ticks)) for ticks in even)):
        inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(inside) >= least:
            break
    return inside
