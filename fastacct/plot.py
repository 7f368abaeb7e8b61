"""Pictures: sweeps, curves, and how tight each accountant is.

Needs matplotlib (`pip install "fastacct[plot]"`), which is imported when the first picture is drawn. Every function
returns a `matplotlib.figure.Figure` that is not registered with pyplot: nothing to close, safe in threads. `save`
writes it as PNG, PDF or SVG.

>>> import fastacct as fa
>>> grid = fa.sweep(noise_multiplier=[0.5, 1, 2, 4], sample_rate=[0.001, 0.01, 0.1], steps=[100, 1000], delta=1e-5)
>>> figure = fa.plot.epsilon_grid(grid)
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastacct._figures import LEGEND_INSIDE, MEDIUM, SMALL, legend, log_scale, name_axes, new_figure, palette, save

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

    from fastacct.curve import PrivacyCurve, Run, TradeoffCurve
    from fastacct.tightness import Score

__all__ = ["epsilon_grid", "privacy_curves", "save", "tightness", "tradeoff_curves"]

Cells = NDArray[np.float64]
T = TypeVar("T")

LEVELS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
LARGE: Final = 12.0
TITLE_CHARACTERS: Final = 130.0  # per inch of line and point of height
NARROWEST: Final = 6.4
PANELS_PER_ROW: Final = 4
SHORTEST_LABELLED: Final = 0.25  # of the width of a panel
WRONG: Final = "#c62828"
RATIOS: Final = (0.4, 300.0)
"""Horizontal axis of the tightness picture; what is outside is drawn at its ends."""
NEIGHBORS: Final = {
    "add_remove": "add or remove one record",
    "add": "add one record",
    "remove": "remove one record",
    "replace_one": "replace one record",
    "zero_out": "zero out one record",
}
AXES: Final = {"noise_multiplier": "noise multiplier", "sample_rate": "sample rate (Poisson)", "steps": "steps"}
DASHES: Final = {"remove": "-", "add": "--"}


# -- sweeps ----------------------------------------------------------------------------------------------------------


def epsilon_grid(
    dataset: xr.Dataset,
    *,
    steps: Sequence[int] | int | None = None,
    delta: float | None = None,
    levels: Sequence[float] = LEVELS,
) -> Figure:
    """Draw epsilon over (sample_rate, noise_multiplier), one panel per number of steps.

    **Guarantee.** The colours and lines show the certified upper bounds of the sweep, interpolated between its cells: a
    line is a picture of where a level is crossed, not itself a bound.

    Where one of the two has a single value, epsilon is drawn over the other, one line per number of steps; where both
    have, over the number of steps.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `fastacct.sweep` with the variable `epsilon`.
    steps : int or sequence of int, optional
        The panels; values of the axis `steps`.  Default: the first, the middle and the last of the axis.
    delta : float, optional
        A value of the axis `delta`.  Default: the largest.
    levels : sequence of float
        Labelled contours of epsilon; the colours run from the first to the last.

    Raises
    ------
    ValueError, ModuleNotFoundError
        No variable epsilon, a single cell, or a value that is not on its axis; matplotlib is missing.
    """
    if "epsilon" not in dataset.data_vars:
        raise ValueError("the dataset has no variable 'epsilon': sweep with delta= to compute it")
    levels = sorted(float(level) for level in levels)
    if len(levels) < 2 or not all(math.isfinite(level) and level > 0 for level in levels):
        raise ValueError(f"levels = {levels}: needs at least two positive finite values")
    at = _on_axis(dataset, "delta", float(np.max(dataset["delta"].values)) if delta is None else delta)
    cells = dataset["epsilon"].sel(delta=at).drop_duplicates(...).sortby(list(AXES))
    cells = _positive(cells, "sample_rate", "noise_multiplier")
    rates, noises = cells["sample_rate"].values, cells["noise_multiplier"].values
    if len(rates) < 2 or len(noises) < 2:
        return _epsilon_lines(dataset, cells, at, steps)
    chosen = _panels(dataset, steps)
    rows = math.ceil(len(chosen) / PANELS_PER_ROW)
    columns = math.ceil(len(chosen) / rows)
    width = max(NARROWEST, 2.55 * columns + 1.35)
    figure, axes = new_figure(width, 1.3 + 3.0 * rows, rows, columns, share=True)
    from matplotlib.colors import LogNorm

    norm = LogNorm(levels[0], levels[-1])
    for place, (axis, n_steps) in enumerate(zip(axes, chosen, strict=False)):
        values = cells.sel(steps=n_steps).transpose("noise_multiplier", "sample_rate").values
        filled = _draw_panel(axis, rates, noises, values, levels, norm)
        axis.set_title(f"{n_steps:,} steps", fontsize=MEDIUM)
        axis.tick_params(labelleft=place % columns == 0, labelbottom=place + columns >= len(chosen))
    for axis in axes[len(chosen) :]:
        axis.remove()
    figure.supylabel(AXES["noise_multiplier"], fontsize=MEDIUM)
    figure.supxlabel(AXES["sample_rate"], fontsize=MEDIUM)
    _headline(figure, dataset, at)
    bar = figure.colorbar(filled, ax=axes[: len(chosen)], extend="both", pad=0.015, aspect=28)
    bar.set_label("epsilon", fontsize=MEDIUM)
    bar.set_ticks(levels, labels=[f"{level:g}" for level in levels])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=SMALL)
    return figure


def _epsilon_lines(dataset: xr.Dataset, cells: xr.DataArray, delta: float, steps: Sequence[int] | int | None) -> Figure:
    """Epsilon over the only axis that has several values, one line per number of steps."""
    over = next((name for name in ("sample_rate", "noise_multiplier") if cells[name].size > 1), "steps")
    if over == "steps":
        cells = _positive(cells, over)
    places = cells[over].values
    if len(places) < 2:
        raise ValueError("sample_rate, noise_multiplier, steps: a picture needs two positive finite values on one axis")
    figure, (axis,) = new_figure(NARROWEST, 4.3)
    chosen = [0] if over == "steps" else _panels(dataset, steps)
    drawn = []
    for n_steps, color in zip(chosen, palette(len(chosen)), strict=True):
        seen = (cells if over == "steps" else cells.sel(steps=n_steps)).values.reshape(-1)
        keep = np.isfinite(seen) & (seen > 0.0)
        drawn += seen[keep].tolist()
        axis.plot(places[keep], seen[keep], "o-", color=color, linewidth=1.6, markersize=3, label=f"{n_steps:,} steps")
    if not drawn:
        raise ValueError("epsilon is 0 or infinite in every cell: nothing to draw")
    log_scale(axis, axis.xaxis, places[0], places[-1])
    log_scale(axis, axis.yaxis, min(drawn) * 0.9, max(drawn) * 1.1)
    name_axes(axis, AXES[over], "epsilon")
    if over != "steps":
        legend(figure, axis, len(chosen))
    one = [f"{AXES[name]} {dataset[name].item():g}" for name in AXES if name != over and dataset[name].size == 1]
    _headline(figure, dataset, delta, ", ".join(one))
    return figure


def _positive(cells: xr.DataArray, *names: str) -> xr.DataArray:
    """The cells at what a logarithmic axis can show; at one place where it can show none."""
    for name in names:
        shown = np.flatnonzero(np.isfinite(cells[name].values) & (cells[name].values > 0))
        cells = cells.isel({name: shown if len(shown) else [0]})
    return cells


def _panels(dataset: xr.Dataset, steps: Sequence[int] | int | None) -> list[int]:
    if steps is None:
        available = np.unique(dataset["steps"].values)
        return [int(available[place]) for place in sorted({0, len(available) // 2, len(available) - 1})]
    asked = list(steps) if isinstance(steps, Sequence | np.ndarray) else [steps]
    if asked:
        return [_on_axis(dataset, "steps", value) for value in asked]
    raise ValueError("steps is empty: a picture needs at least one panel")


def _on_axis(dataset: xr.Dataset, name: str, value: T) -> T:
    """`value`, if the axis has it (exactly once: a repeated value would give a panel two answers)."""
    coordinate = dataset[name].values
    count = int(np.count_nonzero(coordinate == value))
    if count != 1:
        nearest = coordinate[np.argmin(np.abs(coordinate - value))]
        problem = "is not on the axis" if count == 0 else "is repeated on the axis"
        raise ValueError(f"{name} = {value}: {problem} of the sweep; the nearest value there is {nearest}")
    return value


def _draw_panel(
    axis: Axes, rates: Cells, noises: Cells, values: Cells, levels: Sequence[float], norm: LogNorm
) -> QuadContourSet:
    # Zero and infinity have no logarithm; far outside the levels they fall under the colour bar's two ends.
    finite = np.clip(values, levels[0] * 1e-6, levels[-1] * 1e6)
    log_scale(axis, axis.xaxis, rates[0], rates[-1])
    log_scale(axis, axis.yaxis, noises[0], noises[-1], base=2)
    fine = np.geomspace(levels[0], levels[-1], 97)
    filled = axis.contourf(rates, noises, finite, levels=fine, norm=norm, cmap="viridis_r", extend="both")
    crossed = [level for level in levels if finite.min() < level < finite.max()]
    if not crossed:
        return filled
    # Lines are interpolated in log(epsilon), which spans decades from one cell to the next.
    lines = axis.contour(
        rates, noises, np.log(finite), levels=np.log(crossed), colors="black", linewidths=0.8, linestyles="solid"
    )
    names = dict(zip(lines.levels, (f"{level:g}" for level in crossed), strict=True))
    middles = [place for path in lines.get_paths() if (place := _label_place(np.asarray(path.vertices), axis))]
    for text in axis.clabel(lines, fmt=names, fontsize=SMALL, inline=True, inline_spacing=4, manual=middles):
        text.set_bbox({"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75})
    return filled


def _label_place(vertices: Cells, axis: Axes) -> tuple[float, float] | None:
    """Half way along a line as it is seen, far from the frame; None where the line is too short for its label."""
    if len(vertices) < 2:
        return None
    seen = axis.transAxes.inverted().transform(axis.transData.transform(vertices))
    travelled = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(seen, axis=0).T))])
    if travelled[-1] < SHORTEST_LABELLED:
        return None
    x, y = vertices[int(np.searchsorted(travelled, travelled[-1] / 2))]
    return float(x), float(y)


def _headline(figure: Figure, dataset: xr.Dataset, delta: float, fixed: str = "") -> None:
    names = "neighbors", "accountant_summary", "guarantee"
    relation, accountant, guarantee = (str(dataset.attrs.get(name, f"unknown {name}")) for name in names)
    size = LARGE if figure.get_figwidth() >= 9 else MEDIUM
    room = int(TITLE_CHARACTERS * figure.get_figwidth() / size)
    first = f"DP-SGD epsilon at delta = {delta:g}, {guarantee} ({NEIGHBORS.get(relation, relation)})"
    lines = first, fixed, textwrap.shorten(accountant, 90)
    figure.suptitle("\n".join(part for line in lines for part in textwrap.wrap(line, room)), fontsize=size)


# -- curves ----------------------------------------------------------------------------------------------------------


def privacy_curves(curves: Sequence[PrivacyCurve], *, lowest_log10: float | None = None) -> Figure:
    """Draw delta over epsilon: one colour per run, adding a record dashed, the certified interval shaded.

    **Guarantee.** The lines are the certified upper bounds; the shade reaches down to the lower bounds and is rarely
    visible.

    What all runs share stands in the title, what they differ in beside the curves.  The vertical axis ends at
    10^`lowest_log10`, or where the first curve ends that ends.  ValueError without any curve.

    Examples
    --------
    >>> from fastacct.curve import Run, privacy_curve
    >>> figure = privacy_curves([privacy_curve(Run(1.0, 0.01, 100), way, points=9) for way in ("remove", "add")])
    """
    labels, shared = _labels(curves)
    ways = list(dict.fromkeys(curve.direction for curve in curves))
    figure, (axis,) = new_figure(NARROWEST, 4.3)
    colors = dict(zip(labels, palette(len(labels)), strict=True))
    uppers = [curve.log_delta_upper / math.log(10.0) for curve in curves]
    if lowest_log10 is None:
        lowest_log10 = max(float(upper[np.isfinite(upper)].min(initial=0.0)) for upper in uppers)
    floor = min(lowest_log10, -1.0)
    for curve, upper in zip(curves, uppers, strict=True):
        lower = np.clip(curve.log_delta_lower / math.log(10.0), 2 * floor, 0.0)
        seen = np.clip(upper, 2 * floor, 0.0)
        axis.fill_between(curve.epsilon, lower, seen, color=colors[curve.run], alpha=0.2, linewidth=0)
        axis.plot(curve.epsilon, seen, DASHES[curve.direction], color=colors[curve.run], linewidth=1.6)
    entries = [(labels[run], "-", colors[run]) for run in labels if len(labels) > 1]
    entries += [(f"{way} a record", DASHES[way], (0.0, 0.0, 0.0, 1.0)) for way in ways]
    for label, dash, color in entries:
        axis.plot([], [], dash, color=color, linewidth=1.6, label=label)
    axis.set_ylim(floor, 0.0)
    axis.set_xlim(0.0, max(float(curve.epsilon[-1]) for curve in curves))
    name_axes(axis, "epsilon", "delta")
    from matplotlib.ticker import MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axis.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$" if value else "1")
    legend(figure, axis, len(entries))
    figure.suptitle(f"Certified privacy curves (Poisson sampling)\n{shared}".strip(), fontsize=MEDIUM)
    return figure


def tradeoff_curves(curves: Sequence[TradeoffCurve]) -> Figure:
    """Draw the errors of the best attack, and its true-positive rate at small false-positive rates.

    **Guarantee.** No attack is below a line on the left, or above it on the right.  ValueError without any curve.
    """
    labels, shared = _labels(curves)
    figure, (errors, power) = new_figure(9.0, 4.3, 1, 2)
    colors = dict(zip(labels, palette(len(labels)), strict=True))
    smallest = max(min(float(curve.fpr[curve.fpr > 0.0].min(initial=1.0)) for curve in curves), 1e-12)
    for curve in curves:
        label = labels[curve.run] if len(labels) > 1 else "best attack"
        errors.plot(curve.fpr, curve.fnr_lower, color=colors[curve.run], linewidth=1.6, label=label)
        power.plot(curve.fpr, curve.tpr_upper, color=colors[curve.run], linewidth=1.6, label=label)
    errors.plot([0.0, 1.0], [1.0, 0.0], ":", color="grey", label="guessing")
    power.plot([smallest, 1.0], [smallest, 1.0], ":", color="grey", label="guessing")
    errors.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    for side in (power.xaxis, power.yaxis):
        log_scale(power, side, smallest, 1.0)
    for axis, name in ((errors, "smallest false-negative rate"), (power, "largest true-positive rate")):
        name_axes(axis, "false-positive rate", name)
    legend(figure, errors if len(curves) < LEGEND_INSIDE else power, len(curves) + 1)
    figure.suptitle(f"Certified limits of every attack (Poisson sampling)\n{shared}".strip(), fontsize=MEDIUM)
    return figure


def _labels(curves: Sequence[PrivacyCurve] | Sequence[TradeoffCurve]) -> tuple[dict[Run, str], str]:
    """What each run is called (by what it does not share with the others), and what all share."""
    if not curves:
        raise ValueError("curves is empty: nothing to draw")
    runs = list(dict.fromkeys(curve.run for curve in curves))
    differs = [len(set(values)) > 1 for values in zip(*runs, strict=True)]
    labels = {run: ", ".join(itertools.compress(run.words(), differs)) for run in runs}
    return labels, ", ".join(word for word, other in zip(runs[0].words(), differs, strict=True) if not other)


# -- tightness -------------------------------------------------------------------------------------------------------


def tightness(studies: Mapping[str, Sequence[Score]]) -> Figure:
    """Draw how far the epsilon of each accountant is from the truth, one panel per regime of {regime: scores}.

    **Guarantee.** Ratios are taken where the truth is known to 1e-6; what is below the certified lower bound is red.
    ValueError without any score.
    """
    names = list(dict.fromkeys(entry.contender for scores in studies.values() for entry in scores))
    if not names:
        raise ValueError("studies is empty: nothing to draw")
    figure, axes = new_figure(max(NARROWEST, 4.8 * len(studies)), 1.6 + 0.28 * len(names), 1, len(studies), share=True)
    for axis, (regime, scores) in zip(axes, studies.items(), strict=True):
        axis.set_xscale("log")
        axis.set_xlim(*RATIOS)
        axis.axvspan(RATIOS[0], 1.0, color="#fbe3e1", linewidth=0)
        axis.axvline(1.0, color="black", linewidth=0.8)
        for entry in scores:
            _draw_ratios(axis, names.index(entry.contender), entry)
        axis.set_title(regime, fontsize=MEDIUM)
        axis.text(1.035, 1.02, "median", transform=axis.transAxes, fontsize=SMALL, va="bottom")
        axis.set_xticks([0.5, 1, 2, 5, 10, 100], labels=["0.5", "1", "2", "5", "10", "100"])
        axis.minorticks_off()
    axes[0].set_yticks(range(len(names)), labels=names, fontsize=SMALL)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel("epsilon / exact epsilon (dot: median; thick: 10 to 90 %; thin: all)", fontsize=MEDIUM)
    figure.suptitle("How tight each accountant is: red is below the truth", fontsize=LARGE)
    return figure


def _draw_ratios(axis: Axes, row: int, entry: Score) -> None:
    found, ratios = entry.summary, np.clip(entry.ratios, *RATIOS)
    color = "#1a7f37" if entry.contender.startswith("exact") else "#2f5d8c" if entry.claims_bound else "#8a6d1d"
    if ratios.size:
        for quantiles, width in (((0.0, 1.0), 1.0), ((0.1, 0.9), 5.0)):
            low, high = np.quantile(ratios, quantiles)
            axis.plot([low, high], [row, row], color=color, linewidth=width, solid_capstyle="butt")
            if found.below and low < 1.0:
                axis.plot([low, min(high, 1.0)], [row, row], color=WRONG, linewidth=width, solid_capstyle="butt")
        axis.plot([np.median(ratios)], [row], "o", color="white", markeredgecolor=color, markersize=5, clip_on=False)
    notes = [f"{found.median:,.2f}" if found.median < 100.0 else f"{found.median:,.0f}"] if found.judged else []
    for count, word in ((found.below, "below"), (found.failed, "fail")):
        share = count / found.asked
        notes += [f"{share:.0%} {word}" if share >= 0.01 else f"<1% {word}"] if count else []
    color = WRONG if found.below and entry.claims_bound else "black"
    place = axis.get_yaxis_transform()
    axis.text(1.035, row, ", ".join(notes), transform=place, va="center", fontsize=SMALL, color=color)
