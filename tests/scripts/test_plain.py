"""A training is plain, or its other lines are asked about; what that costs is counted over the stored scripts."""

import pytest

from fastacct.scripts.answers import check
from fastacct.scripts.plain import CLAIM, PUBLIC
from tests.scripts.test_answers import SCRIPTS, answered

OPACUS = """import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from opacus import PrivacyEngine
train = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
#DATA
loader = DataLoader(train, batch_size=500)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
)
#PRIVATE
for epoch in range(20):
    for x, y in loader:
        #BATCH
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        #LOSS
        loss.backward()
        optimizer.step()
        #STEP
print(engine.get_epsilon(delta=1e-5))
#END
"""
KERAS = """import tensorflow as tf
import tensorflow_privacy as tfp
(x, y), (x_test, y_test) = tf.keras.datasets.mnist.load_data()
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
optimizer = tfp.DPKerasSGDOptimizer(l2_norm_clip=1.0, noise_multiplier=1.1, num_microbatches=250, learning_rate=0.15)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
#LOSS
model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
#FIT
model.fit(x, y, epochs=15, batch_size=250)
"""
HUGGING_FACE = """import torch
import transformers
from datasets import load_dataset
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
tok = transformers.AutoTokenizer.from_pretrained("distilbert-base-uncased")
train = load_dataset("imdb", split="train")
train = train.map(lambda r: tok(r["text"], truncation=True, padding="max_length"), batched=True)
#DATA
model = GradSampleModule(transformers.AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased"))
adam = torch.optim.AdamW(model.parameters(), lr=5e-4)
optimizer = DPOptimizer(adam, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=32)
args = transformers.TrainingArguments("out", per_device_train_batch_size=32, num_train_epochs=3)
trainer = transformers.Trainer(model, args, train_dataset=train, optimizers=(optimizer, None))
#TRAINER
trainer.train()
"""
GIVEN = {"records": 25_000, "delta": 1e-5}
AGAIN = "class Save(transformers.TrainerCallback):\n    def on_step_end(self, args, state, control, **kw): "
MADE = "trainer = transformers.Trainer(model, args, train_dataset=train,"
ODD = [
    *((OPACUS, f"#{place}", line) for place, line in (
        ("DATA", "train.transform = transforms.Normalize((train.data.float().mean(),), (0.3,))"),
        ("DATA", "train = torch.utils.data.ConcatDataset([train, train])"),
        ("DATA", "import random\ntrain = torch.utils.data.Subset(train, random.choices(range(60000), k=60000))"),
        ("PRIVATE", "mu = torch.zeros(1, 28, 28)"),
        ("PRIVATE", "optimizer.load_state_dict(torch.load('o.pt'))"),
        ("PRIVATE", "object.__setattr__(optimizer, 'sigma', 0.1)"),
        ("BATCH", "mu.lerp_(x.mean(0), 0.1); x = x - mu"),
        ("BATCH", "from helpers import crop\n        x = crop(x)"),
        ("LOSS", "loss = loss / x.mean()"),
        ("LOSS", "loss = loss ** 2"),
        ("LOSS", "if loss.item() > 5: loss = loss * 0"),
        ("LOSS", "F.cross_entropy(model(x), y).backward()"),
        ("STEP", "if epoch == 0: keep = (x, y)"),
        ("STEP", "kept.append(x)"),
        ("STEP", "print(model(x)[0])"),
        ("STEP", "if loss.item() < 0.1: break"),
        ("STEP", "model[1].weight.data.add_(0.1)"),
        ("STEP", "other.step()"),
        ("END", "full = DataLoader(train, batch_size=500)\ntorch.save(torch.cat([model(a) for a, _ in full]), 'l.pt')"),
        ("END", "seen = []\nfor x, _ in loader:\n    seen.append(model(x))"),
        ("END", "from laplace import Laplace\nLaplace(model, 'classification').fit(DataLoader(train))"),
        ("END", "torch.optim.swa_utils.update_bn(DataLoader(train), model)"),
    ) if (place, line) != ("PRIVATE", "mu = torch.zeros(1, 28, 28)")),
    (OPACUS, "nn.ReLU()", "nn.BatchNorm1d(100)"),
    *((KERAS, f"#{place}", line) for place, line in (
        ("LOSS", "loss = lambda t, p: tf.keras.losses.mse(t, p) / tf.reduce_mean(p)"),
        ("LOSS", "def loss(t, p):\n    return tf.keras.losses.mse(t, p)"),
        ("FIT", "model.add_loss(lambda: tf.math.reduce_variance(model.layers[-1].output))"),
    )),
    (KERAS, "Dense(10)", "Dense(10, activity_regularizer='l2')"),
    (KERAS, "#FIT", "x = tf.keras.preprocessing.sequence.pad_sequences(x)"),
    (KERAS, "batch_size=250)", "batch_size=250, callbacks=[tf.keras.callbacks.EarlyStopping('loss')])"),
    *((HUGGING_FACE, f"#{place}", line) for place, line in (
        ("DATA", "train = train.map(lambda b: tok(b['text'], return_overflowing_tokens=True), batched=True)"),
        ("DATA", "import os\nos.environ['WANDB_WATCH'] = 'all'"),
        ("TRAINER", f"{AGAIN}torch.save(next(iter(kw['train_dataloader'])), 'b.pt')\ntrainer.add_callback(Save())"),
        ("TRAINER", f"{AGAIN}control.should_training_stop = kw['logs']['loss'] < 0.1\ntrainer.add_callback(Save())"),
    )),
    (HUGGING_FACE, 'from_pretrained("distilbert-base-uncased"))\nadam', 'from_pretrained("out/checkpoint-500"))\nadam'),
    (HUGGING_FACE, "num_train_epochs=3", "num_train_epochs=3, lr_scheduler_type='reduce_lr_on_plateau'"),
    (HUGGING_FACE, "train_dataset=train,", "train_dataset=train, eval_dataset=train,"),
    (HUGGING_FACE, MADE, f"{AGAIN}torch.save(next(iter(kw['train_dataloader'])), 'b.pt')\n{MADE} callbacks=[Save()],"),
    (HUGGING_FACE, "train_dataset=train,", "train_dataset=train, data_collator=other.pack,"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "old", "new"), ODD, ids=range(len(ODD)))
def test_a_line_that_is_not_plain_is_asked_about(script, old, new):
    (plain,) = check(script, **GIVEN)
    assert plain.epsilon is not None
    assert script.count(old) == 1
    (found,) = check(script.replace(old, new), **GIVEN)
    assert found.epsilon is None
    assert any(name.startswith("vouch") and (CLAIM in why or PUBLIC in why) for name, why in found.asks.items())


def test_a_record_that_a_module_keeps_is_asked_about():
    module = "class Net(nn.Module):\n    def forward(self, x):\n        LINE\n        return x.flatten(1)\nmodel = nn.S"
    text = OPACUS.replace("model = nn.S", module).replace("nn.Flatten()", "Net()")
    (found,) = check(text.replace("LINE", "self.last = x"), **GIVEN)
    (plain,) = check(text.replace("LINE", "x = x.float()"), **GIVEN)
    assert found.epsilon is None
    assert plain.epsilon is not None


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("DATA", "train, held = torch.utils.data.random_split(train, [25_000, 35_000])"),
        ("BATCH", "x, y = x.to('cuda'), y.to('cuda'); x = (x - 0.13) / 0.3"),
        ("BATCH", "x = torch.flip(x, [3]) + 0.1 * torch.randn_like(x)"),
        ("STEP", "losses.append(loss.item()); print(sum(losses) / len(losses))"),
        ("STEP", "acc = (model(x).argmax(1) == y).float().mean().item(); print(f'{acc:.3f}')"),
        ("END", "torch.save(model.state_dict(), 'm.pt')"),
    ],
)
def test_a_plain_line_keeps_the_number(place, line):
    (plain,) = check(OPACUS, **GIVEN)
    (found,) = check(OPACUS.replace(f"#{place}", line), **GIVEN)
    assert found.epsilon == plain.epsilon


def test_a_part_that_is_kept_for_tests_may_be_evaluated_and_the_model_saved():
    text = HUGGING_FACE.replace('load_dataset("imdb", split="train")', 'load_dataset("imdb")')
    text = text.replace("train_dataset=train,", 'train_dataset=train["train"], eval_dataset=train["test"],')
    assert check(text + "trainer.save_model('out')\n", **GIVEN)[0].epsilon == check(HUGGING_FACE, **GIVEN)[0].epsilon
    assert check(text.replace('=train["test"]', '=train["train"]'), **GIVEN)[0].epsilon is None


def test_at_most_a_fifth_of_the_right_scripts_is_asked_about_a_line():
    """Of those that have a number once all lines are vouched for, as most that are stored are right."""
    right = [one["script"] for one in SCRIPTS.values() if "number" in one]
    asked = [one for one in right if check(one)[0].epsilon is None]
    assert len(right) == 67
    assert len(asked) <= len(right) // 5
    assert all(answered(one).epsilon for one in asked)


SEEDED = HUGGING_FACE.replace("adam = ", "secret = torch.Generator()\n#SEED\nadam = ").replace(
    "max_grad_norm=1.0,", "max_grad_norm=1.0, generator=secret,"
)


@pytest.mark.parametrize(
    ("line", "is_asked"),
    [("secret.seed()", False), ("secret.manual_seed(42)", True), ("secret.manual_seed(given)", True)],
)
def test_a_seed_of_the_noise_that_is_drawn_is_not_asked_about(line, is_asked):
    (found,) = check(SEEDED.replace("#SEED", line), **GIVEN)
    assert (found.epsilon is None) is is_asked


@pytest.mark.parametrize(("line", "is_noted"), [("secret.manual_seed(42)", True), ("secret.seed()", False)])
def test_a_seed_of_a_trainer_of_its_own_is_noted(line, is_noted):
    own = "class Own(transformers.Trainer):\n    pass\ntrainer = Own("
    text = SEEDED.replace("trainer = transformers.Trainer(", own)
    (found,) = check(text.replace("#SEED", line), **GIVEN)
    assert any("is a seed that the script says" in one for one in found.notes) is is_noted
