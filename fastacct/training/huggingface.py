"""Hugging Face: a callback for `transformers.Trainer`.

from fastacct.training import Meter, huggingface
meter = Meter(trainer, noise_multiplier=1.0, delta=1e-6, neighbors="zero_out", stop_at=8.0)
huggingface.MeterCallback(meter).attach(trainer)
"""

from __future__ import annotations

from typing import Any, Final

from fastacct.core.extras import Foreign, import_extra
from fastacct.training.given import go_on, is_new
from fastacct.training.meter import Meter
from fastacct.training.optimizers import private_part, refuse_less_noise, warn_of_seed, warn_of_trained
from fastacct.training.seeds import begin_of, of_noise

_callback: Foreign = import_extra("transformers.trainer_callback", "training")
_NAME: Final = "MeterCallback"


class MeterCallback(_callback.TrainerCallback, _callback.ExportableState):  # type: ignore[misc]
    """Records each step of the optimizer before it is taken, and ends the training where the next would exceed.

    **Guarantee.** That of `Meter`, where the Trainer's steps clip and add noise; this adds none.  Checkpoints keep the
    meter; of another training, what it counted is added.  A training that is resumed inside an epoch goes on with it
    where its rest comes in the same order: by Accelerate's sampler with the same seed, on data of which you say so.
    Else the epoch counts again.

    Epsilon is in each log of the Trainer, and in every logger that hears it after `attach`.  A training that is resumed
    where no step is left ends without one.

    Parameters
    ----------
    meter : Meter
    adds_noise : bool
        Whether the steps clip and add the noise otherwise than by an optimizer that has a `noise_multiplier`, as those
        of Opacus do.  Other optimizers are refused without it.
    same_data : bool
        Whether a training that is resumed has the same records at the same places as before.  A fingerprint that
        `datasets` keeps is compared, too.
    """

    def __init__(self, meter: Meter, *, adds_noise: bool = False, same_data: bool = False) -> None:
        self.meter, self.adds_noise, self.same_data = meter, adds_noise, same_data
        self._order: list[str] | None = None
        self._resumes = self._begins = self._is_resumed = self._is_over = False

    def attach(self, trainer: Foreign) -> None:
        """Put this before the callbacks that the trainer has, so that its loggers log epsilon."""
        trainer.callback_handler.callbacks.insert(0, self)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"args": {}, "attributes": {"meter": self.meter.state_dict(), "order": self._order}}

    @classmethod
    def from_state(cls, state: Foreign) -> MeterCallback:
        """Refuse: `restore_callback_states_from_checkpoint` is not needed, and would lose the meter."""
        raise ValueError("leave restore_callback_states_from_checkpoint out: the meter restores itself")

    def on_train_begin(self, args: Foreign, state: Foreign, control: Foreign, **kwargs: Foreign) -> None:
        """Take over what a checkpoint kept."""
        if args.gradient_accumulation_steps != self.meter.accumulate:
            steps = args.gradient_accumulation_steps
            raise ValueError(f"the trainer accumulates {steps} batches a step: Meter(accumulate={steps})")
        if (loader := kwargs.get("train_dataloader")) is not None:
            self.meter.refuse_other(loader)
        refuse_less_noise(kwargs.get("optimizer"), self.meter.least_noise, adds_noise=self.adds_noise)
        warn_of_seed(kwargs.get("optimizer"))
        self._order, kept = _order(kwargs.get("train_dataloader")), None
        if state.global_step:
            kept = state.stateful_callbacks.get(_NAME)
            if kept is None:
                raise ValueError("the checkpoint has no meter: give what was released already as after=")
            kept = _own(kept if isinstance(kept, list) else [kept], self.meter)
            go_on(self.meter, kept["meter"])
        same = self.same_data and kept is not None and kept["order"] is not None and kept["order"] == self._order
        self._is_resumed, self._is_over = kept is not None, False
        self._resumes = same and self.meter.was_open and not args.ignore_data_skip

    def on_epoch_begin(self, args: Foreign, state: Foreign, control: Foreign, **kwargs: Foreign) -> None:
        """Tell the meter of the pass."""
        self.meter.epoch(goes_on=self._resumes)
        self._resumes, self._begins = False, True

    def on_pre_optimizer_step(self, args: Foreign, state: Foreign, control: Foreign, **kwargs: Foreign) -> None:
        """Record the step, or refuse it."""
        optimizer: Foreign = kwargs.get("optimizer")
        if self._is_resumed and not self.meter.remaining and hasattr(optimizer, "gradient_state"):
            self._is_over = True
            optimizer.gradient_state._set_sync_gradients(False)  # Accelerate's optimizer takes no step then
            return
        refuse_less_noise(optimizer, self.meter.least_noise, adds_noise=self.adds_noise)
        if self._begins:
            self.meter._draws_from(begin_of(kwargs.get("train_dataloader")), of_noise(private_part(optimizer)))
            warn_of_trained(optimizer, self.meter, is_new=is_new(self.meter))
            self._begins = False
        self.meter.step()
        self._is_resumed = False

    def on_optimizer_step(self, args: Foreign, state: Foreign, control: Foreign, **kwargs: Foreign) -> None:
        """Clear what Opacus keeps of a step: the Trainer clears the gradients of the model alone."""
        own = private_part(kwargs.get("optimizer"))
        if type(own).__module__.startswith("opacus."):
            own.zero_grad()

    def on_step_end(self, args: Foreign, state: Foreign, control: Foreign, **kwargs: Foreign) -> Any:
        """End the training where no step is left."""
        state.global_step -= self._is_over  # of a step that was not taken
        control.should_training_stop |= not self.meter.remaining
        return control

    def on_log(self, args: Foreign, state: Foreign, control: Foreign, logs: Foreign = None, **kwargs: Foreign) -> None:
        """Add epsilon to what is logged."""
        for one in (logs, state.log_history[-1] if state.log_history else None):
            if one is not None:
                one["epsilon"] = self.meter.epsilon


def _own(kept: list[Foreign], meter: Meter) -> Foreign:
    """What a checkpoint kept of a meter: of several of this run, as for two deltas, the one that has counted most."""
    found = [one["attributes"] for one in kept]
    own = [one for one in found if one["meter"].get("run") == meter._words()]
    return max(own or found, key=lambda one: float(one["meter"].get("steps", 0)))


def _order(loader: Foreign) -> list[str] | None:
    """The seed of Accelerate's sampler, which fixes the order of each epoch, and what data tell; None for others."""
    sampler: Foreign = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    if type(sampler).__name__ != "SeedableRandomSampler":
        return None
    return [str(sampler.initial_seed), str(getattr(loader.dataset, "_fingerprint", ""))]
