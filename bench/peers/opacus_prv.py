"""Opacus: `opacus.accountants.PRVAccountant` (Gopi, Lee, Wutschitz 2021) with its defaults."""

from __future__ import annotations

from importlib.metadata import version


class OpacusPrv:
    """Numerical composition of privacy random variables; returns its upper bound."""

    name = "Opacus PRV"
    distribution = "opacus"

    def __init__(self) -> None:
        from opacus.accountants import PRVAccountant

        self._accountant = PRVAccountant

    @property
    def version(self) -> str:
        return version(self.distribution)

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        accountant = self._accountant()
        accountant.history = [(sigma, q, steps)]
        return float(accountant.get_epsilon(delta=delta))
