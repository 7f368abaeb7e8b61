"""Rényi divergence at whole orders by the binomial series: docs/algorithms/series.md."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

DIGITS = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
"""60 digits, and exponents beyond those of all terms: what overflows all the same is infinite."""


def by_series(noise: float, rate: float, order: int) -> tuple[float, float]:
    """Bounds of the divergence of one step, for noise of at most 1e40."""
    with localcontext(DIGITS):
        p = Decimal(rate)
        odds, weight = p / (1 - p), (1 - p) ** order  # of k records that take part, k = 0
        step = Decimal(noise) ** -2
        step = step.exp() - 1 if step > Decimal("1e-30") else step * (1 + step / 2)
        grown, turn, total = Decimal(0), Decimal(0), Decimal(0)  # expm1(k (k-1)/(2 noise^2)), expm1(k/noise^2)
        for k in range(order):
            weight *= odds * (order - k) / (k + 1)
            grown += turn * (1 + grown)
            turn += step * (1 + turn)
            total += weight * grown
        lower = total * (1 - total) if total < Decimal("1e-30") else (1 + total).ln()
        upper = total if total < Decimal("1e-30") else lower
        return float(lower / (order - 1)) * (1 - 2.0**-51), float(upper / (order - 1)) * (1 + 2.0**-51) + 5e-324
