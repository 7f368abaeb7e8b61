"""What a mechanism says again in other words: as zero-concentrated, as a sampled Gaussian, as simpler mechanisms, on
the whole data set, to those who see all messages, and of relations that contain each other.

An upper bound alone is too small only where there is a lower one: losses of an exact pair, or a divergence that is
claimed to be exact (`tight`).  Of bounds none may make the other useless.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells
from fastacct.core.relations import DIRECTIONS, Direction, Relation
from fastacct.losses.divergence import of_sampled_gaussian
from fastacct.mechanisms.algebra import Mechanism, PoissonSampled
from fastacct.mechanisms.gaussian import Gaussian
from fastacct.mechanisms.process import Process
from fastacct.testing.contract import EPSILONS, EXACT, ORDERS, Contract, shown

_ROUNDING: Final = 1e-12 / (ORDERS - 1.0)
_NEAR: Final = 1e-6
"""What exact divergences may be above the truth, relatively."""
_FAR_ORDER: Final = 1e6
"""Beyond it products of orders and divergences have lost their digits."""


def check_shape(contract: Contract) -> Iterator[None]:
    """Divergences rise with the order; exact ones without losses have (order - 1) D convex, and are 0 nowhere or
    everywhere."""
    for part in contract.parts:
        if isinstance(part, PoissonSampled):
            continue  # by a theorem on whole orders, as a rule
        value = contract.divergence(part)
        _check_rising(contract, part, value)
        if part.tight and not part.has_losses:
            _check_convex(contract, part, value)
        yield


def _check_rising(contract: Contract, part: Mechanism, value: Cells) -> None:
    known = np.isfinite(value)  # inf: not known, which it may be at some orders only
    least = np.minimum.accumulate(value[::-1])[::-1]
    falls = known & (value > least * (1.0 + _NEAR) + _ROUNDING)
    if falls.any():
        first = int(np.argmax(falls))
        lower = first + int(np.argmin(value[first:]))
        what = f"{value[first]:.9g} at order {ORDERS[first]:.6g}, and {value[lower]:.9g} at order {ORDERS[lower]:.6g}"
        text = "divergences rise with the order, and a bound at a larger order holds at smaller ones, too"
        contract.require(False, "divergence", f"falls: that of {part!r} is {what}: {text}")


def _check_convex(contract: Contract, part: Mechanism, value: Cells) -> None:
    finite = np.isfinite(value) & (ORDERS <= _FAR_ORDER)
    order, found, size = ORDERS[finite], value[finite], ((ORDERS - 1.0) * value)[finite]
    nothing = (found == 0.0).any() and (found > 1e-9).any()
    text = (
        f"of {part!r} is 0 at some orders and {found.max(initial=0.0):.9g} at another: no two distributions have that"
    )
    contract.require(not nothing, "divergence", text)
    if contract.relation == "add" or found.size < 3:
        return  # of "add" it may be that of the larger direction
    share = (order[1:-1] - order[:-2]) / (order[2:] - order[:-2])
    chord = (1.0 - share) * size[:-2] + share * size[2:]
    bends = size[1:-1] > chord * (1.0 + _NEAR) + 1e-12
    if bends.any():
        i = int(np.argmax(bends))
        values = ", ".join(f"{d:.9g} at {a:.6g}" for d, a in zip(found[i : i + 3], order[i : i + 3], strict=True))
        text = "(order - 1) times a divergence is convex: no two distributions have these; of a bound set tight = False"
        contract.require(False, "divergence", f"of {part!r} is {values}: {text}")


def _below(least: Cells, claimed: Cells) -> int | None:
    """Where a claim is below what is proved, most of all; None where it is not."""
    with np.errstate(invalid="ignore"):
        off = least * (1.0 - EXACT) - _ROUNDING - claimed
    wrong = np.nan_to_num(off, posinf=np.inf) > 0.0
    return int(np.nanargmax(np.where(wrong, off, -np.inf))) if wrong.any() else None


def check_concentration(contract: Contract) -> Iterator[None]:
    """rho of zero-concentrated DP is not below D(a)/a at any order a > 1."""
    relation = contract.relation
    for part in contract.parts:
        rho = part.concentration(relation)
        contract.require(rho >= 0.0, "concentration", f"{rho!r} of {part!r}: at least 0, or inf where none is known")
        claimed, stated = rho * ORDERS, contract.divergence(part)
        if (at := _below(contract.least(part), claimed)) is not None:
            order, least = ORDERS[at], contract.least(part)[at]
            where = f"at order {order:.6g}, where it is at least {least:.9g}: rho is at least {least / order:.9g}"
            contract.require(
                False, "concentration", f"{rho!r} of {part!r} allows a divergence of {claimed[at]:.9g} {where}"
            )
        is_own = type(part).concentration is not Mechanism.concentration and np.isfinite(stated).all()
        useless = is_own and (stated > claimed * (1.0 + _NEAR) + _ROUNDING).all()
        least = float(np.min(stated / ORDERS))
        text = f"{rho!r} of {part!r} is below the divergence over the order, {least!r} and more, at every order"
        contract.require(not useless, "concentration", text)
        yield


def check_sampled_gaussian(contract: Contract) -> Iterator[None]:
    """The sampled Gaussian that it is said to be has no less than its losses."""
    for part in contract.parts:
        if (one := part.sampled_gaussian(contract.relation)) is None:
            continue
        noise, rate = float(one.noise), float(one.rate)
        if 0.0 < noise < math.inf and rate > 0.0:
            way: Relation = contract.relation if contract.relation in ("add", "remove") else "add_remove"
            gaussian = Gaussian(noise) if rate == 1.0 else Gaussian(noise).poisson(rate)
            _not_below(contract, gaussian * 1, part, "sampled_gaussian", way)
            known = of_sampled_gaussian(np.asarray(noise), np.asarray(rate), ORDERS)
            if contract.relation != "add" and (at := _below(contract.least(part), known)) is not None:
                found = (
                    f"{known[at]:.9g} at order {ORDERS[at]:.6g}; by what {part!r} says: {contract.least(part)[at]:.9g}"
                )
                contract.require(False, "sampled_gaussian", f"{one!r} has the divergence {found}")
        elif rate == 0.0 or noise == math.inf:
            least = contract.least(part)
            text = f"{one!r} releases nothing, and {part!r} has a divergence of {least.max():.9g}"
            contract.require((least <= _ROUNDING).all(), "sampled_gaussian", text)
        yield


def _not_below(contract: Contract, job: Process, part: Mechanism, verb: str, relation: Relation | None = None) -> None:
    """What a job says from above is not below what is certain of a mechanism."""
    at = np.array([0.0, 0.5 * contract.size, *EPSILONS[2:]])
    whole = contract.delta_bounds(job, epsilon=at, neighbors=relation or contract.relation)
    mine = contract.read(contract.job(part, 1), tuple(at))
    wrong = whole.upper < mine.lower * (1.0 - EXACT)
    text = f"{job!r} has {shown(whole)}, and {part!r} {shown(mine)}, at epsilon {at}"
    contract.require(not wrong.any(), verb, text)


def check_unsampled(contract: Contract) -> Iterator[None]:
    """On the whole data set no less is lost; nor where every message is seen."""
    mechanism, relation = contract.mechanism, contract.relation
    for part in dict.fromkeys([mechanism, *contract.parts]):
        whole = part.unsampled()
        contract.require(isinstance(whole, Mechanism), "unsampled", f"of {part!r} is {whole!r}, no mechanism")
        if whole == part:
            continue
        supported = relation in whole.relations
        contract.require(supported, "unsampled", f"{whole!r} does not support neighbors = {relation!r}; {part!r} does")
        _not_below(contract, whole * 1, part, "unsampled")
        _check_from_above(contract, whole * 1, part, "unsampled")
        yield
    if type(mechanism).local is not Mechanism.local:
        local = mechanism.local()
        contract.require(isinstance(local, Process), "local", f"is {local!r}, no process")
        _not_below(contract, local, mechanism, "local")
        yield


def _check_from_above(contract: Contract, job: Process, part: Mechanism, verb: str) -> None:
    """The divergence of a job is not below what is known of a mechanism's, and its concentration allows it."""
    relation = contract.relation
    least = contract.least(part)
    inside = list(job.decompose(relation))
    if (at := _below(least, job.divergence(ORDERS, relation, contract.delta_of))) is not None:
        found = float(job.divergence(ORDERS[at : at + 1], relation, contract.delta_of)[0])
        text = f"{job!r} has the divergence {found!r} at order {ORDERS[at]:.6g}, and {part!r} at least {least[at]:.9g}"
        contract.require(False, verb, text)
    rho = math.fsum(float(np.asarray(n)) * one.concentration(relation) for one, n in inside)
    if (at := _below(least, rho * ORDERS)) is not None:
        text = f"{job!r} has the concentration {rho!r}, and {part!r} the divergence {least[at]:.9g} at {ORDERS[at]:.6g}"
        contract.require(False, verb, text)


def check_decompose(contract: Contract) -> Iterator[None]:
    """Simpler mechanisms that it is equivalent to say no less than its own statements, and no more than its losses."""
    mechanism, relation = contract.mechanism, contract.relation
    parts = mechanism.decompose(relation)
    if parts is None or not mechanism.tight:
        return  # of two bounds either may be the smaller one
    inside = list(parts.decompose(relation))
    if (sides := contract.sums(mechanism)) is not None:
        at = np.array([0.0, 0.5 * contract.size, *EPSILONS[2:]])
        found = contract.read(parts, tuple(at))
        low, high = (np.max([two[i].delta(at) for two in contract.ways(sides)], axis=0) for i in (0, 1))
        where = f"{parts!r} has {shown(found)}, and by its own losses it is from {low}"
        good = (found.upper >= low * (1.0 - EXACT)).all() and (found.lower <= high * (1.0 + EXACT) + 1e-280).all()
        contract.require(good, "decompose", f"{where} to {high}, at epsilon {at}")
        yield
    claims = type(mechanism).divergence is not Mechanism.divergence
    if sides is not None or claims:
        known = parts.divergence(ORDERS, relation, contract.delta_of)
        least = contract.claimed(mechanism) if sides is None else contract.least(mechanism)
        if (at_order := _below(least, known)) is not None:
            text = f"{known[at_order]:.9g} at order {ORDERS[at_order]:.6g}, by itself at least {least[at_order]:.9g}"
            contract.require(False, "decompose", f"{parts!r} has the divergence {text}")
    proved = np.sum([float(np.asarray(n)) * contract.least(one) for one, n in inside], axis=0)
    if claims and (at_order := _below(proved * (1.0 - _NEAR), mechanism.divergence(ORDERS, relation))) is not None:
        text = f"{proved[at_order]:.9g} of {parts!r} at order {ORDERS[at_order]:.6g}, which it consists of"
        contract.require(False, "divergence", f"is below {text}")
    whole, pure = parts.pure_epsilon(relation), mechanism.pure_epsilon(relation)
    good = not parts.tight or pure >= min(whole * (1.0 - EXACT), float(proved[-1]) * (1.0 - 1e-3))
    contract.require(good, "pure_epsilon", f"{pure!r} is below {whole!r} of {parts!r}, which it consists of")
    yield


def check_alternatives(contract: Contract) -> Iterator[None]:
    """One of the jobs is as bad as the mechanism says to be, and none is worse."""
    mechanism, relation = contract.mechanism, contract.relation
    if not (jobs := mechanism.alternatives()) or not mechanism.tight:
        return
    known = contract.divergence(mechanism)
    found = np.max([job.divergence(ORDERS, relation, contract.delta_of) for job in jobs], axis=0)
    for small, large in ((found, known), (known, found)):
        if (at := _below(large * (1.0 - _NEAR), small)) is not None:
            text = f"is {found[at]:.9g} at order {ORDERS[at]:.6g}, and that of the mechanism {known[at]:.9g}"
            contract.require(False, "alternatives", f"the largest divergence of {jobs!r} {text}")
    yield


def _same_losses(contract: Contract, way: Direction, at: Cells) -> None:
    """Losses of one direction are the same, whether both are asked for or one."""
    both, alone = (one.sums(contract.mechanism) for one in (contract, replace(contract, relation=way)))
    if both is None or alone is None:
        return
    for (low, _), (_, high) in ((both[way], alone[way]), (alone[way], both[way])):
        good = (low.delta(at) <= high.delta(at) * (1.0 + EXACT) + 1e-300).all()
        text = f"of direction {way!r} have another delta under {way!r} than under 'add_remove', at epsilon {at}"
        contract.require(good, "losses", text)


def check_relations(contract: Contract) -> Iterator[None]:
    """Adding or removing is the worse of adding and of removing."""
    mechanism = contract.mechanism
    ways = [way for way in DIRECTIONS["add_remove"] if way in mechanism.relations]
    if contract.relation != "add_remove" or not ways:
        return
    one, at = mechanism * 1, np.array([0.5 * contract.size, 1.0])
    whole, mine = (
        contract.read(contract.job(mechanism, 1), tuple(at)),
        one.divergence(ORDERS, "add_remove", contract.delta_of),
    )
    each = [contract.delta_bounds(one, epsilon=at, neighbors=way) for way in ways]
    for way, found in zip(ways, each, strict=True):
        _same_losses(contract, way, at)
        good = (whole.upper >= found.lower * (1.0 - EXACT)).all()
        contract.require(good, "losses", f"{shown(whole)}, but under {way!r} {shown(found)}, at epsilon {at}")
        theirs = one.divergence(ORDERS, way, contract.delta_of)
        worst = np.flatnonzero(theirs > mine * (1.0 + _NEAR) + 1e3 * _ROUNDING)
        text = f"is {mine[worst[:1]]} at order {ORDERS[worst[:1]]}, and {theirs[worst[:1]]} under {way!r}"
        contract.require(not worst.size, "divergence", text)
        pure, other = one.pure_epsilon("add_remove"), one.pure_epsilon(way)
        contract.require(pure >= other * (1.0 - EXACT), "pure_epsilon", f"{pure!r} is below {other!r} under {way!r}")
        yield
    good = len(ways) == 1 or (whole.lower <= np.maximum(*(one.upper for one in each)) * (1.0 + EXACT)).all()
    contract.require(
        good, "losses", f"{shown(whole)}; {' and '.join(map(shown, each))} of both directions, at epsilon {at}"
    )
