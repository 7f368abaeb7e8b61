"""The `fastacct` command (or `python -m fastacct`): every command with its options, and the exit codes."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from fastacct.cli import commands, jobs, scripts, sweeps  # noqa: F401 - of the table
from fastacct.cli.answers import Answer
from fastacct.cli.options import COMMON, OPTIONS, TABLE, flags, in_options, values
from fastacct.core.extras import import_extra
from fastacct.core.version import __version__
from fastacct.core.words import by_cure, command_meant, in_one_line, option_meant

INVALID: Final = 2
EXIT_CODES: Final = """\
fastacct COMMAND --help lists the options of a command, and an example. Documentation: docs/cli.md

exit codes:
  0      the answer was printed
  1      a target or a budget cannot be met, or a job is refuted; the answer says so
  2      bad input: an option, a value, a file, or an optional library that is missing; one line on stderr
  128+n  stopped by signal n (130: Ctrl-C, 141: the reader of a pipe has gone, 143: terminated)
"""


class Command(NamedTuple):
    """What a command is for, what it does, its options, and an example; from `cli/commands.toml`."""

    about: str
    example: str
    run: Callable[[argparse.Namespace], Answer]
    needs: Sequence[str] = ()
    takes: Sequence[str] = ()
    formats: Sequence[str] = ()
    """Beside those of every command."""


class Parser(argparse.ArgumentParser):
    """Wrong usage is bad input like any other."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        more = "; several values of one option have commas, as 50,100" if "unrecognized" in message else ""
        raise ValueError(f"{message}{more} (see {self.prog} --help)")


def completion(given: argparse.Namespace) -> Answer:
    """The script for a shell: what it offers after an option, a command refuses in its own words where it is wrong."""
    from fastacct.conformance.__main__ import parser as of_conformance

    shtab, top, known = import_extra("shtab", "cli"), parser(), values()
    (below,) = (one for one in top._actions if isinstance(one, argparse._SubParsersAction))
    below.choices["conformance"] = of_conformance()
    for action in (one for command in below.choices.values() for one in command._actions):
        action.choices = action.choices or known.get(action.dest)
        if action.type is Path:
            action.complete = shtab.FILE
    text: str = shtab.complete(top, shell=given.shell)
    return Answer({"command": "completion", "script": text}, [], written=text)


def parser() -> Parser:
    """Every command, with its options from the one table."""
    shape = partial(argparse.RawDescriptionHelpFormatter, max_help_position=23)
    style: Any = {"formatter_class": shape, "allow_abbrev": False}
    top = Parser("fastacct", description="Certified privacy accounting for DP-SGD.", epilog=EXIT_CODES, **style)
    top.add_argument("--version", action="version", version=f"fastacct {__version__}")
    below = top.add_subparsers(title="commands", metavar="COMMAND [--OPTION]", required=True)
    for name, command in COMMANDS.items():
        example, first = f"Example: fastacct {name} {command.example}", re.split(r"[:,\n]| \(|\.$", command.about)[0]
        sub = below.add_parser(name, help=first, description=command.about, epilog=example, **style)
        sub.set_defaults(run=command.run, command=name)
        titles = {option: title for title, options in TABLE["groups"].items() for option in options}
        groups = {title: sub.add_argument_group(title) for title in TABLE["groups"]}
        for option in (*command.needs, *command.takes, *COMMON):
            words = flags(option)
            required = {"required": True} if option in command.needs and words[0].startswith("-") else {}
            place = groups[titles[option]] if option in titles else sub
            row = OPTIONS[option]
            if option == "format" and command.formats:
                choices = [*row["choices"], *command.formats]
                row = row | {"choices": choices, "help": f"{', '.join(choices[:-1])} or {choices[-1]}; default: text"}
            place.add_argument(*words, **(row | required))
    return top


def _refuse_misspelt(words: Sequence[str]) -> None:
    """Name an unknown option, and the one that was meant, before others are reported as missing."""
    if not words or words[0] not in COMMANDS:
        if words and words[0] not in ("-h", "--help", "--version"):
            if words[0].startswith("-"):
                raise ValueError(f"{words[0]}: a command comes first, such as epsilon (see fastacct --help)")
            raise ValueError(f"{words[0]!r} is no command{command_meant(words[0], COMMANDS)} (see fastacct --help)")
        return
    command = COMMANDS[words[0]]
    options = (*command.needs, *command.takes, *COMMON)
    has_words = any(not flags(option)[0].startswith("-") for option in options)
    if not has_words and len(words) > 1 and not words[1].startswith("-"):
        raise ValueError(f"{words[1]!r} stands alone: numbers follow their options (see fastacct {words[0]} --help)")
    known = {flag for option in options for flag in flags(option)} | {"--help", "-h"}
    given = (word.partition("=")[0] for word in words if re.match("--?[a-zA-Z]", word))
    if unknown := [name for name in dict.fromkeys(given) if name not in known]:
        told_as = (name.lstrip("-").replace("-", "_").lower() for name in unknown)
        meant = (option_meant(words[0], name, options) for name in told_as)
        hints = (re.sub("mean '([a-z_]+)'", lambda found: f"mean {flags(found[1])[0]}", hint) for hint in meant)
        raise ValueError(f"unknown option {by_cure(zip(unknown, hints, strict=True))} (see fastacct {words[0]} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (`EXIT_CODES`, which `--help` lists).

    The arguments are by default those of the process.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["conformance"]:
            from fastacct.conformance.__main__ import main as ask

            return ask(words[1:])
        words = [re.sub("^--[a-z_]+", lambda option: option[0].replace("_", "-"), word) for word in words]
        _refuse_misspelt(words)
        given = parser().parse_args(words or ["--help"])
        answer: Answer = given.run(given)
        print(answer.text(given.format), flush=True)
        return answer.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush at exit
        return 128 + 13
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except MemoryError as error:
        message = f"not enough memory: {error}" if str(error) else "not enough memory"
        if [*words[:1]] == ["sweep"]:
            message += "; a sweep needs little if it has an [output] file and no [picture]"
    except (ValueError, TypeError, OSError, ImportError) as error:
        message = str(error) or type(error).__name__
        if words[0] not in ("sweep", "show") and not {"--job", "--after"} & {*words}:  # files have keys
            command = COMMANDS.get(words[0])
            message = in_options(message, (*command.needs, *command.takes) if command else ())
        if isinstance(error, OSError) and error.strerror and error.filename:
            message = f"{error.filename}: {error.strerror}"
    print("error: " + in_one_line(message), file=sys.stderr)
    return INVALID


_HERE: Final = sys.modules[__name__]
COMMANDS: Final = {
    name: Command(**row | {"run": attrgetter(row["run"])(_HERE)}) for name, row in TABLE["commands"].items()
}


if __name__ == "__main__":
    sys.exit(main())
