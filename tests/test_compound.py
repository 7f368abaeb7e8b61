"""Mechanisms made of simpler ones: how many nodes of a tree a record touches, and how far they move."""

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
