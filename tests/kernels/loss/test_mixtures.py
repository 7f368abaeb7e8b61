"""Pairs of Gaussian mixtures: both directions are one only where all weights and means agree, and losses are theirs."""

import mpmath as mp
import pytest

from tests.kernel_parts import call


def loss(x, sigma, p, a, q, b):
    """log of the ratio of both densities."""

    def density(weight, mean):
        return (1 - weight) * mp.npdf(x, 0, sigma) + weight * mp.npdf(x, mean, sigma)

    return mp.log(density(p, a) / density(q, -b))


@pytest.mark.parametrize(
    ("p", "a", "q", "b", "is_one"),
    [(0.1, 1.0, 0.1, 1.0, 1), (0.1, 1.0, 0.3, 1.0, 0), (0.1, 1.0, 0.1, 2.0, 0), (0.75, 3.0, 0.5, 3.0, 0)],
)
def test_both_directions_are_one_where_means_and_weights_are_mirrored(p, a, q, b, is_one):
    with mp.workdps(30):
        for sigma in (0.7, 3.0):
            for x in (-4.0, -0.5, 0.0, 1.0, 6.0):
                found, there, turned = call("shapes", "turned", sigma, p, a, q, b, x, answers=3)
                assert found == is_one
                assert abs(there - loss(x, sigma, p, a, q, b)) <= 1e-13 * (1 + abs(there))
                assert abs(turned - loss(x, sigma, q, b, p, a)) <= 1e-13 * (1 + abs(turned))
