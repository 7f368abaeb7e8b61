"""Sums of atoms beside a Gaussian so small that it hardly matters: by a finite Fourier sum, without a grid of losses.

Who also sees a release of N(s, 1) against N(0, 1) sees no less, so its delta D is an upper bound; a lower one is

    D(eps) - K (p D(eps - h) + (1 - p) D(eps + h) - D(eps)),    p = 1/(1 + exp(-h)),  h = 3 s/2.

All three are integrals of exp(-s^2 t^2/2) times what is bounded (proof and ledger: docs/algorithms/smoothed.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Found, Status, judged, narrowed
from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.kept import cached
from fastacct.core.search import boundary, excess
from fastacct.core.work import note
from fastacct.losses.loss import PROBES, Atoms, Moment, OutOfReachError, Part, composed, log_moment, weighted
from fastacct.readers.far_losses import FarLosses, known_atoms, up_to
from fastacct.readers.grid.composition import fft_size
from fastacct.readers.tilt import Choice, Tilts, in_groups, log_values

if TYPE_CHECKING:
    from fastacct.readers.grid.reader import Grid

_MOST_SUMMED: Final = 1.5e7
"""Times parts and 4: about a twentieth of a microsecond each."""
_LAST: Final = 24.0
"""s^2 t^2/2 at the last point."""
_OUT: Final = 34.0
"""Log of how little of the tilted mass is further out than the period on either side."""
_SHIFT: Final = 1.5
_HEIGHT: Final = 1.05
"""Of what the Gaussian adds, over the sum of three points: 1.0488 at most."""
_MOST_KEPT: Final = 1 << 21
"""Points of sums of one side, of 16 bytes each, and phases that are in memory together."""

Wave = NDArray[np.complex128]


class Smoothed:
    """Delta and epsilon of one direction of a job of atoms; where this takes more work than a grid, by that grid."""

    def __init__(self, parts: Sequence[Part], grid: Grid, tolerance: float) -> None:
        self._grid, self._tolerance = grid, tolerance
        self._is_apart = any(part.is_apart for part in parts)
        self._sides = [[(known_atoms(part, is_upper), part.count) for part in parts] for is_upper in (False, True)]
        self._tilts = [Tilts([in_groups(one, n) for one, n in side], _OUT) for side in self._sides]
        self._kept: dict[tuple[int, Choice, int], _Sum] = {}

    @staticmethod
    def is_possible(parts: Sequence[Part], grid: Grid) -> bool:
        """Whether all losses are atoms that a grid would round."""
        atoms = [one.as_atoms() for part in parts for one in (part.upper, part.lower)]
        return all(one is not None and one.loss.size for one in atoms) and grid.shared[1] > 0

    def at_most(self, quantity: Literal["epsilon", "delta"], target: float) -> float:
        """An upper bound of the answer that takes little time."""
        return self._grid.at_most(quantity, target)

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta at `epsilon`."""
        ease = 2.0 if self._is_apart else 1.0  # two distributions are apart anyway
        best, known = None, Found(0.0, 1.0, Status.LOOSE)
        try:
            for _ in range(3):
                lower, upper = self._sums(epsilon, known.upper, ease)
                found = judged(lower.below(epsilon), upper.above(epsilon), 1.0)
                own = judged(upper.below(epsilon), found.upper, 1.0) if self._is_apart else found
                known = _both(known, found, 1.0)
                if self._is_enough(own, found):
                    return known
                best = self._of_two(own, known)
                ease *= self._less(own, *upper.both(epsilon), self._tolerance)
        except ValueError:  # this needs too many points, or there is no such loss
            pass
        return best or _both(known, self._grid.delta(epsilon), 1.0)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 with this delta."""
        best, known = None, Found(0.0, math.inf, Status.LOOSE)
        try:
            if self._is_zero(delta):
                return Found(0.0, 0.0, Status.TIGHT)
            tilt, place = self._first(delta)
            ease = 0.6 * max(tilt * place, 1e-3)
            for _ in range(3):
                lower, upper = self._sums(place, delta, ease)
                slope = -upper.steepness(place, delta) * place
                high = boundary(lambda at: excess(upper.above(at), delta), None, "epsilon", start=place, slope=slope)  # noqa: B023
                low, *own_low = (
                    boundary(lambda at: -excess(one.below(at), delta), None, "epsilon", start=place, slope=-slope)  # noqa: B023
                    for one in ((lower, upper) if self._is_apart else (lower,))
                )
                found = judged(low, high, math.inf)
                own = judged(own_low[0], high, math.inf) if own_low else found
                known = _both(known, found, math.inf)
                if self._is_enough(own, found):
                    return known
                best = self._of_two(own, known)
                ease *= self._less(own, *upper.both(high), self._tolerance * upper.steepness(high, delta) * high)
                place = high
        except ValueError:  # this needs too many points, or epsilon is next to 0
            pass
        return best or _both(known, self._grid.epsilon(delta), math.inf)

    def _is_zero(self, delta: float) -> bool:
        """Whether delta at 0 is that small; of two distributions, where few of the atoms say so, too."""
        is_near = self._is_apart and self._rough(0.0, delta).above(0.0) < delta
        return is_near and self._sums(0.0, delta, 1.0)[1].above(0.0) <= delta

    def _rough(self, place: float, delta: float) -> _Sum:
        few, choice = self._tilts[1].parts, self._tilts[1].chosen(place, delta)
        steep = max(choice.saddle, choice.tilt, 0.3)
        some = [(Atoms(loss, 0.0 * loss, np.exp(log_mass)), n) for n, loss, log_mass in few]
        return _Sum(some, choice.tilt, 1e-3 / steep**2, choice.period, choice.cap)

    def _first(self, delta: float) -> tuple[float, float]:
        """A tilt and a place near epsilon; of two distributions to about a hundredth, by few of the atoms."""
        tilt, place = self._grid.tilt_of(delta)
        for _ in range(3 * self._is_apart):
            one, last = self._rough(place, delta), place
            place = boundary(lambda at: excess(one.above(at), delta), None, "epsilon", start=place, slope=-place)  # noqa: B023
            tilt = 0.25 * self._tilts[1].chosen(place, delta).saddle
            if abs(place - last) <= 0.1 * last:
                break
        return tilt, place

    @staticmethod
    def _is_enough(own: Found, found: Found) -> bool:
        """Whether all is TIGHT, or the Gaussian's part is little of what two distributions are apart."""
        return found.status == Status.TIGHT or own.upper - own.lower < 0.25 * (found.upper - found.lower)

    def _of_two(self, own: Found, found: Found) -> Found | None:
        """An answer of two distributions that a finer grid hardly narrows."""
        return found if self._is_apart and own.upper - own.lower < 0.9 * (found.upper - found.lower) else None

    def _less(self, found: Found, low: float, high: float, most: float) -> float:
        """How much smaller the Gaussian's variance has to be: an interval has its width, if it is not that of rounding,
        delta being from `low` to `high` beside the Gaussian, which may be `most` of itself."""
        ratio = self._tolerance * found.upper / (found.upper - found.lower)
        if not ratio > 1e-4 or high - low > 0.5 * most * high:
            raise OutOfReachError("the finite sum says little")
        return 0.5 * ratio

    def _sums(self, place: float, delta: float, ease: float) -> list[_Sum]:
        """From below and from above, with so small a Gaussian that log delta is `ease` times the tolerance wide; of two
        distributions, which may have tails of their own, each with its own tilt."""
        return [self._sum(number, self._tilts[number].chosen(place, delta), ease) for number in range(2)]

    def _sum(self, number: int, choice: Choice, ease: float) -> _Sum:
        steep = max(choice.saddle, choice.tilt)
        curved = steep * (1.0 + steep)
        level = min(math.floor(2.0 * math.log2(min(self._tolerance * ease / 2.5, 1.0) / curved)), -8)
        key = number, choice, level
        if key not in self._kept:
            made = _Sum(self._sides[number], choice.tilt, 2.0 ** (0.5 * level), choice.period, choice.cap)
            if sum(one.points for one in self._kept.values()) > 2 * _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = made
        found = self._kept[key]
        note({(self, *key): 50.0 * (4.0 + len(self._sides[number])) * found.points})
        return found


def _both(one: Found, other: Found, top: float) -> Found:
    """What two answers say together."""
    return judged(*narrowed(max(one.lower, other.lower), one.upper, other.upper), top)


class _Transform(NamedTuple):
    """That of a sum times that of the payoff at all points, its largest error, and what bounds that of its readings."""

    wave: Wave
    error: float
    size: float
    turned: float
    """Sum of the sizes times their points."""
    scale: float
    scales: float
    """The logarithm of what it is to be multiplied with, and of how large numbers that is the sum."""


class _Sum:
    """A Fourier sum at one tilt, for any epsilon near it: points (a B + b) spacing, in A rows of B."""

    def __init__(
        self,
        parts: Sequence[tuple[Atoms, int]],
        tilt: float,
        variance: float,
        least: float = 0.0,
        cap: float = math.inf,
    ) -> None:
        self._far_losses, parts = FarLosses(parts, cap), [(up_to(one, cap), n) for one, n in parts]
        self._parts, self._tilt, self._variance = parts, tilt, variance
        self._n_releases = sum(n for _, n in parts)
        self._weighted = [(n, *weighted(one, n)[1:]) for one, n in parts]
        self._largest = math.fsum(n * float(np.abs(one.loss).max(initial=0.0)) for one, n in parts)
        if not all(one.loss.size for one, _ in parts):
            raise OutOfReachError("there is no finite loss")
        width = math.sqrt(log_moment(self._weighted, tilt).variance + variance)
        self._steps = PROBES / width
        asked = [np.array([tilt, 0.0, -1.0]), tilt + self._steps, -1.0 - self._steps, tilt - self._steps]
        known = np.array(self._log_moments(np.concatenate(asked)))
        (self._here, *_), self._right, self._left, out = np.split(known.sum(axis=0), 3 + PROBES.size * np.arange(3))
        self._masses = known[:, 1:3].T.tolist()
        right, left = (self._right - self._here + _OUT) / self._steps, (self._here - out - _OUT) / self._steps
        self._period = max(float(right.min() - left.max()), least) * (1.0 + 1e-9)
        if not self._period > 0.0:
            raise OutOfReachError("rounding hides where the losses are")
        self._spacing = 2.0 * math.pi / self._period
        self._last = math.sqrt(2.0 * _LAST / variance)
        points, self._far = self._near_points()
        if not points * (4.0 + len(parts)) < _MOST_SUMMED:
            raise OutOfReachError("a finite sum needs too many points")
        self._columns = 1 << math.ceil(0.5 * math.log2(points))
        self._rows = math.ceil(points / self._columns)
        self.points = self._rows * self._columns
        self._last = max(self._last - self._spacing, (self.points - 1) * self._spacing)

    def _near_points(self) -> tuple[float, float]:
        """How many points matter, and at most the sizes of all terms further out: where many releases are summed, a
        factor changes so slowly that its size in one place says enough of a whole group of points."""
        everything = self._last / self._spacing + 2.0
        widest = max(self._weighted, key=lambda one: one[0] * log_moment([(1, *one[1:])], self._tilt).variance)
        apart = 0.06 / math.sqrt(max(log_moment([(1, *widest[1:])], self._tilt).variance, 1e-300))
        groups = math.ceil(self._last / apart + 0.5)
        if not (apart > 8.0 * self._spacing and groups * (4.0 + len(self._parts)) < _MOST_SUMMED):
            return everything, 0.0
        log_size = np.zeros(groups)
        for k in range(len(self._parts)):
            factor, error, weight, known = self._factor(k, 2.0 * math.pi / apart, groups)
            one, n = self._parts[k]
            slope = float(np.sum(weight * np.abs(one.loss - known.mean)))
            most = np.minimum(np.abs(factor) + error + (0.5 + 1e-9) * apart * slope, float(np.sum(weight)))
            log_size += n * np.log(most * (1.0 + 1e-12))
        start = np.append(np.maximum((np.arange(groups) - 0.5) * apart, 0.0), self._last)
        size = (apart / self._spacing + 2.0) * (1.0 + 1e-9) * np.abs(self._payoff(start[:-1])) * np.exp(log_size)
        beyond = np.append(np.cumsum(size[::-1])[::-1], 0.0) * (1.0 + 1e-9)
        first = int(np.argmax(beyond < 1e-14 * abs(self._payoff(np.zeros(1)))))
        return min(start[first] / self._spacing + 2.0, everything), float(beyond[first])

    def _payoff(self, t: Cells) -> Wave:
        """The transform of the payoff and of the Gaussian."""
        tilt, v, z = self._tilt, self._variance, self._tilt + 1j * t
        square, turn = tilt * (1.0 + tilt) - t * t, t * (1.0 + 2.0 * tilt)
        return np.asarray(np.exp(0.5 * v * square) * np.exp(0.5j * v * turn) / (z * (z + 1.0)))

    def _factor(self, part: int, period: float, points: int) -> tuple[Wave, Cells, Cells, Moment]:
        """The transform of one release at multiples of 2 pi/period, with its errors; the tilted weights of its atoms,
        and their log-moment."""
        one, tilt, known = self._parts[part][0], self._tilt, log_moment([(1, *self._weighted[part][1:])], self._tilt)
        half = 0.5 * (tilt * one.loss - known.value)
        weight = one.mass * np.exp(half) * np.exp(half)
        factor, grown = _moments(one.loss, weight, period, points)
        off = float(np.sum(weight * (4.0 * np.abs(tilt * one.loss) + 2.0 * abs(known.value) + 48.0)))
        reach = float(np.sum(weight * np.abs(one.loss)))
        t = np.arange(points) * (2.0 * math.pi / period)
        error = ROUNDING * (off + grown + 4.0 * reach * t) * (1.0 + 1e-6) + 1e-300
        return factor, error, weight, known

    def _log_moments(self, tilt: Cells) -> tuple[Cells, Cells]:
        """log E exp(tilt (S + W)), and by how much it may be off."""
        value = log_values(self._weighted, tilt) + 0.5 * self._variance * tilt * (1.0 + tilt)
        size = 8.0 * np.abs(tilt) * self._largest + 4000.0 * self._n_releases + 8.0 * np.abs(value) + 8.0
        return value, ROUNDING * size

    def _phases(self, x: Cells) -> tuple[Wave, Wave]:
        """exp(i t x) at the first point of each row, and from there to each column."""
        rows = np.multiply.outer(np.arange(self._rows) * (self._columns * self._spacing), x)
        columns = np.multiply.outer(np.arange(self._columns) * self._spacing, x)
        return np.cos(rows) + 1j * np.sin(rows), np.cos(columns) + 1j * np.sin(columns)

    @cached
    def _transform(self) -> _Transform:
        tilt, v = self._tilt, self._variance
        t: Cells = np.arange(self.points, dtype=np.float64) * self._spacing
        wave, log_most, relative = np.ones(t.size, dtype=np.complex128), np.zeros(t.size), np.zeros(t.size)
        scales = []
        for k, (_, n) in enumerate(self._parts):
            factor, error, _, known = self._factor(k, self._period, self.points)
            most = np.abs(factor) * (1.0 + 1e-14) + error
            log_most += n * np.log(most)
            relative += n * error / most
            for part in range(0, t.size, 1 << 14):  # what a processor keeps near
                wave[part : part + (1 << 14)] *= composed(factor[part : part + (1 << 14)], n, np.multiply)
            scales.append(n * known.value)
        turn, payoff = t * (1.0 + 2.0 * tilt), self._payoff(t)
        size = np.abs(payoff) * np.exp(log_most) * (1.0 + 1e-9 + 8.0 * ROUNDING * self._n_releases)
        powers = 4.0 * (self._n_releases + len(scales)) + 8.0 * v * (tilt * (1.0 + tilt) + t * t + turn) + 64.0
        wave *= payoff
        wave[0] *= 0.5
        whole = float(np.sum(size * (relative * (1.0 + 1e-6) + ROUNDING * powers)))
        scale, all_scales = math.fsum(scales), math.fsum(map(abs, scales))
        in_rows = wave.reshape(self._rows, self._columns)
        return _Transform(in_rows, whole, float(np.sum(size)), float(np.sum(size * t)), scale, all_scales)

    def smooth(self, epsilon: float) -> tuple[float, float]:
        """Bounds of what finite losses add to delta beside the Gaussian."""
        tilt, v, period, known = self._tilt, self._variance, self._period, self._transform
        if not (exponent := known.scale - tilt * epsilon) < 700.0:  # far on the left of where this tilt tells anything
            return -math.inf, math.inf
        rows, columns = self._phases(np.array([-epsilon]))
        total = float(np.sum(np.einsum("ab,b->a", known.wave, columns[:, 0]) * rows[:, 0]).real)
        each = 3.0 * abs(epsilon) * known.turned + (64.0 + self._rows + self._columns) * known.size
        unit = self._spacing / math.pi * math.exp(exponent)
        off = ROUNDING * (8.0 * (known.scales + tilt * abs(epsilon)) + 64.0)
        error = unit * ((known.error + self._far + ROUNDING * each) * (1.0 + 1e-6) + off * abs(total))
        # beyond the last point
        last = self._last
        most = self._here - tilt * epsilon - 0.5 * v * last**2
        error += _geometric(most, math.inf, tilt * epsilon) / (math.pi * v * last**3)
        # of the periods on the right Chernoff's bounds; on the left all is in the money, but for such a bound
        on_right, on_left = (tilt + self._steps) * epsilon, (1.0 + self._steps) * epsilon
        beyond = _least_geometric(self._right - on_right, self._steps * period, on_right)
        below = _least_geometric(self._left + on_left, (tilt + 1.0 + self._steps) * period, on_left)
        paid = 0.0
        for sign, power, rate in ((1.0, 0.0, tilt), (-1.0, -1.0, tilt + 1.0)):
            log_mass, off = self._masses[int(-power)]
            part = _geometric(log_mass - power * epsilon, rate * period, 0.0)
            paid += sign * part
            steep = rate * period * (1.0 + 1.0 / -math.expm1(-rate * period))
            error += part * (off + 1e-15 * (steep + abs(epsilon) + 64.0))
        if not error < math.inf:  # numbers too large to subtract
            return -math.inf, math.inf
        error = error * (1.0 + 1e-12) + 1e-15 * abs(unit * total)
        return unit * total - paid - error - (beyond + below) * (1.0 + 1e-12), unit * total - paid + error

    def both(self, epsilon: float) -> tuple[float, float]:
        """The same with losses beyond the cap."""
        low, high = self.smooth(epsilon)
        least, most = self._far_losses.bounds(epsilon)
        return low + least, high + most

    def steepness(self, epsilon: float, delta: float) -> float:
        """By how much the logarithm of delta falls with epsilon, nearly."""
        step = 1e-3 * epsilon
        ratio = self.both(epsilon - step)[1] / max(self.both(epsilon + step)[1], 1e-3 * delta)
        return max(math.log(ratio) / (2.0 * step), 1e-3 / epsilon) if ratio > 0.0 else 1.0 / epsilon

    def above(self, epsilon: float) -> float:
        """An upper bound of delta of these atoms."""
        return min(1.0, (self.both(epsilon)[1] + self._lost) * (1.0 + 1e-14))

    def below(self, epsilon: float) -> float:
        """A lower bound."""
        h = _SHIFT * math.sqrt(self._variance)
        share, low = 1.0 / (1.0 + math.exp(-h)), self.smooth(epsilon)[0]
        near, far = self.smooth(epsilon - h)[1], self.smooth(epsilon + h)[1]
        added = _HEIGHT * math.exp(1.5 * h + 0.125 * self._variance) * (share * near + (1.0 - share) * far - low)
        rounding = 1e-15 * (8.0 + (1.0 + self._tilt) * (1.0 + abs(epsilon))) * near
        known = self._far_losses.bounds(epsilon)[0] + self._lost * (1.0 - 1e-14)
        return max(0.0, low - max(added, 0.0) * (1.0 + 1e-12) - rounding + known)

    @property
    def _lost(self) -> float:
        """The mass of an infinite loss."""
        return -math.expm1(math.fsum(n * math.log1p(-min(one.infinite, 1.0 - 1e-16)) for one, n in self._parts))


def _moments(loss: Cells, weight: Cells, period: float, points: int, near: int = 18) -> tuple[Wave, Cells]:
    """The sum of weight exp(i t loss) at multiples t of 2 pi/period, and their errors over the sum of the weights, in
    roundings, but for 4 of t loss: each atom is spread by a Gaussian of two steps, whose transform is divided away, to
    the numbers up to `near` away."""
    n = fft_size(4 * points)
    place = loss * (n / period)
    first = np.rint(place)
    used, number = np.unique(np.mod(first - near, n).astype(np.int64), return_inverse=True)
    parts = max(min((1 << 17) // used.size, 64), 1)  # sums of fewer atoms each have fewer roundings
    number = number * parts + np.arange(loss.size) % parts
    spread, ratio = weight * np.exp(-0.125 * (first - place) ** 2), np.exp(-0.25 * (first - place))
    counts = np.zeros(math.ceil((n + 2 * near + 1) / n) * n)
    for step in range(-near, near + 1):
        share = spread * ratio**step * math.exp(-0.125 * step * step)
        counts[used + (near + step)] += np.bincount(number, share, used.size * parts).reshape(-1, parts).sum(axis=1)
    counts = counts.reshape(-1, n).sum(axis=0)  # the numbers begin again, several times where there are few
    most = int(np.bincount(number).max()) + parts + 2 * near + 2
    undo = np.exp(2.0 * (np.arange(points) * (2.0 * math.pi / n)) ** 2)
    wave = np.fft.rfft(counts)[:points].conj() * (undo / math.sqrt(8.0 * math.pi))
    return wave, undo * (8.0 * math.log2(n) + most + 128.0)


def _least_geometric(log_first: Cells, rate: Cells, rounded: Cells) -> float:
    """The least of several such sums."""
    best = int(np.argmin(log_first - rate - np.log(-np.expm1(-rate))))
    return _geometric(float(log_first[best]), float(rate[best]), float(rounded[best]))


def _geometric(log_first: float, rate: float, rounded: float) -> float:
    """The sum over j >= 1 of exp(log_first - j rate), or exp(log_first) for an infinite rate, from above where
    `rounded` has been rounded in it; inf for what is too large to be subtracted from anything."""
    exponent = log_first - (rate if rate < math.inf else 0.0) + 16.0 * ROUNDING * (abs(rounded) + abs(log_first))
    return math.exp(exponent) / -math.expm1(-rate) if exponent < 600.0 else math.inf
