"""The tests of a file, cheapest first, in a minute: python -m tests.near fastacct/readers/job.py [process seconds].

Which tests are near is found by names and imports, anew at each call.  First come those that rows of mutants.py or
kernel_mutants.py name for the file, then the test file of its name, then functions that use names of it that
few others use, then those of modules that import it, and last the contract of tables and mixtures.  Among equals the
cheapest run first (tests/costs.json), until the seconds are used up; the first one runs in any case.  The seconds are
process time of everything: to start, to build, to read files of tests, to run them.  What it took is printed last.

Of a header come the rows, then the tests of its folder, those of headers that include it, and files that use it.  For
it the kernels are built at -O1 and one level into build/near (FASTACCT_BUILD=near, 20 s), and used from there.  Their
bits differ from those of a release: a test of bits or widths that fails here alone is judged by `make quick`.

What is chosen is what should fit.  A test whose turn comes when the seconds are used up is skipped, and counted.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import costs, kernel_mutants, mutants, tiers

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PACKAGE = ROOT / "fastacct"
HEADERS = ROOT / "fastacct_ext" / "include"
SECONDS = 60.0
#: Of them to find the tests and to start two workers, and for both to read a file of tests.
START, READ = 26.0, 0.2
#: ... and of them for the process that hands tests to both.
ALONE = 10.0
#: Tells workers when to stop: process seconds of one of them.
STOP = "FASTACCT_NEAR_SECONDS"
#: Of a function that was never measured.
UNKNOWN = 0.5
#: Names that so many tests use tell nothing of a module.
MANY = 60
#: Which test files are near a header, beside those of its folder in tests/kernels: how they begin.
FOLDERS = {
    "density": ("readers/grid/", "losses/test_measure", "mechanisms/test_own_mechanism"),
    "exact": ("verbs/test_dpsgd", "mechanisms/test_gaussian", "readers/test_contour"),
    "invert": ("verbs/test_calibrate", "verbs/test_epsilon"),
    "line": ("whole/test_monotone",),
    "loss": ("mechanisms/test_batches", "samplers/"),
    "num": ("core/test_rounding", "kernels/test_c_interface", "core/test_bounds"),
    "renyi": ("readers/test_renyi", "readers/test_orders"),
}
Test = tuple[str, str]  # file, and function or case


def words(node: ast.AST) -> set[str]:
    """Names that a piece of code uses."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.add(one.id)
        elif isinstance(one, ast.Attribute):
            found.add(one.attr)
        elif isinstance(one, ast.alias):
            found |= {*one.name.split(".")}
    return found


@cache
def tests_of(path: Path) -> dict[str, set[str]]:
    """Names that each test function of a file uses, with those of the helpers in the file that it names."""
    tree = ast.parse(path.read_text("utf-8"))
    helpers = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            helpers[node.name] = words(node)
        elif isinstance(node, ast.Assign):
            helpers |= {target.id: words(node) for target in node.targets if isinstance(target, ast.Name)}
    made = {}
    for name in (name for name in helpers if name.startswith("test_")):
        seen, waiting = {name}, [name]
        while waiting:
            for other in (helpers[waiting.pop()] & helpers.keys()) - seen:
                seen.add(other)
                waiting.append(other)
        made[name] = set().union(*(helpers[one] for one in seen))
    return made


@cache
def missing(path: Path) -> str:
    """The library without which a file of tests has none, if it is not installed: pytest then runs no other file."""
    outside = (
        one for one in ast.parse(path.read_text("utf-8")).body if not isinstance(one, ast.FunctionDef | ast.ClassDef)
    )
    calls = (one for part in outside for one in ast.walk(part) if isinstance(one, ast.Call))
    needed = [one.args[0].value for one in calls if getattr(one.func, "attr", "") == "importorskip"]
    return next((name for name in needed if find_spec(name.partition(".")[0]) is None), "")


@cache
def all_tests() -> dict[Test, set[str]]:
    """Every test function that can run but those of form, with the names that it uses."""
    files = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("test_*.py"))}
    forms = tuple(tiers.FORM)
    return {
        (file, test): used
        for file, path in files.items()
        if not file.startswith(forms) and not missing(path)
        for test, used in tests_of(path).items()
    }


def defined(path: Path) -> set[str]:
    """Names that a module defines, its own among them; methods are named by too many to count."""
    tree = ast.parse(path.read_text("utf-8"))
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return {name for name in names | {path.stem} if len(name) > 3 and name != "__init__"}


def importers(path: Path) -> list[Path]:
    """Modules of the package that import this one."""
    name = path.stem
    pattern = re.compile(
        rf"^\s*(from \S*\b{name} import|from \S+ import .*\b{name}\b|import \S+\b{name}\b)", re.MULTILINE
    )
    return [one for one in sorted(PACKAGE.rglob("*.py")) if one != path and pattern.search(one.read_text("utf-8"))]


def including(header: str) -> list[str]:
    """Headers that include this one, directly or not, the nearest first."""
    found, waiting = [], [header]
    while waiting:
        name = re.escape(waiting.pop(0).rpartition("/")[2])
        for path in sorted(HEADERS.rglob("*.h")):
            other = path.relative_to(HEADERS).as_posix()
            if other not in found and other != header and re.search(rf'#include ".*\b{name}"', path.read_text("utf-8")):
                found.append(other)
                waiting.append(other)
    return found


def of_rows(rows: Iterable[tuple[str, str, str, str]], file: str) -> Iterator[str]:
    """What the rows of a file say of the test that must notice: a file and words of pytest's -k."""
    yield from dict.fromkeys(row[-1] for row in rows if row[0] == file)


def named(row: str) -> list[Test]:
    """What a row names: `line test_every_entry and quadrature`, a function, or of a dear one the case."""
    file, words_of = mutants.noticed_by(row)
    begin, *others = words_of.split(" and ")
    dear = costs.read()["dear"].get(file, {})
    found = []
    for test in tests_of(TESTS / file):
        if test.startswith(begin):
            cases = [case for case in dear if case.startswith(f"{test}[")]
            fitting = [
                case for case in cases if all((one.removeprefix("not ") in case) != ("not " in one) for one in others)
            ]
            found += fitting or [test]
    return [(file, one) for one in found]


def users(names: set[str]) -> Iterator[list[Test]]:
    """Tests that use names of which few tests know, then those that use the other ones."""
    everything = all_tests()
    by_name = {name: [test for test, used in everything.items() if name in used] for name in names}
    yield [test for tests in by_name.values() if len(tests) <= MANY for test in tests]
    yield [test for tests in by_name.values() for test in tests]


def of_name(path: Path) -> list[str]:
    """The test files of a module: in the folder of its room, of a module that is in no folder wherever they are."""
    room = path.relative_to(PACKAGE).parent
    name = f"test_{room.name if path.stem == '__init__' else path.stem}.py"
    found = TESTS.rglob(name) if room == Path() else [TESTS / room / name]
    return [one.relative_to(TESTS).as_posix() for one in found]


def beside(path: Path) -> tuple[str, ...]:
    """How the files begin that use a header's folder."""
    return FOLDERS.get(path.parent.name, ("kernels/test_c_interface",))


def of_header(header: str) -> list[Test]:
    """What the rows of a header name."""
    rows = (*kernel_mutants.MUTANTS, *kernel_mutants.BUILT)
    return [test for row in of_rows(rows, header) for test in named(row)]


def ranks(path: Path) -> Iterator[list[Test]]:
    """Groups of tests, the nearest first."""
    everything = list(all_tests())
    if path.suffix == ".py":
        file = path.relative_to(PACKAGE).as_posix()
        yield [test for row in of_rows(mutants.MUTANTS, file) for test in named(row)]
        yield [test for test in everything if test[0] in of_name(path)]
        yield from users(defined(path))
        yield from users(set().union(*(defined(one) for one in importers(path))))
    else:
        header = path.relative_to(HEADERS).as_posix() if path.is_relative_to(HEADERS) else path.name
        own = header.partition("/")[0] + "/"
        yield of_header(header)
        yield [test for test in everything if test[0] == f"kernels/{own}test_{path.stem}.py"]
        yield [test for test in everything if test[0].startswith(f"kernels/{own}")]
        yield from map(of_header, including(header))
        yield [test for test in everything if test[0].startswith(beside(path))]
    always = tuple(dict.fromkeys(one.partition("[")[0] for one in tiers.QUICK))
    yield [test for test in everything if "::".join(test).startswith(always)]


def cost(test: Test, table: costs.Table) -> float:
    """Seconds of a function or of a dear case."""
    file, case = test
    return table["dear"].get(file, {}).get(case) or table["functions"].get(file, {}).get(case, UNKNOWN)


def chosen(path: Path, most: float = SECONDS - START) -> list[Test]:
    """The tests of a file whose costs, and those of reading their files, add up to `most`."""
    table, found, left = costs.read(), dict[Test, None](), most
    for rank in ranks(path):
        new = {test: cost(test, table) for test in rank if test not in found}
        for test, seconds in sorted(new.items(), key=lambda item: item[1]):
            needed = seconds + READ * all(test[0] != file for file, _ in found)
            if not found or needed <= left:
                found[test] = None
                left -= needed
    return list(found)


def used() -> float:
    """Process time of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A hook, in workers that have this module as a plugin: no test begins when their seconds are used up."""
    if used() > float(os.environ.get(STOP, "inf")):
        pytest.skip("the seconds are used up")


def build(root: Path = ROOT) -> None:
    """The kernels with what is in the headers now, at -O1 and one level, beside those that are installed."""
    command = [
        sys.executable,
        "setup.py",
        "-q",
        "build_ext",
        "--build-lib",
        "build/near",
        "--build-temp",
        "build/near/made",
    ]
    subprocess.run(command, cwd=root, env=os.environ | {"FASTACCT_BUILD": "near"}, check=True)


def main(file: str, most: float = SECONDS) -> int:
    """Run them."""
    path = (ROOT / file).resolve()
    if not path.is_file():
        sys.exit(f"{file}: there is no such file")
    plugin = []
    if path.suffix in (".h", ".c", ".pyx", ".pxi", ".pxd"):
        build()
        plugin = ["-p", "tests.near_kernels"]
    found = chosen(path, most - START - used())
    tests = [f"tests/{one}::{test}" for one, test in found]
    print(f"{len(tests)} functions of {', '.join(dict.fromkeys(one for one, _ in found))}", flush=True)
    absent = {missing(one) for one in TESTS.rglob("test_*.py")} - {""}
    print(f"left out: tests that need {', '.join(sorted(absent)) or 'nothing'}", flush=True)
    in_order = ["-n", "2", "--dist", "load", "--maxschedchunk", "1"]
    command = [sys.executable, "-m", "pytest", *in_order, "-p", "tests.near", *plugin, *tests]
    share = str((most - used() - ALONE) / 2.0)
    code = subprocess.run(command, cwd=ROOT, env=os.environ | {STOP: share}, check=False).returncode
    print(f"took {used():.0f} s of process time")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(float, sys.argv[2:3])))
