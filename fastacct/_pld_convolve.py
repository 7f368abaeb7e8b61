"""Composition of grid measures by FFT, exponentially tilted, with every error bounded.

Masses p of loss l are replaced by p exp(tilt l) / M: a nearly normalised measure with its bulk where the answer is
decided, so that a rounding error is small beside the masses that matter, however small these are before the tilt.  For
one reading at epsilon, with w(l) = exp(-tilt (l - eps)) (1 - exp(eps - l))_+ <= 1,

    delta(eps) = mass at infinity + M_total exp(-tilt eps) sum_l w(l) ptilted(l).

What is paid for:

* window: the circular convolution adds to a point of the window the masses outside that alias to it.  They are at most
  the Chernoff bounds of both tails; an upper bound adds the upper tail, a lower one subtracts both;
* forward FFT: |E|_2 <= g |X|_2 with g = 16 u log2(N) (Higham 2002, theorem 24.2, with room for a real transform with
  radices 2, 3, 4; the twiddles of pocketfft are good to an ulp).  With B = |X| + |E|, the power n of a factor is off
  by at most n |E| B^(n-1) at every frequency, so that a mass is off by at most
  n |E|_2 |B^(n-1)|_2 / N (Cauchy-Schwarz);
* powers by repeated squaring: a relative error below 3 u per multiplication; inverse FFT: g |y|_2;
* tilting: in the masses, with the sign of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct._arrays import Cells
from fastacct._pld_grid import GridMeasure
from fastacct._pld_sources import ROUNDING

__all__ = ["Composition", "Moment", "Tilted", "saddle"]

_TINY: Final = 1e-300
_CHERNOFF: Final = np.geomspace(0.5, 64.0, 8)


class Moment(NamedTuple):
    """log E exp(tilt L) over the finite losses, and its first two derivatives."""

    value: float
    mean: float
    variance: float


class Tilted(NamedTuple):
    """Composed tilted masses at `first` + i `spacing`."""

    first: float
    spacing: float
    mass: Cells
    tilt: float
    log_scale: float
    each_error: float
    norm_error: float
    below: float
    above: float


class _Part(NamedTuple):
    measure: GridMeasure
    count: int
    index: NDArray[np.int64]
    loss: Cells
    mass: Cells
    log_mass: Cells


class Composition:
    """Measures on grids of one spacing, each with a count; all of them upper bounds, or all lower ones."""

    def __init__(self, parts: Sequence[tuple[GridMeasure, int]], is_upper: bool) -> None:
        self.is_upper = is_upper
        self.parts: list[_Part] = []
        for measure, count in parts:
            index = np.flatnonzero(measure.mass > 0.0)
            mass = measure.mass[index]
            if count:
                self.parts.append(_Part(measure, count, index, measure.losses()[index], mass, np.log(mass)))
        self.spacing = self.parts[0].measure.spacing if self.parts else 1.0
        if any(part.measure.spacing != self.spacing for part in self.parts):
            raise ValueError("measures on different spacings do not compose")
        self.count = sum(part.count for part in self.parts)
        self.empty = any(not part.mass.size for part in self.parts)
        exact = [(Fraction(part.measure.origin) * part.count, part.count) for part in self.parts]
        self.origin: Fraction = sum((origin for origin, _ in exact), Fraction(0))
        self.length = 1 + sum(part.count * int(part.index[-1]) for part in self.parts if part.index.size)
        self.start = sum(part.count * int(part.index[0]) for part in self.parts if part.index.size)
        self.slack = math.fsum(part.count * part.measure.slack for part in self.parts)

    def loss_at(self, index: int) -> float:
        """Loss of a point of the composed grid, correctly rounded."""
        return float(self.origin + index * Fraction(self.spacing))

    @property
    def top(self) -> float:
        """The largest finite loss."""
        return self.loss_at(self.length - 1)

    @property
    def bottom(self) -> float:
        """The smallest finite loss."""
        return self.loss_at(self.start)

    def infinite(self) -> float:
        """Mass of an infinite loss, rounded to the safe side."""
        finite = math.fsum(part.count * math.log(max(float(part.mass.sum()), _TINY)) for part in self.parts)
        ratio = 0.0
        for part in self.parts:
            if part.measure.infinite > 0.0:
                ratio += part.count * math.log1p(part.measure.infinite / max(float(part.mass.sum()), _TINY))
        if ratio == 0.0:
            return 0.0
        value = math.exp(min(finite, 0.0 if not self.is_upper else finite)) * math.expm1(min(ratio, 700.0))
        error = (self.count + 64.0) * 4.0 * ROUNDING * (2.0 + ratio)
        if self.is_upper:
            return min(value * (1.0 + error), 1.0)
        return max(0.0, min(value, -math.expm1(-ratio)) * (1.0 - error))

    def moment(self, tilt: float) -> Moment:
        """log-moment of the finite losses; see `moment_error`."""
        value = mean = variance = 0.0
        for part in self.parts:
            exponent = tilt * part.loss + part.log_mass
            top = float(exponent.max())
            weight = np.exp(exponent - top)
            total = float(weight.sum())
            centre = float(weight @ part.loss) / total
            value += part.count * (top + math.log(total))
            mean += part.count * centre
            variance += part.count * float(weight @ (part.loss - centre) ** 2) / total
        return Moment(value, mean, variance)

    def moment_error(self, tilt: float) -> float:
        """Bound of the rounding error of `moment(tilt).value`."""
        return sum(
            part.count * ROUNDING * (6.0 * abs(tilt) * float(np.abs(part.loss[[0, -1]]).max()) + 3000.0)
            for part in self.parts
        )

    def tail(self, tilt: float, point: float, steps: Cells, upper: bool) -> float:
        """Chernoff bound of the tilted mass at or beyond `point`."""
        base, best, sign = self.moment(tilt).value, 0.0, 1.0 if upper else -1.0
        for step in steps:
            exponent = self.moment(tilt + sign * step).value - base - sign * step * point
            exponent += self.moment_error(tilt + sign * step) + self.moment_error(tilt) + 4e-16 * step * abs(point)
            best = min(best, exponent)
        return math.exp(best)

    def tilted(self, tilt: float, log_budget: float, max_points: int) -> Tilted:
        """The composed measure where its tilted mass is, up to exp(log_budget) if `max_points` allow."""
        now = self.moment(tilt)
        width = math.sqrt(now.variance) + self.spacing
        steps = _CHERNOFF / width
        moments = [(step, self.moment(tilt + step), self.moment(tilt - step)) for step in steps]
        high = min((up.value - now.value - log_budget) / step for step, up, _ in moments)
        low = max(-(down.value - now.value - log_budget) / step for step, _, down in moments)
        last = min(self.length - 1, math.ceil((Fraction(high) - self.origin) / Fraction(self.spacing)))
        first = max(self.start, math.floor((Fraction(low) - self.origin) / Fraction(self.spacing)))
        wanted = max(last - first + 1, 2)
        n_points = _fft_size(min(wanted, max_points))
        if n_points < wanted:
            first = max(first, math.floor((Fraction(now.mean) - self.origin) / Fraction(self.spacing)) - n_points // 2)
        room = n_points - min(wanted, n_points)
        first = max(self.start, first - room // 2)
        below = above = 0.0
        if first > self.start:
            below = self.tail(tilt, self.loss_at(first), steps, False)
        if first + n_points < self.length:
            above = self.tail(tilt, self.loss_at(first + n_points), steps, True)
        mass, each, norm, log_scale = self._convolve(tilt, n_points)
        mass = np.roll(mass, -(first % n_points))
        mass = mass[: min(n_points, self.length - first)]
        return Tilted(self.loss_at(first), self.spacing, mass, tilt, log_scale, each, norm, below, above)

    def _convolve(self, tilt: float, n_points: int) -> tuple[Cells, float, float, float]:
        """Tilted masses by index modulo `n_points`, bounds of their errors (each; 2-norm), log of the scale."""
        sign = 1.0 if self.is_upper else -1.0
        scale = Fraction(0)
        folded: list[tuple[Cells, int]] = []
        for part in self.parts:
            exponent = tilt * part.loss + part.log_mass
            top = float(exponent.max())
            log_moment = top + math.log(float(np.exp(exponent - top).sum()))
            scale += part.count * Fraction(log_moment)
            half = 0.5 * (tilt * part.loss - log_moment)
            error = ROUNDING * (4.0 * np.abs(tilt * part.loss) + abs(log_moment) + 12.0)
            mass = part.mass * np.exp(half) * np.exp(half) * (1.0 + sign * error)
            sums = np.bincount(part.index % n_points, mass, minlength=n_points)
            sums *= 1.0 + sign * ROUNDING * (4 + part.index[-1] // n_points)
            folded.append((sums, part.count))
        if len(folded) == 1 and folded[0][1] == 1:
            return folded[0][0], 0.0, 0.0, float(scale)
        gain = 16.0 * ROUNDING * math.log2(n_points)
        # shares of the error: |E|_2 / sqrt(N) for each factor, and its bound B at every frequency
        log_bound, product = np.zeros(n_points // 2 + 1), np.ones(n_points // 2 + 1, dtype=np.complex128)
        factors: list[tuple[int, float, Cells]] = []
        for sums, count in folded:
            norm = float(np.linalg.norm(sums)) * (1.0 + 1e-9)
            spectrum = np.fft.rfft(sums)
            size = np.abs(spectrum)
            bound = np.maximum(np.minimum(size + gain * math.sqrt(n_points) * norm, sums.sum() * (1.0 + 1e-9)), size)
            logs = np.log(bound)
            factors.append((count, gain * norm, logs))
            log_bound += count * logs
            product *= _power(spectrum, count)
        powers = 3.0 * ROUNDING * (self.count + len(folded))
        size = np.abs(product)
        mass = np.fft.irfft(product, n_points)
        each = powers * 2.0 * float(size.sum()) / n_points
        norm = powers * math.sqrt(2.0 / n_points) * float(np.linalg.norm(size))
        with np.errstate(over="ignore"):
            for count, error, logs in factors:
                rest = np.exp(log_bound - logs)
                each += count * error * math.sqrt(2.0 / n_points) * float(np.linalg.norm(rest))
                norm += count * error * float(rest.max())
        inverse = gain * float(np.linalg.norm(mass))
        grown = 1.0 + 1e-6 + 8.0 * ROUNDING * self.count
        return mass, grown * (each + inverse) + _TINY, grown * (norm + inverse) + _TINY, float(scale)


def read_delta(composition: Composition, tilted: Tilted, epsilon: float) -> float:
    """Delta of the finite losses at `epsilon`: certified upper (lower) bound for an upper (lower) composition."""
    is_upper = composition.is_upper
    sign = 1.0 if is_upper else -1.0
    size = tilted.spacing * tilted.mass.size
    shift = composition.slack + 8.0 * ROUNDING * (abs(tilted.first) + size + abs(epsilon))
    epsilon = epsilon - sign * shift
    tilt, start = tilted.tilt, max(0, math.floor((epsilon - tilted.first) / tilted.spacing))
    # weights below exp(-750) are zero anyway
    stop = tilted.mass.size if tilt == 0.0 else start + 2 + math.ceil(min(750.0 / tilt / tilted.spacing, 1e15))
    mass = tilted.mass[start:stop]
    distance = tilted.first + tilted.spacing * np.arange(start, start + mass.size) - epsilon
    weight = np.where(distance > 0.0, np.exp(-tilt * np.maximum(distance, 0.0)) * -np.expm1(-distance), 0.0)
    total = float(weight @ mass)
    size_of_sum = float(weight @ np.abs(mass))
    peak = _peak(tilt)
    each = float(weight.sum()) * tilted.each_error
    norm = float(np.linalg.norm(weight)) * tilted.norm_error
    error = min(each, norm) * (1.0 + 1e-9)
    error += size_of_sum * ROUNDING * (mass.size + 16.0 + 4.0 * min(750.0, tilt * size))
    if is_upper:
        total += error + tilted.above * peak * (1.0 + 1e-9)
    else:
        total -= error + (tilted.above + tilted.below) * peak * (1.0 + 1e-9)
    if total <= 0.0:
        return 0.0 if not is_upper else _TINY
    exponent = tilted.log_scale - tilt * epsilon
    error = 4.0 * ROUNDING * (abs(tilted.log_scale) + abs(tilt * epsilon) + 8.0)
    return math.exp(min(exponent + sign * error + math.log(total), 1.0)) * (1.0 + sign * 1e-13)


def chernoff_delta(composition: Composition, tilt: float, epsilon: float) -> float:
    """Upper bound of delta from the log-moment alone, like Renyi DP's."""
    shift = composition.slack + 4.0 * ROUNDING * abs(epsilon)
    exponent = composition.moment(tilt).value + composition.moment_error(tilt) - tilt * (epsilon - shift)
    exponent += 8.0 * ROUNDING * (abs(exponent) + abs(tilt * epsilon))
    return math.exp(min(exponent, 1.0)) * _peak(tilt) * (1.0 + 1e-12)


def _peak(tilt: float) -> float:
    """Largest weight exp(-tilt x)(1 - exp(-x)), rounded up: tilt^tilt / (1 + tilt)^(1 + tilt)."""
    if tilt == 0.0:
        return 1.0
    return math.exp(-tilt * math.log1p(1.0 / tilt) - math.log1p(tilt)) * (1.0 + 1e-12)


def _power(base: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """base ** count by repeated squaring: at most 2 count - 1 rounded products."""
    result: NDArray[np.complex128] | None = None
    while True:
        if count & 1:
            result = base if result is None else result * base
        count >>= 1
        if not count:
            break
        base = base * base
    assert result is not None
    return result


def _fft_size(n_points: int) -> int:
    """2^k or 3 2^k, at least `n_points`."""
    power = 1 << max(1, math.ceil(math.log2(n_points)))
    return 3 * power // 4 if power >= 8 and 3 * power // 4 >= n_points else power
