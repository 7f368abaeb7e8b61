"""Compositions of compiled mechanisms by a vertical line in the complex plane, as the kernels do it for Gaussians.

K(v) = sum of count log E_Q exp(v loss) by two Gauss rules on panels; ten times their difference is paid.  The sum over
the line is never below delta; aliases by Chernoff; the tail where |M| is seen to be small up to a point from
which the variation of the density of the loss bounds it.  docs/algorithms/compiled.md has the proofs and what they
assume.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.bounds import Found, Status
from fastacct.core.inputs import Cells
from fastacct.losses.loss import ROUNDING
from fastacct.readers.line_nodes import Nodes, NoLineError, nodes_of

if TYPE_CHECKING:
    from fastacct.mechanisms.compiled.mechanism import Compiled

__all__ = ["LEAST_COUNT", "CompiledLine", "NoLineError"]

LEAST_COUNT: Final = 8
"""Fewer releases: |M| falls too slowly."""
_NEGLIGIBLE: Final = -50.0
_TOLERANCE: Final = 27.0
"""-log of the relative error aimed at."""
_GOOD: Final = 1e-9
_MOST_POINTS: Final = 4096
_MOST_LOOKS: Final = 400
_VARIATION: Final = 4.0
"""How much more the density of the loss may vary than its means over panels."""
_SMOOTH: Final = 1.7
"""Largest ratio of those means from one panel to the next."""

Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class _Part:
    """One mechanism, `count` times."""

    nodes: Nodes
    count: float

    def real(self, v: Cells) -> tuple[Cells, Cells, Cells]:
        """K at real points >= 1, and its first two derivatives."""
        mass, loss = self.nodes.log_mass[1].ravel(), self.nodes.loss[1].ravel()
        # M >= 1 here, and a node's share is largest at an end of the range
        keep = mass + np.maximum(v.max() * loss, v.min() * loss) > _NEGLIGIBLE - 10.0
        mass, loss = mass[keep], loss[keep]
        with np.errstate(over="ignore", invalid="ignore"):
            each = np.exp(np.multiply.outer(v, loss) + mass)
            m, first, second = each.sum(axis=-1), each @ loss, each @ (loss * loss)
            mean = first / m
            return self.count * np.log(m), self.count * mean, self.count * (second / m - mean * mean)


class _Tilted:
    """M(c + i t) of one mechanism."""

    def __init__(self, nodes: Nodes, c: float) -> None:
        size = [mass + c * loss for mass, loss in zip(nodes.log_mass, nodes.loss, strict=True)]
        if not max(float(s.max()) for s in size) < 600.0:
            raise NoLineError("M overflows")
        whole = [np.exp(s) for s in size]
        self.value = float(whole[1].sum())
        self.c = c
        panels = whole[1].sum(axis=1)
        seen = np.maximum(panels, whole[0].sum(axis=1)) > math.exp(_NEGLIGIBLE) * self.value
        self.dropped = float(whole[1][~seen].sum() + whole[0][~seen].sum())
        self.centre = float((whole[1] * nodes.loss[1]).sum()) / self.value
        self.weights = [w[seen] for w in whole]
        self.losses = [loss[seen] - self.centre for loss in nodes.loss]
        whole_error = [float((self.weights[1] * one[seen]).sum()) for one in nodes.rounding]
        self.rounding, self.per_order = whole_error[0] + 2.0 * whole_error[1], 2.0 * whole_error[1]
        self.rounding += 2.0 * nodes.missed * self.value
        self.slope = float((self.weights[1] * np.abs(self.losses[1])).sum()) * (1.0 + 1e-6)
        self.variation = self._variation(seen, nodes)

    def _variation(self, seen: NDArray[np.bool_], nodes: Nodes) -> float:
        """Bound of the variation of the tilted density of the loss; inf where the loss is not smooth and monotone."""
        panels = np.exp(nodes.fine_mass + self.c * nodes.fine_loss)
        gap, some = nodes.gap, panels > math.exp(_NEGLIGIBLE) * self.value / panels.size
        order = nodes.base[seen].ravel()
        rising = np.diff(order) > 0.0
        if not (rising.all() or not rising.any()) or not (np.sign(gap[some]) == np.sign(gap[some][0])).all():
            return math.inf
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            density = np.where(some, panels / np.abs(gap), 0.0)
        if not np.isfinite(density).all():
            return math.inf
        high = density > 1e-2 * density.max()
        inner = high[1:] & high[:-1] & ~nodes.cut
        ratio = density[1:][inner] / density[:-1][inner]
        if ((ratio > _SMOOTH) | (ratio < 1.0 / _SMOOTH)).any():
            return math.inf
        return _VARIATION * float(np.abs(np.diff(np.concatenate([[0.0], density, [0.0]]))).sum())

    def at(self, t: Cells) -> tuple[Complex, Cells]:
        """M(c + i t) exp(-i t centre), and the bound of its error."""
        panels = []
        for weights, losses in zip(self.weights, self.losses, strict=True):
            phase = np.multiply.outer(t, losses)
            panels.append((weights * np.cos(phase)).sum(axis=-1) + 1j * (weights * np.sin(phase)).sum(axis=-1))
        off = 10.0 * np.abs(panels[1] - panels[0]).sum(axis=-1) + self.dropped
        return np.asarray(panels[1].sum(axis=-1)), off + self.rounding + self.per_order * (self.c + t)


class _Line:
    """A line that has been evaluated: reads delta at any epsilon."""

    def __init__(self, parts: list[_Part], epsilon: float, log_size: float, c: float) -> None:
        self.count = sum(part.count for part in parts)
        self.c = c
        tilted = [_Tilted(part.nodes, c) for part in parts]
        target = log_size - _TOLERANCE
        self._place(parts, epsilon, target)
        n, block = 0, 32
        found = np.zeros((3, 0))  # log |F|, its phase, log of one and its relative error
        while True:
            if n >= _MOST_POINTS:
                raise NoLineError("too many points")
            t = np.arange(n, n + block, dtype=np.float64) * self.h
            more = np.zeros((3, block))
            for part, one in zip(parts, tilted, strict=True):
                m, off = one.at(t)
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
            block = max(32, n // 4)
        self.log_tail = target
        self.tail_epsilon = epsilon
        self.t, (self.log_f, self.phase, self.error) = np.arange(n) * self.h, found

    def _place(self, parts: list[_Part], epsilon: float, target: float) -> None:
        """The step, by Chernoff's bound at the best of some points on either side."""
        c = self.c
        right = c + (c - 1.0) * np.geomspace(0.02, 8.0, 48)
        left = 1.0 + (c - 1.0) * np.linspace(0.0, 0.98, 33)
        sides = []
        for v in (right, left):
            log_k = log_moments(parts, v)[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                base = log_k + np.where(v > 1.0, (v - 1.0) * np.log(v - 1.0) - v * np.log(v), 0.0)
            base[v == 1.0] = 0.0  # delta <= 1
            rate = (base - (v - 1.0) * epsilon - target) / np.abs(v - c)
            rate = np.where(np.isfinite(rate) & (rate > 0.0), rate, np.inf)
            best = int(np.argmin(rate))
            sides.append((float(rate[best]), float(v[best]), float(base[best])))
        if not max(sides[0][0], sides[1][0]) < math.inf:
            raise NoLineError("no step")
        self.h = 2.0 * math.pi / max(sides[0][0], sides[1][0])
        self.sides = [(v, base) for _, v, base in sides]

    @staticmethod
    def _falls(parts: list[_Part], tilted: list[_Tilted], start: float, log_limit: float) -> bool:
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
            sizes = [float(np.abs(m[0]) + off[0]) for m, off in (one.at(np.array([t])) for one in tilted)]

            def bound(step: float, sizes: list[float] = sizes) -> float:
                """From t to t + step: |M| changes by at most E |loss - centre| exp(c loss) a unit of t."""
                most = (
                    min(m + one.slope * step, one.value * (1.0 + 1e-12)) for m, one in zip(sizes, tilted, strict=True)
                )
                return sum(part.count * math.log(m) for m, part in zip(most, parts, strict=True))

            if not bound(0.0) < log_limit:
                return False
            low, high = 0.0, max(end - t, t)
            if bound(high) >= log_limit:
                for _ in range(40):
                    middle = 0.5 * (low + high)
                    low, high = (middle, high) if bound(middle) < log_limit else (low, middle)
                high = low
            if not high > 1e-4 * t:
                return False
            t += high
        return False

    def read(self, epsilon: float) -> tuple[float, float, float, float]:
        """log of the sum, its slope in epsilon, relative error, relative aliases."""
        c, h = self.c, self.h
        log_f = self.log_f - (c - 1.0) * epsilon
        ref = float(log_f[0])
        size = np.exp(log_f - ref)
        size[0] *= 0.5
        angle = self.phase - epsilon * self.t
        total = float((size * np.cos(angle)).sum())
        if not total > 0.0:
            return -math.inf, -1.0, math.inf, math.inf
        falling = float((size * ((c - 1.0) * np.cos(angle) - self.t * np.sin(angle))).sum())
        rounding = 16.0 * ROUNDING * (np.abs(log_f) + np.abs(self.phase) + self.t * epsilon + 30.0 + self.count)
        # (|M| + error)^count - |M|^count, also where the error is the larger one
        small = self.error < 1.0
        grown = np.where(small, size * np.expm1(np.minimum(self.error, 1.0)), np.exp(log_f - ref + self.error))
        weighted = float((grown + size * rounding).sum())
        log_value = ref + math.log(total * h / math.pi)
        tail = math.exp(min(700.0, self.log_tail - (c - 1.0) * (epsilon - self.tail_epsilon) - log_value))
        alias = 0.0
        for v, base in self.sides:
            gap = abs(v - c) * 2.0 * math.pi / h
            alias += math.exp(min(700.0, base - (v - 1.0) * epsilon - log_value)) / math.expm1(min(gap, 700.0))
        return log_value, -falling / total, 1.01 * weighted / total + tail, 1.01 * alias

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """Lower and upper bound of log delta."""
        log_value, _, relative, alias = self.read(epsilon)
        pad = 8.0 * ROUNDING * (1.0 + abs(log_value))
        upper = min(0.0, log_value + math.log1p(relative) + pad) if relative < 0.5 else 0.0
        lower = log_value + math.log1p(-relative - alias) - pad if relative + alias < 0.5 else -math.inf
        return lower, upper


def log_moments(parts: list[_Part], v: Cells) -> tuple[Cells, Cells, Cells]:
    """K at real points, and its first two derivatives."""
    return tuple(np.sum(one, axis=0) for one in zip(*(part.real(v) for part in parts), strict=True))


class CompiledLine:
    """Delta and epsilon of one direction of a composition: (mechanism, sample rate, count) each."""

    def __init__(self, parts: list[tuple[Compiled, float, float]], way: int) -> None:
        if not sum(count for _, _, count in parts) >= LEAST_COUNT:
            raise NoLineError("too few releases")
        self._parts = [_Part(nodes_of(made, rate, way), count) for made, rate, count in parts]

    def _saddle(self, epsilon: float | None, log_delta: float | None) -> tuple[float, float, float]:
        """c, epsilon and about log delta at the saddle: of a given epsilon, or of a given delta."""
        x = np.linspace(-7.0, 7.0, 57)
        for _ in range(3):
            v = 1.0 + np.exp(x)
            k, first, second = log_moments(self._parts, v)
            at = first - 1.0 / v - 1.0 / (v - 1.0)
            curve = np.maximum(second, 1e-12) + 1.0 / v**2 + 1.0 / (v - 1.0) ** 2
            size = k - (v - 1.0) * at - np.log(v * (v - 1.0)) - 0.5 * np.log(2.0 * np.pi * curve)
            good = np.isfinite(at) & np.isfinite(size) & (second > 0.0)
            if not good.any():
                raise NoLineError("no saddle")
            miss = np.abs(at - epsilon) if epsilon is not None else np.abs(size - (log_delta or 0.0))
            place = int(np.argmin(np.where(good, miss, np.inf)))
            x = np.linspace(x[max(place - 1, 0)], x[min(place + 1, x.size - 1)], 13)
        return float(v[place]), float(at[place]), min(float(size[place]), -0.3)

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta at epsilon >= 0."""
        c, _, log_size = self._saddle(epsilon, None)
        for _ in range(3):
            line = _Line(self._parts, epsilon, log_size, c)
            log_value, _, relative, alias = line.read(epsilon)
            if relative + alias < _GOOD or not log_value > -math.inf or abs(log_value - log_size) < 0.5:
                break
            log_size = log_value
        low, high = line.bounds(epsilon)
        if not high - low < 1e-6 or low < -690.0:
            raise NoLineError("not certified")
        return Found(math.exp(low) * (1.0 - 1e-15), min(1.0, math.exp(high) * (1.0 + 1e-15)), Status.TIGHT)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon with this delta; not for where it is 0."""
        if not delta > 0.0:
            raise NoLineError("delta is 0")
        log_delta = math.log(delta)
        c, at, _ = self._saddle(None, log_delta)
        for _ in range(6):
            if not at > 0.0:
                raise NoLineError("epsilon is 0, or about it")
            line = _Line(self._parts, at, log_delta, c)
            new = at
            for _ in range(40):
                log_value, slope, relative, alias = line.read(new)
                if not (log_value > -math.inf and slope < 0.0):
                    raise NoLineError("nothing to read")
                step = (log_delta - log_value) / slope
                new = max(new + step, 0.5 * new)
                if abs(step) <= 1e-15 * new:
                    break
            if abs(new - at) * (c - 1.0) < 1.0 and relative + alias < min(max(_GOOD, 1e-11 * line.count), 3e-7):
                return self._checked(line, new, log_delta, (relative + alias) / -slope)
            at = new
            c, _, _ = self._saddle(at, None)
        raise NoLineError("no epsilon")

    @staticmethod
    def _checked(line: _Line, at: float, log_delta: float, width: float) -> Found:
        """Ends where the bounds of delta have been seen to be on the right sides."""
        ends = [math.nan, math.nan]
        for side, sign in enumerate((-1.0, 1.0)):
            pad = 1.05 * width + 4.0 * ROUNDING * (at + 1.0)
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
