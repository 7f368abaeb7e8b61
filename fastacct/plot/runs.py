"""Pictures of DP-SGD runs: delta over epsilon, epsilon over epochs, the noise for a target, what an attack can do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

import fastacct.dpsgd as dpsgd
from fastacct.accountants import RDP
from fastacct.core.inputs import Cells, Reals
from fastacct.core.relations import Relation
from fastacct.core.rounding import digits_up
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.mechanisms.guarantee import ApproxDP
from fastacct.plot.figures import SMALL, WIDE, colors, finished, legend, log_scale, name_axes, panel, power, styled
from fastacct.plot.grids import draw_levels
from fastacct.tradeoff import tpr_at_fpr

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastacct.accountants.question import Job
    from fastacct.curve import PrivacyCurve

_NAMED: Final = {
    "noise_multiplier": "Noise multiplier",
    "noise_on_mean": "Noise on the mean gradient (over the clipping norm)",
    "noise_on_average": "Noise on the average gradient of the run",
    "tpr_at_1_percent": "True positives at 1 % false positives",
}
_DASHES: Final = {"remove": "-", "add": "--"}


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
    runs = dict.fromkeys(curve.run for curve in curves)
    color = dict(zip(runs, colors(len(runs), "curves"), strict=True))
    axis = panel(width=WIDE)
    bounds = [np.stack([curve.log_delta_lower, curve.log_delta_upper]) / math.log(10.0) for curve in curves]
    floor = min(-1.0, max(float(upper[np.isfinite(upper)].min(initial=0.0)) for _, upper in bounds))
    for curve, both in zip(curves, bounds, strict=True):
        lower, upper = np.clip(both, 2 * floor, 0.0)
        axis.fill_between(curve.epsilon, lower, upper, color=color[curve.run], alpha=0.2, linewidth=0)
        axis.plot(curve.epsilon, upper, _DASHES[curve.direction], color=color[curve.run], linewidth=1.6)
    entries = [(str(run), "-", own) for run, own in color.items()]
    ways = dict.fromkeys(curve.direction for curve in curves)
    entries += [(f"{way} a record", _DASHES[way], (0.0, 0.0, 0.0, 1.0)) for way in ways]
    for label, dash, own in entries:
        axis.plot([], [], dash, color=own, linewidth=1.6, label=label)
    axis.set(xlim=(0.0, max(float(curve.epsilon[-1]) for curve in curves)), ylim=(floor, 0.0))
    name_axes(axis, "epsilon", "delta")
    from matplotlib.ticker import MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axis.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$" if value else "1")
    figure = finished(axis, "Certified privacy curves (Poisson sampling)")
    legend(figure, len(entries))
    return figure


def epsilon_over_epochs(
    noise_multiplier: Sequence[float],
    *,
    records: int,
    batch_size: int,
    epochs: Sequence[float],
    delta: float,
    axis: Axes | None = None,
) -> Figure:
    """Draw the exact epsilon over the epochs, a line per noise multiplier; thin: what Rényi DP proves.

    **Guarantee.** Certified upper bounds, Poisson sampling, add or remove.  `axis`: draw there, in a figure of yours.

    Examples
    --------
    >>> figure = epsilon_over_epochs([0.8, 1.0], records=50_000, batch_size=512, epochs=[1, 10, 100], delta=1e-5)
    """
    axis, seen = panel(axis), []
    x, rate = np.sort(np.asarray(epochs, dtype=np.float64)), batch_size / records
    for _, noise, color, dash in styled({repr(one): one for one in noise_multiplier}, "noise_multiplier"):
        for accountant, width in ((None, 2.2), (RDP(), 0.8)):
            y = dpsgd.epsilon(noise_multiplier=noise, sample_rate=rate, epochs=x, delta=delta, accountant=accountant)
            axis.plot(x, y, dash if width > 1.0 else "-", color=color, linewidth=width)
            seen.append(np.asarray(y))
        axis.text(x[-1], float(seen[-2][-1]), f" $\\sigma$ = {noise:g}", color=color, fontsize=SMALL, va="center")
    log_scale(axis, axis.xaxis, float(x[0]), float(x[-1]))
    log_scale(axis, axis.yaxis, 0.8 * float(np.min(seen)), 1.2 * float(np.max(seen)))
    name_axes(axis, "epochs", rf"$\varepsilon$ at $\delta = {power(delta)}$")
    return finished(axis, "Privacy spent (thin: Rényi DP)")


def noise_map(
    *,
    epsilon: float,
    delta: float,
    records: int,
    batch_size: Sequence[int],
    epochs: Sequence[float],
    levels: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0),
    axis: Axes | None = None,
) -> Figure:
    """Draw the smallest noise multiplier that meets a target, over batch size and epochs.

    **Guarantee.** Each point of the grid meets the target, Poisson sampling, add or remove; lines are interpolated.

    Examples
    --------
    >>> figure = noise_map(epsilon=3.0, delta=1e-5, records=50_000, batch_size=[64, 512, 4096], epochs=[1, 10, 100])
    """
    axis = panel(axis)
    x, y = (np.sort(np.asarray(one, dtype=np.float64)) for one in (epochs, batch_size))
    found = dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, records=records, batch_size=y[:, None], epochs=x)
    draw_levels(axis, x, y, np.asarray(found), _around(levels, np.asarray(found)))
    name_axes(axis, "epochs", f"batch size (of {records:,})", grid=False)
    return finished(axis, rf"Noise multiplier for $\varepsilon = {epsilon:g}$, $\delta = {power(delta)}$")


def plan(table: pd.DataFrame, column: str = "noise_on_mean", *, axis: Axes | None = None) -> Figure:
    """Draw a column of `fastacct.plan` over batch size and epochs; dots: rows on the front.

    **Guarantee.** Each row of the table meets the target; lines are interpolated between them.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(records=50_000, epsilon=3.0, delta=1e-5)
    >>> figure = plan(fa.plan(**run, batch_sizes=[64, 512, 4096], epochs=[1, 10, 100]))
    """
    if column not in table.columns:
        raise ValueError(f"column = {column!r} is not one of {', '.join(table.columns[3:-1])}")
    cells = table.pivot(index="batch_size", columns="epochs", values=column)
    values = cells.to_numpy()
    if min(cells.shape) < 2 or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"a map needs two batch sizes, two numbers of epochs and positive finite {column}")
    axis = panel(axis)
    x, y = (np.asarray(one, dtype=np.float64) for one in (cells.columns, cells.index))
    tens = range(math.floor(math.log10(values.min())), math.ceil(math.log10(values.max())))
    round_ones = [digit * 10.0**k for k in tens for digit in (1, 1.5, 2, 3, 5, 7)] + [10.0**tens.stop]
    draw_levels(axis, x, y, values, _around(round_ones, values))
    front = table[table["on_front"]]
    axis.plot(front["epochs"], front["batch_size"], "o", color="#d55e00", markersize=4, clip_on=False)
    name_axes(axis, "epochs", f"batch size (of {table.attrs['records']:,.0f})", grid=False)
    goal = rf"$\varepsilon = {table.attrs['epsilon']:g}$, $\delta = {power(table.attrs['delta'])}$"
    return finished(axis, f"{_NAMED.get(column, column)} for {goal}")


def tradeoff(
    jobs: dict[str, Job],
    *,
    delta: float = 1e-5,
    smallest: float = 1e-4,
    axis: Axes | None = None,
    marked: Reals = (),
    neighbors: Relation = "add_remove",
    thin: bool = True,
) -> Figure:
    """Draw the largest true-positive rate of any attack; thin: what (epsilon, delta) alone would allow.

    **Guarantee.** No attack is above a line.  `marked`: false-positive rates with a labelled point.

    Examples
    --------
    >>> import fastacct as fa
    >>> figure = tradeoff({"my run": fa.Gaussian(1.0408).poisson(512 / 50_000) * 2930}, marked=[0.01])
    """
    axis = panel(axis)
    fpr = np.geomspace(smallest, 1.0, 61)
    for name, job, color, dash in styled(jobs, "jobs"):
        axis.plot(fpr, tpr_at_fpr(job, fpr, neighbors=neighbors), dash, color=color, linewidth=2.2, label=name)
        if thin:
            epsilon = float(smallest_epsilon(job, delta=delta, neighbors=neighbors))
            axis.plot(fpr, tpr_at_fpr(ApproxDP(epsilon, delta), fpr), color=color, linewidth=0.8)
        for at in np.atleast_1d(np.asarray(marked, dtype=np.float64)).tolist():
            found = float(tpr_at_fpr(job, at, neighbors=neighbors))
            axis.plot([at], [found], "o", color=color, markersize=4)
            note = f"{digits_up(100.0 * found, 3)} % at {100.0 * at:g} %"
            axis.annotate(note, (at, found), (-6, 5), textcoords="offset points", ha="right", fontsize=SMALL)
    axis.plot([smallest, 1.0], [smallest, 1.0], ":", color="grey", label="guessing")
    for side in (axis.xaxis, axis.yaxis):
        log_scale(axis, side, smallest, 1.0)
    name_axes(axis, "false-positive rate", "true-positive rate (at most)")
    return finished(axis, r"What an attack can do (thin: by $\varepsilon$, $\delta$ alone)", "lower right")


def _around(levels: Sequence[float], values: Cells) -> Sequence[float]:
    """Those levels between which the values are: the colours are for these alone."""
    low, high = (np.searchsorted(levels, end) for end in (values.min(), values.max()))
    return levels[max(0, min(low - 1, len(levels) - 2)) : high + 1]
