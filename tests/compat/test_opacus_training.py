"""The accountant for Opacus in a training loop: loaders that are Poisson or not, checkpoints, and what is refused."""

import warnings
from pathlib import Path

import pytest

import fastacct as fa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("opacus", reason="the extra opacus is not installed")

from opacus import PrivacyEngine  # noqa: E402
from opacus.data_loader import DPDataLoader  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from opacus.utils.uniform_sampler import UniformWithReplacementSampler  # noqa: E402

from fastacct.compat import opacus as fast  # noqa: E402
from tests.compat.test_opacus import drawn, own_registry, registered  # noqa: E402, F401

pytestmark = pytest.mark.filterwarnings("ignore")


# -- training ---------------------------------------------------------------------------------------------------------


def objects(loader=None, **given):
    """Objects of a small run of DP-SGD, 200 records in 10 batches."""
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(200, 4), torch.randint(0, 2, (200,)))
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if not isinstance(loader, torch.utils.data.DataLoader):
        loader = torch.utils.data.DataLoader(data, **({"batch_size": 20, "shuffle": True} | (loader or {})))
    return {"module": model, "optimizer": optimizer, "data_loader": loader, "max_grad_norm": 1.0} | given


def training(engine, *, poisson=True, epsilon=None, epochs=3, loader=None, noise=1.5):
    parts = objects(loader, poisson_sampling=poisson)
    if epsilon is not None:
        return engine.make_private_with_epsilon(target_epsilon=epsilon, target_delta=1e-5, epochs=epochs, **parts)
    return engine.make_private(noise_multiplier=noise, **parts)


def train(model, optimizer, loader, epochs, *, batches=10**9, every=1):
    """Steps on so many of the batches of each epoch, each on the gradients of `every` of them."""
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            if i == batches:
                break
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if (i + 1) % every == 0:
                optimizer.step()
                optimizer.zero_grad()


def test_three_epochs_of_training_saved_loaded_and_continued(tmp_path):
    fast.register()
    engine = PrivacyEngine(accountant="fastacct")
    model, optimizer, loader = training(engine)
    train(model, optimizer, loader, 2)
    engine.save_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    spent = engine.get_epsilon(1e-5)
    assert spent == fa.dpsgd.epsilon(noise_multiplier=1.5, sample_rate=drawn(0.1), steps=20, delta=1e-5)
    again = PrivacyEngine(accountant="fastacct")
    model, optimizer, loader = training(again)
    again.load_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    assert again.get_epsilon(1e-5) == spent
    train(model, optimizer, loader, 1)
    assert again.accountant.history == [(1.5, 0.1, 30)]
    run = {"noise_multiplier": 1.5, "sample_rate": drawn(0.1), "steps": 30}
    assert again.get_epsilon(1e-5) == fa.dpsgd.epsilon(**run, delta=1e-5)


def test_noise_for_a_target_epsilon():
    fast.register()
    engine = PrivacyEngine(accountant="fastacct")
    model, optimizer, loader = training(engine, epsilon=2.0)
    train(model, optimizer, loader, 3)
    assert 1.98 <= engine.get_epsilon(1e-5) <= 2.0


# -- loaders that are not Poisson -------------------------------------------------------------------------------------


def shuffled_bounds(noise, epochs, batch_size=20):
    run = {"noise_multiplier": noise, "records": 200, "batch_size": batch_size, "epochs": epochs, "delta": 1e-5}
    return fa.dpsgd.epsilon_bounds(**run, sampling="shuffled", neighbors="zero_out")


@pytest.mark.parametrize("loader", [{}, {"shuffle": False}, {"batch_size": 30}, {"batch_size": 30, "drop_last": True}])
def test_passes_over_a_loader_that_is_not_poisson_release_all_records(loader):
    engine = registered()
    train(*training(engine, poisson=False, loader=loader), 3)
    lower, upper, _ = shuffled_bounds(1.5, 3, loader.get("batch_size", 20))
    assert engine.accountant.history == [(1.5, 1.0, 3)]
    assert lower <= engine.get_epsilon(1e-5) == pytest.approx(upper, rel=1e-9)
    poisson = fa.dpsgd.epsilon(noise_multiplier=1.5, sample_rate=0.1, steps=30, delta=1e-5)
    assert poisson < lower < engine.get_epsilon(1e-5)
    assert "sampling='passes', neighbors='zero_out'" in repr(engine.accountant)


def test_noise_for_a_target_is_that_of_passes_where_the_loader_is_not_poisson():
    engine = registered()
    model, optimizer, loader = training(engine, poisson=False, epsilon=2.0, loader={"batch_size": 13})
    noise = optimizer.noise_multiplier
    _, upper, _ = shuffled_bounds(noise, 3, 13)
    assert 1.98 <= upper <= 2.0
    train(model, optimizer, loader, 3)
    assert engine.get_epsilon(1e-5) <= 2.0
    assert engine.accountant.history == [(noise, 1.0, 3)]


def test_a_pass_that_is_begun_counts_as_whole():
    engine = registered()
    parts = training(engine, poisson=False)
    train(*parts, 5, batches=6)  # 30 batches are 3 epochs, but a record may be in 5 of them
    assert engine.accountant.history == [(1.5, 1.0, 5)]
    train(*parts, 1, batches=1)
    assert engine.accountant.history == [(1.5, 1.0, 6)]


def test_workers_and_small_batches_in_memory_change_nothing():
    engine = registered()
    model, optimizer, loader = training(engine, poisson=False)
    for _ in range(2):
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=7, optimizer=optimizer) as small:
            train(model, optimizer, small, 1)
    assert engine.accountant.history == [(1.5, 1.0, 2)]
    engine = PrivacyEngine(accountant="fastacct")
    train(*training(engine, poisson=False, loader={"num_workers": 1, "prefetch_factor": 4}), 2)
    assert engine.accountant.history == [(1.5, 1.0, 2)]


def test_batches_of_one_pass_in_one_step_are_one_release_and_of_two_more():
    engine = registered()
    train(*training(engine, poisson=False), 3, every=5)
    assert engine.accountant.history == [(1.5, 1.0, 3)]
    engine = PrivacyEngine(accountant="fastacct")
    train(*training(engine, poisson=False), 3, every=4)  # two batches of each pass are left for the next step
    assert engine.accountant.history == [(1.5, 1.0, 1 + 3 + 3)]


def test_a_pass_counts_with_the_least_noise_of_its_steps():
    engine = registered()
    model, optimizer, loader = training(engine, poisson=False)
    for noises in ((2.0, 1.5), (2.0, 3.0)):
        for i, (x, y) in enumerate(loader):
            optimizer.noise_multiplier = noises[i // 5]
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert engine.accountant.history == [(1.5, 1.0, 1), (2.0, 1.0, 1)]


def data_of(records=200):
    return torch.utils.data.TensorDataset(torch.randn(records, 4), torch.randint(0, 2, (records,)))


def sampled(sampler, **more):
    return torch.utils.data.DataLoader(data_of(), sampler=sampler, batch_size=20, **more)


def distributed(drop_last, workers=3):
    sampler = torch.utils.data.DistributedSampler
    return sampler(data_of(), num_replicas=workers, rank=0, drop_last=drop_last, shuffle=True)


REFUSED = {
    "with replacement": lambda: sampled(torch.utils.data.RandomSampler(range(200), replacement=True)),
    "more samples": lambda: sampled(torch.utils.data.RandomSampler(range(200), num_samples=300)),
    "weights": lambda: sampled(torch.utils.data.WeightedRandomSampler([1.0] * 200, 200)),
    "own sampler": lambda: sampled([3] * 200),
    "padded": lambda: sampled(distributed(drop_last=False)),
    "no batches": lambda: torch.utils.data.DataLoader(data_of(), batch_size=None),
    "own batches": lambda: torch.utils.data.DataLoader(data_of(), batch_sampler=[[1, 1, 1], [2]]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_loaders_that_may_repeat_records_are_refused_by_name(case):
    engine = registered()
    with pytest.raises(ValueError, match=r"no epsilon is known for .*fa\.loader_guide"):
        engine.make_private(noise_multiplier=1.0, **objects(REFUSED[case](), poisson_sampling=False))


@pytest.mark.parametrize("loader", [lambda: sampled(distributed(True)), lambda: sampled(distributed(False, 4))])
def test_workers_that_share_the_records_are_taken(loader):
    engine = registered()
    train(*training(engine, poisson=False, loader=loader()), 2)
    assert engine.accountant.history == [(1.5, 1.0, 2)]


def test_a_loader_of_opacus_is_poisson_whatever_is_said_of_it():
    loader = DPDataLoader.from_data_loader(torch.utils.data.DataLoader(data_of(), batch_size=20))
    engine = registered()
    train(*training(engine, poisson=False, loader=loader), 2)
    assert engine.accountant.history == [(1.5, 0.1, 20)]
    assert engine.accountant.sampling == "poisson"
    often = UniformWithReplacementSampler(num_samples=200, sample_rate=0.5, steps=20)
    loader = torch.utils.data.DataLoader(data_of(), batch_sampler=often)
    engine = PrivacyEngine(accountant="fastacct")
    train(*training(engine, poisson=False, loader=loader), 1)
    assert engine.accountant.history == [(1.5, 0.5, 20)]
    with pytest.raises(ValueError, match=r"rate 0\.5"):
        training(PrivacyEngine(accountant="fastacct"), poisson=False, epsilon=2.0, loader=loader)


def test_the_default_accountant_prints_the_number_that_the_page_says():
    """docs/backends/opacus.md: 1,000 records in batches of 50, 3 epochs, noise 1; Poisson and shuffled alike."""
    theirs = PrivacyEngine().accountant
    theirs.history = [(1.0, 1 / 20, 60)]
    page = (Path(__file__).parents[2] / "docs/backends/opacus.md").read_text()
    assert f"PRV, prints {theirs.get_epsilon(1e-5):.2f}, where" in page


def test_each_engine_warns_once():
    engine = registered()
    for one in (engine, PrivacyEngine(accountant="fastacct")):
        with pytest.warns(fast.NotPoissonWarning, match="does not hold for them"):
            training(one, poisson=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fast.NotPoissonWarning)
        training(engine, poisson=False)
        training(PrivacyEngine(accountant="fastacct"))


def test_checkpoints_say_how_batches_were_drawn(tmp_path):
    engine = registered()
    model, optimizer, loader = training(engine, poisson=False)
    train(model, optimizer, loader, 2)
    engine.save_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    again = PrivacyEngine(accountant="fastacct")
    parts = training(again)
    again.load_checkpoint(path=tmp_path / "run.pt", module=parts[0], optimizer=parts[1])
    assert again.get_epsilon(1e-5) == engine.get_epsilon(1e-5)
    train(*parts, 1)
    assert again.accountant.history == [(1.5, 1.0, 2), (1.5, 0.1, 10)]
    assert again.accountant.state_dict()["sampling"] == "passes"
    mixed = fa.epsilon(fa.Gaussian(1.5) * 2 + fa.Gaussian(1.5).poisson(drawn(0.1)) * 10, delta=1e-5)
    assert again.get_epsilon(1e-5) == pytest.approx(mixed, rel=1e-9)


@pytest.mark.parametrize("first", ["loader", "checkpoint"])
def test_old_checkpoints_are_refused_where_the_loader_is_not_poisson(first):
    old = {"history": [(1.5, 0.1, 20)], "mechanism": "fastacct"}
    engine = registered()
    steps = [lambda: training(engine, poisson=False), lambda: engine.accountant.load_state_dict(old)]
    one, other = steps if first == "loader" else steps[::-1]
    one()
    with pytest.raises(ValueError, match="does not say how its batches were drawn"):
        other()
    engine.accountant.load_state_dict(old | {"sampling": "poisson"})
    train(*training(engine, poisson=False), 1)
    assert engine.accountant.history == [(1.5, 0.1, 20), (1.5, 1.0, 1)]
    with pytest.raises(ValueError, match="sampling = 'shuffled' is not one of"):
        engine.accountant.load_state_dict(old | {"sampling": "shuffled"})
    untold = fast.FastAccountant()
    untold.load_state_dict(old)
    assert untold.sampling is None
    assert "sampling" not in untold.state_dict()


def test_a_checkpoint_that_is_loaded_within_a_pass_begins_it_again():
    engine = registered()
    model, optimizer, loader = training(engine, poisson=False)
    start = engine.accountant.state_dict()
    for i, (x, y) in enumerate(loader):
        if i == 5:
            engine.accountant.load_state_dict(start)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert engine.accountant.history == [(1.5, 1.0, 1)]


def test_bounds_have_both_ends_and_a_status_where_batches_are_poisson():
    engine = registered()
    assert engine.accountant.bounds(1e-5) == (0.0, 0.0, fa.Status.TIGHT)
    parts = training(engine)
    for epoch in (1, 2):
        train(*parts, 1)
        bounds = engine.accountant.bounds(1e-5)
        run = {"noise_multiplier": 1.5, "sample_rate": drawn(0.1), "steps": 10 * epoch, "delta": 1e-5}
        assert bounds == fa.dpsgd.epsilon_bounds(**run)
        assert bounds.upper == engine.get_epsilon(1e-5)
    engine.accountant.step(noise_multiplier=2.0, sample_rate=0.2)
    lower, upper, status = engine.accountant.bounds(1e-5)
    assert 0.0 < lower <= upper == engine.get_epsilon(1e-5)
    assert status == fa.Status.TIGHT
    engine.accountant.step(noise_multiplier=2.0, sample_rate=0.2, draws=2)
    assert engine.accountant.bounds(1e-5).upper == engine.get_epsilon(1e-5)


def test_of_passes_and_of_what_nobody_told_the_upper_end_holds_alone():
    engine = registered()
    train(*training(engine, poisson=False), 2)
    assert engine.accountant.bounds(1e-5) == (0.0, engine.get_epsilon(1e-5), fa.Status.LOOSE)
    untold = PrivacyEngine(accountant="fastacct").accountant
    untold.load_state_dict({"mechanism": "rdp", "history": [(1.5, 0.1, 20)]})
    assert untold.bounds(1e-5)[::2] == (0.0, fa.Status.LOOSE)
