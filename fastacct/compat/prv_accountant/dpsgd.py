"""`prv_accountant.dpsgd`: the accountant of DP-SGD, and its noise for a budget."""

from __future__ import annotations

import fastacct as fa
from fastacct.compat.prv_accountant.accountant import PRVAccountant
from fastacct.compat.prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

__all__ = ["DPSGDAccountant", "find_noise_multiplier"]


class DPSGDAccountant(PRVAccountant):
    """`PRVAccountant` of at most `max_steps` steps of DP-SGD."""

    def __init__(
        self,
        noise_multiplier: float,
        sampling_probability: float,
        max_steps: int,
        eps_error: float = 0.1,
        delta_error: float = 1e-9,
    ) -> None:
        step = PoissonSubsampledGaussianMechanism(sampling_probability, noise_multiplier)
        super().__init__(step, eps_error, delta_error, max_steps)

    def compute_epsilon(self, delta: float, num_steps: int) -> tuple[float, float, float]:  # type: ignore[override]
        """Certified (lower, estimate, upper) of epsilon after so many steps."""
        return super().compute_epsilon(delta, num_steps)


def find_noise_multiplier(
    sampling_probability: float,
    num_steps: int,
    target_epsilon: float,
    target_delta: float,
    eps_error: float = 0.1,
    mu_max: float = 100.0,
) -> float:
    """Smallest noise multiplier that is certified to meet the target; `eps_error` is not used up.

    **Guarantee.** The upper bound of epsilon at the value returned is at most `target_epsilon`; prv_accountant allows
    `target_epsilon + eps_error`.  RuntimeError where that takes more than `mu_max`.
    """
    found = float(
        fa.dpsgd.noise_multiplier(
            epsilon=target_epsilon, delta=target_delta, sample_rate=sampling_probability, steps=num_steps
        )
    )
    if found > mu_max:
        raise RuntimeError(f"the target needs noise_multiplier = {found!r}, more than mu_max = {mu_max!r}")
    return found
