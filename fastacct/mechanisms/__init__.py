"""Mechanisms: one file each says all that is known of it."""

from typing import Final

from fastacct.mechanisms.algebra import Grouped, Mechanism, PoissonSampled
from fastacct.mechanisms.gaussian import Gaussian, GaussianMixture
from fastacct.mechanisms.guarantee import GDP, ZCDP, ApproxDP, MeanConcentratedDP, PureDP, RDPCurve
from fastacct.mechanisms.integer import DiscreteGaussian, DiscreteLaplace, Skellam
from fastacct.mechanisms.iteration import NoisyIteration
from fastacct.mechanisms.laplace import Laplace, Staircase
from fastacct.mechanisms.laplace_truncated import TruncatedLaplace
from fastacct.mechanisms.network import GOPA, RandomWalk
from fastacct.mechanisms.parallel import Parallel
from fastacct.mechanisms.process import Process
from fastacct.mechanisms.response import RandomizedResponse
from fastacct.mechanisms.selection import (
    AboveThreshold,
    Exponential,
    Paprika,
    PermuteAndFlip,
    SparseVector,
    Thresholdout,
)
from fastacct.mechanisms.table import PairOfTables, from_pmf
from fastacct.mechanisms.tree import DPFTRL, TreeAggregation
from fastacct.mechanisms.tuning import RepeatedSelection

__all__ = [
    "DPFTRL",
    "GDP",
    "GOPA",
    "ZCDP",
    "AboveThreshold",
    "ApproxDP",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "GaussianMixture",
    "Laplace",
    "MeanConcentratedDP",
    "Mechanism",
    "NoisyIteration",
    "Paprika",
    "Parallel",
    "PermuteAndFlip",
    "PoissonSampled",
    "Process",
    "PureDP",
    "RDPCurve",
    "RandomWalk",
    "RandomizedResponse",
    "RepeatedSelection",
    "Skellam",
    "SparseVector",
    "Staircase",
    "Thresholdout",
    "TreeAggregation",
    "TruncatedLaplace",
    "from_pmf",
]

EVERY: Final[tuple[type[Mechanism], ...]] = (
    Gaussian,
    GaussianMixture,
    Laplace,
    TruncatedLaplace,
    Staircase,
    DiscreteLaplace,
    DiscreteGaussian,
    Skellam,
    RandomizedResponse,
    Exponential,
    PermuteAndFlip,
    AboveThreshold,
    SparseVector,
    Thresholdout,
    Paprika,
    RepeatedSelection,
    PureDP,
    ApproxDP,
    GDP,
    ZCDP,
    MeanConcentratedDP,
    RDPCurve,
    PairOfTables,
    TreeAggregation,
    DPFTRL,
    NoisyIteration,
    GOPA,
    RandomWalk,
    Parallel,
)
"""The built-in mechanisms, in the order of the docs."""
DERIVED: Final[tuple[type[Mechanism], ...]] = (PoissonSampled, Grouped)
"""Made of another mechanism by `.poisson` and `.group`."""
