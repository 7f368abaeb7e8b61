"""What live loaders draw: each record as often as is said, and two records as the law that is claimed."""

import itertools
from collections import Counter

import pytest

import fastacct as fa
from fastacct.loaders.objects import seen
from tests.compat.test_loader_draws import BATCH, RECORDS, agrees, independent, patterns, shuffled_patterns

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils import data  # noqa: E402

from tests.compat.test_loader_objects import (  # noqa: E402
    EIGHT,
    KNOWN,
    ROWS,
    UNEVEN,
    cyclic,
    fabric,
    grain,
    inserted,
    jax,
    loader,
    prepared,
    shards,
    spread,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def epochs_of(loaders):
    """The batches of an epoch, of all workers together."""
    for one in loaders:
        if hasattr(getattr(one, "sampler", None), "set_epoch"):
            one.sampler.set_epoch(epochs_of.count)
    epochs_of.count += 1
    drawn = [[[*map(int, batch)] for batch in one] for one in loaders]
    return [[*itertools.chain(*parts)] for parts in itertools.zip_longest(*drawn, fillvalue=[])]


epochs_of.count = 0
DRAWN = {
    **{name: (lambda make=make: [make()], ROWS) for name, (make, *_) in KNOWN.items() if name.startswith("torch s")},
    "torch in order": (lambda: [loader()], ROWS),
    "torch in order, drop_last": (lambda: [loader(UNEVEN, drop_last=True)], UNEVEN),
    "torch RandomSampler, fewer": (lambda: [KNOWN["torch RandomSampler, fewer"][0]()], ROWS),
    "torch DistributedSampler": (lambda: spread(ROWS, 2), ROWS),
    "torch DistributedSampler, in order": (lambda: spread(ROWS, 2, shuffle=False), ROWS),
    "torch DistributedSampler, drops": (lambda: spread(UNEVEN, 2, drop_last=True), UNEVEN),
    "torch DistributedSampler, repeats": (lambda: spread(UNEVEN, 2), UNEVEN),
    "accelerate": (lambda: [prepared()], ROWS),
    "accelerate, not seedable": (lambda: [prepared(seedable=False)], ROWS),
    "accelerate, two workers": (lambda: shards(EIGHT, 2), EIGHT),
    "accelerate, even_batches": (lambda: shards(UNEVEN, 2), UNEVEN),
    "accelerate, uneven": (lambda: shards(UNEVEN, 2, even_batches=False), UNEVEN),
    "accelerate, split_batches": (lambda: shards(UNEVEN, 2, split_batches=True), UNEVEN),
    "accelerate, drop_last": (lambda: shards(UNEVEN, 2, inner={"drop_last": True}), UNEVEN),
    "lightning fabric": (lambda: [fabric()], ROWS),
    "lightning inserted": (lambda: inserted(ROWS), ROWS),
    "lightning inserted, repeats": (lambda: inserted(UNEVEN), UNEVEN),
    "grain, once": (lambda: [grain("shuffle", "batch 2")], ROWS),
    "grain, in order": (lambda: [grain("batch 2")], ROWS),
}


@pytest.mark.parametrize("name", [name for name in DRAWN if name not in ("torch subset", "torch SubsetRandomSampler")])
def test_an_epoch_uses_records_as_often_as_is_said(name):
    make, rows = DRAWN[name]
    loaders = make()
    guide, known = fa.loader_guide(loaders[0]), seen(loaders[0])
    least, most = guide.uses
    for _ in range(3 if "workers" in name else 30):
        epoch = epochs_of(loaders)
        uses = Counter(itertools.chain.from_iterable(epoch))
        assert least <= min(uses[row] for row in rows)
        assert max(uses[row] for row in rows) <= most
        assert len(epoch) <= known.length
        assert max(map(len, epoch)) <= known.run.get("batch_size", 64)


def live_batches(live):
    return lambda: [batch.tolist() for batch in live]


ONE_ORDER = {
    *("torch shuffle", "torch shuffle, generator", "torch shuffle, drop_last, even", "accelerate"),
    *("accelerate, not seedable", "lightning fabric", "lightning combined"),
}


@pytest.mark.parametrize("name", sorted(ONE_ORDER))
def test_shuffled_loaders_draw_one_random_order(name):
    live = KNOWN[name][0]()
    if name == "lightning combined":  # with the number and the loader of each batch
        agrees(patterns(lambda: [batches[0].tolist() for batches, *_ in live]), shuffled_patterns())
    else:
        agrees(patterns(live_batches(live)), shuffled_patterns())


def test_grain_draws_one_random_order():
    draws = 500  # a record of grain takes 4 ms
    live, places = grain("shuffle", "batch 2", f"repeat {draws}"), itertools.count()
    agrees(patterns(lambda: [live[next(places)].tolist() for _ in range(3)], draws), shuffled_patterns())


@pytest.mark.parametrize("name", ["opacus", "opacus, generator", "opacus sampler"])
def test_poisson_loaders_draw_each_record_by_itself(name):
    batches, q = KNOWN[name][0]().batch_sampler, BATCH / RECORDS
    one = {(a, b): (q if a else 1 - q) * (q if b else 1 - q) for a in (0, 1) for b in (0, 1)}
    agrees(patterns(lambda: [list(batch) for batch in batches]), independent(one))


def test_jax_privacy_draws_as_is_claimed():
    live, q = cyclic(), 0.25
    one = {(a, b): (q if a else 1 - q) * (q if b else 1 - q) for a in (0, 1) for b in (0, 1)}
    agrees(
        patterns(lambda: [batch.tolist() for batch in itertools.islice(live.batch_iterator(RECORDS), 3)]),
        independent(one),
    )
    bins = jax("BallsInBinsSampling", iterations=3, cycle_length=3)
    places = itertools.product(range(3), repeat=2)
    law = {tuple((int(a == i), int(b == i)) for i in range(3)): 1 / 9 for a, b in places}
    agrees(patterns(lambda: [batch.tolist() for batch in bins.batch_iterator(RECORDS)]), law)
    twice = list(jax("BallsInBinsSampling", iterations=6, cycle_length=3).batch_iterator(RECORDS))
    assert all((a == b).all() for a, b in zip(twice[:3], twice[3:], strict=True))
    fixed = jax("FixedBatchSampling", batch_size=2, iterations=3)
    pairs = {(1, 1): 1 / 15, (1, 0): 4 / 15, (0, 1): 4 / 15, (0, 0): 6 / 15}
    agrees(patterns(lambda: [batch.tolist() for batch in fixed.batch_iterator(RECORDS)]), independent(pairs))


def truncated(q, most):
    """Two records in a Poisson batch of which a random part is kept where it is too large."""
    found = Counter()
    for drawn in itertools.product((0, 1), repeat=RECORDS):
        p, places = q ** sum(drawn) * (1 - q) ** (RECORDS - sum(drawn)), [i for i in range(RECORDS) if drawn[i]]
        kept = [*itertools.combinations(places, min(most, len(places)))]
        for one in kept:
            found[int(0 in one), int(1 in one)] += p / len(kept)
    return found


def test_batches_that_are_cut_or_drawn_again_follow_their_law():
    """Of two records: Poisson batches of at most two, and batches of two draws with replacement."""
    live = jax("CyclicPoissonSampling", sampling_prob=0.25, iterations=3, truncated_batch_size=2)
    drawn = patterns(lambda: [batch.tolist() for batch in live.batch_iterator(RECORDS)])
    agrees(drawn, independent(truncated(0.25, 2)))
    draws = Counter()
    for a, b in itertools.product(range(RECORDS), repeat=2):
        draws[[a, b].count(0), [a, b].count(1)] += 1 / RECORDS**2
    again = jax("FixedBatchSampling", batch_size=2, iterations=3, replace=True)
    agrees(patterns(lambda: [batch.tolist() for batch in again.batch_iterator(RECORDS)]), independent(draws))
    rows = loader(sampler=data.RandomSampler(ROWS, replacement=True))
    agrees(patterns(live_batches(rows)), independent(draws))


@pytest.mark.parametrize("independent_groups", [False, True])
def test_cyclic_batches_draw_from_one_group_each(independent_groups):
    """A record is in one group of three, of equal size or by itself, and is drawn in the step of its group alone."""
    q, law = 0.25, Counter()
    places = [*itertools.product(range(3), repeat=2)]
    for a, b in places:
        p = 1 / 9 if independent_groups else (1 / 3) * ((1 / 5) if a == b else (2 / 5))
        for x, y in itertools.product((0, 1), repeat=2):
            pattern = tuple((x * (a == i), y * (b == i)) for i in range(3))
            law[pattern] += p * (q if x else 1 - q) * (q if y else 1 - q)
    live = cyclic(independent_groups, cycle_length=3)
    first = lambda: [batch.tolist() for batch in itertools.islice(live.batch_iterator(RECORDS), 3)]  # noqa: E731
    agrees(patterns(first), law)


def test_the_trainer_of_transformers_uses_each_record_once_and_in_orders_of_its_own():
    live = KNOWN["transformers, loader"][0]()
    epochs = [[tuple(row.tolist()) for batch in live for row in batch["x"]] for _ in range(3)]
    assert [len(one) for one in epochs] == [40] * 3
    assert len({*epochs[0]}) == 40
    assert {*epochs[0]} == {*epochs[1]} == {*epochs[2]}
    assert epochs[0] != epochs[1] != epochs[2]
