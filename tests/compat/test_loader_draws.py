"""Real data loaders draw as is claimed of them."""

import itertools
from collections import Counter

import numpy as np
import pytest

from tests.verbs.test_loaders import HELD, worker_batches

DRAWS, RECORDS, BATCH = 4000, 6, 2


def patterns(epoch, draws=DRAWS):
    """How often record 0 takes part in each step of an epoch, and record 1, as they occur."""
    return Counter(tuple((batch.count(0), batch.count(1)) for batch in epoch()) for _ in range(draws))


def agrees(seen, expected):
    """Whether frequencies are within five standard deviations; patterns that are not expected do not occur."""
    assert abs(sum(expected.values()) - 1.0) < 1e-9
    assert set(seen) <= set(expected)
    draws = seen.total()
    for pattern, p in expected.items():
        assert abs(seen[pattern] / draws - p) <= 5.0 * np.sqrt(p * (1 - p) / draws) + 1e-3, pattern


def shuffled_patterns():
    """Two records in the three batches of a random order."""
    found = Counter()
    for first, second in itertools.permutations(range(RECORDS), 2):
        pattern = tuple((int(first // BATCH == i), int(second // BATCH == i)) for i in range(RECORDS // BATCH))
        found[pattern] += 1.0 / (RECORDS * (RECORDS - 1))
    return found


def independent(one):
    """Of two records in three steps, from the probabilities of what happens to both in one."""
    return {p: float(np.prod([one[x] for x in p])) for p in itertools.product(one, repeat=RECORDS // BATCH)}


def test_pytorch_draws_one_random_order():
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is an extra")
    loader = data.DataLoader(list(range(RECORDS)), batch_size=BATCH, shuffle=True)
    agrees(patterns(lambda: [batch.tolist() for batch in loader]), shuffled_patterns())


def test_pytorch_draws_with_replacement():
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is an extra")
    sampler = data.RandomSampler(range(RECORDS), replacement=True, num_samples=RECORDS)
    loader = data.DataLoader(list(range(RECORDS)), batch_size=BATCH, sampler=sampler)
    one = Counter()
    for pair in itertools.product(range(RECORDS), repeat=BATCH):
        one[pair.count(0), pair.count(1)] += RECORDS**-BATCH
    agrees(patterns(lambda: [batch.tolist() for batch in loader]), independent(one))


@pytest.mark.parametrize("own_drop", [False, True])
@pytest.mark.parametrize("workers", [2, 3])
def test_pytorch_s_workers_repeat_records_or_leave_them_out(own_drop, workers):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    data = pytest.importorskip("torch.utils.data")
    for epoch in range(5):
        loaders_of = []
        for rank in range(workers):
            sampler = data.DistributedSampler(range(HELD), workers, rank, seed=7, drop_last=own_drop)
            sampler.set_epoch(epoch)
            loaders_of.append(data.DataLoader(list(range(HELD)), batch_size=2, sampler=sampler))
        order = tuple(torch.randperm(HELD, generator=torch.Generator().manual_seed(7 + epoch)).tolist())
        seen = [sum((tuple(part.tolist()) for part in parts), ()) for parts in zip(*loaders_of, strict=True)]
        assert seen == worker_batches(order, 2 * workers, own_drop, workers=workers)


def test_opacus_draws_each_record_by_itself():
    samplers = pytest.importorskip("opacus.utils.uniform_sampler", reason="Opacus is an extra")
    q = BATCH / RECORDS
    sampler = samplers.UniformWithReplacementSampler(num_samples=RECORDS, sample_rate=q, steps=RECORDS // BATCH)
    one = {(a, b): (q if a else 1 - q) * (q if b else 1 - q) for a in (0, 1) for b in (0, 1)}
    agrees(patterns(lambda: [list(batch) for batch in sampler]), independent(one))


def test_the_comparison_sees_another_sampler():
    rng = np.random.default_rng(0)

    def bins():
        place = rng.integers(RECORDS // BATCH, size=RECORDS)
        return [np.flatnonzero(place == i).tolist() for i in range(RECORDS // BATCH)]

    with pytest.raises(AssertionError):
        agrees(patterns(bins), shuffled_patterns())
