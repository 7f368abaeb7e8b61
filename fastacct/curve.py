"""Whole curves: delta over epsilon, errors of the best attack, accuracy over the noise."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fastacct.core.files import atomic_output
from fastacct.core.html import table
from fastacct.core.inputs import Cells, as_choice
from fastacct.core.record import Compared
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.epsilon import log_delta_bounds
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.tradeoff import tpr_at_fpr_bounds, tradeoff_bounds
from fastacct.utility import utility

__all__ = ["AccuracyCurve", "PrivacyCurve", "Run", "TradeoffCurve"]
__all__ += ["accuracy_curve", "privacy_curve", "tradeoff_curve", "write_csv"]

Points = list[dict[str, str | float]]
SMALLEST_DELTA: Final = 1e-300


class Run(NamedTuple):
    """A run of DP-SGD in plain numbers.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.curve.Run(noise_multiplier=1.0, sample_rate=0.01, steps=1000).steps
    1000
    """

    noise_multiplier: float
    sample_rate: float
    steps: int

    def __str__(self) -> str:
        return f"sigma {self.noise_multiplier:g}, q {self.sample_rate:.4g}, {self.steps:,} steps"

    @property
    def job(self) -> Process:
        """What is composed."""
        return Gaussian(noise_multiplier=self.noise_multiplier).poisson(sample_rate=self.sample_rate) * self.steps


def _html(curve: PrivacyCurve | TradeoffCurve) -> str:
    rows = curve.points()
    return table(type(curve).__name__, ([*row.values()] for row in rows[:: max(1, len(rows) // 10)]), [*rows[0]])


class PrivacyCurve(Compared):
    """delta(epsilon) of one direction, as natural logarithms: deltas may be far below the smallest double.

    Examples
    --------
    >>> import fastacct as fa
    >>> curve = fa.curve.privacy_curve(fa.curve.Run(1.0, 0.01, 1000), points=5)
    >>> curve.epsilon[0], curve.log_delta_upper[0].round(4)
    (np.float64(0.0), np.float64(-1.8262))
    """

    run: Run
    direction: Direction
    epsilon: Cells
    log_delta_lower: Cells
    log_delta_upper: Cells

    _repr_html_ = _html

    def points(self) -> Points:
        """Rows of plain numbers; a delta in double precision never loses its side."""
        log_lower, log_upper = self.log_delta_lower, self.log_delta_upper
        upper = np.minimum(np.exp(log_upper) * (1.0 + 1e-13), 1.0)
        upper[(log_upper > -math.inf) & (upper == 0.0)] = 5e-324
        columns = {"epsilon": self.epsilon, "delta_lower": np.exp(log_lower) * (1.0 - 1e-13), "delta_upper": upper}
        logs = {"log10_delta_lower": log_lower / math.log(10.0), "log10_delta_upper": log_upper / math.log(10.0)}
        return _points({"direction": self.direction}, columns | logs)


class TradeoffCurve(Compared):
    """Certified bounds of the errors of the best attack: false negatives, and true positives, at false positives.

    Examples
    --------
    >>> import fastacct as fa
    >>> curve = fa.curve.tradeoff_curve(fa.curve.Run(1.0, 0.01, 1000))
    >>> bool((curve.tpr_lower <= curve.tpr_upper).all())
    True
    """

    run: Run
    neighbors: Relation
    fpr: Cells
    fnr_lower: Cells
    fnr_upper: Cells
    tpr_lower: Cells
    tpr_upper: Cells

    _repr_html_ = _html

    def points(self) -> Points:
        """Rows of plain numbers."""
        names = "fpr", "fnr_lower", "fnr_upper", "tpr_lower", "tpr_upper"
        return _points({"neighbors": self.neighbors}, {name: getattr(self, name) for name in names})


class AccuracyCurve(Compared):
    """Epsilon and error of a mechanism over its noise.

    Examples
    --------
    >>> import fastacct as fa
    >>> curve = fa.curve.accuracy_curve(fa.Laplace, [1.0, 2.0], delta=0.0)
    >>> curve.epsilon.round(6)
    array([1. , 0.5])
    """

    noise: Cells
    error: Cells
    """Exceeded with probability `beta`, or a bound of that."""
    epsilon: Cells
    beta: float
    delta: float


def _points(word: dict[str, str], columns: dict[str, Cells]) -> Points:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [{**word, **dict(zip(columns, row, strict=True))} for row in rows]


def privacy_curve(
    run: Run,
    direction: Direction = "remove",
    *,
    epsilon: ArrayLike | None = None,
    smallest_delta: float = 1e-12,
    points: int = 201,
    threads: int | None = None,
) -> PrivacyCurve:
    """Compute delta(epsilon) of one direction ("remove" or "add") of a run of DP-SGD.

    **Guarantee.** Certified lower and upper bounds at every epsilon, rounding included, for Poisson sampling.

    The epsilons given are sorted; without any, `points` values from 0 to where delta is `smallest_delta`, which is at
    least 1e-300.  ValueError for what is out of range, and for a run without a finite epsilon and none given.

    Examples
    --------
    >>> curve = privacy_curve(Run(1.0, 0.01, 1000), epsilon=[0.0, 1.5])
    >>> float(np.exp(curve.log_delta_upper[1]).round(10))
    0.0001092559
    """
    job = run.job
    as_choice("direction", direction, DIRECTIONS["add_remove"])
    if epsilon is None:
        if not SMALLEST_DELTA <= smallest_delta < 1.0:
            raise ValueError(f"smallest_delta = {smallest_delta}: must be in [{SMALLEST_DELTA:g}, 1)")
        if points < 2:
            raise ValueError(f"points = {points}: a curve needs at least 2")
        last = float(smallest_epsilon(job, delta=smallest_delta, threads=threads))  # of the worse direction
        if not math.isfinite(last):
            raise ValueError(f"{run}: epsilon at delta = {smallest_delta:g} is {last}; give the epsilons yourself")
        epsilon = np.linspace(0.0, last if last > 0.0 else 1.0, points)
    target = np.sort(np.atleast_1d(np.asarray(epsilon, dtype=np.float64)))
    lower, upper, _ = log_delta_bounds(job, epsilon=target, neighbors=direction, threads=threads)
    # delta does not grow with epsilon: a bound that could only be certified loosely inherits from its neighbours
    upper, lower = np.minimum.accumulate(upper), np.maximum.accumulate(lower[::-1])[::-1]
    return PrivacyCurve(run, direction, target, lower, upper)


def tradeoff_curve(
    run: Run, neighbors: Relation = "add_remove", *, fpr: ArrayLike | None = None, threads: int | None = None
) -> TradeoffCurve:
    """Compute the error rates of the best attack, which decides whether a record was in the training data.

    **Guarantee.** Certified on both sides: no attack has a smaller false-negative rate than `fnr_lower`, none a larger
    true-positive rate than `tpr_upper`.  A false positive calls a record in where it was not.

    `neighbors` says which data set is the null hypothesis: without the record ("remove"), with it ("add"), or the worse
    of both ("add_remove").  `fpr` is in [0, 1]; without it 0, then evenly spaced and, below 0.01, evenly spaced
    logarithms down to 1e-6.  ValueError for what is out of range.

    Examples
    --------
    >>> float(tradeoff_curve(Run(1.0, 0.01, 1000), fpr=[0.1]).fnr_lower[0].round(6))
    0.805799
    """
    as_choice("neighbors", neighbors, ("add_remove", "remove", "add"))
    if fpr is None:
        fpr = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 80, endpoint=False), np.linspace(0.01, 1.0, 100)])
    rates = np.atleast_1d(np.asarray(fpr, dtype=np.float64))
    job = run.job
    fnr = tradeoff_bounds(job, rates, neighbors=neighbors, threads=threads)
    tpr = tpr_at_fpr_bounds(job, rates, neighbors=neighbors, threads=threads)
    return TradeoffCurve(run, neighbors, rates, fnr.lower, fnr.upper, tpr.lower, tpr.upper)


def accuracy_curve(
    mechanism: Callable[[float], Mechanism],
    noise: ArrayLike,
    *,
    delta: float,
    beta: float = 0.05,
    neighbors: Relation = "add_remove",
    **about: Any,
) -> AccuracyCurve:
    """Compute what a mechanism costs in accuracy and in privacy, over its noise.

    **Guarantee.** `epsilon` is a certified upper bound at `delta`; `error` the error that is exceeded with probability
    `beta`, exact or a bound as `fastacct.utility` says, whose keywords `about` are (`dimension=`, `outcomes=`, ...).

    Examples
    --------
    >>> import fastacct as fa
    >>> curve = accuracy_curve(fa.Laplace, [1.0, 2.0], delta=0.0, dimension=10)
    >>> curve.epsilon.round(9).tolist(), curve.error.round(2).tolist()
    ([1.0, 0.5], [5.28, 10.55])
    """
    noises = np.atleast_1d(np.asarray(noise, dtype=np.float64))
    made = [mechanism(one) for one in noises.tolist()]
    errors = [float(utility(one, **about).quantile(beta)) for one in made]
    epsilons = [float(smallest_epsilon(one, delta=delta, neighbors=neighbors)) for one in made]
    return AccuracyCurve(noises, np.array(errors), np.array(epsilons), beta, delta)


def write_csv(
    curves: Sequence[PrivacyCurve | TradeoffCurve], path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write curves as a table, one row per point; whole or not at all. An existing file is kept unless `overwrite`.

    Examples
    --------
    >>> import fastacct as fa
    >>> curves = [fa.curve.privacy_curve(fa.curve.Run(1.0, 0.01, 1000))]
    >>> fa.curve.write_csv(curves, "curve.csv")  # doctest: +SKIP
    """
    rows = [{**curve.run._asdict(), **point} for curve in curves for point in curve.points()]
    target = Path(path)
    with atomic_output(target, overwrite=overwrite) as temporary, temporary.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return target
