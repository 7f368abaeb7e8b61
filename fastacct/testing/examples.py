"""Instances of every mechanism, for everything that has to hold for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import fastacct.mechanisms as m
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.samplers import OF_ONE_SIZE


def examples() -> Iterator[Mechanism]:
    """Instances of every mechanism, corners of their parameters among them.

    Examples
    --------
    >>> import fastacct.mechanisms as m
    >>> {type(mechanism) for mechanism in examples()} <= set(m.EVERY)
    True
    """
    yield from (m.Gaussian(1.0), m.Gaussian(0.3), m.Gaussian(math.inf), m.Gaussian(3.0).group(2))
    yield from (m.Gaussian(1.0).poisson(0.01), m.Gaussian(0.7).poisson(1e-4), m.Gaussian(2.0).poisson(0.0))
    yield from (m.Gaussian(2.0).poisson(0.1).group(3), m.GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)]))
    yield from (getattr(m.Gaussian(2.0), verb)(n, 1000) for verb, n in zip(OF_ONE_SIZE, (10, 5), strict=True))
    yield m.Gaussian(2.0).poisson(0.1, at_most=120, records=1000)
    yield m.Gaussian(1.5).allocation(30)
    yield from (m.Gaussian(2.0).allocation(30, selected=4), m.Gaussian(2.0).shuffled(20))
    yield from (m.Laplace(1.0), m.Laplace(20.0), m.Laplace(math.inf))
    yield from (m.Laplace(1.0).poisson(0.1), m.Laplace(10.0).group(3))
    yield from (m.TruncatedLaplace(2.0, 20.0), m.TruncatedLaplace(1.0, 1.5), m.TruncatedLaplace(1.0, math.inf))
    yield from (m.TruncatedLaplace(1.0, 12.0).poisson(0.1), m.TruncatedLaplace(10.0, 100.0).group(3))
    yield from (m.LaplaceL2(2.0, 3), m.Staircase(0.5), m.DiscreteLaplace(2.0, 3), m.DiscreteLaplace(10.0))
    yield from (m.DiscreteGaussian(1.0), m.DiscreteGaussian(0.5), m.DiscreteGaussian(5.0, 2))
    yield from (m.DiscreteGaussian(2.0).poisson(1e-4), m.Skellam(10.0))
    yield from (m.RandomizedResponse(1.0), m.RandomizedResponse(0.3, 10), m.RandomizedResponse(0.0))
    yield m.RandomizedResponse(0.5, 3).group(2)
    yield from (m.Exponential(0.5), m.Exponential(0.0), m.Exponential(0.5).poisson(0.2))
    yield from (m.PermuteAndFlip(0.5), m.PermuteAndFlip(0.5, monotone=True), m.AboveThreshold(0.2))
    yield from (m.SparseVector(0.1, 3), m.Thresholdout(0.05, 1000, 3), m.Paprika(0.5, 1e-6, conditions_hold=True))
    yield from (m.RepeatedSelection(m.Gaussian(4.0), 10.0), m.RepeatedSelection(m.Gaussian(4.0), 5.0, eta=1.0))
    yield m.RepeatedSelection(m.Laplace(4.0), 5.0, eta=0.0)
    yield from (m.PureDP(0.3), m.PureDP(0.0), m.PureDP(0.5).poisson(0.01), m.PureDP(0.1).group(3))
    yield from (m.ApproxDP(0.3, 1e-6), m.ApproxDP(0.0, 0.0))
    yield from (m.ApproxDP(0.3, 1e-6).poisson(0.9), m.ApproxDP(0.1, 1e-7).group(2))
    yield from (m.GDP(0.5), m.GDP(0.0), m.GDP(0.1).group(3).poisson(0.1))
    yield from (m.ZCDP(0.02), m.ZCDP(0.02).poisson(0.1), m.ZCDP(0.002).group(3))
    yield from (m.MeanConcentratedDP(0.02, 0.2), m.RDPCurve([2, 4, 16], [0.1, 0.2, 0.8]))
    yield from (m.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4]), m.from_pmf([0.5, 0.4, 0.1, 0], [0.45, 0.45, 0, 0.1]))
    yield m.from_losses([math.log(2.0), math.log(4.0 / 7.0)], [0.6, 0.4])
    yield m.from_losses([0.5, -0.2, math.inf], [0.5, 0.45, 0.05])
    yield from (m.TreeAggregation(8.0, 1000), m.TreeAggregation(20.0, 16, noise="laplace"), m.DPFTRL(8.0, 100, 2))
    yield from (m.BandMF(4.0, 0.3, 100, 8), m.MatrixGaussian.from_strategy([1.0, 0.5, 0.375], 4.0, bins=20, steps=100))
    yield from (m.NoisyIteration(3.75, 500, contraction=0.99), m.NoisyIteration(4.0, 10_000, diameter=5.0))
    yield from (m.GOPA(0.5, 2.0, parties=12), m.GOPA(0.5, 2.0, parties=3, edges=((0, 1),)), m.RandomWalk(8.0, 10))
    yield from (m.GOPA(1.0, 9.0, parties=30, colluding=5, draws=9, graph_delta=1e-3), m.GradientWalk(4.0, 3, 50, 2))
    yield from (m.RandomWalk(4.0, 5, graph="complete", parties=20), m.RandomWalk(2.0, 3, noise="every", parties=9))
    yield m.RandomWalk(10.0, 1, graph="complete", parties=400)
    yield from (m.Together(m.Laplace(3.0) + m.Gaussian(2.0)), (m.Laplace(3.0) + m.Gaussian(2.0)).poisson(0.1))
    yield from (m.Parallel(m.Laplace(2.0), m.Gaussian(1.0)), m.Gaussian(2.0).fixed_size(10, 1000).group(3))
