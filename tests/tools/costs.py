"""What tests cost, in seconds of process time, written to tests/costs.json: python -m tests.costs [file ...].

The tests run one after the other in one process, those of the named files or all of them.  `functions` has the sum of
all cases of a function, `dear` the cases that take more than 0.3 s; those of Hypothesis may take five times as
long, since `make quick` has a fifth of the examples.  A fixture that cases share counts with each of them in equal
parts; processes that a test starts and waits for count too.  Rows of files that did not run are kept.

    python -m tests.costs --new             adds functions that were never measured; moved and renamed ones are new
    python -m tests.costs --tier=quick      adds what takes longer than it did among the cases that `make quick` runs

A value that several tests keep is paid by the first of them: by another one, where a tier leaves that out.  So a tier
is measured as it runs, and what is found dear there is added to the rows.  Of a function whose cheap cases are drawn
all are taken to cost what those drawn do.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Generator, Iterable
from pathlib import Path
from zlib import crc32

import pytest

TESTS = Path(__file__).resolve().parents[1]
TABLE = TESTS / "costs.json"
#: Slow to import, and so imported before the first test that uses them pays for all.
LIBRARIES = ("mpmath", "scipy.stats", "numba", "xarray", "pandas", "zarr", "dask.array", "matplotlib.pyplot")
#: Process time of a case that `make quick` runs, and of all that it runs of a function with several of these.
LIMIT, SHARE = 0.3, 0.15
#: Process time of all cases of a function that `make test` runs.
MOST = 1.5
#: Examples of Hypothesis that `make quick` has one of.
FEWER = 5

#: By what is measured (functions, dear), file and function or case.
Table = dict[str, dict[str, dict[str, float]]]


def named(nodeid: str) -> tuple[str, str]:
    """File and case of a test: tests/verbs/test_gdp.py::test_a[1] is verbs/test_gdp.py, test_a[1]."""
    path, _, case = nodeid.partition("::")
    return path.removeprefix("tests/"), case


def read() -> Table:
    """The table; without rows where nothing was measured."""
    return json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {"functions": {}, "dear": {}}


def is_known(table: Table, nodeid: str) -> bool:
    """Whether the function of a case was measured."""
    file, case = named(nodeid)
    return case.partition("[")[0] in table["functions"].get(file, {})


def dear_cases(table: Table, file: str, case: str) -> dict[str, float]:
    """The cases of the function of a case that are dear, and what they take."""
    function = case.partition("[")[0]
    return {one: cost for one, cost in table["dear"].get(file, {}).items() if one.partition("[")[0] == function}


def one_of(table: Table, file: str, case: str, seconds: float) -> int:
    """Of how many cheap cases of a function one is drawn when they may take some seconds together."""
    whole = table["functions"].get(file, {}).get(case.partition("[")[0], 0.0)
    return max(1, math.ceil((whole - sum(dear_cases(table, file, case).values())) / seconds))


def drawn(table: Table, file: str, cases: Collection[str], seconds: float) -> set[str]:
    """Of the cases of a function cheap ones that together take some seconds, one at least: drawn by their names.

    Of a function that was never measured all cases are cheap.
    """
    cheap = sorted(set(cases) - table["dear"].get(file, {}).keys(), key=lambda case: crc32(case.encode()))
    return set(cheap[: max(1, len(cheap) // one_of(table, file, cheap[0], seconds))]) if cheap else set()


def affordable(table: Table, file: str, cases: Collection[str]) -> set[str]:
    """Of the cases of a function those that `make test` runs: cheap ones, then of the dear the cheapest."""
    dear = table["dear"].get(file, {})
    found, spent = drawn(table, file, cases, MOST), 0.0
    for case in sorted(dear.keys() & set(cases), key=lambda case: (dear[case], case)):
        if spent > 0.0 and spent + dear[case] > MOST:
            break
        found.add(case)
        spent += dear[case]
    return found


def spent() -> float:
    """Process time of this process and of those it has waited for."""
    return sum(os.times()[:4])


class Watch:
    """Measures cases, and apart from them what fixtures that several cases share take."""

    def __init__(self, only_new: bool = False) -> None:
        self.only_new = only_new
        self.own: dict[str, float] = {}
        self.drawn: set[str] = set()
        self.users: dict[object, list[str]] = defaultdict(list)
        self.fixtures: dict[object, float] = defaultdict(float)
        self.inner: list[float] = [0.0]
        self.collected: list[str] = []

    def pytest_sessionstart(self) -> None:
        for library in LIBRARIES:
            try:
                importlib.import_module(library)
            except ImportError:
                print(f"{library} is not installed: its tests are left out")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.collected = [one.nodeid for one in items]
        if self.only_new:
            table = read()
            items[:] = [one for one in items if not is_known(table, one.nodeid)]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: object) -> Generator[None, object, object]:
        if getattr(fixturedef, "scope", "function") == "function":
            return (yield)
        self.inner.append(0.0)
        start = spent()
        try:
            return (yield)
        finally:
            whole = spent() - start
            self.fixtures[fixturedef] += whole - self.inner.pop()
            self.inner[-1] += whole

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.inner[-1] = 0.0
        start = spent()
        try:
            return (yield)
        finally:
            if hasattr(getattr(item, "obj", None), "hypothesis"):
                self.drawn.add(item.nodeid)
            self.own[item.nodeid] = spent() - start - self.inner[-1]
            asked = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
            for one in (one for found in asked.values() for one in found):
                self.users[one].append(item.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        cases = self.own.copy()
        for one, seconds in self.fixtures.items():
            for nodeid in self.users[one]:
                cases[nodeid] += seconds / len(self.users[one])
        tier = session.config.getoption("--tier")
        if tier is None:
            write(cases, self.drawn)
        else:
            examples = FEWER if tier == "quick" else 1
            measured = {one: cost * (examples if one in self.drawn else 1) for one, cost in cases.items()}
            add(measured, self.drawn, self.collected)


def is_dear(nodeid: str, cost: float, drawn: Container[str]) -> bool:
    """Whether `make quick` leaves out a case of this cost; of those in `drawn` it has a fifth of the examples."""
    return cost > LIMIT * (FEWER if nodeid in drawn else 1)


def add(cases: dict[str, float], drawn: Container[str] = (), collected: Iterable[str] = ()) -> None:
    """Add to the table functions that it lacks, and of others what is dear, to their sums too: others paid for it.

    Where the cheap cases of a function that ran say more than its sum of all that were collected, that is the sum.
    """
    table, before = read(), read()
    cheap: dict[tuple[str, str], list[float]] = defaultdict(list)
    for nodeid, cost in cases.items():
        file, case = named(nodeid)
        functions, dear = table["functions"].setdefault(file, {}), table["dear"].setdefault(file, {})
        function, was = case.partition("[")[0], dear.get(case, 0.0)
        if is_dear(nodeid, cost, drawn):
            dear[case] = round(cost, 1)
        elif case not in dear and is_known(before, nodeid):
            cheap[file, function].append(cost)
        if is_known(before, nodeid):
            cost = dear.get(case, 0.0) - was
        functions[function] = round(functions.get(function, 0.0) + cost, 3)
    cheap_ones = (one for one in map(named, collected) if one[1] not in table["dear"].get(one[0], {}))
    of_all = Counter((file, case.partition("[")[0]) for file, case in cheap_ones)
    for (file, function), ran in cheap.items():
        whole = sum(ran) / len(ran) * of_all[file, function] + sum(dear_cases(table, file, function).values())
        table["functions"][file][function] = max(table["functions"][file][function], round(whole, 3))
    save(table)


def write(cases: dict[str, float], drawn: Container[str] = ()) -> None:
    """The table, with what was measured in place of the rows of the files that ran; of `drawn` by Hypothesis."""
    made: Table = {"functions": defaultdict(dict), "dear": defaultdict(dict)}
    for nodeid, cost in sorted(cases.items()):
        file, case = named(nodeid)
        functions, function = made["functions"][file], case.partition("[")[0]
        functions[function] = round(functions.get(function, 0.0) + cost, 3)
        if is_dear(nodeid, cost, drawn):
            made["dear"][file][case] = round(cost, 1)
    measured = made["functions"].keys()
    for kind, rows in read().items():
        kept = {file: found for file, found in rows.items() if file not in measured and (TESTS / file).exists()}
        made[kind] = kept | made[kind]
    save(made)


def save(table: Table) -> None:
    """Write the table, its files in order, without those that have no rows."""
    ordered = {
        kind: dict(sorted((file, found) for file, found in rows.items() if found)) for kind, rows in table.items()
    }
    TABLE.write_text(json.dumps(ordered, indent=0) + "\n", encoding="utf-8")


def main(files: list[str]) -> int:
    """Run and measure."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    only_new = "--new" in files
    rest = ["--tier=test" if one == "--new" else one for one in files]  # form is never measured
    return int(pytest.main(["-p", "no:xdist", *rest], plugins=[Watch(only_new)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
