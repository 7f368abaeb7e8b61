"""Rates that counts show: bounds of one rate, of all rates of a sample at once, and tails of binomial counts.

Every bound errs to the safe side, rounding included: lower bounds of rates and levels are rounded down.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells

_GAMMA: Final = np.frompyfunc(math.lgamma, 1, 1)
_EVERY: Final = 2000
"""Samples up to this size have a bound at every count, larger ones at some: the others take that of the next lower."""
_SPREAD: Final = 1000
_ROUNDS: Final = 100


def _choices(trials: int, count: Cells) -> Cells:
    """log of the binomial coefficients."""
    parts = _GAMMA(count + 1.0) + _GAMMA(trials - count + 1.0)
    return math.lgamma(trials + 1.0) - np.asarray(parts, dtype=np.float64)


def _slack(trials: int) -> float:
    """An upper bound of what rounding does to the logarithm of a binomial probability."""
    return 1e-12 + 4e-15 * math.lgamma(trials + 2.0)


def least_rate(count: Cells, trials: int, log_level: float) -> Cells:
    """The rate at which so many of the trials, or more, have a probability of exp(log_level); 0 for a count of 0.

    The lower end of Clopper and Pearson (https://doi.org/10.1093/biomet/26.4.404), a quantile of the beta distribution
    (count, trials - count + 1).  Newton's method on the logarithm of the probability, which is concave in log(rate).
    """
    found = np.zeros(np.shape(count))
    some = np.asarray(count) > 0.0
    k = np.asarray(count, dtype=np.float64)[some]
    if not k.size:
        return found
    others, ways, target = trials - k, _choices(trials, k), log_level - _slack(trials)
    y = np.log(k / trials) - np.sqrt((others + 1.0) / trials / k)
    for _ in range(_ROUNDS):
        x, rest = np.exp(y), -np.expm1(y)
        term, total = np.ones_like(x), np.ones_like(x)  # probabilities of k, k + 1, ..., over that of k
        for more in range(1, trials):
            term *= np.maximum(others - more + 1.0, 0.0) / (k + more) * (x / rest)
            total += term
            if more % 8 == 0 and np.all(term <= 1e-18 * total):
                break
        off = ways + k * y + others * np.log(rest) + np.log(total) - target
        if np.all(np.abs(off) <= 0.25 * _slack(trials)):
            break
        y -= off * total / k
    else:
        raise RuntimeError(f"no bound was found of rates at {trials} trials and level {math.exp(log_level):g}")
    found[some] = np.exp(y) * (1.0 - 1e-13)
    return found


@lru_cache(maxsize=8)
def _all_choices(trials: int) -> Cells:
    """log of the binomial coefficients of all whole counts, with an upper bound of the rounding of what they make."""
    return _choices(trials, np.arange(trials + 1.0)) + _slack(trials)


def tails(trials: int, log_odds: float) -> tuple[Cells, float]:
    """Upper bounds of the probabilities of each count or more, and the factor within which they are."""
    k = np.arange(trials + 1.0)
    right, wrong = -np.log1p(math.exp(-log_odds)), -log_odds - np.log1p(math.exp(-log_odds))
    found = np.exp(_all_choices(trials) + k * right + (trials - k) * wrong)
    return np.cumsum(found[::-1])[::-1], math.exp(2.0 * _slack(trials))


def _miss(counts: Cells, rates: Cells, trials: int) -> float:
    """Probability that of uniform numbers in order the k-th smallest is below its rate, for some of the counts k.

    The number of them below t is a Poisson process, given its value at 1.  From one rate to the next its distribution
    is convolved with that of the increment, and what has reached the count is cut off.
    """
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, trials + 40.0)))])
    law, start, before, scale = np.ones(1), 0, 0.0, 0.0
    for k, rate in zip(counts.astype(int).tolist(), rates.tolist(), strict=True):
        mean = trials * (rate - before)
        spread = 12.0 * math.sqrt(mean) + 25.0
        least, most = max(0, int(mean - spread)), min(int(mean + spread), trials)
        j = np.arange(least, most + 1)
        law = np.convolve(law, np.exp(j * math.log(mean) - mean - factorials[j]))
        start += least
        law = law[: k - start]
        largest = float(law.max())
        kept = np.flatnonzero(law > 1e-20 * largest)
        law, start = law[kept[0] : kept[-1] + 1] / largest, start + int(kept[0])
        scale += math.log(largest)
        before = rate
    j = trials - start - np.arange(law.size)
    mean = trials * (1.0 - before)
    ends = j * math.log(mean) - mean - factorials[j]
    whole = trials * math.log(trials) - trials - factorials[trials]
    return -math.expm1(math.log(float(law @ np.exp(ends - np.max(ends)))) + float(np.max(ends)) + scale - whole)


def _counts(trials: int) -> Cells:
    """The counts that have a bound of their own: all, or some at equal distances in standard deviations."""
    if trials <= _EVERY:
        return np.arange(1.0, trials + 1.0)
    angle = np.linspace(0.0, math.pi / 2.0, _SPREAD + 1)[1:]
    return np.unique(np.ceil(trials * np.sin(angle) ** 2 - 1e-6))


@lru_cache(maxsize=64)
def local_level(trials: int, alpha: float) -> float:
    """The level of each bound of a sample such that all of them hold together with probability 1 - alpha.

    Equal local levels: the bound of the rate at count k is the quantile eta of the beta distribution (k, n - k + 1)
    (Aldor-Noiman and others, https://doi.org/10.1080/00031305.2013.847865).  Exact up to 2,000 trials, within 0.1 %
    below above that, where there are 1,000 counts.
    """
    counts, wanted = _counts(trials), math.log(alpha)
    slack = max(1e-10, 1e-13 / alpha) if trials <= _EVERY else 1e-3
    x, slope = wanted - math.log(8.0 + math.log(trials)), 1.0
    seen: list[tuple[float, float]] = []
    for _ in range(60):
        value = math.log(_miss(counts, least_rate(counts, trials, x), trials))
        if -slack <= value - wanted <= 0.0:
            break
        if seen and value != seen[-1][1]:
            slope = max(0.2, min(5.0, (value - seen[-1][1]) / (x - seen[-1][0])))
        seen.append((x, value))
        x += (wanted - 0.5 * slack - value) / slope
    else:  # every level is one, if it is small enough
        return alpha / trials
    return math.exp(x)


@lru_cache(maxsize=64)
def rate_bounds(trials: int, alpha: float) -> Cells:
    """Lower bounds of the rate behind each count 0 .. trials, which hold together with probability 1 - alpha."""
    counts = _counts(trials)
    lowest = np.concatenate([[0.0], least_rate(counts, trials, math.log(local_level(trials, alpha)))])
    found: Cells = lowest[np.searchsorted(counts, np.arange(trials + 1.0), side="right")]
    found.flags.writeable = False
    return found
