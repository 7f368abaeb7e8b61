"""What a mechanism says of one release, compared with itself: losses, divergence, pure epsilon.

Losses are taken as data (`sums.py`).  For a mechanism whose pair is exact all statements are of one fact and agree.
Where it is a bound (`tight = False`), the losses dominate every pair of outputs and so have at least the divergence of
each: a divergence that is a supremum over pairs may be smaller, and one above theirs says that losses are missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from fastacct.accountants import RDP
from fastacct.core.inputs import Cells
from fastacct.epsilon import delta
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.process import Process
from fastacct.testing.contract import EPSILONS, EXACT, ORDERS, Contract, Sides

_ORDERS: Final = (1.5, 2.0, 4.0, 8.0, 32.0)
"""Where a divergence is not above that of the losses; at the others it may be rounded up, but it is not smaller."""
_PUBLISHED: Final = ("DiscreteGaussian", "Skellam")
"""Kinds with an exact pair that state a published bound of their divergence, above that of the losses, and samples."""
_LAST: Final = 1e13
"""An order whose divergence is the largest loss, almost."""
_CLOSE: Final = 2e-4
"""What a divergence that is computed from losses on a grid may be above theirs; no canary is that close."""


def check_statements(contract: Contract) -> Iterator[None]:
    """Losses against each other in both directions, against the divergence and against the pure guarantee."""
    for part in contract.parts:
        pure = part.pure_epsilon(contract.relation)
        contract.require(
            pure >= 0.0, "pure_epsilon", f"of {part!r} is {pure!r}: at least 0, or inf where none is known"
        )
        if (sides := contract.sums(part)) is not None:
            for low, high in dict.fromkeys(sides.values()):
                good = low.total <= 1.0 + 1e-12 and 1.0 - 1e-12 <= high.total <= 1.0 + 1e-6
                masses = f"masses of {part!r} add up to {low.total!r} from below, {high.total!r} from above"
                contract.require(good, "losses", masses)
                at = np.array([0.0, 0.5 * contract.size, *EPSILONS[1:]])
                below, above = low.delta(at), high.delta(at)
                good = bool((below <= above * (1.0 + EXACT) + 1e-14).all())
                contract.require(good, "losses", f"of {part!r}: delta from {below} to {above}, at epsilon {at}")
            _check_mirror(contract, part, sides)
            yield
            _check_divergence(contract, part, sides)
            _check_largest(contract, part, sides)
            yield
        last = float(part.divergence(np.array([_LAST]), contract.relation)[0])
        most = math.inf if contract.relation == "add" else 1e-3 * pure + 1e-12  # that of the larger direction
        good = not math.isfinite(pure + last) or -1e-6 * pure - 1e3 / _LAST <= last - pure <= most
        contract.require(good, "pure_epsilon", f"{pure!r} is not the divergence {last!r} of {part!r} at order {_LAST}")
        yield


def _check_mirror(contract: Contract, part: Mechanism, sides: Sides) -> None:
    """E_P exp(s L) of P against Q is E_Q exp(-(1 + s) L) of Q against P; at s = -1 it is what Q has where P has mass.

    Between -1 and 0 it falls where more is released: distributions from above have the smaller one.
    """
    off = max(high.total - low.total for low, high in sides.values())
    for s in (-1.0, -0.75, -0.5, -0.25, 0.0, 1.0):
        found = []
        for two, at in ((sides["remove"], s), (sides["add"], -1.0 - s)):
            below, above = (one.moment(at) for one in two)
            low, high = (above, below) if s <= 0.0 else (below, above)
            found.append((-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high))
        apart = max(low for low, _ in found) - min(high for _, high in found)
        size = min(abs(x) for one in found for x in one)
        good = not apart > (EXACT if s <= 0.0 else _CLOSE) * size + 2.0 * off + 1e-15
        contract.require(good, "losses", f"of {part!r}: remove and add differ at s = {s}: log-moments in {found}")


def _check_divergence(contract: Contract, part: Mechanism, sides: Sides) -> None:
    """The divergence is that of the losses at real orders.

    Of "add" alone it may be that of the larger direction.
    """
    for order, value in zip(ORDERS.tolist(), contract.divergence(part).tolist(), strict=True):
        low, high = contract.between(sides, order)
        if contract.relation == "add":
            high = max(above.divergence(order) for _, above in sides.values())
        compare_divergence(contract, part, order, value, (low, high), "what follows from the losses")


def compare_divergence(
    contract: Contract, part: Mechanism, order: float, value: float, known: tuple[float, float], what: str
) -> None:
    """A divergence with bounds that are known; nan: there is none."""
    (low, high), rounding = known, 1e-12 / (order - 1.0)
    where = f"{part!r} at order {order:.6g}: {value!r} is"
    known_is = f"than {what} ({low!r} to {high!r}): one of the two is wrong"
    small = part.tight and value < low * (1.0 - EXACT) - rounding
    contract.require(not small, "divergence", f"{where} less {known_is}")
    is_loose = type(part.unsampled()).__name__ in _PUBLISHED or not math.isfinite(value)
    large = not is_loose and order in _ORDERS and value > high * (1.0 + _CLOSE) + max(rounding, 1e-12)
    contract.require(not large, "divergence", f"{where} more {known_is}")


def _check_largest(contract: Contract, part: Mechanism, sides: Sides) -> None:
    """The pure guarantee is the largest loss, where there is one."""
    pure, ways = part.pure_epsilon(contract.relation), contract.ways(sides)
    low, high = max(below.largest() for below, _ in ways), max(above.largest() for _, above in ways)
    good = pure == math.inf or (min(low, high) * (1.0 - 1e-12) - 1e-14 <= pure and pure * (1.0 - _CLOSE) <= high)
    where = f"the largest loss of {part!r}, from {low!r} to {high!r}"
    contract.require(good, "pure_epsilon", f"{pure!r} is not {where}")


def agree(
    contract: Contract, job: Process, at: Cells, low: Cells, high: Cells, what: str, by_losses: bool = True
) -> None:
    """What the hook says of a job agrees with sums."""
    lower, upper, _ = contract.read(job, tuple(at))
    where = f"{what}, from {low} to {high}, of {job!r} at epsilon {at}"
    above = (lower <= high * (1.0 + EXACT) + 1e-280).all()
    contract.require(above, "delta_bounds", f"lower bound {lower} is above {where}")
    below = (upper >= low * (1.0 - EXACT)).all()
    contract.require(below, "delta_bounds", f"upper bound {upper} is below {where}")
    near = 1.01 if job.decompose(contract.relation).is_gaussian else 1.001  # that of replace-one may be LOOSE
    close = not by_losses or (upper <= np.maximum(high * near, 1e-14)).all()  # an atom next to epsilon is above it
    contract.require(close, "delta_bounds", f"upper bound {upper} is far above {where}")


def check_sums(contract: Contract) -> Iterator[None]:
    """Delta of one and of two releases against sums over the losses."""
    for part in contract.parts:
        if (sides := contract.sums(part)) is None:
            continue
        ways, at = contract.ways(sides), np.array([0.5 * contract.size, *EPSILONS[1:]])
        if any(low.law is not high.law and high.delta(at[:1])[0] > 1.01 * low.delta(at[:1])[0] for low, high in ways):
            at = at[[0, 2]]  # laws that are apart take many times as long to compose
        for count, what in ((1, "the sum over losses"), (2, "the double sum over losses")):
            low, high = (
                np.max([law.delta(at) if count == 1 else law.delta_of_two(at) for law in laws], axis=0)
                for laws in zip(*ways, strict=True)
            )
            yield
            job = contract.job(part, count)
            if not part.tight:  # the divergence, a supremum over pairs of outputs, may say more than the worst of all
                low = np.minimum(low, delta(job, epsilon=at, neighbors=contract.relation, accountant=RDP()))
            agree(contract, job, at, low, high, what)
            yield
