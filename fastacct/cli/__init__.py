"""The `fastacct` command: `commands` what it can do, `options` its one option table, `answers` its wording."""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import signal
import sys
import typing
from collections.abc import Sequence

from fastacct.cli import commands, sweeps  # noqa: F401  (they make the commands)
from fastacct.cli.answers import Answer
from fastacct.cli.options import COMMANDS, Option, Options
from fastacct.core.version import __version__

__all__ = ["EXIT_CODES", "main"]

INVALID: typing.Final = 2
EXIT_CODES: typing.Final = """\
exit codes:
  0      the answer was printed
  1      a target cannot be met (noise-multiplier, steps, sample-rate); the answer says so
  2      bad input: an option, a value or a file is wrong, or an optional library is missing; one line on stderr
  128+n  stopped by signal n (130: Ctrl-C, 141: the reader of a pipe has gone, 143: terminated)
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; a misspelt option is named, with the one that was meant."""

    flags: frozenset[str] = frozenset()
    """Of a command; empty above the commands."""

    def error(self, message: str) -> typing.NoReturn:
        """Wrong usage is bad input like any other."""
        raise ValueError(f"{message} (see {self.prog} --help)")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Look for unknown options first, before others are reported as missing."""
        for word in args or () if self.flags else ():
            name = word.partition("=")[0]
            if name.startswith("--") and name not in self.flags:
                near = difflib.get_close_matches(name, self.flags, 1)
                self.error(f"unknown option {name}" + (f": did you mean {near[0]}?" if near else ""))
        return super().parse_known_args(args, namespace)


def parser() -> Parser:
    """Every command, with its options from the one table."""
    known = typing.get_type_hints(Options, include_extras=True)
    top = Parser(
        "fastacct", description="Certified privacy accounting for DP-SGD (Poisson sampling).", epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"fastacct {__version__}")
    below = top.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        text = inspect.getdoc(command.run) or ""
        sub = below.add_parser(
            name, help=text.splitlines()[0], description=text, allow_abbrev=False,
            epilog=f"Example: fastacct {name} {command.example}", formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        sub.set_defaults(run=command.run)
        for option in (*command.needs, *command.takes, "json"):
            described: Option = known[option].__metadata__[0]
            sub.flags |= described.add_to(sub, option, required=option in command.needs)
        sub.flags |= {"--help"}
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (`EXIT_CODES`, which `--help` lists).

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: `sys.argv`.
    """
    try:
        given = parser().parse_args(arguments, namespace=Options())
        answer: Answer = given.run(given)
        print(answer.text(given.json), flush=True)
        return answer.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush at exit
        return 128 + 13
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except MemoryError:
        return _refused("not enough memory; a sweep needs little if it has an [output] file and no [picture]")
    except (ValueError, TypeError, OSError, ImportError) as error:
        if isinstance(error, OSError) and error.strerror and error.filename:
            return _refused(f"{error.filename}: {error.strerror}")
        return _refused(str(error) or type(error).__name__)


def _refused(message: str) -> int:
    print("error: " + " ".join(message.splitlines()), file=sys.stderr)
    return INVALID
