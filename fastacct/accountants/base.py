"""What every accountant is: frozen settings that answer what they can and refuse the rest with a message."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple

import numpy as np

from fastacct.core.bounds import Bounds, Status
from fastacct.core.engine import in_pieces, run_kernel
from fastacct.core.inputs import MAX_STEPS, Cells, Codes
from fastacct.core.relations import SAMPLED, Relation
from fastacct.core.search import boundary
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.readers.job import Ask

__all__ = ["Calibration", "Method", "Run", "Wanted", "by_kernel", "by_search"]

Wanted = Literal["noise_multiplier", "sample_rate", "steps"]
SOLVE_FOR: Final[dict[Wanted, int]] = {"noise_multiplier": 0, "sample_rate": 1, "steps": 2}
"""What a calibration may ask for, as the kernels number it."""
Run = tuple[Cells, Cells, Cells]
"""Noise multiplier, sample rate and steps, not broadcast."""


class Calibration(NamedTuple):
    """What is asked of a calibration: a parameter of a run that just meets (epsilon, delta)."""

    wanted: Wanted
    cells: tuple[Cells, Cells, Cells, Cells]
    """epsilon, delta, and of noise_multiplier, sample_rate, steps the two that are known, in this order."""
    shape: tuple[int, ...]
    relation: Relation
    threads: int


@dataclass(frozen=True)
class Method:
    """Base of all accountants: settings that say how a job is evaluated, or a refusal with a message."""

    certified: ClassVar[bool] = True
    """Whether the answers are proved upper bounds; the others are reached through `*_approx` functions only."""
    relations: ClassVar[tuple[Relation, ...]] = SAMPLED
    """Neighbouring relations under which it covers sampled Gaussians."""

    def bounds(self, job: Process, ask: Ask) -> Bounds:
        """Certified bounds of epsilon or delta; lower ones are 0 where only upper ones are asked for."""
        if not ask.only_upper:
            raise ValueError(f"accountant {type(self).__name__} proves no lower bound; use fastacct.Exact()")
        values, status = self._upper(self._run(job, ask.relation, ask.quantity), ask)
        return Bounds(np.zeros(ask.shape), values, status)

    def calibrate(self, ask: Calibration) -> tuple[Cells, Codes]:
        """The parameter wanted, on the safe side of the boundary, and a status."""
        raise self.cannot(f"calibration of {ask.wanted}")

    def _upper(self, run: Run, ask: Ask) -> tuple[Cells, Codes]:
        """Epsilon or delta of one sampled Gaussian."""
        raise self.cannot(ask.quantity)

    def cannot(self, what: str) -> ValueError:
        """The error of an accountant that does not offer something."""
        return ValueError(f"accountant {type(self).__name__} does not offer {what}; use fastacct.Exact()")

    def _run(self, job: Process, relation: Relation, what: str) -> Run:
        """The run that a job is, or a refusal."""
        runs = self._runs(job, relation)
        if len(runs) != 1:
            raise self.cannot(f"{what} of a heterogeneous history")
        return runs[0]

    def _runs(self, job: Process, relation: Relation) -> list[Run]:
        """The sampled Gaussians that a job consists of, or a refusal."""
        name, found = type(self).__name__, []
        for mechanism, count in job.decompose(relation):
            one = mechanism.sampled_gaussian(relation)
            if one is None:
                if relation not in self.relations and mechanism.sampled_gaussian("add_remove") is not None:
                    raise ValueError(
                        f"accountant {name} does not cover {mechanism!r} under neighbors = {relation!r}: its "
                        "dominating pair is another one; use fastacct.Exact()"
                    )
                raise ValueError(
                    f"accountant {name} covers Gaussians and their Poisson samples, not {mechanism!r}; use "
                    "fastacct.Exact()"
                )
            found.append((one.noise, one.rate, np.asarray(count, dtype=np.float64)))
        return found or [(np.asarray(1.0), np.asarray(0.0), np.asarray(0.0))]


def by_kernel(
    op: int, ask: Calibration, conversion: int, orders: Cells | None, cells_per_task: int = 256
) -> tuple[Cells, Codes]:
    """All cells by a kernel."""
    (values,), status = run_kernel(
        op,
        ask.cells,
        ask.shape,
        1,
        ask.threads,
        option=SOLVE_FOR[ask.wanted],
        conversion=conversion,
        orders=orders,
        cells_per_task=cells_per_task,
    )
    return values, status


MOST_NOISE: Final = 1e12
SMALLEST_RATE: Final = 1e-30


def by_search(method: Method, ask: Calibration) -> tuple[Cells, Codes]:
    """Each cell by a search of its own; every value returned has been tried and is on the safe side."""
    cells = [np.broadcast_to(cell, ask.shape).ravel() for cell in ask.cells]
    total = math.prod(ask.shape)
    values, status = np.empty(total), np.empty(total, dtype=np.uint8)

    def work(i: int, _: int) -> int:
        epsilon, delta, first, second = (float(cell[i]) for cell in cells)

        def level(noise: float, rate: float, steps: float) -> float:
            job = Gaussian(noise).poisson(rate) * int(steps)
            asked = Ask("epsilon", np.array(delta), (), ask.relation, only_upper=True)
            value = float(method.bounds(job, asked).upper)
            if value <= epsilon:
                return max(-2.0, math.log(value / epsilon)) if value > 0.0 else -2.0
            return min(2.0, math.log(value / epsilon)) + 1e-300 if epsilon > 0.0 and value < math.inf else 2.0

        values[i], status[i] = _searched(ask.wanted, level, epsilon, delta, first, second)
        return i + 1

    in_pieces(total, ask.threads, work)
    return values.reshape(ask.shape), status.reshape(ask.shape)


def _searched(
    wanted: Wanted,
    level: Callable[[float, float, float], float],
    epsilon: float,
    delta: float,
    first: float,
    second: float,
) -> tuple[float, int]:
    free, hopeless = delta >= 1.0 or epsilon == math.inf, delta == 0.0 or first == 0.0
    if wanted == "noise_multiplier":
        if free or first == 0.0 or second == 0.0:
            return 0.0, Status.TIGHT
        if delta == 0.0 or level(MOST_NOISE, first, second) > 0.0:
            return math.inf, Status.NOT_MET
        return boundary(lambda x: level(x, first, second), None, ""), Status.TIGHT
    if wanted == "sample_rate":
        if free or first == math.inf or second == 0.0:
            return 1.0, Status.TIGHT
        if hopeless or level(first, SMALLEST_RATE, second) > 0.0:
            return 0.0, Status.TIGHT
        return boundary(lambda x: level(first, x, second), (SMALLEST_RATE, 1.0), ""), Status.TIGHT
    if free or first == math.inf or second == 0.0:
        return math.inf, Status.TIGHT
    if hopeless or level(first, second, 1.0) > 0.0:
        return 0.0, Status.TIGHT
    return _largest_count(lambda steps: level(first, second, steps)), Status.TIGHT


def _largest_count(level: Callable[[float], float]) -> float:
    """The largest whole number with a level of at most 0, from 1 on."""
    low, high = 1, 4
    while level(high) <= 0.0:
        if high == MAX_STEPS:
            return float(high)
        low, high = high, int(min(4.0 * high, MAX_STEPS))
    return float(boundary(level, (low, high), ""))
