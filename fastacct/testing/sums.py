"""What a distribution of losses says by itself: sums over its nodes, by definitions alone.

None of the readers has a part in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import Direction
from fastacct.losses.loss import Atoms, Loss

_TAIL: Final = 1e-299
_CELLS: Final = 256
_NOTHING: Final = 1e-200
"""Mass of an infinite loss that stands for what underflows, and for no outcome."""
_DEEP: Final = 40.0
"""A moment counts where the ends of what has nodes add less than exp(-40) of its largest term."""


class Sums:
    """A distribution of losses, all errors taken to one side: 1 for a bound from above, -1 for one from below."""

    def __init__(self, law: Loss, side: float) -> None:
        self.law, self.side = law, side
        _, self.loss, self.mass = self.nodes()
        self.total = float(np.sum(self.mass)) + law.infinite + law.bottom
        """Of all masses, of an infinite loss too."""
        self._kept: dict[tuple[float, float, str], float] = {}

    def nodes(self, edges: Cells | None = None) -> tuple[Cells, Cells, Cells]:
        """Cells, losses and masses of the nodes with a mass, in order of the losses."""
        parts = list(self.law.nodes(edges, _TAIL))
        cell, loss, error, mass, off = (np.concatenate([one[i] for one in parts]) for i in range(5))
        loss, mass = loss + self.side * (error + self.law.slack), mass + self.side * off
        order = np.argsort(loss, kind="stable")
        order = order[mass[order] > 0.0]
        return cell[order], loss[order], mass[order]

    def largest(self) -> float:
        """The largest loss; from above also of what has no node."""
        missing, where = self.law.outside(_TAIL)
        beyond = where if missing > 0.0 and self.side > 0.0 else -math.inf
        return math.inf if self.is_infinite else max(self.law.extent(_TAIL)[1], beyond)

    @property
    def is_infinite(self) -> bool:
        """Whether an infinite loss occurs."""
        return self.law.infinite > _NOTHING

    def delta(self, at: Cells) -> Cells:
        """Delta of one release at each epsilon: the sum of mass (1 - exp(epsilon - loss)) above it."""
        edges, place = np.unique(at, return_inverse=True)
        cell, loss, mass = self.nodes(np.concatenate([[-np.inf], edges, [np.inf]]))
        with np.errstate(over="ignore", invalid="ignore"):
            of_q = np.exp(np.log(mass) - loss)
            gain, of_q = (
                np.cumsum(np.bincount(cell, x, edges.size + 1)[::-1])[::-1][1:]
                for x in (np.where(np.abs(loss) < 1.0, mass * -np.expm1(-loss), mass - of_q), of_q)
            )
            found = np.where(of_q > 0.0, gain - np.expm1(edges) * of_q, gain)
        return np.asarray(np.maximum(found, 0.0)[place] + self.law.infinite)

    def delta_of_two(self, at: Cells) -> Cells:
        """Delta of two releases: the mean of that of one, at what the other leaves of each epsilon."""
        return np.array([self._delta_of_two(epsilon) for epsilon in at.tolist()])

    def _delta_of_two(self, epsilon: float) -> float:
        loss, mass = self.loss, self.mass
        if not isinstance(self.law, Atoms):  # panels are cut finely, and where the delta of one bends
            low, high = self.law.extent(_TAIL)
            kinks = epsilon - np.array([low, *self.loss[:: max(1, self.loss.size // _CELLS)], high])
            edges = np.unique([*np.linspace(low, high, _CELLS), *kinks[(kinks > low) & (kinks < high)]])
            edges[[0, -1]] = -np.inf, np.inf
            _, loss, mass = self.nodes(edges)
        return float(np.sum(mass * self.delta(epsilon - loss))) + self.law.infinite

    def moment(self, s: float) -> float:
        """log E exp(s loss) over the finite losses; nan where the nodes do not tell it."""
        if s < 0.0 and (self.law.bottom > 0.0 or self.total < 1.0 - 1e-9):
            return math.nan  # what is missing may have any loss
        loss, mass = self.loss, self.mass
        terms = np.log(mass) + s * loss
        top = float(terms.max())
        if self.law.outside(_TAIL)[0] > 0.0 and max(terms[0], terms[-1]) > top - _DEEP:
            return math.nan
        if np.max(s * loss) < 1.0:
            return math.log1p(float(np.sum(mass * np.expm1(s * loss))) - self.law.infinite)
        return top + math.log(float(np.sum(np.exp(terms - top))))

    def divergence(self, order: float) -> float:
        """Rényi divergence; nan where the nodes do not tell it."""
        return self._once((order, 1.0, ""), lambda: self.moment(order - 1.0) / (order - 1.0))

    def sample_divergence(self, order: float, rate: float, direction: Direction) -> float:
        """That of a Poisson sample, by its definition: E_Q (1 - q + q exp(L))^order for "remove", and for "add" the
        mean of (1 - q + q exp(-L))^(1 - order) of this loss of Q against P.

        Both grow with the loss: mass that has none counts as what is least.
        """
        return self._once((order, rate, direction), lambda: self._sample_divergence(order, rate, direction))

    def _once(self, key: tuple[float, float, str], find: Callable[[], float]) -> float:
        if self.is_infinite and key[2] != "add":
            return math.inf
        if key not in self._kept:
            self._kept[key] = find()
        return self._kept[key]

    def _sample_divergence(self, order: float, rate: float, direction: Direction) -> float:
        if direction == "remove":
            size, power, none = _log_sample(rate, self.loss), order, order * math.log1p(-rate)
            weight = np.exp(np.log(self.mass) - self.loss)
            rest = max(0.0, 1.0 - float(np.sum(weight)))  # of Q, where P has nothing
            more = rest * math.expm1(none)
        else:
            size, power, weight = -_log_sample(rate, -self.loss), order - 1.0, self.mass
            far = math.exp(min(-power * math.log1p(-rate), 700.0))
            more = self.law.infinite * (far - 1.0) + self.total - self.law.bottom - 1.0
        exponent = power * size
        if float(exponent.max()) < 1.0:
            return math.log1p(max(float(np.sum(weight * np.expm1(exponent))) + more, -0.5)) / (order - 1.0)
        with np.errstate(divide="ignore"):
            terms = np.append(np.log(weight) + exponent, math.log(max(1.0 - float(np.sum(weight)) + more, 1e-300)))
        top = float(terms.max())
        return (top + math.log(float(np.sum(np.exp(terms - top))))) / (order - 1.0)


def _log_sample(rate: float, loss: Cells) -> Cells:
    """log(1 - rate + rate exp(loss))."""
    near = np.log1p(rate * np.expm1(np.minimum(loss, 30.0)))
    return np.asarray(np.where(loss < 30.0, near, np.logaddexp(math.log1p(-rate), math.log(rate) + loss)))
