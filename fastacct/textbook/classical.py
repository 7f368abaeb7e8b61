"""Noise as textbooks and lectures calibrate it, under the conditions that their proofs need, to compare with.

For numbers to use take `fa.calibrate` or `fa.dpsgd.noise_multiplier`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastacct.core.inputs import SHARE, Domain, Floats, Reals, as_common, unwrap

__all__ = ["gaussian_noise_multiplier", "laplace_noise_multiplier"]

_UP: Final = 1.0 + 1e-14


def laplace_noise_multiplier(epsilon: Reals) -> float | Floats:
    """Scale over L1 sensitivity of the Laplace mechanism, 1/epsilon; the standard deviation is sqrt(2) times that."""
    (e,) = as_common(epsilon=(epsilon, Domain(0.0, np.inf, open_low=True)))
    return unwrap(np.asarray(1.0 / e * _UP))


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
