"""Live epsilon of a training run, in every trainer: what was spent, what is left, and a stop before the budget is over.

>>> from fastacct import training
>>> meter = training.Meter(noise_multiplier=1.0, sample_rate=0.01, delta=1e-6, stop_at=2.0)
>>> meter.step()
>>> round(meter.epsilon, 3), meter.remaining
(0.364, 873)

Callbacks are in modules of their own, which import their libraries: `huggingface`, `lightning`, `keras`, `opacus`,
`flower` and `nvflare`.
"""

from fastacct.training.meter import Meter

__all__ = ["Meter"]
