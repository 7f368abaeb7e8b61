"""Sweeps in files: what was stopped goes on, what differs is refused, and workers of a cluster write the same bits."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import fastacct as fa
from tests.sweeps import cut_small, plan, run

xr = pytest.importorskip("xarray")
pytest.importorskip("zarr")

from fastacct.sweep import cost, store  # noqa: E402

SUFFIXES = (".zarr", ".parquet", ".nc")


@pytest.fixture
def small_chunks(monkeypatch):
    cut_small(monkeypatch)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("changes", [{}, {"bounds": True}, {"noise_multiplier": [0.0, 1.0]}])
def test_a_file_holds_the_same_grid_as_memory(tmp_path, suffix, changes):
    path = tmp_path / f"grid{suffix}"
    with plan(**changes).save(path) as stored:
        xr.testing.assert_identical(stored.load(), run(**changes))
    with fa.open_sweep(path) as again:
        xr.testing.assert_identical(again.load(), run(**changes))
        place = {"noise_multiplier": [1, 0], "steps": slice(None, None, 2), "delta": 0}
        np.testing.assert_array_equal(again.epsilon.isel(place), run(**changes).epsilon.isel(place))
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_words_and_batches_survive_every_format(tmp_path, suffix):
    axes = {"batch_size": [100, 250], "records": [10_000, 60_000], "epochs": [3, 10], "delta": "1/n"}
    grid = fa.sweep(**axes, epsilon=[1.0, 3.0])
    with grid.save(tmp_path / f"grid{suffix}") as stored:
        xr.testing.assert_identical(stored.load(), grid.compute())


def test_parquet_is_a_tidy_table(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "grid.parquet"
    plan().save(path)
    table = parquet.read_table(path)
    assert table.column_names == ["noise_multiplier", "sample_rate", "steps", "delta", "epsilon"]
    assert table.num_rows == 48
    row = table.slice(29, 1).to_pylist()[0]
    epsilon = row.pop("epsilon")
    assert epsilon == fa.dpsgd.epsilon(**row)


def stop_after(monkeypatch, chunks, failure):
    """Let the evaluation of chunks fail after some, the check of the axes not counted."""
    real, done = type(plan()).evaluate, [0]

    def evaluate(self, chunk, threads=None):
        done[0] += chunk != (slice(0, 1),) * 4
        if done[0] > chunks:
            raise failure
        return real(self, chunk, threads)

    monkeypatch.setattr(type(plan()), "evaluate", evaluate)
    return done


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("failure", [RuntimeError("disk on fire"), KeyboardInterrupt()])
def test_what_was_computed_before_a_failure_is_not_computed_again(tmp_path, monkeypatch, suffix, failure):
    path = tmp_path / f"grid{suffix}"
    with monkeypatch.context() as broken:
        stop_after(broken, 4, failure)
        with pytest.raises(type(failure)):
            plan().save(path)
    assert not [item.name for item in tmp_path.iterdir() if item.name.startswith(".")]
    with pytest.raises((ValueError, FileNotFoundError), match="not complete" if suffix == ".zarr" else "not exist"):
        fa.open_sweep(path)
    begun = tmp_path / ("grid.zarr" if suffix == ".zarr" else f"grid{suffix}.zarr")
    assert int(fa.open_sweep(begun, partial=True).epsilon.notnull().sum()) == 4 * 4
    with monkeypatch.context() as counted:
        done = stop_after(counted, 100, failure)
        with plan().save(path) as stored:
            assert done[0] == 12 - 4
            xr.testing.assert_identical(stored.load(), run())
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    with plan().save(path, overwrite=True) as again:
        xr.testing.assert_identical(again.load(), run())


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"steps": [100, 1000, 10, 5001]}, "the axis steps differs"),
        ({"sample_rate": [0.01]}, "the axis sample_rate differs"),
        ({"accountant": fa.RDP()}, "accountant is 'Exact"),
        ({"neighbors": "remove"}, "neighbors is 'add_remove' there, 'remove' here"),
        ({"bounds": True}, "bounds is False there"),
        ({"delta": None, "epsilon": 1.0}, "quantity is 'epsilon' there, 'delta' here"),
    ],
)
def test_another_sweep_is_refused_by_what_differs(tmp_path, changes, named):
    path = tmp_path / "grid.zarr"
    plan().save(path)
    with pytest.raises(ValueError, match=f"holds another sweep: {named}"):
        plan(**changes).save(path)
    xr.testing.assert_identical(fa.open_sweep(path).load(), run())
    with plan(**changes).save(path, overwrite=True) as stored:
        xr.testing.assert_identical(stored.load(), run(**changes))


def test_a_delta_in_words_is_not_the_same_number_on_an_axis(tmp_path):
    axes = {"noise_multiplier": 1.0, "batch_size": 10, "records": 1000, "epochs": 1}
    fa.sweep(**axes, delta="1/n").save(tmp_path / "grid.zarr")
    with pytest.raises(ValueError, match="holds another sweep: delta is '1/n' there, None here"):
        fa.sweep(**axes, delta=0.001).save(tmp_path / "grid.zarr")


def test_chunks_that_nobody_wrote_are_not_called_complete(tmp_path, monkeypatch):
    path = tmp_path / "grid.zarr"
    with monkeypatch.context() as broken:
        broken.setattr(store, "write_chunk", lambda *_: b"")
        with pytest.raises(OSError, match="chunks that workers wrote are not there"):
            plan().save(path)
    with pytest.raises(ValueError, match="not complete"):
        fa.open_sweep(path)
    xr.testing.assert_identical(plan().save(path).load(), run())


def test_an_estimate_of_dear_cells_takes_a_few_of_them(monkeypatch):
    cells = []  # a cell takes 0.05 s of a clock that nothing else moves

    def evaluate(self, chunk, threads=None):
        cells.append(math.prod(one.stop - one.start for one in chunk))

    monkeypatch.setattr(cost, "time", SimpleNamespace(perf_counter=lambda: 0.05 * sum(cells)))

    one = plan(steps=np.arange(1, 2001))
    monkeypatch.setattr(type(one), "evaluate", evaluate)
    found = one.estimate()
    assert sum(cells) < 30
    assert found.seconds == pytest.approx(0.05 * one.size, rel=0.3)


def test_a_store_of_another_version_and_a_folder_that_is_no_sweep_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "grid.zarr"
    plan().save(path)
    monkeypatch.setattr(store, "__version__", "9.9")
    with pytest.raises(ValueError, match=r"begun by fastacct .*, this is 9\.9"):
        plan().save(path)
    (tmp_path / "other.zarr").mkdir()
    (tmp_path / "other.zarr" / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"other\.zarr was not written by a sweep"):
        plan().save(tmp_path / "other.zarr")
    assert (tmp_path / "other.zarr" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("suffix", [".parquet", ".nc"])
def test_an_existing_file_is_replaced_only_on_request_and_if_a_sweep_wrote_it(tmp_path, suffix):
    path = tmp_path / f"grid{suffix}"
    plan(bounds=True).save(path).close()
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        plan().save(path)
    assert path.read_bytes() == before
    with plan().save(path, overwrite=True) as stored:
        xr.testing.assert_identical(stored.load(), run())
    path.write_bytes(b"precious")
    with pytest.raises(ValueError, match=r"grid\..* was not written by a sweep .*: it is neither opened nor replaced"):
        plan().save(path, overwrite=True)
    assert path.read_bytes() == b"precious"
    path.write_bytes(b"")
    with plan().save(path, overwrite=True) as stored:
        xr.testing.assert_identical(stored.load(), run())


def test_a_foreign_parquet_file_is_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "foreign.parquet"
    parquet.write_table(arrow.table({"epsilon": [1.0]}), path)
    with pytest.raises(ValueError, match=r"foreign\.parquet was not written by a sweep"):
        fa.open_sweep(path)


def test_a_second_process_is_refused_and_the_lock_ends_with_the_first(tmp_path):
    path = tmp_path / "grid.zarr"
    code = f"import fcntl, time; f = open({str(tmp_path / '.grid.zarr.lock')!r}, 'w')"
    code += "; fcntl.flock(f, fcntl.LOCK_EX); print('have', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(BlockingIOError, match="being written by another process"):
            plan().save(path)
        other.kill()
        other.wait()
    plan().save(path)


def test_a_file_system_without_locks_is_no_other_process(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def refused(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError, match="No locks available"):
        plan().save(tmp_path / "grid.zarr")


def test_an_unknown_suffix_and_a_missing_folder_are_refused_before_any_work(tmp_path, monkeypatch):
    one = plan()
    stop_after(monkeypatch, 0, AssertionError("computed"))
    with pytest.raises(ValueError, match=r"grid\.csv.*\.zarr, \.nc, \.parquet"):
        one.save(tmp_path / "grid.csv")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        one.save(tmp_path / "nowhere" / "grid.nc")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="grid"):
            plan().save(tmp_path / "grid.zarr")
    finally:
        tmp_path.chmod(0o700)


# -- a cluster -------------------------------------------------------------------------------------------------------


def test_workers_of_a_cluster_compute_the_same_bits(tmp_path):
    distributed = pytest.importorskip("distributed")
    whole = run(bounds=True)
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        one = plan(bounds=True, client=client)
        xr.testing.assert_identical(one.compute(), whole)
        with one.save(tmp_path / "grid.zarr") as stored:
            xr.testing.assert_identical(stored.load(), whole)
        axes = {"noise_multiplier": np.geomspace(0.6, 3, 60), "sample_rate": np.geomspace(1e-3, 0.05, 50)}
        many = {**axes, "steps": [100, 1000, 5000], "delta": [1e-5, 1e-6, 1e-7]}
        (before,) = {w.pid for w in cluster.workers.values() if w.name == 0}
        kill = threading.Timer(0.7, os.kill, (before, signal.SIGKILL))
        kill.start()
        with fa.sweep(**many, client=client).save(tmp_path / "many.zarr") as stored:
            kill.join()
            xr.testing.assert_identical(stored.load(), fa.sweep(**many).compute())


def test_a_reader_of_a_store_that_was_replaced_is_told_so(tmp_path):
    path = tmp_path / "grid.zarr"
    before = plan().save(path)
    plan(steps=[2000, 3000, 4000, 5000]).save(path, overwrite=True)
    with pytest.raises(OSError, match="replaced by another sweep"):
        before.load()
    kept = fa.open_sweep(path)
    plan(steps=[2000, 3000, 4000, 5000]).save(path, overwrite=True)
    xr.testing.assert_identical(kept.load(), run(steps=[2000, 3000, 4000, 5000]))


def test_a_store_beside_a_file_is_removed_after_an_export_that_was_stopped(tmp_path, monkeypatch):
    def full(grid, path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setitem(store._EXPORTS, ".nc", full)
        with pytest.raises(OSError, match=r"No space left on device.*x\.nc"):
            plan().save(tmp_path / "x.nc")
    assert [one.name for one in tmp_path.iterdir()] == ["x.nc.zarr"]
    with plan().save(tmp_path / "x.nc") as stored:
        xr.testing.assert_identical(stored.load(), run())
    assert [one.name for one in tmp_path.iterdir()] == ["x.nc"]


def test_a_sweep_has_one_name(tmp_path):
    real, folder = tmp_path / "grid.nc", tmp_path / "elsewhere"
    with plan().save(real):
        pass
    (tmp_path / "link.nc").symlink_to(real)
    with plan(bounds=True).save(tmp_path / "link.nc", overwrite=True) as stored:
        xr.testing.assert_identical(stored.load(), run(bounds=True))
    assert (tmp_path / "link.nc").is_symlink()
    with fa.open_sweep(real) as stored:
        xr.testing.assert_identical(stored.load(), run(bounds=True))
    (tmp_path / "other.nc").hardlink_to(real)
    with pytest.raises(OSError, match=r"grid\.nc has 2 names \(hard links\)"):
        plan().save(real, overwrite=True)
    folder.mkdir()
    (tmp_path / "x.nc.zarr").symlink_to(folder / "begun.zarr")
    places = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "locked", lambda path, busy: places.append(path) or contextlib.nullcontext())
        with plan().save(tmp_path / "x.nc"):
            pass
    assert places == [folder / "begun.zarr"], "the store beside a file is locked where it is"


def test_what_no_sweep_wrote_is_not_removed(tmp_path):
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "precious").write_text("keep")
    with pytest.raises(ValueError, match="not written by a sweep"):
        plan().save(tmp_path / "mine.zarr", overwrite=True)
    assert (tmp_path / "mine.zarr" / "precious").read_text() == "keep"
    plan().save(tmp_path / "x.nc.zarr")
    plan().save(tmp_path / "x.nc")
    xr.testing.assert_identical(fa.open_sweep(tmp_path / "x.nc.zarr").load(), run())
    (tmp_path / "link.zarr").symlink_to(tmp_path / "new.zarr")
    plan().save(tmp_path / "link.zarr")
    xr.testing.assert_identical(fa.open_sweep(tmp_path / "new.zarr").load(), run())
