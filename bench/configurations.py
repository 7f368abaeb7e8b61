"""Seeded random DP-SGD configurations, the same for every library that is compared.

The regimes that accountants are compared on, everyday and broad, are those of `bench.scores`; here are three more
that are hard for Rényi DP.  Row i depends on the seed and i alone: the first 200 of 100,000 configurations are the 200
configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from bench import scores
from bench.scores import SEED, Runs
from fastacct.core.inputs import Cells


class Configurations(Runs):
    """Runs, and for each an epsilon, the target of calibrations."""

    epsilon: Cells

    def head(self, n: int) -> Configurations:
        """The first n."""
        return Configurations(self.regime, *(column[:n] for column in (*self.keywords().values(), self.epsilon)))

    def run(self) -> dict[str, Any]:
        """Arguments of `epsilon`."""
        return dict(self.keywords())

    def parameters(self) -> dict[str, Any]:
        """Arguments of `rdp`, as columns."""
        return {"noise_multiplier": self.noise_multiplier, "sample_rate": self.sample_rate}

    def curves(self) -> dict[str, Any]:
        """Arguments of `rdp` with the orders along a new last axis."""
        return {name: column[:, None] for name, column in self.parameters().items()}

    def target(self) -> dict[str, Any]:
        """Arguments of `noise_multiplier`."""
        return {"epsilon": self.epsilon, "delta": self.delta, "sample_rate": self.sample_rate, "steps": self.steps}


def _log_uniform(u: Cells, low: float, high: float) -> Cells:
    return np.asarray(low * (high / low) ** u)


def _with_targets(runs: Runs, seed: int) -> Configurations:
    u = np.random.default_rng([seed, 1]).random(len(runs))
    return Configurations(runs.regime, **runs.keywords(), epsilon=_log_uniform(u, 0.3, 10.0))


def everyday(n: int, seed: int = SEED) -> Configurations:
    """What people train with."""
    return _with_targets(scores.draw("everyday", n, seed), seed)


def broad(n: int, seed: int = SEED) -> Configurations:
    """Numbers of steps that do not depend on the rate."""
    return _with_targets(scores.draw("broad", n, seed), seed)


def _hard(
    name: str, sigma: tuple[float, float], q: tuple[float, float], steps: tuple[float, float], n: int, seed: int = SEED
) -> Configurations:
    """Log-uniform between these ends."""
    u = np.random.default_rng(seed).random((n, 4)).T
    columns = [_log_uniform(one, *ends) for one, ends in zip(u, (sigma, q, steps, (1e-9, 1e-4)), strict=True)]
    return _with_targets(Runs(name, columns[0], columns[1], np.floor(columns[2]), columns[3]), seed)


small_noise: Final = partial(_hard, "small sigma", (0.05, 0.3), (1e-4, 0.1), (1e2, 1e5))
"""The integrand is narrow and the best order close to 1."""

tiny_rate: Final = partial(_hard, "tiny q", (0.5, 8.0), (1e-9, 1e-5), (1e2, 1e5))
"""Adding terms to 1 loses everything."""

huge_order: Final = partial(_hard, "huge order", (8.0, 100.0), (1e-4, 1e-2), (1.0, 100.0))
"""Few steps with much noise: the best order is in the hundreds to tens of thousands."""

REGIMES: Final[dict[str, Callable[[int], Configurations]]] = {
    "everyday": everyday,
    "broad": broad,
    "small sigma": small_noise,
    "tiny q": tiny_rate,
    "huge order": huge_order,
}
