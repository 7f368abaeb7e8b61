"""What a mechanism says of its Poisson samples and of groups of records, against their definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import DIRECTIONS, Direction
from fastacct.losses.loss import OutOfReachError
from fastacct.mechanisms.algebra import Mechanism
from fastacct.testing.contract import EXACT, FEWER, GROUP, ORDERS, RATES, Contract, Sides, shown, sides_of
from fastacct.testing.statements import agree, compare_divergence
from fastacct.testing.sums import Sums

_MORE: Final = 1.0 + 1e-6
"""By how much a group of three loses more than one record, at least."""
_RELEASES: Final = 9
_RATE: Final = 0.5
"""Of the sample of a group: half of the members, each drawn independently."""


def check_samples(contract: Contract) -> Iterator[None]:
    """Poisson samples against their definition: ((1 - q) Q + q P, Q) for "remove", (Q, (1 - q) Q + q P) for "add"."""
    for part in contract.parts:
        sides = contract.sums(part)
        for rate, sample in contract.samples(part):
            if sides is None:
                _check_without_losses(contract, part, sample, rate)
                yield
                continue
            at = np.unique([0.0, 0.25 * min(contract.size, 1.0), min(contract.size, 2.0)])
            known = {way: [_delta(law, at, rate, way) for law in sides[way]] for way in DIRECTIONS[contract.relation]}
            _check_losses(contract, sample, known, at)
            if part.tight and rate == RATES[0]:
                low, high = np.max([[one[i][1:2] for i in (0, 1)] for one in known.values()], axis=0)
                has_losses = contract.sums(sample) is not None
                agree(contract, contract.job(sample, 1), at[1:2], low, high, "the definition", has_losses)
            yield
            if part.tight:
                _check_divergence(contract, sample, rate, sides)
                yield


def _delta(law: Sums, at: Cells, rate: float, way: Direction) -> Cells:
    """Delta of the sample from that of the mechanism."""
    rest = np.maximum(1.0 - (1.0 - rate) * np.exp(at), 0.0)
    if way == "remove":
        return rate * law.delta(np.log1p(np.expm1(at) / rate))
    return rest * law.delta(at + np.log(rate / np.maximum(rest, 1e-9)))


def _check_losses(contract: Contract, sample: Mechanism, known: dict[Direction, list[Cells]], at: Cells) -> None:
    """Each direction by itself."""
    if (found := contract.sums(sample)) is None:
        return
    for way, (low, high) in known.items():
        below, above = (law.delta(at) for law in found[way])
        where = f"of {sample!r}, {way}: delta from {below} to {above}, by the definition from {low} to {high}, at {at}"
        contract.require((above >= low * (1.0 - EXACT) - 1e-15).all(), "sample_losses", f"too small {where}")
        good = not sample.tight or (below <= high * (1.0 + EXACT) + 1e-15).all()
        contract.require(good, "sample_losses", f"too large from below {where}")


def _check_divergence(contract: Contract, sample: Mechanism, rate: float, sides: Sides) -> None:
    """That of a sample is not below the definition; it may be a bound that holds for all mechanisms."""
    ways = DIRECTIONS[contract.relation]
    for order, value in zip(FEWER.tolist(), contract.divergence(sample, FEWER).tolist(), strict=True):
        low, high = (max(sides[way][i].sample_divergence(order, rate, way) for way in ways) for i in (0, 1))
        known = (high if low > high else low), math.inf
        compare_divergence(contract, sample, order, value, known, "what follows from the definition")


def _check_without_losses(contract: Contract, part: Mechanism, sample: Mechanism, rate: float) -> None:
    """A sample loses no more than the mechanism, and for order 2 there is an equation, in the direction "remove"."""
    whole, found = contract.divergence(part, FEWER), contract.divergence(sample, FEWER)
    worse = np.flatnonzero(found > whole * (1.0 + 1e-6) + 1e-12 / (FEWER - 1.0))
    text = f"{found[worse[:1]]} at order {FEWER[worse[:1]]}, {part!r} itself {whole[worse[:1]]}"
    contract.require(not worse.size, "sample_divergence", f"of {sample!r} is {text}")
    if part.tight and contract.relation in ("add_remove", "remove") and "remove" in part.relations:
        two = int(np.searchsorted(FEWER, 2.0))
        removed = float(Contract(part, "remove", contract.delta_bounds).claimed(part)[np.searchsorted(ORDERS, 2.0)])
        least = math.log1p(rate * rate * math.expm1(min(removed, 700.0)))
        text = (
            f"{found[two]:.9g} of {sample!r} at order 2; log(1 + q^2 (exp(D) - 1)), by its own divergence, is {least!r}"
        )
        contract.require(found[two] >= least * (1.0 - 1e-6) - 1e-12, "sample_divergence", text)


def _group(contract: Contract) -> tuple[int, Mechanism] | None:
    """A group of the mechanism, and its size; None where the class defines none."""
    for size in (GROUP, 2):
        with suppress(ValueError):
            group = contract.mechanism.group(size)
            if contract.relation in group.relations and len((group * 1).decompose(contract.relation)):
                return size, group
    return None


def check_groups(contract: Contract) -> Iterator[None]:
    """A group against its definition: as many changes, one after the other, of which the first is one record's."""
    if (known := _group(contract)) is None:
        return
    (k, group), mechanism, relation, size = known, contract.mechanism, contract.relation, contract.size
    at = np.array([0.0, 0.5 * size, 1.5 * size, 0.5 * k * size, 1.5 * k * size])
    one, all_of_it = contract.read(contract.job(mechanism, 1), tuple(at)), contract.read(group, tuple(at))
    text = f"{group!r} has {shown(all_of_it)}, and one record {shown(one)}, at epsilon {at}"
    contract.require((all_of_it.upper >= one.lower * (1.0 - EXACT)).all(), "group", f"is below one record: {text}")
    grows = (all_of_it.upper > one.upper * _MORE).any() or (one.upper == 0.0).all() or one.upper[0] >= 1.0 - EXACT
    contract.require(grows, "group", f"the size is ignored: {text}")
    most = one.upper[1:3] * np.expm1(k * at[1:3]) / np.expm1(at[1:3]) * (1.0 + EXACT)
    good = (all_of_it.lower[3:] <= most).all()
    # where its size is public, the data set has another one after each change
    good |= any(hasattr(one, "records") for one in (mechanism, getattr(mechanism, "mechanism", None)))
    contract.require(good, "group", f"is more from below than {k} changes one after the other, {most}: {text}")
    yield
    pure, whole = (mechanism * 1).pure_epsilon(relation), (group * 1).pure_epsilon(relation)
    good = pure * (1.0 - 1e-12) <= whole
    contract.require(good, "pure_epsilon", f"{whole!r} of {group!r}, and {pure!r} of one record")
    _check_ways(contract)
    yield
    if mechanism.has_groups:
        _check_members(contract)
        yield


def _check_ways(contract: Contract) -> None:
    """What is said of a group in several ways: exactly, as a bound, and of several releases."""
    mechanism, relation, at = contract.mechanism, contract.relation, (0.0, 0.5 * contract.size, 2.0 * contract.size)
    if mechanism.decompose(relation) is not None:
        return
    for name, count in (("grouped", 1), ("grouped_within", _RELEASES)):
        found = None
        with suppress(ValueError):  # the class defines none
            found = mechanism.grouped(2, relation) if count == 1 else mechanism.grouped_within(count, 2, relation)
        if found is None:
            continue
        bound = contract.read(found, at)
        for less in (mechanism, mechanism.group_exactly(2)):
            if less is not None:
                exact = contract.read(contract.job(less, count), at)
                good = (bound.upper >= exact.lower * (1.0 - EXACT)).all()
                text = f"{found!r} has {shown(bound)}, and {count} of {less!r} {shown(exact)}, at epsilon {at}"
                contract.require(good, name, text)


def _check_members(contract: Contract) -> None:
    """A sample of a group: c of the k members are drawn with a binomial probability w.

    Each c alone says at least w delta_c(epsilon - log w), for the others only add mass; all are at most what is said
    where c is seen.
    """
    mechanism, relation, k, q = contract.mechanism, contract.relation, GROUP, _RATE
    if relation not in mechanism.sample_relations or "remove" not in DIRECTIONS[relation] or relation == "replace_one":
        return
    known: list[Sides] = []
    found: Sides | None = None
    with suppress(OutOfReachError, ValueError):
        sizes = [mechanism.sample_losses(1.0, c, relation) for c in range(1, k + 1)]
        pair = mechanism.sample_losses(q, k, relation)
        if pair is not None and all(one is not None and not one.is_nothing for one in sizes):
            known, found = [sides_of(one) for one in sizes if one is not None], sides_of(pair)
    if found is None or len(known) < k:
        return
    at = np.array([0.0, 0.25 * min(contract.size, 1.0)])
    weight = [math.comb(k, c) * q**c * (1.0 - q) ** (k - c) for c in range(1, k + 1)]
    drawn, (below, above) = math.fsum(weight), found["remove"]
    inside = np.log1p(np.expm1(at) / drawn)
    laws = [one["remove"] for one in known]
    low = np.max([w * two[0].delta(at - math.log(w)) for w, two in zip(weight, laws, strict=True)], axis=0)
    high = np.sum([w * two[1].delta(inside) for w, two in zip(weight, laws, strict=True)], axis=0)
    where = f"at epsilon {at}, rate {q}, size {k}: from {below.delta(at)} to {above.delta(at)}, "
    where += f"and by the sizes of the group that is drawn from {low} to {high}"
    good = (above.delta(at) >= low * (1.0 - EXACT)).all() and (below.delta(at) <= high * (1.0 + EXACT)).all()
    contract.require(good, "sample_losses", f"of {mechanism!r} {where}")
