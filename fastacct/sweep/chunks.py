"""Chunks in a store: a checksum of each is noted when it was written, so that none stands for another.

The checksum that Zarr keeps in a chunk says nothing of its place.  Those noted here stand in a file of the store, one
record a chunk in C order, after a hash of the sweep's mark; only the process that saves it writes there.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypedDict

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.sweep.grid import Values, chunk_at, chunk_counts

NOTED: Final = "chunk_checksums"
"""A file beside the chunks of the first variable, and in the mark of stores that have it."""
_SIZE: Final = 4
"""Bytes of a checksum."""


class Mark(TypedDict, total=False):
    """What a sweep writes into a store beside what it says of its grid."""

    variables: list[str]
    checksums: dict[str, str]
    chunk_checksums: bool
    made_for: str | None


class Notes:
    """The checksums of the chunks of a store."""

    def __init__(self, store: Path, mark: Mark, counts: Sequence[int]) -> None:
        self.store, self.counts = store, counts
        self.variables: Final[tuple[str, ...]] = tuple(mark["variables"])
        self.file: Final = store / self.variables[0] / NOTED
        self.head: Final = hashlib.sha256(json.dumps(mark, sort_keys=True).encode()).digest()
        self.width: Final = _SIZE * len(self.variables)

    def begin(self) -> None:
        """Keep what is noted, if it is of this sweep and whole; else note nothing."""
        size = len(self.head) + self.width * int(np.prod(self.counts))
        there = self.file.read_bytes() if self.file.is_file() else b""
        if not there.startswith(self.head) or len(there) != size:
            self.file.write_bytes(self.head.ljust(size, b"\0"))

    def note(self, index: int, checksums: bytes) -> None:
        """Note the checksums of a chunk that was written."""
        with self.file.open("r+b") as file:
            file.seek(len(self.head) + self.width * index)
            file.write(checksums)

    def noted(self, index: int) -> bytes:
        """The checksums of a chunk; zeros where none was written."""
        with self.file.open("rb") as file:
            if file.read(len(self.head)) != self.head:
                raise ValueError(f"{NOTED} are those of another sweep")
            file.seek(self.width * index, 1)
            return file.read(self.width)

    def is_written(self, index: int) -> bool:
        """Whether the files of a chunk are there, as they were written."""
        try:
            return checksums_of_chunk(self.store, self.variables, self.counts, index) == self.noted(index)
        except OSError:
            return False

    def is_there(self, name: str, index: int) -> bool:
        """Whether a variable of a chunk was written; ValueError where it is not what was written there."""
        start = _SIZE * self.variables.index(name)
        noted = self.noted(index)[start : start + _SIZE]
        if any(noted) and checksums_of_chunk(self.store, (name,), self.counts, index) != noted:
            raise ValueError(f"a chunk of {name} is not the one that was written there")
        return any(noted)


def checksums_of_chunk(store: Path, variables: Iterable[str], counts: Sequence[int], index: int) -> bytes:
    """Checksums of the files of a chunk, variable by variable; none is zero."""
    key = Path("c", *map(str, np.unravel_index(index, counts)))
    sums = (zlib.crc32((store / name / key).read_bytes()) or 1 for name in variables)
    return b"".join(one.to_bytes(_SIZE, "little") for one in sums)


def write_chunk(
    store: str, variables: Sequence[str], shape: Sequence[int], chunks: Sequence[int], index: int, values: Values
) -> bytes:
    """Write a chunk, here or on a worker; the checksums of its files."""
    zarr = import_extra("zarr", "sweep")
    group, where = zarr.open_group(store, mode="r+", use_consolidated=False), chunk_at(shape, chunks, index)
    with zarr.config.set({"array.write_empty_chunks": True}):  # a file says that a chunk is done
        for name, part in zip(variables, values, strict=True):
            group[name][where] = part
    return checksums_of_chunk(Path(store), variables, chunk_counts(shape, chunks), index)


def write_if_seen(
    content: bytes, write: Callable[[int, Values], bytes], path: str, index: int, values: Values
) -> bytes | None:
    """Write a chunk where this machine sees the store; its checksums, or None."""
    if not Path(path).is_file() or Path(path).read_bytes() != content:
        return None
    return write(index, values)
