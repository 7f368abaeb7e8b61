"""Calibration where no kernel does it: a search for the boundary, from its safe side, by the answers themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from fastacct._arrays import MAX_STEPS, in_pieces
from fastacct._exact_runs import Read
from fastacct.accountants import Answer, Question
from fastacct.bounds import Status

WIDTH: Final = 1e-10
"""Relative width of the last bracket."""
NOISE_RANGE: Final = (1e-6, 1e12)
SMALLEST_RATE: Final = 1e-30


def calibrate(question: Question, read: Read) -> Answer:
    """Each cell by a search of its own, on several threads; every value returned has been tried and is good."""
    cells = [np.broadcast_to(cell, question.shape).ravel() for cell in question.cells]
    total = math.prod(question.shape)
    values, status = np.empty(total), np.empty(total, dtype=np.uint8)

    def work(i: int, _: int) -> int:
        epsilon, delta, first, second = (float(cell[i]) for cell in cells)

        def reached(noise: float, rate: float, steps: float) -> float:
            run = (np.asarray(noise), np.asarray(rate), np.asarray(steps), np.asarray(delta))
            return float(read(Question("epsilon", run, (), question.neighbors)))

        values[i], status[i] = _cell(question.wanted, reached, epsilon, delta, first, second)
        return i + 1

    in_pieces(total, question.threads, work)
    return Answer(values.reshape(question.shape), status.reshape(question.shape))


def _cell(
    wanted: str,
    reached: Callable[[float, float, float], float],
    epsilon: float,
    delta: float,
    first: float,
    second: float,
) -> tuple[float, int]:
    free = delta >= 1.0 or epsilon == math.inf

    def excess(noise: float, rate: float, steps: float) -> float:
        """About log(reached / epsilon); its sign is exact."""
        value = reached(noise, rate, steps)
        if value <= epsilon:
            return max(-2.0, math.log(value / epsilon)) if value > 0.0 else -2.0
        return min(2.0, math.log(value / epsilon)) + 1e-300 if epsilon > 0.0 and value < math.inf else 2.0

    if wanted == "noise_multiplier":
        if free or first == 0.0 or second == 0.0:
            return 0.0, Status.TIGHT
        low, high = NOISE_RANGE
        found = None if delta == 0.0 else _boundary(lambda x: excess(x, first, second), 1.0, high, low)
        return (math.inf, Status.NOT_MET) if found is None else (found, Status.TIGHT)
    if wanted == "sample_rate":
        if free or first == math.inf or second == 0.0:
            return 1.0, Status.TIGHT
        hopeless = delta == 0.0 or first == 0.0
        found = None if hopeless else _boundary(lambda x: excess(first, x, second), 0.01, SMALLEST_RATE, 1.0)
        return 0.0 if found is None else found, Status.TIGHT
    if free or first == math.inf or second == 0.0:
        return math.inf, Status.TIGHT
    if delta == 0.0 or first == 0.0:
        return 0.0, Status.TIGHT
    return _largest_count(lambda steps: excess(first, second, steps)), Status.TIGHT


def _boundary(excess: Callable[[float], float], start: float, good_end: float, bad_end: float) -> float | None:
    """x with excess(x) <= 0 next to the change of sign, between the two ends; None if there is none.

    Steps outwards from `start` to a bracket, then false position in log x, guarded by bisection.
    """
    good = bad = start
    at_good = at_bad = excess(start)
    step = 0.7
    while at_bad <= 0.0:
        good, at_good = bad, at_bad
        if good == bad_end:
            return good
        bad = _towards(good, bad_end, step)
        at_bad, step = excess(bad), 2.0 * step
    while at_good > 0.0:
        bad, at_bad = good, at_good
        if bad == good_end:
            return None
        good = _towards(bad, good_end, step)
        at_good, step = excess(good), 2.0 * step
    for i in range(200):
        width = math.log(bad / good)
        if abs(width) <= WIDTH:
            break
        share = at_good / (at_good - at_bad) if i % 3 else 0.5
        near = min(0.25, 0.3 * WIDTH / abs(width))  # not closer to an end: the bracket can then close
        x = good * math.exp(width * min(max(share, near), 1.0 - near))
        value = excess(x)
        if value <= 0.0:
            good, at_good = x, value
        else:
            bad, at_bad = x, value
    return good


def _towards(x: float, end: float, step: float) -> float:
    """`x` moved by a factor exp(step) towards `end`, not beyond."""
    factor = math.exp(min(step, 100.0))
    return min(x * factor, end) if end > x else max(x / factor, end)


def _largest_count(excess: Callable[[float], float]) -> float:
    """The largest whole number with excess <= 0; 0 if 1 is too many."""
    good, bad = 0.0, 1.0
    while excess(bad) <= 0.0:
        good = bad
        if good == MAX_STEPS:
            return good
        bad = min(4.0 * bad, MAX_STEPS)
    while bad - good > 1.0:
        middle = math.sqrt(good) * math.sqrt(bad) if bad > 2.0 * good else 0.5 * (good + bad)
        middle = min(max(float(math.floor(middle)), good + 1.0), bad - 1.0)
        if excess(middle) <= 0.0:
            good = middle
        else:
            bad = middle
    return good
