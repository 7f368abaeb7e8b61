"""The names of prv_accountant 0.2, certified; that package is not needed.

from fastacct.compat.prv_accountant import PRVAccountant              # was: from prv_accountant import PRVAccountant
from fastacct.compat.prv_accountant.dpsgd import find_noise_multiplier
"""

from fastacct.compat.prv_accountant.accountant import Accountant, PRVAccountant
from fastacct.compat.prv_accountant.privacy_random_variables import (
    ApproximateDPMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
    PureDPMechanism,
)

__all__ = ["Accountant", "ApproximateDPMechanism", "GaussianMechanism", "LaplaceMechanism", "PRVAccountant"]
__all__ += ["PoissonSubsampledGaussianMechanism", "PrivacyRandomVariable", "PureDPMechanism"]
