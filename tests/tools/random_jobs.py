"""Random jobs of all mechanisms, samplers, groups and nestings, at everyday sizes and at extreme ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import fastacct as fa
from fastacct.testing import examples

RELATIONS = ("add_remove", "add", "remove", "replace_one", "zero_out")
_EXTREME = 0.06
"""How often a noise, a rate or a count is far from everyday ones."""


@cache
def known() -> tuple[Any, ...]:
    """The instances of every kind; the release of nothing tells nothing."""
    return tuple(examples())


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


class Draws:
    """Random parameters: numbers; with a `size` arrays of it, or their cell `only`, from the same random numbers."""

    def __init__(self, rng: np.random.Generator, size: int = 0, only: int | None = None) -> None:
        self.rng, self.size, self.only = rng, size, only

    def _cells(self, draw: Callable[[], float]) -> Any:
        if not self.size:
            return draw()
        drawn = [draw() for _ in range(self.size)]
        return np.array(drawn) if self.only is None else drawn[self.only]

    def real(self, low: float, high: float) -> Any:
        return self._cells(lambda: self.one(low, high))

    def noise(self, low: float, high: float) -> Any:
        return self._cells(lambda: self.one(low, high) if self.is_usual() else self.one(low / 20.0, high * 100.0))

    def rate(self, low: float) -> Any:
        def draw() -> float:
            return self.one(low, 1.0) if self.is_usual() else float(self.pick((0.0, 1e-12, 0.999999, 1.0)))

        return self._cells(draw)

    def wholes(self, low: int, high: int) -> Any:
        return self._cells(lambda: self.whole(low, high))

    def count(self) -> Any:
        return self._cells(lambda: round(self.one(1.0, 1000.0) if self.is_usual() else self.one(1e3, 1e6)))

    def one(self, low: float, high: float) -> float:
        return between(self.rng, low, high)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def is_usual(self) -> bool:
        return bool(self.rng.random() >= _EXTREME)


def _table(d: Draws) -> Any:
    size = d.whole(2, 7)
    p, q = d.rng.dirichlet(np.ones(size), 2)
    if d.rng.random() < 0.3:
        p, q = np.append(p * 0.99, [0.01, 0.0]), np.append(q * 0.99, [0.0, 0.01])
    return fa.from_pmf(p / p.sum(), q / q.sum())


def _losses(d: Draws) -> Any:
    """Masses under P and losses, of which masses under Q with sum 1 at most follow."""
    p, q = d.rng.dirichlet(np.ones(d.whole(2, 6)), 2)
    return fa.from_losses([*np.log(p / q), math.inf], [*(p * 0.99), 1.0 - float((p * 0.99).sum())])


def _mixture(d: Draws) -> Any:
    weight, far = d.rng.dirichlet(np.ones(3), 2), d.rng.uniform(0.0, 2.0, 2)
    return fa.GaussianMixture(
        d.noise(0.7, 20.0),
        p=list(zip(weight[0].tolist(), (0.0, *far.tolist()), strict=True)),
        q=[(float(1.0 - weight[1][0]), 0.0), (float(weight[1][0]), -float(far[0]))]
        if d.rng.random() < 0.4
        else [(1.0, 0.0)],
    )


def _strategy(d: Draws) -> Any:
    first = np.cumprod([1.0, *(1.0 - 0.5 / np.arange(1, d.whole(2, 6)))])
    steps = d.whole(2, 60)
    return fa.MatrixGaussian.from_strategy(first, d.noise(1.5, 40.0), bins=d.whole(1, min(steps, 30)), steps=steps)


def _curve(d: Draws) -> Any:
    scale = d.one(1e-4, 0.1)
    return fa.RDPCurve((2.0, 4.0, 16.0, 64.0), tuple(scale * a for a in (2.0, 4.5, 20.0, 100.0)))


@cache
def _compiled() -> tuple[Any, ...]:
    """Densities of users: a logistic noise, and a Gaussian one whose width changes."""

    def logistic(x: float) -> float:
        return -abs(x) - 2.0 * math.log1p(math.exp(-abs(x)))

    def moved(x: float) -> float:
        return -abs(x - 0.7) - 2.0 * math.log1p(math.exp(-abs(x - 0.7)))

    def wide(x: float) -> float:
        return -0.125 * x * x - 0.5 * math.log(8.0 * math.pi)

    def narrow(x: float) -> float:
        return -0.5 * (x / 1.9) ** 2 - 0.5 * math.log(2.0 * math.pi * 3.61)

    return (
        fa.jit.mechanism(log_density_p=moved, log_density_q=logistic, breakpoints=[0.0, 0.7]),
        fa.jit.mechanism(log_density_p=narrow, log_density_q=wide),
    )


SIMPLE: dict[str, Callable[[Draws], Any]] = {
    "Gaussian": lambda d: fa.Gaussian(d.noise(0.3, 50.0)),
    "Laplace": lambda d: fa.Laplace(d.noise(0.5, 100.0)),
    "discrete Laplace": lambda d: fa.DiscreteLaplace(d.real(0.5, 30.0), d.whole(1, 3)),
    "discrete Gaussian": lambda d: fa.DiscreteGaussian(d.real(0.4, 30.0), d.whole(1, 3)),
    "randomised response": lambda d: fa.RandomizedResponse(d.real(0.01, 6.0), d.whole(2, 19)),
    "Exponential": lambda d: fa.Exponential(d.real(0.005, 4.0)),
    "PureDP": lambda d: fa.PureDP(d.real(1e-3, 4.0)),
    "ApproxDP": lambda d: fa.ApproxDP(d.real(1e-3, 4.0), d.real(1e-12, 1e-2)),
    "GDP": lambda d: fa.GDP(d.real(1e-3, 4.0)),
    "ZCDP": lambda d: fa.ZCDP(d.real(1e-5, 2.0), d.pick((0.0, 0.0, 0.01))),
    "table": _table,
    "truncated Laplace": lambda d: fa.TruncatedLaplace(d.real(0.5, 20.0), d.real(1.0, 500.0)),
    "staircase": lambda d: fa.Staircase(d.real(0.01, 3.0)),
}


def _simple(d: Draws) -> Any:
    """A mechanism in plain numbers, for what is made of others."""
    return SIMPLE[d.pick(list(SIMPLE))](Draws(d.rng))


def _batch(d: Draws) -> Any:
    """A batch of Gaussian noise in plain numbers, for what is made of others."""
    return KINDS[d.pick(("sampled Gaussian", "fixed size", "with replacement", "truncated", "allocation"))](
        Draws(d.rng)
    )


def _several(d: Draws) -> Any:
    return sum((_simple(d) * d.whole(1, 3) for _ in range(d.whole(1, 2))), _simple(d) * 1)


def _group(made: Any, d: Draws) -> Any:
    return made.group(d.whole(2, 8))


KINDS: dict[str, Callable[[Draws], Any]] = {
    **SIMPLE,
    "sampled Gaussian": lambda d: fa.Gaussian(d.noise(0.3, 30.0)).poisson(d.rate(1e-6)),
    "everyday sampled Gaussian": lambda d: fa.Gaussian(d.noise(0.5, 5.0)).poisson(d.rate(1e-3)),
    "group of a sample": lambda d: _group(fa.Gaussian(d.noise(0.5, 30.0)).poisson(d.rate(1e-4)), d),
    "several samples": lambda d: fa.Gaussian(d.noise(0.5, 30.0)).poisson(d.rate(1e-4), draws=d.whole(2, 6)),
    "fixed size": lambda d: fa.Gaussian(d.noise(0.5, 30.0)).fixed_size(d.wholes(1, 200), 1000),
    "group of a fixed size": lambda d: _group(
        fa.Gaussian(d.noise(1.0, 30.0)).fixed_size(d.wholes(1, 50), d.pick((60, 1000, 50_000))), d
    ),
    "truncated": lambda d: fa.Gaussian(d.noise(0.5, 30.0)).poisson(
        d.real(1e-3, 0.5), at_most=d.wholes(1, 900), records=1000
    ),
    "with replacement": lambda d: fa.Gaussian(d.noise(0.5, 30.0)).with_replacement(
        d.wholes(1, 100), d.pick((20, 1000, 50_000))
    ),
    "group with replacement": lambda d: _group(
        fa.Gaussian(d.noise(1.0, 30.0)).with_replacement(d.wholes(1, 100), d.pick((200, 1000, 50_000))), d
    ),
    "allocation": lambda d: fa.Gaussian(d.noise(0.5, 10.0)).allocation(d.wholes(1, 1000)),
    "allocation over epochs": lambda d: fa.Gaussian(d.noise(1.0, 10.0)).allocation(
        d.wholes(1, 200), epochs=d.wholes(2, 9), bins="persistent"
    ),
    "selected": lambda d: fa.Gaussian(d.noise(1.0, 10.0)).allocation(d.whole(5, 100), selected=d.whole(2, 5)),
    "shuffled": lambda d: fa.Gaussian(d.noise(0.5, 10.0)).shuffled(d.wholes(1, 1000)),
    "shuffled over epochs": lambda d: fa.Gaussian(d.noise(1.0, 10.0)).shuffled(
        d.whole(1, 200), epochs=d.whole(2, 9), bins="persistent"
    ),
    "sampled Laplace": lambda d: fa.Laplace(d.noise(0.3, 50.0)).poisson(d.rate(1e-5)),
    "group of Laplace": lambda d: _group(fa.Laplace(d.noise(1.0, 200.0)), d),
    "sampled truncated Laplace": lambda d: fa.TruncatedLaplace(d.real(0.5, 20.0), d.real(1.0, 500.0)).poisson(
        d.rate(1e-3)
    ),
    "LaplaceL2": lambda d: fa.LaplaceL2(d.noise(0.5, 30.0), d.whole(1, 9)),
    "sampled staircase": lambda d: fa.Staircase(d.real(0.01, 3.0)).poisson(d.rate(1e-3)),
    "sampled discrete Laplace": lambda d: fa.DiscreteLaplace(d.real(0.5, 30.0), d.whole(1, 3)).poisson(d.rate(1e-3)),
    "sampled discrete Gaussian": lambda d: fa.DiscreteGaussian(d.real(0.5, 20.0), 1).poisson(d.rate(1e-4)),
    "Skellam": lambda d: fa.Skellam(d.real(1.0, 300.0)),
    "sampled Skellam": lambda d: fa.Skellam(d.real(2.0, 100.0)).poisson(d.rate(1e-3)),
    "group of answers": lambda d: _group(fa.RandomizedResponse(d.real(0.01, 2.0), d.whole(2, 9)), d),
    "sampled Exponential": lambda d: fa.Exponential(d.real(0.005, 4.0)).poisson(d.rate(1e-4)),
    "permute and flip": lambda d: fa.PermuteAndFlip(d.real(0.005, 4.0), monotone=d.pick((False, True))),
    "above threshold": lambda d: fa.AboveThreshold(d.real(0.01, 1.0)),
    "sparse vector": lambda d: fa.SparseVector(d.real(0.01, 1.0), d.whole(1, 9)),
    "Thresholdout": lambda d: fa.Thresholdout(d.one(0.01, 0.2), d.whole(100, 5000), d.whole(1, 5)),
    "Paprika": lambda d: fa.Paprika(d.real(0.05, 2.0), d.real(1e-9, 1e-5), conditions_hold=True),
    "repeated selection": lambda d: fa.RepeatedSelection(
        d.pick((_simple, _batch, _several))(d), d.one(2.0, 30.0), eta=d.pick((None, 0.0, 0.5, 1.0))
    ),
    "sampled PureDP": lambda d: fa.PureDP(d.real(1e-3, 4.0)).poisson(d.rate(1e-3)),
    "sampled ApproxDP": lambda d: fa.ApproxDP(d.real(1e-3, 4.0), d.real(1e-12, 1e-2)).poisson(d.rate(1e-3)),
    "sampled GDP": lambda d: fa.GDP(d.real(1e-2, 3.0)).poisson(d.rate(1e-3)),
    "sampled ZCDP": lambda d: fa.ZCDP(d.real(1e-5, 1.0)).poisson(d.rate(1e-3)),
    "mean-concentrated": lambda d: fa.MeanConcentratedDP(d.real(1e-4, 0.5), d.real(1e-2, 1.0)),
    "Rényi curve": _curve,
    "losses": _losses,
    "mixture": _mixture,
    "sampled table": lambda d: _table(d).poisson(d.rate(1e-3)),
    "tree": lambda d: fa.TreeAggregation(d.noise(1.0, 50.0), d.whole(1, 2000)),
    "tree of Laplace": lambda d: fa.TreeAggregation(d.noise(2.0, 50.0), d.whole(1, 500), noise="laplace"),
    "DPFTRL": lambda d: fa.DPFTRL(d.noise(2.0, 50.0), d.whole(1, 500), d.whole(1, 5)),
    "BandMF": lambda d: fa.BandMF(d.noise(0.7, 10.0), d.rate(1e-3), d.whole(10, 2000), d.whole(1, 10)),
    "MatrixGaussian": _strategy,
    "noisy iteration": lambda d: fa.NoisyIteration(
        d.one(1.0, 20.0), d.whole(1, 5000), d.pick((0.9, 0.99, 1.0)), d.one(1.0, 100.0)
    ),
    "GOPA": lambda d: fa.GOPA(d.one(0.1, 10.0), d.one(0.5, 50.0), d.whole(3, 40)),
    "random walk": lambda d: fa.RandomWalk(
        d.noise(2.0, 20.0), d.whole(1, 12), graph=d.pick(("ring", "complete")), parties=d.whole(3, 60)
    ),
    "gradient walk": lambda d: fa.GradientWalk(d.one(2.0, 20.0), d.whole(1, 9), d.whole(5, 80)),
    "together": lambda d: fa.Together(_several(d)),
    "several releases on one sample": lambda d: _several(d).poisson(d.rate(1e-3)),
    "sample of a sample": lambda d: fa.Gaussian(d.noise(0.5, 10.0)).poisson(d.rate(1e-2)).poisson(d.rate(1e-2)),
    "batches together": lambda d: fa.Together(_batch(d) * d.whole(1, 3) + _simple(d)),
    "parallel": lambda d: fa.Parallel(_several(d), _simple(d) * d.whole(1, 3)),
    "parallel batches": lambda d: fa.Parallel(_batch(d) * d.whole(1, 5), _several(d)),
    "compiled": lambda d: d.pick(_compiled()),
    "sampled compiled": lambda d: d.pick(_compiled()).poisson(d.rate(1e-2)),
    "example": lambda d: d.pick(known()),
    "sampled example": lambda d: d.pick(known()).poisson(d.rate(1e-2)),
    "group of an example": lambda d: _group(d.pick(known()), d),
}


@cache
def takes_arrays(name: str) -> bool:
    """Whether the kind has a parameter that may be an array, and takes one in all such parameters."""
    try:
        return bool(KINDS[name](Draws(np.random.default_rng(0), size=2)).shape)
    except (TypeError, ValueError):
        return False


def random_job(rng: np.random.Generator, size: int = 0, only: int | None = None) -> tuple[list[tuple[Any, Any]], str]:
    """One to three mechanisms with their counts, and a relation that all of them support.

    With a `size` the parameters and counts are arrays; with `only` the job is one cell of what it is without.
    """
    while True:
        names = rng.choice(list(KINDS), size=int(rng.choice([1, 2, 2, 3])), replace=False)
        parts = []
        for name in names:
            try:
                made = KINDS[name](Draws(rng, size if takes_arrays(name) else 0, only))
            except ValueError:  # a verb that a drawn mechanism does not have, such as a group of a theorem
                break
            count = Draws(rng, size if rng.random() < 0.5 else 0, only).count()
            parts.append((made, count))
        shared = [one for one in RELATIONS if all(one in mechanism.relations for mechanism, _ in parts)]
        if len(parts) == len(names) and shared:
            return parts, str(rng.choice(shared))
