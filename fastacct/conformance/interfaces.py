"""Accountants of three interfaces, asked for the epsilon of a case: one class each."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from typing import Any, Final, Protocol

from fastacct.conformance.case import Block, Case
from fastacct.core.extras import import_extra

__all__ = ["INTERFACES", "Accountant", "NotAskedError", "RefusedError", "accountant_of"]


class NotAskedError(Exception):
    """The interface has no words for a case."""


class RefusedError(Exception):
    """The accountant says that it does not do a case."""


class Accountant(Protocol):
    """Anything that is asked for the epsilon of a case."""

    def epsilon(self, case: Case) -> float:
        """The answer; NotAskedError, RefusedError, or whatever the accountant raises."""


class DpAccounting:
    """A class with `compose(event, count)`, `get_epsilon(delta)` and `supports(event)`, made with a relation."""

    relations: Final = {
        "add_remove": "ADD_OR_REMOVE_ONE", "replace_one": "REPLACE_ONE", "zero_out": "REPLACE_SPECIAL",
    }  # fmt: skip

    def __init__(self, given: Callable[..., Any]) -> None:
        self._events: Any = import_extra("dp_accounting", "dp_accounting")
        self._make = given

    def _event(self, block: Block) -> Any:
        events, kind = self._events, block["kind"]
        if kind == "randomized_response":
            return events.RandomizedResponseDpEvent(block["noise_parameter"], block["buckets"])
        noise = events.LaplaceDpEvent if kind.endswith("laplace") else events.GaussianDpEvent
        event = noise(block["noise_multiplier"])
        if kind.startswith("poisson"):
            return events.PoissonSampledDpEvent(block["sample_rate"], event)
        if kind == "fixed_size":
            return events.SampledWithoutReplacementDpEvent(block["records"], block["batch_size"], event)
        return event

    def epsilon(self, case: Case) -> float:
        """Compose the blocks one after the other."""
        relation = getattr(self._events.NeighboringRelation, self.relations[case.relation])
        named = "neighboring_relation" in _parameters(self._make)
        try:
            accountant = self._make(neighboring_relation=relation) if named else self._make(relation)
        except ValueError as error:
            raise RefusedError(str(error)) from error
        for block in case.blocks:
            event = self._event(block)
            if not accountant.supports(event):
                raise RefusedError(f"{type(event).__name__} under {case.relation} is not supported")
            accountant.compose(event, block["count"])
        return float(accountant.get_epsilon(case.delta))


class Opacus:
    """A class with `step(...)`, `history` and `get_epsilon(delta=...)`: Poisson-subsampled Gaussian noise."""

    def __init__(self, given: Callable[..., Any]) -> None:
        self._make = given

    def epsilon(self, case: Case) -> float:
        """A step of every block, as in training, and then the history with all of them."""
        if case.relation != "add_remove":
            raise NotAskedError(f"no relation {case.relation}")
        history = []
        for block in case.blocks:
            if block["kind"] not in ("poisson_gaussian", "gaussian"):
                raise NotAskedError(f"no {block['kind']}")
            history.append((block["noise_multiplier"], block.get("sample_rate", 1.0), block["count"]))
        accountant = self._make()
        try:
            for noise, rate, _ in history:
                accountant.step(noise_multiplier=noise, sample_rate=rate)
        except (ValueError, NotImplementedError) as error:
            raise RefusedError(str(error)) from error
        accountant.history = history
        return float(accountant.get_epsilon(delta=case.delta))


class Function:
    """`epsilon(job, delta)` of a `fastacct.Process`, with `neighbors=` if it knows more relations than add-remove."""

    def __init__(self, given: Callable[..., Any]) -> None:
        names = _parameters(given)
        self._call, self._by_name = given, "delta" in names
        self._has_relations = "neighbors" in names

    def epsilon(self, case: Case) -> float:
        """Ask; a ValueError or NotImplementedError is a refusal."""
        if not self._has_relations and case.relation != "add_remove":
            raise NotAskedError(f"no relation {case.relation}")
        options: dict[str, Any] = {"neighbors": case.relation} if self._has_relations else {}
        if self._by_name:
            options["delta"] = case.delta
        job, rest = case.job, () if self._by_name else (case.delta,)
        try:
            return float(self._call(job, *rest, **options))
        except (ValueError, NotImplementedError) as error:
            raise RefusedError(str(error)) from error


INTERFACES: Final[dict[str, Callable[[Any], Accountant]]] = {
    "dp_accounting": DpAccounting,
    "opacus": Opacus,
    "callable": Function,
}


def accountant_of(given: Any, interface: str | None = None) -> Accountant:
    """An accountant by its object, or by "module:name"; its interface is recognised where none is named."""
    if isinstance(given, str):
        given = _imported(given)
    if interface is None:
        interface = _recognised(given)
    if interface not in INTERFACES:
        raise ValueError(f"interface = {interface!r} is not one of {', '.join(map(repr, INTERFACES))}")
    if not callable(given):
        raise TypeError(f"an accountant must be a class or a function, not {given!r}")
    return INTERFACES[interface](given)


def _imported(name: str) -> Any:
    if name.count(":") != 1 or not all(name.split(":")):
        raise ValueError(f"--accountant must be module:Class or module:function, not {name!r}")
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--accountant {name}: {error}") from error


def _recognised(given: Any) -> str:
    if isinstance(given, type) and hasattr(given, "get_epsilon"):
        if hasattr(given, "compose"):
            return "dp_accounting"
        if hasattr(given, "step"):
            return "opacus"
        raise ValueError(f"{given!r} has get_epsilon, but neither compose nor step: name its interface")
    return "callable"


def _parameters(given: Callable[..., Any]) -> set[str]:
    """Names that a call takes; those of `fastacct.epsilon` for one that takes any."""
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):
        return set()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return {one.name for one in parameters} | {"delta", "neighbors"}
    return {one.name for one in parameters}
