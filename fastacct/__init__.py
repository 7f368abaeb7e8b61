"""fastacct: certified differential-privacy accounting at compiled speed.

>>> import fastacct as fa
>>> round(fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 6)
1.828237
"""

from typing import TYPE_CHECKING

from fastacct import dpsgd, jit
from fastacct.accountants import (
    CLT,
    RDP,
    AdvancedComposition,
    AnalyticGaussian,
    BasicComposition,
    Method,
    ZCDPComposition,
)
from fastacct.adaptive import Accountant, BudgetExceededError
from fastacct.additive import DiscreteGaussian, DiscreteLaplace, Laplace, Skellam, Staircase
from fastacct.api import (
    delta,
    delta_bounds,
    delta_lower,
    epsilon,
    epsilon_bounds,
    epsilon_lower,
    log_delta_bounds,
    rdp,
    rdp_bounds,
)
from fastacct.bounds import Bounds, Status
from fastacct.calibrate import calibrate
from fastacct.exact import Exact
from fastacct.gdp import GaussianFit, gdp
from fastacct.mechanisms import Gaussian, GaussianMixture, Mechanism, PoissonSampled
from fastacct.notions import GDP, ZCDP, ApproxDP, MeanConcentratedDP, PureDP, RDPCurve, from_pmf
from fastacct.parallel import Parallel
from fastacct.pld import PLD, LossDistribution
from fastacct.process import Process
from fastacct.selection import (
    AboveThreshold,
    Exponential,
    Paprika,
    PermuteAndFlip,
    RandomizedResponse,
    RepeatedSelection,
    SparseVector,
    Thresholdout,
)
from fastacct.streams import DPFTRL, GOPA, NoisyIteration, RandomWalk, TreeAggregation
from fastacct.sweep import open_sweep, sweep
from fastacct.textbook import classical, composition, convert
from fastacct.tradeoff import (
    advantage,
    advantage_bounds,
    bayes_risk,
    bayes_risk_bounds,
    positive_predictive_value,
    tpr_at_fpr,
    tpr_at_fpr_bounds,
    tradeoff,
    tradeoff_bounds,
)

if TYPE_CHECKING:
    from fastacct import curve, plot, tightness

__version__ = "0.1.0"

__all__ = [
    "CLT",
    "DPFTRL",
    "GDP",
    "GOPA",
    "PLD",
    "RDP",
    "ZCDP",
    "AboveThreshold",
    "Accountant",
    "AdvancedComposition",
    "AnalyticGaussian",
    "ApproxDP",
    "BasicComposition",
    "Bounds",
    "BudgetExceededError",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exact",
    "Exponential",
    "Gaussian",
    "GaussianFit",
    "GaussianMixture",
    "Laplace",
    "LossDistribution",
    "MeanConcentratedDP",
    "Mechanism",
    "Method",
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
    "Status",
    "Thresholdout",
    "TreeAggregation",
    "ZCDPComposition",
    "advantage",
    "advantage_bounds",
    "bayes_risk",
    "bayes_risk_bounds",
    "calibrate",
    "classical",
    "composition",
    "convert",
    "curve",
    "delta",
    "delta_bounds",
    "delta_lower",
    "dpsgd",
    "epsilon",
    "epsilon_bounds",
    "epsilon_lower",
    "from_pmf",
    "gdp",
    "jit",
    "log_delta_bounds",
    "open_sweep",
    "plot",
    "positive_predictive_value",
    "rdp",
    "rdp_bounds",
    "sweep",
    "tightness",
    "tpr_at_fpr",
    "tpr_at_fpr_bounds",
    "tradeoff",
    "tradeoff_bounds",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # a type checker would take any misspelt name for a lazy one

    def __getattr__(name):
        if name not in ("curve", "plot", "tightness"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"fastacct.{name}")
