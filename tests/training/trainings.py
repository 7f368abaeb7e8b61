"""A training in each framework, in a process that may be killed: python -m tests.training.trainings NAME FOLDER SECONDS

Each step waits so that the whole takes so many seconds.  What is logged of it stands in FOLDER/log, a line a step; a
process that finds a checkpoint in the folder goes on from there.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import fastacct as fa
from fastacct.training import Meter

RECORDS, BATCH, STEPS = 40, 4, 30
PASS = RECORDS // BATCH
DELTA = 1e-4
SHUFFLED: dict[str, Any] = {"noise_multiplier": 3.0, "delta": DELTA, "neighbors": "zero_out"}
BATCHES = {"records": RECORDS, "batch_size": BATCH, "sampling": "shuffled"}
POISSON = {"noise_multiplier": 1.5, "sample_rate": 0.1, "delta": DELTA}
CLIENTS = {"noise_multiplier": 4.0, "records": 10, "batch_size": 4, "sampling": "fixed_size", "delta": DELTA}
FULL = {"noise_multiplier": 8.0, "sample_rate": 1.0, "neighbors": "zero_out", "delta": DELTA}


def passes(steps: int) -> float:
    """Epsilon after so many steps over a loader that shuffles."""
    return fa.dpsgd.epsilon(**SHUFFLED, **BATCHES, epochs=-(-steps // PASS))  # type: ignore[return-value]


def steps_of(run: dict[str, Any]) -> Callable[[int], float]:
    """Epsilon after so many steps of a run."""
    return lambda steps: fa.dpsgd.epsilon(**run, steps=steps)  # type: ignore[return-value]


EPSILON: dict[str, Callable[[int], float]] = {
    **dict.fromkeys(("huggingface", "lightning", "keras"), passes),
    "jax": steps_of(POISSON),
    "opacus": steps_of({**POISSON, "sample_rate": -(-(2**24) // PASS) / 2**24}),  # uniform numbers of 24 bits
    "flower": steps_of(CLIENTS),
    "nvflare": steps_of(FULL),
}
"""Of each framework: epsilon after so many steps, by the verbs of fastacct."""


class Log:
    """Writes a line a step, and waits."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.file = (folder / "log").open("a")
        self.wait = seconds / STEPS

    def __call__(self, steps: int, epsilon: float) -> None:
        print(json.dumps([steps, epsilon]), file=self.file, flush=True)
        time.sleep(self.wait)


def kept(path: Path, what: Callable[[Path], object]) -> None:
    """Write a file whole or not at all."""
    what(path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def huggingface(folder: Path, log: Log, stop_at: float) -> None:
    import transformers
    from transformers.trainer_utils import get_last_checkpoint

    from tests.training.test_huggingface import counting, trainer

    class Heard(transformers.TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" in logs:
                log(state.global_step, logs["epsilon"])

    given = {"save_strategy": "steps", "save_steps": 4, "num_train_epochs": 99}
    mine = trainer(folder / "run", Heard(), **given)
    counting(Meter(mine, **SHUFFLED, stop_at=stop_at)).attach(mine)
    last = get_last_checkpoint(folder / "run") if (folder / "run").exists() else None
    mine.train(resume_from_checkpoint=last)


def lightning(folder: Path, log: Log, stop_at: float) -> None:
    import lightning.pytorch as pl

    from tests.training.test_lightning import Module, counting, loader, trainer

    class Logger(pl.loggers.logger.DummyLogger):  # type: ignore[misc]
        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            log(meter.steps, meter.epsilon)
            assert math.isclose(metrics["epsilon"], meter.epsilon, rel_tol=1e-6)  # it has 32 bits

    data = loader()
    meter = Meter(data, **SHUFFLED, stop_at=stop_at)
    keep = pl.callbacks.ModelCheckpoint(folder, every_n_train_steps=PASS, save_last=True)
    mine = trainer(folder, counting(meter), keep, logger=Logger(), max_epochs=99, enable_checkpointing=True)
    last = folder / "last.ckpt"
    mine.fit(Module(), data, ckpt_path=last if last.exists() else None, weights_only=False)


def keras(folder: Path, log: Log, stop_at: float) -> None:
    from tests.training.test_keras import counting, fit, keras, model

    class Heard(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            log(meter.steps, logs["epsilon"])

    meter = Meter(**SHUFFLED, **BATCHES, stop_at=stop_at)
    backup = keras.callbacks.BackupAndRestore(folder / "backup")
    mine = counting(meter, folder / "meter.json", whole_epochs=True)
    fit(model(), mine, backup, Heard(), epochs=99)


def opacus(folder: Path, log: Log, stop_at: float) -> None:
    import torch
    from opacus import PrivacyEngine

    from fastacct.compat import opacus as fast
    from fastacct.training.opacus import Guard
    from tests.compat.test_opacus_training import training

    fast.register()
    engine, path = PrivacyEngine(accountant="fastacct"), folder / "run.pt"
    model, optimizer, loader = training(engine)
    torch.seed()  # other batches and noise than in the process before
    parts = {"module": model, "optimizer": optimizer}
    if path.exists():
        engine.load_checkpoint(path=path, **parts)
    guard = Guard(engine, optimizer, delta=DELTA, stop_at=stop_at)
    try:
        for x, y in (batch for _ in range(99) for batch in loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            steps = sum(row[2] for row in engine.accountant.history)
            if steps % 4 == 0:
                kept(path, lambda new: engine.save_checkpoint(path=new, **parts))
            log(steps, guard.epsilon)
    except fa.BudgetExceededError:
        return


def jax(folder: Path, log: Log, stop_at: float) -> None:
    import jax
    import numpy as np
    from jax_privacy import batch_selection

    sampler = batch_selection.CyclicPoissonSampling(sampling_prob=POISSON["sample_rate"], iterations=10**6)
    noise = POISSON["noise_multiplier"]
    meter = Meter(sampler, noise_multiplier=noise, delta=DELTA, stop_at=stop_at)
    rng, path, weights = np.random.default_rng(), folder / "meter.json", np.zeros(3)
    if path.exists():
        state, weights = json.loads(path.read_text())
        meter.load_state_dict(state)
    x = np.random.default_rng(1).normal(size=(RECORDS, 3))
    gradients = jax.vmap(jax.grad(lambda w, row: (row @ w - 1.0) ** 2), (None, 0))
    for rows in meter.batches(sampler.batch_iterator(RECORDS, rng)):
        found = np.asarray(gradients(np.asarray(weights), x[rows]))
        clipped = found / np.maximum(1.0, np.linalg.norm(found, axis=1, keepdims=True))
        weights = weights - 0.01 * (clipped.sum(0) + rng.normal(size=3) * noise)
        if meter.steps % 4 == 0:
            text = json.dumps([meter.state_dict(), list(map(float, weights))])
            kept(path, lambda new, text=text: new.write_text(text))  # type: ignore[misc]
        log(meter.steps, meter.epsilon)


def flower(folder: Path, log: Log, stop_at: float) -> None:
    import numpy as np
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
    from flwr.supercore.task_identity import TaskIdentity

    from fastacct.training.flower import Metered
    from tests.training.test_flower import Grid

    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    meter, path, first = Meter(**CLIENTS, stop_at=stop_at), folder / "meter.json", [0.0] * 3
    if path.exists():
        state, first = json.loads(path.read_text())
        meter.load_state_dict(state)
    seen = meter.steps

    def after(number: int, arrays: Any) -> None:
        nonlocal seen
        if meter.steps == seen:  # before the first round, and after the last that fits
            return
        seen = meter.steps
        text = json.dumps([meter.state_dict(), arrays.to_numpy_ndarrays()[0].tolist()])
        kept(path, lambda new: new.write_text(text))
        log(meter.steps, meter.epsilon)

    inner = FedAvg(fraction_train=0.4, fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=10)
    strategy = Metered(DifferentialPrivacyServerSideFixedClipping(inner, 4.0, 1.0, 4), meter)
    strategy.start(Grid(), ArrayRecord([np.array(first)]), num_rounds=2 * STEPS, evaluate_fn=after)


def nvflare(folder: Path, log: Log, stop_at: float) -> None:
    import numpy as np
    from nvflare.apis.dxo import DXO, DataKind, from_shareable
    from nvflare.apis.fl_context import FLContext

    from fastacct.training.nvflare import MeterFilter

    mine = MeterFilter(str(folder / "meter.json"), **FULL, stop_at=stop_at)
    rng, weights = np.random.default_rng(), np.zeros(3)
    for _ in count():
        sent = DXO(DataKind.WEIGHT_DIFF, {"w": rng.normal(size=3) * 8.0 - 0.1 * weights}).to_shareable()
        try:
            weights = weights + from_shareable(mine.process(sent, FLContext())).data["w"]
        except fa.BudgetExceededError:
            return
        log(mine.meter.steps, mine.meter.epsilon)


def main() -> None:
    """Train, or go on, until the budget ends; then say so."""
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    os.environ.setdefault("KERAS_BACKEND", "torch")
    globals()[name](folder, Log(folder, seconds), EPSILON[name](STEPS))
    (folder / "ended").touch()


if __name__ == "__main__":
    main()
