"""Frozen records: dataclasses whose methods are written once, here, and go by the fields of a class.

`dataclasses.dataclass` writes and compiles four methods anew for every class, which took half of `import fastacct`.
To everybody else a record is a frozen dataclass: `dataclasses.replace` and `fields` take it, and frozen dataclasses may
be derived from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, replace
from functools import cache
from inspect import Parameter, Signature
from typing import ClassVar, Final, NoReturn, cast, dataclass_transform

import numpy as np

fields_of: Final[Callable[[type], tuple[Field[object], ...]]] = cache(fields)
"""They are built anew each time by the standard library."""
_FIELD: Final = vars(dataclasses)["_FIELD"]
"""What tells a field from what the standard library only notes of a class."""


@dataclass(init=False, repr=False, eq=False, frozen=True)
class _Frozen:
    """What makes a class a frozen dataclass to the standard library."""


class _Signature:
    """The signature of a class that has the common `__init__`, for `help` and for messages."""

    def __get__(self, instance: object, kind: type[Record]) -> Signature:
        if kind.__init__ is not Record.__init__:
            raise AttributeError("__signature__")
        ordered = []
        for own in sorted(fields_of(kind), key=lambda one: one.kw_only is True):
            how = Parameter.KEYWORD_ONLY if own.kw_only is True else Parameter.POSITIONAL_OR_KEYWORD
            default = Parameter.empty if own.default is MISSING else own.default
            ordered.append(Parameter(own.name, how, default=default, annotation=own.type))
        return Signature(ordered, return_annotation=None)


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
class Record(_Frozen):
    """A frozen value of the fields that its class annotates; equal to itself only."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]] = {}
    __match_args__: ClassVar[tuple[str, ...]] = ()
    __signature__: ClassVar[_Signature] = _Signature()
    __replace__ = replace
    _defaults: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls, *, kw_only: bool = False, **options: bool) -> None:
        super().__init_subclass__(**options)
        inherited = dict(cls.__dataclass_fields__)
        # annotations that are text, as `from __future__ import annotations` makes them: no name has to be known here
        for name, annotation in vars(cls).get("__annotations__", {}).items():
            if "ClassVar" not in str(annotation):
                default = vars(cls).get(name, MISSING)
                own: Field[object] = default if isinstance(default, Field) else field(default=default, kw_only=kw_only)
                own.name, own.type, own._field_type = name, annotation, _FIELD  # type: ignore[attr-defined]
                inherited[name] = own
        cls.__dataclass_fields__ = inherited
        cls._defaults = {name: one.default for name, one in inherited.items() if one.default is not MISSING}
        cls.__match_args__ = tuple(name for name, one in inherited.items() if one.kw_only is not True)  # type: ignore[misc]

    def __init__(self, /, *given: object, **named: object) -> None:
        names, state = self.__match_args__[: len(given)], self.__dict__
        state |= self._defaults
        state |= zip(names, given, strict=False)
        state |= named
        declared = self.__dataclass_fields__.keys()
        if len(names) < len(given) or state.keys() != declared or not named.keys().isdisjoint(names):
            self._refuse(given, named)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields."""

    def _refuse(self, given: tuple[object, ...], named: dict[str, object]) -> NoReturn:
        """Say what is wrong with arguments, and which there are."""
        declared = [*self.__dataclass_fields__]
        units = "; a noise multiplier is the noise divided by the sensitivity" if "noise_multiplier" in declared else ""
        unknown = [name for name in named if name not in declared]
        wrong = f"got an unexpected keyword argument {self._unknown(unknown)}" if unknown else ""
        try:
            self.__signature__.bind(*given, **named)
        except TypeError as error:
            wrong = wrong or str(error)
        raise TypeError(f"{type(self).__name__}: {wrong}; its parameters: {', '.join(declared) or 'none'}{units}")

    def _unknown(self, names: list[str]) -> str:
        """Names of arguments that there are not."""
        return ", ".join(map(repr, names))

    def __repr__(self) -> str:
        shown = (f"{own.name}={getattr(self, own.name)!r}" for own in fields_of(type(self)))
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> None:
        """Refused, but for what is no field in a class with an `__init__` of its own."""
        if name in self.__dataclass_fields__ or type(self).__init__ is Record.__init__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


class Compared(Record):
    """A record that equals others of its class with the same fields."""

    def _key(self) -> tuple[object, ...]:
        state = self.__dict__
        if (kept := state.get("_kept_key")) is not None:
            return cast("tuple[object, ...]", kept)
        values = [getattr(self, own.name) for own in fields_of(type(self))]
        key: tuple[object, ...] = (
            type(self),
            *((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values),
        )
        if not any(isinstance(v, np.ndarray) for v in values):  # of arrays it is a copy
            state["_kept_key"] = key
        return key

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if isinstance(other, Compared) else NotImplemented

    def __hash__(self) -> int:
        try:
            kept: int = self.__dict__["_kept_hash"]
        except KeyError:
            kept = self.__dict__["_kept_hash"] = hash(self._key())
        return kept

    def __getstate__(self) -> dict[str, object]:
        """Without what is kept for later: the hash holds in one process, and the rest may be large."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_kept_")}
