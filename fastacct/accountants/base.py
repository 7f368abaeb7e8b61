"""What every accountant is: frozen settings that answer what they can and refuse the rest with a message."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np

from fastacct.core.bounds import Bounds
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import Cells, Codes
from fastacct.core.record import Compared
from fastacct.core.relations import Relation

if TYPE_CHECKING:
    from fastacct.mechanisms.base import Run
    from fastacct.mechanisms.process import Process, Sampled
    from fastacct.readers.asked import Ask, Settings
    from fastacct_ext._kernels import Task

Wanted = Literal["noise_multiplier", "sample_rate", "steps"]
"""What a calibration may ask for: the parameter of a run that just meets (epsilon, delta)."""
_PARAMETERS: Final = ("noise_multiplier", "sample_rate", "steps")
Fixed = tuple[Cells, ...]
"""Of a calibration: epsilon, and of noise_multiplier, sample_rate, steps the two that are not wanted, in this order."""


class Method(Compared):
    """Base of all accountants: settings that say how a job is evaluated, or a refusal with a message.

    Examples
    --------
    >>> import fastacct as fa
    >>> [isinstance(one, fa.Method) for one in (fa.Exact(), fa.RDP(), fa.PLD())], fa.CLT().certified
    ([True, True, True], False)
    """

    certified: ClassVar[bool] = True
    """Whether the answers are proved upper bounds; the others are reached through `*_approx` functions only."""

    def bounds(self, job: Process, ask: Ask) -> Bounds:
        """Certified bounds of epsilon or delta; lower ones are 0 where only upper ones are asked for."""
        self._refuse_lower(ask)
        run = self._sampled(job, ask.relation).run
        if run is None:
            raise self.cannot(f"{ask.quantity} of a heterogeneous history")
        return Bounds(np.zeros(ask.shape), *self._upper(run, ask))

    def calibrate(self, wanted: Wanted, fixed: Fixed, ask: Ask) -> Cells | None:
        """The parameter wanted at the deltas asked, on the safe side of the boundary; None: no kernel finds it."""
        return None

    def with_order(self, job: Process, ask: Ask) -> tuple[Cells, Codes, Cells]:
        """Upper bounds, and the order of the Rényi divergence at which each was found."""
        raise ValueError(f"accountant {type(self).__name__} has no orders; use fastacct.RDP()")

    def reading(self, job: Process, ask: Ask) -> tuple[str, Settings | None]:
        """What answers a question of plain numbers; or what it asks the readers of a cell to do."""
        return f"{type(self).__name__}, a formula of its own", None

    def cannot(self, what: str) -> ValueError:
        """The error of an accountant that does not offer something."""
        return ValueError(f"accountant {type(self).__name__} does not offer {what}; use fastacct.Exact()")

    def _upper(self, run: Run, ask: Ask) -> tuple[Cells, Codes]:
        """Epsilon or delta of one sampled Gaussian."""
        raise self.cannot(ask.quantity)

    def _refuse_lower(self, ask: Ask) -> None:
        if not ask.only_upper:
            raise ValueError(f"accountant {type(self).__name__} proves no lower bound; use fastacct.Exact()")

    def _sampled(self, job: Process, relation: Relation) -> Sampled:
        """The sampled Gaussians that a job consists of, or a refusal."""
        if (runs := job.sampled(relation)) is not None:
            return runs
        other = next(kind for kind, _ in job.decompose(relation) if kind.sampled_gaussian(relation) is None)
        raise ValueError(
            f"accountant {type(self).__name__} covers Gaussians and their Poisson samples, not {other!r} "
            f"under neighbors = {relation!r}; use fastacct.Exact()"
        )


def by_kernel(kernel: Callable[..., Task], wanted: Wanted, fixed: Fixed, ask: Ask, per_task: int = 256) -> Cells:
    """Calibrate all cells by a kernel, which is told how."""
    held = dict(zip((name for name in _PARAMETERS if name != wanted), fixed[1:], strict=True))
    (values,), _ = run_kernel(partial(kernel, fixed[0], ask.target, **held), ask.shape, 1, ask.threads, per_task)
    return values
