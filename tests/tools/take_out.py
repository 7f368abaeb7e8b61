"""Rules taken out one by one, and whether their tests notice: python -m tests.take_out [--changed [REF]] [word ...].

    python -m tests.take_out --changed              rows of both tables for what differs from main (make mutants)
    python -m tests.take_out --changed HEAD~3       ... or from another commit
    python -m tests.take_out laplace                rows in which a word occurs

Each row of mutants.py and kernel_mutants.py is a rule: a file, a piece of its text, what stands there without the rule,
and a test, which passes with it and has to fail without.  It is taken out in a scratch copy of the repository.  Tests
run in children of one process that has the libraries already, a row in 1 to 8 s; those of a header whose test asks the
package build it there, as `make near` does, in 20 s more.  The cheapest rows run first, those of changed files until
120 s of process time are used: the others are left to the campaign, which runs all.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from tests import costs, kernel_mutants, mutants, near

ROOT = Path(__file__).resolve().parents[2]
#: Process time of the rows of changed files.
SECONDS = 120.0
LIBRARIES = ("mpmath", "numpy", "scipy.stats")  # not what pytest has as a plugin: it rewrites these
OURS = ("tests", "fastacct", "fastacct_ext")

Row = tuple[str, str, str, str]  # file, text, text without the rule, test
#: By the folder of their files.
TABLES: dict[str, tuple[Row, ...]] = {
    "fastacct": mutants.MUTANTS,
    "fastacct_ext/include": (*kernel_mutants.MUTANTS, *kernel_mutants.BUILT),
}
#: Process time of building the kernels once.
BUILD = 20.0


def is_built(row: Row) -> bool:
    """Whether the test of a row asks the kernels of the package, which are built for it."""
    return row in kernel_mutants.BUILT


def passes(copy: Path, test: str, built: bool = False) -> bool:
    """Whether the test of a row passes in a copy, asked of a child that finds nothing of ours loaded."""
    file, words = mutants.noticed_by(test)
    if built:
        near.build(copy)
    wanted = [*["-p", "tests.near_kernels"] * built, "-k", f"{Path(file).stem} and {words}", f"tests/{file}"]
    with tempfile.TemporaryFile() as told:
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            try:
                os.dup2(told.fileno(), 1)
                os.dup2(told.fileno(), 2)
                os.chdir(copy)
                os.environ |= {"PYTHONPATH": str(copy), "PYTEST_TIMEOUT": "300"}
                sys.dont_write_bytecode = False  # it takes two thirds of a row's time to compile all again
                sys.path[:] = [str(copy), *(one for one in sys.path if Path(one).resolve() != ROOT)]
                for name in [one for one in sys.modules if one.partition(".")[0] in OURS]:
                    del sys.modules[name]
                status = pytest.main(["-x", "-p", "no:cacheprovider", "-p", "no:xdist", *wanted])
                sys.stdout.flush()
                os._exit(status)
            except BaseException:
                traceback.print_exc()
                os._exit(3)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status > 1:  # below 0 is a signal: without its rule a kernel may crash
            told.seek(0)
            raise RuntimeError(f"pytest {' '.join(wanted)}: {told.read().decode()[-2000:]}")
    return status == 0


def is_noticed(copy: Path, folder: str, row: Row) -> bool:
    """Whether the test of a row fails without its rule. The file is put back, with its date, as others were read; but a
    header of which kernels were built is newer than these, so that they are built again."""
    file, text, without, test = row
    path = copy / folder / file
    whole, was = path.read_text(encoding="utf-8"), path.stat()
    if whole.count(text) != 1:
        raise ValueError(f"{file} has {whole.count(text)} times: {text}")
    path.write_text(whole.replace(text, without), encoding="utf-8")
    try:
        return not passes(copy, test, is_built(row))
    finally:
        path.write_text(whole, encoding="utf-8")
        Path(cache_from_source(path)).unlink(missing_ok=True)  # of the same second and size as another row's
        if not is_built(row):
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def seconds_of(row: Row) -> float:
    """What the test of a row takes, as it was measured, and its build."""
    table = costs.read()
    return BUILD * is_built(row) + sum(near.cost(one, table) for one in near.named(row[-1]))


def take_out(chosen: Iterable[tuple[str, Row]], seconds: float = math.inf) -> int:
    """0 if every rule is noticed; (folder, row), the cheapest first, until the seconds are used."""
    waiting = sorted(chosen, key=lambda one: seconds_of(one[1]))
    for library in LIBRARIES:
        importlib.import_module(library)
    known: set[tuple[str, str]] = set()
    taken = missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "build", "node_modules"))
        start = costs.spent()
        for folder, row in waiting:
            if costs.spent() - start > seconds:
                break
            file, text, without, test = row
            if (folder, test) not in known and not passes(copy, test, is_built(row)):
                print(f"fails where no rule is taken out: {test}")
                return 1
            known.add((folder, test))
            is_seen = is_noticed(copy, folder, row)
            taken, missed = taken + 1, missed + (not is_seen)
            print("noticed" if is_seen else "MISSED ", f"{file}: {text!r} -> {without!r}: {test}", flush=True)
    left = f"; {len(waiting) - taken} of {len(waiting)} are left to the campaign" if taken < len(waiting) else ""
    print(f"{taken} rules taken out, {missed} missed{left}")
    return int(missed > 0)


def git(*words: str) -> str:
    """What git says; nothing where it fails."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def changed(reference: str | None) -> set[str]:
    """Files that differ from a commit; without one from where this branch left main, on main itself the last change."""
    bases = [git("merge-base", "HEAD", one) for one in ([reference] if reference else ["origin/main", "main"])]
    base = next(filter(None, bases), "HEAD~1")
    found = set(git("diff", "--name-only", "--no-renames", base).split())
    return found or set(git("diff", "--name-only", "--no-renames", "HEAD~1").split())


def is_of(folder: str, row: Row, files: set[str]) -> bool:
    """Whether a row names one of these files, as what is changed or as its test."""
    return not files.isdisjoint({f"{folder}/{row[0]}", f"tests/{mutants.noticed_by(row[-1])[0]}"})


def rows(parts: Iterable[str], folders: Iterable[str] = TABLES) -> list[tuple[str, Row]]:
    """Rows of these folders' tables in which one of the parts occurs; without parts all of them."""
    parts = list(parts)
    return [
        (folder, row)
        for folder in folders
        for row in TABLES[folder]
        if not parts or any(part in field for part in parts for field in row)
    ]


def main() -> int:
    """Run the rows that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.take_out", description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", help="words that occur in a row")
    parser.add_argument("--changed", nargs="?", const="", metavar="REF", help="rows of files that differ from REF")
    parser.add_argument("--table", choices=["mutants", "kernel-mutants"], help="rows of one table only")
    parser.add_argument("--seconds", type=float, help="of process time after which no further row begins")
    asked = parser.parse_args()
    folders = list(TABLES) if asked.table is None else [list(TABLES)[asked.table == "kernel-mutants"]]
    chosen, seconds = rows(asked.parts, folders), math.inf
    if asked.changed is not None:
        files, seconds = changed(asked.changed or None), SECONDS
        chosen = [one for one in chosen if is_of(*one, files)]
        print(f"{len(chosen)} rows of {len(files)} changed files")
    return take_out(chosen, seconds if asked.seconds is None else asked.seconds)


if __name__ == "__main__":
    sys.exit(main())
