"""Loaders by the names that people type, Opacus by the loader that it is given, and the page's table."""

import re
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.loaders import loaders

TORCH = "torch.utils.data.DataLoader"
PEOPLE_TYPE = {
    TORCH: ("torch", "PyTorch", "DataLoader", "torch.DataLoader", "torch.utils.data", "WeightedRandomSampler"),
    "opacus": ("Opacus", "OPACUS", "DPDataLoader", "opacus.DPDataLoader", "make_private", "PrivacyEngine"),
    "transformers.Trainer": ("huggingface", "hf", "transformers", "Transformers.Trainer"),
    "accelerate": ("Accelerator", "DataLoaderShard"),
    "lightning": ("Lightning", "pytorch_lightning", "lightning.pytorch"),
    "tf.data": ("tensorflow", "tf", "tf.data.Dataset", "keras"),
    "grain": ("Grain", "pygrain", "grain.DataLoader", "IndexSampler"),
    "jax_privacy.BallsInBinsSampling": ("BallsInBinsSampling", "jax_privacy.ballsinbinssampling"),
}


def test_names_that_people_type_are_known():
    for meant, words in PEOPLE_TYPE.items():
        for word in words:
            assert fa.loader_guide(word).loader == meant
    assert fa.loader_guide("DistributedSampler") == fa.loader_guide(TORCH, distributed=True, shuffle=True)
    assert fa.loader_guide("RandomSampler") == fa.loader_guide(TORCH, shuffle=True)
    drawn = fa.loader_guide("torch.utils.data.RandomSampler", replacement=True)
    assert drawn == fa.loader_guide(TORCH, replacement=True)
    aliases = loaders()["aliases"]
    assert all(word == word.casefold() for word in aliases)
    assert {name for meant, *_ in aliases.values() for name in meant.split("|")} <= {*loaders()["loaders"]}


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_opacus_is_asked_about_the_loader_that_it_is_given(shuffle, drop_last):
    """By default it is replaced; with poisson_sampling=False it is used as it is."""
    given = {"shuffle": shuffle, "drop_last": drop_last}
    assert fa.loader_guide("opacus", **given) == fa.loader_guide("opacus")
    used = fa.loader_guide("opacus", poisson_sampling=False, **given)
    own = fa.loader_guide(TORCH, **given)
    assert used._replace(notes=()) == own._replace(loader="opacus", notes=())
    assert "keeps your own loader" in used.notes[0]
    assert [note for note in own.notes if "make_private" not in note] == [*used.notes[1:]]


def test_the_guide_says_why_a_lower_end_does_not_hold():
    for how, words in (
        ({"shuffle": True, "drop_last": True}, "only the upper end is proved, since records may be left out."),
        ({"distributed": True, "shuffle": True}, "only the upper end is proved, since records may come twice."),
        ({"replacement": True}, "only the upper end is proved."),
        ({"shuffle": True}, "both ends hold."),
    ):
        assert words in str(fa.loader_guide(TORCH, **how))
    # of DistributedSampler it is not known whose drop_last is meant: the safe one
    assert fa.loader_guide("DistributedSampler", drop_last=True).uses == (0, 2)


CYCLIC = "jax_privacy.CyclicPoissonSampling"
ROWS = [
    [(TORCH, {"shuffle": True})],
    [(TORCH, {"shuffle": True, "drop_last": True})],
    [(TORCH, {})],
    [(TORCH, {"drop_last": True})],
    [(TORCH, {"replacement": True})],
    [(TORCH, {"replacement": True, "drop_last": True})],
    [(TORCH, {"weighted": True})],
    [(TORCH, {"distributed": True, "shuffle": True, "sampler_drop_last": True})],
    [(TORCH, {"distributed": True, "shuffle": True})],
    [("transformers.Trainer", {})],
    [(name, {"distributed": True}) for name in ("accelerate", "transformers.Trainer")],
    [("lightning", {"distributed": True, "shuffle": True})],
    [("opacus", {})],
    [("opacus", {"poisson_sampling": False})],
    [("tf.data", {"shuffle": True})],
    [("tf.data", {"shuffle": True, "buffer_size": 5, "records": 5})],
    [("tf.data", {"shuffle": True, "buffer_size": 5, "records": 5, "drop_remainder": True})],
    [("grain", {"shuffle": True, "repeat_before_batch": False})],
    [("grain", {"shuffle": True, "repeat_before_batch": False, "drop_remainder": True})],
    [(name, {"shuffle": True, "repeat_before_batch": True}) for name in ("tf.data", "grain")],
    [(CYCLIC, {})],
    [(CYCLIC, {"truncated": True})],
    [(CYCLIC, {"cycle_length": 4, "equal_split": is_equal}) for is_equal in (True, False)],
    [("jax_privacy.BallsInBinsSampling", {})],
    [("jax_privacy.RandomAllocationSampling", {})],
    [("jax_privacy.FixedBatchSampling", {"replace": replace}) for replace in (True, False)],
]
"""What the rows of the page's table ask, in its order."""


def test_the_page_s_table_says_what_the_guide_says():
    page = (Path(__file__).parents[2] / "docs" / "loaders.md").read_text()
    rows = re.findall(r"(?m)^\| .* \| (.*) \| .* \| .* \| (both|upper|none) \|$", page)
    for (times, ends), asked in zip(rows, ROWS, strict=True):
        for loader, settings in asked:
            guide = fa.loader_guide(loader, **settings)
            assert ends == ("both" if guide.lower_holds else "upper" if guide.neighbors else "none"), (loader, settings)
            assert not guide.neighbors or f"uses a record {times};" in str(guide), (loader, settings)
