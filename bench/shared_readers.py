"""How much 100 targets of one job cost, in units of one: `python -m bench.shared_readers`.

Every call makes its job anew, so that nothing is shared but what one call shares.  Processor time, the least of up to
25 calls of either kind in turn; one target is the middle one.  The goal is 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import fastacct as fa

GOAL: Final = 5.0
TARGETS: Final = 100


def normal_p(y: float) -> float:
    return -0.125 * (y - 1.0) * (y - 1.0) - 1.612085713764618


def normal_q(y: float) -> float:
    return -0.125 * y * y - 1.612085713764618


def jobs() -> dict[str, Callable[[], Any]]:
    """Jobs on a grid and on the line of Python, each made when it is called."""
    compiled = fa.jit.mechanism(log_density_p=normal_p, log_density_q=normal_q)
    return {
        "Laplace(5) * 100": lambda: fa.Laplace(5.0) * 100,
        "Gaussian(5) * 2 + Laplace(4) * 2": lambda: fa.Gaussian(5.0) * 2 + fa.Laplace(4.0) * 2,
        "DiscreteGaussian(3) + Laplace(4)": lambda: fa.DiscreteGaussian(3.0) + fa.Laplace(4.0),
        "sampled Gaussian * 1000 + Laplace(5) * 3": lambda: fa.Gaussian(1.0).poisson(0.01) * 1000 + fa.Laplace(5.0) * 3,
        "a compiled Gaussian * 100": lambda: compiled * 100,
    }


def seconds(calls: tuple[Callable[[], Any], ...]) -> list[float]:
    """The least processor time of each call, taken in turn: up to 25 times within a few seconds, and at least twice."""
    spans: list[list[float]] = [[] for _ in calls]
    while len(spans[0]) < 2 or (len(spans[0]) < 25 and sum(map(sum, spans)) < 4.0):
        for call, own in zip(calls, spans, strict=True):
            start = time.process_time()
            call()
            own.append(time.process_time() - start)
    return [min(own) for own in spans]


def main() -> None:
    print("| job | question | one (ms) | 100 (ms) | ratio |\n|---|---|---|---|---|")
    for name, make in jobs().items():
        top = float(fa.epsilon(make(), delta=1e-6, threads=1))
        questions: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "epsilon": (lambda x, m=make: fa.epsilon(m(), delta=x, threads=1), np.geomspace(1e-9, 1e-2, TARGETS)),
            "delta": (lambda x, m=make: fa.delta(m(), epsilon=x, threads=1), np.linspace(0.1 * top, top, TARGETS)),
            "tradeoff": (lambda x, m=make: fa.tradeoff(m(), x, threads=1), np.linspace(0.005, 0.9, TARGETS)),
        }
        for question, (ask, targets) in questions.items():
            one, all_of_them = seconds((partial(ask, targets[TARGETS // 2]), partial(ask, targets)))
            ratio, mark = all_of_them / one, "" if all_of_them <= GOAL * one else " > 5"
            print(
                f"| {name} | {question} | {one * 1e3:.1f} | {all_of_them * 1e3:.1f} | {ratio:.1f}{mark} |", flush=True
            )


if __name__ == "__main__":
    main()
