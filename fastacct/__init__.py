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
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Final

from fastacct.core.words import shows_names, top_hint

if not TYPE_CHECKING:

    class _Package(ModuleType):
        """A package whose modules show their public names, and whose verbs are not hidden by modules of their name."""

        def __setattr__(self, name, value):
            if isinstance(value, ModuleType):
                shows_names(value)
                value = vars(value).get(name, value)
            super().__setattr__(name, value)

    sys.modules[__name__].__class__ = _Package

if TYPE_CHECKING:
    from fastacct import (
        accountants,
        audit,
        curve,
        dpsgd,
        jit,
        mechanism_kit,
        mechanisms,
        plot,
        results,
        sensitivity,
        textbook,
        training,
    )
    from fastacct.accountants import *  # noqa: F403
    from fastacct.accountants.explain import Explanation, explain
    from fastacct.accountants.network import NetworkGain, network_gain
    from fastacct.calibrate import calibrate
    from fastacct.certificate import Certificate, certify, read_certificate
    from fastacct.core.bounds import Bounds, Status
    from fastacct.core.deltas import Concentration
    from fastacct.core.progress import progress
    from fastacct.core.version import __version__ as __version__
    from fastacct.core.version import get_include
    from fastacct.epsilon import *  # noqa: F403
    from fastacct.gdp import GaussianFit, gdp, gdp_bounds
    from fastacct.guarantees import Guarantee, guarantee, read_guarantee
    from fastacct.ledger.accountant import Accountant, BudgetExceededError
    from fastacct.loaders import LoaderGuide, loader_guide
    from fastacct.mechanisms import *  # noqa: F403
    from fastacct.mechanisms.error import ErrorLaw
    from fastacct.mechanisms.utility import utility
    from fastacct.privacy_loss import PrivacyLoss, divergence, privacy_loss
    from fastacct.reports import plan, report
    from fastacct.sweep import Sweep, cheapest, feasible, open_sweep, pareto, sweep
    from fastacct.textbook import classical, composition, convert, generalization
    from fastacct.tradeoff import *  # noqa: F403

_FIRST: Final = (
    "Accountant", "ApproxDP", "Exact", "DiscreteGaussian", "Exponential", "Gaussian", "Laplace", "Mechanism",
    "PLD", "Process", "PureDP", "RDP", "RandomizedResponse", "ZCDP", "__version__", "accountants", "advantage",
    "audit", "bayes_risk", "calibrate", "certify", "curve", "delta", "delta_bounds", "dpsgd", "epsilon",
    "epsilon_bounds", "explain", "from_pmf", "gdp", "guarantee", "jit", "loader_guide", "mechanism_kit",
    "mechanisms", "plan", "plot", "positive_predictive_value", "privacy_loss", "rdp", "read_guarantee", "report",
    "results", "sensitivity", "sweep", "textbook", "tpr_at_fpr", "tradeoff", "utility",
)  # fmt: skip
"""The names that `dir` shows: 49 of at most 50."""

if TYPE_CHECKING:
    __all__ = ["Accountant", "Bounds", "BudgetExceededError", "Explanation", "GaussianFit", "Status", "audit"]
    __all__ += [
        "calibrate",
        "classical",
        "composition",
        "convert",
        "curve",
        "dpsgd",
        "explain",
        "gdp",
        "jit",
        "progress",
    ]
    __all__ += ["Sweep", "cheapest", "feasible", "get_include", "open_sweep", "pareto", "plan", "plot", "report"]
    __all__ += ["ErrorLaw", "PrivacyLoss", "divergence", "privacy_loss", "sensitivity", "utility"]
    __all__ += ["LoaderGuide", "accountants", "loader_guide", "mechanism_kit", "mechanisms", "results", "textbook"]
    __all__ += ["sweep", "training"]
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


_PLACES: Final = {
    **dict.fromkeys(("Bounds", "Status"), "core.bounds"),
    **dict.fromkeys(("__version__", "get_include"), "core.version"),
    **dict.fromkeys(("Accountant", "BudgetExceededError"), "ledger.accountant"),
    **dict.fromkeys(("Certificate", "certify", "read_certificate"), "certificate"),
    **dict.fromkeys(("Explanation", "explain"), "accountants.explain"),
    **dict.fromkeys(("GaussianFit", "gdp", "gdp_bounds"), "gdp"),
    **dict.fromkeys(("Guarantee", "guarantee", "read_guarantee"), "guarantees"),
    **dict.fromkeys(("LoaderGuide", "loader_guide"), "loaders"),
    **dict.fromkeys(("NetworkGain", "network_gain"), "accountants.network"),
    **dict.fromkeys(("PrivacyLoss", "divergence", "privacy_loss"), "privacy_loss"),
    **dict.fromkeys(("plan", "report"), "reports"),
    **dict.fromkeys(("Sweep", "cheapest", "feasible", "open_sweep", "pareto", "sweep"), "sweep"),
    **{name: f"textbook.{name}" for name in ("classical", "composition", "convert", "generalization")},
    **{name: name for name in ("accountants", "audit", "calibrate", "curve", "dpsgd", "jit", "mechanism_kit")},
    **{name: name for name in ("mechanisms", "plot", "results", "sensitivity", "textbook", "training")},
    "Concentration": "core.deltas",
    "ErrorLaw": "mechanisms.error",
    "progress": "core.progress",
    "utility": "mechanisms.utility",
}
"""Where names are; each module is loaded when its name is first used."""

_ROOMS: Final = ("mechanisms", "accountants", "epsilon", "tradeoff")
"""Modules of which every public name can be had from here."""


def _every() -> list[str]:
    """All public names, those of the rooms among them."""
    rooms = (import_module(f"fastacct.{room}").__all__ for room in _ROOMS)
    return [name for name in (*_PLACES, *chain(*rooms)) if not name.startswith("_")]


if not TYPE_CHECKING:  # a type checker would take any misspelt name for one of these

    def __getattr__(name):
        if name == "__all__":
            found = _every()
        elif name in _PLACES:
            module = import_module(f"fastacct.{_PLACES[name]}")
            found = vars(module).get(name, module)
        else:
            private = name.startswith("_")
            rooms = () if private else map(import_module, (f"fastacct.{room}" for room in _ROOMS))
            found = next((getattr(room, name) for room in rooms if name in room.__all__), None)
            if found is None:
                inside = (import_module(f"fastacct.{room}") for room in ("dpsgd", "plot", "curve", "sensitivity"))
                others = (f"{room.__name__.partition('.')[2]}.{one}" for room in inside for one in room.__all__)
                hint = "" if private else top_hint(name, [*_every(), *others])
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        globals()[name] = found
        return found
