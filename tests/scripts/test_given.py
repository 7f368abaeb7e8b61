"""What others call with records, ways on which figures go, and forms of one number: wrong ones are asked about."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_apart import GIVEN_TOO, LIGHTNING, LOOP, TABLE, forward
from tests.scripts.test_plain import GIVEN, HUGGING_FACE, KERAS, OPACUS

MODEL = "model = nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))"
LOADER = "loader = DataLoader(train, batch_size=500)"
COLLATE = """def put(rows, k):
    x = torch.stack([r[0] for r in rows])
    return LINE, torch.tensor([r[1] for r in rows])
"""
PARTIAL = f"from functools import partial\n{COLLATE}{LOADER[:-1]}, collate_fn=partial(put, k=2))"
METHOD = f"class C:\n    {COLLATE.replace(chr(10), chr(10) + '    ').replace('rows, k', 'self, rows')}\n"
OBJECT = f"{METHOD}c = C()\n{LOADER[:-1]}, collate_fn=c.put)"
AROUND = "def around(f):\n    def inner(net, x, y):\n        return f(net, LINE, y)\n    return inner\n"
DECORATED = f"{AROUND}@around\ndef found(net, x, y):\n    return F.cross_entropy(net(x), y)"
HOOKED = forward("").replace(
    "10)\n    def", "10)\n        self.fc.register_forward_hook(self.see)\n    def SEE\n    def"
)
OTHER = "def other(self, x):\n    return LINE\nNet.forward = other\nmodel = Net()"
REPLACED = forward("pass").replace("model = Net()", OTHER)
ITEMS = "class D(torch.utils.data.Dataset):\n    def __init__(self): self.base = train\n    LINE\ntrain = D()"
ITEM = "def __getitem__(self, i):\n        x, y = self.base[i]\n        return VALUE, y"
PROPERTY = f"@property\n    def mean(self): return MEAN\n    {ITEM.replace('VALUE', 'x - self.mean')}"
MU = "train.data.float().mean()"
FIT = "batch_size=250)"
LOSS = "loss = F.cross_entropy(model(x), y)"
SCALED = "aux = torch.optim.SGD(head.parameters(), lr=1)\n"

PAIRS = {
    "function with an argument": (
        OPACUS, LOADER, PARTIAL.replace("LINE", "x - x.mean(0)"), PARTIAL.replace("LINE", "x * k"),
    ),
    "method of an object": (OPACUS, LOADER, OBJECT.replace("LINE", "x - x.mean(0)"), LOADER),
    "decorator": (
        OPACUS, "#PRIVATE", DECORATED.replace("LINE", "x - x.mean(0)"), DECORATED.partition("@around\n")[2],
    ),
    "hook of a layer": (
        OPACUS, MODEL, HOOKED.replace("SEE", "see(self, m, i, o): return o - o.mean(0)"),
        forward("h = h + 1"),
    ),
    "method that is replaced": (OPACUS, MODEL, REPLACED.replace("LINE", "self.fc(x - 1)"), forward("h = h - 1")),
    "function that is replaced": (
        OPACUS, "#PRIVATE", "F.cross_entropy = lambda a, b: a.sum()", "torch.backends.cudnn.benchmark = True",
    ),
    "activation": (
        KERAS, "Dense(10)", "Dense(10, activation=lambda t: tf.nn.relu(t - tf.reduce_mean(t, axis=0)))",
        "Dense(10, activation=lambda t: tf.nn.relu(t - 1))",
    ),
    "transform in an argument": (
        OPACUS, "#DATA", f"train = datasets.MNIST('d', transform=transforms.Compose([transforms.Normalize({MU}, 1)]))",
        "train = datasets.MNIST('d', transform=transforms.Compose([transforms.Normalize(0.1, 1)]))",
    ),
    "field of an object": (OPACUS, "#BATCH", f"a.mean = {MU}; x = x - a.mean", "a.mean = 1; x = x - a.mean"),
    "default": (
        OPACUS.replace("#BATCH", "x = less(x)"), "#PRIVATE", f"def less(x, mean={MU}): return x - mean",
        "def less(x, mean=0.1): return x - mean",
    ),
    "property": (
        OPACUS, "#DATA", ITEMS.replace("LINE", PROPERTY.replace("MEAN", "self.base.data.float().mean()")),
        ITEMS.replace("LINE", PROPERTY.replace("MEAN", "0.1")),
    ),
    "named on the way": (OPACUS, "#BATCH", f"k = [m := {MU}]; x = x - m", "k = [m := 1]; x = x - m"),
    "membership": (OPACUS, "#DATA", "if 9 in train.targets: train.transform = None", "if 'y' in keys: print(1)"),
    "compared with a mean": (OPACUS, "#BATCH", "x = (x > x.mean()).float()", "x = (x > 0.5).float()"),
    "distinct values": (TABLE, "#DATA", "v = list({a for a in df['a']})", "v = list({a for a in (1, 2)})"),
    "list by a branch": (
        OPACUS, "#STEP", "if loss.item() < 1: k.append(1)\n        optimizer.param_groups[0]['lr'] = 1 / len(k)",
        "if epoch < 1: k.append(1)\n        optimizer.param_groups[0]['lr'] = 1 / len(k)",
    ),
    "axis from the end": (OPACUS, MODEL, forward("h = torch.softmax(h, -2)"), forward("h = torch.softmax(h, -1)")),
    "axis of a layer from the end": (OPACUS, "nn.ReLU()", "nn.Softmax(dim=-2)", "nn.Softmax(dim=-1)"),
    "weights of classes": (
        OPACUS, LOSS, "loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))(model(x), y)",
        "loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0]))(model(x), y)",
    ),
    "left out of the mean": (
        OPACUS, LOSS, "loss = F.cross_entropy(model(x), y, ignore_index=0)",
        "loss = F.cross_entropy(model(x), y, label_smoothing=0.1)",
    ),
    "mean of what is known": (OPACUS, "#LOSS", "loss = torch.nanmean(model(x))", "loss = torch.mean(model(x))"),
    "times the size of a batch": (OPACUS, "#LOSS", "loss = loss * x.size(0)", "loss = loss * 2; print(loss * len(x))"),
    "outputs less targets": (OPACUS, "#LOSS", "loss = (model(x) - y).mean()", "loss = model(x).mean()"),
    "outputs times a loss": (OPACUS, "#LOSS", "loss = (model(x) * loss).mean()", "loss = model(x).mean()"),
    "printed outputs": (OPACUS, "#STEP", "print(model(x))", "print(loss.item())"),
    "loss that broadcasts": (
        OPACUS, LOSS, "z = model(x); loss = F.mse_loss(z, y)", "z = model(x); loss = F.mse_loss(z, y.view_as(z))",
    ),
    "sum where a mean is told": (
        OPACUS, LOSS, "loss = nn.CrossEntropyLoss(reduction='sum')(model(x), y)",
        "loss = nn.CrossEntropyLoss(reduction='mean')(model(x), y)",
    ),
    "sum that is told": (OPACUS, "max_grad_norm=1.0", "max_grad_norm=1.0, loss_reduction='sum'", "max_grad_norm=1.0"),
    "function of all arguments": (
        OPACUS, "#PRIVATE",
        DECORATED.replace("inner(net, x, y)", "inner(*args)").replace("f(net, LINE, y)", "f(*args).exp()"),
        DECORATED.partition("@around\n")[2],
    ),
    "rate of the size of a batch": (
        OPACUS, "#STEP", "optimizer.param_groups[0]['lr'] = len(x) / 9",
        "optimizer.param_groups[0]['lr'] = epoch / 9",
    ),
    "loss of a model over tokens": (
        OPACUS, LOSS, "loss = model(x, labels=y).loss", LOSS,
        "import transformers\nnet = transformers.AutoModelForCausalLM.from_pretrained('gpt2')",
    ),
    "buffer": (OPACUS, MODEL, forward("self.mu[:] = h.mean(0)"), forward("h = h + 1")),
    "counts in a buffer": (OPACUS, MODEL, forward("self.seen[x.long()] += 1"), forward("h = h + self.bias[0]")),
    "earlier batch": (
        OPACUS, "#LOSS", "loss = loss + F.cross_entropy(model(old), y); old = x",
        "new = x + 1; loss = loss + F.cross_entropy(model(new), y)",
    ),
    "weights of a file": (
        OPACUS, "#DATA", "model = nn.Linear(1, 1)\nmodel.load_state_dict(torch.load('a.pt'))",
        "model = nn.Linear(1, 1)\nmodel.load_state_dict(torch.hub.load_state_dict_from_url('https://a'))",
    ),
    "model of a folder": (
        HUGGING_FACE, "Classification.from_pretrained(\"distilbert-base-uncased\")",
        "Classification.from_pretrained('outputs/imdb')", "Classification.from_pretrained('google/mobilebert')",
    ),
    "second optimizer": (OPACUS, "#STEP", "scaler.step(aux)", "scaler.update()", f"head = nn.Linear(1, 1)\n{SCALED}"),
    "stars": (
        TABLE, "#DATA", "r = [*zip(X, y)]\nq = [(a + 1, b) for a, b in r]\ntrain = [*r, *q]", "train = train",
    ),
    "more in a list": (
        TABLE, "#DATA", "r = [(a, b) for a, b in zip(X, y)]\nr.extend([(a + 1, b) for a, b in r])\ntrain = r",
        "r = [(a, b) for a, b in zip(X, y)]\ntrain = r",
    ),
    "indices twice": (
        TABLE, "#DATA", "train = torch.utils.data.Subset(train, [i for i in range(99) for _ in range(2)])",
        "train = TensorDataset(X, y)",
    ),
    "column with a word of tests": (
        TABLE, "#TABLE", "df['a'] = df['a'] - df['blood_test'].mean()", "df['a'] = df['a'] - 1",
    ),
    "learner": (
        TABLE, "#DATA", "from sklearn.cluster import KMeans\ny = KMeans(3).fit(X).labels_\ntrain = TensorDataset(X, y)",
        "train = TensorDataset(X, y)",
    ),
    "columns that are dropped": (TABLE, "#TABLE", "df = df.dropna(axis=1)", "df = df.drop(columns=['a'])"),
    "own file of a known name": (
        OPACUS, "#BATCH", "x = mixed(x)", "x = torch.relu(x)", "from datasets import mixed",
    ),
    "another name of a layer": (
        OPACUS, "nn.ReLU()", "BN(100)", "nn.Tanh()", "from torch.nn import BatchNorm1d as BN",
    ),
    "seed of a device": (
        OPACUS, LOOP, LOOP.replace("\n", "\n    torch.cuda.manual_seed_all(1)\n"), LOOP,
    ),
    "stop where a loss is no number": (
        KERAS, FIT, "batch_size=250, callbacks=[tf.keras.callbacks.TerminateOnNaN()])",
        "batch_size=250, callbacks=[tf.keras.callbacks.CSVLogger('a')])",
    ),
    "one record in each item": (
        OPACUS, "#DATA", ITEMS.replace("LINE", ITEM.replace("VALUE", "x - self.base[0][0]")),
        ITEMS.replace("LINE", ITEM.replace("VALUE", "x - 1")),
    ),
    "written mean": (TABLE, "#TABLE", "f.write(str(df['a'].mean()))", "f.write(str(len(df)))"),
    "loss by another name": (
        LIGHTNING, "return loss\n", "self.log('val_loss', loss)\n        return loss\n",
        "self.log('train_loss', loss)\n        return loss\n",
    ),
    "private data for validation": (
        LIGHTNING, "    #HOOK", "    def val_dataloader(self): return loader",
        "    def val_dataloader(self): return other",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_mistake_on_another_way_is_asked_about(name):
    script, old, wrong, right, *more = PAIRS[name]
    assert script.count(old) == 1
    script = script.replace("#PRIVATE", f"#PRIVATE\n{more[0]}") if more else script
    (plain,) = check(script.replace(old, right), **GIVEN_TOO)
    assert plain.epsilon is not None
    for given in (GIVEN, GIVEN_TOO):  # no other option answers for the line
        (found,) = check(script.replace(old, wrong), **given)
        assert found.epsilon is None
        assert any(one.startswith("vouch") for one in found.asks) or "noise" in found.asks
