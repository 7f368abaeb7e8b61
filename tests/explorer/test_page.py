"""The explorer page in a browser, and the command that opens it."""

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

import fastacct as fa
from fastacct.accountants.run import process_of
from fastacct.cli import commands
from tests.explorer_runs import (
    CHROMIUM,
    IS_REQUIRED,
    RELATIONS,
    SAMPLERS,
    evaluated,
    keywords,
    missing,
    node,
    skip_or_fail,
    steps_in_all,
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What a browser showed (explorer/tests/browser.mjs)."""
    skip_or_fail(missing() or (None if Path(CHROMIUM).exists() else f"{CHROMIUM} is not there"))
    folder = Path(os.environ.get("FASTACCT_EXPLORER_PICTURES", tmp_path_factory.mktemp("pictures")))
    node("browser.mjs", commands.PAGE, CHROMIUM, folder)
    found = json.loads((folder / "seen.json").read_text())
    print(folder, {name: found[name] for name in ("paint", "redraws", "processor", "maps")})
    return found


def test_the_page_shows_python_s_numbers(seen):
    assert len(seen["states"]) >= 8
    for state in seen["states"]:
        upper = evaluated(state["python"])
        off = Fraction(state["epsilon"]) - Fraction(upper)
        assert -Fraction(upper) / 10**11 <= off <= Fraction(upper) / 10**4 + Fraction(1, 10**6), state
        assert f"({state['epsilon']}, " in state["paper"]
        assert state["tpr"].removesuffix(" %") in state["paper"]


def test_true_positive_rates_on_the_page_are_python_s(seen):
    for state in seen["states"]:
        run = state["run"]
        assert state["steps"] == f"{steps_in_all(run):,}"
        truth = fa.tpr_at_fpr(process_of(keywords(run)), 0.01, neighbors=run["relation"])
        shown = float(state["tpr"].removesuffix(" %"))
        assert 100 * truth * (1 - 1e-9) <= shown <= 100 * truth * 1.011, state


def test_links_hold_the_state(seen):
    assert seen["link"]["before"] == seen["link"]["after"]
    assert seen["link"]["hash"].startswith("#noise=")


def test_fields_and_buttons_do_what_they_say(seen):
    assert seen["wrong"] == {"invalid": "true", "error": "A number from 0.3 to 20.", "changed": False}
    assert seen["target"]["noise"] == "1.11683"
    assert float(seen["target"]["epsilon"]) <= 3.0
    assert seen["copied"] == seen["copying"] or seen["selected"]
    assert seen["live"].startswith("Epsilon at most ")
    assert seen["broken"] == "unknown"


def test_a_link_out_of_range_shows_no_answer_of_another_run(seen):
    """What was not taken is named with its value and what is allowed, and stays in its field and in the link."""
    first, later, after = (seen["refused"][name] for name in ("first", "later", "after"))
    assert first["lines"] == [
        "q = 1 is not taken; allowed: the names noise, batch, records, epochs, delta, relation, sampling.",
        "epochs = 2.5 is not taken; allowed: a whole number from 1 to 1000.",
        "delta = 1e-13 is not taken; allowed: a number from 1e-12 to 0.01.",
    ]
    assert later["lines"] == first["lines"][2:]
    for state in (first, later):
        assert {state[name] for name in ("epsilon", "tpr", "interval", "steps", "pair-tpr", "python", "paper")} == {"–"}
        assert state["status"].startswith("not computed")
        assert state["charts"] == 0
        assert state["delta"] == "1e-13"
        assert state["delta-error"] == "A number from 1e-12 to 0.01."
        assert "delta=1e-13" in state["hash"]
    assert first["use"] == "Compute with epochs = 30, delta = 1e-6"
    assert seen["refused"]["places"] == [True] * 4
    assert after["lines"] == []
    assert after["charts"] >= 3
    assert seen["refused"]["place"] == "0.9"  # a place on the page is no run


def test_no_number_of_another_sampler_stays(seen):
    assert seen["cleared"] == ["…" * 5 + "0"] * 5
    assert {state["run"]["sampling"] for state in seen["states"]} == set(SAMPLERS)
    assert "there is no map" in seen["mapNotes"]["link"]
    for sampling, relations in SAMPLERS.items():
        assert seen["unknown"][sampling] == [f"relation-{one}" for one in RELATIONS if one not in relations]
        assert ("there is no map" in seen["mapNotes"][sampling]) == (sampling in ("shuffled", "full_batch"))


def test_nothing_is_loaded_and_nothing_complains(seen):
    assert seen["complaints"] == []
    assert {address.split(":")[0] for address in seen["requests"]} <= {"file", "blob"}
    assert sum(address.startswith("file:") for address in seen["requests"]) == seen["pages"]


def test_no_serious_violation_of_accessibility(seen):
    assert seen["violations"] == {"light": [], "dark": []}
    assert seen["sideways"] == []


def test_the_page_is_small_and_quick(seen):
    assert seen["bytes"] <= 1_000_000
    if IS_REQUIRED:  # else other tests run beside it
        assert seen["paint"] < 1000
        assert max(seen["redraws"]) >= 30 or min(seen["processor"]) <= 50  # ms: two processors have 66 for each of 30
        assert sorted(seen["maps"])[1] <= 500


def test_the_command_says_where_the_page_is_or_how_it_is_made(monkeypatch, tmp_path, capsys):
    from fastacct.__main__ import main

    opened = []
    monkeypatch.setattr(commands.webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setattr(commands, "PAGE", tmp_path / "index.html")
    assert main(["explore"]) == 2
    assert "make explorer" in capsys.readouterr().err
    commands.PAGE.write_text("page")
    assert main(["explore", "--print-path"]) == 0
    assert capsys.readouterr().out == f"{commands.PAGE}\n"
    assert opened == []
    assert main(["explore"]) == 0
    assert opened == [commands.PAGE.as_uri()]
