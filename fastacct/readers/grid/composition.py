"""Composition of grid measures by FFT, exponentially tilted, with every error bounded.

Masses p of loss l are replaced by p exp(tilt l) / M: a nearly normalised measure with its bulk where the answer is
decided, so that a rounding error is small beside the masses that matter, however small these are before the tilt.  For
one reading at epsilon, with w(l) = exp(-tilt (l - eps)) (1 - exp(eps - l))_+ <= 1,

    delta(eps) = mass at infinity + M_total exp(-tilt eps) sum_l w(l) ptilted(l).

What is added for:

* window: the circular convolution adds to a point of the window the masses outside that alias to it.  They are at most
  the Chernoff bounds of both tails; an upper bound adds the upper tail, a lower one subtracts both;
* forward FFT: |E|_2 <= g |X|_2 with g = 8 u log2(N) (Higham 2002, theorem 24.2, gives 6.7 for radix 2 and twiddles
  good to an ulp; pocketfft's radices 4 and 3 round less often).  The largest mass is left out and its transform, a
  constant, added: X is what remains.  With B = |X| + |E|, the power n of a factor is off by at most n |E| B^(n-1) at
  every frequency, so that a mass is off by at most n |E|_2 |B^(n-1)|_2 / N (Cauchy-Schwarz);
* powers by repeated squaring: a relative error below 3 u per multiplication; inverse FFT: g |y|_2;
* tilting: in the masses, with the sign of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import TINY, Cells
from fastacct.core.kept import cached, kept_by_argument
from fastacct.core.record import Record
from fastacct.core.rounding import fft_size
from fastacct.losses.loss import PROBES, ROUNDING, Moment, composed, log_moment, lost_in_all
from fastacct.losses.measure import GridMeasure, Lowered
from fastacct.readers.grid.window import Lower, Window


class _Part(Record):
    measure: GridMeasure
    copies: int
    positions: NDArray[np.intp]
    loss: Cells
    loss_error: float
    mass: Cells
    log_mass: Cells


class Composition:
    """Measures on grids of one spacing, each with a count; all of them upper bounds, or all lower ones."""

    def __init__(self, parts: Sequence[tuple[GridMeasure, int]], is_upper: bool) -> None:
        self.is_upper = is_upper
        self.parts: list[_Part] = []
        for measure, copies in parts:
            positions = np.flatnonzero(measure.mass > 0.0)
            mass, loss = measure.mass[positions], measure.losses()[positions]
            loss_error = 2.0 * ROUNDING * (abs(measure.origin) + measure.spacing * measure.mass.size)
            if copies:
                self.parts.append(_Part(measure, copies, positions, loss, loss_error, mass, np.log(mass)))
        self.spacing = self.parts[0].measure.spacing if self.parts else 1.0
        self.n_factors = sum(part.copies for part in self.parts)
        self.has_no_finite_loss = any(not part.mass.size for part in self.parts)
        self.origin = sum((Fraction(part.measure.origin) * part.copies for part in self.parts), Fraction(0))
        used = [part for part in self.parts if part.mass.size]
        self.start = sum(part.copies * int(part.positions[0]) for part in used)
        self.length = 1 + sum(part.copies * int(part.positions[-1]) for part in used)
        self.slack = math.fsum(part.copies * part.measure.slack for part in self.parts) * (1.0 + 1e-15)

    def loss_at(self, index: int) -> float:
        """Loss of a point of the composed grid, correctly rounded."""
        return float(self.origin + index * Fraction(self.spacing))

    @cached
    def top(self) -> float:
        """The largest finite loss."""
        return self.loss_at(self.length - 1)

    def infinite(self) -> float:
        """Mass of an infinite loss, rounded to the safe side."""
        if self.n_factors == 1:
            return self.parts[0].measure.infinite
        each = ((p.copies, float(p.mass.sum()) + p.measure.bottom, p.measure.infinite) for p in self.parts)
        value = lost_in_all(each)
        error = ROUNDING * (40.0 * self.n_factors + 64.0)
        return min(value * (1.0 + error), 1.0) if self.is_upper else max(0.0, value * (1.0 - error))

    @kept_by_argument
    def moment(self, tilt: float) -> Moment:
        """log-moment of the finite losses; see `moment_error`."""
        return log_moment(((part.copies, part.loss, part.log_mass) for part in self.parts), tilt)

    def moment_error(self, tilt: float) -> float:
        """Bound of the rounding error of `moment(tilt).value`."""
        each = (
            part.copies
            * (
                ROUNDING * (4.0 * abs(tilt) * float(np.abs(part.loss[[0, -1]]).max()) + 3000.0)
                + abs(tilt) * part.loss_error
            )
            for part in self.parts
        )
        return math.fsum(each)

    def tail(self, tilt: float, point: float, steps: Cells, upper: bool) -> float:
        """Chernoff bound of the tilted mass at or beyond `point`."""
        best, sign = 0.0, 1.0 if upper else -1.0
        for step in steps:
            exponent = self.moment(tilt + sign * step).value - self.moment(tilt).value - sign * step * point
            exponent += self.moment_error(tilt + sign * step) + self.moment_error(tilt)
            exponent += 4.0 * ROUNDING * (step * abs(point) + abs(self.moment(tilt).value))
            best = min(best, exponent)
        return max(math.exp(best) * (1.0 + 1e-12), TINY)  # what underflows is multiplied by a large scale again

    def window(self, tilt: float, log_budget: float, max_points: int) -> Window:
        """The composed measure where its tilted mass is, up to exp(log_budget) if `max_points` allow."""
        if self.has_no_finite_loss:
            return Window(self.is_upper, 0.0, self.spacing, np.zeros(1), self.infinite(), 0.0, 0.0)
        now = self.moment(tilt)
        width = math.sqrt(now.variance) + self.spacing
        steps = PROBES / width
        high = min((self.moment(tilt + step).value - now.value - log_budget) / step for step in steps)
        low = max(-(self.moment(tilt - step).value - now.value - log_budget) / step for step in steps)
        last = min(self.length - 1, math.ceil((Fraction(high) - self.origin) / Fraction(self.spacing)))
        first = max(self.start, math.floor((Fraction(low) - self.origin) / Fraction(self.spacing)))
        wanted = max(last - first + 1, 2)
        n_points = fft_size(min(wanted, max_points))
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
        return Window(
            self.is_upper,
            self.loss_at(first),
            self.spacing,
            mass,
            self.infinite(),
            self.slack,
            self.top,
            first,
            tilt,
            log_scale,
            each,
            norm,
            below,
            above,
            now.value + self.moment_error(tilt),
        )

    def _convolve(self, tilt: float, n_points: int) -> tuple[Cells, float, float, float]:
        """Tilted masses by index modulo `n_points`, bounds of their errors (each; 2-norm), log of the scale."""
        sign = 1.0 if self.is_upper else -1.0
        scale = Fraction(0)
        folded: list[tuple[Cells, int]] = []
        for part in self.parts:
            log_scale = log_moment([(1, part.loss, part.log_mass)], tilt).value
            scale += part.copies * Fraction(log_scale)
            half = 0.5 * (tilt * part.loss - log_scale)
            error = ROUNDING * (4.0 * np.abs(tilt * part.loss) + abs(log_scale) + 12.0) + abs(tilt) * part.loss_error
            mass = part.mass * np.exp(half) * np.exp(half) * (1.0 + sign * error)
            last = int(part.positions[-1])
            sums: Cells = np.bincount(part.positions % n_points, mass, minlength=n_points).astype(np.float64)
            sums *= 1.0 + sign * ROUNDING * (4 + last // n_points)
            folded.append((sums, part.copies))
        if len(folded) == 1 and folded[0][1] == 1:
            return folded[0][0], TINY, TINY, float(scale)
        gain = 8.0 * ROUNDING * math.log2(n_points)
        log_bound, product = np.zeros(n_points // 2 + 1), np.ones(n_points // 2 + 1, dtype=np.complex128)
        factors: list[tuple[float, Cells]] = []
        shift = 0
        for sums, copies in folded:
            heavy = int(np.argmax(sums))
            rest = np.roll(sums, -heavy)
            rest[0] = 0.0
            shift += copies * heavy
            size = _norm(rest) * (1.0 + 1e-9)
            spectrum = np.fft.rfft(rest)
            spectrum += sums[heavy]
            modulus = np.abs(spectrum)
            most = np.minimum(modulus + gain * math.sqrt(n_points) * size, float(sums.sum()) * (1.0 + 1e-9))
            bound = np.log(np.maximum(most, modulus))
            factors.append((copies * gain * size, bound))
            log_bound += copies * bound
            product *= composed(spectrum, copies, np.multiply)
        powers = 4.0 * ROUNDING * (self.n_factors + len(folded))
        modulus = np.abs(product)
        masses = np.roll(np.fft.irfft(product, n_points), shift % n_points)
        each = powers * 2.0 * float(modulus.sum()) / n_points
        norm = powers * math.sqrt(2.0 / n_points) * _norm(modulus)
        with np.errstate(over="ignore"):
            for error_norm, bound in factors:
                others = np.exp(log_bound - bound)
                each += error_norm * math.sqrt(2.0 / n_points) * _norm(others)
                norm += error_norm * float(others.max())
        inverse = gain * _norm(masses)
        more = 1.0 + 1e-6 + 8.0 * ROUNDING * self.n_factors
        return masses, more * (each + inverse) + TINY, more * (norm + inverse) + TINY, float(scale)


def _norm(x: Cells) -> float:
    """2-norm, by sums that do not depend on the number of threads of a BLAS."""
    return math.sqrt(float(np.sum(x * x)))


def moved_back(found: Sequence[tuple[Lowered, int]], tilt: float, log_rarely: float, away: float, points: int) -> Lower:
    """The dots of losses that are alone, moved back by as much as their sum is hardly ever moved up."""
    made = Composition([(one.dots if one.rest.any() else one.below, n) for one, n in found], False)
    window = made.window(tilt, log_rarely, points)
    window = replace(window, slack=(window.slack + away) * (1.0 + 1e-9))
    rarely = math.exp(log_rarely) * (1.0 + 1e-9)
    return Lower(window, rarely, made.moment(tilt).value + made.moment_error(tilt))
