"""The callback for transformers.Trainer, in real trainings: each step's epsilon, the stop, a process that is killed."""

import subprocess
import sys
import warnings
from functools import partial

import pytest

import fastacct as fa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
pytest.importorskip("accelerate", reason="Accelerate is not installed")

from fastacct.training import Meter, huggingface  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDS, BATCH, DELTA = 40, 4, 1e-4
RUN = {"noise_multiplier": 3.0, "delta": DELTA, "neighbors": "zero_out"}
plain = partial(huggingface.MeterCallback, adds_noise=True)  # the noise does not matter to the count
counting = partial(plain, same_data=True)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, x=None, labels=None):
        out = self.layer(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return RECORDS

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return {"x": torch.randn(3, generator=generator), "labels": torch.randn(1, generator=generator)}


class Heard(transformers.TrainerCallback):
    """A logger."""

    def __init__(self):
        self.epsilons = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "epsilon" in logs and "train_runtime" not in logs:
            self.epsilons.append((state.global_step, logs["epsilon"]))


def trainer(folder, *callbacks, **given):
    settings = {"per_device_train_batch_size": BATCH, "num_train_epochs": 3, "logging_steps": 1, "report_to": []}
    settings |= {"use_cpu": True, "disable_tqdm": True, "save_strategy": "no"} | given
    args = transformers.TrainingArguments(output_dir=str(folder), **settings)
    return transformers.Trainer(model=Model(), args=args, train_dataset=Data(), callbacks=list(callbacks))


def passes(steps, length=RECORDS // BATCH):
    """Epsilon after so many steps in epochs of this length: of whole passes."""
    given = {"records": RECORDS, "batch_size": RECORDS // length, "epochs": -(-steps // length)}
    return fa.dpsgd.epsilon(**RUN, **given, sampling="shuffled")


def test_each_step_has_the_epsilon_of_whole_passes_in_every_log(tmp_path):
    heard = Heard()
    mine = trainer(tmp_path, heard)
    meter = Meter(mine, **RUN)
    counting(meter).attach(mine)
    mine.train()
    assert meter.steps == 30
    assert heard.epsilons == [(i, passes(i)) for i in range(1, 31)]
    kept = [row["epsilon"] for row in mine.state.log_history if "loss" in row]
    assert kept == [passes(i) for i in range(1, 31)]


def test_accumulated_gradients_are_one_step(tmp_path):
    mine = trainer(tmp_path, gradient_accumulation_steps=3)  # ten batches: three whole steps, and one of a single batch
    meter = Meter(mine, **RUN)
    counting(meter).attach(mine)
    mine.train()
    assert (meter.accumulate, meter.steps) == (3, 12)
    assert meter.epsilon == passes(30)
    other = trainer(tmp_path, gradient_accumulation_steps=2)
    counting(Meter(other.get_train_dataloader(), **RUN)).attach(other)
    with pytest.raises(ValueError, match="accumulates 2 batches"):
        other.train()


def test_training_ends_before_the_budget_is_exceeded(tmp_path):
    mine = trainer(tmp_path)
    meter = Meter(mine, **RUN, stop_at=passes(20))
    counting(meter).attach(mine)
    mine.train()
    assert mine.state.global_step == meter.steps == 20
    assert meter.epsilon == meter.stop_at
    with pytest.raises(fa.BudgetExceededError):
        mine.train()
    assert meter.steps == 20


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.training.test_huggingface import *
from transformers.trainer_utils import get_last_checkpoint

class Killer(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

mine = trainer(sys.argv[1], Killer(), save_strategy="steps", save_steps=4, **eval(sys.argv[3]))
meter = Meter(mine, **RUN)
counting(meter).attach(mine)
mine.train(resume_from_checkpoint=get_last_checkpoint(sys.argv[1]) if Path(sys.argv[1]).exists() else None)
print("ends", meter.steps, meter.epsilon)
"""


def run(folder, kill_at, **settings):
    command = [sys.executable, "-c", KILLED, str(folder), str(kill_at), repr(settings)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("kill_at", "settings", "epochs"),
    [
        (21, {}, 3),
        (14, {}, 3),
        (14, {"ignore_data_skip": True}, 4),
        (14, {"accelerator_config": {"use_seedable_sampler": False}}, 4),
    ],
)
def test_a_process_that_was_killed_goes_on_from_its_checkpoint(tmp_path, kill_at, settings, epochs):
    """In a pass, from step 12, or at its end, from step 20.  A pass whose order is lost counts again."""
    folder = tmp_path / "run"
    assert run(folder, kill_at, **settings).returncode == -9
    again = run(folder, 0, **settings)
    assert again.returncode == 0, again.stderr
    assert again.stdout.split("ends ")[1].split() == ["30", str(passes(10 * epochs))]


@pytest.mark.parametrize(
    ("made", "before", "after", "passes_counted"),
    [
        (counting, "a", "a", 1),
        (counting, "a", "b", 2),
        (counting, "a", "", 2),
        (plain, "a", "a", 2),
        (plain, "", "", 2),
    ],
)
def test_an_open_epoch_goes_on_with_the_same_data_alone(tmp_path, made, before, after, passes_counted):
    """In another order its rest may have records of the steps before: 3.804 where 5.773 is the truth."""

    def trained(fingerprint, **given):
        mine = trainer(tmp_path, num_train_epochs=1, save_strategy="steps", save_steps=5, **given)
        if fingerprint:
            mine.train_dataset._fingerprint = fingerprint
        meter = Meter(mine, **RUN)
        made(meter).attach(mine)
        return mine, meter

    trained(before, max_steps=5)[0].train()
    mine, meter = trained(after)
    mine.train(resume_from_checkpoint=True)
    assert (meter.steps, meter.epsilon) == (10, passes(10 * passes_counted))


def test_two_meters_of_one_training_go_on_from_its_checkpoint(tmp_path):
    """Two deltas: the checkpoint has a list of two states, which was a TypeError."""
    for steps in (5, 15):
        made = trainer(tmp_path, save_strategy="steps", save_steps=5, max_steps=steps)
        meters = [Meter(made, **RUN | {"delta": delta}) for delta in (1e-4, 1e-6)]
        for meter in meters:
            counting(meter).attach(made)
        made.train(resume_from_checkpoint=steps > 5)
        assert [meter.steps for meter in meters] == [steps, steps]
    assert meters[0].epsilon == passes(15) < meters[1].epsilon


def test_a_checkpoint_without_a_meter_is_refused(tmp_path):
    trainer(tmp_path, save_strategy="epoch", num_train_epochs=1).train()
    mine = trainer(tmp_path, num_train_epochs=2)
    counting(Meter(mine, **RUN)).attach(mine)
    with pytest.raises(ValueError, match="has no meter"):
        mine.train(resume_from_checkpoint=True)


def test_another_sampler_than_the_one_that_is_counted_is_refused(tmp_path):
    mine = trainer(tmp_path)
    meter = Meter(mine, **RUN)
    mine.args.per_device_train_batch_size = 8
    mine._train_batch_size = 8
    counting(meter).attach(mine)
    with pytest.raises(ValueError, match="batch_size = 8, and the meter counts 4"):
        mine.train()
    assert meter.steps == 0


def test_less_noise_than_is_counted_is_refused(tmp_path):
    class Noisy(torch.optim.SGD):
        noise_multiplier = 2.0

    mine = trainer(tmp_path)
    mine.optimizer = Noisy(mine.model.parameters(), lr=0.1)
    meter = Meter(mine, **RUN)
    counting(meter).attach(mine)
    with pytest.raises(ValueError, match=r"noise_multiplier = 2.0 is what the optimizer has now"):
        mine.train()
    assert meter.steps == 0


def test_steps_that_are_set_after_the_trainer_was_made_are_counted(tmp_path):
    mine = trainer(tmp_path)
    meter = Meter(mine, **RUN)
    mine.args.max_steps = 45
    counting(meter).attach(mine)
    mine.train()
    assert meter.steps == 45
    assert meter.epsilon == passes(45)


# -- noise ------------------------------------------------------------------------------------------------------------


def test_a_training_without_noise_is_refused_before_its_first_step(tmp_path):
    class Begins(transformers.TrainerCallback):
        def on_epoch_begin(self, args, state, control, **kwargs):
            raise AssertionError("the training begins")

    mine = trainer(tmp_path, Begins())
    meter = Meter(mine, **RUN)
    huggingface.MeterCallback(meter).attach(mine)
    before = [one.detach().clone() for one in mine.model.parameters()]
    with pytest.raises(ValueError, match=r"AdamW adds no noise: .*DPOptimizer.*\(meter, adds_noise=True\)"):
        mine.train()
    assert meter.steps == 0
    assert all(torch.equal(a, b) for a, b in zip(before, mine.model.parameters(), strict=True))


def test_an_optimizer_that_is_exchanged_for_one_without_noise_is_refused(tmp_path):
    class Changed(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, optimizer=None, **kwargs):
            if state.global_step == 3:
                optimizer.optimizer = optimizer.optimizer.original_optimizer

    mine = private_trainer(tmp_path, Changed())
    meter = Meter(mine, **RUN)
    huggingface.MeterCallback(meter).attach(mine)
    with pytest.raises(ValueError, match="SGD adds no noise"):
        mine.train()
    assert meter.steps == 3


def private_trainer(folder, *callbacks, kind=transformers.Trainer, **given):
    """As in docs/howto/training.md."""
    opacus = pytest.importorskip("opacus", reason="Opacus is not installed")
    from opacus.optimizers import DPOptimizer

    class Private(Model):
        def forward(self, x=None, labels=None, **unused):
            return super().forward(x, labels)

    model, secret = opacus.GradSampleModule(Private()), torch.Generator()
    secret.seed()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    noise = {"noise_multiplier": 3.0, "max_grad_norm": 1.0, "expected_batch_size": BATCH, "generator": secret}
    settings = {"per_device_train_batch_size": BATCH, "num_train_epochs": 3, "logging_steps": 1, "report_to": []}
    settings |= {"use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "remove_unused_columns": False} | given
    args = transformers.TrainingArguments(output_dir=str(folder), **settings)
    made = kind(model, args, train_dataset=Data(), optimizers=(DPOptimizer(sgd, **noise), None))
    for one in callbacks:
        made.add_callback(one)
    return made


@pytest.mark.parametrize("batches", [1, 3])
def test_a_private_training_needs_no_word_and_its_gradients_are_cleared(tmp_path, batches):
    mine = private_trainer(tmp_path, gradient_accumulation_steps=batches)
    meter = Meter(mine, **RUN)
    huggingface.MeterCallback(meter).attach(mine)
    mine.train()
    assert meter.steps == {1: 30, 3: 12}[batches]
    assert meter.epsilon == passes(30)
    assert all(one.grad_sample is None and one.summed_grad is None for one in mine.model.parameters())


def of_poisson(generator=None, prepares=False, size=BATCH):
    """A Trainer whose batches are Opacus' Poisson samples."""
    data_loader = pytest.importorskip("opacus.data_loader", reason="Opacus is not installed")

    class Poisson(transformers.Trainer):
        def get_train_dataloader(self):
            plain = torch.utils.data.DataLoader(self.train_dataset, batch_size=size, collate_fn=self.data_collator)
            loader = data_loader.DPDataLoader.from_data_loader(plain, generator=generator)
            return self.accelerator.prepare(loader) if prepares else loader

    return Poisson


def test_poisson_batches_are_those_of_a_trainer_that_returns_their_loader(tmp_path):
    mine = private_trainer(tmp_path, kind=of_poisson())
    with pytest.raises(ValueError, match=r"give what get_train_dataloader\(\) returns"):
        Meter(mine, noise_multiplier=3.0, delta=DELTA)
    meter = Meter(mine.get_train_dataloader(), noise_multiplier=3.0, delta=DELTA)
    huggingface.MeterCallback(meter).attach(mine)
    mine.train()
    rate = -(-(2**24) // 10) / 2**24
    assert meter.epsilon == fa.dpsgd.epsilon(noise_multiplier=3.0, sample_rate=rate, steps=30, delta=DELTA)
    other = private_trainer(tmp_path)  # draws from a loader of its own
    huggingface.MeterCallback(meter).attach(other)
    with pytest.raises(ValueError, match=r"sampling = 'shuffled', and the meter counts 'poisson': .*get_train_dat"):
        other.train()
    assert meter.steps == 30


@pytest.mark.parametrize("prepares", [False, True])
@pytest.mark.parametrize("given", [{}, {"data_seed": 987654321}, {"seed": 7}])
def test_poisson_batches_of_the_trainer_s_own_seed_are_warned_of(tmp_path, given, prepares):
    """Whatever data_seed says, and also where the meter was made before the Trainer, which sets the seed."""
    run = {"noise_multiplier": 3.0, "delta": DELTA}
    mine = private_trainer(tmp_path, kind=of_poisson(prepares=prepares), **given)
    with pytest.warns(UserWarning, match=f"own generator, whose seed is {given.get('seed', 42)}: .*generator=secret"):
        meter = Meter(mine.get_train_dataloader(), **run)
    huggingface.MeterCallback(meter).attach(mine)
    with pytest.warns(UserWarning, match=f"own generator, whose seed is {given.get('seed', 42)}"):
        mine.train()
    assert meter.steps == 30


@pytest.mark.parametrize("prepares", [False, True])
def test_poisson_batches_that_are_drawn_again_from_a_secret_seed_are_refused(tmp_path, prepares):
    meter, secret = None, torch.Generator().seed()
    for is_again in (False, True):
        kind = of_poisson(torch.Generator().manual_seed(secret), prepares)
        mine = private_trainer(tmp_path, kind=kind)
        meter = meter or Meter(mine.get_train_dataloader(), noise_multiplier=3.0, delta=DELTA)
        huggingface.MeterCallback(meter).attach(mine)
        if is_again:
            with pytest.raises(ValueError, match="the loader's generator draws the same batches again"):
                mine.train()
        else:
            mine.train()
        assert meter.steps == 30


@pytest.mark.parametrize("prepares", [False, True])
def test_poisson_batches_of_a_secret_generator_are_new_in_each_run_and_after_a_resume(tmp_path, prepares):
    secret, drawn = torch.Generator(), []
    secret.seed()

    class Drawn(Data):
        def __getitem__(self, i):
            drawn.append(i)
            return super().__getitem__(i)

    def trained(**resumed):
        given = {"save_strategy": "steps", "save_steps": 3}
        mine = private_trainer(tmp_path, kind=of_poisson(secret, prepares, size=20), **given)
        mine.train_dataset = Drawn()
        meter = Meter(mine.get_train_dataloader(), noise_multiplier=3.0, delta=DELTA)
        huggingface.MeterCallback(meter).attach(mine)
        drawn.clear()
        mine.train(**resumed)
        assert meter.steps == 6
        return drawn[:]

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the batches may be known")
        found = [trained(), trained(), trained(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))]
    lasts = [tuple(one[-40:]) for one in found]  # about two of the last three batches
    assert len({*lasts}) == 3


@pytest.mark.parametrize("kept_at", [10, 7])
def test_a_training_that_is_resumed_where_no_step_is_left_ends_without_one(tmp_path, kept_at):
    """At the end of a pass, or in one; a budget that nothing fits into from the first is an error."""
    keeps = {"save_strategy": "steps", "save_steps": kept_at}
    first = trainer(tmp_path, **keeps, max_steps=kept_at, lr_scheduler_type="constant")
    counting(Meter(first, **RUN)).attach(first)
    first.train()
    mine = trainer(tmp_path, ignore_data_skip=True, lr_scheduler_type="constant")
    meter = Meter(mine, **RUN, stop_at=passes(10))
    counting(meter).attach(mine)
    mine.train(resume_from_checkpoint=True)
    assert mine.state.global_step == meter.steps == kept_at
    assert meter.epsilon == passes(10)
    assert all(torch.equal(a, b) for a, b in zip(first.model.parameters(), mine.model.parameters(), strict=True))
    afresh = trainer(tmp_path)
    counting(Meter(afresh, **RUN, stop_at=passes(1) / 2)).attach(afresh)
    with pytest.raises(fa.BudgetExceededError):
        afresh.train()
