"""The callback for Lightning's Trainer, in real trainings: each step's epsilon, the stop, and a resume."""

from functools import partial

import pytest

import fastacct as fa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")

from fastacct.training import Meter  # noqa: E402
from fastacct.training.lightning import MeterCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDS, BATCH = 40, 4
RUN = {"noise_multiplier": 3.0, "delta": 1e-4, "neighbors": "zero_out"}
counting = partial(MeterCallback, adds_noise=True)  # the noise does not matter to the count


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, _):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Logger(pl.loggers.logger.DummyLogger):
    """What is logged, step by step."""

    def __init__(self):
        super().__init__()
        self.epsilons = []

    def log_metrics(self, metrics, step=None):
        if "epsilon" in metrics:
            self.epsilons.append(metrics["epsilon"])


def loader():
    data = torch.utils.data.TensorDataset(torch.randn(RECORDS, 3), torch.randn(RECORDS, 1))
    return torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True)


def trainer(folder, *callbacks, logger=False, **given):
    settings = {"max_epochs": 3, "accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    settings |= {"log_every_n_steps": 1, "enable_checkpointing": False, "default_root_dir": str(folder)} | given
    return pl.Trainer(callbacks=list(callbacks), logger=logger, **settings)


def passes(steps, length=RECORDS // BATCH):
    given = {"records": RECORDS, "batch_size": RECORDS // length, "epochs": -(-steps // length)}
    return fa.dpsgd.epsilon(**RUN, **given, sampling="shuffled")


def test_each_step_has_the_epsilon_of_whole_passes_in_the_logger(tmp_path):
    data, logger = loader(), Logger()
    meter = Meter(data, **RUN)
    trainer(tmp_path, counting(meter), logger=logger).fit(Module(), data)
    assert meter.steps == 30
    exact = [passes(i) for i in range(1, 31)]
    assert logger.epsilons == pytest.approx(exact, rel=2e-7)  # it logs 32 bits
    assert all(found >= true for found, true in zip(logger.epsilons, exact, strict=True))


def test_accumulated_gradients_are_one_step(tmp_path):
    data = loader()
    meter = Meter(data, **RUN, accumulate=3)
    trainer(tmp_path, counting(meter), accumulate_grad_batches=3).fit(Module(), data)
    assert meter.steps == 12
    assert meter.epsilon == passes(30)
    with pytest.raises(ValueError, match="accumulates 2 batches"):
        trainer(tmp_path, counting(Meter(data, **RUN)), accumulate_grad_batches=2).fit(Module(), data)


def test_training_ends_before_the_budget_is_exceeded(tmp_path):
    data = loader()
    meter = Meter(data, **RUN, stop_at=passes(20))
    mine = trainer(tmp_path, counting(meter))
    mine.fit(Module(), data)
    assert mine.global_step == meter.steps == 20
    with pytest.raises(fa.BudgetExceededError):
        trainer(tmp_path, counting(meter)).fit(Module(), data)
    assert meter.steps == 20


class Dies(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 14:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("every", "epochs"), [(10, 3), (4, 4)])
def test_a_training_that_died_goes_on_from_its_checkpoint(tmp_path, every, epochs):
    """At step 14; the checkpoint is of step 10, between passes, or of step 12, inside one, which counts again."""
    data = loader()
    keep = pl.callbacks.ModelCheckpoint(tmp_path, every_n_train_steps=every, save_top_k=-1, filename="{step}")
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        trainer(tmp_path, counting(Meter(data, **RUN)), Dies(), keep, enable_checkpointing=True).fit(Module(), data)
    meter = Meter(data, **RUN)
    checkpoint = tmp_path / f"step={10 if every == 10 else 12}.ckpt"
    trainer(tmp_path, counting(meter)).fit(Module(), data, ckpt_path=checkpoint, weights_only=False)
    assert meter.steps == 30
    assert meter.epsilon == passes(10 * epochs)


def test_the_sampler_that_lightning_inserts_is_told():
    from lightning.pytorch.trainer.connectors.data_connector import _get_distributed_sampler

    mode = pl.trainer.states.RunningStage.TRAINING
    sampler = _get_distributed_sampler(loader(), True, 0, mode=mode, num_replicas=3, rank=0)
    guide = fa.loader_guide(torch.utils.data.DataLoader(range(RECORDS), batch_size=BATCH, sampler=sampler))
    assert guide.sampling is None  # 40 records among 3 workers: two come twice
    assert guide.uses == (1, 2)
    assert any("Its seed is" in note for note in guide.notes)


def test_batches_that_a_schedule_adds_up_are_noticed(tmp_path):
    data = loader()
    later = pl.callbacks.GradientAccumulationScheduler({0: 1, 1: 5})
    meter = Meter(data, **RUN)
    with pytest.raises(ValueError, match="batches were added up for this step, and the meter counts 1"):
        trainer(tmp_path, counting(meter), later).fit(Module(), data)
    assert meter.steps == RECORDS // BATCH


def test_batches_that_a_module_adds_up_are_noticed(tmp_path):
    class Adds(Module):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, at):
            self.manual_backward(super().training_step(batch, at))
            if at % 5 == 4:
                self.optimizers().step()

    data = loader()
    with pytest.raises(ValueError, match=r"Say how many batches the module adds up: Meter\(accumulate=\)"):
        trainer(tmp_path, counting(Meter(data, **RUN))).fit(Adds(), data)


def test_another_loader_than_the_one_that_is_counted_is_refused(tmp_path):
    data = loader()
    others = [
        torch.utils.data.DataLoader(data.dataset, batch_size=BATCH),  # in order
        torch.utils.data.DataLoader(data.dataset, batch_size=5, shuffle=True),
        torch.utils.data.DataLoader(torch.utils.data.ConcatDataset([data.dataset] * 10), batch_size=BATCH),
    ]
    for other, why in zip(others, ("sampling", "batch_size = 5, and the meter counts 4", "several times"), strict=True):
        meter = Meter(data, **RUN)
        with pytest.raises(ValueError, match=why):
            trainer(tmp_path, counting(meter)).fit(Module(), other)
        assert meter.steps == 0


def test_a_second_step_on_a_batch_is_refused(tmp_path):
    class Twice(Module):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, _):
            for _ in range(2):
                self.manual_backward(super().training_step(batch, _))
                self.optimizers().step()

    data, meter = loader(), Meter(loader(), **RUN)
    with pytest.raises(ValueError, match="a second step on the same batch"):
        trainer(tmp_path, counting(meter)).fit(Twice(), data)
    assert meter.steps == 1


class Noisy(torch.optim.SGD):
    """An optimizer that says how much noise it adds, as those of Opacus do."""

    noise_multiplier = 3.0


def test_less_noise_than_is_counted_is_refused_and_a_seed_is_noted(tmp_path):
    class Less(Module):
        def configure_optimizers(self):
            return Noisy(self.parameters(), lr=0.1)

        def on_train_batch_start(self, batch, at):
            self.trainer.optimizers[0].noise_multiplier = 3.0 if at < 4 else 2.9

    data, meter = loader(), Meter(loader(), **RUN)
    torch.manual_seed(5)
    with (
        pytest.warns(UserWarning, match="drawn from the seed 5"),
        pytest.raises(ValueError, match=r"noise_multiplier = 2.9 is what the optimizer has now"),
    ):
        trainer(tmp_path, counting(meter)).fit(Less(), data)
    assert meter.steps == 4


class Private(Module):
    """As in docs/howto/training.md."""

    def __init__(self):
        super().__init__()
        opacus = pytest.importorskip("opacus", reason="Opacus is not installed")
        self.layer = opacus.GradSampleModule(self.layer)

    def configure_optimizers(self):
        from opacus.optimizers import DPOptimizer

        noise = {"noise_multiplier": 3.0, "max_grad_norm": 1.0, "expected_batch_size": BATCH}
        return DPOptimizer(super().configure_optimizers(), **noise, generator=secret_generator())


def secret_generator():
    secret = torch.Generator()
    secret.seed()
    return secret


def test_a_training_without_noise_is_refused_and_a_private_one_needs_no_word(tmp_path, recwarn):
    data, meter = loader(), Meter(loader(), **RUN)
    with pytest.raises(ValueError, match=r"SGD adds no noise: .*MeterCallback\(meter, adds_noise=True\)"):
        trainer(tmp_path, MeterCallback(meter)).fit(Module(), data)
    assert meter.steps == 0
    torch.manual_seed(5)
    trainer(tmp_path, MeterCallback(meter)).fit(Private(), data)
    assert meter.epsilon == passes(30)
    assert not [one for one in recwarn if "drawn from the seed" in str(one.message)]


def test_poisson_batches_of_the_script_s_seed_are_warned_of_and_of_a_secret_one_not(tmp_path, recwarn):
    data_loader, run = pytest.importorskip("opacus.data_loader", reason="Opacus is not installed"), dict(RUN)
    del run["neighbors"]
    pl.seed_everything(7)
    for generator in (None, secret_generator()):
        data = data_loader.DPDataLoader.from_data_loader(loader(), generator=generator)
        recwarn.clear()
        trainer(tmp_path, MeterCallback(meter := Meter(**run, sample_rate=-(-(2**24) // 10) / 2**24))).fit(
            Private(), data
        )
        assert meter.steps == 30
        found = [str(one.message) for one in recwarn if "batches may be known" in str(one.message)]
        assert [one for one in found if "own generator, whose seed is 7:" not in one] == []
        assert bool(found) == (generator is None)


def test_poisson_batches_that_are_drawn_again_from_a_secret_seed_are_refused(tmp_path):
    data_loader = pytest.importorskip("opacus.data_loader", reason="Opacus is not installed")
    run = {name: value for name, value in RUN.items() if name != "neighbors"}
    secret, meter = torch.Generator().seed(), Meter(**run, sample_rate=-(-(2**24) // 10) / 2**24)

    def train():
        generator = torch.Generator().manual_seed(secret)
        data = data_loader.DPDataLoader.from_data_loader(loader(), generator=generator)
        trainer(tmp_path, MeterCallback(meter)).fit(Private(), data)

    train()
    with pytest.raises(ValueError, match="the loader's generator draws the same batches again"):
        train()
    assert meter.steps == 30


def test_a_loader_that_is_made_anew_is_looked_at(tmp_path):
    class Fresh(Private):
        def train_dataloader(self):
            return loader() if self.current_epoch == 0 else torch.utils.data.DataLoader(loader().dataset, 20)

    meter = Meter(loader(), **RUN)
    with pytest.raises(ValueError, match="this loader"):
        trainer(tmp_path, MeterCallback(meter), reload_dataloaders_every_n_epochs=1).fit(Fresh())
    assert meter.epsilon == passes(10)


def test_an_optimizer_that_is_exchanged_for_one_without_noise_is_refused(tmp_path):
    class Changed(Private):
        def on_train_batch_start(self, batch, at):
            if at == 3:
                self.trainer.optimizers = [self.trainer.optimizers[0].original_optimizer]

    meter = Meter(loader(), **RUN)
    with pytest.raises(ValueError, match="SGD adds no noise"):
        trainer(tmp_path, MeterCallback(meter)).fit(Changed(), loader())
    assert meter.steps == 3


def test_a_training_that_is_resumed_where_no_step_is_left_ends_without_one(tmp_path):
    data = loader()
    keep = pl.callbacks.ModelCheckpoint(tmp_path, every_n_train_steps=10, save_top_k=-1, filename="{step}")
    first = Module()
    kept = trainer(tmp_path, counting(Meter(data, **RUN)), keep, enable_checkpointing=True, max_epochs=1)
    kept.fit(first, data)
    mine, again = Module(), trainer(tmp_path, counting(meter := Meter(data, **RUN, stop_at=passes(10))))
    again.fit(mine, data, ckpt_path=tmp_path / "step=10.ckpt", weights_only=False)
    assert again.global_step == meter.steps == 10
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), mine.parameters(), strict=True))


def test_a_trainer_before_fit_has_no_loader_yet(tmp_path):
    with pytest.raises(ValueError, match=r"known of lightning\..*: a Trainer of Lightning has a loader from"):
        fa.loader_guide(trainer(tmp_path))


def test_a_checkpoint_without_a_meter_is_refused(tmp_path):
    data = loader()
    trainer(tmp_path, max_epochs=1, enable_checkpointing=True).fit(Module(), data)
    (kept,) = tmp_path.rglob("*.ckpt")
    meter = Meter(data, **RUN)
    with pytest.raises(ValueError, match="the checkpoint has no meter"):
        trainer(tmp_path, counting(meter)).fit(Module(), data, ckpt_path=kept, weights_only=False)
    after = Meter(data, **RUN, after=fa.Gaussian(3.0))
    trainer(tmp_path, counting(after)).fit(Module(), data, ckpt_path=kept, weights_only=False)
    assert after.steps == 20


@pytest.mark.parametrize("of", ["batches", "noise"])
def test_a_generator_that_is_seeded_anew_in_each_epoch_is_refused(tmp_path, of):
    """Five epochs of ten batches, each five times: 5.148 where 15.508 is the truth."""
    data_loader = pytest.importorskip("opacus.data_loader", reason="Opacus is not installed")
    secret = torch.Generator()
    seed = secret.seed()

    class Again(Private):
        def on_train_epoch_start(self):
            (secret if of == "batches" else self.noise).manual_seed(seed)

        def configure_optimizers(self):
            made = super().configure_optimizers()
            self.noise = made.generator
            return made

    made = data_loader.DPDataLoader.from_data_loader(loader(), generator=secret)
    meter = Meter(made, noise_multiplier=3.0, delta=1e-4)
    with pytest.raises(ValueError, match=f"generator draws the same {of} again"):
        trainer(tmp_path, MeterCallback(meter)).fit(Again(), made)
    assert meter.steps == (20 if of == "batches" else 10)  # the first epoch begins one number later


def test_steps_of_the_optimizer_itself_are_noticed(tmp_path):
    """30 private steps were 0.0 where 4.178 is the truth."""

    class Manual(Module):
        automatic_optimization = False

        def training_step(self, batch, _):
            self.manual_backward(super().training_step(batch, _))
            self.optimizers(use_pl_optimizer=False).step()

    meter = Meter(loader(), **RUN)
    with pytest.raises(ValueError, match=r"2 batches without a step of self\.optimizers"):
        trainer(tmp_path, counting(meter)).fit(Manual(), loader())


def test_batches_that_a_module_adds_up_by_itself_are_one_step(tmp_path):
    class Manual(Module):
        automatic_optimization = False

        def training_step(self, batch, i):
            self.manual_backward(super().training_step(batch, i))
            if i % 5 == 4:
                self.optimizers().step()
                self.optimizers().zero_grad()

    meter = Meter(loader(), **RUN, accumulate=5)
    trainer(tmp_path, counting(meter)).fit(Manual(), loader())
    assert (meter.steps, meter.epsilon) == (6, passes(30))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_numbers_of_few_bits_draw_no_poisson_batches(kind):
    """1 / 1000 was .00292: 0.186 where 0.584 is the truth."""
    data_loader = pytest.importorskip("opacus.data_loader", reason="Opacus is not installed")
    made = data_loader.DPDataLoader.from_data_loader(loader(), generator=secret_generator())
    meter, before = Meter(made, noise_multiplier=3.0, delta=1e-4), torch.get_default_dtype()
    try:
        torch.set_default_dtype(kind)
        with pytest.raises(ValueError, match="fewer than 24 bits"):
            Meter(made, noise_multiplier=3.0, delta=1e-4)
        with pytest.raises(ValueError, match="fewer than 24 bits"):
            next(meter.batches())
    finally:
        torch.set_default_dtype(before)
    assert meter.steps == 0
