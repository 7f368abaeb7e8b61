"""Pictures: sweeps, curves, and how tight each accountant is."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastacct._extras import import_extra
from fastacct._files import atomic_output

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastacct.curve import PrivacyCurve, TradeoffCurve
    from fastacct.tightness import Score

__all__ = ["epsilon_grid", "privacy_curves", "save", "tightness", "tradeoff_curves"]

LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DPI = 200
# Three panels are 9 inches wide: shown 900 pixels wide, the smallest text is still 12 pixels high.
SMALL, MEDIUM, LARGE = 9.0, 10.0, 12.0
TITLE_CHARACTERS = 130.0  # per inch of line and point of height
NARROWEST = 6.4
SHORTEST_LABELLED = 0.25  # of the width of a panel
WRONG = "#c62828"
RATIOS = (0.4, 300.0)
"""Horizontal axis of the tightness picture; what is outside is drawn at its ends."""
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


def privacy_curves(curves: Sequence[PrivacyCurve], *, lowest_log10: float | None = None) -> Figure:
    """Draw delta over epsilon: one colour per run, adding a record dashed, the certified interval shaded.

    Guarantee
    ---------
    The lines are the certified upper bounds; the shade reaches down to the lower bounds and is rarely visible.

    Parameters
    ----------
    curves : sequence of PrivacyCurve
    lowest_log10 : float, optional
        Lower end of the vertical axis. Default: where the first curve ends that ends.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        No curves.

    Examples
    --------
    >>> save(privacy_curves([privacy_curve(Run(1.0, 0.01, 1000))]), "curve.png")  # doctest: +SKIP
    """
    figure, (axis,) = _curve_figure(curves, 1)
    uppers = [curve.log_delta_upper / math.log(10.0) for curve in curves]
    if lowest_log10 is None:
        reached = [float(upper[np.isfinite(upper)].min(initial=0.0)) for upper in uppers]
        lowest_log10 = max(reached)
    floor = min(lowest_log10, -1.0)
    colors = _colors(curves)
    for curve, upper in zip(curves, uppers, strict=True):
        lower = np.clip(curve.log_delta_lower / math.log(10.0), 2 * floor, 0.0)
        seen = np.clip(upper, 2 * floor, 0.0)
        style = "--" if curve.direction == "add" else "-"
        axis.fill_between(curve.epsilon, lower, seen, color=colors[curve.run], alpha=0.2, linewidth=0)
        label = f"{curve.run}, {curve.direction}"
        axis.plot(curve.epsilon, seen, style, color=colors[curve.run], linewidth=1.6, label=label)
    axis.set_ylim(floor, 0.0)
    axis.set_xlim(0.0, max(float(curve.epsilon[-1]) for curve in curves))
    axis.set_xlabel("epsilon", fontsize=MEDIUM)
    axis.set_ylabel("delta", fontsize=MEDIUM)
    axis.yaxis.set_major_locator(_matplotlib("matplotlib.ticker").MaxNLocator(integer=True, nbins=8))
    axis.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$" if value else "1")
    axis.legend(fontsize=SMALL, frameon=False)
    figure.suptitle("Certified privacy curves (Poisson sampling)", fontsize=LARGE)
    return figure


def tradeoff_curves(curves: Sequence[TradeoffCurve]) -> Figure:
    """Draw the errors of the best attack, and its true-positive rate at small false-positive rates.

    Guarantee
    ---------
    No attack is below a line on the left, or above it on the right.

    Parameters
    ----------
    curves : sequence of TradeoffCurve

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        No curves.

    Examples
    --------
    >>> save(tradeoff_curves([tradeoff_curve(Run(1.0, 0.01, 1000))]), "tradeoff.png")  # doctest: +SKIP
    """
    figure, (errors, power) = _curve_figure(curves, 2)
    colors = _colors(curves)
    smallest = max(min(float(curve.fpr[curve.fpr > 0.0].min(initial=1.0)) for curve in curves), 1e-12)
    for curve in curves:
        style: dict[str, Any] = {"color": colors[curve.run], "linewidth": 1.6, "label": str(curve.run)}
        errors.plot(curve.fpr, curve.fnr_lower, **style)
        power.plot(curve.fpr, curve.tpr_upper, **style)
    guess = np.geomspace(smallest, 1.0, 2)
    errors.plot([0.0, 1.0], [1.0, 0.0], ":", color="grey", label="guessing")
    power.plot(guess, guess, ":", color="grey")
    power.set(xscale="log", yscale="log", xlim=(smallest, 1.0), ylim=(smallest, 1.0))
    errors.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    for axis, name in ((errors, "smallest false-negative rate"), (power, "largest true-positive rate")):
        axis.set_xlabel("false-positive rate", fontsize=MEDIUM)
        axis.set_ylabel(name, fontsize=MEDIUM)
    errors.legend(fontsize=SMALL, frameon=False)
    figure.suptitle("Certified limits of every attack (Poisson sampling)", fontsize=LARGE)
    return figure


def tightness(studies: Mapping[str, Sequence[Score]]) -> Figure:
    """Draw how far the epsilon of each accountant is from the truth, one panel per regime.

    Guarantee
    ---------
    Ratios are taken where the truth is known to 1e-6; what is below the certified lower bound is red.

    Parameters
    ----------
    studies : mapping of regime to sequence of Score

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        No scores.

    Examples
    --------
    >>> save(tightness({"everyday": scores}), "tightness.png")  # doctest: +SKIP
    """
    names = list(dict.fromkeys(entry.contender for scores in studies.values() for entry in scores))
    if not names:
        raise ValueError("studies is empty: nothing to draw")
    figure = _matplotlib("matplotlib.figure").Figure(figsize=(9.6, 1.6 + 0.28 * len(names)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(studies), sharex=True, sharey=True))
    for axis, (regime, scores) in zip(axes, studies.items(), strict=True):
        axis.set_xscale("log")
        axis.set_xlim(*RATIOS)
        axis.axvspan(RATIOS[0], 1.0, color="#fbe3e1", linewidth=0)
        axis.axvline(1.0, color="black", linewidth=0.8)
        for entry in scores:
            _draw_ratios(axis, names.index(entry.contender), entry)
        axis.set_title(regime, fontsize=MEDIUM)
        axis.text(1.02, 1.02, "median", transform=axis.transAxes, fontsize=SMALL, va="bottom")
        axis.set_xticks([0.5, 1, 2, 5, 10, 100], labels=["0.5", "1", "2", "5", "10", "100"])
        axis.minorticks_off()
        axis.tick_params(labelsize=SMALL)
    axes[0].set_yticks(range(len(names)), labels=names, fontsize=SMALL)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel("epsilon / exact epsilon (dot: median; thick: 10 to 90 %; thin: all)", fontsize=MEDIUM)
    figure.suptitle("How tight each accountant is: red is below the truth", fontsize=LARGE)
    return figure  # type: ignore[no-any-return]


def _draw_ratios(axis: Axes, row: int, entry: Score) -> None:
    found, ratios = entry.summary, np.clip(entry.ratios, *RATIOS)
    color = "#1a7f37" if entry.contender.startswith("exact") else "#2f5d8c" if entry.claims_bound else "#8a6d1d"
    if ratios.size:
        for quantiles, width in (((0.0, 1.0), 1.0), ((0.1, 0.9), 5.0)):
            low, high = np.quantile(ratios, quantiles)
            style: dict[str, Any] = {"linewidth": width, "solid_capstyle": "butt"}
            axis.plot([low, high], [row, row], color=color, **style)
            if found.below and low < 1.0:
                axis.plot([low, min(high, 1.0)], [row, row], color=WRONG, **style)
        axis.plot([np.median(ratios)], [row], "o", color="white", markeredgecolor=color, markersize=5)
    notes = [f"{found.median:,.2f}" if found.median < 100.0 else f"{found.median:,.0f}"] if found.judged else []
    notes += [f"{_percent(found.below / found.asked)} below"] if found.below else []
    notes += [f"{_percent(found.failed / found.asked)} fail"] if found.failed else []
    place: dict[str, Any] = {"transform": axis.get_yaxis_transform(), "va": "center", "fontsize": SMALL}
    axis.text(1.02, row, ", ".join(notes), color=WRONG if found.below and entry.claims_bound else "black", **place)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "<1%"


def _curve_figure(curves: Sequence[Any], panels: int) -> tuple[Figure, Any]:
    if not curves:
        raise ValueError("curves is empty: nothing to draw")
    width = 6.4 if panels == 1 else 9.0
    figure = _matplotlib("matplotlib.figure").Figure(figsize=(width, 4.3), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, panels))
    for axis in axes:
        axis.tick_params(labelsize=SMALL)
        axis.grid(True, color="#dddddd", linewidth=0.6)
    return figure, axes


def _colors(curves: Sequence[Any]) -> dict[Any, Any]:
    """One colour per run, the same in both directions."""
    runs = list(dict.fromkeys(curve.run for curve in curves))
    colors = _matplotlib("matplotlib").colormaps["viridis"](np.linspace(0.0, 0.85, len(runs)))
    return dict(zip(runs, colors, strict=True))


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
