"""Mechanisms that answer with a choice: noisy maxima, thresholds, streams of tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from fastacct.core.inputs import BILLION, COUNT, NONNEGATIVE, POSITIVE, UNIT, Cells, Reals, as_cells, as_number, unwrap
from fastacct.core.relations import ALL, SAMPLED, Relation
from fastacct.core.rounding import float_above, multiplied_up
from fastacct.losses.atoms import both, epsilon_delta, in_reach
from fastacct.losses.divergence import padded, square, unknown
from fastacct.losses.loss import NOTHING, Pair, legendre
from fastacct.losses.panels import bounded_range
from fastacct.mechanisms import error
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, option, parameter, plain
from fastacct.mechanisms.guarantee import ApproxDP, PureDP
from fastacct.mechanisms.laplace import Laplace


class Exponential(Mechanism, relations=ALL, tight=False):
    """The exponential mechanism: outcome r with probability proportional to exp(epsilon score(r) / (2 sensitivity)).

    **Guarantee.** A bound, tight over all mechanisms of the class: `epsilon` is the range that the losses of one pair
    of data sets can spread over (bounded range, Durfee and Rogers 2019).  The dominating pair of that class is used; it
    holds when later steps are chosen adaptively.  With scores that all move the same way (monotone),
    exp(epsilon score / sensitivity) has this range, too.

    Examples
    --------
    >>> import fastacct as fa
    >>> a, b = fa.Exponential(epsilon=0.5) * 5, fa.PureDP(epsilon=0.5) * 5
    >>> bool(fa.delta(a, epsilon=0.8) < 0.3 * fa.delta(b, epsilon=0.8))
    True
    """

    epsilon: Reals = parameter(NONNEGATIVE)

    def losses(self, relation: Relation) -> Pair:
        epsilon = plain(self.epsilon)
        if epsilon < 1e-290:
            return NOTHING if epsilon == 0.0 else both(epsilon_delta(epsilon, 0.0))
        in_reach(epsilon, 600.0)
        return bounded_range(epsilon)

    def divergence(self, orders: Cells, relation: Relation) -> Cells:
        """The largest of two points with losses t - epsilon and t, over t; never above epsilon^2 alpha / 8."""
        epsilon = plain(self.epsilon)
        if math.isinf(epsilon):
            return unknown(orders)
        bound = np.minimum(orders * square(epsilon) / 8.0, epsilon)
        if epsilon < 1e-2:
            return padded(bound)
        a = orders - 1.0
        log_one = np.log(-np.expm1(-orders * epsilon))
        t = np.log(a / orders) + log_one + epsilon - np.log(-np.expm1(-a * epsilon))
        value = t + (log_one - np.log(orders * -math.expm1(-epsilon))) / a
        return padded(np.minimum(value + 1e-15 * (1.0 + epsilon) * (1.0 + 1.0 / a), bound))

    def pure_epsilon(self, relation: Relation) -> float:
        return plain(self.epsilon)

    def grouped(self, size: int, relation: Relation) -> Process:
        return Exponential(multiplied_up(self.epsilon, size)) * 1

    def concentration(self, relation: Relation) -> float:
        """epsilon^2/8 (Cesar, Rogers 2021)."""
        return square(plain(self.epsilon)) / 8.0 * (1.0 + 1e-15)

    def error_law(
        self, *, scores: Sequence[float] | None = None, outcomes: float | None = None, monotone: bool = False
    ) -> error.ErrorLaw:
        """How far the score of the outcome is below the best, in units of the sensitivity of a score: exact for given
        scores, for `outcomes` of any scores a bound; published: 2 log(N / beta) / epsilon (Dwork, Roth 2014, 3.11)."""
        rate = plain(self.epsilon) * (1.0 if monotone else 0.5)
        return _of_choice(rate, scores, outcomes, lambda chances: chances / math.fsum(chances))


class PermuteAndFlip(Mechanism, tight=False):
    """Permute-and-flip (McKenna, Sheldon 2020), and report-noisy-max with one-sided exponential or Laplace noise.

    **Guarantee.** A bound: epsilon-DP, where the noise has scale 2 sensitivity / epsilon; sensitivity / epsilon
    suffices only where all scores move the same way (`monotone`).  They do not when a record is replaced, a vote moved
    from one candidate to another: replace-one is refused then.  (With Gumbel noise it is the exponential mechanism.)
    """

    epsilon: Reals = parameter(NONNEGATIVE)
    monotone: bool = option((False, True), False, about="`epsilon` is for scores that all move the same way.")

    @property
    def relations(self) -> tuple[Relation, ...]:  # type: ignore[override]
        return SAMPLED if self.monotone else ALL

    def error_law(self, *, scores: Sequence[float] | None = None, outcomes: float | None = None) -> error.ErrorLaw:
        """As that of `Exponential`, which is never better (McKenna, Sheldon 2020, theorem 2)."""
        rate = plain(self.epsilon) * (1.0 if self.monotone else 0.5)
        return _of_choice(rate, scores, outcomes, _flipped)

    def decompose(self, relation: Relation) -> Process:
        return PureDP(self.epsilon) * 1

    @classmethod
    def from_scale(cls, scale: Reals, sensitivity: float = 1.0, *, monotone: bool = False) -> PermuteAndFlip:
        """Of noise with this scale.  Without `monotone` some scores may rise while others fall: twice the epsilon.

        Scores that all move the same way when a record is added mostly do not when one is replaced: with `monotone`
        replace-one is refused.  The quotient is rounded up.

        Examples
        --------
        >>> PermuteAndFlip.from_scale(2.0), PermuteAndFlip.from_scale(2.0, monotone=True)
        (PermuteAndFlip(epsilon=1.0), PermuteAndFlip(epsilon=0.5, monotone=True))
        """
        cells, most = as_cells("scale", scale, POSITIVE), np.finfo(float).max
        top = Fraction(as_number("sensitivity", sensitivity, POSITIVE)) * (1 if monotone is True else 2)
        up = [float_above(one) if one <= most else math.inf for one in (top / Fraction(cell) for cell in cells.flat)]
        return cls(unwrap(np.reshape(up, cells.shape)), monotone)

    def __repr__(self) -> str:
        more = ", monotone=True" if self.monotone else ""
        return f"PermuteAndFlip(epsilon={self.epsilon!r}{more})"


class AboveThreshold(Mechanism, relations=ALL, tight=False):
    """The first query above a noisy threshold: noise Laplace(2 s/epsilon) on the threshold, Laplace(4 s/epsilon) on
    each query, s the sensitivity of a query.

    **Guarantee.** A bound: epsilon-DP however many queries are asked before the one that is above.  Releasing the value
    of that query costs a fresh `Laplace` (never the noise that was compared).  Source: Dwork, Roth 2014, section 3.6.
    """

    epsilon: Reals = parameter(NONNEGATIVE)

    def error_law(self, *, queries: float) -> error.ErrorLaw:
        """The margin a within which the answers are right, in units of the sensitivity of a query: the tail at a is the
        probability of a wrong answer among `queries` queries, all but the last a below the threshold and the last a
        above it, the worst queries with that margin.  Published: 8 log(2 k / beta) / epsilon (Dwork, Roth 2014, 3.24).
        """
        k, epsilon = as_number("queries", queries, COUNT), plain(self.epsilon)
        return _margin((k,), epsilon)

    def decompose(self, relation: Relation) -> Process:
        return PureDP(self.epsilon) * 1


class SparseVector(Mechanism, relations=ALL, tight=False):
    """`answers` queries above a threshold, the threshold's noise drawn afresh after each: as many `AboveThreshold`.

    **Guarantee.** A bound, the composition of its runs.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.SparseVector(epsilon=0.1, answers=3).decompose("add_remove")
    Process({AboveThreshold(epsilon=0.1): 3})
    """

    epsilon: Reals = parameter(NONNEGATIVE, about="Of one run: noise Laplace(2 s/epsilon) and Laplace(4 s/epsilon).")
    answers: int = constant(BILLION, 1)

    def error_law(self, *, queries: Sequence[float] | float) -> error.ErrorLaw:
        """As that of `AboveThreshold`: the number of queries of each run, the one above the threshold included."""
        counts = np.broadcast_to(as_cells("queries", queries, COUNT), (self.answers,))
        return _margin(tuple(counts.tolist()), plain(self.epsilon))

    def decompose(self, relation: Relation) -> Process:
        return AboveThreshold(self.epsilon) * self.answers


_HOLDOUT: Final = "Dwork, Feldman, Hardt, Pitassi, Reingold, Roth 2015"


class Thresholdout(Mechanism, relations=("replace_one",), tight=False):
    """The reusable holdout (Dwork et al. 2015): queries with values in [0, 1] answered from the training set until they
    differ from the holdout's by a noisy threshold, at most `budget` times.

    **Guarantee.** A bound for replacing one record of the holdout: each of the `budget` answers is one `AboveThreshold`
    (threshold noise Laplace(2 rate), comparison Laplace(4 rate)) and one value with noise Laplace(rate).  The published
    closed forms, (2 budget/(rate size), 0) and (sqrt(32 budget log(2/delta))/(rate size), delta), are looser.

    Examples
    --------
    >>> import fastacct as fa
    >>> holdout = fa.Thresholdout(rate=0.02, size=1_000_000, budget=1)
    >>> round(fa.utility(holdout, threshold=0.05).quantile(0.05), 3)
    0.3
    """

    rate: float = constant(POSITIVE, about="Scale of the answers' noise.")
    size: int = constant(BILLION, about="Records of the holdout.")
    budget: int = constant(BILLION)

    def error_law(self, *, threshold: float) -> error.ErrorLaw:
        """How far an answer is from the population's value, in its own unit: a bound, questions chosen adaptively.

        P[error > threshold + (t + 1) tau] <= 6 exp(-tau^2 size/2) + budget exp(-t/8), tau = rate/2 (after Dwork et al.
        2015): the answers so far are budget/(tau size)-DP, which is at most tau, so that the holdout's value is within
        tau of the population's; from the holdout's the answer differs by the noise of the comparison, or by its own.
        The statement as printed has no factor `budget`, and is false for more than one answer: the threshold's noise
        stays until it is crossed, so that somebody may ask until it is a high one.
        """
        base, tau = as_number("threshold", threshold, UNIT), 0.5 * self.rate
        if self.budget > tau * tau * self.size:
            raise ValueError(
                f"the error of {self!r} is not known: the theorem needs budget <= (rate/2)^2 size = "
                f"{tau * tau * self.size:g}"
            )
        missed = 6.0 * math.exp(-0.5 * tau * tau * self.size)

        def tail(t: Cells) -> Cells:
            beyond = self.budget * np.exp((1.0 - (t - base) / tau) / 8.0)
            return np.asarray(np.where(t < base + tau, 1.0, np.minimum(1.0, missed + beyond)))

        def published(beta: float) -> float:
            return base + (1.0 - 8.0 * math.log(beta - missed)) * tau if beta > missed else math.inf

        found = "error of an answer, against the population"
        return error.ErrorLaw(math.nan, found, tail, published if self.budget == 1 else None, False, _HOLDOUT)

    def decompose(self, relation: Relation) -> Process:
        # noise over the sensitivity 1/size to a replacement; what overflows is not infinite
        scale = min(self.rate * self.size, 5e307)
        one = max((1.0 + 2.0**-51) / scale, 5e-324)
        return AboveThreshold(one) * self.budget + Laplace(2.0 * scale * (1.0 - 2.0**-52)) * self.budget


class Paprika(Mechanism, relations=ALL, tight=False):
    """PAPRIKA, private online testing of hypotheses (Zhang, Kamath, Cummings 2021): accounted for as its theorem says.

    **Guarantee.** That of the published theorem, (epsilon, delta)-DP for the whole stream, and only under its
    conditions: p-values of multiplicative sensitivity `eta`, significance levels that depend on released bits alone.
    The algorithm as commonly printed, without a shift of the threshold, does not have the claimed guarantee: candidacy
    bits are not noised, and one p-value whose bit flips between two data sets gives a delta of 0.508 at every epsilon.
    `conditions_hold=True` says that the caller has verified the algorithm that is run.  Without it nothing is claimed.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.delta(fa.Paprika(epsilon=1.0, delta=1e-6, conditions_hold=True), epsilon=1.0) <= 1.0000001e-6
    True
    """

    epsilon: Reals = parameter(NONNEGATIVE, about="Of the published theorem, for the whole stream.")
    delta: Reals = parameter(UNIT, about="Of the published theorem, for the whole stream.")
    conditions_hold: bool = False

    def __post_init__(self) -> None:
        if self.conditions_hold is not True:
            raise ValueError(
                "conditions_hold must be True: the theorem needs p-values of bounded multiplicative sensitivity and "
                "levels that depend on released bits alone; what does not satisfy it is not accounted for"
            )
        super().__post_init__()

    def decompose(self, relation: Relation) -> Process:
        return ApproxDP(self.epsilon, self.delta) * 1


# -- accuracy --------------------------------------------------------------------------------------------------------

_GAP = "score below the best, in units of its sensitivity"
_NODES = 64


def _chances(rate: float, gaps: Cells) -> Cells:
    """exp(-rate gap), 1 for the best also at an infinite rate."""
    with np.errstate(invalid="ignore"):
        return np.where(gaps > 0.0, np.exp(-rate * gaps), 1.0)


def _of_choice(
    rate: float, scores: Sequence[float] | None, outcomes: float | None, masses: Callable[[Cells], Cells]
) -> error.ErrorLaw:
    """Of one of these scores, or of any of so many; `masses` makes probabilities of exp(-rate gap)."""
    if scores is None:
        return _of_outcomes(rate, outcomes)
    if outcomes is not None:
        raise TypeError("give either scores or outcomes, not both")
    gaps = error.as_scores(scores)
    mass = masses(_chances(rate, gaps))
    return error.from_table(gaps, mass, _GAP, lambda beta: math.log(gaps.size / beta) / rate if rate else math.inf)


def _of_outcomes(rate: float, outcomes: float | None) -> error.ErrorLaw:
    """P(gap > t) is at most N exp(-rate t): the best has weight 1, of the others at most N - 1 have less."""
    if outcomes is None:
        raise TypeError("give scores, the score of each outcome, or outcomes, the number of them")
    log_n = math.log(as_number("outcomes", outcomes, COUNT))
    square = (log_n * log_n + 2.0 * log_n + 2.0) / (rate * rate) if rate > 0.0 else math.inf
    return error.ErrorLaw(
        square,
        _GAP,
        lambda t: np.minimum(math.exp(min(log_n, 700.0)) * _chances(rate, np.asarray(t)), 1.0),
        lambda beta: (log_n - math.log(beta)) / rate if rate > 0.0 else math.inf,
        is_exact=False,
        source="Dwork, Roth 2014, theorem 3.11",
    )


def _flipped(chance: Cells) -> Cells:
    """Probabilities of permute-and-flip: p_r times the integral of prod (1 - p_s t) over t in [0, 1], s the others."""
    (points, weights), found = legendre(_NODES), np.zeros(chance.size)
    high = 1.0
    for _ in range(60):  # panels that halve towards 0, where the products of many outcomes are
        low = 0.5 * high
        t = 0.5 * (high + low) + 0.5 * (high - low) * points
        with np.errstate(divide="ignore"):
            logs = np.log1p(-chance[:, None] * t)
        found += np.exp(logs.sum(axis=0) - logs) @ (0.5 * (high - low) * weights)
        high = low
    found += high
    return np.asarray(chance * found)


def _margin(queries: tuple[float, ...], epsilon: float) -> error.ErrorLaw:
    """Runs of `AboveThreshold` with a new threshold each: every one is right."""
    counted = {k: queries.count(k) for k in queries}

    def tail(t: Cells) -> Cells:
        wide = np.asarray(t, dtype=np.float64)
        wrong = np.array([[_wrong(k, 0.25 * epsilon * a) for a in wide.ravel().tolist()] for k in counted])
        with np.errstate(divide="ignore"):
            found = -np.expm1(np.array([*counted.values()]) @ np.log1p(-np.minimum(wrong, 1.0)))
        return np.asarray(found.reshape(wide.shape))

    def published(beta: float) -> float:  # of one run with all queries, its beta shared among the runs
        return 8.0 * math.log(2.0 * max(queries) * len(queries) / beta) / epsilon if epsilon > 0.0 else math.inf

    source = "Dwork, Roth 2014, theorem 3.24"
    return error.ErrorLaw(math.nan, "margin around the threshold", tail, published, source=source)


def _wrong(queries: float, margin: float) -> float:
    """Probability of a wrong answer; the queries' noise has scale 1, the threshold's 1/2, and `margin` is in that unit.

    A query at -margin stays below a threshold moved by r with probability F(margin + r), one at +margin is above it
    with probability 1 - F(r - margin): one integral over r, between the kinks of the three densities.
    """
    if not margin < 750.0 + math.log(queries):
        return 0.0  # below the smallest float
    (points, weights), reach = legendre(_NODES), 45.0 + math.log(queries)
    edges = [-margin - reach, *sorted((-margin, 0.0, margin)), margin + reach]
    total = 0.0
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            cuts = np.linspace(start, stop, 2 + int((stop - start) / 2.0))
            middle, half = 0.5 * (cuts[1:] + cuts[:-1]), 0.5 * np.diff(cuts)
            r = (middle[:, None] + half[:, None] * points).ravel()
            right = (queries - 1.0) * _log_below(margin + r) + _log_below(margin - r)
            total += float(np.sum(np.exp(-2.0 * np.abs(r)) * -np.expm1(right) * (half[:, None] * weights).ravel()))
    return total


def _log_below(x: Cells) -> Cells:
    """log of the probability that Laplace noise of scale 1 is below x."""
    with np.errstate(over="ignore"):
        return np.where(x < 0.0, x - math.log(2.0), np.log1p(-0.5 * np.exp(-np.abs(x))))
