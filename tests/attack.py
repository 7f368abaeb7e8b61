"""Random jobs of all mechanisms, relations and targets: what no answer may do, asked of thousands.

    python -m tests.attack --jobs 3000 --seed 1

Of every job: no crash, no answer beyond `SECONDS` of processor time, lower <= upper, delta falls with epsilon and
epsilon with delta, epsilon(delta(epsilon)) is not above epsilon, and a composition is not below one of its parts, nor
below itself with one release less, nor above what Rényi DP says.
"""

from __future__ import annotations

import argparse
import itertools
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

import fastacct as fa
from fastacct.testing import examples

SECONDS = 10.0
_HANGS = 12.0
"""Times `SECONDS` of wall clock after which an answer is given up."""
RELATIONS = ("add_remove", "add", "remove", "replace_one", "zero_out")
ROUNDING = 1e-9


@cache
def known() -> tuple[Any, ...]:
    """The instances of every kind; the release of nothing tells nothing."""
    return tuple(examples())


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _random_table(rng: np.random.Generator) -> Any:
    size = int(rng.integers(2, 8))
    p, q = rng.dirichlet(np.ones(size), 2)
    if rng.random() < 0.3:
        p, q = np.append(p * 0.99, [0.01, 0.0]), np.append(q * 0.99, [0.0, 0.01])
    return fa.from_pmf(p / p.sum(), q / q.sum())


KINDS: dict[str, Callable[[np.random.Generator], Any]] = {
    "Gaussian": lambda rng: fa.Gaussian(_between(rng, 0.2, 100.0)),
    "sampled Gaussian": lambda rng: fa.Gaussian(_between(rng, 0.3, 30.0)).poisson(_between(rng, 1e-6, 1.0)),
    "group of a sample": lambda rng: (
        fa.Gaussian(_between(rng, 0.5, 30.0)).poisson(_between(rng, 1e-4, 1.0)).group(int(rng.integers(2, 9)))
    ),
    "fixed size": lambda rng: fa.Gaussian(_between(rng, 0.5, 30.0)).fixed_size(int(rng.integers(1, 200)), 1000),
    "truncated": lambda rng: fa.Gaussian(_between(rng, 0.5, 30.0)).poisson(
        _between(rng, 1e-3, 0.5), at_most=int(rng.integers(1, 900)), records=1000
    ),
    "Laplace": lambda rng: fa.Laplace(_between(rng, 0.2, 200.0)),
    "sampled Laplace": lambda rng: fa.Laplace(_between(rng, 0.2, 50.0)).poisson(_between(rng, 1e-5, 1.0)),
    "truncated Laplace": lambda rng: fa.TruncatedLaplace(_between(rng, 0.5, 20.0), _between(rng, 1.0, 500.0)),
    "discrete Laplace": lambda rng: fa.DiscreteLaplace(_between(rng, 0.5, 30.0), int(rng.integers(1, 4))),
    "discrete Gaussian": lambda rng: fa.DiscreteGaussian(_between(rng, 0.4, 30.0), int(rng.integers(1, 4))),
    "Skellam": lambda rng: fa.Skellam(_between(rng, 1.0, 300.0)),
    "randomised response": lambda rng: fa.RandomizedResponse(_between(rng, 0.01, 6.0), int(rng.integers(2, 20))),
    "Exponential": lambda rng: fa.Exponential(_between(rng, 0.005, 4.0)),
    "sampled Exponential": lambda rng: fa.Exponential(_between(rng, 0.005, 4.0)).poisson(_between(rng, 1e-4, 1.0)),
    "permute and flip": lambda rng: fa.PermuteAndFlip(_between(rng, 0.005, 4.0)),
    "PureDP": lambda rng: fa.PureDP(_between(rng, 1e-3, 4.0)),
    "sampled ApproxDP": lambda rng: fa.ApproxDP(_between(rng, 1e-3, 4.0), _between(rng, 1e-12, 1e-2)).poisson(
        _between(rng, 1e-3, 1.0)
    ),
    "GDP": lambda rng: fa.GDP(_between(rng, 1e-3, 4.0)),
    "ZCDP": lambda rng: fa.ZCDP(_between(rng, 1e-5, 2.0)),
    "table": _random_table,
    "tree": lambda rng: fa.TreeAggregation(_between(rng, 1.0, 50.0), int(rng.integers(1, 2000))),
    "any": lambda rng: known()[int(rng.integers(len(known())))],
}


def random_job(rng: np.random.Generator) -> tuple[list[tuple[Any, int]], str]:
    """One to three mechanisms with their counts, and a relation that all of them support."""
    while True:
        names = rng.choice(list(KINDS), size=int(rng.choice([1, 2, 2, 3])), replace=False)
        parts = [(KINDS[name](rng), round(_between(rng, 1.0, 1000.0))) for name in names]
        shared = [one for one in RELATIONS if all(one in mechanism.relations for mechanism, _ in parts)]
        if shared:
            return parts, str(rng.choice(shared))


class SlowError(Exception):
    """An answer that took too long."""


@contextmanager
def in_time(what: str, longest: list[tuple[float, str]], answers: int = 1) -> Iterator[None]:
    """Measure processor time an answer, and give one up that hangs."""

    def ring(*_: Any) -> None:
        raise SlowError(f"{what}: no answer in {_HANGS * SECONDS:g} s")

    start = time.process_time()
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(int(_HANGS * SECONDS))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        longest.append(((time.process_time() - start) / answers, what))


def faults(parts: list[tuple[Any, int]], relation: str, rng: np.random.Generator) -> Iterator[str]:
    """What is wrong with the answers about one job; nothing where all is right."""
    longest: list[tuple[float, str]] = []
    job = fa.Process(parts)
    told: dict[str, Any] = {"neighbors": relation}
    deltas = sorted({_between(rng, 1e-300, 0.9), _between(rng, 1e-12, 0.9)})
    found = {}
    try:
        for delta in deltas:
            with in_time(f"epsilon at delta {delta!r}", longest):
                found[delta] = fa.epsilon_bounds(job, delta=delta, **told)
        for low, high in itertools.pairwise(deltas):
            if found[high].upper > found[low].upper * (1.0 + ROUNDING) + 1e-300:
                yield f"epsilon rises with delta: {found[low]} at {low!r}, {found[high]} at {high!r}"
        delta, (lower, upper, _) = deltas[-1], found[deltas[-1]]
        if not 0.0 <= lower <= upper:
            yield f"not 0 <= lower <= upper: {found[delta]} at delta {delta!r}"
        yield from _of_delta(job, told, delta, lower, upper, longest)
        yield from _of_part(parts, told, delta, upper, rng, longest)
        with in_time("Rényi", longest):
            renyi = fa.epsilon(job, delta=delta, accountant=fa.RDP(), **told)
        if lower > renyi * (1.0 + ROUNDING):
            yield f"the lower bound {lower!r} at delta {delta!r} is above what Rényi DP says, {renyi!r}"
    except SlowError as error:
        yield str(error)
    except Exception as error:  # a job of supported mechanisms has an answer
        yield f"{type(error).__name__}: {error}"
    for seconds, what in longest:
        if seconds > SECONDS:
            yield f"slow: {what} took {seconds:.1f} s"


def _of_delta(
    job: Any, told: dict[str, Any], delta: float, lower: float, upper: float, longest: list[tuple[float, str]]
) -> Iterator[str]:
    if not 0.0 < upper < math.inf:
        return
    at = np.array([lower, upper, upper * 1.2])
    with in_time(f"delta at epsilon {at.tolist()}", longest, at.size):
        low, high, _ = fa.delta_bounds(job, epsilon=at, **told)
    if not ((low >= 0.0) & (low <= high) & (high <= 1.0)).all():
        yield f"not 0 <= lower <= upper <= 1: {low}, {high} at epsilon {at.tolist()}"
    if (high[1:] > high[:-1] * (1.0 + ROUNDING)).any():
        yield f"delta rises with epsilon: {high} at {at.tolist()}"
    if low[1] > delta * (1.0 + ROUNDING):
        yield f"delta at epsilon(delta) is {low[1]!r} at least, above {delta!r}"
    if lower > 0.0 and high[0] < delta * (1.0 - ROUNDING):
        yield f"delta at the lower bound {lower!r} of epsilon({delta!r}) is {high[0]!r} at most"


def _of_part(
    parts: list[tuple[Any, int]],
    told: dict[str, Any],
    delta: float,
    upper: float,
    rng: np.random.Generator,
    longest: list[tuple[float, str]],
) -> Iterator[str]:
    at = int(rng.integers(len(parts)))
    mechanism, count = parts[at]
    fewer = (
        [parts[at]]
        if len(parts) > 1 and rng.random() < 0.5
        else [*parts[:at], (mechanism, count - 1), *parts[at + 1 :]]
    )
    with in_time(f"epsilon of {fewer}", longest):
        one = fa.epsilon_bounds(fa.Process(fewer), delta=delta, **told)
    if one.lower > upper * (1.0 + ROUNDING):
        yield f"{upper!r} at delta {delta!r} is below its part {fewer}: {one}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    bad = 0
    for seed in range(given.seed, given.seed + given.jobs):
        rng = np.random.default_rng(seed)
        parts, relation = random_job(rng)
        for fault in faults(parts, relation, rng):
            bad += 1
            print(f"seed {seed}, {relation}, {parts}: {fault}", flush=True)
        if seed % 50 == 0:
            print(f"{seed - given.seed + 1} jobs", file=sys.stderr)
    print(f"{bad} faults in {given.jobs} jobs")
    raise SystemExit(bad > 0)


if __name__ == "__main__":
    main()
