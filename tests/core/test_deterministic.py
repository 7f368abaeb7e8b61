"""The same bits, whatever the threads, the cutting of an array, the order of its cells and the other targets."""

import contextlib
import math
from dataclasses import fields, replace

import numpy as np
import pytest

import fastacct as fa
from fastacct.testing import examples


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
    runs = mixed_runs(12, 13)
    whole = fa.dpsgd.epsilon_bounds(**runs, neighbors=neighbors, threads=1)
    for threads in (2, 5):
        again = fa.dpsgd.epsilon_bounds(**runs, neighbors=neighbors, threads=threads)
        for a, b in zip(whole, again, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(fa.dpsgd.epsilon(**runs, neighbors=neighbors), whole.upper)
    backwards = fa.dpsgd.epsilon_bounds(**{k: v[::-1] for k, v in runs.items()}, neighbors=neighbors)
    for a, b in zip(whole, backwards, strict=True):
        np.testing.assert_array_equal(a, b[::-1])
    for i in range(0, 12, 5):
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


EXAMPLES = list(examples())
ORDERS = [1.00001, 1.2, 1.5, 2.0, 3.0, 4.5, 33.3, 150.0]


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_divergences_have_the_bits_of_each_order_alone(mechanism):
    for relation in mechanism.relations:
        alone = [fa.rdp(mechanism, order, neighbors=relation) for order in ORDERS]
        assert fa.rdp(mechanism, ORDERS, neighbors=relation).tolist() == alone
        assert fa.rdp(mechanism, ORDERS[::-1], neighbors=relation).tolist() == alone[::-1]
        assert fa.rdp(mechanism, [*ORDERS, math.inf], neighbors=relation).tolist()[:-1] == alone


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_parameters_in_an_array_have_the_bits_of_each_alone(mechanism):
    for one in fields(mechanism):
        value, domain = getattr(mechanism, one.name), one.metadata.get("domain")
        if domain is None or not isinstance(value, float) or not 0.0 < value < math.inf or is_of_one_number(mechanism):
            continue
        several = [value, *others(mechanism, one.name, value, whole=domain.integer)]
        relation = mechanism.relations[0]
        together = fa.delta(replace(mechanism, **{one.name: several}), epsilon=0.5, neighbors=relation)
        alone = [fa.delta(replace(mechanism, **{one.name: x}), epsilon=0.5, neighbors=relation) for x in several]
        assert together.tolist() == alone, one.name


def is_of_one_number(mechanism):
    return isinstance(mechanism, fa.RandomWalk) and mechanism.graph == "complete"


def others(mechanism, name, value, *, whole):
    """Values that are allowed beside the other parameters."""
    for other in (0.5 * value, 2.0 * value):
        other = float(round(other)) if whole else other
        with contextlib.suppress(ValueError):
            replace(mechanism, **{name: other})
            yield other
