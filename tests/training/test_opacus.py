"""The guard on an optimizer of Opacus, in real trainings: each step's epsilon, the stop, checkpoints."""

import pytest

import fastacct as fa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("opacus", reason="the extra opacus is not installed")

from opacus import PrivacyEngine  # noqa: E402

from fastacct.training import Meter  # noqa: E402
from fastacct.training.opacus import Guard  # noqa: E402
from tests.compat.test_opacus import drawn, own_registry, registered  # noqa: E402, F401
from tests.compat.test_opacus_training import shuffled_bounds, train, training  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def poisson(steps):
    return fa.dpsgd.epsilon(noise_multiplier=1.5, sample_rate=drawn(0.1), steps=steps, delta=1e-5)


def test_each_step_has_the_epsilon_of_its_engine():
    engine, heard = registered(), []
    model, optimizer, loader = training(engine)
    guard = Guard(engine, optimizer, delta=1e-5, log=heard.append)
    train(model, optimizer, loader, 3)
    assert heard == [poisson(i) for i in range(1, 31)]
    assert guard.epsilon == engine.get_epsilon(1e-5) == poisson(30)


def test_the_step_that_would_exceed_changes_no_parameter_and_is_not_recorded():
    engine = registered()
    model, optimizer, loader = training(engine)
    guard = Guard(engine, optimizer, delta=1e-5, stop_at=poisson(17))
    with pytest.raises(fa.BudgetExceededError, match="1 more step would spend"):
        train(model, optimizer, loader, 3)
    assert engine.accountant.history == [(1.5, 0.1, 17)]
    assert guard.epsilon == guard.stop_at == poisson(17)
    optimizer.zero_grad()
    before = [one.detach().clone() for one in model.parameters()]
    with pytest.raises(fa.BudgetExceededError, match="ended"):
        train(model, optimizer, loader, 1)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert engine.accountant.history == [(1.5, 0.1, 17)]


def test_a_loader_that_shuffles_is_the_engine_s():
    engine = registered()
    parts = training(engine, poisson=False)
    guard = Guard(engine, parts[1], delta=1e-5)
    train(*parts, 2)
    assert guard.epsilon == pytest.approx(shuffled_bounds(1.5, 2)[1], rel=1e-9)


def test_a_checkpoint_goes_on(tmp_path):
    engine = registered()
    model, optimizer, loader = training(engine)
    Guard(engine, optimizer, delta=1e-5)
    train(model, optimizer, loader, 1)
    engine.save_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    again = PrivacyEngine(accountant="fastacct")
    model, optimizer, loader = training(again)
    again.load_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    guard = Guard(again, optimizer, delta=1e-5, stop_at=poisson(13))
    assert guard.epsilon == poisson(10)
    with pytest.raises(fa.BudgetExceededError):
        train(model, optimizer, loader, 1)
    assert again.accountant.history == [(1.5, 0.1, 13)]


def test_an_engine_with_another_accountant_is_refused():
    engine = PrivacyEngine(accountant="rdp")
    _, optimizer, _ = training(engine)
    with pytest.raises(TypeError, match="fastacct"):
        Guard(engine, optimizer, delta=1e-5)


def test_an_optimizer_of_another_engine_is_refused():
    mine, other = registered(), registered()
    own, others = training(mine)[1], training(other)[1]
    for wrong in (others, own.original_optimizer, None):
        with pytest.raises(ValueError, match="does not record its steps"):
            Guard(mine, wrong, delta=1e-5)
    Guard(mine, own, delta=1e-5)
    Guard(mine, own, delta=1e-4)  # beside the first one


def test_noise_that_is_patched_away_or_drawn_from_a_known_seed_is_noticed(monkeypatch):
    engine = registered()
    parts = training(engine)
    torch.manual_seed(42)
    with pytest.warns(UserWarning, match="drawn from the seed 42"):
        Guard(engine, parts[1], delta=1e-5)
    parts[1].add_noise = lambda: None
    with pytest.raises(ValueError, match="add_noise of the optimizer was replaced"):
        train(*parts, 1)
    del parts[1].add_noise
    parts[1].zero_grad()
    monkeypatch.setattr(type(parts[1]), "add_noise", lambda self: None)
    with pytest.raises(ValueError, match="add_noise of the optimizer was replaced"):
        train(*parts, 1)
    assert engine.accountant.history == []


def test_noise_that_is_lowered_is_counted_as_it_is():
    engine = registered()
    parts = training(engine)
    guard = Guard(engine, parts[1], delta=1e-5)
    parts[1].noise_multiplier = 0.5
    train(*parts, 1)
    assert engine.accountant.history == [(0.5, 0.1, 10)]
    assert guard.epsilon == fa.dpsgd.epsilon(noise_multiplier=0.5, sample_rate=drawn(0.1), steps=10, delta=1e-5)


def test_a_batch_that_is_taken_several_times_counts_as_often():
    engine = registered()
    model, optimizer, loader = training(engine, poisson=False)
    guard = Guard(engine, optimizer, delta=1e-5)
    for x, y in loader:
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        break
    assert engine.accountant.history == [(1.5, 1.0, 3)]
    assert guard.epsilon == fa.dpsgd.epsilon(noise_multiplier=1.5, sample_rate=1.0, steps=3, delta=1e-5)


@pytest.mark.parametrize("part", ["sampler", "batch_size"])
def test_a_loader_whose_sampler_was_changed_is_refused_at_the_next_step(part):
    data = torch.utils.data.TensorDataset(torch.randn(100, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=10, shuffle=True)
    meter = Meter(loader, noise_multiplier=3.0, delta=1e-5, neighbors="zero_out")
    assert len([*meter.batches()]) == len([*meter.batches()]) == 10
    changed = {"sampler": torch.utils.data.RandomSampler(data, replacement=True), "batch_size": 20}
    setattr(loader.batch_sampler, part, changed[part])
    with pytest.raises(ValueError, match="sampler was changed"):
        next(meter.batches())
    assert meter.steps == 20
