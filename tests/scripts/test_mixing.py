"""Models that normalise by batches beside a loop, weights of earlier runs, gradients of batches, empty batches."""

import pytest

import fastacct as fa
from fastacct.scripts.answers import check
from tests.scripts.test_answers import SCRIPTS, answered, bounds
from tests.scripts.test_leaks import PLAIN, made

FROZEN = SCRIPTS["everyday_a_frozen_body_in_train_mode"]["script"]
MADE, TRAIN = "models.resnet18(weights=models.ResNet18_Weights.DEFAULT)", "backbone.train()\n"
IDENTITY, FREEZE, HEAD = "backbone.fc = nn.Identity()", "for p in backbone", "head = nn.Linear"
PARTS = "nn.Sequential(*list(backbone.children())[:-1])"
FIX = "from opacus.validators import ModuleValidator\nbackbone = ModuleValidator.fix(backbone)\n"
WHOLE = """import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms
train_set = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
train_loader = DataLoader(train_set, batch_size=500)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = models.mobilenet_v2(weights="DEFAULT").features
        for p in self.body.parameters():
            p.requires_grad = False
        self.head = nn.Linear(1280, 10)
    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))
def fit(net, loader, opt):
    net.train()
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
model = Net()
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.5)
engine = PrivacyEngine()
model, optimizer, train_loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=train_loader, noise_multiplier=1.0, max_grad_norm=1.0
)
for epoch in range(5):
    fit(model, train_loader, optimizer)
print(engine.get_epsilon(1e-5))
"""
OWN = "    def train(self, mode=True):\n        super().train(mode)\n        self.body.eval()\n        return self\n"


@pytest.mark.parametrize(
    "text",
    [
        FROZEN.replace(TRAIN, ""),
        FROZEN.replace(HEAD, f"{FIX}{HEAD}"),  # Opacus leaves frozen layers as they are
        FROZEN.replace(MADE, "timm.create_model('resnet50', pretrained=True)").replace(
            "import torch\n", "import timm, torch\n", 1
        ),
        FROZEN.replace(TRAIN, "features.train()\n")
        .replace(IDENTITY, f"features = {PARTS}")
        .replace("= backbone(", "= features("),
        FROZEN.replace(TRAIN, "backbone.eval()\n").replace("    for x, y", "    backbone.train()\n    for x, y"),
        WHOLE,
        WHOLE.replace("    net.train()\n", "    net.body.eval()\n    net.train()\n"),
    ],
)
def test_a_body_that_normalises_by_batches_in_train_mode_gets_no_number(text):
    (found,) = check(text)
    assert found.epsilon is None


@pytest.mark.parametrize(
    "text",
    [
        FROZEN.replace("backbone.train()", "backbone.eval()"),
        FROZEN.replace("backbone.train()", "backbone.train(False)"),
        FROZEN.replace(TRAIN, "").replace("DEFAULT)", "DEFAULT).eval()"),
        FROZEN.replace("DEFAULT)", "DEFAULT, norm_layer=lambda c: nn.GroupNorm(8, c))"),
        FROZEN.replace("resnet18", "vit_b_16").replace("ResNet18", "ViT_B_16"),
        FROZEN.replace(FREEZE, f"{FIX}{FREEZE}"),
        FROZEN.replace(TRAIN, "").replace(IDENTITY, f"backbone = {PARTS}.eval()"),
        FROZEN.replace(TRAIN, "").replace(
            f"backbone = {MADE}", f"def body():\n    net = {MADE}\n    net.eval()\n    return net\nbackbone = body()"
        ),
        WHOLE.replace("    net.train()\n", "    net.train()\n    net.body.eval()\n"),
        WHOLE.replace("    net.train()\n", "    net.eval()\n"),
    ],
)  # fmt: skip
def test_a_body_in_eval_mode_or_without_such_layers_keeps_its_number(text):
    right = bounds({"noise_multiplier": 1.0, "length": 100, "passes": 5, "delta": 1e-5})
    assert answered(text).epsilon == pytest.approx(right.upper, rel=1e-9)


def test_a_method_that_keeps_the_body_in_eval_mode_is_seen():
    (found,) = check(WHOLE.replace("    def forward", f"{OWN}    def forward"))
    assert "one example" not in found.asks


PATH = "CKPT = 'a.pt'\n"
HELPER = f"{PATH}def warm(net, path):\n    net.load_state_dict(torch.load(path))\n    return net"
SAVE, LOAD = "torch.save(model.state_dict(), CKPT)", "model.load_state_dict(torch.load(CKPT))"


@pytest.mark.parametrize(
    "parts",
    [
        {"TOP": f"{PATH}from utils import load_weights", "MODEL": "load_weights(model, CKPT)", "END": SAVE},
        {"TOP": f"{PATH}from utils import get_net", "MODEL": "model = get_net(weights=CKPT)", "END": SAVE},
        {"TOP": HELPER, "MODEL": "model = warm(model, CKPT)", "END": SAVE},
        {"TOP": HELPER, "MODEL": "model = warm(model, 'a.pt')", "END": SAVE},
        {"TOP": PATH, "PRIVATE": LOAD, "END": SAVE},
        {"TOP": f"{PATH}def keep(p):\n    torch.save(model.state_dict(), p)", "MODEL": LOAD, "END": "keep(CKPT)"},
    ],
)  # fmt: skip
def test_weights_that_a_helper_loads_from_an_earlier_run_are_asked_about(parts):
    (found,) = check(made(parts))
    assert found.epsilon is None
    assert any(one.startswith("vouch") for one in found.asks)


@pytest.mark.parametrize(
    "parts",
    [
        {"TOP": f"{PATH}import os", "MODEL": "print(os.path.exists(CKPT))", "END": SAVE},
        {"TOP": PATH, "MODEL": "model.load_state_dict(torch.load('public.pt'))", "END": SAVE},
        {"TOP": PATH, "END": f"{SAVE}\n{LOAD}"},
        {"TOP": "from torchinfo import summary", "MODEL": "summary(model)", "END": "torch.save(model, 'm.pt')"},
    ],
)
def test_files_that_no_earlier_run_made_keep_the_number(parts):
    assert answered(made(parts)).epsilon == PLAIN


OPTAX = SCRIPTS["everyday_optax_with_the_gradient_of_a_batch"]["script"]
BATCH = "jax.value_and_grad(loss_fn)(params, image, label)"
EACH = "jax.vmap({}, in_axes=(None, 0, 0))(params, image[:, None], label[:, None])"
NUMBERS = {"records": 60_000, "batch_size": 256, "epochs": 10, "delta": 1e-5, "batches": "shuffled"}


@pytest.mark.parametrize("line", ["", "    image = jax.vmap(crop)(image)\n"])
def test_a_gradient_of_a_batch_that_optax_is_given_gets_no_number(line):
    (found,) = check(OPTAX.replace("    loss, grads", f"{line}    loss, grads"), **NUMBERS)
    assert found.epsilon is None
    assert any("the plain gradients of each" in why for why in found.asks.values())


@pytest.mark.parametrize(
    "text",
    [
        OPTAX.replace(BATCH, EACH.format("jax.value_and_grad(loss_fn)")),
        OPTAX.replace(BATCH, EACH.format("each")).replace("@jax.jit", "each = jax.value_and_grad(loss_fn)\n@jax.jit"),
        OPTAX.replace(BATCH, "0, jax.jacrev(loss_fn)(params, image, label)"),
        OPTAX.replace(BATCH, EACH.format("each")).replace(
            "@jax.jit", "def each(p, x, y):\n    return jax.value_and_grad(loss_fn)(p, x[None], y[None])\n@jax.jit"
        ),
    ],
)
def test_gradients_of_each_record_that_optax_is_given_have_a_number(text):
    run = {"noise_multiplier": 1.1, "records": 60_000, "batch_size": 256, "epochs": 10, "sampling": "shuffled"}
    right = fa.dpsgd.epsilon(**run, delta=1e-5, neighbors="zero_out")
    assert answered(text, **NUMBERS).epsilon == pytest.approx(right, rel=1e-9)


NOTEBOOK = SCRIPTS["everyday_an_exported_notebook_that_skips_empty_batches"]["script"]


@pytest.mark.parametrize("test", ["len(x) == 0", "len(x) <= 1", "len(history) == 0", "len(x) != 0"])
def test_other_rounds_that_are_left_out_are_asked_about(test):
    (found,) = check(NOTEBOOK.replace("len(x) == 0", test))
    assert found.epsilon is None
    assert "a round skipped" in found.asks["epochs"]


LIGHTNING = SCRIPTS["everyday_lightning_with_a_loader_made_private"]["script"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return private_optimizer", "return torch.optim.SGD(self.parameters(), lr=0.1)"),
        ("return private_optimizer", "return opt"),
        ("fit(lit, dp_loader", "fit(lit, train_loader"),
        ("trainer.fit(lit, dp_loader, val_loader)", "trainer.fit(lit, dp_loader)\ntrainer.fit(lit, dp_loader)"),
        ("        self.save_hyperparameters()", "        self.automatic_optimization = False"),
    ],
)
def test_a_trainer_that_leaves_what_make_private_returned_gets_no_number(old, new):
    (found,) = check(LIGHTNING.replace(old, new), epochs=10, batches="poisson")
    assert found.epsilon is None


LORA = SCRIPTS["everyday_lora_with_a_memory_manager"]["script"]
LAMBDA = 'lambda e: tok(e["text"], truncation=True, padding="max_length", max_length=256)'


def test_records_of_hugging_face_are_counted_where_no_method_changes_their_number():
    assert LAMBDA in LORA
    for line in (
        "double",
        f"{LAMBDA[:-1]}, return_overflowing_tokens=True)",
        "lambda e: {k: v + v for k, v in e.items()}",
    ):
        (found,) = check(LORA.replace(LAMBDA, line))
        assert "records" in found.asks
    (found,) = check(LORA.replace(".select(range(10_000))", ""))
    assert set(found.asks) == {"records"}


def test_a_delta_of_one_over_the_records_of_a_loader_is_computed():
    line = "DELTA = 1 / len(train_loader.dataset)\nmodel = nn.Sequential("
    text = NOTEBOOK.replace("DELTA = 1e-5\n", "").replace("model = nn.Sequential(", line)
    found = answered(text, epochs=8)
    assert found.inputs["delta"] == 1 / 50_000
    assert found.epsilon is not None


PADDED = """import torch
from datasets import load_dataset
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding
tok = AutoTokenizer.from_pretrained("bert-base-cased")
data = load_dataset("glue", "sst2", split="train")
data = data.map(lambda r: tok(r["sentence"], truncation=True, max_length=64), batched=True)
loader = DataLoader(data, batch_size=500)
other = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(30_000, 32), nn.Linear(32, 2)
    def forward(self, ids):
        return self.head(self.words(ids)[:, -1])
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
)
for epoch in range(3):
    for batch in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch["input_ids"]), batch["label"]).backward()
        optimizer.step()
"""
MADE = 'model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")'
BERT = PADDED.partition("class Net")[0] + MADE + PADDED.partition("Net()")[2].replace('batch["input_ids"]', "**batch")
BERT = BERT.replace("**batch)", "**batch).logits")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch_size=500", "batch_size=500, collate_fn=DataCollatorWithPadding(tok)"),
        ("max_length=64", "padding=True"),
        ("max_length=64", "padding='longest'"),
    ],
)
def test_texts_that_are_as_long_as_the_longest_are_asked_about_beside_layers_of_the_script(old, new):
    given = {"records": 67_349, "delta": 1e-6}
    for script, is_asked in ((PADDED, True), (BERT, False)):
        assert check(script, **given)[0].epsilon is not None
        (found,) = check(script.replace(old, new), **given)
        assert (found.epsilon is None) is is_asked
        assert is_asked is any("each record is one example" in one for one in found.asks.values())
