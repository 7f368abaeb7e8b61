"""The guard on an optimizer of Opacus, in real trainings: each step's epsilon, the stop, checkpoints."""

import secrets
import warnings

import pytest

import fastacct as fa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("opacus", reason="the extra opacus is not installed")

from opacus import PrivacyEngine  # noqa: E402
from opacus.data_loader import DPDataLoader  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402

from fastacct.training import Meter  # noqa: E402
from fastacct.training.opacus import Guard  # noqa: E402
from tests.compat.test_opacus import drawn, own_registry, registered  # noqa: E402, F401
from tests.compat.test_opacus_training import objects, shuffled_bounds, train, training  # noqa: E402

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
    guard.stop_at = guard.epsilon
    with pytest.raises(fa.BudgetExceededError, match="the next pass over the loader would spend"):
        train(*parts, 1)


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
    with pytest.raises(ValueError, match="draws the same batches again"):  # the script seeds PyTorch
        train(model, optimizer, loader, 1)
    optimizer.zero_grad()
    torch.seed()
    with pytest.raises(fa.BudgetExceededError):
        train(model, optimizer, loader, 1)
    assert again.accountant.history == [(1.5, 0.1, 13)]


def private(engine, seed):
    secret, noise = torch.Generator().manual_seed(seed), torch.Generator()
    noise.seed()
    given = {"data_loader": torch.utils.data.DataLoader(objects()["data_loader"].dataset, batch_size=20)}
    given["data_loader"].generator = secret
    return secret, engine.make_private(**objects(**given), noise_multiplier=1.5, noise_generator=noise)


def test_a_loop_that_seeds_its_secret_generator_anew_in_each_epoch_is_refused():
    engine, seed = registered(), secrets.randbits(60)
    secret, parts = private(engine, seed)
    Guard(engine, parts[1], delta=1e-5)
    guard = Guard(engine, parts[1], delta=1e-5)  # beside the first one
    next(iter(parts[2]))
    secret.manual_seed(seed)  # nothing was released
    train(*parts, 1)
    train(*parts, 1)  # goes on
    secret.manual_seed(seed)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"draws the same batches again.*secret\.seed\(\)"):
            train(*parts, 1)
        parts[1].zero_grad()
        secret.manual_seed(seed)
    assert guard.epsilon == poisson(20)
    secret.seed()
    train(*parts, 1)
    assert guard.epsilon == engine.get_epsilon(1e-5) == poisson(30)


def test_two_models_of_one_engine_and_one_seed_are_refused():
    engine, seed = registered(), secrets.randbits(60)
    for own, draws in ((seed, True), (seed + 1, True), (seed, False)):
        parts = private(engine, own)[1]
        guard = Guard(engine, parts[1], delta=1e-5)
        if draws:
            train(*parts, 1)
        else:
            with pytest.raises(ValueError, match="draws the same batches again"):
                train(*parts, 1)
    assert guard.epsilon == poisson(20)


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


@pytest.mark.parametrize("searches", [False, True])
def test_samples_that_make_private_draws_from_a_known_seed_are_noticed(searches):
    """The noise has a generator of its own, as the warning of the noise says: the batches need one, too."""
    secret, known = torch.Generator(), torch.Generator().manual_seed(99)
    secret.seed()
    torch.manual_seed(42)
    for generator, seed in ((None, 42), (known, 99), (torch.Generator(), 67280421310721), (secret, None)):
        data, model = torch.utils.data.TensorDataset(torch.randn(100, 2)), torch.nn.Linear(2, 1)
        parts = {"module": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "max_grad_norm": 1.0}
        parts["data_loader"] = torch.utils.data.DataLoader(data, batch_size=10, generator=generator)
        parts["noise_generator"], engine = secret, registered()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if searches:
                target = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 1}
                _, optimizer, _ = engine.make_private_with_epsilon(**parts, **target)
            else:
                _, optimizer, _ = engine.make_private(**parts, noise_multiplier=1.5)
            Guard(engine, optimizer, delta=1e-5)
        said = [str(one.message) for one in found if "who knows it" in str(one.message)]
        assert [f"batches are drawn from the seed {seed}: " in one for one in said] == [True] * (seed is not None)


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


# -- batches of another loader ----------------------------------------------------------------------------------------


def other_loader(loader, **given):
    return torch.utils.data.DataLoader(loader.dataset, **({"batch_size": 20, "shuffle": True} | given))


def validate(loader):
    for x, _ in loader:
        assert len(x) <= 200


BEFORE = {"nothing": lambda loader: None, "peeked": lambda loader: next(iter(loader)), "a pass": validate}


@pytest.mark.parametrize("is_poisson", [True, False])
@pytest.mark.parametrize("before", BEFORE)
def test_batches_of_another_loader_are_refused_and_have_no_epsilon(is_poisson, before):
    engine = registered()
    model, optimizer, loader = training(engine, poisson=is_poisson)
    guard = Guard(engine, optimizer, delta=1e-5)
    BEFORE[before](loader)
    start = [one.detach().clone() for one in model.parameters()]
    if before != "nothing" and not is_poisson:
        train(model, optimizer, other_loader(loader), 1)
        taken = {"peeked": 1, "a pass": 2}[before]
        assert engine.accountant.history == [(1.5, 1.0, 1 + 10 - taken)]  # each step that it did not draw is a pass
        return
    with pytest.raises(ValueError, match=r"drew no batch for this step.*fa\.training\.Meter"):
        train(model, optimizer, other_loader(loader), 3)
    assert guard.epsilon == float("inf")
    steps = sum(row[2] for row in engine.accountant.history)
    assert steps == {"nothing": 0, "peeked": 1, "a pass": 2}[before]
    if steps:
        with pytest.raises(ValueError, match="drew no batch for this step"):
            engine.get_epsilon(1e-5)
    else:
        assert all(torch.equal(a, b) for a, b in zip(start, model.parameters(), strict=True))
        assert engine.get_epsilon(1e-5) == 0.0


def test_another_loader_after_an_epoch_is_refused_at_its_first_step():
    engine = registered()
    model, optimizer, loader = training(engine)
    train(model, optimizer, loader, 1)
    with pytest.raises(ValueError, match="Poisson batches does not hold"):
        train(model, optimizer, other_loader(loader), 1)
    assert engine.accountant.history == [(1.5, 0.1, 10)]


def test_a_batch_of_opacus_that_is_taken_twice_is_refused():
    engine = registered()
    model, optimizer, loader = training(engine)
    x, y = next(iter(loader))
    with pytest.raises(ValueError, match="take each batch once"):
        train(model, optimizer, [(x, y)] * 2, 1)


def test_batches_of_a_larger_rate_are_refused_and_of_another_loader_of_the_same_one_taken():
    engine = registered()
    for loader in (other_loader(training(engine)[2], batch_size=40), other_loader(training(engine)[2], batch_size=20)):
        larger = DPDataLoader.from_data_loader(loader)
        model, optimizer, own = training(engine)
        if len(larger) < len(own):
            with pytest.raises(ValueError, match="drew no batch"):
                train(model, optimizer, larger, 1)
        else:  # another one of the same rate, as trainers make it anew
            train(model, optimizer, larger, 1)
            assert engine.accountant.history == [(1.5, 0.1, 10)]


@pytest.mark.parametrize("workers", [0, 2])
def test_validation_on_the_loader_and_workers_and_small_batches_are_right(workers):
    engine = registered()
    model, optimizer, loader = training(engine, loader={"num_workers": workers})
    guard = Guard(engine, optimizer, delta=1e-5)
    for _ in range(2):
        validate(loader)
        train(model, optimizer, loader, 1)
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=7, optimizer=optimizer) as small:
            train(model, optimizer, small, 1)
            for i, (x, y) in enumerate(small):  # left early, with a look at another pass between
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                if i == 5:
                    next(iter(loader))
                    break
        optimizer.zero_grad()
        optimizer._step_skip_queue.clear()
    steps = sum(row[2] for row in engine.accountant.history)
    assert guard.epsilon == engine.get_epsilon(1e-5) == poisson(steps)
    assert 42 <= steps <= 52


def test_batches_that_wait_for_a_step_of_several_passes_are_used():
    engine = registered()
    model, optimizer, loader = training(engine)
    model.allow_grad_accumulation()
    train(model, optimizer, (batch for _ in range(3) for batch in loader), 1, every=7)
    assert engine.accountant.history == [(1.5, 0.1, 4, 7)]


def test_engines_in_one_process_are_told_apart():
    """Two engines in turn, as clients that are simulated: neither draws for the other, nor takes from it."""
    engines = [registered(), PrivacyEngine(accountant="fastacct")]
    parts = [training(engine) for engine in engines]
    for _ in range(3):
        for one in parts:
            train(*one, 1)
    for batches in zip(*(one[2] for one in parts), strict=True):
        for (model, optimizer, _), batch in zip(parts, batches, strict=True):
            train(model, optimizer, [batch], 1)
    assert [engine.accountant.history for engine in engines] == [[(1.5, 0.1, 40)]] * 2


@pytest.mark.parametrize("is_poisson", [True, False])
def test_the_loader_that_make_private_returns_is_known(is_poisson):
    engine = registered()
    loader = training(engine, poisson=is_poisson)[2]
    relation = "add_remove" if is_poisson else "zero_out"
    run = {"noise_multiplier": 1.5, "delta": 1e-5, "neighbors": relation}
    said = {"sample_rate": drawn(0.1), "steps": 20}
    if not is_poisson:
        said = {"sampling": "shuffled", "records": 200, "batch_size": 20, "epochs": 2}
    assert fa.loader_guide(loader).sampling == ("poisson" if is_poisson else "shuffled")
    assert fa.dpsgd.epsilon(loader=loader, epochs=2, **run) == fa.dpsgd.epsilon(**said, **run)
    meter = Meter(loader, **run)
    for _ in range(2):
        assert len([*meter.batches()]) == 10
    assert meter.epsilon == fa.dpsgd.epsilon(**said, **run)
