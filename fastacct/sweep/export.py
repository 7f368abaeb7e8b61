"""Sweeps as netCDF and Parquet, and checksums in files of all formats, so that damage is an error."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fastacct.core.extras import Foreign, import_extra
from fastacct.sweep.grid import chunk_at, chunk_count

if TYPE_CHECKING:
    import xarray as xr

MARK: Final = "fastacct_sweep"
ANEW: Final = "overwrite=True (command line: --overwrite) writes it anew"
_SEAL: Final = f"\n{MARK} sha256\n".encode()
_PART: Final = 1 << 20
AGAIN: Final = "the same sweep computes again what cannot be read"


class ForeignFileError(ValueError):
    """Raised for what no sweep wrote."""


@contextlib.contextmanager
def intact(path: str | os.PathLike[str], advice: str) -> Iterator[None]:
    """Make one error of all that libraries raise for a damaged file; a disk that fails has its own."""
    try:
        yield
    except (ForeignFileError, MemoryError):
        raise
    except Exception as error:
        if getattr(error, "errno", None) not in (None, errno.ENOENT):
            raise
        raise ValueError(f"{path} is damaged, and {advice}: {error!r}") from error


def checksums_of(grid: xr.Dataset, more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Checksums of all but the values, by name, and of what a format says of a variable."""
    text = {"title": repr(sorted(grid.attrs.items()))}
    for name, one in grid.variables.items():
        labels = one.values.tobytes() if name in grid.coords else more.get(str(name))
        text[str(name)] = repr((one.dims, one.shape, str(one.dtype), sorted(one.attrs.items()), labels))
    return {name: hashlib.sha256(text[name].encode()).hexdigest() for name in sorted(text)}  # no folder's order


def compare(written: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Raise unless checksums are those that were written."""
    for name in (*written, *there):
        if there.get(name) != written.get(name):
            raise ValueError(f"notes or labels of {name} are not those that were written")


def to_netcdf(grid: xr.Dataset, path: Path) -> None:
    """Values with Fletcher's checksum, those of all else in an attribute, and behind the end, where HDF5 does not look,
    a hash of the whole."""
    marked = grid.assign_attrs({MARK: json.dumps(checksums_of(grid))})
    marked.to_netcdf(path, engine="h5netcdf", encoding={name: {"fletcher32": True} for name in grid.data_vars})
    with path.open("r+b") as file:
        hashed = hashlib.file_digest(file, "sha256").digest()
        file.write(_SEAL + hashed)


def open_netcdf(path: Path) -> xr.Dataset:
    """The grid, read when it is used."""
    refuse_foreign(path)
    _refuse_changed(path)
    found: xr.Dataset = import_extra("xarray", "sweep").open_dataset(path, engine="h5netcdf", chunks={})
    compare(json.loads(found.attrs.pop(MARK)), checksums_of(found))
    return found


def _refuse_changed(path: Path) -> None:
    """Raise unless all bytes are those that were written: HDF5 may read a damaged file for ever."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        left = max(0, file.seek(0, os.SEEK_END) - len(_SEAL) - hashed.digest_size)
        file.seek(0)
        while part := file.read(min(left, _PART)):
            hashed.update(part)
            left -= len(part)
        if file.read() != _SEAL + hashed.digest():
            raise ValueError("its bytes are not those that a sweep of this version wrote")


def refuse_foreign(path: Path) -> None:
    """Raise unless a sweep wrote what is there, as a name in it says, or it is empty."""
    name, last = MARK.encode(), b""
    with path.open("rb") as file:
        while part := file.read(_PART):
            if name in last[-len(name) :] + part:
                return
            last = part
    if last:
        told = "was not written by a sweep of this version, or its end is lost: it is neither opened nor replaced"
        raise ForeignFileError(f"{path} {told}")


def to_parquet(grid: xr.Dataset, path: Path) -> None:
    """One row per cell, in C order, a chunk at a time."""
    arrow, parquet = import_extra("pyarrow", "sweep"), import_extra("pyarrow.parquet", "sweep")
    dims = [str(name) for name in grid.dims]
    notes = {str(name): one.attrs for name, one in grid.data_vars.items()}
    labels = grid.drop_vars([*notes]).to_dict()
    about = {"labels": labels, "notes": notes, "dims": dims, "checksums": checksums_of(grid)}
    shape, chunks = tuple(grid.sizes[name] for name in dims), next(iter(grid.data_vars.values())).data.chunksize

    def rows(index: int) -> Foreign:
        block = grid.isel(dict(zip(dims, chunk_at(shape, chunks, index), strict=True)))
        return arrow.Table.from_pandas(block.to_dataframe(dim_order=dims).reset_index(), preserve_index=False)

    schema = rows(0).schema.with_metadata({MARK.encode(): json.dumps(about)})
    how = {"compression": "zstd", "use_dictionary": dims, "write_page_checksum": True}
    with parquet.ParquetWriter(path, schema, **how) as writer:
        for index in range(chunk_count(shape, chunks)):
            writer.write_table(rows(index).replace_schema_metadata(schema.metadata))


def open_parquet(path: Path) -> xr.Dataset:
    """The grid in a table, in memory."""
    parquet = import_extra("pyarrow.parquet", "sweep")
    refuse_foreign(path)
    table = parquet.read_table(path, page_checksum_verification=True)
    about = json.loads(table.schema.metadata[MARK.encode()])
    grid: xr.Dataset = import_extra("xarray", "sweep").Dataset.from_dict(about["labels"])
    dims = about["dims"]
    cells = table.to_pandas().set_index(dims).to_xarray().reindex({name: grid[name] for name in dims})
    grid = grid.assign({name: (dims, cells[name].values, notes) for name, notes in about["notes"].items()})
    compare(about["checksums"], checksums_of(grid))
    return grid
