"""Whether noise is found without names of gradients, and whether several parts of the data are of one source."""

import pytest

import fastacct as fa
from fastacct.scripts.answers import check
from tests.scripts.test_answers import answered
from tests.scripts.test_understood import last

GIVEN = {"batches": "poisson", "noise_multiplier": 1.0, "records": 60_000, "batch_size": 600, "delta": 1e-5}


def test_the_noise_of_clipped_sums_is_found_where_no_name_says_gradient():
    text = """
import dp_accounting
import numpy as np
def clipped_sum(w, x, y):
    g = (1 / (1 + np.exp(-x @ w)) - y)[:, None] * x
    g *= np.minimum(1.0, CLIP / np.linalg.norm(g, axis=1))[:, None]
    return g.sum(0)
for t in range(6000):
    mask = np.random.rand(n) < q
    g = clipped_sum(w, x[mask], y[mask])
    g = g + np.random.normal(0.0, std, size=d)
    w = w - RATE * (g / BATCH + L2 * w)
"""
    (asked,) = check(text)
    assert {"batches", "noise_multiplier", "records", "batch_size", "epochs"} < asked.asks.keys()
    (found,) = check(text, epochs=60, vouch=[last(text, "np.minimum"), last(text, "np.random.normal")], **GIVEN)
    run = {"noise_multiplier": 1.0, "records": 60_000, "batch_size": 600, "epochs": 60, "delta": 1e-5}
    assert found.epsilon == fa.dpsgd.epsilon(**run)


PARTS = """
from opacus import PrivacyEngine
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset
def features(images):
    return images.flatten(1)
def build():
    x, y = load(True)
    plain = TensorDataset(features(x), y)
    other = TensorDataset(features(SECOND), y)
    return ConcatDataset([plain, other]), TensorDataset(*load(False))
train, test = build()
loader = DataLoader(train, batch_size=600)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
for epoch in range(20):
    for a, b in loader:
        optimizer.zero_grad()
        loss(model(a), b).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("second", "is_known"),
    [("hflip(x)", True), ("x", True), ("x[:500]", True), ("Subset(x, rows)", True), ("torch.load('b.pt')", False)],
)
def test_parts_of_the_data_that_are_made_of_one_source_have_no_number(second, is_known):
    text = PARTS.replace("SECOND", second).replace("import PrivacyEngine", "import PrivacyEngine\nimport torch")
    (found,) = check(text, records=60_000, delta=1e-5)
    assert found.epsilon is None or not is_known
    halves = PARTS.replace("[plain, other]", "[Subset(plain, a), Subset(plain, b)]")
    (asked,) = check(halves, records=60_000, delta=1e-5)
    assert "vouch 10" in asked.asks


def test_batches_of_one_order_that_are_added_up_are_a_larger_batch():
    text = PARTS.replace("ConcatDataset([plain, other])", "plain").replace(
        "batch_size=600", "batch_size=600, shuffle=True"
    )
    text = text.replace("max_grad_norm=1.0)", "max_grad_norm=1.0, poisson_sampling=False)").replace(
        "    for a, b in loader:", "    for i, (a, b) in enumerate(loader):"
    )
    text = text.replace("        optimizer.step()", "        if i % 4 == 3:\n            optimizer.step()")
    (asked,) = check(text, records=60_000, delta=1e-5)
    assert set(asked.asks) >= {"batches", "batch_size", "epochs", f"vouch {last(text, 'i % 4')}"}
    given = {"batches": "shuffled", "batch_size": 2400, "epochs": 20}
    found = answered(text, records=60_000, delta=1e-5, **given)
    run = {"noise_multiplier": 1.0, "records": 60_000, "batch_size": 2400, "epochs": 20, "delta": 1e-5}
    assert found.epsilon == fa.dpsgd.epsilon(**run, sampling="shuffled", neighbors="zero_out")
