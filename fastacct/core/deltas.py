"""What curves of deltas say of a privacy loss: moments, chances, quantiles, the subgaussian that it stays below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from typing import Concatenate, Final, NamedTuple, ParamSpec, Protocol, Self, TypeVar

import numpy as np

from fastacct.core.bounds import Bounds, status_of, unwrapped
from fastacct.core.inputs import MAX_ORDER, Cells
from fastacct.core.search import WIDTH, boundary, excess
from fastacct.core.work import counted

LARGEST: Final = 700.0
"""Losses beyond this, on either side, are only known to be there."""
FEWER: Final = 8
"""Times fewer intervals where only upper bounds are known, which rounding to chords hardly moves."""
_ROUNDED: Final = 1e-9
"""What is added for the rounding of the sums."""
_RATIO: Final = 1.003
_REFINEMENTS: Final = 6
"""From the first intervals of exponents to those."""
STEPS: Final = np.geomspace(1e-8, 0.3, 12)
"""Distances between two deltas, over the size of a loss, whose difference bounds a slope: the best of them is taken."""

Curve = Callable[[Cells], tuple[Cells, Cells]]
"""Lower and upper bounds at points."""
Weight = Callable[[Cells], Cells]


class Concentration(NamedTuple):
    """Mean-concentrated DP (Dwork, Rothblum 2016): L - E L is subgaussian with standard tau.

    Examples
    --------
    >>> import fastacct as fa
    >>> found = fa.privacy_loss(fa.Gaussian(2.0)).concentration
    >>> round(found.mu, 6), round(found.tau, 6)
    (0.125, 0.500144)
    """

    mu: float
    """At least the mean of the loss."""
    tau: float
    """At least the smallest standard: log E exp(s (L - E L)) <= s^2 tau^2 / 2 for all s, positive and negative."""


class _Loss(Protocol):
    @property
    def ways(self) -> Sequence[Self]: ...


Loss = TypeVar("Loss", bound=_Loss)
Asked = ParamSpec("Asked")
Answer = TypeVar("Answer", Bounds, Concentration)


def larger(ask: Callable[Concatenate[Loss, Asked], Answer]) -> Callable[Concatenate[Loss, Asked], Answer]:
    """Let a question about a loss be one about those of several `ways`: the largest answer, from below and above."""

    @wraps(ask)
    def each(loss: Loss, /, *given: Asked.args, **named: Asked.kwargs) -> Answer:
        if not loss.ways:
            return ask(loss, *given, **named)
        answers = list[Answer]()
        for way in loss.ways:
            answers.append(found := ask(way, *given, **named))
            if not np.ndim(found[0]) and found[0] in (LARGEST, math.inf) and found[1] == math.inf:
                break  # nothing is larger
        first, second = (np.maximum.reduce([answer[i] for answer in answers]) for i in (0, 1))
        return bounded(first, second) if isinstance(answers[0], Bounds) else Concentration(float(first), float(second))

    return each


def bounded(lower: Cells | float, upper: Cells | float) -> Bounds:
    """Plain bounds with their status."""
    return unwrapped(Bounds(lower, upper, status_of(lower, upper)))


def second_moment(deltas: Curve, other: Curve, renyi: Callable[[float], float], is_tight: bool) -> tuple[float, float]:
    """E_P[L^2] from certified deltas of both directions, and Rényi divergences for what lies beyond them.

    E_Q[f(P/Q)] = the integral over x > 1 of f''(x) delta(log x) + x^-3 f''(1/x) delta'(log x), f = x log^2 x: weights
    2 (e + 1) and 2 (1 - e) exp(-e) of e = log x.  Both deltas are convex in x: chords from above, prolonged ones below.
    """
    reach, delta_there = _reach(deltas)
    # beyond: delta(e) <= exp((alpha - 1) (D_alpha - e))
    beyond = 0.0 if delta_there == 0.0 else math.inf
    for alpha in (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0) if beyond else ():
        a, bound = alpha - 1.0, renyi(alpha)
        if math.isfinite(bound) and a * (bound - reach) < 500.0:
            beyond = min(beyond, 2.0 * math.exp(a * (bound - reach)) * ((reach + 1.0) / a + 1.0 / (a * a)))
    many = 4096 // (1 if is_tight and beyond < math.inf else FEWER)
    own = _weighted(deltas, reach, many, lambda e: 2.0 * e + e * e, lambda e: 2.0 * e * np.exp(e))
    back = _weighted(other, _reach(other)[0], many, lambda e: 2.0 * e * np.exp(-e), lambda e: 2.0 * e - e * e)
    lost = 2.0 * back[2] * math.exp(-back[2]) * back[3] * (1.0 + 1e-9)
    return max(own[0] + back[0] - lost, 0.0), own[1] + back[1] + beyond


def _reach(curve: Curve) -> tuple[float, float]:
    """An epsilon from which on delta is next to nothing, or the largest one; an upper bound of delta there."""
    reach = 1.0
    while reach < LARGEST and curve(np.array([reach]))[1][0] > 1e-15:
        reach *= 2.0
    reach = min(2.0 * reach, LARGEST)  # Chernoff's bound is small there, too
    return reach, float(curve(np.array([reach]))[1][0])


def _weighted(curve: Curve, reach: float, many: int, whole: Weight, first: Weight) -> tuple[float, float, float, float]:
    """Bounds of the integral of w(x) delta(log x) over 1 < x < exp(reach), the reach, and delta there.

    `whole` and `first` are antiderivatives, in e = log x, of w(x) and of x w(x), w of one sign on both sides of e = 1.
    """
    epsilon = np.append(reach * np.linspace(0.0, 1.0, many + 1) ** 2, reach * 1.01)
    epsilon[np.argmin(np.abs(epsilon - 1.0))] = 1.0  # no interval has both signs
    low, high = curve(epsilon)
    least, most = _by_chords(epsilon, low, high, np.diff(whole(epsilon[:-1])), np.diff(first(epsilon[:-1])))
    slack = _ROUNDED * np.abs(most)
    return float(np.sum(least - slack)), float(np.sum(most + slack)), reach, float(high[-2])


def _by_chords(at: Cells, low: Cells, high: Cells, mass: Cells, moment: Cells) -> tuple[Cells, Cells]:
    """Bounds of the integrals of w(x) delta(log x) between the exponentials of all but the last of these epsilons.

    `mass` and `moment` are those of w(x) and x w(x), in one row or several, w of one sign in each interval.  Delta is
    convex in x and falls: it is below its chord, and above the chord of the next interval, prolonged.
    """
    x = np.exp(at)
    width = np.diff(x)
    with np.errstate(invalid="ignore", over="ignore"):
        after = np.minimum((high[2:] - low[1:-1]) / width[1:], 0.0)
        below = low[1:-1] * mass + after * (moment - x[1:-1] * mass), low[1:-1] * mass
        slope = (high[1:-1] - high[:-2]) / width[:-1]
        above = high[:-2] * mass + slope * (moment - x[:-2] * mass), high[:-2] * mass
    least, most = np.where(mass >= 0.0, (below, above), (above, below))
    return np.fmax(*least), np.fmin(*most)


def power_bounds(at: Cells, low: Cells, high: Cells, top: Cells) -> tuple[Cells, Cells]:
    """Bounds of the integrals of x^(top - 1) delta(log x) over x > 1, given delta at these epsilons."""
    with np.errstate(over="ignore", invalid="ignore"):
        least, most = _by_chords(at, low, high, _power(top, at), _power(top + 1.0, at))
        fall = np.where(top < 0.0, top, -1.0)
        beyond = float(high[-2]) * np.exp(at[-2]) ** fall / -fall
    is_held = (top[:, None] + 1.0) * at[1:-1] < LARGEST - 10.0
    least, most = np.where(is_held, least, 0.0), np.where(is_held, most, np.where(high[:-2] > 0.0, math.inf, 0.0))
    far = np.where(top < 0.0, beyond, math.inf if high[-2] > 0.0 else 0.0)
    return least.sum(axis=1) * (1.0 - _ROUNDED), (most.sum(axis=1) + far) * (1.0 + _ROUNDED)


def _power(top: Cells, at: Cells) -> Cells:
    """Integrals of x^(top - 1) between the exponentials of all but the last of these, a row for each top."""
    start, length, rows = at[:-2], np.diff(at)[:-1], top[:, None]
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(rows == 0.0, length, np.exp(rows * start) * np.expm1(rows * length) / rows))


def chances(at: Cells, low: Cells, high: Cells, sides: Sequence[int]) -> list[Cells]:
    """Bounds of P(L > e) at the first epsilon of each row, from below (side 0) or above (1): one by the slope of delta
    from there to each of the others, of which each side has its share, right of the first one (0) or left (1)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # times exp(epsilon), so that nothing overflows
        slope = (low[..., :1] - high[..., 1:]) / np.expm1(at[..., 1:] - at[..., :1])
    return [
        _chance(low[..., :1], high[..., :1], part, side)
        for side, part in zip(sides, np.split(slope, len(sides), axis=-1), strict=True)
    ]


def _chance(low: Cells, high: Cells, slope: Cells, side: int) -> Cells:
    if side:
        bound = (high + np.where(np.isfinite(slope), slope, np.inf)) * (1.0 + 1e-14) + 1e-300
    else:
        bound = (low + np.maximum(np.nan_to_num(slope, nan=0.0), 0.0)) * (1.0 - 1e-14) - 1e-300
    return np.asarray(np.clip(bound, 0.0, 1.0))


_Exceeds = Callable[[Cells, Sequence[int], Cells], list[Cells]]


class Tail(NamedTuple):
    """What the quantile of a loss at a chance is found by."""

    near: Sequence[float]
    """At least the epsilons of the chance and of half: P(L > e) is about (1 + steep) delta(e), which falls as
    exp(-steep e), and P(L > e + log 2) at most 2 delta(e)."""
    exceeds: _Exceeds
    off: float
    """By how much probabilities may miss 1."""
    is_tight: bool

    @property
    def most(self) -> float:
        """The quantile is not larger."""
        return (self.near[1] + math.log(2.0)) * (1.0 + 1e-15)

    def is_smaller(self, loss: float, chance: float, works: list[float]) -> bool:
        """Whether the quantile is known not to be above a loss, few steps being asked first."""
        each = (_counted(self.exceeds, loss, 1, steps, works).min() for steps in (STEPS[5:9], STEPS))
        return self.most <= loss or (abs(loss) < LARGEST and any(most <= chance for most in each))


def largest_quantile(tails: Sequence[Tail], chance: float) -> tuple[float, float]:
    """Bounds of the largest quantile of several losses; one that is above the largest so far with at most the chance is
    not larger, which takes one question.  After some seconds none is asked."""
    lower = upper = -math.inf
    works = [0.0]
    for tail in sorted(tails, key=lambda one: -one.near[0]):
        if lower >= LARGEST and upper == math.inf:
            break  # nothing is larger
        if _is_long(works):
            upper = max(upper, tail.most)
        elif not tail.is_smaller(lower, chance, works):
            low, high = _quantile_ends(tail, chance, works)
            lower, upper = max(lower, low), max(upper, high)
    return lower, upper


def _counted(exceeds: _Exceeds, loss: float, side: int, steps: Cells, works: list[float]) -> Cells:
    """Bounds of P(L > loss) on a side; what they took goes to `works`."""
    with counted() as done:
        end = exceeds(np.array(loss), (side,), steps)[0]
    works.append(sum(done.values()))
    return end


def _is_long(works: list[float]) -> bool:
    """Whether a search took so many seconds that nothing more is asked: another answer may take what the last did."""
    return sum(works) + max(works[-1], 1e9) > 9e9


def _quantile_ends(tail: Tail, chance: float, works: list[float]) -> tuple[float, float]:
    """Where the lower bound of P(L > loss) is above the chance, and where the upper one is at most it; near to these
    that is not so."""
    near, spent = tail.near, chance + tail.off  # P(L <= -t) is at most exp(-t), or Q would have more than all
    least = math.log1p(-spent) * (1.0 + 1e-15) if spent < 1.0 else -math.inf
    steep = math.log(2.0) / (near[1] - near[0]) if 0.0 < near[0] < near[1] < math.inf else math.inf
    start, wide, steps = min(near[0], LARGEST), 0.1, STEPS
    if steep < math.inf:
        wide = 1.1 * math.log1p(steep) / steep
        # no step is better over which delta falls by the exponential of more
        steps = STEPS[: max(int(np.sum(STEPS * max(1.0, start) * steep < 4.0)), 4)]
    upper, best = _end(tail.exceeds, 1, chance, start, wide, steps, works)
    most = upper if math.isfinite(upper) else tail.most
    if not tail.is_tight or _is_long(works):
        return least, most
    if math.isfinite(upper):
        start, wide = upper, 0.1 * wide
    steps = best if sum(works) > 2e9 else steps
    low = _end(tail.exceeds, 0, math.nextafter(chance, 2.0), start, wide, steps, works)[0]
    return max(least, low), most


def _end(
    exceeds: _Exceeds, side: int, target: float, start: float, wide: float, all_steps: Cells, works: list[float]
) -> tuple[float, Cells]:
    """One of them, looked for from `start` on, in strides from `wide` on, by the steps that are best at the start, and
    then by all; and these steps.  `works` is what each probability took so far: after some seconds nothing is asked,
    and what was not asked is not met."""
    sign, most = (-1.0, 1.0)[side], sum(works) + (2e9, 5e9)[side]

    def level(loss: float, steps: Cells) -> float:
        if _is_long(works) or sum(works) > most:
            return 50.0
        end = _counted(exceeds, loss, side, steps, works)
        return sign * excess(float(end.min() if side else end.max()), target)

    at_start = _counted(exceeds, start, side, all_steps, works)
    k = int(np.flatnonzero(at_start == (at_start.min() if side else at_start.max()))[-1])
    best = all_steps[max(k - 1, 0) : k + 2]
    end = _first_end(partial(level, steps=best), sign, start, wide)
    if abs(end) >= LARGEST:
        return end, best
    further = end - sign * max(4.0 * WIDTH * abs(end), 1e-13)
    if level(further, all_steps) <= 0.0:
        end = _first_end(partial(level, steps=all_steps), sign, further, 64.0 * abs(further - end))
    return end, best


def _first_end(level: Callable[[float], float], sign: float, start: float, wide: float) -> float:
    """Where a level passes 0, at most 0 on the side of this sign; on that side infinite, on the other one the `LARGEST`
    loss, if it does not."""
    level, last = cache(level), start
    way = sign if level(start) > 0.0 else -sign
    while True:
        place = min(max(last + way * wide, -LARGEST), LARGEST)
        if (level(place) > 0.0) != (level(start) > 0.0):
            return boundary(level, (min(last, place), max(last, place)), "the chance")
        if abs(place) == LARGEST:
            return way * math.inf if way == sign else place
        last, wide = place, 8.0 * wide


def smallest_tau(upper: Weight, lower: Weight, mean: Bounds, deviation: float, far: Weight) -> float:
    """A bound of the smallest tau: tau^2 = sup over s of 2 g(s)/s^2, g(s) = K(s) - s E L, K the log-moment of the loss.

    `upper` and `lower` bound K, `far` bounds 2 g/s^2 from |s| on.  g is convex and 0 at 0: between two points it is at
    most its chord.  Near 0 its second derivative is at most E[Y^2 exp(t Y)], Y = L - E L, which is
    convex in t, and y^2 <= (2/h^2) (cosh(h y) - 1).
    """

    def above(s: Cells) -> Cells:
        return np.asarray(np.maximum(upper(s) - np.minimum(s * mean.lower, s * mean.upper), 0.0))

    s = 10.0 ** np.arange(-2.5, 0.1, 0.25) / deviation
    s = s[2.0 * s <= 0.5 * MAX_ORDER]  # losses may be so small that no order resolves them
    both = np.append(s, -s)
    least = np.maximum(lower(both) - np.maximum(both * mean.lower, both * mean.upper), 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        second = (np.expm1(above(2.0 * both)) - 2.0 * np.expm1(np.minimum(least, 700.0))) / (both * both)
    curvature = np.maximum(np.nan_to_num(second, nan=math.inf, posinf=math.inf), 0.0).reshape(2, s.size).max(axis=0)
    near = float(curvature.min(initial=math.inf))
    if math.isinf(near):
        return math.inf
    start = float(s[curvature.argmin()])
    ends = np.geomspace(start, min(max(1e3 / deviation, 1e3), 0.5 * MAX_ORDER), 64)
    beyond = far(ends)  # which falls
    at = 1 + int(np.argmax(np.append(beyond[1:-1] <= near, True)))
    end, square = float(ends[at]), max(near, float(beyond[at]))
    for side in (1.0, -1.0):
        square = _supremum(above, side, start, end, square)
    return math.sqrt(square) * (1.0 + 1e-14)


def _supremum(growth: Weight, side: float, start: float, end: float, known: float) -> float:
    """At least what is known, and 2 g(s)/s^2 of one sign of s for |s| from start to end: by chords of g, which is
    convex.  Intervals in which it may be larger than at all points are halved, a few times."""
    wide = math.log(_RATIO) * 2.0**_REFINEMENTS
    order = start * np.exp(wide * np.arange(math.ceil(math.log(end / start) / wide) + 1.0))
    value = growth(side * order)
    low, high, here, there = order[:-1], order[1:], value[:-1], value[1:]
    best = 0.0
    for halving in range(_REFINEMENTS + 1):
        at_ends = 2.0 * np.maximum(here / (low * low), there / (high * high))
        best = max(best, float(np.max(at_ends)))
        bound = np.maximum(at_ends, _of_chords(low, high, here, there)) * (1.0 + 1e-11)
        is_open = (bound > max(known, 1.001 * best)) & (halving < _REFINEMENTS)
        known = max(known, float(np.max(bound[~is_open], initial=0.0)))
        if not is_open.any():
            break
        low, high, here, there = (ends[is_open] for ends in (low, high, here, there))
        middle = np.sqrt(low) * np.sqrt(high)
        value = growth(side * middle)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        here, there = np.concatenate([here, value]), np.concatenate([value, there])
    return known


def _of_chords(low: Cells, high: Cells, here: Cells, there: Cells) -> Cells:
    """The largest 2 (a + b s)/s^2 inside of these intervals, of the lines through their ends; 0 where an end has more.

    It is -b^2/(2 a), at s = -2 a/b.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        b = (there - here) / (high - low)
        a = here - b * low
        top = -2.0 * a / b
        inside = np.where((low < top) & (top < high), -0.5 * b * b / a, 0.0)
    return np.where(np.isfinite(here) & np.isfinite(there), inside, math.inf)
