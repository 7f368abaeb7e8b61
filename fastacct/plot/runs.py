"""Pictures of DP-SGD runs: delta over epsilon, epsilon over epochs, the noise for a target, what an attack can do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import fastacct.curve as curve
import fastacct.dpsgd as dpsgd
from fastacct.accountants import RDP
from fastacct.accountants.run import Parameters, refused
from fastacct.core.inputs import Cells, Reals
from fastacct.core.relations import DIRECTIONS, RELATIONS, Relation, as_relation
from fastacct.core.rounding import digits_up
from fastacct.core.words import did_you_mean, told_names, written_out
from fastacct.curve import PrivacyCurve
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.mechanisms.guarantee import ApproxDP
from fastacct.plot.figures import (
    SMALL,
    WIDE,
    colors,
    finished,
    jobs_of,
    legend,
    log_scale,
    name_axes,
    panel,
    power,
    spread,
    styled,
    wrapped,
)
from fastacct.plot.grids import FRAME, MAP_CELLS, draw_levels, draw_numbers, numbers_size
from fastacct.tradeoff import tpr_at_fpr

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from fastacct.accountants.question import Job
    from fastacct.plot.figures import Several

_Keywords = dict[str, Any]
_NAMED: Final = {
    "noise_multiplier": "Noise multiplier",
    "noise_on_mean": "Noise on the mean gradient (over the clipping norm)",
    "noise_on_average": "Noise on the average gradient of the run",
    "tpr_at_1_percent": "True positives at 1 % false positives",
}
_DASHES: Final = {**dict.fromkeys(RELATIONS, "-"), "add": "--"}
_LEVEL: Final = 0.98
"""Of the last logarithm that a panel shows: curves that end below it are not drawn on."""
_SEEN: Final = 1.003
"""Times the logarithm of an upper bound: a shade to a lower bound beyond it can be seen."""
_LETTERS: Final = 28
"""In a line of the legend of privacy curves."""
_HATCHES: Final = ("//", "\\\\", "..", "||", "--")
"""Of the shades of several jobs, which may lie on each other."""


def privacy_curves(
    jobs: Several[PrivacyCurve | curve.Run | Job | Parameters] | None = None,
    *,
    neighbors: Relation = "add_remove",
    smallest_delta: float = 1e-12,
    points: int = 101,
    **run: object,
) -> Figure:
    """Draw delta over epsilon: one colour per job, adding a record dashed, the certified interval shaded.

    **Guarantee.** The lines are the certified upper bounds.  A shade reaches down to the lower bounds: the true delta
    is in it.  It is seen only where the two differ, and the legend names it then; of several jobs each is hatched.

    Parameters
    ----------
    jobs : job, list of jobs, or dict {name: job}
        Or a run of DP-SGD by the keywords of `fastacct.dpsgd.job`; each job may be a dict of them.  Also what
        `fastacct.curve.privacy_curve` returns, which is drawn as it is.
    neighbors : {"add_remove", "add", "remove", "zero_out", "replace_one"}
        "add_remove": both directions, a line each.  Of any other the title says which it is.
    smallest_delta, points
        As in `fastacct.curve.privacy_curve`.

    The vertical axis ends where the first curve ends that still falls, but not where one falls to delta = 0; a curve
    that does not fall is drawn on, level.
    ValueError without any job.

    Examples
    --------
    >>> import fastacct as fa
    >>> step = fa.Gaussian(1.0).poisson(0.01)
    >>> figure = privacy_curves({"training": step * 100, "with counts": step * 100 + fa.Laplace(10.0)}, points=9)
    """
    relation = as_relation(neighbors)
    ways = DIRECTIONS[relation] if relation == "add_remove" else (relation,)
    limits: _Keywords = {"smallest_delta": smallest_delta, "points": points}
    curves: list[tuple[str, PrivacyCurve]] = []
    for name, one in jobs_of(jobs, run, "jobs", _name_of):
        own = [one] if isinstance(one, PrivacyCurve) else [curve.privacy_curve(one, way, **limits) for way in ways]
        curves += [(name, each) for each in own]
    return _drawn(curves)


def _name_of(one: PrivacyCurve | curve.Run | Job) -> str:
    return curve.name_of(one.job if isinstance(one, PrivacyCurve) else one)


def _drawn(labelled: list[tuple[str, PrivacyCurve]]) -> Figure:
    """Privacy curves with the names of their jobs."""
    names, curves = dict.fromkeys(name for name, _ in labelled), [one for _, one in labelled]
    color = dict(zip(names, colors(len(names), "jobs"), strict=True))
    axis = panel(width=WIDE)
    bounds = [np.stack([one.log_delta_lower, one.log_delta_upper]) / math.log(10.0) for one in curves]
    last = max(float(one.epsilon[-1]) for one in curves)
    shaded = {name for (name, _), (lower, upper) in zip(labelled, bounds, strict=True) if np.any(lower < _SEEN * upper)}
    shades = dict(zip([name for name in names if name in shaded], cycle(_HATCHES if len(names) > 1 else ("",))))
    ends = {float(upper.min()): upper[-2:] for _, upper in bounds if np.isfinite(upper[-1])}  # others end in delta = 0
    floor = min(-1.0, max((low for low, (x, y) in ends.items() if y < x), default=min(ends, default=-12.0)))
    for (name, one), both in zip(labelled, bounds, strict=True):
        lower, upper = np.clip(both, 2 * floor, 0.0)
        more = int(upper[-1] > _LEVEL * floor)  # delta does not grow; along the lower edge there is nothing to see
        x, y = (np.append(one, [end] * more) for one, end in ((one.epsilon, last), (upper, upper[-1])))
        if not np.isfinite(both[1][-1]) and len(y) > 1:  # delta is 0 from here on, and not before
            x, y = np.insert(x, -1, x[-1]), np.insert(y, -1, y[-2])
        look: _Keywords = {"color": color[name], "alpha": 0.2, "linewidth": 0, "hatch": shades.get(name)}
        axis.fill_between(one.epsilon, lower, upper, **look)
        axis.plot(x, y, _DASHES[one.neighbors], color=color[name], linewidth=1.6)
    alike = {
        name
        for name in names
        if _is_one_line([both[1] for (own, _), both in zip(labelled, bounds, strict=True) if own == name])
    }
    entries = [(wrapped(name + ", both ways" * (name in alike), _LETTERS), "-", own) for name, own in color.items()]
    relations = [*dict.fromkeys(one.neighbors for one in curves)]
    if len(relations) > 1:
        entries += [(RELATIONS[way], _DASHES[way], (0.0, 0.0, 0.0, 1.0)) for way in relations]
    for label, dash, own in entries:
        axis.plot([], [], dash, color=own, linewidth=1.6, label=label)
    for name, hatch in shades.items():
        told = "down to the lower bound" + f" of {name}" * (len(names) > 1)
        axis.fill_between(
            [], [], [], color=color[name], alpha=0.2, linewidth=0, hatch=hatch, label=wrapped(told, _LETTERS)
        )
    axis.set(xlim=(0.0, last), ylim=(floor, 0.0))
    name_axes(axis, "epsilon", "delta")
    from matplotlib.ticker import MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axis.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$" if value else "1")
    figure = finished(axis, "Certified privacy curves" + (f", {RELATIONS[relations[0]]}" * (len(relations) == 1)))
    legend(figure, len(entries) + len(shades))
    return figure


def _is_one_line(upper: list[Cells]) -> bool:
    """Whether several curves cannot be told apart."""
    return len(upper) > 1 and all(np.allclose(one, upper[0], rtol=_SEEN - 1.0) for one in upper)


def epsilon_over_epochs(
    noise_multiplier: float | Sequence[float],
    *,
    records: int,
    batch_size: int,
    epochs: Sequence[float],
    delta: float,
    axis: Axes | None = None,
    **run: object,
) -> Figure:
    """Draw the exact epsilon over the epochs, a line per noise multiplier; thin: what Rényi DP proves.

    **Guarantee.** Certified upper bounds.  `axis`: draw there, in a figure of yours.  `neighbors`, `sampling` and what
    belongs to it are as in `fastacct.dpsgd.epsilon`; thin lines are of Poisson samples, with no record replaced.

    Examples
    --------
    >>> figure = epsilon_over_epochs([0.8, 1.0], records=50_000, batch_size=512, epochs=[1, 10, 100], delta=1e-5)
    """
    refused(run, ("sample_rate", "steps", "history", "accountant"), "a picture over epochs: do not give {}")
    if np.ndim(epochs) == 0:
        raise TypeError(f"epochs = {epochs!r}: a picture over epochs takes several, as range(1, 31)")
    axis, seen, notes = panel(axis), [], []
    x = np.sort(np.asarray(epochs, dtype=np.float64))
    sizes: _Keywords = {"records": records, "batch_size": batch_size, "epochs": x, "delta": delta, **run}
    is_usual = run.get("sampling", "poisson") == "poisson" and run.get("neighbors") != "replace_one"
    noises = {repr(one): one for one in np.atleast_1d(noise_multiplier).tolist()}
    for _, noise, color, dash in styled(noises, "noise_multiplier"):
        for accountant, width in ((None, 2.2), (RDP(), 0.8))[: 1 + is_usual]:
            y = dpsgd.epsilon(noise_multiplier=noise, accountant=accountant, **sizes)
            axis.plot(x, y, dash if width > 1.0 else "-", color=color, linewidth=width)
            seen.append(np.asarray(y))
        at = x[-1], float(seen[-1 - is_usual][-1])
        note: _Keywords = {
            "xytext": (4, 0),
            "textcoords": "offset points",
            "va": "center",
            "color": color,
            "fontsize": SMALL,
        }
        notes.append(axis.annotate(f"$\\sigma$ = {noise:g}", at, **note))
    log_scale(axis, axis.xaxis, float(x[0]), float(x[-1]))
    log_scale(axis, axis.yaxis, 0.8 * float(np.min(seen)), 1.2 * float(np.max(seen)))
    name_axes(axis, "epochs", rf"$\varepsilon$ at $\delta = {power(delta)}$")
    figure = finished(axis, "Privacy spent" + (" (thin: Rényi DP)" if is_usual else ""))
    spread(notes)
    return figure


def noise_map(
    *,
    epsilon: float,
    delta: float,
    records: int,
    batch_size: Sequence[int],
    epochs: Sequence[float],
    levels: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0),
    axis: Axes | None = None,
    **run: object,
) -> Figure:
    """Draw the smallest noise multiplier that meets a target, over batch size and epochs.

    **Guarantee.** Each point of the grid meets the target; lines are interpolated.  Fewer than 6 batch sizes or numbers
    of epochs are a table of numbers, rounded up.

    `neighbors`, `sampling` and what belongs to it are as in `fastacct.dpsgd.noise_multiplier`.

    Examples
    --------
    >>> figure = noise_map(epsilon=3.0, delta=1e-5, records=50_000, batch_size=[64, 512, 4096], epochs=[1, 10, 100])
    """
    refused(run, ("noise_multiplier", "sample_rate", "steps", "history"), "a map chooses the run: do not give {}")
    x, y = (np.unique(np.asarray(one, dtype=np.float64)) for one in (epochs, batch_size))
    sizes: _Keywords = {"records": records, "batch_size": y[:, None], "epochs": x, **run}
    found = np.asarray(dpsgd.noise_multiplier(epsilon=epsilon, delta=delta, **sizes))
    axis = _map(axis, x, y, np.broadcast_to(found, (y.size, x.size)), levels)
    name_axes(axis, "epochs", f"batch size (of {records:,})", grid=False)
    return finished(axis, rf"Noise multiplier for $\varepsilon = {epsilon:g}$, $\delta = {power(delta)}$")


def _map(
    axis: Axes | None,
    x: Cells,
    y: Cells,
    values: Cells,
    levels: Sequence[float],
    framed: NDArray[np.bool_] | None = None,
) -> Axes:
    """Values over epochs and batch sizes: as colours with lines, or of a small grid as numbers; some are marked."""
    if min(values.shape) < MAP_CELLS:
        return draw_numbers(panel(axis, **numbers_size(values)), x, y, values, framed)
    axis = panel(axis)
    draw_levels(axis, x, y, values, _around(levels, values))
    if framed is not None:
        rows, columns = np.nonzero(framed)
        axis.plot(x[columns], y[rows], "o", color=FRAME, markersize=4, clip_on=False)
    return axis


@told_names
def plan(table: pd.DataFrame, column: str = "noise_on_mean", *, axis: Axes | None = None) -> Figure:
    """Draw a column of `fastacct.plan` over batch size and epochs, with marks on the rows of its front.

    **Guarantee.** Each row of the table meets the target; lines are interpolated between them.  Fewer than 6 batch
    sizes or numbers of epochs are a table of numbers, rounded up to three digits.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(records=50_000, epsilon=3.0, delta=1e-5)
    >>> figure = plan(fa.plan(**run, batch_size=[64, 512, 4096], epochs=[1, 10, 100]))
    """
    if not hasattr(table, "columns"):
        raise TypeError(f"table must be what fastacct.plan(...) returns, not {table!r}")
    if column not in table.columns:
        known = [name for name in table.columns if name not in ("batch_size", "epochs", "on_front")]
        raise ValueError(f"column = {column!r} is not one of {', '.join(known)}{did_you_mean(column, known)}")
    cells, front = (table.pivot(index="batch_size", columns="epochs", values=name) for name in (column, "on_front"))
    values = cells.to_numpy(dtype=np.float64)
    if min(cells.shape) >= MAP_CELLS and not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"a map of 6 by 6 cells and more needs positive finite {column}")
    x, y = (np.asarray(one, dtype=np.float64) for one in (cells.columns, cells.index))
    seen = values[np.isfinite(values) & (values > 0.0)]
    tens = range(math.floor(math.log10(seen.min(initial=1e300))), math.ceil(math.log10(seen.max(initial=1e-300))))
    round_ones = [digit * 10.0**k for k in tens for digit in (1, 1.5, 2, 3, 5, 7)] + [10.0**tens.stop]
    axis = _map(axis, x, y, values, round_ones, front.to_numpy(dtype=bool))
    name_axes(axis, "epochs", f"batch size (of {table.attrs['records']:,.0f})", grid=False)
    goal = rf"$\varepsilon = {table.attrs['epsilon']:g}$, $\delta = {power(table.attrs['delta'])}$"
    marks = "framed" if min(values.shape) < MAP_CELLS else "dots"
    cost = table.attrs.get("cost", "epochs").replace("_", " ")
    title = f"{_NAMED.get(column, column.replace('_', ' ').capitalize())} for {goal}"
    more = "costs more" if cost == "cost" else f"costs more {cost}"
    return finished(axis, f"{title}\n{marks}: less noise on the average {more}")


def tradeoff(
    jobs: Several[curve.Run | Job | Parameters] | None = None,
    *,
    delta: float = 1e-5,
    smallest: float = 1e-4,
    axis: Axes | None = None,
    marked: Reals = (),
    neighbors: Relation = "add_remove",
    thin: bool = True,
    **run: object,
) -> Figure:
    """Draw the largest true-positive rate of any attack; thin: what (epsilon, delta) alone would allow.

    **Guarantee.** No attack is above a line.

    `jobs`: a job, a list of jobs, or a dict {name: job}; or a run by its keywords.
    `marked`: false-positive rates with a labelled point.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.0408, records=50_000, batch_size=512, epochs=30)
    >>> figure = tradeoff(**run, marked=[0.01])
    >>> figure = tradeoff({"my run": run, "a histogram": fa.Laplace(2.0)}, marked=[0.01])
    """
    axis = panel(axis)
    fpr, marks = np.geomspace(smallest, 1.0, 61), np.atleast_1d(np.asarray(marked, dtype=np.float64))
    notes, is_seen = [], False
    for name, one, color, dash in styled(jobs_of(jobs, run, "jobs", curve.name_of), "jobs"):
        job = one.job if isinstance(one, curve.Run) else one
        found = np.asarray(tpr_at_fpr(job, np.append(fpr, marks), neighbors=neighbors))
        epsilon = float(smallest_epsilon(job, delta=delta, neighbors=neighbors)) if thin else math.inf
        most = rf"$\varepsilon \leq$ {digits_up(epsilon, 3)}" if epsilon < math.inf else r"no finite $\varepsilon$"
        told = wrapped(f"{name} ({most})" if thin else name, 2 * _LETTERS)
        axis.plot(fpr, found[: fpr.size], dash, color=color, linewidth=2.2, label=told)
        if thin:
            corner = (1.0 - delta) / (1.0 + math.exp(min(epsilon, 700.0)))  # where its two straight pieces meet
            at = np.sort(np.append(fpr, np.clip(corner, smallest, 1.0)))
            allowed = np.asarray(tpr_at_fpr(ApproxDP(epsilon, delta), at))
            is_seen |= bool(allowed[0] < 0.9)  # above it runs along the edge
            axis.plot(at, allowed, color=color, linewidth=0.8)
        for mark, tpr in zip(marks.tolist(), found[fpr.size :].tolist(), strict=True):
            axis.plot([mark], [tpr], "o", color=color, markersize=4)
            note = f"{digits_up(100.0 * tpr, 3)} % at {100.0 * mark:g} %"
            where: _Keywords = {"xytext": (-6, 5), "textcoords": "offset points", "ha": "right"}
            notes.append(axis.annotate(note, (mark, tpr), **where, fontsize=SMALL, color=color))
    axis.plot([smallest, 1.0], [smallest, 1.0], ":", color="grey", label="guessing")
    for side in (axis.xaxis, axis.yaxis):
        log_scale(axis, side, smallest, 1.0)
    name_axes(axis, "false-positive rate", "true-positive rate (at most)")
    alone = rf"$\varepsilon$, $\delta = {power(delta)}$"
    more = ("", f" ({alone} alone set no limit here)", f" (thin: by {alone})")[thin + is_seen]
    figure = finished(axis, f"What an attack can do{more}", "lower right")
    spread(notes)
    return figure


def _around(levels: Sequence[float], values: Cells) -> Sequence[float]:
    """Those levels between which the values are: the colours are for these alone."""
    low, high = (np.searchsorted(levels, end) for end in (values.min(), values.max()))
    return levels[max(0, min(low - 1, len(levels) - 2)) : high + 1]


written_out(Parameters.__annotations__, [privacy_curves, tradeoff])
globals().update(
    {
        one.__name__: told_names(one, "; several jobs: give a list, [job, other], or a dict {name: job}")
        for one in (privacy_curves, tradeoff)
    }
)
