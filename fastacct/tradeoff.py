"""What an attacker can do: the trade-off curve of a job, and the quantities read off it.

An attacker sees the output and decides between two hypotheses: the record was there, or it was not.  A false positive
is an alarm under the null hypothesis, a false negative a miss under the other.  The direction names the pair: "remove"
takes "not there" for the null hypothesis (membership inference), "add" the reverse; their curves are inverses.
"""

from __future__ import annotations

import warnings
from typing import Literal, Unpack

import numpy as np

from fastacct.accountants.question import CurveOptions, Job, answer, checked, plain_bounds
from fastacct.accountants.run import verb
from fastacct.core.bounds import Bounds, status_of
from fastacct.core.inputs import PAD, UNIT, Floats, Reals, as_cells, as_choice, common_shape, unwrap
from fastacct.core.labels import labelled
from fastacct.core.relations import Relation, as_relation
from fastacct.readers.attack import bayes_risk as risk_bounds
from fastacct.readers.attack import rates

__all__ = ["advantage", "advantage_bounds", "bayes_risk", "bayes_risk_bounds", "positive_predictive_value"]
__all__ += ["positive_predictive_value_bounds", "tpr_at_fpr", "tpr_at_fpr_bounds", "tradeoff", "tradeoff_bounds"]

Envelope = Literal["pointwise", "convex"]


@verb(CurveOptions.__annotations__)
def tradeoff(
    job: Job, fpr: Reals, *, envelope: Envelope = "pointwise", **options: Unpack[CurveOptions]
) -> float | Floats:
    """Smallest false-negative rate that any attack on a job can have at a false-positive rate.

    **Guarantee.** Certified lower bound, the safe side: no attack whatsoever misses less.  The curve itself where the
    contour integral certifies it: Gaussians, Laplace noise, responses, your own densities, their samples and sums of
    them, and every exact mechanism beside Gaussian noise.  For other jobs (tables of three outcomes and more;
    "add_remove", "zero_out", "replace_one" alone) the largest of the lines that certified deltas prove: nothing from
    above (`LOOSE`).

    Parameters
    ----------
    job, threads
        As in `fastacct.epsilon`, and the same errors.
    fpr : float or array in [0, 1]
        Broadcasts with the job.
    neighbors : {"add_remove", "add", "remove", "zero_out", "replace_one"}
        "remove": the record is absent under the null hypothesis; "add": present.  "add_remove" is the smaller value.
    envelope : {"pointwise", "convex"}
        How "add_remove" joins its two curves: the smaller value at each point, or the largest convex function below
        both, which is the curve that the job's epsilons and deltas describe.  No difference for one direction.

    Returns
    -------
    float or ndarray
        Values in [0, 1 - fpr].  Relative accuracy of 1e-9 and better for Gaussians where both rates are above 1e-6.

    References
    ----------
    Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015; Dong, Roth, Su 2022.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.tradeoff(fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000, [0.01, 0.1, 0.5]).round(6)
    array([0.970861, 0.805799, 0.341424])
    """
    return unwrap(_misses(job, fpr, **options, envelope=envelope, both=False).lower)


@verb(CurveOptions.__annotations__)
def tradeoff_bounds(
    job: Job, fpr: Reals, *, envelope: Envelope = "pointwise", **options: Unpack[CurveOptions]
) -> Bounds:
    """Certified bounds of the false-negative rate of the best attack, and a status.

    **Guarantee.** The best attack on the dominating pair has a rate between them.  Arguments and errors as in
    `tradeoff`.

    >>> import fastacct as fa
    >>> lower, upper, _ = fa.tradeoff_bounds(fa.Gaussian(1.0), 0.1)
    >>> round(lower, 9), upper - lower < 1e-9
    (0.610856308, True)
    """
    return plain_bounds(_misses(job, fpr, **options, envelope=envelope))


@verb(CurveOptions.__annotations__)
def tpr_at_fpr(job: Job, fpr: Reals, **options: Unpack[CurveOptions]) -> float | Floats:
    """Largest true-positive rate that any attack on a job can have at a false-positive rate: 1 - tradeoff.

    **Guarantee.** Certified upper bound, with relative accuracy however small it is.  Arguments and errors as in
    `tradeoff`.

    >>> import fastacct as fa
    >>> f"{fa.tpr_at_fpr(fa.Gaussian(1.0), 1e-3):.10f}"
    '0.0182984684'
    """
    return unwrap(_hits(job, fpr, **options, both=False, positives=True).upper)


@verb(CurveOptions.__annotations__)
def tpr_at_fpr_bounds(job: Job, fpr: Reals, **options: Unpack[CurveOptions]) -> Bounds:
    """Certified bounds of the true-positive rate of the best attack, and a status; as `tpr_at_fpr`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.tpr_at_fpr_bounds(fa.Gaussian(1.0), 0.01).upper, 6)
    0.092362
    """
    return plain_bounds(_hits(job, fpr, **options, positives=True))


@verb(CurveOptions.__annotations__)
def advantage(job: Job, **options: Unpack[CurveOptions]) -> float | Floats:
    """Largest difference of true- and false-positive rate that any attack can have: delta at epsilon 0.

    **Guarantee.** Certified upper bound; the total variation distance of the dominating pair, the same in all
    directions.  Arguments and errors as in `tradeoff`.

    >>> import fastacct as fa
    >>> round(fa.advantage(fa.Gaussian(noise_multiplier=1.0)), 12)
    0.382924922548
    """
    return unwrap(answer("delta", job, 0.0, **options).upper)


@verb(CurveOptions.__annotations__)
def advantage_bounds(job: Job, **options: Unpack[CurveOptions]) -> Bounds:
    """Certified bounds of the advantage, and a status; as `advantage`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.advantage_bounds(fa.Gaussian(1.0)).upper, 6)
    0.382925
    """
    return plain_bounds(answer("delta", job, 0.0, **options))


@verb(CurveOptions.__annotations__)
def bayes_risk(
    job: Job, members: Reals | None = None, *, prior: Reals | None = None, **options: Unpack[CurveOptions]
) -> float | Floats:
    """Smallest probability of a wrong decision, when the record is a member with probability `members`, in [0, 1].

    **Guarantee.** Certified lower bound, the safe side.  min over fpr of (1 - members) fpr + members fnr, which is
    min(members, 1 - members) (1 - delta(epsilon)) at epsilon = |log(members/(1 - members))|.  "add" and "remove" give
    the same; under the other relations members and 1 - members do.  Arguments and errors as in `tradeoff`.

    `prior`, the former keyword, is deprecated: it is the probability of the null hypothesis, 1 - `members` (under "add"
    `members`).

    >>> import fastacct as fa
    >>> round(fa.bayes_risk(fa.Gaussian(1.0), members=0.3), 9)
    0.253004379
    """
    return unwrap(_risks(job, *_weights(members, prior, options), options).lower)


@verb(CurveOptions.__annotations__)
def bayes_risk_bounds(
    job: Job, members: Reals | None = None, *, prior: Reals | None = None, **options: Unpack[CurveOptions]
) -> Bounds:
    """Certified bounds of the Bayes risk, and a status; as `bayes_risk`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.bayes_risk_bounds(fa.Gaussian(1.0), members=0.5).lower, 6)
    0.308538
    """
    return plain_bounds(_risks(job, *_weights(members, prior, options), options))


@verb(CurveOptions.__annotations__)
def positive_predictive_value(
    job: Job, fpr: Reals, members: Reals | None = None, *, prior: Reals | None = None, **options: Unpack[CurveOptions]
) -> float | Floats:
    """Largest probability that an alarm is right at a false-positive rate, and a share of members among suspects.

    **Guarantee.** Certified upper bound: members tpr / (members tpr + (1 - members) fpr).  At fpr = 0 it is 1: an alarm
    that is never false can be had, if rarely.  fpr and members, in [0, 1], broadcast with each other and with the job.
    Under "add" an alarm says that the record is not there, and members and 1 - members change places.

    `prior`, the former keyword, is deprecated; see `bayes_risk`.

    >>> import fastacct as fa
    >>> run = fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000
    >>> round(fa.positive_predictive_value(run, 0.01, members=0.1), 4)
    0.2446
    """
    return unwrap(_alarms(job, fpr, *_weights(members, prior, options), options, both=False).upper)


@verb(CurveOptions.__annotations__)
def positive_predictive_value_bounds(
    job: Job, fpr: Reals, members: Reals | None = None, *, prior: Reals | None = None, **options: Unpack[CurveOptions]
) -> Bounds:
    """Certified bounds of the probability that an alarm of the best attack is right; as `positive_predictive_value`.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.positive_predictive_value_bounds(fa.Gaussian(1.0), 0.01, members=0.1).lower, 6)
    0.506477
    """
    return plain_bounds(_alarms(job, fpr, *_weights(members, prior, options), options, both=True))


def _alarms(
    job: Job, fpr: Reals, name: str, weight: Reals, is_null: bool, options: CurveOptions, *, both: bool
) -> Bounds:
    """Bounds of the probability that an alarm is right, which rises with the true-positive rate."""
    share, rate = as_cells(name, weight, UNIT, may_be_empty=True), as_cells("fpr", fpr, UNIT, may_be_empty=True)
    hits = _hits(job, fpr, **options, both=both, positives=True)
    common_shape({"job and fpr": np.asarray(hits.upper), name: share})
    null, alternative = (share, 1.0 - share) if is_null else (1.0 - share, share)
    with np.errstate(invalid="ignore"):
        least, most = (alternative * tpr / (alternative * tpr + null * rate) for tpr in hits[:2])
    lower = np.where(hits.lower * alternative > 0.0, least * (1.0 - PAD), 0.0)
    upper = np.where((rate == 0.0) & (alternative > 0.0), 1.0, np.minimum(most * (1.0 + PAD), 1.0))
    upper = np.where(alternative == 0.0, 0.0, upper)
    return Bounds(lower, upper, status_of(lower, upper))


def _weights(members: Reals | None, prior: Reals | None, options: CurveOptions) -> tuple[str, Reals, bool]:
    """The name of the share that is given, its value, and whether it is of the null hypothesis."""
    relation = as_relation(options.get("neighbors", "add_remove"))
    if prior is None:
        if members is None:
            raise TypeError("members is missing: the probability that the record is a member")
        return "members", members, relation == "add"
    if members is not None:
        raise TypeError("give members, and no prior, which is its former name")
    meant = "members = prior" if relation == "add" else "members = 1 - prior"
    told = f"prior is the probability of the null hypothesis: give the probability that the record is a member, {meant}"
    warnings.warn(told, DeprecationWarning, stacklevel=4)
    return "prior", prior, True


def _risks(job: Job, name: str, share: Reals, is_null: bool, options: CurveOptions) -> Bounds:
    """Bounds of the Bayes risk; a share of the other hypothesis is that of the null of the reverse direction."""
    process, cells, shape, relation, threads = checked(job, name, share, UNIT, **options)
    return risk_bounds(process, cells, shape, relation if is_null or relation != "remove" else "add", threads)


def _rates(
    job: Job,
    fpr: Reals,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
    envelope: Envelope = "pointwise",
    *,
    both: bool = True,
    positives: bool = False,
) -> Bounds:
    convex = as_choice("envelope", envelope, ("pointwise", "convex")) == "convex"
    question = checked(job, "fpr", fpr, UNIT, neighbors=neighbors, threads=threads)
    return rates(*question, positives=positives, both=both, convex=convex)


_misses, _hits = labelled("fnr")(_rates), labelled("tpr")(_rates)
