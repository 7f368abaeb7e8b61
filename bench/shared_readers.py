"""What cells and targets share: `python -m bench.shared_readers`.

How much 100 targets of one job cost, in units of one.  Every call makes its job anew, so that nothing is shared but
what one call shares.  Processor time, the least of up to 25 calls of either kind in turn; one target is the middle one.
The goal is 5.

Exact epsilons of DP-SGD that have (noise multiplier, sample rate) in common, against the same cells where nothing is
shared.  One thread, processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import fastacct as fa
from bench import scores, timing

GOAL: Final = 5.0
TARGETS: Final = 100


def normal_p(y: float) -> float:
    return -0.125 * (y - 1.0) * (y - 1.0) - 1.612085713764618


def normal_q(y: float) -> float:
    return -0.125 * y * y - 1.612085713764618


def jobs() -> dict[str, Callable[[], Any]]:
    """Jobs on a grid, on the line of Python and on the capped line, each made when it is called."""
    mixed = [
        (fa.Gaussian(run.noise_multiplier).poisson(run.sample_rate), 1 + run.steps // 100)
        for run in scores.draw("everyday", 100)
    ]
    compiled = fa.jit.mechanism(log_density_p=normal_p, log_density_q=normal_q)
    return {
        "Laplace(5) * 100": lambda: fa.Laplace(5.0) * 100,
        "Gaussian(5) * 2 + Laplace(4) * 2": lambda: fa.Gaussian(5.0) * 2 + fa.Laplace(4.0) * 2,
        "DiscreteGaussian(3) + Laplace(4)": lambda: fa.DiscreteGaussian(3.0) + fa.Laplace(4.0),
        "sampled Gaussian * 1000 + Laplace(5) * 3": lambda: fa.Gaussian(1.0).poisson(0.01) * 1000 + fa.Laplace(5.0) * 3,
        "a compiled Gaussian * 100": lambda: compiled * 100,
        "100 different sampled Gaussians": lambda: fa.Process(mixed),
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


def grid() -> dict[str, Any]:
    """21 deltas, 60 numbers of steps (1 to 300 participations) and 6 pairs of noise multiplier and sample rate."""
    pairs = scores.draw("everyday", 6)
    rate = pairs.sample_rate[:, None, None]
    return {
        "noise_multiplier": pairs.noise_multiplier[:, None, None],
        "sample_rate": rate,
        "steps": np.ceil(np.geomspace(1.0, 300.0, 60)[:, None] / rate),
        "delta": np.geomspace(1e-9, 1e-4, 21),
    }


def shared_grid(rounds: int) -> tuple[str, str]:
    """A grid in one array call, its cells in random order, and its cells one call after the other."""
    axes = grid()
    values = np.asarray(fa.dpsgd.epsilon(**axes, threads=1))
    order = np.random.default_rng(scores.SEED).permutation(values.size)
    shuffled: dict[str, Any] = {name: np.broadcast_to(axis, values.shape).ravel()[order] for name, axis in axes.items()}
    queries = [
        dict(zip(shuffled, row, strict=True)) for row in zip(*(c.tolist() for c in shuffled.values()), strict=True)
    ]

    def each() -> list[Any]:
        return [fa.dpsgd.epsilon(**query) for query in queries]

    if not values.ravel()[order].tolist() == np.asarray(fa.dpsgd.epsilon(**shuffled)).tolist() == each():
        raise AssertionError("a cell depends on those beside it")
    spent = [
        min(timing.span(call).cpu for _ in range(rounds)) / values.size * 1e6
        for call in (
            partial(fa.dpsgd.epsilon, **axes, threads=1),
            partial(fa.dpsgd.epsilon, **shuffled, threads=1),
            each,
        )
    ]
    return (
        f"exact grid of {values.size:,} cells ({' x '.join(map(str, reversed(values.shape)))}: deltas, steps, pairs), "
        "1 thread: together; in random order; one by one",
        f"{spent[0]:.2f} us; {spent[1]:.2f} us; {spent[2]:.2f} us a cell: {spent[1] / spent[0]:.1f} times",
    )


def further_deltas(rounds: int) -> tuple[str, str]:
    """What each further delta of a run costs in one array call."""
    deltas = np.geomspace(1e-9, 1e-3, TARGETS)
    further, single = [], []
    for query in scores.draw("everyday", 20):
        run = query._asdict()
        calls = [
            partial(fa.dpsgd.epsilon, **(run | {"delta": d}), threads=1) for d in (deltas, float(deltas[TARGETS // 2]))
        ]
        many, one = (min(timing.span(call).cpu for _ in range(4 * rounds)) for call in calls)
        single.append(one * 1e6)
        further.append((many - one) / (TARGETS - 1) * 1e6)
    return (
        f"exact epsilon of an everyday run at {TARGETS} deltas 1e-9..1e-3, 1 thread, 20 runs: "
        "a further delta, mean, least and most",
        f"{np.mean(further):.2f} us, {min(further):.2f} to {max(further):.2f} us (one alone {np.mean(single):.1f} us)",
    )


def exact_rows(rounds: int) -> list[tuple[str, str]]:
    """What exact cells share, in words and figures."""
    return [shared_grid(rounds), further_deltas(rounds)]


def main() -> None:
    for what, value in exact_rows(rounds=5):
        print(f"{what}: {value}", flush=True)
    print("\n| job | question | one (ms) | 100 (ms) | ratio |\n|---|---|---|---|---|")
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
