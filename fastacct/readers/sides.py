"""One direction of which bounds of delta are known from both sides: where each of them falls to a delta."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial

from fastacct.core.bounds import Found, judged
from fastacct.core.search import crossing


class OneSided(ABC):
    """A bound of delta that falls with epsilon, from above or from below; `infinite`: what is left of it at last."""

    is_upper: bool
    infinite: float

    @abstractmethod
    def delta(self, epsilon: float, least: float = 0.0) -> float:
        """The bound; where it is `least` at most the digits of less do not matter."""

    @abstractmethod
    def end(self, delta: float) -> float:
        """An epsilon where an upper bound is at most that; of a lower one the largest loss."""

    def epsilon(self, delta: float, near: float = math.nan) -> float:
        """Bound of the smallest epsilon >= 0 with this delta, on the same side, which may be `near`."""
        if self.delta(0.0, delta) <= delta:
            return 0.0
        if self.infinite > delta:
            return math.inf
        end = self.end(delta)
        if self.infinite == delta:
            return end
        bound = partial(self.delta, least=delta)
        return crossing(bound, delta, end, is_upper=self.is_upper, near=near)


class TwoSided:
    """Delta and epsilon of one direction."""

    def __init__(self, lower: OneSided, upper: OneSided) -> None:
        self._lower, self._upper = lower, upper

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta."""
        return judged(self._lower.delta(epsilon), self._upper.delta(epsilon), 1.0)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta."""
        upper = self._upper.epsilon(delta)
        return judged(self._lower.epsilon(delta, upper), upper, math.inf)
