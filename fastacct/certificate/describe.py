"""What a job is, in the words of the checker: releases with exact numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from fastacct.core.inputs import Reals
from fastacct.core.relations import Relation, refuse
from fastacct.mechanisms.algebra import Grouped, Mechanism, PoissonSampled, Process
from fastacct.mechanisms.base import plain
from fastacct.mechanisms.batches import FixedSizeBatch, TruncatedPoisson, WithReplacement
from fastacct.mechanisms.epochs import RandomAllocation, Shuffled
from fastacct.mechanisms.finite import PairOfTables, RandomizedResponse
from fastacct.mechanisms.gaussian import Gaussian, GaussianMixture
from fastacct.mechanisms.guarantee import ApproxDP, PureDP
from fastacct.mechanisms.integer import DiscreteGaussian, DiscreteLaplace, Skellam
from fastacct.mechanisms.laplace import Laplace

Release = dict[str, Any]

_REACH = 24.0
"""Standard deviations of noise on whole numbers that are listed: 1e-120 is left out."""


def text_of(value: object) -> str:
    """A float as the shortest decimal that it is, without an exponent."""
    return format(Decimal(repr(float(np.asarray(value)))), "f")


def releases(job: Mechanism | Process, relation: Relation) -> list[Release]:
    """All releases of a job of plain numbers, each with its count; ValueError: what has no certificate, by name."""
    process = job if isinstance(job, Process) else job * 1
    if process.shape:
        raise ValueError(f"a certificate is of one job: parameters or counts have the shape {process.shape}")
    found = list(_of(process, relation))
    if not found:
        raise ValueError("nothing is released: epsilon is 0 without a certificate")
    return found


def _of(process: Process, relation: Relation, made_of: Mechanism | None = None) -> Iterator[Release]:
    for mechanism, count in process:
        if relation not in mechanism.relations:
            raise refuse(mechanism, relation, mechanism.relations)
        known = _described(mechanism, relation)
        if known is not None:
            yield from [{"count": int(plain(count)), **known}] if known and plain(count) > 0 else []
            continue
        parts = mechanism.decompose(relation)
        if parts is None:
            told = _ALLOCATION if isinstance(mechanism, RandomAllocation) else _COVERED
            raise ValueError(f"{made_of or mechanism!r} has no certificate under neighbors = {relation!r}: {told}")
        yield from _of(parts * count, relation, made_of or mechanism)


_ALLOCATION = (
    "the ratio of a random allocation is a mean of many, and certificates know sums of losses alone.  What the engine "
    "proves of it rests on the engine; Poisson subsampling has certificates, and is another sampler with other numbers"
)
_COVERED = (
    "covered are Gaussian, Laplace, discrete Gaussian, discrete Laplace and Skellam noise, PureDP, ApproxDP, from_pmf, "
    "randomized response, Poisson subsampling of these, Gaussian noise on batches of fixed or bounded size and on "
    "draws with replacement, its groups, GaussianMixture, and what consists of them"
)


def _described(mechanism: Mechanism, relation: Relation) -> Release | None:
    """Its words; empty: it tells nothing; None: it has none of its own."""
    match mechanism:
        case PoissonSampled(mechanism=inner, sample_rate=rate):
            known = _described(inner, relation) if plain(rate) > 0.0 else {}
            if not known or plain(rate) == 1.0:
                return known
            is_known = "gaussian" in known if relation == "replace_one" else "mixture" not in known
            return {**known, "poisson": text_of(rate)} if is_known else None
        case Shuffled():  # the upper end: it is known which step uses the record
            return _described(mechanism.unsampled(), relation)
        case Grouped(mechanism=Gaussian() | Laplace() as inner, size=size):
            known = _described(inner, relation)
            return {name: f"{value}/{size}" for name, value in known.items()} if known else known
        case Grouped(mechanism=inner, size=size):
            known = _described(inner, relation) if inner.has_groups and _known_batch(inner, size) else None
            return {**known, "group": size} if known else known
        case FixedSizeBatch() | WithReplacement() | TruncatedPoisson() if _known_batch(mechanism, 1):
            noise = {"gaussian": text_of(mechanism.noise)}
            if isinstance(mechanism, FixedSizeBatch):
                return {**noise, "fixed": [int(plain(mechanism.batch_size)), int(plain(mechanism.records))]}
            if isinstance(mechanism, WithReplacement):
                return {**noise, "draws": [int(plain(mechanism.draws)), int(plain(mechanism.records))]}
            most = [int(plain(mechanism.at_most)), int(plain(mechanism.records))]
            return {**noise, "poisson": text_of(mechanism.sample_rate), "at_most": most}
        case GaussianMixture() if 0.0 < plain(mechanism.noise_multiplier) < math.inf and mechanism.p[-1][1] > 0.0:
            sides = {name: _weighted(side) for name, side in (("p", mechanism.p), ("q", mechanism.q))}
            return {"mixture": text_of(mechanism.noise_multiplier), **sides}
        case Gaussian() | Laplace() if (added := plain(mechanism.noise_multiplier)) > 0.0:
            return {type(mechanism).__name__.lower(): text_of(added)} if added < math.inf else {}
        case DiscreteLaplace():
            return {"geometric": text_of(mechanism.scale), "sensitivity": mechanism.sensitivity}
        case DiscreteGaussian():
            return _whole("discrete_gaussian", mechanism.scale, plain(mechanism.scale), mechanism.sensitivity)
        case Skellam():
            return _whole("skellam", mechanism.variance, math.sqrt(plain(mechanism.variance)), mechanism.sensitivity)
        case PureDP() | ApproxDP() if plain(mechanism.epsilon) < math.inf:
            delta = mechanism.delta if isinstance(mechanism, ApproxDP) else 0.0
            return {"guarantee": [text_of(mechanism.epsilon), text_of(delta)]}
        case RandomizedResponse() if plain(mechanism.epsilon) < math.inf:
            return {"response": [text_of(mechanism.epsilon), mechanism.answers]}
        case PairOfTables():
            columns = (_at_most_one(side) for side in (mechanism.p, mechanism.q))
            return {"table": [list(pair) for pair in zip(*columns, strict=True)]}
    return None


def _known_batch(mechanism: Mechanism, size: int) -> bool:
    """Whether there are other records enough to take the places of so many."""
    match mechanism:
        case FixedSizeBatch(batch_size=batch, records=records):
            is_known = 0.0 < plain(batch) <= plain(records) - size
        case WithReplacement(draws=draws, records=records):
            is_known = plain(draws) > 0.0 and size < plain(records)
        case TruncatedPoisson(sample_rate=rate, at_most=most, records=records):
            is_known = size == 1 and 0.0 < plain(rate) < 1.0 and plain(most) < plain(records)
        case _:
            return isinstance(mechanism, PoissonSampled) and isinstance(mechanism.mechanism, Gaussian)
    return is_known and 0.0 < float(mechanism.noise) < math.inf


def _weighted(side: tuple[tuple[float, float], ...]) -> list[list[str]]:
    """[weight, distance from 0]."""
    weights = _at_most_one([weight for weight, _ in side])
    return [[weight, text_of(abs(mean))] for weight, (_, mean) in zip(weights, side, strict=True)]


def _at_most_one(weights: Sequence[float]) -> list[str]:
    """Decimals that add up to 1 at most: rounding of the sum is taken from the largest one."""
    exact = [Decimal(repr(weight)) for weight in weights]
    exact[exact.index(max(exact))] -= max(sum(exact) - 1, Decimal(0))
    return [format(weight, "f") for weight in exact]


def _whole(name: str, value: Reals, deviation: float, sensitivity: int) -> Release:
    return {name: text_of(value), "sensitivity": int(sensitivity), "reach": int(_REACH * deviation) + 40}
