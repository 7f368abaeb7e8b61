"""One question about a composition of losses: which tilt, window and grid answer it, and how finely.

Nothing here needs to be right for the bounds to hold: guesses choose where the certified sums of `_pld_convolve` are
taken, and when to stop refining.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from fastacct._pld_convolve import (
    Composition,
    Tilted,
    Weighted,
    chernoff_delta,
    left_out,
    log_moment,
    read_delta,
    saddle_of_delta,
    saddle_of_epsilon,
)
from fastacct._pld_grid import GridMeasure, as_source, grid_delta, lower_measure, upper_measure
from fastacct._pld_sources import ROUNDING, Atoms, OutOfReachError, Source
from fastacct.bounds import Status

__all__ = ["Found", "Pair", "Query", "crossing", "grid_epsilon", "stitched", "weighted"]

_SMALLEST_TAIL: Final = 1e-299
_SMALLEST_DELTA: Final = 1e-290
_MAX_ROUNDS: Final = 7
_MAX_PLANS: Final = 6
_MOST_TILT: Final = 60.0
_MAX_LOSSES: Final = 1 << 18


@dataclass(frozen=True, eq=False)
class Pair:
    """Sources of the upper and of the lower measure of one loss, and how often it occurs."""

    upper: Source
    lower: Source
    count: int


class Found(NamedTuple):
    """Certified bounds and how they were obtained."""

    lower: float
    upper: float
    status: Status


class _Plan(NamedTuple):
    tilt: float
    tail: float
    log_budget: float
    spacing: float
    least_spacing: float
    floors: tuple[float, ...]
    tolerance: float

    def is_like(self, other: _Plan) -> bool:
        """Whether it would change little."""
        return (
            self.tail >= 0.1 * other.tail
            and self.log_budget >= other.log_budget - 4.0
            and abs(math.log(self.tilt / other.tilt)) < 0.2
        )

    def leaving_out(self, share: float, tail_share: float) -> _Plan:
        """With less left out beside the window and in the tails, if these are too large a part of the result."""
        plan = self
        if share > 0.25 * self.tolerance:
            factor = max(0.05 * self.tolerance / share, 1e-12)
            plan = plan._replace(log_budget=max(plan.log_budget + math.log(factor), -690.0))
        return plan._replace(tail=_SMALLEST_TAIL) if tail_share > 0.25 * self.tolerance else plan


def weighted(source: Source, count: int) -> Weighted:
    """Losses and log-masses of the nodes of a source, without a grid."""
    nodes = list(source.nodes(None, 0.0))
    loss, mass = (np.concatenate([getattr(one, name) for one in nodes]) for name in ("loss", "mass"))
    keep = mass > 0.0
    return count, loss[keep], np.log(mass[keep])


@dataclass(eq=False)
class Query:
    """A composition, and how its answers are to be found.

    `one_sided` leaves out the lower bound (it is reported as 0): the grid is then refined until the upper bound moves
    by less than the tolerance.
    """

    pairs: Sequence[Pair]
    tolerance: float
    spacing: float | None = None
    max_points: int = 1 << 22
    one_sided: bool = False
    _sketch: list[Weighted] = field(init=False)
    _n_factors: int = field(init=False)
    _share: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.pairs = [pair for pair in self.pairs if pair.count]
        self._sketch = [one for one in (weighted(pair.upper, pair.count) for pair in self.pairs) if one[1].size]
        self._n_factors = sum(pair.count for pair in self.pairs)

    def infinite(self) -> float:
        """Mass of an infinite loss, roughly."""
        return -math.expm1(math.fsum(p.count * math.log1p(-min(p.upper.infinite, 1.0 - 1e-16)) for p in self.pairs))

    def delta(self, epsilon: float) -> Found:
        """Bounds of delta at `epsilon`."""
        if not self.pairs:
            return Found(0.0, 0.0, Status.TIGHT)
        epsilon = min(epsilon, 1e300)
        tilt, log_delta = self._saddle_of_epsilon(epsilon)

        def plan(found: float | None) -> _Plan:
            return self._plan(tilt, epsilon, log_delta if found is None else _log(found), self.tolerance)

        def read(composition: Composition, tilted: Tilted | None) -> float:
            finite = 0.0
            if tilted is not None:
                finite = read_delta(composition, tilted, epsilon)
                if composition.is_upper:
                    self._share = left_out(tilted, epsilon) / max(finite, _SMALLEST_TAIL)
                    finite = min(finite, chernoff_delta(composition, tilted.tilt, epsilon))
            return min(1.0, _add(finite, composition.infinite(), composition.is_upper))

        return self._refine(plan, read, _SMALLEST_DELTA, (0.0, 1.0), epsilon)

    def epsilon(self, delta: float) -> Found:
        """Bounds of the smallest epsilon >= 0 at which delta is at most `delta`."""
        if not self.pairs or delta >= 1.0:
            return Found(0.0, 0.0, Status.TIGHT)
        log_delta = _log(delta)

        def plan(found: float | None) -> _Plan:
            if found is None or not math.isfinite(found):
                tilt, guess = self._saddle_of_delta(_log(delta - self.infinite()))
            else:
                tilt, guess = 1.0, found
            if found is not None or guess <= 0.0:
                guess = max(guess, 0.0)
                tilt = self._saddle_of_epsilon(guess)[0]
            return self._plan(tilt, guess, log_delta, self.tolerance * max(tilt * guess, 1e-3))

        def read(composition: Composition, tilted: Tilted | None) -> float:
            infinite = composition.infinite()
            sign = 1.0 if composition.is_upper else -1.0
            top = composition.top + sign * (composition.slack + 4.0 * ROUNDING * abs(composition.top))
            if infinite > delta:
                return math.inf
            if tilted is None:
                return 0.0
            if infinite == delta:
                return max(top, 0.0)

            def delta_at(epsilon: float) -> float:
                if epsilon >= top:
                    return infinite
                value = read_delta(composition, tilted, epsilon)
                return _add(value, infinite, composition.is_upper)

            if composition.is_upper and delta_at(0.0) <= delta:
                return 0.0
            guess = composition.moment(tilted.tilt).mean - 1.0 / tilted.tilt
            low, high = crossing(delta_at, delta, guess, max(tilted.tilt, 1e-6), max(top, 0.0))
            if composition.is_upper:
                self._share = left_out(tilted, high) / max(delta, _SMALLEST_TAIL)
            return high if composition.is_upper else low

        return self._refine(plan, read, 1e-6, (0.0, math.inf))

    def _saddle_of_epsilon(self, epsilon: float) -> tuple[float, float]:
        return saddle_of_epsilon(self._sketch, epsilon) if self._sketch else (1.0, 0.0)

    def _saddle_of_delta(self, log_delta: float) -> tuple[float, float]:
        return saddle_of_delta(self._sketch, log_delta) if self._sketch else (1.0, 0.0)

    def _plan(self, tilt: float, epsilon: float, log_delta: float, tolerance: float) -> _Plan:
        """Upper and lower grids differ by about n tilt (1 + tilt) spacing^2 / 8 in log delta."""
        tolerance, log_delta = min(tolerance, 0.3), max(min(log_delta, 0.0), -690.0)
        if not self._sketch:
            return _Plan(tilt, _SMALLEST_TAIL, -40.0, 1.0, 0.0, (-math.inf,) * len(self.pairs), tolerance)
        moment = log_moment(self._sketch, tilt)
        width = math.sqrt(moment.variance)
        # what the tilted masses sum to, with their weights
        log_signal = min(log_delta - moment.value + tilt * epsilon, 0.0)
        log_budget = max(log_signal + math.log(tolerance) - 5.0, -690.0)
        tail = math.exp(log_delta) * tolerance * 1e-3 / self._n_factors
        effective = max(tilt, 1.0 / width if width > 0.0 else 0.0, 1e-3)
        spacing = math.sqrt(4.0 * tolerance / (self._n_factors * effective * (1.0 + effective)))
        log_floor = log_budget - math.log(self._n_factors)
        floors = tuple(_floor(pair.upper, tilt, log_floor) for pair in self.pairs)
        spans = [pair.upper.extent(tail) for pair in self.pairs]
        spans = [(max(low, floor), max(high, floor)) for (low, high), floor in zip(spans, floors, strict=True)]
        longest = max(high - low for low, high in spans)
        window = 2.2 * math.sqrt(-2.0 * log_budget) * width
        window = min(window, math.fsum(pair.count * (b - a) for pair, (a, b) in zip(self.pairs, spans, strict=True)))
        largest = max(max(abs(low), abs(high)) for low, high in spans)
        least = max(window / self.max_points, longest / _MAX_LOSSES, 1e-12 * largest)
        return _Plan(tilt, max(tail, _SMALLEST_TAIL), log_budget, max(spacing, least), least, floors, tolerance)

    def _refine(
        self,
        plan_for: Callable[[float | None], _Plan],
        read: Callable[[Composition, Tilted | None], float],
        floor: float,
        worst: tuple[float, float],
        epsilon: float = -math.inf,
    ) -> Found:
        """Bounds from ever finer grids, until they are within the tolerance, relative to the upper one or `floor`."""
        lower, upper = worst
        plan = plan_for(None)
        spacing, is_final = self._snap(plan, plan.spacing)
        last, gap = math.inf, math.inf
        n_plans = 0
        for _ in range(_MAX_ROUNDS):
            try:
                while True:
                    self._share = 0.0
                    above = self._once(plan, spacing, True, read, epsilon)
                    upper = min(upper, above)
                    tails = self._n_factors * plan.tail if epsilon > -math.inf else 0.0
                    better = plan_for(above).leaving_out(self._share, tails / max(above, 1e-305))
                    if n_plans == _MAX_PLANS or better.is_like(plan):
                        break
                    # guesses were far off: what has been found is a better one
                    n_plans, plan = n_plans + 1, better
                    spacing, is_final = self._snap(plan, plan.spacing)
                plan = better._replace(log_budget=min(plan.log_budget, better.log_budget))
                if self.one_sided:
                    gap, last = abs(last - above) if math.isfinite(above) else 0.0, above
                else:
                    lower = max(lower, self._once(plan, spacing, False, read, epsilon))
                    gap = upper - lower if math.isfinite(lower) else 0.0
            except OutOfReachError:  # too fine: what coarser grids have shown holds
                if upper == worst[1]:
                    raise
                gap = math.inf
                break
            wanted = self.tolerance * max(upper, floor)
            if gap <= wanted or is_final:
                break
            ratio = wanted / gap if math.isfinite(gap) else 0.25
            spacing, is_final = self._snap(plan, spacing * min(0.5, max(0.125, 0.8 * math.sqrt(ratio))))
        if not math.isfinite(upper):
            return Found(min(lower, upper), upper, Status.TIGHT if lower == upper else Status.NOT_MET)
        status = Status.TIGHT if gap <= self.tolerance * max(upper, floor) else Status.LOOSE
        return Found(min(lower, upper), upper, status)

    def _once(
        self,
        plan: _Plan,
        spacing: float,
        is_upper: bool,
        read: Callable[[Composition, Tilted | None], float],
        epsilon: float,
    ) -> float:
        parts = []
        for pair, floor in zip(self.pairs, plan.floors, strict=True):
            measure = upper_measure if is_upper else lower_measure
            source = pair.upper if is_upper else pair.lower
            parts.append((measure(source, spacing, plan.tail, floor), pair.count))
        composition = Composition(parts, is_upper)
        if composition.has_no_finite_loss or composition.is_beyond(epsilon):
            return read(composition, None)
        # beyond this all the tilted mass is at the largest loss
        tilt = min(plan.tilt, _MOST_TILT / spacing)
        return read(composition, composition.tilted(tilt, plan.log_budget, self.max_points))

    def _snap(self, plan: _Plan, spacing: float) -> tuple[float, bool]:
        """A spacing that atoms share, if there is one; and whether a finer one would not help or is not allowed."""
        if self.spacing is not None:
            return self.spacing, True
        spacing, is_final = max(spacing, plan.least_spacing), spacing <= plan.least_spacing
        divisor = _common_divisor([p.upper.lattice for p in self.pairs] + [p.lower.lattice for p in self.pairs])
        if divisor is None or not all(_is_exact(p.upper, divisor) and _is_exact(p.lower, divisor) for p in self.pairs):
            return spacing, is_final
        if all(pair.upper.quadrature == 0.0 and pair.upper.lattice is not None for pair in self.pairs):
            return divisor * max(1, math.ceil(plan.least_spacing / divisor)), True
        return (divisor / math.ceil(divisor / spacing) if spacing < divisor else spacing), is_final


def _floor(source: Source, tilt: float, log_budget: float) -> float:
    """A loss below which all mass, moved up to it, is less than exp(log_budget) of the tilted measure."""
    _, loss, log_mass = weighted(source, 1)
    if not loss.size:
        return -math.inf
    order = np.argsort(loss, kind="stable")
    loss, log_mass = loss[order], log_mass[order]
    whole = log_moment([(1, loss, log_mass)], tilt).value
    moved = tilt * loss[1:] - whole + np.log(np.cumsum(np.exp(log_mass[:-1])) + 1e-320)
    few = np.flatnonzero(moved < log_budget)
    return float(loss[few[-1] + 1]) if few.size else -math.inf


def _common_divisor(lattices: Sequence[float | None]) -> float | None:
    """The largest spacing of which all lattices are multiples, up to rounding; None if it is too small to matter."""
    known = [lattice for lattice in lattices if lattice is not None]
    if not known:
        return None
    base, shared = known[0], 1
    for lattice in known:
        ratio = Fraction(lattice / base).limit_denominator(1000)
        if abs(float(ratio) - lattice / base) > 8.0 * ROUNDING * lattice / base:
            return None
        shared = math.lcm(shared, ratio.denominator)
    return base / shared if shared <= 1000 else None


def _is_exact(source: Source, divisor: float) -> bool:
    """Whether atoms lie on a grid in floating point, too: an ulp beside it, a lower bound moves by a cell."""
    if not isinstance(source, Atoms) or not source.loss.size:
        return True
    place = np.rint((source.loss - source.loss[0]) / divisor)
    return bool(np.all(source.loss[0] + place * divisor == source.loss))


def _log(value: float) -> float:
    return math.log(value) if value > _SMALLEST_TAIL else -690.0


def _add(value: float, other: float, upwards: bool) -> float:
    total = value + other
    if other == 0.0 or value == 0.0:
        return total
    return total * (1.0 + 2.0 * ROUNDING) if upwards else total * (1.0 - 2.0 * ROUNDING)


def crossing(
    delta_at: Callable[[float], float], delta: float, guess: float, slope: float, top: float
) -> tuple[float, float]:
    """Epsilons close together with delta_at(low) > delta >= delta_at(high), or low = 0, or high = `top`."""
    low, high = 0.0, top
    point = guess if low < guess < high else 0.5 * (low + high)
    log_delta, last = math.log(delta), (0.0, 0.0)
    for attempt in range(100):
        value = delta_at(point)
        if value > delta:
            low = point
        else:
            high = point
        if high - low <= 1e-12 * high:
            break
        error = (math.log(value) if value > 0.0 else -750.0) - log_delta
        if attempt and last[0] != point and (error - last[1]) * (point - last[0]) < 0.0:
            slope = (last[1] - error) / (point - last[0])
        last = (point, error)
        step = error / slope
        # past the root by a little: the other end of the bracket comes close, too
        step += math.copysign(max(1e-3 * abs(step), 3e-13 * point), step)
        point += step
        if not low < point < high or attempt % 8 == 7:
            point = 0.5 * (low + high)
    return low, high


def grid_epsilon(measure: GridMeasure, delta: float, is_upper: bool) -> float:
    """Smallest epsilon >= 0 at which a measure has at most this delta, rounded to the safe side."""
    if delta >= 1.0:
        return 0.0
    if measure.infinite > delta:
        return math.inf
    sketch = weighted(as_source(measure), 1)
    if not sketch[1].size:
        return 0.0
    sign = 1.0 if is_upper else -1.0
    top = measure.origin + measure.spacing * (measure.mass.size - 1)
    top += sign * (measure.slack + 8.0 * ROUNDING * (abs(measure.origin) + measure.spacing * measure.mass.size))
    if measure.infinite == delta:
        return max(top, 0.0)
    tilt, guess = saddle_of_delta([sketch], math.log(delta - measure.infinite))
    if grid_delta(measure, 0.0, is_upper) <= delta:
        return 0.0
    pair = crossing(lambda epsilon: grid_delta(measure, epsilon, is_upper), delta, guess, tilt, max(top, 0.0))
    return pair[1] if is_upper else pair[0]


def stitched(composition: Composition, smallest: float) -> GridMeasure:
    """The composed measure, each mass from the exponential tilt that knows it best.

    Tilts go from 0 to where delta is about `smallest`.  Losses below the first window are moved up to it, those beyond
    the last one to infinity (or are dropped, in a lower measure).
    """
    is_upper, spacing = composition.is_upper, composition.spacing
    infinite = composition.infinite()
    if composition.has_no_finite_loss:
        return GridMeasure(0.0, spacing, np.zeros(1), infinite, bottom=0.0 if is_upper else composition.finite())
    pieces: list[Tilted] = []
    tilt = 0.0
    for _ in range(64):
        piece = composition.tilted(tilt, -46.0, 1 << 22)
        if pieces and piece.offset > max(one.offset + one.mass.size for one in pieces):
            break
        pieces.append(piece)
        moment = composition.moment(tilt)
        width = math.sqrt(moment.variance)
        if moment.value - tilt * moment.mean < math.log(smallest) - 3.0 or moment.mean + width >= composition.top:
            break
        tilt += 6.0 / max(width, spacing)
    first = min(piece.offset for piece in pieces)
    stop = max(piece.offset + piece.mass.size for piece in pieces)
    mass = np.full(stop - first, np.inf if is_upper else 0.0)
    missing = math.inf
    for piece in pieces:
        mine = slice(piece.offset - first, piece.offset - first + piece.mass.size)
        loss = piece.first + spacing * np.arange(piece.mass.size)
        exponent = piece.log_scale - piece.tilt * loss
        size = abs(piece.first) + spacing * piece.mass.size
        error = 4.0 * ROUNDING * (abs(piece.log_scale) + piece.tilt * (np.abs(loss) + size) + 8.0)
        if is_upper:
            masses = (np.maximum(piece.mass, 0.0) + piece.each_error) * np.exp(np.minimum(exponent + error, 700.0))
            mass[mine] = np.minimum(mass[mine], np.maximum(masses, 2.0**-1022))
            beyond = piece.log_scale - piece.tilt * composition.loss_at(piece.offset + piece.mass.size)
            if piece.offset + piece.mass.size == stop:
                missing = min(missing, piece.above * math.exp(min(beyond + float(error[-1]), 700.0)))
        else:
            masses = piece.mass - (piece.each_error + piece.below + piece.above)
            masses = np.maximum(masses, 0.0) * np.exp(np.minimum(exponent - error, 700.0))
            mass[mine] = np.maximum(mass[mine], masses)
    if is_upper:
        # the first piece is not tilted
        mass[pieces[0].offset - first] += pieces[0].below * math.exp(pieces[0].log_scale) * (1.0 + 1e-9)
        mass *= 1.0 + 4.0 * ROUNDING
        infinite = _add(infinite, missing, True)
    bottom = 0.0 if is_upper else max(0.0, composition.finite() - float(mass.sum()) * (1.0 + 1e-14))
    slack = composition.slack + 2.0 * ROUNDING * (abs(composition.loss_at(first)) + spacing)
    return GridMeasure(composition.loss_at(first), spacing, mass, min(infinite, 1.0), slack, bottom)
