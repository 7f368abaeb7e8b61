"""What a live loader makes of the keywords of a run: whole units, sizes of batches, ends that hold."""

import sys
import warnings
from types import SimpleNamespace

import pytest

import fastacct as fa
from fastacct.loaders import keywords
from fastacct.loaders.guide import guide_of
from fastacct.loaders.seen import Seen, in_order, of_generator, shuffled


def test_the_last_batches_count_as_a_step_and_a_pass_that_was_begun_as_one(monkeypatch):
    """A step on four batches, and passes of three: what does not fill the last one has released as much."""
    grouped = Seen("", "opacus", {}, {"sample_rate": 0.1}, 12, per=4)
    monkeypatch.setattr(keywords, "seen", lambda loader: grouped)
    asked = {"loader": object(), "noise_multiplier": 1.0}
    assert [keywords.told({**asked, "steps": n}).run["steps"] for n in (4, 5, 8, 9)] == [1, 2, 2, 3]
    monkeypatch.setattr(keywords, "seen", lambda loader: shuffled({}, 10, 4))
    asked["neighbors"] = "zero_out"
    assert [keywords.told({**asked, "steps": n}).run["epochs"] for n in (3, 4, 6, 7)] == [1, 2, 2, 3]
    assert keywords.told({**asked, "epochs": 1.5}).run["epochs"] == 2


def test_batches_of_a_pass_have_the_size_that_is_drawn():
    assert shuffled({}, 10, 4).run == {"sampling": "shuffled", "records": 10, "batch_size": 4}
    assert shuffled({}, 3, 4).run["batch_size"] == 3
    assert (shuffled({}, 10, 4).length, in_order({}, 10, 4).length, in_order({}, 8, 4).length) == (3, 3, 2)
    assert in_order({}, 10, 4).run == {"sample_rate": 1.0}


def test_a_loader_that_leaves_records_out_has_no_lower_end(monkeypatch):
    for drop_last, is_whole in ((False, True), (True, False)):
        live = shuffled({"drop_last": drop_last}, 10, 4)
        monkeypatch.setattr(keywords, "seen", lambda loader, live=live: live)
        run = {"loader": object(), "noise_multiplier": 1.0, "epochs": 1, "neighbors": "zero_out"}
        for found in (fa.dpsgd.epsilon_bounds(**run, delta=1e-5), fa.dpsgd.delta_bounds(**run, epsilon=1.0)):
            assert (found.lower > 0.0) == is_whole
            assert found.upper > 0.0
        assert (fa.dpsgd.epsilon_lower(**run, delta=1e-5) > 0.0) == is_whole


def test_a_loader_that_does_not_know_its_records_fixes_no_keywords_of_a_report():
    """Another number of records stands in the run, which a report would name, and delta = "1/n" be made of."""
    bins = {"sampling": "allocation", "records": 100, "batch_size": 1, "bins": "persistent"}
    live = Seen("", "jax_privacy.BallsInBinsSampling", {}, bins, 0, "epochs", 100)
    assert dict(guide_of(live).run) == {}
    assert dict(guide_of(shuffled({}, 10, 4)).run) == shuffled({}, 10, 4).run
    with pytest.raises(TypeError, match="needs records"):
        fa.report(**guide_of(live).run, noise_multiplier=1.0, epochs=1, delta="1/n")


class Seeded(SimpleNamespace):
    """A generator of PyTorch, or PyTorch itself."""

    def initial_seed(self):
        if self.seed is None:
            raise RuntimeError("not implemented")
        return self.seed


def test_samples_from_a_seed_that_somebody_may_know_are_warned_of_and_from_public_ones_refused(monkeypatch):
    """PyTorch's own seed is that of samples without a generator; a secret one is not written down anywhere."""
    monkeypatch.setitem(sys.modules, "torch", Seeded(seed=42))
    secret, public = 2**62 + 7, 67280421310721  # the latter of a torch.Generator that nobody seeded
    run = {"loader": object(), "noise_multiplier": 1.0, "steps": 3, "delta": 1e-5}
    for generator, said in (
        (None, "PyTorch's own generator, whose seed is 42: "),
        (Seeded(seed=7), "Its seed is 7, and "),
    ):
        live = Seen("", "opacus", {"poisson_sampling": True}, {"sample_rate": 0.1}, 12, notes=of_generator(generator))
        monkeypatch.setattr(keywords, "seen", lambda loader, live=live: live)
        assert said in live.notes[0]
        with pytest.warns(UserWarning, match="may be known.*No amplification holds for them.*generator=secret"):
            fa.dpsgd.epsilon(**run)
    for seed in (0, 42, public):
        live = live._replace(notes=of_generator(Seeded(seed=seed)))
        monkeypatch.setattr(keywords, "seen", lambda loader, live=live: live)
        with pytest.raises(ValueError, match=r"which everybody knows.*no amplification"):
            fa.dpsgd.epsilon(**run)
    passes = shuffled({}, 10, 4, of_generator(Seeded(seed=7)))  # no amplification is claimed of their order
    for quiet in (live._replace(notes=of_generator(Seeded(seed=secret))), passes):
        monkeypatch.setattr(keywords, "seen", lambda loader, live=quiet: live)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fa.dpsgd.epsilon(**run, neighbors="zero_out")
    assert of_generator(Seeded(seed=None)) == of_generator(Seeded(seed=secret)) == ()
    monkeypatch.setitem(sys.modules, "torch", Seeded(seed=secret))
    assert of_generator(None) == ()
