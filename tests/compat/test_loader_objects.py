"""Live loaders of eight libraries: the sampler, the relation and the numbers of each, and that it draws as claimed."""

import math

import pytest

import fastacct as fa
from fastacct.loaders.objects import seen
from tests.compat.test_loader_draws import BATCH, RECORDS

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
PASS, ANY = ("zero_out", "replace_one"), ("add_remove", "zero_out", "replace_one")
ROWS = list(range(RECORDS))
UNEVEN = list(range(7))


def of(library):
    return pytest.importorskip(library, reason=f"{library} is not installed")


def loader(rows=ROWS, size=BATCH, **given):
    return data.DataLoader(rows, batch_size=size, **given)


def sampled(sampler, rows=ROWS, size=BATCH, **given):
    return data.DataLoader(rows, batch_size=size, sampler=sampler, **given)


def spread(rows, workers, **given):
    """The loaders of all workers, each with PyTorch's sampler."""
    own = [data.DistributedSampler(rows, workers, rank, seed=7, **given) for rank in range(workers)]
    return [sampled(one, rows, 2) for one in own]


def private(**given):
    of("opacus")
    from opacus.data_loader import DPDataLoader

    return DPDataLoader.from_data_loader(loader(data.TensorDataset(torch.arange(RECORDS)), **given))


def poisson_batches(**given):
    of("opacus")
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    return data.DataLoader(
        ROWS, batch_sampler=UniformWithReplacementSampler(num_samples=RECORDS, sample_rate=1 / 3, **given)
    )


def prepared(made=None, **given):
    of("accelerate")
    import accelerate

    made = loader(shuffle=True) if made is None else made
    config = accelerate.DataLoaderConfiguration(use_seedable_sampler=given.pop("seedable", True))
    return accelerate.Accelerator(cpu=True, dataloader_config=config).prepare(made)


def shards(rows, workers, **given):
    """What Accelerate gives each of several workers."""
    of("accelerate")
    from accelerate.data_loader import prepare_data_loader

    found = []
    for rank in range(workers):
        torch.manual_seed(7)
        inner = loader(rows, 2, **{"shuffle": True} | given.get("inner", {}))
        options = {name: value for name, value in given.items() if name != "inner"}
        found.append(
            prepare_data_loader(inner, num_processes=workers, process_index=rank, use_seedable_sampler=True, **options)
        )
    return found


def trainer(**given):
    of("transformers")
    of("accelerate")
    from tests.training import test_huggingface as small

    return small.trainer("/nowhere", **given)


def fabric():
    lightning = of("lightning")
    return lightning.Fabric(accelerator="cpu", devices=1).setup_dataloaders(loader(shuffle=True))


def combined(*loaders):
    of("lightning")
    from lightning.pytorch.utilities.combined_loader import CombinedLoader

    return CombinedLoader([*loaders])


def inserted(rows):
    """What Lightning puts in the place of a sampler where there are two devices."""
    of("lightning")
    from lightning.pytorch.trainer.connectors.data_connector import _get_distributed_sampler
    from lightning.pytorch.trainer.states import RunningStage

    made = [
        _get_distributed_sampler(
            loader(rows, shuffle=True), True, 0, mode=RunningStage.TRAINING, num_replicas=2, rank=rank
        )
        for rank in (0, 1)
    ]
    return [sampled(one, rows, 2) for one in made]


def jax(name, **given):
    of("jax_privacy")
    from jax_privacy import batch_selection

    return getattr(batch_selection, name)(**given)


def cyclic(independent=False, **given):
    of("jax_privacy")
    from jax_privacy.batch_selection import PartitionType

    more = {"partition_type": PartitionType.INDEPENDENT} if independent else {}
    return jax("CyclicPoissonSampling", sampling_prob=0.25, iterations=12, **given, **more)


def grain(*steps, drop=False):
    of("grain")
    import grain as library

    found = library.MapDataset.source(ROWS)
    for step in steps:
        name, *given = step.split()
        found = {
            "shuffle": lambda made=found: made.shuffle(seed=3),
            "batch": lambda made=found, n=given: made.batch(int(n[0]), drop_remainder=drop),
            "repeat": lambda made=found, n=given: made.repeat(int(n[0])),
        }[name]()
    return found


def stateful(**given):
    of("torchdata")
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(ROWS, batch_size=2, **given)


SHUFFLED = {"sampling": "shuffled", "records": 6, "batch_size": 2}
SEVEN = SHUFFLED | {"records": 7, "batch_size": 4}
FORTY = SHUFFLED | {"records": 40, "batch_size": 4}
IN_ORDER = {"sample_rate": 1.0}
EIGHT = list(range(8))
Q24 = math.ceil(2**24 / 3) / 2**24
KNOWN = {
    "torch shuffle": (lambda: loader(shuffle=True), "shuffled", PASS, SHUFFLED),
    "torch shuffle, workers": (lambda: loader(shuffle=True, num_workers=2), "shuffled", PASS, SHUFFLED),
    "torch shuffle, generator": (lambda: loader(shuffle=True, generator=torch.Generator()), "shuffled", PASS, SHUFFLED),
    "torch shuffle, drop_last": (
        lambda: loader(UNEVEN, shuffle=True, drop_last=True),
        "shuffled",
        PASS,
        SHUFFLED | {"records": 7},
    ),
    "torch shuffle, drop_last, even": (lambda: loader(shuffle=True, drop_last=True), "shuffled", PASS, SHUFFLED),
    "torch in order": (loader, None, PASS, IN_ORDER),
    "torch in order, drop_last": (lambda: loader(UNEVEN, drop_last=True), None, PASS, IN_ORDER),
    "torch one batch": (lambda: loader(size=64, shuffle=True), "shuffled", PASS, SHUFFLED | {"batch_size": 6}),
    "torch subset": (
        lambda: loader(data.Subset(ROWS, [0, 2, 4]), 2, shuffle=True),
        "shuffled",
        PASS,
        SHUFFLED | {"records": 3},
    ),
    "torch SubsetRandomSampler": (
        lambda: sampled(data.SubsetRandomSampler([0, 1, 2, 3])),
        "shuffled",
        PASS,
        SHUFFLED | {"records": 4},
    ),
    "torch RandomSampler, fewer": (
        lambda: sampled(data.RandomSampler(ROWS, num_samples=4)),
        "shuffled",
        PASS,
        SHUFFLED,
    ),
    "torch with replacement": (
        lambda: sampled(data.RandomSampler(ROWS, replacement=True)),
        "with_replacement",
        ANY,
        {"sampling": "with_replacement", "records": 5, "batch_size": 2},
    ),
    "torch DistributedSampler": (lambda: spread(ROWS, 2)[0], "shuffled", PASS, SHUFFLED | {"batch_size": 4}),
    "torch DistributedSampler, in order": (lambda: spread(ROWS, 2, shuffle=False)[0], None, PASS, IN_ORDER),
    "torch DistributedSampler, drops": (lambda: spread(UNEVEN, 2, drop_last=True)[0], "shuffled", PASS, SEVEN),
    "torch DistributedSampler, repeats": (lambda: spread(UNEVEN, 2)[0], None, PASS, {}),
    "opacus": (private, "poisson", ANY, {"sample_rate": Q24}),
    "opacus, drop_last": (lambda: private(drop_last=True), "poisson", ANY, {"sample_rate": Q24}),
    "opacus, generator": (
        lambda: private(generator=torch.Generator().manual_seed(3)),
        "poisson",
        ANY,
        {"sample_rate": Q24},
    ),
    "opacus sampler": (poisson_batches, "poisson", ANY, {"sample_rate": Q24}),
    "accelerate": (prepared, "shuffled", PASS, SHUFFLED),
    "accelerate, not seedable": (lambda: prepared(seedable=False), "shuffled", PASS, SHUFFLED),
    "accelerate, in order": (lambda: prepared(loader()), None, PASS, IN_ORDER),
    "accelerate, two workers": (
        lambda: shards(EIGHT, 2)[0],
        "shuffled",
        PASS,
        SHUFFLED | {"records": 8, "batch_size": 4},
    ),
    "accelerate, even_batches": (lambda: shards(UNEVEN, 2)[0], None, PASS, {}),
    "accelerate, uneven": (lambda: shards(UNEVEN, 2, even_batches=False)[0], "shuffled", PASS, SEVEN),
    "accelerate, split_batches": (lambda: shards(UNEVEN, 2, split_batches=True)[0], None, PASS, {}),
    "accelerate, drop_last": (lambda: shards(UNEVEN, 2, inner={"drop_last": True})[0], "shuffled", PASS, SEVEN),
    "transformers": (trainer, "shuffled", PASS, FORTY),
    "transformers, loader": (lambda: trainer().get_train_dataloader(), "shuffled", PASS, FORTY),
    "transformers, accumulated": (
        lambda: trainer(gradient_accumulation_steps=3),
        "shuffled",
        PASS,
        FORTY | {"batch_size": 12},
    ),
    "transformers, in order": (lambda: trainer(train_sampling_strategy="sequential"), None, PASS, IN_ORDER),
    "lightning fabric": (fabric, "shuffled", PASS, SHUFFLED),
    "lightning combined": (lambda: combined(loader(shuffle=True)), "shuffled", PASS, SHUFFLED),
    "lightning inserted": (lambda: inserted(ROWS)[0], "shuffled", PASS, SHUFFLED | {"batch_size": 4}),
    "lightning inserted, repeats": (lambda: inserted(UNEVEN)[0], None, PASS, {}),
    "jax_privacy Poisson": (cyclic, "poisson", ANY, {"sample_rate": 0.25}),
    "jax_privacy cyclic": (lambda: cyclic(cycle_length=3), "cyclic", PASS, {"sample_rate": 0.25}),
    "jax_privacy cyclic, independent": (lambda: cyclic(True, cycle_length=3), "cyclic", ANY, {"sample_rate": 0.25}),
    "jax_privacy truncated": (
        lambda: cyclic(truncated_batch_size=2),
        "truncated",
        ANY,
        {"sampling": "truncated", "sample_rate": 0.25, "at_most": 2},
    ),
    "jax_privacy bins": (
        lambda: jax("BallsInBinsSampling", iterations=9, cycle_length=3),
        "allocation",
        ("add_remove", "zero_out"),
        {"sampling": "allocation", "records": 3, "batch_size": 1, "bins": "persistent"},
    ),
    "jax_privacy fixed": (
        lambda: jax("FixedBatchSampling", batch_size=2, iterations=9),
        "fixed_size",
        ANY,
        {"sampling": "fixed_size", "batch_size": 2},
    ),
    "jax_privacy with replacement": (
        lambda: jax("FixedBatchSampling", batch_size=2, iterations=9, replace=True),
        "with_replacement",
        ANY,
        {"sampling": "with_replacement", "batch_size": 2},
    ),
    "grain": (lambda: grain("shuffle", "batch 2", "repeat 3"), "shuffled", PASS, SHUFFLED),
    "grain, once": (lambda: grain("shuffle", "batch 2"), "shuffled", PASS, SHUFFLED | {"bins": "persistent"}),
    "grain, in order": (lambda: grain("batch 2"), None, PASS, IN_ORDER),
    "grain, drop_remainder": (
        lambda: grain("shuffle", "batch 4", "repeat 2", drop=True),
        "shuffled",
        PASS,
        SHUFFLED | {"batch_size": 4},
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_live_loader_is_told_and_has_the_number_of_its_keywords(name):
    make, sampling, neighbors, run = KNOWN[name]
    live = make()
    guide = fa.loader_guide(live)
    own = {} if name == "jax_privacy bins" else run  # which does not know its records
    assert (guide.sampling, guide.neighbors, dict(guide.run)) == (sampling, neighbors, own)
    letters = {"fa": fa, "loader": live, "s": 2.0, "e": 2, "t": 6, "n": RECORDS, "d": 1e-3}
    found = eval(guide.call, letters)
    known, count = seen(live), {"steps": 6} if "steps=t" in guide.call else {"epochs": 2}
    if known.is_pass and sampling is None:
        count = {"steps": 2}
    elif known.per > 1:
        count = {"steps" if sampling == "cyclic" else "epochs": 2}
    more = {"records": RECORDS} if known.asks else {}
    keywords = (run or {"sample_rate": 1.0}) | {"noise_multiplier": 2.0 if run else 1.0} | count | more
    relation = "add_remove" if "add_remove" in neighbors else neighbors[0]
    assert found == fa.dpsgd.epsilon(**keywords, neighbors=relation, delta=1e-3)
    bounds = eval(guide.call.replace("epsilon(", "epsilon_bounds("), letters)
    assert bounds.upper == found
    assert guide.lower_holds or bounds.lower == 0.0
    for other in {*ANY} - {*neighbors}:
        with pytest.raises(ValueError, match="supported"):
            eval(f'{guide.call.split(", neighbors")[0].rstrip(")")}, neighbors="{other}")', letters)


def test_a_loader_that_make_private_is_given_is_told_apart_from_one_that_is_used():
    opacus = of("opacus")
    rows = data.TensorDataset(torch.arange(210))
    for size, drops in ((20, False), (20, True), (105, False)):
        given = loader(rows, size, shuffle=True, drop_last=drops)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        engine = opacus.PrivacyEngine()
        parts = {"module": model, "optimizer": optimizer, "data_loader": given, "noise_multiplier": 1.0}
        parts["max_grad_norm"] = 1.0
        *_, made = engine.make_private(**parts)
        told, drawn = fa.loader_guide(given, make_private=True), fa.loader_guide(made)
        assert (told.sampling, told.run, told.neighbors) == (drawn.sampling, drawn.run, drawn.neighbors)
        assert seen(given, make_private=True).length == len(made)
        letters = {"fa": fa, "loader": given, "private_loader": made, "s": 2.0, "t": 6, "d": 1e-3}
        assert eval(told.call, letters) == fa.dpsgd.epsilon(**drawn.run, noise_multiplier=2.0, steps=6, delta=1e-3)
        assert drawn.run["sample_rate"] >= 1 / len(given)
        assert fa.loader_guide(given).sampling == "shuffled"
        model = torch.nn.Linear(1, 1)
        parts["module"], parts["optimizer"] = model, torch.optim.SGD(model.parameters(), lr=0.1)
        *_, kept = engine.make_private(**parts, poisson_sampling=False)
        assert fa.loader_guide(kept) == fa.loader_guide(given)


@pytest.mark.parametrize("records", [2, 3, 50, 1000])
def test_probabilities_are_those_of_what_the_generator_draws_or_above(records):
    """Opacus' uniform numbers have 24 bits, PyTorch's whole numbers 32 modulo the records."""
    run = fa.loader_guide(sampled(data.RandomSampler(range(records), replacement=True), range(records), 1)).run
    assert 1 / run["records"] >= math.ceil(2**32 / records) / 2**32
    of("opacus")
    from opacus.data_loader import DPDataLoader

    rate = fa.loader_guide(DPDataLoader(data.TensorDataset(torch.zeros(4)), sample_rate=1 / records)).run["sample_rate"]
    whole = torch.arange(2**24, dtype=torch.float32) / 2**24
    assert rate >= float((whole < 1 / records).double().mean())
    assert rate <= 1 / records + 2**-24


@pytest.mark.parametrize(
    "make",
    [
        lambda: sampled(data.WeightedRandomSampler([1.0] * 6, 6)),
        lambda: jax("BMinSepSampling", sampling_prob=0.1, iterations=3, min_sep=2),
    ],
)
def test_what_has_no_number_says_so(make):
    live = make()
    assert "no number is proved" in fa.loader_guide(live).call
    with pytest.raises(ValueError, match="no number is proved"):
        fa.dpsgd.epsilon(loader=live, noise_multiplier=1.0, steps=1, delta=1e-3)


def test_public_seeds_are_named():
    for live, seed in (
        (sampled(data.DistributedSampler(ROWS, 2, 0)), 0),
        (private(generator=torch.Generator()), 67280421310721),
    ):
        assert any(f"Its seed is {seed}, which everybody knows" in note for note in fa.loader_guide(live).notes)
    secret = loader(shuffle=True, generator=torch.Generator().manual_seed(991))
    assert any("Its seed is 991, and who knows it" in note for note in fa.loader_guide(secret).notes)
    assert any("Its seed is 42, which everybody knows" in note for note in fa.loader_guide(trainer()).notes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epochs": 1, "batch_size": 2}, "batch_size is what the loader fixes"),
        ({"epochs": 1, "steps": 2}, "one of them"),
        ({}, "needs steps or epochs"),
        ({"epochs": 1, "neighbors": "add_remove"}, "supported"),
        ({"epochs": 1, "sigma": 2}, "sigma"),
    ],
)
def test_keywords_that_do_not_fit_are_refused(given, said):
    with pytest.raises((TypeError, ValueError), match=said):
        fa.dpsgd.epsilon(
            **{"loader": loader(shuffle=True), "noise_multiplier": 1.0, "delta": 1e-3, "neighbors": "zero_out"} | given
        )


def test_steps_and_parts_of_epochs_count_as_whole_passes():
    asked = {"loader": loader(shuffle=True), "noise_multiplier": 2.0, "delta": "1/n", "neighbors": "zero_out"}
    of = {epochs: fa.dpsgd.epsilon(**asked, epochs=epochs) for epochs in (1, 2)}
    assert [fa.dpsgd.epsilon(**asked, steps=steps) for steps in (1, 3, 4)] == [of[1], of[1], of[2]]
    assert fa.dpsgd.epsilon(**asked, epochs=1.2) == of[2]
    assert fa.dpsgd.epsilon_bounds(**asked, epochs=2).lower > 0.0
    for partial in ({"steps": 4}, {"epochs": 1.2}):
        bounds = fa.dpsgd.epsilon_bounds(**asked, **partial)
        assert (bounds.lower, bounds.upper, bounds.status) == (0.0, of[2], fa.Status.LOOSE)
    both = fa.dpsgd.epsilon(**asked, epochs=[1, 2])
    assert [*both] == [of[1], of[2]]
    with pytest.raises(TypeError, match=r"loader_guide\(loader\).run"):
        fa.dpsgd.job(loader=asked["loader"], noise_multiplier=2.0, epochs=1)
