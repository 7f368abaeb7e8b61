"""What a distribution of losses says by itself: sums over its masses between losses, by definitions alone.

None of the readers has a part in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import Direction
from fastacct.losses.loss import Loss, Masses

_TAIL: Final = 1e-299
_CELLS: Final = 256
_BEYOND: Final = 1e-9
"""Wider than rounding: an atom at an end has a cell of its own."""
_NOTHING: Final = 1e-200
"""Mass of an infinite loss that stands for what underflows, and for no outcome."""
_DEEP: Final = 40.0
"""A moment counts where the ends of what has a mass add less than exp(-40) of its largest term."""


class Sums:
    """A distribution of losses, all errors taken to one side: 1 for a bound from above, -1 for one from below."""

    def __init__(self, law: Loss, side: float) -> None:
        self.law, self.side = law, side
        self.loss, self.mass = self.points()
        """Losses in increasing order, and their masses; of a density some are negative, so that sums are exact to the
        fourth order of a cell."""
        self.total = float(np.sum(self.mass)) + law.infinite
        """Of all masses, of an infinite loss too."""
        self._kept: dict[tuple[float, float, str], float] = {}

    def points(self, more: Cells | None = None) -> tuple[Cells, Cells]:
        """Losses and masses; cells of densities end at `more`, too."""
        if atoms := self.law.as_atoms():
            loss, mass = atoms.loss + self.side * atoms.loss_error, atoms.mass
        else:
            low, high = self.law.extent(_TAIL)
            ends = [low - _BEYOND, low, high, high + _BEYOND]
            coarse = np.unique(np.concatenate([ends, self.law.points()[0], [] if more is None else more]))
            for _ in range(2 if more is None else 4):  # the double sum is to hold far out, to 1e-9
                coarse = _halved(coarse)
            fine = _halved(coarse)
            found = [(edges, self.law.masses(edges, _TAIL, self.side)) for edges in (coarse, fine)]
            shift = self.side * max(one.slip for _, one in found)
            loss = np.concatenate([_means(edges, one) for edges, one in found]) + shift
            mass = np.concatenate([share * one.mass for share, (_, one) in zip((-1 / 3, 4 / 3), found, strict=True)])
        order = np.argsort(loss, kind="stable")
        order = order[mass[order] != 0.0]
        return loss[order], mass[order]

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
        low, high = self.law.extent(_TAIL)
        ends = np.concatenate([[min(low, edges[0]) - 1.0], edges, [max(high, edges[-1]) + 1.0]])
        mass, excess, slip = self.law.masses(ends, _TAIL, self.side)
        mass, excess, left = mass[1:], excess[1:], np.maximum(mass - excess, 0.0)[1:]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            of_q = np.exp(np.log(left) - edges)  # in all, and by how much P has more
            gain = np.where(np.abs(edges) < 1.0, excess - left * np.expm1(-edges), mass - of_q)
            mass, gain, of_q = (np.cumsum(x[::-1])[::-1] for x in (mass, gain, of_q))
            found = np.where(of_q > 0.0, gain - np.expm1(edges) * of_q, gain)
        found += self.side * slip * mass
        return np.asarray(np.maximum(found, 0.0)[place] + self.law.infinite)

    def delta_of_two(self, at: Cells) -> Cells:
        """Delta of two releases: the mean of that of one, at what the other leaves of each epsilon."""
        if not self.loss.size:
            return np.full(at.shape, self.law.infinite)
        return np.array([self._delta_of_two(epsilon) for epsilon in at.tolist()])

    def _delta_of_two(self, epsilon: float) -> float:
        low, high = self.law.extent(_TAIL)  # cells end where the delta of one bends
        kinks: Cells = epsilon - np.array([low, *self.loss[:: max(1, self.loss.size // _CELLS)], high])
        loss, mass = self.points(kinks[(kinks > low) & (kinks < high)])
        return float(np.sum(mass * self.delta(epsilon - loss))) + self.law.infinite

    def moment(self, s: float) -> float:
        """log E exp(s loss) over the finite losses; nan where the masses do not tell it."""
        if s < 0.0 and self.total < 1.0 - 1e-9:
            return math.nan  # what is missing may have any loss
        loss, mass = self.loss, self.mass
        if not loss.size:
            return -math.inf  # all of it is infinite
        terms = np.log(np.abs(mass)) + s * loss
        top = float(terms.max())
        if self.law.outside(_TAIL)[0] > 0.0 and max(terms[0], terms[-1]) > top - _DEEP:
            return math.nan
        if np.max(s * loss) < 1.0:
            return math.log1p(float(np.sum(mass * np.expm1(s * loss))) - self.law.infinite)
        return top + math.log(float(np.sum(np.sign(mass) * np.exp(terms - top))))

    def divergence(self, order: float) -> float:
        """Rényi divergence; nan where the masses do not tell it."""
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
            weight = np.sign(self.mass) * np.exp(np.log(np.abs(self.mass)) - self.loss)
            rest = max(0.0, 1.0 - float(np.sum(weight)))  # of Q, where P has nothing
            more = rest * math.expm1(none)
        else:
            size, power, weight = -_log_sample(rate, -self.loss), order - 1.0, self.mass
            far = math.exp(min(-power * math.log1p(-rate), 700.0))
            more = self.law.infinite * (far - 1.0) + self.total - 1.0
        exponent = power * size
        if float(exponent.max(initial=0.0)) < 1.0:
            return math.log1p(max(float(np.sum(weight * np.expm1(exponent))) + more, -0.5)) / (order - 1.0)
        with np.errstate(divide="ignore"):
            rest = math.log(max(1.0 - float(np.sum(weight)) + more, 1e-300))
            terms = np.append(np.log(np.abs(weight)) + exponent, rest)
        top, sign = float(terms.max()), np.append(np.sign(weight), 1.0)
        return (top + math.log(float(np.sum(sign * np.exp(terms - top))))) / (order - 1.0)


def _halved(edges: Cells) -> Cells:
    return np.unique(np.concatenate([edges, 0.5 * (edges[1:] + edges[:-1])]))


def _means(edges: Cells, found: Masses) -> Cells:
    """The loss of each cell at which its masses would have their ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return edges[:-1] - np.log1p(-np.where(found.mass > 0.0, found.excess / found.mass, 0.0))


def _log_sample(rate: float, loss: Cells) -> Cells:
    """log(1 - rate + rate exp(loss))."""
    near = np.log1p(rate * np.expm1(np.minimum(loss, 30.0)))
    return np.asarray(np.where(loss < 30.0, near, np.logaddexp(math.log1p(-rate), math.log(rate) + loss)))
