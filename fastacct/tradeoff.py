"""What an attacker can do: the trade-off curve of a job, and the quantities read off it.

An attacker sees the output and decides between two hypotheses: the record was there, or it was not.  A false positive
is an alarm under the null hypothesis, a false negative a miss under the other.  The direction names the pair: "remove"
takes "not there" for the null hypothesis (membership inference), "add" the reverse; their curves are inverses.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Bounds, Status
from fastacct.core.inputs import (
    UNIT,
    Cells,
    Codes,
    Floats,
    Reals,
    as_cells,
    as_choice,
    as_threads,
    common_shape,
    unwrap,
)
from fastacct.core.relations import Relation, as_relation
from fastacct.epsilon import Job, as_process, delta_bounds, plain_bounds, shape_with
from fastacct.mechanisms.process import Process
from fastacct.readers.contour import ADD, BOTH, DELTA, REMOVE, Contour
from fastacct.readers.job import contour_of, is_exact_curve, owners
from fastacct.readers.lines import supporting_lines
from fastacct.readers.roc import PAD, Rates, error_rates

__all__ = [
    "advantage",
    "advantage_bounds",
    "bayes_risk",
    "bayes_risk_bounds",
    "positive_predictive_value",
    "tpr_at_fpr",
    "tpr_at_fpr_bounds",
    "tradeoff",
    "tradeoff_bounds",
]

_TIGHT: Final = 1e-6
_BOTH_WAYS: Final = ("add_remove", "zero_out", "replace_one")
Envelope = Literal["pointwise", "convex"]
_SHAPES: Final[tuple[Envelope, ...]] = ("pointwise", "convex")


def tradeoff(
    job: Job,
    fpr: Reals,
    *,
    neighbors: Relation = "add_remove",
    envelope: Envelope = "pointwise",
    threads: int | None = None,
) -> float | Floats:
    """Smallest false-negative rate that any attack on a job can have at a false-positive rate.

    **Guarantee.** Certified lower bound, the safe side: no attack whatsoever misses less.  For Gaussians, their samples
    and mixtures the curve itself; for other jobs ("add_remove", "zero_out", "replace_one") the largest of the lines
    that certified deltas prove, and nothing is known from above (`LOOSE`).

    Parameters
    ----------
    job : Mechanism or Process
    fpr : float or array in [0, 1]
        Broadcasts with the job.
    neighbors : {"add_remove", "add", "remove", "zero_out", "replace_one"}
        "remove": the record is absent under the null hypothesis; "add": present.  "add_remove" is the smaller value.
    envelope : {"pointwise", "convex"}
        How "add_remove" joins its two curves: the smaller value at each point, or the largest convex function below
        both, which is the curve that the job's epsilons and deltas describe.  No difference for one direction.
    threads : int, optional
        The result does not depend on it.

    Returns
    -------
    float or ndarray
        Values in [0, 1 - fpr].  Relative accuracy of 1e-9 and better where both rates are above 1e-6.

    Raises
    ------
    TypeError, ValueError
        Naming argument, value, index and allowed range.

    References
    ----------
    Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015; Dong, Roth, Su 2022.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.tradeoff(fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000, [0.01, 0.1, 0.5]).round(6)
    array([0.970861, 0.805799, 0.341424])
    """
    return unwrap(np.asarray(_read(job, fpr, neighbors, envelope, threads, both=False, positives=False).lower))


def tradeoff_bounds(
    job: Job,
    fpr: Reals,
    *,
    neighbors: Relation = "add_remove",
    envelope: Envelope = "pointwise",
    threads: int | None = None,
) -> Bounds:
    """Certified bounds of the false-negative rate of the best attack, and a status.

    **Guarantee.** The best attack on the dominating pair has a rate between them.  Arguments and errors as in
    `tradeoff`.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.tradeoff_bounds(fa.Gaussian(1.0), 0.1)
    >>> round(lower, 9), upper - lower < 1e-9
    (0.610856308, True)
    """
    return _read(job, fpr, neighbors, envelope, threads, both=True, positives=False)


def tpr_at_fpr(
    job: Job, fpr: Reals, *, neighbors: Relation = "add_remove", threads: int | None = None
) -> float | Floats:
    """Largest true-positive rate that any attack on a job can have at a false-positive rate: 1 - tradeoff.

    **Guarantee.** Certified upper bound, with relative accuracy however small it is.  Arguments and errors as in
    `tradeoff`.

    Examples
    --------
    >>> import fastacct as fa
    >>> f"{fa.tpr_at_fpr(fa.Gaussian(1.0), 1e-3):.10f}"
    '0.0182984684'
    """
    return unwrap(np.asarray(_read(job, fpr, neighbors, "pointwise", threads, both=False, positives=True).upper))


def tpr_at_fpr_bounds(
    job: Job, fpr: Reals, *, neighbors: Relation = "add_remove", threads: int | None = None
) -> Bounds:
    """Certified bounds of the true-positive rate of the best attack, and a status.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.tpr_at_fpr_bounds(fa.Gaussian(1.0), 1e-3)
    >>> lower <= 0.0182984684056566 <= upper
    True
    """
    return _read(job, fpr, neighbors, "pointwise", threads, both=True, positives=True)


def advantage(job: Job, *, neighbors: Relation = "add_remove", threads: int | None = None) -> float | Floats:
    """Largest difference of true- and false-positive rate that any attack can have: delta at epsilon 0.

    **Guarantee.** Certified upper bound; the total variation distance of the dominating pair, the same in all
    directions.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.advantage(fa.Gaussian(noise_multiplier=1.0)), 12)
    0.382924922548
    """
    return unwrap(np.asarray(advantage_bounds(job, neighbors=neighbors, threads=threads).upper))


def advantage_bounds(job: Job, *, neighbors: Relation = "add_remove", threads: int | None = None) -> Bounds:
    """Certified bounds of the advantage, and a status.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.advantage_bounds(fa.Gaussian(1.0))
    >>> lower <= 0.3829249225480262 <= upper
    True
    """
    return delta_bounds(job, epsilon=0.0, neighbors=neighbors, threads=threads)


def bayes_risk(
    job: Job, *, prior: Reals, neighbors: Relation = "add_remove", threads: int | None = None
) -> float | Floats:
    """Smallest probability of a wrong decision, when the null hypothesis has probability `prior`.

    **Guarantee.** Certified lower bound, the safe side.  min over fpr of prior fpr + (1 - prior) fnr, which is
    min(prior, 1 - prior) (1 - delta(epsilon)) at epsilon = |log(prior/(1 - prior))|.

    Parameters
    ----------
    job : Mechanism or Process
    prior : float or array in [0, 1]
        Of the null hypothesis.  Under "add_remove" prior and 1 - prior give the same.
    neighbors, threads
        As in `tradeoff`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.bayes_risk(fa.Gaussian(1.0), prior=0.3), 9)
    0.253004379
    """
    return unwrap(np.asarray(bayes_risk_bounds(job, prior=prior, neighbors=neighbors, threads=threads).lower))


def bayes_risk_bounds(
    job: Job, *, prior: Reals, neighbors: Relation = "add_remove", threads: int | None = None
) -> Bounds:
    """Certified bounds of the Bayes risk, and a status.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.bayes_risk_bounds(fa.Gaussian(1.0), prior=0.3)
    >>> lower <= 0.2530043786236346 <= upper
    True
    """
    process, relation, n_threads = as_process(job), as_relation(neighbors), as_threads(threads)
    weights = as_cells("prior", prior, UNIT, may_be_empty=True)
    shape = shape_with(process, "prior", weights)
    if relation in _BOTH_WAYS and not is_exact_curve(process, relation):
        return _risk_of_curve(process, np.broadcast_to(weights, shape), relation, n_threads)
    exact = contour_of(process, relation, "a trade-off curve of one direction")
    cells, pi = owners(exact.shape, shape), np.ascontiguousarray(np.broadcast_to(weights, shape)).ravel()
    smaller = np.minimum(pi, 1.0 - pi)
    inner = smaller > 0.0
    lower, upper, status = np.zeros(pi.size), np.zeros(pi.size), np.zeros(pi.size, dtype=np.uint8)
    # which direction's curve is touched: e^epsilon = prior/(1 - prior) is right or left of 1
    for mine, way in ((inner & (pi >= 0.5), exact.directions), (inner & (pi < 0.5), _reverse(exact))):
        if not mine.any():
            continue
        p = pi[mine]
        epsilon = np.abs(np.log(p) - np.log1p(-p))
        pad = PAD * (1.0 + np.abs(np.log(p)) + np.abs(np.log1p(-p)))
        high = exact.read(cells[mine], np.maximum(epsilon - pad, 0.0), DELTA, way, n_threads)
        low = exact.read(cells[mine], epsilon + pad, DELTA, way, n_threads)
        lower[mine] = np.maximum(smaller[mine] * (1.0 - high.upper) * (1.0 - PAD), 0.0)
        upper[mine] = smaller[mine] * (1.0 - low.lower) * (1.0 + PAD)
        status[mine] = np.maximum(high.status, low.status)
    return plain_bounds(Bounds(lower.reshape(shape), upper.reshape(shape), status.reshape(shape)))


def _risk_of_curve(process: Process, prior: Cells, neighbors: Relation, threads: int) -> Bounds:
    """min(prior, 1 - prior) (1 - delta) at epsilon = |log(prior / (1 - prior))|."""
    smaller = np.minimum(prior, 1.0 - prior)
    with np.errstate(divide="ignore"):
        log_one, log_other = np.log(prior), np.log1p(-prior)
    epsilon = np.where(smaller > 0.0, np.abs(log_one - log_other), np.inf)
    with np.errstate(invalid="ignore"):
        pad = np.where(smaller > 0.0, PAD * (1.0 + np.abs(log_one) + np.abs(log_other)), 0.0)
    high = delta_bounds(process, epsilon=np.maximum(epsilon - pad, 0.0), neighbors=neighbors, threads=threads)
    low = delta_bounds(process, epsilon=epsilon + pad, neighbors=neighbors, threads=threads)
    lower = np.maximum(smaller * (1.0 - np.asarray(high.upper)) * (1.0 - PAD), 0.0)
    upper = smaller * (1.0 - np.asarray(low.lower)) * (1.0 + PAD)
    return plain_bounds(Bounds(lower, upper, np.maximum(high.status, low.status).astype(np.uint8)))


def positive_predictive_value(
    job: Job, fpr: Reals, *, prior: Reals, neighbors: Relation = "add_remove", threads: int | None = None
) -> float | Floats:
    """Largest probability that an alarm is right, at a false-positive rate and a prior of the null hypothesis.

    **Guarantee.** Certified upper bound: (1 - prior) tpr / ((1 - prior) tpr + prior fpr).  At fpr = 0 it is 1: an alarm
    that is never false can be had, if rarely.

    Parameters
    ----------
    job : Mechanism or Process
    fpr, prior : float or array in [0, 1]
        They broadcast with each other and with the job.
    neighbors, threads
        As in `tradeoff`.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000
    >>> round(fa.positive_predictive_value(run, 0.01, prior=0.5), 4)
    0.7445
    """
    weights = as_cells("prior", prior, UNIT, may_be_empty=True)
    rate = as_cells("fpr", fpr, UNIT, may_be_empty=True)
    common_shape({"job": np.broadcast_to(0.0, as_process(job).shape), "fpr": rate, "prior": weights})
    tpr = np.asarray(tpr_at_fpr(job, rate, neighbors=neighbors, threads=threads))
    right, wrong = (1.0 - weights) * tpr, weights * rate
    with np.errstate(invalid="ignore"):
        value = np.where((rate == 0.0) & (weights < 1.0), 1.0, right / (right + wrong) * (1.0 + PAD))
    return unwrap(np.where(weights == 1.0, 0.0, np.minimum(value, 1.0)))


def _reverse(job: Contour) -> int:
    """The directions with the hypotheses exchanged."""
    return job.directions if job.directions == BOTH else ADD + REMOVE - job.directions


def _read(
    job: Job, fpr: Reals, neighbors: Relation, envelope: Envelope, threads: int | None, *, both: bool, positives: bool
) -> Bounds:
    """Bounds of the false-negative rate, or of the true-positive rate; without `both` one side is trivial."""
    process, relation, n_threads = as_process(job), as_relation(neighbors), as_threads(threads)
    joined = as_choice("envelope", envelope, _SHAPES) == "convex"
    rate = as_cells("fpr", fpr, UNIT, may_be_empty=True)
    shape = shape_with(process, "fpr", rate)
    if relation in _BOTH_WAYS and not is_exact_curve(process, relation):
        return supporting_lines(process, np.broadcast_to(rate, shape), relation, n_threads, positives=positives)
    exact = contour_of(process, relation, "a trade-off curve of one direction")
    cells, x = owners(exact.shape, shape), np.ascontiguousarray(np.broadcast_to(rate, shape)).ravel()
    ways = _ways(exact, joined)
    all_rates = [error_rates(exact, cells, x, way, n_threads, both=both) for way in ways]
    lower, upper = _joined(all_rates, positives)
    status = _status(lower, upper, nothing_known=(lower <= 0.0) & (x < 1.0) & (not positives))
    return plain_bounds(Bounds(lower.reshape(shape), upper.reshape(shape), status.reshape(shape)))


def _ways(job: Contour, joined: bool) -> tuple[int, ...]:
    """The curves to compute: both directions one by one, or what there is."""
    return (REMOVE, ADD) if job.directions == BOTH and not job.is_mirrored and not joined else (job.directions,)


def _joined(all_rates: list[Rates], positives: bool) -> tuple[Cells, Cells]:
    """The curve of the best attack over all directions."""
    if positives:
        lower, upper = ([getattr(rates, f"tpr_{side}") for rates in all_rates] for side in ("lower", "upper"))
        return np.max(lower, axis=0), np.max(upper, axis=0)
    lower, upper = ([getattr(rates, f"fnr_{side}") for rates in all_rates] for side in ("lower", "upper"))
    return np.min(lower, axis=0) + 0.0, np.min(upper, axis=0) + 0.0  # no negative zero


def _status(lower: Cells, upper: Cells, *, nothing_known: NDArray[np.bool_]) -> Codes:
    codes = np.where(upper - lower <= _TIGHT * upper, Status.TIGHT, Status.LOOSE)
    return np.where(nothing_known, Status.NOT_MET, codes).astype(np.uint8)
