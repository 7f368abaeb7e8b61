"""Mechanisms: one file each says all that is known of it."""

from typing import Final

from fastacct.mechanisms.algebra import Grouped as Grouped
from fastacct.mechanisms.algebra import Mechanism, PoissonSampled
from fastacct.mechanisms.batches import FixedSizeBatch, TruncatedPoisson, WithReplacement
from fastacct.mechanisms.compound import DPFTRL, BandMF, NoisyIteration, TreeAggregation
from fastacct.mechanisms.epochs import RandomAllocation, Shuffled
from fastacct.mechanisms.finite import PairOfLosses as PairOfLosses
from fastacct.mechanisms.finite import PairOfTables as PairOfTables
from fastacct.mechanisms.finite import RandomizedResponse, from_losses, from_pmf
from fastacct.mechanisms.gaussian import GDP, Gaussian, GaussianMixture
from fastacct.mechanisms.gopa import GOPA
from fastacct.mechanisms.guarantee import ZCDP, ApproxDP, MeanConcentratedDP, PureDP, RDPCurve
from fastacct.mechanisms.integer import DiscreteGaussian, DiscreteLaplace, Skellam
from fastacct.mechanisms.laplace import Laplace, LaplaceL2, Staircase, TruncatedLaplace
from fastacct.mechanisms.nested import Parallel, RepeatedSelection, Together
from fastacct.mechanisms.network import GradientWalk, RandomWalk
from fastacct.mechanisms.network import WalkCycle as WalkCycle
from fastacct.mechanisms.process import Process
from fastacct.mechanisms.selection import (
    AboveThreshold,
    Exponential,
    Paprika,
    PermuteAndFlip,
    SparseVector,
    Thresholdout,
)
from fastacct.mechanisms.strategies import MatrixGaussian

__all__ = ["DPFTRL", "GDP", "GOPA", "ZCDP", "AboveThreshold", "ApproxDP", "BandMF", "DiscreteGaussian"]
__all__ += ["DiscreteLaplace", "Exponential", "FixedSizeBatch", "Gaussian", "GaussianMixture", "GradientWalk"]
__all__ += ["Laplace", "LaplaceL2", "MatrixGaussian", "MeanConcentratedDP", "Mechanism", "NoisyIteration", "Paprika"]
__all__ += ["Parallel", "PermuteAndFlip", "PoissonSampled", "Process", "PureDP", "RDPCurve", "RandomAllocation"]
__all__ += ["RandomWalk", "RandomizedResponse", "RepeatedSelection", "Shuffled", "Skellam", "SparseVector", "Staircase"]
__all__ += ["Thresholdout", "Together", "TreeAggregation", "TruncatedLaplace", "TruncatedPoisson", "WithReplacement"]
__all__ += ["from_losses", "from_pmf"]

EVERY: Final = tuple(
    kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Mechanism) and kind is not Mechanism
)
"""All built-in mechanisms, samples and groups among them."""
