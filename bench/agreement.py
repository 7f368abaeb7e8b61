"""Values before times: whose number is right where two libraries differ.

The continuous-order search includes every order of every peer, so its epsilon (and its noise multiplier) may not
exceed the peer's.  Where it does, `fastacct.reference` decides: either the peer is below the truth of the bound that it
claims, which is counted, or the benchmark stops with `FastacctWrongError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import fastacct as fa
from bench import scores
from bench.configurations import Configurations
from bench.peers import Accountant, Peer
from bench.scores import Query, Runs, Truth
from fastacct import reference

RDP: Final = fa.RDP()
TOLERANCE: Final = 1e-9
ORACLE_DIGITS: Final = 13
_ORACLE_ROUNDING: Final = 1e-12
FFT_ROUNDING: Final = 1e-11
"""Absolute error of delta that the FFT of a peer may have."""
EXACT_CALIBRATION: Final = 1e-7


class FastacctWrongError(AssertionError):
    """A value of fastacct is below the truth, or above a peer's number that is right."""


@dataclass
class Agreement:
    """How one quantity of a peer compares, counted in values (orders of curves, or configurations)."""

    quantity: str
    peer: str
    regime: str
    total: int = 0
    equal: int = 0
    """Within 1e-9 of ours."""
    above: int = 0
    """Peer looser than ours."""
    below_truth: int = 0
    """Peer below the truth of its own bound: a wrong privacy number."""
    failed: int = 0
    """Exception, NaN or no finite answer where a finite one exists."""
    ratios: list[float] = field(default_factory=list)
    """Peer / ours, where both are finite and positive."""
    worst: tuple[float, str] = (1.0, "")
    """Smallest peer / truth, and where."""

    def below(self, ratio: float, where: str) -> None:
        self.below_truth += 1
        if ratio < self.worst[0]:
            self.worst = ratio, where

    @property
    def median_ratio(self) -> float:
        return float(np.median(self.ratios)) if self.ratios else math.nan

    @property
    def largest_ratio(self) -> float:
        return max(self.ratios, default=math.nan)


def _where(c: Query) -> str:
    return f"sigma {c.noise_multiplier:.4g}, q {c.sample_rate:.3g}, T {c.steps}, delta {c.delta:.2g}"


def true_epsilon(c: Query, sigma: float | None = None) -> float:
    """What Rényi DP proves, from the oracle: the infimum over all real orders, or 0 by the total variation."""
    noise = c.noise_multiplier if sigma is None else sigma
    kl = float(reference.rdp(noise, c.sample_rate, 1, digits=ORACLE_DIGITS)) * c.steps
    if c.delta >= math.sqrt(min(kl / 2, -math.expm1(-kl))):  # Pinsker; Bretagnolle and Huber
        return 0.0
    return float(reference.rdp_epsilon(noise, c.sample_rate, c.steps, c.delta, digits=ORACLE_DIGITS)[0])


def check_against_oracle(configurations: Configurations) -> list[float]:
    """Relative excess of our epsilon over the oracle's infimum; stops where it is below."""
    ours = fa.dpsgd.epsilon(**configurations.run(), accountant=RDP)
    excess = []
    for c, value in zip(configurations, ours, strict=True):
        truth = true_epsilon(c)
        if value < truth * (1 - _ORACLE_ROUNDING):
            raise FastacctWrongError(f"epsilon {value!r} is below the truth {truth!r} at {_where(c)}")
        excess.append(float(value) / truth - 1.0 if truth > 0.0 else 0.0)
    return excess


def search_excess(configurations: Configurations, points: int = 41, width: float = 0.02) -> NDArray[np.float64]:
    """Relative excess of our epsilon over the best of `points` orders around the order it was found at."""
    run = configurations.run()
    ours, best = fa.dpsgd.epsilon(**run, accountant=RDP), fa.dpsgd.best_order(**run)
    lowest = ours.copy()
    for factor in np.exp(np.linspace(-width, width, points)):
        order = 1.0 + (best - 1.0) * factor
        divergence = fa.dpsgd.rdp(**configurations.parameters(), orders=order, steps=configurations.steps)
        here = divergence - np.log(configurations.delta * order) / (order - 1.0) + np.log1p(-1.0 / order)
        lowest = np.fmin(lowest, np.fmax(here, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(ours > lowest, ours / lowest - 1.0, 0.0)


def compare_epsilon(peer: Accountant, configurations: Configurations) -> Agreement:
    result = Agreement("epsilon", peer.name, configurations.regime, total=len(configurations))
    ours = fa.dpsgd.epsilon(**configurations.run(), accountant=RDP)
    for c, mine in zip(configurations, ours.tolist(), strict=True):
        try:
            theirs = max(peer.epsilon(c.noise_multiplier, c.sample_rate, c.steps, c.delta), 0.0)
        except (ArithmeticError, ValueError):
            theirs = math.nan
        if not math.isfinite(theirs):
            result.failed += 1
            continue
        if mine > 0.0 and theirs > 0.0:
            result.ratios.append(theirs / mine)
        if abs(mine - theirs) <= TOLERANCE * mine:
            result.equal += 1
        elif mine < theirs:
            result.above += 1
        else:
            _judge_epsilon(result, c, mine, theirs)
    return result


def _judge_epsilon(result: Agreement, c: Query, mine: float, theirs: float) -> None:
    truth = true_epsilon(c)
    if mine < truth * (1 - _ORACLE_ROUNDING):
        raise FastacctWrongError(f"epsilon {mine!r} is below the truth {truth!r} at {_where(c)}")
    if theirs < truth * (1 - _ORACLE_ROUNDING):
        result.below(theirs / truth, _where(c))
    else:
        raise FastacctWrongError(
            f"epsilon {mine!r} exceeds {result.peer}'s {theirs!r}; the truth is {truth!r} at {_where(c)}"
        )


def compare_curves(peer: Peer, configurations: Configurations, orders: Sequence[float], judged: int = 8) -> Agreement:
    """Order by order against our certified interval; the oracle checks that interval where the peer differs most."""
    result = Agreement("RDP curve", peer.name, configurations.regime, total=len(configurations) * len(orders))
    axis = np.asarray(orders)
    bounds = fa.dpsgd.rdp_bounds(**configurations.curves(), orders=axis)
    suspects: list[tuple[float, Query, int, int]] = []
    for row, c in enumerate(configurations):
        lower, upper = bounds.lower[row], bounds.upper[row]
        try:
            theirs = peer.rdp_curve(c.noise_multiplier, c.sample_rate, orders)
        except (ArithmeticError, ValueError):
            result.failed += len(orders)
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = theirs / upper
            finite = np.isfinite(ratio)
            low = finite & (theirs < lower * (1.0 - TOLERANCE))
            high = finite & (ratio > 1.0 + TOLERANCE)
        result.failed += int((~finite).sum())
        result.above += int(high.sum())
        result.equal += int((finite & ~low & ~high).sum())
        result.ratios.extend(ratio[finite & (theirs > 0.0)].tolist())
        for j in np.flatnonzero(low).tolist():
            result.below(float(theirs[j] / lower[j]), f"{_where(c).split(', T')[0]}, order {axis[j]:g}")
        if finite.any():
            j = int(np.argmax(np.where(finite, np.abs(ratio - 1.0), -1.0)))
            suspects.append((abs(float(ratio[j]) - 1.0), c, row, j))
    for _, c, row, j in sorted(suspects, key=lambda suspect: -suspect[0])[:judged]:
        truth = float(reference.rdp(c.noise_multiplier, c.sample_rate, float(axis[j]), digits=16))
        lower, upper = float(bounds.lower[row, j]), float(bounds.upper[row, j])
        if not (lower <= truth * (1 + 2e-16) and truth * (1 - 2e-16) <= upper <= truth * (1 + _ORACLE_ROUNDING)):
            raise FastacctWrongError(
                f"rdp in [{lower!r}, {upper!r}], the truth is {truth!r} at {_where(c)}, order {axis[j]!r}"
            )
    return result


def compare_noise_multiplier(peer: Peer, configurations: Configurations, judged: int = 3) -> Agreement:
    """Ours may not be larger than a peer's that meets the target; one that misses it is "below the truth"."""
    result = Agreement("noise multiplier", peer.name, configurations.regime, total=len(configurations))
    ours = fa.dpsgd.noise_multiplier(**configurations.target(), accountant=RDP)
    for i, (c, target, mine) in enumerate(
        zip(configurations, configurations.epsilon.tolist(), ours.tolist(), strict=True)
    ):
        if i < judged and true_epsilon(c, mine) > target * (1 + _ORACLE_ROUNDING):
            raise FastacctWrongError(f"noise multiplier {mine!r} misses epsilon {target!r} at {_where(c)}")
        try:
            theirs = peer.noise_multiplier(target, c.delta, c.sample_rate, c.steps)
        except (ArithmeticError, ValueError, RecursionError):
            theirs = math.nan
        if not (math.isfinite(theirs) and theirs > 0.0):
            result.failed += 1
            continue
        result.ratios.append(theirs / mine)
        if abs(theirs - mine) <= TOLERANCE * mine:
            result.equal += 1
        elif theirs > mine:
            result.above += 1
        elif (reached := true_epsilon(c, theirs)) > target * (1 + _ORACLE_ROUNDING):
            result.below(target / reached, f"{_where(c)}, target {target:.4g}")
        else:
            raise FastacctWrongError(
                f"noise multiplier {mine!r} exceeds {result.peer}'s {theirs!r}, which meets the target, at {_where(c)}"
            )
    return result


def compare_exact(name: str, runs: Runs, bounds: Truth, values: NDArray[np.float64]) -> Agreement:
    """Epsilons of numerical composition against our certified interval.

    A pessimistic grid is above the truth up to the rounding of its FFT.  A value below our lower bound by more than
    that stops the benchmark, for one of the two is wrong in earnest; a smaller one is counted.
    """
    result = Agreement("exact epsilon", name, runs.regime, total=len(runs))
    for query, lower, upper, theirs in zip(runs, bounds.lower, bounds.upper, values.tolist(), strict=True):
        if not math.isfinite(theirs):
            result.failed += 1
            continue
        if lower > 0.0 and upper <= lower * (1.0 + scores.RESOLVED):
            result.ratios.append(theirs / lower)
        if theirs < lower * (1.0 - TOLERANCE):
            # how much delta there is beyond the target at their epsilon: rounding, or a wrong curve
            sigma, q, steps, delta = query
            there = fa.dpsgd.delta_lower(noise_multiplier=sigma, sample_rate=q, steps=steps, epsilon=max(theirs, 0.0))
            if there - delta > FFT_ROUNDING * max(1.0, math.sqrt(steps) / 100.0):
                raise FastacctWrongError(
                    f"exact epsilon is at least {lower!r}, {name} says {theirs!r} and is {there - delta:.1e} short "
                    f"in delta at {query}"
                )
            result.below(theirs / lower, str(query))
        elif theirs <= upper * (1.0 + TOLERANCE):
            result.equal += 1
        else:
            result.above += 1
    return result


def compare_exact_noise(
    name: str, values: NDArray[np.float64], jobs: Sequence[dict[str, float]], ours: NDArray[np.float64]
) -> Agreement:
    """Noise multipliers of numerical composition: ours may not be larger, unless theirs misses the target."""
    result = Agreement("exact noise multiplier", name, "everyday", total=len(values))
    for job, theirs, mine in zip(jobs, values.tolist(), ours.tolist(), strict=False):
        if not (math.isfinite(theirs) and theirs > 0.0):
            result.failed += 1
            continue
        result.ratios.append(theirs / mine)
        if abs(theirs - mine) <= TOLERANCE * mine:
            result.equal += 1
            continue
        if theirs > mine:
            result.above += 1
            continue
        known: dict[str, Any] = {key: value for key, value in job.items() if key != "epsilon"}
        lower, upper, _ = fa.dpsgd.epsilon_bounds(noise_multiplier=theirs, **known)
        where = f"q {job['sample_rate']:.3g}, T {job['steps']:g}, delta {job['delta']:.2g}, target {job['epsilon']:g}"
        if lower > job["epsilon"]:
            result.below(job["epsilon"] / lower, where)
        elif upper <= job["epsilon"] * (1.0 - EXACT_CALIBRATION):
            raise FastacctWrongError(
                f"noise multiplier {mine!r} exceeds {name}'s {theirs!r}, which is enough, at {where}"
            )
        else:
            result.equal += 1
    return result
