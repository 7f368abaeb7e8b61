"""Noise as textbooks and lectures calibrate it, under the conditions that their proofs need, to compare with.

For numbers to use take `fa.calibrate` or `fa.dpsgd.noise_multiplier`.
"""

from __future__ import annotations

from typing import Final, overload

import numpy as np

from fastacct.core.inputs import Domain, Floats, Real, Reals, as_common, unwrap

__all__ = ["dpsgd_noise", "dpsgd_smallest_steps", "gaussian_noise_multiplier", "laplace_noise_multiplier"]

_UP: Final = 1.0 + 1e-14
_EPSILON: Final = Domain(0.0, 1.0, open_low=True)
_ANY_EPSILON: Final = Domain(0.0, np.inf, open_low=True)
_DELTA: Final = Domain(0.0, 1.0, open_low=True)
_COUNT: Final = Domain(1.0, 2.0**53 - 1.0, integer=True)
_LIPSCHITZ: Final = Domain(0.0, 1e150, open_low=True)


@overload
def laplace_noise_multiplier(epsilon: Real) -> float: ...
@overload
def laplace_noise_multiplier(epsilon: Reals) -> Floats: ...
def laplace_noise_multiplier(epsilon: Reals) -> float | Floats:
    """Scale over L1 sensitivity of the Laplace mechanism, 1/epsilon; the standard deviation is sqrt(2) times that."""
    (e,) = as_common(epsilon=(epsilon, _ANY_EPSILON))
    return unwrap(np.asarray(1.0 / e * _UP))


@overload
def gaussian_noise_multiplier(epsilon: Real, delta: Real) -> float: ...
@overload
def gaussian_noise_multiplier(epsilon: Reals, delta: Reals) -> Floats: ...
def gaussian_noise_multiplier(epsilon: Reals, delta: Reals) -> float | Floats:
    """sqrt(2 log(1.25/delta))/epsilon, for epsilon <= 1 only.

    **Guarantee.** (epsilon, delta)-DP.  The proof (Dwork, Roth 2014, theorem A.1) needs epsilon < 1; that it holds at 1
    has been checked against the exact curve.  Larger epsilons are refused: from epsilon = 8.42 at delta = 1e-5 on the
    formula gives too little noise.

    Examples
    --------
    >>> import fastacct as fa
    >>> classic = fa.classical.gaussian_noise_multiplier(1.0, 1e-5)
    >>> exact = fa.calibrate(fa.Gaussian, epsilon=1.0, delta=1e-5)
    >>> round(classic, 4), round(exact, 4)
    (4.8448, 3.7306)
    """
    e, d = as_common(epsilon=(epsilon, _EPSILON), delta=(delta, _DELTA))
    return unwrap(np.asarray(np.sqrt(2.0 * np.log(1.25 / d)) / e * _UP))


@overload
def dpsgd_smallest_steps(epsilon: Real, delta: Real, size: Real, batch: Real = 1) -> int: ...
@overload
def dpsgd_smallest_steps(epsilon: Reals, delta: Reals, size: Reals, batch: Reals = 1) -> Floats: ...
def dpsgd_smallest_steps(epsilon: Reals, delta: Reals, size: Reals, batch: Reals = 1) -> int | Floats:
    """Number of steps from which the proof of `dpsgd_noise` holds: size^2 epsilon^2 / (32 batch^2 log(2/delta)).

    >>> dpsgd_smallest_steps(1.0, 1e-6, 1000)
    2154
    """
    e, d, n, m = as_common(
        epsilon=(epsilon, _EPSILON), delta=(delta, _DELTA), size=(size, _COUNT), batch=(batch, _COUNT)
    )
    found = np.maximum(np.ceil((n * e / m) ** 2 / (32.0 * np.log(2.0 / d)) * _UP), 1.0)
    return int(found) if found.ndim == 0 else found


@overload
def dpsgd_noise(
    epsilon: Real, delta: Real, steps: Real, size: Real, lipschitz: Real = 1.0, batch: Real = 1
) -> float: ...
@overload
def dpsgd_noise(
    epsilon: Reals, delta: Reals, steps: Reals, size: Reals, lipschitz: Reals = 1.0, batch: Reals = 1
) -> Floats: ...
def dpsgd_noise(
    epsilon: Reals, delta: Reals, steps: Reals, size: Reals, lipschitz: Reals = 1.0, batch: Reals = 1
) -> float | Floats:
    """Standard deviation of the noise on an average gradient, as the lectures give it for private SGD.

    16 lipschitz sqrt(steps log(2/delta) log(2.5 batch steps/(delta size))) / (size epsilon), from amplification by
    sampling and advanced composition (Bassily, Smith, Thakurta 2014, constants of Bellet's lecture).

    For epsilon <= 1 and at least `dpsgd_smallest_steps` steps, as its proof needs.  Fewer steps are refused: without
    that condition the statement is false (size 1000, one step, epsilon 1, delta 1e-6: the true delta is 1e-3).  The
    logarithm contains the 2 batch that the slides drop.  A formula to compare with, not a certified number.

    Raises
    ------
    ValueError
        Where a condition does not hold.

    Examples
    --------
    >>> import fastacct as fa
    >>> sigma = fa.classical.dpsgd_noise(1.0, 1e-6, steps=10**6, size=1000)
    >>> run = fa.Gaussian(sigma / 2.0).poisson(1 / 1000) * 10**6  # gradients of norm 1, one replaced: moved by 2
    >>> fa.epsilon(run, delta=1e-6) < 0.05  # asked for: 1
    True
    """
    e, d, t, n, m, length = as_common(
        epsilon=(epsilon, _EPSILON),
        delta=(delta, _DELTA),
        steps=(steps, _COUNT),
        size=(size, _COUNT),
        batch=(batch, _COUNT),
        lipschitz=(lipschitz, _LIPSCHITZ),
    )
    if (bad := m > n).any():
        raise ValueError(f"batch = {float(m[bad].flat[0]):g} is larger than size = {float(n[bad].flat[0]):g}")
    least = np.asarray(dpsgd_smallest_steps(e, d, n, m))
    if (bad := t < least).any():
        at = np.flatnonzero(bad.ravel())[0]
        where = f" (index {tuple(int(i) for i in np.unravel_index(at, bad.shape))})" if bad.ndim else ""
        wanted = int(np.broadcast_to(least, t.shape).ravel()[at])
        raise ValueError(
            f"steps = {int(t.ravel()[at])}{where}: the formula is proved from {wanted} steps on; "
            "use fastacct.dpsgd.noise_multiplier"
        )
    inner = np.maximum(2.5 * m * t / (d * n), 1.25)
    return unwrap(np.asarray(16.0 * length * np.sqrt(t * np.log(2.0 / d) * np.log(inner)) / (n * e) * _UP))
