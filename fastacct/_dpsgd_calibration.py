"""Inverses of `fastacct.dpsgd.epsilon`: a parameter from a target (epsilon, delta); public as `fastacct.dpsgd.*`."""

from __future__ import annotations

from typing import Any

from fastacct import _dpsgd_inputs as inputs
from fastacct._arrays import unwrap
from fastacct.accountants import Method

__all__ = ["noise_multiplier", "sample_rate", "steps"]


def noise_multiplier(
    *,
    epsilon: Any,
    delta: Any,
    sample_rate: Any,
    steps: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Smallest noise multiplier that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side: `dpsgd.epsilon` at the value returned is at most `epsilon`, bit for bit, and at (1 - 1e-8)
    times it, it is not (where the bounds are tight; `fastacct.RDP(conversion="optimal")`: about 1e-7).  0 where no
    noise is needed, inf where no noise suffices (delta = 0).  The search covers noise multipliers from 1e-6 to 1e12.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.noise_multiplier(epsilon=3.0, delta=1e-5, sample_rate=0.01, steps=10000), 5)
    1.56497
    """
    known = {"sample_rate": sample_rate, "steps": steps}
    return _calibrate("noise_multiplier", epsilon, delta, known, accountant, neighbors, threads)


def sample_rate(
    *,
    epsilon: Any,
    delta: Any,
    noise_multiplier: Any,
    steps: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Largest sample rate that is certified to satisfy (epsilon, delta).

    **Guarantee.** Safe side, within 1e-8 relative of the boundary; 0 where no rate above 1e-30 satisfies the target.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.dpsgd.sample_rate(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, steps=10000), 6)
    0.005315
    """
    known = {"noise_multiplier": noise_multiplier, "steps": steps}
    return _calibrate("sample_rate", epsilon, delta, known, accountant, neighbors, threads)


def steps(
    *,
    epsilon: Any,
    delta: Any,
    noise_multiplier: Any,
    sample_rate: Any,
    accountant: Method | None = None,
    neighbors: str = "add_remove",
    threads: int | None = None,
) -> Any:
    """Largest number of steps that is certified to satisfy (epsilon, delta), as a float holding a whole number.

    **Guarantee.** Safe side: the number returned satisfies the target, one more does not.  inf where any number does
    (sample_rate = 0); at most 2**53 otherwise.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.dpsgd.steps(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, sample_rate=0.01)
    2666.0
    """
    known = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate}
    return _calibrate("steps", epsilon, delta, known, accountant, neighbors, threads)


def _calibrate(
    wanted: str, epsilon: Any, delta: Any, known: dict[str, Any], accountant: Any, neighbors: Any, threads: Any
) -> Any:
    chosen = inputs.certified(accountant)
    question = inputs.calibration(chosen, wanted, epsilon, delta, known, neighbors, threads)
    return unwrap(chosen.calibrate(question).values)
