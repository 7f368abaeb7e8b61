"""Log-moments and Rényi divergences of Gaussian mixtures with one noise, by the compiled kernel
(proof: docs/algorithms/quadrature.md, Mixtures of Gaussians)."""

from __future__ import annotations

import math

import numpy as np

from fastacct.core.inputs import ROUNDING, TINY, Cells
from fastacct.core.work import spend
from fastacct.losses.mixture import Mixture, common_means
from fastacct_ext import _kernels


def mixture_moments(mixture: Mixture, u: Cells, *, is_add: bool) -> Cells:
    """Bounds of K(u) = log E_P[exp(u L)], of K' and of K'', in rows: two of each.  NaN: not known.

    K' is the mean and K'' the variance of the loss under P tilted by exp(u L): at 0 its own.
    """
    if _is_nothing(mixture):
        return np.zeros((6, u.size))
    rows = _rows(mixture, u, is_add)
    off = mixture.off
    with np.errstate(over="ignore", invalid="ignore"):
        if off > 0.0:  # losses may be off by 2 off, and the tilted P by a factor exp(2 d)
            d = (1.0 + 2.0 * np.abs(u)) * off * (1.0 + 1e-9)
            sd = np.sqrt(rows[5]) * (1.0 + 1e-9)
            far = 2.0 * off + np.expm1(2.0 * d) * sd
            rows[:4] += np.array([-d, d, -far, far])
            least = np.maximum(np.sqrt(rows[4]) * (1.0 - 1e-14) - 2.0 * off, 0.0)
            rows[4] = np.exp(-2.0 * d) * least**2
            rows[5] = np.exp(2.0 * d) * (sd + 2.0 * off) ** 2
    return np.where(np.isfinite(rows).all(axis=0), rows, np.nan)


def mixture_divergences(mixture: Mixture, orders: Cells, *, is_add: bool) -> Cells:
    """Upper bounds at orders above 1; inf where even the closed form says nothing."""
    if _is_nothing(mixture):
        return np.zeros(orders.shape)
    flat, place = np.unique(orders, return_inverse=True)
    a = flat - 1.0
    value = _rows(mixture, a, is_add)[1]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # the kernel bounds log-moments to about 1e-45 at best
        coarse = np.flatnonzero(~((value > 1e-40) & (value < np.inf)))
        value *= (1.0 + 1e-15) / a
        for i in coarse:
            value[i] = np.fmin(value[i], _closed_form(mixture, float(flat[i]), is_add))
    value += mixture.off * (flat + a) / a * (1.0 + 1e-15)
    return np.asarray(np.maximum(value, TINY)[place].reshape(orders.shape))


def _is_nothing(mixture: Mixture) -> bool:
    p, q = mixture.sides()
    return p == q or math.isinf(mixture.noise)


def _rows(mixture: Mixture, u: Cells, is_add: bool) -> Cells:
    """As the kernel gives them."""
    rows = np.empty((u.size, 6))
    if mixture.noise == 0.0:
        rows[:] = np.inf
    elif mixture.is_plain:  # K(u) = u (u + 1) / (2 noise^2), to a few ulps however small it is
        with np.errstate(over="ignore", invalid="ignore"):
            half = 0.5 * (mu := mixture.p[0][1] / mixture.noise) * mu  # infinite, where ** would raise
            factors = np.stack([u * (1.0 + u), 1.0 + 2.0 * u, np.full(u.shape, 2.0)]) * half
        off = 8.0 * ROUNDING * np.abs(factors) + 1e-323 * (1.0 + np.abs(u) * (1.0 + np.abs(u)))
        rows[:, ::2], rows[:, 1::2] = (factors - off).T, (factors + off).T
    else:
        means, p, q, origin = common_means(*mixture.sides()[:: -1 if is_add else 1])
        spend(u.size * (2e5 + 3e4 * len(means)))
        for weights in (p, q):
            if weights[origin] >= 0.5:
                weights[origin] = 1.0 - math.fsum(np.delete(weights, origin))
        _kernels.mixture_moments(means, p, q, origin, mixture.noise, np.ascontiguousarray(u, dtype=np.float64), rows)
    return rows.T.copy()


def _closed_form(mixture: Mixture, order: float, is_add: bool) -> float:
    """Q is at least each of its parts, and the norm of a sum at most the sum of norms; or the two furthest means."""
    a, noise = order - 1.0, mixture.noise
    if noise == 0.0:
        return math.inf
    (p_means, p_weights), (q_means, q_weights) = (
        np.array([(mean, weight) for mean, weight in side.items() if weight > 0.0]).T
        for side in mixture.sides()[:: -1 if is_add else 1]
    )
    apart = (p_means[None, :] - q_means[:, None]) / noise
    furthest = 0.5 * order * float(np.max(apart * apart))
    logs = np.log(p_weights) + 0.5 * a * apart * apart
    top = logs.max(axis=1)
    log_sum = top + np.log(np.sum(np.exp(logs - top[:, None]), axis=1))
    pad = 8.0 * ROUNDING * (np.abs(top) + 2.0 * np.abs(np.log(p_weights)).max() + p_weights.size)
    bound = np.min(order / a * (log_sum + pad) - np.log(q_weights) * (1.0 + 1e-15))
    return float(np.nan_to_num(min(furthest, max(bound, 0.0)) * (1.0 + 1e-14), nan=math.inf, posinf=math.inf))
