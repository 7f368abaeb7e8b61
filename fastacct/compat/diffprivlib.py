"""diffprivlib: its budget accountant, with optimal composition.

accountant = FastBudgetAccountant(epsilon=1.0, delta=1e-5, slack=1e-6)    # instead of BudgetAccountant(...)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, Final

import numpy as np

import fastacct as fa
from fastacct.core.extras import import_extra

diffprivlib: Any = import_extra("diffprivlib", "diffprivlib")
utils: Any = import_extra("diffprivlib.utils", "diffprivlib")

__all__ = ["FastBudgetAccountant"]

_KINDS: Final = 24
"""So many different epsilons are composed as they are; more are rounded up to so many."""
_Counts = tuple[tuple[float, int], ...]


class FastBudgetAccountant(diffprivlib.BudgetAccountant):  # type: ignore[misc]
    """A budget accountant of diffprivlib whose totals are certified, and never looser than its theorems.

    **Guarantee.** `total()` is (epsilon, delta) with delta = 1 - (1 - slack) prod(1 - delta_i), rounded up.
    All mechanisms spending (epsilon_i, delta_i) together keep this epsilon at this delta, rounding included.  For up to
    24 different epsilons it is the smallest one (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016): that of
    ``fa.ApproxDP(epsilon_i, delta_i)``.  The mechanisms may be chosen adaptively; with slack the amounts, and when to
    stop, must not be, as in the theorems that diffprivlib takes (without slack they may).  `spend` refuses what does
    not fit, and then changes nothing.  `remaining` fits.

    Sums are those of the floating-point numbers: ten spends of 0.1 are more than 1.0, by 6e-17.

    Parameters and all else as in diffprivlib.
    """

    def total(self, spent_budget: Any = None, slack: Any = None) -> Any:
        """(epsilon, delta) of the spends, by default of this accountant's."""
        spends = self.spent_budget if spent_budget is None else spent_budget
        at = self.slack if slack is None else slack
        if not 0 <= at <= self.delta:
            raise ValueError(f"Slack must be between 0 and delta ({self.delta}), inclusive. Got {at}.")
        if spent_budget is not None:
            _refuse(spends)
        return utils.Budget(_epsilon(_counted(spends), _up(at)), _delta([at, *(delta for _, delta in spends)]))

    def check(self, epsilon: Any, delta: Any) -> bool:
        """True if the spend fits, else BudgetError."""
        if math.isnan(epsilon) or math.isnan(delta):
            raise ValueError(f"Epsilon and delta must be numbers, got ({epsilon}, {delta}).")
        return bool(super().check(epsilon, delta))

    def remaining(self, k: Any = 1) -> Any:
        """(epsilon, delta) that can be spent k times more."""
        if not isinstance(k, Integral):
            raise TypeError(f"k must be integer-valued, got {type(k)}.")
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}.")
        return utils.Budget(self._epsilon_left(int(k)), self._delta_left(int(k)))

    def _epsilon_left(self, k: int) -> float:
        counts, budget, slack = dict(_counted(self.spent_budget)), _down(self.epsilon), _up(self.slack)
        if budget == math.inf:
            return budget

        def fits(epsilon: float) -> bool:
            after = counts | {epsilon: counts.get(epsilon, 0) + k} if epsilon > 0.0 else counts
            return _epsilon(tuple(sorted(after.items())), slack) <= budget

        room = Fraction(budget) - sum(count * Fraction(one) for one, count in counts.items())
        low, high = _down(max(room, Fraction(0)) / k), budget  # what fits by its sum alone, and what is too much
        if slack == 0.0 or fits(high):
            return low if slack == 0.0 else high
        while high - low > 1e-10 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def _delta_left(self, k: int) -> float:
        budget, spent = _down(self.delta), [self.slack, *(delta for _, delta in self.spent_budget)]
        if budget == 1.0:
            return 1.0
        rest = math.log1p(-budget) - math.log1p(-_delta(spent))
        found, step = max(0.0, -math.expm1(rest / k)), 1e-15
        while found > 0.0 and _delta([*spent, *[found] * k]) > budget:
            found, step = max(0.0, found * (1.0 - step)), 2.0 * step
        return found


def _refuse(spends: Iterable[tuple[Any, Any]]) -> None:
    """As diffprivlib, and what is not a number."""
    for epsilon, delta in spends:
        if not (epsilon >= 0 and 0 <= delta <= 1 and epsilon + delta > 0):
            raise ValueError(f"a spend must have epsilon >= 0 and delta in [0, 1], not both 0; got {(epsilon, delta)}")


def _up(value: Any) -> float:
    """The least floating-point number that is not smaller."""
    try:
        found = float(value)
    except OverflowError:
        return math.inf
    return found if found >= value else math.nextafter(found, math.inf)


def _down(value: Any) -> float:
    """The largest floating-point number that is not larger."""
    found = float(value)
    return found if found <= value else math.nextafter(found, -math.inf)


def _counted(spends: Iterable[tuple[Any, Any]]) -> _Counts:
    """Different epsilons, increasing, and how often each has been spent."""
    counts = Counter(_up(epsilon) for epsilon, _ in spends if epsilon > 0)
    return tuple(sorted(counts.items()))


def _delta(deltas: Iterable[Any]) -> float:
    """1 - prod(1 - delta), every step rounded up."""
    total = 0.0
    for delta in sorted(_up(one) for one in deltas if one > 0):
        if total == 0.0:
            total = delta
        else:
            more = math.nextafter(delta * math.nextafter(1.0 - total, 2.0), 2.0)
            total = min(1.0, math.nextafter(total + more, 2.0))
    return total


@lru_cache(maxsize=64)
def _epsilon(counts: _Counts, slack: float) -> float:
    """Epsilon at delta = slack of pure epsilons: the least of what is proved.

    (epsilon_i, delta_i) mechanisms fail with probability 1 - prod(1 - delta_i), and are epsilon_i-DP otherwise.
    """
    if any(epsilon == math.inf for epsilon, _ in counts):
        return math.inf
    total = _up(sum(count * Fraction(epsilon) for epsilon, count in counts))
    if slack == 0.0 or total == 0.0:
        return total
    if slack >= 1.0:
        return 0.0
    found = [total, float(fa.epsilon(_process(_merged(counts)), delta=slack))]
    if len(counts) > _KINDS:
        found.append(float(fa.epsilon(_process(counts), delta=slack, accountant=fa.RDP())))
    return min(found)


def _merged(counts: _Counts) -> _Counts:
    """At most so many different epsilons, the others rounded up to the next that stays."""
    merged: Counter[float] = Counter()
    for group in np.array_split(np.arange(len(counts)), min(len(counts), _KINDS)):
        merged[counts[group[-1]][0]] += sum(counts[i][1] for i in group)
    return tuple(merged.items())


def _process(counts: _Counts) -> fa.Process:
    return fa.Process((fa.PureDP(epsilon), count) for epsilon, count in counts)
