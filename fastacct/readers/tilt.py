"""Which tilt, period and cap a finite sum of atoms takes (`readers/smoothed.py`): choices, which prove nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.kept import cached, kept_by_argument
from fastacct.losses.loss import PROBES, Atoms, Weighted, log_moment, refuse_where


class Choice(NamedTuple):
    """What neighbouring targets share, in whole numbers."""

    power: int
    length: int
    limit: int | None
    saddle: float
    """The tilt at which Chernoff's bound is least."""

    @property
    def tilt(self) -> float:
        """Of the sum."""
        return float(1.25**self.power)

    @property
    def period(self) -> float:
        """At least."""
        return float(2.0 ** (0.25 * self.length))

    @property
    def cap(self) -> float:
        """From where on losses count in closed form."""
        return math.inf if self.limit is None else float(2.0 ** (0.25 * self.limit))


def in_groups(one: Atoms, count: int) -> Weighted:
    """At most a thousand points that are much like the atoms."""
    order = np.argsort(one.loss, kind="stable")
    starts = np.unique(np.linspace(0.0, order.size - 1.0, min(order.size, 1 << 10)).astype(np.intp))
    mass = np.add.reduceat(one.mass[order], starts)
    return count, np.add.reduceat((one.mass * one.loss)[order], starts) / mass, np.log(mass)


class Tilts:
    """What a side's thousand points say of tilts; what does not depend on the target is kept."""

    def __init__(self, parts: Sequence[Weighted], out: float) -> None:
        self.parts, self._out = parts, out
        self._powers = range(-24, 72, 3)
        self._tilts = 1.25 ** np.array(self._powers, dtype=np.float64)

    def chosen(self, place: float, delta: float) -> Choice:
        """The tilt with the shortest period, but for how much larger terms are than they could be, where their
        rounding matters.  And that period, at least: those on the left are known, but for rounding, which is to be
        small next to delta."""
        limit = self._limit(place)
        bounds = self._moments(limit)[1] - self._tilts * place
        low = float(bounds.min())
        log_delta, releases = min(math.log(delta), low - 3.0), math.log(sum(n for n, _, _ in self.parts))
        candidates = []
        for i in np.flatnonzero(bounds - low < 8.0).tolist():
            far = (2.0 + releases - log_delta) / float(self._tilts[i])
            rounded = max(float(bounds[i]) - log_delta + releases - 13.0, 0.0)
            candidates.append((math.log(max(self._period((limit, i)), far)) + rounded, -i, far))
        _, index, far = min(candidates)
        saddle = float(self._tilts[bounds.argmin()])
        return Choice(self._powers[-index], math.ceil(4.0 * math.log2(far)), limit, saddle)

    def first(self, delta: float) -> tuple[float, float]:
        """A tilt and a place near epsilon, by Chernoff's bound and about how much it says too much."""
        values = self._moments(None)[1]
        places = (values - np.log1p(self._tilts) - 1.0 - math.log(delta)) / self._tilts
        best = int(places.argmin())
        return float(self._tilts[best]), max(float(places[best]), 1e-9)

    def saddle(self, place: float) -> tuple[float, float]:
        """The tilt at which Chernoff's bound is least, between those that targets share, too; and the cap."""
        limit = self._limit(place)
        parts, values = self._moments(limit)
        tilts = self._tilts[(values - self._tilts * place).argmin()] * 1.25 ** np.arange(-3.0, 3.5, 0.5)
        bounds = log_values(parts, tilts) - tilts * place
        return float(tilts[bounds.argmin()]), math.inf if limit is None else 2.0 ** (0.25 * limit)

    @cached
    def _ends(self) -> tuple[float, float]:
        """What all losses together take back, with a chance of exp(-25); the largest of one."""
        centre = log_moment(self.parts, 0.0)
        tilts = PROBES / math.sqrt(max(centre.variance, 1e-300))
        back = float(((log_values(self.parts, -tilts) - centre.value + 25.0) / tilts).min())
        return back, max(float(loss.max()) for _, loss, _ in self.parts)

    def _limit(self, place: float) -> int | None:
        """Losses that are larger than the answer, whatever others take back, in quarters of powers of 2; None where
        there are none."""
        back, largest = self._ends
        cap = place + max(back, 0.0)
        return math.ceil(4.0 * math.log2(cap)) if cap > 0.0 and 1.19 * cap < largest else None

    @kept_by_argument
    def _moments(self, limit: int | None) -> tuple[Sequence[Weighted], Cells]:
        """The points up to a limit, and their log-moments at all tilts."""
        parts = self.parts if limit is None else _up_to(self.parts, 2.0 ** (0.25 * limit))
        return parts, log_values(parts, self._tilts)

    @kept_by_argument
    def _period(self, at: tuple[int | None, int]) -> float:
        """Beyond which there is next to none of the tilted mass on either side; of a limit and a tilt."""
        (parts, values), tilt = self._moments(at[0]), float(self._tilts[at[1]])
        here, steps = float(values[at[1]]), PROBES[::2] / math.sqrt(max(log_moment(parts, tilt).variance, 1e-300))
        right = (log_values(parts, tilt + steps) - here + self._out) / steps
        return float(right.min() - ((here - log_values(parts, tilt - steps) - self._out) / steps).max())


def log_values(parts: Sequence[Weighted], tilts: Cells) -> Cells:
    """Log-moments of a composition at several tilts, rounded as one is."""
    value: Cells = np.zeros(tilts.size)
    for count, loss, log_mass in parts:
        together = max((1 << 15) // loss.size, 1)  # what a processor keeps near
        for first in range(0, tilts.size, together):
            exponent = np.multiply.outer(tilts[first : first + together], loss) + log_mass
            top = exponent.max(axis=1)
            total = np.exp(exponent - top[:, None]).sum(axis=1)
            value[first : first + together] += count * (top + np.log(total))
    return value


def _up_to(parts: Sequence[Weighted], cap: float) -> list[Weighted]:
    """Without losses beyond the cap."""
    kept = [(n, loss[loss <= cap], log_mass[loss <= cap]) for n, loss, log_mass in parts]
    refuse_where(not all(loss.size for _, loss, _ in kept), "there are large losses alone")
    return kept
