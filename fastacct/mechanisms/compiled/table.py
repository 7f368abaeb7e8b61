"""The domain of a compiled mechanism cut into panels, each with certified masses of P and Q and the range of its loss.

docs/algorithms/compiled.md says what is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import ROUNDING, Cells
from fastacct.core.kept import cached
from fastacct.core.record import Record
from fastacct.losses.loss import Atoms, Bracket

if TYPE_CHECKING:
    from fastacct.mechanisms.compiled.mechanism import Compiled

UNRESOLVED: Final = 1e-7
"""Largest share of the mass that two quadrature rules may disagree about."""
SUBNORMAL: Final = 1e-320
"""Bound of the rounding of all subnormal numbers in a panel."""
_NEXT_TO: Final = 1e-11
"""Part of a panel: how close to its ends its loss is looked at."""
_DIFFERENCE: Final = 16.0
"""Units of rounding that a loss may be away from the difference of log-densities, each good to 4 in the last place."""
_SEARCHED: Final = (
    ": this is the part of {} in which densities above exp(-720) of the largest were found; give a finite domain that "
    "holds both densities, or name their peaks in breakpoints"
)
_FAR: Final = -720.0
_WIDEST: Final = 1e150
_LEAST: Final = 1e-13
"""Width of a panel, relative to its ends, at least, where panels are cut."""
_APART: Final = 1e-14
"""The same, next to an end of the domain or a breakpoint."""
_TILTS: Final = (0.0, 1.0, 4.0, 16.0, 64.0)
_SMALL: Final = 10.0
"""Log of peak over density at an end of the domain, from which on the end is taken as a cut."""


class Table(Record):
    """Masses of P and Q in each panel with bounds of their errors, and the range of the loss."""

    edges: Cells
    p: Cells
    q: Cells
    p_error: Cells
    q_error: Cells
    low: Cells
    high: Cells

    @cached
    def missing(self) -> float:
        """Mass of P outside the domain, if the errors do not explain it; these are above the rounding of the sum."""
        return max(0.0, 1.0 - float(self.p.sum()) - float(self.p_error.sum()))

    def turned(self) -> Table:
        """Q against P."""
        return Table(self.edges, self.q, self.p, self.q_error, self.p_error, locked(-self.high), locked(-self.low))

    def largest_loss(self) -> tuple[float, float]:
        """Bounds of the largest loss in the domain: from below by mean losses of panels."""
        p, q = self.p - self.p_error, self.q + self.q_error
        known = (p > 1e-300) & (q > 1e-300)
        mean = np.log(p[known]) - np.log(q[known])
        mean -= ROUNDING * (8.0 + 4.0 * (np.abs(np.log(p[known])) + np.abs(np.log(q[known]))))
        high = float(np.fmax.reduce(self.high, initial=0.0)) if self.missing == 0.0 else math.inf
        return max(0.0, float(mean.max(initial=0.0))), high


def locked(array: Cells) -> Cells:
    """The array, which nobody can change any more."""
    array.flags.writeable = False
    return array


@lru_cache(maxsize=3)
def rule(*sizes: int) -> tuple[Cells, Cells]:
    """Points and weights of Gauss's rules on [-1, 1], one after the other."""
    rules = [np.polynomial.legendre.leggauss(size) for size in sizes]
    points, weights = (np.concatenate(parts) for parts in zip(*rules, strict=True))
    return locked(points), locked(weights)


def at_nodes(made: Compiled, edges: Cells, *sizes: int) -> tuple[Cells, Cells, Cells, Cells, Cells]:
    """Nodes of Gauss's rules, log-densities, loss and logarithms of the weights: panels x points."""
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
    points, weights = rule(*sizes)
    x = middle[:, None] + half[:, None] * points
    # where a panel ends, its density may jump
    x = np.clip(x, np.nextafter(edges[:-1, None], np.inf), np.nextafter(edges[1:, None], -np.inf))
    return x, *made.evaluate(x), np.log(half)[:, None] + np.log(weights)


def table_of(made: Compiled) -> Table:
    """Panels of the whole domain; refused where they are not resolved or a density does not integrate to 1."""
    table = _resolved(made, _panels(made, _edges(made)))
    return _resolved(made, _panels(made, _sharpened(table, 4 * made.panels)))


def _resolved(made: Compiled, table: Table) -> Table:
    """The same table, or a refusal."""
    for name, mass, error in (("log_density_p", table.p, table.p_error), ("log_density_q", table.q, table.q_error)):
        if not float(error.sum()) <= UNRESOLVED:  # nor where it is not a number
            worst = int(np.argmax(error))
            low, high = float(table.edges[worst]), float(table.edges[worst + 1])
            raise ValueError(
                f"{name} is not resolved in [{low!r}, {high!r}]: name kinks and jumps in breakpoints, or more panels"
            )
        if not abs((total := float(mass.sum())) - 1.0) <= 1e-9:
            ends = float(table.edges[0]), float(table.edges[-1])
            hint = "" if ends == made.domain else _SEARCHED.format(made.domain)
            raise ValueError(f"{name} integrates to {total!r} over {ends!r}, not to 1{hint}")
    return table


def _panels(made: Compiled, edges: Cells) -> Table:
    """Panels between increasing edges, each integrated by two rules."""
    half, (x, log_p, log_q, loss, log_size) = 0.5 * (edges[1:] - edges[:-1]), at_nodes(made, edges, 6, 10)
    for name, values in (("log_density_p", log_p), ("log_density_q", log_q)):
        if not (values < np.inf).all():
            at = float(x[~(values < np.inf)].flat[0])
            raise ValueError(f"{name}({at!r}) is not a number; allowed: finite numbers and -inf")
    # in logarithms: a density may underflow where a panel's mass does not
    in_p, in_q = np.exp(log_p + log_size), np.exp(log_q + log_size)
    if made.loss is not None:
        _refuse_another(x, log_p, log_q, loss, (in_p > 0.0) | (in_q > 0.0))
    p, q = in_p[:, 6:].sum(axis=1), in_q[:, 6:].sum(axis=1)
    off = np.abs(p - in_p[:, :6].sum(axis=1)), np.abs(q - in_q[:, :6].sum(axis=1))
    low, high = np.fmin.reduce(loss, axis=1), np.fmax.reduce(loss, axis=1)
    # the ends of a panel may go beyond the points seen in it: by 0.056 of their range for a parabola with its vertex
    # in the middle; where a density is 0, the loss is infinite
    with np.errstate(invalid="ignore"):
        margin = 0.15 * (high - low) + 16.0 * ROUNDING * np.maximum(np.abs(low), np.abs(high))
        margin = np.fmax(margin, np.fmax.reduce(made.rounding(log_p, log_q, loss), axis=1))
    # finite and infinite losses in one panel: nothing is known of their range
    mixed = ~np.isfinite(margin) & (low != high)
    margin = np.where(np.isfinite(margin), margin, 0.0)
    low, high = np.where(mixed, -np.inf, low - margin), np.where(mixed, np.inf, high + margin)
    # next to the ends: beyond the margin the loss has a singularity there
    next_to = np.stack([edges[:-1] + _NEXT_TO * half, edges[1:] - _NEXT_TO * half], axis=1)
    # of short panels that is the end itself, where a loss that jumps there has the value of the other side
    inner = np.clip(next_to, np.nextafter(edges[:-1, None], np.inf), np.nextafter(edges[1:, None], -np.inf))
    end, inside = made.evaluate(next_to)[2], made.evaluate(inner)[2]
    low = np.where((np.isneginf(end) | (inside < low[:, None])).any(axis=1), -np.inf, low)
    high = np.where((np.isposinf(end) | (inside > high[:, None])).any(axis=1), np.inf, high)
    away = ROUNDING * np.maximum(np.abs(edges[1:]), np.abs(edges[:-1])) / half  # of points, for what the panel is wide
    errors = (_error(p, off[0], half, away * _change(log_p)), _error(q, off[1], half, away * _change(log_q)))
    columns = (edges, p, q, *errors, low, high)
    return Table(*map(locked, columns))


def _refuse_another(x: Cells, log_p: Cells, log_q: Cells, loss: Cells, seen: NDArray[np.bool_]) -> None:
    """Refuse a loss that is not the difference of the log-densities, where there is mass; both are rounded."""
    with np.errstate(invalid="ignore"):
        difference = log_p - log_q
        rounding = _DIFFERENCE * ROUNDING * (2.0 + np.abs(log_p) + np.abs(log_q))
        is_it = (loss == difference) | (np.isfinite(difference) & (np.abs(loss - difference) <= rounding))
    if (other := seen & ~is_it).any():
        at, is_said, is_right = (float(one[other][0]) for one in (x, loss, difference))
        raise ValueError(f"loss({at!r}) = {is_said!r} is not log_density_p - log_density_q = {is_right!r} there")


def _change(log_density: Cells) -> Cells:
    """By how much a log-density changes over each panel, as its points show it; 0 where it is nothing there."""
    low, high = log_density.min(axis=1), log_density.max(axis=1)
    return np.where(low > -np.inf, high - np.where(low > -np.inf, low, 0.0), 0.0)


def _error(mass: Cells, off: Cells, half: Cells, moved: Cells) -> Cells:
    """Absolute: ten times the difference of the rules, the rounding of exp and of points, and of what is no normal
    number."""
    with np.errstate(divide="ignore"):
        size = np.where(mass > 0.0, np.abs(np.log(mass)), 0.0) + 2.0 * np.abs(np.log(half))
    return np.asarray(10.0 * off + mass * (ROUNDING * (64.0 + 4.0 * size) + 3.0 * moved) + SUBNORMAL)


def _edges(made: Compiled) -> Cells:
    """Panels, ever shorter towards the ends of the domain and the breakpoints: a density may vanish there."""
    low, high = made.domain
    if math.isinf(low) or math.isinf(high):
        low, high = _reach(made, low, high)
    ends = [low, *(x for x in made.breakpoints if low < x < high), high]
    away = 0.5 ** np.arange(1.0, 46.0) * (high - low) / made.panels
    apart = [away[away > _APART * abs(x)] for x in ends]  # so that no end is left out below, where the loss may jump
    near = np.concatenate([np.concatenate([x - off, x + off]) for x, off in zip(ends, apart, strict=True)])
    even = cut_evenly(low, high, made.breakpoints, made.panels)
    edges = np.unique(np.concatenate([even, near[(near > low) & (near < high)]]))
    is_apart = np.diff(edges) > _APART * np.maximum(np.abs(edges[1:]), 1e-300)
    edges = np.asarray(edges[np.append(True, is_apart)], dtype=np.float64)
    edges[-1] = high  # not the end itself
    return edges


def _sharpened(table: Table, more: int) -> Cells:
    """Edges of these panels, and about so many more where a sum of losses can feel how wide they are.

    Panels as atoms are off by mass times width^2 of the loss, which is the same of all panels where their density is
    the cube root of mass over width: for the masses as they are, and tilted to where small deltas are decided.
    """
    known = (table.p > 1e-300) & (table.q > 1e-300) & (table.low > -np.inf) & (table.high < np.inf)
    known &= table.low < table.high
    p, q, wide = np.log(table.p[known]), np.log(table.q[known]), np.log(table.high[known] - table.low[known])
    share: Cells = np.zeros(p.size)
    for one, other in ((p, q), (q, p)):
        for tilt in _TILTS:
            size = (one + tilt * (one - other) + 2.0 * wide) / 3.0
            weight = np.exp(size - size.max(initial=-1e300))
            share += weight / (2 * len(_TILTS) * weight.sum())
    parts = np.ones(table.p.size, dtype=np.intp)
    least = _LEAST * np.maximum(np.abs(table.edges[:-1]), np.abs(table.edges[1:]))
    most = np.diff(table.edges) / np.maximum(least, 1e-300)  # shorter panels than these are none
    parts[known] += np.floor(np.minimum(more * share, np.maximum(most[known] - 1.0, 0.0))).astype(np.intp)
    start, step = np.repeat(table.edges[:-1], parts), np.repeat(np.diff(table.edges) / parts, parts)
    within = np.arange(start.size) - np.repeat(np.cumsum(parts) - parts, parts)
    edges = np.append(start + within * step, table.edges[-1])
    return edges if (np.diff(edges) > 0.0).all() else table.edges


def cut_evenly(low: float, high: float, breakpoints: Iterable[float], panels: int) -> Cells:
    """Edges of about so many panels, breakpoints among them."""
    ends = np.array([low, *(x for x in breakpoints if low < x < high), high])
    share = np.maximum(np.round(panels * np.diff(ends) / (high - low)).astype(int), 8)
    pieces = [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(ends[:-1], ends[1:], share, strict=True)]
    return np.concatenate([*pieces, [high]])


def _reach(made: Compiled, low: float, high: float) -> tuple[float, float]:
    """Where a density is above exp(-720) of its largest value."""
    size = np.concatenate([[0.0], np.geomspace(1e-6, _WIDEST, 4000)])
    centre = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
    for _ in range(6):
        around = [centre, *made.breakpoints]
        x = np.unique(np.add.outer(around, np.concatenate([-size, size])))
        x = x[(x >= low) & (x <= high)]
        value = np.fmax(*made.evaluate(x)[:2])
        top = np.nanmax(np.where(np.isfinite(value), value, np.nan))
        inside = x[value > top + _FAR]
        if inside.size > 400:
            break
        centre, size = float(np.median(inside)), size[size <= 4.0 * max(float(np.ptp(inside)), 1e-6)]
        size = np.linspace(0.0, float(size[-1]), 4000)
    left, right = float(inside[0]), float(inside[-1])
    if max(-left, right) >= _WIDEST:
        raise ValueError(
            f"domain = {made.domain!r}: the densities are above exp(-720) of their largest values as far as "
            f"{_WIDEST:g}, too heavy tails for an infinite domain; map the outputs to a finite one, as "
            "x = tan(t) does: no loss changes, and both log-densities gain the logarithm of the derivative"
        )
    pad = 0.02 * (right - left)
    return max(low, left - pad), min(high, right + pad)


def losses_of(table: Table) -> Bracket:
    """Panels as atoms: both ends of each with its masses of P and Q, or its mean."""
    seen = (table.p > 1e-300) & (table.q > 1e-300) & np.isfinite(table.low) & np.isfinite(table.high)
    rest = float((table.p + table.p_error)[~seen].sum()) + table.missing + 1e-290
    p, q, low, high = table.p[seen], table.q[seen], table.low[seen], table.high[seen]
    p_off, q_off = table.p_error[seen] / p, table.q_error[seen] / q
    mean = np.log(p) - np.log(q)
    off = p_off + q_off + 16.0 * ROUNDING * (1.0 + np.abs(np.log(p)) + np.abs(np.log(q)))
    low, high = np.minimum(low, mean - off), np.maximum(high, mean + off)
    # the masses of P and, at most, of Q stay: less of Q is more loss
    share = (1.0 - np.exp(low - mean) * (1.0 - 2.0 * off)) / -np.expm1(low - high)
    share = np.clip(share * (1.0 + 4.0 * ROUNDING), 0.0, 1.0)
    right, left = p * share * (1.0 + 1.01 * p_off), p * (1.0 - share) * (1.0 + 1.01 * p_off)
    pad, loss, rest = 4.0 * ROUNDING, np.concatenate([low, high]), min(1.0, rest * (1.0 + 1e-12))
    upper = Atoms(locked(loss), locked(pad * np.abs(loss)), locked(np.concatenate([left, right])), infinite=rest)
    below = locked(np.maximum(p * (1.0 - 1.01 * p_off), 0.0))
    return Bracket(upper, Atoms(locked(mean - off), locked(pad * np.abs(mean)), below))


def largest_outside(made: Compiled, bound: tuple[float, float]) -> tuple[float, float]:
    """Largest losses of both directions, known in the domain, where it cuts tails off: inf if they grow there.

    A finite end counts as a cut too if the densities are small at it: it may be the caller's.
    """
    table, low, high = made.table, float(made.table.edges[0]), float(made.table.edges[-1])
    inside = np.array([low, high]) + np.array([1e-9, -1e-9]) * (high - low)
    peak = math.log(float(np.max(np.fmax(table.p, table.q) / np.diff(table.edges))))
    is_cut = np.fmax(*made.evaluate(inside)[:2]) < peak - _SMALL
    away = np.geomspace(1e-3 * (high - low), _WIDEST, 2000)
    x = np.concatenate([side for side, cut in zip((low - away, high + away), is_cut, strict=True) if cut] + [inside])
    log_p, log_q, loss = made.evaluate(x)
    rounding = made.rounding(log_p, log_q, loss)
    with np.errstate(invalid="ignore"):
        grows = [bool((side > most + rounding).any()) for side, most in zip((loss, -loss), bound, strict=True)]
    return math.inf if grows[0] else bound[0], math.inf if grows[1] else bound[1]
