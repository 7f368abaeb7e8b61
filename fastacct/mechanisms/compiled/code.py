"""Users' functions as machine code, with the values that everything they read has now.

Numba compiles the values of globals and closures in, and does not notice when they change later: what has been compiled
stays what it was.  Functions that a function calls may have been compiled with values of before, so they are compiled
anew, from copies.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import operator
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np

from fastacct.core.extras import import_extra

Function = Callable[[float], float]
_LIBRARIES = ("math", "cmath", "numpy", "scipy", "builtins", "numba")
"""Whose functions read nothing that changes."""
_COMPILED_ONCE = ("numba.np.ufunc", "numba.core.ccallback")
"""Where Numba's objects are that cannot be compiled anew."""


class Callback(Protocol):
    """A compiled function."""

    address: int


def compiled(name: str, function: object) -> Callback:
    """Machine code of an argument `name`, which must be a function of one number."""
    plain = function.py_func if _is_jitted(function) else function  # type: ignore[attr-defined]
    if not isinstance(plain, FunctionType):
        raise TypeError(f"{name} must be a function of one number, not {function!r}")
    if plain.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or (
        plain.__code__.co_argcount + plain.__code__.co_kwonlyargcount != 1
    ):
        raise TypeError(
            f"{name} must be a function of one number, not {plain.__qualname__}{inspect.signature(plain)}; "
            "other parameters can be globals or variables of an enclosing function"
        )
    numba = import_extra("numba", "jit")
    try:
        made: Callback = numba.cfunc(numba.float64(numba.float64))(_copied(plain, {}, lambda copy: None))
    except numba.core.errors.NumbaError as error:
        raise ValueError(f"{name} cannot be compiled by Numba: {error}") from error
    return made


def _copied(function: FunctionType, seen: dict[int, object], register: Callable[[FunctionType], None]) -> FunctionType:
    """With globals of its own, in which there is nothing but what it reads; registered first: it may call itself."""
    code, names = function.__code__, dict[str, object]({"__name__": function.__module__, "__builtins__": builtins})
    cells = tuple(CellType() for _ in code.co_freevars)
    attributes = _loaded(code, "LOAD_ATTR", "LOAD_METHOD")
    copy = FunctionType(code, names, function.__name__, _fresh(function.__defaults__, attributes, seen), cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    register(copy)
    for name in _loaded(code, "LOAD_GLOBAL", "LOAD_NAME") & function.__globals__.keys():
        names[name] = _fresh(function.__globals__[name], attributes, seen)
    for cell, new in zip(function.__closure__ or (), cells, strict=True):
        if cell != CellType():  # an empty one is left to Numba
            new.cell_contents = _fresh(cell.cell_contents, attributes, seen)
    return copy


def _fresh(value: Any, attributes: set[str], seen: dict[int, object]) -> Any:
    """What it depends on that may change: functions that are not compiled yet, arrays, also in modules and tuples."""
    if type(value).__module__.startswith(_COMPILED_ONCE):
        raise ValueError(f"{value!r} was compiled with the values of its time; call functions of numba.njit instead")
    if isinstance(value, np.ndarray):  # compiled code reads a large one where it is
        array = np.array(value, order="C")
        array.flags.writeable = False
        return array
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if str(home).partition(".")[0] in _LIBRARIES:
        return value
    if isinstance(value, ModuleType):
        module = seen.setdefault(id(value), ModuleType(value.__name__))
        for name in attributes:
            if hasattr(value, name) and not hasattr(module, name):
                setattr(module, name, None)  # it may refer to itself
                setattr(module, name, _fresh(getattr(value, name), attributes, seen))
        return module
    if isinstance(value, tuple):
        parts = [_fresh(one, attributes, seen) for one in value]
        return value if all(map(operator.is_, parts, value)) else getattr(type(value), "_make", tuple)(parts)
    if (_is_jitted(value) or isinstance(value, FunctionType)) and id(value) not in seen:
        plain, options = (value, {}) if isinstance(value, FunctionType) else (value.py_func, value.targetoptions)
        jit = import_extra("numba", "jit").njit(**{key: one for key, one in options.items() if key != "nopython"})
        _copied(plain, seen, lambda copy: seen.update({id(value): jit(copy)}))
    return seen.get(id(value), value)


def _is_jitted(value: object) -> bool:
    """Whether `numba.njit` or `numba.jit` made it."""
    return isinstance(getattr(value, "py_func", None), FunctionType) and hasattr(value, "targetoptions")


def _loaded(code: CodeType, *instructions: str) -> set[str]:
    """Names that some kinds of instructions load, also in the functions inside."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname in instructions}
    return found.union(*(_loaded(one, *instructions) for one in code.co_consts if isinstance(one, CodeType)))
