"""Jobs in the words of other libraries: events of dp_accounting, histories of Opacus, states of Flower.

What comes in becomes keywords of `fastacct.guarantee` and of every verb: the job, and the relation that its numbers are
for.  What goes out is refused by name where the other library has no word for it.  Numbers stay as they are, or are
rounded to the side of less noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, TypedDict

import fastacct as fa
from fastacct.core.extras import import_extra

__all__ = ["Known", "from_flower", "from_opacus", "to_event", "to_flower", "to_opacus"]

Job = fa.Mechanism | fa.Process
Told = tuple[str, tuple[object, ...]]
"""The name of an event, and its arguments."""


class Known(TypedDict, total=False):
    """Keywords of `fastacct.guarantee`: a job, its relation, and a delta where there is one."""

    job: fa.Process
    neighbors: Any
    delta: float


# -- dp_accounting -----------------------------------------------------------------------------------------------------


def _response(one: Any) -> tuple[object, ...]:
    parameter = one.answers / (math.expm1(one.epsilon) + one.answers) if one.epsilon < 700.0 else 0.0
    return math.nextafter(parameter, 0.0) * (1.0 - 1e-15), one.answers


_EVENTS: Final[dict[str, tuple[str, Callable[[Any], tuple[object, ...]]]]] = {
    "Gaussian": ("Gaussian", lambda one: (one.noise_multiplier,)),
    "Laplace": ("Laplace", lambda one: (one.noise_multiplier,)),
    "DiscreteLaplace": ("DiscreteLaplace", lambda one: (1.0 / one.scale * (1.0 + 4e-16), one.sensitivity)),
    "DiscreteGaussian": ("DiscreteGaussian", lambda one: (one.scale, one.sensitivity)),
    "RandomizedResponse": ("RandomizedResponse", _response),
    "PureDP": ("EpsilonDelta", lambda one: (one.epsilon, 0.0)),
    "ApproxDP": ("EpsilonDelta", lambda one: (one.epsilon, one.delta)),
    "ZCDP": ("ZC", lambda one: (one.rho, one.xi)),
    "PoissonSampled": ("PoissonSampled", lambda one: (one.sample_rate, one.mechanism)),
    "FixedSizeBatch": ("SampledWithoutReplacement", lambda one: (int(one.records), int(one.batch_size), one.mechanism)),
    "WithReplacement": ("SampledWithReplacement", lambda one: (int(one.records), int(one.draws), one.mechanism)),
    "TruncatedPoisson": (
        "TruncatedSubsampledGaussian",
        lambda one: (int(one.records), one.sample_rate, int(one.at_most), one.mechanism.noise_multiplier),
    ),
    "Together": ("Composed", lambda one: ([each * count for each, count in one.job],)),
}
"""By the class of a mechanism: the event, and its arguments, in which a mechanism stands for its event."""


def to_event(job: Job) -> object:
    """A `DpEvent` that releases what a job of plain numbers does; ask it under the job's own relation.

    **Guarantee.** Its exact epsilon is never below the job's, and above it by rounding alone.  The way back is
    `fastacct.compat.dp_accounting.from_dp_accounting`.

    Raises
    ------
    ValueError
        dp_accounting, or its version that is installed, has no event for a mechanism.
    """
    blocks = [(_event(one), count) for one, count in (job if isinstance(job, fa.Process) else job * 1)]
    each = [one if count == 1 else _made("SelfComposed", one, int(count)) for one, count in blocks]
    return each[0] if len(each) == 1 else _made("Composed", each) if each else _made("NoOp")


def _event(one: fa.Mechanism) -> object:
    if not any(_is(one, name) for name in _EVENTS) or one.shape:
        raise ValueError(f"dp_accounting has no event for {one!r}")
    name, arguments = _EVENTS[type(one).__name__]
    return _made(name, *map(_argument, arguments(one)))


def _is(one: object, name: str) -> bool:
    """Whether it is of a class of fastacct, and not of somebody else's with its name."""
    return type(one) is getattr(fa, name)


def _argument(value: object) -> object:
    if isinstance(value, list):
        return [to_event(one) for one in value]
    return _event(value) if isinstance(value, fa.Mechanism) else value


def _made(name: str, *arguments: object) -> object:
    events: Any = import_extra("dp_accounting.dp_event", "dp_accounting")
    if (kind := getattr(events, f"{name}DpEvent", None)) is None:
        raise ValueError(f"this version of dp_accounting has no {name}DpEvent")
    return kind(*arguments)


# -- Opacus ------------------------------------------------------------------------------------------------------------


def from_opacus(state: Mapping[str, Any] | Iterable[Any]) -> Known:
    """The job of a history of Opacus, or of the `state_dict` of an accountant of its own or of ours.

    The relation is "zero_out" for passes over the data, else "add_remove".  A checkpoint of theirs does not say how
    batches were drawn: Poisson samples are taken for granted.
    """
    from fastacct.compat.opacus import NAME, FastAccountant

    accountant = FastAccountant()
    about = dict(state) if isinstance(state, Mapping) else {"mechanism": NAME, "history": [*state]}
    accountant.load_state_dict(about)
    rows = ((noise, rate, steps, many[0] if many else 1) for noise, rate, steps, *many in accountant.history)
    job = fa.Process((fa.Gaussian(noise).poisson(rate, draws=many), steps) for noise, rate, steps, many in rows)
    return {"job": job, "neighbors": "zero_out" if accountant.sampling == "passes" else "add_remove"}


def to_opacus(job: Job) -> list[tuple[float, float, int]]:
    """The history of a job of Gaussian noise, plain or with Poisson sampling: (noise_multiplier, sample_rate, steps).

    It is for a record that is added, removed or zeroed out.
    """
    return [(*_sampled(one), int(count)) for one, count in (job if isinstance(job, fa.Process) else job * 1)]


def _sampled(one: Any) -> tuple[float, float]:
    noise, rate = (one.mechanism, one.sample_rate) if _is(one, "PoissonSampled") else (one, 1.0)
    if not _is(noise, "Gaussian") or one.shape:
        raise ValueError(f"{one!r} is no Gaussian noise on all records or on a Poisson sample")
    return float(noise.noise_multiplier), float(rate)


# -- Flower ------------------------------------------------------------------------------------------------------------


def from_flower(state: Mapping[str, Any]) -> Known:
    """The job, relation and delta of a state of Flower's `RdpAccountant`, or of ours."""
    from fastacct.compat.flower import FastAccountant, flwr

    words = import_extra("flwr.supercore.privacy_accounting", "flower")
    about = dict(state["config"])
    about["neighboring_relation"] = words.NeighboringRelation(about["neighboring_relation"])
    about["sampling_method"] = words.SamplingMethod(about["sampling_method"])
    accountant = FastAccountant(flwr.PrivacyConfig(**about))
    accountant.load_state_dict(state)
    is_replaced = about["neighboring_relation"] is words.NeighboringRelation.REPLACE_ONE
    neighbors = "replace_one" if is_replaced else "add_remove"
    return {"job": accountant.process, "neighbors": neighbors, "delta": about["target_delta"]}


def to_flower(job: Job, population_size: int, *, delta: float, neighbors: str = "add_remove") -> dict[str, object]:
    """A state for `load_state_dict`: Gaussian noise on all clients, on Poisson samples, or on batches of fixed size.

    A sample rate must be that of a whole number of the clients.
    """
    relations = {"add_remove": "add-or-remove-one", "replace_one": "replace-one"}
    if neighbors not in relations:
        raise ValueError(f"neighbors = {neighbors!r} has no word in Flower; allowed: {', '.join(map(repr, relations))}")
    methods, rows = set[str](), list[object]()
    for one, count in job if isinstance(job, fa.Process) else job * 1:
        method, noise, size = _round(one, population_size)
        methods.add(method)
        about = {"noise_multiplier": noise, "sample_size": size, "population_size": population_size}
        rows.append({"event": about, "count": int(count)})
    if len(methods) > 1:
        raise ValueError(f"rounds of Flower are drawn in one way, not in {' and '.join(sorted(methods))}")
    config: dict[str, object] = {"target_delta": delta, "population_size": population_size, "max_epsilon": None}
    config |= {"neighboring_relation": relations[neighbors], "sampling_method": [*methods, "no-amplification"][0]}
    return {"schema_version": 1, "backend": "fastacct", "config": config, "compositions": rows}


def _round(one: Any, population: int) -> tuple[str, float, int]:
    """How clients of a round are drawn, its noise, and how many are drawn."""
    if _is(one, "FixedSizeBatch") and int(one.records) == population:
        return "without-replacement", _sampled(one.mechanism)[0], int(one.batch_size)
    noise, rate = _sampled(one)
    if _is(one, "Gaussian"):
        return "no-amplification", noise, population
    size = round(rate * population)
    near, share = size / population, Fraction(size, population)
    if rate != (math.nextafter(near, 1.0) if Fraction(near) < share else near):
        raise ValueError(f"sample_rate = {rate!r} is not that of a whole number of {population} clients")
    return "poisson", noise, size
