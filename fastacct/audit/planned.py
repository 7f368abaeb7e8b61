"""What an audit can show at all, and what it showed beside what is proved."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct.accountants.question import Job
from fastacct.audit.counts import least_rate
from fastacct.audit.shared import SIZE, Audit, as_confidence
from fastacct.core.inputs import Cells, Reals, as_cells, as_number
from fastacct.core.record import Record
from fastacct.core.relations import Relation, as_relation
from fastacct.core.rounding import digits_down, digits_up
from fastacct.core.words import told_names
from fastacct.epsilon import epsilon as epsilon_of
from fastacct.tradeoff import tpr_at_fpr

_POINTS: Final = 400


class Plan(Record):
    """What `fastacct.audit.plan` computed; `str` of it is a table.

    Examples
    --------
    >>> import fastacct as fa
    >>> print(fa.audit.plan(fa.Gaussian(1.0), [100, 10_000], delta=1e-5))
    proved: epsilon at most 4.3772 at delta 1e-05
     members  others  shows about  false alarms
         100     100         0.48         0.096
       10000   10000         2.16        0.0018
    """

    canaries: Cells
    """Numbers of members; there are as many others."""
    epsilon: Cells
    """What the best attack there is shows of each, about."""
    fpr: Cells
    """The false-positive rate at which it does."""
    proved: float
    """The certified epsilon of the job."""
    delta: float

    def __str__(self) -> str:
        rows = [f"proved: epsilon at most {digits_up(self.proved, 5)} at delta {self.delta:g}"]
        rows.append(f"{'members':>8}{'others':>8}{'shows about':>13}{'false alarms':>14}")
        for n, shown, fpr in zip(*(np.atleast_1d(one) for one in (self.canaries, self.epsilon, self.fpr)), strict=True):
            rows.append(f"{n:>8.0f}{n:>8.0f}{shown:>13.2f}{fpr:>14.2g}")
        return "\n".join(rows)


class Comparison(Record):
    """What `fastacct.audit.compare` says; `str` of it is a line for a report.

    Examples
    --------
    >>> import fastacct as fa
    >>> found = fa.audit.compare(fa.audit.one_run(1000, 200, 140), fa.Gaussian(1.0), delta=1e-5)
    >>> round(found.shown, 3), round(found.proved, 3), found.refuted
    (0.584, 4.377, False)
    """

    proved: float
    """Certified upper bound of the job's epsilon."""
    shown: float
    """Lower bound of the run's epsilon that the audit shows."""
    confidence: float
    refuted: bool
    """Whether the audit shows that the job's guarantee is not true of the run."""

    def __str__(self) -> str:
        share = digits_down(100.0 * self.confidence, 6)
        end = "the guarantee is refuted" if self.refuted else "the guarantee is not refuted"
        shown = digits_down(self.shown, 3)
        return f"proved: epsilon at most {digits_up(self.proved, 3)}; shown: at least {shown} ({share} %); {end}"


@told_names
def plan(
    job: Job,
    canaries: Reals = (100, 1000, 10_000, 100_000),
    *,
    delta: float,
    confidence: float = 0.95,
    neighbors: Relation = "add_remove",
) -> Plan:
    """What the best attack there is would show of a job, before anything is run: how many runs an audit needs.

    The optimal attack has the rates of the job's trade-off curve.  The table says what the bounds of Clopper and
    Pearson show of its expected counts, at the best threshold, as if that were known.  An audit by `scores`, which has
    to find the threshold, shows a little less; an attack that is not optimal shows less.  No guarantee: luck may show
    more.

    Parameters
    ----------
    job : Mechanism or Process
    canaries : int or array up to 1,000,000
        Members, and as many others.
    delta, neighbors
        As in `fastacct.epsilon`.
    confidence : float in [0.5, 0.999999]

    Returns
    -------
    Plan

    Raises
    ------
    ValueError, TypeError
        Numbers out of range; a job of arrays; what `fastacct.tpr_at_fpr` refuses.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.Gaussian(1.0408).poisson(512 / 50_000) * 2930
    >>> found = fa.audit.plan(run, [1000, 10_000], delta=1e-5)
    >>> round(found.proved, 2), found.epsilon.round(2)
    (3.0, array([0.82, 1.41]))
    """
    numbers, at = as_cells("canaries", canaries, SIZE), as_number("delta", delta)
    level, relation = math.log(0.5 * (1.0 - as_confidence(confidence))), as_relation(neighbors)
    proved = np.asarray(epsilon_of(job, delta=at, neighbors=relation))
    if proved.ndim:
        raise TypeError("a plan is of one job: give plain numbers, no arrays")
    alarms = np.geomspace(0.01 / float(np.max(numbers)), 0.9, _POINTS)
    hits = np.asarray(tpr_at_fpr(job, alarms, neighbors=relation))
    shown, best = np.zeros(numbers.shape), np.full(numbers.shape, math.nan)
    for place, n in np.ndenumerate(numbers):
        low = least_rate(np.floor(n * hits), int(n), level)
        high = 1.0 - least_rate(np.floor(n * (1.0 - alarms)), int(n), level)
        ratio = np.maximum(low - at, 0.0) / high
        top = int(np.argmax(ratio))
        if ratio[top] > 1.0:
            shown[place], best[place] = math.log(ratio[top]), alarms[top]
    return Plan(numbers, shown, best, float(proved), at)


@told_names
def compare(audit: Audit, job: Job, *, delta: float, neighbors: Relation = "add_remove") -> Comparison:
    """What an audit shows beside what is proved of a job: the line of a report.

    **Guarantee.** The first number is never below the job's epsilon.  With the audit's confidence the second is not
    above the run's, and the guarantee is not refuted if it is true.

    Parameters
    ----------
    audit : Scores, OneRun or Sequential
    job : Mechanism or Process
        What the run is said to be.
    delta, neighbors
        As in `fastacct.epsilon`.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError, TypeError
        A delta out of range, or an array; what the audit's `epsilon` and `refutes` refuse.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.Gaussian(1.0408).poisson(512 / 50_000) * 2930
    >>> print(fa.audit.compare(fa.audit.one_run(1000, guesses=200, right=150), run, delta=1e-5))
    proved: epsilon at most 3; shown: at least 0.819 (95 %); the guarantee is not refuted
    """
    at = as_number("delta", delta)
    proved = float(epsilon_of(job, delta=at, neighbors=neighbors))
    shown = float(audit.epsilon(at, neighbors=neighbors))
    refuted = shown > proved or (audit.jointly and audit.refutes(job, neighbors=neighbors))
    return Comparison(proved, shown, audit.confidence, refuted)
