"""What a script does in a way that is not known is asked about line by line, and counts as the user vouches for it."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_answers import SCRIPTS
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
        ("keep = X.std() * 3\nX = np.where(np.abs(X) > keep, 0, X)", "keep = "),
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
    plain = ARRAYS.replace("#DATA", data).replace("TensorDataset(X, y)", "Pairs(X, y)")
    (found,) = check(plain, records=30_000)
    assert found.epsilon is None
    assert last(plain, item.splitlines()[-1].strip()) in vouched(found)
    for known in ("return self.x[i], self.y[i]", "k = self.rows[i]\n        return self.x[k], self.y[k]"):
        (quiet,) = check(plain.replace(item, known), records=30_000)
        assert quiet.epsilon == PLAIN
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
    assert vouched(found) == [last(text, "clip_grad_norm_")]
    (told,) = check(text, **given, vouch=vouched(found))
    assert told.epsilon is not None
    (single,) = check(text.replace("range(0, len(images), 8)", "range(len(images))"), **given)
    assert single.epsilon == told.epsilon


JAX = SCRIPTS["jax_by_hand"]["script"]


@pytest.mark.parametrize(
    ("key", "is_new"),
    [("key", False), ("random.fold_in(key, epoch)", True), ("keys[epoch]", True), ("random.fold_in(key, 1)", False)],
)
def test_noise_of_jax_has_a_new_key_in_each_step(key, is_new):
    text = JAX.replace("next(batches), key,", f"next(batches), {key},")
    (found,) = check(text)
    asked = [why for name, why in found.asks.items() if name.startswith("vouch")]
    assert any("its key is a new one" in why for why in asked) is not is_new


SHUFFLED = """
from opacus.accountants import RDPAccountant
accountant = RDPAccountant()
"""


def test_an_accountant_of_poisson_batches_is_marked_where_batches_are_shuffled():
    given = GIVEN | {"batch_size": 500}
    del given["batches"]
    data = "loader = torch.utils.data.DataLoader(data, batch_size=500, shuffle=True)\n"
    text = GROUPS.replace("split(8)", "split(1)").replace("import torch\n", f"import torch\n{data}", 1)
    (plain,) = check(text, **given)
    assert plain.breaks is None
    text = SHUFFLED + text + "    accountant.step(noise_multiplier=1.1, sample_rate=0.01)\n"
    (found,) = check(text, **given)
    assert found.epsilon == plain.epsilon
    assert found.breaks == (last(text, "= RDPAccountant"), "the script's accountant counts Poisson batches")
    assert found.replaced[0] < found.replaced[1]
    assert "under replace_one); report the upper end, or draw Poisson batches" in str(found)
    assert "accountant.step counts one step a round of its loop" in str(found)
