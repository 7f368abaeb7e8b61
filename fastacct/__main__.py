"""The `fastacct` command (or `python -m fastacct`): every command with its options, and the exit codes."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

from fastacct.cli import commands, jobs, sweeps
from fastacct.cli.answers import Answer
from fastacct.cli.explore import explore
from fastacct.cli.options import COMMON, GROUPS, OPTIONS, flags, in_options
from fastacct.core.extras import import_extra
from fastacct.core.version import __version__
from fastacct.core.words import did_you_mean

INVALID: Final = 2
EXIT_CODES: Final = """\
fastacct COMMAND --help lists the options of a command, and an example. Documentation: docs/cli.md

exit codes:
  0      the answer was printed
  1      a target or a budget cannot be met; the answer says so
  2      bad input: an option, a value, a file, or an optional library that is missing; one line on stderr
  128+n  stopped by signal n (130: Ctrl-C, 141: the reader of a pipe has gone, 143: terminated)
"""


class Command(NamedTuple):
    """What a command is for, what it does, its options (names in `OPTIONS`), and an example."""

    about: str
    run: Callable[[argparse.Namespace], Answer]
    needs: tuple[str, ...]
    takes: tuple[str, ...]
    example: str


_SAMPLE: Final = ("sample_rate", "batch_size", "records")
_RUN: Final = (*_SAMPLE, "steps", "epochs")
_BATCHES: Final = ("sampling", "at_most", "bands", "bins", "selected")
_HOW: Final = ("accountant", "orders", "conversion", "neighbors")
_TARGET: Final = ("epsilon", "delta")
_NOISE: Final = ("noise_multiplier",)

COMMANDS: Final = {
    "epsilon": Command(
        "The epsilon that a training run guarantees at a given delta.",
        jobs.guarantee, ("delta",), (*_NOISE, *_RUN, *_BATCHES, "job", *_HOW),
        "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5",
    ),
    "delta": Command(
        "The delta that a training run guarantees at a given epsilon.",
        jobs.guarantee, ("epsilon",), (*_NOISE, *_RUN, *_BATCHES, "job", *_HOW),
        "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --epsilon 3",
    ),
    "rdp": Command(
        "The Renyi DP of a training run, order by order (one step unless --steps or --epochs says otherwise).",
        commands.rdp, _NOISE, (*_RUN, "orders"),
        "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --orders 2-64",
    ),
    "noise-multiplier": Command(
        "The smallest noise multiplier that is certified to meet a target.",
        commands.calibration, _TARGET, (*_RUN, *_BATCHES, *_HOW),
        "--epsilon 3 --delta 1e-5 --sample-rate 0.004 --epochs 60",
    ),
    "steps": Command(
        "The largest number of steps that is certified to meet a target.",
        commands.calibration, (*_TARGET, *_NOISE), (*_SAMPLE, *_BATCHES, *_HOW),
        "--epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --sample-rate 0.01",
    ),
    "sample-rate": Command(
        "The largest sample rate that is certified to meet a target.",
        commands.calibration, (*_TARGET, *_NOISE), ("steps", "epochs", "records", *_HOW),
        "--epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --steps 10000",
    ),
    "curve": Command(
        "Privacy curves or trade-off curves of one or several training runs, as a table and a picture.\n\nOptions with "
        "several numbers, separated by commas, are taken side by side; a single number holds for every run.",
        commands.curve, _NOISE,
        (*_RUN, "kind", "smallest_delta", "points", "neighbors", "csv", "picture", "overwrite", "quiet"),
        "--noise-multiplier 0.8,1,2 --sample-rate 0.01 --steps 1000 --picture c.png",
    ),
    "attack": Command(
        "What the best membership inference attack achieves: true-positive rates, and how many alarms are right.",
        jobs.attack, (), (*_NOISE, *_RUN, *_BATCHES, "job", "fpr", "prior", "neighbors"),
        "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --fpr 0.001,0.01",
    ),
    "plan": Command(
        "The noise that each batch size and number of epochs needs for a target, and what that noise costs.",
        jobs.plan, (*_TARGET, "records", "batch_size", "epochs"),
        ("after", "neighbors", "head", "csv", "picture", "overwrite"),
        "--epsilon 3 --delta 1/n --records 50000 --batch-size 256,1024,4096 --epochs 10,30",
    ),
    "report": Command(
        "A report for those who rely on the number: what is promised, to whom, what is assumed, what is not covered.",
        jobs.report, ("delta",), (*_NOISE, *_RUN, *_BATCHES, "job", "neighbors", "title", "write", "overwrite"),
        "--noise-multiplier 1.1 --records 50000 --batch-size 512 --epochs 30 --delta 1e-6 --write report.html",
    ),
    "budget": Command(
        "A budget in a file: --epsilon makes it, --job records a job, or refuses one that does not fit.",
        jobs.budget, ("ledger",), (*_TARGET, "job", "count", "neighbors", "dry_run", "overwrite"),
        "ledger.json --epsilon 3 --delta 1e-5",
    ),
    "check-loader": Command(
        "Which sampler a data loader is, and which call proves a number for it.",
        commands.check_loader, (), ("loader", "setting"),
        "torch.utils.data.DataLoader --setting shuffle=True",
    ),
    "explore": Command(
        "A page for the browser: epsilon, trade-off curves and a map of a run, live, without a server.",
        explore, (), ("print_path",),
        "--print-path",
    ),
    "sweep": Command(
        "Every combination of the axes in a TOML file: a file of results, and a picture.",
        sweeps.sweep, (), ("config", "output", "dry_run", "scheduler", "overwrite", "quiet"),
        "examples/sweep.toml",
    ),
    "show": Command(
        "The cells of a result of `fastacct sweep` that satisfy a condition, as a table.",
        sweeps.show, (), ("result", "where", "sort", "head"),
        '"results/plan.zarr" --where "epsilon <= 3" --sort noise_multiplier --head 20',
    ),
    "conformance": Command(
        "Ask an accountant of any library a few hundred jobs whose epsilon is known.", jobs.budget, (), (),
        "--accountant dp_accounting.pld:PLDAccountant",
    ),
    "completion": Command(
        "A script that completes commands and options in a shell.", lambda given: completion(given), ("shell",), (),
        "bash > ~/.local/share/bash-completion/completions/fastacct",
    ),
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Wrong usage is bad input like any other."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        raise ValueError(f"{message} (see {self.prog} --help)")


def completion(given: argparse.Namespace) -> Answer:
    """The script for a shell."""
    text: str = import_extra("shtab", "cli").complete(parser(), shell=given.shell)
    return Answer({"command": "completion", "script": text}, [], written=text)


def parser() -> Parser:
    """Every command, with its options from the one table."""
    shape = partial(argparse.RawDescriptionHelpFormatter, max_help_position=23)
    style: Any = {"formatter_class": shape, "allow_abbrev": False}
    top = Parser("fastacct", description="Certified privacy accounting for DP-SGD.", epilog=EXIT_CODES, **style)
    top.add_argument("--version", action="version", version=f"fastacct {__version__}")
    below = top.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        example, first = f"Example: fastacct {name} {command.example}", re.split(r"[:,\n]| \(", command.about)[0]
        sub = below.add_parser(name, help=first, description=command.about, epilog=example, **style)
        sub.set_defaults(run=command.run, command=name)
        titles = {option: title for title, options in GROUPS.items() for option in options}
        groups = {title: sub.add_argument_group(title) for title in GROUPS}
        for option in (*command.needs, *command.takes, *COMMON):
            words = flags(option)
            required = {"required": True} if option in command.needs and words[0].startswith("-") else {}
            place = groups[titles[option]] if option in titles else sub
            place.add_argument(*words, **(OPTIONS[option] | required))
    return top


def _refuse_misspelt(words: Sequence[str]) -> None:
    """Name an unknown option, and the one that was meant, before others are reported as missing."""
    if not words or words[0] not in COMMANDS:
        if words and not words[0].startswith("-"):
            raise ValueError(f"{words[0]!r} is no command{did_you_mean(words[0], COMMANDS)} (see fastacct --help)")
        return
    command = COMMANDS[words[0]]
    options = (*command.needs, *command.takes, *COMMON)
    has_words = any(not flags(option)[0].startswith("-") for option in options)
    if not has_words and len(words) > 1 and not words[1].startswith("-"):
        raise ValueError(f"{words[1]!r} stands alone: numbers follow their options (see fastacct {words[0]} --help)")
    known = {flag for option in options for flag in flags(option)} | {"--help", "-h"}
    for name in (word.partition("=")[0] for word in words if re.match("--?[a-zA-Z]", word)):
        if name not in known:
            meant = did_you_mean(name.lstrip("-").replace("-", "_").lower(), options)
            meant = re.sub("mean '([a-z_]+)'", lambda found: f"mean {flags(found[1])[0]}", meant)
            raise ValueError(f"unknown option {name}{meant} (see fastacct {words[0]} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (`EXIT_CODES`, which `--help` lists).

    The arguments are by default those of the process.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["conformance"]:
            from fastacct.conformance.__main__ import main as ask

            return ask(words[1:])
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
    except MemoryError:
        message = "not enough memory; a sweep needs little if it has an [output] file and no [picture]"
    except (ValueError, TypeError, OSError, ImportError) as error:
        message = str(error) or type(error).__name__
        if words[0] not in ("sweep", "show") and not {"--job", "--after"} & {*words}:  # files have keys
            command = COMMANDS.get(words[0])
            message = in_options(message, (*command.needs, *command.takes) if command else ())
        if isinstance(error, OSError) and error.strerror and error.filename:
            message = f"{error.filename}: {error.strerror}"
    print("error: " + " ".join(message.splitlines()), file=sys.stderr)
    return INVALID


if __name__ == "__main__":
    sys.exit(main())
