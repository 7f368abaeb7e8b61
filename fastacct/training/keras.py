"""Keras: a callback for `Model.fit`.

model.fit(x, y, batch_size=64, callbacks=[MeterCallback(meter, path="meter.json"), BackupAndRestore("backup")])
"""

from __future__ import annotations

import contextlib
import os

from fastacct.core.extras import Foreign, import_extra
from fastacct.ledger.accountant import BudgetExceededError
from fastacct.training.fits import (
    data_of_fit,
    is_over,
    refuse_batches_again,
    refuse_other_batches,
    retrace,
    steps_of,
    warn_of_key,
)
from fastacct.training.given import is_new
from fastacct.training.kept import kept
from fastacct.training.meter import Meter
from fastacct.training.optimizers import refuse_less_noise

callbacks: Foreign = import_extra("keras.callbacks", "training")


class MeterCallback(callbacks.Callback):  # type: ignore[misc]
    """Records each step before it is taken, logs epsilon, and ends the training where the next would exceed.

    **Guarantee.** That of `Meter`, where the model's steps clip and add noise; this adds none.  Of models of
    `jax_privacy.keras_api.make_private` it holds for who sees the trainable weights alone, and not the key of the
    noise.

    With `path` the meter is kept in a file, and read when training begins.  What the file says is never less than what
    was released: a pass stands in it before its first step, other batches before each.  An epoch that was broken off
    counts again.  A training that goes on from a file where no step is left ends without one.  Fits at a time with one
    file, also of several processes, share one count: what each of them logs is what all had counted when it wrote last.

    Parameters
    ----------
    meter : Meter
    path : path, optional
    adds_noise : bool
        Whether the steps of the model clip and add the noise.  Keras' own add none, and are refused without it, but
        for models that `jax_privacy.keras_api.make_private` has made.
    draws_batches : bool
        Whether what `fit` is given draws the batches as the meter counts them, where that cannot be seen.
    whole_epochs : bool
        Whether weights are kept, and shown, after whole epochs alone, as `BackupAndRestore` keeps them by default.
        The steps of an epoch that was broken off are lost then, and count once: the file is written at ends of epochs.
        Put this before `BackupAndRestore`.
    """

    def __init__(
        self,
        meter: Meter,
        path: str | os.PathLike[str] | None = None,
        *,
        adds_noise: bool = False,
        draws_batches: bool = False,
        whole_epochs: bool = False,
    ) -> None:
        super().__init__()
        self.meter, self.path, self.adds_noise = meter, path, adds_noise
        self.draws_batches, self.whole_epochs = draws_batches, whole_epochs
        self._private: int | None = None
        self._is_checked = False
        self._is_over = False

    def on_train_begin(self, logs: Foreign = None) -> None:
        """Refuse other steps and batches than are counted, or with less noise; read the file."""
        noise_of = getattr(self.model, "get_noise_multiplier", None)
        if noise_of is None:
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
        refuse_other_batches(self.meter, self.model, data := data_of_fit(), draws_batches=self.draws_batches)
        with self._file():
            if self.path is not None and self.meter.steps:  # Keras asks whether to stop after a step only
                self._is_over = not self.meter.remaining
            if noise_of is not None and not self._is_over:
                refuse_batches_again(self.meter, self.model, data)
        if noise_of is not None:
            retrace(self.model)
            warn_of_key(self.model)
        self._is_checked = noise_of is None
        if self._is_over:
            self._is_checked, self.model.train_function = True, _without_a_step

    def on_epoch_begin(self, epoch: int, logs: Foreign = None) -> None:
        """Tell the meter of the pass."""
        if epoch and is_new(self.meter):
            raise ValueError(
                f"this fit() begins with epoch {epoch}, and the meter has counted nothing: load the state or the file "
                "of the epochs before, or give what was released already as after="
            )
        self.meter.epoch()
        if not self._is_checked:  # after all callbacks that restore weights
            self._private = steps_of(self.model)
            if self._private and is_new(self.meter):
                raise ValueError(
                    f"this model has taken {self._private} private steps, and the meter has counted none: make the "
                    "model anew, go on with its meter, or give what was released already as after="
                )

    def on_train_batch_begin(self, batch: int, logs: Foreign = None) -> None:
        """Record the step, or refuse it."""
        if self._is_over or is_over(self.meter, self.model):
            return
        stands = self.whole_epochs or (self.meter._drawn.is_pass and self.meter._in_pass)
        with contextlib.nullcontext() if stands else self._file():
            self.meter.step()

    def on_train_batch_end(self, batch: int, logs: Foreign = None) -> None:
        """Log epsilon; end the training where no step is left."""
        if not self._is_checked:
            if steps_of(self.model) == self._private:
                raise ValueError("fit() took a step that is not that of make_private: these weights are not private")
            self._is_checked = True
        if logs is not None:
            logs["epsilon"] = self.meter.epsilon
        if not self.meter.remaining:  # Keras takes 0.1 ms to set a field of a model
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Foreign = None) -> None:
        """Write the file, and log epsilon."""
        with self._file():
            pass
        if logs is not None:
            logs["epsilon"] = self.meter.epsilon
        if self.whole_epochs and self.meter.epsilon > self.meter.stop_at:
            raise BudgetExceededError(
                f"another fit with {self.path} has used the budget: with this epoch epsilon is "
                f"{self.meter.epsilon:.6g}, above stop_at = {self.meter.stop_at!r}. Do not keep its weights"
            )

    def _file(self) -> contextlib.AbstractContextManager[None]:
        """What keeps the meter in the file, if there is one."""
        return contextlib.nullcontext() if self.path is None else kept(self.meter, self.path)

    def on_train_end(self, logs: Foreign = None) -> None:
        """Let the model train again."""
        if self._is_over:
            self._is_over = False
            self.model.make_train_function(force=True)


def _without_a_step(*given: Foreign) -> Foreign:
    """What Keras takes for a step that changes nothing: logs, and with JAX the state as it was."""
    return ({}, given[0]) if len(given) > 1 else {}
