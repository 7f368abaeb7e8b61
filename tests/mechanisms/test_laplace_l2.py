"""Noise with density exp(-|y|_2/b): never worse than Laplace noise on one number, which is what it is accounted as."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import fastacct as fa


def delta_by_integration(scale, dimension, epsilon, shift=1.0):
    """The hockey-stick divergence, over the place along the shift and the distance from its line."""
    x = np.linspace(-60.0 * scale, 60.0 * scale + shift, 6_001)
    h = (np.arange(1_000) + 0.5) / 1_000 * 45.0 * scale if dimension > 1 else np.zeros(1)
    total = 0.0
    step = (x[1] - x[0]) * (h[1] - h[0] if dimension > 1 else 1.0)
    surface = {1: 1.0, 2: 2.0, 3: 2.0 * math.pi}[dimension]
    whole = {1: 2.0 * scale, 2: 2.0 * math.pi * scale**2, 3: 8.0 * math.pi * scale**3}[dimension]
    for near in np.array_split(h, 20):
        radius = near[:, None] ** (dimension - 2.0) if dimension > 1 else 1.0
        p = np.exp(-np.hypot(x, near[:, None]) / scale) * radius
        q = np.exp(-np.hypot(x - shift, near[:, None]) / scale) * radius
        total += float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))
    return total * step * surface / whole


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("scale", [0.7, 2.0])
def test_no_delta_is_below_the_integral(dimension, scale):
    for share in (0.0, 0.5, 0.9):
        epsilon = share / scale
        true = delta_by_integration(scale, dimension, epsilon)
        found = fa.delta(fa.LaplaceL2(scale, dimension), epsilon=epsilon)
        assert true <= found * (1.0 + 1e-3), "1e-3: what the sums are off by"
        assert true >= found * (0.999 if dimension == 1 else 0.5 * (share == 0.0)), "and not far above it"
        assert true >= delta_by_integration(scale, dimension, epsilon, 0.5), "a smaller contribution is less"


def test_one_dimension_is_laplace_noise_to_the_bit():
    for neighbors in ("add_remove", "replace_one"):
        for delta in (1e-3, 1e-6):
            job, same = fa.LaplaceL2(3.0) * 4, fa.Laplace(3.0) * 4
            found = fa.epsilon_bounds(job, delta=delta, neighbors=neighbors)
            assert found == fa.epsilon_bounds(same, delta=delta, neighbors=neighbors)
    assert fa.LaplaceL2(3.0).tight
    assert not fa.LaplaceL2(3.0, 2).tight


def test_it_is_pure_composed_sampled_grouped_and_in_a_tree():
    noise = fa.LaplaceL2(4.0, dimension=5)
    assert fa.epsilon(noise, delta=0.0) == pytest.approx(0.25, rel=1e-15)
    assert fa.epsilon(noise, delta=0.0, neighbors="replace_one") == pytest.approx(0.5, rel=1e-15)
    assert fa.epsilon_lower(noise * 3, delta=1e-3) == 0.0, "a bound"
    assert fa.epsilon(noise.poisson(0.1) * 50, delta=1e-5) == fa.epsilon(fa.Laplace(4.0).poisson(0.1) * 50, delta=1e-5)
    assert fa.epsilon(noise.group(2), delta=0.0) == pytest.approx(0.5, rel=1e-15)
    tree = fa.TreeAggregation(4.0, steps=1000, noise="laplace_l2")
    assert not tree.tight
    assert fa.epsilon(tree, delta=1e-5) == fa.epsilon(fa.Laplace(4.0) * 10, delta=1e-5)


def test_the_norm_of_the_noise_is_gamma_distributed():
    with mp.workdps(25):
        for dimension in (1, 2, 7, 400):
            law = fa.utility(fa.LaplaceL2(1.5, dimension))
            assert law.is_exact
            assert law.mean_square == pytest.approx(1.5**2 * dimension * (dimension + 1), rel=1e-15)
            for t in (0.3, 4.0, 1.5 * dimension):
                want = mp.gammainc(dimension, mp.mpf(t) / mp.mpf(1.5), mp.inf, regularized=True)
                assert law.tail(t) == pytest.approx(float(want), rel=1e-10)
    rng, runs = np.random.default_rng(7), 1_000_000
    vectors = rng.normal(size=(runs, 3, 2))  # three nodes of a tree, in the plane
    vectors *= rng.gamma(2.0, 1.5, (runs, 3, 1)) / np.linalg.norm(vectors, axis=2, keepdims=True)
    errors = np.linalg.norm(vectors.sum(axis=1), axis=1)
    law = fa.utility(fa.TreeAggregation(1.5, steps=8, noise="laplace_l2"), step=7, dimension=2)
    assert not law.is_exact
    assert abs(np.mean(errors**2) - law.mean_square) <= 5.0 * np.std(errors**2) / math.sqrt(runs)
    for beta in (0.5, 0.05, 1e-3):
        assert np.quantile(errors, 1.0 - beta) <= law.quantile(beta) <= 3.0 * np.quantile(errors, 1.0 - beta)


def test_errors_of_trees_of_numbers_are_asked_by_coordinate():
    with pytest.raises(ValueError, match="dimension = 3"):
        fa.utility(fa.TreeAggregation(1.5, steps=8), step=7, dimension=3)
