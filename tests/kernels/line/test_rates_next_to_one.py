"""Rates next to 1, added records: no loss is near log(1 - q), where lines of small rates have most of theirs."""

import numpy as np
import pytest
from mpmath import mp

import fastacct as fa
from fastacct import reference


def drawn(count):
    """Random runs: noise, 1 - rate, steps and delta."""
    rng = np.random.default_rng(1)
    return np.column_stack(
        [
            10 ** rng.uniform(-0.3, 1.7, count),
            10 ** rng.uniform(-7.0, -1.3, count),
            np.floor(10 ** rng.uniform(0.0, 2.3, count)),
            10 ** rng.uniform(-12.0, -3.0, count),
        ]
    )


@pytest.mark.parametrize("neighbors", ["add", "add_remove"])
def test_rates_next_to_one_are_tight(neighbors):
    """Below what every record gives in every step, and above 0 where that is."""
    runs = drawn(400)
    whole = np.empty(len(runs))
    found = []
    for i, (noise, left, steps, delta) in enumerate(runs):
        found.append(fa.epsilon_bounds(fa.Gaussian(noise).poisson(1.0 - left) * int(steps), delta, neighbors=neighbors))
        whole[i] = fa.epsilon(fa.Gaussian(noise) * int(steps), delta)
    lower, upper = np.array([each.lower for each in found]), np.array([each.upper for each in found])
    assert np.all(lower <= whole)
    assert np.all(upper - lower <= 1e-6)
    assert np.mean(upper - lower <= 1e-9 * np.maximum(1.0, upper)) >= 0.98
    rare = runs[:, 1] < 1e-6
    assert np.all(lower[rare] >= whole[rare] * (1.0 - 1e-3) - 1e-4)


@pytest.mark.parametrize(
    ("noise", "left", "steps", "epsilon"),
    [
        (25.7, 0.0174, 2, 0.21),
        (26.5, 0.0125, 2, 0.3),
        (9.9, 1e-4, 2, 1.0),
        (30.0, 0.05, 2, 0.25),
        (14.7, 0.0115, 2, 0.4),
    ],
)
def test_two_added_steps_at_rates_next_to_one_are_the_nested_integral(noise, left, steps, epsilon):
    run = {"noise_multiplier": noise, "sample_rate": 1.0 - left, "steps": steps, "epsilon": epsilon}
    truth = float(mp.log(reference.exact_delta(**run, direction="add", digits=14)))
    job = fa.Gaussian(noise).poisson(1.0 - left) * steps
    lower, upper, _ = fa.log_delta_bounds(job, epsilon=epsilon, neighbors="add")
    assert lower <= truth <= upper < truth + 1e-8
