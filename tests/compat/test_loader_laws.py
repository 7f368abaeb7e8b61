"""What live loaders draw: each record as often as is said, and two records as the law that is claimed."""

import itertools
from collections import Counter

import pytest

import fastacct as fa
from fastacct.loaders.objects import seen
from tests.compat.test_loader_draws import BATCH, RECORDS, agrees, independent, patterns, shuffled_patterns

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

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


ONE_ORDER = {"torch shuffle", "torch shuffle, generator", "accelerate", "accelerate, not seedable", "lightning fabric"}


@pytest.mark.parametrize("name", sorted(ONE_ORDER))
def test_shuffled_loaders_draw_one_random_order(name):
    live = KNOWN[name][0]()
    agrees(patterns(lambda: [batch.tolist() for batch in live]), shuffled_patterns())


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
