"""The command: `fastacct conformance --accountant module:Class`."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from fastacct.conformance.case import Case, load
from fastacct.conformance.interfaces import INTERFACES, Accountant, accountant_of
from fastacct.conformance.judge import Result, run
from fastacct.conformance.report import as_html, as_json, as_text

__all__ = ["main"]

_INVALID: Final = 2
_ABOUT: Final = """\
Ask an accountant a few hundred jobs whose smallest epsilon is known, and say which answers are wrong (below it), how
loose the others are, what is refused, and how long it takes.

The accountant is a class with the interface of dp_accounting (compose, get_epsilon, supports) or of Opacus (step,
history, get_epsilon), or a function epsilon(job, delta) of a fastacct.Process, with neighbors= if it knows others
than add_remove.
"""
_CODES: Final = """\
exit codes:
  0  no answer is wrong
  1  an answer is wrong: below the smallest epsilon
  2  bad input: one line on stderr

example:
  fastacct conformance --accountant dp_accounting.pld:PLDAccountant --html report.html
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = _Parser(
        "fastacct conformance",
        description=_ABOUT,
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--accountant", required=True, metavar="MODULE:NAME", help="a class or a function")
    made.add_argument("--interface", choices=[*INTERFACES], help="default: recognised")
    made.add_argument("--name", help="how the report calls it (default: MODULE:NAME)")
    made.add_argument("--json", metavar="FILE", type=Path, help="write every answer")
    made.add_argument("--html", metavar="FILE", type=Path, help="write a page with a picture")
    made.add_argument("--cases", metavar="PATTERN", default="*", help='only these, as in "gaussian/*" or "1e-12"')
    made.add_argument("--limit", metavar="N", type=int, help="only the first N of them")
    made.add_argument("--seconds", metavar="S", type=float, default=60.0, help="for one answer (default: 60)")
    made.add_argument("--list", action="store_true", help="list the cases, ask nothing")
    made.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    try:
        given = parser().parse_args(arguments)
        accountant, cases = accountant_of(given.accountant, given.interface), _chosen(given)
        if given.list:
            print(*(f"{case.name}: {case}" for case in cases), sep="\n")
            return 0
        results = _asked(accountant, cases, given)
        name = given.name or given.accountant
        for path, text in ((given.json, as_json), (given.html, as_html)):
            if path is not None:
                path.write_text(text(name, results))
    except (ValueError, TypeError, OSError, ImportError) as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        return _INVALID
    print(as_text(name, results), end="", flush=True)
    return 1 if any(one.verdict == "wrong" for one in results) else 0


def _chosen(given: argparse.Namespace) -> list[Case]:
    if given.limit is not None and given.limit < 1:
        raise ValueError(f"--limit must be at least 1, not {given.limit}")
    if not (0.0 < given.seconds < math.inf):
        raise ValueError(f"--seconds must be above 0, not {given.seconds}")
    cases = load(given.cases)[: given.limit]
    if not cases:
        raise ValueError(f"--cases {given.cases}: no case has such a name (--list shows all)")
    return cases


def _asked(accountant: Accountant, cases: Sequence[Case], given: argparse.Namespace) -> list[Result]:
    done = 0

    def each(_: Result) -> None:
        nonlocal done
        done += 1
        print(f"\r{done} of {len(cases)}", end="" if done < len(cases) else "\n", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what an accountant warns of shows in its answers
        return run(accountant, cases, limit=given.seconds, each=None if given.quiet else each)


if __name__ == "__main__":
    sys.exit(main())
