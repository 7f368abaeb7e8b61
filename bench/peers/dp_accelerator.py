"""Dp-accelerator: `dp_accelerator.compute_epsilon_batch`, Rényi DP in Rust, many numbers of steps in one call."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version


class DpAccelerator:
    """The orders of its `DPSGDAccountant`, which takes whole numbers of records instead of a rate."""

    name = "dp-accelerator"
    distribution = "dp-accelerator"

    def __init__(self) -> None:
        from dp_accelerator import DPSGDAccountant, compute_epsilon_batch

        self._epsilons = compute_epsilon_batch
        self._orders = DPSGDAccountant(noise_multiplier=1.0, batch_size=1, dataset_size=2).orders

    @property
    def version(self) -> str:
        return version(self.distribution)

    def epsilon(self, sigma: float, q: float, steps: int, delta: float) -> float:
        return self.epsilons(sigma, q, [steps], delta)[0]

    def epsilons(self, sigma: float, q: float, steps: Sequence[int], delta: float) -> list[float]:
        """One for each number of steps."""
        return list(self._epsilons(q, sigma, list(steps), self._orders, delta))
