"""A lattice that lets the checker prove almost the exact number.  Nothing here is part of the proof."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from fastacct.core.inputs import Cells

Job = dict[str, Any]
Plan = dict[str, Any]
Delta = Callable[[Any], Any]
"""delta over y, in balls."""

_LEFT_OUT: Final = 1e-7
"""Of delta: what the lattices and the window may leave to the bounds of their ends."""
_COARSE: Final = 4096
"""Points of the lattices from which the window is laid."""
FIRST: Final = 1 << 13
"""Places of the first try."""
MOST_PLACES: Final = 1 << 20
_TILTED: Final = 9
_SPARED: Final = 1e-5
"""Of mass between two coarse points: where there is less, a lattice has fewer points."""
_FARTHEST: Final = 12
_FAR: Final = 700.0
_TILTS: Final = np.exp2(np.linspace(-14.0, 24.0, 229))


class Release(NamedTuple):
    """One kind of release in one direction: how many, the losses between which it matters, and masses there."""

    times: int
    low: float
    high: float
    unit: float
    """The largest loss is a whole multiple of it; 0: not known."""
    loss: Cells
    log_mass: Cells


def _atoms(release: Job, relation: str, direction: str) -> tuple[float, float]:
    """The largest loss, inf if it is not known, and of what it is a multiple, like all others where that may be."""
    moved, rate = 2.0 if relation == "replace_one" else 1.0, float(release.get("poisson", "1"))
    match release:
        case {"laplace": scale}:
            top, _, bottom = scale.partition("/")
            unit = largest = moved / float(top) * float(bottom or 1)
        case {"geometric": scale, "sensitivity": far}:
            unit = 1.0 / float(scale)
            largest = moved * far * unit
        case {"response": [epsilon, _]} | {"guarantee": [epsilon, _]}:
            unit = largest = float(epsilon)
        case {"table": pairs}:
            both = [(float(p), float(q)) for p, q in pairs if float(p) > 0.0 < float(q)]
            unit = largest = max((math.log(p / q) for p, q in both), default=0.0)
            if direction == "add" or largest <= 0.0:
                unit = largest = max((math.log(q / p) for p, q in both), default=0.0)
        case _:
            return math.inf, 0.0
    if rate == 1.0 or largest == 0.0:
        return largest, unit
    sign = 1.0 if direction == "remove" else -1.0
    largest = sign * math.log1p(rate * math.expm1(sign * min(largest, _FAR)))
    return largest, largest


def added_up(releases: list[Job]) -> tuple[Fraction, Fraction] | None:
    """Epsilon and delta of a job of guarantees alone, by basic composition."""
    if any(set(one) != {"count", "guarantee"} for one in releases):
        return None
    epsilon, delta = (sum(one["count"] * Fraction(one["guarantee"][i]) for one in releases) for i in (0, 1))
    return Fraction(epsilon), Fraction(delta)


class Window(NamedTuple):
    """Losses of the sum that matter, and the tilt that bounds what is above them."""

    low: float
    high: float
    tilt: float


def turned(delta: Delta) -> Delta:
    """The delta of the other direction."""
    return lambda y: 1 - y + y * delta(1 / y)


def _under(delta: Delta) -> Delta:
    """What a delta is under its second distribution."""
    return lambda y: delta(y) / y


def _end(delta: Delta, least: float) -> float:
    """A loss beyond which delta falls by at most `least`, hardly larger than needed."""
    from flint import arb, ctx

    def value(at: float) -> float:
        ctx.prec = 192 + math.ceil(1.5 * at)  # 1 - y cancels
        return float(delta(arb(at).exp()).mid())

    rest = value(_FAR)  # at an infinite loss

    def is_small(at: float) -> bool:
        return value(at) - rest <= least

    high = 1.0
    while not is_small(high) and high < _FAR:
        high *= 2.0
    low = 0.5 * high
    while is_small(low) and low > 1e-12:
        low, high = 0.5 * low, low
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_small(middle) else (middle, high)
    ctx.prec = 192
    return high


def _coarse(checker: Any, delta: Delta, low: float, high: float) -> tuple[Cells, Cells]:
    """Losses, and logarithms of the masses there."""
    from flint import arb

    step = (high - low) / _COARSE
    first = math.floor(low / step) - 1
    p, _ = checker.masses(delta, arb(step), range(first, first + _COARSE + 3))
    with np.errstate(divide="ignore"):
        log_mass = np.log(np.array([max(float(x.mid()), 0.0) for x in p]))
    return step * (first + np.arange(len(p), dtype=np.float64)), log_mass


def _log_moments(parts: list[Release], tilts: Cells) -> Cells:
    """Of the sum of all losses, about."""
    total = np.zeros(tilts.size)
    for part in parts:
        for i, tilt in enumerate(tilts):
            size = part.log_mass + tilt * part.loss
            total[i] += part.times * (size.max() + math.log(np.exp(size - size.max()).sum()))
    return total


def _ranges(part: Release, step: float, low: int, high: int, tilt: float) -> list[list[int]]:
    """[first, last, how far apart] of the points of a lattice: few where hardly a loss is, at any tilt up to this one.

    Chords miss by mass times the square of their length, which is least where their length is mass to the power -1/3.
    """
    if high - low <= FIRST:
        return [[low, high, 1]]
    size = part.log_mass + np.linspace(0.0, tilt, _TILTED)[:, None] * part.loss
    largest = size.max(axis=1, keepdims=True)
    mass = np.exp(size - largest - np.log(np.exp(size - largest).sum(axis=1, keepdims=True))).max(axis=0)
    mass = np.maximum(mass, np.maximum(np.append(mass[1:], 0.0), np.append(0.0, mass[:-1])))
    apart = np.log2(_SPARED / np.maximum(mass, 1e-300)) / 3.0
    rounded = np.exp2(np.clip(np.floor(apart), 0.0, _FARTHEST)).astype(int)
    each = rounded[np.clip(np.searchsorted(part.loss, step * np.arange(low, high)), 0, rounded.size - 1)]
    begins = [0, *(np.flatnonzero(np.diff(each)) + 1).tolist(), high - low]
    return [[low + begin, low + end, int(each[begin])] for begin, end in pairwise(begins)]


class Direction:
    """One direction of a job: its lattices at any number of places."""

    def __init__(self, checker: Any, job: Job, direction: str, target: float) -> None:
        """`target` is about the delta to be proved."""
        self.checker, self.job, self.name = checker, job, direction
        self.target, self.parts = target, []
        total = sum(release["count"] for release in job["releases"])
        for release in job["releases"]:
            checker.ctx.prec = 1400  # of the parameters: far losses ask for it
            delta = checker.one_release(release, job["relation"])
            delta, other = (delta, turned(delta)) if direction == "remove" else (turned(delta), delta)
            least = target * _LEFT_OUT / total
            largest, unit = _atoms(release, job["relation"], direction)
            low, high = -_end(_under(other), least), min(_end(delta, least), largest)
            self.parts.append(Release(release["count"], low, high, unit, *_coarse(checker, delta, low, high)))
        up, down = (_log_moments(self.parts, sign * _TILTS) for sign in (1.0, -1.0))
        tops, lows = ((moments - math.log(target * _LEFT_OUT)) / _TILTS for moments in (up, down))
        best = int(np.argmin(tops))
        self.window = Window(-float(lows.min()), float(tops[best]), float(_TILTS[best]))

    def plan(self, places: int, epsilon: float) -> Plan:
        """Everything that the checker asks for; the window holds `epsilon`."""
        low, high = min(self.window.low, 0.98 * epsilon - 1e-3), max(self.window.high, 1.02 * epsilon + 1e-3)
        top = sum(part.times * part.high for part in self.parts)
        high = max(top, epsilon) if top < 1.25 * high else high
        step = float(f"{1.01 * (high - low) / places:.9e}")
        unit = max(part.unit for part in self.parts)
        if unit >= step:  # atoms lie on the lattice, where chords miss nothing
            step = unit / math.floor(unit / step) * (1.0 + 1e-15)
        ends = [(math.floor(part.low / step) - 1, math.ceil(part.high / step * (1.0 - 1e-13))) for part in self.parts]
        ends = [(begin, max(end, begin + 2)) for begin, end in ends]
        far = max(max(abs(a), abs(b)) for a, b in ends) * step
        bits = 96 + 2.0 * math.log2(max(1.0 / step, 1.0)) - math.log2(self.target) + 1.5 * far
        lowest, last = (sum(part.times * pair[i] for part, pair in zip(self.parts, ends, strict=True)) for i in (0, 1))
        first = math.floor(low / step)
        if lowest >= first - 0.1 * places:  # nothing is left of the window then
            first = min(first, lowest)
        if places <= last - first <= 1.3 * places:  # nothing is right of it
            places = 256 * math.ceil((last - first + 1) / 256)
        return {
            "step": f"{step:.17e}".replace("e+", "e"),
            "places": places,
            "first": first,
            "tilt": f"{self.window.tilt:.6e}".replace("e+", "e"),
            "bits": 32 * math.ceil(bits / 32.0),
            "lattices": [
                _ranges(part, step, *pair, self.window.tilt) for part, pair in zip(self.parts, ends, strict=True)
            ],
        }

    def number(self, places: int, asked: str, given: float) -> float:
        """The epsilon or delta that so many places prove, about."""
        curve = self._curve(self.plan(places, given if asked == "delta" else 0.0))
        return curve.epsilon(given) if asked == "epsilon" else curve.delta(given)

    def places(self, values: tuple[float, ...], miss: float) -> int:
        """Places at which a number is off by `miss` at most, from its values at FIRST and at twice as many.

        Chords miss by the square of their length, where losses are not a few large atoms.
        """
        off = 4.0 / 3.0 * max(values[0] - values[1], 0.0)
        wanted = FIRST * math.sqrt(off / miss) if off < math.inf else MOST_PLACES
        return min(1 << max(math.ceil(math.log2(max(wanted, 1.0))), 13), MOST_PLACES)

    def _curve(self, plan: Plan) -> Curve:
        """delta over epsilon that a lattice proves, about."""
        inside, right, infinite = self.checker.window(self.job, self.name, plan)
        mass = np.array([max(float(x.mid()), 0.0) for x in inside])
        loss = float(plan["step"]) * (plan["first"] + np.arange(mass.size))
        return Curve(loss, mass, max(float((right + infinite).mid()), 0.0))


class Curve:
    """delta(y) of masses at losses, with what is added to it everywhere."""

    def __init__(self, loss: Cells, mass: Cells, more: float) -> None:
        self.loss = loss
        self.p = np.cumsum(mass[::-1])[::-1] + more
        with np.errstate(over="ignore", under="ignore"):
            self.q = np.cumsum((mass * np.exp(-np.clip(loss, -700.0, 700.0)))[::-1])[::-1]

    def delta(self, epsilon: float) -> float:
        """NaN: right of the window."""
        i = int(np.searchsorted(self.loss, epsilon))
        return float(self.p[i] - math.exp(epsilon) * self.q[i]) if i < self.loss.size else math.nan

    def epsilon(self, delta: float) -> float:
        """inf: none in the window."""
        with np.errstate(over="ignore", invalid="ignore"):
            at = np.append(self.p[1:], np.inf) - np.exp(np.minimum(self.loss, 700.0)) * np.append(self.q[1:], 0.0)
        enough = np.flatnonzero((at <= delta) & (self.loss >= 0.0))
        if not enough.size:
            return math.inf
        i = int(enough[0])
        return max(math.log(max(self.p[i] - delta, 1e-300) / self.q[i]), 0.0) if self.q[i] > 0.0 else 0.0
