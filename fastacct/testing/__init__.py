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
from fastacct.testing import contract, derived, samples, statements
from fastacct.testing.contract import Contract, ContractError
from fastacct.testing.examples import examples

__all__ = ["CheckReport", "ContractError", "check_mechanism", "examples"]


class CheckReport(tuple[str, ...]):
    """What `check_mechanism` asked; as a tuple the names of the checks that were not finished in time, () if all were.

    Examples
    --------
    >>> import fastacct as fa
    >>> from fastacct.testing import check_mechanism
    >>> print(str(check_mechanism(fa.PureDP(0.3), neighbors="remove")).splitlines()[0])
    PureDP(epsilon=0.3) passed 17 checks: remove
    """

    mechanism: Mechanism
    relations: tuple[Relation, ...]
    passed: tuple[str, ...]
    """The names of the checks that were finished."""
    compared: dict[str, int]
    """How many comparisons each of these made; 0 where the mechanism does not say what is compared."""

    def __str__(self) -> str:
        rows = [f"{self.mechanism!r} passed {len(self.passed)} checks: {', '.join(self.relations)}"]
        for kind in dict.fromkeys(map(_kind, self.passed)):
            names = [name for name in self.passed if _kind(name) == kind]
            times = sum(self.compared[name] for name in names)
            told = f"{times} comparison{'s' * (times != 1)} of {_COMPARED[kind]}" if times else "nothing to compare"
            made, others = (
                ", ".join(name.partition(", ")[2] for name in names if bool(self.compared[name]) is is_made)
                for is_made in (times > 0, times == 0)
            )
            rows.append(f"{kind}{f' ({made})' if made else ''}: {told}")
            if others:
                rows.append(f"{kind} ({others}): nothing to compare")
        said = [name for name in _SAID if getattr(type(self.mechanism), name) is not getattr(Mechanism, name)]
        rows.append(f"one release is described by {', '.join(said) or 'nothing'}{_ALONE if len(said) == 1 else ''}")
        rows += [f"not finished in time: {', '.join(self)}"] if self else []
        return "\n  ".join(rows)

    __repr__ = __str__


def check_mechanism(
    mechanism: Mechanism,
    *,
    neighbors: Relation | None = None,
    seconds: float | None = None,
    progress: Callable[[str], None] | None = None,
    delta_bounds: Callable[..., Bounds] = certified_delta,
) -> CheckReport:
    """Check what every mechanism has to satisfy; a `ContractError` says what it does not.

    What it says of one release is compared with itself, by sums over its losses that are none of the readers:

    * the masses of its losses add up to 1, bounds from below are below those from above, and those of "add" are those
      of "remove", seen from the other side;
    * its divergences are those of the losses at real orders, its pure epsilon is the largest loss; where `tight` is
      False a divergence may be smaller, as a supremum over pairs of outputs is, but not larger;
    * divergences rise with the order; where `tight` and without losses, (order - 1) D is convex, and 0 everywhere or
      nowhere;
    * `concentration` is not below D(a)/a at any order a; a bound's is not below its divergence at all orders;
    * the Gaussian of `sampled_gaussian`, the processes of `decompose` and `local`, the mechanism of `unsampled`, and
      the worst of `alternatives` lose no less than it does; `decompose` no more, and no alternative;
    * "add_remove" is not below "add" or "remove";
    * delta of one and of two releases agrees with the sum and the double sum over the losses, to 1e-9 on the unsafe
      side and 1e-3 on the other;
    * losses and divergence of Poisson samples at three rates are those of their definition; without losses the
      divergence is not above the mechanism's, nor at order 2 below log(1 + q^2 (exp(D) - 1));
    * a group of three loses more than one record, and, from below, not more than three one after the other; what
      `group_exactly`, `grouped` and `grouped_within` say of it does not differ on the unsafe side; of the sample of a
      group, nor do the members that are drawn;
    * asked again, it says the same.

    And its answers with each other:

    * equality, hash and repr by value; relations that are not supported are refused, the others are not;
    * `m * 3` equals `m + m + m` and has the same bits as a cell of an array of counts, `m * 0` releases nothing;
    * delta falls with epsilon and is convex in exp(epsilon), rises with the count, lower <= upper;
    * a composition with another mechanism is not below 40 releases of either;
    * epsilon at the delta found is not above the epsilon asked for, and Rényi bounds are not below what is certified.

    What is not said is not compared: a mechanism without losses has no sums.  Relations under which the same is said
    are asked once, and then whether they have the same answers.  A group may in truth be as one record, as for the
    answer to a yes-or-no question: set `no_group` then.

    **What cannot be seen.** What is said once only, as a divergence a tenth of the truth with nothing beside it, or
    wrongly everywhere; what a relation means, as replacing a record that is said to be as zeroing it out; samples under
    "replace_one", of which the losses say nothing; that everyone sees who takes part (`is_local`), or what else forbids
    samples and groups; a group that grows, but too slowly; of a bound (`tight = False`) the smaller one of two
    statements, as of `decompose` and the divergence; a pure guarantee larger than the truth; a divergence that is wrong
    nowhere but between the orders asked; parameters that are arrays; the distribution of the error.

    The parameters of the mechanism are plain numbers.  Without `neighbors` every relation that it supports is checked.
    All questions are asked, which takes a few seconds, up to a minute for random batches; with `seconds` none is asked
    after so many, and one under way is finished.  `progress` is called with the name of each check before it starts,
    for instance `print`.  `delta_bounds` is checked instead of `fastacct.delta_bounds`: for canaries.

    Returns a `CheckReport`, which prints what was checked; as a tuple it has the names of the checks that were not
    finished in time, and is () where all were.  A `ContractError` names the mechanism, the relation, the verb and the
    values.

    Examples
    --------
    >>> import fastacct as fa
    >>> from fastacct.testing import check_mechanism
    >>> check_mechanism(fa.Laplace(2.0), neighbors="remove")  # doctest: +SKIP
    """
    if seconds is not None and not seconds > 0.0:
        raise ValueError(f"seconds = {seconds!r} is out of range; allowed: (0, inf], or None for no limit")
    end = math.inf if seconds is None else time.monotonic() + seconds
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a mechanism, not {mechanism!r}")
    skipped, compared = list[str](), dict[str, int]()
    relations = mechanism.relations if neighbors is None else (neighbors,)
    for name, one, questions in _checks(mechanism, relations, delta_bounds):
        before = one.compared
        if progress is not None and time.monotonic() < end:
            progress(name)
        if any(time.monotonic() >= end for _ in itertools.chain([None], questions)):
            skipped.append(name)
        else:
            compared[name] = one.compared - before
    report = CheckReport(skipped)
    report.mechanism, report.relations = mechanism, tuple(relations)
    report.passed, report.compared = tuple(compared), compared
    return report


def _kind(name: str) -> str:
    """What a check compares, without the relation."""
    kind = name.partition(", ")[0]
    return "as under another relation" if kind.startswith("as ") else kind


def _checks(
    mechanism: Mechanism, relations: Iterable[Relation], delta_bounds: Callable[..., Bounds]
) -> Iterator[tuple[str, Contract, Iterator[None]]]:
    """All checks by name, in order, with what counts their comparisons."""
    by_value = Contract(mechanism, mechanism.relations[0], delta_bounds)
    yield "equality and refusals", by_value, contract.check_value(by_value)
    first: dict[bytes, Contract] = {}
    asked: list[Contract] = []
    for relation in relations:
        one = Contract(mechanism, relation, delta_bounds)
        known = first.setdefault(one.statement(), one)
        is_new = known is one or one.everything() not in [other.everything() for other in asked]
        if is_new:
            asked.append(one)
        is_part = relation in ("add", "remove") and any(other.relation == "add_remove" for other in first.values())
        for name, check in _CHECKS.items():
            if name == "composition" and is_part:
                continue  # both directions were composed
            if known is one or (is_new and name not in _ANSWERS):
                yield f"{name}, {relation}", one, check(one)
        if known is not one:
            yield f"as {known.relation}, {relation}", one, contract.check_same(one, known)


_CHECKS: Final[dict[str, Callable[[Contract], Iterator[None]]]] = {
    "statements": statements.check_statements,
    "sums over losses": statements.check_sums,
    "divergences by order": derived.check_shape,
    "sampled Gaussian": derived.check_sampled_gaussian,
    "concentration": derived.check_concentration,
    "whole data set": derived.check_unsampled,
    "what it consists of": derived.check_decompose,
    "alternatives": derived.check_alternatives,
    "directions": derived.check_relations,
    "samples": samples.check_samples,
    "groups": samples.check_groups,
    "the same again": contract.check_again,
    "curve": contract.check_curve,
    "counts": contract.check_counts,
    "composition": contract.check_composition,
    "epsilon and delta": contract.check_inverse,
}
_COMPARED: Final = {
    "equality and refusals": "itself with others, and of relations that it lacks with a refusal",
    "statements": "losses with those of the other direction, the divergence and the pure epsilon",
    "sums over losses": "delta of one and two releases with sums over the losses",
    "divergences by order": "divergences with each other, over orders",
    "sampled Gaussian": "the sampled Gaussian that it is said to be with its losses",
    "concentration": "rho of zCDP with the divergence at all orders",
    "whole data set": "it on the whole data set with it as it is",
    "what it consists of": "what `decompose` says with its own losses and divergence",
    "alternatives": "the worst of its alternatives with what it says itself",
    "directions": "adding or removing with the worse of both",
    "samples": "Poisson samples at three rates with their definition",
    "groups": "groups with as many changes one after the other",
    "the same again": "what it says with what it says when asked again",
    "as under another relation": "answers with those of a relation of which the same is said",
    "curve": "delta with itself: bounds in order, falling and convex over epsilon",
    "counts": "sums with products, arrays with cells, three releases with one",
    "composition": "a composition with each of its parts",
    "epsilon and delta": "epsilon at a delta with that delta, and with Rényi DP",
}
"""What each kind of check compares with what."""
_ALONE: Final = " alone: what follows from it was compared, and no check knows whether it is so"
_SAID: Final = (
    "losses",
    "divergence",
    "divergence_given",
    "pure_epsilon",
    "concentration",
    "sampled_gaussian",
    "decompose",
)
_ANSWERS: Final = ("sums over losses", "curve", "counts", "composition", "epsilon and delta")
"""What follows from one release, by the verbs."""
