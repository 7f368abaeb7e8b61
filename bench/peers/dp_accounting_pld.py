"""Google's dp_accounting: `dp_accounting.pld.PLDAccountant` and `calibrate_dp_mechanism` with it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any


class DpAccountingPld:
    """Pessimistic privacy-loss distribution on a grid of 1e-4, its default."""

    name = "dp_accounting PLD"
    distribution = "dp-accounting"
    calibration = "calibrate_dp_mechanism (default bracket, tolerance 1e-6) with PLDAccountant"

    def __init__(self) -> None:
        import dp_accounting
        from absl import logging
        from dp_accounting.pld import PLDAccountant

        logging.set_verbosity(logging.ERROR)
        self._events = dp_accounting
        self._accountant = PLDAccountant

    @property
    def version(self) -> str:
        return version(self.distribution)

    def _run(self, sigma: float, q: float, steps: int) -> Any:
        step = self._events.PoissonSampledDpEvent(q, self._events.GaussianDpEvent(sigma))
        return self._events.SelfComposedDpEvent(step, steps)

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        return float(self._accountant().compose(self._run(sigma, q, steps)).get_epsilon(delta))

    def delta(self, sigma: float, q: float, steps: int, epsilon: float) -> float:
        return float(self._accountant().compose(self._run(sigma, q, steps)).get_delta(epsilon))

    def noise_multiplier(self, epsilon: float, delta: float, q: float, steps: int) -> float:
        return float(
            self._events.calibrate_dp_mechanism(
                self._accountant, lambda sigma: self._run(sigma, q, steps), epsilon, delta
            )
        )
