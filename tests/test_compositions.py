"""Different mechanisms together: a composition is never below one of its parts, and every count is seen."""

import math

import pytest

import fastacct as fa

TRUNCATED = fa.Gaussian(8.0).poisson(0.02, at_most=40, records=1000)
SMALL = fa.Gaussian(8.0).fixed_size(batch_size=20, records=1000)
LARGE = fa.Gaussian(12.0).fixed_size(batch_size=50, records=1000)


@pytest.mark.parametrize(
    ("one", "other", "neighbors"),
    [
        (fa.Gaussian(2.0) * 10, TRUNCATED * 1, "remove"),
        (TRUNCATED * 10, fa.Gaussian(2.0) * 1, "remove"),
        (SMALL * 40, LARGE * 5, "replace_one"),
        (LARGE * 5, SMALL * 40, "zero_out"),
    ],
    ids=repr,
)
def test_batches_beside_other_releases_keep_their_count(one, other, neighbors):
    """Laws that differ from above and from below have two grids, and once all parts had the count of the last one."""
    whole = fa.epsilon_bounds(one + other, delta=1e-5, neighbors=neighbors)
    alone = fa.epsilon_bounds(one, delta=1e-5, neighbors=neighbors)
    assert whole.upper > alone.lower
    assert whole.lower <= sum(fa.epsilon(part, delta=5e-6, neighbors=neighbors) for part in (one, other)) < math.inf
