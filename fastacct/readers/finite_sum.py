"""A finite Fourier sum at one tilt: delta of a sum of atoms beside a small Gaussian, and without it.

Proof and ledger: docs/algorithms/smoothed.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.kept import cached
from fastacct.core.rounding import fft_size
from fastacct.losses.loss import PROBES, Atoms, Moment, composed, log_moment, refuse_where, weighted
from fastacct.readers.far_losses import FarLosses, up_to
from fastacct.readers.tilt import log_values
from fastacct_ext._densities import spread

_MOST_SUMMED: Final = 1.5e7
"""Times parts and 4: about a twentieth of a microsecond each."""
_LAST: Final = 24.0
"""s^2 t^2/2 at the last point."""
OUT: Final = 34.0
"""Log of how little of the tilted mass is further out than the period on either side."""
_SHIFT: Final = 1.5
_HEIGHT: Final = 1.05
"""Of what the Gaussian adds, over the sum of three points: 1.0488 at most."""

Wave = NDArray[np.complex128]


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


class FiniteSum:
    """A Fourier sum at one tilt, for any epsilon near it: points (a B + b) spacing, in A rows of B."""

    def __init__(
        self,
        parts: Sequence[tuple[Atoms, int]],
        tilt: float,
        variance: float,
        least: float = 0.0,
        cap: float = math.inf,
    ) -> None:
        self.lost = lost(parts)
        self._far_losses, parts = FarLosses(parts, cap), [(up_to(one, cap), n) for one, n in parts]
        self._parts, self._tilt, self._variance = parts, tilt, variance
        self._n_releases = sum(n for _, n in parts)
        self._weighted = [(n, *weighted(one, n)[1:]) for one, n in parts]
        self._largest = math.fsum(n * float(np.abs(one.loss).max(initial=0.0)) for one, n in parts)
        refuse_where(not all(one.loss.size for one, _ in parts), "there is no finite loss")
        width = math.sqrt(log_moment(self._weighted, tilt).variance + variance)
        self._steps = PROBES / width
        asked = [np.array([tilt, 0.0, -1.0]), tilt + self._steps, -1.0 - self._steps, tilt - self._steps]
        log_moments = np.array(self._log_moments(np.concatenate(asked)))
        (self._here, *_), self._right, self._left, out = np.split(
            log_moments.sum(axis=0), 3 + PROBES.size * np.arange(3)
        )
        self._masses = log_moments[:, 1:3].T.tolist()
        right, left = (self._right - self._here + OUT) / self._steps, (self._here - out - OUT) / self._steps
        self._period = max(float(right.min() - left.max()), least) * (1.0 + 1e-9)
        refuse_where(not self._period > 0.0, "rounding hides where the losses are")
        self._spacing = 2.0 * math.pi / self._period
        self._last = math.sqrt(2.0 * _LAST / variance)
        points, self._far = self._near_points()
        refuse_where(not points * (4.0 + len(parts)) < _MOST_SUMMED, "a finite sum needs too many points")
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
        size = (apart / self._spacing + 2.0) * (1.0 + 1e-9) * self._payoff(start[:-1]) * np.exp(log_size)
        beyond = np.append(np.cumsum(size[::-1])[::-1], 0.0) * (1.0 + 1e-9)
        first = int(np.argmax(beyond < 1e-14 * self._payoff(np.zeros(1))[0]))
        return min(float(start[first]) / self._spacing + 2.0, everything), float(beyond[first])

    def _payoff(self, t: Cells) -> Cells:
        """The size of the transform of the payoff and of the Gaussian."""
        tilt, v, square = self._tilt, self._variance, t * t
        size = (tilt * tilt + square) * ((1.0 + tilt) ** 2 + square)
        return np.asarray(np.exp(0.5 * v * (tilt * (1.0 + tilt) - square)) / np.sqrt(size))

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
            most = np.sqrt(factor.real**2 + factor.imag**2) * (1.0 + 1e-14) + error
            log_most += n * np.log(most)
            relative += n * error / most
            for part in range(0, t.size, 1 << 14):  # what a processor keeps near
                wave[part : part + (1 << 14)] *= composed(factor[part : part + (1 << 14)], n, np.multiply)
            scales.append(n * known.value)
        square = tilt * (1.0 + tilt) - t * t
        size = self._payoff(t) * np.exp(log_most) * (1.0 + 1e-9 + 8.0 * ROUNDING * self._n_releases)
        powers = 4.0 * (self._n_releases + len(scales)) + 8.0 * v * (tilt * (1.0 + tilt) + t * t) + 64.0
        wave *= np.exp(0.5 * v * square)
        wave /= square + 1j * (t * (1.0 + 2.0 * tilt))
        wave[0] *= 0.5
        whole = float(np.sum(size * (relative * (1.0 + 1e-6) + ROUNDING * powers)))
        scale, all_scales = math.fsum(scales), math.fsum(map(abs, scales))
        in_rows = wave.reshape(self._rows, self._columns)
        return _Transform(in_rows, whole, float(np.sum(size)), float(np.sum(size * t)), scale, all_scales)

    def smooth(self, epsilon: float) -> tuple[float, float]:
        """Bounds of what finite losses add to delta beside the Gaussian."""
        tilt, v, period, transform = self._tilt, self._variance, self._period, self._transform
        if (
            not (exponent := transform.scale - tilt * epsilon) < 700.0
        ):  # far on the left of where this tilt tells anything
            return -math.inf, math.inf
        moved = v * (0.5 + tilt)  # the Gaussian's own turn
        rows, columns = self._phases(np.array([moved - epsilon]))
        total = float(np.sum(np.einsum("ab,b->a", transform.wave, columns[:, 0]) * rows[:, 0]).real)
        each = 4.0 * (abs(epsilon) + moved) * transform.turned + (64.0 + self._rows + self._columns) * transform.size
        unit = self._spacing / math.pi * math.exp(exponent)
        off = ROUNDING * (8.0 * (transform.scales + tilt * abs(epsilon)) + 64.0)
        error = unit * ((transform.error + self._far + ROUNDING * each) * (1.0 + 1e-6) + off * abs(total))
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
        return min(1.0, (self.both(epsilon)[1] + self.lost) * (1.0 + 1e-14))

    def below(self, epsilon: float) -> float:
        """A lower bound, without infinite losses."""
        h = _SHIFT * math.sqrt(self._variance)
        share, low = 1.0 / (1.0 + math.exp(-h)), self.smooth(epsilon)[0]
        near, far = self.smooth(epsilon - h)[1], self.smooth(epsilon + h)[1]
        added = _HEIGHT * math.exp(1.5 * h + 0.125 * self._variance) * (share * near + (1.0 - share) * far - low)
        rounding = 1e-15 * (8.0 + (1.0 + self._tilt) * (1.0 + abs(epsilon))) * near
        beyond_cap = self._far_losses.bounds(epsilon)[0]
        return max(0.0, low - max(added, 0.0) * (1.0 + 1e-12) - rounding + beyond_cap)


def lost(parts: Sequence[tuple[Atoms, int]]) -> float:
    """The mass of an infinite loss."""
    return -math.expm1(math.fsum(n * math.log1p(-min(one.infinite, 1.0 - 1e-16)) for one, n in parts))


def _moments(loss: Cells, weight: Cells, period: float, points: int, near: int = 18) -> tuple[Wave, Cells]:
    """The sum of weight exp(i t loss) at multiples t of 2 pi/period, and their errors over the sum of the weights, in
    roundings, but for 4 of t loss: each atom is spread by a Gaussian of two steps, whose transform is divided away, to
    the numbers up to `near` away."""
    n = fft_size(4 * points)
    counts = np.zeros((2, n * math.ceil(1.0 + 2.0 * near / n)))
    spread(loss * (n / period), weight, n, counts)
    numbers = np.roll(counts.sum(axis=0).reshape(-1, n).sum(axis=0), -near)  # which begin again
    undo = np.exp(2.0 * (np.arange(points) * (2.0 * math.pi / n)) ** 2)
    wave = np.fft.rfft(numbers)[:points].conj() * (undo / math.sqrt(8.0 * math.pi))
    return wave, undo * (8.0 * math.log2(n) + 200.0)


def _least_geometric(log_first: Cells, rate: Cells, rounded: Cells) -> float:
    """The least of several such sums."""
    best = int(np.argmin(log_first - rate - np.log(-np.expm1(-rate))))
    return _geometric(float(log_first[best]), float(rate[best]), float(rounded[best]))


def _geometric(log_first: float, rate: float, rounded: float) -> float:
    """The sum over j >= 1 of exp(log_first - j rate), or exp(log_first) for an infinite rate, from above where
    `rounded` has been rounded in it; inf for what is too large to be subtracted from anything."""
    exponent = log_first - (rate if rate < math.inf else 0.0) + 16.0 * ROUNDING * (abs(rounded) + abs(log_first))
    return math.exp(exponent) / -math.expm1(-rate) if exponent < 600.0 else math.inf
