"""PipelineDP: a budget accountant whose noise is the least that the certified composition of a pipeline allows.

accountant = FastBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)    # instead of PLDBudgetAccountant(...)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any, Final

import fastacct as fa
from fastacct.core.extras import import_extra

pipeline_dp: Any = import_extra("pipeline_dp", "pipelinedp")
budget_accounting: Any = import_extra("pipeline_dp.budget_accounting", "pipelinedp")

__all__ = ["FastBudgetAccountant"]

_LAPLACE: Final = ("LAPLACE", "LAPLACE_THRESHOLDING")
_GAUSSIAN: Final = ("GAUSSIAN", "GAUSSIAN_THRESHOLDING")
_GENERIC: Final = ("GENERIC", "TRUNCATED_GEOMETRIC")
_THRESHOLDS: Final = 0.25
"""Share of delta for thresholds, as in `PLDBudgetAccountant`."""
_ROUNDING: Final = 1.0 + 1e-12
"""What PipelineDP's own conversions of a standard deviation round, many times over."""


class FastBudgetAccountant(budget_accounting.BudgetAccountant):  # type: ignore[misc]
    """Divides a budget (epsilon, delta) over the mechanisms of a pipeline.

    **Guarantee.** Everything requested, run with the noise that `compute_budgets` sets, is
    (total_epsilon, total_delta)-DP where one privacy unit is added or removed: `process` is this job, and
    ``fa.epsilon(process, delta=noise_delta) <= total_epsilon`` has been evaluated (at total_delta = 0 epsilons add up).
    That sensitivities are those requested, and that noise is drawn as set, is for PipelineDP to ensure.

    =====================  ============================================================================================
    mechanism type         what it counts as, at weight w; s is the base noise
    =====================  ============================================================================================
    Laplace, Gaussian      noise of standard deviation s/w times the sensitivity, `count` times
    ... thresholding       the same, and a failure of probability `thresholding_delta` each time it is run
    generic, truncated     any (sqrt(2) w/s, delta)-DP mechanism with delta in proportion to epsilon, `count` times
    geometric
    =====================  ============================================================================================

    Parameters
    ----------
    total_epsilon, total_delta : float
    num_aggregations, aggregation_weights : optional
        As in the other accountants of PipelineDP.

    Attributes
    ----------
    base_noise_std : float or None
        Standard deviation at sensitivity 1 and weight 1.
    """

    def __init__(
        self,
        total_epsilon: float,
        total_delta: float,
        num_aggregations: int | None = None,
        aggregation_weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__(total_epsilon, total_delta, num_aggregations, aggregation_weights)
        if not (math.isfinite(total_epsilon) and math.isfinite(total_delta)):
            raise ValueError(f"the budget must be finite, not {(total_epsilon, total_delta)}")
        self.base_noise_std: float | None = None

    def request_budget(
        self,
        mechanism_type: Any,
        sensitivity: float = 1,
        weight: float = 1,
        count: int = 1,
        noise_standard_deviation: float | None = None,
        name: str = "",
    ) -> Any:
        """A mechanism of the pipeline; its noise is known after `compute_budgets`."""
        if self._finalized:
            raise RuntimeError("request_budget() is called after compute_budgets()")
        if noise_standard_deviation is not None:
            raise NotImplementedError("noise_standard_deviation is not supported: the noise is what is looked for")
        if mechanism_type.name not in (*_LAPLACE, *_GAUSSIAN, *_GENERIC):
            raise ValueError(f"{mechanism_type} is not a known type of mechanism")
        if self._total_delta == 0 and mechanism_type.name not in ("LAPLACE", "GENERIC"):
            raise ValueError(f"{mechanism_type} needs total_delta > 0")
        for what, value in (("sensitivity", sensitivity), ("weight", weight)):
            if not 0 < value < math.inf:
                raise ValueError(f"{what} = {value!r} is out of range; allowed: (0, inf)")
        if isinstance(count, bool) or count != int(count) or count < 1:
            raise ValueError(f"count = {count!r} is out of range; allowed: whole numbers from 1")
        spec = budget_accounting.MechanismSpec(mechanism_type=mechanism_type, name=name, _count=int(count))
        self._register_mechanism(budget_accounting.MechanismSpecInternal(sensitivity, weight, spec))
        return spec

    def compute_budgets(self) -> None:
        """Find the least noise, and hand it to everything that was requested."""
        self._check_aggregation_restrictions()
        if self._scopes_stack:
            raise RuntimeError("compute_budgets() is called within a budget scope")
        self._finalize()
        if not self._mechanisms:
            logging.getLogger(__name__).warning("No budgets were requested.")
            return
        base = self.base_noise_std = self._least_noise()
        for one in self._mechanisms:
            spec, kind = one.mechanism_spec, one.mechanism_spec.mechanism_type
            if kind.name in _GENERIC:
                spec.set_eps_delta(*self._share(base, one))
            else:
                spec.set_noise_standard_deviation(one.sensitivity * base / one.weight * _ROUNDING)
            if kind.is_thresholding_mechanism:
                spec.set_thresholding_delta(self.thresholding_delta)

    @property
    def process(self) -> fa.Process:
        """What the pipeline releases, but for thresholds; known after `compute_budgets`."""
        if self.base_noise_std is None:
            raise RuntimeError("the noise is not known before compute_budgets()")
        return self._job(self.base_noise_std)

    @property
    def noise_delta(self) -> float:
        """What noise may spend of total_delta: all but the probability that a threshold fails."""
        runs = self._threshold_runs()
        if runs == 0:
            return float(self._total_delta)
        left = self._total_delta - runs * self.thresholding_delta * _ROUNDING
        return float(left) * (1.0 - 1e-15)

    @property
    def thresholding_delta(self) -> float:
        """Of every run of a mechanism with a threshold."""
        runs = self._threshold_runs()
        return float(_THRESHOLDS * self._total_delta / runs) if runs else 0.0

    def _least_noise(self) -> float:
        if self._total_delta == 0:  # epsilons add up
            total = math.fsum(one.weight * one.mechanism_spec.count for one in self._mechanisms)
            return float(math.sqrt(2.0) * total / self._total_epsilon * _ROUNDING)
        return fa.calibrate(self._job, epsilon=float(self._total_epsilon), delta=self.noise_delta)

    def _threshold_runs(self) -> int:
        specs = self.mechanism_specs
        return sum(spec.count for spec in specs if spec.mechanism_type.is_thresholding_mechanism)

    def _job(self, base: float) -> fa.Process:
        """The pipeline at this base noise."""
        return fa.Process((self._mechanism(base, one), one.mechanism_spec.count) for one in self._mechanisms)

    def _mechanism(self, base: float, one: Any) -> fa.Mechanism:
        kind = one.mechanism_spec.mechanism_type.name
        if kind in _GENERIC:
            return fa.ApproxDP(*self._share(base, one))
        noise = base / one.weight
        return fa.Laplace(noise / math.sqrt(2.0)) if kind in _LAPLACE else fa.Gaussian(noise)

    def _share(self, base: float, one: Any) -> tuple[float, float]:
        """Epsilon of Laplace noise with this standard deviation, and as much of delta as of epsilon."""
        epsilon = math.sqrt(2.0) * one.weight / base
        return epsilon, min(1.0, epsilon / self._total_epsilon * self.noise_delta)
