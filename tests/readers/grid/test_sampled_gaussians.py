"""Steps of DP-SGD on a grid: one against its closed form, many against contour integrals in 30 digits."""

import math

import numpy as np
import pytest
from mpmath import mpf

from fastacct import reference
from tests.containment import holds
from tests.grids import on_grid, step

ONE_STEP = [
    (1.0, 0.01, 0.05),
    (0.5, 0.01, 2.0),
    (0.7, 1e-4, 0.5),
    (0.8, 0.3, 0.2),
    (2.0, 0.5, 0.0),
    (2.0, 0.9, 1.5),
    (0.3, 0.02, 7.0),
    (5.0, 0.001, 1e-4),
]


@pytest.mark.parametrize(("sigma", "q", "epsilon"), ONE_STEP)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_one_sampled_gaussian_is_inside_its_closed_form(sigma, q, epsilon, direction):
    truth = reference.sampled_gaussian_delta(sigma, q, epsilon, direction, digits=20)
    bounds = on_grid([(step(sigma, q, direction), 1)], epsilon=epsilon)
    if truth == 0:
        assert bounds[:2] == (0.0, 0.0)
    else:
        assert holds(bounds, truth, 1e-3)


def test_random_sampled_gaussians_are_inside_their_closed_form():
    rng = np.random.default_rng(11)
    for _ in range(40):
        sigma, q = float(10 ** rng.uniform(-1, 1.5)), float(10 ** rng.uniform(-8, 0))
        direction = ("remove", "add")[int(rng.integers(2))]
        top = 8 / sigma + 1 / (2 * sigma**2) + math.log(q) if direction == "remove" else -math.log1p(-q)
        epsilon = max(0.0, float(top * rng.uniform() ** 2))
        truth = reference.sampled_gaussian_delta(sigma, q, epsilon, direction, digits=20)
        lower, upper, _ = on_grid([(step(sigma, q, direction), 1)], epsilon=epsilon, tolerance=0.1)
        assert lower <= truth <= upper, (sigma, q, direction, epsilon)
        # a bulk far narrower than the finest grid is only known to be inside one cell;
        # below 1e-100 nothing is promised but the side
        if truth < mpf(10) ** -100:
            continue
        assert upper <= (1.2 if q > 1e-6 else 5) * truth + mpf(10) ** -290, (sigma, q, direction, epsilon)


@pytest.mark.parametrize(
    ("sigma", "q", "n", "delta", "truth"),
    [  # contour integrals at 30 digits, "remove" direction
        (1.0, 0.01, 1000, 1e-5, 1.828236666516577),
        (1.0, 0.01, 1000, 1e-8, 2.6978679344938),
        (1.0, 0.01, 1000, 1e-12, 3.91429815603747),
        (1.0, 0.01, 1000, 1e-13, 4.2298113591490),
        (1.0, 0.01, 1000, 1e-15, 4.854537750604924),
        (4.0, 0.01, 10_000, 1e-5, 0.9468668007643804),
        (0.8, 0.001, 20_000, 1e-7, 1.487465154879526),
        (5.0, 0.5, 10, 1e-6, 1.468665021160587),
        (2.0, 0.01, 10_000, 1e-6, 2.446733944484),
        (1.0, 0.01, 10_000, 1e-6, 6.907384495045),
    ],
)
def test_epsilon_of_composed_sampled_gaussians_meets_contour_integrals(sigma, q, n, delta, truth):
    assert holds(on_grid([(step(sigma, q), n)], delta=delta), truth, 1e-3)


@pytest.mark.parametrize(
    ("direction", "sigma", "q", "n", "epsilon", "truth"),
    [
        ("remove", 1.0, 0.01, 10_000, 6.0, 1.7597760848e-05),
        ("add", 1.0, 0.01, 10_000, 6.0, 2.2954140803e-06),
        ("remove", 1.0, 0.01, 1000, 1.5, 0.0001092559076688116),
        ("remove", 2.0, 0.1, 100, 1.0, 1.1497861201e-02),
        ("remove", 0.8, 0.02, 10, 1.0, 1.051038519e-04),  # few participations: a single large loss decides
        ("remove", 0.5, 0.02, 2, 1.0, 0.002232888468572),
        ("remove", 1.0, 0.1, 2, 0.3, 0.01187510056858),
        ("remove", 2.0, 0.5, 2, 0.2, 0.07473618549057),
        ("add", 2.0, 0.5, 2, 0.2, 0.06190479977587),
    ],
)
def test_delta_of_composed_sampled_gaussians_meets_contour_integrals(direction, sigma, q, n, epsilon, truth):
    lower, upper, _ = on_grid([(step(sigma, q, direction), n)], epsilon=epsilon)
    last_digit = 1e-9  # of the truths
    assert lower <= truth * (1 + last_digit)
    assert upper >= truth * (1 - last_digit)
    assert upper - lower <= 1e-3 * upper


def test_a_bulk_narrower_than_the_grid_keeps_the_bounds():
    lower, upper, _ = on_grid([(step(0.5, 1e-5), 10_000)], epsilon=0.2, tolerance=0.02)
    assert lower <= 9.886556894e-07 * (1 + 1e-9)
    assert 9.886556894e-07 * (1 - 1e-9) <= upper <= 1.02 * lower
