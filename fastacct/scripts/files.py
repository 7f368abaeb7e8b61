"""Scripts in files and folders: what cannot be read is said, and what has no private loop costs next to nothing."""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastacct.scripts.answers import Finding, check, is_worth_reading

LARGEST: Final = 4_000_000
"""Bytes of the largest file that is taken."""
_SKIPPED: Final = re.compile(r"\.|__pycache__$|node_modules$|site-packages$|venv$|build$|dist$")


class Checked(NamedTuple):
    """What was found in files: loops by file, and why others could not be read."""

    loops: dict[str, list[Finding]]
    unread: dict[str, str]
    files: int


def check_files(paths: Sequence[Path], **given: Any) -> Checked:
    """The training loops of files, and of all Python files in folders; `given` as in `check`.

    Raises
    ------
    OSError, ValueError
        Where a file that is named cannot be read; of folders it is noted.
    """
    found = Checked({}, {}, 0)
    files = 0
    for path in paths:
        for file in scripts_in(path):
            files += 1
            try:
                loops = check(_text(file), **given)
            except (OSError, ValueError, SyntaxError) as error:
                where = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
                why = f"{where}no Python 3 that can be read" if isinstance(error, SyntaxError) else str(error)
                if file == path:
                    raise ValueError(f"{file}: {why}") from None
                found.unread[file.as_posix()] = why
                continue
            if loops:
                found.loops[file.as_posix()] = loops
    return found._replace(files=files)


def scripts_in(path: Path) -> Iterator[Path]:
    """A file itself, or the Python files below a folder; links to folders are not followed."""
    if not path.is_dir():
        yield path
        return
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not _SKIPPED.match(name))
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _text(path: Path) -> str:
    """The text of a script; empty where nothing in it is worth reading."""
    if not path.exists():
        raise ValueError("there is no such file")
    if not path.is_file():
        raise ValueError("this is no regular file")
    if (size := path.stat().st_size) > LARGEST:
        raise ValueError(f"{size:,} bytes are more than {LARGEST:,}")
    raw = path.read_bytes()
    if b"\0" in raw:
        raise ValueError("a binary file, or not UTF-8")
    if not is_worth_reading(raw.decode("latin-1")):
        return ""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    return io.TextIOWrapper(io.BytesIO(raw), encoding).read()
