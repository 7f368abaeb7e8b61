"""The map of the tests: files that tests/README.md names exist, every folder is on it, no test file is too long, and
what each test costs is known."""

import re
from pathlib import Path

from tests import costs, near

TESTS = Path(__file__).parents[1]
MAP = (TESTS / "README.md").read_text()
FILES = sorted(TESTS.rglob("test_*.py"))


def test_files_that_the_map_names_exist():
    named = re.findall(r"`([a-z_/]+\.(?:py|sh))`", MAP)
    assert len(named) > 30
    places = (TESTS, TESTS / "kernels", TESTS / "tools", TESTS.parent, TESTS.parent / "fastacct")
    assert [one for one in named if not any((place / one).exists() for place in places)] == []


def test_every_test_is_in_a_folder_of_the_map():
    folders = {path.relative_to(TESTS).parts[0] for path in FILES}
    assert {one for one in folders if f"`{one}`" not in MAP} == set()


def test_no_test_file_has_more_than_400_lines():
    assert [path.name for path in FILES if path.read_text().count("\n") > 400] == []


def test_what_each_test_costs_is_known():
    """One that was never measured counts as cheap, and a dear one makes `make quick` long: make costs FILES=--new."""
    table = costs.read()
    new = ["::".join(one) for one in near.all_tests() if not costs.is_known(table, "::".join(one))]
    assert [one for one in new if not one.startswith("compat/")] == []  # adapters run in environments of their own
