"""Rules that are taken out to see a test fail: each is still where its row says."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from tests import kernel_mutants, mutants, near, take_out


@pytest.mark.parametrize(
    ("folder", "rows"),
    [*take_out.TABLES.items()],
    ids=["python", "kernels"],
)
def test_every_rule_that_is_taken_out_is_there_once(folder, rows):
    found = [(file, text, (take_out.ROOT / folder / file).read_text("utf-8").count(text)) for file, text, *_ in rows]
    assert [one for one in found if one[-1] != 1] == []


def test_no_rule_has_two_rows():
    rows = [(file, text.strip(), without.strip()) for _, (file, text, without, _) in take_out.rows([])]
    assert [row for row, many in Counter(rows).items() if many > 1] == []


@pytest.mark.parametrize("row", sorted({row[-1] for rows in take_out.TABLES.values() for row in rows}))
def test_the_test_that_must_notice_is_there(row):
    assert near.named(row)


@pytest.mark.parametrize("file", sorted({mutants.noticed_by(row[-1])[0] for row in kernel_mutants.MUTANTS}))
def test_what_is_not_built_for_a_row_its_test_compiles(file):
    """Of a test that asks the package alone a row would take out nothing."""
    assert re.search(
        r"\b(?:kernel_parts|compiled)\b.* import|import .*\bkernel_parts\b", (near.TESTS / file).read_text("utf-8")
    )


#: Code that rounds or chooses a direction.
CHOOSES = re.compile(
    r"nextafter|\b(?:ceil|floor|float_above|float_below|digits_up|digits_down|_up|_down)\(|\bROUND_|\bROUNDING\b"
    r"|\(1(?:\.0)? [+-] \d|DIRECTIONS|\bREMOVE\b|flipped\(|\.infinite\b|infinite=|both_ways|(?:direction|relation) =="
)
#: Why modules that do have no row: how their names begin.
EXCUSED = {
    "certificate/search": "where a search looks; the checker proves what it finds",
    "compat/": "adapters: their tests run beside their libraries, in `make backends`",
    "conformance/picture.py": "a picture",
    "core/progress.py": "a bar",
    "plot/": "places of lines and labels in pictures",
    "readers/tilt.py": "which tilt, period and cap a finite sum takes; any others are valid",
    "reference/": "the oracle: all else is compared with it",
    "reports/written.py": "titles of pictures",
}
#: Headers that say what something may be off by.
LEDGER = re.compile(r"FA_EPS\b|\bfa_cap_ledger\b|_off\b|_error\b|\bomitted|\.upper\b|\bupper\b")
#: Why headers that do have no row.
UNPROVED = {
    "exact/threshold.h": "a search; what is proved is proved by deltas there",
    "fastacct.h": "the interface",
    "grid.h": "hands numbers over",
    "kernels.h": "the table of kernels",
    "kernels_impl.h": "hands numbers over",
    "line/capped_floor.h": "where a floor is laid; the ledger bounds what it leaves out",
    "line/capped_job.h": "the record of a job",
    "line/capped_place.h": "where caps are laid; the ledger bounds what they leave out",
    "num/math.h": "functions whose errors docs/algorithms/arithmetic.md proves and test_rounding_paid measures",
    "scalar.h": "hands numbers over",
}


def code(path):
    """Without docstrings and comments."""
    text = path.read_text("utf-8")
    return re.sub(r"/\*[\s\S]*?\*/" if path.suffix == ".h" else r'"""[\s\S]*?"""|#.*', "", text)


def lacking(folder, suffix, pattern, rows, excused):
    """Files in which a pattern occurs, without a row, that are excused and that are not."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob(f"*{suffix}"))}
    found = [name for name in files.keys() - {row[0] for row in rows} if pattern.search(code(files[name]))]
    return sorted(one for one in found if not one.startswith(excused)), [
        one for one in found if one.startswith(excused)
    ]


@pytest.mark.parametrize(
    ("folder", "suffix", "pattern", "rows", "excused"),
    [
        (near.PACKAGE, ".py", CHOOSES, mutants.MUTANTS, EXCUSED),
        (near.HEADERS, ".h", LEDGER, (*kernel_mutants.MUTANTS, *kernel_mutants.BUILT), UNPROVED),
    ],
    ids=["modules", "headers"],
)
def test_what_rounds_or_chooses_a_direction_or_has_an_entry_of_a_ledger_has_a_row(
    folder, suffix, pattern, rows, excused
):
    missing, others = lacking(folder, suffix, pattern, rows, tuple(excused))
    assert missing == []
    assert [begin for begin in excused if not any(one.startswith(begin) for one in others)] == []


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
