"""riskcal: attack risks of a fastacct job under riskcal's names, its evaluators and its accountant.

from fastacct.compat.riskcal import get_advantage, get_beta     # was: get_advantage_from_pld, get_beta_from_pld
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import fastacct as fa
from fastacct.compat.opacus_loaders import drawn_rate
from fastacct.core.extras import import_extra

riskcal: Any = import_extra("riskcal", "riskcal")

__all__ = [
    "FastAccountant",
    "create_dpsgd_evaluator",
    "create_evaluator",
    "find_noise_multiplier_for_advantage",
    "find_noise_multiplier_for_err_rates",
    "get_advantage",
    "get_bayes_risk",
    "get_beta",
]

Job = fa.Mechanism | fa.Process
_REFUSED: Final = (
    "a step of the history is one Poisson sample; take the accountant of fastacct.compat.opacus, and the risks of "
    "fa.advantage and fa.tradeoff from its history"
)


def get_advantage(job: Job, *, neighbors: Any = "add_remove") -> Any:
    """Largest difference of true- and false-positive rate of any attack: a certified upper bound."""
    return fa.advantage(job, neighbors=neighbors)


def get_beta(job: Job, alpha: Any, *, neighbors: Any = "add_remove") -> Any:
    """Smallest false-negative rate of any attack with false-positive rates `alpha`: a certified lower bound.

    As in riskcal it is the symmetric convex curve, which the job's epsilons and deltas describe.
    """
    return fa.tradeoff(job, alpha, neighbors=neighbors, envelope="convex")


def get_bayes_risk(job: Job, prior: Any, *, neighbors: Any = "add_remove") -> Any:
    """Smallest probability of a wrong guess of a member with this prior: a certified lower bound."""
    return fa.bayes_risk(job, members=prior, neighbors=neighbors)


def create_evaluator(
    build: Callable[[float], Job],
    target_alpha: float | None = None,
    target_delta: float | None = None,
    *,
    neighbors: Any = "add_remove",
) -> Callable[[float], Any]:
    """An evaluator for `riskcal.calibration.calibrate_parameter`, from numbers to the risks of `build(number)`.

    **Guarantee.** Certified advantage; with `target_alpha` beta, with `target_delta` epsilon, each on its safe side.
    The number that riskcal's search ends at meets the target up to its tolerance only: `fastacct.calibrate` meets it.
    """
    metrics: Any = riskcal.calibration.PrivacyMetrics

    def evaluator(parameter_value: float) -> Any:
        job = build(parameter_value)
        found = metrics(advantage=get_advantage(job, neighbors=neighbors))
        if target_alpha is not None:
            found.alpha, found.beta = target_alpha, get_beta(job, target_alpha, neighbors=neighbors)
        if target_delta is not None:
            found.delta, found.epsilon = target_delta, fa.epsilon(job, delta=target_delta, neighbors=neighbors)
        return found

    return evaluator


def create_dpsgd_evaluator(
    sample_rate: float,
    num_steps: int,
    grid_step: float | None = None,
    target_alpha: float | None = None,
) -> Callable[[float], Any]:
    """riskcal's evaluator of DP-SGD, from noise multipliers to risks; `grid_step` is not needed."""
    return create_evaluator(lambda noise: _run(noise, sample_rate, num_steps), target_alpha)


def find_noise_multiplier_for_advantage(
    advantage: float,
    sample_rate: float,
    num_steps: int,
    grid_step: float | None = None,
    advantage_tol: float | None = None,
    noise_min: float = 0.1,
    noise_max: float = 50.0,
) -> float:
    """Smallest noise multiplier with which no attack on DP-SGD has a larger advantage; no tolerance is used up.

    **Guarantee.** `get_advantage` at the value returned is at most `advantage`.  ValueError where no value is.
    """
    return fa.calibrate(
        lambda noise: _run(noise, sample_rate, num_steps), advantage=advantage, bracket=_ends(noise_min, noise_max)
    )


def find_noise_multiplier_for_err_rates(
    alpha: float,
    beta: float,
    sample_rate: float,
    num_steps: int,
    grid_step: float | None = None,
    beta_tol: float | None = None,
    noise_min: float = 0.1,
    noise_max: float = 50.0,
) -> float:
    """Smallest noise multiplier with which every attack on DP-SGD at `alpha` misses at least `beta`.

    **Guarantee.** `get_beta` at the value returned is at least `beta`; riskcal's search may end below.  ValueError
    where no value is.
    """

    def curve(noise: float) -> float:
        return float(get_beta(_run(noise, sample_rate, num_steps), alpha))

    low, high = _ends(noise_min, noise_max)
    if not curve(high) >= beta:
        raise ValueError(f"beta = {beta!r} is not met up to noise_max = {noise_max!r}")
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if curve(middle) >= beta else (middle, high)
    return high


class FastAccountant(riskcal.accountants.CTDAccountant):  # type: ignore[misc]
    """riskcal's `CTDAccountant`, with certified answers; it also fits its calibration with accountants.

    **Guarantee.** As `fastacct.epsilon`, `get_beta` and `get_advantage`, for Poisson samples under "add_remove".
    Settings of a grid are accepted and not needed.  With Opacus, other loaders and steps on several batches are
    refused: `fastacct.compat.opacus` answers them.
    """

    @property
    def process(self) -> fa.Process:
        """Everything recorded so far."""
        return fa.Process([(fa.Gaussian(noise).poisson(rate), steps) for noise, rate, steps in self.history])

    def get_epsilon(self, *, delta: float, grid_step: Any = None, use_connect_dots: Any = None) -> float:
        """Certified upper bound of epsilon."""
        return float(fa.epsilon(self.process, delta=delta))

    def get_beta(self, *, alpha: Any, grid_step: Any = None, use_connect_dots: Any = None) -> Any:
        """Certified lower bound of the false-negative rate."""
        return get_beta(self.process, alpha)

    def get_advantage(self, *, grid_step: Any = None, use_connect_dots: Any = None) -> float:
        """Certified upper bound of the advantage."""
        return float(get_advantage(self.process))

    def get_pld(self, grid_step: float = 1e-4, use_connect_dots: bool = True) -> Any:
        """A pessimistic PLD object of dp_accounting; what is computed of it is not certified."""
        from fastacct.compat.dp_accounting import to_dp_accounting

        return to_dp_accounting(self.process, spacing=grid_step)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """A function that records each step of an optimizer of Opacus, at the rate that its loader draws with.

        Raises
        ------
        ValueError
            With poisson_sampling=False, and later for steps on several batches: a record may be in more than one.
        """
        frame = inspect.currentframe()
        caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
        if not caller.get("poisson_sampling", True):
            raise ValueError(f"poisson_sampling=False: {_REFUSED}")

        def record(optimizer: Any) -> None:
            if optimizer.accumulated_iterations != 1:
                raise ValueError(f"a step on {optimizer.accumulated_iterations} batches: {_REFUSED}")
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=drawn_rate(sample_rate))

        return record

    @classmethod
    def mechanism(cls) -> str:
        """Name in saved states."""
        return "fastacct"


def _run(noise: float, rate: float, steps: int) -> fa.Process:
    return fa.Gaussian(noise).poisson(rate) * steps


def _ends(low: float, high: float) -> tuple[float, float]:
    if not 0.0 < low < high < np.inf:
        raise ValueError(f"noise_min = {low!r} and noise_max = {high!r} must be positive and increasing")
    return float(low), float(high)
