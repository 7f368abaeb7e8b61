"""Sweeps whose process ends: killed at any moment, or stopped by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("xarray")
pytest.importorskip("zarr")

LONG = """
import signal, sys, numpy as np, fastacct as fa
from fastacct.sweep import store
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
from fastacct.sweep.grid import chunk_shape
store.chunks_of = lambda plan: chunk_shape(plan.shape, 60)
axes = dict(noise_multiplier=np.geomspace(0.6, 3, 40), sample_rate=np.geomspace(1e-3, 0.05, 30))
print("begun", flush=True)
fa.sweep(**axes, steps=[100, 1000, 5000], delta=[1e-5, 1e-6], bounds=True, threads=1).save(sys.argv[1])
"""


def long_sweep(path):
    return subprocess.Popen([sys.executable, "-c", LONG, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


KILLED = """
import os, signal, sys, time, numpy as np, fastacct as fa
from fastacct.sweep import store
from fastacct.sweep.grid import chunk_shape
import dask.array, xarray, zarr  # once, before processes fork
store.chunks_of = lambda plan: chunk_shape(plan.shape, 60)
axes = dict(noise_multiplier=np.geomspace(0.6, 3, 40), sample_rate=np.geomspace(1e-3, 0.05, 30))
rest = dict(steps=[100, 1000, 5000], delta=[1e-5, 1e-6], bounds=True, threads=1)

def begin(path):
    if (child := os.fork()) == 0:
        fa.sweep(**axes, **rest).save(path)
        os._exit(0)
    return child

def finish(path):
    assert os.waitpid(begin(path), 0)[1] == 0

whole, path = sys.argv[1:]
finish(whole)
rng, kills = np.random.default_rng(8), 0
for _ in range(8):
    child = begin(path)
    time.sleep(rng.uniform(0.0, 0.4))
    os.kill(child, signal.SIGKILL)
    kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
finish(path)
print(kills)
"""


def test_a_sweep_that_is_killed_at_any_moment_goes_on_and_ends_as_if_it_had_not_been(tmp_path):
    whole, path = tmp_path / "whole.zarr", tmp_path / "killed.zarr"
    words = [sys.executable, "-c", KILLED, str(whole), str(path)]
    assert int(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout) >= 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["killed.zarr", "whole.zarr"]
    mine, theirs = (
        {str(p.relative_to(one)): p.read_bytes() for p in one.rglob("*") if p.is_file()} for one in (path, whole)
    )
    assert mine == theirs


def processor_time(process):
    """Seconds that a child has used, as Linux tells them; the clock also counts what other processes use."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no times of other processes")
def test_ctrl_c_stops_within_a_second_of_work(tmp_path):
    with long_sweep(tmp_path / "grid.zarr") as process:
        process.stdout.readline()
        time.sleep(0.2)
        before = processor_time(process) + sum(os.times()[2:4])  # the latter of children that were waited for
        process.send_signal(signal.SIGINT)
        assert process.wait() != 0
        assert sum(os.times()[2:4]) - before < 1.0
        assert b"KeyboardInterrupt" in process.stderr.read()
