"""Compositions of compiled mechanisms by a vertical line in the complex plane, as the kernels do it for Gaussians.

K(v) = sum of count log E_Q exp(v loss) by two Gauss rules on panels; ten times their difference is added.  The sum over
the line is never below delta; aliases by Chernoff; the tail where |M| is seen to be small up to a point from
which the variation of the density of the loss bounds it.  docs/algorithms/compiled.md has the proofs and what they
assume.

Where lines are is a function of the job alone: on a lattice of saddle points, `_APART` of their widths apart.  A target
is computed on the line next to its own saddle point, so that it has the same bits alone and among others.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastacct.core.bounds import Found, Status
from fastacct.core.inputs import Cells
from fastacct.core.kept import cached
from fastacct.losses.loss import ROUNDING
from fastacct.readers.line_nodes import NoLineError, Part, Tilted, log_moment, log_moments, nodes_of
from fastacct_ext import _densities
from fastacct_ext._densities import TOGETHER

if TYPE_CHECKING:
    from fastacct.mechanisms.compiled.mechanism import Compiled

__all__ = ["LEAST_COUNT", "CompiledLine", "NoLineError"]

LEAST_COUNT: Final = 8
"""Fewer releases: |M| falls too slowly."""
_TOLERANCE: Final = 27.25
"""-log of the relative error aimed at."""
_MORE: Final = 1.0 + 1e-6
"""For the rounding of errors."""
_APART: Final = 1.5
"""Standard deviations of a saddle point between two lines: half of it off, sums are larger by a third."""
_LEFT_OF: Final = 0.1
"""How far left of a saddle point the line should be, in its widths: sums of errors are least there."""
_REACH: Final = 0.55
"""How far from a line targets are computed, in distances of lines."""
_LEFT: Final = np.linspace(0.0, 0.98, 17)
_RIGHT: Final = np.geomspace(0.02, 8.0, 24)
"""Where Chernoff's bounds are taken: distances from 1 and from the line, in distances of the line from 1."""
_GOOD: Final = 1e-9
_MOST_POINTS: Final = 4096
_MOST_LOOKS: Final = 400


class _Line:
    """A line that has been evaluated: reads delta at any epsilon, best at those of its saddle point."""

    def __init__(self, parts: list[Part], c: float, epsilon: float, log_size: float, width: float) -> None:
        self.count = sum(part.count for part in parts)
        self.c = c
        tilted = [Tilted(part.nodes, c) for part in parts]
        target = log_size - _TOLERANCE
        self._place(parts, epsilon, target, width)
        n, block = 0, 3 * TOGETHER
        found = np.zeros((3, 0))  # log |F|, its phase, log of one and its relative error
        while True:
            if n >= _MOST_POINTS:
                raise NoLineError("too many points")
            t = np.arange(n, n + block) * self.h
            more = np.zeros((3, block))
            for part, one in zip(parts, tilted, strict=True):
                m, off = one.along(self.h, n, block)
                size = np.maximum(np.abs(m), 1e-300)
                more += part.count * np.array([np.log(size), np.angle(m) + t * one.centre, np.log1p(off / size)])
            log_last = float(more[0, -1])
            kernel = -np.log(c + 1j * t) - np.log(c + 1j * t - 1.0)
            more[:2] += kernel.real, kernel.imag
            found = np.concatenate([found, more], axis=1)
            n += block
            t_end = (n - 1) * self.h
            if log_last - (c - 1.0) * epsilon - math.log(t_end) < target - 3.0 and self._falls(
                parts, tilted, t_end, target + (c - 1.0) * epsilon + math.log(math.pi * t_end)
            ):
                break
            block = max(3, n // (4 * TOGETHER)) * TOGETHER
        self.log_tail = target
        self.tail_epsilon = epsilon
        self.t: Cells = np.asarray(np.arange(n) * self.h, dtype=np.float64)
        self.log_f, self.phase, error = found
        self.log_first = float(self.log_f[0])
        self.size = np.exp(self.log_f - self.log_first)
        self.size[0] *= 0.5
        # (|M| + error)^count - |M|^count, also where the error is the larger one
        self.grown = float((self.size * np.where(error < 1.0, np.expm1(np.minimum(error, 1.0)), np.exp(error))).sum())

    def _place(self, parts: list[Part], epsilon: float, target: float, width: float) -> None:
        """The step, by Chernoff's bound at the best of some points on either side, for epsilons up to `width` off."""
        c = self.c
        sides = []
        for v in (c + (c - 1.0) * _RIGHT, 1.0 + (c - 1.0) * _LEFT):
            log_k = log_moment(parts, v)
            with np.errstate(divide="ignore", invalid="ignore"):
                base = log_k + np.where(v > 1.0, (v - 1.0) * np.log1p(-1.0 / v) - np.log(v), 0.0)
            base[v == 1.0] = 0.0  # delta <= 1
            rate = (base - (v - 1.0) * epsilon - target) / np.abs(v - c)
            rate = np.where(np.isfinite(rate) & (rate > 0.0), rate, np.inf)
            best = int(np.argmin(rate))
            sides.append((float(rate[best]), float(v[best]), float(base[best])))
        if not max(sides[0][0], sides[1][0]) < math.inf:
            raise NoLineError("no step")
        self.h = 2.0 * math.pi / (max(sides[0][0], sides[1][0]) + width)
        self.sides = [(v, base) for _, v, base in sides]

    @staticmethod
    def _falls(parts: list[Part], tilted: list[Tilted], start: float, log_limit: float) -> bool:
        """Whether the product of |M|^count is proved to stay below exp(log_limit) from `start` on."""
        variation = sum(part.count * math.log(one.variation) for part, one in zip(parts, tilted, strict=True))
        count = sum(part.count for part in parts)
        if not variation < math.inf:
            raise NoLineError("the loss is not smooth and monotone")
        end = math.exp(min(700.0, (variation - log_limit) / count))  # (variation/t)^count from here on
        t = start
        for _ in range(_MOST_LOOKS):
            if t >= end:
                return True
            sizes = [one.at(t) for one in tilted]

            def bound(step: float, sizes: list[float] = sizes) -> float:
                """From t to t + step: |M| changes by at most E |loss - centre| exp(c loss) a unit of t."""
                total = 0.0
                for part, one, m in zip(parts, tilted, sizes, strict=True):
                    total += part.count * math.log(min(m + one.slope * step, one.value * (1.0 + 1e-12)))
                return total

            if not bound(0.0) < log_limit:
                return False
            low, high = 0.0, max(end - t, t)
            if bound(high) >= log_limit:
                for _ in range(16):
                    middle = 0.5 * (low + high)
                    low, high = (middle, high) if bound(middle) < log_limit else (low, middle)
                high = low
            if not high > 1e-4 * t:
                return False
            t += high
        return False

    def read(self, epsilon: float) -> tuple[float, float]:
        """Log of the sum, and its slope in epsilon."""
        total, slope = _densities.phases_line(self.size, self.phase, self.t, epsilon)
        if not total > 0.0:
            return -math.inf, -1.0
        falling = (self.c - 1.0) * total - slope
        return self.log_first - (self.c - 1.0) * epsilon + math.log(total * self.h / math.pi), -falling / total

    def errors(self, epsilon: float, log_value: float) -> tuple[float, float]:
        """Relative error of the sum, and its relative aliases."""
        if not log_value > -math.inf:
            return math.inf, math.inf
        c, h = self.c, self.h
        numbers, fall = (self.size, self.log_f, self.phase, self.t), (c - 1.0) * epsilon
        weighted = self.grown + 16.0 * ROUNDING * _densities.phases_size(*numbers, epsilon, fall, 30.0 + self.count)
        log_total = log_value - self.log_first + (c - 1.0) * epsilon - math.log(h / math.pi)
        tail = math.exp(min(700.0, self.log_tail - (c - 1.0) * (epsilon - self.tail_epsilon) - log_value))
        alias = 0.0
        for v, base in self.sides:
            gap = abs(v - c) * 2.0 * math.pi / h
            alias += math.exp(min(700.0, base - (v - 1.0) * epsilon - log_value)) / math.expm1(min(gap, 700.0))
        return _MORE * weighted * math.exp(-log_total) + tail, _MORE * alias

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """Lower and upper bound of log delta."""
        log_value = self.read(epsilon)[0]
        relative, alias = self.errors(epsilon, log_value)
        pad = 8.0 * ROUNDING * (1.0 + abs(log_value))
        upper = min(0.0, log_value + math.log1p(relative) + pad) if relative < 0.5 else 0.0
        lower = log_value + math.log1p(-relative - alias) - pad if relative + alias < 0.5 else -math.inf
        return lower, upper


class _Saddles(NamedTuple):
    """Saddle points c = 1 + exp(x) in increasing order: their epsilon and about -log delta, which do not fall."""

    x: Cells
    epsilon: Cells
    depth: Cells
    per_width: Cells
    """Widths of a saddle point in a unit of x: at least 1."""


def _interpolated(wanted: float, x: list[float], y: list[float]) -> float:
    """The value at `wanted` of the line through points with x that do not fall, as `numpy.interp`."""
    i = bisect_right(x, wanted) - 1
    if i < 0 or i >= len(x) - 1:
        return y[0] if i < 0 else y[-1]
    return (y[i + 1] - y[i]) / (x[i + 1] - x[i]) * (wanted - x[i]) + y[i]


class CompiledLine:
    """Delta and epsilon of one direction of a composition: (mechanism, sample rate, count) each."""

    def __init__(self, parts: list[tuple[Compiled, float, float]], way: int) -> None:
        if not sum(count for _, _, count in parts) >= LEAST_COUNT:
            raise NoLineError("too few releases")
        self._parts = [Part(nodes_of(made, rate, way), count) for made, rate, count in parts]
        self._finer: dict[int, tuple[list[float], list[float], list[float]]] = {}
        """Places, epsilons and depths of saddle points between two coarse ones."""
        self._lines: dict[int, _Line | NoLineError] = {}

    # -- the lattice: places in widths of saddle points, and one line at every multiple of `_APART` -----------

    def _saddles(self, x: Cells) -> _Saddles:
        """Saddle points; the last one, again, where M overflows."""
        v = 1.0 + np.exp(x)
        k, first, second = log_moments(self._parts, v)
        at = first - 1.0 / v - 1.0 / (v - 1.0)
        curve = np.maximum(second, 1e-12) + 1.0 / v**2 + 1.0 / (v - 1.0) ** 2
        depth = np.maximum((v - 1.0) * at - k + np.log(v * (v - 1.0)) + 0.5 * np.log(2.0 * np.pi * curve), 0.3)
        good = np.isfinite(at) & np.isfinite(depth) & (second > 0.0)
        if not good.any():
            raise NoLineError("no saddle")
        last = np.maximum.accumulate(np.where(good, np.arange(x.size), int(np.argmax(good))))
        rising = np.maximum.accumulate([at[last], depth[last]], axis=1)
        return _Saddles(x, rising[0], rising[1], (np.sqrt(curve) * (v - 1.0))[last])

    @cached
    def _coarse(self) -> tuple[_Saddles, Cells]:
        """Saddle points of the whole range, and their places."""
        all_of_them = self._saddles(np.linspace(-7.0, 7.0, 57))
        per_width = 0.5 * (all_of_them.per_width[1:] + all_of_them.per_width[:-1])
        return all_of_them, np.append(0.0, np.cumsum(per_width * np.diff(all_of_them.x)))

    @cached
    def _coarse_lists(self) -> tuple[list[float], list[float], list[float], list[float]]:
        coarse, places = self._coarse
        return coarse.x.tolist(), coarse.epsilon.tolist(), coarse.depth.tolist(), places.tolist()

    def _saddle(self, epsilon: float | None, log_delta: float | None) -> tuple[float, float]:
        """The place for, and epsilon of, the saddle point of a given epsilon, or of a given delta."""
        x_of, epsilon_of, depth_of, places = self._coarse_lists
        known, wanted = (depth_of, -(log_delta or 0.0)) if epsilon is None else (epsilon_of, epsilon)
        i = min(max(bisect_left(known, wanted) - 1, 0), len(known) - 2)
        if i not in self._finer:
            fine = self._saddles(np.linspace(x_of[i], x_of[i + 1], 7))
            self._finer[i] = fine.x.tolist(), fine.epsilon.tolist(), fine.depth.tolist()
        x_fine, epsilon_fine, depth_fine = self._finer[i]
        x = _interpolated(wanted, depth_fine if epsilon is None else epsilon_fine, x_fine)
        at = _interpolated(x, x_fine, epsilon_fine) if epsilon is None else epsilon
        part = (x - x_fine[0]) / (x_fine[-1] - x_fine[0])
        return places[i] + (places[i + 1] - places[i]) * part - _LEFT_OF, at

    def _line(self, index: int) -> _Line:
        """The line at a place of the lattice; also that there is none is kept."""
        if index not in self._lines:
            try:
                self._lines[index] = self._evaluated(index)
            except NoLineError as error:
                self._lines[index] = error
        line = self._lines[index]
        if isinstance(line, NoLineError):
            raise NoLineError(str(line))
        return line

    def _evaluated(self, index: int) -> _Line:
        """A line for all epsilons that are nearer to it than to its neighbours."""
        coarse, places = self._coarse
        x, epsilon, depth, per_width = self._saddles(np.interp([index * _APART], places, coarse.x))
        c = 1.0 + math.exp(float(x[0]))
        width = (_APART * _REACH + _LEFT_OF) * float(per_width[0]) / (c - 1.0)
        log_value = -float(depth[0])
        for _ in range(3):
            log_guess = log_value
            line = _Line(self._parts, c, float(epsilon[0]), log_guess, width)
            log_value = line.read(float(epsilon[0]))[0]
            relative, alias = line.errors(float(epsilon[0]), log_value)
            if relative + alias < _GOOD or not log_value > -math.inf or abs(log_value - log_guess) < 0.5:
                break
        return line

    # -- targets ------------------------------------------------------------------------------------------------------

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta at epsilon >= 0."""
        low, high = self._line(round(self._saddle(epsilon, None)[0] / _APART)).bounds(epsilon)
        if not high - low < 1e-6 or low < -690.0:
            raise NoLineError("not certified")
        return Found(math.exp(low) * (1.0 - 1e-15), min(1.0, math.exp(high) * (1.0 + 1e-15)), Status.TIGHT)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon with this delta; not for where it is 0."""
        if not delta > 0.0:
            raise NoLineError("delta is 0")
        log_delta = math.log(delta)
        place, new = self._saddle(None, log_delta)
        if not new > 0.0:
            place, new = self._saddle(1e-6, None)[0], 1e-6
        for _ in range(6):
            line = self._line(index := round(place / _APART))
            for _ in range(40):
                log_value, slope = line.read(new)
                if not (log_value > -math.inf and slope < 0.0):
                    raise NoLineError("nothing to read")
                step = (log_delta - log_value) / slope
                new = max(new + step, 0.5 * new)
                if abs(step) <= 1e-9 * new:
                    break
            place = self._saddle(new, None)[0]
            if abs(place - index * _APART) <= _REACH * _APART:
                log_value, slope = line.read(new)
                wrong = sum(line.errors(new, log_value))
                if wrong < min(max(_GOOD, 1e-11 * line.count), 3e-7):
                    return self._checked(line, new, log_delta, (wrong + 16.0 * ROUNDING * (1.0 - log_delta)) / -slope)
                break
        raise NoLineError("no epsilon")

    @staticmethod
    def _checked(line: _Line, at: float, log_delta: float, width: float) -> Found:
        """Ends where the bounds of delta have been seen to be on the right sides."""
        ends = [math.nan, math.nan]
        for side, sign in enumerate((-1.0, 1.0)):
            pad = 1.002 * width + 4.0 * ROUNDING * (at + 1.0)
            for _ in range(12):
                x = at + sign * pad
                low, high = line.bounds(x)
                if x > 0.0 and (high <= log_delta if side else low >= log_delta):
                    ends[side] = x
                    break
                pad *= 2.0
        if not ends[1] - ends[0] <= 1e-6 * ends[1]:
            raise NoLineError("not certified")
        return Found(ends[0], ends[1], Status.TIGHT)
