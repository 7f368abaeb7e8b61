"""A run of DP-SGD in arbitrary precision: parameters, and delta where it has a closed form."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from .certify import bits, noise_and_rate, rounded
from .gaussian import gaussian_delta, sampled_gaussian_delta


class Run:
    """A run: s, q and T."""

    def __init__(self, noise_multiplier: Any, sample_rate: Any, steps: Any) -> None:
        self.s, self.q = noise_and_rate(noise_multiplier, sample_rate)
        if not (steps == int(steps) and steps >= 0):
            raise ValueError(f"steps must be a whole number, not negative, got {steps}")
        self.steps = int(steps)

    def __str__(self) -> str:
        return f"{mp.nstr(self.s, 17)}, {mp.nstr(self.q, 17)}, {self.steps}"

    def closed(self, eps: mpf, direction: str, digits: int) -> mpf | None:
        """Return delta where it has a closed form."""
        if self.q == 0 or self.s == mp.inf or self.steps == 0:
            return gaussian_delta(0, eps, digits)
        if eps == mp.inf:
            return mpf(0)
        if self.steps == 1:
            return sampled_gaussian_delta(self.s, self.q, eps, direction, digits)
        if self.q == 1:
            with mp.workprec(2 * bits(digits + 20)):
                mu = mp.sqrt(self.steps) / self.s if self.s else mp.inf
                return gaussian_delta(mu, eps, digits)
        # each loss is above log(1-q)
        with mp.workprec(2 * bits(digits + 20) + max(0, -mp.mag(self.q))):
            least = self.steps * mp.log1p(-self.q)
            if direction == "remove" and eps <= least:
                return rounded(-mp.expm1(eps), digits)
            if direction == "add" and eps >= -least:
                return mpf(0)
            if self.s == 0:  # the records are seen
                return rounded(-mp.expm1(least) if direction == "remove" else -mp.expm1(eps + least), digits)
        return None
