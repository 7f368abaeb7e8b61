"""What every mechanism has to satisfy, and instances of all of them to try it on.

>>> import fastacct as fa
>>> from fastacct.testing import check_mechanism
>>> check_mechanism(fa.Laplace(noise_multiplier=2.0))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from fastacct import api
from fastacct._jobs_table import expanded, is_gaussian, tables
from fastacct._losses import has_losses, losses
from fastacct._pld_sources import Atoms
from fastacct.accountants import RDP
from fastacct.additive import ALL_RELATIONS, DiscreteGaussian, DiscreteLaplace, Laplace, Skellam, Staircase
from fastacct.bounds import Bounds
from fastacct.mechanisms import Gaussian, GaussianMixture, Mechanism
from fastacct.notions import GDP, ZCDP, ApproxDP, MeanConcentratedDP, PureDP, RDPCurve, from_pmf
from fastacct.parallel import Parallel
from fastacct.process import Process
from fastacct.selection import (
    AboveThreshold,
    Exponential,
    Paprika,
    PermuteAndFlip,
    RandomizedResponse,
    RepeatedSelection,
    SparseVector,
    Thresholdout,
)
from fastacct.streams import DPFTRL, GOPA, NoisyIteration, RandomWalk, TreeAggregation

__all__ = ["check_mechanism", "examples"]

EPSILONS: Final = (0.0, 0.1, 0.7, 2.5)
FEW_ATOMS: Final = 600


def examples() -> Iterator[Mechanism]:
    """Instances of every mechanism, corners of their parameters among them.

    Examples
    --------
    >>> len({type(mechanism) for mechanism in examples()}) >= 27
    True
    """
    yield from (Gaussian(1.0), Gaussian(0.3), Gaussian(math.inf), Gaussian(3.0).group(2))
    yield from (Gaussian(1.0).poisson(0.01), Gaussian(0.7).poisson(1e-4), Gaussian(2.0).poisson(0.0))
    yield from (Gaussian(2.0).poisson(0.1).group(3), GaussianMixture(2.0, [(0.9, 0.0), (0.1, 1.0)]))
    yield from (Laplace(1.0), Laplace(20.0), Laplace(math.inf), DiscreteLaplace(2.0, 3), DiscreteLaplace(10.0))
    yield from (DiscreteGaussian(1.0), DiscreteGaussian(0.5), DiscreteGaussian(5.0, 2), Skellam(10.0), Staircase(0.5))
    yield from (RandomizedResponse(1.0), RandomizedResponse(0.3, 10), RandomizedResponse(0.0))
    yield from (Exponential(0.5), Exponential(0.0), PermuteAndFlip(0.5), AboveThreshold(0.2), SparseVector(0.1, 3))
    yield from (Thresholdout(0.05, 1000, 3), Paprika(0.5, 1e-6, conditions_hold=True))
    yield from (RepeatedSelection(Gaussian(4.0), 10.0), RepeatedSelection(Gaussian(4.0), 5.0, eta=1.0))
    yield from (PureDP(0.3), PureDP(0.0), ApproxDP(0.3, 1e-6), ApproxDP(0.0, 0.0), GDP(0.5), GDP(0.0), ZCDP(0.02))
    yield from (MeanConcentratedDP(0.02, 0.2), RDPCurve([2, 4, 16], [0.1, 0.2, 0.8]))
    yield from (Laplace(1.0).poisson(0.1), PureDP(0.5).poisson(0.01), ApproxDP(0.3, 1e-6).poisson(0.9))
    yield from (DiscreteGaussian(2.0).poisson(1e-4), Exponential(0.5).poisson(0.2), ZCDP(0.02).poisson(0.1))
    yield from (Laplace(10.0).group(3), PureDP(0.1).group(3), RandomizedResponse(0.5, 3).group(2), ZCDP(0.002).group(3))
    yield from (ApproxDP(0.1, 1e-7).group(2), GDP(0.1).group(3).poisson(0.1))
    yield from_pmf([0.6, 0.25, 0.15], [0.3, 0.3, 0.4])
    yield from_pmf([0.5, 0.4, 0.1, 0.0], [0.45, 0.45, 0.0, 0.1])
    yield from (TreeAggregation(8.0, 1000), TreeAggregation(20.0, 16, noise="laplace"), DPFTRL(8.0, 100, 2))
    yield from (NoisyIteration(3.75, 500, contraction=0.99), NoisyIteration(4.0, 10_000, diameter=5.0))
    yield from (GOPA(0.5, 2.0, parties=12), GOPA(0.5, 2.0, parties=3, edges=((0, 1),)), RandomWalk(8.0, 10))
    yield from (RandomWalk(4.0, 5, graph="complete", parties=20), Parallel(Laplace(2.0), Gaussian(1.0)))


def check_mechanism(
    mechanism: Mechanism,
    *,
    neighbors: str | None = None,
    delta_bounds: Callable[..., Bounds] = api.delta_bounds,
) -> None:
    """Check what every mechanism has to satisfy; an AssertionError says what it does not.

    * equality, hash and repr by value; relations that are not supported are refused;
    * `m * 3` and `m + m + m` and a cell of an array of counts have the same bits, `m * 0` releases nothing;
    * delta falls with epsilon and is convex in exp(epsilon), rises with the count, lower <= upper;
    * delta of one and of two releases agrees with a double sum over the losses, where they are few;
    * epsilon at the delta found is not above the epsilon asked for;
    * Rényi bounds are not below what is certified.

    Parameters
    ----------
    mechanism : Mechanism
        With plain numbers.
    neighbors : str, optional
        Default: all relations that the mechanism supports.
    delta_bounds : callable, optional
        What is checked instead of `fastacct.delta_bounds`: for canaries.
    """
    assert mechanism == mechanism, f"{mechanism!r} does not equal itself"
    assert hash(mechanism) == hash(mechanism), f"{mechanism!r} has no stable hash"
    for other in ALL_RELATIONS:
        if other not in mechanism.relations:
            _refused(mechanism, other, delta_bounds)
    for relation in mechanism.relations if neighbors is None else (neighbors,):
        _check_counts(mechanism, relation, delta_bounds)
        _check_curve(mechanism, relation, delta_bounds)
        _check_sums(mechanism, relation, delta_bounds)
        _check_inverse(mechanism, relation)


def _refused(mechanism: Mechanism, relation: str, delta_bounds: Callable[..., Bounds]) -> None:
    try:
        delta_bounds(mechanism, epsilon=1.0, neighbors=relation)
    except ValueError as error:
        if relation not in str(error):
            raise AssertionError(f"the refusal of {relation} does not name it: {error}") from error
        return
    raise AssertionError(f"{mechanism!r} answers for {relation}, which it does not support")


def _check_counts(mechanism: Mechanism, relation: str, delta_bounds: Callable[..., Bounds]) -> None:
    def read(job: Any) -> Bounds:
        return delta_bounds(job, epsilon=0.5, neighbors=relation)

    thrice = read(mechanism * 3)
    assert read(mechanism + mechanism + mechanism) == thrice, f"{mechanism!r}: sum and product differ"
    cells = read(mechanism * np.array([1, 3]))
    assert (cells.lower[1], cells.upper[1]) == thrice[:2], f"{mechanism!r}: a cell of an array differs"
    assert read(mechanism * 0)[:2] == (0.0, 0.0), f"{mechanism!r}: no release releases something"
    once = read(mechanism)
    assert once.lower <= thrice.upper, f"{mechanism!r}: delta falls with the count"
    if once.upper > 1e-300:
        assert thrice.upper > once.upper * 1.0001, f"{mechanism!r}: the count is ignored"


def _check_curve(mechanism: Mechanism, relation: str, delta_bounds: Callable[..., Bounds]) -> None:
    lower, upper, _ = delta_bounds(mechanism * 2, epsilon=np.array(EPSILONS), neighbors=relation)
    in_order = (lower >= 0.0) & (lower <= upper) & (upper <= 1.0)
    assert in_order.all(), f"{mechanism!r}: not bounds"
    assert (lower[1:] <= upper[:-1]).all(), f"{mechanism!r}: delta rises with epsilon"
    x = np.exp(EPSILONS)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    chord = (1.0 - share) * upper[:-2] + share * upper[2:]
    assert (lower[1:-1] <= chord * (1.0 + 1e-12)).all(), f"{mechanism!r}: delta is not convex in exp(epsilon)"


def _check_sums(mechanism: Mechanism, relation: str, delta_bounds: Callable[..., Bounds]) -> None:
    """Against sums over pairs of losses, by nothing but the definition."""
    tables_of = list(tables(expanded(Process({mechanism: 1}), relation), relation))
    if len(tables_of[0]) != 1 or tables_of[0][0][2] != 1.0 or not has_losses(tables_of[0][0][0]):
        return
    both = losses(*tables_of[0][0][:2], relation)
    if both is None:
        return
    sides = {"remove": both[:1], "add": both[1:]}.get(relation, both)
    sources = [side.upper_source for side in sides]
    if not all(isinstance(source, Atoms) and source.loss.size <= FEW_ATOMS for source in sources):
        return
    for count in (1, 2):
        for epsilon in EPSILONS[1:]:
            truth = max(_delta_of_atoms(source, count, epsilon) for source in sources if isinstance(source, Atoms))
            lower, upper, _ = delta_bounds(mechanism * count, epsilon=epsilon, neighbors=relation)
            assert lower <= truth * (1.0 + 1e-9) + 1e-280, f"{mechanism!r} * {count}: {lower} is above {truth}"
            assert upper >= truth * (1.0 - 1e-9), f"{mechanism!r} * {count}: {upper} is below {truth}"
            close = truth * 1.001 if truth > 0.0 else 1e-14  # an atom next to epsilon counts as above it
            assert upper <= close, f"{mechanism!r} * {count}: {upper} is far above {truth}"


def _delta_of_atoms(source: Atoms, count: int, epsilon: float) -> float:
    loss, mass = source.loss, source.mass
    infinite = 1.0 - (1.0 - source.infinite) ** count if source.infinite > 1e-9 else count * source.infinite
    if count == 2:
        loss, mass = np.add.outer(loss, loss).ravel(), np.multiply.outer(mass, mass).ravel()
    above = loss > epsilon
    return math.fsum(mass[above] * -np.expm1(epsilon - loss[above])) + infinite


def _check_inverse(mechanism: Mechanism, relation: str) -> None:
    job = mechanism * 2
    if is_gaussian(expanded(job, relation)):
        return  # tested on its own, more closely
    for epsilon in (0.2, 1.0):
        upper = api.delta(job, epsilon=epsilon, neighbors=relation)
        if not 1e-250 < upper < 0.5:
            continue
        found = api.epsilon_bounds(job, delta=upper * (1.0 + 1e-6), neighbors=relation)
        assert found.lower <= epsilon * (1.0 + 1e-6), f"{mechanism!r}: epsilon {found} at the delta of {epsilon}"
        renyi = api.epsilon(job, delta=upper, neighbors=relation, accountant=RDP())
        assert renyi >= found.lower, f"{mechanism!r}: Rényi's epsilon {renyi} is below {found}"
