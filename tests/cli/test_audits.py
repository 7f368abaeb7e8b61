"""Audits in a terminal: scores from a table, beside a run, and what is wrong with a table."""

import numpy as np
import pytest

import fastacct as fa
from tests.command import answer, call

RUN = "--noise-multiplier 0.5 --sample-rate 1 --steps 1"


def table(tmp_path, scores, members, head="score,member"):
    path = tmp_path / "scores.csv"
    path.write_text("\n".join([head, *(f"{x!r},{int(m)}" for x, m in zip(scores, members, strict=True))]) + "\n")
    return path


@pytest.fixture
def runs(tmp_path):
    random = np.random.default_rng(3)
    inside = random.random(1000) < 0.5
    scores = random.normal(0, 1, 1000) + 2.0 * inside
    return table(tmp_path, scores.tolist(), inside), scores, inside


def test_scores_of_a_table_show_what_they_show(runs):
    path, scores, inside = runs
    found = fa.audit.scores(scores[inside], scores[~inside], confidence=0.9)
    shown = answer("audit", path, "--delta", "1e-5", "--confidence", "0.9")["epsilon_lower"]
    assert shown == found.epsilon(1e-5) > 1.0
    assert (
        call("audit", path, "--delta", "1e-5", "--plain").stdout
        == f"{fa.audit.scores(scores[inside], scores[~inside]).epsilon(1e-5)!r}\n"
    )
    guessed = answer("audit", path, "--delta", "1e-5", "--guesses", "100,200")
    counts = fa.audit.count_guesses(scores, inside, [100, 200])
    assert guessed["epsilon_lower"] == fa.audit.one_run(1000, *counts).epsilon(1e-5)


def test_a_job_that_is_refuted_is_exit_code_1(runs):
    path = runs[0]
    fine = call(f"audit {path} --delta 1e-5 {RUN}")
    assert fine.exit_code == 0
    assert "proved: epsilon at most 10; shown: at least" in fine.stdout
    assert "not refuted" in fine.stdout
    wrong = answer(f"audit {path} --delta 1e-5 {RUN.replace('0.5', '2')}", code=1)
    assert wrong["refuted"]
    assert wrong["epsilon"] == fa.epsilon(fa.Gaussian(2.0), delta=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score,member\n1.0,yes\n", "line 2: member 'yes' is none of 1, 0, true, false"),
        ("score,member\n1.0,1\nx,0\n", "line 3: score 'x' is not a number"),
        ("score,member\n1.0,1\nnan,0\n", "others[0] = nan is out of range"),
        ("score\n1.0\n", "has no column 'member'"),
        ("", "has no column 'member'"),
        ("score,member\n1.0,1\n", "others is an empty array"),
    ],
)
def test_a_table_that_is_wrong_is_refused_by_line(tmp_path, text, message):
    path = tmp_path / "scores.csv"
    path.write_text(text)
    found = call("audit", path, "--delta", "1e-5")
    assert found.exit_code == 2
    assert message in found.stderr


def test_a_fixed_half_is_refused_in_the_words_of_options(tmp_path):
    path = table(tmp_path, [1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1])
    found = call("audit", path, "--delta", "1e-5", "--guesses", "2")
    assert found.exit_code == 2
    assert "exactly half of the canaries" in found.stderr
    assert call("audit", path, "--delta", "1e-5", "--guesses", "2", "--drawn", "independent").exit_code == 0
