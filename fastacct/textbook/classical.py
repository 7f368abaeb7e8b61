"""Noise as textbooks and lectures calibrate it, under the conditions that their proofs need, to compare with.

For numbers to use take `fa.calibrate` or `fa.dpsgd.noise_multiplier`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fastacct.core.inputs import COUNT, SHARE, Domain, Floats, Reals, as_common, unwrap
from fastacct.core.words import told_names

__all__ = ["dpsgd_noise_multiplier", "gaussian_noise_multiplier", "laplace_noise_multiplier"]

_UP: Final = 1.0 + 1e-14


@told_names
def laplace_noise_multiplier(epsilon: Reals) -> float | Floats:
    """Scale over L1 sensitivity of the Laplace mechanism, 1/epsilon; the standard deviation is sqrt(2) times that.

    Examples
    --------
    >>> import fastacct as fa
    >>> round(fa.classical.laplace_noise_multiplier(0.5), 9)
    2.0
    """
    (e,) = as_common(epsilon=(epsilon, Domain(0.0, np.inf, open_low=True)))
    return unwrap(np.asarray(1.0 / e * _UP))


@told_names
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
    e, d = as_common(epsilon=(epsilon, SHARE), delta=(delta, SHARE))
    return unwrap(np.asarray(np.sqrt(2.0 * np.log(1.25 / d)) / e * _UP))


@told_names
def dpsgd_noise_multiplier(
    epsilon: Reals, delta: Reals, *, records: Reals, batch_size: Reals, steps: Reals
) -> float | Floats:
    """16 m sqrt(T log(2/delta) log(2.5 m T/(delta n)))/(n epsilon), for epsilon <= 1 and many steps only.

    **Guarantee.** (epsilon, delta)-DP of T steps, each on a batch of m of the n records drawn without replacement, for
    a record that is replaced.  The classical Gaussian noise of each step is amplified by subsampling, and advanced
    composition adds the steps up.  Each step has epsilon_0 = n epsilon/(4 m sqrt(2 T log(2/delta))), and the proof
    needs epsilon_0 <= 1.  Fewer steps are refused: without that condition, as lectures print it, the formula is false.

    Examples
    --------
    >>> import fastacct as fa
    >>> run = dict(records=1000, batch_size=10, steps=10_000)
    >>> classic = fa.classical.dpsgd_noise_multiplier(1.0, 1e-6, **run)
    >>> round(classic)  # with sampling="fixed_size", neighbors="replace_one" fa.dpsgd.noise_multiplier asks for 9.2
    268
    """
    size = {"records": (records, COUNT), "batch_size": (batch_size, COUNT), "steps": (steps, COUNT)}
    e, d, n, m, t = as_common(epsilon=(epsilon, SHARE), delta=(delta, SHARE), **size)
    if (bad := m > n).any():
        raise ValueError(f"batch_size = {m[bad][0]:g} exceeds records = {n[bad][0]:g}")
    each = n * e / (4.0 * m * np.sqrt(2.0 * t * np.log(2.0 / d)))
    few = (each > 1.0) | (d * n >= 2.0 * m * t)  # the delta of a step, amplified, is below 1
    if few.any():
        least = math.ceil(float(np.maximum(t * each**2, d * n / (2.0 * m) * (1.0 + 1e-9)).max()))
        raise ValueError(f"steps = {t[few][0]:g} are too few for the theorem, which needs at least {least}")
    noise = 16.0 * m * np.sqrt(t * np.log(2.0 / d) * np.log(2.5 * m * t / (d * n))) / (n * e)
    return unwrap(np.asarray(noise * _UP))
