"""What audits have in common: checked arguments, the lines that bound a trade-off curve, and the search for noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Final, Protocol

import numpy as np

from fastacct.accountants.question import Job
from fastacct.core.inputs import Cells, Domain, Floats, Reals, as_cells, as_choice, as_number, unwrap
from fastacct.core.relations import Relation
from fastacct.core.search import boundary
from fastacct.epsilon import delta as delta_of
from fastacct.epsilon import epsilon as epsilon_of

CONFIDENCE: Final = Domain(0.5, 1.0 - 1e-6)
ANY: Final = Domain(-np.inf, np.inf)
SIZE: Final = Domain(1.0, 1e6, integer=True)
MOST: Final = 700.0
"""A larger epsilon is never shown."""
BOTH_WAYS: Final[tuple[Relation, ...]] = ("add_remove", "zero_out", "replace_one")
_LINES: Final = 1000
_NOISIEST: Final = 1e9


class Audit(Protocol):
    """What any audit answers."""

    jointly: ClassVar[bool]
    """Whether all answers hold together with the confidence, or each alone."""

    @property
    def confidence(self) -> float:
        """Probability that all that is shown is true."""

    def epsilon(self, delta: Reals, *, neighbors: Relation = "add_remove") -> float | Floats:
        """Lower bound of the epsilon at a delta."""

    def refutes(self, job: Job, *, neighbors: Relation = "add_remove") -> bool:
        """Whether the guarantee of a job is shown wrong."""


def as_confidence(confidence: object) -> float:
    """The confidence of an audit, checked."""
    return as_number("confidence", confidence, CONFIDENCE)


def as_both_ways(neighbors: object) -> Relation:
    """A relation under which both data sets may be the one with the record."""
    return as_choice("neighbors", neighbors, BOTH_WAYS)


def largest_refuted(is_refuted: Callable[[float], bool]) -> float:
    """The largest epsilon seen to be refuted, up to 1e-13 of it; 0 where none is."""
    low, high = 0.0, 1.0
    while is_refuted(high):
        low, high = high, 2.0 * high
        if high > MOST:
            return low
    while high - low > 1e-13 * high and high > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def at_each(delta: Reals, found: Callable[[float], float]) -> float | Floats:
    """A number for each delta."""
    cells = as_cells("delta", delta)
    return unwrap(np.array([found(float(one)) for one in cells.flat]).reshape(cells.shape))


def least_refuted(build: Callable[[float], Job], gap: Callable[[Job], float]) -> float:
    """The smallest noise multiplier found whose job is refuted (its gap is above 0); inf where none is."""
    if not callable(build):
        raise TypeError(f"build must be a function of a noise multiplier that returns a job, not {build!r}")
    if gap(build(_NOISIEST)) <= 0.0:
        return math.inf

    def level(noise: float) -> float:
        return -gap(build(noise)) or 1e-17

    return boundary(level, None, "an audit", lambda: "no noise multiplier is refuted")


def lines(job: Job, neighbors: Relation, smallest: float) -> tuple[Cells, Cells]:
    """Certified pairs (epsilon, delta) of a job: together they say what its trade-off curve is at least.

    The epsilons end where delta is `smallest`, or where it does not fall any more.
    """
    end = float(epsilon_of(job, delta=smallest, neighbors=neighbors))
    if end > MOST:
        least = float(delta_of(job, epsilon=MOST, neighbors=neighbors))
        end = min(float(epsilon_of(job, delta=least, neighbors=neighbors)), MOST)
    epsilons = np.linspace(0.0, end, _LINES)
    return epsilons, np.asarray(delta_of(job, epsilon=epsilons, neighbors=neighbors))


def least_miss(epsilons: Cells, deltas: Cells) -> Callable[[float], float]:
    """The convex, symmetric trade-off curve that pairs (epsilon, delta) prove, as a function; never above the truth.

    max(0, 1 - delta - exp(epsilon) fpr, exp(-epsilon) (1 - delta - fpr)) over all pairs (Wasserman and Zhou 2010).
    """
    slopes = np.concatenate([np.exp(epsilons), np.exp(-epsilons)]) * (1.0 + 1e-15)
    starts = np.concatenate([1.0 - deltas, np.exp(-epsilons) * (1.0 - deltas)]) - 1e-15

    def miss(fpr: float) -> float:
        return max(0.0, float(np.max(starts - slopes * fpr)))

    return miss


def as_list(name: str, value: object, domain: Domain = ANY) -> Cells:
    """A list of numbers, checked."""
    found = as_cells(name, value, domain)
    if found.ndim != 1:
        raise TypeError(f"{name} must be one list of numbers, not an array of shape {found.shape}")
    return found
