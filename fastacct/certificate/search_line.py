"""Lines that let the checker prove ten digits and more.  Nothing here is part of the proof."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

Job = dict[str, Any]
Plan = dict[str, Any]

_CUTS: Final = tuple(0.3 + 0.02 * k for k in range(20))
_MOST_NODES: Final = 2_000
"""They take about a minute."""
_REACH: Final = 1.5
"""More standard deviations than the digits ask for."""


def _least(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a convex function of a logarithm is least, to a percent."""
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    while high - low > 0.01:
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if value(a) <= value(b) else (a, high)
    return 0.5 * (low + high)


class Lines:
    """The lines of a job in both directions, at about (epsilon, delta)."""

    def __init__(self, checker: Any, job: Job, epsilon: float, delta: float, digits: int) -> None:
        self.checker, self.job, self.epsilon = checker, job, epsilon
        self.digits, self.need = digits, math.log(10.0) * (digits + 2)
        self.log_delta = math.log(delta)
        self.reach = _REACH + math.sqrt(2.0 * (self.need - self.log_delta))
        self.bits = 32 * math.ceil((40.0 + (self.need - self.log_delta) / math.log(2.0)) / 32.0)
        if any(not {"gaussian", "mixture", "laplace"} & set(one) or "at_most" in one for one in job["releases"]):
            raise ValueError(
                "more than 7 digits are proved of Gaussian noise, its samples and mixtures, and Laplace alone"
            )

    def _parts(self, direction: str, c: float) -> list[tuple[Any, int]]:
        line, checker = self.checker.beside("line"), self.checker
        at = checker.arb(c if direction == "remove" else 1.0 - c)
        parts = [
            line.part(one, self.job["relation"], at, checker.arb(self.reach), checker) for one in self.job["releases"]
        ]
        return [(part, one["count"]) for part, one in zip(parts, self.job["releases"], strict=True)]

    def _log(self, direction: str, c: float) -> float:
        """log F(c)."""
        total = -(c - 1.0) * self.epsilon - math.log(c * (c - 1.0))
        for part, times in self._parts(direction, c):
            log_moment = float(part.moment(self.checker.acb(part.c)).real.upper().log().mid())
            total += times * log_moment if log_moment < math.inf else math.inf
        return total

    def plan(self, direction: str) -> Plan:
        """Everything that the checker asks for."""
        self.checker.ctx.prec = self.bits
        log_c = _least(lambda x: self._log(direction, 1.0 + math.exp(x)), -4.0, 5.0)
        c = round(1.0 + math.exp(log_c), 4)
        near = 0.01 * (c - 1.0)
        logs = [self._log(direction, c + shift) for shift in (-near, 0.0, near)]
        spread = max((logs[0] - 2.0 * logs[1] + logs[2]) / near**2, 1e-6)
        apart = 1.5 * math.sqrt(2.0 * spread * self.need) + 1.5 * self.need / (c - 1.0) * (
            spread * (c - 1.0) ** 2 < 1.0
        )
        step, parts = float(f"{2.0 * math.pi / apart:.3g}"), self._parts(direction, c)
        nodes, cuts = 16, [0.5] * len(parts)
        while nodes < _MOST_NODES:
            log_rest = -(c - 1.0) * self.epsilon - math.log(math.pi * nodes * step)
            for i, (part, times) in enumerate(parts):
                far = self.checker.arb(nodes * step)
                found = [(float(part.bound(far, self.checker.arb(cut)).upper().log().mid()), cut) for cut in _CUTS]
                least, cuts[i] = min(pair for pair in found if not math.isnan(pair[0]))
                log_rest += times * least
            if log_rest < self.log_delta - self.need:
                break
            nodes = math.ceil(1.4 * nodes)
        else:
            raise ValueError(f"{self.digits} digits of this job take over {_MOST_NODES:,} nodes: ask for 7 or fewer")
        return {
            "line": f"{c:.4f}",
            "step": f"{step:.6f}",
            "nodes": nodes,
            "cuts": [f"{cut:.2f}" for cut in cuts],
            "reach": f"{self.reach:.2f}",
            "bits": self.bits,
        }
