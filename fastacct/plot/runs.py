"""Pictures of DP-SGD runs: epsilon over epochs, the noise that a target asks for, what an attack can do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Final

import numpy as np

import fastacct.dpsgd as dpsgd
from fastacct.accountants import RDP
from fastacct.core.inputs import Reals
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.mechanisms.guarantee import ApproxDP
from fastacct.plot.figures import MEDIUM, NARROWEST, SMALL, log_scale, name_axes, new_figure
from fastacct.tradeoff import tpr_at_fpr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastacct.accountants.question import Job

__all__ = ["epsilon_over_epochs", "noise_map", "tradeoff"]

_STYLES: Final = (("#0072b2", "-"), ("#d55e00", "--"), ("#009e73", "-."), ("#cc79a7", ":"))
"""Colours that people tell apart (Okabe, Ito), and dashes for those who do not."""


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
    axis = _axis(axis)
    x = np.sort(np.asarray(epochs, dtype=np.float64))
    seen = []
    for noise, (color, dash) in zip(noise_multiplier, cycle(_STYLES)):
        for accountant, width in ((None, 2.2), (RDP(), 0.8)):
            y = dpsgd.epsilon(
                noise_multiplier=noise,
                records=records,
                batch_size=batch_size,
                epochs=x,
                delta=delta,
                accountant=accountant,
            )
            axis.plot(x, y, dash if width > 1.0 else "-", color=color, linewidth=width)
            seen.append(np.asarray(y))
        axis.text(x[-1], float(seen[-2][-1]), f" $\\sigma$ = {noise:g}", color=color, fontsize=SMALL, va="center")
    log_scale(axis, axis.xaxis, float(x[0]), float(x[-1]))
    log_scale(axis, axis.yaxis, 0.8 * float(np.min(seen)), 1.2 * float(np.max(seen)))
    name_axes(axis, "epochs", rf"$\varepsilon$ at $\delta$ = {delta:g}")
    axis.set_title("Privacy spent (thin: Rényi DP)", fontsize=MEDIUM)
    return _figure(axis)


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
    axis = _axis(axis)
    x, y = (np.sort(np.asarray(one, dtype=np.float64)) for one in (epochs, batch_size))
    found = dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, records=records, batch_size=y[:, None], epochs=x)
    values = np.log(np.maximum(np.asarray(found), 1e-3))
    axis.contourf(x, y, values, levels=np.log(levels), cmap="cividis", extend="both")
    lines = axis.contour(x, y, values, levels=np.log(levels), colors="white", linewidths=0.8, linestyles="solid")
    axis.clabel(lines, fmt=lambda level: f"{np.exp(level):g}", fontsize=SMALL)
    log_scale(axis, axis.xaxis, float(x[0]), float(x[-1]))
    log_scale(axis, axis.yaxis, float(y[0]), float(y[-1]))
    name_axes(axis, "epochs", f"batch size (of {records:,})")
    axis.set_title(rf"Noise multiplier for $\varepsilon$ = {epsilon:g}, $\delta$ = {delta:g}", fontsize=MEDIUM)
    return _figure(axis)


def tradeoff(
    jobs: dict[str, Job], *, delta: float = 1e-5, smallest: float = 1e-4, axis: Axes | None = None, marked: Reals = ()
) -> Figure:
    """Draw the largest true-positive rate of any attack; thin: what (epsilon, delta) alone would allow.

    **Guarantee.** No attack is above a line, add or remove.  `marked`: false-positive rates with a labelled point.

    Examples
    --------
    >>> import fastacct as fa
    >>> figure = tradeoff({"my run": fa.Gaussian(1.0408).poisson(512 / 50_000) * 2930}, marked=[0.01])
    """
    axis, fpr = _axis(axis), np.geomspace(smallest, 1.0, 61)
    for (name, job), (color, dash) in zip(jobs.items(), cycle(_STYLES)):
        epsilon = float(smallest_epsilon(job, delta=delta))
        axis.plot(fpr, tpr_at_fpr(job, fpr), dash, color=color, linewidth=2.2, label=name)
        axis.plot(fpr, tpr_at_fpr(ApproxDP(epsilon, delta), fpr), color=color, linewidth=0.8)
        for at in np.atleast_1d(np.asarray(marked, dtype=np.float64)).tolist():
            found = float(tpr_at_fpr(job, at))
            axis.plot([at], [found], "o", color=color, markersize=4)
            axis.annotate(f"{found:.1%} at {at:.3g}", (at, found), (6, -12), textcoords="offset points", fontsize=SMALL)
    axis.plot([smallest, 1.0], [smallest, 1.0], ":", color="grey", label="guessing")
    for side in (axis.xaxis, axis.yaxis):
        log_scale(axis, side, smallest, 1.0)
    name_axes(axis, "false-positive rate", "true-positive rate (at most)")
    axis.legend(fontsize=SMALL, frameon=False, loc="lower right")
    axis.set_title(r"What an attack can do (thin: by $\varepsilon$, $\delta$ alone)", fontsize=MEDIUM)
    return _figure(axis)


def _axis(axis: Axes | None) -> Axes:
    return new_figure(NARROWEST, 4.3)[1][0] if axis is None else axis


def _figure(axis: Axes) -> Figure:
    figure: Figure = axis.get_figure()  # type: ignore[assignment]
    return figure
