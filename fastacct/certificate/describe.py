"""What a job is, in the words of the checker: releases with exact numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from fastacct.core.inputs import Reals
from fastacct.core.relations import Relation, refuse
from fastacct.mechanisms.algebra import Mechanism, PoissonSampled, Process
from fastacct.mechanisms.base import plain
from fastacct.mechanisms.epochs import Shuffled
from fastacct.mechanisms.finite import PairOfTables, RandomizedResponse
from fastacct.mechanisms.gaussian import Gaussian
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


def _of(process: Process, relation: Relation) -> Iterator[Release]:
    for mechanism, count in process:
        if relation not in mechanism.relations:
            raise refuse(mechanism, relation, mechanism.relations)
        known = _described(mechanism, relation)
        if known is not None:
            yield from [{"count": int(plain(count)), **known}] if plain(count) > 0 else []
            continue
        parts = mechanism.decompose(relation)
        if parts is None or not mechanism.tight:
            raise ValueError(f"{mechanism!r} has no certificate under neighbors = {relation!r}: {_COVERED}")
        yield from _of(parts * count, relation)


_COVERED = (
    "covered are Gaussian, Laplace, discrete Gaussian, discrete Laplace and Skellam noise, PureDP, ApproxDP, from_pmf, "
    "randomized response, Poisson subsampling of these, and what consists of them"
)


def _described(mechanism: Mechanism, relation: Relation) -> Release | None:
    """Its words; None: it has none of its own."""
    match mechanism:
        case PoissonSampled():
            inner = _described(mechanism.mechanism, relation)
            is_known = inner is not None and (relation != "replace_one" or "gaussian" in inner)
            return {**inner, "poisson": text_of(mechanism.sample_rate)} if inner and is_known else None
        case Shuffled():  # the upper end: it is known which step uses the record
            return _described(mechanism.unsampled(), relation)
        case Gaussian() | Laplace() if 0.0 < plain(mechanism.noise_multiplier) < math.inf:
            return {type(mechanism).__name__.lower(): text_of(mechanism.noise_multiplier)}
        case DiscreteLaplace():
            return {"geometric": text_of(mechanism.scale), "sensitivity": mechanism.sensitivity}
        case DiscreteGaussian():
            return _whole("discrete_gaussian", mechanism.scale, plain(mechanism.scale), mechanism.sensitivity)
        case Skellam():
            return _whole("skellam", mechanism.variance, math.sqrt(plain(mechanism.variance)), mechanism.sensitivity)
        case PureDP() | ApproxDP() if plain(mechanism.epsilon) < math.inf:
            delta = mechanism.delta if isinstance(mechanism, ApproxDP) else 0.0
            return {"guarantee": [text_of(mechanism.epsilon), text_of(delta)]}
        case RandomizedResponse() if relation == "replace_one" and plain(mechanism.epsilon) < math.inf:
            return {"response": [text_of(mechanism.epsilon), mechanism.answers]}
        case PairOfTables():
            return {"table": [[text_of(p), text_of(q)] for p, q in zip(mechanism.p, mechanism.q, strict=True)]}
    return None


def _whole(name: str, value: Reals, deviation: float, sensitivity: int) -> Release:
    return {name: text_of(value), "sensitivity": int(sensitivity), "reach": int(_REACH * deviation) + 40}
