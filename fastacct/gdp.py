"""Gaussian differential privacy by numbers: the best single Gaussian that is at most as private as a job.

A job is mu-GDP when its trade-off curve lies nowhere below that of N(mu, 1) against N(0, 1), or, the same thing,
delta(eps) <= delta_mu(eps) at every eps >= 0 in both directions.  Here this is proved down to a floor of delta, on
cells [a, b] that are halved where the proof costs too much.  Both sides decrease in eps and are convex in e^eps, so it
is enough that

    delta(a) <= delta_mu(b),       or that       delta(a) <= line(a) and delta(b) <= delta_mu(b)

with the line, in e^eps, through delta_mu at b and at c = 2 b - a: delta lies below its chord, delta_mu above the line.
Nothing is rounded in the wrong direction: delta is an upper bound, delta_mu a lower one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastacct.accountants.question import Job, as_process, plain_bounds
from fastacct.accountants.run import verb
from fastacct.core.bounds import TIGHT_WIDTH, Bounds, status_of
from fastacct.core.engine import run_kernel
from fastacct.core.inputs import PAD, Cells, Domain, Floats, as_number, as_threads, unwrap
from fastacct.core.relations import Relation, as_relation
from fastacct.core.work import counted
from fastacct.readers.cell_job import BOTH
from fastacct.readers.contour import Contour, Index
from fastacct.readers.job import contour_of
from fastacct.readers.nearby import EPSILON, LOG_DELTA
from fastacct_ext import _kernels

FLOOR: Final = Domain(1e-300, 1.0)
_MU_RANGE: Final = (1e-9, 1e9)

_Function = Callable[[Cells], tuple[Cells, Cells]]
"""Certified lower and upper bounds at points."""


class GaussianFit(NamedTuple):
    """A certified Gaussian below a job's trade-off curve (floats, or arrays over the cells of the job).

    Examples
    --------
    >>> import fastacct as fa
    >>> fit = fa.gdp(fa.Gaussian(2.0) * 4)
    >>> round(fit.mu, 4), fit.mu_lower <= fit.mu
    (1.0, True)
    """

    mu: float | Floats
    """The job is mu-GDP wherever its delta is at least the floor."""
    mu_lower: float | Floats
    """No smaller number than this is."""
    regret: float | Floats
    """How much is given away: at most this must be added to both error rates of the Gaussian to reach the job's."""


@verb({})
def gdp(
    job: Job, *, delta_floor: float = 1e-10, neighbors: Relation = "add_remove", threads: int | None = None
) -> GaussianFit:
    """Smallest mu such that a job is mu-GDP for all deltas of at least `delta_floor`.

    **Guarantee.** delta(eps) <= max(delta_mu(eps), delta_floor) for every eps >= 0, and so
    tradeoff(fpr) >= Phi(Phi^-1(1 - fpr) - mu) - delta_floor for every fpr.  mu exceeds the smallest such number by at
    most 1e-6 relative, or by more where deltas take long: `mu_lower` proves by how much.

    A sampled Gaussian is mu-GDP in full only for mu = sqrt(steps)/noise_multiplier, as if nothing were sampled: that
    is what mu tends to as the floor, in (0, 1], goes to 0.  At usual deltas it is far smaller.  "add" and "remove" have
    the same answer as "add_remove": the Gaussian's curve is its own inverse.  mu is inf where epsilon at `delta_floor`
    could not be bounded, or delta at epsilon 0 not below 1 (mu above about 12: no privacy to speak of).  Jobs are
    those of which `tradeoff` knows the curve itself; arguments and errors as in `epsilon`.

    References
    ----------
    Dong, Roth, Su 2022; Gomez, Kulynych, Kaissis, Calmon, Hayes, Balle, Honkela 2025 (mu-GDP with its regret).

    Examples
    --------
    >>> import fastacct as fa
    >>> fit = fa.gdp(fa.Gaussian(noise_multiplier=1.0).poisson(sample_rate=0.01) * 1000, delta_floor=1e-5)
    >>> round(fit.mu, 4), round(fit.regret, 3)
    (0.4627, 0.011)
    """
    process, relation, n_threads = as_process(job), as_relation(neighbors), as_threads(threads)
    floor = as_number("delta_floor", delta_floor, FLOOR)
    exact = contour_of(process, relation, "gdp")
    size = int(np.prod(exact.shape))
    fits = np.array([_fit(exact, cell, floor, n_threads) for cell in range(size)])
    return GaussianFit(*(unwrap(fits[:, i].reshape(exact.shape)) for i in range(3)))


@verb({})
def gdp_bounds(
    job: Job, *, delta_floor: float = 1e-10, neighbors: Relation = "add_remove", threads: int | None = None
) -> Bounds:
    """Certified bounds of the smallest mu such that a job is mu-GDP, and a status; as `gdp`.

    Examples
    --------
    >>> import fastacct as fa
    >>> lower, upper, _ = fa.gdp_bounds(fa.Gaussian(2.0) * 4)
    >>> lower <= 1.0 <= upper, upper - lower < 2e-6
    (True, True)
    """
    upper, lower, _ = gdp(job, delta_floor=delta_floor, neighbors=neighbors, threads=threads)
    return plain_bounds(Bounds(lower, upper, status_of(lower, upper)))


def _fit(job: Contour, cell: int, floor: float, threads: int) -> tuple[float, float, float]:
    deltas_at: dict[float, tuple[float, float]] = {}

    def run(eps: Cells) -> tuple[Cells, Cells]:
        new = np.array([e for e in dict.fromkeys(eps.tolist()) if e not in deltas_at])
        reading = job.read(np.full(new.size, cell), new, LOG_DELTA, BOTH, threads)
        deltas_at.update(
            zip(new.tolist(), zip(reading.lower.tolist(), reading.upper.tolist(), strict=True), strict=True)
        )
        lower, upper = np.array([deltas_at[e] for e in eps.tolist()]).reshape(-1, 2).T.copy()
        return lower, upper

    end = float(job.read(np.array([cell]), np.array([floor]), EPSILON, BOTH, threads).upper[0])
    if end == np.inf or run(np.zeros(1))[1][0] >= 0.0:  # no Gaussian has delta 1
        return np.inf, 0.0, 1.0
    log_floor = float(np.log(floor)) + PAD
    with counted() as done:
        job.read_cell(cell, np.array([0.5 * end]), LOG_DELTA, way=BOTH)
    each = sum(done.values())

    def most() -> int:
        return 0 if each * len(deltas_at) > 2e11 else 20_000

    mu, mu_lower = _smallest_mu(run, end, log_floor, threads, most)
    return mu, mu_lower, _regret(run, mu, end, log_floor, threads, most)


def _smallest_mu(
    run: _Function, end: float, log_floor: float, threads: int, most: Callable[[], int]
) -> tuple[float, float]:
    """Upper and lower bound of the best mu; above `end` delta is below the floor."""
    if end == 0.0:
        return 0.0, 0.0

    def over(a: Cells, b: Cells, level: float) -> Cells:
        at_a, at_b = run(a)[1], run(b)[1]

        def enough(mu: float, left: Index) -> NDArray[np.bool_]:
            level, x, y = np.full(left.size, mu), a[left], b[left]
            gaussian = _gaussian(level, y, threads)[0]
            line = _line(gaussian - at_a[left], _gaussian(level, 2.0 * y - x, threads)[1] - at_a[left], y - x)
            return (gaussian >= at_a[left]) | ((gaussian >= at_b[left]) & (line >= 1.0))

        if level == np.inf:
            return np.full(a.size, _search(enough, a.size)[1])
        return np.where(enough(level * (1.0 - PAD), np.arange(a.size)), level, np.inf)

    def at(eps: Cells, level: float) -> Cells:
        lower = run(eps)[0]
        found = np.zeros(eps.size)
        above = lower >= log_floor
        if level > 0.0:  # only what raises it
            above &= _gaussian(np.full(eps.size, level), eps, threads)[1] <= lower
        if above.any():
            where, delta = eps[above], lower[above]
            found[above] = _search(
                lambda mu, left: _gaussian(np.full(left.size, mu), where[left], threads)[1] > delta[left], where.size
            )[0]
        return found

    return _maximum(run, over, at, end, lambda best: best * (1.0 + TIGHT_WIDTH), most)


def _regret(run: _Function, mu: float, end: float, log_floor: float, threads: int, most: Callable[[], int]) -> float:
    """Upper bound of the largest (delta_mu - delta)/(1 + e^eps)."""
    if mu == 0.0 or mu == np.inf:
        return min(mu, 1.0)
    as_array = np.array(mu)
    reach = _gaussian(as_array, np.exp(np.array(log_floor)), 1, EPSILON)[1]
    end = max(end, float(reach)) if reach < np.inf else end

    def over(a: Cells, b: Cells, _: float) -> Cells:
        at_a, at_b = (np.exp(_gaussian(as_array, x, threads)[1]) * (1.0 + PAD) for x in (a, b))
        job = run(b)[0]
        line = _line(job, run(2.0 * b - a)[1], b - a)
        job = np.exp(job) * (1.0 - PAD)
        gap = np.minimum(at_a - job, np.maximum(at_a - line, at_b - job))
        return np.maximum(gap / (1.0 + np.exp(np.minimum(a, 700.0))), 0.0) * (1.0 + PAD)

    def at(eps: Cells, _: float) -> Cells:
        gaussian, job = np.exp(_gaussian(as_array, eps, threads)[0]), np.exp(run(eps)[1])
        return np.maximum((gaussian - job) / (1.0 + np.exp(np.minimum(eps, 700.0))), 0.0)

    upper, _ = _maximum(run, over, at, end, lambda best: best * 1.001 + 1e-6, most)
    tail = float(np.exp(_gaussian(as_array, np.array([end]), threads)[1])[0]) / (1.0 + np.exp(min(end, 700.0)))
    return float(max(upper, tail * (1.0 + PAD)))


def _maximum(
    run: _Function,
    over: Callable[[Cells, Cells, float], Cells],
    at: Callable[[Cells, float], Cells],
    end: float,
    near: Callable[[float], float],
    most: Callable[[], int],
) -> tuple[float, float]:
    """Bounds (upper, lower) of the maximum over [0, end], from upper bounds on cells and lower bounds at points.

    Given a level, `over` may answer the level itself where that is a bound and inf where it is not, and `at` 0 where
    the point is not above; with the level inf `over` is as sharp as it can be.  Only their largest values count.
    At most so many cells are halved as `most` says.
    """
    edges = np.linspace(0.0, end, 9)
    a, b, best, settled = edges[:-1], edges[1:], float(at(edges, 0.0).max()), 0.0
    while True:
        level = max(near(best), settled)
        upper = over(a, b, level) if level > 0.0 else np.full(a.size, np.inf)
        split = upper > level
        settled = max(settled, float(upper[~split].max(initial=0.0)))
        if not split.any():
            return settled, best
        a, b = a[split], b[split]
        if (wide := _is_wide(run, a) & _is_wide(run, b)).any():
            settled = max(settled, float(over(a[wide], b[wide], np.inf).max()))
            a, b = a[~wide], b[~wide]
            if not a.size:
                return settled, best
        middle = 0.5 * (a + b)
        if a.size > most() or (b - a <= 1e-15 * b).any() or level <= 0.0:
            return max(settled, float(over(a, b, np.inf).max())), best
        best = max(best, float(at(middle, best).max()))
        a, b = np.concatenate([a, middle]), np.concatenate([middle, b])


def _is_wide(run: _Function, epsilon: Cells) -> NDArray[np.bool_]:
    """Whether log delta is known so badly that halving a cell gains nothing."""
    lower, upper = run(epsilon)
    return np.where(upper > -np.inf, upper, 0.0) - np.where(upper > -np.inf, lower, 0.0) > 10.0 * TIGHT_WIDTH


def _gaussian(mu: Cells, target: Cells, threads: int, what: _kernels.Quantity = LOG_DELTA) -> tuple[Cells, Cells]:
    """Certified bounds of log delta_mu at epsilons, or of epsilon_mu at deltas."""
    unit, shape = np.array(1.0), np.broadcast_shapes(mu.shape, target.shape)
    kernel = partial(_kernels.exact_bounds, 1.0 / mu, unit, unit, target, quantity=what, directions=BOTH)
    (lower, upper, _), _ = run_kernel(kernel, shape, 3, threads)
    return lower, upper


def _line(log_b: Cells, log_c: Cells, width: Cells) -> Cells:
    """At b - width, the line in e^eps through a lower bound at b and an upper bound at c = b + width."""
    ratio = np.exp(-width)
    at_b, at_c = np.exp(log_b) * (1.0 - PAD), np.exp(log_c) * (1.0 + PAD)
    return at_b + ratio * (at_b - at_c) - PAD * (at_b + at_c)


def _search(holds: Callable[[float, Index], NDArray[np.bool_]], size: int) -> tuple[float, float]:
    """A mu at which some statement does not hold, and a close one above at which all do; 0 and inf where none is.

    Those that hold at a mu are not asked again: all hold above it.  Padded for the noise multiplier 1/mu, which is
    rounded.
    """
    (low, high), undecided = map(math.log, _MU_RANGE), np.arange(size)
    for _ in range(42):  # to 1e-11 of mu
        middle = 0.5 * (low + high)
        open_ones = undecided[~holds(math.exp(middle), undecided)]
        low, high, undecided = (middle, high, open_ones) if open_ones.size else (low, middle, undecided)
    return (
        math.exp(low) * (1.0 - PAD) if low > math.log(_MU_RANGE[0]) else 0.0,
        math.exp(high) * (1.0 + PAD) if high < math.log(_MU_RANGE[1]) else math.inf,
    )
