"""What a live loader makes of the keywords of a run: whole units, sizes of batches, ends that hold."""

import pytest

import fastacct as fa
from fastacct.loaders import keywords
from fastacct.loaders.guide import guide_of
from fastacct.loaders.seen import Seen, in_order, shuffled


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
