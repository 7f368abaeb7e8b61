"""Mistakes that look like plain lines: each is asked about, and its twin without the mistake keeps the number."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_plain import GIVEN, HUGGING_FACE, KERAS, OPACUS

TABLE = """import pandas as pd
import torch
import torch.nn as nn
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset
df = pd.read_csv("patients.csv")
#TABLE
X = torch.tensor(df.drop(columns=["outcome"]).to_numpy(), dtype=torch.float32)
y = torch.tensor(df["outcome"].to_numpy(), dtype=torch.float32)
train = TensorDataset(X, y)
#DATA
loader = DataLoader(train, batch_size=128)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
)
for epoch in range(20):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb).squeeze(1), yb)
        loss.backward()
        optimizer.step()
"""
LIGHTNING = """import pytorch_lightning as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from opacus import PrivacyEngine
from torchvision import datasets, transforms
class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    def training_step(self, batch, batch_idx):
        x, y = batch
        #BATCH
        loss = F.cross_entropy(self.net(x), y)
        return loss
    #HOOK
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        self.engine = PrivacyEngine()
        self.net, optimizer, _ = self.engine.make_private(
            module=self.net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
        )
        return optimizer
train = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
loader = torch.utils.data.DataLoader(train, batch_size=256, shuffle=True)
trainer = pl.Trainer(max_epochs=10)
trainer.fit(Lit(), loader)
"""
OBJECT = OPACUS.replace("#BATCH", "x = c(x)")
FIELD = OPACUS.replace("#PRIVATE", "class Meter:\n    def update(self, one): self.avg = one\nmeter = Meter()")
STOP = "class Stop(transformers.TrainerCallback):\n    def on_log(self, a, s, control, logs): "
MADE = "trainer = transformers.Trainer(model, args,"
CALLED = f"{MADE} callbacks=[Stop()],"
LOOP = "for epoch in range(20):\n    for x, y in loader:"
TWICE = f"def twice(a):\n    for b in a:\n        yield b\n        AGAIN\n{LOOP.replace('loader', 'twice(loader)')}"
BEST = "; torch.save(model.state_dict(), 'best.pt')"
HOOK = "    #HOOK"
MODEL = "nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))"
FORWARD = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)
    def forward(self, x):
        h = self.fc(x.flatten(1))
        LINE
        return h
model = Net()"""
EACH = "e = F.cross_entropy(model(x), y, reduction='none')"
LONG = "train = train.map(lambda r: tok(r['text'], truncation=True, max_length=MOST))"
FLAT = "nn.Linear(784, 100), nn.ReLU()"


def forward(line: str) -> str:
    """A model with one more line."""
    return FORWARD.replace("LINE", line)


PAIRS = {
    "scaler": (TABLE, "#DATA", "from sklearn.preprocessing import StandardScaler\ns = StandardScaler()\ns.fit(X)", ""),
    "transform": (
        TABLE, "#DATA", "s.fit(X); train = TensorDataset(s.transform(X), y)", "train = TensorDataset(X / 9, y)",
    ),
    "lists": (TABLE, "#DATA", "rows = [(a, b) for a, b in zip(X, y)]; train = rows + rows", "train = train"),
    "list times": (TABLE, "#DATA", "train = list(zip(X, y)) * 3", "train = list(zip(X, y))"),
    "list again": (
        TABLE, "#DATA", "train = [r for r in zip(X, y) for _ in range(2)]", "train = [r for r in zip(X, y)]",
    ),
    "tables": (TABLE, "#TABLE", "p = []\nfor s in (0, 1): p.append(df + s)\ndf = pd.concat(p)", "df = df + 1"),
    "column": (
        TABLE, "BCEWithLogitsLoss()", "BCEWithLogitsLoss(pos_weight=1 / df['test_result'].mean())",
        "BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))",
    ),
    "counts in a lambda": (
        TABLE, "#TABLE", "n = df['a'].value_counts()\ndf['a'] = df['a'].map(lambda c: n[c])",
        "df['a'] = df['a'] / 2",
    ),
    "field": (
        FIELD, "#STEP", f"meter.update(loss.item())\n        if meter.avg < 1{BEST.replace(';', ':')}",
        "meter.update(loss.item())\n        print(meter.avg)",
    ),
    "dictionary": (
        OPACUS, "#STEP", f"h['l'].append(loss.item())\n        if h['l'][-1] < 1{BEST.replace(';', ':')}",
        "h['l'].append(loss.item())\n        print(h['l'][-1])",
    ),
    "index": (
        OPACUS, "#STEP", "optimizer.param_groups[0]['lr'] = [1, 2][int(loss.item() < 1)]",
        "optimizer.param_groups[0]['lr'] = [1, 2][int(epoch < 1)]",
    ),
    "lambda": (
        OPACUS, "#STEP", "now = lambda: loss.item()\n        optimizer.param_groups[0]['lr'] = now()",
        "now = lambda: 1 / (1 + epoch)\n        optimizer.param_groups[0]['lr'] = now()",
    ),
    "log": (OPACUS, "#LOSS", "loss = loss - torch.log(model(x).mean(0)).mean()", "loss = loss - model(x).mean()"),
    "last axis": (OPACUS, "#LOSS", f"{EACH}; loss = (torch.softmax(e, -1)).sum()", f"{EACH}; loss = e.mean()"),
    "division": (OPACUS, "#LOSS", "loss = loss.div(y.float().mean())", "loss = loss / 2"),
    "pairs": (OPACUS, "#LOSS", "loss = F.pdist(model(x)).mean()", "loss = F.relu(model(x)).mean()"),
    "products": (OPACUS, "#LOSS", "z = model(x); loss = F.cross_entropy(F.linear(z, z), y)", "loss = loss * 2"),
    "mixed pictures": (
        OPACUS, "#BATCH", "x, y = transforms.v2.CutMix(num_classes=10)(x, y)", "x = transforms.functional.pad(x, 2)",
    ),
    "axis of a layer": (OPACUS, "nn.ReLU()", "nn.Softmax(0)", "nn.Softmax(1)"),
    "axes of a layer": (OPACUS, FLAT, "nn.Linear(784, 100), nn.LSTM(100, 100)", "nn.Linear(784, 100), nn.Tanh()"),
    "axis of Keras": (
        KERAS, "Flatten()", "Flatten(), tf.keras.layers.UnitNormalization(axis=0)",
        "Flatten(), tf.keras.layers.LayerNormalization(axis=1)",
    ),
    "outputs of Keras": (
        KERAS, "Flatten()", "Flatten(), tf.keras.layers.ActivityRegularization(0.1)",
        "Flatten(), tf.keras.layers.Dropout(0.1)",
    ),
    "model of Keras": (
        KERAS, "tf.keras.layers.Flatten()", "tf.keras.applications.Xception(include_top=False)",
        "tf.keras.applications.VGG16(include_top=False)",
    ),
    "broadcast": (
        OPACUS, "#LOSS", "z = model(x); loss = (z[:, None] - z[None]).mean()", "z = model(x); loss = z[:, :3].mean()",
    ),
    "mixup": (LIGHTNING, "#BATCH", "x = x + x[torch.randperm(len(x))]", "x = x + 1"),
    "stack": (OPACUS, "#BATCH", "x = torch.stack([x, x.flip(3)], 1).flatten(0, 1)", "x = x.flatten(1)"),
    "rows": (OPACUS, "#BATCH", "x = x.view(-1, 28)", "x = x.view(-1, 784)"),
    "rows of sizes": (OPACUS, "#BATCH", "x = x.view(2 * len(x), -1)", "x = x.view(len(x), -1)"),
    "data set": (OPACUS, "#STEP", "torch.save(loader.dataset.data, 'x.pt')", "print(len(loader.dataset))"),
    "step hook": (OPACUS, "#PRIVATE", "optimizer.attach_step_hook(print)", "print(optimizer)"),
    "apply": (
        OPACUS, "#PRIVATE", "def dump(m): torch.save(m.weight.grad_sample, 'g')\nmodel.apply(dump)",
        "def init(m): nn.init.zeros_(m.weight)\nmodel.apply(init)",
    ),
    "hook": (
        LIGHTNING, HOOK, "    def on_train_batch_end(self, outputs, batch, batch_idx): torch.save(batch, 'b')", HOOK,
    ),
    "hook of gradients": (
        LIGHTNING, HOOK, "    def on_before_optimizer_step(self, optimizer): optimizer.params[0].grad *= 2", HOOK,
    ),
    "seed in a hook": (
        LIGHTNING, HOOK, "    def on_train_batch_start(self, batch, batch_idx): pl.seed_everything(0)", HOOK,
    ),
    "lost figure": (LIGHTNING, "return loss\n", "return loss / y.float().mean()\n", "return 2 * loss\n"),
    "call of an object": (
        OBJECT, "#PRIVATE", "class C:\n    def __call__(self, x): return x - x.mean(0)\nc = C()",
        "class C:\n    def __call__(self, x): return x - 1\nc = C()",
    ),
    "stop": (HUGGING_FACE, MADE, f"{STOP}control.stop = logs['l'] < 1\n{CALLED}", f"{STOP}print(logs['l'])\n{CALLED}"),
    "tokenizer": (
        HUGGING_FACE, "#DATA", "import sentencepiece\nsentencepiece.SentencePieceTrainer.train(input='a.txt')", "",
    ),
    "files": (
        OPACUS, "#LOSS", "import os\n        loss = nn.CrossEntropyLoss(weight=len(os.listdir('a')))(model(x), y)",
        "loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0]))(model(x), y)",
    ),
    "written and read": (
        OPACUS, "#STEP", "import json\n        json.dump(loss.item(), f)\n        if json.load(f) < 1: break",
        "print(loss.item())",
    ),
    "kept figure": (OPACUS, f"model = {MODEL}", forward("self.mu = h.mean(0)"), forward("h = h + 1")),
    "mean of a batch": (OPACUS, f"model = {MODEL}", forward("h = h - h.mean(0)"), forward("h = h - 1")),
    "monitor by place": (
        KERAS, "batch_size=250)", "batch_size=250, callbacks=c)\nc = [tf.keras.callbacks.ModelCheckpoint('b', 'loss')]",
        "batch_size=250)",
    ),
    "generator": (OPACUS, LOOP, TWICE.replace("AGAIN", "yield b"), LOOP),
    "attribute": (OPACUS, "#STEP", "setattr(optimizer, 'lr', loss.item())", "print(optimizer)"),
    "end": (OPACUS, "#STEP", "assert loss.item() < 9", "assert x.shape[1] == 1 and len(x) == len(y)"),
    "error": (
        OPACUS, "#STEP", "if loss.item() > 9: raise ValueError(epoch)", "if epoch > 99: raise ValueError(epoch)",
    ),
    "error of records": (
        OPACUS, "#BATCH", "if (y == 3).any(): raise ValueError", "print(len(x))",
    ),
    "longest": (
        HUGGING_FACE, "#DATA", LONG.replace("MOST", "max(len(r['text']) for r in train)"), LONG.replace("MOST", "128"),
    ),
    "longest, one by one": (
        HUGGING_FACE, "#DATA", f"m = 0\nfor r in train: m = max(m, len(r['text']))\n{LONG.replace('MOST', 'm')}",
        f"m = 0\nfor r in train: m = m + len(r)\n{LONG.replace('MOST', '8')}",
    ),
    "longest, by a test": (
        HUGGING_FACE, "#DATA",
        f"m = 0\nfor r in train:\n    k = len(r['text'])\n    if k > m: m = k\n{LONG.replace('MOST', 'm')}",
        f"m = 0\nfor r in train:\n    k = len(r['text'])\n    m = m + k\n{LONG.replace('MOST', '8')}",
    ),
    "longest of a list": (
        HUGGING_FACE, "#DATA", "m = []\nfor r in train: m.append(len(r['text']))\ntok.model_max_length = max(m)",
        "tok.model_max_length = 128",
    ),
    "longest of a column": (TABLE, "#TABLE", "e = nn.Embedding(df['a'].str.len().max(), 8)", "e = nn.Embedding(9, 8)"),
    "columns by their values": (TABLE, "#TABLE", "df = pd.get_dummies(df)", "df = df.astype(float)"),
    "number of classes": (TABLE, "#DATA", "e = nn.Linear(9, len(torch.unique(y)))", "e = nn.Linear(9, len(df))"),
    "printed mean": (OPACUS, "#DATA", "print(train.data.float().mean())", "print(train.data.shape, len(train))"),
    "printed share": (
        OPACUS, "#STEP", "print((y == 3).float().mean())", "print((model(x).argmax(1) == y).float().mean())",
    ),
    "logged count": (
        OPACUS, "#STEP", "m = (y == 3).sum().item(); m = m / len(y)\n        logging.info(f'{m:.2f}')",
        "m = (model(x).argmax(1) == y).sum().item(); m = m / len(y)\n        logging.info(f'{m:.2f}')",
    ),
    "list by its left": (
        OPACUS, "#STEP", "h.appendleft(loss.item())\n        if list(h)[0] < 1: torch.save(model, 'b')",
        "h.append(loss.item())\n        print(list(h)[0])",
    ),
}  # fmt: skip
GIVEN_TOO = {**GIVEN, "epochs": 20, "batch_size": 250, "batches": "poisson"}


@pytest.mark.parametrize("name", PAIRS)
def test_a_mistake_that_looks_plain_is_asked_about(name):
    script, old, wrong, right = PAIRS[name]
    assert script.count(old) == 1
    (plain,) = check(script.replace(old, right), **GIVEN_TOO)
    assert plain.epsilon is not None
    for given in (GIVEN, GIVEN_TOO):  # no other option answers for the line
        (found,) = check(script.replace(old, wrong), **given)
        assert found.epsilon is None
        assert any(one.startswith("vouch") for one in found.asks)
