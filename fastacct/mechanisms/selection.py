"""Mechanisms that answer with a choice: noisy maxima, thresholds, streams of tests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastacct.core.inputs import BILLION, NONNEGATIVE, POSITIVE, Cells, Reals
from fastacct.core.relations import ALL, SAMPLED, Relation
from fastacct.core.rounding import multiplied_up
from fastacct.losses.atoms import both, epsilon_delta, in_reach
from fastacct.losses.density import bounded_range
from fastacct.losses.divergence import padded, square, unknown
from fastacct.losses.loss import NOTHING, Pair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, option, parameter, plain
from fastacct.mechanisms.guarantee import PureDP
from fastacct.mechanisms.laplace import Laplace

__all__ = ["AboveThreshold", "Exponential", "PermuteAndFlip", "SparseVector", "Thresholdout"]


@dataclass(frozen=True, eq=False)
class Exponential(Mechanism, relations=ALL, tight=False):
    """The exponential mechanism: outcome r with probability proportional to exp(epsilon score(r) / (2 sensitivity)).

    **Guarantee.** A bound, tight over all mechanisms of the class: `epsilon` is the range that the losses of one pair
    of data sets can spread over (bounded range, Durfee and Rogers 2019), and the dominating pair of that class is used;
    it holds when later steps are chosen adaptively.  With scores that all move the same way (monotone),
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
        return both(bounded_range(epsilon))

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


@dataclass(frozen=True, eq=False)
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

    def decompose(self, relation: Relation) -> Process:
        return PureDP(self.epsilon) * 1


@dataclass(frozen=True, eq=False)
class AboveThreshold(Mechanism, relations=ALL, tight=False):
    """The first query above a noisy threshold: noise Laplace(2 s/epsilon) on the threshold, Laplace(4 s/epsilon) on
    each query, s the sensitivity of a query.

    **Guarantee.** A bound: epsilon-DP however many queries are asked before the one that is above.  Releasing the value
    of that query costs a fresh `Laplace` (never the noise that was compared).  Source: Dwork, Roth 2014, section 3.6.
    """

    epsilon: Reals = parameter(NONNEGATIVE)

    def decompose(self, relation: Relation) -> Process:
        return PureDP(self.epsilon) * 1


@dataclass(frozen=True, eq=False)
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

    def decompose(self, relation: Relation) -> Process:
        return AboveThreshold(self.epsilon) * self.answers


@dataclass(frozen=True, eq=False)
class Thresholdout(Mechanism, relations=("replace_one",), tight=False):
    """The reusable holdout (Dwork et al. 2015): queries with values in [0, 1] answered from the training set until they
    differ from the holdout's by a noisy threshold, at most `budget` times.

    **Guarantee.** A bound for replacing one record of the holdout: each of the `budget` answers is one `AboveThreshold`
    (threshold noise Laplace(2 rate), comparison Laplace(4 rate)) and one value with noise Laplace(rate).  The published
    closed forms, (2 budget/(rate size), 0) and (sqrt(32 budget log(2/delta))/(rate size), delta), are looser.
    """

    rate: float = constant(POSITIVE, about="Scale of the answers' noise.")
    size: int = constant(BILLION, about="Records of the holdout.")
    budget: int = constant(BILLION)

    def decompose(self, relation: Relation) -> Process:
        # noise over the sensitivity 1/size to a replacement; what overflows is not infinite
        scale = min(self.rate * self.size, 5e307)
        one = max((1.0 + 2.0**-51) / scale, 5e-324)
        return AboveThreshold(one) * self.budget + Laplace(2.0 * scale * (1.0 - 2.0**-52)) * self.budget
