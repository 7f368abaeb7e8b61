"""Rules that are taken out to see a test fail: each is still where its row says."""

import os
import subprocess
import sys

import pytest

from tests import kernel_mutants, mutants, near, take_out


@pytest.mark.parametrize(
    ("folder", "rows"),
    [("fastacct", mutants.MUTANTS), ("fastacct_ext/include", kernel_mutants.MUTANTS)],
    ids=["python", "kernels"],
)
def test_every_rule_that_is_taken_out_is_there_once(folder, rows):
    found = [(file, text, (take_out.ROOT / folder / file).read_text("utf-8").count(text)) for file, text, *_ in rows]
    assert [one for one in found if one[-1] != 1] == []


@pytest.mark.parametrize("row", sorted({row[-1] for row in (*mutants.MUTANTS, *kernel_mutants.MUTANTS)}))
def test_the_test_that_must_notice_is_there(row):
    assert near.named(row)


def test_rows_of_changed_files_and_of_changed_tests_are_taken_out():
    row = ("readers/cell.py", "a", "b", "core/search test_a")
    assert take_out.is_of("fastacct", row, {"README.md", "fastacct/readers/cell.py"})
    assert take_out.is_of("fastacct", row, {"tests/core/test_search.py"})
    assert not take_out.is_of("fastacct", row, {"fastacct_ext/include/readers/cell.py", "tests/readers/test_cell.py"})
    assert {row[0] for _, row in take_out.rows(["capped_tail"], ["fastacct_ext/include"])} == {"line/capped_tail.h"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_rule_that_no_test_notices_is_missed_and_says_so():
    """In a process of its own, that has no module of ours: a blank that is added changes nothing."""
    code = """
import sys
from tests import take_out
same = ("core/search.py", "_MOST_TRIES: Final = 400", "_MOST_TRIES: Final =  400", "core/search test_a_jump")
none = ("core/search.py", "_MOST_TRIES: Final = 400", "_MOST_TRIES: Final = None", "core/search test_a_jump")
print([take_out.take_out([("fastacct", one)]) for one in (same, none)])
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=take_out.ROOT, capture_output=True, text=True, check=False)
    told = [line.partition(":")[0] for line in run.stdout.splitlines()]
    counts = ["1 rules taken out, 1 missed", "1 rules taken out, 0 missed"]
    assert told == ["MISSED  core/search.py", counts[0], "noticed core/search.py", counts[1], "[1, 0]"], run.stderr
