"""What every accountant is: frozen settings that answer what they can and refuse the rest with a message."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np

from fastacct.core.bounds import Bounds
from fastacct.core.engine import in_pieces, run_kernel
from fastacct.core.inputs import MAX_STEPS, Cells, Codes
from fastacct.core.relations import SAMPLED, Relation
from fastacct.core.search import boundary
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process

if TYPE_CHECKING:
    from fastacct.readers.job import Ask

__all__ = ["Fixed", "Method", "Run", "Wanted", "by_kernel", "by_search"]

Wanted = Literal["noise_multiplier", "sample_rate", "steps"]
"""What a calibration may ask for: the parameter of a run that just meets (epsilon, delta)."""
_PLACES: Final[dict[Wanted, int]] = {"noise_multiplier": 0, "sample_rate": 1, "steps": 2}
"""As the kernels number them."""
Fixed = tuple[Cells, Cells, Cells]
"""Of a calibration: epsilon, and of noise_multiplier, sample_rate, steps the two that are not wanted, in this order."""
Run = tuple[Cells, Cells, Cells]
"""Noise multiplier, sample rate and steps, not broadcast."""
MOST_NOISE: Final = 1e12
SMALLEST_RATE: Final = 1e-30


@dataclass(frozen=True)
class Method:
    """Base of all accountants: settings that say how a job is evaluated, or a refusal with a message."""

    certified: ClassVar[bool] = True
    """Whether the answers are proved upper bounds; the others are reached through `*_approx` functions only."""
    relations: ClassVar[tuple[Relation, ...]] = SAMPLED
    """Neighbouring relations under which it covers sampled Gaussians."""

    def bounds(self, job: Process, ask: Ask) -> Bounds:
        """Certified bounds of epsilon or delta; lower ones are 0 where only upper ones are asked for."""
        self._refuse_lower(ask)
        runs = self._runs(job, ask.relation)
        if len(runs) != 1:
            raise self.cannot(f"{ask.quantity} of a heterogeneous history")
        return Bounds(np.zeros(ask.shape), *self._upper(runs[0], ask))

    def calibrate(self, wanted: Wanted, fixed: Fixed, ask: Ask) -> Cells:
        """The parameter wanted at the deltas asked, on the safe side of the boundary."""
        raise self.cannot(f"calibration of {wanted}")

    def cannot(self, what: str) -> ValueError:
        """The error of an accountant that does not offer something."""
        return ValueError(f"accountant {type(self).__name__} does not offer {what}; use fastacct.Exact()")

    def _upper(self, run: Run, ask: Ask) -> tuple[Cells, Codes]:
        """Epsilon or delta of one sampled Gaussian."""
        raise self.cannot(ask.quantity)

    def _refuse_lower(self, ask: Ask) -> None:
        if not ask.only_upper:
            raise ValueError(f"accountant {type(self).__name__} proves no lower bound; use fastacct.Exact()")

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
    op: int, wanted: Wanted, fixed: Fixed, ask: Ask, conversion: int, orders: Cells | None, per_task: int = 256
) -> Cells:
    """Calibrate all cells by a kernel."""
    epsilon, first, second = fixed
    inputs, how = (epsilon, ask.target, first, second), {"option": _PLACES[wanted], "conversion": conversion}
    (values,), _ = run_kernel(op, inputs, ask.shape, 1, ask.threads, orders=orders, cells_per_task=per_task, **how)
    return values


def by_search(method: Method, wanted: Wanted, fixed: Fixed, ask: Ask) -> Cells:
    """Calibrate each cell by a search of its own; every value returned has been tried and is on the safe side."""
    cells = [np.broadcast_to(cell, ask.shape).ravel() for cell in (ask.target, *fixed)]
    values = np.empty(math.prod(ask.shape))

    def work(i: int, _: int) -> int:
        delta, epsilon, *others = (float(cell[i]) for cell in cells)

        def level(x: float) -> float:
            run = others.copy()
            run.insert(_PLACES[wanted], x)
            job = Gaussian(run[0]).poisson(run[1]) * int(run[2])
            value = float(method.bounds(job, ask._replace(target=np.array(delta), shape=(), threads=1)).upper)
            if value <= epsilon:
                return max(-2.0, math.log(value / epsilon)) if value > 0.0 else -2.0
            return min(2.0, math.log(value / epsilon)) + 1e-300 if epsilon > 0.0 and value < math.inf else 2.0

        values[i] = _searched(wanted, level, delta >= 1.0 or epsilon == math.inf, delta == 0.0, *others)
        return i + 1

    in_pieces(values.size, ask.threads, work)
    return values.reshape(ask.shape)


def _searched(
    wanted: Wanted, level: Callable[[float], float], is_free: bool, is_hopeless: bool, first: float, second: float
) -> float:
    if wanted == "noise_multiplier":
        if is_free or first == 0.0 or second == 0.0:
            return 0.0
        return math.inf if is_hopeless or level(MOST_NOISE) > 0.0 else boundary(level, None, "")
    if is_free or first == math.inf or second == 0.0:
        return 1.0 if wanted == "sample_rate" else math.inf
    if is_hopeless or first == 0.0 or level(SMALLEST_RATE if wanted == "sample_rate" else 1.0) > 0.0:
        return 0.0
    return boundary(level, (SMALLEST_RATE, 1.0), "") if wanted == "sample_rate" else _largest_count(level)


def _largest_count(level: Callable[[float], float]) -> float:
    """The largest whole number with a level of at most 0, from 1 on."""
    low, high = 1, 4
    while level(high) <= 0.0:
        if high == MAX_STEPS:
            return float(high)
        low, high = high, int(min(4.0 * high, MAX_STEPS))
    return float(boundary(level, (low, high), ""))
