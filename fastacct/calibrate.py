"""Calibration of any job: the number at which a target is just met, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fastacct import api
from fastacct._arrays import Domain, as_cells
from fastacct.accountants import Method
from fastacct.mechanisms import Mechanism
from fastacct.process import Process
from fastacct.tradeoff import advantage as largest_advantage
from fastacct.tradeoff import tpr_at_fpr

__all__ = ["boundary", "calibrate"]

WIDTH: Final = 1e-9
"""Relative distance of the number returned from one that does not meet the target."""
_WIDEST: Final = (1e-6, 1e12)
_FACTOR: Final = 4.0
_SMALLEST: Final = 1e-300
_UNIT: Final = Domain(0.0, 1.0)
_LEVEL: Final = 50.0
_MOST: Final = 400


def calibrate(
    build: Callable[[Any], Mechanism | Process],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    bracket: tuple[float, float] | None = None,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """The number x for which the job `build(x)` just meets a target.

    **Guarantee.** Safe side: the readout of `build(x)` at the x returned is at most the target (it has been evaluated),
    and at a number within 1e-9 relative (or at the next whole number) it is above, or x is an end of the bracket.

    Parameters
    ----------
    build : callable
        From a number to a job.  The privacy loss must be monotone in it, either way.
    epsilon, delta : float
        Target: epsilon at delta.
    advantage : float
        Target instead: `fastacct.advantage`.
    tpr, fpr : float
        Target instead: `fastacct.tpr_at_fpr`.
    bracket : (low, high), optional
        Where to search; two ints mean whole numbers.  Default: outwards from 1, to 1e-6 or 1e12, for noise multipliers.
        Give (0.0, 1.0) for a sample rate and, say, (1, 10**7) for a number of steps.
    accountant : Method, optional
        For epsilon; default `fastacct.Exact()`.
    neighbors, threads
        As in `epsilon`.

    Returns
    -------
    float or int
        int for a bracket of ints.

    Raises
    ------
    TypeError, ValueError
        For targets that do not go together; where no number of the bracket meets the target; whatever `build` raises.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.calibrate(lambda n: fa.Gaussian(1.0).poisson(0.01) * n, epsilon=2.0, delta=1e-5, bracket=(1, 10**6))
    1202
    """
    spent, target, name = _measure(epsilon, delta, advantage, tpr, fpr, accountant, neighbors, threads)
    seen: dict[float, float] = {}

    def level(x: float) -> float:
        """Logarithm of spent over target, kept finite: at most 0 where the target is met."""
        value = seen[x] = spent(build(x))
        if isinstance(value, np.ndarray):
            raise TypeError(f"build({x!r}) is a job with arrays; calibrate one job at a time")
        if not 0.0 < value < math.inf or target == 0.0:
            return -_LEVEL if value <= target else _LEVEL
        return math.log(value / target) or math.copysign(1e-17, value - target) * (value != target)

    def hint() -> str:
        least = min(seen.values())
        if bracket is None:
            return f"{name} stays at {least!r}, which the parts that do not change with the number cost alone"
        return f"the smallest {name} there is {least!r}; try another bracket"

    return boundary(level, bracket, f"{name} <= {target!r}", hint)


def boundary(
    level: Callable[[float], float],
    bracket: tuple[float, float] | None,
    wanted: str,
    hint: Callable[[], str] = lambda: "try another bracket",
) -> float:
    """The number at which a monotone level passes 0, on the side where it is at most 0."""
    ends = _start(level) if bracket is None else _as_bracket(bracket)
    levels = level(ends[0]), level(ends[1])
    if max(levels) <= 0.0:
        return ends[levels[1] >= levels[0]]  # the end that spends more
    if min(levels) > 0.0:
        raise ValueError(f"{wanted} is met neither at {ends[0]!r} nor at {ends[1]!r}; {hint()}")
    if ends[0] == 0.0 and isinstance(ends[0], float):
        ends, levels = _away_from_zero(level, ends[1], levels)
    return _search(level, ends, levels)


def _start(level: Callable[[float], float]) -> tuple[float, float]:
    """A bracket around 1: the extremes are slow to read, and seldom needed."""
    low, high = 1.0, _FACTOR
    at_low, at_high = level(low), level(high)
    falls = at_high <= at_low
    while (at_low > 0.0) == (at_high > 0.0) and _WIDEST[0] < low and high < _WIDEST[1]:
        if (at_low > 0.0) == falls:  # too much everywhere: on to where it falls
            low, at_low, high = high, at_high, high * _FACTOR
            at_high = level(high)
        else:
            high, at_high, low = low, at_low, low / _FACTOR
            at_low = level(low)
    return low, high


def _away_from_zero(
    level: Callable[[float], float], high: float, levels: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Orders of magnitude down, to a positive bracket."""
    at_high = levels[1]
    while high > _SMALLEST:
        low = high * 1e-3
        at_low = level(low)
        if (at_low > 0.0) != (at_high > 0.0):
            return (low, high), (at_low, at_high)
        high, at_high = low, at_low
    return (0.0, high), (levels[0], at_high)


def _search(level: Callable[[float], float], ends: tuple[float, float], levels: tuple[float, float]) -> float:
    """Chandrupatla's method on the logarithm; the end of the last bracket that meets the target."""
    whole, log = isinstance(ends[0], int), ends[0] > 0.0
    found = dict(zip(ends, levels, strict=True))

    def number(u: float) -> float:
        value = math.exp(u) if log else u
        if whole:
            return int(min(max(round(value), min(x, y) + 1), max(x, y) - 1))
        return value

    x, y = ends
    a, b = (math.log(end) if log else float(end) for end in ends)
    fa, fb = levels
    c, fc, share = a, fa, 0.5
    for _ in range(_MOST):
        largest = max(abs(x), abs(y))
        tolerance = 0.4 if whole else 0.25 * WIDTH * largest
        tolerance /= largest if log else 1.0
        if abs(x - y) <= (1 if whole else 0.5 * WIDTH * largest):
            break
        least = min(tolerance / abs(b - a), 0.5)
        z = number(a + min(max(share, least), 1.0 - least) * (b - a))
        if z in (x, y):
            break
        fz = found[z] = level(z)
        u = math.log(z) if log else float(z)
        if (fz > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb, y = b, fb, a, fa, x
        a, fa, x = u, fz, z
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        share = 0.5
        if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return x if found[x] <= 0.0 else y


def _as_bracket(bracket: Any) -> tuple[float, float]:
    if isinstance(bracket, str | bytes) or not hasattr(bracket, "__len__") or len(bracket) != 2:
        raise TypeError(f"bracket must be (low, high), not {bracket!r}")
    low, high = bracket
    for value in (low, high):
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise TypeError(f"bracket must be two numbers, not {bracket!r}")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"bracket = {bracket!r} must be finite and increasing")
    if isinstance(low, int | np.integer) and isinstance(high, int | np.integer):
        return int(low), int(high)
    return float(low), float(high)


def _measure(
    epsilon: Any,
    delta: Any,
    advantage: Any,
    tpr: Any,
    fpr: Any,
    accountant: Method | None,
    neighbors: str,
    threads: int | None,
) -> tuple[Callable[[Mechanism | Process], Any], float, str]:
    """What is read from a job, the target, and its name."""
    given = {
        name: value
        for name, value in (
            ("epsilon", epsilon),
            ("delta", delta),
            ("advantage", advantage),
            ("tpr", tpr),
            ("fpr", fpr),
        )
        if value is not None
    }
    for name, value in given.items():
        cell = as_cells(name, value) if name in ("epsilon", "delta") else as_cells(name, value, _UNIT)
        if cell.ndim:
            raise TypeError(f"{name} must be one number, not an array of shape {cell.shape}")
        given[name] = float(cell)
    if given.keys() == {"epsilon", "delta"}:

        def spent(job: Mechanism | Process) -> Any:
            return api.epsilon(job, delta=given["delta"], accountant=accountant, neighbors=neighbors, threads=threads)

        return spent, given["epsilon"], "epsilon"
    if accountant is not None:
        raise ValueError("accountant goes with epsilon and delta; the other targets are read exactly")
    if given.keys() == {"advantage"}:
        return (
            lambda job: largest_advantage(job, neighbors=neighbors, threads=threads),
            given["advantage"],
            "advantage",
        )
    if given.keys() == {"tpr", "fpr"}:
        return (
            lambda job: tpr_at_fpr(job, given["fpr"], neighbors=neighbors, threads=threads),
            given["tpr"],
            "tpr",
        )
    raise TypeError(f"give epsilon and delta, or advantage, or tpr and fpr; not {', '.join(given) or 'nothing'}")
