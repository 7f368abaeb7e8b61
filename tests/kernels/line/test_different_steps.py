"""Jobs of many different sampled Gaussians against trapezoid sums of our own in NumPy."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.pieces import columns as data_columns
from fastacct.mechanisms.process import Process
from fastacct_ext import _kernels
from tests import kernel_parts

CAPPED = 128
"""Most blocks of a capped line."""
NO_DATA = data_columns(())


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
    (128, (1.0, 2.0), (0.01, 0.05), 0.0),
    (133, (2.0, 6.0), (0.02, 0.4), 0.0),
    (200, (0.9, 1.3), (0.01, 0.02), 0.05),
    (128, (4.0, 5.0), (0.5, 0.9), 0.0),
    (259, (1.0, 1.5), (0.01, 0.03), 0.0),
    (2, (0.9, 1.0), (0.01, 0.02), 0.0),
    (9, (1.0, 3.0), (0.02, 0.1), 0.1),
    (30, (0.7, 0.9), (0.005, 0.01), 0.0),
]


@pytest.mark.parametrize(("number", "run"), list(enumerate(RUNS)))
@pytest.mark.parametrize("neighbors", ["remove", "add"])
def test_bounds_are_tight_and_hold(number, run, neighbors):
    size, noise, rate, extra = run
    rng = np.random.default_rng(number)
    sigma, q = _steps(rng, size, noise, rate)
    count = rng.integers(1, 4, size) * (400 // size if size < 100 else 1)
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


def _ask(quantity, sigma, q, count, targets, directions=_kernels.Directions.BOTH):
    """Lower and upper bounds by the kernel, one target at a time."""
    order, n = np.lexsort((q, sigma)), sigma.size
    kinds = np.ones(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    found = []
    for target in targets:
        out = [np.empty(1), np.empty(1), np.empty(1), np.empty(1, dtype=np.uint8)]
        columns = count[order].astype(float), sigma[order], *kinds, q[order], np.ones(n)
        _kernels.exact_job(*columns, NO_DATA, np.array([target]), *out, quantity=quantity, directions=directions)
        found.append((float(out[0][0]), float(out[1][0])))
    return found


def test_a_job_agrees_with_its_line():
    rng, certified = np.random.default_rng(11), 0
    budget = [28.4, 30.0, 41.6, 1.35, 8.0, 8.5, 8.5, 0.0, 0.0]
    for size in (2, 3, 5, 9, 17, 40, CAPPED):
        for _ in range(4):
            noise = 10.0 ** rng.uniform(-0.1, 0.6)
            sigma, q = _steps(rng, size, (noise, 1.2 * noise), (0.005, 0.05))
            count = rng.integers(1, 1 + 4000 // size, size)
            remove = _kernels.Directions.REMOVE
            delta = 10.0 ** rng.uniform(-9, -3)
            ((_, epsilon),) = _ask(_kernels.Quantity.EPSILON, sigma, q, count, [delta], remove)
            ((low, high),) = _ask(_kernels.Quantity.LOG_DELTA, sigma, q, count, [epsilon], remove)
            lists = (sigma, q, count, budget)
            out = kernel_parts.call("ledgers", "line", size, 0.0, epsilon, lists=lists, answers=11)
            if out[0] == out[0]:
                certified += 1
                assert high - low < 1e-7
                assert low - 1e-10 <= out[0] <= high + 1e-10
                assert high <= np.log(delta) + 1e-12
    assert certified > 20


def _random_jobs(rng, number):
    """Jobs that have steps in common, of 2 to 120 steps each; a third of the steps have one noise multiplier."""
    sigma, q = _steps(rng, 400, (0.8, 3.0), (0.002, 0.1))
    sigma[::3] = 1.0
    for _ in range(number):
        start, size = rng.integers(0, 300), rng.integers(2, 120)
        mine = start + np.sort(rng.choice(100, min(size, 100), replace=False))
        yield sigma[mine], q[mine], rng.integers(1, 60, mine.size), [10.0 ** rng.uniform(-9, -3)]


def test_no_bit_depends_on_what_was_asked_before():
    """In another order, and from threads."""
    jobs = list(_random_jobs(np.random.default_rng(21), 120))

    def ask(job):
        return _ask(_kernels.Quantity.EPSILON, *job)

    forward = [ask(job) for job in jobs]
    assert [ask(job) for job in reversed(jobs)] == forward[::-1]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, jobs)) == forward
    assert len(set(map(str, forward))) == len(jobs)


def test_a_run_that_grows_has_the_bits_of_one_that_has_grown():
    rng = np.random.default_rng(22)
    sigma, q = _steps(rng, 40, (1.0, 2.0), (0.01, 0.02))
    count, others = rng.integers(1, 60, 40), list(_random_jobs(rng, 40))
    grown = []
    for _ in range(60):
        count[7] += 1
        grown.append((count.copy(), _ask(_kernels.Quantity.EPSILON, sigma, q, count, [1e-6])))
    for i, (now, found) in enumerate(grown[::-1]):
        if i % 3 == 0:
            _ask(_kernels.Quantity.EPSILON, *others[i // 3])
        assert _ask(_kernels.Quantity.EPSILON, sigma, q, now, [1e-6]) == found
    uppers = [found[0][1] for _, found in grown]
    assert np.all(np.diff(uppers) > 0.0)


def test_neither_order_nor_other_targets_matter():
    rng = np.random.default_rng(3)
    sigma, q = _steps(rng, 140, (1.0, 2.0), (0.01, 0.03))
    forward, backward = _job(sigma, q), _job(sigma[::-1], q[::-1])
    alone = [fa.epsilon(forward, delta=d) for d in (1e-3, 1e-5, 1e-8)]
    assert fa.epsilon(backward, delta=np.array([1e-3, 1e-5, 1e-8])).tolist() == alone


def test_beyond_the_largest_loss_no_slope_is_known_whatever_was_read_before():
    """Direction add: delta is 0 there, and the slope of another target is not that of this one."""
    sigma, q = _steps(np.random.default_rng(5), CAPPED, (1.0, 3.0), (1e-4, 1e-3))
    end = -np.log1p(-q).sum()
    for targets in ([2.0 * end], [0.5 * end, 2.0 * end]):
        answers = [np.empty(len(targets)) for _ in range(3)]
        _kernels.exact_job(
            np.ones(CAPPED),
            sigma,
            np.ones(CAPPED, dtype=np.int32),
            np.zeros(CAPPED, dtype=np.int32),
            q,
            np.ones(CAPPED),
            NO_DATA,
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
    steps = [(fa.Gaussian(1.0).poisson(1e-6 * (1 + i / 1000)), 1) for i in range(CAPPED - 1)]
    job = Process([*steps, (fa.Gaussian(2.0).poisson(0.5), 1)])
    alone = fa.epsilon_bounds(fa.Gaussian(2.0).poisson(0.5), delta=1e-6)
    assert fa.epsilon(job, delta=1e-6) >= alone.lower
