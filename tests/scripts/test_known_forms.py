"""Loops by hand: what is no known form between clip and step is asked about, and known forms keep their number."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_understood import vouched

GIVEN = {"noise_multiplier": 1.0, "delta": 1e-5}
LOOP = """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
train = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
loader = DataLoader(train, batch_size=500, shuffle=True)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
params = list(model.parameters())
sigma, clip = 1.0, 1.0
kept = [torch.zeros_like(p) for p in params]
for epoch in range(20):
    for x, y in loader:
        grads = [torch.zeros_like(p) for p in params]
        for xi, yi in zip(x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(xi[None]), yi[None]).backward()
            #CLIP
            torch.nn.utils.clip_grad_norm_(params, clip)
            for g, p in zip(grads, params):
                g += p.grad
        #SUM
        for g, p in zip(grads, params):
            g += sigma * clip * torch.randn_like(g)
            p.grad = g / 500
            #NOISY
        optimizer.step()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(params, clip)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CLIP, f"if epoch > 0: {CLIP}"),
        (CLIP, "torch.nn.utils.clip_grad_norm_(params, clip * (1 + epoch))"),
        (CLIP, "torch.nn.utils.clip_grad_norm_(params[:-1], clip)"),
        (CLIP, "torch.nn.utils.clip_grad_norm_(params, clip, norm_type=float('inf'))"),
        ("g += p.grad", "g += p.grad\n                g += p.grad"),
        ("g += p.grad", "g += (5.0 if yi == 9 else 1.0) * p.grad"),
        ("g += p.grad", "g += 3 * p.grad"),
        ("zip(grads, params)", "zip(kept, params)"),
        ("#CLIP", "if float(sum(p.grad.norm() ** 2 for p in params)) > 100: continue"),
        ("#SUM", "for g in grads: g[g.abs() < 0.1] = 0"),
        ("#SUM", "optimizer.param_groups[0]['lr'] = 0.1 / (1 + float(grads[0].norm()))"),
        ("#SUM", "for v, g in zip(kept, grads): v.mul_(0.9).add_(g ** 2, alpha=0.1)"),
        ("#SUM", "for v, g in zip(kept, grads): v.mul_(0.9).add_(g)"),
        ("g += sigma * clip * torch.randn_like(g)", "nz = g != 0\n            g[nz] += sigma * clip * torch.randn(5)"),
        ("#SUM", "scale = torch.sqrt(sum((g ** 2).sum() for g in grads))"),
        ("#NOISY", "p.grad += torch.autograd.grad(F.cross_entropy(model(x), y), p)[0]"),
    ],
)
def test_what_is_no_known_form_is_asked_about(old, new):
    (plain,) = check(LOOP, **GIVEN)
    assert plain.epsilon is not None
    assert old in LOOP
    text = LOOP.replace(old, new)
    (found,) = check(text, **GIVEN)
    assert found.epsilon is None
    if "noise" not in found.asks:
        assert check(text, vouch=vouched(found), **GIVEN)[0].epsilon == plain.epsilon


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CLIP, "torch.nn.utils.clip_grad_norm_(params, max_norm=clip, norm_type=2)"),
        ("g += p.grad", "g.add_(p.grad)"),
        ("g += p.grad", "g += p.grad.detach().clone()"),
        ("g += p.grad", "g += 0.5 * p.grad"),
        ("g += sigma * clip * torch.randn_like(g)", "g.add_(torch.randn_like(g), alpha=sigma * clip)"),
        ("g += sigma * clip * torch.randn_like(g)", "g += torch.normal(0.0, sigma * clip, size=g.shape)"),
        ("p.grad = g / 500", "p.grad = g / len(x)"),
        ("#NOISY", "p.grad = p.grad.sign()"),
        ("#NOISY", "p.grad[p.grad.abs() < 0.01] = 0"),
        (
            f"            {CLIP}\n            for g, p in zip(grads, params):\n                g += p.grad\n",
            "            n = torch.sqrt(sum((p.grad ** 2).sum() for p in params))\n"
            "            for g, p in zip(grads, params):\n                g += p.grad / max(1.0, (n / clip).item())\n",
        ),
        (
            f"            {CLIP}\n            for g, p in zip(grads, params):\n                g += p.grad\n",
            "            n = torch.sqrt(sum(p.grad.norm() ** 2 for p in params)).item()\n"
            "            factor = min(1.0, clip / n)\n"
            "            for g, p in zip(grads, params):\n                g += p.grad * factor\n",
        ),
    ],
)
def test_known_forms_keep_their_number(old, new):
    assert old in LOOP
    (plain,), (found,) = check(LOOP, **GIVEN), check(LOOP.replace(old, new), **GIVEN)
    assert found.epsilon == plain.epsilon


def test_noise_that_is_used_twice_is_asked_about():
    once = LOOP.replace(
        "g += sigma * clip * torch.randn_like(g)", "z = sigma * clip * torch.randn_like(g)\n            g += z"
    )
    assert check(once, **GIVEN)[0].epsilon is not None
    twice = once.replace("#NOISY", "p.data.add_(z / 500, alpha=0.1)")
    (found,) = check(twice, **GIVEN)
    assert found.epsilon is None
