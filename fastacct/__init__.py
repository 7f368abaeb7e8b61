"""fastacct: certified differential-privacy accounting at compiled speed.

>>> import fastacct as fa
>>> round(fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 6)
1.828237
"""

from fastacct import dpsgd
from fastacct.accountants import (
    CLT,
    RDP,
    ZCDP,
    Accountant,
    AdvancedComposition,
    AnalyticGaussian,
    BasicComposition,
)
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
from fastacct.pld import PLD, LossDistribution
from fastacct.process import Process
from fastacct.sweep import open_sweep, sweep
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

__version__ = "0.1.0"

__all__ = [
    "CLT",
    "PLD",
    "RDP",
    "ZCDP",
    "Accountant",
    "AdvancedComposition",
    "AnalyticGaussian",
    "BasicComposition",
    "Bounds",
    "Exact",
    "Gaussian",
    "GaussianFit",
    "GaussianMixture",
    "LossDistribution",
    "Mechanism",
    "PoissonSampled",
    "Process",
    "Status",
    "advantage",
    "advantage_bounds",
    "bayes_risk",
    "bayes_risk_bounds",
    "calibrate",
    "delta",
    "delta_bounds",
    "delta_lower",
    "dpsgd",
    "epsilon",
    "epsilon_bounds",
    "epsilon_lower",
    "gdp",
    "log_delta_bounds",
    "open_sweep",
    "positive_predictive_value",
    "rdp",
    "rdp_bounds",
    "sweep",
    "tpr_at_fpr",
    "tpr_at_fpr_bounds",
    "tradeoff",
    "tradeoff_bounds",
]
