"""What every mechanism has to satisfy, and instances of all of them to try it on.

>>> import fastacct as fa
>>> from fastacct.testing import check_mechanism
>>> not_in_time = check_mechanism(fa.Laplace(noise_multiplier=2.0))
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from fastacct.core.bounds import Bounds
from fastacct.core.relations import Relation
from fastacct.epsilon import delta_bounds as certified_delta
from fastacct.mechanisms.algebra import Mechanism
from fastacct.testing import contract, statements
from fastacct.testing.contract import Contract, ContractError
from fastacct.testing.examples import examples

__all__ = ["ContractError", "check_mechanism", "examples"]


def check_mechanism(
    mechanism: Mechanism,
    *,
    neighbors: Relation | None = None,
    seconds: float | None = None,
    progress: Callable[[str], None] | None = None,
    delta_bounds: Callable[..., Bounds] = certified_delta,
) -> tuple[str, ...]:
    """Check what every mechanism has to satisfy; a `ContractError` says what it does not.

    What it says of one release is compared with itself, by sums over its losses that are none of the readers:

    * the masses of its losses add up to 1, and those of "add" are those of "remove", seen from the other side;
    * its divergences are those of the losses at real orders, its pure epsilon is the largest loss; where `tight` is
      False a divergence may be smaller, as a supremum over pairs of outputs is, but not larger;
    * delta of one and of two releases agrees with the sum and the double sum over the losses, to 1e-9 on the unsafe
      side and 1e-3 on the other; delta of a Poisson sample with its definition, that of a group with one record's.

    And its answers with each other:

    * equality, hash and repr by value; relations that are not supported are refused, the others are not;
    * `m * 3` equals `m + m + m` and has the same bits as a cell of an array of counts, `m * 0` releases nothing;
    * delta falls with epsilon and is convex in exp(epsilon), rises with the count, lower <= upper;
    * a composition with another mechanism is not below 40 releases of either;
    * epsilon at the delta found is not above the epsilon asked for, and Rényi bounds are not below what is certified.

    What is not said is not compared: a mechanism without losses has no sums.  Relations under which the same is said
    are asked once, and then whether they have the same answers.

    The parameters of the mechanism are plain numbers.  Without `neighbors` every relation that it supports is checked.
    All questions are asked, which takes a few seconds, up to a minute for random batches; with `seconds` none is asked
    after so many, and one under way is finished.  `progress` is called with the name of each check before it starts,
    for instance `print`.  `delta_bounds` is checked instead of `fastacct.delta_bounds`: for canaries.

    Returns the names of the checks that were not finished in time; () where all were.  A `ContractError` names the
    mechanism, the relation, the verb and the values.

    Examples
    --------
    >>> import fastacct as fa
    >>> from fastacct.testing import check_mechanism
    >>> check_mechanism(fa.Laplace(2.0), neighbors="remove")  # doctest: +SKIP
    """
    if seconds is not None and not seconds > 0.0:
        raise ValueError(f"seconds = {seconds!r} is out of range; allowed: (0, inf], or None for no limit")
    end = math.inf if seconds is None else time.monotonic() + seconds
    skipped = []
    for name, questions in _checks(mechanism, mechanism.relations if neighbors is None else (neighbors,), delta_bounds):
        if progress is not None and time.monotonic() < end:
            progress(name)
        if any(time.monotonic() >= end for _ in itertools.chain([None], questions)):
            skipped.append(name)
    return tuple(skipped)


def _checks(
    mechanism: Mechanism, relations: Iterable[Relation], delta_bounds: Callable[..., Bounds]
) -> Iterator[tuple[str, Iterator[None]]]:
    """All checks by name, in order."""
    yield "equality and refusals", contract.check_value(mechanism, delta_bounds)
    first: dict[bytes, Contract] = {}
    for relation in relations:
        one = Contract(mechanism, relation, delta_bounds)
        known = first.setdefault(one.statement(), one)
        if known is not one:
            yield f"as {known.relation}, {relation}", contract.check_same(one, known)
            continue
        is_part = relation in ("add", "remove") and any(other.relation == "add_remove" for other in first.values())
        for name, check in _CHECKS.items():
            if not (is_part and name == "composition"):  # both directions were composed
                yield f"{name}, {relation}", check(one)


_CHECKS: Final[dict[str, Callable[[Contract], Iterator[None]]]] = {
    "statements": statements.check_statements,
    "sums over losses": statements.check_sums,
    "samples": statements.check_samples,
    "groups": statements.check_groups,
    "curve": contract.check_curve,
    "counts": contract.check_counts,
    "composition": contract.check_composition,
    "epsilon and delta": contract.check_inverse,
}
