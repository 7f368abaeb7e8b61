"""What a guarantee says of a job: what is computed, what follows from the job in words, and what contradicts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fastacct.core.bounds import TIGHT_WIDTH, Bounds, Status, status_of
from fastacct.core.relations import Relation, both_ways
from fastacct.core.version import __version__
from fastacct.core.work import counted
from fastacct.epsilon import epsilon_bounds
from fastacct.guarantees.schema import Document, Interval, Numbers
from fastacct.ledger.state import KINDS
from fastacct.mechanisms.process import Process
from fastacct.tradeoff import tradeoff_bounds

DELTAS: Final = tuple(float(f"1e-{k}") for k in range(1, 21))
"""Of the curve."""
FPRS: Final = (
    *(1e-6, 1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1),
    *(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),
)
"""False-positive rates of the trade-off."""
_ADJACENCY: Final = {"replace_one": "bounded", "zero_out": "zero-out"}


# -- numbers -----------------------------------------------------------------------------------------------------------


def numbers_of(job: Process, delta: float, relation: Relation) -> Numbers:
    """Certified bounds of epsilon, of the curve, and of the trade-off of attackers who know both data sets."""
    lower, upper, _ = epsilon_bounds(job, delta=delta, neighbors=relation)
    with counted() as done:
        epsilons = epsilon_bounds(job, delta=DELTAS, neighbors=relation)
    misses = _misses(job, both_ways(relation), 3 if sum(done.values()) > 2e9 else 1)
    curve, tradeoff = (
        [[repr(float(one)) for one in point] for point in zip(places, found.lower, found.upper, strict=True)]
        for places, found in ((DELTAS, epsilons), (FPRS, misses))
    )
    own = Interval(lower=repr(lower), upper=repr(upper), status=status_in_words(lower, upper))
    return Numbers(epsilon=own, curve=curve, tradeoff=tradeoff)


def _misses(job: Process, relation: Relation, step: int) -> Bounds:
    """Bounds of the trade-off: of dear jobs at every third rate, and since it falls between those on both sides."""
    rates = np.array(FPRS)
    found = tradeoff_bounds(job, rates[::step], neighbors=relation)
    lower, upper = np.zeros(rates.size), np.nextafter(1.0 - rates, 2.0)
    lower[::step], upper[::step] = found.lower, found.upper
    lower, upper = np.maximum.accumulate(lower[::-1])[::-1], np.minimum.accumulate(upper)
    return Bounds(lower, upper, status_of(lower, upper))


def double(text: str) -> float:
    """A number of a document, each of which has one text."""
    value = float(text)
    if repr(value) != text:
        raise ValueError(f"{text!r} is not the shortest decimal of a double: {value!r}")
    return value


def status_in_words(lower: float, upper: float) -> str:
    """The status that the ends of an interval have."""
    return Status(int(status_of(lower, upper))).name


def intervals(document: Numbers) -> dict[str, tuple[float, float]]:
    """All certified intervals by their places, that of epsilon first; ValueError where one has its ends exchanged."""
    own = document["epsilon"]
    found = {"epsilon": (double(own["lower"]), double(own["upper"]))}
    for name, places in (("curve", DELTAS), ("tradeoff", FPRS)):
        points = document["curve" if name == "curve" else "tradeoff"]
        for i, ((place, lower, upper), expected) in enumerate(zip(points, places, strict=True)):
            if double(place) != expected:
                raise ValueError(f"{name}[{i}] is of {place}, not of {expected!r}")
            found[f"{name}[{i}]"] = double(lower), double(upper)
    for at, (low, high) in found.items():
        if not low <= high or (at[0] == "t" and high > 1.0):
            raise ValueError(f"{at} = [{low!r}, {high!r}] is no interval of this number")
    return found


def refuse_other(document: Numbers, now: Numbers) -> None:
    """Refuse intervals that exclude those computed now, or differ from them by more than rounding elsewhere does."""
    computed = intervals(now)
    for at, (low, high) in intervals(document).items():
        least, most = computed[at]
        off = TIGHT_WIDTH * (most if most < np.inf else least)
        is_near = all(a == b or abs(a - b) <= off for a, b in ((low, least), (high, most)))
        if not (is_near and low <= most and high >= least):
            told = f"{at} = [{low!r}, {high!r}] is altered, or of another version"
            raise ValueError(f"{told}: fastacct {__version__} computes [{least!r}, {most!r}]")


# -- words -------------------------------------------------------------------------------------------------------------


def adjacency(relation: Relation) -> str:
    """A relation in the words of NIST SP 800-226, and zero-out beside them."""
    return _ADJACENCY.get(relation, "unbounded")


def samplers(job: object) -> set[str]:
    """The verbs that draw the batches of a job, which is given as JSON."""
    if isinstance(job, Mapping):
        kind = KINDS.get(str(job.get("kind")))
        own = {getattr(kind, "made_by", "poisson")} if hasattr(kind, "made_by") or "sample_rate" in job else set()
        return own.union(*map(samplers, job.values()))
    return set[str]().union(*map(samplers, job)) if isinstance(job, list) else set()


def refuse_contradictions(document: Document, relation: Relation) -> None:
    """Refuse words that are not those of the job and the numbers."""
    (lower, upper), *_ = intervals(document).values()
    said = {"adjacency": adjacency(relation), "sampler": sorted(samplers(document["job"]))}
    for name, right in said.items():
        if (wrong := dict(document)[name]) != right:
            raise ValueError(f"{name} = {wrong!r:.60} contradicts the job: {right!r}")
    if not double(document["delta"]) <= 1.0:
        raise ValueError(f"delta = {document['delta']} is out of range; allowed: [0, 1]")
    for i, row in enumerate(document["audits"]):
        if not (double(row["epsilon_lower"]) <= upper and 0.0 < double(row["confidence"]) < 1.0):
            raise ValueError(f"audits[{i}] = {row!r:.200} contradicts epsilon <= {upper!r}, or has no confidence")
    if document["epsilon"]["status"] != (status := status_in_words(lower, upper)):
        raise ValueError(f"epsilon.status = {document['epsilon']['status']!r} contradicts its ends: {status!r}")
    if document["unit"]["of"] != "user" and document["unit"]["rows"] != 1:
        raise ValueError(f"unit.rows = {document['unit']['rows']} of a unit that is a {document['unit']['of']}")
