"""fastacct: certified differential-privacy accounting at compiled speed.

>>> import fastacct as fa
>>> round(fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5), 6)
1.828237

`dir(fastacct)` shows what is needed first.  Every verb has certified bounds, as `fastacct.rdp_bounds` of `rdp`.  Other
mechanisms are in `fastacct.mechanisms`, accountants in `fastacct.accountants`, types of results in `fastacct.results`,
older theorems in `fastacct.textbook`.  All their names can be had from here, too.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from fastacct.core.words import did_you_mean, shows_names

if not TYPE_CHECKING:

    class _Package(ModuleType):
        """A package whose modules show their public names, and whose function `sweep` is not hidden by its package."""

        def __setattr__(self, name, value):
            if isinstance(value, ModuleType):
                shows_names(value)
            if name != "sweep" or not isinstance(value, ModuleType):
                super().__setattr__(name, value)

    sys.modules[__name__].__class__ = _Package

from fastacct import accountants, dpsgd, mechanisms, sensitivity
from fastacct.accountants import *  # noqa: F403
from fastacct.calibrate import calibrate
from fastacct.core.bounds import Bounds, Status
from fastacct.core.deltas import Concentration
from fastacct.core.progress import progress
from fastacct.core.version import __version__ as __version__
from fastacct.core.version import get_include
from fastacct.epsilon import *  # noqa: F403
from fastacct.explain import Explanation, explain
from fastacct.gdp import GaussianFit, gdp, gdp_bounds
from fastacct.loaders import LoaderGuide, loader_guide
from fastacct.mechanisms import *  # noqa: F403
from fastacct.mechanisms.error import ErrorLaw
from fastacct.privacy_loss import PrivacyLoss, divergence, privacy_loss
from fastacct.tradeoff import *  # noqa: F403
from fastacct.utility import NetworkGain, network_gain, utility

if TYPE_CHECKING:
    from fastacct import audit, curve, jit, mechanism_kit, plot, results, textbook
    from fastacct.certificate import Certificate, certify, read_certificate
    from fastacct.guarantees import Guarantee, guarantee, read_guarantee
    from fastacct.ledger.accountant import Accountant, BudgetExceededError
    from fastacct.reports import plan, report
    from fastacct.sweep import Sweep, cheapest, feasible, open_sweep, pareto, sweep
    from fastacct.textbook import classical, composition, convert, generalization

_FIRST: Final = (
    "Accountant", "ApproxDP", "Exact", "DiscreteGaussian", "Exponential", "Gaussian", "Laplace", "Mechanism",
    "PLD", "Process", "PureDP", "RDP", "RandomizedResponse", "ZCDP", "__version__", "accountants", "advantage",
    "audit", "bayes_risk", "calibrate", "certify", "curve", "delta", "delta_bounds", "dpsgd", "epsilon",
    "epsilon_bounds", "explain", "from_pmf", "gdp", "guarantee", "jit", "loader_guide", "mechanism_kit",
    "mechanisms", "plan", "plot", "positive_predictive_value", "privacy_loss", "rdp", "read_guarantee", "report",
    "results", "sensitivity", "sweep", "textbook", "tpr_at_fpr", "tradeoff", "utility",
)  # fmt: skip
"""The names that `dir` shows: 49 of at most 50."""

__all__ = ["Accountant", "Bounds", "BudgetExceededError", "Explanation", "GaussianFit", "Status", "audit"]
__all__ += ["calibrate", "classical", "composition", "convert", "curve", "dpsgd", "explain", "gdp", "jit", "progress"]
__all__ += ["Sweep", "cheapest", "feasible", "get_include", "open_sweep", "pareto", "plan", "plot", "report", "sweep"]
__all__ += ["ErrorLaw", "PrivacyLoss", "divergence", "privacy_loss", "sensitivity", "utility"]
__all__ += ["LoaderGuide", "accountants", "loader_guide", "mechanism_kit", "mechanisms", "results", "textbook"]
__all__ += ["Certificate", "Guarantee", "certify", "guarantee", "read_certificate", "read_guarantee"]
__all__ += ["Concentration", "NetworkGain", "generalization", "network_gain"]
__all__ += ["delta", "delta_bounds", "delta_lower", "epsilon", "epsilon_bounds", "epsilon_lower"]  # noqa: F405
__all__ += ["gdp_bounds", "log_delta", "log_delta_bounds", "rdp", "rdp_bounds"]  # noqa: F405
__all__ += ["advantage", "advantage_bounds", "bayes_risk", "bayes_risk_bounds"]  # noqa: F405
__all__ += ["positive_predictive_value_bounds"]  # noqa: F405
__all__ += ["positive_predictive_value", "tpr_at_fpr", "tpr_at_fpr_bounds", "tradeoff", "tradeoff_bounds"]  # noqa: F405
__all__ += accountants.__all__
__all__ += mechanisms.__all__


def __dir__() -> list[str]:
    return [*_FIRST]


_LATER: Final = {
    "Accountant": "ledger.accountant",
    "BudgetExceededError": "ledger.accountant",
    "classical": "textbook.classical",
    "composition": "textbook.composition",
    "convert": "textbook.convert",
    "generalization": "textbook.generalization",
    **dict.fromkeys(("Certificate", "certify", "read_certificate"), "certificate"),
    **dict.fromkeys(("Guarantee", "guarantee", "read_guarantee"), "guarantees"),
    **dict.fromkeys(("plan", "report"), "reports"),
    **dict.fromkeys(("Sweep", "cheapest", "feasible", "open_sweep", "pareto", "sweep"), "sweep"),
    **{name: name for name in ("audit", "curve", "jit", "mechanism_kit", "plot", "results", "textbook")},
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
