"""Mechanisms in JSON, by class and parameters, and a checksum; floating-point numbers keep all their digits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from fastacct.mechanisms import EVERY
from fastacct.mechanisms.algebra import Mechanism
from fastacct.mechanisms.nested import Parallel, as_plain_job
from fastacct.mechanisms.process import Process

KINDS: Final = {kind.__name__: kind for kind in EVERY}
_FORMER: Final = {"Sampled": "PoissonSampled", "GroupOf": "Grouped"}
"""Names in states of earlier versions."""
_REPLACED: Final = "is_replaced"
"""Beside the parameters of mechanisms whose noise was divided by a sensitivity to a record that is replaced."""
_WHOLE: Final = 2**53
"""Smaller whole numbers are floats."""


def encoded(value: object) -> object:
    """A mechanism, or one of its parameters, as JSON can hold it."""
    if isinstance(value, Mechanism):
        if KINDS.get(type(value).__name__) is not type(value):
            raise ValueError(f"{value!r} cannot be stored: only mechanisms of fastacct are")
        given = {one.name: encoded(getattr(value, one.name)) for one in fields(value)}
        replaced = {_REPLACED: True} if value.is_replaced else {}
        return {"kind": type(value).__name__, **given, **replaced}
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
        kind, replaced = given.pop("kind"), given.pop(_REPLACED, None)
        kind = _FORMER.get(kind, kind)
        if kind == "Process":
            if not all(isinstance(block, list) and len(block) == 2 for block in given["blocks"]):
                raise ValueError(f"blocks = {given['blocks']!r} of a process are no pairs of a mechanism and a count")
            return Process([(decoded(one), count) for one, count in given["blocks"]])
        if kind not in KINDS:
            raise ValueError(f"kind = {kind!r} of a mechanism is not known")
        if kind == "Parallel":
            found: Mechanism = Parallel(*(as_plain_job("jobs", _decoded(job)) for job in given["jobs"]))
        else:
            found = KINDS[kind](**{name: _decoded(one) for name, one in given.items()})
        if replaced is not None:
            if replaced is not True:
                raise ValueError(f"{_REPLACED} = {replaced!r} of {found!r} must be true, or left out")
            vars(found)[_REPLACED] = True
        return found
    if isinstance(value, list):
        return tuple(_decoded(one) for one in value)
    value = float(value) if value in ("inf", "-inf", "nan") else value
    if value != value:
        raise ValueError("a parameter of a mechanism is NaN")
    return value


def decoded(value: object) -> Mechanism:
    """The mechanism that `encoded` wrote."""
    found = _decoded(value)
    if not isinstance(found, Mechanism):
        raise TypeError(f"{found!r} is not a mechanism")
    return found


def checksum(state: Mapping[str, object]) -> str:
    """Of a state: a number that was changed, or a line that was lost, would be a smaller sum of what was spent."""
    import hashlib

    return hashlib.sha256(json.dumps(_by_value(state), sort_keys=True).encode()).hexdigest()


def sealed(state: Mapping[str, object]) -> dict[str, object]:
    """A state with its checksum."""
    return {**state, "checksum": checksum(state)}


def refuse_changed(state: Mapping[str, object], of: str = "", *, needs_one: bool = False) -> None:
    """ValueError where a checksum is not that of what was written; states of versions without one are taken."""
    if needs_one and "checksum" not in state:
        raise ValueError(f"{of}it has no checksum")
    rest = {name: value for name, value in state.items() if name != "checksum"}
    if state.keys() != rest.keys() and state["checksum"] != checksum(rest):
        raise ValueError(f"{of}its checksum is not that of what was written")


def _by_value(value: object) -> object:
    """Numbers by their values: databases write 20 for 20.0."""
    if isinstance(value, Mapping):
        return {name: _by_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_by_value(one) for one in value]
    return float(value) if type(value) is int and -_WHOLE < value < _WHOLE else value
