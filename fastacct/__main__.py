"""The `fastacct` command (or `python -m fastacct`): every command with its options, and the exit codes."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from fastacct.cli import commands, sweeps
from fastacct.cli.commands import Answer
from fastacct.cli.explore import explore
from fastacct.cli.options import OPTIONS, flags
from fastacct.core.version import __version__

__all__ = ["COMMANDS", "EXIT_CODES", "main"]

INVALID: Final = 2
EXIT_CODES: Final = """\
exit codes:
  0      the answer was printed
  1      a target cannot be met (noise-multiplier, steps, sample-rate); the answer says so
  2      bad input: an option, a value or a file is wrong, or an optional library is missing; one line on stderr
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
        commands.guarantee, (*_NOISE, "delta"), (*_RUN, *_BATCHES, *_HOW),
        "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5",
    ),
    "delta": Command(
        "The delta that a training run guarantees at a given epsilon.",
        commands.guarantee, (*_NOISE, "epsilon"), (*_RUN, *_BATCHES, *_HOW),
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
        commands.curve, _NOISE, (*_RUN, "kind", "smallest_delta", "points", "neighbors", "csv", "picture", "overwrite"),
        "--noise-multiplier 0.8,1,2 --sample-rate 0.01 --steps 1000 --picture c.png",
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
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Wrong usage is bad input like any other."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        raise ValueError(f"{message} (see {self.prog} --help)")


def parser() -> Parser:
    """Every command, with its options from the one table."""
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    top = Parser("fastacct", description="Certified privacy accounting for DP-SGD.", epilog=EXIT_CODES, **style)
    top.add_argument("--version", action="version", version=f"fastacct {__version__}")
    below = top.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        example, first = f"Example: fastacct {name} {command.example}", command.about.partition("\n")[0]
        sub = below.add_parser(name, help=first, description=command.about, epilog=example, **style)
        sub.set_defaults(run=command.run, command=name)
        for option in (*command.needs, *command.takes, "json"):
            required = {"required": True} if option in command.needs else {}
            sub.add_argument(*flags(option), **(OPTIONS[option] | required))
    return top


def _refuse_misspelt(words: Sequence[str]) -> None:
    """Name an unknown option, and the one that was meant, before others are reported as missing."""
    if not words or words[0] not in COMMANDS:
        return
    command = COMMANDS[words[0]]
    known = {flag for option in (*command.needs, *command.takes, "json") for flag in flags(option)} | {"--help"}
    for name in (word.partition("=")[0] for word in words if word.startswith("--")):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f": did you mean {near[0]}?" if near else ""
            raise ValueError(f"unknown option {name}{meant} (see fastacct {words[0]} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (`EXIT_CODES`, which `--help` lists).

    The arguments are by default those of the process.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        _refuse_misspelt(words)
        given = parser().parse_args(words)
        answer: Answer = given.run(given)
        print(answer.text(given.json), flush=True)
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
        if isinstance(error, OSError) and error.strerror and error.filename:
            message = f"{error.filename}: {error.strerror}"
    print("error: " + " ".join(message.splitlines()), file=sys.stderr)
    return INVALID


if __name__ == "__main__":
    sys.exit(main())
