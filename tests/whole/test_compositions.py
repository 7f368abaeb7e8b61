"""Different mechanisms together: a composition is never below one of its parts, and every count is seen."""

import itertools
import math
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

import fastacct as fa
from fastacct.losses.loss import OutOfReachError
from fastacct.readers import cell
from fastacct.readers.contour import Contour
from fastacct.testing import examples

EXAMPLES = list(examples())
WAYS = ("remove", "add", "replace_one", "zero_out")
COUNTS = ((1, 40), (40, 1))
ROUNDING = 1.0 - 1e-9
TRUNCATED = fa.Gaussian(8.0).poisson(0.02, at_most=40, records=1000)
SMALL = fa.Gaussian(8.0).fixed_size(batch_size=20, records=1000)
LARGE = fa.Gaussian(12.0).fixed_size(batch_size=50, records=1000)

KINDS = [
    fa.Gaussian(4.0),
    fa.Gaussian(2.0).poisson(0.05),
    TRUNCATED,
    SMALL,
    SMALL.group(3),
    fa.Gaussian(8.0).with_replacement(20, 1000),
    fa.Gaussian(4.0).poisson(0.02, draws=3),
    fa.Gaussian(3.0).allocation(20),
    fa.Gaussian(3.0).allocation(20, selected=3),
    fa.Gaussian(4.0).shuffled(10),
    fa.Laplace(8.0),
    fa.RandomizedResponse(0.3),
    fa.Exponential(0.2),
    fa.ApproxDP(0.1, 1e-7),
    fa.ZCDP(0.01),
    fa.GOPA(2.0, 20.0, parties=12),
]
"""One mechanism for each way in which losses are given and read."""


def shared(*mechanisms):
    """Relations that all of them support."""
    return [way for way in WAYS if all(way in one.relations for one in mechanisms)]


@pytest.fixture
def coarse(monkeypatch):
    """Grids that stop early: certified as ever, and wide."""
    monkeypatch.setattr(cell, "TOLERANCE", 0.1)


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
    """Where laws from above and from below differed, all parts once had the count of the last one."""
    whole = fa.epsilon_bounds(one + other, delta=1e-5, neighbors=neighbors)
    alone = fa.epsilon_bounds(one, delta=1e-5, neighbors=neighbors)
    assert whole.upper > alone.lower
    assert whole.lower <= sum(fa.epsilon(part, delta=5e-6, neighbors=neighbors) for part in (one, other)) < math.inf


@cache
def least(mechanism, count, neighbors):
    """Certified lower bound of epsilon of one part."""
    return fa.epsilon_bounds(mechanism * count, delta=1e-3, neighbors=neighbors).lower


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("first", KINDS, ids=repr)
@pytest.mark.parametrize("third", range(3))
def test_no_pair_of_kinds_is_below_a_part_or_itself_with_one_release_less(third, first):
    """Ordered pairs: each kind stands first once and 40 times, beside every other one, with the relations in turn."""
    for n, second in enumerate(KINDS):
        if (n + KINDS.index(first)) % 3 != third:
            continue
        ways = shared(first, second)
        if second == first or not ways:
            continue
        neighbors, (m, k) = ways[n % len(ways)], COUNTS[n % 2]
        upper = fa.epsilon(first * m + second * k, delta=1e-3, neighbors=neighbors)
        floor = [least(first, m, neighbors), least(second, k, neighbors)]
        if n % 5 == 0:
            floor.append(fa.epsilon_bounds(first * (m - 1) + second * k, delta=1e-3, neighbors=neighbors).lower)
        assert upper >= max(floor) * ROUNDING, (second, m, k, neighbors)


class Recorder:
    """Stands for a reader that rounds nothing, and keeps the parts that it was given."""

    shared = 1.0, 0

    def __init__(self, parts, *_, **__):
        self.parts = parts


def test_readers_of_losses_get_every_part_with_its_count(monkeypatch):
    """All ordered pairs of the examples, relations and counts: a count that is read late gives parts another one."""
    monkeypatch.setattr(cell, "Grid", Recorder)
    seen = set()
    for neighbors in WAYS:
        used = {}
        for mechanism in (one for one in EXAMPLES if neighbors in one.relations):
            if isinstance(mechanism, (fa.mechanisms.RandomAllocation, fa.MatrixGaussian)):
                continue  # a grid does not read it
            job = (mechanism * 1).decompose(neighbors)
            with suppress(OutOfReachError):
                pair = Contour.of(job, neighbors).pair(mechanism)
                _ = pair.remove, pair.add
                if not pair.is_nothing:
                    used[mechanism] = pair
        for (first, second), counts in itertools.product(itertools.permutations(used.values(), 2), COUNTS):
            side = cell.Side(list(zip((first, second), counts, strict=True)), "remove", cell.Settings())
            if side.is_on_grid:
                parts = side.reader.parts if isinstance(side.reader, Recorder) else side.reader._parts
                assert [part.count for part in parts] == list(counts)
                assert [part.upper for part in parts] == [first.remove.upper, second.remove.upper]
                assert [part.lower for part in parts] == [first.remove.lower, second.remove.lower]
                seen.add(counts)
    assert len(seen) == 2


@pytest.mark.parametrize("neighbors", WAYS)
@pytest.mark.parametrize("third", range(3))
def test_divergences_of_all_pairs_of_examples_add_up(third, neighbors):
    orders = np.array([1.5, 4.0, 32.0])
    own = [one for one in EXAMPLES if neighbors in one.relations]
    alone = {  # a sum may be bounded by what is pure in its parts, where one part alone is not
        one: np.minimum(fa.rdp(one, orders, neighbors=neighbors), fa.epsilon(one, delta=0.0, neighbors=neighbors))
        for one in own
    }
    for i, (first, second) in enumerate(itertools.permutations(own, 2)):
        if i % 3 != third:
            continue
        m, n = COUNTS[i % 2]
        found = fa.rdp(first * m + second * n, orders, neighbors=neighbors)
        total = m * alone[first] + n * alone[second]
        assert np.all(found >= total * ROUNDING), (first, second, m, n)


@pytest.mark.parametrize(
    ("accountant", "mechanisms"),
    [
        (fa.RDP(), [fa.PureDP(0.05), fa.ZCDP(1e-3), fa.Gaussian(12.0), SMALL]),
        (fa.PLD(), [fa.PureDP(0.05), fa.Laplace(15.0), fa.Gaussian(12.0)]),
    ],
    ids=repr,
)
def test_every_accountant_sees_both_counts(accountant, mechanisms):
    for first, second in itertools.permutations(mechanisms, 2):
        for m, n in COUNTS:
            told = {"delta": 1e-4, "neighbors": "remove"}
            upper = fa.epsilon(first * m + second * n, accountant=accountant, **told)
            for part in (first * m, second * n):
                assert upper >= fa.epsilon_bounds(part, **told).lower * ROUNDING, (first, second, m, n)


@pytest.mark.parametrize(
    "accountant", [fa.BasicComposition(), fa.AdvancedComposition(), fa.ZCDPComposition()], ids=repr
)
def test_accountants_of_one_kind_of_step_refuse_several(accountant):
    with pytest.raises(ValueError, match="heterogeneous"):
        fa.epsilon(fa.Gaussian(12.0) + fa.Gaussian(20.0) * 40, delta=1e-4, accountant=accountant)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("counts", COUNTS)
def test_other_ways_to_compose_see_both_counts(counts):
    """Histories, the ledger, parts of the data, groups and samples of whole jobs."""
    m, n = counts
    told = {"delta": 1e-3, "neighbors": "remove"}
    part = fa.epsilon_bounds(fa.Gaussian(3.0) * m, **told).lower
    other = fa.epsilon_bounds(TRUNCATED * n, **told).lower
    job = fa.Gaussian(3.0) * m + TRUNCATED * n
    floor = max(part, other) * ROUNDING
    assert fa.epsilon(job, **told) >= floor
    assert fa.epsilon(fa.Process({fa.Gaussian(3.0): m, TRUNCATED: n}), **told) >= floor
    assert fa.epsilon(fa.Parallel(job, fa.PureDP(0.01)), **told) >= floor
    assert fa.epsilon(TRUNCATED * n + fa.Parallel(fa.Gaussian(3.0) * m, fa.PureDP(0.01)), **told) >= floor
    ledger = fa.Accountant(epsilon=100.0, delta=1e-3, neighbors="remove")
    ledger.compose(fa.Gaussian(3.0) * m)
    ledger.compose(TRUNCATED * n)
    assert ledger.spent() >= floor
    for whole, alone in (
        ((fa.Gaussian(9.0) * m + fa.Laplace(30.0) * n).group(3), (fa.Gaussian(9.0) * m).group(3)),
        ((fa.Gaussian(9.0) * m + fa.Gaussian(4.0) * n).poisson(0.2), (fa.Gaussian(9.0) * m).poisson(0.2)),
    ):
        assert fa.epsilon(whole, **told) >= fa.epsilon_bounds(alone, **told).lower * ROUNDING
    history = [(2.0, 0.01, m), (1.5, 0.02, n)]
    for noise, rate, steps in history:
        alone = fa.dpsgd.epsilon_bounds(noise_multiplier=noise, sample_rate=rate, steps=steps, **told)
        assert fa.dpsgd.epsilon(history=history, **told) >= alone.lower * ROUNDING
