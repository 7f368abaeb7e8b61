"""Composition theorems for (epsilon, delta) as their papers state them, to compare with the optimal composition.

`fa.epsilon(fa.ApproxDP(epsilon, delta) * count, delta=...)` is the optimal composition (Kairouz, Oh, Viswanath 2015;
different parameters: Murtagh, Vadhan 2016, by certified bounds) and never larger than what these give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from fastacct.core.inputs import NONNEGATIVE, SHARE, UNIT, Cells, Domain, Floats, Real, Reals, as_common, unwrap

__all__ = ["advanced", "basic", "drift"]

_UP: Final = 1.0 + 1e-14
_COUNT: Final = Domain(0.0, 2.0**53 - 1.0, integer=True)


def basic(epsilons: Iterable[Real], deltas: Iterable[Real] = ()) -> tuple[float, float]:
    """Sums of epsilons and of deltas, for any steps, chosen adaptively.

    >>> basic([0.1, 0.2], [1e-6, 1e-6])
    (0.3000000000000001, 2.0000000000000003e-06)
    """
    (e,) = as_common(epsilons=(list(epsilons), NONNEGATIVE))
    (d,) = as_common(deltas=(list(deltas) or [0.0], UNIT))
    total, rest = (math.nextafter(math.fsum(x), math.inf) if x.any() else 0.0 for x in (e, d))
    return total, min(rest, 1.0)


def advanced(epsilon: Reals, delta: Reals, count: Reals, slack: Reals) -> tuple[float | Floats, float | Floats]:
    """Advanced composition of `count` steps, each (epsilon, delta): (epsilon', count delta + slack).

    epsilon' = sqrt(2 count log(1/slack)) epsilon + count epsilon (exp(epsilon) - 1), or count epsilon where that is
    less.  Source: Dwork, Rothblum, Vadhan 2010.

    >>> round(advanced(0.1, 0.0, 100, 1e-6)[0], 12)
    6.308230950513
    """
    return _with_mean(np.expm1, epsilon, delta, count, slack)


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
