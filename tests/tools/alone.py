"""Cases of the campaign that alone run a line of the package: `make test` runs those of tests/alone.txt, too.

    python -m pytest -p tests.alone -n 2 --tier=test tests        has the lines that `make test` runs
    python -m pytest -p tests.alone -n 2 --tier=campaign tests    has them of all cases, each by its name: an hour
    python -m tests.alone --write                                 chooses few and cheap cases for what is left

It needs `pip install coverage`.  Lines that run in a process that a test starts are not seen.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import costs

CASES = costs.TESTS / "alone.txt"
#: Where each process of a run leaves its lines.
MADE = Path(".alone")
#: What a case costs beside its own seconds, so that few cases are chosen.
EACH = 0.05


def read() -> frozenset[str]:
    """The cases, as pytest names them."""
    return frozenset(CASES.read_text(encoding="utf-8").splitlines())


class Lines:
    """The lines that each case runs in this process."""

    def __init__(self, tier: str) -> None:
        import coverage

        MADE.mkdir(exist_ok=True)
        self.found = coverage.Coverage(data_file=MADE / f"{tier}.{os.getpid()}", source=["fastacct"])
        self.found.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.found.switch_context(item.nodeid)
        done = yield
        self.found.switch_context("")
        return done

    def pytest_unconfigure(self) -> None:
        self.found.stop()
        self.found.save()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # its workers run the tests
    config.pluginmanager.register(Lines(config.getoption("tier") or "all"))


def lines(tier: str) -> dict[tuple[str, int], set[str]]:
    """The lines that a run of this tier left, and the cases that ran each."""
    import coverage

    found = defaultdict(set)
    for path in MADE.glob(f"{tier}.*"):
        data = coverage.CoverageData(path)
        data.read()
        for file in data.measured_files():
            for line, cases in data.contexts_by_lineno(file).items():
                found[file, line] |= set(cases)
    return found


def chosen(left: dict[tuple[str, int], set[str]], cost: dict[str, float]) -> list[str]:
    """Cases that together run every line that is left: again and again the one with the most lines for its seconds."""
    of_case = defaultdict(set)
    for line, cases in left.items():
        for case in cases - {""}:
            of_case[case].add(line)
    found = []
    while of_case:
        best = max(sorted(of_case), key=lambda case: len(of_case[case]) / (cost.get(case, 0.0) + EACH))
        found.append(best)
        done = of_case.pop(best)
        of_case = {case: own - done for case, own in of_case.items() if own - done}
    return sorted(found)


def main() -> int:
    """Write the cases."""
    if sys.argv[1:] != ["--write"]:
        print(__doc__)
        return 2
    known = lines("test")
    left = {line: cases for line, cases in lines("campaign").items() if line not in known}
    dear = {f"tests/{file}::{case}": cost for file, rows in costs.read()["dear"].items() for case, cost in rows.items()}
    cases = chosen(left, dear)
    CASES.write_text("".join(f"{case}\n" for case in cases), encoding="utf-8")
    print(f"{len(left)} lines, {len(cases)} cases: {CASES.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
