"""What is asked of every mechanism through the verbs, and what is known of it while it is asked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import Final

import numpy as np

import fastacct.mechanisms as m
from fastacct.accountants import RDP
from fastacct.core.bounds import Bounds
from fastacct.core.inputs import Cells
from fastacct.core.record import Record
from fastacct.core.relations import ALL, DIRECTIONS, SAMPLED, Direction, Relation
from fastacct.epsilon import delta, epsilon_bounds, rdp
from fastacct.epsilon import epsilon as smallest_epsilon
from fastacct.losses.loss import OutOfReachError, Pair
from fastacct.mechanisms.algebra import Mechanism, PoissonSampled
from fastacct.mechanisms.process import Process
from fastacct.testing.sums import Sums

EPSILONS: Final = (0.0, 0.11, 0.7, 2.5)
EXACT: Final = 1e-9
RATES: Final = (0.25, 0.03, 0.7)
"""Of samples; the first is asked through the verbs, too."""
GROUP: Final = 3
ORDERS: Final = np.unique(
    [1.01, 1.2, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 100.0, 1e3, 1e4, 1e6, 1e8, *(1.0 + np.geomspace(1e-3, 1e7, 38))]
)
"""Where divergences are asked: whole orders, and many between them that nobody would think of."""
_MANY: Final = 40
_FEW: Final = 32
_CLAIMED: Final = 1e-6
"""What an exact divergence may be rounded up."""
FEWER: Final = ORDERS[np.isin(ORDERS, [1.2, 2.0, 32.0, 1e4]) | (np.arange(ORDERS.size) % 4 == 1)]
"""The same for samples, of which there are several."""
Sides = dict[Direction, tuple[Sums, Sums]]


def sides_of(pair: Pair) -> Sides:
    """Sums over the losses of both directions."""
    ways = [pair.remove] if pair.is_mirrored else [pair.remove, pair.add]
    remove, *add = ((Sums(one.lower, -1.0), Sums(one.upper, 1.0)) for one in ways)
    return {"remove": remove, "add": add[0] if add else remove}


def shown(bounds: Bounds) -> str:
    """In a message."""
    return f"delta from {bounds.lower} to {bounds.upper}"


class ContractError(AssertionError):
    """A mechanism does not satisfy what every mechanism has to.

    Examples
    --------
    >>> import fastacct.testing
    >>> issubclass(fastacct.testing.ContractError, AssertionError)
    True
    """


class Contract(Record):
    """One mechanism under one relation, and what reads it.  Checks yield after every question."""

    mechanism: Mechanism
    relation: Relation
    delta_bounds: Callable[..., Bounds]

    def read(self, job: Mechanism | Process, epsilon: float | tuple[float, ...]) -> Bounds:
        """What the hook says; a refusal breaks the contract."""
        asked = np.array(epsilon) if isinstance(epsilon, tuple) else epsilon
        try:
            return self.delta_bounds(job, epsilon=asked, neighbors=self.relation)
        except (TypeError, ValueError) as error:
            raise ContractError(f"{job!r}, neighbors = {self.relation!r}, delta_bounds: refused: {error}") from error

    @property
    def compared(self) -> int:
        """How many comparisons were made."""
        return int(self.__dict__.get("asked", 0))

    def require(self, holds: object, verb: str, what: str) -> None:
        """Refuse a mechanism for which something does not hold."""
        self.__dict__["asked"] = self.compared + 1
        if not holds:
            raise ContractError(f"{self.mechanism!r}, neighbors = {self.relation!r}, {verb}: {what}")

    def job(self, mechanism: Mechanism, count: int) -> Process:
        """The same object each time, with which readers are kept."""
        jobs: dict[tuple[Mechanism, int], Process] = self.__dict__.setdefault("jobs", {})
        return jobs.setdefault((mechanism, count), mechanism * count)

    def sums(self, part: Mechanism) -> Sides | None:
        """Distributions that bound its losses from below and from above, by direction; None where there are none."""
        kept: dict[Mechanism, Sides | None] = self.__dict__.setdefault("sides", {})
        if part not in kept:
            kept[part] = None
            with suppress(OutOfReachError):
                pair = part.losses(self.relation)
                kept[part] = None if pair is None or pair.is_nothing else sides_of(pair)
        return kept[part]

    def divergence(self, part: Mechanism, orders: Cells = ORDERS) -> Cells:
        """What a mechanism says at orders, to accountants and alone: the smaller one."""
        kept: dict[tuple[Mechanism, int], Cells] = self.__dict__.setdefault("divergences", {})
        if (part, orders.size) not in kept:
            found = self._stated("divergence_given", part, orders)
            if not isinstance(part, PoissonSampled) and type(part).divergence_given is not Mechanism.divergence_given:
                found = np.fmin(found, self._stated("divergence", part, orders))
            kept[part, orders.size] = found
        return kept[part, orders.size]

    def _stated(self, name: str, part: Mechanism, orders: Cells) -> Cells:
        more = (self.delta_of,) if name == "divergence_given" else ()
        with np.errstate(over="ignore", invalid="ignore"):  # as accountants do
            found = getattr(part, name)(orders, self.relation, *more)
        self.require(np.shape(found) == orders.shape, name, f"of {part!r}: {found!r}, not one for each order")
        least = int(np.argmin(found))
        text = f"of {part!r} is {found[least]:.9g} at order {orders[least]:.6g}: at least 0, or inf"
        self.require(not found[least] < 0.0, name, text)
        return np.asarray(np.fmin(found, np.inf))  # what overflowed is not known

    def least(self, part: Mechanism) -> Cells:
        """What the divergence at `ORDERS` is at least: by its losses, by those of what it consists of, or by itself
        where it is claimed to be exact."""
        nothing = np.zeros(ORDERS.shape)
        if not part.tight:
            return nothing
        if (sides := self.sums(part)) is not None:
            return np.array([max(0.0, self.between(sides, order)[0]) for order in ORDERS.tolist()])
        if (parts := part.decompose(self.relation)) is not None:
            return sum((float(np.asarray(n)) * self.least(one) for one, n in parts), nothing)
        return self.claimed(part)

    def claimed(self, part: Mechanism) -> Cells:
        """The divergence that it says itself, less what an exact one may be rounded up; 0 where it says none, or has
        losses, of which the divergence may be a bound between orders."""
        known = np.zeros(ORDERS.shape) if part.has_losses else self.divergence(part)
        return np.where(np.isfinite(known), known * (1.0 - _CLAIMED), 0.0)

    def between(self, sides: Sides, order: float) -> tuple[float, float]:
        """Bounds of the divergence by the losses; nan where they do not tell it."""
        low, high = (max(two[i].divergence(order) for two in self.ways(sides)) for i in (0, 1))
        return (high if low > high else low), high  # far out a lower bound has the rounding of the last masses

    def ways(self, sides: Sides) -> list[tuple[Sums, Sums]]:
        """Those of the directions of the relation, one where both are the same."""
        return list(dict.fromkeys(sides[way] for way in DIRECTIONS[self.relation]))

    @staticmethod
    def delta_of(job: Process, at: Cells, relation: Relation) -> Cells:
        """How divergences that need the delta of another job get it."""
        return np.asarray(delta(job, epsilon=at, neighbors=relation))

    @property
    def parts(self) -> list[Mechanism]:
        """The mechanisms that are evaluated in its place, itself as a rule."""
        return [part for part, _ in (self.mechanism * 1).decompose(self.relation)]

    @property
    def size(self) -> float:
        """About the standard deviation of the loss: where the curve of a release is worth a look."""
        found = rdp(self.job(self.mechanism, 1), 2.0, neighbors=self.relation)
        return min(max(math.sqrt(found), 1e-6), 4.0) if found < math.inf else 1.0

    def samples(self, part: Mechanism) -> list[tuple[float, Mechanism]]:
        """Poisson samples, by their rates; none where the class defines none."""
        known: set[Relation] = {*part.sample_relations} & {*SAMPLED}
        with suppress(ValueError):
            return [(rate, part.poisson(rate)) for rate in RATES] if self.relation in known else []
        return []

    def statement(self) -> bytes:
        """A digest of what is said of one release: relations with the same one have the same answers."""
        told: list[object] = [self.mechanism.tight]
        for process in (self.mechanism * 1).decompose(self.relation).alternatives(self.relation):
            for part, count in process:
                told += [type(part), count, part.tight, part.pure_epsilon(self.relation), self._told(part)]
                told += [self.divergence(part).tobytes(), part.sampled_gaussian(self.relation) is None]
        return hashlib.sha256(repr(told).encode()).digest()

    def everything(self) -> bytes:
        """A digest of all that is said, also in other words, of samples and of groups."""
        mechanism, relation = self.mechanism, self.relation
        told: list[object] = [self.statement(), mechanism.pure_epsilon(relation), self._told(mechanism)]
        for part in dict.fromkeys([mechanism, *self.parts]):
            told += [part.concentration(relation), part.unsampled(), part.sampled_gaussian(relation)]
            for _, sample in self.samples(part):
                told += [self.divergence(sample, FEWER).tobytes(), self._told(sample)]
        with suppress(ValueError):  # the class defines no groups
            for part, count in (mechanism.group(GROUP) * 1).decompose(relation):
                told += [part, count, self._told(part)]
        return hashlib.sha256(repr(told).encode()).digest()

    def _told(self, part: Mechanism) -> list[tuple[float, bytes, bytes]]:
        """The losses of the directions."""
        sides = self.sums(part)
        laws = [law for way in DIRECTIONS[self.relation] for law in sides[way]] if sides is not None else []
        return sorted({(law.total, law.loss.tobytes(), law.mass.tobytes()) for law in laws})


def check_value(first: Contract) -> Iterator[None]:
    """Equality, and relations that are not supported."""
    mechanism, delta_bounds = first.mechanism, first.delta_bounds
    for other in ALL:
        contract = Contract(mechanism, other, delta_bounds)
        first.require(mechanism == mechanism, "==", "does not equal itself")
        contract.require(hash(mechanism) == hash(mechanism), "hash", "changes from call to call")
        _check_others(contract)
        if other in mechanism.relations:
            continue
        try:
            found = delta_bounds(mechanism, epsilon=1.0, neighbors=other)
        except ValueError as error:
            contract.require(other in str(error), "delta_bounds", f"the refusal does not name the relation: {error}")
        else:
            contract.require(False, "delta_bounds", f"answers {found} for a relation that is not supported")
        yield


def _check_others(contract: Contract) -> None:
    """Mechanisms that are equal are one entry of a composition: what is said of them has to be the same."""
    mechanism = contract.mechanism
    for other in (m.Gaussian(1.2345), m.PureDP(0.12345)):
        strange = type(other) is not type(mechanism) and mechanism == other
        contract.require(not strange, "==", f"equals {other!r}")
    if contract.relation not in mechanism.relations:
        return
    for one in fields(mechanism):
        value = getattr(mechanism, one.name)
        if not one.init or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        with suppress(TypeError, ValueError):  # out of range
            changed = replace(mechanism, **{one.name: value + type(value)(1)})
            if value < math.inf and changed == mechanism:
                said = Contract(changed, contract.relation, contract.delta_bounds).everything()
                text = f"equals {changed!r}, of which something else is said"
                contract.require(said == contract.everything(), "==", text)


def check_again(contract: Contract) -> Iterator[None]:
    """What is said does not depend on what was asked before."""
    again = Contract(contract.mechanism, contract.relation, contract.delta_bounds)
    good = again.statement() == contract.statement()
    contract.require(good, "losses", "or what else it says of one release, is something else when asked again")
    yield


def check_counts(contract: Contract) -> Iterator[None]:
    """Sums and products, arrays of counts, no release at all, one more release."""
    one, epsilon = contract.mechanism, 0.5
    contract.require(one + one + one == one * 3, "==", f"a sum of three is {one + one + one!r}, not {one * 3!r}")
    thrice = contract.read(one * 3, epsilon)
    yield
    cells = contract.read(one * np.array([0, 3]), epsilon)
    same = (cells.lower[1], cells.upper[1]) == thrice[:2]
    contract.require(same, "delta_bounds", f"cell 1 of {cells}, an array of counts, is not {thrice}")
    nothing = contract.read(one * 0, epsilon)
    contract.require(nothing[:2] == (0.0, 0.0), "delta_bounds", f"{nothing} for no release at all")
    yield
    once = contract.read(contract.job(one, 1), epsilon)
    contract.require(once.lower <= thrice.upper, "delta_bounds", f"falls with the count: {once}, {thrice}")
    counted = once.upper <= 1e-290 or once.upper > 0.9999 or thrice.upper > once.upper * 1.0001
    contract.require(counted, "delta_bounds", f"the count is ignored: {once} once, {thrice} three times")


def check_same(contract: Contract, first: Contract) -> Iterator[None]:
    """What is said of one release is the same under another relation: so are the answers."""
    found, known = (one.read(one.job(one.mechanism, 2), EPSILONS[2:]) for one in (contract, first))
    good = all(np.allclose(a, b, rtol=1e-9, atol=1e-300) for a, b in zip(found[:2], known[:2], strict=True))
    contract.require(good, "delta_bounds", f"{found}, and {known} under {first.relation!r}, by the same statement")
    yield


def check_curve(contract: Contract) -> Iterator[None]:
    """Delta is a curve of privacy, and its bounds are in order."""
    lower, upper, _ = contract.read(contract.job(contract.mechanism, 2), EPSILONS)
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


def check_composition(contract: Contract) -> Iterator[None]:
    """A composition is never below one of its parts: every part keeps its count, whichever comes last.

    40 releases of one and one of the other; 4 of a mechanism whose losses only a grid composes.
    """
    mechanism, size, at = contract.mechanism, contract.size, 2.0 * contract.size
    is_gaussian = contract.job(mechanism, 1).decompose(contract.relation).is_gaussian
    other = m.Gaussian(2.2 / size) if is_gaussian else m.PureDP(0.5 * size)  # what the same reader takes
    sides = [law for part in contract.parts for two in (contract.sums(part) or {}).values() for law in two]
    is_listed = all(law.loss.size <= _FEW for law in sides) and not mechanism.alternatives()
    most = _MANY if is_gaussian or is_listed else 4
    for many, one, count in ((mechanism, other, most), (other, mechanism, _MANY)):
        part = contract.read(many * count, at)
        yield
        whole = contract.read(many * count + one, at)
        least = part.lower if mechanism.tight or many is other else 0.99 * part.upper
        where = f"at epsilon {at}: {whole}, and {part} of {count} {many!r} alone"
        contract.require(whole.upper >= least, "delta_bounds", f"falls where {one!r} is added {where}")
        yield


def check_inverse(contract: Contract) -> Iterator[None]:
    """Epsilon at the delta of an epsilon."""
    job, relation = contract.job(contract.mechanism, 2), contract.relation
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
