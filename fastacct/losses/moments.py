"""Log-moments of losses that are made of others: of one of several that is drawn, of what lies between two pairs.

Rows are bounds of K(s) = log E_P exp(s L), of K' and of K'', two of each; NaN: not known (docs/algorithms/batches.md,
"Moments").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from fastacct.core.inputs import Cells

_POWERS: Final = np.geomspace(1.5, 512.0, 18)
"""k of the convex function x^(1 - k) that is added to x log^2 x."""
BETWEEN: Final = np.append([-1.0, 0.0], -_POWERS)
"""Where both pairs are asked, whatever s is."""
_SUMS_OFF: Final = 1e-13
"""Relative error of the sums below, by far."""


def drawn_moments(parts: Sequence[tuple[float, Cells]]) -> Cells:
    """Rows of one of several losses, drawn with these weights in sight of everyone; the weights are good to an ulp.

    M = sum w_i M_i: under P tilted by exp(s L) the i-th is drawn with probability w_i M_i / M.
    """
    some = [(weight, rows) for weight, rows in parts if weight > 0.0]
    weight, each = np.array([w for w, _ in some]), np.stack([rows for _, rows in some], axis=1)
    share, log_share, side = weight[:, None], np.log(weight)[:, None], np.array([[-1.0], [1.0]])
    own, mean = each[:2], each[2:4]
    with np.errstate(over="ignore", invalid="ignore"):
        near, far = share * np.expm1(own), log_share + own
        size = np.abs(near).sum(axis=1)
        is_near = size.max(axis=0) < 0.5
        k = np.where(is_near, np.log1p(near.sum(axis=1)), np.logaddexp.reduce(far, axis=1))
        off = np.where(is_near, size, 1.0 + np.abs(k) - 2.0 * log_share.min())
        k += side * 1e-14 * off
        chance = np.minimum(np.exp(far - k[::-1, None]) * (1.0 + side[..., None] * _SUMS_OFF), 1.0)
        ends = np.stack([chance[0] * mean, chance[1] * mean])
        tilted = np.stack([ends[:, 0].min(axis=0).sum(axis=0), ends[:, 1].max(axis=0).sum(axis=0)])
        tilted += side * _SUMS_OFF * np.abs(ends).max(axis=(0, 1)).sum(axis=0)
        away = np.maximum(mean[1] - tilted[0], tilted[1] - mean[0])
        close = np.maximum(np.maximum(mean[0] - tilted[1], tilted[0] - mean[1]), 0.0)
        spread = np.stack([chance[0] * (each[4] + close * close), chance[1] * (each[5] + away * away)]).sum(axis=1)
    return np.concatenate([k, tilted, spread * (1.0 + side * _SUMS_OFF)])


def moments_between(above: Cells, below: Cells, s: Cells) -> Cells:
    """Rows at s of a pair of which two are known: one that dominates it, and one that it dominates; given those of both
    at s and then at `BETWEEN`.

    E_Q f(P/Q) of a convex f is larger of the larger pair, and with it the divergence of any order.  K' is known from
    s = -1 to 0, K'' at 0.
    """
    n = s.size
    rows = np.full((6, n), np.nan)
    rows[0], rows[1] = np.minimum(above[0, :n], below[0, :n]), np.maximum(above[1, :n], below[1, :n])
    inside = (s >= -1.0) & (s <= 0.0)  # K is convex; K' is minus the mean of the other direction at -1, the mean at 0
    rows[2, inside], rows[3, inside] = above[2, n], above[3, n + 1]
    slack = _slack(above[1, n + 2 :], below[0, n + 2 :], float(above[3, n + 1]))
    least, most = max(float(below[4, n + 1]) - slack, 0.0), float(above[5, n + 1]) + slack
    rows[[2, 4, 5]] = np.where(s == 0.0, [[max(float(below[2, n + 1]), 0.0)], [least], [most]], rows[[2, 4, 5]])
    return rows


def _slack(most: Cells, least: Cells, mean: float) -> float:
    """By how much E (L - c)^2, c up to `mean`, may be above that of the pair above, or below that of the one below,
    given K at -k of both.

    x (log x - c)^2 + b x^(1 - k)/(k (k - 1)) is convex in x for b >= (2/k) exp(-k (1 - c) - 1): its second derivative
    times x is 2 (log x - c + 1) + b x^-k.  E_Q (P/Q)^(1 - k) is exp K(-k).  The variance is E (L - c)^2 at its own mean
    c, and at most that at any other.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        high, low = np.expm1(most), np.expm1(least)
        apart = np.maximum(high - low, 0.0) + 1e-15 * (np.abs(high) + np.abs(low))
        bound = 2.0 / (_POWERS * _POWERS * (_POWERS - 1.0)) * np.exp(-_POWERS * (1.0 - mean) - 1.0) * apart
    return float(np.nan_to_num(bound, nan=math.inf).min()) * (1.0 + 1e-12) + 1e-300
