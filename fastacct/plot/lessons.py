"""Pictures of accuracy beside privacy, of privacy losses, and of networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastacct.accountants.run import Parameters
from fastacct.core.words import told_names, written_out
from fastacct.curve import name_of
from fastacct.plot.figures import finished, jobs_of, log_scale, name_axes, named, panel, power, styled, wrapped
from fastacct.privacy_loss import PrivacyLoss
from fastacct.privacy_loss import privacy_loss as loss_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastacct.accountants.network import NetworkGain
    from fastacct.accountants.question import Job
    from fastacct.curve import AccuracyCurve
    from fastacct.mechanisms.error import ErrorLaw
    from fastacct.plot.figures import Several
    from fastacct.privacy_loss import PrivacyLoss


@told_names
def accuracy(curves: Several[AccuracyCurve]) -> Figure:
    """Draw epsilon over the error, a line per mechanism: left and down is better.

    **Guarantee.** Epsilons are certified upper bounds, errors are exact or bounds, as `fastacct.utility` says.

    `curves` (one, a list, or a dict with names) are made by `fastacct.curve.accuracy_curve`; their order is that of the
    legend.  ValueError without any.

    Examples
    --------
    >>> import fastacct as fa
    >>> noises = [0.5, 1.0, 2.0, 4.0]
    >>> curves = {one.__name__: fa.curve.accuracy_curve(one, noises, delta=1e-6) for one in (fa.Laplace, fa.Gaussian)}
    >>> figure = accuracy(curves)
    """
    axis, pairs = panel(), named(curves, "curves")
    for name, curve, color, dash in styled(pairs, "curves"):
        axis.plot(curve.error, curve.epsilon, dash, color=color, linewidth=2.0, label=name)
    errors, epsilons = (np.concatenate([getattr(one, side) for _, one in pairs]) for side in ("error", "epsilon"))
    _log_plane(axis, errors.tolist(), epsilons.tolist())
    chances, deltas = ({getattr(one, side) for _, one in pairs} for side in ("beta", "delta"))
    said = f" with probability {chances.pop():g}" if len(chances) == 1 else ""
    at = f" at $\\delta = {power(deltas.pop())}$" if len(deltas) == 1 else ""
    name_axes(axis, f"error that is exceeded{said}", f"$\\varepsilon${at} (certified upper bound)")
    return finished(axis, "What privacy costs: left and down is better", "best")


@told_names
def prefix_error(errors: Mapping[str, ErrorLaw], steps: Sequence[int]) -> Figure:
    """Draw the standard deviation of the noise in each prefix sum of a stream, over the step.

    `errors` are those of `fastacct.utility(tree, step=steps)`.  ValueError without any, or of other lengths.

    Examples
    --------
    >>> import fastacct as fa
    >>> steps = list(range(1, 65))
    >>> figure = prefix_error({"tree": fa.utility(fa.TreeAggregation(1.0, 64), step=steps)}, steps)
    """
    axis = panel()
    for name, law, color, _ in styled(errors, "errors"):
        height = np.broadcast_to(np.asarray(law.root_mean_square, dtype=np.float64), (len(steps),))
        axis.step(steps, height, where="mid", color=color, linewidth=1.4, label=name)
    axis.set_ylim(bottom=0.0)
    name_axes(axis, "step", "standard deviation of the sum's noise")
    return finished(axis, "Noise of prefix sums", "best")


@told_names
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
    axis = panel()
    local: dict[tuple[float, ...], str] = {}  # lines that agree are drawn once, in grey
    for name, line, color, dash in styled(gains, "gains"):
        sizes = sorted(line)
        axis.plot(sizes, [line[n].network for n in sizes], f"{dash}o", color=color, markersize=3.5, label=name)
        seen = tuple(x for n in sizes for x in (n, line[n].local))
        local[seen] = "#555555" if seen in local else color
    for seen, color in local.items():
        axis.plot(seen[::2], seen[1::2], ":", color=color)
    axis.plot([], [], ":", color="#555555", label="an observer of every message")
    every = [n for line in gains.values() for n in line]
    values = [x for line in gains.values() for one in line.values() for x in one if 0.0 < x < math.inf]
    _log_plane(axis, every, values)
    name_axes(axis, "parties", r"$\varepsilon$ (certified upper bound)")
    return finished(axis, "What one participant learns", "best")


def privacy_loss(
    losses: Several[PrivacyLoss | Job | Parameters] | None = None, *, smallest: float = 1e-6, **run: object
) -> Figure:
    """Draw the probability that the loss is above epsilon, down to `smallest`.

    `losses`: a job, a list of jobs, or a dict {name: job}, or a run by its keywords; also results of
    `fastacct.privacy_loss`.

    **Guarantee.** Lines are certified upper bounds.  Thin: exp(-(epsilon - mu)^2 / (2 tau^2)), what
    mean-concentrated DP with the loss's own mu and tau says.  ValueError without any loss.

    Examples
    --------
    >>> import fastacct as fa
    >>> figure = privacy_loss({"Laplace, 10 times": fa.Laplace(1.0) * 10})
    """
    axis, first, last = panel(), math.inf, 0.0
    for name, one, color, dash in styled(jobs_of(losses, run, "losses", _name_of), "losses"):
        loss = one if isinstance(one, PrivacyLoss) else loss_of(one)
        ends = float(loss.quantile(0.999).lower), float(loss.quantile(smallest).upper)
        low, high = max(ends[0], -700.0), min(ends[1], 700.0)
        at = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low) + 1e-9, 400)
        axis.plot(at, np.asarray(loss.exceeds(at).upper), dash, color=color, linewidth=2.0, label=wrapped(name, 56))
        first, last = min(first, at[0]), max(last, high)
        mu, tau = loss.concentration
        if 0.0 < tau < math.inf:
            beyond = mu + tau * np.linspace(0.0, math.sqrt(-2.0 * math.log(smallest)), 200)
            axis.plot(beyond, np.exp(-0.5 * ((beyond - mu) / tau) ** 2), color=color, linewidth=0.8)
    if last > 0.0:  # a bound may be far above
        axis.set_xlim(first, min(axis.get_xlim()[1], 3.0 * last))
    log_scale(axis, axis.yaxis, smallest, 1.5)
    name_axes(axis, r"$\varepsilon$", r"$P[L > \varepsilon]$")
    return finished(axis, r"Privacy loss $L$ (thin: its sub-Gaussian bound)", "best")


def _name_of(one: PrivacyLoss | Job) -> str:
    return repr(one) if isinstance(one, PrivacyLoss) else name_of(one)


def _log_plane(axis: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """Both axes logarithmic, around what is positive and finite."""
    for side, values in ((axis.xaxis, x), (axis.yaxis, y)):
        seen = [float(one) for one in values if 0.0 < one < math.inf] or [1.0]
        log_scale(axis, side, min(seen) / 1.2, max(seen) * 1.2)


written_out(Parameters.__annotations__, [privacy_loss])
