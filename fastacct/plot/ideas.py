"""Pictures that explain: what delta is, how batches are drawn, what a sampler costs, how a budget is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import fastacct.dpsgd as dpsgd
from fastacct.accountants.question import Job
from fastacct.accountants.run import Parameters
from fastacct.calibrate import calibrate
from fastacct.core.inputs import MAX_STEPS, Cells, Domain, as_number
from fastacct.core.relations import RELATIONS, Relation
from fastacct.core.rounding import digits_down, digits_up
from fastacct.core.words import told_names, written_out
from fastacct.curve import name_of
from fastacct.epsilon import delta as smallest_delta
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.laplace import Laplace
from fastacct.mechanisms.process import Process
from fastacct.mechanisms.samplers import SAMPLERS
from fastacct.mechanisms.utility import utility
from fastacct.plot.figures import (
    SMALL,
    STYLES,
    WIDE,
    finished,
    jobs_of,
    log_scale,
    name_axes,
    new_figure,
    panel,
    power,
    styled,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastacct.plot.figures import Several

_BLUE, _RED, _GREEN = (color for color, _ in STYLES[:3])
_Keywords = dict[str, Any]
_NEIGHBORS: Final = {"add_remove": "add or remove", "replace_one": "replace", "zero_out": "zero out"}
_SAMPLERS: Final[dict[str, _Keywords]] = {
    f"{one.title}, {_NEIGHBORS[relation]}": {"sampling": name, "neighbors": relation}
    for name, one in SAMPLERS.items()
    for relation in one.drawn
}


@told_names
def samplers(*, noise_multiplier: float, records: int, batch_size: int, epochs: int, delta: float) -> Figure:
    """Draw what one run guarantees with every sampler: a point where epsilon is exact, else an interval.

    **Guarantee.** The true epsilon of each sampler is on its point or in its interval.

    Examples
    --------
    >>> figure = samplers(noise_multiplier=1.0408, records=5_000, batch_size=500, epochs=3, delta=1e-5)
    """
    run: _Keywords = {"noise_multiplier": noise_multiplier, "records": records, "batch_size": batch_size}
    run["epochs"] = as_number("epochs", epochs, Domain(1.0, MAX_STEPS, integer=True))
    axis = panel(height=3.6, width=WIDE)
    ends = [dpsgd.epsilon_bounds(**run, delta=delta, **how)[:2] for how in _SAMPLERS.values()]
    for place, (low, high) in enumerate(ends):
        axis.plot([low, high], [place, place], "o-", color=_BLUE, linewidth=4.0, markersize=5.0)
        text = digits_up(high, 3) if high - low < 1e-3 * high else f"{digits_down(low, 3)} to {digits_up(high, 3)}"
        axis.annotate(text, (high, place), (7, -3), textcoords="offset points", fontsize=SMALL)
    axis.set_yticks(range(len(ends)), [*_SAMPLERS], fontsize=SMALL)
    axis.invert_yaxis()
    log_scale(axis, axis.xaxis, 0.8 * min(low for low, _ in ends), 4.0 * max(high for _, high in ends))
    name_axes(axis, rf"$\varepsilon$ at $\delta = {power(delta)}$", "")
    size = f"{records:,} records, batch size {batch_size:,}, {epochs:,} epochs"
    return finished(axis, rf"$\sigma = {noise_multiplier:g}$, {size}")


def budget(
    releases: Several[Job | Parameters] | None = None,
    *,
    epsilon: float,
    delta: float,
    neighbors: Relation = "add_remove",
    **run: object,
) -> Figure:
    """Draw how releases spend a budget, in their order; one that does not fit is refused, and hatched.

    `releases`: a job, a list of jobs, or a dict {name: job}, or a run by its keywords.
    `neighbors` is as in `fastacct.epsilon`.

    **Guarantee.** Heights are certified upper bounds of what all accepted releases cost together; a bar far above the
    budget is cut, and its label says so.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> plan = {"counts": fa.Laplace(4.0), "training": run, "again": fa.Gaussian(2)}
    >>> figure = budget(plan, epsilon=2.5, delta=1e-5)
    """
    axis = panel(height=3.8)
    spent, before, epsilon, delta = Process(), 0.0, as_number("epsilon", epsilon), as_number("delta", delta)
    listed = jobs_of(releases, run, "releases", name_of)
    for place, (_, job) in enumerate(listed):
        cost = float(smallest_epsilon(spent + job, delta=delta, neighbors=neighbors))
        fits, top = cost <= epsilon, min(cost, 1.5 * epsilon)
        face, edge, hatch = (_BLUE, _BLUE, "") if fits else ("none", _RED, "//")
        axis.bar(place, top - before, 0.75, before, color=face, edgecolor=edge, hatch=hatch, zorder=2)
        note = digits_up(cost, 3) if fits else f"refused ({digits_up(cost, 3)})" + ", bar cut" * (top < cost)
        axis.annotate(note, (place, top), (0, 3), textcoords="offset points", fontsize=SMALL, ha="center")
        if fits:
            spent, before = spent + job, cost
    axis.axhline(epsilon, color="black", linewidth=1.0, linestyle="--")
    axis.annotate("budget", (-0.45, epsilon), (0, 3), textcoords="offset points", fontsize=SMALL)
    axis.set_xticks(range(len(listed)), [wrapped(name, 90 // len(listed)) for name, _ in listed], fontsize=SMALL)
    axis.margins(y=0.15)
    name_axes(axis, "", rf"$\varepsilon$ spent at $\delta = {power(delta)}$")
    return finished(axis, "" if neighbors == "add_remove" else RELATIONS[neighbors])


@told_names
def hockey_stick(noise: str = "gaussian", *, noise_multiplier: float = 1.0, epsilon: float = 1.0) -> Figure:
    """Draw what delta is: by how much the density with a record exceeds e^epsilon times the one without it.

    `noise` is "gaussian" or "laplace"; the shaded area is delta.

    Examples
    --------
    >>> figure = hockey_stick("gaussian", noise_multiplier=1.0, epsilon=1.0)
    """
    shapes: dict[str, Callable[[Cells], Cells]] = {
        "gaussian": lambda z: np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi),
        "laplace": lambda z: 0.5 * np.exp(-np.abs(z)),
    }
    if noise not in shapes:
        raise ValueError(f"noise = {noise!r} is not one of {', '.join(map(repr, shapes))}")
    far = 4.0 * noise_multiplier + max(1.0, noise_multiplier**2 * epsilon if noise == "gaussian" else 1.0)
    x = np.linspace(-4.0 * noise_multiplier, far, 1001)
    without, with_it = (shapes[noise]((x - at) / noise_multiplier) / noise_multiplier for at in (0.0, 1.0))
    raised = math.exp(epsilon) * without
    axis = panel(height=3.8)
    axis.fill_between(x, raised, with_it, where=(with_it > raised).tolist(), color=_RED, alpha=0.35, linewidth=0)
    axis.plot(x, with_it, color=_RED, linewidth=1.8, label="with the record")
    axis.plot(x, without, color=_BLUE, linewidth=1.8, label="without it")
    axis.plot(x, raised, "--", color=_BLUE, linewidth=1.8, label=r"$e^\varepsilon$ times that")
    mechanism = (Gaussian if noise == "gaussian" else Laplace)(noise_multiplier)
    area = digits_up(float(smallest_delta(mechanism, epsilon=epsilon, neighbors="remove")), 3)
    axis.annotate(rf"area: $\delta$ = {area}", (0.76, 0.42), xycoords="axes fraction", fontsize=SMALL, color=_RED)
    axis.set_ylim(0.0, 1.25 * float(with_it.max()))
    name_axes(axis, "output", "density")
    scale = r"\sigma" if noise == "gaussian" else "b"
    about = rf"{noise.capitalize()} noise, ${scale} = {noise_multiplier:g}$, $\varepsilon = {epsilon:g}$"
    return finished(axis, about, "upper left")


@told_names
def batches(*, records: int = 12, batch_size: int = 3, epochs: int = 2, seed: int = 0) -> Figure:
    """Draw which records each step uses, for Poisson, fixed-size and shuffled batches: a dot is a record in a batch.

    Examples
    --------
    >>> figure = batches(records=12, batch_size=3, epochs=2)
    """
    if not 1 <= batch_size <= records:
        raise ValueError(f"batch_size = {batch_size!r} is out of range; allowed: 1 to records = {records!r}")
    random, steps, rate = np.random.default_rng(seed), epochs * records // batch_size, batch_size / records
    fixed = [random.permutation(records)[:batch_size] for _ in range(steps)]
    mixed = np.concatenate([random.permutation(records) for _ in range(epochs)])[: steps * batch_size]
    drawn = {
        "Poisson: each by itself": [np.flatnonzero(random.random(records) < rate) for _ in range(steps)],
        f"fixed size: any {batch_size}": fixed,
        "shuffled: once an epoch": np.split(mixed, steps),
    }
    figure, axes = new_figure(9.0, 3.4, 1, 3, share=True)
    for axis, (name, steps_of, color, _) in zip(axes, styled(drawn, "batches"), strict=True):
        for step, used in enumerate(steps_of):
            axis.plot(np.full(len(used), step + 1), used + 1, "o", color=color, markersize=4.5)
        for epoch in range(1, epochs):
            axis.axvline(epoch * records / batch_size + 0.5, color="grey", linewidth=0.8)
        finished(axis, name)
        axis.locator_params(integer=True)
        name_axes(axis, "step", "record" if axis is axes[0] else "", grid=False)
    return figure


@told_names
def noise_for_releases(
    mechanisms: Mapping[str, Callable[[float], Mechanism]], *, releases: Sequence[int], epsilon: float, delta: float
) -> Figure:
    """Draw the error that each mechanism needs for a target, over the number of releases: where their lines cross.

    `mechanisms` make one from a number, as classes do.  The error is the standard deviation of each release.

    **Guarantee.** Each point meets the target.

    Examples
    --------
    >>> import fastacct as fa
    >>> kinds = {"Laplace": fa.Laplace, "Gaussian": fa.Gaussian}
    >>> figure = noise_for_releases(kinds, releases=[1, 10, 100], epsilon=1.0, delta=1e-6)
    """
    axis = panel(height=4.0)
    counts, errors = sorted(releases), []
    for name, kind, color, dash in styled(mechanisms, "mechanisms"):
        found = []
        for count in counts:
            noise = calibrate(lambda x, kind=kind, n=count: kind(x) * n, epsilon=epsilon, delta=delta)  # type: ignore[misc]
            found.append(float(utility(kind(noise)).root_mean_square))
        axis.plot(counts, found, dash, color=color, linewidth=2.0, label=name)
        errors += found
    log_scale(axis, axis.xaxis, counts[0], counts[-1])
    log_scale(axis, axis.yaxis, 0.8 * min(errors), 1.2 * max(errors))
    name_axes(axis, "releases", "standard deviation of each")
    return finished(axis, rf"Noise for $\varepsilon = {epsilon:g}$ at $\delta = {power(delta)}$", "best")


written_out(Parameters.__annotations__, [budget])
