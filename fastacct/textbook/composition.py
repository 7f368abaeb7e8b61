"""Composition theorems for (epsilon, delta) as their papers state them, to compare with the optimal composition.

`fa.epsilon(fa.ApproxDP(epsilon, delta) * count, delta=...)` is the optimal composition (Kairouz, Oh, Viswanath 2015;
different parameters: Murtagh, Vadhan 2016, by certified bounds) and never larger than what these give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from fastacct.core.inputs import (
    NONNEGATIVE,
    SHARE,
    UNIT,
    Cells,
    Domain,
    Floats,
    Real,
    Reals,
    as_cells,
    as_common,
    as_listed,
    as_number,
    unwrap,
)
from fastacct.core.words import told_names

__all__ = ["advanced", "basic", "drift", "exponential_mechanisms"]

_UP: Final = 1.0 + 1e-14
_COUNT: Final = Domain(0.0, 2.0**53 - 1.0, integer=True)


@told_names
def basic(epsilons: Iterable[Real], deltas: Iterable[Real] = ()) -> tuple[float, float]:
    """Sums of epsilons and of deltas, for any steps, chosen adaptively.

    >>> basic([0.1, 0.2], [1e-6, 1e-6])
    (0.3000000000000001, 2.0000000000000003e-06)
    """
    total = math.fsum(as_cells("epsilons", _row("epsilons", epsilons), NONNEGATIVE).ravel())
    rest = math.fsum(as_cells("deltas", _row("deltas", deltas), UNIT, may_be_empty=True).ravel())
    up, other = (math.nextafter(value, math.inf) if value > 0.0 else value for value in (total, rest))
    return up, min(other, 1.0)


def _row(name: str, given: object) -> object:
    """A sequence of numbers, of which equal ones count each."""
    row = as_listed(name, given)
    if not isinstance(row, list | np.ndarray):
        raise TypeError(f"{name} must be a sequence of numbers, not {given!r}")
    return row


@told_names
def advanced(epsilon: Reals, delta: Reals, count: Reals, slack: Reals) -> tuple[float | Floats, float | Floats]:
    """Advanced composition of `count` steps, each (epsilon, delta): (epsilon', count delta + slack).

    epsilon' = sqrt(2 count log(1/slack)) epsilon + count epsilon (exp(epsilon) - 1), or count epsilon where that is
    less.  Source: Dwork, Rothblum, Vadhan 2010.

    >>> round(advanced(0.1, 0.0, 100, 1e-6)[0], 12)
    6.308230950513
    """
    return _with_mean(np.expm1, epsilon, delta, count, slack)


@told_names
def drift(epsilon: Reals, delta: Reals, count: Reals, slack: Reals) -> tuple[float | Floats, float | Floats]:
    """Advanced composition with the largest mean that a privacy loss can have; arguments as in `advanced`.

    epsilon' = count epsilon tanh(epsilon/2) + epsilon sqrt(2 count log(1/slack)).  Source: Kairouz, Oh, Viswanath
    2015, theorem 3.4.

    >>> round(drift(0.1, 0.0, 100, 1e-6)[0], 3)
    5.756
    """
    return _with_mean(lambda e: np.tanh(0.5 * e), epsilon, delta, count, slack)


def _with_mean(
    mean: Callable[[Cells], Cells], epsilon: Reals, delta: Reals, count: Reals, slack: Reals
) -> tuple[float | Floats, float | Floats]:
    """No more than basic composition; 0 where nothing is released."""
    e, d, k, s = as_common(
        epsilon=(epsilon, NONNEGATIVE), delta=(delta, UNIT), count=(count, _COUNT), slack=(slack, SHARE)
    )
    nothing = (k == 0.0) | (e == 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        value = (k * e * mean(e) + e * np.sqrt(-2.0 * k * np.log(s))) * _UP
        value = np.minimum(np.where(np.isnan(value), np.inf, value), k * e * _UP)
    return unwrap(np.where(nothing, 0.0, value)), unwrap(np.asarray(np.minimum((k * d + s) * _UP, 1.0)))


@told_names
def exponential_mechanisms(epsilon: Real, count: int, at: Reals) -> float | Floats:
    """Delta at epsilon `at` of `count` exponential mechanisms that are all fixed in advance, each of range `epsilon`.

    **Guarantee.** The optimal composition (Dong, Durfee, Rogers 2020, theorem 3).  Not for mechanisms that are chosen
    adaptively, which can lose more: for these use `fa.delta(fa.Exponential(epsilon) * count, epsilon=at)`.

    Parameters
    ----------
    epsilon : float in (0, 600]
    count : whole number in [1, 3000]
        The time grows with its square: seconds for the largest.
    at : float or array in [0, inf]

    Examples
    --------
    >>> round(exponential_mechanisms(0.2, 30, 0.5), 9)
    0.06872207
    """
    e = as_number("epsilon", epsilon, Domain(0.0, 600.0, open_low=True))
    k = as_number("count", count, Domain(1.0, 3e3, integer=True))
    targets = as_cells("at", at, NONNEGATIVE)
    return unwrap(np.reshape([_bounded_ranges(e, int(k), float(target)) for target in targets.flat], targets.shape))


def _bounded_ranges(e: float, k: int, at: float) -> float:
    """Largest delta over the positions t of the range: each loss is t or t - e, the former with probability q."""
    if at >= k * e:
        return 0.0
    i = np.arange(k + 1.0)
    log_binomial = np.array([math.lgamma(k + 1.0) - math.lgamma(j + 1.0) - math.lgamma(k - j + 1.0) for j in i])
    best = 0.0
    for t in np.unique(np.clip((at + (i + 1.0) * e) / (k + 1.0), 0.0, e)):
        # weights under Q: q at the loss t, 1 - q at t - e
        with np.errstate(divide="ignore", invalid="ignore"):
            log_all = math.log(-math.expm1(-e))
            one, other = np.log(-np.expm1(-(e - t))), np.log(-np.expm1(-t))
            log_q, log_rest = -t + one - log_all, other - log_all
            logs = log_binomial + np.where(i < k, (k - i) * log_q, 0.0) + np.where(i > 0, i * log_rest, 0.0)
            loss = k * t - i * e
            above = loss - at + 2e-15 * (k * t + i * e + at)  # rounding of the difference
            size = np.where(np.isfinite(logs), np.abs(logs) + np.abs(log_binomial) + loss, 0.0)
            # logarithms of small numbers cancel, and round k times
            rounding = np.where(i < k, (k - i) * (t - one - log_all), 0.0) + np.where(
                i > 0, i * (-other - log_all), 0.0
            )
            pad = 1e-14 * (1.0 + size) + 1e-15 * np.where(np.isfinite(rounding), rounding, 0.0)
            gain = np.exp(logs + loss + pad) * -np.expm1(-np.maximum(above, 0.0))
        best = max(best, math.fsum(np.nan_to_num(gain)))
    return min(1.0, best * (1.0 + 1e-13) + 5e-323)
