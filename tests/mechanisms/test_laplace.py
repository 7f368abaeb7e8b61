"""Laplace noise: groups whose members may touch different releases."""

import pytest

import fastacct as fa


@pytest.mark.parametrize(("relation", "moved"), [("add_remove", 1.0), ("replace_one", 2.0)])
@pytest.mark.parametrize("size", [2, 3])
def test_members_of_a_group_may_touch_different_nodes_of_a_tree(size, relation, moved):
    """Three nodes a member, each moved by `moved` over the scale: together they are no more than pure."""
    tree = fa.TreeAggregation(noise_multiplier=10.0, steps=4, noise="laplace")
    truth = 3.0 * size * moved / 10.0
    found = fa.epsilon(tree.group(size), delta=0.0, neighbors=relation)
    assert truth * (1.0 - 1e-15) <= found <= truth * (1.0 + 1e-14)
    # members in the first and in the last leaf: six nodes of noise for them alone
    apart = fa.epsilon(fa.Laplace(10.0 / moved) * (3 * size), delta=1e-3)
    assert fa.epsilon(tree.group(size), delta=1e-3, neighbors=relation) >= apart * (1.0 - 1e-9)
