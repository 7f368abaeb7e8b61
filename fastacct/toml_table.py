"""Typed reading of TOML files, where every mistake is an error that names the key and the file."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["TomlTable", "read_toml"]

KINDS = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "table": (dict,),
}
MISSING = object()


class TomlTable:
    """One table of a TOML file; `done` refuses the keys that nobody asked for."""

    def __init__(self, values: dict[str, Any], file: Path, prefix: str = "") -> None:
        self.values, self.file, self.prefix = values, file, prefix
        self.known: list[str] = []

    def error(self, key: str, problem: str) -> ValueError:
        """A ValueError that says where in which file the problem is."""
        return ValueError(f"{self.file}: {self.prefix}{key}: {problem}")

    def has(self, key: str) -> bool:
        """Whether `key` is there; asking makes it a known key."""
        self.known.append(key)
        return key in self.values

    def get(self, key: str, kind: str, default: Any = MISSING) -> Any:
        """The value of `key`, which must be of `kind` (a name in KINDS); required unless there is a default."""
        if not self.has(key):
            if default is MISSING:
                raise self.error(key, f"missing: {_one(kind)} is needed here")
            return default
        value = self.values[key]
        # bool is an int to Python, never to the reader of a TOML file
        if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
            raise self.error(key, f"must be {_one(kind)}; got {value!r}")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: Any = MISSING) -> Any:
        """The value of `key`, which must be one of the allowed words."""
        value = self.get(key, "string", default)
        if value is not default and value not in allowed:
            raise self.error(key, f"must be one of {', '.join(allowed)}; got {value!r}")
        return value

    def table(self, key: str, required: bool = True) -> TomlTable:
        """The sub-table `key` (an empty one if it is absent and not required)."""
        values = self.get(key, "table", MISSING if required else {})
        return TomlTable(values, self.file, f"{self.prefix}{key}.")

    def tables(self, key: str) -> list[TomlTable]:
        """The array of tables `key`."""
        found = self.get(key, "list")
        if not found or not all(isinstance(item, dict) for item in found):
            raise self.error(key, f"must be tables written as [[{self.prefix}{key}]]")
        return [TomlTable(item, self.file, f"{self.prefix}{key}[{index}].") for index, item in enumerate(found)]

    def done(self) -> None:
        """Refuse unknown keys: a misspelt setting must not be a silent default."""
        for key in self.values:
            if key not in self.known:
                raise self.error(key, f"unknown key; known here: {', '.join(dict.fromkeys(self.known))}")


def _one(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def read_toml(path: str | os.PathLike[str]) -> TomlTable:
    """Read a TOML file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not TOML; the message has the file, line and column.
    """
    file = Path(path)
    try:
        return TomlTable(tomllib.loads(file.read_text(encoding="utf-8")), file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not a valid TOML file: {error}") from error
