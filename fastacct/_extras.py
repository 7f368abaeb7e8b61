"""Optional libraries, and which extra brings them."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["import_extra"]


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module of an optional library, or say which extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(f'this needs {name}, which is not installed: pip install "fastacct[{extra}]"') from error
