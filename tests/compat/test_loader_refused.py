"""Live loaders that are not what their class says, or of which nothing is known: refused, and told what to say."""

import sys
from types import SimpleNamespace

import pytest

import fastacct as fa
from fastacct.training import Meter

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils import data  # noqa: E402

from tests.compat.test_loader_objects import (  # noqa: E402
    ANY,
    ROWS,
    combined,
    cyclic,
    grain,
    jax,
    loader,
    of,
    sampled,
    shards,
    stateful,
    trainer,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class Mine(data.DataLoader):
    pass


class Lying(data.DataLoader):
    def __iter__(self):
        return iter([torch.arange(2)] * 3)


Lying.__module__, Lying.__qualname__ = "torch.utils.data.dataloader", "DataLoader"


def liar(base, *given, **named):
    """An object of a class that calls itself what it is made of."""
    made = type(base.__name__, (base,), {"__module__": base.__module__, "__qualname__": base.__qualname__})
    return made(*given, **named)


def changed(live, name, value):
    vars(live)[name] = value
    return live


def derived(live):
    """An object whose class calls itself what it is made of."""
    kind = type(live)
    live.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
    return live


def of_module(name):
    """A class of a module of one's own whose name is the end of PyTorch's."""
    module = SimpleNamespace(RandomSampler=type("RandomSampler", (data.RandomSampler,), {"__module__": name}))
    sys.modules[name] = module
    return module.RandomSampler(ROWS)


def of_opacus(name):
    of("opacus")
    import opacus.data_loader
    import opacus.utils.uniform_sampler

    return getattr(opacus.data_loader, name, None) or getattr(opacus.utils.uniform_sampler, name)


def of_accelerate(name):
    of("accelerate")
    import accelerate.data_loader

    return getattr(accelerate.data_loader, name)


def of_transformers(name):
    of("transformers")
    import transformers.trainer_pt_utils

    return getattr(transformers.trainer_pt_utils, name)


SET = data.TensorDataset(torch.zeros(6))
REFUSED = {
    "a class of one's own": lambda: Mine(ROWS),
    "one that calls itself DataLoader": lambda: Lying(ROWS),
    "a loader that says the same": lambda: liar(data.DataLoader, ROWS),
    "SequentialSampler": lambda: sampled(liar(data.SequentialSampler, ROWS)),
    "RandomSampler": lambda: sampled(liar(data.RandomSampler, ROWS)),
    "SubsetRandomSampler": lambda: sampled(liar(data.SubsetRandomSampler, [0, 1])),
    "WeightedRandomSampler": lambda: sampled(liar(data.WeightedRandomSampler, [1.0] * 6, 6)),
    "DistributedSampler": lambda: sampled(liar(data.DistributedSampler, ROWS, 1, 0)),
    "BatchSampler": lambda: data.DataLoader(
        ROWS, batch_sampler=liar(data.BatchSampler, data.RandomSampler(ROWS), 2, False)
    ),
    "a module called sampler": lambda: sampled(of_module("sampler")),
    "_get_iterator": lambda: changed(loader(), "_get_iterator", lambda: iter(())),
    "__iter__ of a sampler": lambda: sampled(changed(data.RandomSampler(ROWS), "__iter__", lambda: iter(()))),
    "DPDataLoader": lambda: liar(of_opacus("DPDataLoader"), data.TensorDataset(torch.zeros(4)), sample_rate=0.5),
    "UniformWithReplacementSampler": lambda: data.DataLoader(
        ROWS, batch_sampler=liar(of_opacus("UniformWithReplacementSampler"), num_samples=6, sample_rate=0.5)
    ),
    "DataLoaderShard": lambda: liar(of_accelerate("DataLoaderShard"), ROWS),
    "DataLoaderDispatcher": lambda: of_accelerate("DataLoaderDispatcher")(ROWS),
    "SkipDataLoader": lambda: of_accelerate("SkipDataLoader")(ROWS, skip_batches=1),
    "SeedableRandomSampler": lambda: sampled(liar(of_accelerate("SeedableRandomSampler"), ROWS)),
    "BatchSamplerShard": lambda: data.DataLoader(
        ROWS,
        batch_sampler=liar(
            of_accelerate("BatchSamplerShard"), data.BatchSampler(data.SequentialSampler(ROWS), 2, False)
        ),
    ),
    "Trainer": lambda: of("transformers") and changed(trainer(), "get_train_dataloader", loader),
    "records of like length": lambda: sampled(of_transformers("LengthGroupedSampler")(2, lengths=[1, 2, 3, 4, 5, 6])),
    "CyclicPoissonSampling": lambda: liar(type(cyclic()), 0.5, 3),
    "BallsInBinsSampling": lambda: liar(type(jax("BallsInBinsSampling", iterations=9, cycle_length=3)), 9, 3),
    "FixedBatchSampling": lambda: liar(type(jax("FixedBatchSampling", batch_size=2, iterations=9)), 2, 9),
    "CombinedLoader": lambda: liar(type(combined(loader())), [loader()]),
    "Trainer, derived": lambda: derived(trainer()),
    "grain, derived": lambda: derived(grain("shuffle", "batch 2", "repeat 3")),
    "grain, a derived shuffle": lambda: derived(grain("shuffle")).batch(2).repeat(3),
    "two loaders": lambda: combined(loader(), loader()),
    "grain, repeated first": lambda: grain("shuffle", "repeat 2", "batch 2"),
    "grain, shuffled batches": lambda: grain("batch 2", "shuffle"),
    "StatefulDataLoader": stateful,
    "StatefulDataLoader, shuffled": lambda: stateful(shuffle=True),
    "a stream": lambda: data.DataLoader(type("Stream", (data.IterableDataset,), {"__iter__": lambda _: iter(ROWS)})()),
    "no batches": lambda: loader(size=None),
    "records twice": lambda: loader(data.Subset(ROWS, [1, 1, 2])),
    "data put together of the same": lambda: loader(data.ConcatDataset([SET] * 3)),
    "subsets that overlap, together": lambda: loader(
        data.ConcatDataset([data.Subset(SET, [0, 1]), data.Subset(data.ConcatDataset([SET]), [1, 2])])
    ),
    "records twice, by the sampler": lambda: sampled(data.SubsetRandomSampler([1, 1])),
    "more than there are": lambda: sampled(data.RandomSampler(ROWS, num_samples=9)),
    "few records of many workers": lambda: sampled(data.DistributedSampler(ROWS, 7, 0)),
    "few records in batches of workers": lambda: shards([1, 2, 3], 2)[0],
    "a list": lambda: [1, 2],
    "a data set": lambda: data.TensorDataset(torch.zeros(3)),
    "an iterator": lambda: iter(loader()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_and_told_what_to_say(name):
    live = REFUSED[name]()
    with pytest.raises(ValueError, match=r"nothing is known of .*fa.loader_guide"):
        fa.loader_guide(live)
    for relation in ANY:
        with pytest.raises(ValueError, match="nothing is known"):
            fa.dpsgd.epsilon(loader=live, noise_multiplier=1.0, epochs=1, delta=1e-3, neighbors=relation)


def test_workers_of_accelerate_that_nobody_seeded_have_orders_of_their_own():
    live = shards(list(range(8)), 2)[0]
    assert fa.loader_guide(live).sampling == "shuffled"
    live.batch_sampler.batch_sampler.sampler.initial_seed = 8415095072222033647  # of a new process
    with pytest.raises(ValueError, match="call set_seed"):
        fa.loader_guide(live)
    alone = shards(list(range(8)), 1)[0]
    alone.batch_sampler.sampler.initial_seed = 8415095072222033647
    assert fa.loader_guide(alone).sampling == "shuffled"


def test_batches_that_everybody_knows_have_no_number_of_batches_that_nobody_does():
    """A torch.Generator that nobody seeded draws the same numbers everywhere; of passes no amplification is claimed."""
    public, secret = torch.Generator(), torch.Generator().manual_seed(991)
    for generator, is_known in ((public, True), (secret, False)):
        live = sampled(data.RandomSampler(ROWS, replacement=True, generator=generator))
        run = {"loader": live, "noise_multiplier": 1.0, "steps": 3, "delta": 1e-3}
        if not is_known:
            assert fa.dpsgd.epsilon(**run) > 0
            continue
        for ask in (
            lambda run=run: fa.dpsgd.epsilon(**run),
            lambda live=live: Meter(live, noise_multiplier=1.0, delta=1e-3),
        ):
            with pytest.raises(ValueError, match=r"everybody knows.* no amplification"):
                ask()
    passes = loader(shuffle=True, generator=public)
    assert fa.dpsgd.epsilon(loader=passes, noise_multiplier=1.0, epochs=1, delta=1e-3, neighbors="zero_out") > 0


def test_opacus_is_given_no_stream():
    stream = type("Stream", (data.IterableDataset,), {"__iter__": lambda _: iter(ROWS), "__len__": lambda _: 6})
    with pytest.raises(ValueError, match="a data set with a length"):
        fa.loader_guide(data.DataLoader(stream(), batch_size=2), make_private=True)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: of("opacus").PrivacyEngine(), "give the loader that make_private returns"),
        (lambda: of("transformers") and trainer().args, "give the Trainer"),
        (lambda: of("lightning.pytorch").LightningModule(), r"train_dataloader\(\)"),
        (lambda: None, r"from fit\(\) on"),
    ],
)
def test_what_stands_beside_a_loader_says_what_to_give(make, said):
    with pytest.raises(ValueError, match=said):
        fa.loader_guide(make())


def test_a_relation_that_the_loader_lacks_names_the_loader_of_make_private():
    with pytest.raises(ValueError, match=r"'zero_out'.*the loader that this returns"):
        fa.dpsgd.epsilon(loader=loader(shuffle=True), noise_multiplier=1.0, epochs=1, delta=1e-3)


def test_indices_of_tensors_and_negative_ones_are_compared_as_numbers():
    rows = data.TensorDataset(torch.zeros(105, 1))
    for indices in (torch.zeros(105, dtype=torch.long), torch.randint(0, 105, (105,)), [0, -105], [*range(104), -1]):
        for one in (
            data.DataLoader(data.Subset(rows, indices), batch_size=5, shuffle=True),
            data.DataLoader(rows, 5, sampler=data.SubsetRandomSampler(indices)),
        ):
            with pytest.raises(ValueError, match=r"repeat|below 0"):
                fa.loader_guide(one)
    every = data.SubsetRandomSampler(torch.arange(105))
    assert fa.loader_guide(data.DataLoader(rows, 5, sampler=every)).sampling == "shuffled"


def test_a_meter_goes_through_no_other_loader_than_it_counts():
    rows = data.TensorDataset(torch.zeros(100, 1))
    shuffling = data.DataLoader(rows, batch_size=10, shuffle=True)
    private = Meter(shuffling, make_private=True, noise_multiplier=1.0, delta=1e-5)
    with pytest.raises(TypeError, match="make_private returned another loader"):
        next(private.batches())
    meter = Meter(noise_multiplier=1.0, sample_rate=0.1, delta=1e-5)
    with pytest.raises(ValueError, match="Opacus' make_private"):
        next(meter.batches(shuffling))
    again = data.DataLoader(rows, 10, sampler=data.RandomSampler(rows, replacement=True, num_samples=100))
    with pytest.raises(ValueError, match="draws sampling = 'with_replacement', and the meter counts 'poisson'"):
        next(meter.batches(again))


KEYWORDS = (
    {"sample_rate": 0.9},
    {"sampling": "shuffled", "records": 6, "batch_size": 2, "neighbors": "zero_out"},
    {"sampling": "fixed_size", "records": 6, "batch_size": 2, "neighbors": "zero_out"},
)


@pytest.mark.parametrize(
    "name",
    [
        "more than there are",
        "records twice",
        "records twice, by the sampler",
        "data put together of the same",
        "few records of many workers",
        "few records in batches of workers",
        "two loaders",
        "grain, repeated first",
    ],
)
@pytest.mark.parametrize("run", KEYWORDS)
def test_keywords_stand_for_no_loader_of_which_it_is_known_that_nothing_is_proved(name, run):
    """Of 100 records 200 were drawn in each pass: 2.878 where 5.773 is the truth."""
    meter = Meter(noise_multiplier=1.0, delta=1e-5, **run)
    with pytest.raises(ValueError, match="nothing is known of"):
        meter.refuse_other(REFUSED[name]())
    with pytest.raises(ValueError, match="WeightedRandomSampler has weights"):
        meter.refuse_other(sampled(data.WeightedRandomSampler([1.0] * 6, 6)))


@pytest.mark.parametrize("name", ["a class of one's own", "a stream", "no batches", "BatchSampler", "a list"])
@pytest.mark.parametrize("run", KEYWORDS)
def test_keywords_stand_for_what_is_not_known(name, run):
    Meter(noise_multiplier=1.0, delta=1e-5, **run).refuse_other(REFUSED[name]())


@pytest.mark.parametrize("is_opacus", [False, True])
def test_samples_that_are_drawn_again_from_a_secret_seed_are_refused(is_opacus):
    def made(generator):
        rows = data.TensorDataset(torch.zeros(100, 1))
        if is_opacus:
            kind = of_opacus("DPDataLoader")
            return kind.from_data_loader(data.DataLoader(rows, batch_size=10), generator=generator)
        sampler = data.RandomSampler(rows, replacement=True, num_samples=100, generator=generator)
        return data.DataLoader(rows, 10, sampler=sampler)

    secret, run = torch.Generator(), {"noise_multiplier": 1.0, "delta": 1e-5}
    run |= {} if is_opacus else {"neighbors": "replace_one"}
    seed = secret.seed()
    loader = made(secret)
    meter = Meter(loader, **run)
    for _ in range(2):  # goes on
        list(meter.batches())
    again = Meter(loader, **run)
    again.load_state_dict(meter.state_dict())
    loader = made(torch.Generator().manual_seed(seed))
    for counted in (meter, again):
        with pytest.raises(ValueError, match=r"the loader's generator draws the same batches again.*secret\.seed\(\)"):
            next(counted.batches(loader))
        assert counted.steps == 20
    list(again.batches(made(secret)))


def test_parts_of_the_data_that_do_not_overlap_may_be_put_together():
    parts = [data.Subset(SET, [0, 1]), data.Subset(SET, [3, 4]), data.TensorDataset(torch.zeros(3))]
    assert fa.loader_guide(loader(data.ConcatDataset(parts))).neighbors


@pytest.mark.parametrize("is_private", [False, True])
def test_a_loader_without_batches_is_told_so(is_private):
    for rows, size in ((SET, 7), (data.TensorDataset(torch.zeros(0)), 2)):
        empty = loader(rows, size, drop_last=True)
        with pytest.raises(ValueError, match="leaves no batch of"):
            fa.loader_guide(empty, make_private=is_private)
        with pytest.raises(ValueError, match="leaves no batch of"):
            Meter(empty, make_private=is_private, noise_multiplier=1.0, delta=1e-5)


def test_settings_of_a_live_loader_are_left_out():
    with pytest.raises(TypeError, match="shuffle is what a live loader says itself"):
        fa.loader_guide(loader(), shuffle=True)
    with pytest.raises(TypeError, match="make_private must be True or False, not 1"):
        fa.loader_guide(loader(), make_private=1)
    with pytest.raises(ValueError, match="no length"):
        fa.loader_guide(loader(type("Rows", (), {"__getitem__": lambda self, i: i})()))
