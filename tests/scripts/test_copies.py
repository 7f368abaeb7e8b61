"""Records that come several times into the data of a private loop, and what only looks so."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_answers import SCRIPTS, answered

ARRAYS = """
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from opacus import PrivacyEngine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample
from torch.utils.data import DataLoader, TensorDataset
rng = np.random.default_rng(0)
X, y = np.load("x.npy"), np.load("y.npy")
frame = pd.read_csv("train.csv")
#DATA
train_set = TensorDataset(torch.tensor(X), torch.tensor(y))
loader = DataLoader(train_set, batch_size=100, shuffle=True)
model = torch.nn.Linear(30, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
)
for epoch in range(10):
    for a, b in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
print(engine.get_epsilon(1e-5))
"""
PLAIN = check(ARRAYS, records=30_000)[0].epsilon


@pytest.mark.parametrize(
    "lines",
    [
        "X = np.concatenate([X, X[:500]])",
        "more = X + 0.1\nX = np.vstack((X, more))",
        "X = np.concatenate((X, np.flip(X, 1)), axis=0)",
        "X, y = SMOTE().fit_resample(X, y)",
        "X = resample(X, n_samples=50_000)",
        "X = X[np.random.choice(len(X), 50_000)]",
        "rows = rng.integers(0, 9, 50_000)\nX = X[rows]",
        "X = np.repeat(X, 2, axis=0)",
        "frame = pd.concat([frame, frame.sample(frac=0.5)])\nX = frame.values",
        "def grown(a):\n    return np.append(a, a[:9], axis=0)\nX = grown(X)",
    ],
)
def test_records_that_come_several_times_get_no_number(lines):
    (found,) = check(ARRAYS.replace("#DATA", lines), records=30_000)
    assert found.epsilon is None


@pytest.mark.parametrize(
    "lines",
    [
        "X = np.concatenate([X[:500], X[900:]])",
        "X = np.concatenate([X, np.load('more.npy')])",
        "X, Z, y, w = train_test_split(X, y)\nboth = np.concatenate([X, Z])",
        "X = np.concatenate([X, X**2], axis=1)",
        "X = X[np.random.choice(len(X), 30_000, replace=False)]",
        "X = X[rng.permutation(len(X))]",
        "low, high = frame[frame.a < 0], frame[frame.a >= 0]\nframe = pd.concat([low, high])\nX = frame.values",
        "X, y = RandomUnderSampler().fit_resample(X, y)",
        "W = np.load('w.npy')\nW = np.vstack((W, W))",
        "X = resample(X, replace=False, n_samples=30_000)",
    ],
)
def test_what_only_looks_like_copies_keeps_its_number(lines):
    assert answered(ARRAYS.replace("#DATA", lines), records=30_000).epsilon == PLAIN


@pytest.mark.parametrize(("delta", "is_large"), [("1e-5", False), ("1e-4", True), ("0.5", True)])
def test_a_delta_of_one_over_the_records_is_noted(delta, is_large):
    (found,) = check(ARRAYS.replace("1e-5", delta), records=30_000)
    assert any("is not below 1 / 30000 records" in one for one in found.notes) == is_large


RESUMED = ARRAYS.replace("model = torch.nn.Linear(30, 2)\n", "model = torch.nn.Linear(30, 2)\n#LOAD\n") + (
    "torch.save(model.state_dict(), 'last.pt')\n"
)


@pytest.mark.parametrize(
    ("lines", "asks"),
    [
        ("model.load_state_dict(torch.load('last.pt'))", True),
        ("if os.path.exists('last.pt'):\n    model.load_state_dict(torch.load('last.pt'))", True),
        ("model.load_state_dict(torch.load('public.pt'))", True),
        ("torch.save(model.state_dict(), 'last.pt')\nother = torch.load('first.pt')", False),
    ],
)
def test_weights_of_a_file_are_asked_about(lines, asks):
    (found,) = check(RESUMED.replace("#LOAD", lines), records=30_000)
    assert (found.epsilon is None) == asks
    assert answered(RESUMED.replace("#LOAD", lines), records=30_000).epsilon == PLAIN


SCALED = "        x = (x - x.mean()) / (x.std() + 1e-6)"


@pytest.mark.parametrize(("line", "is_told"), [(SCALED, False), (SCALED.replace("x.mean()", "self.t.mean()"), True)])
def test_an_item_may_be_scaled_by_itself_and_not_by_all(line, is_told):
    text = SCRIPTS["wild_items_scaled_one_by_one"]["script"]
    assert SCALED in text
    (found,) = check(text.replace(SCALED, line), records=24_000)
    assert found.epsilon is None or not is_told


@pytest.mark.parametrize("other", ["-X", "~X", "+X", "(X.tanh() if flag else X)", "torch.where(on, zero, X)"])
def test_what_is_made_of_the_same_records_in_any_way_is_a_copy(other):
    text = ARRAYS.replace("#DATA", f"X = np.concatenate([X, {other}])")
    (found,) = check(text, records=30_000)
    assert found.epsilon is None
