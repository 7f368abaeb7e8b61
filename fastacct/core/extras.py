"""Optional libraries: imported where they are used, named with the extra that brings them where they are missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

Foreign: TypeAlias = Any
"""An object of another library, which is not imported where types are checked."""


def import_extra(module: str, extra: str) -> ModuleType:
    """Import `module` of an optional library, or raise ModuleNotFoundError that says which extra brings it.

    A library that is installed but broken raises its own error.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        message = f'this needs {library}, which is not installed: pip install ".[{extra}]" in a clone of fastacct'
        raise ModuleNotFoundError(message, name=library) from error
