"""Whole curves of a run of DP-SGD: delta over epsilon, and the errors of the best attack."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fastacct._arrays import Cells, Domain, as_cells, as_choice, as_threads, run_kernel
from fastacct._files import atomic_output
from fastacct_ext import _kernels

__all__ = ["PrivacyCurve", "Run", "TradeoffCurve", "privacy_curve", "tradeoff_curve", "write_csv"]

DIRECTIONS: Final = {"add": 1, "remove": 2}
SMALLEST_DELTA: Final = 1e-300
_LOG_DELTA: Final = 2


class Run(NamedTuple):
    """A run of DP-SGD in plain numbers."""

    noise_multiplier: float
    sample_rate: float
    steps: int

    def __str__(self) -> str:
        return f"sigma {self.noise_multiplier:g}, q {self.sample_rate:.4g}, {self.steps:,} steps"


@dataclass(frozen=True)
class PrivacyCurve:
    """delta(epsilon) of one direction, as natural logarithms: deltas may be far below the smallest double."""

    run: Run
    direction: str
    epsilon: Cells
    log_delta_lower: Cells
    log_delta_upper: Cells


@dataclass(frozen=True)
class TradeoffCurve:
    """Certified bounds of the errors of the best attack: false negatives, and true positives, at false positives."""

    run: Run
    neighbors: str
    fpr: Cells
    fnr_lower: Cells
    fnr_upper: Cells
    tpr_lower: Cells
    tpr_upper: Cells


def privacy_curve(
    run: Run,
    direction: str = "remove",
    *,
    epsilon: ArrayLike | None = None,
    smallest_delta: float = 1e-12,
    points: int = 201,
    threads: int | None = None,
) -> PrivacyCurve:
    """Compute delta(epsilon) of one direction of a run.

    Guarantee
    ---------
    Certified lower and upper bounds at every epsilon, rounding included, for Poisson sampling.

    Parameters
    ----------
    run : Run
        Noise multiplier, sample rate and steps.
    direction : {"remove", "add"}
    epsilon : array, optional
        Sorted for the result. Default: `points` values from 0 to where delta is `smallest_delta`.
    smallest_delta : float in [1e-300, 1)
    points : int
    threads : int, optional

    Returns
    -------
    PrivacyCurve

    Raises
    ------
    ValueError, TypeError
        Out of range; a run without a finite epsilon and no `epsilon` given.

    Examples
    --------
    >>> curve = privacy_curve(Run(1.0, 0.01, 1000), epsilon=[0.0, 1.5])
    >>> float(np.exp(curve.log_delta_upper[1]).round(10))
    0.0001092559
    """
    cells = _cells(run)
    as_choice("direction", direction, tuple(DIRECTIONS))
    if epsilon is None:
        epsilon = _epsilons(run, smallest_delta, points, threads)
    target = np.sort(np.atleast_1d(as_cells("epsilon", epsilon)))
    lower, upper = _log_delta(cells, target, direction, threads)
    # delta does not grow with epsilon: a bound that could only be certified loosely inherits from its neighbours
    upper, lower = np.minimum.accumulate(upper), np.maximum.accumulate(lower[::-1])[::-1]
    return PrivacyCurve(run, direction, target, lower, upper)


def tradeoff_curve(
    run: Run, neighbors: str = "add_remove", *, fpr: ArrayLike | None = None, threads: int | None = None
) -> TradeoffCurve:
    """Compute the error rates of the best attack on a run.

    The attack decides whether a record was in the training data; a false positive calls it in where it was not.

    Guarantee
    ---------
    Certified on both sides: no attack has a smaller false-negative rate than `fnr_lower`, none a larger true-positive
    rate than `tpr_upper`.

    Parameters
    ----------
    run : Run
    neighbors : {"add_remove", "remove", "add"}
        Which data set is the null hypothesis: without the record ("remove"), with it, or the worse of both.
    fpr : array in [0, 1], optional
        Default: 0, then evenly spaced and, below 0.01, evenly spaced logarithms down to 1e-6.
    threads : int, optional

    Returns
    -------
    TradeoffCurve

    Raises
    ------
    ValueError, TypeError
        Out of range.

    Examples
    --------
    >>> float(tradeoff_curve(Run(1.0, 0.01, 1000), fpr=[0.1]).fnr_lower[0].round(6))
    0.805799
    """
    from fastacct.mechanisms import Gaussian
    from fastacct.tradeoff import tpr_at_fpr_bounds, tradeoff_bounds

    as_choice("neighbors", neighbors, ("add_remove", *DIRECTIONS))
    if fpr is None:
        fpr = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 80, endpoint=False), np.linspace(0.01, 1.0, 100)])
    rates = np.atleast_1d(as_cells("fpr", fpr, Domain(0.0, 1.0)))
    sigma, q, steps = run
    job = Gaussian(noise_multiplier=sigma).poisson(sample_rate=q) * steps
    fnr = tradeoff_bounds(job, rates, neighbors=neighbors, threads=threads)
    tpr = tpr_at_fpr_bounds(job, rates, neighbors=neighbors, threads=threads)
    return TradeoffCurve(run, neighbors, rates, fnr.lower, fnr.upper, tpr.lower, tpr.upper)


def write_csv(
    curves: Sequence[PrivacyCurve] | Sequence[TradeoffCurve], path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write curves as a table, one row per point; whole or not at all.

    Parameters
    ----------
    curves : sequence of PrivacyCurve, or of TradeoffCurve
    path : path
    overwrite : bool
        Replace an existing file.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    FileExistsError
        The file exists and `overwrite` is false.

    Examples
    --------
    >>> write_csv([privacy_curve(Run(1.0, 0.01, 1000))], "curve.csv")  # doctest: +SKIP
    PosixPath('curve.csv')
    """
    target = Path(path)
    with atomic_output(target, overwrite=overwrite) as temporary, temporary.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*Run._fields, *(COLUMNS[type(curves[0])])])
        for curve in curves:
            rows.writerows([*curve.run, *row] for row in points_of(curve))
    return target


COLUMNS: Final[dict[type, tuple[str, ...]]] = {
    PrivacyCurve: ("direction", "epsilon", "delta_lower", "delta_upper", "log10_delta_lower", "log10_delta_upper"),
    TradeoffCurve: ("neighbors", "fpr", "fnr_lower", "fnr_upper", "tpr_lower", "tpr_upper"),
}


def points_of(curve: PrivacyCurve | TradeoffCurve) -> list[list[Any]]:
    """The points of a curve as rows of plain numbers; a delta in double precision never loses its side."""
    if isinstance(curve, TradeoffCurve):
        rates = (curve.fpr, curve.fnr_lower, curve.fnr_upper, curve.tpr_lower, curve.tpr_upper)
        return [[curve.neighbors, *row] for row in zip(*(column.tolist() for column in rates), strict=True)]
    lower, upper = curve.log_delta_lower, curve.log_delta_upper
    deltas = np.exp(lower) * (1.0 - 1e-13), np.minimum(np.exp(upper) * (1.0 + 1e-13), 1.0)
    deltas[1][(upper > -math.inf) & (deltas[1] == 0.0)] = 5e-324
    logs = lower / math.log(10.0), upper / math.log(10.0)
    columns = [column.tolist() for column in (curve.epsilon, *deltas, *logs)]
    return [[curve.direction, *row] for row in zip(*columns, strict=True)]


def _cells(run: Run) -> tuple[Cells, Cells, Cells]:
    sigma, q, steps = (as_cells(name, value) for name, value in zip(Run._fields, run, strict=True))
    return sigma, q, steps


def _log_delta(cells: tuple[Cells, Cells, Cells], epsilon: Cells, direction: str, threads: Any) -> tuple[Cells, Cells]:
    (lower, upper, _), _ = run_kernel(
        _kernels.Op.EXACT,
        (*cells, epsilon),
        epsilon.shape,
        3,
        as_threads(threads),
        option=_LOG_DELTA,
        conversion=DIRECTIONS[direction],
    )
    return lower, upper


def _epsilons(run: Run, smallest_delta: float, points: int, threads: Any) -> Cells:
    """From 0 to where the larger of both directions falls to the smallest delta."""
    from fastacct import dpsgd

    if not SMALLEST_DELTA <= smallest_delta < 1.0:
        raise ValueError(f"smallest_delta = {smallest_delta}: must be in [{SMALLEST_DELTA:g}, 1)")
    if points < 2:
        raise ValueError(f"points = {points}: a curve needs at least 2")
    last = float(dpsgd.epsilon(**run._asdict(), delta=smallest_delta, threads=threads))
    if not math.isfinite(last):
        raise ValueError(f"{run}: epsilon at delta = {smallest_delta:g} is {last}; give the epsilons yourself")
    return np.linspace(0.0, last if last > 0.0 else 1.0, points)
