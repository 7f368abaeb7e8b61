"""What callbacks see of an optimizer that adds noise, as those of Opacus do, and what they log in 32 bits."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Iterable
from typing import Final

import numpy as np

from fastacct.core.extras import Foreign

_TRAINED: Final[dict[int, tuple[Foreign, object]]] = {}
"""Who counts the steps on a model, by the id of its first parameter, which is held weakly: tensors are no keys."""
_OWN: Final = ("add_noise", "pre_step", "clip_and_accumulate")  # of Opacus
_UNSEEDED: Final = 67280421310721
"""What a torch.Generator has that nobody seeded; that of PyTorch itself is drawn anew."""


def private_part(optimizer: Foreign, inside: str = "optimizer") -> Foreign:
    """The optimizer that adds noise, below what trainers wrap it in; None where no such one is known."""
    for _ in range(8):
        if optimizer is None or hasattr(optimizer, "noise_multiplier"):
            break
        optimizer = getattr(optimizer, inside, None)
    return optimizer


def refuse_less_noise(optimizer: Foreign, noise_multiplier: float, *, adds_noise: bool = False) -> None:
    """ValueError where an optimizer adds less noise than is counted, or its methods were replaced.

    With `adds_noise` one of which nothing is known is taken for what it is said to be: its steps have that noise.
    """
    if (own := private_part(optimizer)) is None:
        if adds_noise:
            return
        inner = getattr(optimizer, "optimizer", optimizer)
        raise ValueError(
            f"{type(inner).__name__} adds no noise: no epsilon holds. Make the training private, as with Opacus: "
            "GradSampleModule(model) and DPOptimizer(optimizer, noise_multiplier=..., max_grad_norm=..., "
            "expected_batch_size=...): docs/howto/training.md. If your steps clip and add the noise elsewhere, say so: "
            "MeterCallback(meter, adds_noise=True)"
        )
    if getattr(own, "_is_last_step_skipped", False) or any(getattr(own, "_step_skip_queue", ())):
        raise ValueError(
            "signal_skip_step adds batches up, and a meter counts each: add them up by the trainer, Meter(accumulate=)"
        )
    if "FastGradientClipping" in type(own).__name__ and not adds_noise:
        raise ValueError(
            "ghost clipping clips in the loss that make_private returns, and a trainer takes its own: nothing is "
            "clipped. Take GradSampleModule and DPOptimizer; if your loss clips, MeterCallback(meter, adds_noise=True)"
        )
    refuse_less(own, noise_multiplier, "optimizer")
    refuse_replaced(own)


def refuse_less(own: Foreign, noise_multiplier: float, what: str) -> None:
    """ValueError where what adds the noise adds less than is counted."""
    if not own.noise_multiplier >= noise_multiplier:
        counted = f"and noise_multiplier = {noise_multiplier!r} is counted"
        raise ValueError(f"noise_multiplier = {own.noise_multiplier!r} is what the {what} has now, {counted}")


def refuse_replaced(optimizer: Foreign) -> None:
    """ValueError for an optimizer of Opacus whose methods that clip and add noise were replaced, or that tells more."""
    if hasattr(optimizer, "unclipped_num_std"):
        raise ValueError(
            "the optimizer counts the gradients that it does not clip, and moves its clipping norm by that: this is a "
            'release of its own, and nothing is proved of it: take a fixed clipping norm, clipping="flat"'
        )
    if type(optimizer).__module__.startswith("opacus.") and (name := replaced(optimizer, "opacus.", _OWN)):
        raise ValueError(f"{name} of the optimizer was replaced: nothing is known of its noise")


def replaced(thing: Foreign, home: str, names: Iterable[str]) -> str:
    """The first of these methods that is not the library's own; "" where all are."""
    for name in names:
        if name in vars(thing) or not str(getattr(getattr(type(thing), name, None), "__module__", "")).startswith(home):
            return name
    return ""


def warn_of_seed(optimizer: Foreign) -> None:
    """Warn where noise is drawn from a seed that somebody may know."""
    torch: Foreign = sys.modules.get("torch")
    own = private_part(optimizer)
    if own is None or torch is None or getattr(own, "secure_mode", False):
        return
    generator = getattr(own, "generator", None)
    seed = int((torch if generator is None else generator).initial_seed())
    if seed < 2**32 or seed == _UNSEEDED:
        warnings.warn(
            f"the noise is drawn from the seed {seed}: who knows it can take the noise away, and no epsilon holds for "
            "them. Give the noise a generator of its own, secret = torch.Generator(device); secret.seed(): "
            "DPOptimizer(..., generator=secret), or make_private(..., noise_generator=secret)",
            stacklevel=4,
        )


def warn_of_trained(optimizer: Foreign, by: object, *, is_new: bool) -> None:
    """Warn where another count has steps on what an optimizer moves, and this one begins at none: a cell run twice."""
    first = next((one for group in getattr(optimizer, "param_groups", ()) for one in group["params"]), None)
    if first is None:
        return
    held, before = _TRAINED.get(id(first), (None, by))
    if is_new and held is not None and held() is first and before is not by:
        warnings.warn(
            "this model was trained under another meter, and this one begins at 0: what is logged is not the epsilon "
            "of the model. Make the model anew, go on with that meter, or give what was released already as after=",
            stacklevel=4,
        )
    _TRAINED[id(first)] = weakref.ref(first), by


def up_to_32_bits(number: float) -> float:
    """The least number of 32 bits that is not below.

    >>> up_to_32_bits(8.385418924) - 8.385418924 > 0, up_to_32_bits(0.5)
    (True, 0.5)
    """
    near = np.float32(number)
    return float(near if float(near) >= number else np.nextafter(near, np.float32(np.inf)))
