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

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
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
    assert "45 of 45 cells" in again.stderr
    assert "grid.png" in again.stdout


def test_a_killed_sweep_leaves_no_file(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    real = fa.dpsgd.epsilon

    def epsilon(**parameters):
        if np.ndim(parameters["noise_multiplier"]) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(**parameters)

    monkeypatch.setattr(fa.dpsgd, "epsilon", epsilon)
    assert call("sweep", write_config(tmp_path)).exit_code == 128 + signal.SIGTERM
    assert list((tmp_path / "out").iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("delta = 1e-5", "", r"axes: needs .* exactly one of delta"),
        ("delta = 1e-5", "delta = 1e-5\nepsilon = 1", r"axes: needs .* exactly one of delta"),
        ("delta = 1e-5", "delta = 1e-5\nalpha = 2", r"axes\.key = 'alpha' is not one of 'noise_multiplier'"),
        ("delta = 1e-5", 'delta = "1e-5"', r"delta must be a number or an array of numbers"),
        ("0.02, 0.05]", "true]", r"sample_rate must be a number or an array of numbers"),
        ("[0.01, 0.02, 0.05]", "[]", r"sample_rate must be a number or an array of numbers"),
        ("num = 3", "num = 3.5", r"axes\.steps\.num = 3\.5 is out of range"),
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
        ("[picture]", "[drawing]", r"key = 'drawing' is not one of 'axes'"),
        ("[axes]", "[axes", r"Expected"),
    ],
)
def test_a_mistake_in_a_sweep_file_names_key_and_file(tmp_path, old, new, message):
    assert old in SMALL_SWEEP
    with pytest.raises(ValueError, match=r"small\.toml: " + message):
        load_config(write_config(tmp_path, SMALL_SWEEP.replace(old, new, 1)))


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
