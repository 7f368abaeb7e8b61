"""Lightning: a callback for its `Trainer`.

trainer = Trainer(callbacks=[MeterCallback(Meter(loader, noise_multiplier=1.0, delta=1e-6, stop_at=8.0))])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastacct.core.extras import Foreign, import_extra
from fastacct.training.given import go_on, is_new
from fastacct.training.meter import Meter
from fastacct.training.optimizers import private_part, refuse_less_noise, up_to_32_bits, warn_of_seed, warn_of_trained
from fastacct.training.seeds import begin_of, of_noise

pytorch: Foreign = import_extra("lightning.pytorch", "training")


class MeterCallback(pytorch.Callback):  # type: ignore[misc]
    """Records each step of an optimizer before it is taken, logs epsilon, and ends the training where the next exceeds.

    **Guarantee.** That of `Meter`, where the module's steps clip and add noise; this adds none.  Checkpoints keep the
    meter.  An epoch that is resumed counts again: Lightning draws a new order for its rest.  Logs have 32 bits, so that
    epsilon is rounded up to them.  A training that is resumed where no step is left ends without one.

    Parameters
    ----------
    meter : Meter
    adds_noise : bool
        As in `fastacct.training.huggingface.MeterCallback`.
    """

    def __init__(self, meter: Meter, *, adds_noise: bool = False) -> None:
        self.meter, self.adds_noise = meter, adds_noise
        self._batches = 0
        self._seen: object = None
        self._is_resumed = self._begins = False

    def on_train_start(self, trainer: Foreign, pl_module: Foreign) -> None:
        """Refuse other batches, and another number of them a step, than the meter counts."""
        self._batches, self._begins = 0, True  # of a fit that was broken off
        is_manual = not getattr(pl_module, "automatic_optimization", True)  # which adds batches up by itself
        if trainer.accumulate_grad_batches != self.meter.accumulate and not is_manual:
            batches = trainer.accumulate_grad_batches
            raise ValueError(f"the trainer accumulates {batches} batches a step: Meter(accumulate={batches})")
        if trainer.global_step and is_new(self.meter):
            raise ValueError("the checkpoint has no meter: give what was released already as after=")
        self._look(trainer)
        for optimizer in trainer.optimizers:
            refuse_less_noise(optimizer, self.meter.least_noise, adds_noise=self.adds_noise)
            warn_of_seed(optimizer)
        trainer.should_stop |= self._is_resumed and not self.meter.remaining
        self._is_resumed = False

    def on_train_epoch_start(self, trainer: Foreign, pl_module: Foreign) -> None:
        """Tell the meter of the pass, and look at a loader that is made anew."""
        if trainer.train_dataloader is not self._seen:
            self._look(trainer)
        self.meter.epoch()
        self._begins = True

    def _look(self, trainer: Foreign) -> None:
        """Refuse other batches than the meter counts."""
        self._seen = trainer.train_dataloader
        self.meter.refuse_other(self._seen)

    def on_train_batch_start(self, trainer: Foreign, pl_module: Foreign, *given: Foreign, **named: Foreign) -> None:
        """Count the batch."""
        self._batches += 1

    def on_before_optimizer_step(self, trainer: Foreign, pl_module: Foreign, optimizer: Foreign) -> None:
        """Record the step, or refuse it, also where the module has added batches up, or takes one twice."""
        refuse_less_noise(optimizer, self.meter.least_noise, adds_noise=self.adds_noise)
        if not self._batches:
            raise ValueError("a second step on the same batch: a record is in both, and a pass counts it once")
        if self._batches > self.meter.accumulate:
            raise ValueError(
                f"{self._batches} batches were added up for this step, and the meter counts {self.meter.accumulate}: "
                f"Meter(accumulate={self._batches}) for a number that stays the same"
            )
        self._batches = 0
        if self._begins:
            self.meter._draws_from(begin_of(self._seen), of_noise(private_part(optimizer)))
            warn_of_trained(optimizer, self.meter, is_new=is_new(self.meter))
            self._begins = False
        if self.meter.waits:  # resumed inside an epoch
            self.meter.epoch()
        self.meter.step()

    def on_train_batch_end(self, trainer: Foreign, pl_module: Foreign, *given: Foreign, **named: Foreign) -> None:
        """Log epsilon; end the training where no step is left, or where steps are taken that are not seen."""
        is_manual = not getattr(pl_module, "automatic_optimization", True)
        if is_manual and self._batches > self.meter.accumulate:
            raise ValueError(
                f"{self._batches} batches without a step of self.optimizers(): steps of the optimizer itself, as by "
                "use_pl_optimizer=False, are not seen. Say how many batches the module adds up: Meter(accumulate=)"
            )
        pl_module.log("epsilon", up_to_32_bits(self.meter.epsilon), on_step=True, on_epoch=False)
        trainer.should_stop |= not self.meter.remaining

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return self.meter.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Foreign]) -> None:
        """Take over what a checkpoint kept."""
        self._is_resumed = True
        go_on(self.meter, state_dict)
