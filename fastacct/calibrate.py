"""Calibration of any job: the number at which a target is just met, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np

from fastacct.accountants.base import Method
from fastacct.accountants.question import Job, answer, checked
from fastacct.core.inputs import POSITIVE, UNIT, Cells, Domain, as_number
from fastacct.core.relations import Relation
from fastacct.core.search import boundary, excess
from fastacct.mechanisms.error import ErrorLaw
from fastacct.readers.attack import rates

__all__ = ["calibrate"]

_ANY: Final = Domain(-math.inf, math.inf)
_DOMAINS: Final = {"epsilon": None, "delta": None, "error": POSITIVE}


def calibrate(
    build: Callable[[float], Job | ErrorLaw],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    error: float | None = None,
    beta: float | None = None,
    bracket: tuple[float, float] | None = None,
    accountant: Method | None = None,
    neighbors: Relation = "add_remove",
    threads: int | None = None,
) -> float:
    """The number x for which the job `build(x)` just meets a target.

    **Guarantee.** Safe side: at the x returned what is asked for is at most the target (it has been evaluated).  At a
    number within 1e-9 relative (or at the next whole number) it is above, or x is an end of the bracket.

    Parameters
    ----------
    build : callable
        From a number to a job, or to the distribution of its error.  What is asked for must be monotone in it.
    epsilon, delta, advantage, tpr, fpr : float
        Target: epsilon at delta, or `fastacct.advantage`, or tpr, which is `fastacct.tpr_at_fpr` at fpr.
    error, beta : float
        Target of a `build` that returns errors (`fastacct.utility`): the root mean square error, or with beta
        the error that is exceeded with probability beta.  Of a noise the largest that meets it: the smallest epsilon.
    bracket : (low, high), optional
        Where to search; two ints mean whole numbers.  Default: outwards from 1, to 1e-6 or 1e12, for noise multipliers.
        Give (0.0, 1.0) for a sample rate and, say, (1, 10**7) for a number of steps.
    accountant, neighbors, threads
        As in `fastacct.epsilon`, and the same errors; an accountant goes with epsilon.

    Returns
    -------
    float or int
        int for a bracket of ints.  ValueError where no number of the bracket meets the target.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.calibrate(lambda n: fa.Gaussian(1.0).poisson(0.01) * n, epsilon=2.0, delta=1e-5, bracket=(1, 10**6))
    1202
    >>> fa.calibrate(lambda b: fa.utility(fa.Laplace(b)), error=3.0, beta=0.05)
    1.0014...
    """
    asked = {"epsilon": epsilon, "delta": delta, "advantage": advantage, "tpr": tpr, "fpr": fpr}
    asked |= {"error": error, "beta": beta}
    given = {
        name: as_number(name, value, _DOMAINS.get(name, UNIT)) for name, value in asked.items() if value is not None
    }
    readouts: dict[tuple[str, ...], Callable[[Any], Any]] = {
        ("epsilon", "delta"): lambda job: (
            answer("epsilon", job, given["delta"], accountant, neighbors, threads, only_upper=True).upper
        ),
        ("advantage",): lambda job: answer("delta", job, 0.0, None, neighbors, threads).upper,
        ("tpr", "fpr"): lambda job: (
            rates(*checked(job, "fpr", given["fpr"], neighbors, threads, UNIT), positives=True, both=False).upper
        ),
        ("error",): lambda law: _root_mean_square(_as_law(law)),
        ("error", "beta"): lambda law: _as_law(law).quantile(given["beta"]),
    }
    if tuple(given) not in readouts:
        raise TypeError(
            f"give epsilon and delta, or advantage, or tpr and fpr, or error; not {', '.join(given) or 'nothing'}"
        )
    read, (name, target) = readouts[tuple(given)], next(iter(given.items()))
    if accountant is not None and name != "epsilon":
        raise ValueError("accountant goes with epsilon and delta; the other targets are exact")
    seen: dict[float, float] = {}

    def level(x: float) -> float:
        found = read(build(x))
        if np.ndim(found):
            raise TypeError(f"build({x!r}) is a job with arrays; calibrate one job at a time")
        value = seen[x] = float(found)
        return excess(value, target)

    def hint() -> str:
        least = min(seen.values())
        if bracket is None:
            return f"{name} stays at {least!r}, which the parts that do not change with the number cost alone"
        return f"the smallest {name} there is {least!r}; try another bracket"

    return boundary(level, None if bracket is None else _as_bracket(bracket), f"{name} <= {target!r}", hint)


def _as_law(law: object) -> ErrorLaw:
    if not isinstance(law, ErrorLaw):
        raise TypeError(f"with error=, build must return an error such as fastacct.utility(mechanism), not {law!r}")
    return law


def _root_mean_square(law: ErrorLaw) -> float | Cells:
    if np.isnan(law.mean_square).any():
        raise ValueError(f"the {law.of} has no mean square: give beta, the probability of a larger one")
    return law.root_mean_square


def _as_bracket(bracket: object) -> tuple[float, float]:
    if isinstance(bracket, str | bytes) or not isinstance(bracket, Collection) or len(bracket) != 2:
        raise TypeError(f"bracket must be (low, high), not {bracket!r}")
    low, high = (as_number("bracket", end, _ANY) for end in bracket)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"bracket = {bracket!r} must be finite and increasing")
    return (int(low), int(high)) if all(isinstance(end, int | np.integer) for end in bracket) else (low, high)
