"""Where a composition is looked at: a tilt with its grid; and what of each part does not matter there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from fastacct.core.inputs import ROUNDING
from fastacct.losses.loss import Moment, Part, Weighted, log_moment, weighted
from fastacct.readers.grid.window import Lower, Window

_MOST_SHARES: Final = 1000
_APART: Final = 5.0
"""Standard deviations of the tilted loss between two tilts."""


class Place(NamedTuple):
    """A tilt, with the grid that suits the targets near it."""

    tilt: float
    tail: float
    """Mass that is left out of each part."""
    log_budget: float
    """Log of the part of the tilted mass that is left out beside the window."""
    spacing: float
    least_spacing: float
    floors: tuple[float, ...]
    work: float
    """Of a composition, in about microseconds, times the spacing."""


class Asked(NamedTuple):
    """A place, what is asked of a window there, and by how much an interval may be wider: the first grid is coarser by
    the square root of `ease`; a width is relative to the upper bound or to `floor`.  `worst`: what says nothing."""

    place: int
    read: Callable[[Window | Lower], float]
    ease: float
    floor: float
    worst: tuple[float, float]


class Saddle(NamedTuple):
    """A tilt, the epsilon for which it is best, and a guess of log delta there (saddle-point approximation)."""

    tilt: float
    epsilon: float
    log_delta: float


def saddle_at(parts: Sequence[Weighted], tilt: float) -> Saddle:
    """The saddle point of a tilt; epsilon rises with it, and log delta falls."""
    moment = log_moment(parts, tilt)
    epsilon = moment.mean - 1.0 / tilt - 1.0 / (1.0 + tilt)
    curvature = moment.variance + tilt**-2.0 + (1.0 + tilt) ** -2.0
    exponent = moment.value - tilt * epsilon - math.log(tilt) - math.log1p(tilt)
    return Saddle(tilt, epsilon, exponent - 0.5 * math.log(2.0 * math.pi * curvature))


def saddle_after(parts: Sequence[Weighted], is_before: Callable[[Saddle], bool]) -> Saddle:
    """The saddle point where a condition of smaller tilts ends: by bisection, log tilt to 3 digits, in [-18, 60]."""
    low, high = -18.0, 60.0
    for _ in range(15):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_before(saddle_at(parts, math.exp(middle))) else (low, middle)
    return saddle_at(parts, math.exp(0.5 * (low + high)))


def left_apart(parts: Sequence[Part], tilt: float) -> float:
    """By how much log delta from above and from below differ on any grid, where atoms themselves do; roughly."""
    apart = 0.0
    for part in parts:
        above, below = part.upper.as_atoms(), part.lower.as_atoms()
        if above and below and above.loss.size and below.loss.size:
            moments = [log_moment([weighted(one, part.count)], tilt).value for one in (above, below)]
            apart += moments[0] - moments[1]
    return apart


def next_tilt(
    whole: Sequence[Weighted], tilt: float, moment: Moment, *, has_densities: bool
) -> tuple[float, Moment] | None:
    """The tilt after this one, and the log-moment there; None where the loss has no width left."""
    width, rest = math.sqrt(moment.variance), 0.0
    if has_densities:
        rest = math.fsum(n * float(loss.max()) for n, loss, _ in whole) - moment.mean
    if not width > 1e-12 * (1.0 + abs(moment.mean)) or 0.0 < tilt * max(width, rest) < 0.02:
        return None  # all at the largest loss: more tilt changes nothing
    step = _APART / width if tilt == 0.0 else min(_APART / width, 2.0 * tilt)
    for _ in range(60):  # not beyond where another part of the losses takes over
        after = log_moment(whole, tilt + step)
        if after.mean - moment.mean <= 1.5 * _APART * math.sqrt(width * math.sqrt(after.variance)):
            break
        step *= 0.5
    return tilt + step, after


def more_levels(wanted: float, gap: float) -> int:
    """How much finer a grid is to be, of which the bounds are so far apart."""
    ratio = wanted / gap if math.isfinite(gap) else 0.0
    return math.ceil(-2.0 * math.log2(min(0.7, max(0.125, 0.9 * math.sqrt(ratio)))))


def floor_of(sketch: Weighted, tilt: float, log_budget: float) -> float:
    """A loss below which all mass, moved up to it, is less than exp(log_budget) of the tilted measure."""
    _, loss, log_mass = sketch
    if not loss.size:
        return -math.inf
    order = np.argsort(loss, kind="stable")
    loss, log_mass = loss[order], log_mass[order]
    whole = log_moment([(1, loss, log_mass)], tilt).value
    moved = tilt * loss[1:] - whole + np.log(np.cumsum(np.exp(log_mass[:-1])) + 1e-320)
    few = np.flatnonzero(moved < log_budget)
    return float(loss[few[-1] + 1]) if few.size else -math.inf


def shared_spacing(parts: Sequence[Part]) -> tuple[float, int]:
    """The largest spacing of which lattices are multiples, those of what occurs most first, and how many releases have
    losses that it rounds."""
    largest, shared, n_rounded = 0.0, math.inf, 0
    for part in sorted(parts, key=lambda part: -part.count):
        atoms = [loss.as_atoms() for loss in (part.upper, part.lower)]
        if all(one is not None and one.loss.size < 2 for one in atoms):
            continue
        found = shared
        for loss in (part.upper, part.lower):
            found = _common_divisor(found, loss.lattice)
        largest = largest or found
        is_held = found > largest / _MOST_SHARES
        shared = found if is_held else shared
        n_rounded += 0 if is_held and None not in atoms else part.count
    return (shared if n_rounded or shared < math.inf else 1.0), n_rounded


def _common_divisor(shared: float, lattice: float | None) -> float:
    """The largest divisor of a spacing of which a lattice is a multiple, up to rounding; 0 where there is none."""
    if lattice is None or not shared:
        return 0.0
    if shared == math.inf:
        return lattice
    share = Fraction(lattice / shared).limit_denominator(_MOST_SHARES)
    if abs(float(share) * shared - lattice) > 8.0 * ROUNDING * lattice:
        return 0.0
    return shared / share.denominator


def moved_up(n_dots: int, spacing: float, tilt: float, log_rarely: float) -> float:
    """How far a sum of dots is at most above that of the losses, but for that part of the tilted mass (Hoeffding)."""
    return spacing * (1.0 + 1e-9) * (math.sqrt(-0.5 * n_dots * log_rarely) + 0.25 * n_dots * (1.0 + tilt) * spacing)


def densities(parts: Sequence[Part]) -> list[float]:
    """How many times the work of one density each part is, which has many, each in some of the cells."""
    made = (getattr(part.upper, "pieces", None) for part in parts)
    return [1.0 if one is None else 0.9 + 0.1 * len(one.panels) for one in made]
