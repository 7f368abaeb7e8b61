"""Which tests run when: each has a target, what is named is there, tests of a file are found in a minute."""

import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import alone, costs, near, tiers

TABLE = {
    "functions": {"a/test_a.py": {"test_b": 6.2}},
    "dear": {"a/test_a.py": {"test_b[2]": 6.0, "test_c": 3.0}},
}
FILES = sorted(path.relative_to(costs.TESTS).as_posix() for path in costs.TESTS.rglob("test_*.py"))


def test_every_target_is_there():
    makefile = (near.ROOT / "Makefile").read_text()
    for tier in tiers.TIERS:
        assert re.search(rf"^{tier}:", makefile, re.MULTILINE), tier


@pytest.mark.parametrize(
    "begin",
    [
        *tiers.QUICK,
        *tiers.LATER,
        *tiers.CAMPAIGN,
        *tiers.FORM,
        *sorted(one.removeprefix("tests/") for one in alone.read()),
    ],
)
def test_what_is_named_is_there(begin):
    file, _, case = begin.partition("::")
    assert any(one.startswith(file) for one in FILES)
    assert not case or any(one.startswith(case.partition("[")[0]) for one in near.tests_of(costs.TESTS / file))


@pytest.mark.parametrize(
    ("nodeid", "home"),
    [
        ("tests/a/test_a.py::test_b[1]", "quick"),
        ("tests/a/test_a.py::test_b[2]", "test"),
        ("tests/a/test_a.py::test_c", "test"),
        ("tests/a/test_a.py::test_new", "quick"),
        ("tests/a/test_new.py::test_b[2]", "quick"),
        ("tests/kernels/test_c_interface.py::test_a", "test"),
        ("tests/form/test_words.py::test_a", "lint"),
        ("tests/verbs/test_jit.py::test_the_examples_run[from_numba.py]", "docs"),
        ("tests/reference/test_truths.py::test_a_sample_is_reproduced[0]", "campaign"),
        ("tests/docs/test_docs.py::test_a", "docs"),
    ],
)
def test_seconds_and_files_say_which_target_runs_a_case(nodeid, home):
    assert tiers.homes([nodeid], TABLE) == {nodeid: home}


def test_a_case_that_alone_runs_a_line_is_run_by_make_test():
    """Although a campaign has others of its function, or all."""
    for one in alone.read():
        assert tiers.homes([one], costs.read())[one] in ("quick", "test")
    oracle = "tests/reference/test_exact.py::test_contour_near_full_sampling_meets_the_gaussian"
    assert tiers.homes([oracle + "_too"], costs.read()) == {oracle + "_too": "campaign"}


def test_few_cheap_cases_run_every_line_that_is_left():
    left = {("a.py", 1): {"dear", "cheap", ""}, ("a.py", 2): {"dear", "other"}, ("b.py", 7): {"", "last"}}
    assert alone.chosen(left, {"dear": 9.0}) == ["cheap", "last", "other"]
    assert alone.chosen(left, {}) == ["dear", "last"]


def test_what_a_row_names_is_run_before_a_campaign(monkeypatch):
    """In quick where it is cheap.  A row that names cases of which some run already adds none."""
    ids = [f"tests/a/test_a.py::test_b[{i}]" for i in range(40)]
    table = {"functions": {"a/test_a.py": {"test_b": 80.0}}, "dear": {"a/test_a.py": {"test_b[2]": 6.0}}}
    left = {one for one, home in tiers.homes(ids, table).items() if home == "campaign"}
    assert len(left) > 30
    for word, home in (("[17]", "quick"), ("[23]", "quick"), ("[2]", "test")):
        assert f"tests/a/test_a.py::test_b{word}" in left or word == "[2]"
        monkeypatch.setattr(tiers.mutants, "MUTANTS", (("x.py", "", "", f"a/a test_b and {word}"),))
        found = tiers.homes(ids, table)
        assert found[f"tests/a/test_a.py::test_b{word}"] == home
        assert {one for one in ids if found[one] == "campaign"} == left - {f"tests/a/test_a.py::test_b{word}"}
    monkeypatch.setattr(tiers.mutants, "MUTANTS", (("x.py", "", "", "a/a test_b"),))
    assert {one for one, home in tiers.homes(ids, table).items() if home == "campaign"} == left


def test_a_case_or_two_that_a_row_names_alone_run_in_quick(monkeypatch):
    """What a special test notices is noticed while developing, too, where it does not take long."""
    file, names = "a/test_a.py", ("test_c[1]", "test_c[2]", "test_d", "test_e[1]", "test_e[2]", "test_e[3]")
    table = {"functions": {file: {}}, "dear": {file: dict.fromkeys(names, 0.6) | {"test_d": 0.8}}}
    ids = {one: f"tests/{file}::{one}" for one in names}
    rows = [("x.py", "", "", f"a/a test_{one}") for one in "cde"]
    monkeypatch.setattr(tiers.mutants, "MUTANTS", rows)
    found = tiers.homes(ids.values(), table)
    assert {one for one in names if found[ids[one]] == "quick"} == {"test_c[1]", "test_c[2]"}
    assert found[ids["test_d"]] == "test"


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ('with open("x") as file:\n    one = pytest.importorskip("no_such.library", reason="")\n', "no_such.library"),
        ('def test_one():\n    pytest.importorskip("no_such_library")\n', ""),
    ],
)
def test_a_library_without_which_a_file_has_no_tests_is_seen_in_a_block(tmp_path, text, library):
    (tmp_path / "test_some.py").write_text(text)
    assert near.missing(tmp_path / "test_some.py") == library


def test_files_are_read_for_the_tiers_of_their_cases_only():
    assert {tier for tier in tiers.TIERS if tiers.reads(tier, "form/test_words.py")} == {"lint"}
    assert {tier for tier in tiers.TIERS if tiers.reads(tier, "verbs/test_jit.py")} == set(tiers.TIERS) - {"lint"}
    assert {tier for tier in tiers.TIERS if tiers.reads(tier, "kernels/renyi/test_rdp.py")} == {
        "quick",
        "test",
        "campaign",
    }


def test_dear_contracts_of_tables_are_quick():
    case = "testing/test_contract.py::test_contract[PairOfTables(p=(0.6, 0.4), q=(0.3, 0.7))]"
    file, name = costs.named(case)
    assert tiers.homes([case], {"functions": {}, "dear": {file: {name: 4.0}}}) == {case: "quick"}


def test_measured_seconds_take_the_place_of_those_of_their_files(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "TABLE", tmp_path / "costs.json")
    costs.write(
        {
            "tests/verbs/test_gdp.py::test_a[1]": 0.25,
            "tests/verbs/test_gdp.py::test_a[2]": 1.5,
            "tests/verbs/test_epsilon.py::test_b": 2.0,
        }
    )
    costs.write({"tests/verbs/test_epsilon.py::test_c": 0.25})
    assert json.loads(costs.TABLE.read_text()) == {
        "functions": {"verbs/test_epsilon.py": {"test_c": 0.25}, "verbs/test_gdp.py": {"test_a": 1.75}},
        "dear": {"verbs/test_gdp.py": {"test_a[2]": 1.5}},
    }


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("fastacct/mechanisms/network.py", "mechanisms/test_network.py"),
        ("fastacct/ledger/filters.py", "ledger/test_filters.py"),
        ("fastacct/readers/job.py", "mechanisms/test_parallel.py"),
        ("fastacct_ext/include/line/capped_tail.h", "kernels/line/test_capped_line.py"),
        ("fastacct_ext/include/exact/one_step.h", "verbs/test_dpsgd.py"),
        ("fastacct/samplers/poisson.py", "samplers/test_poisson.py"),
        ("fastacct/losses/measure.py", "losses/test_measure.py"),
        ("fastacct_ext/include/density/panel.h", "kernels/density/test_panel.py"),
        ("fastacct_ext/include/renyi/order_series.h", "kernels/renyi/test_order_series.py"),
        ("fastacct_ext/include/loss/share.h", "kernels/loss/test_share.py"),
    ],
)
def test_tests_of_a_file_are_found_and_keep_to_their_seconds(file, test):
    found, table = near.chosen(near.ROOT / file), costs.read()
    assert len(found) > 10
    assert test in {one[0] for one in found}
    read = near.READ * len({one for one, _ in found})
    assert near.START + read + sum(near.cost(one, table) for one in found[1:]) <= near.SECONDS + near.READ
    assert near.chosen(near.ROOT / file, -1.0) == found[:1]  # what costs nothing has room in any case


def test_tests_without_their_library_are_left_out_and_the_others_run(tmp_path, monkeypatch):
    """Of functions of a file that skips itself pytest says that they are not there, and runs nothing."""
    for name in ("json", "no_such_library"):
        (tmp_path / f"test_{name}.py").write_text(
            f'import pytest\n\npytest.importorskip("{name}")\n\n\ndef test_a(): ...\n'
        )
    monkeypatch.setattr(near, "TESTS", tmp_path)
    near.all_tests.cache_clear()
    assert list(near.all_tests()) == [("test_json.py", "test_a")]
    near.all_tests.cache_clear()
    assert near.missing(tmp_path / "test_no_such_library.py") == "no_such_library"


def test_quick_has_a_fifth_of_the_examples():
    seen = []

    @settings(max_examples=50, database=None)
    @given(st.integers())
    def test(number):
        seen.append(number)

    tiers.with_fewer_examples(test)
    test()
    assert 1 <= len(seen) <= 10
    tiers.with_fewer_examples(lambda: None)  # which has no settings


CASES = [f"test_b[{i}]" for i in range(300)]
COSTS = {"functions": {"test_a.py": {"test_b": 10.0, "test_c": 1.0}}, "dear": {"test_a.py": {"test_b[2]": 6.0}}}


def test_of_a_function_quick_runs_the_cases_that_take_a_part_of_a_second():
    cheap = costs.drawn(COSTS, "test_a.py", CASES, 0.16)  # of four seconds beside the dear one
    assert len(cheap) == 11
    assert CASES[2] not in cheap
    assert cheap == costs.drawn(COSTS, "test_a.py", CASES[::-1], 0.16) < costs.drawn(COSTS, "test_a.py", CASES, 3.0)


@pytest.mark.parametrize("cases", [["test_c"], ["test_c[1]", "test_c[2]", "test_c[3]"]])
def test_of_a_function_quick_runs_one_case_at_least(cases):
    """By names alone three of five such functions would have none."""
    assert len(costs.drawn(COSTS, "test_a.py", cases, 0.15)) == 1
    assert costs.drawn(COSTS, "test_a.py", ["test_b[2]"], 0.15) == set()  # which is dear


def test_of_a_function_test_runs_the_cases_that_take_a_second_and_a_half():
    dear = {"test_b[2]": 0.5, "test_b[3]": 1.0, "test_b[9]": 9.0, "test_c[30]": 30.0, "test_c[40]": 40.0}
    table = {"functions": {"a/test_a.py": {"test_b": 25.5, "test_c": 70.0}}, "dear": {"a/test_a.py": dear}}
    others = [f"test_b[{i}]" for i in range(100, 400)]
    homes = tiers.homes([f"tests/a/test_a.py::{one}" for one in (*dear, *others)], table)
    assert [homes[f"tests/a/test_a.py::{one}"] for one in dear] == [
        "test",
        "test",
        "campaign",
        "test",  # dear, but one of a function always runs
        "campaign",
    ]
    places = [homes[f"tests/a/test_a.py::{one}"] for one in others]  # 15 s of them, of which 1.5 run
    assert places.count("campaign") == 270
    assert 0 < places.count("quick") <= 20


def test_what_campaigns_name_leaves_its_place_to_others():
    """Not the one case of its function that runs."""
    begin = next(iter(tiers.CAMPAIGN))
    file, name = costs.named(begin)
    function = name.partition("[")[0]
    cases = [f"tests/{begin}{i}]" for i in range(3)] + [f"tests/{file}::{function}[other]"]
    table = {"functions": {file: {function: 100.0}}, "dear": {}}
    assert list(tiers.homes(cases, table).values()) == ["campaign"] * 3 + ["quick"]


def test_what_hypothesis_draws_is_dear_above_five_times_as_much(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "TABLE", tmp_path / "costs.json")
    cases = {f"tests/verbs/test_gdp.py::test_{name}": cost for name, cost in (("a", 1.0), ("b", 1.0), ("c", 2.0))}
    costs.write(cases, {"tests/verbs/test_gdp.py::test_b", "tests/verbs/test_gdp.py::test_c"})
    assert list(costs.read()["dear"]["verbs/test_gdp.py"]) == ["test_a", "test_c"]


def test_what_is_dear_in_a_tier_and_what_is_new_is_added(tmp_path, monkeypatch):
    """A value that b[2] kept for b[3] is paid by b[3] where b[2] does not run."""
    monkeypatch.setattr(costs, "TABLE", tmp_path / "costs.json")
    file, path = "verbs/test_gdp.py", "tests/verbs/test_gdp.py::"
    costs.write({f"{path}test_a": 0.25, f"{path}test_b[2]": 3.0, f"{path}test_b[3]": 0.1})
    costs.add({f"{path}test_a": 0.3, f"{path}test_b[3]": 2.0, f"{path}test_c[1]": 0.2, f"{path}test_c[2]": 4.0})
    assert costs.read() == {
        "functions": {file: {"test_a": 0.25, "test_b": 5.1, "test_c": 4.2}},
        "dear": {file: {"test_b[2]": 3.0, "test_b[3]": 2.0, "test_c[2]": 4.0}},
    }


def test_cheap_cases_that_take_more_than_they_did_have_their_sum(tmp_path, monkeypatch):
    """Two of four took half a second: all take one, beside the dear one."""
    monkeypatch.setattr(costs, "TABLE", tmp_path / "costs.json")
    file, path = "verbs/test_gdp.py", "tests/verbs/test_gdp.py::"
    costs.write({f"{path}test_a": 0.25, f"{path}test_b[1]": 0.25, f"{path}test_b[2]": 0.25, f"{path}test_b[3]": 3.0})
    collected = [f"{path}test_a", *(f"{path}test_b[{i}]" for i in range(1, 6))]
    costs.add({f"{path}test_a": 0.125, f"{path}test_b[1]": 0.25, f"{path}test_b[2]": 0.25}, (), collected)
    assert costs.read()["functions"][file] == {"test_a": 0.25, "test_b": 4.0}


def test_the_option_leaves_out_what_is_not_of_the_tier():
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--collect-only", "-q", "--tier=quick"]
    files = ["tests/of_tools/test_tiers.py", "tests/form/test_words.py"]
    run = subprocess.run([*command, *files], cwd=near.ROOT, capture_output=True, text=True, check=False)
    assert "test_tiers.py" in run.stdout
    assert "form/test_words.py" not in run.stdout


def test_what_rows_name_is_in_an_order_of_its_own():
    """Workers of one run must find the same tests: which case of two rows is drawn depends on which row comes first."""
    case = "tests/readers/test_contour.py::test_what_two_pairs_say_is_of_the_direction_that_is_asked"
    code = f"from tests import tiers; print([*tiers.named([{case!r}])])"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
