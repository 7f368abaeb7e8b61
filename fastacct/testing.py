"""What every mechanism has to satisfy, and instances of all of them to try it on.

>>> import fastacct as fa
>>> from fastacct.testing import check_mechanism
>>> not_in_time = check_mechanism(fa.Laplace(noise_multiplier=2.0))
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

import fastacct.mechanisms as m
from fastacct.accountants import RDP
from fastacct.core.bounds import Bounds
from fastacct.core.record import Record
from fastacct.core.relations import ALL, DIRECTIONS, Relation
from fastacct.epsilon import delta, epsilon_bounds
from fastacct.epsilon import delta_bounds as certified_delta
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.losses.loss import Atoms
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.process import Process

__all__ = ["ContractError", "check_mechanism", "examples"]

EPSILONS: Final = (0.0, 0.1, 0.7, 2.5)
FEW_ATOMS: Final = 600


class ContractError(AssertionError):
    """A mechanism does not satisfy what every mechanism has to."""


def examples() -> Iterator[Mechanism]:
    """Instances of every mechanism, corners of their parameters among them.

    Examples
    --------
    >>> {type(mechanism) for mechanism in examples()} == set(m.EVERY)
    True
    """
    yield from (m.Gaussian(1.0), m.Gaussian(0.3), m.Gaussian(math.inf), m.Gaussian(3.0).group(2))
    yield from (m.Gaussian(1.0).poisson(0.01), m.Gaussian(0.7).poisson(1e-4), m.Gaussian(2.0).poisson(0.0))
    yield from (m.Gaussian(2.0).poisson(0.1).group(3), m.GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)]))
    yield from (m.Gaussian(2.0).fixed_size(10, 1000), m.Gaussian(2.0).poisson(0.1, at_most=120, records=1000))
    yield from (m.Laplace(1.0), m.Laplace(20.0), m.Laplace(math.inf))
    yield from (m.Laplace(1.0).poisson(0.1), m.Laplace(10.0).group(3))
    yield from (m.TruncatedLaplace(2.0, 20.0), m.TruncatedLaplace(1.0, 1.5), m.TruncatedLaplace(1.0, math.inf))
    yield from (m.TruncatedLaplace(1.0, 12.0).poisson(0.1), m.TruncatedLaplace(10.0, 100.0).group(3))
    yield from (m.LaplaceL2(2.0, 3), m.Staircase(0.5), m.DiscreteLaplace(2.0, 3), m.DiscreteLaplace(10.0))
    yield from (m.DiscreteGaussian(1.0), m.DiscreteGaussian(0.5), m.DiscreteGaussian(5.0, 2))
    yield from (m.DiscreteGaussian(2.0).poisson(1e-4), m.Skellam(10.0))
    yield from (m.RandomizedResponse(1.0), m.RandomizedResponse(0.3, 10), m.RandomizedResponse(0.0))
    yield m.RandomizedResponse(0.5, 3).group(2)
    yield from (m.Exponential(0.5), m.Exponential(0.0), m.Exponential(0.5).poisson(0.2))
    yield from (m.PermuteAndFlip(0.5), m.PermuteAndFlip(0.5, monotone=True), m.AboveThreshold(0.2))
    yield from (m.SparseVector(0.1, 3), m.Thresholdout(0.05, 1000, 3), m.Paprika(0.5, 1e-6, conditions_hold=True))
    yield from (m.RepeatedSelection(m.Gaussian(4.0), 10.0), m.RepeatedSelection(m.Gaussian(4.0), 5.0, eta=1.0))
    yield m.RepeatedSelection(m.Laplace(4.0), 5.0, eta=0.0)
    yield from (m.PureDP(0.3), m.PureDP(0.0), m.PureDP(0.5).poisson(0.01), m.PureDP(0.1).group(3))
    yield from (m.ApproxDP(0.3, 1e-6), m.ApproxDP(0.0, 0.0))
    yield from (m.ApproxDP(0.3, 1e-6).poisson(0.9), m.ApproxDP(0.1, 1e-7).group(2))
    yield from (m.GDP(0.5), m.GDP(0.0), m.GDP(0.1).group(3).poisson(0.1))
    yield from (m.ZCDP(0.02), m.ZCDP(0.02).poisson(0.1), m.ZCDP(0.002).group(3))
    yield from (m.MeanConcentratedDP(0.02, 0.2), m.RDPCurve([2, 4, 16], [0.1, 0.2, 0.8]))
    yield from (m.from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4]), m.from_pmf([0.5, 0.4, 0.1, 0], [0.45, 0.45, 0, 0.1]))
    yield m.from_losses([math.log(2.0), math.log(4.0 / 7.0)], [0.6, 0.4])
    yield m.from_losses([0.5, -0.2, math.inf], [0.5, 0.45, 0.05])
    yield from (m.TreeAggregation(8.0, 1000), m.TreeAggregation(20.0, 16, noise="laplace"), m.DPFTRL(8.0, 100, 2))
    yield from (m.NoisyIteration(3.75, 500, contraction=0.99), m.NoisyIteration(4.0, 10_000, diameter=5.0))
    yield from (m.GOPA(0.5, 2.0, parties=12), m.GOPA(0.5, 2.0, parties=3, edges=((0, 1),)), m.RandomWalk(8.0, 10))
    yield from (m.GOPA(1.0, 9.0, parties=30, colluding=5, draws=9, graph_delta=1e-3), m.GradientWalk(4.0, 3, 50, 2))
    yield from (m.RandomWalk(4.0, 5, graph="complete", parties=20), m.RandomWalk(2.0, 3, noise="every", parties=9))
    yield m.RandomWalk(10.0, 1, graph="complete", parties=400)
    yield m.Parallel(m.Laplace(2.0), m.Gaussian(1.0))


def check_mechanism(
    mechanism: Mechanism,
    *,
    neighbors: Relation | None = None,
    seconds: float | None = 5.0,
    progress: Callable[[str], None] | None = None,
    delta_bounds: Callable[..., Bounds] = certified_delta,
) -> tuple[str, ...]:
    """Check what every mechanism has to satisfy; a `ContractError` says what it does not.

    * equality, hash and repr by value; relations that are not supported are refused;
    * `m * 3` and `m + m + m` and a cell of an array of counts have the same bits, `m * 0` releases nothing;
    * delta falls with epsilon and is convex in exp(epsilon), rises with the count, lower <= upper;
    * delta of one and of two releases agrees with a double sum over the losses, where they are few;
    * epsilon at the delta found is not above the epsilon asked for;
    * Rényi bounds are not below what is certified.

    The parameters of the mechanism are plain numbers.  Without `neighbors` every relation that it supports is checked.
    No further question is asked after so many `seconds`; a question under way is finished (None: all are asked, which
    takes minutes for some mechanisms).  `progress` is called with the name of each check before it starts, for instance
    `print`.  `delta_bounds` is checked instead of `fastacct.delta_bounds`: for canaries.

    Returns the names of the checks that were not finished in time; () where all were.  A `ContractError` names the
    mechanism, the relation, the verb and the values.
    """
    if seconds is not None and not seconds > 0.0:
        raise ValueError(f"seconds = {seconds!r} is out of range; allowed: (0, inf], or None for no limit")
    end = math.inf if seconds is None else time.monotonic() + seconds
    relations = mechanism.relations if neighbors is None else (neighbors,)
    checks: list[tuple[str, Iterator[None]]] = [("equality and refusals", _check_value(mechanism, delta_bounds))]
    for name, check in _CHECKS.items():
        checks += [
            (f"{name}, {relation}", check(_Contract(mechanism, relation, delta_bounds))) for relation in relations
        ]
    skipped = []
    for name, questions in checks:
        if progress is not None and time.monotonic() < end:
            progress(name)
        if any(time.monotonic() >= end for _ in itertools.chain([None], questions)):
            skipped.append(name)
    return tuple(skipped)


class _Contract(Record):
    """One mechanism under one relation, and what reads it.  Checks yield after every question."""

    mechanism: Mechanism
    relation: Relation
    delta_bounds: Callable[..., Bounds]

    def read(self, job: Mechanism | Process, epsilon: float | tuple[float, ...]) -> Bounds:
        asked = np.array(epsilon) if isinstance(epsilon, tuple) else epsilon
        return self.delta_bounds(job, epsilon=asked, neighbors=self.relation)

    def require(self, holds: object, verb: str, what: str) -> None:
        if not holds:
            raise ContractError(f"{self.mechanism!r}, neighbors = {self.relation!r}, {verb}: {what}")


def _check_value(mechanism: Mechanism, delta_bounds: Callable[..., Bounds]) -> Iterator[None]:
    for other in ALL:
        contract = _Contract(mechanism, other, delta_bounds)
        contract.require(mechanism == mechanism, "==", "does not equal itself")
        contract.require(hash(mechanism) == hash(mechanism), "hash", "changes from call to call")
        if other in mechanism.relations:
            continue
        try:
            found = contract.read(mechanism, 1.0)
        except ValueError as error:
            contract.require(other in str(error), "delta_bounds", f"the refusal does not name the relation: {error}")
        else:
            contract.require(False, "delta_bounds", f"answers {found} for a relation that is not supported")
        yield


def _check_counts(contract: _Contract) -> Iterator[None]:
    m, epsilon = contract.mechanism, 0.5
    thrice = contract.read(m * 3, epsilon)
    yield
    total = contract.read(m + m + m, epsilon)
    contract.require(total == thrice, "delta_bounds", f"sum {total} and product {thrice} differ at epsilon {epsilon}")
    yield
    cells = contract.read(m * np.array([1, 3]), epsilon)
    same = (cells.lower[1], cells.upper[1]) == thrice[:2]
    contract.require(same, "delta_bounds", f"cell 1 of {cells}, an array of counts, is not {thrice}")
    nothing = contract.read(m * 0, epsilon)
    contract.require(nothing[:2] == (0.0, 0.0), "delta_bounds", f"{nothing} for no release at all")
    yield
    once = contract.read(m, epsilon)
    contract.require(once.lower <= thrice.upper, "delta_bounds", f"falls with the count: {once}, {thrice}")
    counted = once.upper <= 1e-300 or thrice.upper > once.upper * 1.0001
    contract.require(counted, "delta_bounds", f"the count is ignored: {once} once, {thrice} three times")


def _check_curve(contract: _Contract) -> Iterator[None]:
    lower, upper, _ = contract.read(contract.mechanism * 2, EPSILONS)
    where = f"at epsilon {EPSILONS} (lower {lower}, upper {upper})"
    in_order = (lower >= 0.0) & (lower <= upper) & (upper <= 1.0)
    contract.require(in_order.all(), "delta_bounds", f"not 0 <= lower <= upper <= 1 {where}")
    contract.require((lower[1:] <= upper[:-1]).all(), "delta_bounds", f"delta rises with epsilon {where}")
    x = np.exp(EPSILONS)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    chord = (1.0 - share) * upper[:-2] + share * upper[2:]
    convex = (lower[1:-1] <= chord * (1.0 + 1e-12)).all()
    contract.require(convex, "delta_bounds", f"delta is not convex in exp(epsilon) {where}")
    yield


def _check_sums(contract: _Contract) -> Iterator[None]:
    """Against sums over pairs of losses, by nothing but the definition."""
    mechanism, relation = contract.mechanism, contract.relation
    parts = next((mechanism * 1).decompose(relation).cells())
    pair = parts[0][0].losses(relation) if len(parts) == 1 and parts[0][1] == 1 else None
    if pair is None or pair.is_nothing:
        return
    sources = [pair.side(direction).upper for direction in DIRECTIONS[relation]]
    if not all(isinstance(source, Atoms) and source.loss.size <= FEW_ATOMS for source in sources):
        return
    for count in (1, 2):
        for epsilon in EPSILONS[1:]:
            truth = max(_delta_of_atoms(source, count, epsilon) for source in sources if isinstance(source, Atoms))
            lower, upper, _ = contract.read(mechanism * count, epsilon)
            where = f"the sum over losses, {truth!r}, at epsilon {epsilon}, count {count}"
            above = lower <= truth * (1.0 + 1e-9) + 1e-280
            contract.require(above, "delta_bounds", f"lower bound {lower!r} is above {where}")
            contract.require(upper >= truth * (1.0 - 1e-9), "delta_bounds", f"upper bound {upper!r} is below {where}")
            close = truth * 1.001 if truth > 0.0 else 1e-14  # an atom next to epsilon counts as above it
            contract.require(upper <= close, "delta_bounds", f"upper bound {upper!r} is far above {where}")
            yield


def _delta_of_atoms(source: Atoms, count: int, epsilon: float) -> float:
    loss, mass = source.loss, source.mass
    infinite = 1.0 - (1.0 - source.infinite) ** count if source.infinite > 1e-9 else count * source.infinite
    if count == 2:
        loss, mass = np.add.outer(loss, loss).ravel(), np.multiply.outer(mass, mass).ravel()
    above = loss > epsilon
    return math.fsum(mass[above] * -np.expm1(epsilon - loss[above])) + infinite


def _check_inverse(contract: _Contract) -> Iterator[None]:
    job, relation = contract.mechanism * 2, contract.relation
    if job.decompose(relation).is_gaussian:
        return  # tested on its own, more closely
    for epsilon in (0.2, 1.0):
        upper = delta(job, epsilon=epsilon, neighbors=relation)
        yield
        if not 1e-250 < upper < 0.5:
            continue
        found = epsilon_bounds(job, delta=upper * (1.0 + 1e-6), neighbors=relation)
        good = found.lower <= epsilon * (1.0 + 1e-6)
        contract.require(good, "epsilon_bounds", f"{found} at delta {upper!r}, which is the delta of {epsilon}")
        yield
        renyi = smallest_epsilon(job, delta=upper, neighbors=relation, accountant=RDP())
        good = renyi >= found.lower
        contract.require(good, "epsilon", f"Rényi's {renyi!r} is below the certified {found} at delta {upper!r}")
        yield


_CHECKS: Final[dict[str, Callable[[_Contract], Iterator[None]]]] = {
    "curve": _check_curve,
    "sums over losses": _check_sums,
    "counts": _check_counts,
    "epsilon and delta": _check_inverse,
}
