"""Which tilt, period and cap a finite sum of atoms takes (`readers/smoothed.py`): choices, which prove nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fastacct.losses.loss import PROBES, Atoms, OutOfReachError, Weighted, log_moment


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


def chosen(parts: Sequence[Weighted], place: float, delta: float, out: float) -> Choice:
    """The tilt with the shortest period, but for how much larger terms are than they could be, where their rounding
    matters.  And that period, at least: those on the left are known, but for rounding, which is to be small next to
    delta."""
    limit = _limit(parts, place)
    parts = parts if limit is None else _up_to(parts, 2.0 ** (0.25 * limit))
    bounds = {i: log_moment(parts, 1.25**i).value - 1.25**i * place for i in range(-24, 72, 3)}
    low = min(bounds.values())
    log_delta, releases = min(math.log(delta), low - 3.0), math.log(sum(n for n, _, _ in parts))
    found = []
    for index in (i for i, terms in bounds.items() if terms - low < 8.0):
        far = (2.0 + releases - log_delta) / 1.25**index
        rounded = max(bounds[index] - log_delta + releases - 13.0, 0.0)
        found.append((math.log(max(_period(parts, 1.25**index, out), far)) + rounded, -index, far))
    _, index, far = min(found)
    saddle = 1.25 ** min(bounds, key=lambda i: bounds[i])
    return Choice(-index, math.ceil(4.0 * math.log2(far)), limit, saddle)


def _up_to(parts: Sequence[Weighted], cap: float) -> list[Weighted]:
    """Without losses beyond the cap."""
    kept = [(n, loss[loss <= cap], log_mass[loss <= cap]) for n, loss, log_mass in parts]
    if not all(loss.size for _, loss, _ in kept):
        raise OutOfReachError("there are large losses alone")
    return kept


def _limit(parts: Sequence[Weighted], place: float) -> int | None:
    """Losses that are larger than the answer, whatever others take back, in quarters of powers of 2; None where there
    are none."""
    whole = log_moment(parts, 0.0)
    tilts = (PROBES / math.sqrt(max(whole.variance, 1e-300))).tolist()
    back = min((log_moment(parts, -by).value - whole.value + 25.0) / by for by in tilts)
    cap, largest = place + max(back, 0.0), max(float(loss.max()) for _, loss, _ in parts)
    return math.ceil(4.0 * math.log2(cap)) if cap > 0.0 and 1.19 * cap < largest else None


def _period(parts: Sequence[Weighted], tilt: float, out: float) -> float:
    """Beyond which there is next to none of the tilted mass on either side."""
    here = log_moment(parts, tilt)
    tilts = (PROBES[::2] / math.sqrt(max(here.variance, 1e-300))).tolist()
    right = min((log_moment(parts, tilt + by).value - here.value + out) / by for by in tilts)
    return float(right - max((here.value - log_moment(parts, tilt - by).value - out) / by for by in tilts))
