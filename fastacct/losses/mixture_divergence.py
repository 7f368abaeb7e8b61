"""Rényi divergences of Gaussian mixtures with one noise, from above, by the trapezoidal rule on the whole line
(proof: docs/algorithms/quadrature.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from fastacct.core.inputs import TINY, Cells
from fastacct.losses.loss import ROUNDING

if TYPE_CHECKING:
    from fastacct.losses.mixture import GaussianMixtures

__all__ = ["mixture_divergences"]

_LOG_SMALL: Final = 92.0
"""exp of minus this is what error the step may have, and what part of the integrand is left out."""
_REACH: Final = 15.0
"""Standard deviations from the outermost centre to where the tails begin."""
_MOST_WORK: Final = 1 << 20
"""Points times components per order; beyond it the closed form must do."""
_FEW: Final = 0.5
_TERMS: Final = 24


def mixture_divergences(pair: GaussianMixtures, orders: Cells, off: float) -> Cells:
    """Upper bounds at orders above 1, of a pair whose loss may be off by `off`."""
    values = {}
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        for order in np.unique(orders).tolist():
            found = min(_closed_form(pair, order), _by_quadrature(pair, order))
            found += off * (order + (order - 1.0)) / (order - 1.0) * (1.0 + 1e-15)
            values[order] = max(found, TINY)
    return np.array([values[order] for order in orders.ravel().tolist()]).reshape(orders.shape)


def _closed_form(pair: GaussianMixtures, order: float) -> float:
    """Q is at least each of its parts, and the norm of a sum at most the sum of norms; or the two furthest means."""
    a, p_means, q_means = order - 1.0, pair.means[pair.p > 0.0], pair.means[pair.q > 0.0]
    p_weights, q_weights = pair.p[pair.p > 0.0], pair.q[pair.q > 0.0]
    apart = (p_means[None, :] - q_means[:, None]) / pair.sigma
    furthest = 0.5 * order * float(np.max(apart * apart))
    logs = np.log(p_weights) + 0.5 * a * apart * apart
    top = logs.max(axis=1)
    whole = top + np.log(np.sum(np.exp(logs - top[:, None]), axis=1))
    pad = 8.0 * ROUNDING * (np.abs(top) + 2.0 * np.abs(np.log(p_weights)).max() + p_weights.size)
    bound = np.min(order / a * (whole + pad) - np.log(q_weights) * (1.0 + 1e-15))
    return float(np.nan_to_num(min(furthest, max(bound, 0.0)) * (1.0 + 1e-14), nan=math.inf, posinf=math.inf))


def _rule(pair: GaussianMixtures, order: float) -> tuple[float, float, float]:
    """A step of the rule; its errors relative to the integral of P^alpha Q^(1 - alpha), and to P and Q.

    The widest among some strips, as a power of two: its multiples are exact.
    """
    width = [float(np.ptp(pair.means[weights > 0.0])) / pair.sigma for weights in (pair.p, pair.q)]
    most = min(8.0, 0.95 * math.pi / max(*width, 1e-3))
    d = most * np.geomspace(1e-3, 1.0, 64)  # in standard deviations
    grown = 0.5 * d * d * (1.0 + 1e-14)
    turned = -(order - 1.0) * np.log(np.cos(0.5 * width[1] * d)) * (1.0 + 1e-13)
    steps = 2.0 * math.pi * d / (grown + turned + _LOG_SMALL)
    best = int(np.argmax(steps))
    step = 2.0 ** math.floor(math.log2(float(steps[best]) * pair.sigma))
    rest = 2.0 * math.pi * float(d[best]) * pair.sigma / step * (1.0 - 1e-14)
    log_plain = math.log(2.0) + float(grown[best]) - rest - math.log1p(-math.exp(-rest))
    return step, math.exp(log_plain + float(turned[best])) * (1.0 + 1e-12), math.exp(log_plain) * (1.0 + 1e-12)


def _by_quadrature(pair: GaussianMixtures, order: float) -> float:
    """The bound of the rule; inf where it would take too much work."""
    a, sigma, parts = order - 1.0, pair.sigma, pair.means.size
    p_means, q_means = pair.means[pair.p > 0.0], pair.means[pair.q > 0.0]
    if not 1e-100 < sigma < 1e100 or float(np.abs(pair.means).max()) > 1e12 * sigma:
        return math.inf
    step, error, plain = _rule(pair, order)
    per_block = 2 ** max(0, round(math.log2(0.5 * sigma / step)))
    block = per_block * step
    low = min(float(pair.means[0]), order * float(p_means[0]) - a * float(q_means[-1])) - _REACH * sigma
    high = max(float(pair.means[-1]), order * float(p_means[-1]) - a * float(q_means[0])) + _REACH * sigma
    first, last = math.floor(low / block) - 1, math.ceil(high / block) + 1
    if not (last - first) * parts <= _MOST_WORK:
        return math.inf
    edges = np.arange(first, last + 1) * block
    loss, loss_error, log_q, m_p, m_q = _logs(pair, edges)
    log_w = log_q + order * (loss + loss_error) + 4.0 * ROUNDING * (order * np.abs(loss))  # of P^alpha Q^(1 - alpha)
    # the blocks: bounds of the logarithms by their largest slopes
    top_w = _highest(log_w, edges, order * m_p[1:] - a * m_q[:-1], sigma)
    top_q = _highest(log_q, edges, m_q[1:], sigma)
    kept = np.flatnonzero((top_w > log_w.max() - _LOG_SMALL) | (top_q > log_q.max() - _LOG_SMALL))
    if not kept.size * per_block * parts <= _MOST_WORK:
        return math.inf
    x = ((kept[:, None] + first) * per_block + np.arange(per_block)).ravel() * step
    inner = _log_sum(_log_terms(pair, order, x)) + math.log(step)
    # what is left out is at most P^alpha Q^(1 - alpha)/a + Q: blocks, and tails steeper than `_REACH`
    out = np.ones(top_w.size, dtype=np.bool_)
    out[kept] = False
    tails_w, tails_q = np.logaddexp(log_w[0], log_w[-1]), np.logaddexp(log_q[0], log_q[-1])
    rest_w = np.logaddexp(_log_sum(top_w[out]) + math.log(block), tails_w + math.log(step + sigma))
    rest_q = np.logaddexp(_log_sum(top_q[out]) + math.log(block), tails_q + math.log(step + sigma))
    errors = math.log((error + (1.0 + 2.0 * order) * plain) / a)
    logs = np.array([inner, rest_w - math.log(a), rest_q, errors])
    log_j = _log_sum(logs) + 1e-13 - math.log1p(-error)
    if not log_j < math.inf:
        return math.inf
    log_aj = log_j + math.log(a)
    whole = math.log1p(math.exp(log_aj)) if log_aj < 30.0 else log_aj + math.exp(-log_aj)
    return whole / a * (1.0 + 1e-13)


def _log_sum(logs: Cells) -> float:
    top = float(logs.max(initial=-math.inf))
    return top + math.log(float(np.sum(np.exp(logs - top)))) if top > -math.inf else -math.inf


def _highest(logs: Cells, edges: Cells, centre: Cells, sigma: float) -> Cells:
    """Largest value in each block of what has at most the slope (centre - x)/sigma^2."""
    left, right = edges[:-1], edges[1:]
    at = np.clip(centre + 1e-11 * (np.abs(centre) + sigma), left, right)
    rise = (at - left) * (centre - 0.5 * (at + left)) / sigma**2
    return np.asarray(logs[:-1] + np.maximum(rise, 0.0) + 1e-9 * (1.0 + np.abs(rise)))


def _logs(pair: GaussianMixtures, x: Cells) -> tuple[Cells, Cells, Cells, Cells, Cells]:
    """Loss and a bound of its error, upper bound of log Q, and the means of the shares of P and Q."""
    p_log, p_error, m_p = pair.log_mean(pair.p, x)
    q_log, q_error, m_q = pair.log_mean(pair.q, x)
    z = (x - float(pair.means[pair.reference])) / pair.sigma
    origin = -0.5 * z * z - math.log(pair.sigma * math.sqrt(2.0 * math.pi))
    log_q = origin + q_log + q_error + 8.0 * ROUNDING * (1.0 + z * z + np.abs(q_log) + abs(math.log(pair.sigma)))
    loss = p_log - q_log
    return loss, p_error + q_error + ROUNDING * np.abs(loss), log_q, m_p, m_q


def _log_terms(pair: GaussianMixtures, order: float, x: Cells) -> Cells:
    """Upper bounds of log(Q (r^alpha - 1 - alpha (r - 1))/a): it falls in the loss below 0 and increases above."""
    loss, error, log_q, _, _ = _logs(pair, x)
    both = np.maximum(_log_excess(loss - error, order), _log_excess(loss + error, order))
    return np.asarray(log_q + both + 8.0 * ROUNDING * order * np.abs(loss) + 1e-13)


def _log_excess(loss: Cells, order: float) -> Cells:
    """log((r^alpha - 1 - alpha (r - 1))/a) at r = exp(loss), good to 1e-13."""
    a = order - 1.0
    out = np.empty_like(loss)
    few = order * np.abs(loss) <= _FEW
    # sum of (1 + alpha + ... + alpha^(k - 2)) alpha loss^k/k! over k >= 2
    small, total, power, geometric = loss[few], np.zeros(int(few.sum())), 1.0, 0.0
    for k in range(2, _TERMS):
        geometric += power  # of alpha^0 to alpha^(k - 2), each with loss^(k - 2)
        power *= order
        total += (geometric / math.factorial(k)) * small ** (k - 2)
    out[few] = math.log(order) + 2.0 * np.log(np.abs(small)) + np.log(total)
    up = ~few & (loss > 0.0)
    big = a * loss[up]
    log_h = np.where(big > 30.0, big + np.log1p(-np.exp(-big)), np.log(np.expm1(np.minimum(big, 40.0)))) - math.log(a)
    out[up] = loss[up] + log_h + np.log1p(np.expm1(-loss[up]) * np.exp(-log_h))
    down = ~few & (loss <= 0.0)
    out[down] = np.log(-np.expm1(loss[down]) + np.exp(loss[down]) * np.expm1(a * loss[down]) / a)
    return out
