"""What the verbs return and raise, and decisions on sweeps: for annotations and `isinstance`.

>>> import fastacct as fa
>>> isinstance(fa.epsilon_bounds(fa.Gaussian(1.0), delta=1e-6), fa.results.Bounds)
True
"""

from fastacct.accountants.explain import Explanation
from fastacct.accountants.network import NetworkGain
from fastacct.certificate import Certificate, read_certificate
from fastacct.core.bounds import Bounds, Status
from fastacct.core.deltas import Concentration
from fastacct.gdp import GaussianFit
from fastacct.guarantees import Guarantee, read_guarantee
from fastacct.ledger.accountant import BudgetExceededError
from fastacct.loaders import LoaderGuide
from fastacct.mechanisms.error import ErrorLaw
from fastacct.privacy_loss import PrivacyLoss
from fastacct.sweep import Sweep, cheapest, feasible, open_sweep, pareto

__all__ = [
    "Bounds",
    "BudgetExceededError",
    "Certificate",
    "Concentration",
    "ErrorLaw",
    "Explanation",
    "GaussianFit",
    "Guarantee",
    "LoaderGuide",
]
__all__ += [
    "NetworkGain",
    "PrivacyLoss",
    "Status",
    "Sweep",
    "cheapest",
    "feasible",
    "open_sweep",
    "pareto",
    "read_certificate",
    "read_guarantee",
]
