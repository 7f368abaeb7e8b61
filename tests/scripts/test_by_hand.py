"""Loops by hand are asked about as a whole; loops of JAX Privacy, where they have another form than the known one."""

import pytest

import fastacct as fa
from fastacct.scripts.answers import check
from fastacct.scripts.found import Loop
from fastacct.scripts.names import Script
from fastacct.scripts.understood import HAND
from tests.scripts.test_answers import answered
from tests.scripts.test_understood import last, vouched

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
        ("#CLIP", ""),
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
def test_a_loop_by_hand_is_asked_about_as_a_whole(old, new):
    """Right or wrong: what it does between clip and step is not followed, and its user says whether it is that."""
    assert old in LOOP
    text = LOOP.replace(old, new)
    (found,) = check(text, **GIVEN)
    assert found.epsilon is None
    line = last(text, "for x, y in loader")
    assert HAND in found.asks[f"vouch {line}"]
    if "noise" not in found.asks:
        (told,) = check(text, vouch=vouched(found), **GIVEN)
        run = {"noise_multiplier": 1.0, "records": 60_000, "batch_size": 500, "epochs": 20, "sampling": "shuffled"}
        assert told.epsilon == fa.dpsgd.epsilon(**run, delta=1e-5, neighbors="zero_out")
        assert f"{HAND}, as --vouch says" in str(told)


@pytest.mark.parametrize(
    "clip",
    [
        "if norm > clip:\n                for p in params: p.grad *= clip / norm",
        "clip_f = clip / norm\n            if clip_f < 1:\n                for p in params: p.grad.mul_(clip_f)",
        "factor = clip / norm if norm > clip else 1.0\n            for p in params: p.grad.mul_(factor)",
        "if norm < clip:\n                for p in params: p.grad *= clip / norm",
    ],
)
def test_a_clip_that_is_a_test_is_asked_about_too(clip):
    norm = "norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in params))\n            "
    (found,) = check(LOOP.replace(CLIP, norm + clip), **GIVEN)
    assert found.epsilon is None
    assert HAND in str(found.asks)


def test_all_claims_of_a_line_are_shown():
    """--vouch LINE is an answer to all of them."""
    script = Script(LOOP)
    loop = Loop(script, "by hand", script.nodes[0], {})
    for claim in ("one is true", "another is", "one is true"):
        loop.vouch_line(7, "x = f(x)", claim)
    assert loop.asks == {"vouch 7": "line 7: x = f(x): if one is true; and if another is"}


OPTAX = """
import optax, numpy as np
x, y = np.load("private.npz")["x"], np.load("private.npz")["y"]
rng = np.random.default_rng()
tx = TX
state = tx.init(params)
for epoch in range(10):
    order = rng.permutation(60_000)
    for i in range(0, 60_000, 500):
        grads = jax.vmap(jax.grad(loss), (None, 0, 0))(params, x[order[i : i + 500]], y[order[i : i + 500]])
        updates, state = tx.update(grads, state)
        params = optax.apply_updates(params, updates)
"""


@pytest.mark.parametrize("chain", ["optax.chain(DP, optax.sgd(0.1))", "optax.chain(optax.masked(DP, m), optax.sgd(1))"])
def test_a_loop_with_optax_is_asked_about_as_a_whole(chain):
    private = "optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=1.0, seed=SEED)"
    given = GIVEN | {"batches": "shuffled", "records": 60_000, "batch_size": 500, "epochs": 10}
    (found,) = check(OPTAX.replace("TX", chain.replace("DP", private)), **given)
    assert found.epsilon is None
    assert "the private aggregate is given the plain gradients" in str(found.asks)


JAX = """
import jax, numpy as np, optax, secrets
from jax_privacy import batch_selection, noise_addition
from jax_privacy.clipping import clipped_grad
X, Y = np.load("x.npy"), np.load("y.npy")
grad_fn = clipped_grad(loss_fn, l2_clip_norm=1.0, batch_argnums=1, normalize_by=1000)
privatizer = noise_addition.gaussian_privatizer(stddev=grad_fn.sensitivity() * 1.2, prng_key=KEY)
noise_state = privatizer.init(params)
optimizer = optax.adam(1e-3)
opt_state = optimizer.init(params)
sampler = batch_selection.CyclicPoissonSampling(sampling_prob=0.02, iterations=2000, cycle_length=1)
for idx in sampler.batch_iterator(50_000, rng=np.random.default_rng()):
    x, y = X[idx], Y[idx]
    grads = grad_fn(params, (x, y))
    noisy, noise_state = privatizer.update(grads, noise_state)
    updates, opt_state = optimizer.update(noisy, opt_state)
    params = optax.apply_updates(params, updates)
"""
UPDATE = "    noisy, noise_state = privatizer.update(grads, noise_state)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimizer.update(noisy,", "optimizer.update(grads,"),
        ("noisy, noise_state =", "noisy, _ ="),
        (UPDATE, "    noise_state = privatizer.init(params)\n" + UPDATE),
        (UPDATE, UPDATE + UPDATE),
        (UPDATE, UPDATE + "    noisy = noisy + jax.grad(loss_fn)(params, (x, y))\n"),
        (UPDATE, "    grads = jax.tree.map(lambda g: 10 * g, grads)\n" + UPDATE),
        (UPDATE, "    grads = jax.tree.map(lambda g: g / max(len(idx), 1), grads)\n" + UPDATE),
        ("    x, y =", "    idx = np.resize(idx, 1024)\n    x, y ="),
        ("    x, y =", "    idx = idx[:900]\n    x, y ="),
        ("    x, y =", "    idx = np.union1d(idx, (idx + 1) % 50_000)\n    x, y ="),
        ("    grads =", "    x = np.concatenate([x, x[:, ::-1]])\n    grads ="),
    ],
)
def test_jax_privacy_in_another_form_is_asked_about(old, new):
    plain = answered(JAX, **GIVEN)
    assert plain.epsilon is not None
    assert old in JAX
    (found,) = check(JAX.replace(old, new), **GIVEN)
    assert found.epsilon is None
    assert check(JAX.replace(old, new), vouch=vouched(found), **GIVEN)[0].epsilon == plain.epsilon


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    x, y =", "    idx = np.sort(idx)\n    x, y ="),
        ("grads", "noisy"),
        (UPDATE, UPDATE + "    noisy = noisy + 1e-4 * params\n"),
    ],
)
def test_known_forms_of_jax_privacy_keep_their_number(old, new):
    plain, found = answered(JAX, **GIVEN), answered(JAX.replace(old, new), **GIVEN)
    assert found.epsilon == plain.epsilon


@pytest.mark.parametrize(("old", "new"), [("default_rng()", "default_rng(42)"), ("KEY", "jax.random.key(0)")])
def test_a_seed_that_the_script_says_is_noted(old, new):
    assert "a seed that the script says" not in str(answered(JAX, **GIVEN))
    assert "a seed that the script says" in str(answered(JAX.replace(old, new), **GIVEN))
