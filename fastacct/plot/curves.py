"""Pictures of curves, and of how tight each accountant is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.plot.figures import LARGE, MEDIUM, NARROWEST, SMALL, WITH_LEGEND, legend, log_scale, name_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastacct.curve import PrivacyCurve, Run, TradeoffCurve
    from fastacct.tightness import Score

__all__ = ["privacy_curves", "tightness", "tradeoff_curves"]

Color = tuple[float, float, float, float]
WRONG: Final = "#c62828"
RATIOS: Final = (0.4, 300.0)
DASHES: Final = {"remove": "-", "add": "--"}


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
    figure, (axis,) = new_figure(WITH_LEGEND, 4.3)
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
    name_axes(axis, "epsilon", "delta")
    from matplotlib.ticker import MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axis.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$" if value else "1")
    legend(figure, len(entries))
    figure.suptitle("Certified privacy curves (Poisson sampling)", fontsize=MEDIUM)
    return figure


def tradeoff_curves(curves: Sequence[TradeoffCurve]) -> Figure:
    """Draw the errors of the best attack, and its true-positive rate at small false-positive rates.

    **Guarantee.** No attack is below a line on the left, or above it on the right.  ValueError without any curve.
    """
    colors = _colors(curves)
    figure, (errors, power) = new_figure(1.4 * WITH_LEGEND, 4.3, 1, 2)
    smallest = max(min(float(curve.fpr[curve.fpr > 0.0].min(initial=1.0)) for curve in curves), 1e-12)
    for curve in curves:
        errors.plot(curve.fpr, curve.fnr_lower, color=colors[curve.run], linewidth=1.6, label=str(curve.run))
        power.plot(curve.fpr, curve.tpr_upper, color=colors[curve.run], linewidth=1.6)
    errors.plot([0.0, 1.0], [1.0, 0.0], ":", color="grey", label="guessing")
    power.plot([smallest, 1.0], [smallest, 1.0], ":", color="grey")
    errors.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    for side in (power.xaxis, power.yaxis):
        log_scale(power, side, smallest, 1.0)
    for axis, name in ((errors, "smallest false-negative rate"), (power, "largest true-positive rate")):
        name_axes(axis, "false-positive rate", name)
    legend(figure, len(curves) + 1)
    figure.suptitle("Certified limits of every attack (Poisson sampling)", fontsize=MEDIUM)
    return figure


def _colors(curves: Sequence[PrivacyCurve] | Sequence[TradeoffCurve]) -> dict[Run, Color]:
    if not curves:
        raise ValueError("curves is empty: nothing to draw")
    runs = dict.fromkeys(curve.run for curve in curves)
    viridis = import_extra("matplotlib", "plot").colormaps["viridis"]
    return dict(zip(runs, map(viridis, np.linspace(0.0, 0.85, len(runs))), strict=True))


def tightness(studies: Mapping[str, Sequence[Score]]) -> Figure:
    """Draw how far the epsilon of each accountant is from the truth, one panel per regime of {regime: scores}.

    **Guarantee.** Ratios are taken where the truth is known to 1e-6; what is left of the line is below the truth.
    ValueError without any score.
    """
    names = list(dict.fromkeys(entry.contender for scores in studies.values() for entry in scores))
    if not names:
        raise ValueError("studies is empty: nothing to draw")
    figure, axes = new_figure(max(NARROWEST, 4.8 * len(studies)), 1.6 + 0.28 * len(names), 1, len(studies), share=True)
    for axis, (regime, scores) in zip(axes, studies.items(), strict=True):
        log_scale(axis, axis.xaxis, *RATIOS)
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
