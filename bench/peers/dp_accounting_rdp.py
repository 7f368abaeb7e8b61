"""Google's dp_accounting: `dp_accounting.rdp.RdpAccountant` and `calibrate_dp_mechanism`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DpAccountingRdp:
    """RDP accountant of dp_accounting at its default orders."""

    name = "dp_accounting RDP"
    distribution = "dp-accounting"
    calibration = "calibrate_dp_mechanism (default bracket, tolerance 1e-6)"

    def __init__(self) -> None:
        import dp_accounting
        from absl import logging
        from dp_accounting.rdp import rdp_privacy_accountant

        logging.set_verbosity(logging.ERROR)  # a line per doubtful order would be timed as well
        self._events = dp_accounting
        self._accountant = rdp_privacy_accountant.RdpAccountant
        self._orders = rdp_privacy_accountant.DEFAULT_RDP_ORDERS

    @property
    def version(self) -> str:
        return version(self.distribution)

    @property
    def default_orders(self) -> tuple[float, ...]:
        return tuple(float(order) for order in self._orders)

    def _run(self, sigma: float, q: float, steps: int) -> Any:
        step = self._events.PoissonSampledDpEvent(q, self._events.GaussianDpEvent(sigma))
        return self._events.SelfComposedDpEvent(step, steps)

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        return float(self._accountant().compose(self._run(sigma, q, steps)).get_epsilon(delta))

    def rdp_curve(self, sigma: float, q: float, orders: Sequence[float]) -> NDArray[np.float64]:
        # the accountant does not show its curve otherwise
        return np.asarray(self._accountant(list(orders)).compose(self._run(sigma, q, 1))._rdp, dtype=np.float64)

    def noise_multiplier(self, epsilon: float, delta: float, q: float, steps: int) -> float:
        return float(
            self._events.calibrate_dp_mechanism(
                self._accountant, lambda sigma: self._run(sigma, q, steps), epsilon, delta
            )
        )
