"""fastacct: certified differential-privacy accounting at compiled speed.

>>> import fastacct as fa
>>> round(fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 4)
2.1013
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
from fastacct.bounds import Bounds, Status
from fastacct.sweep import open_sweep, sweep

__version__ = "0.1.0"

__all__ = [
    "CLT",
    "RDP",
    "ZCDP",
    "Accountant",
    "AdvancedComposition",
    "AnalyticGaussian",
    "BasicComposition",
    "Bounds",
    "Status",
    "dpsgd",
    "open_sweep",
    "sweep",
]
