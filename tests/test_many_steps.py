"""Jobs of very many different sampled Gaussians (line/many_steps.h) against trapezoid sums of our own in NumPy."""

import itertools

import numpy as np
import pytest

import fastacct as fa
from fastacct.mechanisms.process import Process
from fastacct_ext import _kernels

LEAST = 128
"""From here on all steps are read in one pass."""


def _steps(rng, count, noise, rate):
    """Noise multipliers and rates between bounds."""
    sigma, q = (np.exp(rng.uniform(*np.log(ends), count)) for ends in (noise, rate))
    return sigma, q


def _job(sigma, q, count=None):
    counts = np.ones(sigma.size, dtype=int) if count is None else count
    return Process(
        [(fa.Gaussian(float(s)).poisson(float(r)), int(n)) for s, r, n in zip(sigma, q, counts, strict=True)]
    )


def _log_moments(sigma, q, count, u):
    """Sum of count * log E_Q exp(u L): trapezoid sums with more and wider nodes than they need."""
    total, t_max, right = np.zeros(u.shape, dtype=complex), np.abs(u.imag).max(), max(u.real.max(), 1.0)
    for s, r, n in zip(sigma, q, count, strict=True):
        x = np.arange(-9.0 * s, right + 1.0 + 9.0 * s, min(4.5 * s * s / (t_max + 20.0 + 1.5 * s * s), 0.25 * s))
        loss = np.log1p(r * np.expm1((x - 0.5) / s**2))
        log_weight = np.log((x[1] - x[0]) / (s * np.sqrt(2.0 * np.pi))) - 0.5 * (x / s) ** 2
        total += n * np.log(np.exp(np.multiply.outer(u, loss) + log_weight).sum(axis=1))
    return total


def _delta(sigma, q, count, epsilon, sign, extra=0.0):
    """delta(epsilon) of one direction by a vertical line; `extra`: mu^2 of a plain Gaussian beside the steps."""

    def log_f(v):
        u = v if sign > 0 else 1.0 - v
        k = _log_moments(sigma, q, count, u) + 0.5 * extra * v * (v - 1.0)
        return k - (v - 1.0) * epsilon - np.log(v) - np.log(v - 1.0)

    v = 1.0 + np.exp(np.linspace(-2.0, 3.0, 21)).astype(complex)
    c = 1.0 + 0.75 * (v[np.argmin(log_f(v).real)].real - 1.0)
    h, last, end = (c - 1.0) / 4.0, np.nan, 4.0
    while True:
        while log_f(np.array([c, c + 1j * end]))[1].real > log_f(np.array([c + 0j]))[0].real - 32.0:
            end *= 1.3
        f = np.exp(log_f(c + 1j * np.arange(0.0, end, h)))
        f[0] *= 0.5
        delta = h / np.pi * f.real.sum()
        if abs(delta - last) < 1e-10 * delta:
            return delta
        last, h = delta, 0.6 * h


RUNS = [
    (LEAST, (1.0, 2.0), (0.01, 0.05), 0.0),
    (LEAST + 5, (2.0, 6.0), (0.02, 0.4), 0.0),
    (200, (0.9, 1.3), (0.01, 0.02), 0.05),
    (LEAST, (4.0, 5.0), (0.5, 0.9), 0.0),
]


@pytest.mark.parametrize(("number", "run"), list(enumerate(RUNS)))
@pytest.mark.parametrize("neighbors", ["remove", "add"])
def test_all_steps_in_one_pass(number, run, neighbors):
    size, noise, rate, extra = run
    rng = np.random.default_rng(number)
    sigma, q = _steps(rng, size, noise, rate)
    count = rng.integers(1, 4, size)
    job = _job(sigma, q, count)
    if extra:
        job = job + fa.Gaussian(extra**-0.5)
    for delta in (1e-3 if number % 2 else 1e-7,):
        low, high, status = fa.epsilon_bounds(job, delta=delta, neighbors=neighbors)
        assert status == fa.Status.TIGHT
        assert 0.0 < high - low < 1e-8 * high
        sign = 1 if neighbors == "remove" else -1
        for epsilon, side in ((low, 1), (high, -1)):
            truth = _delta(sigma, q, count, epsilon, sign, extra)
            assert side * (truth / delta - 1.0) > -3e-10
        low, high, status = fa.delta_bounds(job, epsilon=1.1 * high, neighbors=neighbors)
        truth = _delta(sigma, q, count, 1.1 * fa.epsilon(job, delta=delta, neighbors=neighbors), sign, extra)
        assert low < truth * (1.0 + 3e-10)
        assert high > truth * (1.0 - 3e-10)
        assert 1e-14 * high < high - low < 2e-8 * high


def test_the_larger_direction():
    rng = np.random.default_rng(7)
    job = _job(*_steps(rng, 150, (3.0, 5.0), (0.2, 0.6)))
    both = fa.epsilon_bounds(job, delta=1e-4)
    each = [fa.epsilon_bounds(job, delta=1e-4, neighbors=name) for name in ("add", "remove")]
    assert both.upper == pytest.approx(max(x.upper for x in each), rel=1e-12, abs=0.0)  # where searches end
    assert both.lower <= max(x.upper for x in each)
    assert both.upper >= max(x.lower for x in each)


def test_the_pass_agrees_with_steps_read_one_by_one():
    """The same job, cut just below the number of steps from which one pass reads all."""
    rng = np.random.default_rng(11)
    sigma, q = _steps(rng, LEAST - 1, (1.0, 3.0), (0.01, 0.1))
    count = rng.integers(1, 3, LEAST - 1)
    few = _job(sigma, q, count)
    # one step written as two that differ by less than the bounds' width
    twins = np.append(sigma, np.nextafter(sigma[count > 1][0], 9.0)), np.append(q, q[count > 1][0])
    reduced = np.append(np.where(np.arange(LEAST - 1) == np.flatnonzero(count > 1)[0], count - 1, count), 1)
    many = _job(*twins, reduced)
    assert len(few) == LEAST - 1
    assert len(many) == LEAST
    for delta, neighbors in itertools.product((1e-2, 1e-6, 1e-12), ("add", "remove", "add_remove")):
        one, other = (fa.epsilon_bounds(job, delta=delta, neighbors=neighbors) for job in (few, many))
        assert one.lower <= other.upper * (1.0 + 1e-14)
        assert other.lower <= one.upper * (1.0 + 1e-14)
        assert other.upper - other.lower < 1e-7 * other.upper


def test_neither_order_nor_other_targets_matter():
    rng = np.random.default_rng(3)
    sigma, q = _steps(rng, 140, (1.0, 2.0), (0.01, 0.03))
    forward, backward = _job(sigma, q), _job(sigma[::-1], q[::-1])
    alone = [fa.epsilon(forward, delta=d) for d in (1e-3, 1e-5, 1e-8)]
    assert fa.epsilon(backward, delta=np.array([1e-3, 1e-5, 1e-8])).tolist() == alone


def test_beyond_the_largest_loss_no_slope_is_known_whatever_was_read_before():
    """Direction add: delta is 0 there, and the slope of another target is not that of this one."""
    sigma, q = _steps(np.random.default_rng(5), LEAST, (1.0, 3.0), (1e-4, 1e-3))
    end = -np.log1p(-q).sum()
    for targets in ([2.0 * end], [0.5 * end, 2.0 * end]):
        answers = [np.empty(len(targets)) for _ in range(3)]
        _kernels.exact_job(
            np.ones(LEAST),
            sigma,
            np.ones(LEAST, dtype=np.int32),
            np.zeros(LEAST, dtype=np.int32),
            q,
            np.ones(LEAST),
            np.array(targets),
            *answers,
            np.empty(len(targets), dtype=np.uint8),
            quantity=_kernels.Quantity.LOG_DELTA,
            directions=_kernels.Directions.ADD,
        )
        assert answers[1][-1] == -np.inf
        assert np.isnan(answers[2][-1])


def test_edges():
    rng = np.random.default_rng(4)
    job = _job(*_steps(rng, 130, (1.0, 2.0), (0.01, 0.03)))
    assert fa.epsilon(job, delta=1.0) == 0.0
    assert fa.epsilon(job, delta=0.0) == np.inf
    assert 0.0 < fa.delta(job, epsilon=0.0) < 1.0
    assert fa.delta(job, epsilon=np.inf) == 0.0
    assert fa.delta(job, epsilon=1e4) < 1e-20


def test_a_long_sum_of_steps_is_one_table():
    steps = [fa.Gaussian(1.0 + 1e-3 * i).poisson(0.01) for i in range(300)]
    assert sum(steps) == Process([(step, 1) for step in steps])
    assert (sum(steps) + steps[7])[steps[7]] == 2


def test_one_step_that_outweighs_all_others():
    """All the variance is in one group: the job is read step by step."""
    steps = [(fa.Gaussian(1.0).poisson(1e-6 * (1 + i / 1000)), 1) for i in range(LEAST - 1)]
    job = Process([*steps, (fa.Gaussian(2.0).poisson(0.5), 1)])
    alone = fa.epsilon_bounds(fa.Gaussian(2.0).poisson(0.5), delta=1e-6)
    assert fa.epsilon(job, delta=1e-6) >= alone.lower
