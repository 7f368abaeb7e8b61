"""Accountants against the certified interval (`bench.scores`): what is counted, what table and picture say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastacct as fa
from bench import tightness
from bench.scores import (
    REGIMES,
    RESOLVED,
    WRONG,
    Contender,
    Runs,
    Score,
    Truth,
    draw,
    own_accountants,
    picture,
    score,
    table,
    truth,
)

COUNT = 12


@pytest.fixture(scope="module")
def scores():
    runs = draw("everyday", COUNT)
    bounds = truth(runs)
    return [score(contender, runs, bounds) for contender in own_accountants()]


def made_up(values, lower, upper, claims=True):
    n = len(values)
    column = np.ones(n)
    bounds = Truth(np.array(lower, dtype=float), np.array(upper, dtype=float))
    return Score("made up", claims, Runs("x", column, column, column, column), bounds, np.array(values, float), 1.0)


def test_a_run_depends_on_seed_and_place_alone():
    for regime in REGIMES:
        many, few = draw(regime, 50), draw(regime, 5)
        assert list(many.head(5)) == list(few)
        assert list(draw(regime, 5, seed=1)) != list(few)


def test_regimes_are_what_they_say():
    everyday, broad = draw("everyday", 2000), draw("broad", 2000)
    taken = everyday.steps * everyday.sample_rate
    assert 1.0 <= taken.min() < 1.1
    assert 250.0 < taken.max() < 301.0
    assert 1e2 <= broad.steps.min() < broad.steps.max() <= 1e5
    for runs, smallest, least in ((everyday, 0.5, 1e-9), (broad, 0.4, 1e-10)):
        assert least <= runs.delta.min() < 2.0 * least
        assert 5e-5 < runs.delta.max() <= 1e-4
        assert smallest <= runs.noise_multiplier.min() < runs.noise_multiplier.max() <= 8.0
        assert 1e-4 <= runs.sample_rate.min() < runs.sample_rate.max() <= 0.1
        assert np.median(runs.noise_multiplier) == pytest.approx(np.sqrt(smallest * 8.0), rel=0.1)
        assert np.all(runs.steps == np.floor(runs.steps))


def test_no_certified_accountant_is_below_the_truth(scores):
    assert {entry.contender for entry in scores if not entry.claims_bound} == {"CLT (approximation)"}
    for entry in scores:
        assert entry.summary.asked == COUNT
        if entry.claims_bound:
            assert entry.summary.below == 0, entry.contender
            assert np.all(entry.values >= entry.truth.lower)


def test_the_exact_accountant_is_the_tightest(scores):
    exact, *others = scores
    assert exact.contender == "exact"
    assert exact.summary.largest <= 1.0 + RESOLVED
    for other in others:
        if other.claims_bound:
            assert np.all(other.values >= exact.values * (1.0 - 1e-9)), other.contender


def test_values_are_those_of_the_public_functions(scores):
    runs = draw("everyday", COUNT)
    by_name = {entry.contender: entry.values for entry in scores}
    np.testing.assert_array_equal(by_name["RDP"], fa.dpsgd.epsilon(**runs.keywords(), accountant=fa.RDP()))
    np.testing.assert_array_equal(by_name["CLT (approximation)"], fa.dpsgd.epsilon_approx(**runs.keywords()))


def test_what_is_below_failed_or_unknown_is_counted():
    entry = made_up(
        values=[2.0, 0.5, math.nan, math.inf, 3.0, math.inf],
        lower=[1.0, 1.0, 1.0, 1.0, 0.0, 1.0],
        upper=[1.0, 1.0, 1.0, 1.0, 9.0, math.inf],
    )
    found = entry.summary
    assert (found.asked, found.judged, found.below, found.failed) == (6, 2, 1, 2)
    assert found.smallest == 0.5
    assert (found.median, found.largest) == (1.25, 2.0)
    assert table([entry])[0] == {"regime": "x", "accountant": "made up", "claims_bound": True, **found._asdict()}


def test_a_last_digit_below_is_not_below():
    assert made_up([1.0 - 1e-12], [1.0], [1.0]).summary.below == 0
    assert made_up([1.0 - 1e-8], [1.0], [1.0]).summary.below == 1


def test_no_ratios_at_all_is_no_error():
    found = made_up([math.nan], [0.0], [0.0]).summary
    assert (found.judged, found.failed, found.below) == (0, 1, 0)
    assert math.isnan(found.median)


def test_wrong_requests_are_named():
    with pytest.raises(ValueError, match="regime = 'odd'"):
        draw("odd", 3)
    with pytest.raises(ValueError, match="n = 0"):
        draw("broad", 0)
    runs = draw("broad", 2)
    with pytest.raises(ValueError, match="short: 1 values, 2 runs"):
        score(Contender("short", True, lambda _: np.ones(1)), runs, truth(runs))


def test_the_picture_shows_what_is_wrong(scores):
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    wrong = made_up([0.5, 2.0, math.nan], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    figure = picture({"everyday": [*scores, wrong], "broad": scores})
    texts = {text.get_text(): text for text in figure.findobj(Text)}
    assert texts["1.25, 1 of 3 below, 1 of 3 fail"].get_color() == WRONG
    assert [panel.get_title() for panel in figure.axes] == ["everyday runs", "broad runs"]
    assert min(text.get_fontsize() for text in texts.values() if text.get_text()) >= 9
    with pytest.raises(ValueError, match="studies is empty"):
        picture({})


def test_command_prints_and_writes(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file = tmp_path / "t.svg"
    assert tightness.main(["--ours", "--count", "3", "--regime", "broad", "--picture", str(file)]) == 0
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("broad ")]
    assert len(rows) == len(own_accountants()) + 1  # Edgeworth's is the bench's own
    assert "epsilon / truth" in printed
    assert "broad: q 1e-4..0.1" in printed
    assert file.read_text().startswith("<?xml")
    with pytest.raises(SystemExit):
        tightness.main(["--regime", "odd"])
