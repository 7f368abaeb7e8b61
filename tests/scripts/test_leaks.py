"""What a script tells of private records beside its noise, public data that is trained on, and what only looks so."""

import tomllib
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.scripts.answers import check
from fastacct.scripts.plain import PUBLIC as PUBLIC_CLAIM
from tests.scripts.test_answers import SCRIPTS, answered
from tests.scripts.test_understood import vouched

PARTS = tomllib.loads((Path(__file__).parent / "parts" / "leaks.toml").read_text("utf-8"))
BASE, TOLD, QUIET, PUBLIC = (PARTS[name] for name in ("plain", "told", "quiet", "public"))
PRE, LIGHTNING = (PUBLIC[name]["MODEL"] for name in ("the_same_optimizer", "lightning"))


def made(parts):
    """The script with lines in some of its places, which are comments in capital letters."""
    lines = []
    for line in BASE.split("\n"):
        place = line.strip().removeprefix("#")
        pad = line[: len(line) - len(line.lstrip())]
        found = parts.get(place, "").rstrip("\n").split("\n") if line.strip().startswith("#") else [line.strip()]
        lines += [pad + one for one in found]
    return "\n".join(lines)


PLAIN = check(BASE)[0].epsilon


def test_the_plain_script_has_its_number():
    run = {"noise_multiplier": 1.2, "sample_rate": -(-(2**24) // 235) / 2**24, "steps": 2350}
    assert fa.dpsgd.epsilon(**run, delta=1e-5) == PLAIN


@pytest.mark.parametrize("name", TOLD)
def test_what_tells_of_private_records_beside_the_noise_gets_no_number(name):
    (found,) = check(made(TOLD[name]), epochs=10)
    assert found.epsilon is None


@pytest.mark.parametrize("name", QUIET)
def test_what_only_looks_so_keeps_its_number(name):
    assert answered(made(QUIET[name])).epsilon == PLAIN


SECOND = "again = datasets.MNIST('.', train=True, download=True)\n"


@pytest.mark.parametrize(
    ("lines", "is_private"),
    [
        ("m = again.data.float().mean().item()\ntrain_set.transform = transforms.Normalize((m,), (0.3,))", True),
        ("m = again.data.float().mean().item()\nprint(m)", True),
        ("m = len(again)\nprint(m)", False),
    ],
)
def test_a_data_set_that_is_made_twice_is_one(lines, is_private):
    (found,) = check(made({"DATA": SECOND + lines}))
    assert (found.epsilon is None) is is_private
    assert answered(made({"DATA": SECOND.replace("train=True", "train=False") + lines})).epsilon == PLAIN


LOADER = "DataLoader(train_set, batch_size=256, shuffle=True)"


@pytest.mark.parametrize("name", [*TOLD, *QUIET, "scaled in an argument", "features"])
def test_a_loader_that_only_make_private_gives_a_name_is_private_data(name):
    more = {
        "scaled in an argument": {
            "PRIVATE": "m = torch.stack([x.mean(0) for x, _ in train_loader]).mean(0)",
            "STEP": "kept = model((x - m).float())",
        },
        "features": {
            "END": f"f = torch.cat([model[:3](x) for x, _ in {LOADER}])\nnp.save('f.npy', f.numpy())",
        },
    }
    text = made((TOLD | QUIET | more)[name]).replace(f"train_loader = {LOADER}\n", "")
    text = text.replace("data_loader=train_loader", f"data_loader={LOADER}")
    if name in QUIET:
        assert answered(text, epochs=10).epsilon == PLAIN
    else:
        assert check(text, epochs=10)[0].epsilon is None


@pytest.mark.parametrize(
    ("lines", "is_private"),
    [
        ("x, y = next(iter(train_loader))\nC = criterion(model(x), y).item()", True),
        ("C = train_set.data.float().norm(dim=1).median().item()", True),
        ("criterion(model(train_set.data), y).backward()\nC = model.weight.grad.norm().item()", True),
        (
            "for x, y in train_loader:\n    criterion(model(x), y).backward()\n    C = model.weight.grad.norm()",
            True,
        ),
        ("x, y = next(iter(test_loader))\nC = criterion(model(x), y).item()", False),
        ("C = float(np.sqrt(len(train_set)))", False),
    ],
)
def test_a_clipping_norm_of_private_records_gets_no_number(lines, is_private):
    text = made({"MODEL": lines}).replace("max_grad_norm=1.0", "max_grad_norm=C")
    (found,) = check(text)
    assert found.epsilon is None or not is_private
    assert answered(text).epsilon == PLAIN


@pytest.mark.parametrize("name", PUBLIC)
def test_training_without_noise_is_asked_about_until_its_data_is_said_to_be_public(name):
    (found,) = check(made(PUBLIC[name]))
    assert found.epsilon is None
    assert any(PUBLIC_CLAIM in why for why in found.asks.values())
    assert answered(made(PUBLIC[name])).epsilon == PLAIN


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"PRIVATE": "optimizer.noise_multiplier = 0.0"}, "noise_multiplier is set to 0: no noise is added"),
        ({"PRIVATE": "OFF = 0\noptimizer.noise_multiplier = OFF"}, "noise_multiplier is set to 0: no noise is added"),
        ({"DATA": "sigma = 0.0"}, "noise multiplier 0: no noise is added"),
    ],
)
def test_noise_that_is_missing_is_named(parts, why):
    text = made(parts).replace("noise_multiplier=1.2", f"noise_multiplier={'sigma' if 'DATA' in parts else 1.2}")
    (found,) = check(text, batches="poisson", epochs=10)
    assert found.epsilon is None
    assert why in str(found)


HAND = """import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets
loader = DataLoader(datasets.MNIST('.', train=True), batch_size=64, shuffle=True)
model = torch.nn.Linear(784, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
C, SIGMA = 1.0, 1.1
for epoch in range(5):
    for x, y in loader:
        total = [torch.zeros_like(p) for p in model.parameters()]
        for xi, yi in zip(x, y):
            grads = torch.autograd.grad(F.cross_entropy(model(xi[None]), yi[None]), model.parameters())
            scale = min(1.0, C / torch.sqrt(sum(g.norm() ** 2 for g in grads)))
            for t, g in zip(total, grads):
                t.add_(g * scale)
        for p, t in zip(model.parameters(), total):
            p.grad = (t + SIGMA * C * torch.randn_like(t)) / len(x)
        optimizer.step()
"""


def test_a_loop_by_hand_without_noise_is_named():
    (plain,) = check(HAND, noise_multiplier=1.1, delta=1e-5, vouch=vouched(check(HAND)[0]))
    run = {"noise_multiplier": 1.1, "records": 60_000, "batch_size": 64, "epochs": 5, "sampling": "shuffled"}
    assert plain.epsilon == fa.dpsgd.epsilon(**run, delta=1e-5, neighbors="zero_out")
    (found,) = check(HAND.replace("t + SIGMA * C * torch.randn_like(t)", "t"), noise_multiplier=1.1, delta=1e-5)
    assert found.epsilon is None
    assert "no noise is added" in found.asks["noise"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("shown_ddp_per_process_batch", {"batches": "poisson", "records": 50_000}),
        ("shown_private_transformers_accumulation", {"batches": "shuffled"}),
        ("shown_weighted_sampler_without_poisson", {"batches": "poisson"}),
        ("accumulation_by_hand_in_opacus", {"batches": "poisson", "epochs": 3, "batch_size": 100, "records": 50_000}),
        (
            "flower_local_dp",
            {"batches": "poisson", "noise_multiplier": 1.0, "records": 9, "batch_size": 3, "epochs": 1},
        ),
    ],
)
def test_no_answer_to_what_is_asked_leads_to_a_number_below_the_truth(name, given):
    (found,) = check(SCRIPTS[name]["script"], **given, delta=1e-5)
    assert found.epsilon is None


def test_a_flag_that_a_private_loop_needs_is_said():
    (found,) = check(SCRIPTS["shown_engine_none"]["script"])
    assert "only where --dp is True, which is not its default: else this trains without privacy." in found.notes
    assert "--dp" not in found.defaults


@pytest.mark.parametrize(
    ("end", "is_quiet"),
    [
        ("_ = subprocess.run(['cp', f'e{losses.index(min(losses))}.pt', 'final.pt'])", False),
        ("kept = shutil.copy(f'e{np.argmin(losses)}.pt', 'final.pt')", False),
        ("best = losses.index(min(losses))\ntext = 'epoch ' + str(best)\nprint(text)", True),
    ],
)
def test_a_choice_that_is_done_and_not_only_shown_is_asked_about(end, is_quiet):
    parts = {
        "TOP": "import shutil, subprocess",
        "PRIVATE": "losses = []",
        "EPOCH": "losses.append(running)",
        "END": end,
    }
    (found,) = check(made(parts))
    assert found.epsilon is None or is_quiet
    assert answered(made(parts)).epsilon == PLAIN
