"""The privacy loss of a job as a random variable: its mean, the probability that it is above epsilon, its quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np

from fastacct.accountants.question import Job, answer
from fastacct.core.bounds import Bounds
from fastacct.core.engine import status_of
from fastacct.core.inputs import Cells, Domain, Reals, as_cells, as_choice
from fastacct.core.relations import DIRECTIONS, Direction
from fastacct.epsilon import rdp, rdp_bounds
from fastacct.mechanisms.algebra import Mechanism, Process

__all__ = ["PrivacyLoss", "privacy_loss"]

_ANY: Final = Domain(-1e300, 1e300)
_CHANCE: Final = Domain(0.0, 1.0, open_low=True)
_STEPS: Final = np.geomspace(1e-8, 0.3, 12)
"""Distances between two deltas, whose difference bounds a slope: the best of them is taken."""
_LARGEST: Final = 700.0
_SEARCH: Final = 60


class PrivacyLoss:
    """log dP/dQ under P, for all releases of a job together; made by `fastacct.privacy_loss`."""

    def __init__(self, job: Job, direction: Direction, threads: int | None) -> None:
        self._job, self._direction, self._threads = job, direction, threads

    @property
    def mean(self) -> Bounds:
        """The Kullback-Leibler divergence of P from Q: certified bounds.

        The lower one is 0 but for Gaussians and their Poisson samples, of which divergences are known from below.
        """
        process = self._job if isinstance(self._job, Process) else self._job * 1
        if process.is_sampled(self._direction):
            return rdp_bounds(process, 1.0, neighbors=self._direction, threads=self._threads)
        upper = float(rdp(process, 1.0, neighbors=self._direction, threads=self._threads))
        return Bounds(0.0, upper, int(status_of(np.asarray(0.0), np.asarray(upper))))

    def exceeds(self, epsilon: Reals) -> Bounds:
        """Probability that the loss is above epsilon, which may be negative: certified bounds; arrays broadcast.

        delta is convex in exp(epsilon), and Q(L > epsilon) its slope there: differences of certified deltas on both
        sides enclose it, and P(L > epsilon) = delta + exp(epsilon) Q(L > epsilon).  About 1e-5 wide; at a loss that has
        a probability of its own the upper bound includes it.
        """
        cells = as_cells("epsilon", epsilon, _ANY)
        lower, upper = self._exceeds(np.clip(cells, -_LARGEST, _LARGEST))
        lower = np.where(cells > _LARGEST, 0.0, lower)
        upper = np.where(cells < -_LARGEST, 1.0, upper)
        plain: Callable[[Any], Any] = (lambda x: x.item()) if cells.ndim == 0 else np.asarray
        return Bounds(plain(lower), plain(upper), plain(status_of(lower, upper)))

    def quantile(self, beta: float) -> Bounds:
        """The smallest epsilon that the loss is above with probability at most beta: certified bounds, inf included."""
        chance = float(as_cells("beta", beta, _CHANCE))
        low, high = (self._boundary(side, chance) for side in (0, 1))
        return Bounds(low, high, int(status_of(np.asarray(low), np.asarray(high))))

    def _boundary(self, side: int, chance: float) -> float:
        """Where the lower bound is last above the chance, or the upper one first at most it."""
        low, high = -_LARGEST, _LARGEST
        at_ends = self._exceeds(np.array([low, high]))[side] > chance
        if at_ends[1]:
            return math.inf if side else high
        if not at_ends[0]:
            return low if side else -math.inf
        for _ in range(_SEARCH):
            inner = np.linspace(low, high, 10)[1:-1]
            above = self._exceeds(inner)[side] > chance
            last, first = inner[above], inner[~above]
            low, high = (last.max() if last.size else low), (first[first > low].min() if np.any(first > low) else high)
            if high - low <= 1e-12 * max(abs(high), 1e-3):
                break
        return float(high if side else low)

    def _exceeds(self, epsilon: Cells) -> tuple[Cells, Cells]:
        """Bounds of P(L > epsilon)."""
        steps = _STEPS * np.maximum(np.abs(epsilon), 1.0)[..., None]
        here = epsilon[..., None]
        at = np.concatenate([here - steps, here, here + steps], axis=-1)
        low, high = self._deltas(at)
        n = _STEPS.size
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # times exp(epsilon), so that nothing overflows
            right = (low[..., n, None] - high[..., n + 1 :]) / np.expm1(steps)
            left = (high[..., :n] - low[..., n, None]) / -np.expm1(-steps)
        slope_low = np.maximum(np.nan_to_num(right, nan=0.0).max(axis=-1), 0.0)
        slope_high = np.where(np.isfinite(left), left, np.inf).min(axis=-1)
        lower = (low[..., n] + slope_low) * (1.0 - 1e-14) - 1e-300
        upper = (high[..., n] + slope_high) * (1.0 + 1e-14) + 1e-300
        return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)

    def _deltas(self, epsilon: Cells) -> tuple[Cells, Cells]:
        """Bounds of delta at any epsilon: left of 0 by the other direction, with P and Q exchanged."""
        flat = epsilon.ravel()
        low, high = np.empty(flat.size), np.empty(flat.size)
        other: Direction = "add" if self._direction == "remove" else "remove"
        for direction, own in ((self._direction, flat >= 0.0), (other, flat < 0.0)):
            if own.any():
                found = answer("delta", self._job, np.abs(flat[own]), None, direction, self._threads)
                low[own], high[own] = found.lower, np.minimum(found.upper, 1.0)
        negative, weight = flat < 0.0, np.exp(np.minimum(flat, 0.0))
        rest = -np.expm1(np.minimum(flat, 0.0))
        low = np.where(negative, (rest + weight * low) * (1.0 - 1e-15), low)
        high = np.where(negative, (rest + weight * high) * (1.0 + 1e-15), high)
        return low.reshape(epsilon.shape), high.reshape(epsilon.shape)


def privacy_loss(
    job: Job, *, neighbors: Literal["remove", "add"] = "remove", threads: int | None = None
) -> PrivacyLoss:
    """The privacy loss of a job in one direction, as a random variable.

    **Guarantee.** Certified lower and upper bounds of its mean, tail and quantiles, for the dominating pair of the job
    ("remove": P with the record, Q without).  Of a job that is only a bound (`tight` is False) lower bounds are 0.

    Parameters
    ----------
    job : Mechanism or Process
        In plain numbers.
    neighbors : {"remove", "add"}
    threads : int, optional

    Returns
    -------
    PrivacyLoss
        With `mean`, `exceeds(epsilon)` and `quantile(beta)`.

    Raises
    ------
    TypeError, ValueError
        A job with arrays, another relation, or one that a mechanism does not support.

    Examples
    --------
    >>> import fastacct as fa
    >>> loss = fa.privacy_loss(fa.Gaussian(1.0) * 4)   # a normal variable with mean 2 and standard deviation 2
    >>> round(loss.mean.upper, 9), round(loss.exceeds(4.0).upper, 3), round(loss.quantile(0.5).upper, 3)
    (2.0, 0.159, 2.0)
    """
    direction = as_choice("neighbors", neighbors, DIRECTIONS["add_remove"])
    if not isinstance(job, Mechanism | Process):
        raise TypeError(f"job must be a mechanism or a process, not {job!r}")
    if shape := getattr(job, "shape", ()):
        raise TypeError(f"the job has arrays of shape {shape}: ask for one job at a time")
    return PrivacyLoss(job, direction, threads)
