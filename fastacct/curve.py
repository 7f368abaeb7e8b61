"""Whole curves: delta over epsilon, errors of the best attack, accuracy over the noise."""

from __future__ import annotations

import csv
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

import fastacct.accountants.run as runs
from fastacct.accountants.question import Job, as_process
from fastacct.core.files import atomic_output
from fastacct.core.html import table
from fastacct.core.inputs import Cells, as_choice
from fastacct.core.record import Compared
from fastacct.core.relations import ALL, Relation
from fastacct.core.words import hinting, told_names, written_out
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.epsilon import log_delta_bounds
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.mechanisms.utility import utility
from fastacct.tradeoff import tpr_at_fpr_bounds, tradeoff_bounds

__all__ = ["AccuracyCurve", "PrivacyCurve", "Run", "TradeoffCurve"]
__all__ += ["accuracy_curve", "privacy_curve", "tradeoff_curve", "write_csv"]

Points = list[dict[str, str | float]]
SMALLEST_DELTA: Final = 1e-300
_LARGER_DELTAS: Final = (1e-9, 1e-6, 1e-3, 1e-2, 0.1)
"""Where a curve may end instead, if no finite epsilon is proved at the smallest delta."""


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


def name_of(job: Run | Job) -> str:
    """A job in a line of a legend: its code without the names of parameters."""
    if isinstance(job, Run):
        return str(job)
    parts = ((repr(mechanism), count) for mechanism, count in as_process(job))
    written = (f"{mechanism} * {count:g}" if np.any(count != 1) else mechanism for mechanism, count in parts)
    return re.sub(r"\b\w+=", "", " + ".join(written)) or "nothing"


def _html(curve: PrivacyCurve | TradeoffCurve) -> str:
    rows = curve.points()
    return table(type(curve).__name__, ([*row.values()] for row in rows[:: max(1, len(rows) // 10)]), [*rows[0]])


def _in_words(curve: PrivacyCurve | TradeoffCurve) -> str:
    """One line: the numbers are in the fields, and row by row in `points()`."""
    _, _, *columns = vars(curve)
    name, what = type(curve).__name__, f"{name_of(curve.job)}, {curve.neighbors}"
    return f"{name} of {what}: {len(curve.points())} points of {', '.join(columns)}"


class PrivacyCurve(Compared):
    """delta(epsilon) of a job, as natural logarithms: deltas may be far below the smallest double.

    Examples
    --------
    >>> import fastacct as fa
    >>> curve = fa.curve.privacy_curve(fa.curve.Run(1.0, 0.01, 1000), points=5)
    >>> curve.epsilon[0], curve.log_delta_upper[0].round(4)
    (np.float64(0.0), np.float64(-1.8262))
    """

    job: Run | Job
    neighbors: Relation
    epsilon: Cells
    log_delta_lower: Cells
    log_delta_upper: Cells

    _repr_html_, __repr__ = _html, _in_words
    if not TYPE_CHECKING:
        __getattr__ = hinting(
            {"to_csv": "fastacct.curve.write_csv([curve], path)", "to_dataframe": "pandas.DataFrame(curve.points())"}
        )

    def points(self) -> Points:
        """Rows of plain numbers; a delta in double precision never loses its side."""
        log_lower, log_upper = self.log_delta_lower, self.log_delta_upper
        upper = np.minimum(np.exp(log_upper) * (1.0 + 1e-13), 1.0)
        upper[(log_upper > -math.inf) & (upper == 0.0)] = 5e-324
        columns = {"epsilon": self.epsilon, "delta_lower": np.exp(log_lower) * (1.0 - 1e-13), "delta_upper": upper}
        logs = {"log10_delta_lower": log_lower / math.log(10.0), "log10_delta_upper": log_upper / math.log(10.0)}
        return _points({"neighbors": self.neighbors}, columns | logs)


class TradeoffCurve(Compared):
    """Certified bounds of the errors of the best attack: false negatives, and true positives, at false positives.

    Examples
    --------
    >>> import fastacct as fa
    >>> curve = fa.curve.tradeoff_curve(fa.curve.Run(1.0, 0.01, 1000))
    >>> bool((curve.tpr_lower <= curve.tpr_upper).all())
    True
    """

    job: Run | Job
    neighbors: Relation
    fpr: Cells
    fnr_lower: Cells
    fnr_upper: Cells
    tpr_lower: Cells
    tpr_upper: Cells

    _repr_html_, __repr__ = _html, _in_words
    if not TYPE_CHECKING:
        __getattr__ = hinting(
            {"to_csv": "fastacct.curve.write_csv([curve], path)", "to_dataframe": "pandas.DataFrame(curve.points())"}
        )

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


def _asked(job: Run | Job | None, run: Mapping[str, object]) -> tuple[Run | Job, Process]:
    """The job that is given, or that the keywords of a run describe, and its process."""
    if job is None and not run:
        raise TypeError("give a job such as fastacct.Gaussian(1.0) * 100, or the keywords of a run of DP-SGD")
    if job is None:
        runs.refused(run, ("accountant", "neighbors"), "a curve is exact: give no {}")
        job = runs.process_of(cast("runs.Run", run))
    elif run:
        runs.refused(run, run, "give either a job or {}, not both")
    process = job.job if isinstance(job, Run) else as_process(job)
    if process.shape:
        raise TypeError(f"a curve is of one job: give plain numbers, no arrays of shape {process.shape}")
    return job, process


def privacy_curve(
    job: Run | Job | None = None,
    neighbors: Relation = "add_remove",
    *,
    epsilon: ArrayLike | None = None,
    smallest_delta: float = 1e-12,
    points: int = 201,
    threads: int | None = None,
    **run: object,
) -> PrivacyCurve:
    """Compute delta(epsilon) of any job.

    **Guarantee.** Certified lower and upper bounds at every epsilon, rounding included, for the mechanisms, their
    sampling and the neighbouring relation named.

    Parameters
    ----------
    job : Mechanism, Process or Run
        Or a run of DP-SGD by the keywords of `fastacct.dpsgd.epsilon`.
    neighbors : {"add_remove", "add", "remove", "zero_out", "replace_one"}
        "add_remove" is the larger of both directions at each epsilon.
    epsilon : array, optional
        Is sorted.  Without it `points` values from 0 to where delta is `smallest_delta`, which is at least 1e-300; of a
        job whose delta does not fall so far, to where it is about as small as it gets.
    threads
        As in `fastacct.epsilon`.

    Raises
    ------
    TypeError, ValueError
        For what is out of range, arrays, and a job without a finite epsilon if no epsilon is given.

    Examples
    --------
    >>> import fastacct as fa
    >>> pipeline = fa.Gaussian(1.0).poisson(0.01) * 1000 + fa.Laplace(20.0)
    >>> float(np.exp(privacy_curve(pipeline, epsilon=[0.0, 1.5]).log_delta_upper[1]).round(10))
    0.0001164672
    """
    if "direction" in run:
        warnings.warn("direction is now called neighbors", DeprecationWarning, stacklevel=2)
        neighbors = cast("Relation", run.pop("direction"))
    as_choice("neighbors", neighbors, ALL)
    given, process = _asked(job, run)
    if epsilon is None:
        if not SMALLEST_DELTA <= smallest_delta < 1.0:
            raise ValueError(f"smallest_delta = {smallest_delta}: must be in [{SMALLEST_DELTA:g}, 1)")
        if points < 2:
            raise ValueError(f"points = {points}: a curve needs at least 2")
        epsilon = np.linspace(0.0, _last(process, smallest_delta, neighbors, threads), points)
    target = np.sort(np.atleast_1d(np.asarray(epsilon, dtype=np.float64)))
    lower, upper, _ = log_delta_bounds(process, epsilon=target, neighbors=neighbors, threads=threads)
    # delta does not grow with epsilon: a bound that could only be certified loosely inherits from its neighbours
    upper, lower = np.minimum.accumulate(upper), np.maximum.accumulate(lower[::-1])[::-1]
    return PrivacyCurve(given, neighbors, target, lower, upper)


def _last(job: Process, smallest_delta: float, neighbors: Relation, threads: int | None) -> float:
    """The epsilon at which a curve ends: at the smallest delta, or beyond that of a larger one."""
    for delta in (smallest_delta, *_LARGER_DELTAS):
        if delta < smallest_delta:
            continue
        last = float(smallest_epsilon(job, delta=delta, neighbors=neighbors, threads=threads))
        if math.isfinite(last):
            return (last if delta == smallest_delta else 1.5 * last) or 1.0
    raise ValueError(f"{name_of(job)}: epsilon at delta = {smallest_delta:g} is inf; give the epsilons yourself")


def tradeoff_curve(
    job: Run | Job | None = None,
    neighbors: Relation = "add_remove",
    *,
    fpr: ArrayLike | None = None,
    threads: int | None = None,
    **run: object,
) -> TradeoffCurve:
    """Compute the error rates of the best attack on any job, which decides whether a record was in the data.

    **Guarantee.** Certified on both sides: no attack has a smaller false-negative rate than `fnr_lower`, none a larger
    true-positive rate than `tpr_upper`.  A false positive calls a record in where it was not.

    `job`, and the keywords of a run in its place, are as in `privacy_curve`.  `neighbors` says which data set is the
    null hypothesis: without the record ("remove"), with it ("add"), or the worse of both ("add_remove"); "zero_out" and
    "replace_one" compare with an empty or another record in its place.  `fpr` is in [0, 1]; without it 0, then evenly
    spaced and, below 0.01, evenly spaced logarithms down to 1e-6.  Errors as in `privacy_curve`.

    Examples
    --------
    >>> float(tradeoff_curve(Run(1.0, 0.01, 1000), fpr=[0.1]).fnr_lower[0].round(6))
    0.805799
    """
    as_choice("neighbors", neighbors, ALL)
    given, process = _asked(job, run)
    if fpr is None:
        fpr = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 80, endpoint=False), np.linspace(0.01, 1.0, 100)])
    rates = np.atleast_1d(np.asarray(fpr, dtype=np.float64))
    fnr = tradeoff_bounds(process, rates, neighbors=neighbors, threads=threads)
    tpr = tpr_at_fpr_bounds(process, rates, neighbors=neighbors, threads=threads)
    return TradeoffCurve(given, neighbors, rates, fnr.lower, fnr.upper, tpr.lower, tpr.upper)


written_out(runs.Run.__annotations__, (privacy_curve, tradeoff_curve))


@told_names
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


@told_names
def write_csv(
    curves: Sequence[PrivacyCurve | TradeoffCurve], path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write curves as a table, one row per point, which names its run or job; whole or not at all.

    An existing file is kept unless `overwrite`.

    Examples
    --------
    >>> import fastacct as fa
    >>> curves = [fa.curve.privacy_curve(fa.curve.Run(1.0, 0.01, 1000))]
    >>> fa.curve.write_csv(curves, "curve.csv")  # doctest: +SKIP
    """
    are_runs = all(isinstance(curve.job, Run) for curve in curves)
    about = (cast("Run", one.job)._asdict() if are_runs else {"job": name_of(one.job)} for one in curves)
    rows = [{**what, **point} for what, curve in zip(about, curves, strict=True) for point in curve.points()]
    target = Path(path)
    with atomic_output(target, overwrite=overwrite) as temporary, temporary.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return target
