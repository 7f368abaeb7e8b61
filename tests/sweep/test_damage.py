"""Damaged files of sweeps: an error that says what to do, never another label or value."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import fastacct as fa
from tests.sweeps import AXES, cut_small, plan, run

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

from fastacct.sweep import chunks, export, store  # noqa: E402


def damaged(path):
    """A store with a byte of a file changed, or a file cut off: every byte of a label, some of others."""
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        whole = file.read_bytes()
        is_label = file.name != "zarr.json" and file.relative_to(path).parts[0] in AXES
        step = 1 if is_label else 17 if file.name != "zarr.json" else 61
        for place in range(0, len(whole), step):
            changed = bytearray(whole)
            changed[place] ^= 1 << (place // step) % 8
            file.write_bytes(changed)
            yield file.relative_to(path), place
        for size in (0, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:size])
            yield file.relative_to(path), f"cut to {size}"
        file.unlink()
        yield file.relative_to(path), "removed"
        file.write_bytes(whole)


def test_damage_is_an_error_and_never_another_label_or_value(tmp_path):
    path = tmp_path / "grid.zarr"
    right = plan(bounds=True).save(path).load()
    same = refused = 0
    for where in damaged(path):
        try:
            found = fa.open_sweep(path).load()
        except ValueError as error:
            refused += 1
            said = str(error)
        else:
            same += 1
            said = f"{path} is damaged, and read all the same" if found.identical(right) else "other labels or values"
        assert f"{path} is damaged, and " in said, where
    assert refused > 300 > 20 * same, "only blanks in metadata may change"


def test_checksums_do_not_go_by_the_order_of_a_folder():
    grid = run(bounds=True)
    other = grid[[*reversed(list(grid.variables))]].assign_attrs(grid.attrs)
    assert list(export.checksums_of(other).items()) == list(export.checksums_of(grid).items())


def test_labels_have_checksums_for_every_reader(tmp_path):
    path = tmp_path / "grid.zarr"
    plan().save(path)
    chunk = path / "noise_multiplier" / "c" / "0"
    whole = chunk.read_bytes()
    for place in range(len(whole)):
        chunk.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="checksum"):
            xr.open_zarr(path, consolidated=False)


@pytest.mark.parametrize("file", ["zarr.json", "steps/zarr.json", "steps/c/0", "epsilon/zarr.json"])
@pytest.mark.parametrize("size", [None, 0, 100])
def test_a_damaged_store_is_not_gone_on_with_but_replaced_on_request(tmp_path, file, size):
    path = tmp_path / "grid.zarr"
    one = plan()
    one.save(path)
    if size is None:
        (path / file).unlink()
    elif size:
        (path / file).write_bytes(bytes([one ^ (i == size // 3) for i, one in enumerate((path / file).read_bytes())]))
    else:
        os.truncate(path / file, size)
    with pytest.raises(ValueError, match=r"grid\.zarr is damaged, and overwrite=True .* writes it anew"):
        one.save(path)
    xr.testing.assert_identical(one.save(path, overwrite=True).load(), run())


@pytest.mark.parametrize("suffix", [".nc", ".parquet"])
def test_other_labels_in_an_exported_file_are_an_error(tmp_path, monkeypatch, suffix):
    path, write = tmp_path / f"grid{suffix}", store._EXPORTS[suffix]

    def shifted(grid, path):
        checksums = export.checksums_of(grid)
        with monkeypatch.context() as patched:
            patched.setattr(export, "checksums_of", lambda _: checksums)
            write(grid.assign_coords(steps=grid.steps + 1), path)

    monkeypatch.setitem(store._EXPORTS, suffix, shifted)
    with pytest.raises(ValueError, match=r"is damaged.*notes or labels of steps are not those that were written"):
        plan().save(path)


@pytest.mark.parametrize("suffix", [".nc", ".parquet"])
def test_values_of_an_exported_file_have_checksums(tmp_path, suffix):
    path = tmp_path / f"grid{suffix}"
    right, refused = plan(noise_multiplier=np.linspace(0.7, 4.0, 40)).save(path).load(), 0
    whole = path.read_bytes()
    begin = 0 if suffix == ".parquet" else len(whole) // 2  # the other half of netCDF is its structure
    for place in range(begin, len(whole), len(whole) // 80):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            with fa.open_sweep(path) as found:
                assert found.load().identical(right), place
        except (ValueError, OSError):
            refused += 1
    assert refused > 5


def test_every_byte_of_a_netcdf_file_is_compared_before_hdf5_reads_it(tmp_path, monkeypatch):
    path = tmp_path / "grid.nc"
    with plan(bounds=True).save(path) as found:
        right = found.load()
    whole = path.read_bytes()
    with xr.open_dataset(path, engine="h5netcdf") as plain:  # what stands behind its end is not looked at
        assert plain.drop_attrs().identical(right.drop_attrs())

    asked = []
    monkeypatch.setattr(xr, "open_dataset", lambda path, **_: asked.append(path))
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"grid\.nc (is damaged|was not written by a sweep)"):
            fa.open_sweep(path)
    for changed in (whole[:-1], whole + b"\n", whole[:2901] + bytes(64) + whole[2965:], whole[:3000], whole[:10]):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"grid\.nc (is damaged|was not written by a sweep)"):
            fa.open_sweep(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is damaged"):
        fa.open_sweep(path)
    assert not asked


def test_a_netcdf_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "grid.nc"
    run().to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"grid\.nc was not written by a sweep of this version"):
        fa.open_sweep(path)


@pytest.mark.parametrize("suffix", [".nc", ".parquet"])
def test_a_kill_during_export_leaves_no_part_of_the_file_and_the_next_export_none_of_its_own(tmp_path, suffix):
    path = tmp_path / f"grid{suffix}"
    code = f"""
import os, signal
from fastacct.sweep import store
from tests.sweeps import plan
write = store._EXPORTS[{suffix!r}]
def killed(grid, path):
    write(grid, path)
    os.truncate(path, path.stat().st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)
store._EXPORTS[{suffix!r}] = killed
plan().save({str(path)!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert not path.exists()
    assert len(list(tmp_path.glob(".*.partial"))) == 1
    with plan().save(path) as stored:
        xr.testing.assert_identical(stored.load(), run())
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("size", [None, 0, 10])
def test_a_chunk_that_is_missing_or_cut_off_is_an_error_and_computed_again(tmp_path, size):
    path = tmp_path / "grid.zarr"
    plan(bounds=True).save(path)
    chunk = next(one for one in (path / "epsilon" / "c").rglob("*") if one.is_file())
    if size is None:
        chunk.unlink()
    else:
        os.truncate(chunk, size)
    with pytest.raises((OSError, ValueError, RuntimeError)):
        fa.open_sweep(path).load()
    xr.testing.assert_identical(plan(bounds=True).save(path).load(), run(bounds=True))


def files_of(path, name):
    return sorted(one for one in (path / name / "c").rglob("*") if one.is_file())


def exchanged(path, tmp_path):
    """A chunk in the place of another, of another variable, or out of a store of the same shape."""
    mine = files_of(path, "epsilon")
    first, second = mine[0].read_bytes(), mine[5].read_bytes()
    mine[0].write_bytes(second)
    mine[5].write_bytes(first)
    yield "two exchanged"
    mine[5].write_bytes(first)
    yield "one copied"
    mine[0].write_bytes(files_of(path, "epsilon_lower")[0].read_bytes())
    yield "one of another variable"
    other = tmp_path / "other.zarr"
    plan(bounds=True, neighbors="add").save(other)
    mine[0].write_bytes(files_of(other, "epsilon")[0].read_bytes())
    yield "one of another sweep"
    for name in ("epsilon", "epsilon_lower", "status"):
        shutil.copytree(other / name, path / name, dirs_exist_ok=True)
    yield "all of another sweep, with their checksums"


@pytest.mark.parametrize("is_complete", [True, False])
def test_chunks_in_the_place_of_others_are_an_error_and_computed_again(tmp_path, monkeypatch, is_complete):
    cut_small(monkeypatch)
    path, right = tmp_path / "grid.zarr", run(bounds=True)
    plan(bounds=True).save(path)
    for how in exchanged(path, tmp_path):
        if not is_complete:
            zarr.open_group(path, mode="r+").attrs[store.COMPLETE] = False
        with pytest.raises(ValueError, match=r"grid\.zarr is damaged, and the same sweep computes again"):
            fa.open_sweep(path, partial=True).load()
        assert plan(bounds=True).save(path).load().identical(right), how
        assert fa.open_sweep(path).load().identical(right), how


def test_a_store_of_an_earlier_version_is_read_as_it_was(tmp_path):
    path = tmp_path / "grid.zarr"
    right = plan(bounds=True).save(path).load()
    attributes = zarr.open_group(path, mode="r+").attrs
    attributes[export.MARK] = {name: one for name, one in attributes[export.MARK].items() if name != chunks.NOTED}
    (path / "epsilon" / chunks.NOTED).unlink()
    assert fa.open_sweep(path).load().identical(right)
    files_of(path, "epsilon")[0].unlink()
    with pytest.raises(ValueError, match="a chunk of epsilon is missing"):
        fa.open_sweep(path).load()


def test_a_store_without_its_labels_is_damaged(tmp_path):
    path = tmp_path / "grid.zarr"
    plan().save(path)
    shutil.rmtree(path / "steps" / "c")
    with pytest.raises(ValueError, match=r"damaged.*labels of steps"):
        fa.open_sweep(path)
    plan().save(path, overwrite=True)
    (path / "epsilon" / "zarr.json").write_bytes(b"")
    with pytest.raises(ValueError, match="damaged"):
        fa.open_sweep(path)
