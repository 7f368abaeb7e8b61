"""The privacy report and the calibration of tensorflow_privacy, certified; neither it nor TensorFlow is needed.

from fastacct.compat.tf_privacy import compute_dp_sgd_privacy_statement   # was: from tensorflow_privacy import ...
"""

from __future__ import annotations

import enum
import math
import textwrap
import warnings
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Final

import numpy as np

import fastacct as fa

__all__ = [
    "AccountantType",
    "PoissonWarning",
    "apply_dp_sgd_analysis",
    "compute_dp_sgd_privacy",
    "compute_dp_sgd_privacy_statement",
    "compute_noise",
]

_ORDERS: Final = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *map(float, range(5, 64)), 128.0, 256.0, 512.0)
"""Rényi orders that tensorflow_privacy searches."""


class PoissonWarning(UserWarning):
    """A number holds for Poisson samples, which loaders of TensorFlow do not draw."""


class AccountantType(enum.Enum):
    """How epsilon is computed: EXACT is never above the others."""

    EXACT = "exact"
    RDP = "RDP"
    PLD = "PLD"

    def get_accountant(self) -> fa.Method:
        """The accountant of fastacct."""
        return {"exact": fa.Exact(), "RDP": fa.RDP(), "PLD": fa.PLD()}[self.value]


def compute_dp_sgd_privacy_statement(
    number_of_examples: int,
    batch_size: int,
    num_epochs: float,
    noise_multiplier: float,
    delta: float,
    used_microbatching: bool = True,
    max_examples_per_user: int | None = None,
    accountant_type: AccountantType = AccountantType.EXACT,
) -> str:
    """A report of what DP-SGD guarantees, and of what the loader must do for it.

    **Guarantee.** Every epsilon is a certified upper bound, rounded up to three decimals.

    Parameters
    ----------
    number_of_examples, batch_size : int
    num_epochs : float
        Read from its decimal digits; numbers of steps are rounded up.
    noise_multiplier : float
        Standard deviation of the noise divided by the clipping norm.
    delta : float
    used_microbatching : bool
        If True, the sensitivity is twice the clipping norm: a record that is added or removed changes the average of
        its microbatch, which is what is clipped.
    max_examples_per_user : int, optional
        Largest number of examples of one user; adds the guarantee of a user.
    accountant_type : AccountantType

    Returns
    -------
    str
    """
    rate, steps = _schedule(number_of_examples, batch_size, num_epochs)
    step = fa.Gaussian(0.5 * noise_multiplier if used_microbatching else noise_multiplier)
    method = AccountantType(accountant_type).get_accountant()

    def epsilons(size: int) -> str:
        """One epsilon for batches of any order, one for Poisson samples."""
        jobs = step.group(size) * math.ceil(_exact(num_epochs)), step.poisson(rate).group(size) * steps
        any_order, sampled = (_rounded_up(float(fa.epsilon(job, delta=delta, accountant=method))) for job in jobs)
        return (
            f"    Epsilon with each example occurring once per epoch:  {any_order:>12}\n"
            f"    Epsilon if the loader draws Poisson samples (*):     {sampled:>12}"
        )

    def heading(level: str) -> str:
        text = f"{level}-level DP with add-or-remove-one adjacency at delta = {delta}, by {method!r}, rounded up:"
        return textwrap.fill(text, width=80)

    microbatching = "with" if used_microbatching else "without"
    users = (
        "and no bound on number of examples per user."
        if max_examples_per_user is None
        else f"and at most {max_examples_per_user} examples per user."
    )
    paragraphs = [
        f"DP-SGD performed over {number_of_examples} examples with {batch_size} examples per iteration, noise "
        f"multiplier {noise_multiplier} for {num_epochs} epochs {microbatching} microbatching, {users}",
        "This privacy guarantee protects the release of all model checkpoints in addition to the final model.",
    ]
    text = [textwrap.fill(paragraph, width=80) for paragraph in paragraphs]
    text.append(f"{heading('Example')}\n{epsilons(1)}")
    if max_examples_per_user is None:
        no_bound = "No user-level privacy guarantee is possible without a bound on the number of examples per user."
        text.append(textwrap.fill(no_bound, width=80))
    else:
        text.append(f"{heading('User')}\n{epsilons(max_examples_per_user)}")
    sampling = (
        f"(*) The loader must draw Poisson samples: each example joins each of the {steps} steps independently of all "
        f"else with probability {batch_size}/{number_of_examples}. For batches of shuffled data this number does not "
        "hold: their epsilon is larger, unless there is very little noise. The number above it holds for data in any "
        "order, if each example is in one batch of an epoch and no other example moves when one is added or removed."
    )
    text.append(textwrap.fill(sampling, width=80))
    return "\n\n".join(text) + "\n"


def compute_dp_sgd_privacy(
    n: int, batch_size: int, noise_multiplier: float, epochs: float, delta: float
) -> tuple[float, float]:
    """Epsilon of DP-SGD on Poisson samples without microbatching, and the best Rényi order.

    **Guarantee.** Epsilon is a certified upper bound by `fastacct.Exact()`, below what the order proves.  A
    `PoissonWarning` says that it holds for no other batches.
    """
    _warn()
    rate, steps = _schedule(n, batch_size, epochs)
    job = fa.Gaussian(noise_multiplier).poisson(rate) * steps
    _, order = apply_dp_sgd_analysis(rate, noise_multiplier, steps, _ORDERS, delta)
    return float(fa.epsilon(job, delta=delta)), order


def apply_dp_sgd_analysis(
    q: float, sigma: float, steps: int, orders: Sequence[float], delta: float
) -> tuple[float, float]:
    """Epsilon by the Rényi divergences at some orders, and the best of these.

    **Guarantee.** Epsilon is a certified upper bound.  Nothing is printed.
    """
    given = np.array(orders, dtype=np.float64)
    divergences = np.asarray(fa.rdp(fa.Gaussian(sigma).poisson(q) * steps, given))
    each = np.asarray(fa.convert.rdp_to_epsilon(given, divergences, delta))
    best = int(np.argmin(each))
    return float(each[best]), float(given[best])


def compute_noise(
    n: int, batch_size: int, target_epsilon: float, epochs: float, delta: float, noise_lbd: float
) -> float:
    """Smallest noise multiplier, from `noise_lbd` on, with which DP-SGD on Poisson samples meets a target.

    **Guarantee.** The certified epsilon at the value returned is at most `target_epsilon`.  Where `noise_lbd` itself
    meets the target it is returned; tensorflow_privacy returns 0.  Nothing is printed, but a `PoissonWarning` says that
    it holds for no other batches.
    """
    _warn()
    rate, steps = _schedule(n, batch_size, epochs)
    least = fa.dpsgd.noise_multiplier(epsilon=target_epsilon, delta=delta, sample_rate=rate, steps=steps)
    return max(float(least), float(noise_lbd))


def _warn() -> None:
    warnings.warn(
        "the number holds for Poisson samples alone, which shuffled batches are not: "
        'fa.dpsgd.epsilon(..., sampling="shuffled", neighbors="zero_out") has theirs',
        PoissonWarning,
        stacklevel=3,
    )


def _schedule(examples: int, batch_size: int, epochs: float) -> tuple[float, int]:
    """Sample rate, never rounded down, and number of steps."""
    if not 1 <= batch_size <= examples < math.inf or batch_size != int(batch_size) or examples != int(examples):
        raise ValueError(f"batch_size = {batch_size!r} must be a whole number from 1 to {examples!r}, the examples")
    share = Fraction(int(batch_size), int(examples))
    rate = float(share)
    return rate if Fraction(rate) >= share else math.nextafter(rate, 1.0), math.ceil(_exact(epochs) / share)


def _exact(epochs: float) -> Fraction:
    if not 0 < epochs < math.inf:
        raise ValueError(f"epochs = {epochs!r} is out of range; allowed: above 0")
    return Fraction(str(epochs))


def _rounded_up(value: float) -> str:
    return "inf" if math.isinf(value) else str(Decimal(value).quantize(Decimal("0.001"), ROUND_CEILING))
