"""Calibration of any job: the number at which a target is just met, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fastacct.accountants import Method
from fastacct.core.inputs import UNIT, as_number
from fastacct.core.relations import Relation
from fastacct.core.search import boundary
from fastacct.epsilon import Job
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.tradeoff import advantage as largest_advantage
from fastacct.tradeoff import tpr_at_fpr

__all__ = ["calibrate"]

_LEVEL: Final = 50.0


def calibrate(
    build: Callable[[float], Job],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    bracket: tuple[float, float] | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float:
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

    return boundary(level, None if bracket is None else _as_bracket(bracket), f"{name} <= {target!r}", hint)


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
    neighbors: Relation,
    threads: int | None,
) -> tuple[Callable[[Job], Any], float, str]:
    """What is read from a job, the target, and its name."""
    asked = {"epsilon": epsilon, "delta": delta, "advantage": advantage, "tpr": tpr, "fpr": fpr}
    given = {
        name: as_number(name, value, None if name in ("epsilon", "delta") else UNIT)
        for name, value in asked.items()
        if value is not None
    }
    if given.keys() == {"epsilon", "delta"}:

        def spent(job: Job) -> Any:
            return smallest_epsilon(
                job, delta=given["delta"], accountant=accountant, neighbors=neighbors, threads=threads
            )

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
