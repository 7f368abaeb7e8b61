"""The privacy loss of one direction: how much of both distributions lies between any losses.

A loss answers with `Masses`: bounds, so that a reader rounds to the safe side without knowing which mechanism made the
loss.  What is known of a mechanism is a `Bracket` per direction, distributions that bound its loss from above and from
below, and a `Pair` of brackets.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastacct.core.inputs import ROUNDING as ROUNDING
from fastacct.core.inputs import Cells
from fastacct.core.kept import cached
from fastacct.core.record import Record

if TYPE_CHECKING:
    from fastacct.core.relations import Direction

Index = NDArray[np.intp]
_Whole = TypeVar("_Whole")

_RULES: Final = ((0.02, 6), (0.05, 7), (0.1, 8), (1.0, 18))
"""Points of Gauss's rule for a piece, by its half-width times the largest slope of the logarithm of the density ..."""
CHUNK: Final = 1 << 12
"""... and how many are evaluated at once: what a processor keeps near, and so short a stretch that few components of a
mixture matter there."""

LEAST_TAIL: Final = 1e-299
"""The least mass that can be left out."""
PROBES: Final = np.geomspace(2.0**-7, 2.0**6, 14)
"""Tilts apart, times a standard deviation, of which Chernoff's bound takes the best."""


class OutOfReachError(ValueError):
    """The numbers are too extreme for a grid of any allowed size."""


def refuse_where(is_beyond: bool, why: str) -> None:
    """Refuse what is out of reach."""
    if is_beyond:
        raise OutOfReachError(why)


class Masses(NamedTuple):
    """Of each cell between losses: P's mass, and by how much it exceeds exp(lower end) times Q's, bounds on one side.

    They hold where each loss may be off by `slip`, and what is below the first loss has no excess.
    """

    mass: Cells
    excess: Cells
    slip: float


class Loss(Record, ABC, kw_only=True):
    """The privacy loss of one direction."""

    infinite: float = 0.0
    """P-mass of an infinite loss."""
    anchor: float | None = None
    """A loss that a grid should hit, if any."""
    lattice: float | None = None
    """Distance that divides all differences of losses, if any."""

    def as_atoms(self) -> Atoms | None:
        """The finite distribution that it is, if it is one."""
        return None

    def outside(self, tail: float) -> tuple[float, float]:
        """Upper bound of the P-mass beyond the extent, about `tail`, and of its loss."""
        return 0.0, -math.inf

    def without_rare(self, tail: float, *, is_upper: bool) -> Loss:
        """The same without what hardly ever occurs, of a mass of `tail` at most: infinite from above, nowhere from
        below."""
        return self

    @abstractmethod
    def extent(self, tail: float) -> tuple[float, float]:
        """Smallest and largest loss, but of a mass of about `tail`."""

    @abstractmethod
    def masses(self, edges: Cells, tail: float, side: float) -> Masses:
        """Of the cells between increasing losses, from above (1) or below (-1); the last one is above the extent."""

    @abstractmethod
    def points(self) -> tuple[Cells, Cells]:
        """Losses and masses that stand for it where nothing is certified: they show where to look."""

    def reached(self) -> float:
        """A loss that it surely has, next to the largest: at least the mean of those there; -inf: none is known."""
        low, high = self.extent(0.0)
        # within this of the largest loss there surely is one
        edges = np.array([low - 1.0, high - 1e-8 * abs(high), high + 1.0])
        (mass, excess, slip), most = (self.masses(edges, 0.0, side) for side in (-1.0, 1.0))
        if not mass[1] > 0.0:
            return -math.inf
        return float(edges[1]) - math.log1p(-float(excess[1] / most.mass[1])) - slip


class Atoms(Loss):
    """A finite distribution of losses; a grid hits the heaviest, unless another `anchor` is wanted."""

    loss: Cells
    loss_error: Cells
    mass: Cells

    def __post_init__(self) -> None:
        if self.anchor is None and self.loss.size:
            object.__setattr__(self, "anchor", float(self.loss[np.argmax(self.mass)]))
        if self.lattice is None and self.loss.size == 2:  # any two are on a lattice
            object.__setattr__(self, "lattice", float(abs(self.loss[1] - self.loss[0])) or None)

    def as_atoms(self) -> Atoms | None:
        """Itself."""
        return self

    def without_rare(self, tail: float, *, is_upper: bool) -> Loss:
        """Without the largest losses."""
        if tail == 0.0:
            return self
        order = np.argsort(-self.loss, kind="stable")
        gone = np.cumsum(self.mass[order]) <= tail
        if not gone.any() or gone.all():
            return self
        infinite, kept = self.infinite, np.sort(order[~gone])
        if is_upper:
            infinite = (infinite + float(np.sum(self.mass[order[gone]]))) * (1.0 + ROUNDING * (4.0 + order.size))
        columns = {name: getattr(self, name)[kept] for name in ("loss", "loss_error", "mass")}
        return replace(self, **columns, infinite=infinite)

    def extent(self, tail: float) -> tuple[float, float]:
        """Smallest and largest loss."""
        return (float(self.loss.min()), float(self.loss.max())) if self.loss.size else (0.0, 0.0)

    def masses(self, edges: Cells, tail: float, side: float) -> Masses:
        """Sums over the atoms; one that may touch an edge from below counts as beyond it."""
        n = edges.size - 1
        cell = np.clip(np.searchsorted(edges, self.loss + self.loss_error, side="right") - 1, 0, n - 1)
        above, width = self.loss + side * self.loss_error - edges[cell], (edges[1:] - edges[:-1])[cell]
        beyond = float((above - width if side > 0.0 else -above).max(initial=0.0))
        each = self.mass * -np.expm1(-np.clip(above, 0.0, width))
        most = float(np.bincount(cell, minlength=n).max(initial=0))
        off = 1.0 + side * ROUNDING * (4.0 + most)
        mass, excess = (np.asarray(np.bincount(cell, x, n) * off, dtype=np.float64) for x in (self.mass, each))
        return Masses(mass, excess, beyond)

    def points(self) -> tuple[Cells, Cells]:
        """The atoms."""
        return self.loss, self.mass


class Bracket(Record):
    """Distributions that bound the one of a direction: the delta of `upper` is never below it, that of `lower` never
    above it, at any epsilon."""

    upper: Loss
    lower: Loss
    is_apart: bool = field(default=False, kw_only=True)
    """Whether the two differ by more than rounding, so that no finer evaluation brings the bounds together."""


class Part(Bracket):
    """Losses of one direction, and how often they occur."""

    count: int


class Pair:
    """The losses of both directions; the same object twice where the pair is its own mirror image."""

    has_atoms: ClassVar[bool] = True
    """Whether its losses may be atoms, and are known one by one."""

    def __init__(self, remove: Bracket, add: Bracket) -> None:
        self.remove = remove
        self.add = add

    def sampled(self, rate: float) -> Pair | None:
        """The pair of a Poisson sample, where this one has a form of its own for it."""
        return None

    def divergence(self, orders: Cells) -> Cells | None:
        """Bounds of its Rényi divergences, the larger direction, where this pair has some of its own."""
        return None

    def moments(self, s: Cells, *, is_add: bool) -> Cells | None:
        """Bounds of K(s) = log E_P exp(s L), of K' and of K'', in rows, where this pair has some of its own."""
        return None

    def side(self, direction: Direction) -> Bracket:
        """The losses of one direction."""
        return self.remove if direction == "remove" else self.add

    def given(self, deltas_of: Callable[..., tuple[Cells, Cells]]) -> Pair:
        """The pair where deltas of other jobs are known: itself, where it needs none."""
        return self

    @property
    def soon(self) -> Pair:
        """What says nearly as much and is made sooner: itself, where there is no such pair."""
        return self

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is released."""
        return self is NOTHING

    @property
    def is_mirrored(self) -> bool:
        """Whether both directions are one."""
        return self.remove is self.add


class Apart(Pair):
    """Two pairs that bound one of which no more is known: from above and from below; of two pairs each the outer one.

    Where the one above is its own mirror image, so is this: from below stands then what a removed record says.  Unless
    the one below is `ordered`: it does not occur with its sides exchanged.  One that is dear may be a function that
    makes it: who asks from above alone does not wait for it.
    """

    has_atoms = False

    def __init__(self, above: Pair, below: Pair | Callable[[], Pair], *, is_ordered: bool = False) -> None:
        self.above: Pair = above.above if isinstance(above, Apart) else above
        self._below = below
        self.is_ordered = is_ordered

    def each(self, make: Callable[[Pair, float], Pair], rate: float) -> Apart:
        """What is made of both at a rate, from above and from below."""
        return Apart(make(self.above, rate), make(self.below, rate))

    @cached
    def below(self) -> Pair:
        """The one from below."""
        below = self._below if isinstance(self._below, Pair) else self._below()
        return below.below if isinstance(below, Apart) else below

    @cached
    def remove(self) -> Bracket:
        """P against Q."""
        return self._side("remove")

    @cached
    def add(self) -> Bracket:
        """Q against P."""
        if self.is_mirrored:
            return self.remove
        return self._side("add")

    def _side(self, direction: Direction) -> Bracket:
        try:
            lower = self.below.side(direction).lower
        except OutOfReachError:  # of what is data for a line alone
            lower = NOTHING.remove.lower
        return Bracket(self.above.side(direction).upper, lower, is_apart=True)

    @property
    def is_mirrored(self) -> bool:
        """Whether both directions are one."""
        return self.above.is_mirrored and not self.is_ordered


_ZERO: Final = Atoms(np.zeros(1), np.zeros(1), np.ones(1), lattice=1.0)
NOTHING: Final = Pair(*[Bracket(_ZERO, _ZERO)] * 2)
"""Of a release of nothing."""


class Moment(NamedTuple):
    """log E exp(tilt L) over the finite losses, and its first two derivatives."""

    value: float
    mean: float
    variance: float


Weighted = tuple[int, Cells, Cells]
"""A count, losses and logarithms of masses."""


def log_moment(parts: Iterable[Weighted], tilt: float) -> Moment:
    """Log-moment of a composition at `tilt`, rounded."""
    value = mean = variance = 0.0
    for count, loss, log_mass in parts:
        exponent = tilt * loss + log_mass
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        centre = float(np.sum(weight * loss)) / total
        value += count * (top + math.log(total))
        mean += count * centre
        variance += count * float(np.sum(weight * (loss - centre) ** 2)) / total
    return Moment(value, mean, variance)


def composed(one: _Whole, count: int, product: Callable[[_Whole, _Whole], _Whole]) -> _Whole:
    """At least one copy of the same, by repeated squaring: at most 2 count - 1 rounded products."""
    whole = one if count & 1 else None
    while count := count >> 1:
        one = product(one, one)
        if count & 1:
            whole = one if whole is None else product(whole, one)
    assert whole is not None
    return whole


def lost_in_all(parts: Iterable[tuple[int, float, float]]) -> float:
    """Mass of an infinite loss of all releases together, rounded; of each how often, its finite mass and the other."""
    log_total = log_more = 0.0
    for count, finite, infinite in parts:
        if finite + infinite <= 0.0:
            return 0.0
        log_total += count * math.log(finite + infinite)
        log_more += count * math.log1p(infinite / finite) if finite > 0.0 else math.inf
    return math.exp(min(log_total, 1.0)) * -math.expm1(-log_more)


def weighted(source: Loss, count: int) -> Weighted:
    """Points that stand for a source, with the logarithms of their masses."""
    loss, mass = source.points()
    keep = mass > 0.0
    return count, loss[keep], np.log(mass[keep])


def ruled(reach: Cells) -> Iterator[tuple[Index, Cells, Cells]]:
    """Which pieces take which of Gauss's rules, on [0, 1]; `reach`: half-widths times slopes, below 1.

    Relative to the integral of a Gaussian density, or of it times exp(distance) - 1, errors are below 2^-58 (proof:
    docs/algorithms/masses.md).
    """
    if not reach.max(initial=0.0) <= _RULES[-1][0]:
        raise ValueError("no rule for pieces of this width")
    place = np.searchsorted([most for most, _ in _RULES], reach)
    for i, (_, n_points) in enumerate(_RULES):
        chosen, (points, weights) = np.flatnonzero(place == i), legendre(n_points)
        for first in range(0, chosen.size, CHUNK):
            yield chosen[first : first + CHUNK], 0.5 * (1.0 + points), 0.5 * weights


@lru_cache(maxsize=64)
def legendre(n_points: int) -> tuple[Cells, Cells]:
    """Correctly rounded up to an ulp: NumPy's weights are good to 1e-13 only, at 30 points."""
    points, weights = [], []
    with localcontext() as context:
        context.prec = 40
        for start in np.polynomial.legendre.leggauss(n_points)[0]:
            x = Decimal(float(start))
            for _ in range(3):
                last, value = Decimal(1), x
                for k in range(2, n_points + 1):
                    last, value = value, ((2 * k - 1) * x * value - (k - 1) * last) / k
                slope = n_points * (x * value - last) / (x * x - 1)
                x -= value / slope
            points.append(float(x))
            weights.append(float(2 / ((1 - x * x) * slope * slope)))
    return np.array(points), np.array(weights)
