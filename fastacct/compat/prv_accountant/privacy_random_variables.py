"""The mechanisms of prv_accountant, and what each is in fastacct: one row of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import fastacct as fa

__all__ = [
    "ApproximateDPMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "PoissonSubsampledGaussianMechanism",
    "PrivacyRandomVariable",
    "PureDPMechanism",
    "job_of",
]

_LESS: Final = 1.0 - 4e-16
"""Makes up for the rounding of two divisions: less noise, more epsilon."""


class PrivacyRandomVariable:
    """Base class of the mechanisms here, for isinstance.

    A subclass that gives only a cdf is refused by `PRVAccountant`: pass a fastacct mechanism or process instead.
    """

    def rdp(self, alpha: float) -> float:
        """Certified upper bound of the Rényi divergence of order `alpha`, in [1, 1e11] or inf."""
        return float(fa.rdp(job_of(self), alpha))

    @property
    def pm_inf(self) -> float:
        """Mass of an infinite loss."""
        return 0.0


class PoissonSubsampledGaussianMechanism(PrivacyRandomVariable):
    """One step of DP-SGD: Gaussian noise on a batch that every record joins with probability `sampling_probability`."""

    def __init__(self, sampling_probability: float, noise_multiplier: float) -> None:
        self.p, self.sigma = sampling_probability, noise_multiplier


class GaussianMechanism(PrivacyRandomVariable):
    """Gaussian noise on every record."""

    def __init__(self, noise_multiplier: float, l2_sensitivity: float = 1.0) -> None:
        self.mu = _positive("l2_sensitivity / noise_multiplier", l2_sensitivity / noise_multiplier)


class LaplaceMechanism(PrivacyRandomVariable):
    """Laplace noise; `mu` is the sensitivity over the scale, which is its pure epsilon."""

    def __init__(self, mu: float) -> None:
        self.mu = _positive("mu", mu)


class PureDPMechanism(PrivacyRandomVariable):
    """Any mechanism with eps-DP."""

    def __init__(self, eps: float) -> None:
        self.eps = eps


class ApproximateDPMechanism(PrivacyRandomVariable):
    """Any mechanism with (epsilon, delta)-DP."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.pure_dp, self.delta = PureDPMechanism(epsilon), delta

    @property
    def pm_inf(self) -> float:
        """Mass of an infinite loss."""
        return self.delta


def job_of(prv: Any) -> fa.Mechanism | fa.Process:
    """The fastacct job of a mechanism from here, or of the same class of an installed prv_accountant.

    Raises
    ------
    TypeError
        For all others, subclasses of these too: a cdf does not tell its own rounding.
    """
    if isinstance(prv, fa.Mechanism | fa.Process):
        return prv
    kind = type(prv)
    if kind.__name__ in _JOBS and (kind.__module__ == __name__ or kind.__module__.startswith("prv_accountant.")):
        return _JOBS[kind.__name__](prv)
    raise TypeError(
        f"{kind.__name__} is not supported: only {', '.join(_JOBS)}. A cdf alone certifies nothing; "
        "pass a fastacct mechanism, such as fa.from_pmf(...), in its place"
    )


def _positive(name: str, value: float) -> float:
    if not value > 0.0:
        raise ValueError(f"{name} = {value!r} is out of range; allowed: above 0")
    return value


def _down(value: Any) -> float:
    """The nearest float that is not above a number of any precision."""
    near = float(value)
    return near if not near > value else float(np.nextafter(near, -math.inf))


def _up(value: Any) -> float:
    return -_down(-value)


def _noise(mu: Any) -> float:
    """1 / mu, rounded down; a finite number for what releases something."""
    return min(1.0 / max(_up(mu), 1e-300), 1e300) * _LESS if mu > 0 else math.inf


_JOBS: Final[dict[str, Callable[[Any], fa.Mechanism]]] = {
    "PoissonSubsampledGaussianMechanism": lambda prv: fa.Gaussian(_down(prv.sigma)).poisson(_up(prv.p)),
    "GaussianMechanism": lambda prv: fa.Gaussian(_noise(prv.mu)),
    "LaplaceMechanism": lambda prv: fa.Laplace(_noise(prv.mu)),
    "PureDPMechanism": lambda prv: fa.PureDP(_up(prv.eps)),
    "ApproximateDPMechanism": lambda prv: fa.ApproxDP(_up(prv.pure_dp.eps), _up(prv.delta)),
}
"""By class name, from the attributes that both packages have."""
