"""Sweeps in files: a Zarr store that is resumed chunk by chunk, and netCDF and Parquet made of one.

xarray, zarr and pyarrow write; what is here is which chunks are missing, who may write them, and whether what is loaded
is what was written: chunks have checksums that `chunks` notes, labels and notes those in the mark of a sweep.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fastacct.core.extras import Foreign, import_extra
from fastacct.core.files import atomic_output, locked, real_file, refuse_existing, remove_partial
from fastacct.core.labels import NOTES
from fastacct.core.version import __version__
from fastacct.core.words import told_names
from fastacct.sweep import export
from fastacct.sweep.chunks import NOTED, Mark, Notes, write_chunk, write_if_seen
from fastacct.sweep.cost import chunks_of, evaluate_chunks
from fastacct.sweep.grid import Grid, Values, chunk_count, chunk_counts

if TYPE_CHECKING:
    import xarray as xr

LIBRARIES: Final = {".zarr": "zarr", ".nc": "h5netcdf", ".parquet": "pyarrow.parquet"}
COMPLETE: Final = f"{export.MARK}_complete"

_EXPORTS: Final = {".nc": export.to_netcdf, ".parquet": export.to_parquet}


def save(plan: Grid, path: str | os.PathLike[str], *, progress: bool, overwrite: bool) -> xr.Dataset:
    """See `Sweep.save`."""
    target = _as_file(real_file(path))
    is_store = target.suffix == ".zarr"
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist: cannot write {target.name} there")
    store = target if is_store else real_file(f"{target}.zarr")
    busy = f"{store} is being written by another process: wait for it, or give another path"
    with locked(store, busy), _named(store):
        if not is_store:
            refuse_existing(target, overwrite)
            if target.exists():
                export.refuse_foreign(target)
        if store.exists() and overwrite:
            try:
                _matching(plan, store)
            except ValueError:
                _refuse_foreign(store)
                _remove(store)
        if not store.exists():
            _create(plan, store, None if is_store else target.name)
        chunks = _matching(plan, store)
        write = partial(write_chunk, str(store), plan.variables, plan.shape, chunks)
        notes = Notes(store, _mark_of(store), chunk_counts(plan.shape, chunks))
        notes.begin()
        todo = [index for index in range(chunk_count(plan.shape, chunks)) if not notes.is_written(index)]
        for left in store.rglob("*.partial"):
            left.unlink(missing_ok=True)
        if todo:
            _open_zarr_group(store, "r+").attrs[COMPLETE] = False
            seen = partial(write_if_seen, (store / "zarr.json").read_bytes(), write, str(store / "zarr.json"))

            def consume(index: int, values: bytes | Values) -> None:
                notes.note(index, values if isinstance(values, bytes) else write(index, values))

            evaluate_chunks(plan, chunks, todo, consume, progress, seen)
        if not all(map(notes.is_written, todo)):
            raise OSError(f"{store}: chunks that workers wrote are not there; the same sweep computes them again")
        _open_zarr_group(store, "r+").attrs[COMPLETE] = True
        if not is_store:
            remove_partial(target)
            with atomic_output(target, overwrite=overwrite) as temporary:
                _EXPORTS[target.suffix](_open_zarr(store, partial=False), temporary)
            if _mark_of(store)["made_for"] == target.name:
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


@told_names
def open_sweep(path: str | os.PathLike[str], *, partial: bool = False) -> xr.Dataset:
    """Open a file that `Sweep.save` wrote, as the dataset that it returned; Zarr and netCDF are loaded when used.

    **Guarantee.** Labels and values are those that were written, and a damaged store is an error, here or when values
    are loaded; what they guarantee is recorded in the attributes.  A Zarr store that is not complete is a ValueError,
    unless `partial`: cells that are not computed are NaN then (status 255).

    Raises
    ------
    ValueError
        No sweep wrote the file, or it is not complete or damaged: the message says what to do.
    FileNotFoundError, OSError
        It does not exist; another sweep replaced it after it was opened.

    Examples
    --------
    >>> open_sweep("grid.zarr").epsilon.sel(delta=1e-5)  # doctest: +SKIP
    """
    target = _as_file(path)
    if not target.exists():
        raise FileNotFoundError(f"{target} does not exist")
    if target.suffix == ".zarr":
        return _open_zarr(target, partial)
    with export.intact(target, export.ANEW):
        return export.open_parquet(target) if target.suffix == ".parquet" else export.open_netcdf(target)


def _as_file(path: str | os.PathLike[str]) -> Path:
    """A path whose suffix names a format, of which the library is there."""
    target = Path(path)
    if target.suffix not in LIBRARIES:
        raise ValueError(f"path = {str(target)!r}: the suffix must be one of {', '.join(LIBRARIES)}")
    for library in {"xarray", "zarr", "dask", LIBRARIES[target.suffix]}:
        import_extra(library, "sweep")
    return target


# -- the store -------------------------------------------------------------------------------------------------------


def _create(plan: Grid, store: Path, made_for: str | None) -> None:
    """An empty store, which gets its name when it is whole; `made_for` is a file that it is removed after."""
    zarr, labels = import_extra("zarr", "sweep"), plan.labelled({})
    temporary = store.with_name(f".{store.name}.partial")
    codecs = (zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"), zarr.codecs.Crc32cCodec())
    _remove(temporary)
    try:
        encoding: Foreign = {name: {"compressors": codecs} for name in labels.coords}
        labels.to_zarr(temporary, mode="w", zarr_format=3, consolidated=False, encoding=encoding)
        group = _open_zarr_group(temporary, "r+")
        for name in plan.variables:
            is_code = name == "status"
            group.create_array(
                name,
                shape=plan.shape,
                chunks=chunks_of(plan),
                dtype="uint8" if is_code else "float64",
                fill_value=255 if is_code else float("nan"),
                compressors=codecs,
                chunk_key_encoding={"name": "default", "separator": "/"},
                dimension_names=tuple(plan.axes),
                attributes=plan.notes(name),
            )
        checksums = _unread(temporary, plan.variables)[1]
        mark = {"variables": plan.variables, "checksums": checksums, "made_for": made_for, NOTED: True}
        group.attrs.update({export.MARK: mark, COMPLETE: False})
        os.replace(temporary, store)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _matching(plan: Grid, store: Path) -> tuple[int, ...]:
    """The chunks of a store that holds this sweep; ValueError, naming what differs, for any other."""
    there, more = _open_store(store)[0], "give another path, or overwrite=True (command line: --overwrite)"
    about = there.attrs
    if about["fastacct_version"] != __version__:
        raise ValueError(f"{store} was begun by fastacct {about['fastacct_version']}, this is {__version__}: {more}")
    for name, value in {"delta": None, **plan.settings}.items():
        if about.get(name) != value:
            raise ValueError(
                f"{store} holds another sweep: {name} is {about.get(name)!r} there, {value!r} here; {more}"
            )
    for name in dict.fromkeys((*plan.axes, *map(str, there.dims))):
        before, now = there[name].values if name in there.dims else (), plan.axes.get(name, ())
        if not np.array_equal(before, now):
            sizes = f"{len(before)} there and {len(now)} here"
            raise ValueError(f"{store} holds another sweep: the axis {name} differs ({sizes} values); {more}")
    if tuple(there.data_vars) != plan.variables:
        raise ValueError(f"{store} holds another sweep: bounds is {not plan.bounds} there; {more}")
    found: tuple[int, ...] = there[plan.quantity].encoding["chunks"]
    return found


def _refuse_foreign(store: Path) -> None:
    """Raise unless a sweep wrote what is there: it says so, or is damaged and holds nothing else than a sweep's."""
    try:
        about = (store / "zarr.json").read_bytes()
        is_ours = export.MARK.encode() in about if json.loads(about) else False
    except (OSError, ValueError):
        names = {one.name.removesuffix("_lower") for one in store.iterdir()} if store.is_dir() else set()
        is_ours = bool(names) and names <= {"zarr.json", "status", *NOTES}
    if not is_ours:
        raise export.ForeignFileError(f"{store} was not written by a sweep of this version")


def _mark_of(store: Path) -> Mark:
    """What a sweep wrote into a store beside what it says of its grid."""
    mark: Mark = json.loads((store / "zarr.json").read_bytes())["attributes"][export.MARK]
    return mark


def _open_zarr_group(store: Path, mode: str) -> Foreign:
    return import_extra("zarr", "sweep").open_group(str(store), mode=mode, use_consolidated=False)


def _unread(store: Path, variables: Iterable[str]) -> tuple[xr.Dataset, dict[str, str]]:
    """The dataset in a store, its values unread, and checksums of all else."""
    found: xr.Dataset = import_extra("xarray", "sweep").open_zarr(store, consolidated=False, chunks=None)
    found = found[[*variables]]
    found.attrs = {name: value for name, value in found.attrs.items() if name not in (export.MARK, COMPLETE)}
    return found, export.checksums_of(found, {name: (store / name / "zarr.json").read_text() for name in variables})


def _open_store(store: Path) -> tuple[xr.Dataset, Mark]:
    """The dataset in a store that is as a sweep wrote it, its values unread, and its mark."""
    _refuse_foreign(store)
    with export.intact(store, export.ANEW):
        mark = _mark_of(store)
        found, checksums = _unread(store, mark["variables"])
        export.compare(mark["checksums"], checksums)
        return found, mark


def _open_zarr(store: Path, partial: bool) -> xr.Dataset:
    """The dataset, its values read when they are used."""
    blocks = import_extra("dask.array", "sweep")
    found, mark = _open_store(store)
    is_complete = _open_zarr_group(store, "r").attrs.get(COMPLETE) is True
    if not partial and not is_complete:
        raise ValueError(f"{store} is not complete: the same sweep goes on with it (from Python partial=True opens it)")
    for name, cells in found.data_vars.items():
        chunks = blocks.core.normalize_chunks(cells.encoding["chunks"], cells.shape)
        kind = {"dtype": cells.dtype, "meta": np.empty((0,) * cells.ndim, cells.dtype)}
        values = blocks.map_blocks(_read, str(store), str(name), mark, is_complete, chunks=chunks, **kind)
        found[name] = cells.copy(data=values)
    return found


def _read(store: str, name: str, mark: Mark, is_complete: bool, block_info: Foreign) -> NDArray[np.generic]:
    """A block of values, if they are there and the store is still that of the sweep that was opened."""
    with export.intact(store, export.AGAIN):
        if is_same := _mark_of(Path(store)) == mark:
            place = block_info[None]
            array = _open_zarr_group(Path(store), "r")[name]
            cells: NDArray[np.generic] = array[tuple(slice(*ends) for ends in place["array-location"])]
            if NOTED in mark:
                index = int(np.ravel_multi_index(place["chunk-location"], place["num-chunks"]))
                is_there = Notes(Path(store), mark, place["num-chunks"]).is_there(name, index)
            else:
                is_there = not bool((cells == 255).any() if cells.dtype == np.uint8 else np.isnan(cells).any())
            is_same = _mark_of(Path(store)) == mark
            if is_complete and not is_there:
                raise ValueError(f"a chunk of {name} is missing")
    if not is_same:
        raise OSError(f"{store} was replaced by another sweep after it was opened: open it again")
    return cells if is_there else np.full_like(cells, array.fill_value)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
