"""A training in each framework: epsilon of each step, the stop, and kill -9 in the middle.

Short here; TRAINING_SECONDS=180 makes each of them three minutes long.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time

import pytest

from tests.training.trainings import EPSILON, PASS, STEPS

SECONDS = float(os.environ.get("TRAINING_SECONDS", "3"))
NEEDS = {
    "huggingface": ("torch", "transformers", "accelerate"),
    "lightning": ("torch", "lightning"),
    "keras": ("torch", "keras"),
    "opacus": ("torch", "opacus"),
    "jax": ("jax", "jax_privacy"),
    "flower": ("flwr",),
    "nvflare": ("nvflare",),
}
KEPT = {"huggingface": 4, "lightning": PASS, "keras": PASS, "opacus": 4, "jax": 4, "flower": 1, "nvflare": 1}
"""How many steps lie between two checkpoints."""


def lines(folder):
    try:
        text = (folder / "log").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def start(name, folder):
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.trainings", name, str(folder), str(SECONDS)]
    with (folder / "errors").open("a") as errors:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)


@pytest.mark.parametrize("name", NEEDS)
def test_each_step_has_its_epsilon_also_after_a_kill_and_the_last_one_fits(name, tmp_path):
    if missing := [one for one in NEEDS[name] if importlib.util.find_spec(one) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    killed_at, of = 2 * STEPS // 3 + 1, EPSILON[name]
    process = start(name, tmp_path)
    while len(lines(tmp_path)) < killed_at and process.poll() is None:
        time.sleep(0.01)
    process.kill()  # -9, within a step
    assert process.wait() == -9, (tmp_path / "errors").read_text()[-2000:]
    first = lines(tmp_path)
    began = time.monotonic()
    assert start(name, tmp_path).wait(timeout=600 + SECONDS) == 0, (tmp_path / "errors").read_text()[-2000:]
    assert (tmp_path / "ended").exists()
    assert time.monotonic() - began > SECONDS * (STEPS - killed_at) / STEPS
    again = lines(tmp_path)[len(first) :]
    # No step is lost, and those after the last checkpoint are taken again.
    assert [steps for steps, _ in first] == [*range(1, first[-1][0] + 1)]
    assert [steps for steps, _ in again] == [*range(again[0][0], STEPS + 1)]
    assert 0 <= first[-1][0] + 1 - again[0][0] <= KEPT[name]
    assert [epsilon for _, epsilon in (*first, *again)] == [of(steps) for steps, _ in (*first, *again)]
    # It ends with the last step that fits.
    assert again[-1] == [STEPS, of(STEPS)]
    assert of(STEPS + 1) > of(STEPS)
