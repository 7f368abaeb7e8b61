"""A lattice that lets the checker prove almost the exact number.  Nothing here is part of the proof."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from fastacct.core.inputs import Cells

Job = dict[str, Any]
Plan = dict[str, Any]
Ball = Any
Delta = Callable[[Ball], Ball]
"""delta over y, in balls."""

_LEFT_OUT: Final = 1e-7
"""Of delta: what the lattices and the window may leave to the bounds of their ends."""
_COARSE: Final = 4096
"""Points of the lattices from which the window is laid."""
FIRST: Final = 1 << 13
"""Places of the first try."""
MOST_PLACES: Final = 1 << 20
_OVERLAP: Final = 0.5
"""Of the masses at two tilts that follow each other."""
_SPARED: Final = 2e-5
"""Of mass between two coarse points: where there is less, a lattice has fewer points."""
_WIDER: Final = 0.8
"""Of the places, if so few suit the atoms of several kinds."""
_FARTHEST: Final = 12
_FAR: Final = 700.0
_SLACK: Final = 12.0
"""Of a logarithm, where floats have 36."""
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
        case {"response": [epsilon, values]} if relation == "zero_out":
            left = math.log1p(math.expm1(min(float(epsilon), _FAR)) / values)
            unit = largest = float(epsilon) - left if direction == "remove" else left
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
    unit = sign * math.log1p(rate * math.expm1(sign * min(largest, _FAR)))
    hidden = release.get("guarantee", [0, 0])[1:] + [q for p, q in release.get("table", ()) if float(p) == 0.0]
    is_beyond = sign < 0.0 and any(float(mass) > 0.0 for mass in hidden)  # what is not seen with the record
    return -math.log1p(-rate) if is_beyond else unit, unit


def added_up(releases: list[Job]) -> tuple[Fraction, Fraction] | None:
    """Epsilon and delta of a job of guarantees alone, by basic composition."""
    if any(set(one) != {"count", "guarantee"} for one in releases):
        return None
    epsilon, delta = (sum(one["count"] * Fraction(one["guarantee"][i]) for one in releases) for i in (0, 1))
    return Fraction(epsilon), Fraction(delta)


def listed(checker: ModuleType, releases: list[Job], target: float) -> list[Job]:
    """With `reach`, where how many of a group are drawn is random: more of them are an infinite loss, and are rare."""
    checker.ctx.prec, found = 448, []
    for one in releases:
        is_drawn = {"fixed", "draws"} & set(one) or {"group", "poisson"} <= set(one)
        chances = checker.beside("batches").places(one, checker)[1] if is_drawn else []
        left, least = checker.arb(1), 1e-8 * target / (len(releases) * one["count"])
        for reach, chance in enumerate(chances):
            left -= chance
            if reach and left < least:
                one = {**one, "reach": reach}
                break
        found.append(one)
    return found


def are_mirrored(releases: list[Job], relation: str) -> bool:
    """Whether both directions of a job are surely the same."""
    if relation == "replace_one":
        return not any("table" in one for one in releases)
    stays = {"fixed", "draws"} if relation == "zero_out" else set()
    other = {"poisson", "table", "response", "mixture", "fixed", "draws"} - stays
    return not any(other & set(one) for one in releases)


class Window(NamedTuple):
    """Losses of the sum that matter, the tilt that bounds what is above them, and a small one towards delta."""

    low: float
    high: float
    tilt: float
    near: float


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
        ctx.prec = _bits(at)
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
    return high


def _bits(loss: float) -> int:
    """Of y up to there: 1 - y cancels."""
    return 192 + math.ceil(1.5 * loss)


def _coarse(checker: Any, delta: Delta, low: float, high: float) -> tuple[Cells, Cells]:
    """Losses, and logarithms of the masses there."""
    from flint import arb, ctx

    ctx.prec = _bits(high)
    step = (high - low) / _COARSE
    first = math.floor(low / step) - 1
    p, _ = checker.masses(delta, arb(step), range(first, first + _COARSE + 3))
    return step * (first + np.arange(len(p), dtype=np.float64)), _logs(p)


def _logs(masses: list[Ball]) -> Cells:
    with np.errstate(divide="ignore"):
        found: Cells = np.log(np.array([max(float(mass.mid()), 0.0) for mass in masses]))
    return found


def _log_moments(parts: list[Release], tilts: Cells) -> Cells:
    """Of the sum of all losses, about."""
    total = np.zeros(tilts.size)
    for part in parts:
        for i, tilt in enumerate(tilts):
            size = part.log_mass + tilt * part.loss
            total[i] += part.times * (size.max() + math.log(np.exp(size - size.max()).sum()))
    return total


def _largest_masses(part: Release, most: float) -> Cells:
    """The largest share that each point has at any tilt from 0 to this one."""
    tilt, ahead, here = 0.0, 1.0, _tilted(part, 0.0)
    found = here
    while tilt < most:
        there = _tilted(part, min(tilt + ahead, most))
        if np.minimum(here, there).sum() < _OVERLAP:
            ahead *= 0.5
            continue
        tilt, ahead, here, found = min(tilt + ahead, most), 2.0 * ahead, there, np.maximum(found, there)
    return found


def _tilted(part: Release, tilt: float) -> Cells:
    """Masses times exp(tilt loss), as shares of their sum."""
    size = part.log_mass + tilt * part.loss
    share: Cells = np.exp(size - np.logaddexp.reduce(size))
    return share


def _ranges(part: Release, step: float, low: int, high: int, tilt: float, alone: Cells) -> list[list[int]]:
    """[first, last, how far apart] of the points of a lattice: few where hardly a loss is, at any tilt up to this one.

    Chords miss by mass times the square of their length, which is least where their length is mass to the power -1/3.
    Rare losses that are enough alone are shares of delta (`alone`), and need not have much mass at any tilt.
    """
    if high - low <= FIRST:
        return [[low, high, 1]]
    mass = np.maximum(_largest_masses(part, tilt), alone)
    mass = np.maximum(mass, np.maximum(np.append(mass[1:], 0.0), np.append(0.0, mass[:-1])))
    apart = np.log2(_SPARED / np.maximum(mass, 1e-300)) / 3.0
    rounded = np.exp2(np.clip(np.floor(apart), 0.0, _FARTHEST)).astype(int)
    each = rounded[np.clip(np.searchsorted(part.loss, step * np.arange(low, high)), 0, rounded.size - 1)]
    begins = [0, *(np.flatnonzero(np.diff(each)) + 1).tolist(), high - low]
    return [[low + begin, low + end, int(each[begin])] for begin, end in pairwise(begins)]


class Tried(NamedTuple):
    """What a lattice proves, about."""

    places: int
    step: float
    number: float


class Direction:
    """One direction of a job: its lattices at any number of places."""

    def __init__(self, checker: Any, job: Job, direction: str, target: float) -> None:
        """`target` is about the delta to be proved."""
        self.checker, self.job, self.name = checker, job, direction
        self.target, self.epsilon, self.parts = target, math.inf, []
        self.tried: list[Tried] = []
        both = job["relation"] in ("add_remove", "zero_out", "replace_one")  # one plan serves both, if they are alike
        self.is_turned = direction == "add" or (both and are_mirrored(job["releases"], job["relation"]))
        self.failed = 0  # so many places did not prove what they should: of losses on the left, added on the right
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
        above = up - math.log(target)
        near = np.flatnonzero(above - _TILTS * (above / _TILTS).min() <= _SLACK)
        best = int(np.argmin(tops))
        self.window = Window(-float(lows.min()), float(tops[best]), float(_TILTS[best]), float(_TILTS[near[0]]))
        bits = 128 + 2 * MOST_PLACES.bit_length() - math.log2(target) + 1.5 * max(part.high for part in self.parts)
        most = min(2**28, 2**30 // len(self.parts)) / (1.375 * bits)  # the checker's limit of work
        self.most = min(MOST_PLACES, 1 << int(math.log2(most)))

    def plan(self, places: int, epsilon: float) -> Plan:
        """Everything that the checker asks for; the window holds `epsilon`."""
        low, high = min(self.window.low, 0.98 * epsilon - 1e-3), max(self.window.high, 1.02 * epsilon + 1e-3)
        top = sum(part.times * part.high for part in self.parts)
        high = max(top, epsilon) if top < 1.25 * high else high
        step = float(f"{1.01 * (high - low) / places:.9e}")
        units = np.array(sorted({part.unit for part in self.parts if part.unit >= step}))
        if (
            units.size
        ):  # atoms lie on the lattice, where chords miss nothing; those of other kinds just below its points
            most = math.floor(units[-1] / step)
            steps = units[-1] / np.arange(most, math.ceil(_WIDER * most) - 1, -1)
            times = units / steps[:, None]
            step = float(steps[(np.ceil(times - 1e-9) - times).sum(axis=1).round(6).argmin()]) * (1.0 + 1e-15)
        ends = [(math.floor(part.low / step) - 1, math.ceil(part.high / step * (1.0 - 1e-13))) for part in self.parts]
        ends = [(begin, max(end, begin + 2)) for begin, end in ends]
        far = max(end for _, end in ends) * step if self.is_turned else 0.0  # 1 - y + y delta(1/y) cancels
        bits = 96 + 2.0 * math.log2(max(1.0 / step, 1.0)) - math.log2(self.target) + 1.5 * far
        lowest, last = (sum(part.times * pair[i] for part, pair in zip(self.parts, ends, strict=True)) for i in (0, 1))
        first = math.floor(low / step)
        if lowest >= first - 0.1 * places and (lowest + places) * step >= high:  # nothing is left of the window then
            first = min(first, lowest)
        if places <= last - first <= 1.3 * places:  # nothing is right of it
            places = places // 8 * math.ceil((last - first + 1) / (places // 8))
        return {
            "step": f"{step:.17e}".replace("e+", "e"),
            "places": places,
            "first": first,
            "tilt": f"{self.window.tilt:.6e}".replace("e+", "e"),
            "bits": 32 * math.ceil(bits / 32.0),
            "lattices": [
                _ranges(part, step, *pair, self.window.tilt, self._alone(part))
                for part, pair in zip(self.parts, ends, strict=True)
            ],
        }

    def _alone(self, part: Release) -> Cells:
        """Of delta, what one release contributes whose loss is half of epsilon or more."""
        share: Cells = np.exp(part.log_mass + math.log(part.times / self.target))
        return np.where(part.loss >= 0.5 * self.epsilon, share, 0.0)

    def measure(self, places: int, asked: str, given: float) -> None:
        """Note the epsilon or delta that so many places prove, about."""
        plan = self.plan(places, given if asked == "delta" else 0.0)
        curve = self._curve(plan)
        found = curve.epsilon(given) if asked == "epsilon" else curve.delta(given)
        self.tried.append(Tried(places, float(plan["step"]), found))
        self.epsilon = found if asked == "epsilon" else given

    @property
    def limit(self) -> float:
        """Of the numbers that lattices prove: chords miss by the square of their length."""
        coarse, fine = self.tried[-2:]
        if coarse.number == math.inf:
            return fine.number
        return fine.number - max(coarse.number - fine.number, 0.0) / ((coarse.step / fine.step) ** 2 - 1.0)

    def places(self, claim: float) -> int:
        """Places that prove a claim above the limit, about."""
        for one in self.tried:
            if one.number <= claim and one.places > self.failed:
                return one.places
        last = self.tried[-1]
        missed = (last.number - self.limit) / (claim - self.limit) if last.number < math.inf else math.inf
        finer = math.ceil(0.5 * math.log2(min(max(missed, 1.0), 2.0**40)))
        return min(last.places << max(finer, int(last.places <= self.failed)), self.most)

    def _curve(self, plan: Plan) -> Curve:
        """delta over epsilon that a lattice proves, about: the sum in floats, of masses tilted to where delta is."""
        from flint import arb

        checker, n, step, first = self.checker, plan["places"], float(plan["step"]), plan["first"]
        checker.ctx.prec = plan["bits"]
        tilts, moments = np.array([self.window.near, self.window.tilt]), np.zeros(2)
        spectrum, finite, both, last = np.ones(n // 2 + 1, dtype=complex), arb(1), arb(1), 0
        for release, lattice in zip(self.job["releases"], plan["lattices"], strict=True):
            at = sorted({k for low, high, by in lattice for k in (*range(low, high, by), high)})
            times, delta = release["count"], checker.one_release(release, self.job["relation"])
            delta = delta if self.name == "remove" else turned(delta)
            p, infinite = checker.masses(delta, checker.ball(plan["step"]), at)
            sizes = _logs(p) + step * tilts[:, None] * np.array(at)
            sums = np.logaddexp.reduce(sizes, axis=1)
            spectrum *= np.fft.rfft(np.bincount(np.mod(at, n), np.exp(sizes[0] - sums[0]), n)) ** times
            moments, last = moments + times * sums, last + times * at[-1]
            finite, both = finite * sum(p) ** times, both * (sum(p) + infinite) ** times
        loss = step * (first + np.arange(n))
        rest = max(float((both - finite).mid()), 0.0) + _LEFT_OUT * self.target
        if last >= first + n:
            rest += math.exp(min(moments[1] - tilts[1] * (loss[-1] + step), 1.0))
        tilted = np.roll(np.fft.irfft(spectrum, n), -first).clip(1e-300)
        return Curve(loss, np.exp(np.minimum(np.log(tilted) + moments[0] - tilts[0] * loss, _FAR)), rest)


class Curve:
    """delta(y) of masses at losses, with what is added to it everywhere."""

    def __init__(self, loss: Cells, mass: Cells, more: float) -> None:
        self.loss = loss
        with np.errstate(over="ignore", under="ignore"):
            self.p = np.cumsum(mass[::-1])[::-1] + more
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
