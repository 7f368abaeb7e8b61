"""fastacct: certified differential-privacy accounting at compiled speed.

>>> import fastacct as fa
>>> round(fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 6)
1.828237
"""

from typing import TYPE_CHECKING

from fastacct import dpsgd, jit, mechanisms
from fastacct.accountants import (
    CLT,
    PLD,
    RDP,
    AdvancedComposition,
    AnalyticGaussian,
    BasicComposition,
    Exact,
    Method,
    ZCDPComposition,
)
from fastacct.calibrate import calibrate
from fastacct.core.bounds import Bounds, Status
from fastacct.core.version import __version__ as __version__
from fastacct.epsilon import (
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
from fastacct.explain import Explanation, explain
from fastacct.gdp import GaussianFit, gdp
from fastacct.ledger.accountant import Accountant, BudgetExceededError
from fastacct.mechanisms import *  # noqa: F403
from fastacct.readers.grid.distribution import LossDistribution
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

__all__ = [
    "CLT",
    "PLD",
    "RDP",
    "Accountant",
    "AdvancedComposition",
    "AnalyticGaussian",
    "BasicComposition",
    "Bounds",
    "BudgetExceededError",
    "Exact",
    "Explanation",
    "GaussianFit",
    "LossDistribution",
    "Method",
    "Status",
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
    "explain",
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
__all__ += mechanisms.__all__


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # a type checker would take any misspelt name for a lazy one

    def __getattr__(name):
        if name not in ("curve", "plot", "tightness"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"fastacct.{name}")
