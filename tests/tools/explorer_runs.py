"""Runs of the explorer page as keywords of Python, and what its tests ask of node."""

import importlib.util
import json
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.accountants.run import steps_of_epochs
from fastacct.cli import commands

ROOT = Path(__file__).parents[2]
EXPLORER = ROOT / "explorer"
IS_REQUIRED = bool(os.environ.get("FASTACCT_EXPLORER_REQUIRED"))
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
RELATIONS = ("add_remove", "zero_out", "replace_one")
SAMPLERS = {
    "poisson": RELATIONS,
    "fixed_size": RELATIONS,
    "allocation": ("add_remove", "zero_out"),
    "shuffled": ("zero_out", "replace_one"),
    "full_batch": RELATIONS,
}


def missing():
    """What the tests need and have not."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not commands.PAGE.is_file() or not (EXPLORER / "node_modules").is_dir():
        return "the page is not built (make explorer)"
    if importlib.util.find_spec("ziglang") is None and not (EXPLORER / "made" / "libm.wasm").is_file():
        return "ziglang is not installed (make explorer)"
    return None


def skip_or_fail(reason):
    """Where the page is not built: an error where it has to be."""
    if reason and IS_REQUIRED:
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def ask(tmp_path):
    """The answers of explorer/tests/kernels.mjs to a kind of question."""
    skip_or_fail(missing())

    def asked(kind, cases):
        given, out = tmp_path / "given.json", tmp_path / "out.json"
        given.write_text(json.dumps({"kind": kind, "cases": cases}))
        node("kernels.mjs", sys.executable, given, out)
        return json.loads(out.read_text())

    return asked


def node(script, *words):
    done = subprocess.run(
        ["node", EXPLORER / "tests" / script, *words], capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]


def number(text):
    return float(text.replace("Infinity", "inf"))


def spread(low, high, n, seed):
    """Random numbers of one sign, uniform in their logarithm."""
    rng = random.Random(seed)
    return [math.copysign(math.exp(rng.uniform(math.log(abs(low)), math.log(abs(high)))), low) for _ in range(n)]


def uniform(low, high, n, seed):
    rng = random.Random(seed)
    return [rng.uniform(low, high) for _ in range(n)]


def random_runs(n, seed=6):
    rng = random.Random(seed)
    for _ in range(n):
        records = round(math.exp(rng.uniform(math.log(100), math.log(1e7))))
        batch = round(math.exp(rng.uniform(0, math.log(min(records, 1e6)))))
        yield {
            "noise": float(f"{math.exp(rng.uniform(math.log(0.3), math.log(20))):.{rng.randint(1, 12)}g}"),
            "batch": batch,
            "records": records,
            "epochs": float(f"{math.exp(rng.uniform(0, math.log(1000))):.{rng.randint(1, 5)}g}"),
            "delta": float(f"{math.exp(rng.uniform(math.log(1e-12), math.log(1e-2))):.{rng.randint(1, 3)}g}"),
            "sampling": (sampling := rng.choice(list(SAMPLERS))),
            "relation": rng.choice(SAMPLERS[sampling]),
        }


def whole_epochs(run):
    return run if run["sampling"] in ("poisson", "fixed_size") else run | {"epochs": math.ceil(run["epochs"])}


def keywords(run):
    """A run of the page as keywords of Python."""
    if run["sampling"] == "full_batch":
        return {"noise_multiplier": run["noise"], "sample_rate": 1.0, "steps": run["epochs"]}
    given = {"noise_multiplier": run["noise"], "batch_size": run["batch"], "sampling": run["sampling"]}
    return given | {name: run[name] for name in ("records", "epochs")}


def steps_in_all(run):
    records, batch, epochs = (run[name] for name in ("records", "batch", "epochs"))
    by_epoch = {"allocation": records // batch, "shuffled": -(-records // batch), "full_batch": 1}
    if run["sampling"] in by_epoch:
        return by_epoch[run["sampling"]] * epochs
    return steps_of_epochs(epochs, batch, records)


RUNS = [
    {"noise": 1.0408, "rate": 512 / 50_000, "steps": 2930},
    {"noise": 0.5, "rate": 0.01, "steps": 3000},
    {"noise": 4.0, "rate": 0.1, "steps": 1000},
    {"noise": 1.0, "rate": 1e-4, "steps": 1000},
    {"noise": 2.0, "rate": 1.0, "steps": 100},
    {"noise": 0.7, "rate": 0.3, "steps": 5},
]
FPR = [1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9]


def evaluated(line):
    """The number that the page's line of Python prints."""
    first, _, call = line.partition("; ")
    assert first == "import fastacct as fa"
    return eval(call.removeprefix("print(").removesuffix(")"), {"fa": fa})
