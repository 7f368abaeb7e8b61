"""Keras: a callback for `Model.fit`.

model.fit(x, y, batch_size=64, callbacks=[MeterCallback(meter, path="meter.json"), BackupAndRestore("backup")])
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from fastacct.core.extras import Foreign, import_extra
from fastacct.core.files import atomic_output
from fastacct.core.words import as_json
from fastacct.training.meter import Meter
from fastacct.training.optimizers import refuse_less_noise

callbacks: Foreign = import_extra("keras.callbacks", "training")


class MeterCallback(callbacks.Callback):  # type: ignore[misc]
    """Records each step before it is taken, logs epsilon, and ends the training where the next would exceed.

    **Guarantee.** That of `Meter`, where the model's steps clip and add noise; this adds none.

    With `path` the meter is kept in a file, written at the end of each epoch and read when training begins.  Put this
    before `BackupAndRestore`, which must save by epochs, as it does by default.  If the process dies between the
    two, an epoch counts twice, and none is lost.

    A training that goes on from a file where no step is left ends without one.

    With `adds_noise` the steps of the model clip and add the noise.  Keras' own add none, and are refused without it,
    but for models that `jax_privacy.keras_api.make_private` has made.
    """

    def __init__(self, meter: Meter, path: str | os.PathLike[str] | None = None, *, adds_noise: bool = False) -> None:
        super().__init__()
        self.meter, self.path, self.adds_noise = meter, None if path is None else Path(path), adds_noise
        self._is_over = False

    def on_train_begin(self, logs: Foreign = None) -> None:
        """Refuse steps that are not one batch each, or have less noise than is counted; read the file."""
        if (noise_of := getattr(self.model, "get_noise_multiplier", None)) is None:
            refuse_less_noise(self.model.optimizer, self.meter.least_noise, adds_noise=self.adds_noise)
        elif not (noise := float(noise_of())) >= self.meter.least_noise:
            raise ValueError(
                f"noise_multiplier = {noise!r} is that of the model, and {self.meter.least_noise!r} is counted"
            )
        batches = getattr(self.model.optimizer, "gradient_accumulation_steps", None) or 1
        if batches != 1 or self.meter.accumulate != 1 or self.model.steps_per_execution != 1:
            raise ValueError(
                "gradient_accumulation_steps and steps_per_execution must be 1: Keras adds up batches of two epochs, "
                "and tells of several steps at once"
            )
        if self.path is not None and self.path.exists():
            kept = json.loads(self.path.read_text("utf-8"))
            if kept["steps"] >= self.meter.steps:  # a process that goes back has released more
                self.meter.load_state_dict(kept)
            if not self.meter.remaining:  # Keras asks whether to stop after a step only
                self._is_over, self.model.train_function = True, _without_a_step

    def on_epoch_begin(self, epoch: int, logs: Foreign = None) -> None:
        """Tell the meter of the pass."""
        self.meter.epoch()

    def on_train_batch_begin(self, batch: int, logs: Foreign = None) -> None:
        """Record the step, or refuse it."""
        if not self._is_over:
            self.meter.step()

    def on_train_batch_end(self, batch: int, logs: Foreign = None) -> None:
        """Log epsilon; end the training where no step is left."""
        if logs is not None:
            logs["epsilon"] = self.meter.epsilon
        if not self.meter.remaining:  # Keras takes 0.1 ms to set a field of a model
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Foreign = None) -> None:
        """Log epsilon, and write the file."""
        if logs is not None:
            logs["epsilon"] = self.meter.epsilon
        if self.path is not None:
            with atomic_output(self.path, overwrite=True) as file:
                file.write_text(as_json(self.meter.state_dict()), "utf-8")

    def on_train_end(self, logs: Foreign = None) -> None:
        """Let the model train again."""
        if self._is_over:
            self._is_over = False
            self.model.make_train_function(force=True)


def _without_a_step(*given: Foreign) -> Foreign:
    """What Keras takes for a step that changes nothing: logs, and with JAX the state as it was."""
    return ({}, given[0]) if len(given) > 1 else {}
