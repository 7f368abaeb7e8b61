"""Losses beyond a cap need no Fourier sum: sums with one of them are in the money (docs/algorithms/smoothed.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from fastacct.core.inputs import ROUNDING
from fastacct.losses.loss import PROBES, Atoms, Part, Weighted, log_moment, refuse_where, weighted

RARE: Final = 1e-30
"""What all losses of a release that are left out have together."""


def hardly(delta: float, n_releases: int) -> float:
    """The mass of the losses of a release that do not matter where delta is asked for its epsilon; 0: all may."""
    return RARE if 1e-12 * delta > RARE * n_releases else 0.0


def apart(sides: Sequence[Sequence[tuple[Atoms, int]]]) -> tuple[float, float]:
    """By how much the logarithm of a product of masses is smaller from below than from above, and a sum of losses."""
    less = moved = 0.0
    for (low, n), (high, _) in zip(*sides, strict=True):
        if low.loss.size != high.loss.size:
            return math.inf, math.inf
        less += n * max(float(np.log(high.mass / low.mass).max(initial=0.0)), 0.0)
        moved += n * max(float((high.loss - low.loss).max(initial=0.0)), 0.0)
    return less * (1.0 + 1e-9) + 1e-15 * sum(n for _, n in sides[0]), moved * (1.0 + 1e-9)


def known_atoms(part: Part, is_upper: bool, rare: float) -> Atoms:
    """Losses and masses of a side, errors included; those of which all together have at most the mass `rare` are
    infinite from above, and none from below."""
    side, loss_of = (1.0, part.upper) if is_upper else (-1.0, part.lower)
    source = cast("Atoms", loss_of.as_atoms())
    loss = source.loss + side * (source.loss_error + 4.0 * ROUNDING * np.abs(source.loss))
    keep = source.mass > rare / max(source.mass.size, 1)
    refuse_where(0 == keep.sum() < keep.size, "each loss of a part is rare")
    gone = is_upper * float(source.mass[~keep].sum()) * (1.0 + 1e-9)
    return Atoms(loss[keep], np.zeros(int(keep.sum())), source.mass[keep], infinite=min(source.infinite + gone, 1.0))


def up_to(one: Atoms, cap: float) -> Atoms:
    """The atoms that are not beyond the cap."""
    keep = one.loss <= cap
    return one if keep.all() else Atoms(one.loss[keep], one.loss_error[keep], one.mass[keep], infinite=one.infinite)


class FarLosses:
    """What sums with a loss beyond the cap add to delta: P's mass less exp(epsilon) times Q's, and what is put back
    where the others outweigh it."""

    def __init__(self, parts: Sequence[tuple[Atoms, int]], cap: float) -> None:
        self._masses: list[tuple[float, float]] = []
        self._puts: list[tuple[float, float]] = []
        self._off = 0.0
        if any((one.loss > cap).any() for one, _ in parts):
            whole = [weighted(one, n) for one, n in parts]
            self._n_all = sum(n for n, _, _ in whole)
            self._most = max(float(np.abs(loss).max() + np.abs(log_mass).max()) for _, loss, log_mass in whole)
            self._off = ROUNDING * (64.0 + 4000.0 * self._n_all + 8.0 * self._most)
            self._masses = [self._mass(whole, cap, power) for power in (0.0, -1.0)]
            width = math.sqrt(max(log_moment(whole, 0.0).variance, 1e-300))
            self._puts = [self._put(whole, cap, 1.0 + step) for step in (PROBES / width).tolist()]

    @staticmethod
    def _mass(parts: Sequence[Weighted], cap: float, power: float) -> tuple[float, float]:
        """Logarithms of all mass, and of which share of it is in sums without any loss beyond the cap."""
        value, shares = _shares(parts, cap, power)
        refuse_where(max(share for _, share in shares) > 0.5, "most losses are large")
        return value, math.fsum(n * math.log1p(-share) for n, share in shares)

    def _put(self, parts: Sequence[Weighted], cap: float, slope: float) -> tuple[float, float]:
        """What is put back is at most exp(slope epsilon + this)."""
        value, shares = _shares(parts, cap, -slope)
        slack = self._off + ROUNDING * (16.0 * slope * self._n_all * self._most + 8.0 * abs(value))
        return slope, value + math.log(max(math.fsum(n * share for n, share in shares), 1e-300)) + slack

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """Of this part of delta."""
        if not self._masses:
            return 0.0, 0.0
        gain, paid = (
            math.exp(min(value + power * epsilon, 700.0)) * -math.expm1(rest)
            for power, (value, rest) in enumerate(self._masses)
        )
        off = (gain + paid) * (self._off + 8.0 * ROUNDING * abs(epsilon))
        put = min(slope * epsilon + value + 8.0 * ROUNDING * slope * abs(epsilon) for slope, value in self._puts)
        return gain - paid - off, gain - paid + off + (math.exp(put) * (1.0 + 1e-9) if put < 700.0 else math.inf)


def _shares(parts: Sequence[Weighted], cap: float, power: float) -> tuple[float, list[tuple[int, float]]]:
    """The log-moment of all, and of each part its count and which share of its moment is beyond the cap."""
    value, shares = 0.0, []
    for n, loss, log_mass in parts:
        total, far = log_moment([(1, loss, log_mass)], power).value, loss > cap
        value += n * total
        shares.append((n, float(np.exp(power * loss[far] + log_mass[far] - total).sum())))
    return value, shares
