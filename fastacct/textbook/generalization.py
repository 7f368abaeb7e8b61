"""What privacy says about new data: an analysis that is private cannot overfit the data that it saw.

An analysis M sees n records drawn independently from a population and chooses a question q with values in [0, 1].
How far may the answer on its own data be from the population's?  Neighbours are data sets that differ in one replaced
record.  Source: Dwork, Feldman, Hardt, Pitassi, Reingold, Roth 2015, "Generalization in adaptive data analysis and
holdout reuse"; the expected gap follows from the definition.

Arguments broadcast; numbers give a float, arrays an array.  Values out of range raise ValueError or TypeError naming
argument, value, index and range.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct.core.inputs import COUNT, NONNEGATIVE, UNIT, Domain, Floats, Reals, as_common, as_number, unwrap
from fastacct.core.words import told_names

__all__ = ["expected_gap", "max_information", "probability_on_own_data", "statistical_query_error"]

_UP: Final = 1.0 + 4e-15
_CHANCE: Final = Domain(0.0, 1.0, open_low=True)


@told_names
def expected_gap(epsilon: Reals, delta: Reals = 0.0) -> float | Floats:
    """Largest expectation of the chosen question's mean on the data less that in the population, or the reverse.

    tanh(epsilon/4), below epsilon/4, for delta = 0: given the answer, the likelihood of one record's value is 1 on
    average and varies by a factor of at most exp(epsilon).  So it exceeds 1 by at most that on average.  Attained
    for every n, by a random set whose odds of holding a value are exp(epsilon) times as large if it is in the data.
    For delta > 0 the total variation of two neighbours' outputs, (exp(epsilon) - 1 + 2 delta)/(exp(epsilon) + 1), up to
    twice as large; that of a job is `fa.advantage(job, neighbors="replace_one")`.

    >>> round(expected_gap(0.1), 6), round(expected_gap(1.0, 1e-3), 6)
    (0.024995, 0.462655)
    """
    e, d = as_common(epsilon=(epsilon, NONNEGATIVE), delta=(delta, UNIT))
    half = np.tanh(0.5 * e)
    return unwrap(np.minimum(1.0, np.where(d > 0.0, half + d * (1.0 - half), np.tanh(0.25 * e)) * _UP))


@told_names
def max_information(epsilon: Reals, records: Reals, beta: float = 0.0) -> float | Floats:
    """Bits of max-information between the data and the output of an epsilon-DP analysis.

    beta = 0: epsilon n / log 2, for any population.  beta > 0, records drawn independently: the beta-approximate one,
    (epsilon^2 n/2 + epsilon sqrt(n log(2/beta)/2)) / log 2, or the first where it is smaller (theorem 20).

    >>> round(max_information(0.1, 1000), 3), round(max_information(0.1, 1000, beta=1e-6), 3)
    (144.27, 19.501)
    """
    e, n = as_common(epsilon=(epsilon, NONNEGATIVE), records=(records, COUNT))
    chance = as_number("beta", beta, UNIT)
    nats = e * n
    if chance > 0.0:
        nats = np.minimum(nats, 0.5 * e * e * n + e * np.sqrt(0.5 * n * (math.log(2.0) - math.log(chance))))
    return unwrap(nats / math.log(2.0) * _UP)


@told_names
def probability_on_own_data(bits: Reals, probability: Reals, beta: float = 0.0) -> float | Floats:
    """Largest probability of an event of data and output, from that with fresh data in their place.

    2^bits p + beta, `bits` the beta-approximate max-information: how to correct a p-value for questions that were
    chosen after the same data had been looked at.

    >>> round(probability_on_own_data(19.501, 1e-9, beta=1e-6), 6)
    0.000743
    """
    k, p = as_common(bits=(bits, NONNEGATIVE), probability=(probability, UNIT))
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.where(p > 0.0, np.exp2(k) * p * _UP + 5e-324, 0.0) + as_number("beta", beta, UNIT)
    return unwrap(np.minimum(1.0, found * _UP))


@told_names
def statistical_query_error(tau: Reals, records: Reals, *, epsilon: float) -> float | Floats:
    """Probability that the chosen question's mean on the data is off by tau or more.

    2 exp(-n tau (2 tau - epsilon)), 1 where epsilon is 2 tau or more.  It is at most that of corollary 7,
    6 exp(-tau^2 n) for epsilon <= tau: the log-probability f of an answer changes by at most epsilon with a record, so
    that E[e^(k f)] <= exp(k E[f] + k^2 n epsilon^2/8) (McDiarmid).  The mean is off with probability exp(-2 n tau^2) to
    one side (Hoeffding).  Hoelder's inequality with k = 4 tau/epsilon puts them together.

    >>> f"{statistical_query_error(0.1, 2000, epsilon=0.1):.6e}", statistical_query_error(0.2, 200, epsilon=0.5)
    ('4.122307e-09', 1.0)
    """
    t, n = as_common(tau=(tau, _CHANCE), records=(records, COUNT))
    privacy = as_number("epsilon", epsilon, NONNEGATIVE)
    rounding = 4e-15 * n * t * (2.0 * t + privacy)
    exponent = n * t * (2.0 * t - privacy) - rounding
    return unwrap(np.minimum(1.0, 2.0 * np.exp(-np.maximum(exponent, 0.0)) * _UP + 1e-322))
