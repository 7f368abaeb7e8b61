"""Mechanisms made of simpler ones: how many nodes of a tree a record touches, and how far they move."""

import math

import pytest

import fastacct as fa


def test_a_tree_has_one_more_level_at_powers_of_two():
    nodes = [next(iter(fa.TreeAggregation(1.0, n).decompose("add_remove")))[1] for n in (1, 2, 3, 4, 7, 8, 1024)]
    assert nodes == [1, 2, 2, 3, 3, 4, 11]
    assert fa.TreeAggregation(1.0, 1000, whole_tree=True).decompose("add") == fa.Gaussian(1.0) * 11


def test_several_participations_in_a_tree():
    """A node that moves twice as far is not two nodes that move once, for Laplace noise at least."""
    tree = fa.TreeAggregation(10.0, 1, noise="laplace", participations=2)
    twice = fa.Laplace(5.0)  # the root, moved by 2
    for epsilon in (0.0, 0.1, 0.19):
        assert fa.delta(tree, epsilon=epsilon) >= fa.delta_lower(twice, epsilon=epsilon)
        assert (
            fa.delta(fa.Laplace(10.0) * 2, epsilon=epsilon) < fa.delta_lower(twice, epsilon=epsilon) or epsilon == 0.0
        )
    gaussian = fa.TreeAggregation(10.0, 1, participations=2)
    assert fa.delta(gaussian, epsilon=0.1) == fa.delta(fa.Gaussian(5.0), epsilon=0.1)
    assert not gaussian.tight


@pytest.mark.parametrize(("steps", "rounds"), [(1, 1), (32, 1), (33, 2), (64, 2), (65, 3)])
def test_a_round_of_bands_that_has_begun_counts(steps, rounds):
    found = fa.BandMF(noise_multiplier=4.0, sample_rate=0.32, steps=steps, bands=32)
    once = fa.Gaussian(4.0).poisson(0.32)
    assert fa.epsilon(found, delta=1e-5) == fa.epsilon(once * rounds, delta=1e-5)


@pytest.mark.parametrize("diameter", [0.3, 1.0, 2.6, 9.5, 40.0, 1e3])
@pytest.mark.parametrize("steps", [1, 5, 30])
def test_a_small_set_of_iterates_is_as_good_as_its_best_number_of_last_steps(steps, diameter):
    """k steps move what was up to the diameter apart, and k more: the least (diameter + k)^2/k, or all steps."""
    found = fa.NoisyIteration(noise_multiplier=2.0, steps=steps, diameter=diameter).mu
    squares = [(diameter + k) ** 2 / k for k in range(1, steps)] if diameter < steps else []
    truth = math.sqrt(min([float(steps), *squares])) / 2.0
    assert truth * (1.0 - 1e-15) <= found <= truth * (1.0 + 1e-15)
