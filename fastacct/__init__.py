"""fastacct: certified differential-privacy accounting at compiled speed.

>>> import fastacct as fa
>>> round(fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 6)
1.828237
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from fastacct import accountants, dpsgd, mechanisms, sensitivity
from fastacct.accountants import *  # noqa: F403
from fastacct.calibrate import calibrate
from fastacct.core.bounds import Bounds, Status
from fastacct.core.progress import progress
from fastacct.core.version import __version__ as __version__
from fastacct.core.version import get_include
from fastacct.core.words import did_you_mean
from fastacct.epsilon import *  # noqa: F403
from fastacct.explain import Explanation, explain
from fastacct.gdp import GaussianFit, gdp
from fastacct.loaders import LoaderGuide, loader_guide
from fastacct.mechanisms import *  # noqa: F403
from fastacct.mechanisms.error import ErrorLaw
from fastacct.moments import Concentration
from fastacct.network import NetworkGain, network_gain
from fastacct.privacy_loss import PrivacyLoss, divergence, privacy_loss
from fastacct.tradeoff import *  # noqa: F403
from fastacct.utility import utility

if TYPE_CHECKING:
    from fastacct import audit, curve, jit, plot
    from fastacct.certificate import Certificate, certify, read_certificate
    from fastacct.ledger.accountant import Accountant, BudgetExceededError
    from fastacct.reports import plan, report
    from fastacct.sweep import Sweep, cheapest, feasible, open_sweep, pareto, sweep
    from fastacct.textbook import classical, composition, convert, generalization

__all__ = ["Accountant", "Bounds", "BudgetExceededError", "Explanation", "GaussianFit", "Status", "audit"]
__all__ += ["calibrate", "classical", "composition", "convert", "curve", "dpsgd", "explain", "gdp", "jit", "progress"]
__all__ += ["Sweep", "cheapest", "feasible", "get_include", "open_sweep", "pareto", "plan", "plot", "report", "sweep"]
__all__ += ["ErrorLaw", "PrivacyLoss", "divergence", "privacy_loss", "sensitivity", "utility"]
__all__ += ["LoaderGuide", "loader_guide"]
__all__ += ["Certificate", "certify", "read_certificate"]
__all__ += ["Concentration", "NetworkGain", "generalization", "network_gain"]
__all__ += ["delta", "delta_bounds", "delta_lower", "epsilon", "epsilon_bounds", "epsilon_lower"]  # noqa: F405
__all__ += ["log_delta_bounds", "rdp", "rdp_bounds"]  # noqa: F405
__all__ += ["advantage", "advantage_bounds", "bayes_risk", "bayes_risk_bounds"]  # noqa: F405
__all__ += ["positive_predictive_value", "tpr_at_fpr", "tpr_at_fpr_bounds", "tradeoff", "tradeoff_bounds"]  # noqa: F405
__all__ += accountants.__all__
__all__ += mechanisms.__all__


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


_LATER: Final = {
    "Accountant": "ledger.accountant",
    "BudgetExceededError": "ledger.accountant",
    "audit": "audit",
    "classical": "textbook.classical",
    "composition": "textbook.composition",
    "convert": "textbook.convert",
    "generalization": "textbook.generalization",
    "curve": "curve",
    "jit": "jit",
    "plot": "plot",
    **dict.fromkeys(("Certificate", "certify", "read_certificate"), "certificate"),
    **dict.fromkeys(("plan", "report"), "reports"),
    **dict.fromkeys(("Sweep", "cheapest", "feasible", "open_sweep", "pareto", "sweep"), "sweep"),
}
"""Where names are that are loaded when they are first used."""

if not TYPE_CHECKING:  # a type checker would take any misspelt name for one of these

    def __getattr__(name):
        if name not in _LATER:
            hint = "" if name.startswith("_") else did_you_mean(name, __all__)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        module = import_module(f"fastacct.{_LATER[name]}")
        found = globals()[name] = getattr(module, name, module)
        return found

    class _Package(ModuleType):
        """A package whose function `sweep` stays one when the package of the same name is imported."""

        def __setattr__(self, name, value):
            if name != "sweep" or not isinstance(value, ModuleType):
                super().__setattr__(name, value)

    sys.modules[__name__].__class__ = _Package
