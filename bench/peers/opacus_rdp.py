"""Opacus: `opacus.accountants.RDPAccountant` and its analysis functions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray


class OpacusRdp:
    """RDP accountant of Opacus at its default alphas."""

    name = "Opacus RDP"
    distribution = "opacus"
    calibration = "get_noise_multiplier (stops within 0.01 of the target epsilon)"

    def __init__(self) -> None:
        from opacus.accountants import RDPAccountant
        from opacus.accountants.analysis import rdp
        from opacus.accountants.utils import get_noise_multiplier

        self._accountant = RDPAccountant
        self._analysis = rdp
        self._search = get_noise_multiplier
        self._orders = RDPAccountant.DEFAULT_ALPHAS

    @property
    def version(self) -> str:
        return version(self.distribution)

    @property
    def default_orders(self) -> tuple[float, ...]:
        return tuple(float(order) for order in self._orders)

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        rdp = self._analysis.compute_rdp(q=q, noise_multiplier=sigma, steps=steps, orders=self._orders)
        return float(self._analysis.get_privacy_spent(orders=self._orders, rdp=rdp, delta=delta)[0])

    def accountant_epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        """The same through the accountant object, to check that `epsilon` is what users get."""
        accountant = self._accountant()
        accountant.history = [(sigma, q, steps)]
        return float(accountant.get_epsilon(delta=delta))

    def rdp_curve(self, sigma: float, q: float, orders: Sequence[float]) -> NDArray[np.float64]:
        return np.asarray(
            self._analysis.compute_rdp(q=q, noise_multiplier=sigma, steps=1, orders=list(orders)), dtype=np.float64
        )

    def noise_multiplier(self, epsilon: float, delta: float, q: float, steps: int) -> float:
        return float(
            self._search(target_epsilon=epsilon, target_delta=delta, sample_rate=q, steps=steps, accountant="rdp")
        )
