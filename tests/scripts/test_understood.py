"""What a script does in a way that is not known is asked about line by line, and counts as the user vouches for it."""

import pytest

from fastacct.scripts.answers import check
from fastacct.scripts.plain import PUBLIC
from tests.scripts.test_answers import SCRIPTS, answered
from tests.scripts.test_copies import ARRAYS, PLAIN
from tests.scripts.test_scales import GIVEN, GROUPS

STEP = "        optimizer.step()"


def vouched(found):
    """The lines that an answer asks to vouch for."""
    return [int(name.split()[1]) for name in found.asks if name.startswith("vouch")]


def last(text, line):
    """The number of the last line that has some words."""
    return max(place for place, one in enumerate(text.splitlines(), 1) if line in one)


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        ("X = winsorized(X)", "winsorized"),
        ("from ours import winsorized\nX = winsorized(X)", "= winsorized"),
        ("frame = frame.merge(visits, on='patient')\nX = frame.values", "merge"),
        ("frame = frame.interpolate()\nX = frame.values", "interpolate"),
        ("frame = frame.sort_values('day').rolling(7).max()\nX = frame.values", "rolling"),
        ("frame['last'] = frame.groupby('patient').x.shift(1)\nX = frame.values", "groupby"),
        ("X = np.stack([X[i : i + 16] for i in range(len(X) - 16)])", "i + 16"),
        ("for c in range(X.shape[1]):\n    X[:, c] = X[:, c] - X[:, c].mean()", "mean"),
        ("keep = X.std() * 3\nX = np.where(np.abs(X) > keep, 0, X)", "np.where"),
    ],
)
def test_data_that_is_made_in_a_way_that_is_not_known_is_asked_about(lines, at):
    text = ARRAYS.replace("#DATA", lines)
    (found,) = check(text, records=30_000)
    assert found.epsilon is None
    if "noise" in found.asks:  # what is known to have no number
        return
    assert last(text, at) in vouched(found)
    (told,) = check(text, records=30_000, vouch=vouched(found))
    assert told.epsilon == PLAIN
    assert "as --vouch says" in str(told)


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        ("        a = memory.exchange(a)", "exchange"),
        ("        a = a * a.abs().max()", "max"),
        ("        if a.mean() > 0.1:\n            switch(on)", "a.mean"),
        ("        for p in head.parameters():\n            p.data.add_(p.grad, alpha=-0.1)", "add_"),
        ("        other.step()", "other.step"),
        (
            "        for g in optimizer.param_groups:\n            g['lr'] = 0.1 * F.cross_entropy(model(a), b).item()",
            "g['lr']",
        ),
    ],
)
def test_a_line_of_the_loop_that_is_not_known_is_asked_about(lines, at):
    text = ARRAYS.replace("#DATA", "other = thing()")
    place = "        optimizer.zero_grad()" if at in ("a.mean", "exchange", "max") else STEP
    text = text.replace(place, f"{lines}\n{place}").replace(f"{STEP}\n{STEP}", STEP)
    (found,) = check(text, records=30_000)
    assert found.epsilon is None
    assert last(text, at) in vouched(found)
    (told,) = check(text, records=30_000, vouch=vouched(found))
    assert told.epsilon == PLAIN


@pytest.mark.parametrize(
    "item",
    [
        "return self.x[i], self.x[random.randrange(len(self.x))]",
        "j = self.near(i)\n        return self.x[i], self.y[j]",
        "return self.x[max(0, i - 4)], self.y[i]",
    ],
)
def test_a_data_set_that_has_others_in_an_item_is_asked_about(item):
    data = "class Pairs(Dataset):\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n\n"
    data += f"    def __len__(self):\n        return len(self.x)\n\n    def __getitem__(self, i):\n        {item}\n\n"
    plain = ARRAYS.replace("#DATA", data).replace("TensorDataset(torch.tensor(X), torch.tensor(y))", "Pairs(X, y)")
    (found,) = check(plain, records=30_000)
    assert found.epsilon is None
    assert last(plain, item.splitlines()[-1].strip()) in vouched(found)
    for known in ("return self.x[i], self.y[i]", "k = self.rows[i]\n        return self.x[k], self.y[k]"):
        assert answered(plain.replace(item, known), records=30_000).epsilon == PLAIN
    (twice,) = check(
        plain.replace(item, known).replace("len(self.x)\n\n    def __g", "len(self.x) * 2\n\n    def __g"),
        records=30_000,
    )
    assert twice.epsilon is None


def test_clipped_gradients_of_records_by_hand_are_seen_or_asked_about():
    given = GIVEN | {"batches": "shuffled", "batch_size": 500}
    text = GROUPS.replace("zip(images.split(8), targets.split(8))", "range(0, len(images), 8)")
    text = text.replace("loss(net(x), y)", "loss(net(images[x : x + 8]), targets[x : x + 8])").replace(
        "x, y in range", "x in range"
    )
    (found,) = check(text, **given)
    assert found.epsilon is None
    assert vouched(found) == [last(text, "in loader")]
    (told,) = check(text, **given, vouch=vouched(found))
    assert told.epsilon is not None
    (single,) = check(text.replace("range(0, len(images), 8)", "range(len(images))"), **given)
    assert vouched(single) == [last(text, "in loader")]


JAX = SCRIPTS["jax_by_hand"]["script"]


SHUFFLED = """
from opacus.accountants import RDPAccountant
accountant = RDPAccountant()
"""


def test_an_accountant_of_poisson_batches_is_marked_where_batches_are_shuffled():
    given = GIVEN | {"batch_size": 500}
    del given["batches"]
    data = "loader = torch.utils.data.DataLoader(data, batch_size=500, shuffle=True)\n"
    text = GROUPS.replace("split(8)", "split(1)").replace("import torch\n", f"import torch\n{data}", 1)
    (plain,) = check(text, **given, vouch=[last(text, "in loader")])
    assert plain.breaks is None
    text = SHUFFLED + text + "    accountant.step(noise_multiplier=1.1, sample_rate=0.01)\n"
    (found,) = check(text, **given, vouch=[last(text, "in loader")])
    assert found.epsilon == plain.epsilon
    assert found.breaks == (last(text, "= RDPAccountant"), "the script's accountant counts Poisson batches")
    assert found.replaced[0] < found.replaced[1]
    assert "under replace_one); report the upper end, or draw Poisson batches" in str(found)


def test_a_plain_optimizer_of_the_same_name_in_another_function_is_seen():
    text = ARRAYS.replace("optimizer", "opt").replace("opt=opt", "optimizer=opt")
    first = "def first(data):\n    net = torch.nn.Linear(30, 2)\n    opt = torch.optim.Adam(net.parameters())\n"
    first += "    for a, b in DataLoader(data, batch_size=8):\n        net(a).sum().backward()\n        opt.step()\n"
    text = text.replace("engine = Pri", f"{first}\nfirst(train_set)\nengine = Pri")
    (found,) = check(text, records=30_000)
    assert found.epsilon is None
    assert any(PUBLIC in why for why in found.asks.values())


@pytest.mark.parametrize(
    ("join", "is_asked"),
    [
        ("ConcatDataset([ImageFolder(root, t) for t in (plain, turned)])", True),
        ("ConcatDataset(parts)", True),
        ("ConcatDataset([ImageFolder(path) for path in paths])", True),
        ("ImageFolder('a')", False),
    ],
)
def test_data_that_is_joined_of_parts_that_are_not_seen_is_asked_about(join, is_asked):
    text = ARRAYS.replace("TensorDataset(torch.tensor(X), torch.tensor(y))", join)
    (found,) = check(text, records=30_000)
    assert bool(vouched(found)) is is_asked
    assert (found.epsilon is None) is is_asked


ACCUMULATED = SCRIPTS["private_transformers_with_accumulation"]["script"]


def test_gradients_that_are_left_over_at_the_end_of_an_epoch_are_asked_about():
    (found,) = check(ACCUMULATED)
    assert any("no gradients are left over at the end of an epoch" in why for why in found.asks.values())


TRAINER = SCRIPTS["trainer_of_transformers_with_its_own_loader"]["script"]


def test_a_trainer_that_is_given_the_private_optimizer_is_no_other_training():
    made = "trainer = Trainer(model=model, args=args, train_dataset=encoded['train'], optimizers=(dp, None))\n"
    text = TRAINER.replace("trainer = Trainer(", "other = Other(").replace("trainer.get_train_dataloader()", "loader")
    text = text.replace("trainer.model, trainer.optimizer, _", "model, dp, _").replace(
        "trainer.train()", f"{made}trainer.train()"
    )
    given = {"batches": "shuffled", "epochs": 3, "records": 67_349, "batch_size": 32}
    found = answered(text, **given)
    assert "the loader that make_private returns is not used" in found.breaks[1]
    assert found.asks == {}
    (other,) = check(text.replace("(dp, None)", "(plain, None)"), **given)
    assert any(PUBLIC in why for why in other.asks.values())


def test_the_state_of_the_original_optimizer_may_be_saved():
    for line, is_refused in (
        ("torch.save(optimizer.original_optimizer.state_dict(), 'o.pt')", False),
        ("optimizer.original_optimizer.step()", True),
    ):
        assert (answered(f"{ARRAYS}{line}\n", records=30_000).epsilon is None) is is_refused


def test_a_strategy_of_flower_with_all_that_is_asked_for_has_a_call():
    text = next(one["script"] for one in SCRIPTS.values() if "ServerSideFixedClipping" in one["script"])
    (found,) = check(text, noise_multiplier=0.3, records=2000, delta=1e-5)
    assert found.epsilon is None
    assert found.call


LISTED = JAX.replace(
    "[g + l2_norm_clip * noise_multiplier * random.normal(r, g.shape) for r, g in zip(rngs, aggregated)]",
    "[a + z for a, z in zip(aggregated, [noise_multiplier * l2_norm_clip * random.normal(r, 9) for r in rngs])]",
)


def test_noise_that_is_added_in_a_way_of_its_own_is_asked_about():
    assert LISTED != JAX
    (found,) = check(LISTED)
    assert {"batches", "noise_multiplier", "records", "epochs"} <= found.asks.keys()


def test_the_seed_of_a_generator_of_noise_is_secret():
    text = ARRAYS.replace("max_grad_norm=1.0", "max_grad_norm=1.0, noise_generator=g")
    (found,) = check(text.replace("#DATA", "g = torch.Generator().manual_seed(SEED)"), records=30_000)
    assert vouched(found) == [last(text, "noise_generator")]
    (quiet,) = check(text.replace("#DATA", "g = torch.Generator().manual_seed(secrets.randbits(60))"), records=30_000)
    assert quiet.epsilon == PLAIN


TREE = """
import torch
from torch.func import grad, vmap
each = vmap(grad(loss), in_dims=(None, 0, 0))
for t in range(1000):
    rows = torch.rand(n) < rate
    g = each(theta, X[rows], y[rows])
    norms = torch.stack([v.flatten(1).norm(dim=1) for v in g.values()]).norm(dim=0)
    factor = (clip / norms.clamp(min=1e-9)).clamp(max=1)
    for k, v in g.items():
        total = torch.einsum("b,b...->...", factor, v)
        theta[k] = theta[k] - 0.1 * (total + sigma * clip * torch.randn_like(total)) / (rate * n)
torch.save(theta, "theta.pt")
"""


def test_processes_that_do_not_divide_the_records_are_asked_about():
    data = "loader = torch.utils.data.DataLoader(data, batch_size=500, sampler=DistributedSampler(data))\n"
    text = GROUPS.replace("split(8)", "split(1)").replace("import torch\n", f"import torch\n{data}", 1)
    (found,) = check(text, **GIVEN | {"batches": "shuffled"})
    assert vouched(found) == [last(text, "DistributedSampler"), last(text, "in loader")]
    (quiet,) = check(text.replace("Sampler(data)", "Sampler(data, drop_last=True)"), **GIVEN | {"batches": "shuffled"})
    assert vouched(quiet) == [last(text, "in loader")]


def test_an_accountant_of_gaussians_is_none_of_poisson_batches():
    given = GIVEN | {"batches": "shuffled"}
    own = "acc = dp_accounting.pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(1.5), 20)\n"
    assert check(f"import dp_accounting\n{TREE}{own}", **given)[0].breaks is None
    own = own.replace("GaussianDpEvent(1.5)", "PoissonSampledDpEvent(0.1, event)")
    assert "counts Poisson batches" in check(f"import dp_accounting\n{TREE}{own}", **given)[0].breaks[1]


@pytest.mark.parametrize("said", ["# protects every user of the app", "EPS = 'patient-level'"])
def test_whether_a_person_has_one_record_is_asked_where_a_script_speaks_of_persons(said):
    text = ARRAYS.replace("#DATA", said)
    (found,) = check(text, records=30_000)
    assert vouched(found) == [last(text, said)]
    (told,) = check(text, records=30_000, vouch=vouched(found))
    assert told.epsilon == PLAIN
    assert "no two records are of one of these, as --vouch says" in str(told)
    assert check(ARRAYS.replace("#DATA", "# every user likes it"), records=30_000)[0].epsilon == PLAIN
