"""OpenDP: privacy profiles of jobs, and privacy maps of measurements of one's own.

profile = privacy_profile(job)             # instead of dp.new_privacy_profile(callback)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal

import fastacct as fa
from fastacct.core.extras import import_extra

opendp: Any = import_extra("opendp.measures", "opendp")

__all__ = ["privacy_map", "privacy_profile"]

_Job = fa.Mechanism | fa.Process
_NOTHING: Final = fa.Process()


def privacy_profile(job: _Job, *, neighbors: Any = "add_remove", accountant: Any = None) -> Any:
    """The privacy profile of a job, for `opendp.measures`.

    **Guarantee.** `profile.delta(epsilon)` is `fastacct.delta`, capped at 1: never below the truth, rounding included.
    `profile.epsilon(delta)` is OpenDP's bisection of it, whose last point has been evaluated: never below the truth
    either, and above `fastacct.epsilon` by its tolerance.

    OpenDP asks for `dp.enable_features("contrib", "honest-but-curious")` first.

    Raises
    ------
    ValueError
        For a relation that the job does not support, and (through OpenDP) for an epsilon that is negative or NaN.
    TypeError
        For a job with arrays.
    """
    curve = _curve(job, neighbors, accountant)
    curve(0.0)  # what is refused is refused here, not inside of OpenDP
    return opendp.new_privacy_profile(curve)


def privacy_map(
    job_of: Callable[[Any], _Job],
    measure: Literal["profile", "approximate", "pure", "renyi"] = "profile",
    *,
    delta: float | None = None,
    neighbors: Any = "add_remove",
    accountant: Any = None,
) -> Callable[[Any], Any]:
    """The privacy map of a measurement, for `dp.m.make_user_measurement`.

    **Guarantee.** The distance it returns for d_in is never below that of the job `job_of(d_in)`, rounding included.
    That the function releases nothing but this job, on any two inputs that are d_in-close, is for the caller to prove.

    Parameters
    ----------
    job_of : callable
        From a distance d_in > 0 between two inputs to the job that the function runs on them, such as
        ``lambda d_in: fa.Gaussian(scale / d_in) * 10``.  It is not asked at d_in = 0: equal inputs lose nothing.
    measure : str
        ===============  =====================================  ==================================
        measure          output_measure of the measurement      the map returns
        ===============  =====================================  ==================================
        "profile"        smoothed_max_divergence()              what `dp.new_privacy_profile` wraps
        "approximate"    approximate(max_divergence())          (epsilon, `delta`)
        "pure"           max_divergence()                       epsilon at delta 0
        "renyi"          renyi_divergence()                     a function of the order
        ===============  =====================================  ==================================
    delta : float in (0, 1)
        Of "approximate".
    accountant : fastacct accountant, optional
        Default `fastacct.Exact()`; not for "pure" and "renyi".

    Examples
    --------
    ``dp.m.make_user_measurement(domain, metric, dp.smoothed_max_divergence(), function, privacy_map(job_of))``
    """
    if measure not in ("profile", "approximate", "pure", "renyi"):
        raise ValueError(f"measure = {measure!r} is not one of 'profile', 'approximate', 'pure', 'renyi'")
    if (delta is not None) != (measure == "approximate"):
        raise TypeError(f"delta goes with measure = 'approximate', and only with it; not {delta!r} with {measure!r}")
    if delta is not None and not 0.0 < delta < 1.0:
        raise ValueError(f"delta = {delta!r} is out of range; allowed: (0, 1)")
    if measure in ("pure", "renyi") and accountant is not None:
        raise ValueError("accountant goes with a profile or with delta, not with divergences")

    def divergence(job: _Job, order: float) -> float:
        return _number(fa.rdp(job, order, neighbors=neighbors))

    def distance(d_in: Any) -> Any:
        if not 0 <= d_in < math.inf:
            raise ValueError(f"d_in = {d_in!r} is out of range; allowed: [0, inf)")
        job = job_of(d_in) if d_in > 0 else _NOTHING
        if measure == "approximate":
            return _number(fa.epsilon(job, delta=delta or 0.0, neighbors=neighbors, accountant=accountant)), delta
        if measure == "pure":  # the largest loss
            return divergence(job, math.inf)
        if measure == "renyi":
            return lambda order: divergence(job, order)
        # a map hands over what a profile wraps: OpenDP takes the object itself from its own maps only
        return privacy_profile(job, neighbors=neighbors, accountant=accountant).curve

    return distance


def _curve(job: _Job, neighbors: Any, accountant: Any) -> Callable[[float], float]:
    """Delta as a function of epsilon."""
    return lambda epsilon: min(1.0, _number(fa.delta(job, epsilon=epsilon, neighbors=neighbors, accountant=accountant)))


def _number(value: Any) -> float:
    """One answer; arrays are refused."""
    if getattr(value, "ndim", 0):
        raise TypeError("a privacy profile is that of one job, in plain numbers; this job has arrays")
    return float(value)
