"""The Edgeworth approximation of Wang et al. 2022: four cumulants of the privacy loss under both data sets.

No bound: it falls below the truth in the tail, and may even be negative there. It is here to be compared.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float64]

_POINTS: Final = 1001
_DEVIATIONS: Final = 12.0
_HALVINGS: Final = 60
_erfc: Final = np.vectorize(math.erfc, otypes=[float])


def _cumulants(values: Cells, weights: Cells) -> tuple[float, float, float, float]:
    weights = weights / weights.sum()
    mean = float(weights @ values)
    second, third, fourth = (float(weights @ (values - mean) ** power) for power in (2, 3, 4))
    return mean, second, third, fourth - 3.0 * second**2


def _losses(sigma: float, q: float) -> tuple[Cells, Cells, Cells]:
    """The loss of one step on a grid, and its weights with and without the record."""
    grid = np.linspace(-_DEVIATIONS * sigma, 1.0 + _DEVIATIONS * sigma, _POINTS)
    without = np.exp(-0.5 * (grid / sigma) ** 2)
    shifted = np.exp(-0.5 * ((grid - 1.0) / sigma) ** 2)
    log_ratio = (2.0 * grid - 1.0) / (2.0 * sigma**2)
    loss = np.logaddexp(np.log1p(-q), math.log(q) + log_ratio)
    return loss, (1.0 - q) * without + q * shifted, without


def _cdf(x: Cells, cumulants: tuple[float, float, float, float], steps: float) -> Cells:
    mean, second, third, fourth = cumulants
    z = (x - steps * mean) / math.sqrt(steps * second)
    skewness = third / (second**1.5 * math.sqrt(steps))
    excess = fourth / (second**2 * steps)
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    he2, he3, he5 = z**2 - 1.0, z**3 - 3.0 * z, z**5 - 10.0 * z**3 + 15.0 * z
    return np.asarray(
        0.5 * _erfc(-z / math.sqrt(2.0))
        - density * (skewness * he2 / 6.0 + excess * he3 / 24.0 + skewness**2 * he5 / 72.0)
    )


def delta(sigma: float, q: float, steps: float, epsilon: Cells) -> Cells:
    """The larger of both directions."""
    loss, with_record, without = _losses(sigma, q)
    p, r = _cumulants(loss, with_record), _cumulants(loss, without)
    remove = 1.0 - _cdf(epsilon, p, steps) - np.exp(epsilon) * (1.0 - _cdf(epsilon, r, steps))
    add = _cdf(-epsilon, r, steps) - np.exp(epsilon) * _cdf(-epsilon, p, steps)
    return np.maximum(remove, add)


def epsilon(sigma: float, q: float, steps: float, target: float) -> float:
    """The largest epsilon at which the approximation falls to delta."""
    loss, with_record, _ = _losses(sigma, q)
    mean, second, _, _ = _cumulants(loss, with_record)
    top = steps * mean + 40.0 * math.sqrt(steps * second) + 1e-300
    grid = np.linspace(0.0, min(top, 600.0), 801)
    above = np.flatnonzero(delta(sigma, q, steps, grid) > target)
    if not above.size:
        return 0.0
    if above[-1] == len(grid) - 1:
        return math.inf
    low, high = grid[above[-1]], grid[above[-1] + 1]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta(sigma, q, steps, np.array([middle]))[0] > target else (low, middle)
    return float(high)
