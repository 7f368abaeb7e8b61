"""Mechanisms in JSON, by class and parameters; floating-point numbers keep all their digits."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Final

from fastacct.mechanisms import EVERY
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.nested import Parallel, as_plain_job
from fastacct.mechanisms.process import Process

_KINDS: Final = {kind.__name__: kind for kind in EVERY}
_FORMER: Final = {"Sampled": "PoissonSampled", "GroupOf": "Grouped"}
"""Names in states of earlier versions."""


def encoded(value: object) -> object:
    """A mechanism, or one of its parameters, as JSON can hold it."""
    if isinstance(value, Mechanism):
        if _KINDS.get(type(value).__name__) is not type(value):
            raise ValueError(f"{value!r} cannot be stored: only mechanisms of fastacct are")
        given = {one.name: encoded(getattr(value, one.name)) for one in fields(value)}
        return {"kind": type(value).__name__, **given}
    if isinstance(value, tuple):
        return [encoded(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Process):
        return {"kind": "Process", "blocks": [[encoded(one), encoded(count)] for one, count in value]}
    return value


def _decoded(value: object) -> object:
    if isinstance(value, dict):
        given = dict(value)
        kind = given.pop("kind")
        kind = _FORMER.get(kind, kind)
        if kind == "Process":
            return Process([(decoded(one), count) for one, count in given["blocks"]])
        if kind not in _KINDS:
            raise ValueError(f"kind = {kind!r} of a mechanism is not known")
        if kind == "Parallel":
            return Parallel(*(as_plain_job("jobs", _decoded(job)) for job in given["jobs"]))
        return _KINDS[kind](**{name: _decoded(one) for name, one in given.items()})
    if isinstance(value, list):
        return tuple(_decoded(one) for one in value)
    return float(value) if value in ("inf", "-inf", "nan") else value


def decoded(value: object) -> Mechanism:
    """The mechanism that `encoded` wrote."""
    found = _decoded(value)
    if not isinstance(found, Mechanism):
        raise TypeError(f"{found!r} is not a mechanism")
    return found
