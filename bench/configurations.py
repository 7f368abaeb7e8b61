"""Seeded random DP-SGD configurations, the same for every library that is compared.

Row i depends on the seed and i alone: the first 200 of 100,000 configurations are the 200 configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float64]

SEED: Final = 20240229


class Configuration(NamedTuple):
    """One configuration in plain Python numbers, as the scalar interfaces of the peers want them."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    delta: float
    epsilon: float
    """Target of calibrations."""

    def run(self) -> dict[str, Any]:
        """Arguments of `epsilon`."""
        return dict(zip(("noise_multiplier", "sample_rate", "steps", "delta"), self[:4], strict=True))


@dataclass(frozen=True)
class Configurations:
    """Columns of equal length; `epsilon` is the target of calibrations."""

    name: str
    noise_multiplier: Cells
    sample_rate: Cells
    steps: Cells
    delta: Cells
    epsilon: Cells

    def __len__(self) -> int:
        return len(self.delta)

    def __iter__(self) -> Iterator[Configuration]:
        for sigma, q, steps, delta, epsilon in zip(*self.columns(), strict=True):
            yield Configuration(float(sigma), float(q), int(steps), float(delta), float(epsilon))

    def columns(self) -> tuple[Cells, Cells, Cells, Cells, Cells]:
        return self.noise_multiplier, self.sample_rate, self.steps, self.delta, self.epsilon

    def head(self, n: int) -> Configurations:
        """The first n rows."""
        return Configurations(self.name, *(column[:n] for column in self.columns()))

    def run(self) -> dict[str, Any]:
        """Arguments of `epsilon`."""
        return {**self.parameters(), "steps": self.steps, "delta": self.delta}

    def parameters(self) -> dict[str, Any]:
        """Arguments of `rdp`, as columns: the orders go along the last axis."""
        return {"noise_multiplier": self.noise_multiplier, "sample_rate": self.sample_rate}

    def curves(self) -> dict[str, Any]:
        """Arguments of `rdp` with the orders along a new last axis."""
        return {name: column[:, None] for name, column in self.parameters().items()}

    def target(self) -> dict[str, Any]:
        """Arguments of `noise_multiplier`."""
        return {"epsilon": self.epsilon, "delta": self.delta, "sample_rate": self.sample_rate, "steps": self.steps}


def _log_uniform(u: Cells, low: float, high: float) -> Cells:
    return np.asarray(low * np.exp(u * np.log(high / low)))


def _draw(
    name: str,
    n: int,
    seed: int,
    noise_multiplier: Callable[[Cells], Cells],
    sample_rate: tuple[float, float],
    steps: tuple[float, float] = (1e2, 1e5),
) -> Configurations:
    u = np.random.default_rng(seed).random((n, 5))
    return Configurations(
        name,
        noise_multiplier(u[:, 0]),
        _log_uniform(u[:, 1], *sample_rate),
        np.floor(_log_uniform(u[:, 2], *steps)),
        _log_uniform(u[:, 3], 1e-9, 1e-4),
        _log_uniform(u[:, 4], 0.3, 10.0),
    )


def everyday(n: int, seed: int = SEED) -> Configurations:
    """What people train with: q in 1e-4..0.1, sigma in 0.5..8, T in 100..1e5, delta in 1e-9..1e-4."""
    return _draw("everyday", n, seed, lambda u: 0.5 + 7.5 * u, (1e-4, 0.1))


def broad(n: int, seed: int = SEED) -> Configurations:
    """Wider: q in 1e-6..0.5, sigma in 0.3..20."""
    return _draw("broad", n, seed, lambda u: _log_uniform(u, 0.3, 20.0), (1e-6, 0.5))


def small_noise(n: int, seed: int = SEED) -> Configurations:
    """Sigma in 0.05..0.3, where the integrand is narrow and the best order is close to 1."""
    return _draw("small sigma", n, seed, lambda u: _log_uniform(u, 0.05, 0.3), (1e-4, 0.1))


def tiny_rate(n: int, seed: int = SEED) -> Configurations:
    """Q in 1e-9..1e-5, where adding terms to 1 loses everything."""
    return _draw("tiny q", n, seed, lambda u: 0.5 + 7.5 * u, (1e-9, 1e-5))


def huge_order(n: int, seed: int = SEED) -> Configurations:
    """Few steps with much noise: the best order is in the hundreds to tens of thousands."""
    return _draw("huge order", n, seed, lambda u: _log_uniform(u, 8.0, 100.0), (1e-4, 1e-2), steps=(1.0, 100.0))


REGIMES: Final = {
    "everyday": everyday,
    "broad": broad,
    "small sigma": small_noise,
    "tiny q": tiny_rate,
    "huge order": huge_order,
}
