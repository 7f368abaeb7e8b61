"""The readers of one cell: the larger direction decides, however little it is larger."""

import itertools
import math

import pytest

import fastacct as fa


def delta_of(p, q, count, epsilon):
    """Of a table that is released a few times: the sum over all outcomes."""
    return math.fsum(
        max(0.0, math.prod(p[i] for i in one) - math.exp(epsilon) * math.prod(q[i] for i in one))
        for one in itertools.product(range(len(p)), repeat=count)
    )


TABLES = [((5, 6, 5), (4, 3, 9)), ((3, 6, 7), (7, 4, 5)), ((6, 6, 4), (2, 3, 11))]


@pytest.mark.parametrize(("p", "q"), TABLES)
def test_a_direction_that_is_a_little_larger_is_not_left_out(p, q):
    """On grids, where the first grid of a direction may say that it is not the larger one."""
    p, q = ([one / 16 for one in side] for side in (p, q))
    first, second = delta_of(p, q, 4, 1.0), delta_of(q, p, 4, 1.0)
    assert first * 1.01 < second < first * 1.05
    grid = fa.PLD(spacing=1e-3)
    found = fa.delta_bounds(fa.from_pmf(p, q) * 4, epsilon=1.0, accountant=grid)
    assert found.lower <= second * (1.0 + 1e-12)
    assert second * (1.0 - 1e-12) <= found.upper
    reached = fa.epsilon(fa.from_pmf(p, q) * 4, delta=second, accountant=grid)
    assert reached >= 1.0 - 1e-9
