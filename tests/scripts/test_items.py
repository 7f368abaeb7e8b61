"""Data sets of the script itself, and lists that it reads from files: each record is one item, and each item one's."""

import pytest

from fastacct.scripts.answers import check
from fastacct.scripts.plain import CLAIM

SCRIPT = """import csv, json, os, random
import torch
from opacus import PrivacyEngine
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, transforms
CLASSES = {"nv": 0, "mel": 1, "bkl": 2}
def read(path):
    out = []
    for line in open(path):
        #LINE
        out.append(json.loads(line))
    #READ
    return out
class Lesions(Dataset):
    def __init__(self, table, root, size, transform=None):
        self.items, self.size = [], size
        with open(table) as f:
            for row in csv.DictReader(f):
                #ROW
                self.items.append((os.path.join(root, row["image"]), CLASSES[row["dx"]]))
        #ALL
        self.transform = transform
    def __len__(self):
        return len(self.items)
    def __getitem__(self, idx):
        path, label = self.items[idx]
        #ITEM
        image = Image.open(path).convert("RGB")
        return self.transform(image), label
class Texts(Dataset):
    def __init__(self, path, length=16):
        self.rows, self.length = read(path), length
        #LENGTH
    def __getitem__(self, i):
        text = self.rows[i]["text"].lower()
        codes = [ord(c) % 256 for c in text][:self.length]
        #CODES
        return torch.tensor(codes + [0] * (self.length - len(codes))), self.rows[i]["label"]
crop = transforms.CenterCrop(28)
data = DATASET
loader = DataLoader(data, batch_size=500)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
)
for epoch in range(20):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
GIVEN = {"records": 60_000, "delta": 1e-5}
IMAGES, TEXTS = 'Lesions("train.csv", "images", 64, crop)', 'Texts("train.jsonl")'
LINES = """read("train.jsonl")
rows = data
data = TensorDataset(torch.tensor([one["x"] for one in rows]), torch.tensor([one["y"] for one in rows]))"""
APPEND = 'self.items.append((row["image2"], CLASSES[row["dx"]]))'
ODD = [
    (IMAGES, "#ROW", APPEND),  # two items of one record
    (IMAGES, "#ROW", f"for k in range(3): {APPEND}"),
    (IMAGES, "#ROW", 'self.items.extend((one, 0) for one in row["images"].split())'),
    (IMAGES, "#ROW", 'row["image"] = self.items[-1][0] if self.items else row["image"]'),
    (IMAGES, "#ROW", 'if epoch in self.seen: continue'),
    (IMAGES, "#ROW", 'row["dx"] = list(CLASSES)[len(self.items) % 3]'),
    (IMAGES, "#ROW", 'CLASSES.setdefault(row["dx"], len(CLASSES))'),
    (IMAGES, "#ROW", 'last, row["image"] = row["image"], last'),
    (IMAGES, "#ROW", 'row["image"] = self.items.index(1)'),
    (IMAGES, "#ALL", "self.items *= 2"),
    (IMAGES, "#ALL", "self.items = self.items * 2"),
    (IMAGES, "#ALL", "self.items.sort(key=len); self.items = self.items[:len(self.items) // 2]"),
    (TEXTS, "#LENGTH", 'self.length = max(len(one["text"]) for one in self.rows)'),
    (IMAGES, "#ITEM", "path, _ = random.choice(self.items)"),
    (IMAGES, "#ITEM", "self.last, path = path, self.last"),
    (IMAGES, "#ITEM", "self.number = self.number + 1"),
    (IMAGES, "#ITEM", "other, _ = self.items[idx - 1]"),
    (TEXTS, "#LINE", 'out.append({**json.loads(line), "label": 1})'),
    (TEXTS, "#READ", "out += out[:100]"),
    (TEXTS, "#READ", "out = list(zip(out, reversed(out)))"),
    (IMAGES, "#ITEM", "label = self.items.index((path, label))"),
    (TEXTS, "#CODES", 'codes = [sorted({c for r in self.rows for c in r["text"]}).index(c) for c in text]'),
    (TEXTS, "#CODES", 'codes = [ord(c) for c in "".join(r["text"] for r in self.rows)]'),
    (TEXTS, "#CODES", 'text = text.replace(self.rows[i]["name"], "x")'),  # two texts, of two records for all it knows
    (LINES, "#READ", "print(out[0])"),
    (LINES.replace('read("train.jsonl")', 'read("train.jsonl") * 3'), "#READ", ""),
]  # fmt: skip


def _found(data, place="#READ", line=""):
    return check(SCRIPT.replace("DATASET", data).replace(place, line), **GIVEN)[0]


@pytest.mark.parametrize("data", [IMAGES, TEXTS, LINES])
def test_one_item_for_each_line_of_a_file_is_plain(data):
    assert _found(data).epsilon == _found("datasets.MNIST('data')").epsilon is not None


@pytest.mark.parametrize(("data", "place", "line"), ODD, ids=range(len(ODD)))
def test_items_that_share_a_record_or_records_that_share_an_item_are_asked_about(data, place, line):
    found = _found(data, place, line)
    assert found.epsilon is None
    assert any(name.startswith("vouch") and CLAIM in why for name, why in found.asks.items())


@pytest.mark.parametrize("columns", ['["age", "hours"]', "COLUMNS"])
def test_columns_and_scales_that_are_written_out_are_plain(columns):
    made = f"""pd.read_csv("adult.csv")
COLUMNS = ["age", "hours"]
SCALE = [90.0, 100.0]
data = TensorDataset(torch.tensor(data[{columns}].values) / torch.tensor(SCALE), torch.tensor(data["income"].values))"""
    text = SCRIPT.replace("DATASET", made).replace("import csv", "import pandas as pd\nimport csv")
    assert check(text, **GIVEN)[0].epsilon is not None
    (found,) = check(text.replace("[90.0, 100.0]", "[data.age.max(), 100.0]"), **GIVEN)
    assert found.epsilon is None
