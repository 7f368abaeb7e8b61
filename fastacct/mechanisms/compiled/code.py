"""Users' functions as values: bytecode with the values of everything that it reads, compiled once per content.

Numba compiles the values of globals, closures and defaults into the code, and does not notice when they change.  So a
function is copied together with those values when a mechanism is made; equality, order and caches go by the copy.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import inspect
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np

from fastacct.core.extras import import_extra

__all__ = ["Callback", "Program", "compiled"]

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_LIBRARIES = ("math", "cmath", "numpy", "scipy", "builtins", "numba")
"""Whose modules, functions and types are the same in every process: known by name."""


class Callback(Protocol):
    """A compiled function."""

    address: int


@dataclass(frozen=True)
class Program:
    """A function of one number and the values that it reads, as they were when the program was made.

    Equal programs have the same bytecode, constants, globals, closures and defaults, whatever they are called.
    """

    digest: str
    name: str = field(compare=False)
    function: FunctionType = field(compare=False)

    @classmethod
    def of(cls, name: str, function: object) -> Program:
        """Copy a function that is an argument `name`; refuse one whose values cannot be copied."""
        plain = function.py_func if _is_jitted(function) else function
        if not isinstance(plain, FunctionType):
            raise TypeError(f"{name} must be a function of one number, not {function!r}")
        if plain.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or (
            plain.__code__.co_argcount + plain.__code__.co_kwonlyargcount != 1
        ):
            raise TypeError(
                f"{name} must be a function of one number, not {plain.__qualname__}{inspect.signature(plain)}; "
                "other parameters can be globals or variables of an enclosing function"
            )
        copier = _Copier(name)
        copy = copier.function(plain)
        return cls(copier.digest.hexdigest(), plain.__name__, copy)

    def __call__(self, x: float) -> float:
        """Call the function without compiling it."""
        return float(self.function(x))

    def __repr__(self) -> str:
        return f"{self.name}#{self.digest}"


@lru_cache(maxsize=256)
def compiled(program: Program, name: str) -> Callback:
    """Machine code of an argument `name`; the cache keeps copies of what functions read, not the functions."""
    numba = import_extra("numba", "jit")
    try:
        made: Callback = numba.cfunc(numba.float64(numba.float64))(program.function)
    except numba.core.errors.NumbaError as error:
        raise ValueError(f"{name} cannot be compiled by Numba: {error}") from error
    return made


class _Copier:
    """Copies a function and all that it reads, and feeds the content into a digest on the way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
        self._seen: dict[int, tuple[int, object, object]] = {}  # functions and modules: number, original, copy

    def _add(self, *content: object) -> None:
        self.digest.update((repr(content) + ";").encode())

    def function(self, function: FunctionType, called: object = None, options: Any = None) -> FunctionType:
        """With globals of its own, in which there is nothing but what it reads.

        Functions that others call (`called`: the function or what `numba.njit` made of it) are jitted with `options`.
        """
        code, names = function.__code__, dict[str, object]({"__name__": function.__module__, "__builtins__": builtins})
        attributes = _loaded(code, "LOAD_ATTR", "LOAD_METHOD")
        cells = tuple(CellType() for _ in code.co_freevars)
        copy = FunctionType(code, names, function.__name__, None, cells)
        self._add("function", _content(code), len(function.__defaults__ or ()), len(function.__kwdefaults__ or ()))
        if function.__defaults__:
            copy.__defaults__ = tuple(self._copied("a default", one, attributes) for one in function.__defaults__)
        if function.__kwdefaults__:
            defaults = sorted(function.__kwdefaults__.items())
            copy.__kwdefaults__ = {name: self._copied(name, one, attributes) for name, one in defaults}
        if options is not None:
            kept = {key: one for key, one in options.items() if key != "nopython"}
            self._add("njit", sorted(kept.items()))
            self._seen[id(called)] = (len(self._seen), called, import_extra("numba", "jit").njit(**kept)(copy))
        for name in sorted(_loaded(code, "LOAD_GLOBAL", "LOAD_NAME")):
            if name in function.__globals__:  # else a builtin, or Numba refuses it
                self._add("global", name)
                names[name] = self._copied(name, function.__globals__[name], attributes)
        for name, cell, new in zip(code.co_freevars, function.__closure__ or (), cells, strict=True):
            self._add("closure", name)
            if cell != CellType():  # an empty one is left to Numba
                new.cell_contents = self._copied(name, cell.cell_contents, attributes)
        return copy

    def _copied(self, name: str, value: Any, attributes: set[str]) -> object:
        """The value as it is now; of a module, the attributes."""
        if _is_of_a_library(value):
            self._add("library", value.__name__, getattr(value, "__module__", ""))
            return value
        if type(value) in _SIMPLE:
            self._add(type(value).__name__, value)
            return value
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            array = np.array(value, order="C")
            array.flags.writeable = False
            self._add(type(value).__name__, repr(array.dtype), array.shape, array.tobytes())
            return array if isinstance(value, np.ndarray) else value
        if type(value) is tuple or (isinstance(value, tuple) and hasattr(value, "_make")):
            self._add(type(value).__qualname__, getattr(value, "_fields", None), len(value))
            parts = [self._copied(name, one, attributes) for one in value]
            return getattr(type(value), "_make", tuple)(parts)
        if id(value) in self._seen:
            self._add("again", self._seen[id(value)][0])
        elif _is_jitted(value):  # compiled anew: its own machine code may be older than the globals
            self.function(value.py_func, value, value.targetoptions)
        elif isinstance(value, FunctionType):
            self.function(value, value, {})
        elif isinstance(value, ModuleType):
            module = ModuleType(value.__name__)
            self._add("module", value.__name__)
            self._seen[id(value)] = (len(self._seen), value, module)
            for one in sorted(attributes):
                if hasattr(value, one):
                    self._add("attribute", one)
                    setattr(module, one, self._copied(f"{name}.{one}", getattr(value, one), attributes))
        else:
            raise ValueError(
                f"{self.name} reads {name} = {value!r}: changes of a {type(value).__name__} cannot be followed; "
                "allowed: numbers, strings, tuples, NumPy arrays, functions, modules"
            )
        return self._seen[id(value)][2]


def _is_jitted(value: Any) -> bool:
    """Whether `numba.njit` or `numba.jit` made it."""
    return isinstance(getattr(value, "py_func", None), FunctionType) and hasattr(value, "targetoptions")


def _is_of_a_library(value: Any) -> bool:
    """Whether it is a module, function or type of a library, found there under its name."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _LIBRARIES
    if isinstance(value, np.ufunc):
        return True
    home, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not (callable(value) and isinstance(home, str) and home.partition(".")[0] in _LIBRARIES):
        return False
    return isinstance(name, str) and getattr(sys.modules.get(home), name, None) is value  # not one that only says so


def _loaded(code: CodeType, *instructions: str) -> set[str]:
    """Names that some kinds of instructions load, also in the functions inside."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname in instructions}
    return found.union(*(_loaded(one, *instructions) for one in code.co_consts if isinstance(one, CodeType)))


def _content(value: object) -> str:
    """Code and its constants as text that is the same in every process."""
    if isinstance(value, CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        counts = (value.co_flags, value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        table = value.co_exceptiontable
        return f"code {value.co_code!r} {names!r} {counts!r} {table!r} {_content(value.co_consts)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_content, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_content, value)))}}}"
    return f"{type(value).__name__} {value!r}"
