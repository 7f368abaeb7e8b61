"""Trainers that are given an optimizer of Opacus, pipelines that repeat records, and batches that are padded."""

import pytest

import fastacct as fa
from fastacct.scripts.answers import check
from tests.scripts.test_answers import answered

GIVEN = {"batches": "shuffled", "noise_multiplier": 1.0, "records": 2000, "batch_size": 64, "epochs": 3, "delta": 1e-5}
TOP = """
import lightning.pytorch as pl
import torch
import transformers
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
xs, ys = torch.load("records.pt")
"""
HUGGING_FACE = (
    TOP
    + """
class Model(torch.nn.Module):
    def forward(self, x, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}
class Zero(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, optimizer=None, **kw):
        optimizer.zero_grad()
data = torch.utils.data.TensorDataset(xs, ys)
args = transformers.TrainingArguments("out", num_train_epochs=3)
model = GradSampleModule(Model())
optimizer = DPOptimizer(torch.optim.SGD(model.parameters()), noise_multiplier=1.0, max_grad_norm=1.0)
trainer = transformers.Trainer(model, args, train_dataset=data, optimizers=(optimizer, None), callbacks=[Zero()])
trainer.train()
"""
)
LIGHTNING = (
    TOP
    + """
class Module(pl.LightningModule):
    net = torch.nn.Linear(9, 2)
    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)
    def configure_optimizers(self):
        sgd = torch.optim.SGD(self.net.parameters(), lr=0.1)
        return DPOptimizer(sgd, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=64)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(xs, ys), batch_size=64, shuffle=True)
trainer = pl.Trainer(max_epochs=3)
trainer.fit(Module(), loader)
"""
)


SIZES = ", num_train_epochs=3", ", num_train_epochs=3, per_device_train_batch_size=64"


@pytest.mark.parametrize("script", [HUGGING_FACE.replace(*SIZES), LIGHTNING])
def test_a_trainer_with_an_optimizer_of_opacus_shuffles_and_its_numbers_are_read(script):
    found = answered(script, records=2000, delta=1e-5)
    run = {"noise_multiplier": 1.0, "records": 2000, "batch_size": 64, "epochs": 3, "delta": 1e-5}
    right = fa.dpsgd.epsilon_bounds(**run, sampling="shuffled", neighbors="zero_out")
    assert (found.epsilon, found.sampling, found.breaks) == (right.upper, "shuffled", None)
    assert "take a secret one" in " ".join(found.notes) or script is LIGHTNING
    (unsure,) = check(script)
    assert set(unsure.asks) >= {"records", "delta"}


@pytest.mark.parametrize(
    ("old", "new", "asks"),
    [
        ('("out", ', '("out", group_by_length=True, ', "batches"),
        ('("out", ', '("out", max_steps=90, ', "epochs"),
        ('("out", ', '("out", gradient_accumulation_steps=2, ', "batch_size"),
        ('("out", ', "(**settings, ", "epochs"),
        ("trainer = transformers.Trainer(", "trainer = OurTrainer(", "batches"),
        ("trainer.train()", "trainer.train(resume_from_checkpoint=True)", "epochs"),
        ("trainer.train()", "trainer.train()\ntrainer.train()", "epochs"),
        ("xs, ys = torch.load", "xs, ys = load_dataset(streaming=True) or torch.load", "batches"),
    ],
)
def test_what_changes_the_batches_of_a_trainer_is_asked_about(old, new, asks):
    text = HUGGING_FACE.replace(*SIZES)
    assert text.count(old) == 1
    (found,) = check(text.replace(old, new), records=2000, delta=1e-5)
    assert found.epsilon is None
    assert asks in found.asks


@pytest.mark.parametrize(
    ("script", "old", "new", "what"),
    [
        (HUGGING_FACE, "labels)}", "labels) ** 2}", "treated by itself"),
        (HUGGING_FACE, "(optimizer, None)", "(torch.optim.SGD(model.parameters()), None)", "without noise"),
        (LIGHTNING, "return DPOptimizer(sgd", "self.dp = DPOptimizer(sgd", "without noise"),
        (LIGHTNING, "expected_batch_size=64)", "expected_batch_size=64), sgd", "without noise"),
        (HUGGING_FACE, "(optimizer, None)", "(optimizer.original_optimizer, None)", "without noise"),
        (LIGHTNING, "return DPOptimizer(sgd", "return sgd\n        DPOptimizer(sgd", "what follows may not run"),
        (LIGHTNING, "        return DPO", "        if xs: return sgd\n        return DPO", "what follows may not run"),
    ],
)
def test_a_trainer_without_noise_or_with_a_bent_loss_gets_no_number(script, old, new, what):
    assert script.count(old) == 1
    (found,) = check(script.replace(old, new), **GIVEN)
    assert found.epsilon is None
    assert what in " ".join(found.asks.values())


def test_poisson_batches_that_a_trainer_adds_up_get_no_number():
    added = LIGHTNING.replace("max_epochs=3", "max_epochs=3, accumulate_grad_batches=4")
    assert check(LIGHTNING, **GIVEN | {"batches": "poisson"})[0].epsilon is not None
    assert "added up" in check(added, **GIVEN | {"batches": "poisson"})[0].asks
    assert check(added, **GIVEN)[0].epsilon is not None  # shuffled ones are a larger batch


def test_the_gradient_of_a_batch_that_a_module_clips_is_named():
    step = "    def configure_gradient_clipping(self, optimizer, *more):\n        self.clip_gradients(optimizer, 1.0)\n"
    step += "        for p in self.parameters():\n            p.grad.add_(torch.randn_like(p.grad), alpha=0.1)\n"
    text = LIGHTNING.replace("    def training_step", step + "    def training_step")
    text = text.replace("return DPOptimizer", "return sgd  # DPOptimizer")
    (found,) = check(text, **GIVEN)
    assert "the gradient of a whole batch is clipped" in found.asks["noise"]


KERAS = """
import tensorflow as tf
from tensorflow_privacy import DPKerasSGDOptimizer
def pipeline(x, y):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    ds = ds.shuffle(2000)
    return ds.batch(64)
(x, y), _ = tf.keras.datasets.mnist.load_data()
model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
model.compile(optimizer=DPKerasSGDOptimizer(l2_norm_clip=1.0, noise_multiplier=1.0, num_microbatches=64))
model.fit(pipeline(x, y), epochs=3)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ds.shuffle(2000)", "ds.repeat(4).map(jitter).shuffle(8000)"),
        ("ds.shuffle(2000)", "ds.repeat(VIEWS).shuffle(8000)"),
        ("ds.shuffle(2000)", "ds.repeat(count=2).shuffle(8000)"),
        ("ds.shuffle(2000)", "ds.shuffle(2000).repeat()"),
        ("ds.batch(64)", "ds.batch(64).repeat(3)"),
        ("pipeline(x, y), e", "pipeline(x, y).repeat(3), e"),
        ("    ds = tf", "    x = x.repeat(2, axis=0)\n    ds = tf"),
    ],
)
def test_a_pipeline_that_repeats_records_gets_no_number(old, new):
    assert KERAS.count(old) == 1
    assert check(KERAS, **GIVEN)[0].epsilon is not None
    (found,) = check(KERAS.replace(old, new), **GIVEN)
    assert found.epsilon is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ds.batch(64)", "ds.batch(64).repeat()"),  # its epochs are asked for
        ("ds.shuffle(2000)", "ds.repeat(1).shuffle(2000)"),
        ("    ds = tf", "    x = x.repeat(3, axis=1)\n    ds = tf"),
    ],
)
def test_batches_without_an_end_and_channels_keep_their_number(old, new):
    assert answered(KERAS.replace(old, new), **GIVEN).epsilon == check(KERAS, **GIVEN)[0].epsilon


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("model.compile(optimizer='sgd')", "compiles the model again"),
        ("optimizer._noise_multiplier = 0.1", "_noise_multiplier is set"),
    ],
)
def test_keras_without_its_noise_gets_no_number(line, why):
    made = "optimizer = DPKerasSGDOptimizer(l2_norm_clip=1.0, noise_multiplier=1.0, num_microbatches=64)\n"
    text = KERAS.replace(
        "model.compile(optimizer=DPKerasSGDOptimizer(l2_norm_clip=1.0, noise_multiplier=1.0, num_microbatches=64))",
        made + "model.compile(optimizer=optimizer)",
    )
    given = {name: value for name, value in GIVEN.items() if name != "noise_multiplier"}
    assert check(text, **given)[0].epsilon is not None
    (found,) = check(text.replace("model.fit", f"{line}\nmodel.fit"), **given)
    assert found.epsilon is None
    assert why in str(found.asks)


def test_a_trainer_that_gets_another_optimizer_or_a_loss_of_the_batch_has_no_number():
    text = HUGGING_FACE.replace(*SIZES)
    again = text.replace(
        "trainer.train()", "trainer.optimizer = torch.optim.AdamW(model.parameters())\ntrainer.train()"
    )
    assert "trainer.optimizer is set" in check(again, records=2000, delta=1e-5)[0].asks["noise"]
    loss = "def f(out, labels, n=None):\n    return cross_entropy(out.logits - out.logits.mean(0), labels)\ntrainer ="
    mixed = text.replace("trainer =", loss).replace("train_dataset=data,", "train_dataset=data, compute_loss_func=f,")
    assert check(mixed, records=2000, delta=1e-5)[0].epsilon is None


PADDED = """import numpy as np
from jax_privacy import batch_selection, clipped_grad
grads = clipped_grad(loss, l2_clip_norm=1.0)
plan = batch_selection.CyclicPoissonSampling(sampling_prob=0.01, iterations=1000)
for rows in plan.batch_iterator(50_000, rng=np.random.default_rng()):
    rows = batch_selection.pad_to_multiple_of(rows, 64)
    step(grads(params, x[rows], is_padding_example=rows == -1))
"""


def test_padding_that_is_a_record_gets_no_number():
    given = {"noise_multiplier": 1.1, "delta": 1e-5}
    assert "one example" not in check(PADDED, **given)[0].asks
    (found,) = check(PADDED.replace(", is_padding_example=rows == -1", ""), **given)
    assert found.epsilon is None
    assert "which is the last record" in found.asks["one example"]


SCHEDULED = """from opacus import PrivacyEngine
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=100)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
)
plan = torch.optim.lr_scheduler.StepLR(optimizer.original_optimizer, 1)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    plan.step()
"""


def test_a_schedule_of_the_optimizer_that_is_wrapped_takes_no_steps():
    text = "import torch\n" + SCHEDULED
    assert answered(text, records=1000, delta=1e-5).epsilon is not None
    taken = text.replace("    plan.step()", "    optimizer.original_optimizer.step()")
    assert "without noise" in check(taken, records=1000, delta=1e-5)[0].asks["noise"]


SHUFFLED = "import torch\n" + SCHEDULED.replace("batch_size=100", "batch_size=100, shuffle=True")


@pytest.mark.parametrize("error", ["fa.BudgetExceededError", "(KeyboardInterrupt, fa.BudgetExceededError)"])
def test_a_training_that_ends_where_its_budget_does_has_at_most_its_number(error):
    plain = answered(SHUFFLED, records=1000, delta=1e-5)
    assert plain.epsilon is not None
    top, loop = SHUFFLED.split("for epoch")
    inside = f"for epoch{loop}".replace("\n", "\n    ")
    text = f"{top}try:\n    {inside.rstrip()}\nexcept {error}:\n    pass\n"
    found = answered(text, records=1000, delta=1e-5)
    assert found.epsilon == plain.epsilon
    assert found.epsilon_lower is None
    for changed in (
        text.replace(f"except {error}", "except Exception"),
        text.replace(f"except {error}", "except"),
        text.replace("        loss(", "        if done(): raise BudgetExceededError\n            loss(")
        + "raise BudgetExceededError\n",
        text.replace("try:", "for again in range(2):\n  try:").replace("\nexcept", "\n  except"),
    ):
        assert check(changed, records=1000, delta=1e-5)[0].epsilon is None
    own = text.replace("max_grad_norm=1.0,", "max_grad_norm=1.0, poisson_sampling=False,")
    broken = answered(own, records=1000, delta=1e-5)
    assert broken.sampling == "shuffled"
    assert "this loop: at most" in str(broken)
    assert broken.poisson == plain.epsilon == answered(own, records=1000, delta=1e-5, batches="shuffled").poisson


def test_an_accountant_that_tells_batches_apart_breaks_nothing():
    text = SHUFFLED.replace("max_grad_norm=1.0,", "max_grad_norm=1.0, poisson_sampling=False,")
    broken = answered(text, records=1000, delta=1e-5)
    found = answered(text.replace("PrivacyEngine()", 'PrivacyEngine(accountant="fastacct")'), records=1000, delta=1e-5)
    assert broken.breaks is not None
    assert found.breaks is None
    assert (found.epsilon, found.epsilon_lower) == (broken.epsilon, broken.epsilon_lower)
    assert "counts these batches as they are" in str(found)


FLOWER = """
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
server = ServerApp()
@server.main()
def main(grid, context):
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(fraction_train=0.1), noise_multiplier=1.0, clipping_norm=0.5, num_sampled_clients=20)
    strategy.start(grid=grid, initial_arrays=first, num_rounds=40)
"""


def test_rounds_of_flower_have_a_number_where_all_of_it_is_given():
    (asked,) = check(FLOWER)
    assert set(asked.asks) == {"noise_multiplier", "records", "batch_size", "delta", "vouch 7"}
    given = {"noise_multiplier": 1.0, "records": 200, "batch_size": 20, "delta": 1e-4, "vouch": [7]}
    (found,) = check(FLOWER, **given)
    run = {"noise_multiplier": 1.0, "records": 200, "batch_size": 20, "steps": 40, "delta": 1e-4}
    assert found.epsilon == fa.dpsgd.epsilon(**run, sampling="fixed_size")
    for changed in (FLOWER.replace("num_rounds=40", "num_rounds=n"), FLOWER.replace("Fixed", "Adaptive")):
        assert check(changed, **given)[0].epsilon is None
        assert "fa.dpsgd.epsilon" in str(check(changed, **given)[0])


VOTES = """
# PATE
import numpy as np
import torch
def fit(x, y):
    net = torch.nn.Linear(9, 2)
    opt = torch.optim.SGD(net.parameters())
    loss(net(x), y).backward()
    opt.step()
    return net
teachers = [fit(x[s], y[s]) for s in np.array_split(order, 250)]
counts = sum(one_hot(t(public).argmax(1)) for t in teachers)
labels = (counts + np.random.laplace(0.0, 20.0, counts.shape)).argmax(1)
"""
METERED = """
import torch
from fastacct.training import Meter
meter = Meter(loader, noise_multiplier=4.0, delta=1e-4, neighbors="zero_out")
for x, y in meter.batches():
    optimizer.zero_grad()
    loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (VOTES, "np.random.laplace(0.0, 20.0, counts.shape) draws noise, and what it hides is not followed"),
        (METERED, "counts noise that nothing in this file is seen to add"),
    ],
)
def test_noise_that_is_not_followed_has_no_number_and_is_not_passed_over(text, what):
    (found,) = check(text, **GIVEN)
    assert found.epsilon is None
    assert what in str(found)
    assert ("then: fa.epsilon(fa.Gaussian" in str(found)) is (text is VOTES)
    silent = text.replace("# PATE", "").replace("np.random.laplace(0.0, 20.0, counts.shape)", "0.0")
    assert check(silent.replace("Meter(", "Other("), **GIVEN) == []


KEPT = LIGHTNING.replace(
    "    def training_step",
    """    def __init__(self, noise=1.0):
        super().__init__()
        self.save_hyperparameters()
    def training_step""",
).replace("noise_multiplier=1.0,", "noise_multiplier=self.hparams.noise,")


def test_arguments_that_a_module_of_lightning_keeps_are_read_where_nothing_changes_them():
    (plain,) = check(LIGHTNING, records=2000, delta=1e-5)
    assert check(KEPT, records=2000, delta=1e-5)[0].epsilon == plain.epsilon
    (other,) = check(KEPT.replace("fit(Module()", "fit(Module(0.5)"), records=2000, delta=1e-5)
    assert other.inputs["noise_multiplier"] == 0.5
    for line in (
        "self.hparams.noise = 0.1",
        "self.hparams.update(noise=0.1)",
        "self.hparams['noise'] = 0.1",
        "noise = 0.1",
    ):
        text = KEPT.replace("        self.save", f"        {line}\n        self.save")
        assert "noise_multiplier" in check(text, records=2000, delta=1e-5)[0].asks
