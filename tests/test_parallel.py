"""Parallel composition: the larger of its parts, told apart in every cell."""

import numpy as np
import pytest

import fastacct as fa


def test_parallel_is_the_largest_and_composes():
    a, b = fa.Laplace(2.0) * 2, fa.Gaussian(1.0)
    both = fa.Parallel(a, b)
    for epsilon in (0.1, 0.9):
        expected = np.maximum(*(np.array(fa.delta_bounds(job, epsilon=epsilon)) for job in (a, b)))
        np.testing.assert_array_equal(np.array(fa.delta_bounds(both, epsilon=epsilon)), expected)
    assert fa.delta(fa.Parallel(b, b) * 2, epsilon=1.0) == fa.delta(b * 2, epsilon=1.0)
    orders = np.array([1.5, 2.0, 8.0])
    larger = np.maximum(fa.rdp(a, orders), fa.rdp(b, orders))
    np.testing.assert_allclose(fa.rdp(both, orders), larger, rtol=2e-14, atol=0.0)  # its rounding up
    assert fa.delta(both * 2, epsilon=1.0) >= fa.delta(b * 2, epsilon=1.0)
    with pytest.raises(ValueError, match="replace_one"):
        fa.delta(both, epsilon=1.0, neighbors="replace_one")
    with pytest.raises(ValueError, match="different parts"):
        both.group(2)
    with pytest.raises(TypeError, match=r"jobs\[1\]"):
        fa.Parallel(b, fa.Gaussian(np.array([1.0, 2.0])) * 1)


def test_parts_of_the_data_are_told_apart_for_every_count_of_an_array():
    """Once the divergences of all parts together, where the count was an array."""
    parts, counts = fa.Parallel(fa.PureDP(0.5), fa.Laplace(10.0)), np.array([1, 0, 3])
    lower, upper, _ = fa.delta_bounds(parts * counts, epsilon=[[0.2], [0.7]])
    for i, j in np.ndindex(2, 3):
        one = fa.delta_bounds(parts * int(counts[j]), epsilon=(0.2, 0.7)[i])
        assert (lower[i, j], upper[i, j]) == one[:2]
