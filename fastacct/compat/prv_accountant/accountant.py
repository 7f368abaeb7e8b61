"""`PRVAccountant` and the older `Accountant`: (lower, estimate, upper) of any composition, certified."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import fastacct as fa
from fastacct.compat.prv_accountant.privacy_random_variables import (
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
    job_of,
)

__all__ = ["Accountant", "PRVAccountant"]

Counts = int | Sequence[int] | None


class PRVAccountant:
    """Composition of privacy random variables, as in prv_accountant.

    **Guarantee.** lower <= truth <= upper and estimate = upper, under "add_remove" (prv_accountant: a removed record
    only), rounding included.  Nothing is computed before it is asked, so that `max_self_compositions` costs nothing.

    Parameters
    ----------
    prvs : PrivacyRandomVariable, fastacct mechanism or process, or a sequence of these
    eps_error : float
        Largest width of the interval of epsilon: usually it is a billion times narrower.  A wider one is returned with
        a RuntimeWarning.
    delta_error : float
        Not needed: the deltas asked and answered are not moved.
    max_self_compositions : sequence of int, optional
        Largest numbers that may be asked; default 1 of each.
    eps_max : float, optional
        Not needed.

    Raises
    ------
    TypeError, ValueError
        For privacy random variables that are not known; for numbers that do not fit or are out of range.
    """

    def __init__(
        self,
        prvs: Any,
        eps_error: float | None,
        delta_error: float,
        max_self_compositions: Counts = None,
        eps_max: float | None = None,
    ) -> None:
        if isinstance(prvs, PrivacyRandomVariable | fa.Mechanism | fa.Process) or not np.iterable(prvs):
            prvs = [prvs]
        if eps_error is not None and not eps_error > 0.0:
            raise ValueError(f"eps_error = {eps_error!r} is out of range; allowed: above 0")
        self.prvs, self.eps_error, self.delta_error = list(prvs), eps_error, delta_error
        self._jobs = [job_of(prv) for prv in self.prvs]
        self.max_self_compositions = self._counts("max_self_compositions", max_self_compositions)

    def compute_composition(self, num_self_compositions: Counts = None) -> fa.Process:
        """The composition as a fastacct process, for all of its verbs."""
        counts = self._counts("num_self_compositions", num_self_compositions)
        for count, largest in zip(counts, self.max_self_compositions, strict=True):
            if count > largest:
                raise ValueError(f"num_self_compositions = {count!r} exceeds max_self_compositions = {largest!r}")
        whole = fa.Process()
        for job, count in zip(self._jobs, counts, strict=True):
            whole = whole + job * count
        return whole

    def compute_epsilon(self, delta: float, num_self_compositions: Counts = None) -> tuple[float, float, float]:
        """Certified (lower, estimate, upper) of epsilon at `delta`; the estimate is the upper bound."""
        lower, upper, _ = fa.epsilon_bounds(self.compute_composition(num_self_compositions), delta=delta)
        if self.eps_error is not None and upper - lower > self.eps_error:
            warnings.warn(f"no narrower interval than [{lower!r}, {upper!r}] was proved", RuntimeWarning, stacklevel=2)
        return float(lower), float(upper), float(upper)

    def compute_delta(self, epsilon: float, num_self_compositions: Counts = None) -> tuple[float, float, float]:
        """Certified (lower, estimate, upper) of delta at `epsilon`; the estimate is the upper bound."""
        lower, upper, _ = fa.delta_bounds(self.compute_composition(num_self_compositions), epsilon=epsilon)
        return float(lower), float(upper), float(upper)

    def _counts(self, name: str, given: Counts) -> list[int]:
        counts = [1] * len(self._jobs) if given is None else np.atleast_1d(given).tolist()
        if len(counts) != len(self._jobs):
            raise ValueError(f"{name} has {len(counts)} numbers for {len(self._jobs)} privacy random variables")
        for count in counts:
            if isinstance(count, bool) or not 0 <= count < 2**53 or count != int(count):
                raise ValueError(f"{name} = {count!r} is out of range; allowed: whole numbers from 0")
        return [int(count) for count in counts]


class Accountant:
    """The older accountant of one run of DP-SGD, at one delta; arguments as in prv_accountant."""

    def __init__(
        self,
        noise_multiplier: float,
        sampling_probability: float,
        delta: float,
        max_compositions: int,
        eps_error: float | None = None,
        mesh_size: float | None = None,
        verbose: bool = False,
    ) -> None:
        warnings.warn("use PRVAccountant with PoissonSubsampledGaussianMechanism", DeprecationWarning, stacklevel=2)
        self.delta = delta
        step = PoissonSubsampledGaussianMechanism(sampling_probability, noise_multiplier)
        self.accountant = PRVAccountant(step, eps_error, 0.0, max_compositions)

    def compute_epsilon(self, num_compositions: int) -> tuple[float, float, float]:
        """Certified (lower, estimate, upper) of epsilon after so many steps."""
        return self.accountant.compute_epsilon(self.delta, num_compositions)
