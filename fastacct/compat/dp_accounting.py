"""Privacy-loss distributions of Google's dp_accounting, converted by their values.

Converting keeps the certified direction; composing the result in dp_accounting does not (its convolutions are plain
FFTs, wrong below deltas of about 1e-11): compose first, here, then convert.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from fastacct.losses.loss import ROUNDING
from fastacct.losses.measure import GridMeasure, on_multiples
from fastacct.readers.grid.distribution import LossDistribution

__all__ = ["from_dp_accounting", "to_dp_accounting"]


def to_dp_accounting(remove: LossDistribution, add: LossDistribution | None = None) -> Any:
    """A pessimistic `dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution`.

    **Guarantee.** Its delta, summed exactly, is never below the true one.

    Parameters
    ----------
    remove, add : LossDistribution
        The two directions, on one spacing; without `add` they are taken to be alike.

    Raises
    ------
    ImportError
        If dp_accounting is not installed.
    """
    if add is not None and add.spacing != remove.spacing:
        raise ValueError(f"remove and add have different spacings, {remove.spacing!r} and {add.spacing!r}")
    library = _library()
    return library.PrivacyLossDistribution(_pmf(library, remove), None if add is None else _pmf(library, add))


def from_dp_accounting(distribution: Any) -> tuple[LossDistribution, LossDistribution]:
    """The remove and the add direction of a dp_accounting `PrivacyLossDistribution`.

    **Guarantee.** Only what its values say: a pessimistic one bounds from above (the lower bounds are 0), an optimistic
    one from below (the upper bounds are 1).  Negative probabilities, which its pessimistic ones may contain, become 0.
    """
    pmfs = [getattr(distribution, name, None) for name in ("_pmf_remove", "_pmf_add")]
    if any(pmf is None or not hasattr(pmf, "to_dense_pmf") for pmf in pmfs):
        raise TypeError(f"not a dp_accounting PrivacyLossDistribution: {distribution!r}")
    remove, add = (_distribution(pmf.to_dense_pmf()) for pmf in pmfs)  # type: ignore[union-attr]
    return remove, add


def _library() -> Any:
    try:
        return import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise ImportError("converting to dp_accounting needs the package: pip install dp-accounting") from error


def _pmf(library: Any, loss: LossDistribution) -> Any:
    measure, first = on_multiples(loss.upper)
    return library.pld_pmf.DensePLDPmf(measure.spacing, first, measure.mass, measure.infinite, True)


def _distribution(pmf: Any) -> LossDistribution:
    spacing, first = float(pmf._discretization), int(pmf._lower_loss)
    mass, infinite = np.asarray(pmf._probs, dtype=np.float64), float(pmf._infinity_mass)
    origin = first * spacing
    slack = 2.0 * ROUNDING * abs(origin)
    if pmf._pessimistic_estimate:
        upper = GridMeasure(origin, spacing, np.maximum(mass, 0.0), max(infinite, 0.0), slack)
        return LossDistribution.from_grids(upper, GridMeasure(origin, spacing, np.zeros(1)))
    if (mass < 0.0).any() or infinite < 0.0:
        raise ValueError("an optimistic distribution with negative probabilities bounds nothing")
    lower = GridMeasure(origin, spacing, mass, infinite, slack)
    return LossDistribution.from_grids(GridMeasure(origin, spacing, np.zeros(1), 1.0), lower)
