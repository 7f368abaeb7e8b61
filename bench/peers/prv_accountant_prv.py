"""Microsoft's prv_accountant (Gopi, Lee, Wutschitz 2021), with the errors of its README."""

from __future__ import annotations

from importlib.metadata import version


class PrvAccountantPrv:
    """Numerical composition of privacy random variables; returns its upper bound."""

    name = "prv_accountant"
    distribution = "prv-accountant"

    def __init__(self) -> None:
        from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

        self._mechanism = PoissonSubsampledGaussianMechanism
        self._accountant = PRVAccountant

    @property
    def version(self) -> str:
        return version(self.distribution)

    def interval(self, sigma: float, q: float, steps: int, delta: float) -> tuple[float, float, float]:
        """Its lower bound, estimate and upper bound."""
        mechanism = self._mechanism(noise_multiplier=sigma, sampling_probability=q)
        accountant = self._accountant(
            prvs=mechanism, max_self_compositions=steps, eps_error=0.01, delta_error=delta / 1000.0
        )
        lower, estimate, upper = accountant.compute_epsilon(delta=delta, num_self_compositions=steps)
        return float(lower), float(estimate), float(upper)

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        return self.interval(sigma, q, steps, delta)[2]
