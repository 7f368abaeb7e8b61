"""Rules that are taken out to see a test fail: each is still where its row says."""

import pytest

from tests import kernel_mutants, mutants, near


@pytest.mark.parametrize(
    ("folder", "rows"),
    [("fastacct", mutants.MUTANTS), ("fastacct_ext/include", kernel_mutants.MUTANTS)],
    ids=["python", "kernels"],
)
def test_every_rule_that_is_taken_out_is_there_once(folder, rows):
    found = [(file, text, (mutants.ROOT / folder / file).read_text("utf-8").count(text)) for file, text, *_ in rows]
    assert [one for one in found if one[-1] != 1] == []


@pytest.mark.parametrize("row", sorted({row[-1] for row in (*mutants.MUTANTS, *kernel_mutants.MUTANTS)}))
def test_the_test_that_must_notice_is_there(row):
    assert near.named(row)
