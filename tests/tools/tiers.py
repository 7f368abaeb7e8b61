"""Which tests run when: `pytest --tier=quick` and the other tiers.  python -m tests.tiers lists what `make test` lacks.

make quick     of every function cases of at most 0.3 s of process time, for 0.15 s together, one at least; what QUICK
               names; of 0.7 s at most a case or two that a row of mutants.py or kernel_mutants.py names alone
               (tests/costs.json has the seconds)
make test      of every function the cases that take 1.5 s together, one at least, what WHOLE names, what rows name,
               and the cases that alone run a line of the package (alone.py)
make lint      form of the code: rooms, imports, types, words of messages
make docs      form of the pages: links, sentences, tables, examples
make campaign  all that is not form, and what CAMPAIGN names; Hypothesis at random

Without --tier every test that is named runs.  A test that is new and was never measured counts as cheap.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import pytest

from tests import alone, costs, kernel_mutants, mutants

#: Where Hypothesis keeps the settings of a test.
SETTINGS = "_hypothesis_internal_use_settings"
TIERS = ("quick", "test", "lint", "docs", "campaign")
#: Which targets' cases a tier runs, where not its own alone.
RUNS = {"test": {"quick", "test"}, "campaign": {"quick", "test", "campaign"}}

#: What tests form, a folder or how a case begins, and the target that runs it.
FORM = {
    "form/": "lint",
    "docs/": "docs",
    "verbs/test_jit.py::test_the_examples_run": "docs",
}

PAIRS = "whole/test_compositions.py::test_no_pair_of_kinds_is_below_a_part_or_itself_with_one_release_less"
SUMS = "whole/test_compositions.py::test_divergences_of_all_pairs_of_examples_add_up"
EXTREMES = "mechanisms/compiled/test_extremes.py::"
CONTRACT = "testing/test_contract.py::test_contract["
COMPILED = "kernels/test_c_interface.py::"
ORACLE = "the oracle against itself; its values are stored"
#: Too dear for every change: how a case begins, and what stands in for it.
CAMPAIGN = {
    f"{PAIRS}[0-Gaussian(noise_multiplier=8.0).with_replacement(": "it stands second beside other kinds",
    f"{PAIRS}[0-GOPA(": "it stands second beside other kinds",
    f"{PAIRS}[1-": "a third of the pairs, of each kind others",
    f"{PAIRS}[2-": "a third of the pairs, of each kind others",
    f"{CONTRACT}Gaussian(noise_multiplier=2.0).with_replacement(": "all data sets of tiny instances",
    f"{CONTRACT}Gaussian(noise_multiplier=0.7).poisson(": "other rates, and the least rate of discrete noise",
    f"{CONTRACT}Gaussian(noise_multiplier=2.0).fixed_size(batch_size=10.0, records=1000.0).group(": "without the group",
    f"{SUMS}[0-zero_out]": "three other relations",
    f"{SUMS}[1-": "a third of the pairs",
    f"{SUMS}[2-": "a third of the pairs",
    "kernels/test_direct_sums.py::test_what_is_stored": "what was printed is stored, and known by a digest",
    f"{COMPILED}test_so_it_has_at_the_best_level": "a program without Python at the least level",
    f"{COMPILED}test_without_vectors_only": "the kernels on Arm, compiled without vectors",
    f"{EXTREMES}test_selections_of_compiled_mechanisms_": "their parts are told apart beside it",
    "reference/test_exact.py::test_both_directions": ORACLE,
    "reference/test_exact.py::test_contour_": ORACLE,
    "reference/test_exact.py::test_directions_obey": ORACLE,
    "reference/test_exact.py::test_epsilon_inverts": ORACLE,
    "reference/test_truths.py::test_a_sample_is_reproduced": ORACLE,
}

#: In quick whatever they cost: they notice what special tests do not (a direction, a count, a
#: relation), each entry of the ledgers of lines and rays, and the ends of searches.  The first
#: case of a file in kernels pays for what the others compile, and seems dear.
QUICK = (
    f"{CONTRACT}PairOf",
    f"{CONTRACT}GaussianMixture(",
    "testing/test_contract.py::test_the_contract_catches_directions_that_are_exchanged[",
    "certificate/test_line.py::test_what_is_wrong_is_not_proved_on_a_line[a line left of 1]",
    "kernels/exact/test_answers.py::test_a_parameter_meets_its_target",
    "kernels/line/test_flat.py::test_every_error_of_a_ray_is_needed",
    "kernels/test_direct_sums.py::test_bounds_of_a_line_hold",
    "kernels/test_direct_sums.py::test_bounds_of_losses_that_are_data_hold",
    "kernels/test_direct_sums.py::test_bounds_of_the_moments_of_mixtures_hold",
    "kernels/test_direct_sums.py::test_bounds_of_windows_on_losses_that_are_data_hold",
)

#: Process time of a case up to which quick runs what a row of mutants.py or kernel_mutants.py names, if it names a few.
NAMED, FEW = 0.7, 2

#: Not in quick: one of them compiles all kernels, for 15 s.
LATER = (COMPILED,)

#: In test whatever they cost: every mechanism keeps the contract.
WHOLE = (CONTRACT,)


def named(nodeids: Iterable[str]) -> Iterator[list[str]]:
    """The cases that each row of the tables names, where there are any."""
    by_file = defaultdict(list)
    for nodeid in nodeids:
        by_file[costs.named(nodeid)[0]].append(nodeid)
    rows = (*mutants.MUTANTS, *kernel_mutants.MUTANTS, *kernel_mutants.BUILT)
    for file, words in sorted({mutants.noticed_by(row[-1]) for row in rows}):
        begin, *others = words.split(" and ")
        own = (one for one in by_file[file] if costs.named(one)[1].startswith(begin))
        yield [one for one in own if all((word.removeprefix("not ") in one) != ("not " in word) for word in others)]


def homes(nodeids: Iterable[str], table: costs.Table) -> dict[str, str]:
    """The cheapest target that runs each case: quick, test, lint, docs or campaign."""
    functions, lone = defaultdict(list), alone.read()
    found: dict[str, str] = {}
    for nodeid in nodeids:
        file, case = costs.named(nodeid)
        whole = f"{file}::{case}"
        form = next((target for begin, target in FORM.items() if whole.startswith(begin)), None)
        if form or (whole.startswith(tuple(CAMPAIGN)) and nodeid not in lone):
            found[nodeid] = form or "campaign"
        else:
            functions[file, case.partition("[")[0]].append((nodeid, case))
    for (file, function), both in functions.items():
        cases = [case for _, case in both]
        is_later = f"{file}::{function}".startswith(LATER)
        quick = set() if is_later else costs.drawn(table, file, cases, costs.SHARE)
        test = costs.affordable(table, file, cases)
        for nodeid, case in both:
            whole = f"{file}::{case}"
            if case in quick or whole.startswith(QUICK):
                found[nodeid] = "quick"
            else:
                in_test = case in test or whole.startswith(WHOLE) or nodeid in lone
                found[nodeid] = "test" if in_test else "campaign"
    for cases in named(found):
        if len(cases) <= FEW or {found[one] for one in cases} == {"campaign"}:
            later = [one for one in cases if found[one] in ("test", "campaign")]
            found |= {one: "quick" if is_cheap(table, one) else "test" for one in later}
    return found


def is_cheap(table: costs.Table, nodeid: str) -> bool:
    """Whether a case that a row names runs in quick."""
    file, case = costs.named(nodeid)
    return costs.dear_cases(table, file, case).get(case, 0.0) <= NAMED


def reads(tier: str, file: str) -> bool:
    """Whether a file may have cases of a tier, so that it has to be imported for it."""
    homes = {target for begin, target in FORM.items() if file.startswith(begin.partition("::")[0])}
    return tier in homes if tier in FORM.values() else not file.startswith(tuple(FORM))


def with_fewer_examples(test: object) -> None:
    """Give a test of Hypothesis a fifth of its examples."""
    own = getattr(test, SETTINGS, None)
    if own is not None:
        setattr(test, SETTINGS, type(own)(own, max_examples=max(1, own.max_examples // costs.FEWER)))


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
    places = homes(listing.cases, table)
    for case, place in places.items():
        if place not in RUNS["test"]:
            print(f"make {place:<9} {case}")
    for place, count in sorted(Counter(places.values()).items()):
        print(f"{place}: {count} cases")
    new = {
        one.partition("[")[0] for one, place in places.items() if place == "quick" and not costs.is_known(table, one)
    }
    print(f"{len(new)} functions were never measured, and count as cheap: python -m tests.costs --new")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
