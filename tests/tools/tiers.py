"""Which tests run when: `pytest --tier=quick` and the other tiers.  python -m tests.tiers lists what `make test` lacks.

make quick     what takes at most a second of process time (tests/costs.json), and what QUICK names
make test      all but form and campaigns
make lint      form of the code: rooms, imports, types, words of messages
make docs      form of the pages: links, sentences, tables, examples
make campaign  all that is not form, and what CAMPAIGN names; Hypothesis at random

Without --tier every test that is named runs.  A test that is new and was never measured counts as cheap.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter

import pytest

from tests import costs

TIERS = ("quick", "test", "lint", "docs", "campaign")

#: What tests form, a folder or how a case begins, and the target that runs it.
FORM = {
    "form/": "lint",
    "docs/": "docs",
    "verbs/test_jit.py::test_the_examples_run": "docs",
}

PAIRS = "whole/test_compositions.py::test_no_pair_of_kinds_is_below_a_part_or_itself_with_one_release_less"
#: Too dear for every change: how a case begins, and what stands in for it.
CAMPAIGN = {
    f"{PAIRS}[Gaussian(noise_multiplier=8.0).with_replacement(": "it stands second beside all other kinds",
    f"{PAIRS}[GOPA(": "it stands second beside all other kinds",
    "whole/test_compositions.py::test_divergences_of_all_pairs_of_examples_add_up[zero_out]": "three other relations",
    "verbs/test_jit.py::test_laplace_noise_of_any_scale_is_the_built_in[50.0-difference]": "five other scales",
    "verbs/test_jit.py::test_laplace_noise_of_any_scale_is_the_built_in[500.0-difference]": "the loss at this scale",
    "kernels/line/test_added_steps.py::test_the_usual_line_is_the_oracle_s[three steps]": "five and ten steps",
    "reference/test_exact.py::test_both_directions": "the oracle against itself; published values stay",
    "reference/test_exact.py::test_contour_": "the oracle against itself; published values stay",
    "reference/test_exact.py::test_directions_obey": "the oracle against itself; published values stay",
    "reference/test_exact.py::test_epsilon_inverts": "the oracle against itself; published values stay",
    "reference/test_truths.py::test_a_sample_is_reproduced": "the oracle against itself; its values are stored",
    "kernels/loss/test_windows.py::test_few_steps_need_no_grid[2]": "1, 7 and 300 steps",
    "kernels/loss/test_windows.py::test_few_steps_need_no_grid[40]": "1, 7 and 300 steps",
}

#: In quick whatever they cost: they notice what special tests do not (a direction, a count, a relation).
QUICK = (
    "testing/test_contract.py::test_contract[PairOf",
    "testing/test_contract.py::test_contract[GaussianMixture(",
    "testing/test_contract.py::test_the_contract_catches_directions_that_are_exchanged[",
)


def home(nodeid: str, table: costs.Table) -> str:
    """The cheapest target that runs a case: quick, test, lint, docs or campaign."""
    case = "::".join(costs.named(nodeid))
    for begin, target in FORM.items():
        if case.startswith(begin):
            return target
    if case.startswith(tuple(CAMPAIGN)):
        return "campaign"
    return "test" if costs.is_dear(table, nodeid) and not case.startswith(QUICK) else "quick"


def runs(tier: str, nodeid: str, table: costs.Table) -> bool:
    """Whether a tier runs a case."""
    homes = {"test": ("quick", "test"), "campaign": ("quick", "test", "campaign")}
    return home(nodeid, table) in homes.get(tier, (tier,))


def reads(tier: str, file: str) -> bool:
    """Whether a file may have cases of a tier, so that it has to be imported for it."""
    homes = {target for begin, target in FORM.items() if file.startswith(begin.partition("::")[0])}
    return tier in homes if tier in FORM.values() else not file.startswith(tuple(FORM))


class Listing:
    """Collects what is there, and runs nothing."""

    def __init__(self) -> None:
        self.cases: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.cases = [item.nodeid for item in session.items]


def main() -> int:
    """Print every case that `make test` leaves out with the target that runs it, and how many each target has."""
    listing = Listing()
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main(["--collect-only", "-p", "no:xdist", "tests"], plugins=[listing])
    table = costs.read()
    places = {case: home(case, table) for case in listing.cases}
    for case, place in places.items():
        if not runs("test", case, table):
            print(f"make {place:<9} {case}")
    for place, count in sorted(Counter(places.values()).items()):
        print(f"{place}: {count} cases")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
