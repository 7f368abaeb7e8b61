"""Pictures of accuracy beside privacy, of privacy losses, and of networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastacct.plot.figures import MEDIUM, NARROWEST, SMALL, Color, colors, log_scale, name_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastacct.curve import AccuracyCurve
    from fastacct.mechanisms.error import ErrorLaw
    from fastacct.network import NetworkGain
    from fastacct.privacy_loss import PrivacyLoss


def accuracy(curves: Mapping[str, AccuracyCurve]) -> Figure:
    """Draw epsilon over the error, a line per mechanism: left and down is better.

    **Guarantee.** Epsilons are certified upper bounds, errors are exact or bounds, as `fastacct.utility` says.

    `curves` are made by `fastacct.curve.accuracy_curve`; their order is that of the legend.  ValueError without any.

    Examples
    --------
    >>> import fastacct as fa
    >>> noises = [0.5, 1.0, 2.0, 4.0]
    >>> curves = {one.__name__: fa.curve.accuracy_curve(one, noises, delta=1e-6) for one in (fa.Laplace, fa.Gaussian)}
    >>> figure = accuracy(curves)
    """
    figure, axis, palette = _lines(curves, "curves")
    for (name, curve), color in zip(curves.items(), palette, strict=True):
        axis.plot(curve.error, curve.epsilon, color=color, linewidth=1.6, label=name)
    errors, epsilons = (
        np.concatenate([getattr(one, side) for one in curves.values()]) for side in ("error", "epsilon")
    )
    _log_plane(axis, errors.tolist(), epsilons.tolist())
    chances = {one.beta for one in curves.values()}
    said = f" with probability {chances.pop():g}" if len(chances) == 1 else ""
    name_axes(axis, f"error that is exceeded{said}", "epsilon (certified upper bound)")
    return _finished(figure, axis, "Accuracy and privacy over the noise")


def prefix_error(errors: Mapping[str, ErrorLaw], steps: Sequence[int]) -> Figure:
    """Draw the standard deviation of the noise in each prefix sum of a stream, over the step.

    `errors` are those of `fastacct.utility(tree, step=steps)`.  ValueError without any, or of other lengths.

    Examples
    --------
    >>> import fastacct as fa
    >>> steps = list(range(1, 65))
    >>> figure = prefix_error({"tree": fa.utility(fa.TreeAggregation(1.0, 64), step=steps)}, steps)
    """
    figure, axis, palette = _lines(errors, "errors")
    for (name, law), color in zip(errors.items(), palette, strict=True):
        height = np.broadcast_to(np.asarray(law.root_mean_square, dtype=np.float64), (len(steps),))
        axis.step(steps, height, where="mid", color=color, linewidth=1.4, label=name)
    axis.set_ylim(bottom=0.0)
    name_axes(axis, "step", "standard deviation of the sum's noise")
    return _finished(figure, axis, "Noise of prefix sums")


def network_gain(gains: Mapping[str, Mapping[int, NetworkGain]]) -> Figure:
    """Draw epsilon over the number of parties: for one participant, and dotted for an observer of every message.

    `gains` has for each line {number of parties: `fastacct.network_gain(...)`}.  ValueError without any.

    Examples
    --------
    >>> import fastacct as fa
    >>> sizes = (10, 100, 1000)
    >>> gains = {n: fa.network_gain(fa.GradientWalk(4.0, 10, n), delta=1e-6) for n in sizes}
    >>> figure = network_gain({"gradient steps": gains})
    """
    figure, axis, palette = _lines(gains, "gains")
    for (name, line), color in zip(gains.items(), palette, strict=True):
        sizes = sorted(line)
        axis.plot(sizes, [line[n].network for n in sizes], "-o", color=color, markersize=3.5, label=name)
        axis.plot(sizes, [line[n].local for n in sizes], ":", color=color)
    axis.plot([], [], "k:", label="every message seen (local)")
    every = [n for line in gains.values() for n in line]
    values = [x for line in gains.values() for one in line.values() for x in one if 0.0 < x < math.inf]
    _log_plane(axis, every, values)
    name_axes(axis, "parties", "epsilon (certified upper bound)")
    return _finished(figure, axis, "What one participant learns")


def privacy_loss(losses: Mapping[str, PrivacyLoss], *, smallest: float = 1e-6) -> Figure:
    """Draw the probability that the loss is above epsilon, down to `smallest`.

    **Guarantee.** Lines are certified upper bounds.  Dashed: exp(-(epsilon - mu)^2 / (2 tau^2)), what
    mean-concentrated DP with the loss's own mu and tau says.  ValueError without any loss.

    Examples
    --------
    >>> import fastacct as fa
    >>> figure = privacy_loss({"Laplace, 10 times": fa.privacy_loss(fa.Laplace(1.0) * 10)})
    """
    figure, axis, palette = _lines(losses, "losses")
    for (name, loss), color in zip(losses.items(), palette, strict=True):
        ends = float(loss.quantile(0.999).lower), float(loss.quantile(smallest).upper)
        low, high = max(ends[0], -700.0), min(ends[1], 700.0)
        at = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low) + 1e-9, 400)
        axis.plot(at, np.asarray(loss.exceeds(at).upper), color=color, linewidth=1.6, label=name)
        mu, tau = loss.concentration
        if 0.0 < tau < math.inf:
            beyond = at[at >= mu]
            axis.plot(beyond, np.exp(-0.5 * ((beyond - mu) / tau) ** 2), "--", color=color, linewidth=1.0)
    axis.plot([], [], "k--", linewidth=1.0, label="subgaussian, same mean")
    log_scale(axis, axis.yaxis, smallest, 1.5)
    name_axes(axis, "epsilon", "probability that the loss is above epsilon")
    return _finished(figure, axis, "Privacy loss")


def _lines(named: Mapping[str, object], what: str) -> tuple[Figure, Axes, list[Color]]:
    """A figure with one panel, and a colour for each line."""
    figure, (axis,) = new_figure(NARROWEST, 4.3)
    return figure, axis, colors(len(named), what)


def _log_plane(axis: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """Both axes logarithmic, around what is positive and finite."""
    for side, values in ((axis.xaxis, x), (axis.yaxis, y)):
        seen = [float(one) for one in values if 0.0 < one < math.inf] or [1.0]
        log_scale(axis, side, min(seen) / 1.2, max(seen) * 1.2)


def _finished(figure: Figure, axis: Axes, title: str) -> Figure:
    axis.legend(fontsize=SMALL, frameon=False)
    figure.suptitle(title, fontsize=MEDIUM)
    return figure
