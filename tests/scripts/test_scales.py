"""Data scaled by names of statistics, records chosen by losses, groups of a batch, and noise that comes again."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_answers import answered
from tests.scripts.test_copies import ARRAYS, PLAIN


@pytest.mark.parametrize(
    "lines",
    [
        "mu, sd = X.mean(axis=0), X.std(axis=0)\nX = (X - mu) / (sd + 1e-6)",
        "mu = np.mean(X, axis=0)\nX = X - mu",
        "mu = X.mean(0).astype('float32')\nX = X[:20_000] - mu",
        "lo, hi = X.min(0), X.max(0)\nX = (X - lo) / (hi - lo)",
        "top = np.abs(X).max()\nX = X / top",
        "X -= X.mean(axis=0)",
        "sd = X.std(axis=0)\nX /= sd",
        "def scaled(a):\n    mu = a.mean(axis=0)\n    return a - mu\nX = scaled(X)",
    ],
)
def test_data_scaled_by_a_name_of_a_statistic_gets_no_number(lines):
    (found,) = check(ARRAYS.replace("#DATA", lines), records=30_000)
    assert found.epsilon is None


@pytest.mark.parametrize(
    "lines",
    [
        "mu = X.mean(axis=1, keepdims=True)\nX = X - mu",
        "public = np.load('public.npy')\nmu, sd = public.mean(axis=0), public.std(axis=0)\nX = (X - mu) / sd",
        "mu = np.array([0.5, 0.2])\nX = X - mu",
        "mu = X.mean(axis=0)\nprint(mu)",
        "def scaled(a):\n    mu = a.mean()\n    return a - mu\nX = np.stack([scaled(a) for a in X])",
        "n = X.sum(axis=1, keepdims=True)\nX /= n",
        "X /= np.linalg.norm(X, axis=1, keepdims=True)",
        "X -= X.mean(axis=1, keepdims=True)",
        "for i in range(len(X)):\n    X[i] -= X[i].mean()",
        "def scaled(a):\n    a -= a.mean()\n    return a\nX = np.stack([scaled(a) for a in X])",
        "y -= y.min()",
        "X -= 0.5",
        "X /= 255",
    ],
)
def test_data_scaled_by_each_record_or_by_public_data_keeps_its_number(lines):
    assert answered(ARRAYS.replace("#DATA", lines), records=30_000).epsilon == PLAIN


CHOSEN = """
from torch.utils.data import Subset
losses = []
for a, b in loader:
    losses.append(F.cross_entropy(model(a), b, reduction="none"))
hard = Subset(train_set, torch.cat(losses).argsort()[:9_000])
"""


def test_records_chosen_by_their_losses_get_no_number():
    (found,) = check(ARRAYS + CHOSEN, records=30_000)
    assert found.epsilon is None
    for rows in ("range(9_000)", "np.argsort(y)[:9_000]", "torch.randperm(30_000)[:9_000]"):
        quiet = CHOSEN.replace("torch.cat(losses).argsort()[:9_000]", rows)
        assert answered(ARRAYS + quiet, records=30_000).epsilon == PLAIN


@pytest.mark.parametrize("seed", ["torch.manual_seed(0)", "torch.manual_seed(SEED)"])
def test_one_seed_in_each_step_gets_no_number(seed):
    script = "SEED = 1\n" + ARRAYS
    (found,) = check(
        script.replace("        optimizer.zero", f"        {seed}\n        optimizer.zero"), records=30_000
    )
    assert "the same noise again and again" in found.asks["noise"]
    (found,) = check(script.replace("for epoch", f"{seed}\nfor epoch"), records=30_000)
    assert found.epsilon == PLAIN
    assert any("who knows the seed" in one for one in found.notes)


GIVEN = {"batches": "poisson", "noise_multiplier": 1.5, "records": 50_000, "batch_size": 1000}
GIVEN |= {"epochs": 20, "delta": 1e-6}


GROUPS = """
import torch
for epoch in range(20):
    for images, targets in loader:
        total = [torch.zeros_like(p) for p in net.parameters()]
        for x, y in zip(images.split(8), targets.split(8)):
            net.zero_grad()
            loss(net(x), y).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            for a, p in zip(total, net.parameters()):
                a += p.grad
        for a, p in zip(total, net.parameters()):
            p.grad = (a + 1.1 * 1.0 * torch.randn_like(a)) / 64
        optimizer.step()
"""


def test_a_gradient_of_a_group_that_is_clipped_gets_no_number():
    given = GIVEN | {"batches": "shuffled", "batch_size": 500}
    for group in ("split(8)", "split(size)", "chunk(4)"):
        (found,) = check(GROUPS.replace("split(8)", group), **given)
        assert found.epsilon is None


MAPPED = """
import tensorflow as tf
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras import DPKerasAdamOptimizer
base = tf.data.Dataset.from_tensor_slices((images, labels))
other = tf.data.Dataset.from_tensor_slices((more_images, more_labels))
train = JOINED.shuffle(100_000).batch(500, drop_remainder=True)
model.compile(optimizer=DPKerasAdamOptimizer(l2_norm_clip=1.0, noise_multiplier=1.3, num_microbatches=500), loss=loss)
model.fit(train, epochs=20)
"""


def test_a_data_set_joined_with_a_mapping_of_itself_gets_no_number():
    given = {"batches": "shuffled", "records": 50_000, "batch_size": 500, "delta": 1e-6}
    for joined in ("base.concatenate(base.map(flip))", "base.concatenate(base)", "base.take(9).concatenate(base)"):
        (found,) = check(MAPPED.replace("JOINED", joined), **given)
        assert found.epsilon is None
    for joined in ("base.concatenate(other)", "base.take(9).concatenate(base.skip(9))", "base"):
        (found,) = check(MAPPED.replace("JOINED", joined), **given)
        assert "noise" not in found.asks


SPAWNED = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from opacus import PrivacyEngine
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
def worker(rank, world, epochs=5):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    loader = DataLoader(data, batch_size=128, sampler=DistributedSampler(data))
    model = torch.nn.Linear(9, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
    )
    for epoch in range(10):
        for a, b in loader:
            optimizer.zero_grad()
            loss(model(a), b).backward()
            optimizer.step()
    print(engine.get_epsilon(1e-5))
mp.spawn(worker, args=(4, 20), nprocs=4)
"""


def test_a_loop_that_several_processes_share_is_asked_about_once():
    given = {"batches": "poisson", "batch_size": 512, "records": 50_000}
    (found,) = check(SPAWNED)
    assert found.asks.keys() >= {"batches", "batch_size", "records"}
    found = answered(SPAWNED, **given)
    assert found.inputs["epochs"] == 10
    (found,) = check(SPAWNED.replace("range(10)", "range(epochs)"), **given)  # which are 20, and no default
    assert "epochs" in found.asks
    for script in (
        SPAWNED.replace("    dist.init_process_group", "    print"),
        SPAWNED.replace("mp.spawn", "for seed in range(3):\n    mp.spawn"),
        SPAWNED + "mp.spawn(worker, args=(4, 20), nprocs=4)\n",
    ):
        (found,) = check(script, **given)
        assert "one loop" in found.asks


SPLIT = """
import pytorch_lightning as pl
import torch
from opacus import PrivacyEngine
class Split(pl.LightningModule):
    def __init__(self, loader):
        super().__init__()
        self.automatic_optimization = False
        self.encoder, self.head = torch.nn.Linear(9, 9), torch.nn.Linear(9, 2)
        self.loader, self.engine = loader, PrivacyEngine()
    def configure_optimizers(self):
        first = torch.optim.SGD(self.encoder.parameters(), lr=0.1)
        second = torch.optim.SGD(self.head.parameters(), lr=0.1)
        self.encoder, first, self.loader = self.engine.make_private(
            module=self.encoder, optimizer=first, data_loader=self.loader, noise_multiplier=1.1, max_grad_norm=1.0
        )
        return [first, second]
module = Split(loader)
pl.Trainer(max_epochs=10).fit(module)
"""


def test_a_trainer_of_a_private_module_is_not_said_to_train_without_noise():
    (found,) = check(SPLIT)
    assert found.epsilon is None
