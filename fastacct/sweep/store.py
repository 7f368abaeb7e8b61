"""Sweeps in files: a Zarr store that is resumed chunk by chunk, and netCDF and Parquet made of one.

xarray, zarr and pyarrow write; what is here is which chunks are missing, and who may write them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.version import __version__
from fastacct.sweep.cost import chunks_of, evaluate_chunks
from fastacct.sweep.grid import Grid, Values, chunk_at, chunk_count

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["open_sweep", "save"]

LIBRARIES: Final = {".zarr": "zarr", ".nc": "h5netcdf", ".parquet": "pyarrow.parquet"}
MARK: Final = "fastacct_sweep"
MADE_FOR: Final = "made_for"
"""The file that a store is beside, and is removed after."""
PARQUET_KEY: Final = b"fastacct_sweep"


def save(plan: Grid, path: str | os.PathLike[str], *, progress: bool, overwrite: bool) -> xr.Dataset:
    """See `Sweep.save`."""
    target = _as_file(os.path.realpath(path))
    is_store = target.suffix == ".zarr"
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist: cannot write {target.name} there")
    store = target if is_store else target.with_name(f"{target.name}.zarr")
    with _locked(store), _named(store):
        if not is_store:
            refuse_existing(target, overwrite)
        if store.exists() and overwrite and not _is_same(plan, store):
            _about(store)  # refuse to remove what no sweep wrote
            _remove(store)
        if not store.exists():
            _create(plan, store)
            if not is_store:
                _open_zarr_group(store, "r+").attrs[MADE_FOR] = target.name
        chunks = _matching(plan, store)
        write = partial(write_chunk, str(store), plan.variables, plan.shape, chunks)
        todo = _not_written(store, plan, chunks, range(chunk_count(plan.shape, chunks)))
        for left in store.rglob("*.partial"):
            left.unlink(missing_ok=True)
        if todo:
            _open_zarr_group(store, "r+").attrs["complete"] = False
            seen = partial(_write_if_seen, (store / "zarr.json").read_bytes(), write, str(store / "zarr.json"))
            evaluate_chunks(plan, chunks, todo, write, progress, seen)
        if _not_written(store, plan, chunks, todo):
            raise OSError(f"{store}: chunks that workers wrote are not there; the same sweep computes them again")
        _open_zarr_group(store, "r+").attrs["complete"] = True
        if not is_store:
            with atomic_output(target, overwrite=overwrite) as temporary:
                _EXPORTS[target.suffix](_open_zarr(store, is_complete=True), temporary)
            if _about(store).get(MADE_FOR) == target.name:
                _remove(store)
    return open_sweep(target)


@contextlib.contextmanager
def _named(store: Path) -> Iterator[None]:
    """Name the store in errors of the system that have no file of their own, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(store)) from error


def open_sweep(path: str | os.PathLike[str], *, partial: bool = False) -> xr.Dataset:
    """Open a file that `Sweep.save` wrote, as the dataset that it returned; Zarr and netCDF are read when used.

    **Guarantee.** The values are those of the file; what they guarantee is recorded in the attributes.  A Zarr store
    that is not complete is a ValueError, unless `partial`: cells that are not computed are NaN then (status 255).

    Examples
    --------
    >>> open_sweep("grid.zarr").epsilon.sel(delta=1e-5)  # doctest: +SKIP
    """
    target = _as_file(path)
    if not target.exists():
        raise FileNotFoundError(f"{target} does not exist")
    if target.suffix == ".parquet":
        return _open_parquet(target)
    if target.suffix == ".nc":
        found: xr.Dataset = import_extra("xarray", "sweep").open_dataset(target, engine="h5netcdf", chunks={})
        return found
    is_complete = _about(target).get("complete") is True
    if not partial and not is_complete:
        raise ValueError(
            f"{target} is not complete: the same sweep goes on with it (from Python partial=True opens it)"
        )
    try:
        return _open_zarr(target, is_complete)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{target} is damaged, and overwrite=True writes it anew: {error!r}") from error


def _as_file(path: str | os.PathLike[str]) -> Path:
    """A path whose suffix names a format, of which the library is there."""
    target = Path(path)
    if target.suffix not in LIBRARIES:
        raise ValueError(f"path = {str(target)!r}: the suffix must be one of {', '.join(LIBRARIES)}")
    for library in {"xarray", "zarr", "dask", LIBRARIES[target.suffix]}:
        import_extra(library, "sweep")
    return target


# -- the store -------------------------------------------------------------------------------------------------------


def _create(plan: Grid, store: Path) -> None:
    """An empty store; it gets its name when it is whole."""
    temporary, chunks = store.with_name(f".{store.name}.partial"), chunks_of(plan)
    _remove(temporary)
    try:
        _create_at(plan, temporary, chunks)
        os.replace(temporary, store)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _create_at(plan: Grid, temporary: Path, chunks: Sequence[int]) -> None:
    zarr = import_extra("zarr", "sweep")
    plan.labelled({}).to_zarr(temporary, mode="w", zarr_format=3, consolidated=False)
    group = _open_zarr_group(temporary, "r+")
    for name in plan.variables:
        is_code = name == "status"
        group.create_array(
            name,
            shape=plan.shape,
            chunks=chunks,
            dtype="uint8" if is_code else "float64",
            fill_value=255 if is_code else float("nan"),
            compressors=(zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"), zarr.codecs.Crc32cCodec()),
            chunk_key_encoding={"name": "default", "separator": "/"},
            dimension_names=tuple(plan.axes),
            attributes=plan.notes(name),
        )
    group.attrs[MARK] = {"variables": plan.variables, "axes": [*plan.axes], "fingerprint": plan.fingerprint}


def _matching(plan: Grid, store: Path) -> tuple[int, ...]:
    """The chunks of a store that holds this sweep; ValueError, naming what differs, for any other."""
    about, group = _about(store), _open_zarr_group(store, "r")
    more = "give another path, or overwrite=True (command line: --overwrite)"
    if about.get("fastacct_version") != __version__:
        raise ValueError(
            f"{store} was begun by fastacct {about.get('fastacct_version')}, this is {__version__}: {more}"
        )
    for name, value in {"delta": None, **plan.settings}.items():
        if about.get(name) != value:
            raise ValueError(
                f"{store} holds another sweep: {name} is {about.get(name)!r} there, {value!r} here; {more}"
            )
    for name in dict.fromkeys((*plan.axes, *group.array_keys())):
        if name in plan.variables or (name == "delta" and plan.delta_in_words is not None):
            continue
        there = group[name][:] if name in group else None
        here = plan.axes.get(name)
        if here is None or there is None or not np.array_equal(there, here):
            sizes = " and ".join(
                f"{0 if x is None else len(x)} {where}" for x, where in ((there, "there"), (here, "here"))
            )
            raise ValueError(f"{store} holds another sweep: the axis {name} differs ({sizes} values); {more}")
    if any(name not in group for name in plan.variables):
        raise ValueError(f"{store} holds another sweep: bounds is {not plan.bounds} there; {more}")
    found: tuple[int, ...] = group[plan.quantity].chunks
    return found


def _is_same(plan: Grid, store: Path) -> bool:
    try:
        return bool(_matching(plan, store))
    except (ValueError, KeyError, TypeError):
        return False


def _about(store: Path) -> dict[str, Any]:
    """The attributes of a store that a sweep wrote."""
    try:
        about = dict(_open_zarr_group(store, "r").attrs)
    except (FileNotFoundError, ValueError, KeyError):
        about = {}
    if not isinstance(about.get(MARK), dict):
        raise ValueError(f"{store} was not written by a sweep of this version")
    return about


def _open_zarr_group(store: Path, mode: str) -> Any:
    return import_extra("zarr", "sweep").open_group(str(store), mode=mode, use_consolidated=False)


def _open_zarr(store: Path, is_complete: bool) -> xr.Dataset:
    """The dataset, read when it is used, and then compared with the store that was opened."""
    mark, group = _about(store)[MARK], _open_zarr_group(store, "r")
    for name in mark["axes"]:
        if group[name].nchunks_initialized < group[name].nchunks:
            raise ValueError(f"labels of {name} are missing")
    found: xr.Dataset = import_extra("xarray", "sweep").open_zarr(store, consolidated=False, chunks={})
    found = found[[*mark["variables"]]]
    for name, cells in found.data_vars.items():
        checked = cells.data.map_blocks(
            _as_written, str(store), mark["fingerprint"], is_complete, dtype=cells.dtype, meta=cells.data._meta
        )
        found[name] = cells.copy(data=checked)
    found.attrs = {name: value for name, value in found.attrs.items() if name not in (MARK, MADE_FOR, "complete")}
    return found


def _as_written(cells: Any, store: str, fingerprint: str, is_complete: bool) -> Any:
    """Cells that were read, if the store is still that of the sweep that was opened, and they are there."""
    about = json.loads((Path(store) / "zarr.json").read_bytes())["attributes"]
    if about[MARK]["fingerprint"] != fingerprint:
        raise OSError(f"{store} was replaced by another sweep after it was opened: open it again")
    if is_complete and _is_left_out(cells):
        raise OSError(f"{store}: a chunk is missing; the same sweep computes it again")
    return cells


def _is_left_out(cells: Any) -> bool:
    """Whether there are cells that no sweep wrote."""
    return bool((cells == 255).any() if cells.dtype == np.uint8 else np.isnan(cells).any())


def _not_written(store: Path, plan: Grid, chunks: Sequence[int], asked: Iterable[int]) -> list[int]:
    """Chunks of which a variable is not there, or cannot be read: a file appears whole, but disks fail."""
    counts = [-(-whole // part) for whole, part in zip(plan.shape, chunks, strict=True)]
    group = _open_zarr_group(store, "r")
    arrays = [(store / name, group[name]) for name in plan.variables]

    def is_written(index: int) -> bool:
        key, where = Path("c", *map(str, np.unravel_index(index, counts))), chunk_at(plan.shape, chunks, index)
        try:
            return all((folder / key).is_file() and not _is_left_out(array[where]) for folder, array in arrays)
        except (RuntimeError, ValueError, OSError):
            return False

    return [index for index in asked if not is_written(index)]


def write_chunk(
    store: str, variables: Sequence[str], shape: Sequence[int], chunks: Sequence[int], index: int, values: Values
) -> None:
    """Write a chunk, here or on a worker."""
    zarr = import_extra("zarr", "sweep")
    group, where = zarr.open_group(store, mode="r+", use_consolidated=False), chunk_at(shape, chunks, index)
    with zarr.config.set({"array.write_empty_chunks": True}):  # a file says that a chunk is done
        for name, part in zip(variables, values, strict=True):
            group[name][where] = part


@contextlib.contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Keep other processes from writing a store; a lock ends with the process that has it."""
    import fcntl

    path = store.with_name(f".{store.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = path.exists() and os.fstat(descriptor).st_ino == path.stat().st_ino
        except BlockingIOError:
            is_current = False
        if not is_current:
            raise BlockingIOError(f"{store} is being written by another process: wait for it, or give another path")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _write_if_seen(content: bytes, write: Callable[[int, Values], None], path: str, index: int, values: Values) -> bool:
    """Write a chunk where this machine sees the store, and say whether it does."""
    if not Path(path).is_file() or Path(path).read_bytes() != content:
        return False
    write(index, values)
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- other formats ---------------------------------------------------------------------------------------------------


def _export_netcdf(grid: xr.Dataset, path: Path) -> None:
    grid.to_netcdf(path, engine="h5netcdf")


def _export_parquet(grid: xr.Dataset, path: Path) -> None:
    """One row per cell, in C order, a chunk at a time."""
    arrow, parquet = import_extra("pyarrow", "sweep"), import_extra("pyarrow.parquet", "sweep")
    dims = [str(name) for name in grid.dims]
    about = {"attrs": grid.attrs, "notes": {str(n): v.attrs for n, v in grid.variables.items()}}
    about["axes"] = {name: grid[name].values.tolist() for name in dims}
    beside = {str(name): one for name, one in grid.coords.items() if name not in dims}
    about["beside"] = {name: (list(map(str, one.dims)), one.values.tolist()) for name, one in beside.items()}
    shape, chunks = tuple(grid.sizes[name] for name in dims), next(iter(grid.data_vars.values())).data.chunksize

    def rows(index: int) -> Any:
        block = grid.isel(dict(zip(dims, chunk_at(shape, chunks, index), strict=True)))
        return arrow.Table.from_pandas(block.to_dataframe(dim_order=dims).reset_index(), preserve_index=False)

    schema = rows(0).schema.with_metadata({PARQUET_KEY: json.dumps(about)})
    with parquet.ParquetWriter(path, schema, compression="zstd", use_dictionary=dims) as writer:
        for index in range(chunk_count(shape, chunks)):
            writer.write_table(rows(index).replace_schema_metadata(schema.metadata))


def _open_parquet(path: Path) -> xr.Dataset:
    """The grid in a table, in memory."""
    parquet = import_extra("pyarrow.parquet", "sweep")
    table = parquet.read_table(path)
    about = json.loads((table.schema.metadata or {}).get(PARQUET_KEY, b"{}"))
    if "axes" not in about:
        raise ValueError(f"{path} was not written by a sweep of this version: its metadata has no axes")
    rows = table.to_pandas().set_index([*about["axes"]]).drop(columns=[*about["beside"]])
    grid: xr.Dataset = (
        rows.to_xarray()
        .reindex(about["axes"])
        .assign_coords({name: tuple(one) for name, one in about["beside"].items()})
    )
    for name, notes in about["notes"].items():
        grid[name].attrs = notes
    return grid.assign_attrs(about["attrs"])


_EXPORTS: Final = {".nc": _export_netcdf, ".parquet": _export_parquet}
