"""Pictures of curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.plot.figures import MEDIUM, WITH_LEGEND, legend, log_scale, name_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastacct.curve import PrivacyCurve, Run, TradeoffCurve

__all__ = ["privacy_curves", "tradeoff_curves"]

Color = tuple[float, float, float, float]
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
