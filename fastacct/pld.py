"""Certified discretised privacy-loss distributions: for losses with atoms, probabilities that a user supplies, and
infinite losses.  The slow fallback of the exact accountant.

A `LossDistribution` is the privacy loss of one release in one direction (P against Q), as two measures on a grid of
losses: the delta of one is never below the truth, at no epsilon, the delta of the other never above it.  Both orders
survive composition (proof: `fastacct/_pld_grid.py`), and so do the bounds of all rounding errors
(`fastacct/_pld_convolve.py`).

`compose_bounds` answers one question about a composition and chooses the grid and the exponential tilt for it: small
deltas keep their relative accuracy.  `LossDistribution.self_compose` and `.compose` give distributions to keep.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastacct._arrays import Cells, Codes, Domain, as_cells
from fastacct._loss_distribution import COUNT, DIRECTIONS, POSITIVE, SHARE, LossDistribution, as_bounds, as_number
from fastacct._pld_compose import Found, Pair, Query
from fastacct._pld_sources import OutOfReachError
from fastacct.accountants import RDP, SOLVE_FOR, Answer, Method, Question
from fastacct.bounds import Bounds, Status

__all__ = ["PLD", "LossDistribution", "compose_bounds"]


def compose_bounds(
    parts: Iterable[tuple[LossDistribution, int]],
    *,
    epsilon: Any = None,
    delta: Any = None,
    tolerance: float = 1e-3,
    spacing: float | None = None,
    max_points: int = 1 << 22,
) -> Bounds:
    """Bounds of delta at `epsilon`, or of epsilon at `delta`, for a composition of (release, count).

    **Guarantee.** lower <= truth <= upper, rounding included, for releases that are composed (adaptively) in one
    direction.  The grid is made for the question and refined until upper - lower <= tolerance * max(upper, 1e-290)
    (of epsilon: tolerance * max(upper, 1e-6)), with up to `max_points` points per convolution; the status is
    `LOOSE` where that
    does not suffice.

    Parameters
    ----------
    parts : iterable of (LossDistribution, int)
        The order does not matter; (a, 3) is (a, 1), (a, 1), (a, 1).
    epsilon, delta : float or array, one of them
        The target: epsilon in [0, inf], delta in [0, 1].
    tolerance : float in (0, 1)
    spacing : float, optional
        Use this grid instead.
    max_points : int

    Examples
    --------
    >>> from fastacct.pld import LossDistribution, compose_bounds
    >>> step = LossDistribution.from_sampled_gaussian(1.0, 0.01, "remove")
    >>> lower, upper, status = compose_bounds([(step, 1000)], delta=1e-12)
    >>> lower <= 3.91429815603747 <= upper <= 1.001 * lower
    True
    """
    if (epsilon is None) == (delta is None):
        raise TypeError("give either epsilon or delta")
    name, target = ("epsilon", epsilon) if delta is None else ("delta", delta)
    query = Query(
        _pairs(parts),
        as_number("tolerance", tolerance, SHARE),
        None if spacing is None else as_number("spacing", spacing, POSITIVE),
        int(as_number("max_points", max_points, Domain(16.0, 2.0**26, integer=True))),
    )
    cells = as_cells(name, target)
    lower, upper = np.empty(cells.shape), np.empty(cells.shape)
    status = np.empty(cells.shape, dtype=np.uint8)
    ask = query.delta if delta is None else query.epsilon
    for i in np.ndindex(cells.shape):
        lower[i], upper[i], status[i] = ask(float(cells[i]))
    return as_bounds(lower, upper, status)


@dataclass(frozen=True)
class PLD(Method):
    """Discretised privacy-loss distributions of both directions: the slow cross-check of the exact accountant.

    **Guarantee.** Certified upper bounds (and lower ones in `bounds`), for the sampled Gaussian; each direction is
    composed separately.  About a second per cell, in Python.

    Parameters
    ----------
    spacing : float, optional
        One grid for all; by default it is chosen and refined for each cell.
    tolerance : float in (0, 1)
        Refine until the upper bound moves by no more than this (relative); in `bounds`, until the interval is no wider.

    Examples
    --------
    >>> import fastacct as fa
    >>> from fastacct.pld import PLD
    >>> run = dict(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    >>> 1.828236666516577 <= fa.dpsgd.epsilon(**run, accountant=PLD()) <= 1.8283
    True
    """

    spacing: float | None = None
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        as_number("tolerance", self.tolerance, SHARE)
        if self.spacing is not None:
            as_number("spacing", self.spacing, POSITIVE)

    def read(self, question: Question) -> Answer:
        """Certified upper bound."""
        _, upper, status = self._loop(question, True)
        return Answer(upper, status)

    def bounds(self, question: Question) -> Bounds:
        """Certified lower and upper bounds."""
        return Bounds(*self._loop(question, False))

    def calibrate(self, question: Question) -> Answer:
        """Safe side of the boundary, within `tolerance` relative of it."""
        index = SOLVE_FOR[question.wanted]
        start = RDP().calibrate(question)
        cells = [np.broadcast_to(cell, question.shape) for cell in question.cells]
        values, status = np.empty(question.shape), np.zeros(question.shape, dtype=np.uint8)
        for i in np.ndindex(question.shape):
            epsilon, delta, *others = (float(cell[i]) for cell in cells)
            others.insert(index, 0.0)
            values[i] = self._boundary(index, others, epsilon, delta, float(start.values[i]), question.neighbors)
            status[i] = Status.NOT_MET if math.isinf(values[i]) and index == 0 else Status.TIGHT
        return Answer(values, status)

    def _loop(self, question: Question, one_sided: bool) -> tuple[Cells, Cells, Codes]:
        *run, target = question.cells
        lower, upper = np.empty(question.shape), np.empty(question.shape)
        status = np.zeros(question.shape, dtype=np.uint8)
        cells = [
            np.broadcast_to(cell, question.shape) for cell in (question.cells if not question.history else [target])
        ]
        for i in np.ndindex(question.shape):
            row = [float(cell[i]) for cell in cells]
            if question.history:
                blocks = list(zip(*(part.tolist() for part in run), strict=True))
            else:
                blocks = [(row[0], row[1], row[2])]
            lower[i], upper[i], status[i] = self._cell(blocks, question.wanted, row[-1], question.neighbors, one_sided)
        return lower, upper, status

    def _cell(
        self, blocks: Sequence[tuple[float, float, float]], wanted: str, target: float, neighbors: str, one_sided: bool
    ) -> Found:
        """Bounds of one run: the larger of the directions that `neighbors` asks for."""
        used = [block for block in blocks if block[1] > 0.0 and block[2] > 0.0 and block[0] < math.inf]
        nothing, everything = Found(0.0, 0.0, Status.TIGHT), Found(0.0, math.inf, Status.NOT_MET)
        if not used or (target >= 1.0 if wanted == "epsilon" else target == math.inf):
            return nothing
        if wanted == "delta":
            everything = Found(0.0, 1.0, Status.NOT_MET)
        elif target == 0.0:
            return Found(math.inf, math.inf, Status.NOT_MET)
        if any(block[0] == 0.0 for block in used):
            return everything._replace(lower=everything.upper)
        answers: list[Found] = []
        for direction in DIRECTIONS if neighbors in ("add_remove", "zero_out") else (neighbors,):
            if answers and all(q == 1.0 for _, q, _ in used):
                break
            try:
                pairs = _pairs((LossDistribution.from_sampled_gaussian(s, q, direction), int(n)) for s, q, n in used)
                if answers and one_sided:
                    # mostly the first direction is the larger one by far
                    rough = _ask(Query(pairs, 0.05, self.spacing, one_sided=True), wanted, target)
                    if rough.upper <= answers[0].upper:
                        continue
                answers.append(_ask(Query(pairs, self.tolerance, self.spacing, one_sided=one_sided), wanted, target))
            except OutOfReachError:
                return everything
        return Found(
            max(one.lower for one in answers), max(one.upper for one in answers), max(one.status for one in answers)
        )

    def _boundary(
        self, index: int, run: Sequence[float], epsilon: float, delta: float, start: float, neighbors: str
    ) -> float:
        """The best value of one parameter that meets (epsilon, delta), from one that does."""

        def excess(value: float) -> float:
            block = [*run[:index], value, *run[index + 1 :]]
            found = self._cell([(block[0], block[1], block[2])], "delta", epsilon, neighbors, True)
            return math.log(max(found.upper, 1e-320)) - math.log(delta)

        if delta == 0.0 or delta >= 1.0 or math.isinf(epsilon):
            return start
        best, limit, step = (start, 1e-3, 0.8) if index == 0 else (start, 1.0 if index == 1 else 2.0**53, 1.5)
        if index == 0 and math.isinf(start):
            best = next((value for value in (1e3, 1e6) if excess(value) <= 0.0), math.inf)
        if index and start == 0.0:
            first = 1e-12 if index == 1 else 1.0
            best = first if excess(first) <= 0.0 else 0.0
        if math.isinf(best) or best == 0.0 or best == limit:
            return best
        # from the safe side to beyond the boundary, then in between
        bad, bad_excess, best_excess = best, 0.0, excess(best)
        while True:
            bad = max(limit, bad * step) if index == 0 else min(limit, bad * step)
            bad = math.ceil(bad) if index == 2 else bad
            bad_excess = excess(bad)
            if bad_excess > 0.0:
                break
            best, best_excess = bad, bad_excess
            if bad == limit:
                return best
            step = step * step
        while abs(bad / best - 1.0) > self.tolerance and not (index == 2 and bad - best <= 1.0):
            share = min(max(-best_excess / (bad_excess - best_excess), 0.02), 0.98)
            middle = best * (bad / best) ** share
            middle = min(max(math.floor(middle), best + 1.0), bad - 1.0) if index == 2 else middle
            value = excess(middle)
            if value > 0.0:
                bad, bad_excess, best_excess = middle, value, 0.5 * best_excess
            else:
                best, best_excess, bad_excess = middle, value, 0.5 * bad_excess
        return best


def _ask(query: Query, wanted: str, target: float) -> Found:
    return query.epsilon(target) if wanted == "epsilon" else query.delta(target)


def _pairs(parts: Iterable[tuple[LossDistribution, int]]) -> list[Pair]:
    made = []
    for i, part in enumerate(parts):
        if not isinstance(part, tuple | list) or len(part) != 2 or not isinstance(part[0], LossDistribution):
            raise TypeError(f"parts[{i}] must be (LossDistribution, count), not {part!r}")
        count = int(as_number(f"parts[{i}] count", part[1], COUNT))
        made.append(Pair(part[0].upper_source, part[0].lower_source, count))
    return made
