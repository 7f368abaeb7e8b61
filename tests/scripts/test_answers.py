"""Training scripts: the sampler of each is right or asked for, and no number is wrong."""

import tomllib
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.scripts.answers import check

HERE = Path(__file__).parent
SCRIPTS = {
    one["name"]: one
    for name in sorted(path.name for path in HERE.glob("*.toml"))
    for one in tomllib.loads((HERE / name).read_text("utf-8"))["scripts"]
}


def answered(script, **given):
    """The only loop of a script of which each line that is asked about is right."""
    (found,) = check(script, **given)
    lines = [int(one.split()[1]) for one in found.asks if one.startswith("vouch")]
    return check(script, vouch=lines, **given)[0] if lines else found


def bounds(number):
    """The bounds of a run as the data describes it."""
    run = dict(number)
    length = run.pop("length", None)
    if length:
        run |= {"sample_rate": -(-(2**24) // length) / 2**24, "steps": run.pop("passes") * int(1 / (1 / length))}
    return fa.dpsgd.epsilon_bounds(**run)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_get_their_sampler_and_their_number_or_are_asked(name):
    expected = SCRIPTS[name]
    found = check(expected["script"])
    if expected["sampling"] == "none":
        assert found == []
        return
    assert {one.sampling for one in found} == {expected["sampling"]}
    asks = {word for one in found for ask in one.asks for word in (ask, ask.split()[0])}  # vouch 12
    assert asks >= set(expected.get("asks", ()))
    if "number" in expected:
        one = answered(expected["script"])
        assert one.asks == {}
        right = bounds(expected["number"])
        assert one.epsilon == pytest.approx(right.upper, rel=1e-9)
        assert (one.epsilon_lower is None) == expected.get("only_upper", False)
        assert one.epsilon_lower is None or one.epsilon_lower == pytest.approx(right.lower, rel=1e-9)
    else:
        assert all(one.epsilon is None for one in found)
    if "breaks" in expected:
        (one,) = found
        assert expected["breaks"] in expected["script"].splitlines()[one.breaks[0] - 1]
        assert str(one.breaks[0]) in str(one)
    else:
        assert all(one.breaks is None for one in found)


STEPS = SCRIPTS["function_default_overridden"]["script"].replace("    return ", "    print(").replace("1e-5)", "1e-5))")


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ('setattr(optimizer, "noise_multiplier", 0.3)', "noise_multiplier"),
        ('optimizer.__dict__["noise_multiplier"] = 0.3', "noise_multiplier"),
        ('vars(optimizer)["noise_multiplier"] = 0.3', "noise_multiplier"),
        ('engine.load_checkpoint(path="c.pt", module=model)', "epochs"),
        ('engine.accountant.load_state_dict(torch.load("a.pt"))', "epochs"),
        ("engine.accountant.history.append((1.0, 0.1, 1000))", "epochs"),
        ("engine.accountant.step(noise_multiplier=1.0, sample_rate=0.5)", "epochs"),
        ("loader.batch_sampler.batch_size = 20_000", "batches"),
        ("optimizer.step = lambda: None", "batches"),
        ("optimizer.add_noise = lambda: None", "noise_multiplier"),
        ("go = optimizer.step", "epochs"),
        ("scaler.step(optimizer)", "epochs"),
        ("train_elsewhere(model, optimizer, loader)", "vouch 14"),
    ],
)
def test_a_line_that_changes_steps_or_noise_is_asked_about(line, asks):
    (plain,) = check(STEPS)
    assert plain.asks == {}
    place = "    for epoch in"
    (changed,) = check(STEPS.replace(place, f"    {line}\n{place}"))
    assert changed.epsilon is None
    assert asks in changed.asks


@pytest.mark.parametrize(
    ("name", "old", "new", "asks"),
    [
        ("tf_privacy_adam_and_a_statement", "dataset = tf.data.Dataset", "other = tf.data.Dataset", "batches"),
        ("tf_privacy_adam_and_a_statement", "shuffle(60_000)", "shuffle(-1)", "batches"),
        ("tf_privacy_adam_and_a_statement", "shuffle(60_000)", "shuffle()", "batches"),
        ("lightning_own_loader", "data_loader=", "loader=", "batches"),
        (
            "memory_manager_around_each_epoch",
            "data_loader=train_loader, max",
            "data_loader=memory_safe_data_loader, max",
            "epochs",
        ),
        (
            "a_pretraining_on_public_data_first",
            "        optimizer.step()\nprint",
            "        pass\n\n\ndef again():\n    optimizer.step()\n    again()\n\n\nprint",
            "epochs",
        ),
    ],
)
def test_what_is_made_of_itself_or_is_not_given_is_asked_about(name, old, new, asks):
    assert old in SCRIPTS[name]["script"]
    (found,) = check(SCRIPTS[name]["script"].replace(old, new), records=60_000)
    assert found.epsilon is None
    assert asks in found.asks


PARSED = SCRIPTS["a_sampler_only_where_classes_are_balanced"]["script"]


@pytest.mark.parametrize(
    "line",
    [
        "    p = fix(p)\n    return p.parse_args()",
        "    args = p.parse_args()\n    fix(args)\n    return args",
        "    if big:\n        return big\n    return p.parse_args()",
        "    return p.parse_args(words)",
    ],
)
def test_a_command_line_that_a_function_reads_counts_where_nothing_changes_it(line):
    (plain,) = check(PARSED, records=50_000, batch_size=256)
    assert plain.inputs["noise_multiplier"] == 1.3
    assert plain.defaults["--sigma"] == 1.3
    (changed,) = check(PARSED.replace("    return p.parse_args()", line), records=50_000, batch_size=256)
    assert "noise_multiplier" in changed.asks


CYCLIC = """import numpy as np
from jax_privacy import batch_selection
plan = batch_selection.CyclicPoissonSampling(sampling_prob=0.01, iterations=1000)
for rows in plan.batch_iterator(50_000, rng=np.random.default_rng()):
    step(rows)
"""
LOOP = CYCLIC[CYCLIC.index("for rows") :]


@pytest.mark.parametrize(
    "script",
    [
        CYCLIC.replace(LOOP, "for e in range(5):\n    for rows in plan.batch_iterator(50_000):\n        step(rows)\n"),
        CYCLIC.replace(LOOP, "def main():\n    " + LOOP.replace("\n", "\n    ").rstrip() + "\nmain()\nmain()\n"),
        CYCLIC.replace(LOOP, "import dataclasses\nplan = dataclasses.replace(plan, iterations=9000)\n" + LOOP),
        CYCLIC.replace("    step(rows)", "    for k in range(9):\n        step(rows)"),
        CYCLIC.replace("plan.batch_iterator(50_000, rng=np.random.default_rng())", "list(plan.batch_iterator(9)) * 9"),
        CYCLIC.replace(
            LOOP, "def run(p):\n    for rows in p.batch_iterator(9):\n        step(rows)\nrun(plan)\nrun(plan)"
        ),
    ],
)
def test_batches_of_jax_privacy_that_are_gone_through_again_are_asked_about(script):
    plain = answered(CYCLIC, noise_multiplier=1.1, delta=1e-5)
    assert plain.epsilon == fa.dpsgd.epsilon(noise_multiplier=1.1, sample_rate=0.01, steps=1000, delta=1e-5)
    (found,) = check(script, noise_multiplier=1.1, delta=1e-5)
    assert found.epsilon is None
    assert any("are gone through once" in why for why in found.asks.values())


OPACUS = """from opacus import PrivacyEngine
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=100, shuffle=True)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
    poisson_sampling=False)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
"""


def test_gradients_of_one_step_that_are_clipped_one_by_one_are_asked_about():
    """Where batches are not Poisson, Opacus adds them up: a record moves the sum by several norms."""
    assert answered(OPACUS, records=10_000, delta=1e-5).epsilon is not None
    twice = "        loss(model(x), y).backward()\n"
    for script in (OPACUS.replace(twice, 2 * twice), OPACUS.replace(twice, "        for k in range(2):\n    " + twice)):
        (found,) = check(script, records=10_000, delta=1e-5)
        assert found.epsilon is None
        assert "batches" in found.asks


SMALL = """import torch
import torch.nn.functional as F
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, ConcatDataset, Subset
data = torch.utils.data.TensorDataset(torch.randn(1000, 20))
loader = DataLoader(data, batch_size=100)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
for epoch in range(3):
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
print(delta := 1e-5)
"""
MODEL, LOSS, DATA = "        out = model(x)", "F.cross_entropy(out, y)", "loader = DataLoader(data, batch_size=100)"
COLLATE = "def co(batch):\n    {}\n    return torch.utils.data.default_collate(batch)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *((MODEL, f"        {line}\n{MODEL}") for line in (
            "x, y = torch.cat([x, x.flip(3)]), torch.cat([y, y])",
            "x = torch.vstack((x, augmented(x)))",
            "both = [x, x + 1]; x = torch.cat(both)",
            "x, y = x.repeat(2, 1), y.repeat(2)",
            "x = x.repeat_interleave(2, dim=0)",
            "x = torch.tile(x, (2, 1))",
            "x = x[torch.arange(len(x)).repeat(2)]",
            "x = torch.stack([augmented(x) for _ in range(4)]).flatten(0, 1)",
            "x = torch.stack([augmented(x) for _ in range(4)], 1).view(-1, 3, 32, 32)",
            "x = rearrange(x, 'b k c h w -> (b k) c h w')",
            "x = (x - x.mean(0)) / x.std(0)",
            "x = x / x.max()",
            "x = x - x.mean(0)",
            "x = x / 255; x = x - x.mean()",
            "x = 0.5 * x + 0.5 * x[torch.randperm(len(x))]",
            "order = torch.randperm(len(x)); x = x + x[order]",
            "x = x + torch.roll(x, 1, 0)",
            "x = x + x.flip(0)",
            "x, y = cutmix(x, y)",
        )),
        *((LOSS, line) for line in (
            "F.nll_loss(F.log_softmax(out, dim=0), y)",
            "F.cross_entropy(out @ out.T, y)",
            "F.cross_entropy(out, y, reduction='none').topk(9)[0].mean()",
            "nt_xent(out, y)",
            "torch.cdist(out, out).sum()",
        )),
        *((DATA, f"{COLLATE.format(line)}loader = DataLoader(data, batch_size=100, collate_fn=co)") for line in (
            "batch = batch * 2",
            "batch = batch + batch",
            "batch *= 2",
            "batch = [*batch, *batch]",
            "batch = [one for one in batch for _ in range(3)]",
            "batch.extend(batch)",
            "batch = list(itertools.chain(batch, batch))",
            "out = []\n    for x in batch:\n        out.append(x)\n        out.append(-x)",
        )),
        *((DATA, DATA.replace("data,", line)) for line in (
            "ConcatDataset([data] * 10),", "ConcatDataset([data, data]),", "data + data,",
            "Subset(data, list(range(9)) * 2),",
        )),
        (DATA, f"model = torch.nn.BatchNorm2d(3)\n{DATA}"),
        (DATA, f"class M(torch.nn.BatchNorm1d):\n    pass\n{DATA}"),
        (LOSS, "F.cross_entropy(out, y, reduction='none'); loss, _ = torch.topk(loss, 9)"),
        (DATA, f"class D:\n    def __getitem__(self, index):\n        return rows[index % 1000]\n{DATA}"),
        (DATA, f"class M:\n    def forward(self, x):\n        return self.f(torch.cat((x, x)))\n{DATA}"),
    ],
)  # fmt: skip
def test_a_record_that_counts_twice_or_changes_others_gets_no_number(old, new):
    given = {"records": 1000, "delta": 1e-5}
    (plain,) = check(SMALL, **given)
    assert plain.epsilon is not None
    assert plain.notes == ()
    assert "each record is one example" in str(plain)
    (found,) = check(SMALL.replace(old, new), **given)
    assert found.epsilon is None


@pytest.mark.parametrize(
    "line",
    [
        "x = x.repeat(1, 3, 1, 1)",
        "x = x.view(-1, 784)",
        "x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)",
        "x = torch.cat([x, x ** 2], dim=1)",
        "x = x.flip(3)",
        "x = x.to(device); seen += x.size(0); right = right + (model(x).argmax(1) == y).sum().item() / len(y)",
        "x = (x - MEAN) / STD",
        "x = (x + 0.1 * torch.randn_like(x)).clamp(0, 1)",
        "target = F.one_hot(y, 10).float() * 0.9 + 0.01; out = -(target * F.log_softmax(x, dim=1)).sum(dim=1).mean()",
        "x = torch.einsum('bi,ij->bj', x, W)",
    ],
)
def test_what_is_done_to_each_record_alone_keeps_its_number(line):
    given = {"records": 1000, "delta": 1e-5}
    (plain,) = check(SMALL, **given)
    found = answered(SMALL.replace(MODEL, f"        {line}\n{MODEL}"), **given)
    assert found.epsilon == plain.epsilon


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("optimizer._noise_multiplier = 0.1", "noise_multiplier"),
        ("optimizer.max_grad_norm = 100.0", "noise_multiplier"),
        ("monkeypatch.setattr(torch, 'normal', zeros)", "noise_multiplier"),
        ("unittest.mock.patch('opacus.optimizers.optimizer._generate_noise').start()", "noise_multiplier"),
        ("torch.normal = zeros", "noise_multiplier"),
        ("trainer.fit_loop.max_epochs = 100", "epochs"),
        ("trainer.args.max_steps = 100", "epochs"),
        ("trainer.args.per_device_train_batch_size = 100", "batches"),
    ],
)
def test_settings_that_are_changed_later_are_asked_about(line, asks):
    (found,) = check(f"import unittest.mock\n{SMALL.replace(DATA, f'{DATA}{chr(10)}{line}')}", delta=1e-5)
    assert found.epsilon is None
    assert asks in found.asks


def test_a_seed_of_the_noise_and_batches_that_are_made_elsewhere_are_noted():
    (found,) = check(SMALL.replace(DATA, f"torch.manual_seed(0)\n{DATA}"), delta=1e-5)
    assert found.epsilon is not None
    assert "line 6: torch.manual_seed(0): who knows the seed can take the noise away." in found.notes
    text = SMALL.replace(DATA, f"torch.manual_seed(0)\n{DATA}").replace(
        "PrivacyEngine()", "PrivacyEngine(secure_mode=True)"
    )
    assert check(text, delta=1e-5)[0].notes == ()
    (found,) = check(SMALL.replace("size=100)", "size=100, collate_fn=other.collate)"), delta=1e-5)
    assert found.epsilon is None


def test_the_rate_of_a_sampler_that_draws_fewer_indices_is_that_of_its_loader():
    """Opacus takes 1 / len(loader) for the rate, and the weights for nothing."""
    script = SCRIPTS["weights_and_fewer_indices"]["script"]
    plain = answered(script)
    assert plain.epsilon > 3.169
    assert answered(script, records=50_000).epsilon == plain.epsilon
    (asked,) = check(script.replace("=10000", "=many"))
    assert "len(loader)" in asked.asks["records"]
    told = answered(script.replace("=10000", "=many"), records=10_000)
    assert told.epsilon == plain.epsilon
    assert "len(loader)" in str(told)
    for name in ("indices_as_a_sampler", "a_part_of_the_indices_as_a_sampler"):
        assert "len(loader)" in check(SCRIPTS[name]["script"])[0].asks["records"]
        assert "len(loader)" in str(answered(SCRIPTS[name]["script"], records=40_000, batch_size=512))


@pytest.mark.parametrize(
    "line",
    [
        "F.cross_entropy(out, y) + (out.mean(0) ** 2).sum()",
        "F.cross_entropy(out, y) + out.mean(dim=0).pow(2).sum()",
        "F.cross_entropy(out, y) + torch.mean(out, 0).norm()",
        "F.cross_entropy(out, y) - torch.distributions.Categorical(out.softmax(1).mean(0)).entropy()",
        "F.cross_entropy(out, y) + out.max()",
        "F.cross_entropy(out, y) + out.sum().abs()",
        "F.cross_entropy(out, y) ** 2",
        "F.cross_entropy(out, y).exp()",
        "torch.sqrt(F.mse_loss(out, y))",
        "((F.cross_entropy(out, y) - 0.1).abs() + 0.1)",
        "F.cross_entropy(out, y) * out.mean()",
        "1 / F.kl_div(out, y)",
        "F.cross_entropy(out, y); loss = loss if loss > 0.1 else 0 * loss",
        "F.cross_entropy(out, y); loss = loss * (loss > 0.1)",
        "F.cross_entropy(out, y)\n        if loss.item() > 5:\n            loss = loss * 0",
        "F.cross_entropy(out, y); loss = loss / loss.detach()",
        "F.cross_entropy(out, y); loss **= 2",
        "nn.CrossEntropyLoss()(out, y).log()",
        "model(x, labels=y).loss ** 2",
        "max(F.cross_entropy(out, y), 0.1)",
    ],
)
def test_a_function_of_a_mean_over_the_batch_gets_no_number(line):
    script = SMALL.replace("import torch.nn.functional", "import torch.nn as nn\nimport torch.nn.functional")
    (found,) = check(script.replace(LOSS, line), records=1000, delta=1e-5)
    assert found.epsilon is None


@pytest.mark.parametrize(
    "line",
    [
        "F.cross_entropy(out, y) / 4 + 0.5 * (out ** 2).mean()",
        "F.cross_entropy(out, y, reduction='none'); loss = (loss ** 2).mean()",
        "(F.mse_loss(out, y, reduction='none').mean(1) ** 2).mean()",
        "F.cross_entropy(out, y) + 1e-4 * sum(p.pow(2).sum() for p in model.parameters()) ** 2",
        "F.cross_entropy(out, y) * x.size(0) / len(data)",
        "F.cross_entropy(out, y); ppl = torch.exp(loss.detach()); print(f'{loss.item() ** 2:.3f}')",
        "F.cross_entropy(out, y)\n        if loss.item() < best:\n            best = loss.item()",
        "F.binary_cross_entropy(out, y) - 0.5 * torch.sum(1 + x - out.pow(2) - x.exp())",
        "torch.stack([F.cross_entropy(one, y) for one in heads]).mean()",
        "torch.mean(torch.sum((out - x) ** 2, dim=1))",
        "(out.max(1)[0] - out.norm(2, dim=1)).abs().mean()",
        "nn.MSELoss(reduction='none')(out, y).sqrt().mean()",
        "model(x, longest=x.max())",
    ],
)
def test_a_sum_over_records_keeps_its_number(line):
    script = SMALL.replace("import torch.nn.functional", "import torch.nn as nn\nimport torch.nn.functional")
    given = {"records": 1000, "delta": 1e-5}
    (plain,) = check(script, **given)
    found = answered(script.replace(LOSS, line), **given)
    assert found.epsilon == plain.epsilon
