"""Our own kernels over a grid verb x regime x size; every value is checked before it is timed.

pytest bench                         times
pytest bench --benchmark-disable     the checks alone, each call once
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture

import fastacct as fa
from bench.agreement import RDP, TOLERANCE, search_excess, true_epsilon
from bench.compare import CURVE_ORDERS
from bench.configurations import REGIMES, Configurations, everyday
from fastacct import reference

SIZES = (1, 100, 2_000)
CONVERSIONS = ("mironov", "canonne_kamath_steinke", "optimal")
ORACLE_ROUNDING = 1e-12
CALIBRATION = 1e-9


@cache
def rows(regime: str, n: int) -> Configurations:
    return REGIMES[regime](n)


@cache
def oracle_epsilons(regime: str) -> list[float]:
    """The truth at the first configuration of a regime (the oracle takes its time)."""
    return [true_epsilon(c) for c in rows(regime, 1)]


def conversion_epsilon(divergence: Any, order: Any, delta: Any, conversion: str) -> NDArray[np.float64]:
    """Epsilon at one order, by the two closed conversions."""
    if conversion == "mironov":
        return np.asarray(divergence - np.log(delta) / (order - 1.0))
    return np.asarray(divergence - np.log(delta * order) / (order - 1.0) + np.log1p(-1.0 / order))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("regime", REGIMES)
def test_epsilon_of_a_regime(benchmark: BenchmarkFixture, regime: str, size: int) -> None:
    configurations = rows(regime, size)
    ours = fa.dpsgd.epsilon(**configurations.run(), accountant=RDP)
    for value, truth in zip(ours.tolist(), oracle_epsilons(regime), strict=False):
        assert truth * (1 - ORACLE_ROUNDING) <= value <= truth * (1 + TOLERANCE)
    assert search_excess(configurations.head(200)).max() <= TOLERANCE
    benchmark.group = f"epsilon, {size} configurations"
    np.testing.assert_array_equal(benchmark(fa.dpsgd.epsilon, **configurations.run(), accountant=RDP), ours)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_epsilon_of_a_conversion(benchmark: BenchmarkFixture, conversion: str, regime: str) -> None:
    configurations = rows(regime, 100)
    run = configurations.run()
    accountant = fa.RDP(conversion=conversion)
    ours = fa.dpsgd.epsilon(**run, accountant=accountant)
    if conversion == "optimal":
        assert np.all(ours <= fa.dpsgd.epsilon(**run, accountant=RDP) * (1 + ORACLE_ROUNDING))
    else:
        order = fa.dpsgd.best_order(**run, accountant=accountant)
        divergence = fa.dpsgd.rdp(**configurations.parameters(), steps=configurations.steps, orders=order)
        there = np.maximum(conversion_epsilon(divergence, order, configurations.delta, conversion), 0.0)
        there[order < 1 + 1e-9] = 0.0  # proved by the total variation, not by a conversion
        # epsilon may be what little is left of two large terms
        np.testing.assert_allclose(ours, there, rtol=1e-10, atol=1e-13)
    benchmark.group = f"epsilon, 100 configurations, {regime}"
    np.testing.assert_array_equal(benchmark(fa.dpsgd.epsilon, **run, accountant=accountant), ours)


@pytest.mark.parametrize("regime", REGIMES)
def test_delta_of_a_regime(benchmark: BenchmarkFixture, regime: str) -> None:
    configurations = rows(regime, 500)
    run = configurations.run()
    target = run.pop("delta")
    epsilon = fa.dpsgd.epsilon(**run, delta=target, accountant=RDP)
    ours = fa.dpsgd.delta(**run, epsilon=epsilon, accountant=RDP)
    # the two readouts are inverse to each other
    at_positive = epsilon > 0.0
    np.testing.assert_allclose(ours[at_positive], target[at_positive], rtol=1e-6)
    benchmark.group = "delta, 500 configurations"
    np.testing.assert_array_equal(benchmark(fa.dpsgd.delta, **run, epsilon=epsilon, accountant=RDP), ours)


@pytest.mark.parametrize("orders", [(2.0,), CURVE_ORDERS, (1.0001, 1e3, 1e5)], ids=["one order", "curve", "far orders"])
@pytest.mark.parametrize("regime", REGIMES)
def test_rdp_of_a_regime(benchmark: BenchmarkFixture, regime: str, orders: tuple[float, ...]) -> None:
    configurations = rows(regime, 20)
    axis = np.asarray(orders)
    bounds = fa.dpsgd.rdp_bounds(**configurations.curves(), orders=axis)
    for row, c in enumerate(configurations.head(2)):
        for column in {0, len(orders) // 2}:
            truth = reference.rdp(c.noise_multiplier, c.sample_rate, orders[column], digits=18)
            assert bounds.lower[row, column] <= truth <= bounds.upper[row, column]
            assert bounds.upper[row, column] <= truth * (1 + ORACLE_ROUNDING)
    benchmark.group = f"rdp, 20 configurations x {len(orders)} orders"
    np.testing.assert_array_equal(benchmark(fa.dpsgd.rdp, **configurations.curves(), orders=axis), bounds.upper)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("solve_for", ["noise_multiplier", "sample_rate", "steps"])
def test_calibration_of_a_parameter(benchmark: BenchmarkFixture, solve_for: str, regime: str) -> None:
    configurations = rows(regime, 50)
    run = configurations.run()
    known: dict[str, Any] = {name: column for name, column in run.items() if name != solve_for}
    solve = getattr(fa.dpsgd, solve_for)
    ours = solve(**known, epsilon=configurations.epsilon, accountant=RDP)
    inside = np.isfinite(ours) & (ours > 0.0)
    if solve_for == "steps":
        inside &= ours < 2.0**53
    beyond = {"noise_multiplier": ours * (1 - 2 * CALIBRATION), "sample_rate": ours * (1 + 2 * CALIBRATION)}
    outer = np.minimum(beyond.get(solve_for, ours + 1.0), 1.0 if solve_for == "sample_rate" else np.inf)
    at = fa.dpsgd.epsilon(**(known | {solve_for: np.where(inside, ours, 1.0)}), accountant=RDP)
    past = fa.dpsgd.epsilon(**(known | {solve_for: np.where(inside, outer, 1.0)}), accountant=RDP)
    assert np.all(at[inside] <= configurations.epsilon[inside])
    limited = inside & (outer != ours)  # a sample rate of 1 has no more beyond it
    assert np.all(past[limited] > configurations.epsilon[limited])
    benchmark.group = f"{solve_for}, 50 configurations"
    np.testing.assert_array_equal(benchmark(solve, **known, epsilon=configurations.epsilon, accountant=RDP), ours)


@pytest.mark.parametrize("accountant", [fa.BasicComposition(), fa.AdvancedComposition()], ids=repr)
def test_epsilon_of_a_classical_accountant(benchmark: BenchmarkFixture, accountant: fa.Method) -> None:
    run = everyday(500).run()
    ours = fa.dpsgd.epsilon(**run, accountant=accountant)
    once = fa.dpsgd.epsilon(**(run | {"steps": 1}), accountant=accountant)
    for c, epsilon in zip(everyday(4), once.tolist(), strict=False):
        exact = reference.sampled_gaussian_delta(c.noise_multiplier, c.sample_rate, epsilon, "remove", digits=15)
        assert exact <= c.delta * (1 + ORACLE_ROUNDING)
    assert np.all(ours >= once)
    benchmark.group = "epsilon, 500 configurations, classical accountants"
    np.testing.assert_array_equal(benchmark(fa.dpsgd.epsilon, **run, accountant=accountant), ours)


def test_epsilon_of_a_history(benchmark: BenchmarkFixture) -> None:
    blocks = [c[:3] for c in everyday(10)]
    ours = fa.dpsgd.epsilon(history=blocks, delta=1e-6, accountant=RDP)
    assert ours >= max(fa.dpsgd.epsilon(history=[block], delta=1e-6, accountant=RDP) for block in blocks)
    benchmark.group = "one call"
    assert benchmark(fa.dpsgd.epsilon, history=blocks, delta=1e-6, accountant=RDP) == ours


def test_epsilon_of_a_thousand_different_steps(benchmark: BenchmarkFixture) -> None:
    rng = np.random.default_rng(3)
    sigma, q = rng.uniform(0.8, 2.0, 1000), rng.uniform(0.001, 0.02, 1000)
    job = fa.Process([(fa.Gaussian(s).poisson(r), 1) for s, r in zip(sigma.tolist(), q.tolist(), strict=True)])
    bounds = fa.epsilon_bounds(job, delta=1e-5)
    assert 0.0 < bounds.upper - bounds.lower < 1e-8
    assert bounds.upper < fa.epsilon(job, delta=1e-5, accountant=RDP)
    benchmark.group = "one call"
    assert benchmark(fa.epsilon, job, delta=1e-5) == bounds.upper


def test_epsilon_of_plain_numbers(benchmark: BenchmarkFixture) -> None:
    run: dict[str, Any] = next(iter(everyday(1)))._asdict()
    ours = fa.dpsgd.epsilon(**run, accountant=RDP)
    assert ours == fa.dpsgd.epsilon(**everyday(1).run(), accountant=RDP)[0]
    benchmark.group = "one call"
    assert benchmark(fa.dpsgd.epsilon, **run, accountant=RDP) == ours


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_of_a_large_grid(benchmark: BenchmarkFixture, threads: int) -> None:
    run = everyday(20_000).run()
    ours = fa.dpsgd.epsilon(**run, accountant=RDP, threads=1)
    benchmark.group = "epsilon, 20,000 configurations, threads"
    np.testing.assert_array_equal(benchmark(fa.dpsgd.epsilon, **run, accountant=RDP, threads=threads), ours)
