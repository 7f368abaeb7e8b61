"""The command `sweep` and its TOML file: what is written, and mistakes that are named; the example files."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from fastacct.cli.options import parse_orders
from fastacct.cli.sweeps import load_config
from tests.command import answer, call

store = pytest.importorskip("fastacct.sweep.store")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL_SWEEP = """
[axes]
noise_multiplier = { start = 0.5, stop = 8, num = 5, scale = "log" }
sample_rate = [0.01, 0.02, 0.05]
steps = { start = 10, stop = 1000, num = 3, scale = "log" }
delta = 1e-5
[accountant]
orders = "2-8"
[output]
file = "out/grid.parquet"
[picture]
file = "out/grid.png"
steps = [100]
"""


def write_config(folder, text=SMALL_SWEEP):
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_sweep_writes_table_and_picture_and_says_so(tmp_path):
    pytest.importorskip("matplotlib")
    config = write_config(tmp_path)
    document = answer("sweep", config)
    assert document["cells"] == 45
    assert document["files"] == [str(tmp_path / "out" / name) for name in ("grid.parquet", "grid.png")]
    assert sorted(item.name for item in (tmp_path / "out").iterdir()) == ["grid.parquet", "grid.png"]
    for row in document["sample"]:
        epsilon = row.pop("epsilon")
        assert epsilon == fa.dpsgd.epsilon(**row, accountant=fa.RDP(orders=parse_orders("2-8")))
    refused = call("sweep", config)
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    again = call("sweep --overwrite", config)
    assert again.exit_code == 0, again
    assert "45 cells" in again.stdout
    assert "100.0 % of 45 cells" in again.stderr
    assert "grid.png" in again.stdout


def test_output_on_the_command_line_may_be_anywhere_and_replaces_no_file_of_others(tmp_path):
    folder = tmp_path / "sweeps"
    folder.mkdir()
    config = write_config(folder, SMALL_SWEEP.partition("[picture]")[0].replace("out/", "out/../") + "overwrite = true")
    mine = tmp_path / "mine.parquet"
    assert call("sweep --quiet", config, "--output", mine).exit_code == 0
    assert call("sweep --quiet", config).exit_code == 0
    assert [one.name for one in folder.glob("*.parquet")] == ["grid.parquet"]
    mine.write_text("precious")
    refused = call("sweep --quiet --overwrite", config, "--output", mine)
    assert (refused.exit_code, mine.read_text()) == (2, "precious")
    assert "mine.parquet was not written by a sweep" in refused.stderr


def test_a_polite_kill_says_how_to_go_on(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    real = fa.Sweep.evaluate
    chunks = []

    def evaluate(self, chunk, threads=None):
        chunks.append(chunk)
        if [one.stop - one.start for one in chunk] == [1, 1, 3, 1] and len(chunks) in range(8, 20):
            os.kill(os.getpid(), signal.SIGTERM)
        return real(self, chunk, threads)

    monkeypatch.setattr(store, "chunks_of", lambda plan: (1, 1, 3, 1))
    config = write_config(tmp_path, SMALL_SWEEP.replace("grid.parquet", "grid.zarr"))
    with monkeypatch.context() as broken:
        broken.setattr(fa.Sweep, "evaluate", evaluate)
        killed = call("sweep", config)
    assert killed.exit_code == 128 + signal.SIGTERM
    assert "the same command goes on from there" in killed.stderr
    assert signal.getsignal(signal.SIGTERM) == before
    with pytest.raises(ValueError, match="not complete"):
        fa.open_sweep(tmp_path / "out" / "grid.zarr")
    assert answer("sweep", config)["cells"] == 45
    assert np.isfinite(fa.open_sweep(tmp_path / "out" / "grid.zarr").epsilon).all()


def test_a_dry_run_predicts_and_writes_nothing(tmp_path):
    found = answer("sweep --dry-run", write_config(tmp_path))
    assert (found["cells"], found["bytes"], found["chunks"]) == (45, 360, 1)
    assert found["seconds"] > 0
    assert [one.name for one in tmp_path.iterdir()] == ["small.toml"]
    large = SMALL_SWEEP.replace("num = 5", "num = 50000").replace("num = 3", "num = 10000")
    large = large.replace("delta = 1e-5", "delta = { start = 1e-9, stop = 1e-5, num = 900 }").partition("[picture]")[0]
    shown = call("sweep --dry-run", write_config(tmp_path, large))
    assert "warning: this takes" in shown.stdout
    assert "GiB" in shown.stdout


def test_a_sweep_whose_result_would_be_lost_is_refused(tmp_path):
    config = write_config(tmp_path, SMALL_SWEEP.partition("[output]")[0])
    refused = call("sweep", config)
    assert refused.exit_code == 2
    assert "nothing would be kept: give [output] file, --output FILE or [picture] file" in refused.stderr
    assert answer("sweep", config, "--output", tmp_path / "grid.nc")["files"] == [str(tmp_path / "grid.nc")]


def test_a_plan_is_shown_cheapest_first(tmp_path):
    text = """
[axes]
records = 50_000
batch_size = [128, 512]
epochs = [5, 20]
noise_multiplier = { start = 0.6, stop = 3, num = 8, scale = "log" }
delta = "1/n^1.1"
[output]
file = "plan.zarr"
"""
    assert call("sweep --quiet", write_config(tmp_path, text)).exit_code == 0
    path = tmp_path / "plan.zarr"
    found = answer("show", path, "--where", "epsilon <= 3", "--sort", "noise_multiplier", "--head", 4)
    assert len(found["rows"]) == 4 < found["cells"]
    for row in found["rows"]:
        run = {name: row[name] for name in ("noise_multiplier", "batch_size", "epochs")}
        assert row["epsilon"] == fa.dpsgd.epsilon(**run, records=50_000, delta="1/n^1.1") <= 3.0
    assert [row["noise_multiplier"] for row in found["rows"]] == sorted(r["noise_multiplier"] for r in found["rows"])
    shown = call("show", path, "--where", "epsilon <= 3", "--sort=-epochs")
    assert f"{found['cells']} of 32 cells satisfy epsilon <= 3" in shown.stdout
    for words, message in (
        (["--where", "epsilonn <= 3"], "is not a condition on"),
        (["--sort", "cost"], "sort = 'cost' is not a column"),
    ):
        refused = call("show", path, *words)
        assert refused.exit_code == 2
        assert message in refused.stderr
    assert call("show", tmp_path / "nowhere.zarr").exit_code == 2


def test_a_scheduler_that_does_not_answer_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("fastacct.cli.sweeps.CONNECT", "0.3s")
    refused = call("sweep --scheduler tcp://127.0.0.1:1", write_config(tmp_path))
    assert refused.exit_code == 2
    assert "127.0.0.1:1" in refused.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("delta = 1e-5", "delta = 1e-5\nalpha = 2", r"axes\.key = 'alpha' is not one of 'noise_multiplier'"),
        ("0.02, 0.05]", "true]", r"sample_rate must be a number or an array of numbers"),
        ("[0.01, 0.02, 0.05]", "[]", r"sample_rate must be a number or an array of numbers"),
        ("num = 3", "num = 3.5", r"axes\.steps\.num = 3\.5 is out of range"),
        ("[0.01, 0.02, 0.05]", "[" * 100 + "]" * 100, r".*32 dimensions"),
        ("[0.01, 0.02, 0.05]", "[" * 20_000 + "]" * 20_000, r".*recursion"),
        ("num = 3", "num = 0", r"axes\.steps\.num = 0\.0 is out of range"),
        ("start = 10", "start = 0", r"axes\.steps\.start = 0\.0 is out of range"),
        ("num = 3,", "num = 3, base = 2,", r"axes\.steps\.key = 'base' is not one of 'start'"),
        (
            'num = 5, scale = "log"',
            'num = 5, scale = "cubic"',
            r"axes\.noise_multiplier\.scale = 'cubic' is not one of",
        ),
        ('orders = "2-8"', 'orders = "8-2"', r"orders: the range '8-2' is empty"),
        ('orders = "2-8"', 'name = "fft"', r"accountant = 'fft' is not one of 'exact', 'rdp'"),
        ("steps = [100]", "steps = [101]", r"picture\.steps: 101 is not on the axis"),
        (
            "noise_multiplier =",
            "noise_multipler =",
            r"axes\.key = 'noise_multipler' is not one of .* mean 'noise_multiplier'\?",
        ),
        ("start = 0.5", "strat = 0.5", r"axes\.noise_multiplier\.key = 'strat' is not one of 'start'"),
        ("[axes]", "[axis]", r"key = 'axis' is not one of 'axes'"),
        ('orders = "2-8"', "orders = 8", r"accountant\.orders: must be of type str; got 8"),
        ('file = "out/grid.parquet"', 'overwrite = "yes"', r"output\.overwrite: must be of type bool; got 'yes'"),
        (
            "out/grid.parquet",
            "../grid.parquet",
            r"output\.file: '\.\./grid\.parquet' is not in the folder of this file",
        ),
        ("out/grid.parquet", "out/../../x.zarr", r"output\.file: 'out/\.\./\.\./x\.zarr' is not in the folder"),
        ("out/grid.parquet", "/tmp/grid.parquet", r"output\.file: '/tmp/grid\.parquet' is not in the folder"),
        ("out/grid.png", "../grid.png", r"picture\.file: '\.\./grid\.png' is not in the folder of this file"),
        ("[picture]", "[drawing]", r"key = 'drawing' is not one of 'axes'"),
        ("[axes]", "[axes", r"Expected"),
    ],
)
def test_a_mistake_in_a_sweep_file_names_key_and_file(tmp_path, old, new, message):
    assert old in SMALL_SWEEP
    with pytest.raises(ValueError, match=r"small\.toml: " + message):
        load_config(write_config(tmp_path, SMALL_SWEEP.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("", "a sweep needs noise_multiplier"),
        ("delta = 1e-5\nepsilon = 1", "a sweep needs noise_multiplier"),
        ('delta = "1e-5"', "neither a number nor a power of the records"),
        ('delta = "1/n"', "needs records"),
    ],
)
def test_axes_that_fix_no_question_are_refused_with_the_file(tmp_path, new, message):
    text = SMALL_SWEEP.replace("delta = 1e-5", new, 1).partition("[picture]")[0]
    refused = call("sweep", write_config(tmp_path, text))
    assert refused.exit_code == 2
    assert "small.toml: " in refused.stderr
    assert message in refused.stderr


def test_a_picture_of_another_format_is_refused_before_any_work(tmp_path):
    pytest.importorskip("matplotlib")
    refused = call("sweep", write_config(tmp_path, SMALL_SWEEP.replace("grid.png", "grid.gif")))
    assert refused.exit_code == 2
    assert "must end in .png, .pdf, .svg" in refused.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_the_example_sweep_is_large_and_can_be_read():
    config = load_config(EXAMPLES / "sweep.toml")
    assert np.prod([axis.size for axis in config["axes"].values()]) >= 500_000
    assert config["axes"]["noise_multiplier"][[0, -1]].tolist() == [0.5, 8.0]
    assert config["axes"]["sample_rate"][[0, -1]].tolist() == [1e-4, 0.1]
    assert config["axes"]["steps"][[0, -1]].tolist() == [100, 100_000]
    assert {1e-9, 1e-8, 1e-7, 1e-6, 1e-5} <= set(config["axes"]["delta"].tolist())


def test_the_small_example_has_lower_bounds():
    config = load_config(EXAMPLES / "exact.toml")
    assert config["accountant"]["accountant"] == fa.Exact()
    assert config["accountant"]["bounds"]
    assert config["picture"]
    assert np.prod([axis.size for axis in config["axes"].values()]) < 10_000
