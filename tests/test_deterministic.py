"""The same bits, whatever the threads, the cutting of an array, the order of its cells and the other targets."""

import numpy as np
import pytest

import fastacct as fa


def mixed_runs(n, seed):
    rng = np.random.default_rng(seed)
    return {
        "noise_multiplier": 10 ** rng.uniform(-0.3, 1, n),
        "sample_rate": 10 ** rng.uniform(-3, 0, n),
        "steps": np.floor(10 ** rng.uniform(2, 5, n)),
        "delta": 10 ** rng.uniform(-10, -2, n),
    }


@pytest.mark.parametrize("neighbors", ["add_remove", "add", "replace_one"])
def test_threads_order_and_cutting_do_not_change_a_bit(neighbors):
    runs = mixed_runs(48, 13)
    whole = fa.dpsgd.epsilon_bounds(**runs, neighbors=neighbors, threads=1)
    for threads in (2, 5):
        again = fa.dpsgd.epsilon_bounds(**runs, neighbors=neighbors, threads=threads)
        for a, b in zip(whole, again, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(fa.dpsgd.epsilon(**runs, neighbors=neighbors), whole.upper)
    backwards = fa.dpsgd.epsilon_bounds(**{k: v[::-1] for k, v in runs.items()}, neighbors=neighbors)
    for a, b in zip(whole, backwards, strict=True):
        np.testing.assert_array_equal(a, b[::-1])
    for i in range(0, 48, 7):
        cell = {k: float(v[i]) for k, v in runs.items()}
        assert fa.dpsgd.epsilon_bounds(**cell, neighbors=neighbors) == tuple(x[i] for x in whole)
        assert fa.dpsgd.epsilon(**cell, neighbors=neighbors) == whole.upper[i]


@pytest.mark.parametrize("job", [(0.8, 0.0007, 1000.0), (2.0, 0.01, 500.0), (3.04, 0.0066, 126.0), (1.6, 6e-4, 8000.0)])
def test_the_targets_of_one_run_share_a_line_and_no_answer_depends_on_the_others(job):
    sigma, q, steps = job
    delta = np.random.default_rng(5).permutation(np.geomspace(1e-12, 1e-2, 31))
    run = {"noise_multiplier": sigma, "sample_rate": q, "steps": steps}
    together = fa.dpsgd.epsilon_bounds(**run, delta=delta, threads=1)
    for i, one in enumerate(delta):
        alone = fa.dpsgd.epsilon_bounds(**run, delta=float(one))
        assert (alone.lower, alone.upper) == (together.lower[i], together.upper[i])
    assert np.all(together.upper - together.lower <= 1e-9 * together.upper)
    as_job = fa.epsilon_bounds(fa.Gaussian(sigma).poisson(q) * int(steps), delta=delta[::-1])
    np.testing.assert_array_equal(as_job.upper[::-1], together.upper)


def test_a_scalar_call_has_the_bits_of_the_array_call():
    runs = mixed_runs(40, 14)
    grid = fa.dpsgd.epsilon(**runs)
    one = [fa.dpsgd.epsilon(**{k: float(v[i]) for k, v in runs.items()}) for i in range(40)]
    assert all(type(x) is float for x in one)
    np.testing.assert_array_equal(grid, one)
