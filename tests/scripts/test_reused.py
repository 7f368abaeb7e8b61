"""Private data that a script uses again without noise, and lines that only look so."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_answers import DATA, MODEL, SMALL, answered

AFTER = "print(delta"
GIVEN = {"records": 1000, "delta": 1e-5}


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (AFTER, "torch.optim.SGD(model.parameters(), lr=1.0).step()\n"),
        (AFTER, "opts = {}\nopts['ft'] = torch.optim.Adam(model.parameters())\nopts['ft'].step()\n"),
        (AFTER, "opts = [torch.optim.Adam(model.parameters())]\nopts[0].step()\n"),
        (AFTER, "from transformers import Trainer\ntrainer = Trainer(model, train_dataset=data)\ntrainer.train()\n"),
        (MODEL, "        buffer.append((x, y)); x, y = random.choice(buffer)\n"),
        (MODEL, "        memory += list(zip(x, y)); x, y = collate(random.sample(memory, 10))\n"),
        (MODEL, "        queue.extend(x)\n        for old in queue: model(old).sum().backward()\n"),
    ],
)
def test_private_data_that_is_used_without_noise_gets_no_number(place, line):
    (found,) = check(SMALL.replace(place, line + place), **GIVEN, batches="poisson")
    assert found.epsilon is None


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (AFTER, "model.train()\n"),
        (AFTER, "sched = torch.optim.lr_scheduler.StepLR(optimizer, 1)\nsched.step()\n"),
        (MODEL, "        hits.append((model(x).argmax(1) == y).float()); seen.append(len(x)); print(sum(seen) / 2)\n"),
        (MODEL, "        lost.append(torch.nn.MSELoss()(model(x), y)); print(sum(lost) / len(lost))\n"),
        (MODEL, "        parts = []\n        parts.append(x)\n        x = parts[0]\n"),
        (MODEL, "        total += model(x).sum(); print(total / 3)\n"),
    ],
)
def test_what_only_looks_so_keeps_its_number(place, line):
    (plain,) = check(SMALL, **GIVEN)
    found = answered(SMALL.replace(place, line + place), **GIVEN)
    assert found.epsilon == plain.epsilon


def test_a_learning_rate_that_follows_the_loss_is_noted():
    line = "plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    (found,) = check(SMALL.replace(DATA, line + DATA), **GIVEN)
    assert found.notes == (
        "line 6: ReduceLROnPlateau: what its step() is given must not come from the records that are trained on.",
    )


STEP = "        optimizer.step()\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STEP, STEP + STEP),
        ("        out = ", "        for k in range(5):\n          out = "),
    ],
)
def test_several_steps_on_one_batch_get_no_number(old, new):
    text = SMALL.replace(old, new)
    if "range(5)" in text:  # the whole round is taken five times
        for line in ("loss = ", "loss.", "optimizer.step", "optimizer.zero"):
            text = text.replace(f"        {line}", f"          {line}")
    (found,) = check(text, **GIVEN, batches="poisson", epochs=3)
    assert found.epsilon is None
    assert found.breaks is None
    assert "on one batch" in found.asks["noise"]


def test_batches_that_are_added_up_name_the_call():
    (found,) = check(SMALL.replace(STEP, "        if last:\n    " + STEP), **GIVEN)
    assert "draws=k" in found.asks["added up"]
